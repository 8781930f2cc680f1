"""Files that a run wrote, until it is sure whose they are: committed, removed, or left for whoever finds them later.

Outputs that were never sent to the catalog, or were certainly refused, are deleted at once. After a commit whose
outcome is in doubt nothing is deleted: what turns out unreferenced is found by the unreferenced-file job.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from maintenance.ports import LEASE_LOST, Job, JobContext
from maintenance.target import is_target
from maintenance.watched import CERTAINLY_REFUSED, WatchedCatalog
from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.retry import CommitResult, commit_with_retry
from table_format.errors import CommitFailed
from table_format.ident import TableIdent
from table_format.io.store import ObjectStore

C = TypeVar("C")

Build: TypeAlias = Callable[[LoadedTable], tuple[Change | None, Sequence[C]]]
"""The change of some pieces for the table as it is now, and those of them that lost their race."""


class Outputs:
    """The files of one run on one table."""

    def __init__(self, ctx: JobContext, job: Job, ident: TableIdent, store: ObjectStore) -> None:
        self._ctx = ctx
        self._job = job
        self._ident = ident
        self._store = store
        self.opened: set[str] = set()
        """Every path that writing may have left an object at, and that no commit has settled."""
        self.left_behind: list[str] = []
        """What is in doubt or could not be deleted."""
        self.stopped: str | None = None
        """Why a commit was not made: the lease is another's, or the job is to end."""

    def send(
        self, changes: Sequence[C], build: Build[C], written_by: Callable[[C], set[str]]
    ) -> tuple[list[C], CommitResult | None]:
        """Commit them; those that are in the table now. Files of others are deleted, if that is sure.

        Raises:
            CommitStateUnknown: a commit may have happened; every file stays.
        """
        dropped_by_snapshot: dict[int, Sequence[C]] = {}

        def checked(table: LoadedTable) -> Change | None:
            if not is_target(table, self._job):
                raise CommitFailed(f"{table.ident} became another table meanwhile")
            if not self._ctx.still_leased():
                self.stopped = self._ctx.stopped or LEASE_LOST
                raise CommitFailed(f"not committed: {self.stopped}")
            change, dropped = build(table)
            if change is not None and change.snapshot_id is not None:
                dropped_by_snapshot[change.snapshot_id] = dropped
            return change

        catalog = WatchedCatalog(self._ctx.catalog)
        accepted: list[C] = []
        result: CommitResult | None = None
        in_doubt = True
        try:
            result = commit_with_retry(
                catalog,
                self._ident,
                checked,
                store=self._store,
                clock=self._ctx.clock,
                ids=self._ctx.ids,
                attempts=self._ctx.settings.commit_attempts,
            )
            accepted = _accepted(changes, result.snapshot_id, dropped_by_snapshot)
            in_doubt = catalog.in_doubt or (result.applied and not accepted)
        except CERTAINLY_REFUSED as error:
            in_doubt = catalog.in_doubt
            if not isinstance(error, CommitFailed):
                raise
        finally:
            kept = {path for change in accepted for path in written_by(change)}
            self._settle(kept, {path for change in changes for path in written_by(change)} - kept, in_doubt)
        return accepted, result

    def _settle(self, kept: set[str], refused: set[str], in_doubt: bool) -> None:
        """Take out of `opened` what must stay, and delete what was certainly refused."""
        self.opened.difference_update(kept)
        if in_doubt:
            self.opened.difference_update(refused)
            self.left_behind += sorted(refused)
        else:
            self.discard(refused)

    def discard(self, paths: set[str]) -> None:
        """Delete files that no metadata was ever sent for, or that the catalog certainly refused."""
        if not paths:
            return
        doomed = sorted(paths)
        failures = self._store.delete_many(doomed)
        self.left_behind += [failure.path for failure in failures]
        self.opened.difference_update(doomed)


def _accepted(
    changes: Sequence[C], snapshot_id: int | None, dropped_by_snapshot: dict[int, Sequence[C]]
) -> list[C]:
    """What is in the table now: what was committed by the attempt whose snapshot it was."""
    if snapshot_id is None or snapshot_id not in dropped_by_snapshot:
        return []
    dropped = {id(change) for change in dropped_by_snapshot[snapshot_id]}
    return [change for change in changes if id(change) not in dropped]
