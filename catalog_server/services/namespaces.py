"""Namespaces: create, get, list children, change properties, drop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services import locations, names, paging
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.principals import Principal
from catalog_server.store import buckets
from catalog_server.store import namespaces as rows
from catalog_server.store.engine import Database
from catalog_server.store.keys import key_of
from catalog_server.store.namespaces import NamespaceRow
from table_format.clock import Clock
from table_format.errors import Unprocessable, VersionConflict
from table_format.ident import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo:
    """A namespace as clients see it: its properties always have a `location`."""

    namespace: Namespace
    properties: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDetails:
    """A namespace as it is stored, and where its tables go."""

    row: NamespaceRow
    location: str

    @property
    def info(self) -> NamespaceInfo:
        """The namespace as clients of the catalog see it."""
        properties = {**self.row.properties, "location": self.location}
        return NamespaceInfo(namespace=self.row.namespace, properties=properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesChange:
    """Which keys a change of properties touched, and which it was to remove but did not find."""

    updated: list[str]
    removed: list[str]
    missing: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Which names a listing shows."""

    prefix: str
    can_be: Callable[[str], bool]


class NamespaceService:
    """Use-cases on namespaces."""

    def __init__(self, database: Database, clock: Clock, content: ContentLimits) -> None:
        self._database = database
        self._content = content
        self._clock = clock

    async def create(
        self, principal: Principal, bucket: str, namespace: Namespace, properties: Mapping[str, str]
    ) -> NamespaceInfo:
        """Create a namespace; its parent must be there.

        Raises:
            Invalid: a level can not be a name, or the `location` property is outside the bucket.
            AlreadyExists: it is there.
            NoSuchNamespace: the parent is not.
        """
        made = await self.make(principal, bucket, namespace, properties)
        return made.info

    async def make(
        self, principal: Principal, bucket: str, namespace: Namespace, properties: Mapping[str, str]
    ) -> NamespaceDetails:
        """As `create`, for whoever wants to know more of it."""
        names.check_namespace(namespace)
        self._content.check_properties(properties)
        return await self._database.write(_create, bucket, namespace, dict(properties), self._clock.now_ms())

    async def get(self, principal: Principal, bucket: str, namespace: Namespace) -> NamespaceInfo:
        """One namespace.

        Raises:
            NoSuchNamespace: there is none.
        """
        return (await self.describe(principal, bucket, namespace)).info

    async def describe(self, principal: Principal, bucket: str, namespace: Namespace) -> NamespaceDetails:
        """One namespace with its version, and its properties as they were given.

        Raises:
            NoSuchWarehouse, NoSuchNamespace: there is none.
        """
        return await self._database.read(_describe, bucket, namespace)

    async def exists(self, principal: Principal, bucket: str, namespace: Namespace) -> bool:
        """Whether the namespace is there."""
        return await self._database.read(_exists, bucket, namespace)

    async def list(
        self, principal: Principal, bucket: str, parent: Namespace, page: paging.PageRequest | None
    ) -> paging.Page[Namespace]:
        """The namespaces directly below `parent`.

        Raises:
            NoSuchNamespace: the parent is not there.
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[Namespace]:
            return await self._database.read(_children, bucket, parent, after, limit)

        listing = f"namespaces {bucket} {key_of(parent)}"
        return await paging.paged(page, listing, fetch, lambda child: (key_of(child),))

    async def row(self, principal: Principal, bucket: str, namespace: Namespace) -> NamespaceRow:
        """One namespace as it is stored.

        Raises:
            NoSuchNamespace: there is none.
        """
        return await self._database.read(_row, bucket, namespace)

    async def top_level(
        self, principal: Principal, bucket: str, names: Shown, page: paging.PageRequest
    ) -> paging.Page[NamespaceRow]:
        """The namespaces of one level that are to be shown, by name; pages are full whatever is left out.

        Raises:
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[NamespaceRow]:
            return await self._database.read(_shown, bucket, names, after, limit)

        listing = f"top level {bucket} {names.prefix}"
        return await paging.paged(page, listing, fetch, lambda row: (key_of(row.namespace),))

    async def drop(
        self, principal: Principal, bucket: str, namespace: Namespace, *, if_version: int | None = None
    ) -> None:
        """Drop an empty namespace.

        Raises:
            NoSuchNamespace: there is none.
            NamespaceNotEmpty: it has namespaces, tables or views.
            VersionConflict: it is not of version `if_version`.
        """
        await self._database.write(_drop, bucket, namespace, if_version)

    async def set_properties(
        self,
        principal: Principal,
        bucket: str,
        namespace: Namespace,
        properties: Mapping[str, str],
        *,
        if_version: int | None = None,
    ) -> NamespaceDetails:
        """Have exactly these properties.

        Raises:
            NoSuchNamespace: there is no such namespace.
            Invalid: there are too many, or the `location` property is outside the bucket.
            VersionConflict: it is not of version `if_version`.
        """
        self._content.check_properties(properties)
        wanted = dict(properties)
        return await self._database.write(_set, bucket, namespace, wanted, if_version, self._clock.now_ms())

    async def update_properties(
        self,
        principal: Principal,
        bucket: str,
        namespace: Namespace,
        *,
        removals: Sequence[str],
        updates: Mapping[str, str],
    ) -> PropertiesChange:
        """Set and remove properties.

        Raises:
            Unprocessable: a key is in both lists.
            NoSuchNamespace: there is no such namespace.
            Invalid: the `location` property is outside the bucket.
        """
        both = sorted(set(removals) & set(updates))
        if both:
            raise Unprocessable(f"Cannot both set and remove the properties: {', '.join(both)}")
        self._content.check_properties(updates)
        now_ms = self._clock.now_ms()
        return await self._database.write(_update, bucket, namespace, list(removals), dict(updates), now_ms)


