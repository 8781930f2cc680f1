"""A group's output made by copying its inputs' row groups as they are, where that is as good as rewriting them.

Whatever is not certain, in the plan or in a footer, is a reason to rewrite instead, and is told. Nothing is decoded
but the samples by which the finished file is compared with its inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
import structlog

from maintenance.compaction.layout import Strategy
from maintenance.compaction.plan_types import PlannedGroup
from maintenance.policy_types import CompactionPolicy
from maintenance.ports import JobSettings
from table_format.clock import Ids
from table_format.errors import Internal, Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.parquet.check import check_merged, parsed_by_arrow
from table_format.parquet.footer import CODECS, COLUMN_CODEC, Footer, read_footer
from table_format.parquet.merge import Source, merge
from table_format.parquet.page_index import read_page_indexes
from table_format.parquet.physical import check_physical, tree
from table_format.scan.plan import FileTask
from table_format.write.copied import copied_data_file

_log = structlog.get_logger(__name__)

MOST_ROW_GROUPS: Final = 32
"""Of one output, in the mean of its bytes: copying never makes row groups larger, and readers pay for each."""
DELETES: Final = "deletes are applied"
_CODEC_PROPERTY: Final = "write.parquet.compression-codec"
_CODEC_NAMES: Final = {"lz4_raw": "lz4", "none": "uncompressed"}


def why_rewritten(
    group: PlannedGroup, metadata: TableMetadata, policy: CompactionPolicy, settings: JobSettings
) -> str | None:
    """Why the group's rows must be decoded, as far as the plan can tell; None when copying may be tried."""
    if not policy.copy_row_groups:
        return "copyRowGroups is off"
    if metadata.format_version > 2:
        return "row lineage is written"
    if group.strategy is not Strategy.BINPACK:
        return "rows are sorted"
    if any(file.delete_files for file in group.inputs):
        return DELETES
    if group.size < len(group.inputs) * _least_row_group(group, settings):
        return "small row groups"
    return None


def _least_row_group(group: PlannedGroup, settings: JobSettings) -> int:
    return max(settings.min_copied_row_group_bytes, group.size // MOST_ROW_GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The file that the group became."""

    file: DataFile
    through: int
    """Bytes of it that went through this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """What copying needs of its surroundings."""

    store: ObjectStore
    metadata: TableMetadata
    ids: Ids
    settings: JobSettings
    next_path: Callable[[], str]
    """A path for the output, which is remembered for cleaning up."""
    go_on: Callable[[], None]
    """Asked now and then; what it raises ends the work."""

    def attempt(self, group: PlannedGroup, tasks: Sequence[FileTask]) -> Copied | str:
        """The output, checked; or why the group is to be rewritten instead.

        Raises:
            NoSuchFile: an input is gone.
            Unavailable: the store is away, or an input was replaced meanwhile.
        """
        if group.rewritten_because is not None:
            return group.rewritten_because
        if any(task.deletes for task in tasks):
            # The plan says so already; a copy of deleted rows would bring them back, so nobody is taken at his word.
            return DELETES
        try:
            return self._copied(group, [task.entry.data_file for task in tasks])
        except (Invalid, Unsupported, Internal) as doubt:
            _log.info("maintenance.group_not_copied", first=group.inputs[0].path, reason=doubt.message)
            return doubt.message

    def _copied(self, group: PlannedGroup, inputs: Sequence[DataFile]) -> Copied:
        sources = [self._source(file) for file in inputs]
        number = sum(len(source.footer.groups) for source in sources)
        if group.size < number * _least_row_group(group, self.settings):
            raise Unsupported("small row groups")
        merged = merge(sources, orjson.dumps(self.metadata.schema()))
        arrow = parsed_by_arrow(merged)
        path = self.next_path()
        file = copied_data_file(path, merged.size, arrow, inputs, self.metadata)
        if not file.record_count == group.records == sum(source.footer.rows for source in sources):
            raise Invalid("the rows of the files are not those of the manifests")
        through = self.store.compose(path, merged.pieces, self.go_on)
        try:
            check_merged(self.store, path, sources, merged, self._draw, self.go_on)
        except Internal as error:
            _log.error("maintenance.copy_is_wrong", path=path, error=error.message)
            raise Internal("the copy did not pass its check") from error
        return Copied(file=file, through=through)

    def _source(self, file: DataFile) -> Source:
        self.go_on()
        info = self.store.head(file.file_path)
        if info.size != file.file_size_in_bytes:
            raise Invalid("a file has another size than its manifest says")
        footer = read_footer(self.store, info)
        if footer.rows != file.record_count:
            raise Invalid("a file has other rows than its manifest says")
        check_physical(tree(footer.meta.structs(2)), self.metadata.schema())
        self._check_codec(footer)
        return Source(footer=footer, indexes=read_page_indexes(self.store, footer))

    def _check_codec(self, footer: Footer) -> None:
        """A table that names its codec wants it: rewriting is what brings it about."""
        wanted = self.metadata.properties.get(_CODEC_PROPERTY)
        if wanted is None:
            return
        wanted = wanted.strip().lower()
        codecs = {chunk.meta.number(COLUMN_CODEC) for group in footer.groups for chunk in group.chunks}
        names = {CODECS.get(codec, "unknown") for codec in codecs}
        if {_CODEC_NAMES.get(name, name) for name in names} - {_CODEC_NAMES.get(wanted, wanted)}:
            raise Unsupported("files are compressed otherwise than the table wants")

    def _draw(self, below: int) -> int:
        return min(int(self.ids.jitter(0, below)), below - 1)
