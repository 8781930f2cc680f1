"""The commit loop: load, build, commit; on a lost race rebuild on the new head, on an unknown outcome look first.

Owns the question "did it happen?". Our snapshot ids answer it: after every failure the table is read again and an
id of ours in it means success, whatever the answer said. Metadata files of an attempt are deleted only after the
catalog refused it and a later read does not show it; after an unknown outcome never.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from table_format.catalog import LoadedTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.commit.change import MAIN, Change, delete_quietly
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Forbidden,
    Invalid,
    NoSuchFile,
    NotFound,
    TableFormatError,
    Unavailable,
    Unsupported,
)
from table_format.ident import TableIdent
from table_format.io.store import ObjectStore

_log = logging.getLogger(__name__)

Build: TypeAlias = "Callable[[LoadedTable], Change | None]"

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 5.0
GRACE_SECONDS = 2.0
"""How long after an unanswered request an absent snapshot is looked for again."""
RELOADS = 8
"""Reads of the table that are tried to settle an unknown outcome."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The table after the loop; not applied when there was nothing to do."""

    table: LoadedTable
    applied: bool
    snapshot_id: int | None = None
    """The snapshot that the applied change added, if it added one."""


@dataclass(slots=True)
class _Loop:
    """One call's state: where to send, and the changes whose outcome no read has settled."""

    catalog: TableCatalog
    ident: TableIdent
    store: ObjectStore
    clock: Clock
    ids: Ids
    sent: list[Change] = field(default_factory=list)
    """Every change sent that adds a snapshot."""
    unknown: list[Change] = field(default_factory=list)
    """Every change, with a snapshot or not, that may have been applied or may still be."""

    def wait(self, attempt: int) -> None:
        longest = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(attempt, 16))
        self.clock.sleep(self.ids.jitter(longest / 2, longest))

    def landed(self, table: LoadedTable) -> CommitResult | None:
        """Success, when the table has a snapshot of ours."""
        present = {snapshot["snapshot-id"] for snapshot in table.metadata.snapshots}
        for change in self.sent:
            if change.snapshot_id in present:
                return CommitResult(table, True, change.snapshot_id)
        return None

    def may_still_land(self, table: LoadedTable) -> bool:
        """Whether an unanswered request could be applied after this state of the table: its head is unmoved."""
        head = {
            "type": "assert-ref-snapshot-id",
            "ref": MAIN,
            "snapshot-id": table.metadata.current_snapshot_id,
        }
        pending = [change for change in self.unknown if change.snapshot_id is not None]
        return any(head in change.requirements for change in pending)

    def reload(self) -> LoadedTable | None:
        """The table, read after the failure; None when the catalog stays away."""
        for attempt in range(RELOADS):
            try:
                return self.catalog.load(self.ident)
            except Unavailable as error:
                _log.info("cannot reload %s to settle a commit: %s", self.ident, error)
                self.wait(attempt + 2)
        return None


def commit_with_retry(
    catalog: TableCatalog,
    ident: TableIdent,
    build: Build,
    *,
    store: ObjectStore,
    clock: Clock,
    ids: Ids,
    attempts: int = 20,
) -> CommitResult:
    """Commit what `build` makes of the current table, building anew on the new head when another writer won.

    `build` gives None (or a change without updates) when there is nothing left to do.

    Raises:
        CommitFailed: every attempt lost its race; nothing of ours is or will be in the table.
        CommitStateUnknown: it may have happened: keep every file.
        Unavailable: the catalog stayed away and nothing was applied.
        NoSuchTable: there is none.
        NoSuchFile: the table's current version names a file that is not there.
        Invalid: the catalog refuses the change itself.
    """
    loop = _Loop(catalog, ident, store, clock, ids)
    try:
        return _run(loop, build, attempts)
    except CommitStateUnknown:
        raise
    except TableFormatError as error:
        if not loop.unknown:
            raise
        # Whoever gets another error takes it as leave to delete the data files of this commit.
        raise CommitStateUnknown(
            f"a commit to {ident} was not answered and may have been applied; then: {error}"
        ) from error


