"""The purge job: deletes the files of a table that was dropped with purge; its last metadata file goes last.

The payload names that file, the table's location and its life: {"metadata_location": ..., "location": ...,
"created_at_ms": ..., "dropped_at_ms": ...}. Only paths below the location and the places that the table's properties
name are deleted, and none that lies in another's. What the metadata does not reach goes only if it came while the
table was there: older files may be those of a table that was forgotten or handed over, and whoever makes a table there
next writes its files before the catalog knows of it. Where another dropped table has files too, only what the metadata
reaches is deleted, and nothing that the other's reaches. Files that do not exist are no error: a table may have been
made of invented ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from maintenance.deletion import Deleted, delete_in_batches
from maintenance.neighbours import needed_by
from maintenance.places import References, comparable, inside, may_contain, own_roots
from maintenance.ports import DroppedNeighbour, Job, JobContext, PurgeSurroundings
from maintenance.reach import stages_of_gone
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import is_target
from maintenance.wording import counted
from table_format.errors import Invalid, NoSuchFile, NotFound, Unavailable
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.codec import read as read_metadata
from table_format.metadata.document import TableMetadata

_TOLD_FAILURES: Final = 20
_CLOCKS_DIFFER_MS: Final = 300_000
"""The store's clock may be so far from ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dropped:
    """What the payload says, and the last metadata if it is still there."""

    location: str
    metadata_location: str
    metadata: TableMetadata | None
    store: ObjectStore
    life_ms: tuple[int, int]
    """When it was made and dropped; nothing lies between in a job of before that was noted."""

    @property
    def roots(self) -> list[str]:
        """Where the table's files lie."""
        return own_roots(self.location, {} if self.metadata is None else self.metadata.properties)


def run(ctx: JobContext, job: Job) -> Report:
    """Delete what the dropped table left.

    Raises:
        Invalid: the payload or the last metadata file cannot be understood; nothing is deleted.
        Unavailable: the store is away, or what another dropped table at the same place needs can not be told; the
            next attempt goes on.
    """
    dropped = _read(ctx, job.payload)
    around = ctx.purge_surroundings(dropped.roots)
    if (reason := _why_skipped(ctx, job, dropped, around)) is not None:
        return skipped(reason)
    kept = _kept(ctx, around.neighbours)
    stages = _stages(dropped, around)
    own = [[path for path in paths if any(inside(root, path) for root in dropped.roots)] for paths in stages]
    mine = [[path for path in paths if not kept.may_hold(path)] for paths in own]
    figures: dict[str, Figure] = {
        "filesOutsideTheTable": _count(stages) - _count(own),
        "filesOfDroppedTables": _count(own) - _count(mine),
    }
    if job.dry_run:
        reason = f"dry run: {counted(_count(mine), 'file')} would be deleted"
        paths = [path for stage in mine for path in stage]
        return Report(outcome=Outcome.DONE, reason=reason, figures=figures, plan={"paths": paths})
    return _report(_delete(ctx, dropped, around, mine), figures)


def _count(stages: Sequence[Sequence[str]]) -> int:
    return sum(map(len, stages))


def _delete(
    ctx: JobContext, dropped: _Dropped, around: PurgeSurroundings, stages: Sequence[Sequence[str]]
) -> Deleted:
    """Delete stage after stage; none begins while something of the one before is left, which only it tells of."""
    done = Deleted()
    for number, paths in enumerate(stages):
        one = delete_in_batches(
            ctx, dropped.store, paths, lambda batch: _still_allowed(ctx, dropped, around, batch)
        )
        done.paths += one.paths
        done.kept += one.kept
        done.failures += one.failures
        if one.lease_lost or one.failures:
            done.lease_lost, done.why_stopped = one.lease_lost, one.why_stopped
            done.left = one.left + _count(stages[number + 1 :])
            break
    return done


def _read(ctx: JobContext, payload: JsonObject) -> _Dropped:
    location, metadata_location = payload.get("location"), payload.get("metadata_location")
    if not isinstance(location, str) or not isinstance(metadata_location, str):
        raise Invalid("a purge job's payload names metadata_location and location")
    store = ctx.store_for(location)
    try:
        metadata = read_metadata(store, metadata_location)
    except NoSuchFile:
        metadata = None  # an earlier attempt came to its end, or nearly
    made, gone = payload.get("created_at_ms"), payload.get("dropped_at_ms")
    return _Dropped(
        location=location,
        metadata_location=metadata_location,
        metadata=metadata,
        store=store,
        life_ms=(made, gone) if isinstance(made, int) and isinstance(gone, int) else (0, 0),
    )


