"""Programs that write to tables over a network, as Spark, Flink and ingest do."""

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from greenlet import getcurrent
from starlette.requests import Request

from catalog_server.api.iceberg.call import Call
from catalog_server.api.iceberg.idempotency import FINAL_REFUSALS, HEADER, no_content, once
from catalog_server.api.iceberg.transactions import commit_transaction
from catalog_server.api.iceberg.wire import Query
from catalog_server.api.rawpath import RawNames
from catalog_server.bootstrap import Platform
from catalog_server.services.principals import SYSTEM
from table_format.catalog import LoadedTable, NewTable
from table_format.clock import Clock
from table_format.commit.append import append, carried_manifests
from table_format.commit.change import MAIN, Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.retry import commit_with_retry
from table_format.commit.rewrite import kept_manifests
from table_format.commit.summary import Changes, Operation
from table_format.commit.tree import FileKey, HeadTree, TreeCache, file_key
from table_format.errors import CommitFailed, CommitStateUnknown, TableFormatError, Unavailable
from table_format.ident import TableIdent, join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile, ManifestContent, ManifestFile
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import read_task
from table_format.scan.index import is_vector
from table_format.scan.lineage import LAST_UPDATED, ROW_ID, with_lineage
from table_format.scan.plan import FileTask, snapshot_files
from table_format.schema.arrow import to_arrow
from tests.factories.vectors import framed, packed
from tests.simulation.actors import BUCKET, Services, SimIds
from tests.simulation.kernel import Fate, Process, Sim, Waiter
from tests.simulation.oracle import OP, Effect, Oracle, Row

POSITIONS: JsonObject = {
    "type": "struct",
    "fields": [
        {"id": 2147483546, "name": "file_path", "required": True, "type": "string"},
        {"id": 2147483545, "name": "pos", "required": True, "type": "long"},
    ],
}
NO_CONTENT = 204
_SENDINGS = 5
"""How often a request with a key is sent while nobody answers."""


class RemoteCatalog:
    """A client's way to the servers: a request or its answer may be lost, sent twice, or meet a dying server."""

    def __init__(
        self, sim: Sim, process: Process, servers: Callable[[], list[Services]], oracle: Oracle
    ) -> None:
        self._sim = sim
        self._process = process
        self._servers = servers
        self._oracle = oracle

    def load(self, ident: TableIdent) -> LoadedTable:
        asked = self._oracle.moment()
        table: LoadedTable = self.ask(
            "load", lambda server: server.catalog().tables.load(SYSTEM, BUCKET, ident), loaded
        )
        self._oracle.answered(asked, table)
        return table

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        def send(server: Services) -> Any:
            return server.commits.commit(SYSTEM, BUCKET, ident, requirements, updates)

        table: LoadedTable = self.ask("commit", send, loaded, lost=CommitStateUnknown("no answer"))
        return table

    def transaction(self, changes: Sequence[tuple[TableIdent, Change]], key: str) -> None:
        """Changes of several tables with an Idempotency-Key, sent again while nobody answers.

        Raises:
            CommitFailed: refused, as the key's answer says.
            CommitStateUnknown: nobody answered.
        """
        body: JsonObject = {
            "table-changes": [
                {
                    "identifier": {"namespace": list(ident.namespace.levels), "name": ident.name},
                    "requirements": change.requirements,
                    "updates": change.updates,
                }
                for ident, change in changes
            ]
        }

        def send(server: Services) -> Any:
            call = keyed_call(server, body, key)
            return once(call, no_content, lambda: commit_transaction(call))

        for left in reversed(range(_SENDINGS)):
            try:
                status = self.ask("transaction", send, lost=CommitStateUnknown("no answer")).status_code
            except (Unavailable, CommitStateUnknown) as error:
                if not left:
                    raise CommitStateUnknown("the request was never answered") from error
                self._sim.sleep(self._sim.rng.choice((0, 1, 20)))
                continue
            if status == NO_CONTENT:
                return
            assert status in FINAL_REFUSALS, status
            raise CommitFailed(f"answered {status}")

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        raise AssertionError("tables of a world are made by its servers")

    def ask(
        self,
        what: str,
        send: Callable[[Services], Any],
        answer: Callable[[Any], Any] = lambda found: found,
        lost: TableFormatError | None = None,
    ) -> Any:
        """One request; `lost` is raised when it may have had its effect."""
        sim = self._sim
        lost = lost or Unavailable("no answer")
        fate = sim.point(self._process, f"sends {what}")
        if fate is Fate.BEFORE:
            raise Unavailable("not sent")
        server = sim.rng.choice(self._servers())
        if getcurrent() is sim.hub:
            return answer(sim.wait(server.process, send(server)))
        if sim.rng.random() < sim.odds.twice:
            # Something in between sends it again; whoever waits gets the second answer.
            first = sim.rng.choice(self._servers())
            sim.spawn(first.process, lambda: sim.wait(first.process, send(first)), "first copy")
            sim.point(self._process, f"sends {what} again")
        box: list[Any] = []
        task = sim.spawn(server.process, lambda: sim.wait(server.process, send(server)), what)
        me, current = self._process, getcurrent()

        def resume(died: bool) -> None:
            if not box and me.alive:
                box.append(died)
                sim.waiting.append(Waiter(me, f"answer to {what}", current.switch))

        task.then.append(lambda: resume(False))
        server.process.at_death.append(lambda: resume(True))
        if not server.process.alive:
            resume(True)
        sim.hub.switch()
        sim._refuse_when_over()
        if box[0] or fate is Fate.AFTER:
            raise lost
        if task.error is not None:
            raise task.error
        return answer(task.value)


