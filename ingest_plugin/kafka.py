"""The broker port: what ingest needs of Kafka, and nothing of any client library.

Positions are ours: a partition delivers nothing until `start` is called for it, and what was fetched before a
`start` is never delivered after it. Group offsets are written for lag tools and never read.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Message(Protocol):
    """One record, with the accessors of confluent-kafka's class: copying each record would cost too much."""

    def topic(self) -> str:
        """Name of the topic."""
        ...

    def partition(self) -> int:
        """Number of the partition."""
        ...

    def offset(self) -> int:
        """Offset in the partition."""
        ...

    def key(self) -> bytes | None:
        """Key bytes, if any."""
        ...

    def value(self) -> bytes | None:
        """Value bytes; None for a tombstone."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """(kind, milliseconds since the epoch); kind 0 means there is none."""
        ...

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Headers in order, if any."""
        ...


NO_TIMESTAMP = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """What the brokers say about a topic; `topic_id` is None where they do not offer ids."""

    topic_id: str | None
    partitions: tuple[int, ...]
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """What one poll gave."""

    messages: Sequence[Message] = ()
    assigned: Sequence[TopicPartition] = ()
    """Newly ours; they deliver nothing until started."""
    broken: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that cannot be read any more, with the reason."""


class Broker(Protocol):
    """A connection that reads topics; used by one thread."""

    def cluster_id(self) -> str | None:
        """The cluster's id, where it has one.

        Raises:
            Unavailable: no broker answered.
        """
        ...

    def topic(self, name: str) -> TopicInfo | None:
        """Id and partitions of a topic, or None when it does not exist.

        Raises:
            Unavailable: no broker answered.
        """
        ...

    def topics(self) -> Collection[str]:
        """The names of all topics that may be described to us.

        Raises:
            Unavailable: no broker answered.
        """
        ...

    def own_settings(self, topics: Collection[str], prefix: str) -> Mapping[str, Mapping[str, str]]:
        """By topic, what was set on it under keys that begin so; topics without any are left out.

        Raises:
            Unavailable: no broker answered.
            Forbidden: settings may not be described to us.
        """
        ...

    def watermarks(self, place: TopicPartition) -> tuple[int, int]:
        """First offset still kept, and the offset that the next record will get.

        Raises:
            Unavailable: no broker answered.
        """
        ...

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset behind the last record that may be read of each partition, asked for all at once.

        Raises:
            Unavailable: no broker answered.
        """
        ...

    def open(self, topics: Sequence[str], on_revoked: Callable[[list[TopicPartition], bool], None]) -> None:
        """Begin to take part; assignments arrive by `poll`.

        `on_revoked(partitions, lost)` is called inside `poll` before partitions are given up; with `lost` another
        reader may already have them.

        Raises:
            Invalid: all partitions are to be taken, and a topic does not exist.
            Unavailable: no broker answered.
        """
        ...

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on, none of which has to exist, instead of those said before.

        Partitions of others are given up; where a group spreads them anew, others may be given up for a while.
        """
        ...

    def discover(self) -> None:
        """When all partitions are to be taken: take those added to the topics since; they arrive by `poll`."""
        ...

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Deliver these partitions from these offsets on, from the next poll; also moves running ones."""
        ...

    def stop(self, places: Iterable[TopicPartition]) -> None:
        """Deliver nothing more of these partitions until they are started again."""
        ...

    def poll(self, max_messages: int, timeout: float) -> Polled:
        """Records of started partitions, each partition's in order.

        Raises:
            Forbidden: the brokers refuse us for good.
        """
        ...

    def position(self, place: TopicPartition) -> int | None:
        """The offset up to which a started partition has been read (records, markers and gaps), or None."""
        ...

    def note_progress(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write group offsets for lag tools; failures are of no consequence."""
        ...

    def close(self) -> None:
        """Leave."""
        ...
