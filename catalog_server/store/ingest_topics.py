"""Rows of the Kafka topics that are registered at a bucket, and the record of every change to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from catalog_server.store.schema import ingest_topic_changes, ingest_topics
from table_format.errors import NotFound, VersionConflict
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTopicRow:
    """A registered topic: its document is {group, settings}; the version grows by one at each change."""

    topic: str
    document: JsonObject
    version: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTopicChange:
    """One change of a registration: what it was (None: not there) and became (None: removed), by whom and when."""

    id: int
    topic: str
    before: JsonObject | None
    after: JsonObject | None
    principal: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTopicKey:
    """Which registration, and who changes it at what time."""

    bucket_id: int
    topic: str
    principal: str
    now_ms: int


def find(connection: Connection, bucket_id: int, topic: str) -> IngestTopicRow | None:
    """The registration, or None."""
    row = connection.execute(select(ingest_topics).where(*_is(bucket_id, topic))).first()
    return None if row is None else _topic(row)


def page(
    connection: Connection, bucket_id: int, after: str | None, limit: int | None
) -> list[IngestTopicRow]:
    """The bucket's registrations by topic, those after one name."""
    wanted = [ingest_topics.c.bucket_id == bucket_id]
    if after is not None:
        wanted.append(ingest_topics.c.topic > after)
    found = select(ingest_topics).where(*wanted).order_by(ingest_topics.c.topic).limit(limit)
    return [_topic(row) for row in connection.execute(found)]


def beside(connection: Connection, bucket_id: int, topic: str, places: Sequence[str]) -> list[IngestTopicRow]:
    """The bucket's other topics that write one of these tables."""
    found = select(ingest_topics).where(
        ingest_topics.c.bucket_id == bucket_id,
        ingest_topics.c.topic != topic,
        or_(ingest_topics.c.home.in_(places), ingest_topics.c.letters.in_(places)),
    )
    return [_topic(row) for row in connection.execute(found.order_by(ingest_topics.c.topic))]


def put(
    connection: Connection,
    key: IngestTopicKey,
    document: JsonObject,
    places: Sequence[str],
    if_version: int | None,
) -> IngestTopicRow:
    """Set a registration and record the change; setting what is there already changes nothing.

    Raises:
        VersionConflict: the registration is not of the version the caller knows (0: not there).
    """
    before = find(connection, key.bucket_id, key.topic)
    _same_version(before, if_version)
    if before is not None and before.document == document:
        return before
    values = {
        "document": document,
        "home": places[0],
        "letters": places[1] if len(places) > 1 else None,
        # A version never names two contents, not even of a topic that was removed between.
        "version": _changes_of(connection, key) + 1,
        "updated_at_ms": key.now_ms,
    }
    if before is None:
        connection.execute(insert(ingest_topics).values(bucket_id=key.bucket_id, topic=key.topic, **values))
    else:
        connection.execute(update(ingest_topics).where(*_is(key.bucket_id, key.topic)).values(**values))
    _record(connection, key, before, document)
    after = find(connection, key.bucket_id, key.topic)
    if after is None:
        raise NotFound(f"topic {key.topic} vanished while it was registered")
    return after


def remove(connection: Connection, key: IngestTopicKey, if_version: int | None) -> bool:
    """Delete a registration and record the change; whether it was there.

    Raises:
        VersionConflict: the registration is not of the version the caller knows.
    """
    before = find(connection, key.bucket_id, key.topic)
    if before is None:
        return False
    _same_version(before, if_version)
    connection.execute(delete(ingest_topics).where(*_is(key.bucket_id, key.topic)))
    _record(connection, key, before, None)
    return True


def changes(
    connection: Connection, bucket_id: int, topic: str | None, before_id: int | None, limit: int | None
) -> list[IngestTopicChange]:
    """Changes at a bucket, the newest first: of one topic or all, those before a change."""
    wanted = [ingest_topic_changes.c.bucket_id == bucket_id]
    if topic is not None:
        wanted.append(ingest_topic_changes.c.topic == topic)
    if before_id is not None:
        wanted.append(ingest_topic_changes.c.id < before_id)
    found = select(ingest_topic_changes).where(*wanted).order_by(ingest_topic_changes.c.id.desc())
    return [
        IngestTopicChange(
            id=row.id,
            topic=row.topic,
            before=row.before,
            after=row.after,
            principal=row.principal,
            at_ms=row.at_ms,
        )
        for row in connection.execute(found.limit(limit))
    ]


def _same_version(row: IngestTopicRow | None, if_version: int | None) -> None:
    version = 0 if row is None else row.version
    if if_version is not None and if_version != version:
        raise VersionConflict(
            f"The registration changed: it is at version {version}, not {if_version}; read it again and retry"
        )


def _changes_of(connection: Connection, key: IngestTopicKey) -> int:
    count = select(func.count()).where(
        ingest_topic_changes.c.bucket_id == key.bucket_id, ingest_topic_changes.c.topic == key.topic
    )
    return int(connection.execute(count).scalar_one())


def _record(
    connection: Connection, key: IngestTopicKey, before: IngestTopicRow | None, after: JsonObject | None
) -> None:
    connection.execute(
        insert(ingest_topic_changes).values(
            bucket_id=key.bucket_id,
            topic=key.topic,
            before=None if before is None else before.document,
            after=after,
            principal=key.principal,
            at_ms=key.now_ms,
        )
    )


def _is(bucket_id: int, topic: str) -> tuple[Any, Any]:
    return ingest_topics.c.bucket_id == bucket_id, ingest_topics.c.topic == topic


def _topic(row: Row[Any]) -> IngestTopicRow:
    return IngestTopicRow(
        topic=row.topic, document=row.document, version=row.version, updated_at_ms=row.updated_at_ms
    )
