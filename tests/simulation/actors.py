"""Who acts in a world: clients that write over a network, and servers and workers made of the product's services."""

import asyncio
import io
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from greenlet import getcurrent

from catalog_server.services.commits import CommitLimits, CommitService
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.documents import DocumentCache
from catalog_server.services.drops import DropService
from catalog_server.services.job_context import DatabaseUnreferencedLog
from catalog_server.services.jobs import JobLimits, JobService
from catalog_server.services.namespaces import NamespaceService
from catalog_server.services.policies import PolicyService
from catalog_server.services.principals import SYSTEM
from catalog_server.services.stores import Stores
from catalog_server.services.tables import TableService
from catalog_server.services.turns import Turns
from maintenance.executors.port import InlineExecutor
from maintenance.ports import Job, JobKind, JobSettings
from maintenance.worker import RUNNERS, Worker, WorkerSettings
from table_format.catalog import LoadedTable, NewTable
from table_format.commit.append import append, carried_manifests
from table_format.commit.change import Change
from table_format.commit.producer import SnapshotProducer
from table_format.commit.retry import commit_with_retry
from table_format.commit.rewrite import kept_manifests
from table_format.commit.summary import Changes, Operation
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NotFound,
    TableFormatError,
    Unavailable,
)
from table_format.ident import TableIdent, join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile, ManifestContent, ManifestEntry, Status
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from table_format.schema.arrow import to_arrow
from tests.simulation.kernel import PROCESS, Fate, Process, Sim, SimExecutor, Waiter
from tests.simulation.oracle import OP, Effect, Row
from tests.simulation.ports import SimCatalog, SimDatabase, SimJobContext, sim_catalog

BUCKET = "default"
LEASE_MS = 60_000
POSITIONS: JsonObject = {
    "type": "struct",
    "fields": [
        {"id": 2147483546, "name": "file_path", "required": True, "type": "string"},
        {"id": 2147483545, "name": "pos", "required": True, "type": "long"},
    ],
}


