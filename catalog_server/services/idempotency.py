"""Requests with an Idempotency-Key: one has its effect, and every other is told what that one was told.

Within this process requests with one key take turns; between processes the database decides, since the answer is
written in the transaction of the effect. Answers are kept for the announced lifetime and a while longer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakValueDictionary

from catalog_server.store import idempotency as rows
from catalog_server.store.engine import Database
from catalog_server.store.idempotency import Answer, Claim, RequestKey
from table_format.clock import Clock
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

__all__ = ["Claim", "IdempotencyService", "RequestKey"]

GRACE_MS = 5 * 60_000
"""Kept longer than announced by this, for slow networks and clocks that differ."""


class IdempotencyService:
    """The answers of requests with a key."""

    def __init__(self, database: Database, clock: Clock, *, lifetime_ms: int) -> None:
        self._database = database
        self._clock = clock
        self._kept_ms = lifetime_ms + GRACE_MS
        self._locks: WeakValueDictionary[RequestKey, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, key: RequestKey) -> AsyncIterator[None]:
        """Wait for the request with the same key that is on its way in this process."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            yield

    async def find(self, key: RequestKey) -> JsonObject | None:
        """What the request with this key was answered, or None when there was none.

        Raises:
            Invalid: the key was used for another request.
        """
        found = await self._database.hot(rows.lookup(key))
        return None if found is None else _checked(key, found)

    @contextmanager
    def claim(self, key: RequestKey, note: Callable[[Any], JsonObject]) -> Iterator[Claim]:
        """Whatever is written in this context is written together with `note(its result)` as the answer."""
        made = Claim(key=key, note=note, now_ms=self._clock.now_ms())
        with rows.claiming(made):
            yield made

    async def settle(self, key: RequestKey, outcome: JsonObject) -> JsonObject:
        """Keep the answer of a request that changed nothing; what is kept, which may be another's answer.

        Raises:
            Invalid: the key was used for another request meanwhile.
        """
        return _checked(key, await self._database.write(rows.settle, key, outcome, self._clock.now_ms()))

    async def forget_expired(self) -> int:
        """Delete the answers whose time is over; how many."""
        return await self._database.write(rows.forget_before, self._clock.now_ms() - self._kept_ms)


def _checked(key: RequestKey, found: Answer) -> JsonObject:
    if found.fingerprint != key.fingerprint:
        raise Invalid("this Idempotency-Key was used for another request: take a new key for each request")
    return found.outcome
