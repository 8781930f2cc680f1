"""Noncurrent files: noted as unreferenced, to be deleted after a while; list them, hold them back, release them.

Holding changes nothing about the table: the file stays where it is, unreferenced, until somebody adds it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services.paging import Page, PageRequest, paged
from catalog_server.services.policies import PolicyService
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, tables, unreferenced
from catalog_server.store.engine import Database
from catalog_server.store.tables import TableRow
from catalog_server.store.unreferenced import Hold, NoncurrentRow
from maintenance.policies import PolicyType
from maintenance.policy_types import UnreferencedPolicy
from table_format.clock import Clock
from table_format.errors import Invalid
from table_format.ident import TableIdent

_MOST_PATH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class NoncurrentFile:
    """One file, as it stands now."""

    path: str
    size: int | None
    noted_at_ms: int | None
    deleted_after_ms: int | None
    """From when on a run deletes it; None: none does, by the policy or the hold in force."""
    deleting: bool
    hold: Hold | None


class NoncurrentService:
    """Use-cases on noncurrent files."""

    def __init__(self, database: Database, clock: Clock, policies: PolicyService) -> None:
        self._database = database
        self._clock = clock
        self._policies = policies

    async def list(
        self, principal: Principal, bucket: str, ident: TableIdent, page: PageRequest, *, held_only: bool
    ) -> Page[NoncurrentFile]:
        """Noted and held files of a table, by path.

        Raises:
            NoSuchTable: there is no such table.
            Invalid: the page token is not of this listing.
        """
        row = await self._database.read(_table, bucket, ident)
        noncurrent_ms = await self._noncurrent_ms(row)

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[NoncurrentRow]:
            return await self._database.read(
                unreferenced.page, row.table_uuid, after[0] if after else None, limit, held_only=held_only
            )

        found = await paged(page, f"noncurrent {row.table_uuid} {held_only}", fetch, lambda one: (one.path,))
        return Page(items=[_view(one, noncurrent_ms) for one in found.items], next_token=found.next_token)

    async def get(self, principal: Principal, bucket: str, ident: TableIdent, path: str) -> NoncurrentFile:
        """One file.

        Raises:
            NoSuchTable, NoSuchFile: there is no such table, or no such noncurrent file of it.
        """
        row = await self._database.read(_table, bucket, ident)
        found = await self._database.read(unreferenced.find, row.table_uuid, _checked(path))
        return _view(found, await self._noncurrent_ms(row))

    async def hold(
        self,
        principal: Principal,
        bucket: str,
        ident: TableIdent,
        path: str,
        *,
        until_ms: int | None,
        if_version: int | None,
    ) -> NoncurrentFile:
        """Hold a file back from deletion until that moment, or until it is released.

        Raises:
            NoSuchTable, NoSuchFile: there is no such table, or no such noncurrent file of it.
            Invalid: the moment is over.
            JobInTheWay: the file is being deleted.
            VersionConflict: the hold is not of version `if_version` (0: not there).
        """
        now_ms = self._clock.now_ms()
        if until_ms is not None and until_ms <= now_ms:
            raise Invalid(f"untilMs {until_ms} is over already: it is {now_ms} now")
        wanted = Hold(until_ms=until_ms, held_at_ms=now_ms, held_by=principal.name, version=now_ms)
        row = await self._database.read(_table, bucket, ident)
        found = await self._database.write(
            unreferenced.hold, row.table_uuid, _checked(path), wanted, if_version
        )
        return _view(found, await self._noncurrent_ms(row))

    async def release(
        self, principal: Principal, bucket: str, ident: TableIdent, path: str, *, if_version: int | None
    ) -> None:
        """Hold a file back no more.

        Raises:
            NoSuchTable, NoSuchFile: there is no such table, or the file is not held.
            VersionConflict: the hold is not of version `if_version`.
        """
        row = await self._database.read(_table, bucket, ident)
        await self._database.write(unreferenced.release, row.table_uuid, _checked(path), if_version)

    async def _noncurrent_ms(self, row: TableRow) -> int | None:
        """How long a file stays noted; None: none is deleted by the policy."""
        policy = await self._policies.in_force(row, PolicyType.UNREFERENCED)
        if not policy.enabled or policy.dry_run or not isinstance(policy, UnreferencedPolicy):
            return None
        return policy.noncurrent_seconds * 1000


def _view(row: NoncurrentRow, noncurrent_ms: int | None) -> NoncurrentFile:
    due: int | None = None
    for_ever = row.hold is not None and row.hold.until_ms is None
    if noncurrent_ms is not None and row.noted_at_ms is not None and not for_ever:
        until_ms = 0 if row.hold is None or row.hold.until_ms is None else row.hold.until_ms
        due = max(row.noted_at_ms + noncurrent_ms, until_ms)
    return NoncurrentFile(
        path=row.path,
        size=row.size,
        noted_at_ms=row.noted_at_ms,
        deleted_after_ms=due,
        deleting=row.deleting,
        hold=row.hold,
    )


def _checked(path: str) -> str:
    if not 1 <= len(path) <= _MOST_PATH or "\0" in path:
        raise Invalid(f"path must be a file's path of 1 to {_MOST_PATH} characters")
    return path


def _table(connection: Connection, bucket: str, ident: TableIdent) -> TableRow:
    return tables.require(connection, buckets.require(connection, bucket).id, ident)