class SimIds:
    """Ids and jitter drawn from the seed."""

    def __init__(self, sim: Sim) -> None:
        self._rng = sim.rng

    def uuid(self) -> str:
        text = f"{self._rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def snapshot_id(self) -> int:
        return self._rng.randrange(1, 2**62)

    def jitter(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The product in one process."""

    process: Process
    sim: Sim
    database: SimDatabase
    stores: Stores
    namespaces: NamespaceService
    tables: TableService
    commits: CommitService
    drops: DropService
    policies: PolicyService
    jobs: JobService
    ids: SimIds

    @classmethod
    def of(cls, sim: Sim, process: Process, database: SimDatabase, store: ObjectStore) -> "Services":
        ids = SimIds(sim)
        stores = Stores(lambda _: store)
        threads = SimExecutor(process)
        content = ContentLimits(columns=1000, properties=1000, text_bytes=1 << 20)
        limits = CommitLimits(attempts=4, queue=100, job_attempts=5, content=content)
        documents = DocumentCache(stores, threads, max_bytes=1 << 24, max_metadata_bytes=1 << 24)
        turns = Turns(sim, longest_wait_seconds=0)
        commits = CommitService(database, documents, stores, (sim, ids), threads, limits, turns)
        policies = PolicyService(database, documents, sim, allow_unsafe=True)
        kept_ms = 30 * 86_400_000
        return cls(
            process=process,
            sim=sim,
            database=database,
            stores=stores,
            namespaces=NamespaceService(database, sim, content),
            tables=TableService(database, documents, commits, (sim, ids), kept_ms=kept_ms),
            commits=commits,
            drops=DropService(database, documents, sim),
            policies=policies,
            jobs=JobService(database, (sim, ids), policies, JobLimits(max_attempts=5, kept_ms=kept_ms)),
            ids=ids,
        )

    def catalog(self) -> SimCatalog:
        """The catalog in this process."""
        services = {"namespaces": self.namespaces, "tables": self.tables, "commits": self.commits}
        return sim_catalog(self.sim, self.process, BUCKET, **services)

    def context(self, job: Job) -> SimJobContext:
        """A job's surroundings."""
        return SimJobContext(
            job=job,
            catalog=self.catalog(),
            clock=self.sim,
            ids=self.ids,
            settings=JobSettings(allow_unsafe=True, delete_batch=4, groups_per_commit=2, commit_attempts=6),
            unreferenced=DatabaseUnreferencedLog(self.database, self.sim),
            stores=self.stores,
            database=self.database,
            policies=self.policies,
            executor=InlineExecutor(),
        )


class RemoteCatalog:
    """A client's way to the servers: a request or its answer may be lost, sent twice, or meet a dying server."""

    def __init__(self, sim: Sim, process: Process, servers: Callable[[], list[Services]]) -> None:
        self._sim = sim
        self._process = process
        self._servers = servers

    def load(self, ident: TableIdent) -> LoadedTable:
        return self.ask("load", lambda server: server.catalog().tables.load(SYSTEM, BUCKET, ident), loaded)

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        def send(server: Services) -> Any:
            return server.commits.commit(SYSTEM, BUCKET, ident, requirements, updates)

        return self.ask("commit", send, loaded, lost=CommitStateUnknown("no answer"))

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


@dataclass(eq=False)
class Client:
    """A program that writes to tables, as Spark, Flink or ingest do; of one process."""

    sim: Sim
    process: Process
    catalog: RemoteCatalog
    store: ObjectStore
    ids: SimIds
    merge_min: int | None = None

    def table_file(
        self, table: LoadedTable, rows: Sequence[Row], times: dict[int, int], written: list[str]
    ) -> DataFile:
        """A data file of rows that are all of one partition."""
        stamps = [times[row[2]] * 1000 for row in rows]
        columns = [*map(list, zip(*rows, strict=True)), stamps]
        arrow = to_arrow(table.metadata.schema())
        arrays = pa.table(
            [pa.array(values).cast(field.type) for values, field in zip(columns, arrow, strict=True)],
            schema=arrow,
        )
        path = join(table.metadata.location, "data", f"{self.ids.uuid()}.parquet")
        size = self._put(path, arrays, written)
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
        size = self._put(path, pa.Table.from_pylist(rows, schema=to_arrow(schema)), written)
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

    def _put(self, path: str, rows: pa.Table, written: list[str]) -> int:
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="none")
        written.append(path)
        for left in (2, 1, 0):
            try:
                self.store.put(path, buffer.getvalue())
                break
            except Unavailable:
                if not left:
                    raise
        return len(buffer.getvalue())

    def write(self, ident: TableIdent, op: str, effect: Effect, times: dict[int, int], how: str) -> bool:
        """One operation, as an engine does it: tried again while it loses races; its files go when it is refused.

        Raises:
            CommitStateUnknown: it may have happened.
            TableFormatError: it did not.
        """
        written: list[str] = []
        data: list[DataFile] = []
        first = self.catalog.load(ident)
        uuid = first.metadata.uuid
        by_name: dict[str, list[Row]] = {}
        for row in sorted(effect.add):
            by_name.setdefault(row[1], []).append(row)
        summary = {OP: op}
        if effect.offset is not None:
            summary |= {"ingest.offsets": json.dumps({"topic": {"0": effect.offset}})}

        def build(table: LoadedTable) -> Change | None:
            if table.metadata.uuid != uuid:
                raise CommitFailed("another table")
            if how == "append":
                return append(
                    self.store,
                    table,
                    data,
                    summary=summary,
                    clock=self.sim,
                    ids=self.ids,
                    merge_min=self.merge_min,
                )
            if how == "upsert":
                return self._row_delta(table, data, deletes, summary)
            return self._delete_row(table, effect, summary, written, how, times)

        try:
            data += [self.table_file(first, rows, times, written) for _, rows in sorted(by_name.items())]
            names = ("x", "y") if partition_of(first, "x") else ("x",)
            keys: list[dict[str, Any]] = [{"id": i} for i in sorted(effect.drop_ids)]
            deletes = [self.delete_file(first, keys, None, written, n) for n in names] if keys else []
            result = commit_with_retry(
                self.catalog, ident, build, store=self.store, clock=self.sim, ids=self.ids, attempts=6
            )
        except CommitStateUnknown:
            raise
        except TableFormatError:
            self.store.delete_many(written)
            raise
        return result.applied

    def _row_delta(
        self, table: LoadedTable, data: list[DataFile], deletes: list[DataFile], summary: dict[str, str]
    ) -> Change:
        changes = Changes()
        for file in (*data, *deletes):
            changes.add(file)
        with SnapshotProducer(self.store, table, clock=self.sim, ids=self.ids) as producer:
            new = producer.write_added((file, None) for file in data)
            entries = [
                ManifestEntry(
                    status=Status.ADDED,
                    snapshot_id=producer.snapshot_id,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=file,
                )
                for file in deletes
            ]
            for spec in sorted({file.spec_id for file in deletes}):
                of_spec = [entry for entry in entries if entry.data_file.spec_id == spec]
                new.append(producer.write_manifest(of_spec, spec, ManifestContent.DELETES))
            old = carried_manifests(self.store, table.metadata)
            return producer.finish(Operation.OVERWRITE, [*new, *old], changes, extra=summary)

    def _delete_row(
        self,
        table: LoadedTable,
        effect: Effect,
        summary: dict[str, str],
        written: list[str],
        how: str,
        times: dict[int, int],
    ) -> Change | None:
        """Take one row out, by position or by rewriting its file; None when it is not there (any more)."""
        (victim,) = effect.drop_rows
        head = table.metadata.current_snapshot
        if head is None:
            return None
        for task in snapshot_files(self.store, table.metadata).tasks:
            live = [
                (row["id"], row["name"], row["version"])
                for batch in read_task(self.store, task, table.metadata)
                for row in batch.to_pylist()
            ]
            if victim not in live:
                continue
            file = task.entry.data_file
            if how == "position":
                content = pq.read_table(io.BytesIO(self.store.get(file.file_path))).to_pylist()
                places = [n for n, row in enumerate(content) if row["version"] == victim[2]]
                rows = [{"file_path": file.file_path, "pos": place} for place in places]
                delete = self.delete_file(table, rows, file, written, victim[1])
                return self._row_delta(table, [], [delete], summary)
            return self._copied(table, file, [row for row in live if row != victim], summary, written, times)
        return None

    def _copied(
        self,
        table: LoadedTable,
        file: DataFile,
        rows: list[Row],
        summary: dict[str, str],
        written: list[str],
        times: dict[int, int],
    ) -> Change:
        tree = HeadTree(self.store, table.metadata, TreeCache())
        changes = Changes()
        with SnapshotProducer(self.store, table, clock=self.sim, ids=self.ids) as producer:
            new = []
            if rows:
                copy = self.table_file(table, rows, times, written)
                changes.add(copy)
                new = producer.write_added([(copy, None)])
            kept = kept_manifests(producer, tree, {(file.file_path, None)}, changes)
            return producer.finish(Operation.OVERWRITE, [*new, *kept], changes, extra=summary)


def partition_of(table: LoadedTable, name: str) -> tuple[str, ...]:
    """The partition of rows with that name."""
    return (name,) if table.metadata.spec()["fields"] else ()


def no_more(error: Exception) -> bool:
    """Whether a client that meets this goes on to its next operation."""
    return isinstance(error, Unavailable | CommitFailed | CommitStateUnknown | NotFound | Invalid)


def worker(services: Services, owner: str) -> Worker:
    """The product's worker in that process."""
    return Worker(
        services.jobs,
        services.context,
        services.sim,
        services.ids,
        WorkerSettings(
            owner=owner, kinds=tuple(JobKind), lease_ms=LEASE_MS, poll_seconds=25.0, first_retry_ms=2000
        ),
        RUNNERS,
    )


async def in_simulated_thread(fn: Callable[..., Any], *args: Any, **_: Any) -> Any:
    """Stands for `anyio.to_thread.run_sync`."""
    process = PROCESS.get()
    return await asyncio.get_running_loop().run_in_executor(SimExecutor(process), lambda: fn(*args))
