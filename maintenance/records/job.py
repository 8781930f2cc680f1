"""The record expiration job: whole files in one snapshot, rows of others after them, and a report of both.

Every attempt to take files out plans anew on the head it is committed to, so that nothing is decided on a table that
has changed. What leaves the table stays in the store until its snapshots expire: until then the rows can be read back
by time travel.
"""

from datetime import UTC, datetime
from typing import Final

from maintenance.gate import admitted
from maintenance.policy_types import RecordPolicy
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.records.plan import RecordPlan, column_of, plan
from maintenance.records.rows import Progress, Rows, choose
from maintenance.report import Figure, Outcome, Report, skipped
from maintenance.target import is_target, load_target
from maintenance.wording import counted
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.delete import delete_files
from table_format.commit.retry import commit_with_retry
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import CommitFailed, Invalid

_AFTER_CONFLICT_MS: Final = 5_000


def run(ctx: JobContext, job: Job) -> Report:
    """Expire the old rows of one table.

    Raises:
        NoSuchFile: a manifest is gone.
        Internal, Invalid, Unsupported: a file could not be freed of its old rows; all others were.
        CommitStateUnknown: the rows may have gone; the next attempt looks.
        Unavailable: the catalog or the store is away.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, RecordPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    try:
        column_of(table.metadata, policy.column)
    except Invalid as error:
        return skipped(error.message)
    run = _Run(ctx, job, policy)
    return run.dry(table) if job.dry_run else run.commit(table)


class _Run:
    """One run; remembers what each attempt planned."""

    def __init__(self, ctx: JobContext, job: Job, policy: RecordPolicy) -> None:
        self._ctx = ctx
        self._job = job
        self._policy = policy
        self._cache = TreeCache()
        self._planned: RecordPlan | None = None
        self._by_snapshot: dict[int, RecordPlan] = {}
        self._lease_lost = False

    def dry(self, table: LoadedTable) -> Report:
        """What would go."""
        planned = self._plan(table, self._tree(table))
        progress = Progress()
        records = size = 0
        if planned.mixed:
            store = self._ctx.store_for(table.metadata.location)
            chosen = choose(self._ctx, table, store, planned)
            progress.left_alone += chosen.left_alone
            progress.files = len(chosen.tasks)
            files = [task.entry.data_file for task in chosen.tasks]
            records, size = (sum(f.record_count for f in files), sum(f.file_size_in_bytes for f in files))
        if not planned.files and not progress.files:
            return _nothing(planned, progress, self._policy)
        parts = [f"{_told(planned)} would go"] if planned.files else []
        if progress.files:
            parts.append(
                f"{counted(progress.files, 'file')} with {counted(records, 'row')} would be read, and written anew "
                "where enough of them are old"
            )
        return Report(
            outcome=Outcome.DONE,
            reason=f"dry run: {'; '.join(parts)}",
            figures=_left(planned, progress, self._policy)
            | {
                "filesToDelete": len(planned.files),
                "recordsToDelete": planned.records,
                "bytesToDelete": planned.size,
                "filesToRewrite": progress.files,
                "bytesToRewrite": size,
            },
            plan=planned.to_json(),
        )

    def commit(self, table: LoadedTable) -> Report:
        """Take the files out, and then rows out of others."""
        try:
            result = commit_with_retry(
                self._ctx.catalog,
                table.ident,
                self._build,
                store=self._ctx.store_for(table.metadata.location),
                clock=self._ctx.clock,
                ids=self._ctx.ids,
                attempts=self._ctx.settings.commit_attempts,
            )
        except CommitFailed as error:
            reason = f"the table kept changing: {error.message}"
            return Report(outcome=Outcome.CONFLICT, reason=reason, again_after_ms=_AFTER_CONFLICT_MS)
        if self._lease_lost or self._planned is None:
            return skipped(f"nothing was committed: {self._ctx.stopped or LEASE_LOST}")
        done = None if result.snapshot_id is None else self._by_snapshot.get(result.snapshot_id)
        if not self._planned.mixed:
            return _report(done, self._planned, Progress(), self._policy)
        # Files are freed on the table as it is now, of rows that are old by the moment that is planned with now.
        current = load_target(self._ctx, self._job)
        if isinstance(current, Report):
            return _report(done, self._planned, Progress(), self._policy)
        planned = self._plan(current, self._tree(current))
        rows = Rows(self._ctx, self._job, self._policy, current)
        rows.carry_out(planned)
        return _report(done, planned, rows.progress, self._policy)

    def _build(self, current: LoadedTable) -> Change | None:
        if not is_target(current, self._job):
            raise CommitFailed(f"{current.ident} became another table while its rows were expired")
        if not self._ctx.still_leased():
            self._lease_lost = True
            return None
        tree = self._tree(current)
        self._planned = planned = self._plan(current, tree)
        change = delete_files(
            current,
            tree,
            planned.files,
            summary={"maintenance.job-id": str(self._job.id)},
            clock=self._ctx.clock,
            ids=self._ctx.ids,
        )
        if change is not None and change.snapshot_id is not None:
            self._by_snapshot[change.snapshot_id] = planned
        return change

    def _tree(self, table: LoadedTable) -> HeadTree:
        return HeadTree(self._ctx.store_for(table.metadata.location), table.metadata, self._cache)

    def _plan(self, table: LoadedTable, tree: HeadTree) -> RecordPlan:
        return plan(tree.data_by_path, table.metadata, self._policy, self._ctx.clock.now_ms())


def _report(done: RecordPlan | None, planned: RecordPlan, progress: Progress, policy: RecordPolicy) -> Report:
    """How it ended: `done` is what went whole; `planned` is the last plan."""
    whole, size = (0, 0) if done is None else (len(done.files), done.size)
    records = 0 if done is None else done.records
    figures = _left(planned, progress, policy) | {
        # As the S3 Tables API calls them.
        "deletedDataFiles": whole + progress.files_gone,
        "deletedRecords": records + progress.expired,
        "removedFilesSize": size + progress.bytes_gone,
        "filesRewritten": progress.files - progress.files_gone,
        "filesWritten": progress.files - progress.files_gone,
        "bytesRead": progress.bytes_read - progress.bytes_gone,
        "bytesWritten": progress.bytes_written,
        "deletedRecordsByRow": progress.expired,
        "rowsDeleted": progress.deletes_applied,
        "conflicts": progress.conflicts,
        "remainingFiles": progress.remaining,
        "throttledMs": int(progress.throttled * 1000),
    }
    if done is not None:
        figures["dataFilesBefore"] = done.data_files
    if progress.left_behind:
        figures["leftForUnreferencedFileRemoval"] = list(progress.left_behind)
    parts = [] if done is None else [f"{_told(done)} left the table"]
    if progress.files:
        parts.append(
            f"{counted(progress.expired, 'row')} left {counted(progress.files, 'file')} with other rows, "
            f"with {planned.column.name} before {_text(planned.older_than_ms)}"
        )
    if progress.conflicts:
        parts.append(f"{counted(progress.conflicts, 'file')} changed meanwhile: tried again soon")
    if progress.remaining:
        parts.append(f"{counted(progress.remaining, 'file')} left for the next run")
    outcome, again = Outcome.DONE, None
    if progress.stopped is not None:
        outcome = Outcome.SKIPPED
        parts.append(f"stopped: {progress.stopped}")
    elif progress.remaining and (progress.files or not progress.conflicts):
        again = 0
    elif progress.conflicts:
        again = _AFTER_CONFLICT_MS
        outcome = Outcome.DONE if done is not None or progress.files else Outcome.CONFLICT
    if not parts:
        report = _nothing(planned, progress, policy)
        return Report(outcome=report.outcome, reason=report.reason, figures=figures, plan=report.plan)
    plan_json = (done or planned).to_json()
    return Report(
        outcome=outcome, reason="; ".join(parts), figures=figures, plan=plan_json, again_after_ms=again
    )


def _told(planned: RecordPlan) -> str:
    return (
        f"{counted(len(planned.files), 'file')} with {counted(planned.records, 'row')}, "
        f"all with {planned.column.name} before {_text(planned.older_than_ms)},"
    )


def _left(planned: RecordPlan, progress: Progress, policy: RecordPolicy) -> dict[str, Figure]:
    reasons = sorted(planned.left_alone.items() | progress.left_alone.items())
    figures: dict[str, Figure] = {
        "dataFilesBefore": planned.data_files,
        "column": planned.column.name,
        "olderThan": _text(planned.older_than_ms),
        "leftAlone": [f"{number} {reason}" for reason, number in reasons],
    }
    return figures | ({"notes": list(policy.notes)} if policy.notes else {})


def _nothing(planned: RecordPlan, progress: Progress, policy: RecordPolicy) -> Report:
    figures = _left(planned, progress, policy)
    alone = figures["leftAlone"]
    told = ", ".join(alone) if isinstance(alone, list) else ""
    reason = f"no file holds enough rows with {planned.column.name} before {_text(planned.older_than_ms)}"
    return Report(
        outcome=Outcome.NOTHING,
        reason=f"{reason}: {told}" if told else "the table has no data files",
        figures=figures,
        plan=planned.to_json(),
    )


def _text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")
