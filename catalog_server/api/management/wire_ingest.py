"""The management API's documents of ingest: topics that are registered, and who changed them."""

from typing import Any

from pydantic import Field

from catalog_server.api.management.wire import Wire
from ingest_plugin.registration import DEFAULT_GROUP


class IngestTopicDocument(Wire):
    """What a topic is told."""

    group: str = Field(
        DEFAULT_GROUP,
        min_length=1,
        max_length=255,
        description="The group of the ingest processes that are to read it, as their file's [kafka] names it.",
    )
    settings: dict[str, Any] = Field(
        description="The keys of a section [topics.NAME], with or without the prefix automq.table.topic."
    )


class IngestTopic(IngestTopicDocument):
    """A registered topic."""

    topic: str
    version: int
    updated_at_ms: int


class IngestTopics(Wire):
    """A page of registered topics, by name."""

    topics: list[IngestTopic]
    next_page_token: str | None


class IngestTopicChange(Wire):
    """One change of a registration."""

    id: int
    topic: str
    before: IngestTopicDocument | None = Field(description="null: it was not registered.")
    after: IngestTopicDocument | None = Field(description="null: it was removed.")
    by: str
    at_ms: int


class IngestTopicChanges(Wire):
    """A page of changes, newest first."""

    changes: list[IngestTopicChange]
    next_page_token: str | None


class PartitionInTable(Wire):
    """One partition of a topic in a table."""

    partition: int
    next_offset: int = Field(description="Offset behind the last record that is in the table.")
    valid_through_ms: int | None = Field(description="Moment up to which all its records are in the table.")


class TopicInTable(Wire):
    """One topic in a table."""

    topic: str
    topic_id: str | None
    partitions: list[PartitionInTable]


class TableIngest(Wire):
    """How far a table has been filled from Kafka."""

    valid_through_ms: int | None = Field(
        description="Moment up to which the table has all records of all partitions; null while none is known."
    )
    last_commit_ms: int | None = Field(description="When ingest last committed, as far as it is remembered.")
    paused: bool
    topics: list[TopicInTable]
