"""Work that is run to its end even if the client goes away: half a commit is a file nobody cleans up."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class InFlight:
    """The tasks of one service that must finish before it may stop."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work; whoever waits for it may be cancelled, the work is not."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait for the work that is on its way."""
        while self._running:
            await asyncio.wait(set(self._running))
