"""Settings of one bucket or table that nothing but their own API gives a meaning to: set, read, taken away."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services.arns import Arn
from catalog_server.services.content_version import version_of
from catalog_server.services.principals import Principal
from catalog_server.store import buckets, table_entries
from catalog_server.store import resource_settings as rows
from catalog_server.store.engine import Database
from table_format.clock import Clock
from table_format.errors import NoSuchTable, VersionConflict
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

Locate = Callable[[Connection], str]
"""Finds the resource id in the unit's own transaction, so that nothing is set on what has just gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is set under one name, None for nothing; the version is made of it."""

    document: JsonObject | None

    @property
    def version(self) -> int:
        """A number that names this content; 0 while nothing is set."""
        return 0 if self.document is None else version_of(self.document)


def of_bucket(name: str) -> Locate:
    """The table bucket of that name. What it gives raises `NoSuchWarehouse` when there is none."""
    return lambda connection: buckets.require(connection, name).resource_id


def of_table(bucket: str, ident: TableIdent) -> Locate:
    """The table of that name. What it gives raises `NoSuchWarehouse` or `NoSuchTable` when there is none."""
    return lambda connection: (
        table_entries.require(connection, buckets.require(connection, bucket).id, ident).resource_id
    )


def of_arn(arn: Arn) -> Locate:
    """What an ARN names. What it gives raises `NoSuchWarehouse` or `NoSuchTable` when there is none."""
    if arn.table_id is None:
        return of_bucket(arn.bucket)
    table_id = arn.table_id

    def find(connection: Connection) -> str:
        found = table_entries.by_resource_id(connection, buckets.require(connection, arn.bucket).id, table_id)
        if found is None:
            raise NoSuchTable("The specified table does not exist.")
        return found.resource_id

    return find


class ResourceSettingsService:
    """Use-cases on settings of resources."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def resource_id(self, principal: Principal, locate: Locate) -> str:
        """The id of a resource.

        Raises:
            NotFound: there is no such resource.
        """
        return await self._database.read(locate)

    async def get(self, principal: Principal, locate: Locate, *names: str) -> list[JsonObject | None]:
        """The documents under these names, None where nothing is set.

        Raises:
            NotFound: there is no such resource.
        """
        return await self._database.read(_get, locate, names)

    async def find(self, principal: Principal, locate: Locate, name: str) -> Setting:
        """One with its version.

        Raises:
            NotFound: there is no such resource.
        """
        [document] = await self._database.read(_get, locate, (name,))
        return Setting(document=document)

    async def put(
        self,
        principal: Principal,
        locate: Locate,
        name: str,
        document: JsonObject,
        *,
        if_version: int | None = None,
    ) -> Setting:
        """Set one.

        Raises:
            NotFound: there is no such resource.
            VersionConflict: what is set is not of version `if_version`.
        """
        await self._database.write(_put, locate, name, document, self._clock.now_ms(), if_version)
        return Setting(document=document)

    async def remove(
        self, principal: Principal, locate: Locate, name: str, *, if_version: int | None = None
    ) -> bool:
        """Take one away; whether it was there.

        Raises:
            NotFound: there is no such resource.
            VersionConflict: what is set is not of version `if_version`.
        """
        return await self._database.write(_remove, locate, name, if_version)


def _get(connection: Connection, locate: Locate, names: tuple[str, ...]) -> list[JsonObject | None]:
    resource_id = locate(connection)
    found = [rows.find(connection, resource_id, name) for name in names]
    return [None if row is None else row.document for row in found]


def _put(
    connection: Connection,
    locate: Locate,
    name: str,
    document: JsonObject,
    now_ms: int,
    if_version: int | None,
) -> None:
    resource_id = locate(connection)
    _check_version(connection, resource_id, name, if_version)
    rows.put(connection, resource_id, name, document, now_ms)


def _remove(connection: Connection, locate: Locate, name: str, if_version: int | None) -> bool:
    resource_id = locate(connection)
    _check_version(connection, resource_id, name, if_version)
    return rows.remove(connection, resource_id, name)


def _check_version(connection: Connection, resource_id: str, name: str, if_version: int | None) -> None:
    if if_version is None:
        return
    row = rows.find(connection, resource_id, name)
    if Setting(document=None if row is None else row.document).version != if_version:
        raise VersionConflict(f"The {name} changed since it was read; read it again and retry")
