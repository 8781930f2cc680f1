"""Reports that clients sent after scans and commits: bounded per table and by age, and gone with their table."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from catalog_server.store.schema import metrics_reports, tables
from catalog_server.store.units import row_locks

_CHUNK = 500  # ids per statement, well below SQLite's limit of variables


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReport:
    """A report about to be kept; `text` is its JSON."""

    table_id: int
    type: str
    snapshot_id: int | None
    text: str
    received_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """A report as it is kept."""

    id: int
    type: str
    snapshot_id: int | None
    text: str
    received_at_ms: int


@row_locks
def add(connection: Connection, reports: Sequence[NewReport], per_table: int) -> int:
    """Keep reports, and of each table only the newest; how many, since those of dropped tables are not kept."""
    wanted = sorted({report.table_id for report in reports})
    there: set[int] = set()
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        there.update(connection.scalars(select(tables.c.id).where(tables.c.id.in_(chunk))))
    rows = [
        {
            "table_id": report.table_id,
            "type": report.type,
            "snapshot_id": report.snapshot_id,
            "report": report.text,
            "received_at_ms": report.received_at_ms,
        }
        for report in reports
        if report.table_id in there
    ]
    if rows:
        connection.execute(insert(metrics_reports), rows)
    for table_id in sorted(there):
        _trim(connection, table_id, per_table)
    return len(rows)


def page(
    connection: Connection,
    table_id: int,
    report_type: str | None,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> list[ReportRow]:
    """The reports on one table, newest first."""
    query = select(metrics_reports).where(metrics_reports.c.table_id == table_id)
    if report_type is not None:
        query = query.where(metrics_reports.c.type == report_type)
    if after is not None:
        query = query.where(metrics_reports.c.id < int(after[0]))
    return [
        ReportRow(
            id=row.id,
            type=row.type,
            snapshot_id=row.snapshot_id,
            text=row.report,
            received_at_ms=row.received_at_ms,
        )
        for row in connection.execute(query.order_by(metrics_reports.c.id.desc()).limit(limit))
    ]


@row_locks
def forget_before(connection: Connection, before_ms: int) -> int:
    """Delete reports older than that; how many."""
    old = delete(metrics_reports).where(metrics_reports.c.received_at_ms < before_ms)
    return connection.execute(old).rowcount


def _trim(connection: Connection, table_id: int, per_table: int) -> None:
    newest_to_go = connection.scalar(
        select(metrics_reports.c.id)
        .where(metrics_reports.c.table_id == table_id)
        .order_by(metrics_reports.c.id.desc())
        .limit(1)
        .offset(per_table)
    )
    if newest_to_go is not None:
        connection.execute(
            delete(metrics_reports).where(
                metrics_reports.c.table_id == table_id, metrics_reports.c.id <= newest_to_go
            )
        )