def _why_skipped(ctx: JobContext, job: Job, dropped: _Dropped, around: PurgeSurroundings) -> str | None:
    if not around.wanted:
        return f"{job.ident} is not to be purged any more: it was restored, registered again or forgotten"
    metadata = dropped.metadata
    if metadata is not None:
        if metadata.properties.get("gc.enabled", "true").strip().lower() == "false":
            return "the table property gc.enabled is false: its files may belong to another table"
        if metadata.uuid is not None and job.table_uuid and metadata.uuid.lower() != job.table_uuid.lower():
            return f"{dropped.metadata_location} is the metadata of another table (UUID {metadata.uuid})"
        if comparable(metadata.location.rstrip("/")) != comparable(dropped.location.rstrip("/")):
            return (
                f"the metadata says that the table's location is {metadata.location}, not {dropped.location}"
            )
    if _lives(ctx, job):
        return f"{job.ident} was registered again and lives"
    owner = _owner_of(around, dropped.location)
    return None if owner is None else f"{dropped.location} belongs to another table now, that at {owner}"


def _lives(ctx: JobContext, job: Job) -> bool:
    if job.ident is None:
        return False
    try:
        return is_target(ctx.catalog.load(job.ident), job)
    except NotFound:
        return False


def _owner_of(around: PurgeSurroundings, location: str) -> str | None:
    return next((other for other in around.others if may_contain(other, location)), None)


def _kept(ctx: JobContext, neighbours: Sequence[DroppedNeighbour]) -> References:
    """What other dropped tables need that may be had back.

    Raises:
        Unavailable: it can not be read, so nothing may be deleted.
    """
    kept = References()
    for neighbour in neighbours:
        if not neighbour.purged:
            kept.add(needed_by(ctx, neighbour))
    return kept


def _stages(dropped: _Dropped, around: PurgeSurroundings) -> list[list[str]]:
    """Everything to delete, in stages: content, manifests, all else, the last metadata file."""
    stages: list[list[str]] = []
    rest: dict[str, None] = {}
    if dropped.metadata is not None:
        ids = [snapshot["snapshot-id"] for snapshot in dropped.metadata.snapshots]
        *stages, lists = stages_of_gone(dropped.store, dropped.metadata, ids)
        rest.update(dict.fromkeys(lists))
        for entry in (*dropped.metadata.statistics, *dropped.metadata.partition_statistics):
            rest[entry["statistics-path"]] = None
        for entry in dropped.metadata.metadata_log:
            rest[entry["metadata-file"]] = None
    mixed = around.shared or around.neighbours
    if not mixed and not any(may_contain(dropped.location, other) for other in around.others):
        rest.update(dict.fromkeys(sorted(_of_its_life(dropped))))
    last = comparable(dropped.metadata_location)
    found = {path for stage in stages for path in stage}
    stages.append([path for path in rest if path not in found])
    return [
        *([path for path in stage if comparable(path) != last] for stage in stages),
        [dropped.metadata_location],
    ]


def _of_its_life(dropped: _Dropped) -> Iterator[str]:
    """What lies at the location and came while the table was there; what is of unknown age did not."""
    made, gone = dropped.life_ms
    for info in dropped.store.list(dropped.location):
        at_ms = info.modified_ms or 0
        if made + _CLOCKS_DIFFER_MS < at_ms < gone - _CLOCKS_DIFFER_MS:
            yield info.path


def _still_allowed(
    ctx: JobContext, dropped: _Dropped, before: PurgeSurroundings, batch: Sequence[str]
) -> list[str]:
    """Paths of the batch that no other table claims by now.

    Raises:
        Unavailable: a table was dropped at the same place meanwhile; the next attempt looks at its files first.
    """
    now = ctx.purge_surroundings(dropped.roots)
    if not now.wanted or _owner_of(now, dropped.location) is not None:
        return []
    if any(one not in before.neighbours for one in now.neighbours if not one.purged):
        raise Unavailable("another table was dropped at the same place: its files have to be looked at first")
    return [path for path in batch if not any(inside(other, path) for other in now.others)]


def _report(done: Deleted, figures: dict[str, Figure]) -> Report:
    told = figures | {
        "filesDeleted": len(done.paths),
        "filesOfOtherTables": len(done.kept),
        "deleteFailures": done.failures[:_TOLD_FAILURES],
    }
    reason = f"{counted(len(done.paths), 'file')} of the dropped table deleted"
    if done.lease_lost:
        return skipped(f"{reason}, {done.left} left: {done.why_stopped}", **told)
    if done.failures:
        raise Unavailable(f"{reason}, but the store refused {len(done.failures)}, first {done.failures[0]}")
    return Report(outcome=Outcome.DONE, reason=reason, figures=told)
