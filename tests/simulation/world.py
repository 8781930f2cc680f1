"""One world for each seed: two servers, two workers, some clients, tables with a past; then what must hold.

`run(seed)` plays it and raises `Violation` with the story of the seed when something does not hold.
"""

import asyncio
import json
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import anyio.to_thread
import structlog

from catalog_server.services.policies import PolicyScope
from catalog_server.services.principals import SYSTEM
from catalog_server.services.tables import TableSpec
from catalog_server.store import unreferenced
from maintenance.ports import JobKind
from table_format.errors import (
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NotFound,
    TableFormatError,
    Unavailable,
)
from table_format.ident import Namespace, TableIdent, join
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from tests.simulation.actors import (
    BUCKET,
    Client,
    RemoteCatalog,
    Services,
    SimIds,
    in_simulated_thread,
    worker,
)
from tests.simulation.kernel import PROCESS, Doom, Odds, Process, Sim, Violation
from tests.simulation.oracle import Effect, Oracle
from tests.simulation.ports import Shared, SimDatabase, SimStore, empty_database

T = TypeVar("T")
WAREHOUSE = "memory://lake/warehouse"
DAY_MS = 86_400_000
NAMES = ("x", "y")
SCHEMA: JsonObject = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "version", "required": False, "type": "long"},
        {"id": 4, "name": "at", "required": False, "type": "timestamptz"},
    ],
}
BY_NAME: JsonObject = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}],
}
POLICIES: dict[str, JsonObject] = {
    "icebergCompaction": {
        "tiers": [{"belowBytes": 1 << 20, "targetBytes": 1 << 21}],
        "minInputFiles": 2,
        "deleteFileThreshold": 1,
        "triggerFileCount": 1000,
    },
    "icebergSnapshotManagement": {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1},
    "icebergUnreferencedFileRemoval": {"unreferencedDays": 1, "nonCurrentDays": 1},
    "icebergManifests": {"minManifests": 2},
    "icebergRecordExpiration": {"days": 30, "column": "at"},
}
OLD_DAYS = 31


@dataclass(frozen=True)
class Template:
    """Where worlds begin: what the store and the database hold, and what the oracle knows."""

    objects: dict[str, Any]
    database: bytes
    oracle: Oracle
    now_ms: int
    versions: int
    ops: int


