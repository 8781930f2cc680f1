"""The type of the fixture that opens a test's database."""

from typing import Any, Protocol

from catalog_server.store.engine import Database


class Opener(Protocol):
    async def __call__(self, **settings: Any) -> Database: ...
