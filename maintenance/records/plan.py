"""Which data files hold only rows that are old enough to go, and which some. Pure: metadata, entries, policy, time in.

A file goes whole when its partition or its metrics prove that every row is older, and neither casts doubt on it: a
null, a missing or unreadable bound, counts that do not fit, a partition that says otherwise. One that may hold old
rows beside others is to be rewritten without them, when they are enough; what its metrics say decides only whether it
is read for that, its rows themselves decide which of them go.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maintenance.columns import why_not_rewritten
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
_YOUNGER: Final = "with younger rows"
_TIMELESS: Final = "with rows without a time"
_UNKNOWN_AGE: Final = "neither partition nor metrics tell the age of its rows"
_SOME_MAY_BE_OLD: Final = (_YOUNGER, _TIMELESS)


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

    def bound(self, raw: bytes) -> int | None:
        """A bound of a file's metrics as a value of the column; None when it is not one."""
        value = bound_reader(self.primitive)(raw)
        return value if type(value) is int else None


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
class Mixed:
    """A file that may hold old rows beside others."""

    file: FileLine
    share: float | None
    """The part of its rows that is probably old, as if their times were spread evenly; None: nothing tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """Files to take out of the table, and files to take rows out of."""

    column: Column
    older_than_ms: int
    files: tuple[FileLine, ...]
    """To go whole, by path."""
    mixed: tuple[Mixed, ...]
    """To be rewritten without their old rows, those that free most first, at last those of which nothing is known."""
    data_files: int
    left_alone: Mapping[str, int] = field(default_factory=dict)
    """Number of files per reason for not taking them."""

    @property
    def limit(self) -> int:
        """The value of the column from which on rows stay."""
        return self.column.value_at(self.older_than_ms)

    @property
    def records(self) -> int:
        """Rows in the files that go whole, by their manifests."""
        return sum(file.record_count for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files that go whole."""
        return sum(file.file_size_in_bytes for file in self.files)

    def to_json(self) -> JsonObject:
        """As plain JSON; of very many files the first are named."""
        return {
            "column": self.column.name,
            "older-than-ms": self.older_than_ms,
            "files": len(self.files),
            "records": self.records,
            "bytes": self.size,
            "paths": [file.file_path for file in self.files[:_MOST_NAMED]],
            "rewrite": [
                {
                    "path": mixed.file.file_path,
                    "records": mixed.file.record_count,
                    "bytes": mixed.file.file_size_in_bytes,
                    "old-share": None if mixed.share is None else round(mixed.share, 4),
                }
                for mixed in self.mixed[:_MOST_NAMED]
            ],
            "files-to-rewrite": len(self.mixed),
            "data-files": self.data_files,
            "left-alone": dict(self.left_alone),
        }


Listing: TypeAlias = Callable[[Callable[[FileLine], bool]], Iterable[Sequence[Listed]]]
"""Gives main's live files, by path, with metrics of those that it is told to."""


def plan(listing: Listing, metadata: TableMetadata, policy: RecordPolicy, now_ms: int) -> RecordPlan:
    """The files that hold rows older than the policy's days.

    Raises:
        Invalid: no column tells the age of rows.
    """
    column = column_of(metadata, policy.column)
    older_than_ms = now_ms - policy.days * _DAY_MS
    judge = _Judge(metadata, column, column.value_at(older_than_ms))
    odd = why_not_rewritten(metadata)
    left: Counter[str] = Counter()
    whole: list[FileLine] = []
    mixed: list[Mixed] = []
    files = 0
    for same_path in listing(judge.may_hold_any):
        files += len(same_path)
        verdict = judge.of(same_path[0]) if len(same_path) == 1 else _Verdict(why="listed more than once")
        if verdict.why is None:
            whole.append(same_path[0].line)
        elif not verdict.some or policy.row_delete_share >= 1:
            left[verdict.why] += len(same_path)
        elif verdict.share is not None and verdict.share < policy.row_delete_share:
            left[f"{verdict.why}, and too few old ones to rewrite it"] += 1
        elif odd is not None:
            left[f"{verdict.why}, in a table that is not rewritten: {odd}"] += 1
        else:
            mixed.append(Mixed(file=same_path[0].line, share=verdict.share))
    whole.sort(key=lambda file: file.file_path)
    mixed.sort(key=_rank)
    return RecordPlan(
        column=column,
        older_than_ms=older_than_ms,
        files=tuple(whole),
        mixed=tuple(mixed),
        data_files=files,
        left_alone=dict(sorted(left.items())),
    )


