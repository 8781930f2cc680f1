"""The purge job: deletes the files of a table that was dropped with purge; its last metadata file goes last.

The payload names that file and the table's location: {"metadata_location": ..., "location": ...}. Only paths below
the location and the places that the table's properties name are deleted, and none that lies in another table's. Files
that do not exist are no error: a table may have been made of invented ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from maintenance.deletion import Deleted, delete_in_batches
from maintenance.places import comparable, inside, may_contain, own_roots
from maintenance.ports import Job, JobContext
from maintenance.reach import reach_of_gone
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import is_target
from table_format.errors import Invalid, NoSuchFile, NotFound, Unavailable
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.codec import read as read_metadata
from table_format.metadata.document import TableMetadata

_TOLD_FAILURES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dropped:
    """What the payload says, and the last metadata if it is still there."""

    location: str
    metadata_location: str
    metadata: TableMetadata | None
    store: ObjectStore


def run(ctx: JobContext, job: Job) -> Report:
    """Delete what the dropped table left.

    Raises:
        Invalid: the payload or the last metadata file cannot be understood; nothing is deleted.
        Unavailable: the store is away; the next attempt goes on.
    """
    dropped = _read(ctx, job.payload)
    if (reason := _why_skipped(ctx, job, dropped)) is not None:
        return skipped(reason)
    paths = _paths(ctx, dropped)
    properties = {} if dropped.metadata is None else dropped.metadata.properties
    roots = own_roots(dropped.location, properties)
    own = [path for path in paths if any(inside(root, path) for root in roots)]
    figures: dict[str, Figure] = {"filesOutsideTheTable": len(paths) - len(own)}
    if job.dry_run:
        reason = f"dry run: {len(own)} files would be deleted"
        return Report(outcome=Outcome.DONE, reason=reason, figures=figures, plan={"paths": own})
    done = delete_in_batches(
        ctx, dropped.store, own, lambda batch: _still_allowed(ctx, dropped.location, batch)
    )
    return _report(done, figures)


def _read(ctx: JobContext, payload: JsonObject) -> _Dropped:
    location, metadata_location = payload.get("location"), payload.get("metadata_location")
    if not isinstance(location, str) or not isinstance(metadata_location, str):
        raise Invalid("a purge job's payload names metadata_location and location")
    store = ctx.store_for(location)
    try:
        metadata = read_metadata(store, metadata_location)
    except NoSuchFile:
        metadata = None  # an earlier attempt came to its end, or nearly
    return _Dropped(location=location, metadata_location=metadata_location, metadata=metadata, store=store)


def _why_skipped(ctx: JobContext, job: Job, dropped: _Dropped) -> str | None:
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
    owner = _owner_of(ctx, dropped.location)
    return None if owner is None else f"{dropped.location} belongs to another table now, that at {owner}"


def _lives(ctx: JobContext, job: Job) -> bool:
    if job.ident is None:
        return False
    try:
        return is_target(ctx.catalog.load(job.ident), job)
    except NotFound:
        return False


def _owner_of(ctx: JobContext, location: str) -> str | None:
    return next((other for other in ctx.other_table_locations() if may_contain(other, location)), None)


def _paths(ctx: JobContext, dropped: _Dropped) -> list[str]:
    """Everything to delete: content first, the last metadata file last."""
    found: dict[str, None] = {}
    if dropped.metadata is not None:
        ids = [snapshot["snapshot-id"] for snapshot in dropped.metadata.snapshots]
        found.update(dict.fromkeys(reach_of_gone(dropped.store, dropped.metadata, ids)))
        for entry in (*dropped.metadata.statistics, *dropped.metadata.partition_statistics):
            found[entry["statistics-path"]] = None
        for entry in dropped.metadata.metadata_log:
            found[entry["metadata-file"]] = None
    if not any(may_contain(dropped.location, other) for other in ctx.other_table_locations()):
        found.update(dict.fromkeys(sorted(info.path for info in dropped.store.list(dropped.location))))
    last = comparable(dropped.metadata_location)
    return [*(path for path in found if comparable(path) != last), dropped.metadata_location]


def _still_allowed(ctx: JobContext, location: str, batch: Sequence[str]) -> list[str]:
    """Paths of the batch that no other table claims by now."""
    others = ctx.other_table_locations()
    if any(may_contain(other, location) for other in others):
        return []
    return [path for path in batch if not any(inside(other, path) for other in others)]


def _report(done: Deleted, figures: dict[str, Figure]) -> Report:
    told = figures | {
        "filesDeleted": len(done.paths),
        "filesOfOtherTables": len(done.kept),
        "deleteFailures": done.failures[:_TOLD_FAILURES],
    }
    reason = f"{len(done.paths)} files of the dropped table deleted"
    if done.lease_lost:
        return skipped(f"{reason}, {done.left} left: {done.why_stopped}", **told)
    if done.failures:
        raise Unavailable(f"{reason}, but the store refused {len(done.failures)}, first {done.failures[0]}")
    return Report(outcome=Outcome.DONE, reason=reason, figures=told)
