"""Plans that outlive the request that asked for them: seen through, written down, or left to another process.

The row is the plan; a lease on it, renewed while somebody plans, tells other processes that they need not. A renewal
that finds the plan cancelled ends the work.
"""

import asyncio

import structlog

from catalog_server.services.plan_work import Outcome
from catalog_server.store import plans as rows
from catalog_server.store.engine import Database
from catalog_server.store.plans import PlanRow
from catalog_server.telemetry import PLANS
from table_format.clock import Clock
from table_format.errors import Invalid, NotFound, TableFormatError, Unavailable
from table_format.jsontypes import JsonObject

_log = structlog.get_logger(__name__)

LEASE_MS = 15_000
_HEARTBEAT_SECONDS = 5.0


class Background:
    """The plans that this process sees through. Used on the event loop only."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._going: dict[str, asyncio.Task[None]] = {}

    def see_through(self, plan_id: str, work: "asyncio.Task[Outcome]") -> None:
        """Wait for the work of a submitted plan and write down what it comes to."""
        task = asyncio.get_running_loop().create_task(self._see_through(plan_id, work))
        self._going[plan_id] = task
        task.add_done_callback(lambda _: self._going.pop(plan_id, None))

    async def claim(self, row: PlanRow) -> bool:
        """Whether nobody works on this submitted plan any more, so that we must."""
        now_ms = self._clock.now_ms()
        if row.id in self._going or row.lease_until_ms > now_ms:
            return False
        return await self._database.write(rows.take, row.id, now_ms, now_ms + LEASE_MS)

    def stop(self, plan_id: str) -> None:
        """Stop working on a plan that was cancelled."""
        if (going := self._going.get(plan_id)) is not None:
            going.cancel()

    async def close(self) -> None:
        """Stop all work and leave the plans to whoever is asked for them next."""
        going = dict(self._going)
        for task in going.values():
            task.cancel()
        await asyncio.gather(*going.values(), return_exceptions=True)
        for plan_id in going:
            await self._database.write(rows.renew, plan_id, 0)

    async def _see_through(self, plan_id: str, work: "asyncio.Task[Outcome]") -> None:
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=_HEARTBEAT_SECONDS)
                lease_ms = self._clock.now_ms() + LEASE_MS
                if not work.done() and not await self._database.write(rows.renew, plan_id, lease_ms):
                    return  # cancelled through another process
            await self._write_down(plan_id, work)
        except TableFormatError as error:
            # The database does not answer: the lease runs out, and the plan is made again for whoever asks.
            _log.warning("plan_not_kept", plan=plan_id, error=error.message)
        finally:
            work.cancel()

    async def _write_down(self, plan_id: str, work: "asyncio.Task[Outcome]") -> None:
        try:
            outcome = work.result()
        except Unavailable as error:
            _log.warning("plan_interrupted", plan=plan_id, error=error.message)
            await self._database.write(rows.renew, plan_id, 0)
        except TableFormatError as error:
            PLANS.labels("failed").inc()
            await self._database.write(rows.finish, plan_id, [], _told(error))
        else:
            await self._database.write(rows.finish, plan_id, outcome.pages, None)


def _told(error: TableFormatError) -> JsonObject:
    """The error as an Iceberg error object; planning that was begun fails by a bad request or by missing files."""
    if isinstance(error, Invalid):
        return {"message": error.message, "type": "BadRequestException", "code": 400}
    if isinstance(error, NotFound):
        return {"message": error.message, "type": "NotFoundException", "code": 404}
    return {"message": error.message, "type": "InternalServerError", "code": 500}