def _create(
    connection: Connection, bucket: str, namespace: Namespace, properties: dict[str, str], now_ms: int
) -> NamespaceDetails:
    owner = buckets.require(connection, bucket)
    if "location" in properties:
        locations.check_inside(owner.location, properties["location"])
    return _details(owner.location, rows.create(connection, owner.id, namespace, properties, now_ms))


def _row(connection: Connection, bucket: str, namespace: Namespace) -> NamespaceRow:
    return rows.require(connection, buckets.require(connection, bucket).id, namespace)


def _shown(
    connection: Connection,
    bucket: str,
    names: Shown,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> Sequence[NamespaceRow]:
    owner = buckets.require(connection, bucket)
    found: list[NamespaceRow] = []
    while True:
        some = rows.top_level(connection, owner.id, names.prefix, after, limit)
        found += [row for row in some if names.can_be(key_of(row.namespace))]
        if limit is None or len(some) < limit or len(found) >= limit:
            return found[:limit]
        after = (key_of(some[-1].namespace),)


def _exists(connection: Connection, bucket: str, namespace: Namespace) -> bool:
    return rows.find(connection, buckets.require(connection, bucket).id, namespace) is not None


def _children(
    connection: Connection,
    bucket: str,
    parent: Namespace,
    after: tuple[str, ...] | None,
    limit: int | None,
) -> Sequence[Namespace]:
    owner = buckets.require(connection, bucket)
    return [row.namespace for row in rows.children(connection, owner.id, parent, after, limit)]


def _describe(connection: Connection, bucket: str, namespace: Namespace) -> NamespaceDetails:
    owner = buckets.require(connection, bucket)
    return _details(owner.location, rows.require(connection, owner.id, namespace))


def _drop(connection: Connection, bucket: str, namespace: Namespace, if_version: int | None) -> None:
    owner = buckets.require(connection, bucket)
    if if_version is not None:
        _of_version(rows.require(connection, owner.id, namespace), if_version)
    rows.drop(connection, owner.id, namespace)


def _set(
    connection: Connection,
    bucket: str,
    namespace: Namespace,
    properties: dict[str, str],
    if_version: int | None,
    now_ms: int,
) -> NamespaceDetails:
    owner = buckets.require(connection, bucket)
    row = _of_version(rows.require(connection, owner.id, namespace), if_version)
    if "location" in properties:
        locations.check_inside(owner.location, properties["location"])
    if properties != row.properties:
        rows.set_properties(connection, row.id, properties, now_ms)
    return _describe(connection, bucket, namespace)


def _of_version(row: NamespaceRow, if_version: int | None) -> NamespaceRow:
    if if_version is not None and if_version != row.version:
        raise VersionConflict(
            f"Namespace {row.namespace} changed: it is at version {row.version}, not {if_version}; "
            "read it again and retry"
        )
    return row


def _update(
    connection: Connection,
    bucket: str,
    namespace: Namespace,
    removals: Sequence[str],
    updates: Mapping[str, str],
    now_ms: int,
) -> PropertiesChange:
    owner = buckets.require(connection, bucket)
    row = rows.require(connection, owner.id, namespace)
    if "location" in updates:
        locations.check_inside(owner.location, updates["location"])
    asked = list(dict.fromkeys(removals))
    removed = [key for key in asked if key in row.properties]
    kept = {key: value for key, value in row.properties.items() if key not in removed}
    changed = {**kept, **updates}
    if changed != row.properties:
        rows.set_properties(connection, row.id, changed, now_ms)
    return PropertiesChange(
        updated=list(updates), removed=removed, missing=[key for key in asked if key not in removed]
    )


def _details(bucket_location: str, row: NamespaceRow) -> NamespaceDetails:
    at = locations.namespace_location(bucket_location, row.namespace, row.properties)
    return NamespaceDetails(row=row, location=at)