def _run(loop: _Loop, build: Build, attempts: int) -> CommitResult:
    failure: TableFormatError = Unavailable(f"no attempt was made to commit to {loop.ident}")
    for attempt in range(attempts):
        if attempt:
            loop.wait(attempt)
        try:
            table = loop.catalog.load(loop.ident)
        except Unavailable as error:
            failure = error
            continue
        if (done := loop.landed(table)) is not None:
            return done
        try:
            change = build(table)
        except NoSuchFile as error:
            failure = _expired_while_read(loop, table, error)
            continue
        if change is None or not change.updates:
            return _nothing_to_do(loop, table)
        outcome = _attempt(loop, table, change)
        if isinstance(outcome, CommitResult):
            return outcome
        failure = outcome
    if loop.unknown and (last := loop.reload()) is not None and (done := loop.landed(last)) is not None:
        return done
    raise failure


def _expired_while_read(loop: _Loop, table: LoadedTable, missing: NoSuchFile) -> TableFormatError:
    """A lost race, when the table has moved on from the version whose file is gone (its snapshot was expired).

    Raises:
        NoSuchFile: the current version names a file that is not there.
    """
    if loop.catalog.load(loop.ident).metadata_location == table.metadata_location:
        raise missing
    return CommitFailed(f"{loop.ident} changed while it was read: {missing}")


def _attempt(loop: _Loop, table: LoadedTable, change: Change) -> CommitResult | TableFormatError:
    """Send one change; its failure as a value when another attempt may help."""
    if change.snapshot_id is not None:
        loop.sent.append(change)
    try:
        committed = loop.catalog.commit(loop.ident, change.requirements, change.updates)
    except CommitFailed as error:
        return _refused(loop, change) or error
    except CommitStateUnknown as error:
        return _settle(loop, change, error)
    except Unavailable as error:
        return error
    except (Invalid, NotFound, Forbidden, Unsupported) as error:
        # Not even looked at, or refused for good.
        delete_quietly(loop.store, change.written)
        if isinstance(error, Invalid) and _upgraded(loop, table):
            return CommitFailed(f"{loop.ident} got another format version meanwhile: {error.message}")
        raise
    config = committed.config or table.config
    return CommitResult(replace(committed, config=config), True, change.snapshot_id)


def _upgraded(loop: _Loop, table: LoadedTable) -> bool:
    """Whether the table is of another format version than when the change was built, which then cannot fit."""
    now = loop.reload()
    return now is not None and now.metadata.format_version != table.metadata.format_version


def _refused(loop: _Loop, change: Change) -> CommitResult | None:
    """After a 409: delete the attempt's files, unless the table has its snapshot.

    It has when something between us and the catalog sent the request twice and the second copy was refused.
    """
    table = loop.reload()
    if table is None:
        loop.unknown.append(change)
        return None
    done = loop.landed(table)
    if done is None or done.snapshot_id != change.snapshot_id:
        delete_quietly(loop.store, change.written)
    return done


def _settle(loop: _Loop, change: Change, error: CommitStateUnknown) -> CommitResult | TableFormatError:
    """After an unanswered request: look for its snapshot now and, while absent, again after a grace period.

    Raises:
        CommitStateUnknown: the table could not be read.
    """
    loop.unknown.append(change)
    if change.snapshot_id is None:
        return error  # nothing to be known by, but removing things twice is removing them once
    for look in range(2):
        if look:
            loop.clock.sleep(GRACE_SECONDS)
        table = loop.reload()
        if table is None:
            raise error
        if (done := loop.landed(table)) is not None:
            return done
    return error


def _nothing_to_do(loop: _Loop, table: LoadedTable) -> CommitResult:
    """The end when `build` finds no work: after an unanswered metadata-only change, that is its success.

    Raises:
        CommitStateUnknown: an unanswered snapshot may still be applied.
    """
    if loop.may_still_land(table):
        raise CommitStateUnknown(
            f"an earlier commit to {loop.ident} was not answered and may still be applied"
        )
    return CommitResult(table, any(change.snapshot_id is None for change in loop.unknown))
