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
from catalog_server.store import unreferenced
from maintenance.ports import JobKind
from table_format.clock import Clock
from table_format.errors import CommitStateUnknown, Unavailable
from table_format.ident import Namespace, TableIdent, join
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from tests.simulation import acts
from tests.simulation.actors import BUCKET, Services, SimIds, in_simulated_thread, worker
from tests.simulation.acts import DAY_MS, Act, spec
from tests.simulation.clients import Client, RemoteCatalog
from tests.simulation.kernel import PROCESS, Doom, Odds, Process, Sim, SkewedClock, Violation
from tests.simulation.oracle import Oracle
from tests.simulation.ports import Listings, Shared, SimDatabase, SimStore, empty_database

T = TypeVar("T")
WAREHOUSE = "memory://lake/warehouse"
POLICIES: dict[str, JsonObject] = {
    "icebergCompaction": {
        "tiers": [{"belowBytes": 1 << 20, "targetBytes": 1 << 21}],
        "minInputFiles": 2,
        "deleteFileThreshold": 1,
        "triggerFileCount": 1000,
    },
    "icebergSnapshotManagement": {
        "minSnapshotsToKeep": 1,
        "maxSnapshotAgeHours": 1,
        "cleanExpiredMetadata": True,
    },
    "icebergUnreferencedFileRemoval": {"unreferencedDays": 1, "nonCurrentDays": 1},
    "icebergManifests": {"minManifests": 2},
    "icebergStatistics": {},
    "icebergRecordExpiration": {"days": 30, "column": "at", "rowDeleteShare": 0.01},
}


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
    listings: Listings
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
        world = cls(sim, store, Listings(sim, store), shared, known)
        known.expires_before_ms = lambda: sim.now_ms() - 30 * DAY_MS
        return world

    # processes

    def port(self, process: Process) -> SimStore:
        """The object store as a process reaches it."""
        return SimStore(self.sim, process, self.store, self.listings, self.oracle.deleting)

    def clock(self) -> Clock:
        """That of some machine."""
        skew = self.sim.odds.skew_ms
        return SkewedClock(self.sim, self.sim.rng.randint(-skew, skew)) if skew else self.sim

    def services(self, name: str, *, mortal: bool = True) -> Services:
        """A process with the product's services."""
        process = self.sim.process(name, mortal=mortal)
        database = SimDatabase(self.sim, process, self.shared, self.oracle.changed)
        return Services.of(self.sim, process, self.clock(), database, self.port(process))

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
                    await services.jobs.requeue_stalled(services.clock.now_ms())
                except (Unavailable, CommitStateUnknown):
                    continue

        self.sim.keep_going(tick())

    def client(self, process: Process, servers: Callable[[], list[Services]]) -> Client:
        """A program that writes to tables, in that process."""
        return Client(
            self.sim,
            process,
            RemoteCatalog(self.sim, process, servers, self.oracle),
            self.port(process),
            self.clock(),
            SimIds(self.sim),
            self.oracle.times,
            self.sim.rng.choice((None, 2)),
        )

    def add_client(self, name: str, doing: list[Act]) -> None:
        """A client that does these things one after the other; when it dies, another goes on with the next."""
        process = self.sim.process(name)
        client = self.client(process, lambda: self.servers)
        left = list(doing)
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
        self.sim.odds = Odds(skew_ms=self.sim.odds.skew_ms)
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

    def clean_up(self) -> None:
        """The remover runs on each table, undisturbed and far enough apart: only what is needed is left."""
        services = self.services("janitor", mortal=False)
        for _ in range(3):
            self.days_pass(1.5)
            for (name,) in self.shared.raw.execute("SELECT name FROM tables ORDER BY name").fetchall():
                ident = TableIdent.of("db", name)
                asked = services.jobs.request(
                    SYSTEM, BUCKET, ident, JobKind.UNREFERENCED.value, dry_run=False
                )
                self.sim.wait(services.process, asked)
            self.settle(all_of_them=True)
        self.oracle.check_nothing_left()

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


