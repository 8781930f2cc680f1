"""Records that could not become rows, kept in a table of their own: `<table>__dead_letters`.

They are committed together with the rows and offsets of the same stretch of the log, where the catalog can. Where it
cannot they are committed first: a crash between the two repeats some (`partition` and `offset` tell the copies) and
loses none.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from ingest_plugin import offsets, tables
from ingest_plugin.decode.values import DataError
from ingest_plugin.kafka import NO_TIMESTAMP, Message
from ingest_plugin.together import CommitTogether
from ingest_plugin.write.buffer import RowBuffer
from ingest_plugin.write.letters import LettersGone
from table_format.catalog import LoadedTable, TableCatalog, TableChange, TransactionalCatalog
from table_format.clock import Clock, Ids
from table_format.commit.append import MERGE_FROM_MANIFESTS, append
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from table_format.schema.arrow import arrow_primitive
from table_format.schema.types import parse_primitive

MAX_MILLIS = (2**63 - 1) // 1000
"""The latest timestamp that fits in microseconds; producers can set any."""
_COLUMNS = {
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamptz",
    "key": "binary",
    "value": "binary",
    "headers": "string",
    "reason": "string",
}
STRUCT: JsonObject = {
    "type": "struct",
    "fields": [{"name": name, "required": False, "type": kind} for name, kind in _COLUMNS.items()],
}
_ARROW_TYPES: dict[str, pa.DataType] = {
    name: arrow_primitive(parse_primitive(kind)) for name, kind in _COLUMNS.items()
}
_ARROW = pa.schema(_ARROW_TYPES)


@dataclass(slots=True, kw_only=True)
class DeadLetters:
    """One topic's dead letters since the last commit."""

    catalog: TableCatalog
    ident: TableIdent
    buffer: RowBuffer
    clock: Clock
    ids: Ids
    _table: LoadedTable | None = None
    _sent: bool = False

    @property
    def count(self) -> int:
        """How many wait for a commit."""
        return self.buffer.rows

    def add(self, letters: Sequence[tuple[Message, DataError]]) -> None:
        """Keep these records, with the reason.

        Raises:
            Unavailable: catalog or store are away.
        """
        if self._table is None:
            found = tables.find(self.catalog, self.ident)
            if found is None:
                found = tables.create(self.catalog, self.ident, STRUCT, ())
            self._table = tables.grow(
                self.catalog, self.ident, tables.Wanted(struct=STRUCT), clock=self.clock, ids=self.ids
            )
        self.buffer.write(self._table, _batch(letters))

    @property
    def held(self) -> int:
        """Bytes of memory, about."""
        return self.buffer.held

    @property
    def full(self) -> bool:
        """They are in files: memory asks for no commit."""
        return False

    def close_files(self) -> None:
        """Finish the files of what waits.

        Raises:
            Unavailable: the store is away; what waits must be discarded.
        """
        self.buffer.close_files()

    def along(self, catalog: TableCatalog, summary: Mapping[str, str], commit_id: str) -> TableCatalog:
        """The catalog, which takes the letters' table along; where it cannot, that has been committed before.

        Raises:
            LettersGone, CommitStateUnknown, Unavailable: as `commit`.
        """
        if isinstance(catalog, TransactionalCatalog) and catalog.commits_together():
            return CommitTogether(catalog, lambda: self.beside(summary, commit_id))
        self.commit(summary, commit_id)
        return catalog

    def beside(self, summary: Mapping[str, str], commit_id: str) -> TableChange | None:
        """The change that adds what waits to the newest version of the table; None when there is nothing to add.

        Raises:
            LettersGone: the table was dropped while it was written.
            Unavailable: catalog or store are away.
        """
        table = self._newest()
        change = None if table is None else self._change(table, summary, commit_id)
        if change is None:
            return None
        return TableChange(ident=self.ident, requirements=change.requirements, updates=change.updates)

    def _newest(self) -> LoadedTable | None:
        if not self.buffer.close_files():
            return None
        found = tables.find(self.catalog, self.ident)
        if found is None or self._table is None or found.metadata.uuid != self._table.metadata.uuid:
            raise LettersGone(f"table {self.ident} was dropped or made anew while it was written")
        return found

    def _change(self, table: LoadedTable, summary: Mapping[str, str], commit_id: str) -> Change | None:
        if offsets.landed(table.metadata, commit_id):
            return None
        change = append(
            self.buffer.store(table),
            table,
            self.buffer.close_files(),
            summary={**summary, offsets.COMMIT_ID: commit_id},
            clock=self.clock,
            ids=self.ids,
            merge_min=MERGE_FROM_MANIFESTS,
        )
        self._sent = True
        return change

    def commit(self, summary: Mapping[str, str], commit_id: str) -> None:
        """Commit what waits on its own; safe to call again after a failure, with the same id.

        Raises:
            LettersGone: the table was dropped while it was written.
            CommitStateUnknown: it may have happened; call again before anything else.
            Unavailable: catalog or store are away.
        """
        table = self._newest()
        if table is None:
            return
        commit_with_retry(
            self.catalog,
            self.ident,
            lambda newest: self._change(newest, summary, commit_id),
            store=self.buffer.store(table),
            clock=self.clock,
            ids=self.ids,
        )

    def committed(self) -> None:
        """What waited is in the table."""
        self.buffer.forget()
        self._sent = False

    def discard(self) -> None:
        """Drop what waits: its records will be read again."""
        self.buffer.discard(delete=not self._sent)
        self._table, self._sent = None, False


def _batch(letters: Sequence[tuple[Message, DataError]]) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": micros_of(message),
            "key": message.key(),
            "value": message.value(),
            "headers": headers_text(message),
            "reason": error.reason,
        }
        for message, error in letters
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def micros_of(message: Message) -> int | None:
    """The record's timestamp in microseconds, if it has one that a column can hold."""
    kind, millis = message.timestamp()
    return millis * 1000 if kind != NO_TIMESTAMP and 0 <= millis <= MAX_MILLIS else None


def headers_text(message: Message) -> str | None:
    """Headers as a JSON list of [name, value]; a value is text, null, or {"base64": …} when it is not UTF-8."""
    headers = message.headers()
    if not headers:
        return None
    return orjson.dumps([[name, _header_value(value)] for name, value in headers]).decode()


def _header_value(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
