"""Which data files hold only rows that are old enough to go. Pure: metadata, entries, policy and time in, files out.

A file goes when its partition or its metrics prove that every row is older, and neither casts doubt on it: a null, a
missing or unreadable bound, counts that do not fit, a partition that says otherwise keep it. A file with younger rows
beside older ones stays as it is until all its rows are old.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maintenance.policy_types import RecordPolicy
from table_format.commit.tree import Listed
from table_format.errors import Internal, Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, Partition
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.binding import BoundPredicate, BoundTerm
from table_format.scan.comparables import bound_reader
from table_format.scan.expressions import Operation, Predicate, Term
from table_format.scan.matching import partition_fields
from table_format.scan.projection import PartitionField, PartitionTest, inclusive, strict
from table_format.schema.types import FieldView, Primitive, fields_by_id, parse_primitive

_DAY_MS: Final = 86_400_000
_TIMES: Final = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_TIME_TRANSFORMS: Final = ("year", "month", "day", "hour")
_MOST_NAMED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The column that tells a row's age."""

    id: int
    name: str
    primitive: Primitive

    def value_at(self, moment_ms: int) -> int:
        """The moment as a value of the column; a date is that of the day it lies in, in UTC."""
        if self.primitive.name == "date":
            return moment_ms // _DAY_MS
        return moment_ms * (1_000_000 if self.primitive.name.endswith("_ns") else 1000)


def column_of(metadata: TableMetadata, name: str | None) -> Column:
    """The column of that name; None: the one by whose year, month, day or hour the table is partitioned.

    Raises:
        Invalid: there is no such column, it is not a time, or the partitioning names none or several.
    """
    columns = {view.id: view for view in fields_by_id(metadata.schema()).values() if view.parent_id is None}
    if name is not None:
        found = next((view for view in columns.values() if view.name == name), None)
        if found is None:
            raise Invalid(f"the table has no top-level column {name[:80]!r} to tell the age of rows by")
        return _column(found)
    sources = {
        raw["source-id"]
        for raw in metadata.spec()["fields"]
        if str(raw["transform"]) in _TIME_TRANSFORMS and raw.get("source-id") in columns
    }
    if len(sources) != 1:
        how = "not partitioned by the time of any" if not sources else f"partitioned by {len(sources)}"
        raise Invalid(
            f"the table is {how} top-level column{'s' if sources else ''}: name the column that tells the age of "
            "rows in the setting column"
        )
    return _column(columns[sources.pop()])


def _column(view: FieldView) -> Column:
    try:
        primitive = parse_primitive(str(view.type)) if view.primitive else None
    except (Invalid, Unsupported):
        primitive = None
    if primitive is None or primitive.name not in _TIMES:
        kind = str(view.type) if view.primitive else "a struct, list or map"
        raise Invalid(f"column {view.name!r} is of type {kind}: rows expire by a date or timestamp")
    return Column(id=view.id, name=view.name, primitive=primitive)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """Files to take out of the table."""

    column: str
    older_than_ms: int
    files: tuple[FileLine, ...]
    """By path; none: there is nothing to do."""
    data_files: int
    left_alone: Mapping[str, int] = field(default_factory=dict)
    """Number of files per reason for not taking them."""

    @property
    def records(self) -> int:
        """Rows in the files, by their manifests."""
        return sum(file.record_count for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size_in_bytes for file in self.files)

    def to_json(self) -> JsonObject:
        """As plain JSON; of very many files the first are named."""
        return {
            "column": self.column,
            "older-than-ms": self.older_than_ms,
            "files": len(self.files),
            "records": self.records,
            "bytes": self.size,
            "paths": [file.file_path for file in self.files[:_MOST_NAMED]],
            "data-files": self.data_files,
            "left-alone": dict(self.left_alone),
        }


Listing: TypeAlias = Callable[[Callable[[FileLine], bool]], Iterable[Sequence[Listed]]]
"""Gives main's live files, by path, with metrics of those that it is told to."""


