"""The expiration job: metadata first, then the files that only the removed snapshots needed.

The stored plan carries an interrupted run on: phase "committing" names the metadata versions that still know the
snapshots about to go; phase "deleting" lists the files. Whatever is stored, a file is deleted only if the newest
metadata does not reach it, checked anew before each batch.
"""

from maintenance.expiration.plan import ExpirationPlan, Nothing, plan
from maintenance.expiration.session import Expired, Intent, collect, delete
from maintenance.expiration.unused import cleaned
from maintenance.gate import admitted
from maintenance.neighbours import Neighbours
from maintenance.places import own_roots
from maintenance.policy_types import SnapshotPolicy
from maintenance.ports import Job, JobContext
from maintenance.reach import Reach, bytes_of, reach_of_gone
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import gc_disabled, is_target, load_target
from maintenance.wording import are, counted
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.expire import expire
from table_format.commit.retry import commit_with_retry
from table_format.errors import CommitFailed
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

_AFTER_CONFLICT_MS = 5_000
_TOLD_FAILURES = 20


def run(ctx: JobContext, job: Job) -> Report:
    """Expire snapshots of one table and delete what became unreachable.

    Raises:
        NoSuchFile: a manifest that is still needed cannot be read; nothing is deleted.
        CommitStateUnknown: the snapshots may have gone; the next attempt looks.
        Unavailable: the catalog or the store is away.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, SnapshotPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    report = _expire(ctx, job, table, policy)
    return cleaned(ctx, job, table, report) if policy.clean_expired_metadata else report


def _expire(ctx: JobContext, job: Job, table: LoadedTable, policy: SnapshotPolicy) -> Report:
    if gc_disabled(table):
        return skipped("the table property gc.enabled is false: its files may belong to another table")
    if job.dry_run:
        return _dry_run(ctx, job, table, policy)
    if job.plan is not None and (resumed := _resume(ctx, job, table, policy, job.plan)) is not None:
        return resumed
    return _start(ctx, job, table, policy)


def _plan(ctx: JobContext, metadata: TableMetadata, policy: SnapshotPolicy) -> ExpirationPlan | Nothing:
    return plan(metadata, policy, ctx.clock.now_ms(), limit=ctx.settings.max_snapshots_per_run)


def _dry_run(ctx: JobContext, job: Job, table: LoadedTable, policy: SnapshotPolicy) -> Report:
    planned = _plan(ctx, table.metadata, policy)
    if isinstance(planned, Nothing):
        return _nothing(ctx, planned, policy)
    store = ctx.store_for(table.metadata.location)
    kept = Reach(ctx, job, store)
    kept.cover_all_but(table, planned.snapshot_ids)
    metadata = table.metadata
    neighbours = Neighbours(ctx, own_roots(metadata.location, metadata.properties), kept.references)
    neighbours.cover()
    paths = reach_of_gone(store, table.metadata, planned.snapshot_ids, kept.references)
    return Report(
        outcome=Outcome.DONE,
        reason=f"dry run: {counted(len(planned.snapshot_ids), 'snapshot')} would expire, then "
        f"{counted(len(paths), 'file')} be deleted",
        figures=_figures(planned, policy)
        | {"filesToDelete": len(paths), "bytesToDelete": bytes_of(store, table.metadata.location, paths)},
        plan={**planned.to_json(), "paths": paths},
    )


def _start(ctx: JobContext, job: Job, table: LoadedTable, policy: SnapshotPolicy) -> Report:
    intents: list[Intent] = []
    nothing = Nothing(reason="no snapshot is left to expire")

    def build(current: LoadedTable) -> Change | None:
        nonlocal nothing
        if not is_target(current, job):
            raise CommitFailed(f"{current.ident} became another table while its snapshots were expired")
        planned = _plan(ctx, current.metadata, policy)
        if isinstance(planned, Nothing):
            nothing = planned
            return None
        intents.append(Intent(plan=planned, location=current.metadata_location, metadata=current.metadata))
        # Saved before the commit: after it, only this tells which files the snapshots had.
        ctx.save_plan({"phase": "committing", "intents": [intent.to_json() for intent in intents]})
        return expire(current, planned.snapshot_ids, planned.refs)

    try:
        result = commit_with_retry(
            ctx.catalog,
            table.ident,
            build,
            store=ctx.store_for(table.metadata.location),
            clock=ctx.clock,
            ids=ctx.ids,
            attempts=ctx.settings.commit_attempts,
        )
    except CommitFailed as error:
        reason = f"the table kept changing: {error.message}"
        return Report(outcome=Outcome.CONFLICT, reason=reason, again_after_ms=_AFTER_CONFLICT_MS)
    if not intents:
        return _nothing(ctx, nothing, policy)
    expired = collect(ctx, job, table, intents)
    if isinstance(expired, Report):
        return expired
    if not result.applied and not expired.plan.snapshot_ids:
        return _nothing(ctx, nothing, policy)
    return _delete(ctx, job, expired, policy)


def _resume(
    ctx: JobContext, job: Job, table: LoadedTable, policy: SnapshotPolicy, saved: JsonObject
) -> Report | None:
    """Carry an interrupted run on; None when nothing of it is left to do."""
    if saved.get("phase") == "deleting":
        found = Expired(
            plan=ExpirationPlan.from_json(saved),
            paths=tuple(saved["paths"]),
            reach=Reach(ctx, job, ctx.store_for(table.metadata.location)),
            table=table,
        )
        return _delete(ctx, job, found, policy)
    if saved.get("phase") != "committing":
        return None
    store = ctx.store_for(table.metadata.location)
    intents = [intent for text in saved["intents"] if (intent := Intent.restored(store, text)) is not None]
    found_or_report = collect(ctx, job, table, intents)
    if isinstance(found_or_report, Report):
        return found_or_report
    return _delete(ctx, job, found_or_report, policy) if found_or_report.plan.snapshot_ids else None


def _delete(ctx: JobContext, job: Job, expired: Expired, policy: SnapshotPolicy) -> Report:
    planned = expired.plan
    cleanup = delete(ctx, expired)
    done = cleanup.deleted
    figures = _figures(planned, policy) | {
        "filesDeleted": len(done.paths),
        "filesStillReferenced": len(done.kept),
        "filesOutsideTheTable": cleanup.foreign,
        "deleteFailures": done.failures[:_TOLD_FAILURES],
    }
    reason = f"{counted(len(planned.snapshot_ids), 'snapshot')} expired, {counted(len(done.paths), 'file')} deleted"
    if done.lease_lost:
        return skipped(f"{reason}, {done.left} left: {done.why_stopped}", **figures)
    if cleanup.why_kept is not None:
        reason += f", the others kept: {cleanup.why_kept}"
    if done.failures:
        reason += f", {len(done.failures)} could not be deleted and are left to unreferenced-file removal"
    if planned.remaining:
        reason += f"; {counted(planned.remaining, 'snapshot')} {are(planned.remaining)} left for the next run"
    return Report(
        outcome=Outcome.DONE,
        reason=reason,
        figures=figures,
        plan={"phase": "done", **planned.to_json()},
        # An interrupted run that was carried on has not looked at what expired since.
        again_after_ms=0 if planned.remaining or job.plan is not None else None,
    )


def _figures(planned: ExpirationPlan, policy: SnapshotPolicy) -> dict[str, Figure]:
    figures: dict[str, Figure] = {
        "snapshotsExpired": len(planned.snapshot_ids),
        "refsExpired": list(planned.refs),
        "snapshotsKept": planned.kept,
        "remainingSnapshots": planned.remaining,
    }
    return figures | ({"notes": list(policy.notes)} if policy.notes else {})


def _nothing(ctx: JobContext, planned: Nothing, policy: SnapshotPolicy) -> Report:
    due = planned.next_due_ms
    wait = None if due is None else max(due - ctx.clock.now_ms() + 1, 1)
    # Beyond the interval the scheduler comes by anyway.
    soon = wait is not None and wait < policy.interval_seconds * 1000
    return Report(
        outcome=Outcome.NOTHING,
        reason=planned.reason,
        figures={"notes": list(policy.notes)} if policy.notes else {},
        again_after_ms=wait if soon else None,
    )
