"""Lookups on a plain connection."""

from typing import TypeVar

from sqlalchemy import Connection

from catalog_server.store.lookup import Lookup, for_driver

T = TypeVar("T")


def found(connection: Connection, lookup: Lookup[T]) -> T:
    rows = connection.exec_driver_sql(for_driver(connection, lookup.sql), lookup.values).all()
    return lookup.answer(rows)
