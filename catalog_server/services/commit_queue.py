"""Who may commit next: one queue per table (or view) in this process, first come first served.

It only saves work that would lose the race; the judge of races is the database.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from table_format.errors import Unavailable
from table_format.ident import TableIdent


class CommitQueues:
    """Locks by (bucket, table)."""

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._locks: WeakValueDictionary[tuple[int, TableIdent], asyncio.Lock] = WeakValueDictionary()
        self._waiting: Counter[tuple[int, TableIdent]] = Counter()

    @asynccontextmanager
    async def turn(self, bucket_id: int, idents: Iterable[TableIdent]) -> AsyncIterator[None]:
        """Wait until it is this caller's turn on every one of the tables.

        Raises:
            Unavailable: too many wait already.
        """
        async with AsyncExitStack() as stack:
            # Always in the same order, so that two transactions can not wait for each other.
            for ident in sorted(set(idents)):
                await self._one((bucket_id, ident), stack)
            yield

    def is_busy(self, bucket_id: int, idents: Iterable[TableIdent]) -> bool:
        """Whether whoever asks for a turn on these tables would have to wait."""
        locks = (self._locks.get((bucket_id, ident)) for ident in idents)
        return any(lock is not None and lock.locked() for lock in locks)

    async def _one(self, key: tuple[int, TableIdent], stack: AsyncExitStack) -> None:
        if self._waiting[key] >= self._max_waiting:
            raise Unavailable(f"too many commits wait for {key[1]}; try again later")
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        self._waiting[key] += 1
        try:
            await stack.enter_async_context(lock)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
