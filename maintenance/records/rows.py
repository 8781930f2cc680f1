"""Old rows leave files that hold others too: the files are written anew without them, and replaced in batches.

What a batch replaces is decided by the table it is committed to: a file that changed, went, or got deletes meanwhile
is left to the next run. Its rows go or stay by their own values alone.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import structlog

from maintenance.columns import keeps_lineage
from maintenance.executors.port import Ended, Stopped, WorkLost
from maintenance.outputs import Outputs
from maintenance.policy_types import RecordPolicy
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.records.plan import Column, RecordPlan, column_of
from maintenance.records.rewrite import Freed, FreedEnd, FreeWork
from maintenance.report import Report
from maintenance.rewritable import OUTSIDE, own_files, why_not_file, why_not_specs
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.rewrite import RewriteGroup, rewrite
from table_format.commit.summary import Operation
from table_format.commit.tree import TreeCache
from table_format.errors import CommitFailed, Internal, Invalid, NoSuchFile, TableFormatError, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import with_deletes_that_name_them
from table_format.scan.lines import snapshot_lines, whole_tasks
from table_format.scan.plan import FileTask
from table_format.schema.types import fields_by_id

_log = structlog.get_logger(__name__)

_OF_ONE_FILE = (Internal, Invalid, NoSuchFile, Unsupported, WorkLost)
TOO_FEW = "with old rows, but too few of them, as counted"


@dataclass(slots=True)
class Progress:
    """What has become of the files so far."""

    files: int = 0
    """Replaced, or gone as no row was left."""
    files_gone: int = 0
    bytes_gone: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    expired: int = 0
    """Old rows that left."""
    deletes_applied: int = 0
    """Rows that row-level deletes had taken away before."""
    conflicts: int = 0
    remaining: int = 0
    """Files left to the next run, as this one has read enough."""
    throttled: float = 0.0
    """Seconds of reading and writing that went by waiting, as it was too fast."""
    left_alone: Counter[str] = field(default_factory=Counter)
    left_behind: list[str] = field(default_factory=list)
    stopped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The files to be written anew, as they are read, and those that cannot be."""

    tasks: list[FileTask]
    """In the order of the plan."""
    snapshot_id: int
    sequence_number: int
    left_alone: Counter[str]


def choose(ctx: JobContext, table: LoadedTable, store: ObjectStore, planned: RecordPlan) -> Chosen:
    """The planned files with the deletes that apply to them, less those that cannot be rewritten without doubt.

    Raises:
        NoSuchFile, Invalid: a manifest cannot be read.
    """
    metadata, left = table.metadata, Counter[str]()
    own = own_files(ctx.reaches, snapshot_lines(store, metadata))
    if isinstance(own, Report):
        left[own.reason] = len(planned.mixed)
        return Chosen(tasks=[], snapshot_id=0, sequence_number=0, left_alone=left)
    files = with_deletes_that_name_them(store, own[0])
    paths = [mixed.file.file_path for mixed in planned.mixed]
    by_path = {
        task.entry.data_file.file_path: task for task in whole_tasks(store, metadata, files, frozenset(paths))
    }
    specs = why_not_specs(metadata)
    tasks: list[FileTask] = []
    for path in paths:
        task = by_path.get(path)
        reason = OUTSIDE if task is None else why_not_file(FileLine.of(task.entry), task.deletes, specs)
        if task is None or reason is not None:
            left[reason or OUTSIDE] += 1
        else:
            tasks.append(task)
    return Chosen(
        tasks=tasks,
        snapshot_id=files.snapshot_id or 0,
        sequence_number=files.sequence_number,
        left_alone=left,
    )