def make(
    world: World, services: Services, *, partitioned: bool, upserts: bool, version: int = 2, strays: int = 6
) -> None:
    """Bucket, policies, two tables with a past, and files that nobody needs, marked a while ago."""
    sim = world.sim
    wait = lambda work: sim.wait(services.process, work)  # noqa: E731
    world.servers.append(services)
    wait(services.database.write(new_bucket, sim.now_ms()))
    wait(services.namespaces.create(SYSTEM, BUCKET, Namespace(("db",)), {}))
    for kind, settings in POLICIES.items():
        document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400 * 30}}
        wait(services.policies.put(SYSTEM, PolicyScope(bucket=BUCKET), kind, document))
    client = world.client(services.process, lambda: [services])
    for ident in (BASE, OTHER):
        wait(
            services.tables.create(
                SYSTEM, BUCKET, ident, spec(partitioned, **{"format-version": str(version)})
            )
        )
        for how in ("append", "ingest", "upsert", "append", "position") if upserts else ("append",) * 4:
            acts.write(ident, how)(world, client)
        acts.tag(ident, "kept")(world, client)
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
    "of version 3": lambda w, s: make(w, s, partitioned=False, upserts=True, version=3),
    "partitioned, of version 3": lambda w, s: make(w, s, partitioned=True, upserts=True, version=3),
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
        skew_ms=draw.choice((0, 0, 45_000)),
        late_ms=draw.choice((0, 0, 120_000)),
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
THOROUGH = 0.1
"""How many worlds are cleaned up at their end, to see that nothing is left."""
THEMES = (
    Theme(acts=_WRITES, jobs={JobKind.COMPACTION: 1}, most_clients=3),
    Theme(
        acts={**_WRITES, "roll back": 3, "upgrade": 1},
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
        acts={
            "branch append": 3,
            "branch upsert": 3,
            "fast forward": 4,
            "drop branch": 1,
            "upsert": 1,
            "ingest": 2,
        },
        jobs={JobKind.SNAPSHOTS: 3, JobKind.COMPACTION: 2, JobKind.UNREFERENCED: 1, JobKind.MANIFESTS: 1},
        most_jobs=2,
        most_clients=3,
    ),
    Theme(
        acts={"together": 5, "mark": 3, "append": 1, "upsert": 1, "evolve": 1, "drop": 1, "undrop": 1},
        jobs={JobKind.COMPACTION: 2, JobKind.SNAPSHOTS: 1},
        tables=(BASE, OTHER),
        most_clients=4,
    ),
    Theme(
        acts={**_WRITES, "evolve": 3, "upgrade": 2, "mark": 1, "branch append": 1},
        jobs={JobKind.COMPACTION: 2, JobKind.SNAPSHOTS: 3, JobKind.RECORDS: 1},
        most_jobs=3,
    ),
    Theme(
        acts={
            **_WRITES,
            "ingest": 2,
            "tag": 1,
            "branch upsert": 1,
            "fast forward": 1,
            "evolve": 1,
            "together": 1,
            "roll back": 1,
            "rename": 1,
            "drop": 1,
            "undrop": 1,
        },
        jobs={kind: 1 for kind in JobKind if kind not in (JobKind.STATISTICS, JobKind.PURGE)},
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
        if kind is JobKind.RECORDS:  # else there is nothing old
            for how in ("mixed", "mixed", "position"):
                acts.write(BASE, how)(world, world.client(services.process, lambda: [services]))
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
            doing = [draw_act(world, theme, ingests=client == 0) for _ in range(rng.randint(1, 2))]
            world.add_client(f"client-{number}-{client}", doing)
        kinds = drawn(rng, theme.jobs, rng.randint(1, theme.most_jobs))
        asks = [acts.request(rng.choice(theme.tables), kind) for kind in kinds]
        world.add_client(f"client-{number}-asks", asks)
    world.settle()
    world.quiesce()
    if rng.random() < THOROUGH:
        world.clean_up()
    world.close()


def drawn(rng: random.Random, weights: dict[T, int], number: int) -> list[T]:
    """So many of them."""
    return rng.choices(list(weights), list(weights.values()), k=number)


WRITES = ("append", "upsert", "position", "copy", "ingest")
ON_ONE_TABLE: dict[str, Callable[[TableIdent], Act]] = {
    "branch append": lambda ident: acts.write_to_branch(ident, "append"),
    "branch upsert": lambda ident: acts.write_to_branch(ident, "upsert"),
    "fast forward": acts.fast_forward,
    "publish": acts.publish,
    "drop branch": acts.drop_branch,
    "roll back": acts.roll_back,
    "mark": acts.set_mark,
    "upgrade": acts.upgrade,
    "evolve": acts.evolve,
}


def draw_act(world: World, theme: Theme, *, ingests: bool) -> Act:
    """Something that a client may do. Only one client at a time carries offsets, as ingest's coordinator does."""
    rng = world.sim.rng
    ident = rng.choice(theme.tables)
    (what,) = drawn(rng, theme.acts, 1)
    if what == "ingest" and not ingests:
        what = "append"
    if what in WRITES:
        return acts.write(ident, what)
    if what in ON_ONE_TABLE:
        return ON_ONE_TABLE[what](ident)
    if what == "together":
        return acts.write_together((BASE, OTHER))
    if what == "tag":
        return acts.tag(ident, f"t{rng.randrange(3)}")
    first, second = rng.sample((BASE, OTHER, NEW), 2)
    return acts.life(what, first, second)


def seeds() -> range:
    """Which seeds to play: SIMULATION_SEED alone, or SIMULATION_SEEDS of them from SIMULATION_FIRST on."""
    one = os.environ.get("SIMULATION_SEED")
    if one is not None:
        return range(int(one), int(one) + 1)
    first = int(os.environ.get("SIMULATION_FIRST", "0"))
    return range(first, first + int(os.environ.get("SIMULATION_SEEDS", "2000")))
