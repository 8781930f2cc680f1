"""Table buckets: create, get, list. Two buckets never lie inside each other."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from catalog_server.services import local_places, locations, names, paging
from catalog_server.services.principals import Principal
from catalog_server.store import buckets as rows
from catalog_server.store.buckets import BucketRow
from catalog_server.store.engine import Database
from table_format.clock import Clock
from table_format.errors import AlreadyExists
from table_format.ident import contains, join, strip_slash


class BucketService:
    """Use-cases on table buckets."""

    def __init__(self, database: Database, clock: Clock, *, default_name: str, root: str) -> None:
        self._database = database
        self._clock = clock
        self.default_name = default_name
        self._root = root
        """Where buckets lie that are created without a location."""

    async def get(self, principal: Principal, name: str) -> BucketRow:
        """One bucket.

        Raises:
            NoSuchWarehouse: there is none.
        """
        return await self._database.read(rows.require, name)

    async def list(
        self, principal: Principal, page: paging.PageRequest | None = None
    ) -> paging.Page[BucketRow]:
        """Buckets by name.

        Raises:
            Invalid: the page request is wrong.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> list[BucketRow]:
            return await self._database.read(rows.page, after, limit)

        return await paging.paged(page, "buckets", fetch, lambda row: (row.name,))

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
        properties: Mapping[str, str] | None = None,
    ) -> BucketRow:
        """Create a bucket at the location, or at a place of its own in the data directory.

        Raises:
            Invalid: the name or the location can not be one.
            AlreadyExists: the name is taken, or the location overlaps another bucket's.
        """
        names.check_bucket(name)
        at = strip_slash(locations.three_slashes(location or join(self._root, name)))
        locations.check_text(at)
        return await self._database.write(_create, name, at, dict(properties or {}), self._clock.now_ms())


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


def _create(
    connection: Connection, name: str, location: str, properties: dict[str, str], now_ms: int
) -> BucketRow:
    for other in rows.page(connection, None, None):
        if other.name != name and (contains(other.location, location) or contains(location, other.location)):
            raise AlreadyExists(f"Location {location} overlaps that of table bucket {other.name}")
    return rows.create(connection, name, location, properties, now_ms)
