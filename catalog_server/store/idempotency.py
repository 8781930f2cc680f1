"""Outcomes of requests that carried an Idempotency-Key, written in the transaction of the request itself."""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from catalog_server.store.schema import idempotency
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """Who used which key for what."""

    bucket_id: int
    principal: str
    key: str
    fingerprint: str
    outcome: JsonObject


def find(connection: Connection, bucket_id: int, principal: str, key: str) -> KeyRow | None:
    """The outcome under that key, or None."""
    row = connection.execute(
        select(idempotency).where(
            idempotency.c.bucket_id == bucket_id,
            idempotency.c.principal == principal,
            idempotency.c.key == key,
        )
    ).first()
    if row is None:
        return None
    return KeyRow(
        bucket_id=row.bucket_id,
        principal=row.principal,
        key=row.key,
        fingerprint=row.fingerprint,
        outcome=row.outcome,
    )


def record(connection: Connection, row: KeyRow, now_ms: int) -> None:
    """Insert an outcome."""
    connection.execute(
        insert(idempotency).values(
            bucket_id=row.bucket_id,
            principal=row.principal,
            key=row.key,
            fingerprint=row.fingerprint,
            outcome=row.outcome,
            created_at_ms=now_ms,
        )
    )


def forget_before(connection: Connection, before_ms: int) -> int:
    """Delete outcomes older than that; how many."""
    return connection.execute(delete(idempotency).where(idempotency.c.created_at_ms < before_ms)).rowcount
