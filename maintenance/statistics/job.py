"""The statistics job: plan on main's head, read, write the files, enter them in the metadata, report.

What is entered is of one snapshot, which stays what it is: writers that commit meanwhile neither stop the job nor are
stopped by it. A file that another one replaces stays where it is, as somebody may be reading it: it is unreferenced
then, and goes as such.
"""

from typing import Final

from maintenance.executors.port import Stopped
from maintenance.gate import admitted
from maintenance.policy_types import StatisticsPolicy
from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.report import Figure, Outcome, Report, nothing, skipped
from maintenance.statistics.files import Files, kept_blobs, write_partitions, write_statistics
from maintenance.statistics.measure import Measured, measure, reading_of
from maintenance.statistics.partitions import Partitions, read_partitions
from maintenance.statistics.plan import Nothing, StatisticsPlan, plan
from maintenance.target import is_target, load_target
from maintenance.watched import WatchedCatalog
from maintenance.wording import counted
from table_format.catalog import LoadedTable
from table_format.commit.change import MAIN, Change, assert_ref, assert_same_table
from table_format.commit.retry import commit_with_retry
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Internal,
    Invalid,
    NoSuchFile,
    TableFormatError,
    Unsupported,
)
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

_AFTER_CONFLICT_MS: Final = 5_000
_MOST_TOLD: Final = 100


def run(ctx: JobContext, job: Job) -> Report:
    """Compute the statistics of one table's head that are due.

    Raises:
        Internal, Invalid, NoSuchFile, Unsupported: a file can not be read; nothing was entered.
        CommitStateUnknown: the files may have been entered; they stay.
        Unavailable: the catalog or the store is away, or a process that read was lost.
    """
    table = load_target(ctx, job)
    if isinstance(table, Report):
        return table
    admission = admitted(ctx, job, StatisticsPolicy)
    if isinstance(admission, Report):
        return admission
    job, policy = admission
    planned = plan(table.metadata, policy, asked=job.urgent)
    if isinstance(planned, Nothing):
        return nothing(planned.reason, **_notes(policy))
    run = _Run(ctx, job, table, planned, policy)
    try:
        return run.dry() if job.dry_run else run.compute()
    except Stopped:
        return skipped(f"nothing was entered: {ctx.stopped or LEASE_LOST}")
    except NoSuchFile:
        # Files may go when their snapshot went; of one that the table has, a file is missing for good.
        if ctx.catalog.load(table.ident).metadata.snapshot(planned.snapshot_id) is not None:
            raise
        reason = "the snapshot was expired while it was read, and files of it are gone: tried again soon"
        return Report(outcome=Outcome.CONFLICT, reason=reason, again_after_ms=_AFTER_CONFLICT_MS)


