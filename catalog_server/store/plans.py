"""Rows of scan plans: what is scanned, where its pages begin, until when. A plan past its time is not there.

`scan` is opaque here (the service packs and unpacks it).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from catalog_server.store.schema import scan_plans
from catalog_server.store.units import row_locks
from table_format.jsontypes import JsonObject

Pages: TypeAlias = list[list[int | None]]
"""Where the pages of a plan begin and end, in the order in which they became known."""


class PlanState(StrEnum):
    """What has become of a plan; the names are those of the REST specification (`PlanStatus`)."""

    SUBMITTED = "submitted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One plan."""

    id: str
    table_uuid: str
    state: PlanState
    scan: bytes
    pages: Pages
    error: JsonObject | None = None
    lease_until_ms: int = 0
    expires_at_ms: int


def find(connection: Connection, plan_id: str, now_ms: int) -> PlanRow | None:
    """The plan of that id, or None when there is none (any more)."""
    row = connection.execute(_living(plan_id, now_ms)).first()
    return None if row is None else _plan(row)


@row_locks
def forget_expired(connection: Connection, now_ms: int) -> int:
    """Delete the plans whose time is over; how many."""
    return connection.execute(delete(scan_plans).where(scan_plans.c.expires_at_ms <= now_ms)).rowcount


def add(connection: Connection, row: PlanRow, now_ms: int) -> None:
    """Insert a plan, and delete those that are expired: their number is bounded also where no worker runs."""
    forget_expired(connection, now_ms)
    connection.execute(
        insert(scan_plans).values(
            id=row.id,
            table_uuid=row.table_uuid,
            state=row.state.value,
            scan=row.scan,
            pages=row.pages,
            error=row.error,
            lease_until_ms=row.lease_until_ms,
            expires_at_ms=row.expires_at_ms,
        )
    )


@row_locks
def take(connection: Connection, plan_id: str, now_ms: int, lease_until_ms: int) -> bool:
    """Take over the planning of a submitted plan that nobody works on; whether that was so."""
    taken = connection.execute(
        update(scan_plans)
        .where(
            scan_plans.c.id == plan_id,
            scan_plans.c.state == PlanState.SUBMITTED.value,
            scan_plans.c.lease_until_ms <= now_ms,
        )
        .values(lease_until_ms=lease_until_ms)
    )
    return taken.rowcount == 1


@row_locks
def renew(connection: Connection, plan_id: str, lease_until_ms: int) -> bool:
    """Move the lease of a submitted plan; whether the plan is still wanted."""
    renewed = connection.execute(
        update(scan_plans)
        .where(scan_plans.c.id == plan_id, scan_plans.c.state == PlanState.SUBMITTED.value)
        .values(lease_until_ms=lease_until_ms)
    )
    return renewed.rowcount == 1


@row_locks
def finish(connection: Connection, plan_id: str, pages: Pages, error: JsonObject | None) -> None:
    """Write down what a submitted plan came to, unless it was cancelled meanwhile."""
    state = PlanState.COMPLETED if error is None else PlanState.FAILED
    connection.execute(
        update(scan_plans)
        .where(scan_plans.c.id == plan_id, scan_plans.c.state == PlanState.SUBMITTED.value)
        .values(state=state.value, pages=pages, error=error)
    )


@row_locks
def cancel(connection: Connection, plan_id: str) -> None:
    """Keep only that the plan was cancelled."""
    connection.execute(
        update(scan_plans)
        .where(scan_plans.c.id == plan_id)
        .values(state=PlanState.CANCELLED.value, scan=b"", pages=[], error=None)
    )


@row_locks
def append_pages(connection: Connection, plan_id: str, pages: Pages, now_ms: int) -> list[int] | None:
    """Add pages that only showed when another was read; their numbers, those known already included.

    None when the plan is gone or not completed any more.
    """
    found = connection.execute(_living(plan_id, now_ms).with_for_update()).first()
    row = None if found is None else _plan(found)
    if row is None or row.state is not PlanState.COMPLETED:
        return None
    known = list(row.pages)
    # Fetching a page again must not make its successors anew.
    known += [page for page in pages if page not in known]
    if len(known) > len(row.pages):
        connection.execute(update(scan_plans).where(scan_plans.c.id == plan_id).values(pages=known))
    return [known.index(page) for page in pages]


def first_pages(pages: Pages) -> int:
    """How many of the pages of a plan are not parts of others: those it was completed with, in ascending order.

    What `append_pages` adds are parts of one of them, the first of which begins where that one does.
    """
    begins = [(page[0] or 0, page[1] or 0) for page in pages]
    return next((at for at in range(1, len(begins)) if begins[at] <= begins[at - 1]), len(begins))


def _living(plan_id: str, now_ms: int) -> Select[Any]:
    return select(scan_plans).where(scan_plans.c.id == plan_id, scan_plans.c.expires_at_ms > now_ms)


def _plan(row: Row[Any]) -> PlanRow:
    return PlanRow(
        id=row.id,
        table_uuid=row.table_uuid,
        state=PlanState(row.state),
        scan=row.scan,
        pages=row.pages,
        error=row.error,
        lease_until_ms=row.lease_until_ms,
        expires_at_ms=row.expires_at_ms,
    )
