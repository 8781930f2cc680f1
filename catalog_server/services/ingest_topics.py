"""Kafka topics that are registered at a bucket for ingest: added, read, changed, removed, and who did so.

The server keeps and checks them; ingest processes ask for them and do the work. What a registration may say is ingest's
to know (`ingest_plugin.registration`), so that it is refused here in the words in which a file would be.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from catalog_server.services import paging
from catalog_server.services.principals import Principal
from catalog_server.store import buckets
from catalog_server.store import ingest_topics as rows
from catalog_server.store.engine import Database
from catalog_server.store.ingest_topics import IngestTopicChange, IngestTopicKey, IngestTopicRow
from ingest_plugin import registration
from ingest_plugin.topic_settings import TopicSettings
from table_format.clock import Clock
from table_format.errors import NotFound
from table_format.jsontypes import JsonObject

_LISTING, _HISTORY = "ingest-topics", "ingest-topic-changes"


class IngestTopicService:
    """Use-cases on registered topics."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get(self, principal: Principal, bucket: str, topic: str) -> IngestTopicRow:
        """One registration.

        Raises:
            NotFound: the topic is not registered, or there is no such bucket.
        """
        return await self._database.read(_get, bucket, topic)

    async def list(
        self, principal: Principal, bucket: str, page: paging.PageRequest | None
    ) -> paging.Page[IngestTopicRow]:
        """The bucket's registrations, by topic.

        Raises:
            Invalid: the page request is wrong.
            NoSuchWarehouse: there is no such bucket.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[IngestTopicRow]:
            return await self._database.read(_page, bucket, None if after is None else after[0], limit)

        return await paging.paged(page, _LISTING, fetch, lambda row: (row.topic,))

    async def put(
        self,
        principal: Principal,
        bucket: str,
        topic: str,
        document: JsonObject,
        *,
        if_version: int | None = None,
    ) -> IngestTopicRow:
        """Register a topic, or say something else of one; the document is {group, settings}.

        Raises:
            Invalid: the settings are not those of a topic.
            AlreadyExists: another registered topic writes the same table.
            VersionConflict: the registration is not of version `if_version`.
            NoSuchWarehouse: there is no such bucket.
        """
        settings = registration.checked(topic, document["settings"])
        author = (principal.name, self._clock.now_ms())
        return await self._database.write(_put, bucket, settings, document, author, if_version)

    async def remove(
        self, principal: Principal, bucket: str, topic: str, *, if_version: int | None = None
    ) -> None:
        """Register a topic no more; its table and what it holds stay.

        Raises:
            NotFound: the topic is not registered, or there is no such bucket.
            VersionConflict: the registration is not of version `if_version`.
        """
        author = (principal.name, self._clock.now_ms())
        await self._database.write(_remove, bucket, topic, author, if_version)

    async def history(
        self, principal: Principal, bucket: str, topic: str | None, page: paging.PageRequest | None
    ) -> paging.Page[IngestTopicChange]:
        """Changes of registrations, the newest first; a topic of None: of all.

        Raises:
            Invalid: the page request is wrong.
            NoSuchWarehouse: there is no such bucket.
        """

        async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[IngestTopicChange]:
            if after is not None and not paging.is_number(after[0]):
                raise paging.BadToken("pageToken is not one that this listing gave")
            before = None if after is None else int(after[0])
            return await self._database.read(_history, bucket, topic, before, limit)

        return await paging.paged(page, _HISTORY, fetch, lambda row: (str(row.id),))


def _get(connection: Connection, bucket: str, topic: str) -> IngestTopicRow:
    found = rows.find(connection, buckets.require(connection, bucket).id, topic)
    if found is None:
        raise _not_registered(bucket, topic)
    return found


def _page(
    connection: Connection, bucket: str, after: str | None, limit: int | None
) -> Sequence[IngestTopicRow]:
    return rows.page(connection, buckets.require(connection, bucket).id, after, limit)


def _put(
    connection: Connection,
    bucket: str,
    settings: TopicSettings,
    document: JsonObject,
    author: tuple[str, int],
    if_version: int | None,
) -> IngestTopicRow:
    key = _key(connection, bucket, settings.topic, author)
    places = registration.places_of(settings)
    others = rows.beside(connection, key.bucket_id, settings.topic, places)
    registration.check_beside(
        settings, [registration.topic_from(row.topic, row.document["settings"]) for row in others]
    )
    return rows.put(connection, key, document, places, if_version)


def _remove(
    connection: Connection, bucket: str, topic: str, author: tuple[str, int], if_version: int | None
) -> None:
    if not rows.remove(connection, _key(connection, bucket, topic, author), if_version):
        raise _not_registered(bucket, topic)


def _history(
    connection: Connection, bucket: str, topic: str | None, before: int | None, limit: int | None
) -> Sequence[IngestTopicChange]:
    return rows.changes(connection, buckets.require(connection, bucket).id, topic, before, limit)


def _key(connection: Connection, bucket: str, topic: str, author: tuple[str, int]) -> IngestTopicKey:
    principal, now_ms = author
    owner = buckets.require(connection, bucket)
    return IngestTopicKey(bucket_id=owner.id, topic=topic, principal=principal, now_ms=now_ms)


def _not_registered(bucket: str, topic: str) -> NotFound:
    return NotFound(f"Topic {topic} is not registered at table bucket {bucket}")
