"""The compaction job: load, plan, carry the plan out, report."""

from collections.abc import Callable
from dataclasses import replace

from maintenance.compaction.layout import layout_of
from maintenance.compaction.plan import plan
from maintenance.compaction.plan_types import CompactionPlan, Nothing
from maintenance.compaction.session import Progress, Session
from maintenance.compaction.spent import Spent
from maintenance.gate import admitted
from maintenance.policy_types import CompactionPolicy
from maintenance.ports import Job, JobContext, JobSettings
from maintenance.report import Figure, Outcome, Report
from maintenance.rewritable import OUTSIDE, own_files
from maintenance.target import load_target
from maintenance.wording import are, counted
from table_format.catalog import LoadedTable
from table_format.io.counted import CountedStore
from table_format.io.store import ObjectStore
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import with_deletes_that_name_them
from table_format.scan.lines import SnapshotLines, snapshot_lines, whole_tasks
from table_format.scan.plan import FileTask

_AFTER_CONFLICT_MS = 5_000


def run(ctx: JobContext, job: Job) -> Report:
    """Compact one table as far as one run goes.

    Raises:
        Internal, Invalid, NoSuchFile, Unsupported: a group could not be rewritten faithfully; all others were.
        CommitStateUnknown: a commit may have happened; its files stay.
        Unavailable: the catalog or the store is away.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, CompactionPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    spent = Spent(ctx.clock, CountedStore(ctx.store_for(table.metadata.location)))
    note = layout_of(table.metadata, policy.strategy, policy.sort_order).note
    policy = policy if note is None else replace(policy, notes=(*policy.notes, note))
    session = _prepared(ctx, job, table, policy, spent)
    if isinstance(session, Report):
        return session
    session.carry_out()
    return _report(session.plan, session.progress, policy, spent)


def _prepared(
    ctx: JobContext, job: Job, table: LoadedTable, policy: CompactionPolicy, spent: Spent
) -> Session | Report:
    """What is to be carried out, or the report of a run that carries nothing out."""
    with spent.on_planning():
        found = planned_of(spent.store, table.metadata, policy, ctx.settings, ctx.clock.now_ms(), ctx.reaches)
    if isinstance(found, Report):
        return found
    planned, files, tasks = found
    if isinstance(planned, Nothing):
        figures = _left_alone(planned, policy) | {"dataFilesBefore": planned.data_files} | spent.figures()
        return Report(outcome=Outcome.NOTHING, reason=planned.reason, figures=figures, plan=planned.to_json())
    if job.dry_run:
        return _dry_run(planned, policy)
    return Session(ctx, job, table, spent, planned, files, tasks)


def planned_of(
    store: ObjectStore,
    metadata: TableMetadata,
    policy: CompactionPolicy,
    settings: JobSettings,
    now_ms: int,
    reaches: Callable[[str], bool],
) -> tuple[CompactionPlan | Nothing, SnapshotLines, list[FileTask]] | Report:
    """The plan for the table's head, its files, and those that groups take.

    Of all others only what planning needs is read and held.

    Raises:
        NoSuchFile, Invalid: a manifest cannot be read.
    """
    found = own_files(reaches, snapshot_lines(store, metadata))
    if isinstance(found, Report):
        return found
    files, foreign = found
    files = with_deletes_that_name_them(store, files)
    planned = plan(files, metadata, policy, settings, now_ms)
    if foreign:
        planned = replace(planned, left_alone={**planned.left_alone, OUTSIDE: foreign})
    if isinstance(planned, Nothing):
        return planned, files, []
    paths = {file.path for group in planned.groups for file in group.inputs}
    return planned, files, whole_tasks(store, metadata, files, paths)


def _left_alone(planned: CompactionPlan | Nothing, policy: CompactionPolicy) -> dict[str, Figure]:
    figures: dict[str, Figure] = {
        "leftAlone": [f"{number} {reason}" for reason, number in planned.left_alone.items()]
    }
    return figures | ({"notes": list(policy.notes)} if policy.notes else {})


def _dry_run(planned: CompactionPlan, policy: CompactionPolicy) -> Report:
    files = sum(len(group.inputs) for group in planned.groups)
    size = sum(group.size for group in planned.groups)
    deletes = len({file.path for plan in planned.deletes for file in plan.inputs})
    also = f"; {counted(deletes, 'position delete file')} would be stored anew" if planned.deletes else ""
    return Report(
        outcome=Outcome.DONE,
        reason=f"dry run: {counted(len(planned.groups), 'group')} of {counted(files, 'file')} "
        f"({counted(size, 'byte')}) would become one file each{also}",
        figures=_left_alone(planned, policy)
        | {
            "dataFilesBefore": planned.data_files,
            "groups": len(planned.groups),
            "remainingGroups": planned.remaining_groups,
            "filesToRewrite": files,
            "bytesToRewrite": size,
            "deleteFilesToRewrite": deletes,
        },
        plan=planned.to_json(),
    )


def _report(planned: CompactionPlan, progress: Progress, policy: CompactionPolicy, spent: Spent) -> Report:
    figures: dict[str, Figure] = _left_alone(planned, policy) | {
        "dataFilesBefore": planned.data_files,
        "groups": progress.groups,
        "groupsCopied": progress.groups_copied,
        "groupsRewritten": progress.groups - progress.groups_copied,
        "notCopied": [f"{number} {reason}" for reason, number in sorted(progress.not_copied.items())],
        "conflicts": progress.conflicts,
        "remainingGroups": planned.remaining_groups,
        "commits": progress.commits,
        "filesRewritten": progress.files_in,
        "filesWritten": progress.files_out,
        "bytesRead": progress.bytes_in,
        "bytesWritten": progress.bytes_out,
        "rowsRead": progress.rows_in,
        "rowsDeleted": progress.rows_deleted,
        "deleteFilesRemoved": progress.delete_files_removed,
        "deleteFilesWritten": progress.delete_files_written,
    }
    figures |= spent.figures() | spent.spared(
        before=planned.data_files,
        data_files=progress.files_in - progress.files_out,
        delete_files=progress.delete_files_removed - progress.delete_files_written,
    )
    if progress.data_files_after is not None:
        figures["dataFilesAfter"] = progress.data_files_after
    if progress.left_behind:
        figures["leftForUnreferencedFileRemoval"] = progress.left_behind
    outcome, reason, again = _outcome(planned, progress)
    return Report(
        outcome=outcome, reason=reason, figures=figures, plan=planned.to_json(), again_after_ms=again
    )


def _outcome(planned: CompactionPlan, progress: Progress) -> tuple[Outcome, str, int | None]:
    if progress.lease_lost:
        reason = f"stopped after {counted(progress.groups, 'group')}: {progress.why_stopped}"
        return Outcome.SKIPPED, reason, None
    if not progress.groups and not progress.delete_rewrites:
        if not progress.conflicts:
            return Outcome.NOTHING, "the delete files that apply name no row of a live file", None
        lost = counted(progress.conflicts, "group")
        reason = f"nothing was committed: {lost} lost to concurrent changes of files; tried again soon"
        return Outcome.CONFLICT, reason, _AFTER_CONFLICT_MS
    done = f"{counted(progress.files_in, 'file')} became {progress.files_out}"
    if not progress.groups:
        done = "position deletes were stored anew"
    told = [f"{done} in {counted(progress.commits, 'commit')}"]
    if progress.delete_files_written:
        told.append(
            f"{counted(progress.delete_files_written, 'delete file or vector', 'delete files or vectors')} written"
        )
    if progress.rows_deleted:
        told.append(f"{counted(progress.rows_deleted, 'deleted row')} left out")
    if progress.delete_files_removed:
        removed = progress.delete_files_removed
        told.append(f"{counted(removed, 'delete file')} {are(removed)} gone")
    if progress.conflicts:
        told.append(f"{counted(progress.conflicts, 'group')} lost to concurrent changes")
    if planned.remaining_groups:
        left = planned.remaining_groups
        told.append(f"{counted(left, 'group')} {are(left)} left for the next run")
    # What was written may be the input of the next tier, so the next run looks at once.
    return Outcome.DONE, "; ".join(told), 0
