"""What an expiration left behind: which files the snapshots that went had, and their deletion.

Works from the metadata as it was before the commit and the table as it is now, never from "deleted" entries of the
snapshots: a path may have been removed and added again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maintenance.deletion import Deleted, delete_in_batches
from maintenance.expiration.plan import ExpirationPlan
from maintenance.neighbours import Neighbours, UnknownNeighbour
from maintenance.places import inside, own_roots
from maintenance.ports import Job, JobContext
from maintenance.reach import Reach, reach_of_gone
from maintenance.report import Report, skipped
from maintenance.target import is_target
from table_format.catalog import LoadedTable
from table_format.errors import NoSuchFile
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.codec import read as read_metadata
from table_format.metadata.document import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One attempt's plan and the metadata it was made from, which still knows the snapshots."""

    plan: ExpirationPlan
    location: str
    metadata: TableMetadata

    def to_json(self) -> JsonObject:
        """The stored form; the metadata stays where it is."""
        return {"metadata-location": self.location, **self.plan.to_json()}

    @classmethod
    def restored(cls, store: ObjectStore, document: JsonObject) -> "Intent | None":
        """The intent that `to_json` wrote; None when its metadata fell off the log since.

        The files of its snapshots are then found by unreferenced-file removal.
        """
        location = document["metadata-location"]
        try:
            metadata = read_metadata(store, location)
        except NoSuchFile:
            return None
        return cls(plan=ExpirationPlan.from_json(document), location=location, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """Snapshots that are gone, and the files to delete for them."""

    plan: ExpirationPlan
    paths: tuple[str, ...]
    """In the order of deletion: data and delete files, manifests, manifest lists, statistics."""
    reach: Reach
    table: LoadedTable


def collect(ctx: JobContext, job: Job, table: LoadedTable, intents: Sequence[Intent]) -> Expired | Report:
    """What of the intents has come true, by the newest metadata; the files are saved before this returns.

    Raises:
        NoSuchFile: a manifest that is still needed cannot be read.
    """
    store = ctx.store_for(table.metadata.location)
    after = ctx.catalog.load(table.ident)
    if not is_target(after, job):
        return skipped("the name was given to another table after the snapshots expired; no file was deleted")
    reach = Reach(ctx, job, store)
    reach.cover(after)
    present = {snapshot["snapshot-id"] for snapshot in after.metadata.snapshots}
    gone: list[int] = []
    paths: dict[str, None] = {}
    for intent in intents:
        ids = [i for i in intent.plan.snapshot_ids if i not in present and i not in gone]
        gone += ids
        paths.update(dict.fromkeys(reach_of_gone(store, intent.metadata, ids, reach.references)))
    doomed = tuple(paths)
    refs = tuple(
        name for name in (intents[-1].plan.refs if intents else ()) if name not in after.metadata.refs
    )
    planned = (
        replace(intents[-1].plan, snapshot_ids=tuple(gone), refs=refs)
        if intents
        else ExpirationPlan(snapshot_ids=(), refs=(), older_than_ms=0, kept=len(present))
    )
    if gone:
        ctx.save_plan({"phase": "deleting", "paths": list(doomed), **planned.to_json()})
    return Expired(plan=planned, paths=doomed, reach=reach, table=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What became of the files of an expiration."""

    deleted: Deleted
    foreign: int = 0
    """Files that do not lie in the table's own places alone."""
    why_kept: str | None = None
    """Why no (more) file was deleted, when that can not be told."""


def delete(ctx: JobContext, expired: Expired) -> Cleanup:
    """Delete the files that lie in the table's own places, and that no dropped table there needs."""
    metadata = expired.table.metadata
    roots = own_roots(metadata.location, metadata.properties)
    others = ctx.other_table_locations()
    own = [
        path
        for path in expired.paths
        if any(inside(root, path) for root in roots) and not any(inside(other, path) for other in others)
    ]
    foreign = len(expired.paths) - len(own)
    neighbours = Neighbours(ctx, roots, expired.reach.references)

    def check(batch: Sequence[str]) -> Sequence[str]:
        neighbours.cover()
        held = ctx.unreferenced.held(str(metadata.uuid), batch)
        return [path for path in expired.reach.unreferenced(batch) if path not in held]

    try:
        done = delete_in_batches(ctx, ctx.store_for(metadata.location), own, check)
    except UnknownNeighbour as error:
        # The snapshots are gone: another attempt would find no more than this one.
        return Cleanup(deleted=Deleted(kept=own), foreign=foreign, why_kept=error.message)
    return Cleanup(deleted=done, foreign=foreign)