@dataclass(eq=False)
class World:
    """Everything of one seed."""

    sim: Sim
    store: MemoryObjectStore
    shared: Shared
    oracle: Oracle
    servers: list[Services] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    acked: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    open_clients: int = 0
    next_version: int = 1
    ops: int = 0
    closing: bool = False
    outcomes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, sim: Sim, shared: Shared, oracle: Oracle | None = None) -> "World":
        store = MemoryObjectStore(sim)

        def complain(text: str) -> None:
            sim.violations.append(Violation(text))

        known = (
            Oracle(store, shared.raw, complain)
            if oracle is None
            else oracle.copy(store, shared.raw, complain)
        )
        world = cls(sim, store, shared, known)
        known.expires_before_ms = lambda: sim.now_ms() - 30 * DAY_MS
        return world

    # processes

    def port(self, process: Process) -> SimStore:
        """The object store as a process reaches it."""
        return SimStore(self.sim, process, self.store, self.oracle.deleting)

    def services(self, name: str, *, mortal: bool = True) -> Services:
        """A process with the product's services."""
        process = self.sim.process(name, mortal=mortal)
        database = SimDatabase(self.sim, process, self.shared, self.oracle.changed)
        return Services.of(self.sim, process, database, self.port(process))

    def add_server(self) -> None:
        """A server; another takes its place when it dies."""
        services = self.services(f"server-{len(self.sim.processes)}")
        self.servers.append(services)

        def replaced() -> None:
            self.servers.remove(services)
            self.add_server()

        services.process.at_death.append(replaced)

    def add_worker(self) -> None:
        """A worker; another takes its place when it dies."""
        services = self.services(f"worker-{len(self.sim.processes)}")
        process = services.process
        self.workers.append(process)
        product = worker(services, process.name)

        async def work() -> None:
            PROCESS.set(process)
            while not self.closing:
                pause = 20
                if self._due():
                    try:
                        pause = 0 if await product.run_once() else 60
                    except (Unavailable, CommitStateUnknown):
                        pause = 5
                if pause:
                    await asyncio.sleep(pause)

        def replaced() -> None:
            self.workers.remove(process)
            if not self.closing:
                self.add_worker()

        process.at_death.append(replaced)
        self.sim.keep_going(work())

    def _due(self) -> bool:
        """Whether a claim could find a job: asked without the product, as an idle claim costs it milliseconds."""
        sql = "SELECT 1 FROM jobs WHERE state = 'queued' AND run_after_ms <= ? LIMIT 1"
        return self.shared.raw.execute(sql, (self.sim.now_ms(),)).fetchone() is not None

    def _lapsed(self) -> bool:
        """Whether a lease ran out."""
        sql = "SELECT 1 FROM jobs WHERE state = 'running' AND lease_until_ms < ? LIMIT 1"
        return self.shared.raw.execute(sql, (self.sim.now_ms(),)).fetchone() is not None

    def add_clock(self) -> None:
        """Gives stalled jobs back, as every server does at its ticks."""
        services = self.services("clock", mortal=False)

        async def tick() -> None:
            while not self.closing:
                await asyncio.sleep(15)
                if not self._lapsed():
                    continue
                try:
                    await services.jobs.requeue_stalled(self.sim.now_ms())
                except (Unavailable, CommitStateUnknown):
                    continue

        self.sim.keep_going(tick())

    def add_client(self, name: str, acts: list[Callable[["World", Client], None]]) -> None:
        """A client that does these things one after the other; when it dies, another goes on with the next."""
        process = self.sim.process(name)
        ids = SimIds(self.sim)
        catalog = RemoteCatalog(self.sim, process, lambda: self.servers)
        client = Client(self.sim, process, catalog, self.port(process), ids, self.sim.rng.choice((None, 2)))
        left = list(acts)
        self.open_clients += 1

        def act() -> None:
            try:
                while left:
                    left.pop(0)(self, client)
            except Exception as error:
                unexpected = Violation(f"{name} met {type(error).__name__}: {error}")
                unexpected.__cause__ = error
                self.sim.violations.append(unexpected)
                raise
            self.open_clients -= 1
            process.alive = False

        def died() -> None:
            self.open_clients -= 1
            if left:
                self.add_client(f"{name}'", left)

        process.at_death.append(died)
        self.sim.spawn(process, act, name)

    # what clients do

    def effect(self, uuid: str, how: str) -> Effect | None:
        """An operation of that kind that makes sense on the table as it is."""
        rng, oracle = self.sim.rng, self.oracle
        rows = sorted(oracle.histories[uuid].rows())
        version = self.next_version
        self.next_version += 10
        if how in ("position", "copy"):
            return Effect(drop_rows=frozenset({rng.choice(rows)})) if rows else None
        old = rng.random() < 0.2
        time = self.sim.now_ms() - (OLD_DAYS * DAY_MS if old else 0)
        ids = rng.sample(range(6), 1 if how == "upsert" else rng.randint(1, 3))
        add = frozenset((i, rng.choice(NAMES), version + n) for n, i in enumerate(ids))
        for row in add:
            oracle.times[row[2]] = time
        if how == "upsert":
            return Effect(add=add, drop_ids=frozenset(ids))
        return Effect(add=add, offset=version if how == "ingest" else None)

    def write(self, ident: TableIdent, how: str) -> Callable[["World", Client], None]:
        """One write, and what its client makes of the answer."""

        def act(_: "World", client: Client) -> None:
            try:
                uuid = str(client.catalog.load(ident).metadata.uuid)
            except (NotFound, Unavailable):
                return
            effect = self.effect(uuid, how)
            if effect is None:
                return
            self.ops += 1
            op = f"{how}-{self.ops}"
            self.oracle.effects[op] = effect
            try:
                done = client.write(
                    ident, op, effect, self.oracle.times, how if how != "ingest" else "append"
                )
            except CommitStateUnknown:
                self.outcomes["unknown"] += 1
            except (Unavailable, CommitFailed, NotFound, Invalid) as error:
                if isinstance(error, Invalid):
                    raise
                self.outcomes[f"refused: {type(error).__name__}"] += 1
                self.refused.append((uuid, op))
            else:
                self.outcomes["acked" if done else "nothing to do"] += 1
                if done:
                    self.acked.append((uuid, op))

        return act

    def request(self, ident: TableIdent, kind: JobKind) -> Callable[["World", Client], None]:
        """Somebody asks for a job."""

        def act(_: "World", client: Client) -> None:
            with_answer(
                lambda: client.catalog.ask(
                    f"request {kind.value}",
                    lambda server: server.jobs.request(SYSTEM, BUCKET, ident, kind.value, dry_run=False),
                )
            )

        return act

    def point_main(self, ident: TableIdent) -> Callable[["World", Client], None]:
        """Roll main back to an ancestor."""

        def act(_: "World", client: Client) -> None:
            def roll() -> None:
                table = client.catalog.load(ident)
                snapshots = {s["snapshot-id"]: s for s in table.metadata.snapshots}
                head = table.metadata.current_snapshot_id
                chain = []
                current = head
                while current in snapshots:
                    chain.append(current)
                    current = snapshots[current].get("parent-snapshot-id")
                if len(chain) < 2:
                    return
                to = self.sim.rng.choice(chain[1:3])
                self.oracle.histories[str(table.metadata.uuid)].rolled_back = True
                client.catalog.commit(
                    ident,
                    [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head}],
                    [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": to}],
                )

            with_answer(roll)

        return act

    def tag(self, ident: TableIdent, name: str) -> Callable[["World", Client], None]:
        """Tag some snapshot, maybe one that is just expiring."""

        def act(_: "World", client: Client) -> None:
            def mark() -> None:
                table = client.catalog.load(ident)
                if not table.metadata.snapshots:
                    return
                at = self.sim.rng.choice(table.metadata.snapshots)["snapshot-id"]
                client.catalog.commit(
                    ident,
                    [{"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": None}],
                    [{"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": at}],
                )

            with_answer(mark)

        return act

    def life(self, what: str, ident: TableIdent, other: TableIdent) -> Callable[["World", Client], None]:
        """Drop, purge, restore, rename, make another of the name."""

        def act(_: "World", client: Client) -> None:
            ask = client.catalog.ask
            if what == "rename":
                with_answer(lambda: ask(what, lambda s: s.tables.rename(SYSTEM, BUCKET, ident, other)))
            elif what == "drop":
                with_answer(lambda: ask(what, lambda s: s.tables.drop(SYSTEM, BUCKET, ident)))
            elif what == "purge":
                with_answer(lambda: ask(what, lambda s: s.tables.purge(SYSTEM, BUCKET, ident)))
            elif what == "undrop":
                found = self.shared.raw.execute(
                    "SELECT resource_id FROM dropped_tables ORDER BY table_id"
                ).fetchall()
                if found:
                    resource = self.sim.rng.choice(found)[0]
                    with_answer(lambda: ask(what, lambda s: s.drops.undrop(SYSTEM, BUCKET, resource)))
            elif what == "create":
                with_answer(lambda: ask(what, lambda s: s.tables.create(SYSTEM, BUCKET, ident, spec())))

        return act

    # phases

    def settle(self, *, all_of_them: bool = False) -> None:
        """Until clients are done and no job is due; what stands still may stay so, unless all shall come to an end."""

        def done() -> bool:
            if all_of_them and any(process.alive and process.tasks for process in self.sim.processes):
                return False
            if self.open_clients > self._standing():
                return False
            now = self.sim.now_ms()
            row = self.shared.raw.execute(
                "SELECT count(*) FROM jobs WHERE (state = 'queued' AND run_after_ms <= ?) OR state = 'running'",
                (now,),
            ).fetchone()
            return bool(row[0] == 0)

        self.sim.run(done)

    def _standing(self) -> int:
        now = self.sim.now_ms()
        return sum(
            1
            for process in self.sim.processes
            if process.alive and process.name.startswith("client") and process.stalled_until_ms > now
        )

    def quiesce(self) -> None:
        """Nothing fails any more and everybody who stands still goes on, until all is done."""
        self.sim.odds = Odds()
        for process in self.sim.processes:
            process.stalled_until_ms = 0
        self.settle(all_of_them=True)

    def close(self) -> None:
        """Look at all that is kept, and at what clients were told.

        Raises:
            Violation: something does not hold.
        """
        self.closing = True
        self.oracle.check_all()
        self.oracle.check_answers(self.acked, self.refused)
        if self.sim.violations:
            raise self.sim.violations[0]
        if self.sim.background:
            raise Violation(str(self.sim.background))

    def days_pass(self, days: float) -> None:
        """Long enough for files to come of age: no commit is under way for so long, deletions may be."""
        for process in list(self.sim.processes):
            if process.alive and process.name.startswith(("client", "server")) and process.tasks:
                self.sim.kill(process, "the days that pass")
        for process in list(self.workers):
            kinds = {
                kind
                for (kind,) in self.shared.raw.execute(
                    "SELECT kind FROM jobs WHERE state = 'running' AND lease_owner = ?", (process.name,)
                )
            }
            if process.stalled_until_ms > self.sim.now_ms() and kinds & {
                "icebergCompaction",
                "icebergRecordExpiration",
            }:
                self.sim.kill(process, "the days that pass")
            elif process.stalled_until_ms > self.sim.now_ms():
                process.stalled_until_ms += int(days * DAY_MS) + self.sim.rng.randint(0, 60_000)
        self.sim.note(f"{days} days pass")
        self.sim.advance_ms(int(days * DAY_MS))


