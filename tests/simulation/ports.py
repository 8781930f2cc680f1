"""The product's ports in the simulation: an object store, the database, a job's surroundings.

Each call is a point of the schedule, before its effect and after. What the store and the database hold outlives every
process.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, BinaryIO, TypeVar, cast

from sqlalchemy import create_engine, event
from sqlalchemy.pool import StaticPool

from catalog_server.services.job_context import DatabaseJobContext
from catalog_server.services.port import InProcessCatalog
from catalog_server.store import idempotency, migrate
from catalog_server.store.lookup import Lookup
from table_format.errors import CommitStateUnknown, Unavailable
from table_format.io.faults import _DelegatedOutput
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import DeleteFailure, ObjectInfo
from tests.simulation.kernel import Fate, Process, Sim

T = TypeVar("T")


class Listings:
    """What listings of the shared object store show: others' changes maybe late. Reads of one object are never late."""

    def __init__(self, sim: Sim, inner: MemoryObjectStore) -> None:
        self._sim = sim
        self._inner = inner
        self._gone: dict[str, tuple[int, ObjectInfo]] = {}

    def deleted(self, paths: Sequence[str]) -> None:
        """Called before they go."""
        if self._sim.odds.late_ms:
            now = self._sim.now_ms()
            self._gone |= {path: (now, self._inner.head(path)) for path in paths if self._inner.exists(path)}

    def below(self, prefix: str) -> list[ObjectInfo]:
        """What one listing shows, by path."""
        found = {info.path: info for info in self._inner.list(prefix)}
        if self._sim.odds.late_ms:
            now = self._sim.now_ms()
            for path in sorted(found):
                if self._late(now - (found[path].modified_ms or 0)):
                    del found[path]
            for path, (at, info) in self._gone.items():
                if path.startswith(prefix) and not self._inner.exists(path) and self._late(now - at):
                    found[path] = info
        return [found[path] for path in sorted(found)]

    def _late(self, age_ms: int) -> bool:
        return age_ms < self._sim.odds.late_ms and self._sim.rng.random() < 0.5


class SimStore:
    """One process's way to the object store that all share."""

    def __init__(
        self,
        sim: Sim,
        process: Process,
        inner: MemoryObjectStore,
        listings: Listings,
        deleting: Callable[[Sequence[str], Process], None],
    ) -> None:
        self._sim = sim
        self._process = process
        self._inner = inner
        self._listings = listings
        self._deleting = deleting

    def _before(self, what: str, path: str) -> Fate:
        fate = self._sim.point(self._process, f"{what} {path.rsplit('/', 1)[-1]}")
        if fate is Fate.BEFORE:
            raise Unavailable(f"the store is away (injected before {what} of {path})")
        return fate

    def _after(self, fate: Fate, what: str, path: str) -> None:
        if fate is Fate.AFTER:
            self._sim.point(self._process, f"{what} done, answer lost")
            raise Unavailable(f"the store's answer was lost (injected after {what} of {path})")

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        self._before("get", path)
        return self._inner.get(path, byte_range)

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        fate = self._before("put", path)
        self._inner.put(path, data, if_absent=if_absent)
        self._after(fate, "put", path)

    def head(self, path: str) -> ObjectInfo:
        self._before("head", path)
        return self._inner.head(path)

    def exists(self, path: str) -> bool:
        self._before("exists", path)
        return self._inner.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """A listing is not of one moment: others write and delete in between."""
        fate = self._before("list", prefix)
        found = self._listings.below(prefix)
        half = len(found) // 2
        yield from found[:half]
        self._sim.point(self._process, "list, half")
        last = found[half].path if half < len(found) else ""
        rest = self._listings.below(prefix)
        yield from (info for info in rest if found and info.path >= last)
        self._after(fate, "list", prefix)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """Some of a batch may go before the answer is lost."""
        wanted = list(paths)
        if not wanted:
            return []
        fate = self._before("delete", wanted[0])
        reached = wanted if fate is Fate.FINE else wanted[: self._sim.rng.randint(1, len(wanted))]
        self._deleting(reached, self._process)
        self._listings.deleted(reached)
        failures = self._inner.delete_many(reached)
        self._after(fate, "delete", wanted[0])
        return failures

    def open_input(self, path: str) -> BinaryIO:
        self._before("open", path)
        return self._inner.open_input(path)

    def open_output(self, path: str) -> BinaryIO:
        self._before("create", path)
        return cast("BinaryIO", _SimOutput(self._inner.open_output(path), self, path))


