"""A `TableCatalog` in memory: real requirement checks and updates, one compare-and-swap, faults on demand.

Metadata files really are written to the object store, so that readers of other projects can open the table.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from table_format.catalog import LoadedTable, NewTable, TableChange
from table_format.clock import Clock, Ids
from table_format.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    NoSuchTable,
    TableFormatError,
    Unavailable,
)
from table_format.ident import TableIdent, join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata import codec
from table_format.metadata.create import new_table
from table_format.metadata.document import TableMetadata
from table_format.metadata.requirements import check
from table_format.metadata.updates import apply

Requests: TypeAlias = Sequence[JsonObject]
Request: TypeAlias = tuple[TableIdent, Requests, Requests]


@dataclass(frozen=True)
class Fault:
    """What happens to one commit instead of an honest answer.

    `applied`: whether the commit takes effect all the same. `late`: it takes effect, but only when
    `FakeCatalog.deliver_late()` is called (a request still under way when the client gave up).
    """

    error: TableFormatError
    applied: bool = False
    late: bool = False


class FakeCatalog:
    """Tables in a dictionary. `before_commit` hooks run once each, before a commit is looked at (races)."""

    def __init__(
        self, store: ObjectStore, clock: Clock, ids: Ids, *, location: str = "memory://warehouse"
    ) -> None:
        self.store = store
        self.location = location
        self.before_commit: deque[Callable[[], object]] = deque()
        self.faults: deque[Fault | None] = deque()
        self.load_faults: deque[TableFormatError | None] = deque()
        self.commits: list[Request] = []
        self.together = True
        self._clock = clock
        self._ids = ids
        self._tables: dict[TableIdent, LoadedTable] = {}
        self._late: list[list[Request]] = []
        self._lock = threading.RLock()

    def load(self, ident: TableIdent) -> LoadedTable:
        if self.load_faults and (fault := self.load_faults.popleft()) is not None:
            raise fault
        with self._lock:
            if ident not in self._tables:
                raise NoSuchTable(f"Table does not exist: {ident}")
            return self._tables[ident]

    def commit(self, ident: TableIdent, requirements: Requests, updates: Requests) -> LoadedTable:
        self._commit([(ident, requirements, updates)])
        return self._tables[ident]

    def commits_together(self) -> bool:
        return self.together

    def commit_together(self, changes: Sequence[TableChange]) -> None:
        self._commit([(change.ident, change.requirements, change.updates) for change in changes])

    def _commit(self, requests: list[Request]) -> None:
        self.commits.extend(requests)
        if self.before_commit:
            self.before_commit.popleft()()
        fault = self.faults.popleft() if self.faults else None
        if fault is None:
            self._apply_all(requests)
            return
        if fault.late:
            self._late.append(requests)
        elif fault.applied:
            self._apply_all(requests)
        raise fault.error

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        with self._lock:
            if ident in self._tables:
                raise AlreadyExists(f"Table already exists: {ident}")
            uuid = self._ids.uuid()
            metadata = new_table(
                schema=table.schema,
                partition_spec=table.partition_spec,
                write_order=table.write_order,
                properties=table.properties,
                location=join(self.location, f"t-{uuid[:8]}{len(self._tables)}"),
                uuid=uuid,
                now_ms=self._clock.now_ms(),
            )
            return self._store(ident, metadata, None)

    def drop(self, ident: TableIdent) -> None:
        with self._lock:
            self._tables.pop(ident)

    def put(self, ident: TableIdent, metadata: TableMetadata) -> LoadedTable:
        """Set a table's metadata without any check (foreign writers, rollbacks)."""
        with self._lock:
            known = self._tables.get(ident)
            return self._store(ident, metadata, None if known is None else known.metadata_location)

    def deliver_late(self) -> list[bool]:
        """Let the requests that are still under way arrive; whether each was applied."""
        outcomes = []
        while self._late:
            try:
                self._apply_all(self._late.pop(0))
            except TableFormatError:
                outcomes.append(False)
            else:
                outcomes.append(True)
        return outcomes

    def _apply(self, ident: TableIdent, requirements: Requests, updates: Requests) -> None:
        self._apply_all([(ident, requirements, updates)])

    def _apply_all(self, requests: list[Request]) -> None:
        with self._lock:
            ready = [(ident, self._checked(ident, *request)) for ident, *request in requests]
            for ident, (base, new) in ready:
                if new is not base.metadata:
                    self._store(ident, new, base.metadata_location)

    def _checked(
        self, ident: TableIdent, requirements: Requests, updates: Requests
    ) -> tuple[LoadedTable, TableMetadata]:
        base = self._tables.get(ident)
        if base is None:
            raise NoSuchTable(f"Table does not exist: {ident}")
        check(requirements, base.metadata)
        now = self._clock.now_ms()
        return base, apply(base.metadata, updates, now_ms=now, previous_location=base.metadata_location)

    def _store(self, ident: TableIdent, metadata: TableMetadata, previous: str | None) -> LoadedTable:
        location = codec.new_location(metadata, previous, self._ids)
        codec.write(self.store, location, metadata)
        loaded = LoadedTable(ident=ident, metadata_location=location, metadata=metadata)
        self._tables[ident] = loaded
        return loaded


def unknown(*, applied: bool = False, late: bool = False) -> Fault:
    """A commit without an answer."""
    return Fault(CommitStateUnknown("no answer"), applied=applied, late=late)


FaultKind: TypeAlias = Literal["conflict", "unavailable"]


def fault(kind: FaultKind, *, applied: bool = False) -> Fault:
    """A refusal (with `applied`, a lying one)."""
    errors = {"conflict": CommitFailed("refused"), "unavailable": Unavailable("try later")}
    return Fault(errors[kind], applied=applied)