class _Run:
    """One run."""

    def __init__(
        self, ctx: JobContext, job: Job, table: LoadedTable, planned: StatisticsPlan, policy: StatisticsPolicy
    ) -> None:
        self._ctx = ctx
        self._job = job
        self._table = table
        self._planned = planned
        self._policy = policy
        self._told = list(planned.told)
        self._files = Files()
        self._failure: TableFormatError | None = None
        """Why the distinct values could not be counted."""
        self._superseded = False
        self._lease_lost = False

    @property
    def _store(self) -> ObjectStore:
        return self._ctx.store_for(self._table.metadata.location)

    def dry(self) -> Report:
        """What would be computed, and how much would be read for it."""
        planned, figures = self._planned, dict[str, Figure]()
        told = []
        if planned.columns:
            reading = reading_of(self._store, self._table.metadata, planned, self._ctx)
            if isinstance(reading, str):
                self._told.append(reading)
            else:
                lines = reading.lines(planned.columns)
                files, size = len(lines), sum(line.file_size_in_bytes for line in lines)
                figures = {"filesToRead": files, "bytesToRead": size, "columns": len(planned.columns)}
                told.append(
                    f"the distinct values of {counted(len(planned.columns), 'column')} would be counted in "
                    f"{counted(files, 'file')} ({counted(size, 'byte')})"
                )
        if planned.partitions:
            told.append("partition statistics would be written")
        if not told:
            return self._nothing()
        reason = f"dry run: {' and '.join(told)}"
        return Report(
            outcome=Outcome.DONE, reason=reason, figures=figures | self._left(), plan=planned.to_json()
        )

    def compute(self) -> Report:
        """Read, write, enter."""
        used: set[str] | None = set()
        try:
            measured, partitions = self._write()
            if not self._files.updates and self._failure is None:
                return self._nothing()
            table, in_doubt = self._enter()
            used = None if in_doubt else _entered(table.metadata)
            report = self._done(table, measured, partitions)
        except CommitFailed as error:
            return Report(
                outcome=Outcome.CONFLICT,
                reason=f"the table kept changing: {error.message}",
                again_after_ms=_AFTER_CONFLICT_MS,
            )
        except CommitStateUnknown:
            used = None
            raise
        except (TableFormatError, Stopped):
            raise
        except BaseException:
            used = None  # nobody knows how far it came
            raise
        finally:
            self._clean(used)
        if self._failure is not None:
            raise self._failure
        return report

    def _write(self) -> tuple[Measured, Partitions | None]:
        """Compute all that is due, and write it; what fails alone stops nothing else."""
        metadata, planned = self._table.metadata, self._planned
        measured, partitions = Measured(), None
        if planned.columns:
            try:
                measured = self._measured()
            except (Internal, Invalid, Unsupported) as error:
                self._failure = error  # which says nothing of the partitions
        if planned.partitions:
            try:
                partitions = read_partitions(self._store, metadata, planned.snapshot_id, self._go_on)
            except Unsupported as error:
                self._told.append(f"no partition statistics: {error.message}")
            else:
                snapshot_id, ids = planned.snapshot_id, self._ctx.ids
                write_partitions(self._store, metadata, snapshot_id, partitions, ids, self._files)
        return measured, partitions

    def _measured(self) -> Measured:
        metadata, planned = self._table.metadata, self._planned
        kept = kept_blobs(self._store, metadata, planned, self._ctx.reaches)
        reading = reading_of(self._store, metadata, planned, self._ctx)
        if isinstance(kept, str) or isinstance(reading, str):
            self._told += [reason for reason in (kept, reading) if isinstance(reason, str)]
            return Measured()
        measured = measure(self._ctx, self._store, metadata, planned, reading)
        write_statistics(self._store, metadata, planned, measured, kept, self._ctx.ids, self._files)
        return measured

    def _go_on(self) -> None:
        if self._ctx.stopped is not None:
            raise Stopped

    def _enter(self) -> tuple[LoadedTable, bool]:
        """Commit the entries; the table afterwards, and whether a commit may yet come that nobody answered."""
        catalog = WatchedCatalog(self._ctx.catalog)
        try:
            result = commit_with_retry(
                catalog,
                self._table.ident,
                self._build,
                store=self._store,
                clock=self._ctx.clock,
                ids=self._ctx.ids,
                attempts=self._ctx.settings.commit_attempts,
            )
        except TableFormatError as error:
            if catalog.in_doubt and not isinstance(error, CommitStateUnknown):
                raise CommitStateUnknown(f"a commit of statistics was not answered; then: {error}") from error
            raise
        return result.table, catalog.in_doubt

    def _build(self, current: LoadedTable) -> Change | None:
        if not is_target(current, self._job):
            raise CommitFailed(f"{current.ident} became another table while its statistics were computed")
        if not self._ctx.still_leased():
            self._lease_lost = True
            return None
        metadata, snapshot_id = current.metadata, self._planned.snapshot_id
        if metadata.snapshot(snapshot_id) is None:
            return None
        entered = _entered(metadata)
        updates = []
        for member, update in self._files.updates.items():
            if _of(metadata, member, snapshot_id) != _of(self._table.metadata, member, snapshot_id):
                self._superseded = self._superseded or _path_of(update, member) not in entered
            else:
                updates.append(update)
        requirements = assert_same_table(metadata)
        if metadata.current_snapshot_id == snapshot_id:
            # As long as it is the head, it cannot have been expired. Later it is looked for, above.
            requirements.append(assert_ref(MAIN, snapshot_id))
        return Change(updates=updates, requirements=requirements)

    def _clean(self, used: set[str] | None) -> None:
        """Delete what was written and certainly not entered; after a commit in doubt (None) nothing."""
        doomed = [] if used is None else [path for path in self._files.opened if path not in used]
        if doomed:
            self._store.delete_many(doomed)

    def _left(self) -> dict[str, Figure]:
        return {"leftAlone": list(self._told), **_notes(self._policy)}

    def _nothing(self) -> Report:
        reason = "; ".join(self._told) or "there is nothing to compute"
        return Report(
            outcome=Outcome.NOTHING, reason=reason, figures=self._left(), plan=self._planned.to_json()
        )

    def _done(self, table: LoadedTable, measured: Measured, partitions: Partitions | None) -> Report:
        entered = _entered(table.metadata)
        done = [
            member for member, update in self._files.updates.items() if _path_of(update, member) in entered
        ]
        if not done:
            return self._not_entered()
        figures: dict[str, Figure] = {"snapshotId": str(self._planned.snapshot_id)} | self._left()
        told = []
        if "statistics" in done:
            figures |= self._counted(measured)
            told.append(f"the distinct values of {counted(len(measured.columns), 'column')}")
        if "partition-statistics" in done and partitions is not None:
            figures |= {
                "partitions": len(partitions.rows),
                "partitionStatisticsBytes": self._files.bytes["partition-statistics"],
            }
            told.append(f"{counted(len(partitions.rows), 'partition')}")
        reason = f"statistics of {' and of '.join(told)} were entered"
        return Report(outcome=Outcome.DONE, reason=reason, figures=figures, plan=self._planned.to_json())

    def _counted(self, measured: Measured) -> dict[str, Figure]:
        values = [f"{c.name} {int(measured.sketches[c.id].estimate)}" for c in measured.columns]
        return {
            "columns": len(measured.columns),
            "columnsContinued": sum(column.continued for column in measured.columns),
            "distinctValues": values[:_MOST_TOLD],
            "filesRead": measured.files,
            "bytesRead": measured.size,
            "rowsRead": measured.rows,
            "statisticsBytes": self._files.bytes["statistics"],
        }

    def _not_entered(self) -> Report:
        if self._lease_lost:
            return skipped(f"nothing was entered: {self._ctx.stopped or LEASE_LOST}")
        why = "others entered theirs" if self._superseded else "the snapshot was expired"
        reason = f"nothing was entered: {why} meanwhile; tried again soon"
        return Report(outcome=Outcome.CONFLICT, reason=reason, again_after_ms=_AFTER_CONFLICT_MS)


def _notes(policy: StatisticsPolicy) -> dict[str, list[str]]:
    return {"notes": list(policy.notes)} if policy.notes else {}


def _of(metadata: TableMetadata, member: str, snapshot_id: int) -> JsonObject | None:
    """The entry of that snapshot."""
    entries = metadata.statistics if member == "statistics" else metadata.partition_statistics
    return next((entry for entry in entries if entry["snapshot-id"] == snapshot_id), None)


def _path_of(update: JsonObject, member: str) -> str:
    return str(update[member]["statistics-path"])


def _entered(metadata: TableMetadata) -> set[str]:
    """Every statistics file that the metadata names."""
    return {entry["statistics-path"] for entry in (*metadata.statistics, *metadata.partition_statistics)}
