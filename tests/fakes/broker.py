"""A Kafka cluster in memory, and the broker port over it. Every consumer is told which partitions it has."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ingest_plugin.kafka import Polled, TopicInfo, TopicPartition
from ingest_plugin.write.letter_topic import NotSent, Parcel
from table_format.clock import Clock
from table_format.errors import Unavailable

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class FakeMessage:
    _topic: str
    _partition: int
    _offset: int
    _value: bytes | None
    _key: bytes | None = None
    _headers: Headers | None = None
    _timestamp: tuple[int, int] = (0, -1)

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def headers(self) -> Headers | None:
        return self._headers


@dataclass(slots=True)
class FakeTopic:
    topic_id: str | None
    logs: list[list[FakeMessage | None]]
    """None stands for an offset that delivers nothing: a transaction marker, or a record compacted away."""
    low: dict[int, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """What was set on the topic itself; a fake takes any key, as AutoMQ does."""


class FakeCluster:
    """The brokers."""

    def __init__(self, cluster_id: str | None = "cluster-1", *, with_ids: bool = True) -> None:
        self.id = cluster_id
        self.topics: dict[str, FakeTopic] = {}
        self.away = False
        self.refusals: deque[tuple[int, bool]] = deque()
        self._with_ids = with_ids
        self._made = 0

    def create(self, name: str, partitions: int = 1) -> None:
        self._made += 1
        topic_id = f"topic-{self._made}" if self._with_ids else None
        self.topics[name] = FakeTopic(topic_id, [[] for _ in range(partitions)])

    def delete(self, name: str) -> None:
        del self.topics[name]

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> int:
        log = self.topics[topic].logs[partition]
        stamp = (0, -1) if timestamp_ms is None else (1, timestamp_ms)
        log.append(FakeMessage(topic, partition, len(log), value, key, headers, stamp))
        return len(log) - 1

    def skip(self, topic: str, partition: int = 0) -> None:
        self.topics[topic].logs[partition].append(None)

    def trim(self, topic: str, low: int, partition: int = 0) -> None:
        self.topics[topic].low[partition] = low

    def truncate(self, topic: str, end: int, partition: int = 0) -> None:
        del self.topics[topic].logs[partition][end:]

    def check(self) -> None:
        if self.away:
            raise Unavailable("Kafka does not answer")


class FakeBroker:
    """One consumer. `share` limits it to some partitions; `rebalance` changes that at the next poll."""

    def __init__(
        self, cluster: FakeCluster, clock: Clock, share: Iterable[TopicPartition] | None = None
    ) -> None:
        self.cluster = cluster
        self.progress: dict[TopicPartition, int] = {}
        self.closed = False
        self._clock = clock
        self._share = None if share is None else set(share)
        self._topics: Sequence[str] = ()
        self._owned: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}
        self._news: list[TopicPartition] = []
        self._change: tuple[set[TopicPartition], bool] | None = None
        self._on_revoked: Callable[[list[TopicPartition], bool], None] = lambda _places, _lost: None

    def cluster_id(self) -> str | None:
        self.cluster.check()
        return self.cluster.id

    def topic(self, name: str) -> TopicInfo | None:
        self.cluster.check()
        found = self.cluster.topics.get(name)
        if found is None:
            return None
        partitions = tuple(range(len(found.logs)))
        return TopicInfo(topic_id=found.topic_id, partitions=partitions, cluster_id=self.cluster.id)

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: self.watermarks(place)[1] for place in places}

    def topics(self) -> Collection[str]:
        self.cluster.check()
        return list(self.cluster.topics)

    def own_settings(self, topics: Collection[str], prefix: str) -> Mapping[str, Mapping[str, str]]:
        self.cluster.check()
        found = {
            name: {
                key: value
                for key, value in self.cluster.topics[name].settings.items()
                if key.startswith(prefix)
            }
            for name in topics
            if name in self.cluster.topics
        }
        return {name: own for name, own in found.items() if own}

    def watermarks(self, place: TopicPartition) -> tuple[int, int]:
        self.cluster.check()
        topic = self.cluster.topics.get(place.topic)
        if topic is None:
            raise Unavailable(f"{place}: there is no such topic")
        return topic.low.get(place.partition, 0), len(topic.logs[place.partition])

    def open(self, topics: Sequence[str], on_revoked: Callable[[list[TopicPartition], bool], None]) -> None:
        self._on_revoked = on_revoked
        self.subscribe(topics)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._topics = topics
        everything = self._places()
        owned = everything if self._share is None else everything & self._share
        for place in self._owned - owned:
            self._next.pop(place, None)
        self._news = [*(place for place in self._news if place in owned), *sorted(owned - self._owned)]
        self._owned = owned

    def _places(self) -> set[TopicPartition]:
        return {
            TopicPartition(name, partition)
            for name in self._topics
            if name in self.cluster.topics
            for partition in range(len(self.cluster.topics[name].logs))
        }

    def discover(self) -> None:
        if self._share is None and not self.cluster.away:
            added = sorted(self._places() - self._owned)
            self._owned.update(added)
            self._news.extend(added)

    def rebalance(self, share: Iterable[TopicPartition], *, lost: bool = False) -> None:
        self._change = (set(share), lost)

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._next.update({place: offset for place, offset in offsets.items() if place in self._owned})

    def stop(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._next.pop(place, None)

    def poll(self, max_messages: int, timeout: float) -> Polled:
        self._apply_rebalance()
        messages: list[FakeMessage] = []
        broken: dict[TopicPartition, str] = {}
        for place in sorted(self._next):
            topic = self.cluster.topics.get(place.topic)
            position = self._next[place]
            if topic is None or self.cluster.away:
                continue
            log = topic.logs[place.partition]
            if not topic.low.get(place.partition, 0) <= position <= len(log):
                broken[place] = "the log no longer has the next offset"
                continue
            while position < len(log) and len(messages) < max_messages:
                message = log[position]
                position += 1
                if message is not None:
                    messages.append(message)
            self._next[place] = position
        if not messages:
            self._clock.sleep(timeout)
        news, self._news = self._news, []
        return Polled(messages=messages, assigned=news, broken=broken)

    def _apply_rebalance(self) -> None:
        if self._change is None:
            return
        (share, lost), self._change = self._change, None
        gone = sorted(self._owned - share)
        if gone:
            self._on_revoked(gone, lost)
        for place in gone:
            self._next.pop(place, None)
        self._news = [*(place for place in self._news if place in share), *sorted(share - self._owned)]
        self._owned = share

    def position(self, place: TopicPartition) -> int | None:
        return self._next.get(place)

    def note_progress(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.progress.update(offsets)

    def close(self) -> None:
        self.closed = True


class FakeOutbox:
    """Produces; `refusals` on the cluster are (how many are taken first, final) of the sends to come."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def send(self, topic: str, parcels: Sequence[Parcel]) -> None:
        taken, final = self._cluster.refusals.popleft() if self._cluster.refusals else (len(parcels), False)
        if topic not in self._cluster.topics:
            raise NotSent("unknown topic", parcels, final=False)
        for parcel in parcels[:taken]:
            headers = list(parcel.headers)
            self._cluster.produce(topic, parcel.value, key=parcel.key, headers=headers)
        if taken < len(parcels):
            raise NotSent("refused", parcels[taken:], final=final)