def with_answer(call: Callable[[], Any]) -> None:
    """Do it; whatever a client may be answered is all right."""
    try:
        call()
    except (Unavailable, CommitFailed, CommitStateUnknown, NotFound):
        return
    except TableFormatError as error:
        if error.kind.value not in ("already_exists", "conflict", "requirement_failed", "invalid"):
            raise


def spec(partitioned: bool = False, **properties: str) -> TableSpec:
    """A table of these worlds."""
    return TableSpec(
        schema=SCHEMA,
        partition_spec=BY_NAME if partitioned else None,
        properties={"write.metadata.previous-versions-max": "2", **properties},
    )


@cache
def shared_database() -> Shared:
    """One for all worlds of this process of Python, one after the other."""
    return Shared()


BASE, OTHER, NEW = (TableIdent.of("db", name) for name in ("base", "other", "new"))


@cache
def template(kind: str) -> Template:
    """A world's beginning: made without any failure, the same each time."""
    shared = shared_database()
    shared.reset(empty_database())
    with Sim(sorted(KINDS).index(kind), Odds()) as sim, patched():
        world = World.of(sim, shared)
        services = world.services("maker", mortal=False)
        KINDS[kind](world, services)
        sim.advance_ms(2 * DAY_MS)
        if sim.violations:
            raise sim.violations[0]
        return Template(
            dict(world.store._objects),
            shared.raw.serialize(),
            world.oracle,
            sim.now_ms(),
            world.next_version,
            world.ops,
        )


