"""Rows of settings that hang on a bucket or table by its resource id, each a document under a name of its own.

They go with the resource in the same transaction (`forget`), and never outlive it.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from catalog_server.store.schema import resource_settings
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting; the version grows by one at each change while the setting is there."""

    resource_id: str
    name: str
    document: JsonObject
    version: int
    updated_at_ms: int


def find(connection: Connection, resource_id: str, name: str) -> SettingRow | None:
    """The setting, or None."""
    row = connection.execute(
        select(resource_settings).where(
            resource_settings.c.resource_id == resource_id, resource_settings.c.name == name
        )
    ).first()
    return None if row is None else _setting(row)


def put(connection: Connection, resource_id: str, name: str, document: JsonObject, now_ms: int) -> SettingRow:
    """Set it; setting what is there already changes nothing."""
    before = find(connection, resource_id, name)
    if before is not None and before.document == document:
        return before
    after = SettingRow(
        resource_id=resource_id,
        name=name,
        document=document,
        version=1 if before is None else before.version + 1,
        updated_at_ms=now_ms,
    )
    values = {"document": document, "version": after.version, "updated_at_ms": now_ms}
    if before is None:
        connection.execute(insert(resource_settings).values(resource_id=resource_id, name=name, **values))
    else:
        connection.execute(
            update(resource_settings)
            .where(resource_settings.c.resource_id == resource_id, resource_settings.c.name == name)
            .values(**values)
        )
    return after


def remove(connection: Connection, resource_id: str, name: str) -> bool:
    """Remove it; whether it was there."""
    found = connection.execute(
        delete(resource_settings).where(
            resource_settings.c.resource_id == resource_id, resource_settings.c.name == name
        )
    )
    return found.rowcount > 0


def forget(connection: Connection, resource_id: str) -> None:
    """Remove all settings of a resource that goes."""
    connection.execute(delete(resource_settings).where(resource_settings.c.resource_id == resource_id))


def _setting(row: Row[Any]) -> SettingRow:
    return SettingRow(
        resource_id=row.resource_id,
        name=row.name,
        document=row.document,
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
