"""One run over one compaction plan: execute group by group, commit in batches, clean up what did not make it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count

import structlog

from maintenance.columns import keeps_lineage
from maintenance.compaction.delete_rewrite import execute_deletes
from maintenance.compaction.plan_types import CompactionPlan
from maintenance.compaction.rewrite import Place, Rewritten
from maintenance.compaction.spent import Spent
from maintenance.compaction.work import GroupEnd, GroupWork, new_session
from maintenance.executors.port import Ended, Stopped, WorkLost
from maintenance.outputs import Outputs
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.rewritable import OUTSIDE
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.retry import CommitResult
from table_format.commit.rewrite import Rewrite, RewriteGroup, rewrite
from table_format.commit.rewrite_deletes import DeleteRewrite
from table_format.commit.tree import TreeCache
from table_format.errors import (
    Internal,
    Invalid,
    NoSuchFile,
    TableFormatError,
    Unsupported,
)
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask
from table_format.schema.types import fields_by_id

_log = structlog.get_logger(__name__)

# Says something about the files of one group, nothing about the others.
_OF_ONE_GROUP = (Internal, Invalid, NoSuchFile, Unsupported, WorkLost)


@dataclass(slots=True)
class Progress:
    """What a run has achieved so far."""

    groups: int = 0
    commits: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows_in: int = 0
    rows_deleted: int = 0
    delete_files_removed: int = 0
    delete_rewrites: int = 0
    """Rewrites of deletes alone that were committed."""
    delete_files_written: int = 0
    """Merged position delete files and vectors."""
    conflicts: int = 0
    groups_copied: int = 0
    not_copied: Counter[str] = field(default_factory=Counter)
    """Groups whose rows were decoded and encoded, by reason."""
    data_files_after: int | None = None
    lease_lost: bool = False
    why_stopped: str = LEASE_LOST
    """When `lease_lost`: why, for the report."""
    left_behind: list[str] = field(default_factory=list)
    """Outputs that are in doubt or could not be deleted."""


class Session:
    """Carries a plan out; `progress` tells how far it came, also after an error."""

    def __init__(
        self,
        ctx: JobContext,
        job: Job,
        table: LoadedTable,
        spent: Spent,
        plan: CompactionPlan,
        files: SnapshotLines,
        tasks: Sequence[FileTask],
    ) -> None:
        """Prepare; `files` are those of the snapshot that was planned on, `tasks` those that groups take."""
        self._ctx = ctx
        self._job = job
        self._table = table
        self._spent = spent
        store = self._store = spent.store
        self.plan = plan
        # A million lines are not held while groups are rewritten.
        self._files = files if plan.deletes else replace(files, lines=(), deletes={}, spans=())
        self._tasks = {task.entry.data_file.file_path: task for task in tasks}
        self._outputs = Outputs(ctx, job, table.ident, store)
        self._place = Place(
            store=store,
            metadata=table.metadata,
            ids=ctx.ids,
            name_prefix=f"compact-{job.id}-{ctx.ids.uuid()}-",
            numbers=count(),
            opened=self._outputs.opened,
            go_on=self._go_on,
            settings=ctx.settings,
        )
        self._cache = TreeCache()
        if OUTSIDE not in plan.left_alone:
            for manifest, lines in files.by_manifest():
                self._cache.digests.learn(manifest, lines)
        self.progress = Progress(left_behind=self._outputs.left_behind)

    def carry_out(self) -> None:
        """Execute and commit every group. One that cannot be rewritten stops no other, and is raised after them.

        Raises:
            Internal: rows out were not rows in.
            Invalid, NoSuchFile, Unsupported: an input cannot be read.
            WorkLost: the process that rewrote a group ended before it had.
            CommitStateUnknown: a commit may have happened.
        """
        plan = self.plan
        # Saved before the first byte is written, so that a crashed attempt's outputs can be told by their names.
        self._ctx.save_plan({**plan.to_json(), "output-prefix": self._place.name_prefix})
        failures: list[TableFormatError] = []
        try:
            self._rewrite_groups(plan, failures)
            failures += self._rewrite_deletes(plan)
        except Stopped:
            self._stop()
            return
        finally:
            self._outputs.discard(set(self._place.opened))
        if failures:
            # What may pass decides whether the job is tried again.
            raise next((error for error in failures if isinstance(error, WorkLost)), failures[0])

    def _rewrite_groups(self, plan: CompactionPlan, failures: list[TableFormatError]) -> None:
        batch: list[Rewritten] = []
        reach = self._ctx.reach(self._table.metadata.location)
        outcomes = self._ctx.executor.run(self._works(plan), reach, self._go_on)
        with closing(outcomes):  # whatever happens here, nothing writes any more when it is cleaned up
            for ended in outcomes:
                rewritten = self._taken(ended, failures)
                if rewritten is not None:
                    batch.append(rewritten)
                if len(batch) >= self._ctx.settings.groups_per_commit:
                    self._commit(plan, batch)
                    batch = []
        if batch:
            self._commit(plan, batch)

    def _works(self, plan: CompactionPlan) -> Iterator[GroupWork]:
        """The groups, each when it can begin.

        Raises:
            Stopped: the lease is another's, or the job is to end.
        """
        metadata, session = self._table.metadata.without_history(), new_session()
        for number, group in enumerate(plan.groups):
            if not self._ctx.still_leased():
                raise Stopped
            yield GroupWork(
                group=group,
                tasks={file.path: self._tasks[file.path] for file in group.inputs},
                metadata=metadata,
                session=session,
                name_prefix=f"{self._place.name_prefix}{number:05d}-",
                ids=self._ctx.ids,
                settings=self._ctx.settings,
            )

    def _taken(self, ended: Ended[GroupEnd], failures: list[TableFormatError]) -> Rewritten | None:
        """The rewritten group; None when it failed, which is added to `failures`.

        Raises:
            TableFormatError: the failure says nothing about that group.
        """
        self._spent.rewriting += ended.seconds
        self._spent.throttled += ended.throttled
        for kind, number in ended.calls.items():
            self._spent.store.count(kind, number)
        result, error = ended.result, ended.error
        if result is not None:
            self._place.opened.update(result.opened)
            error = result.error
        elif isinstance(ended.work, GroupWork):
            self._place.opened.update(ended.work.likely_paths(self._store))
        if error is None:
            return None if result is None else result.rewritten
        if not isinstance(error, _OF_ONE_GROUP):
            raise error
        _log.warning("maintenance.group_failed", group=ended.work.title, error=error.message)
        failures.append(error)
        return None

    def _rewrite_deletes(self, plan: CompactionPlan) -> list[TableFormatError]:
        """Execute and commit the rewrites of deletes alone; the errors of those that failed."""
        failures: list[TableFormatError] = []
        for planned in plan.deletes:
            if not self._ctx.still_leased():
                raise Stopped
            try:
                changes = execute_deletes(planned, self._files, self._place)
            except _OF_ONE_GROUP as error:
                _log.warning("maintenance.deletes_failed", first=planned.inputs[0].path, error=error.message)
                failures.append(error)
                continue
            if changes:
                accepted, result = self._send(changes)
                self._count_deletes([change for change in changes if id(change) in accepted], result)
                if not self.progress.lease_lost:
                    self.progress.conflicts += len(changes) - len(accepted)
        return failures

    def _go_on(self) -> None:
        """Between two batches of rows: files that were begun are removed, as none of them was committed.

        Raises:
            Stopped: the job is to end.
        """
        if self._ctx.stopped is not None:
            raise Stopped

    def _stop(self) -> None:
        self.progress.lease_lost = True
        self.progress.why_stopped = self._ctx.stopped or LEASE_LOST

    def _commit(self, plan: CompactionPlan, batch: Sequence[Rewritten]) -> None:
        groups = [_rewrite_group(done, plan, self._table.metadata) for done in batch]
        accepted, result = self._send(groups)
        committed = [done for done, group in zip(batch, groups, strict=True) if id(group) in accepted]
        if result is not None:
            self._count(committed, result.table, result.snapshot_id)
        if not self.progress.lease_lost:
            self.progress.conflicts += len(batch) - len(committed)

    def _send(self, changes: Sequence[Rewrite]) -> tuple[set[int], CommitResult | None]:
        """Commit them; the identities of those that are in the table now. Files of others are deleted, if that is sure.

        Raises:
            CommitStateUnknown: a commit may have happened; every file stays.
        """

        def build(table: LoadedTable) -> tuple[Change | None, list[Rewrite]]:
            return rewrite(
                self._store,
                table,
                [change for change in changes if isinstance(change, RewriteGroup)],
                summary={"maintenance.job-id": str(self._job.id)},
                clock=self._ctx.clock,
                ids=self._ctx.ids,
                cache=self._cache,
                deletes=[change for change in changes if isinstance(change, DeleteRewrite)],
            )

        with self._spent.on_commit():
            accepted, result = self._outputs.send(changes, build, _written_by)
        if self._outputs.stopped is not None:
            self._stop()
        return {id(change) for change in accepted}, result

    def _count(self, committed: Sequence[Rewritten], table: LoadedTable, snapshot_id: int | None) -> None:
        progress = self.progress
        progress.rows_in += sum(done.group.records for done in committed)
        progress.rows_deleted += sum(done.deleted for done in committed)
        progress.groups += len(committed)
        progress.groups_copied += sum(done.not_copied is None for done in committed)
        progress.not_copied.update(done.not_copied for done in committed if done.not_copied is not None)
        progress.files_in += sum(len(done.inputs) for done in committed)
        progress.files_out += sum(len(done.outputs) for done in committed)
        progress.bytes_in += sum(done.group.size for done in committed)
        progress.bytes_out += sum(done.size for done in committed)
        self._count_commit(table, snapshot_id, any_of_ours=bool(committed))

    def _count_deletes(self, committed: Sequence[DeleteRewrite], result: CommitResult | None) -> None:
        self.progress.delete_rewrites += len(committed)
        self.progress.delete_files_written += sum(change.output is not None for change in committed)
        if result is not None:
            self._count_commit(result.table, result.snapshot_id, any_of_ours=bool(committed))

    def _count_commit(self, table: LoadedTable, snapshot_id: int | None, *, any_of_ours: bool) -> None:
        progress = self.progress
        ours = table.metadata.snapshot(snapshot_id) or {}
        removed = ours.get("summary", {}).get("removed-delete-files", "")
        progress.delete_files_removed += int(removed) if any_of_ours and removed.isdecimal() else 0
        progress.commits += 1 if any_of_ours else 0
        head = table.metadata.current_snapshot
        total = (head or {}).get("summary", {}).get("total-data-files", "")
        progress.data_files_after = int(total) if total.isdecimal() else None


def _rewrite_group(done: Rewritten, plan: CompactionPlan, metadata: TableMetadata) -> RewriteGroup:
    return RewriteGroup(
        inputs=[task.entry for task in done.inputs],
        outputs=list(done.outputs),
        base_snapshot_id=plan.snapshot_id,
        base_sequence_number=plan.sequence_number,
        deletes=[entry for task in done.inputs for entry in task.deletes],
        columns=frozenset(fields_by_id(metadata.schema())),
        keeps_lineage=keeps_lineage(metadata),
    )


def _written_by(change: Rewrite) -> set[str]:
    """Paths of the files that the change would add; vectors share theirs."""
    outputs = change.outputs if isinstance(change, RewriteGroup) else [change.output]
    return {output.file_path for output in outputs if output is not None}
