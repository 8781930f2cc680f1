"""Distinct values of a plan's columns: which files are read for which of them, by whom, and what that comes to.

Earlier sketches that cannot be read any more are no failure: their columns are counted anew.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

from maintenance.executors.port import Reach, Stopped
from maintenance.ports import JobContext
from maintenance.statistics.distinct import Counted, CountWork, only_columns, pieces
from maintenance.statistics.plan import THETA, Column, StatisticsPlan
from maintenance.statistics.theta import Sketch
from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import with_deletes_that_name_them
from table_format.scan.lines import SnapshotLines, snapshot_lines
from table_format.scan.plan import ancestor_ids
from table_format.scan.puffin import read_footer, read_payload, unpacked

_MOST_SKETCH_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Measured:
    """What was counted."""

    columns: tuple[Column, ...] = ()
    sketches: dict[int, Sketch] = field(default_factory=dict)
    """By column."""
    files: int = 0
    size: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read for the columns of a plan."""

    files: SnapshotLines
    """All; for columns that are counted anew."""
    since: Sequence[FileLine]
    """For those whose sketches are continued."""

    def lines(self, columns: Sequence[Column]) -> list[FileLine]:
        """Files that are read, those for both kinds of columns twice."""
        anew = self.files.lines if any(not column.continued for column in columns) else ()
        since = self.since if any(column.continued for column in columns) else ()
        return [*anew, *since]


def reading_of(
    store: ObjectStore, metadata: TableMetadata, planned: StatisticsPlan, ctx: JobContext
) -> Reading | str:
    """The files of main's head to read; or why the distinct values cannot be told: not all of them are within reach.

    Raises:
        NoSuchFile, Invalid: a manifest cannot be read.
    """
    files = snapshot_lines(store, metadata)
    outside = _outside(files, ctx)
    if outside is not None:
        return f"no distinct values: {outside} lies outside the table bucket and is not read"
    files = with_deletes_that_name_them(store, files)
    since: list[FileLine] = []
    if planned.since is not None and not planned.unchanged:
        later = set(ancestor_ids(metadata, planned.snapshot_id)) - set(ancestor_ids(metadata, planned.since))
        since = [line for line in files.lines if line.snapshot_id is None or line.snapshot_id in later]
    return Reading(files=files, since=since)


def _outside(files: SnapshotLines, ctx: JobContext) -> str | None:
    deletes = (entry.data_file.file_path for entry in files.delete_entries)
    paths = (*deletes, *(line.file_path for line in files.lines))
    return next((path for path in paths if not ctx.reaches(path)), None)


def measure(
    ctx: JobContext, store: ObjectStore, metadata: TableMetadata, planned: StatisticsPlan, reading: Reading
) -> Measured:
    """Count the distinct values.

    Raises:
        NoSuchFile, Invalid, Unsupported: a file can not be read.
        Stopped: the job is to end.
        Unavailable: the store is away, or a process was lost.
    """
    known = _continued(ctx, store, metadata, planned)
    columns = tuple(
        replace(column, continued=column.continued and column.id in known) for column in planned.columns
    )
    found = Measured(columns=columns)
    anew = [column.id for column in columns if not column.continued]
    found.sketches = {column: Sketch() for column in anew} | known
    for wanted, lines in ((anew, reading.files.lines), (sorted(known), reading.since)):
        if wanted and lines:
            works = pieces(lines, reading.files, only_columns(metadata, wanted))
            _count(ctx, works, ctx.reach(metadata.location), found)
    return found


def _count(ctx: JobContext, works: Iterator[CountWork], reach: Reach, into: Measured) -> None:
    def go_on() -> None:
        if ctx.stopped is not None:
            raise Stopped

    def leased() -> Iterator[CountWork]:
        for work in works:
            if not ctx.still_leased():
                raise Stopped
            yield work

    outcomes = ctx.executor.run(leased(), reach, go_on)
    with closing(outcomes):
        for ended in outcomes:
            if ended.error is not None:
                raise ended.error
            if ended.result is not None:
                _merge(ended.result, into)


def _merge(counted: Counted, into: Measured) -> None:
    for column, sketch in counted.sketches.items():
        into.sketches[column].merge(Sketch.from_bytes(sketch))
    into.files += counted.files
    into.size += counted.size
    into.rows += counted.rows


def _continued(
    ctx: JobContext, store: ObjectStore, metadata: TableMetadata, planned: StatisticsPlan
) -> dict[int, Sketch]:
    """The earlier sketches, as far as they can be read."""
    wanted = {column.id for column in planned.columns if column.continued}
    entry = next((e for e in metadata.statistics if e["snapshot-id"] == planned.since), None)
    if entry is None or not wanted or not ctx.reaches(entry["statistics-path"]):
        return {}
    path = entry["statistics-path"]
    found: dict[int, Sketch] = {}
    try:
        for blob in read_footer(store, path, entry["file-size-in-bytes"]):
            if blob.type == THETA and len(blob.fields) == 1 and blob.fields[0] in wanted:
                payload = unpacked(read_payload(store, path, blob), blob.codec, most=_MOST_SKETCH_BYTES)
                found[blob.fields[0]] = Sketch.from_bytes(payload)
    except (NoSuchFile, Invalid, Unsupported):
        return {}
    return found
