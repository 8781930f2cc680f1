"""The broker port over confluent-kafka (librdkafka).

Owns the client's quirks: partitions are assigned only once started, positions are kept here because a restart of
one partition re-assigns all, and brokers without topic ids (librdkafka's own mock) answer None.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import OffsetSpec as _OffsetSpec  # type: ignore[attr-defined]  # public by its documents

from ingest_plugin.kafka import Message, Polled, TopicInfo, TopicPartition
from ingest_plugin.settings import KafkaSettings
from ingest_plugin.topic_configs import own_settings
from table_format.errors import Forbidden, Invalid, Unavailable

log = structlog.get_logger("frazil.ingest.kafka")

REQUEST_SECONDS = 10.0
_DEFAULTS = {
    "isolation.level": "read_committed",
    "client.id": "frazil-ingest",
    # What matters arrives by the error callback; librdkafka would write it to stderr once more.
    "log_level": "2",
}
# A killed process gives up its partitions after this time; the catalog refuses its late commits anyway.
_CLASSIC_GROUP = {"session.timeout.ms": "10000"}
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # A position that the log does not have must be seen, not moved.
    "auto.offset.reset": "error",
}
_FATAL = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - the client's public constants start with an underscore
    KafkaError.FENCED_INSTANCE_ID,
)
_BREAKS_PARTITION = {
    KafkaError._AUTO_OFFSET_RESET: "the log no longer has the next offset",  # noqa: SLF001 - as above
    KafkaError.OFFSET_OUT_OF_RANGE: "the log no longer has the next offset",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic or partition does not exist any more",
    KafkaError._UNKNOWN_TOPIC: "the topic does not exist any more",  # noqa: SLF001 - as above
    KafkaError._UNKNOWN_PARTITION: "the partition does not exist any more",  # noqa: SLF001 - as above
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "reading the topic is not allowed",
}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class ConfluentBroker:
    """A librdkafka consumer that is told where to read."""

    def __init__(self, settings: KafkaSettings) -> None:
        # Brokers of the newer protocol set the session's length themselves, and librdkafka refuses ours.
        newer = settings.client.get("group.protocol", "classic").lower() == "consumer"
        ahead = {"queued.max.messages.kbytes": str(settings.ahead_bytes // 1024)}
        client: dict[str, Any] = {
            **_DEFAULTS,
            **ahead,
            **({} if newer else _CLASSIC_GROUP),
            **settings.client,
        }
        errors = _ErrorLog()
        config = {**client, **_FIXED, "group.id": settings.group, "error_cb": errors}
        self._servers = settings.client["bootstrap.servers"]
        self._by_group = settings.assignment == "group"
        self._incremental = self._by_group and (
            newer or client.get("partition.assignment.strategy") == "cooperative-sticky"
        )
        try:
            self._consumer = Consumer(config)
            # Questions on a connection that fetches are answered only after the fetch, which waits half a second.
            self._asking = Consumer({key: value for key, value in config.items() if key != "error_cb"})
        except KafkaException as error:
            raise Forbidden(f"[kafka]: {error.args[0].str()}") from None
        self._admin_config = beside_consuming(client) | {"error_cb": errors}
        self._admin: AdminClient | None = None
        self._mock: bool | None = None
        self._topics: tuple[str, ...] = ()
        """Those of which every partition is taken; empty with a group."""
        self._owned: set[TopicPartition] = set()
        self._news: list[TopicPartition] = []
        self._next: dict[TopicPartition, int] = {}
        self._on_revoked: Callable[[list[TopicPartition], bool], None] = lambda _places, _lost: None

    def cluster_id(self) -> str | None:
        """The cluster's id, as the metadata response gives it."""
        try:
            found = self._asking.list_topics(timeout=REQUEST_SECONDS).cluster_id
        except KafkaException as error:
            raise Unavailable(f"Kafka at {self._servers} does not answer: {error.args[0].str()}") from None
        return str(found) if found else None

    def topics(self) -> Collection[str]:
        """All topics that may be described to us."""
        try:
            return list(self._asking.list_topics(timeout=REQUEST_SECONDS).topics)
        except KafkaException as error:
            raise Unavailable(f"Kafka at {self._servers} does not answer: {error.args[0].str()}") from None

    def topic(self, name: str) -> TopicInfo | None:
        """Id and partitions of a topic, or None when it does not exist."""
        try:
            answer = self._asking.list_topics(name, timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise Unavailable(f"Kafka at {self._servers} does not answer: {error.args[0].str()}") from None
        found = answer.topics.get(name)
        if found is None or (found.error is not None and found.error.code() in _BREAKS_PARTITION):
            return None
        if found.error is not None:
            raise Unavailable(f"topic {name}: {found.error.str()}")
        return TopicInfo(
            topic_id=self._topic_id(name),
            partitions=tuple(sorted(found.partitions)),
            cluster_id=str(answer.cluster_id) if answer.cluster_id else None,
        )

    def _topic_id(self, name: str) -> str | None:
        if self._is_mock():
            return None
        wanted = TopicCollection([name])
        future = self._administration().describe_topics(wanted, request_timeout=REQUEST_SECONDS)[name]
        try:
            found = str(future.result(REQUEST_SECONDS + 1).topic_id)
        except KafkaException as error:
            raise Unavailable(f"topic {name}: {error.args[0].str()}") from None
        except TimeoutError:
            # The client's own timeout comes first, unless this process was stopped meanwhile.
            raise Unavailable(f"topic {name}: no answer in {REQUEST_SECONDS:.0f} s") from None
        return None if found == _NO_ID else found

    def _is_mock(self) -> bool:
        """Whether this is librdkafka's mock cluster, which knows little and would let questions time out."""
        if self._mock is None:
            self._mock = (self.cluster_id() or "").startswith("mockCluster")
        return self._mock

    def _administration(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self._admin_config)
        return self._admin

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The end of each partition, for readers that leave out transactions that are open or aborted."""
        latest: Any = _OffsetSpec
        wanted = {ClientPartition(p.topic, p.partition): latest.latest() for p in places}
        if not wanted:
            return {}
        try:
            futures = self._administration().list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_SECONDS
            )
            return {
                TopicPartition(asked.topic, asked.partition): int(future.result(REQUEST_SECONDS + 1).offset)
                for asked, future in futures.items()
            }
        except KafkaException as error:
            raise Unavailable(f"ends of partitions: {error.args[0].str()}") from None
        except TimeoutError:
            raise Unavailable(f"ends of partitions: no answer in {REQUEST_SECONDS:.0f} s") from None

    def own_settings(self, topics: Collection[str], prefix: str) -> Mapping[str, Mapping[str, str]]:
        """Settings that were set on topics themselves."""
        if self._is_mock():
            return {}
        return own_settings(self._administration(), topics, prefix, REQUEST_SECONDS)

    def watermarks(self, place: TopicPartition) -> tuple[int, int]:
        """First kept offset, and the next offset."""
        try:
            found = self._asking.get_watermark_offsets(
                ClientPartition(place.topic, place.partition), timeout=REQUEST_SECONDS
            )
        except KafkaException as error:
            raise Unavailable(f"{place}: {error.args[0].str()}") from None
        if found is None:
            raise Unavailable(f"{place}: no answer in {REQUEST_SECONDS:.0f} s")
        return int(found[0]), int(found[1])

    def open(self, topics: Sequence[str], on_revoked: Callable[[list[TopicPartition], bool], None]) -> None:
        """Join the group, or take every partition of the topics."""
        self._on_revoked = on_revoked
        for name in () if self._by_group else topics:
            if self.topic(name) is None:
                raise Invalid(
                    f'topic {name} does not exist: create it, or wait for it with assignment = "group"'
                )
        self.subscribe(topics)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics, and no others."""
        if not self._by_group:
            self._topics = tuple(topics)
            gone = [place for place in self._owned if place.topic not in topics]
            self.stop(gone)
            self._owned.difference_update(gone)
            self.discover()
        elif topics:
            self._consumer.subscribe(
                list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        else:
            # The client takes no empty list, and waits for news of its group all the same.
            self._consumer.unsubscribe()

    def discover(self) -> None:
        """Take partitions that the topics have been given since; a group does so by itself."""
        for name in self._topics:
            try:
                found = self._asking.list_topics(name, timeout=REQUEST_SECONDS).topics.get(name)
            except KafkaException:
                return
            for partition in sorted(found.partitions if found is not None and found.error is None else ()):
                if (place := TopicPartition(name, partition)) not in self._owned:
                    log.info("partition_added", place=str(place))
                    self._take(place)

    def _take(self, place: TopicPartition) -> None:
        self._owned.add(place)
        self._news.append(place)

    def _assigned(self, consumer: Any, places: list[Any]) -> None:
        for found in places:
            self._take(TopicPartition(found.topic, found.partition))
        # Taking the assignment over with nothing in it: a partition is read once its offset is known.
        (consumer.incremental_assign if self._incremental else consumer.assign)([])

    def _revoked(self, consumer: Any, places: list[Any]) -> None:
        self._give_up(consumer, places, lost=False)

    def _lost(self, consumer: Any, places: list[Any]) -> None:
        self._give_up(consumer, places, lost=True)

    def _give_up(self, consumer: Any, places: list[Any], *, lost: bool) -> None:
        gone = [TopicPartition(found.topic, found.partition) for found in places]
        self._on_revoked(gone, lost)
        running = [ClientPartition(p.topic, p.partition) for p in gone if p in self._next]
        for place in gone:
            self._owned.discard(place)
            self._next.pop(place, None)
        self._news = [place for place in self._news if place in self._owned]
        if self._incremental:
            consumer.incremental_unassign(running)
        else:
            consumer.unassign()

    def start(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on."""
        wanted = {place: offset for place, offset in offsets.items() if place in self._owned}
        moved = [place for place in wanted if place in self._next]
        self._next.update(wanted)
        if self._incremental:
            self._consumer.incremental_unassign([ClientPartition(p.topic, p.partition) for p in moved])
            self._consumer.incremental_assign(
                [ClientPartition(p.topic, p.partition, o) for p, o in wanted.items()]
            )
        else:
            self._assign_all()

    def stop(self, places: Iterable[TopicPartition]) -> None:
        """Read nothing more of these partitions."""
        gone = [place for place in places if self._next.pop(place, None) is not None]
        if not gone:
            return
        if self._incremental:
            self._consumer.incremental_unassign([ClientPartition(p.topic, p.partition) for p in gone])
        else:
            self._assign_all()

    def _assign_all(self) -> None:
        self._consumer.assign([ClientPartition(p.topic, p.partition, o) for p, o in self._next.items()])

    def poll(self, max_messages: int, timeout: float) -> Polled:
        """Records of started partitions."""
        try:
            fetched: list[Any] = list(self._consumer.consume(max_messages, timeout))
            self._asking.poll(0)  # what it has to say of lost connections must not pile up
        except KafkaException as error:
            raise Forbidden(f"Kafka: {error.args[0].str()}") from None
        broken: dict[TopicPartition, str] = {}
        messages: list[Message] = []
        current: TopicPartition | None = None
        for message in fetched:
            if message.error() is not None:
                self._note_error(message, broken)
                continue
            if (
                current is None
                or current.partition != message.partition()
                or current.topic != message.topic()
            ):
                current = TopicPartition(message.topic(), message.partition())
            expected = self._next.get(current)
            if expected is None or message.offset() < expected:
                continue
            self._next[current] = message.offset() + 1
            messages.append(message)
        assigned, self._news = [place for place in self._news if place in self._owned], []
        return Polled(messages=messages, assigned=assigned, broken=broken)

    def _note_error(self, message: Any, broken: dict[TopicPartition, str]) -> None:
        error = message.error()
        code = error.code()
        if code in _FATAL or error.fatal():
            raise Forbidden(f"Kafka refuses us: {error.str()}")
        place = TopicPartition(message.topic() or "", message.partition())
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public constants start so
            if place in self._next:
                self._next[place] = max(self._next[place], message.offset())
        elif code in _BREAKS_PARTITION:
            places = [
                p for p in self._owned if p.topic == place.topic and place.partition in (-1, p.partition)
            ]
            broken.update(dict.fromkeys(places, f"{_BREAKS_PARTITION[code]} ({error.str()})"))
            if not places:
                log.warning("kafka_waits_for_topic", topic=place.topic, error=error.str())
        else:
            log.warning("kafka_error", place=str(place), error=error.str())

    def position(self, place: TopicPartition) -> int | None:
        """The offset up to which a started partition has been read."""
        return self._next.get(place)

    def note_progress(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write group offsets for lag tools."""
        if not offsets:
            return
        try:
            self._consumer.commit(
                offsets=[ClientPartition(p.topic, p.partition, o) for p, o in offsets.items()],
                asynchronous=True,
            )
        except KafkaException as error:
            log.debug("group_offsets_not_written", error=error.args[0].str())

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
        self._asking.close()


_CONSUMER_ONLY = (
    "session.timeout.ms",
    "isolation.level",
    "queued.",
    "group.",
    "partition.assignment.strategy",
    "fetch.",
    "max.poll.",
    "heartbeat.",
    "max.partition.fetch.bytes",
)


def beside_consuming(client: Mapping[str, Any]) -> dict[str, Any]:
    """The client's settings for whatever does not consume."""
    return {key: value for key, value in client.items() if not key.startswith(_CONSUMER_ONLY)}


class _ErrorLog:
    """Logs what the client reports, the same trouble only once in a row (it reports each connection attempt)."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, error: KafkaError) -> None:
        text = error.str().partition(" (after")[0]
        if text != self._last:
            self._last = text
            log.warning("kafka_error", error=text)
