"""Table buckets: create, describe, change, delete. Two buckets never lie inside each other.

What is decided on (a name that is free, a place that is, a bucket that is empty) is decided in the transaction that
acts on it, and every write has the database to itself: so no half state, in any number of processes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from catalog_server.services import arns, local_places, locations, names, paging
from catalog_server.services import tags as tag_rules
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.principals import Principal
from catalog_server.services.storage import Storage
from catalog_server.store import buckets as rows
from catalog_server.store import resource_settings
from catalog_server.store import tags as tag_rows
from catalog_server.store.buckets import BucketRow, BucketSettings
from catalog_server.store.engine import Database
from maintenance.ports import JobKind
from table_format.clock import Clock
from table_format.errors import (
    AlreadyExists,
    BucketNotEmpty,
    Forbidden,
    Invalid,
    Unsupported,
    VersionConflict,
)
from table_format.ident import join, strip_slash
from table_format.io.local import local_path
from table_format.jsontypes import JsonObject


class BucketService:
    """Use-cases on table buckets."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        content: ContentLimits,
        storage: Storage,
        *,
        default_name: str,
        root: str,
    ) -> None:
        self._database = database
        self._clock = clock
        self._content = content
        self._storage = storage
        self.default_name = default_name
        self._root = root
        """Below it lie buckets that are created without a location."""

    async def get(self, principal: Principal, name: str) -> BucketRow:
        """One bucket.

        Raises:
            NoSuchWarehouse: there is none.
        """
        return await self._database.read(rows.require, name)

    async def get_by_arn(self, principal: Principal, arn: str) -> BucketRow:
        """The bucket that an ARN names (of a table's ARN: the one that the table is in).

        Raises:
            Invalid: it is not an ARN of S3 Tables.
            NoSuchWarehouse: there is no such bucket.
        """
        return await self.get(principal, arns.parse(arn).bucket)

    async def list(
        self, principal: Principal, page: paging.PageRequest | None = None, *, prefix: str = ""
    ) -> paging.Page[BucketRow]:
        """Buckets by name, of those whose name begins so.

        Raises:
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> list[BucketRow]:
            return await self._database.read(rows.page, after, limit, prefix)

        return await paging.paged(page, f"buckets {prefix}", fetch, lambda row: (row.name,))

    async def without_directory(self, fresh: str) -> Sequence[BucketRow]:
        """Buckets on the local disk whose directory is not there: the disk is not mounted, or the files were moved.

        A bucket gets its directory with its first table: an empty one at `fresh`, where a new server would make
        it today, is in order without.
        """
        return await self._database.read(_without_directory, fresh)

    async def create(
        self,
        principal: Principal,
        name: str,
        *,
        location: str | None = None,
        options: BucketSettings | None = None,
        tags: Mapping[str, str] | None = None,
        settings: Mapping[str, JsonObject] | None = None,
    ) -> BucketRow:
        """Create a bucket at the location, which is not looked at, or at a place of its own.

        `settings` are its first `resource_settings`, by name.

        Raises:
            Invalid: the name, the location, a property, the storage or a tag can not be one.
            AlreadyExists: the name is taken, or the location overlaps another bucket's.
        """
        given = options or BucketSettings()
        birth = await self._birth(name, location, given, tags or {})
        return await self._database.write(
            _create, replace(birth, settings=dict(settings or {})), self._clock.now_ms()
        )

    async def register(
        self,
        principal: Principal,
        name: str,
        location: str,
        options: BucketSettings,
        tags: Mapping[str, str],
    ) -> BucketRow:
        """Create a bucket at a location that was tried out first; nothing is stored when it does not work.

        Raises:
            Invalid: as `create`, or something that a bucket needs does not work there; the message says what.
            AlreadyExists: as `create`.
        """
        birth = await self._birth(name, location, options, tags)
        # First of all, as the trial writes: never to the place of another bucket.
        await self._database.read(_refuse_taken, birth)
        report = await self._storage.probe(birth.location, options.storage, options.credentials)
        report.require()
        return await self._database.write(_create, birth, self._clock.now_ms())

    async def update(
        self, principal: Principal, name: str, settings: BucketSettings, *, if_version: int | None = None
    ) -> BucketRow:
        """Replace what can be changed of a bucket. Another way to its objects is tried out first.

        Raises:
            Invalid: a property can not be one, or the bucket does not work with the new storage settings.
            NoSuchWarehouse: there is none.
            VersionConflict: it is not of version `if_version`.
        """
        self._content.check_properties(settings.properties)
        row = _of_version(await self.get(principal, name), if_version)
        if (settings.storage, settings.credentials) != (row.storage, row.credentials):
            await self._try_out(row, settings)
            if_version = row.version  # what was tried out is a change of this version
        return await self._database.write(_update, name, settings, if_version, self._clock.now_ms())

    async def _birth(
        self, name: str, location: str | None, options: BucketSettings, tags: Mapping[str, str]
    ) -> "_Birth":
        names.check_bucket(name)
        tag_rules.check(tags)
        self._content.check_properties(options.properties)
        at = strip_slash(locations.three_slashes(location or join(self._root, name)))
        locations.check_text(at)
        if at.startswith("file:"):
            local_path(at)
        try:
            self._storage.check(at, options.storage, options.credentials)
        except Unsupported as error:
            raise Invalid(error.message) from None  # of a location that was given: wrong, whatever we offer
        real = await asyncio.to_thread(local_places.real_place, at)
        return _Birth(name=name, location=at, real=real, options=options, tags=dict(tags))

    async def _try_out(self, row: BucketRow, settings: BucketSettings) -> None:
        report = await self._storage.probe(row.location, settings.storage, settings.credentials)
        report.require()
        known = await self._database.read(rows.any_metadata, row.id)
        if known is None:
            return
        store = self._storage.open(row.location, settings.storage, settings.credentials)
        if not await asyncio.to_thread(store.exists, known):
            raise Invalid(
                f"with these storage settings table bucket {row.name} is empty: {known} of one of its tables is not "
                "there. Copy its files first, or correct the settings"
            )

    async def protect(self, principal: Principal, name: str, *, protected: bool) -> BucketRow:
        """Let a bucket refuse to be deleted, or not.

        Raises:
            NoSuchWarehouse: there is none.
        """
        return await self._database.write(_protect, name, protected, self._clock.now_ms())

    async def delete(self, principal: Principal, name: str, *, if_version: int | None = None) -> None:
        """Delete an empty bucket. Only rows go: no file, and not the place where it lay.

        Raises:
            NoSuchWarehouse: there is none.
            BucketNotEmpty: it holds a namespace, table or view, a job on it is not through, or it is the default.
            Forbidden: it is protected.
            VersionConflict: it is not of version `if_version`.
        """
        if name == self.default_name:
            await self.get(principal, name)
            raise BucketNotEmpty(
                f"Table bucket {name} is the default one, which clients that name none use: start the server with "
                "another one in storage.default_bucket, then delete this one"
            )
        await self._database.write(_delete, name, if_version)


def _without_directory(connection: Connection, fresh: str) -> Sequence[BucketRow]:
    return [
        bucket
        for bucket in rows.page(connection, None, None)
        if local_places.is_missing(bucket.location)
        and (
            bucket.location != strip_slash(locations.three_slashes(fresh))
            or rows.in_use(connection, bucket.id)
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Birth:
    name: str
    location: str
    real: str
    options: BucketSettings
    tags: dict[str, str]
    settings: dict[str, JsonObject] = field(default_factory=dict)


def _refuse_taken(connection: Connection, birth: _Birth) -> None:
    if rows.find(connection, birth.name) is not None:
        raise AlreadyExists(f"Table bucket already exists: {birth.name}")
    for other in rows.page(connection, None, None):
        overlaps = locations.overlap(other.location, birth.location) or (
            # Links are not in texts; the other's place is looked up here, where no third one can come between.
            birth.real.startswith("file:")
            and locations.overlap(local_places.real_place(other.location), birth.real)
        )
        if overlaps:
            raise AlreadyExists(f"Location {birth.location} overlaps that of table bucket {other.name}")


def _create(connection: Connection, birth: _Birth, now_ms: int) -> BucketRow:
    _refuse_taken(connection, birth)
    given = birth.options
    row = rows.create(
        connection,
        birth.name,
        birth.location,
        given.properties,
        now_ms,
        storage=given.storage,
        credentials=given.credentials,
        protected=given.protected,
    )
    tag_rows.put(connection, row.resource_id, birth.tags)
    for name, document in birth.settings.items():
        resource_settings.put(connection, row.resource_id, name, document, now_ms)
    return row


def _update(
    connection: Connection, name: str, settings: BucketSettings, if_version: int | None, now_ms: int
) -> BucketRow:
    row = _of_version(rows.require(connection, name), if_version)
    return rows.update_settings(connection, row, settings, now_ms)


def _protect(connection: Connection, name: str, protected: bool, now_ms: int) -> BucketRow:
    row = rows.require(connection, name)
    return rows.update_settings(connection, row, replace(rows.settings_of(row), protected=protected), now_ms)


def _delete(connection: Connection, name: str, if_version: int | None) -> None:
    row = _of_version(rows.require(connection, name), if_version)
    if row.protected:
        raise Forbidden(
            f"Table bucket {name} is protected from deletion: take the protection away first "
            "(`frazil bucket unprotect`)"
        )
    rows.remove(connection, row, JobKind.PURGE.value)


def _of_version(row: BucketRow, if_version: int | None) -> BucketRow:
    if if_version is not None and if_version != row.version:
        raise VersionConflict(
            f"Table bucket {row.name} changed: it is at version {row.version}, not {if_version}; "
            "read it again and retry"
        )
    return row