def _rank(mixed: Mixed) -> tuple[float, str]:
    file = mixed.file
    return -(mixed.share or 0.0) * file.file_size_in_bytes, file.file_path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What becomes of a file."""

    why: str | None = None
    """Why it does not go whole; None when it does."""
    some: bool = False
    """Whether it may hold old rows all the same."""
    share: float | None = None
    """When `some`: which part of its rows they are, probably."""


class _Judge:
    """Whether the rows of a file are older than a value of the column."""

    def __init__(self, metadata: TableMetadata, column: Column, limit: int) -> None:
        self._metadata = metadata
        self._column = column
        self._limit = limit
        source = Predicate(Operation.LT, Term(column.name), (limit,))
        term = BoundTerm(column.id, column.name, column.primitive)
        self._older = BoundPredicate(Operation.LT, term, (limit,), source)
        self._tests: dict[int, tuple[list[PartitionTest], list[PartitionTest]]] = {}
        self._may_go: dict[tuple[int, Partition], bool] = {}

    def may_hold_any(self, line: FileLine) -> bool:
        """Whether the file may hold old rows, as far as its partition tells."""
        return self._why_none(line) is None

    def of(self, listed: Listed) -> _Verdict:
        """All of its rows are older, some, or none; and why not all."""
        none = self._why_none(listed.line)
        if none is not None:
            return _Verdict(why=none)
        if listed.whole is None:
            raise Internal(f"{listed.line.file_path} was listed without its metrics")
        file = listed.whole
        must, _ = self._partition_tests(file.spec_id)
        proved = any(test.must_match(file.partition) for test in must)
        doubt = self._doubt(file)
        if doubt is not None:
            # Where the partition says that all are old, metrics that say otherwise are believed, but not followed.
            some = not proved and doubt in _SOME_MAY_BE_OLD and self._may_hold_old(file)
            return _Verdict(why=doubt, some=some, share=self._share(file))
        if proved or self._metrics_prove(file):
            return _Verdict()
        return _Verdict(why=_UNKNOWN_AGE, some=True, share=self._share(file))

    def _why_none(self, line: FileLine) -> str | None:
        if line.record_count <= 0:
            return "without rows"
        key = (line.spec_id, line.partition)
        may_go = self._may_go.get(key)
        if may_go is None:
            _, may = self._partition_tests(line.spec_id)
            may_go = self._may_go[key] = all(test.may_match(line.partition) for test in may)
        return None if may_go else _YOUNGER

    def _doubt(self, file: DataFile) -> str | None:
        """What the metrics say against it, whatever the partition says."""
        values = (file.value_counts or {}).get(self._column.id)
        lower, upper = self._bound(file.lower_bounds), self._bound(file.upper_bounds)
        if values is not None and values != file.record_count:
            return "with counts that do not fit"
        if lower is not None and upper is not None and lower > upper:
            return "with bounds that do not fit"
        if (upper is not None and upper >= self._limit) or (lower is not None and lower >= self._limit):
            return _YOUNGER
        nulls = (file.null_value_counts or {}).get(self._column.id)
        return _TIMELESS if nulls is not None and nulls != 0 else None

    def _may_hold_old(self, file: DataFile) -> bool:
        """Whether the metrics leave room for an old row."""
        lower = self._bound(file.lower_bounds)
        nulls = (file.null_value_counts or {}).get(self._column.id) or 0
        return (lower is None or lower < self._limit) and nulls < file.record_count

    def _share(self, file: DataFile) -> float | None:
        """The part of the rows that is old, if their times are spread evenly between the bounds; None: no bounds."""
        lower, upper = self._bound(file.lower_bounds), self._bound(file.upper_bounds)
        if lower is None or upper is None:
            return None
        nulls = (file.null_value_counts or {}).get(self._column.id) or 0
        spread = min(1.0, max(0, self._limit - lower) / (upper - lower + 1))
        return spread * (1 - min(1.0, nulls / file.record_count))

    def _metrics_prove(self, file: DataFile) -> bool:
        """Whether the metrics alone prove it: no null, every row counted, and the greatest value is older."""
        return (
            (file.null_value_counts or {}).get(self._column.id) == 0
            and (file.value_counts or {}).get(self._column.id) == file.record_count
            and self._bound(file.upper_bounds) is not None
        )

    def _bound(self, bounds: Mapping[int, bytes] | None) -> int | None:
        raw = (bounds or {}).get(self._column.id)
        return None if raw is None else self._column.bound(raw)

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
