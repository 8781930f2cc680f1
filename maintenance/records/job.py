"""The record expiration job: plan on main's head, take the files out in one snapshot, report.

Every attempt plans anew on the head it is committed to, so that nothing is decided on a table that has changed. The
files themselves stay until their snapshots expire: until then the rows can be read back by time travel.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from maintenance.gate import admitted
from maintenance.policy_types import RecordPolicy
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.records.plan import RecordPlan, column_of, plan
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
        if not planned.files:
            return _nothing(planned, self._policy)
        return Report(
            outcome=Outcome.DONE,
            reason=f"dry run: {_told(planned)} would go",
            figures=_left(planned, self._policy)
            | {
                "filesToDelete": len(planned.files),
                "recordsToDelete": planned.records,
                "bytesToDelete": planned.size,
            },
            plan=planned.to_json(),
        )

    def commit(self, table: LoadedTable) -> Report:
        """Take the files out."""
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
        done = None if result.snapshot_id is None else self._by_snapshot.get(result.snapshot_id)
        if done is None:
            if self._lease_lost or self._planned is None:
                return skipped(f"nothing was committed: {self._ctx.stopped or LEASE_LOST}")
            report = _nothing(self._planned, self._policy)
            return replace(report, figures={**report.figures, **_metrics(0, 0, 0)})
        return Report(
            outcome=Outcome.DONE,
            reason=f"{_told(done)} left the table",
            figures=_left(done, self._policy) | _metrics(len(done.files), done.records, done.size),
            plan=done.to_json(),
        )

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


def _told(planned: RecordPlan) -> str:
    return (
        f"{counted(len(planned.files), 'file')} with {counted(planned.records, 'row')}, "
        f"all with {planned.column} before {_text(planned.older_than_ms)},"
    )


def _metrics(files: int, records: int, size: int) -> dict[str, Figure]:
    """As the S3 Tables API calls them."""
    return {"deletedDataFiles": files, "deletedRecords": records, "removedFilesSize": size}


def _left(planned: RecordPlan, policy: RecordPolicy) -> dict[str, Figure]:
    figures: dict[str, Figure] = {
        "dataFilesBefore": planned.data_files,
        "column": planned.column,
        "olderThan": _text(planned.older_than_ms),
        "leftAlone": [f"{number} {reason}" for reason, number in planned.left_alone.items()],
    }
    return figures | ({"notes": list(policy.notes)} if policy.notes else {})


def _nothing(planned: RecordPlan, policy: RecordPolicy) -> Report:
    told = ", ".join(f"{number} {reason}" for reason, number in planned.left_alone.items())
    reason = f"no file holds only rows with {planned.column} before {_text(planned.older_than_ms)}"
    return Report(
        outcome=Outcome.NOTHING,
        reason=f"{reason}: {told}" if told else "the table has no data files",
        figures=_left(planned, policy),
        plan=planned.to_json(),
    )


def _text(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")
