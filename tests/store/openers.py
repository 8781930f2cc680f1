"""What tests of rows share: the type of the fixture that opens a database, and who claims."""

from typing import Any, Protocol

from catalog_server.store.engine import Database
from catalog_server.store.jobs import Claimant


class Opener(Protocol):
    async def __call__(self, **settings: Any) -> Database: ...


def claimant(worker: str, lease_until_ms: int) -> Claimant:
    """A worker whose claims have its name for their token."""
    return Claimant(worker=worker, token=worker, lease_until_ms=lease_until_ms)