class _SimOutput(_DelegatedOutput):
    def __init__(self, inner: BinaryIO, store: SimStore, path: str) -> None:
        super().__init__(inner)
        self._store, self._path = store, path

    def close(self) -> None:
        if self.closed:
            return
        try:
            fate = self._store._before("publish", self._path)
        except BaseException:
            self.abort()
            raise
        super().close()
        self._store._after(fate, "publish", self._path)


@cache
def empty_database() -> bytes:
    """A database file of the newest revision."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.connect() as connection, connection.begin():
        migrate.bring_up_to_date(connection, "simulation")
        raw = cast("sqlite3.Connection", connection.connection.dbapi_connection)
    found = raw.serialize()
    engine.dispose()
    return found


class Shared:
    """The database that all processes share; one at a time in one thread of Python, as the schedule is."""

    def __init__(self) -> None:
        self.raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: self.raw)
        event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        self.reset(empty_database())

    def reset(self, content: bytes) -> None:
        """Begin anew from such content."""
        self.raw.deserialize(content)
        self.raw.execute("PRAGMA foreign_keys = ON")

    def run(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """One transaction."""
        with self._engine.connect() as connection, connection.begin():
            return fn(connection, *args, **kwargs)

    def look_up(self, lookup: Lookup[T]) -> T:
        """One look."""
        return lookup.answer(self.raw.execute(lookup.sql, lookup.values).fetchall())


class SimDatabase:
    """One process's way to the database; keeps the promises of `engine.Database`."""

    def __init__(self, sim: Sim, process: Process, shared: Shared, changed: Callable[[], None]) -> None:
        self._sim = sim
        self._process = process
        self._shared = shared
        self._changed = changed

    async def start(self) -> str | None:
        return None

    async def close(self) -> None:
        return None

    async def read(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self._refuse(await self._sim.apoint(self._process, f"read {fn.__name__}"))
        return self._shared.run(fn, *args, **kwargs)

    def read_now(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self._refuse(self._sim.point(self._process, f"read {fn.__name__}"))
        return self._shared.run(fn, *args, **kwargs)

    async def write(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        fate = await self._sim.apoint(self._process, f"write {fn.__name__}")
        found = self._write(fate, idempotency.joined(fn), *args, **kwargs)
        await self._sim.apoint(self._process, f"wrote {fn.__name__}")
        self._lost(fate)
        return found

    def write_now(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        fate = self._sim.point(self._process, f"write {fn.__name__}")
        found = self._write(fate, fn, *args, **kwargs)
        self._sim.point(self._process, f"wrote {fn.__name__}")
        self._lost(fate)
        return found

    async def hot(self, lookup: Lookup[T]) -> T:
        self._refuse(await self._sim.apoint(self._process, "look up"))
        return self._shared.look_up(lookup)

    def _refuse(self, fate: Fate) -> None:
        if fate is not Fate.FINE:
            raise Unavailable("the database is away (injected)")

    def _write(self, fate: Fate, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if fate is Fate.BEFORE:
            raise Unavailable("the database is away (injected)")
        found = self._shared.run(fn, *args, **kwargs)
        self._changed()
        return found

    def _lost(self, fate: Fate) -> None:
        if fate is Fate.AFTER:
            raise CommitStateUnknown("the database's answer was lost (injected)")


class SimJobContext(DatabaseJobContext):
    """The product's, but that the calling greenlet waits and no thread."""

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return cast("SimCatalog", self.catalog).wait(work)


class SimCatalog(InProcessCatalog):
    """The product's, but that the calling greenlet waits and no thread."""

    sim: Sim
    process: Process

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.sim.wait(self.process, work)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.wait(work)


def sim_catalog(sim: Sim, process: Process, bucket: str, **services: Any) -> SimCatalog:
    """The catalog in a process."""
    catalog = SimCatalog(loop=sim.loop, bucket=bucket, **services)
    object.__setattr__(catalog, "sim", sim)
    object.__setattr__(catalog, "process", process)
    return catalog


def written_under(store: MemoryObjectStore, prefix: str) -> list[str]:
    """Every object there."""
    return sorted(info.path for info in store.list(prefix))