def plan(listing: Listing, metadata: TableMetadata, policy: RecordPolicy, now_ms: int) -> RecordPlan:
    """The files that hold only rows older than the policy's days.

    Raises:
        Invalid: no column tells the age of rows.
    """
    column = column_of(metadata, policy.column)
    older_than_ms = now_ms - policy.days * _DAY_MS
    judge = _Judge(metadata, column, column.value_at(older_than_ms))
    left: Counter[str] = Counter()
    chosen: list[FileLine] = []
    files = 0
    for same_path in listing(judge.may_go):
        files += len(same_path)
        reason = judge.why_not(same_path[0]) if len(same_path) == 1 else "listed more than once"
        if reason is None:
            chosen.append(same_path[0].line)
        else:
            left[reason] += len(same_path)
    chosen.sort(key=lambda file: file.file_path)
    return RecordPlan(
        column=column.name,
        older_than_ms=older_than_ms,
        files=tuple(chosen),
        data_files=files,
        left_alone=dict(sorted(left.items())),
    )


class _Judge:
    """Whether every row of a file is older than a value of the column."""

    def __init__(self, metadata: TableMetadata, column: Column, limit: int) -> None:
        self._metadata = metadata
        self._column = column
        self._limit = limit
        self._read = bound_reader(column.primitive)
        source = Predicate(Operation.LT, Term(column.name), (limit,))
        term = BoundTerm(column.id, column.name, column.primitive)
        self._older = BoundPredicate(Operation.LT, term, (limit,), source)
        self._tests: dict[int, tuple[list[PartitionTest], list[PartitionTest]]] = {}
        self._may_go: dict[tuple[int, Partition], bool] = {}

    def may_go(self, line: FileLine) -> bool:
        """Whether nothing but its metrics can be against it."""
        return self._why_not_by_partition(line) is None

    def why_not(self, listed: Listed) -> str | None:
        """Why the file stays; None when all its rows are proved to be older."""
        reason = self._why_not_by_partition(listed.line)
        if reason is not None:
            return reason
        if listed.whole is None:
            raise Internal(f"{listed.line.file_path} was listed without its metrics")
        file = listed.whole
        must, _ = self._partition_tests(file.spec_id)
        doubt = self._doubt(file)
        if doubt is not None:
            return doubt
        if any(test.must_match(file.partition) for test in must) or self._metrics_prove(file):
            return None
        return "neither partition nor metrics tell the age of its rows"

    def _why_not_by_partition(self, line: FileLine) -> str | None:
        if line.record_count <= 0:
            return "without rows"
        key = (line.spec_id, line.partition)
        may_go = self._may_go.get(key)
        if may_go is None:
            _, may = self._partition_tests(line.spec_id)
            may_go = self._may_go[key] = all(test.may_match(line.partition) for test in may)
        return None if may_go else "with younger rows"

    def _doubt(self, file: DataFile) -> str | None:
        """What the metrics say against it, whatever the partition says."""
        nulls = (file.null_value_counts or {}).get(self._column.id)
        if nulls is not None and nulls != 0:
            return "with rows without a time"
        values = (file.value_counts or {}).get(self._column.id)
        if values is not None and values != file.record_count:
            return "with counts that do not fit"
        lower, upper = self._bound(file.lower_bounds), self._bound(file.upper_bounds)
        if (upper is not None and upper >= self._limit) or (lower is not None and lower >= self._limit):
            return "with younger rows"
        if lower is not None and upper is not None and lower > upper:
            return "with bounds that do not fit"
        return None

    def _metrics_prove(self, file: DataFile) -> bool:
        """Whether the metrics alone prove it: no null, every row counted, and the greatest value is older."""
        return (
            (file.null_value_counts or {}).get(self._column.id) == 0
            and (file.value_counts or {}).get(self._column.id) == file.record_count
            and self._bound(file.upper_bounds) is not None
        )

    def _bound(self, bounds: Mapping[int, bytes] | None) -> int | None:
        raw = (bounds or {}).get(self._column.id)
        value = None if raw is None else self._read(raw)
        return value if type(value) is int else None

    def _partition_tests(self, spec_id: int) -> tuple[list[PartitionTest], list[PartitionTest]]:
        """(tests that prove that all rows are older, tests without which none can be) of the partitions of a spec."""
        known = self._tests.get(spec_id)
        if known is None:
            fields = self._fields(spec_id)
            must = [test for each in fields if (test := strict(self._older, each)) is not None]
            may = [test for each in fields if (test := inclusive(self._older, each)) is not None]
            known = self._tests[spec_id] = must, may
        return known

    def _fields(self, spec_id: int) -> list[PartitionField]:
        return partition_fields(self._metadata.spec(spec_id), self._metadata.schema())