def make(world: World, services: Services, *, partitioned: bool, upserts: bool, strays: int = 6) -> None:
    """Bucket, policies, two tables with a past, and files that nobody needs, marked a while ago."""
    sim = world.sim
    wait = lambda work: sim.wait(services.process, work)  # noqa: E731
    world.servers.append(services)
    wait(services.database.write(new_bucket, sim.now_ms()))
    wait(services.namespaces.create(SYSTEM, BUCKET, Namespace(("db",)), {}))
    for kind, settings in POLICIES.items():
        document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400 * 30}}
        wait(services.policies.put(SYSTEM, PolicyScope(bucket=BUCKET), kind, document))
    client = Client(
        sim,
        services.process,
        RemoteCatalog(sim, services.process, lambda: [services]),
        world.port(services.process),
        services.ids,
    )
    for ident in (BASE, OTHER):
        wait(services.tables.create(SYSTEM, BUCKET, ident, spec(partitioned)))
        for how in ("append", "ingest", "upsert", "append", "position") if upserts else ("append",) * 4:
            world.write(ident, how)(world, client)
        world.tag(ident, "kept")(world, client)
        table = client.catalog.load(ident)
        for number in range(strays):
            path = join(table.metadata.location, "data", f"stray-{number}.parquet")
            world.store.put(path, b"nobody needs this")
            world.shared.run(mark, str(table.metadata.uuid), path, sim.now_ms())


