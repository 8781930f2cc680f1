"""Kafka topics that are registered at a bucket; ingest processes read the list and need no restart.

A PUT with `If-Match` only replaces the version it names (`"0"`: it is not there yet); the ETag of every answer is it.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from catalog_server.api.management import wire_ingest as wire
from catalog_server.api.management.parameters import BucketName, By, IfVersion, OnePage, OnPlatform, Tagged
from catalog_server.api.rawpath import decode
from catalog_server.store.ingest_topics import IngestTopicRow

router = APIRouter(tags=["ingest"])

_INGEST = "/v1/buckets/{bucket}/ingest"
_TOPIC = _INGEST + "/topics/{topic}"


def _topic_name(topic: Annotated[str, Path(description="Name of the Kafka topic.")]) -> str:
    return decode(topic, plus_is_space=False)


TopicName = Annotated[str, Depends(_topic_name)]
OfTopic = Annotated[str | None, Query(description="Only of this topic.")]


@router.get(_INGEST + "/topics")
async def list_ingest_topics(
    platform: OnPlatform, principal: By, bucket: BucketName, page: OnePage
) -> wire.IngestTopics:
    """The topics that are registered, by name."""
    found = await platform.ingest_topics.list(principal, bucket, page)
    return wire.IngestTopics(topics=[_topic(row) for row in found.items], next_page_token=found.next_token)


@router.get(_TOPIC, responses=Tagged.OF_OK)
async def get_ingest_topic(
    platform: OnPlatform, principal: By, bucket: BucketName, topic: TopicName, response: Response
) -> wire.IngestTopic:
    """One registered topic."""
    return _tagged(await platform.ingest_topics.get(principal, bucket, topic), response)


@router.put(_TOPIC, responses=Tagged.OF_OK)
async def put_ingest_topic(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    topic: TopicName,
    wanted: wire.IngestTopicDocument,
    if_version: IfVersion,
    response: Response,
) -> wire.IngestTopic:
    """Register a topic, or replace what it is told; ingest processes take note by themselves."""
    document = {"group": wanted.group, "settings": wanted.settings}
    found = await platform.ingest_topics.put(principal, bucket, topic, document, if_version=if_version)
    return _tagged(found, response)


@router.delete(_TOPIC, status_code=204)
async def delete_ingest_topic(
    platform: OnPlatform, principal: By, bucket: BucketName, topic: TopicName, if_version: IfVersion
) -> None:
    """Register a topic no more: what was read of it is committed, and its table stays as it is."""
    await platform.ingest_topics.remove(principal, bucket, topic, if_version=if_version)


@router.get(_INGEST + "/history")
async def ingest_topic_history(
    platform: OnPlatform, principal: By, bucket: BucketName, page: OnePage, topic: OfTopic = None
) -> wire.IngestTopicChanges:
    """Changes of the registrations, the newest first."""
    found = await platform.ingest_topics.history(principal, bucket, topic, page)
    changes = [
        wire.IngestTopicChange(
            id=change.id,
            topic=change.topic,
            before=None if change.before is None else wire.IngestTopicDocument(**change.before),
            after=None if change.after is None else wire.IngestTopicDocument(**change.after),
            by=change.principal,
            at_ms=change.at_ms,
        )
        for change in found.items
    ]
    return wire.IngestTopicChanges(changes=changes, next_page_token=found.next_token)


def _tagged(row: IngestTopicRow, response: Response) -> wire.IngestTopic:
    response.headers["ETag"] = f'"{row.version}"'
    return _topic(row)


def _topic(row: IngestTopicRow) -> wire.IngestTopic:
    return wire.IngestTopic(
        topic=row.topic,
        group=row.document["group"],
        settings=row.document["settings"],
        version=row.version,
        updated_at_ms=row.updated_at_ms,
    )
