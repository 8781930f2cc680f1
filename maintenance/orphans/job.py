"""The unreferenced-file job: list first, read the references after, mark, and delete what stayed marked long enough.

Two phases lie between a file and its deletion, each with its own age; before each batch the newest metadata and the
lease are read again. Only files below the table's own location, and below places that its properties name and that are
its alone, are ever touched, and none that a dropped table there needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maintenance.deletion import Deleted, delete_in_batches
from maintenance.gate import admitted
from maintenance.neighbours import Neighbours, UnknownNeighbour
from maintenance.orphans.plan import Ages, Evidence, OrphanPlan, Stop, ages, plan, together
from maintenance.places import References, holds, inside, overlapping, own_roots
from maintenance.policy_types import UnreferencedPolicy
from maintenance.ports import Job, JobContext
from maintenance.reach import Reach, metadata_files
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import gc_disabled, is_target, load_target
from maintenance.wording import counted
from table_format.catalog import LoadedTable
from table_format.errors import Internal
from table_format.io.store import ObjectStore

_TOLD_FAILURES = 20


class Suspicious(Internal):
    """Storage and metadata do not fit together; a person has to look."""


def run(ctx: JobContext, job: Job) -> Report:
    """Mark and remove unreferenced files of one table.

    Raises:
        Suspicious: listing and metadata contradict each other; nothing was marked or deleted.
        NoSuchFile: a manifest cannot be read; nothing was marked or deleted.
        Unavailable: the catalog or the store is away.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, UnreferencedPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    if (reason := _why_skipped(ctx, table)) is not None:
        return skipped(reason)
    gathered = _gather(ctx, job, table)
    if isinstance(gathered, Report):
        return gathered
    wanted = ages(policy, ctx.settings)
    plans: list[OrphanPlan] = []
    for evidence in gathered.evidence:
        found = plan(
            evidence,
            wanted,
            ctx.settings,
            ctx.clock.now_ms(),
            allow_large_share=job.payload.get("allowLargeShare") is True,
        )
        if isinstance(found, Stop):
            raise Suspicious(found.reason)
        plans.append(found)
    policy = replace(policy, notes=(*policy.notes, *gathered.notes))
    planned = together(plans)
    if job.dry_run:
        return _with_notes(_dry_run(planned, wanted), policy)
    return _with_notes(_carry_out(ctx, job, gathered, planned, policy), policy)


def _with_notes(report: Report, policy: UnreferencedPolicy) -> Report:
    if not policy.notes:
        return report
    return replace(report, figures={**report.figures, "notes": list(policy.notes)})


def _why_skipped(ctx: JobContext, table: LoadedTable) -> str | None:
    if gc_disabled(table):
        return "the table property gc.enabled is false: its files may belong to another table"
    other = overlapping(table.metadata.location, ctx.other_table_locations())
    if other is not None:
        return f"the location of another table, {other}, overlaps this one's: whose files are whose cannot be told"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    evidence: Sequence[Evidence]
    """Of each of the table's places: its location first."""
    notes: Sequence[str]
    """Places that were not looked at, and why."""
    reach: Reach
    neighbours: Neighbours
    store: ObjectStore

    def unreferenced(self, paths: Sequence[str]) -> Sequence[str]:
        """Those that neither the table as it is now nor a dropped one there needs."""
        self.neighbours.cover()
        return self.reach.unreferenced(paths)


def _gather(ctx: JobContext, job: Job, before: LoadedTable) -> _Gathered | Report:
    """List first, reach after: a file committed in between is referenced, never an apparent orphan."""
    location = before.metadata.location
    store = ctx.store_for(location)
    roots, notes = _roots(ctx, before)
    # Without tags, which nobody asks for: there may be millions.
    listings = {
        root: [replace(info, etag=None) for info in store.list(root) if inside(root, info.path)]
        for root in roots
    }
    after = ctx.catalog.load(before.ident)
    if not is_target(after, job) or _places(after) != _places(before):
        return skipped("the table was replaced or moved during the listing")
    old_ids = {snapshot["snapshot-id"] for snapshot in before.metadata.snapshots}
    both = [s["snapshot-id"] for s in after.metadata.snapshots if s["snapshot-id"] in old_ids]
    # What old snapshots need was there before the listing began, so it must be in it.
    listed = References(info.path for listing in listings.values() for info in listing)
    reach = Reach(ctx, job, store)
    missing = reach.adopt(after.metadata, both, listed)
    if _still_logged(before, after):
        missing.append(before.metadata_location)
    reach.cover(after)
    reach.references.add([*metadata_files(before), *version_hints(location)])
    neighbours = Neighbours(ctx, roots, reach.references)
    try:
        neighbours.cover()
    except UnknownNeighbour as error:
        return skipped(error.message)
    known = ctx.unreferenced.known(job.table_uuid)
    held = ctx.unreferenced.held(job.table_uuid, list(known))
    evidence = [
        Evidence(
            location=root,
            listing=listing,
            references=reach.references,
            must_be_listed=missing,
            known={
                path: at_ms
                for path, at_ms in known.items()
                # What was noted at a place that is the table's no more is forgotten.
                if inside(root, path) or (root == location and not any(inside(one, path) for one in roots))
            },
            held=held,
        )
        for root, listing in listings.items()
    ]
    return _Gathered(evidence=evidence, notes=notes, reach=reach, neighbours=neighbours, store=store)