def new_bucket(connection: Any, now_ms: int) -> None:
    connection.exec_driver_sql(
        "INSERT INTO buckets (name, location, properties, created_at_ms, resource_id) VALUES (?, ?, '{}', ?, ?)",
        (BUCKET, WAREHOUSE, now_ms, "b"),
    )


def mark(connection: Any, uuid: str, path: str, now_ms: int) -> None:
    unreferenced.mark(connection, uuid, [(path, 17, now_ms)])


KINDS: dict[str, Callable[[World, Services], None]] = {
    "appended": lambda w, s: make(w, s, partitioned=False, upserts=False),
    "upserted": lambda w, s: make(w, s, partitioned=False, upserts=True),
    "partitioned": lambda w, s: make(w, s, partitioned=True, upserts=True),
}


@contextmanager
def patched() -> Iterator[None]:
    """The worker's threads are greenlets."""
    before, logs = anyio.to_thread.run_sync, structlog.get_config()
    anyio.to_thread.run_sync = in_simulated_thread  # type: ignore[assignment]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        anyio.to_thread.run_sync = before
        structlog.configure(**logs)
        logging.disable(logging.NOTSET)


def run(seed: int) -> Counter[str]:
    """Play a seed; what happened in it, in numbers.

    Raises:
        Violation: something does not hold; the message tells the story.
    """
    draw = random.Random(seed)
    begin = template(draw.choice(sorted(KINDS)))
    odds = Odds(
        fail=draw.choice((0.0, 0.01, 0.03, 0.06)),
        crash=draw.choice((0.0, 0.0, 0.003, 0.01)),
        twice=draw.choice((0.0, 0.1)),
        stall=draw.choice((0.0, 0.0, 0.003, 0.01)),
        rush=draw.choice((0.0, 0.02, 0.1)),
    )
    shared = shared_database()
    shared.reset(begin.database)
    with Sim(seed, odds, begin.now_ms) as sim, patched():
        world = World.of(sim, shared, begin.oracle)
        world.store._objects.update(begin.objects)
        world.next_version, world.ops = begin.versions, begin.ops
        sim.steps = 1
        try:
            play(world)
        except Exception as error:
            story = "\n".join(sim.trace[-400:])
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}\n{story}") from error
        counts = world.oracle.counts + world.outcomes
        counts["steps"] = sim.steps
        for kind, state, report in shared.raw.execute("SELECT kind, state, report FROM jobs"):
            outcome = json.loads(report)["outcome"] if report else ""
            counts[f"{kind} {state} {outcome}"] += 1
        return counts


@dataclass(frozen=True, kw_only=True)
class Theme:
    """What the actors of a world are likely to do: a narrow one meets rare races more often."""

    acts: dict[str, int]
    """How often a client does what."""
    jobs: dict[JobKind, int]
    tables: tuple[TableIdent, ...] = (BASE,)
    most_clients: int = 2
    most_jobs: int = 1


_WRITES = {"append": 2, "upsert": 3, "position": 2, "copy": 2}
THEMES = (
    Theme(acts=_WRITES, jobs={JobKind.COMPACTION: 1}, most_clients=3),
    Theme(
        acts={**_WRITES, "roll back": 3},
        jobs={JobKind.COMPACTION: 3, JobKind.RECORDS: 1, JobKind.MANIFESTS: 2},
        most_jobs=2,
    ),
    Theme(
        acts={"tag": 3, "roll back": 1, "append": 2, "upsert": 1, "ingest": 2},
        jobs={JobKind.SNAPSHOTS: 4, JobKind.COMPACTION: 1, JobKind.MANIFESTS: 1},
        most_jobs=2,
    ),
    Theme(
        acts={"append": 2, "upsert": 2, "copy": 1},
        jobs={JobKind.UNREFERENCED: 2, JobKind.COMPACTION: 1},
        most_jobs=2,
    ),
    Theme(
        acts={"rename": 2, "drop": 2, "purge": 2, "undrop": 3, "create": 2, "append": 1, "upsert": 1},
        jobs={JobKind.SNAPSHOTS: 1, JobKind.UNREFERENCED: 1, JobKind.COMPACTION: 1},
        tables=(BASE, OTHER),
    ),
    Theme(
        acts={**_WRITES, "ingest": 2, "tag": 1, "roll back": 1, "rename": 1, "drop": 1, "undrop": 1},
        jobs={kind: 1 for kind in JobKind if kind is not JobKind.PURGE},
        tables=(BASE, BASE, OTHER),
        most_jobs=3,
    ),
)


