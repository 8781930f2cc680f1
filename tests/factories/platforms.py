"""Platforms on an in-memory store, and shorthand for what tests do with them again and again."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from table_format.ident import TableIdent
from tests.factories.commits import SCHEMA

WAREHOUSE = "memory://lake/warehouse"

Starter: TypeAlias = Callable[..., AbstractAsyncContextManager[Platform]]


async def create(platform: Platform, ident: TableIdent, **spec: Any) -> TableHandle:
    """Create a table with the small schema."""
    wanted = TableSpec(**{"schema": SCHEMA, "properties": {}, **spec})
    return await platform.tables.create(ANONYMOUS, "default", ident, wanted)


async def commit(platform: Platform, ident: TableIdent, requirements: Any, updates: Any) -> TableHandle:
    """Commit to one table."""
    return await platform.commits.commit(ANONYMOUS, "default", ident, requirements, updates)