def _places(table: LoadedTable) -> list[str]:
    return own_roots(table.metadata.location, table.metadata.properties)


def _roots(ctx: JobContext, table: LoadedTable) -> tuple[list[str], list[str]]:
    """The table's location and the other places that its properties name, if they are its alone; why others are not."""
    location, *named = _places(table)
    roots, notes = [location], []
    others = ctx.other_table_locations()
    for place in dict.fromkeys(named):
        if any(holds(root, place) for root in roots):
            continue
        if not ctx.reaches(place):
            notes.append(f"{place} lies outside the table bucket: files there are not looked at")
        elif (other := overlapping(place, [*others, *roots])) is not None:
            notes.append(
                f"{place} overlaps {other}: whose files are whose cannot be told, so none is looked at"
            )
        else:
            roots.append(place)
    return roots, notes


def _still_logged(before: LoadedTable, after: LoadedTable) -> bool:
    return before.metadata_location in metadata_files(after)


def version_hints(location: str) -> list[str]:
    """Files that name the newest metadata for clients without a catalog."""
    return [f"{location.rstrip('/')}/metadata/version-hint.text"]


def _dry_run(planned: OrphanPlan, wanted: Ages) -> Report:
    return Report(
        outcome=Outcome.DONE,
        reason=f"dry run: {counted(len(planned.mark), 'file')} would be marked as unreferenced and "
        f"{len(planned.delete)} deleted",
        figures=_figures(planned)
        | {
            "unreferencedSeconds": wanted.unreferenced_ms // 1000,
            "nonCurrentSeconds": wanted.noncurrent_ms // 1000,
        },
        plan=planned.to_json(),
    )


def _figures(planned: OrphanPlan) -> dict[str, Figure]:
    return {
        "filesListed": planned.listed,
        "filesMarked": len(planned.mark),
        "filesForgotten": len(planned.forget),
        "filesWaiting": planned.waiting,
        "filesHeld": planned.held,
        "filesTooYoung": planned.too_young,
        "filesToDelete": len(planned.delete),
        "bytesToDelete": planned.bytes_to_delete,
    }


def _carry_out(
    ctx: JobContext, job: Job, gathered: _Gathered, planned: OrphanPlan, policy: UnreferencedPolicy
) -> Report:
    ctx.save_plan(planned.to_json())
    ctx.unreferenced.forget(job.table_uuid, planned.forget)
    ctx.unreferenced.mark(job.table_uuid, planned.mark)
    again = _again(ctx, planned, policy)
    if not planned.delete:
        outcome = Outcome.DONE if planned.mark else Outcome.NOTHING
        return Report(outcome=outcome, reason=_told(planned), figures=_figures(planned), again_after_ms=again)
    sizes = {info.path: info.size for info in planned.delete}
    done = delete_in_batches(
        ctx,
        gathered.store,
        list(sizes),
        # The log is asked last: what it lets go can not be held any more.
        lambda batch: ctx.unreferenced.claim(job.table_uuid, gathered.unreferenced(batch)),
        lambda gone: ctx.unreferenced.forget(job.table_uuid, gone),
    )
    held = ctx.unreferenced.held(job.table_uuid, done.kept)
    referenced = [path for path in done.kept if path not in held]
    ctx.unreferenced.forget(job.table_uuid, referenced)
    figures = _figures(planned) | {
        "filesHeld": planned.held + len(held),
        "filesDeleted": len(done.paths),
        "bytesDeleted": sum(sizes[path] for path in done.paths),
        "filesReferencedAfterAll": len(referenced),
        "deleteFailures": done.failures[:_TOLD_FAILURES],
    }
    return _report(planned, done, figures)


def _report(planned: OrphanPlan, done: Deleted, figures: dict[str, Figure]) -> Report:
    reason = f"{counted(len(done.paths), 'unreferenced file')} deleted; {_told(planned)}"
    if done.lease_lost:
        return skipped(f"{reason}; {done.left} left: {done.why_stopped}", **figures)
    if done.failures:
        reason += f"; {len(done.failures)} could not be deleted and stay marked"
    # The next run confirms that nothing is left, or says when the next file is due.
    return Report(
        outcome=Outcome.DONE,
        reason=reason,
        figures=figures,
        again_after_ms=None if done.failures else 0,
    )


def _told(planned: OrphanPlan) -> str:
    return (
        f"{len(planned.mark)} of {counted(planned.listed, 'file')} newly marked as unreferenced, "
        f"{planned.waiting} marked and waiting, {planned.too_young} too young to tell"
    ) + (f", {planned.held} held" if planned.held else "")


def _again(ctx: JobContext, planned: OrphanPlan, policy: UnreferencedPolicy) -> int | None:
    """When the next file is due, if that is before the scheduler comes by."""
    if planned.next_due_ms is None:
        return None
    wait = max(planned.next_due_ms - ctx.clock.now_ms() + 1, 1)
    return wait if wait < policy.interval_seconds * 1000 else None
