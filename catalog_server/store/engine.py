"""The database as the services see it, and the choice of one by the settings.

A function passed to `read` or `write` gets a connection inside a transaction and must not keep it. It may run more
than once, so it changes nothing but the database. Not here: what the statements say, and how each kind keeps its
promises.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from catalog_server.settings import PostgresUrl, Settings
from catalog_server.store.lookup import Lookup
from catalog_server.store.postgres import PostgresDatabase
from catalog_server.store.sqlite import SqliteDatabase

P = ParamSpec("P")
T = TypeVar("T")


class Database(Protocol):
    """Reads and all-or-nothing writes; several processes may have it open."""

    async def start(self) -> str | None:
        """Bring the database to this program's revision and open it; the revision it had, None when it is new.

        Raises:
            DatabaseTooNew: a newer program has written it.
            StartError: it can not be opened.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that wait, then close everything."""
        ...

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `fn(connection, …)` in one read transaction: all its statements see the same state.

        Raises:
            Unavailable: the database does not answer.
        """
        ...

    def read_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable: the database does not answer.
        """
        ...

    async def write(
        self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `fn(connection, …)` as one all-or-nothing unit; returns once it is durable.

        No other unit changes the database meanwhile, in any process: what `fn` found holds until it is done. (Units
        marked with `row_locks` may run beside each other.) An exception of `fn` undoes the unit and comes out here.
        A request with an Idempotency-Key has its answer written in the same transaction (`idempotency.joined`).

        Raises:
            Unavailable: certainly not applied.
            CommitStateUnknown: the final COMMIT failed in a way that leaves its outcome open.
        """
        ...

    def write_now(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write`, waiting in the calling thread (for worker threads, never on the event loop).

        Raises:
            Unavailable, CommitStateUnknown: as `write`.
        """
        ...

    async def hot(self, lookup: Lookup[T]) -> T:
        """Answer a lookup of a few indexed rows in the cheapest way there is.

        Raises:
            Unavailable: the database does not answer.
        """
        ...


def choose(settings: Settings) -> Database:
    """The database that the settings name; opens nothing yet."""
    wanted = settings.database
    location = settings.database_location
    if isinstance(location, PostgresUrl):
        return PostgresDatabase(location.url, location.label, wanted)
    return SqliteDatabase(
        location,
        busy_timeout_seconds=wanted.busy_timeout_seconds,
        readers=wanted.readers,
        max_batch=wanted.max_batch,
        max_queued_writes=wanted.max_queued_writes,
    )
