"""What a filter leaves of a table: which manifests, which files, and what is still to be asked of their rows.

One `Matcher` per scan. Residuals are worked out once per partition; how many are remembered is bounded.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestFile, Partition
from table_format.metadata.document import TableMetadata
from table_format.scan.binding import All, Bound, BoundPredicate, Test, bind, compiled
from table_format.scan.comparables import ValueTransform
from table_format.scan.expressions import FALSE, TRUE, Constant, Expression, all_of, any_of
from table_format.scan.metrics import Summaries, file_test, summary_test
from table_format.scan.partitions import partition_key
from table_format.scan.projection import PartitionField, PartitionTest, inclusive, strict
from table_format.schema.types import fields_by_id, parse_primitive

_REMEMBERED = 10_000
"""Partitions of a spec whose residuals are kept."""


@dataclass(frozen=True, slots=True)
class _Projections:
    """A predicate's projections onto the fields of one spec."""

    inclusive: tuple[PartitionTest, ...]
    strict: tuple[PartitionTest, ...]


class Matcher:
    """A filter, bound to the schema of a scan and projected onto the specs of its table."""

    def __init__(
        self, metadata: TableMetadata, expression: Expression, schema: JsonObject, *, case_sensitive: bool
    ) -> None:
        """Bind the filter.

        Raises:
            Invalid: it does not fit the schema.
        """
        self.bound: Bound = bind(expression, schema, case_sensitive=case_sensitive)
        self._metadata = metadata
        self._schema = schema
        self._file_test = file_test(self.bound)
        self._specs: dict[int, _SpecMatcher] = {}

    @property
    def nothing(self) -> bool:
        """Whether no row of any table like this can match."""
        return self.bound == FALSE

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """Whether the manifest's partition summaries leave a chance of matching rows."""
        if isinstance(self.bound, Constant):
            return self.bound.value
        test = self._spec(manifest.spec_id).manifest_test
        return test is None or not manifest.partitions or test(manifest.partitions)

    def file_residual(self, file: DataFile) -> Expression | None:
        """What is left of the filter for the rows of a data file; None when none of them can match.

        Raises:
            Invalid: the table has no such partition spec.
        """
        if self._file_test is None:
            return TRUE
        if not self._file_test(file):
            return None
        residual = self._spec(file.spec_id).residual(file.partition)
        return None if residual == FALSE else residual

    def _spec(self, spec_id: int) -> "_SpecMatcher":
        known = self._specs.get(spec_id)
        if known is None:
            fields = partition_fields(self._metadata.spec(spec_id), self._schema)
            known = self._specs[spec_id] = _SpecMatcher(self.bound, fields)
        return known


def partition_fields(spec: JsonObject, schema: JsonObject) -> list[PartitionField]:
    """The fields of a spec that filters on this schema's columns can use."""
    columns = fields_by_id(schema)
    fields: list[PartitionField] = []
    for position, raw in enumerate(spec["fields"]):
        view = columns.get(raw.get("source-id", -1))
        if view is None or not isinstance(view.type, str):
            continue
        try:
            transform = ValueTransform.of(raw["transform"], parse_primitive(view.type))
        except (Invalid, Unsupported):
            continue
        if transform is not None and transform.name != "void":
            fields.append(PartitionField(position, view.id, transform))
    return fields


class _SpecMatcher:
    """A bound filter on the partitions of one spec."""

    def __init__(self, bound: Bound, fields: list[PartitionField]) -> None:
        self._bound = bound
        self._fields = fields
        self._projections: dict[BoundPredicate, _Projections] = {}
        self._residuals: dict[Hashable, Expression] = {}
        self.manifest_test: Test[Summaries] | None = compiled(bound, self._manifest_leaf)

    def residual(self, partition: Partition) -> Expression:
        """What is left of the filter in that partition; FALSE when no row of it can match."""
        if not self._fields:
            partition = ()
        key = partition_key(partition)
        known = self._residuals.get(key)
        if known is None:
            if len(self._residuals) >= _REMEMBERED:
                self._residuals.clear()
            known = self._residuals[key] = self._left(self._bound, partition)
        return known

    def _left(self, bound: Bound, partition: Partition) -> Expression:
        if isinstance(bound, Constant):
            return bound
        if isinstance(bound, BoundPredicate):
            tests = self._projected(bound)
            if any(test.must_match(partition) for test in tests.strict):
                return TRUE
            if not all(test.may_match(partition) for test in tests.inclusive):
                return FALSE
            return bound.source
        left = [self._left(child, partition) for child in bound.children]
        return all_of(left) if isinstance(bound, All) else any_of(left)

    def _manifest_leaf(self, predicate: BoundPredicate) -> Test[Summaries] | None:
        tests = [summary_test(test) for test in self._projected(predicate).inclusive]
        return (lambda summaries: all(test(summaries) for test in tests)) if tests else None

    def _projected(self, predicate: BoundPredicate) -> _Projections:
        known = self._projections.get(predicate)
        if known is None:
            may = (inclusive(predicate, field) for field in self._fields)
            must = (strict(predicate, field) for field in self._fields)
            known = self._projections[predicate] = _Projections(
                tuple(test for test in may if test is not None),
                tuple(test for test in must if test is not None),
            )
        return known