def loaded(handle: Any) -> LoadedTable:
    """A table as a client gets it."""
    return LoadedTable(
        ident=handle.ident, metadata_location=handle.metadata_location, metadata=handle.metadata
    )


def keyed_call(server: Services, body: JsonObject, key: str) -> Call:
    """A request to the Iceberg API as its router hands it on."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/v1/{BUCKET}/transactions/commit",
        "query_string": b"",
        "headers": [(HEADER.lower().encode(), key.encode())],
    }
    services = {"idempotency": server.idempotency, "commits": server.commits, "tables": server.tables}
    return Call(
        request=Request(scope),
        platform=cast("Platform", SimpleNamespace(**services)),
        principal=SYSTEM,
        names=RawNames({"prefix": BUCKET}),
        query=Query({}),
        body=body,
    )


def on_branch(table: LoadedTable, branch: str) -> LoadedTable:
    """The table as if that branch were main: the kernel writes to main alone.

    Raises:
        CommitFailed: it has no such branch (any more).
    """
    refs = table.metadata.refs
    if branch not in refs:
        raise CommitFailed(f"the branch {branch} is gone")
    head = refs[branch]
    document = {
        **table.metadata.document,
        "current-snapshot-id": head["snapshot-id"],
        "refs": {**refs, MAIN: head},
    }
    return replace(table, metadata=TableMetadata(document))


def to_branch(change: Change, branch: str) -> Change:
    """A change of main, for the branch."""

    def moved(one: JsonObject, key: str) -> JsonObject:
        return {**one, key: branch} if one.get(key) == MAIN else one

    return replace(
        change,
        updates=[moved(update, "ref-name") for update in change.updates],
        requirements=[moved(requirement, "ref") for requirement in change.requirements],
    )


@dataclass(frozen=True, kw_only=True)
class Order:
    """One operation of a writer."""

    op: str
    how: str
    effect: Effect
    branch: str | None = None

    @property
    def summary(self) -> dict[str, str]:
        offset = self.effect.offset
        told = {} if offset is None else {"ingest.offsets": json.dumps({"topic": {"0": offset}})}
        return {OP: self.op, **told}


@dataclass(eq=False)
class Client:
    """A program that writes to tables, as Spark, Flink or ingest do; of one process."""

    sim: Sim
    process: Process
    catalog: RemoteCatalog
    store: ObjectStore
    clock: Clock
    ids: SimIds
    times: dict[int, int]
    """When the row of that version says it was, in milliseconds."""
    merge_min: int | None = None

    # files

    def table_file(
        self,
        table: LoadedTable,
        rows: Sequence[Row],
        written: list[str],
        lineage: Mapping[int, tuple[int | None, int | None]] | None = None,
    ) -> DataFile:
        """A data file of rows that are all of one partition; with `lineage`, by version, of rows that were there."""
        stamps = [self.times[row[2]] * 1000 for row in rows]
        schema = table.metadata.schema()
        columns: list[list[Any]] = [*map(list, zip(*rows, strict=True)), stamps]
        columns += [[None] * len(rows)] * (len(schema["fields"]) - len(columns))
        if lineage is not None:
            schema = with_lineage(schema)
            columns += [list(each) for each in zip(*(lineage[row[2]] for row in rows), strict=True)]
        arrow = to_arrow(schema)
        arrays = pa.table(
            [pa.array(values).cast(field.type) for values, field in zip(columns, arrow, strict=True)],
            schema=arrow,
        )
        path = join(table.metadata.location, "data", f"{self.ids.uuid()}.parquet")
        size = self._put_rows(path, arrays, written)
        return DataFile(
            file_path=path,
            record_count=len(rows),
            file_size_in_bytes=size,
            partition=partition_of(table, rows[0][1]),
            spec_id=table.metadata.default_spec_id,
            value_counts={4: len(rows)},
            null_value_counts={4: 0},
            lower_bounds={4: struct.pack("<q", min(stamps))},
            upper_bounds={4: struct.pack("<q", max(stamps))},
        )

    def delete_file(
        self,
        table: LoadedTable,
        rows: list[dict[str, Any]],
        data: DataFile | None,
        written: list[str],
        name: str,
    ) -> DataFile:
        """Equality deletes by id, or, with `data`, position deletes of that file."""
        schema = POSITIONS if data else {"type": "struct", "fields": [table.metadata.schema()["fields"][0]]}
        path = join(table.metadata.location, "data", f"{self.ids.uuid()}-deletes.parquet")
        size = self._put_rows(path, pa.Table.from_pylist(rows, schema=to_arrow(schema)), written)
        return DataFile(
            content=Content.POSITION_DELETES if data else Content.EQUALITY_DELETES,
            file_path=path,
            record_count=len(rows),
            file_size_in_bytes=size,
            partition=data.partition if data else partition_of(table, name),
            spec_id=data.spec_id if data else table.metadata.default_spec_id,
            equality_ids=None if data else [1],
            referenced_data_file=data.file_path if data and self.sim.rng.random() < 0.5 else None,
        )

    def vector(
        self, table: LoadedTable, data: DataFile, positions: list[int], written: list[str]
    ) -> DataFile:
        """A deletion vector of that file, made without the product's writer."""
        path = join(table.metadata.location, "data", f"{self.ids.uuid()}-deletes.puffin")
        blob = framed(packed(positions))
        content = b"PFA1" + blob + b"PFA1 any footer"
        self._put(path, content, written)
        return DataFile(
            content=Content.POSITION_DELETES,
            file_path=path,
            file_format="PUFFIN",
            record_count=len(positions),
            file_size_in_bytes=len(content),
            partition=data.partition,
            spec_id=data.spec_id,
            referenced_data_file=data.file_path,
            content_offset=4,
            content_size_in_bytes=len(blob),
        )

    def _put_rows(self, path: str, rows: pa.Table, written: list[str]) -> int:
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="none")
        self._put(path, buffer.getvalue(), written)
        return len(buffer.getvalue())

    def _put(self, path: str, content: bytes, written: list[str]) -> None:
        written.append(path)
        for left in (2, 1, 0):
            try:
                self.store.put(path, content)
                break
            except Unavailable:
                if not left:
                    raise

    def _files(self, table: LoadedTable, effect: Effect, written: list[str]) -> list[DataFile]:
        by_name: dict[str, list[Row]] = {}
        for row in sorted(effect.add):
            by_name.setdefault(row[1], []).append(row)
        return [self.table_file(table, rows, written) for _, rows in sorted(by_name.items())]

    # operations

    def write(self, ident: TableIdent, uuid: str, order: Order) -> bool:
        """One operation, as an engine does it: tried again while it loses races; its files go when it is refused.

        Raises:
            CommitStateUnknown: it may have happened.
            TableFormatError: it did not.
        """
        written: list[str] = []
        data: list[DataFile] = []
        deletes: list[DataFile] = []

        def build(table: LoadedTable) -> Change | None:
            if table.metadata.uuid != uuid:
                raise CommitFailed("another table")
            if order.branch is None:
                return self._change(table, order, data, deletes, written)
            change = self._change(on_branch(table, order.branch), order, data, deletes, written)
            return None if change is None else to_branch(change, order.branch)

        try:
            first = self.catalog.load(ident)
            data += self._files(first, order.effect, written)
            names = ("x", "y") if partition_of(first, "x") else ("x",)
            keys: list[dict[str, Any]] = [{"id": i} for i in sorted(order.effect.drop_ids)]
            deletes += [self.delete_file(first, keys, None, written, n) for n in names] if keys else []
            result = commit_with_retry(
                self.catalog, ident, build, store=self.store, clock=self.clock, ids=self.ids, attempts=6
            )
        except CommitStateUnknown:
            raise
        except TableFormatError:
            self.store.delete_many(written)
            raise
        return result.applied

    def together(self, tables: Sequence[tuple[TableIdent, str, Order]], key: str) -> None:
        """Appends to several tables in one transaction with an Idempotency-Key, whose answer is believed.

        Raises:
            CommitStateUnknown: it may have happened.
            TableFormatError: it did not.
        """
        written: list[str] = []
        try:
            changes = []
            for ident, uuid, order in tables:
                table = self.catalog.load(ident)
                if table.metadata.uuid != uuid:
                    raise CommitFailed("another table")
                change = self._change(table, order, self._files(table, order.effect, written), [], written)
                assert change is not None
                written += change.written
                changes.append((ident, change))
            self.catalog.transaction(changes, key)
        except CommitStateUnknown:
            raise
        except TableFormatError:
            self.store.delete_many(written)
            raise

    def _change(
        self,
        table: LoadedTable,
        order: Order,
        data: list[DataFile],
        deletes: list[DataFile],
        written: list[str],
    ) -> Change | None:
        if order.how == "append":
            return append(
                self.store,
                table,
                data,
                summary=order.summary,
                clock=self.clock,
                ids=self.ids,
                merge_min=self.merge_min,
            )
        if order.how == "upsert":
            return self._row_delta(table, data, deletes, order.summary)
        return self._delete_row(table, order, written)

    def _row_delta(
        self, table: LoadedTable, data: list[DataFile], deletes: list[DataFile], summary: dict[str, str]
    ) -> Change:
        with self._producer(table) as producer:
            old = carried_manifests(self.store, table.metadata)
            return self._overwrite(producer, data, deletes, old, Changes(), summary)

    def _producer(self, table: LoadedTable) -> SnapshotProducer:
        return SnapshotProducer(self.store, table, clock=self.clock, ids=self.ids)

    def _overwrite(
        self,
        producer: SnapshotProducer,
        data: list[DataFile],
        deletes: list[DataFile],
        old: list[ManifestFile],
        changes: Changes,
        summary: dict[str, str],
    ) -> Change:
        for file in (*data, *deletes):
            changes.add(file)
        new = producer.write_added((file, None) for file in data)
        new += producer.write_added(((file, None) for file in deletes), ManifestContent.DELETES)
        return producer.finish(Operation.OVERWRITE, [*new, *old], changes, extra=summary)

    def _delete_row(self, table: LoadedTable, order: Order, written: list[str]) -> Change | None:
        """Take one row out, by position or by rewriting its file; None when it is not there (any more)."""
        (victim,) = order.effect.drop_rows
        if table.metadata.current_snapshot is None:
            return None
        lineage = table.metadata.format_version > 2
        for task in snapshot_files(self.store, table.metadata).tasks:
            live = {
                (row["id"], row["name"], row["version"]): (row.get(ROW_ID), row.get(LAST_UPDATED))
                for batch in read_task(self.store, task, table.metadata, lineage=lineage)
                for row in batch.to_pylist()
            }
            if victim not in live:
                continue
            del live[victim]
            if order.how == "copy":
                return self._copied(table, task.entry.data_file, live, lineage, order.summary, written)
            return self._without(table, task, victim, live, order.summary, written)
        return None

    def _without(
        self,
        table: LoadedTable,
        task: FileTask,
        victim: Row,
        live: Mapping[Row, Any],
        summary: dict[str, str],
        written: list[str],
    ) -> Change:
        """A position delete; of format version 3 one vector with all that is gone from the file."""
        file = task.entry.data_file
        content = pq.read_table(io.BytesIO(self.store.get(file.file_path))).to_pylist()
        if table.metadata.format_version < 3:
            places = [n for n, row in enumerate(content) if row["version"] == victim[2]]
            rows = [{"file_path": file.file_path, "pos": place} for place in places]
            return self._row_delta(
                table, [], [self.delete_file(table, rows, file, written, victim[1])], summary
            )
        left = {row[2] for row in live}
        gone = [n for n, row in enumerate(content) if row["version"] not in left]
        vector = self.vector(table, file, gone, written)
        before = {file_key(entry.data_file) for entry in task.deletes if is_vector(entry.data_file)}
        return self._replaced(table, before, [], [vector], summary)

    def _copied(
        self,
        table: LoadedTable,
        file: DataFile,
        live: Mapping[Row, tuple[int | None, int | None]],
        lineage: bool,
        summary: dict[str, str],
        written: list[str],
    ) -> Change:
        kept = {row[2]: ids for row, ids in live.items()} if lineage else None
        copies = [self.table_file(table, list(live), written, kept)] if live else []
        return self._replaced(table, {file_key(file)}, copies, [], summary)

    def _replaced(
        self,
        table: LoadedTable,
        gone: set[FileKey],
        data: list[DataFile],
        deletes: list[DataFile],
        summary: dict[str, str],
    ) -> Change:
        tree = HeadTree(self.store, table.metadata, TreeCache())
        changes = Changes()
        with self._producer(table) as producer:
            kept = kept_manifests(producer, tree, gone, changes)
            return self._overwrite(producer, data, deletes, kept, changes, summary)


def partition_of(table: LoadedTable, name: str) -> tuple[str, ...]:
    """The partition of rows with that name."""
    return (name,) if table.metadata.spec()["fields"] else ()