class Rows:
    """One run over the files of one plan."""

    def __init__(self, ctx: JobContext, job: Job, policy: RecordPolicy, table: LoadedTable) -> None:
        self._ctx = ctx
        self._job = job
        self._policy = policy
        self._table = table
        self._store = ctx.store_for(table.metadata.location)
        self._outputs = Outputs(ctx, job, table.ident, self._store)
        self._cache = TreeCache()
        self._prefix = f"expire-{job.id}-{ctx.ids.uuid()}-"
        self._begun = 0
        """Files of the plan that were begun, or are done."""
        self._begun_bytes = 0
        """Of those that count for what a run may read."""
        self.progress = Progress(left_behind=self._outputs.left_behind)

    def carry_out(self, planned: RecordPlan) -> None:
        """Free file by file, and commit. One that cannot be written anew stops no other, and is raised after them.

        Raises:
            Internal, Invalid, NoSuchFile, Unsupported: a file cannot be read, or its rows do not add up.
            WorkLost: the process that wrote a file ended before it had.
            CommitStateUnknown: a commit may have happened.
        """
        chosen = choose(self._ctx, self._table, self._store, planned)
        self.progress.left_alone += chosen.left_alone
        # Saved before the first byte is written, so that a crashed attempt's outputs can be told by their names.
        self._ctx.save_plan({**planned.to_json(), "output-prefix": self._prefix})
        failures: list[TableFormatError] = []
        try:
            self._free(planned, chosen, failures)
        except Stopped:
            self.progress.stopped = self._ctx.stopped or LEASE_LOST
            return
        finally:
            self._outputs.discard(set(self._outputs.opened))
        if failures:
            # What may pass decides whether the job is tried again.
            raise next((error for error in failures if isinstance(error, WorkLost)), failures[0])

    def _free(self, planned: RecordPlan, chosen: Chosen, failures: list[TableFormatError]) -> None:
        batch: list[Freed] = []
        begun_before = -1
        # Beside a file that was only counted another one may have been thought to be too much: it is not any more.
        while begun_before < self._begun < len(chosen.tasks):
            begun_before = self._begun
            with closing(self._freed(planned, chosen, failures)) as found:
                for freed in found:
                    batch.append(freed)
                    if len(batch) >= self._ctx.settings.groups_per_commit:
                        self._commit(planned, chosen, batch)
                        batch = []
        self.progress.remaining = len(chosen.tasks) - self._begun
        if batch:
            self._commit(planned, chosen, batch)

    def _freed(
        self, planned: RecordPlan, chosen: Chosen, failures: list[TableFormatError]
    ) -> Generator[Freed, None, None]:
        """The next files that were freed, as far as a run may read."""
        reach = self._ctx.reach(self._table.metadata.location)
        outcomes = self._ctx.executor.run(self._works(planned, chosen), reach, self._go_on)
        with closing(outcomes):  # whatever happens, nothing writes any more when it is cleaned up
            for ended in outcomes:
                freed = self._taken(ended, failures)
                if freed is not None:
                    yield freed

    def _works(self, planned: RecordPlan, chosen: Chosen) -> Iterator[FreeWork]:
        """The files, each when it can begin, until the run has read enough of such as have old rows enough.

        Raises:
            Stopped: the lease is another's, or the job is to end.
        """
        metadata = self._table.metadata.without_history()
        for number, task in enumerate(chosen.tasks[self._begun :], self._begun):
            if not self._ctx.still_leased():
                raise Stopped
            size = task.entry.data_file.file_size_in_bytes
            if self._begun_bytes and self._begun_bytes + size > self._policy.max_bytes_per_run:
                return
            self._begun = number + 1
            self._begun_bytes += size
            yield FreeWork(
                task=task,
                metadata=metadata,
                column=planned.column,
                limit=planned.limit,
                share=self._policy.row_delete_share,
                name=f"{self._prefix}{number:05d}.parquet",
            )

    def _go_on(self) -> None:
        if self._ctx.stopped is not None:
            raise Stopped

    def _taken(self, ended: Ended[FreedEnd], failures: list[TableFormatError]) -> Freed | None:
        """The freed file; None when it stays as it is, or failed, which is added to `failures`.

        Raises:
            TableFormatError: the failure says nothing about that file.
        """
        self.progress.throttled += ended.throttled
        result, error = ended.result, ended.error
        if result is not None:
            self._outputs.opened.update(result.opened)
            error = result.error
        elif isinstance(ended.work, FreeWork):
            self._outputs.opened.add(ended.work.path)
        if error is not None:
            if not isinstance(error, _OF_ONE_FILE):
                raise error
            _log.warning("maintenance.rows_not_expired", work=ended.work.title, error=error.message)
            failures.append(error)
            if isinstance(ended.work, FreeWork):
                self._begun_bytes -= ended.work.task.entry.data_file.file_size_in_bytes
            return None
        freed = None if result is None else result.freed
        if freed is not None and freed.too_few:
            self._begun_bytes -= freed.task.entry.data_file.file_size_in_bytes
            self.progress.left_alone[TOO_FEW] += 1
            return None
        return freed

    def _commit(self, planned: RecordPlan, chosen: Chosen, batch: Sequence[Freed]) -> None:
        groups = [_group(freed, chosen, self._table.metadata) for freed in batch]

        def build(table: LoadedTable) -> tuple[Change | None, Sequence[RewriteGroup]]:
            self._check_column(table.metadata, planned.column)
            change, dropped = rewrite(
                self._store,
                table,
                groups,
                summary={"maintenance.job-id": str(self._job.id)},
                clock=self._ctx.clock,
                ids=self._ctx.ids,
                cache=self._cache,
                operation=Operation.OVERWRITE,
            )
            return change, [group for group in groups if any(group is lost for lost in dropped)]

        accepted, _ = self._outputs.send(groups, build, _written_by)
        if self._outputs.stopped is not None:
            self.progress.stopped = self._outputs.stopped
        taken = {id(group) for group in accepted}
        self._count([freed for freed, group in zip(batch, groups, strict=True) if id(group) in taken])
        if self._outputs.stopped is None:
            self.progress.conflicts += len(batch) - len(accepted)

    def _check_column(self, metadata: TableMetadata, planned: Column) -> None:
        """Make sure that the rows' age is still told by the same column.

        Raises:
            CommitFailed: the policy means another one now, or none.
        """
        try:
            same = column_of(metadata, self._policy.column).id == planned.id
        except Invalid:
            same = False
        if not same:
            raise CommitFailed(f"column {planned.name!r} does not tell the age of rows any more")

    def _count(self, committed: Sequence[Freed]) -> None:
        progress = self.progress
        progress.files += len(committed)
        progress.bytes_read += sum(freed.task.entry.data_file.file_size_in_bytes for freed in committed)
        progress.bytes_written += sum(
            freed.output.file_size_in_bytes for freed in committed if freed.output is not None
        )
        gone = [freed.task.entry.data_file for freed in committed if freed.output is None]
        progress.files_gone += len(gone)
        progress.bytes_gone += sum(file.file_size_in_bytes for file in gone)
        progress.expired += sum(freed.old for freed in committed)
        progress.deletes_applied += sum(freed.deleted for freed in committed)


def _group(freed: Freed, chosen: Chosen, metadata: TableMetadata) -> RewriteGroup:
    return RewriteGroup(
        inputs=[freed.task.entry],
        outputs=[] if freed.output is None else [freed.output],
        base_snapshot_id=chosen.snapshot_id,
        base_sequence_number=chosen.sequence_number,
        deletes=list(freed.task.deletes),
        columns=frozenset(fields_by_id(metadata.schema())),
        keeps_lineage=keeps_lineage(metadata),
    )


def _written_by(group: RewriteGroup) -> set[str]:
    return {output.file_path for output in group.outputs}