def one_job(kind: JobKind, point: int, stall_ms: int) -> str | None:
    """A world with one job, whose worker dies (or stands still) at that point of its run; the point's name.

    Another worker carries the job on, and one that stood still goes on after that. None: the run has fewer points.

    Raises:
        Violation: something does not hold, or the job did not come to its end.
    """
    begin = template("upserted")
    shared = shared_database()
    shared.reset(begin.database)
    with Sim(0, Odds(rush=0.0), begin.now_ms) as sim, patched():
        world = World.of(sim, shared, begin.oracle)
        world.store._objects.update(begin.objects)
        services = world.services("asks", mortal=False)
        if kind is JobKind.PURGE:
            sim.wait(services.process, services.tables.purge(SYSTEM, BUCKET, BASE))
        else:
            sim.wait(services.process, services.jobs.request(SYSTEM, BUCKET, BASE, kind.value, dry_run=False))
        sim.steps = 1
        world.add_worker()
        world.add_clock()
        sim.doom = doom = Doom(process=world.workers[0], left=point, stall_ms=stall_ms, then=world.add_worker)
        world.settle()
        world.quiesce()
        world.close()
        left = shared.raw.execute(
            # Its next run may wait for its time.
            "SELECT kind, state, error FROM jobs WHERE state <> 'done' AND NOT (state = 'queued' AND attempts = 0)"
        ).fetchall()
        if left:
            raise Violation(f"killed or stopped at {doom.at}, the job did not come to its end: {left}")
        return doom.at


def play(world: World) -> None:
    """One scenario, drawn from the seed."""
    rng = world.sim.rng
    theme = rng.choice(THEMES)
    for _ in range(2):
        world.add_server()
        world.add_worker()
    world.add_clock()
    phases = rng.choice((1,) * 10 + (2, 3))
    for number in range(phases):
        if number:
            world.settle()
            world.days_pass(rng.choice((1.2, 2.5)))
        for client in range(rng.randint(1, theme.most_clients)):
            acts = [draw_act(world, theme, ingests=client == 0) for _ in range(rng.randint(1, 2))]
            world.add_client(f"client-{number}-{client}", acts)
        kinds = drawn(rng, theme.jobs, rng.randint(1, theme.most_jobs))
        asks = [world.request(rng.choice(theme.tables), kind) for kind in kinds]
        world.add_client(f"client-{number}-asks", asks)
    world.settle()
    world.quiesce()
    world.close()


def drawn(rng: random.Random, weights: dict[T, int], number: int) -> list[T]:
    """So many of them."""
    return rng.choices(list(weights), list(weights.values()), k=number)


def draw_act(world: World, theme: Theme, *, ingests: bool) -> Callable[[World, Client], None]:
    """Something that a client may do. Only one client at a time carries offsets, as ingest's coordinator does."""
    rng = world.sim.rng
    ident = rng.choice(theme.tables)
    (what,) = drawn(rng, theme.acts, 1)
    if what == "ingest" and not ingests:
        what = "append"
    if what in ("append", "upsert", "position", "copy", "ingest"):
        return world.write(ident, what)
    if what == "roll back":
        return world.point_main(ident)
    if what == "tag":
        return world.tag(ident, f"t{rng.randrange(3)}")
    first, second = rng.sample((BASE, OTHER, NEW), 2)
    return world.life(what, first, second)


def seeds() -> range:
    """Which seeds to play: SIMULATION_SEED alone, or SIMULATION_SEEDS of them from SIMULATION_FIRST on."""
    one = os.environ.get("SIMULATION_SEED")
    if one is not None:
        return range(int(one), int(one) + 1)
    first = int(os.environ.get("SIMULATION_FIRST", "0"))
    return range(first, first + int(os.environ.get("SIMULATION_SEEDS", "2000")))
