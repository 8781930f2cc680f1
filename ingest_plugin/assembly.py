"""The one place that puts the parts of ingest together; tests hand in others."""

from collections.abc import Callable

from ingest_plugin.bind.keyed import Keys
from ingest_plugin.bind.topic import TopicBinder
from ingest_plugin.coordinator import Coordinator
from ingest_plugin.decode.connect_json import ConnectJsonDecoder
from ingest_plugin.decode.framing import Part
from ingest_plugin.decode.json import JsonDecoder
from ingest_plugin.decode.plain import RawDecoder, StringDecoder
from ingest_plugin.decode.registered import LatestSchemaDecoder, SchemaIdDecoder
from ingest_plugin.decode.registry import SchemaRegistry
from ingest_plugin.decode.values import Decoder
from ingest_plugin.discovery import Discovery
from ingest_plugin.kafka import Broker
from ingest_plugin.keys import ConfigError
from ingest_plugin.lane import Lane
from ingest_plugin.membership import Membership
from ingest_plugin.offsets import Source
from ingest_plugin.registered import RegisteredTopics, Registrations
from ingest_plugin.settings import CatalogSettings, IngestSettings
from ingest_plugin.topic_settings import REGISTERED, TopicSettings, Transform, ValueFormat
from ingest_plugin.transform.chain import Chain, chain_of
from ingest_plugin.transform.keys import KeyReader
from ingest_plugin.worker import Worker
from ingest_plugin.write.buffer import RowBuffer, StoreFor
from ingest_plugin.write.changes import ChangeBuffer
from ingest_plugin.write.dead_letters import DeadLetters
from ingest_plugin.write.letter_topic import LetterTopic, Outbox
from ingest_plugin.write.task import TopicTask
from table_format.catalog import TableCatalog
from table_format.clock import Clock, Ids, SystemClock, SystemIds
from table_format.io.resolve import store_for as default_store_for
from table_format.rest import RestCatalog


def build(
    settings: IngestSettings,
    *,
    should_stop: Callable[[], bool],
    exit_at_end: bool = False,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Worker:
    """A worker over the configured brokers and catalog.

    Raises:
        Forbidden: a Kafka client setting is refused.
        ConfigError: the Kafka client is not installed.
    """
    clock, ids = clock or SystemClock(), ids or SystemIds()
    return assemble(
        settings,
        broker=broker_of(settings),
        outbox=outbox_of(settings),
        catalog=catalog_of(settings.catalog),
        store_for=default_store_for,
        clock=clock,
        ids=ids,
        should_stop=should_stop,
        exit_at_end=exit_at_end,
        registered=registered_of(settings),
    )


def assemble(  # noqa: PLR0913 - a composition root takes every part
    settings: IngestSettings,
    *,
    broker: Broker,
    outbox: Outbox,
    catalog: TableCatalog,
    store_for: StoreFor,
    clock: Clock,
    ids: Ids,
    should_stop: Callable[[], bool],
    exit_at_end: bool = False,
    registered: RegisteredTopics | None = None,
) -> Worker:
    """A worker over the given parts."""
    registry = None if settings.registry is None else SchemaRegistry(settings.registry, clock)

    def task(topic: TopicSettings) -> TopicTask:
        def buffer() -> RowBuffer:
            return RowBuffer(store_for=store_for, ids=ids, target_bytes=topic.target_bytes)

        rows = buffer()
        keyed = topic.keyed
        decoder = decoder_of(topic, registry)
        return TopicTask(
            settings=topic,
            decoder=decoder,
            binder=TopicBinder(settings=topic, catalog=catalog, clock=clock, ids=ids),
            rows=rows,
            keys=Keys(
                columns=topic.id_columns,
                operation_field=topic.cdc_field,
                tombstones_decoded=isinstance(decoder, Chain) and decoder.takes_tombstones,
            )
            if keyed
            else None,
            changes=ChangeBuffer(out=rows, key=topic.id_columns, memory_bytes=topic.upsert_bytes)
            if keyed
            else None,
            letters=LetterTopic(topic=topic.dead_letter_topic, group=settings.kafka.group, outbox=outbox)
            if topic.dead_letter_topic
            else DeadLetters(
                catalog=catalog, ident=topic.dead_letters, buffer=buffer(), clock=clock, ids=ids
            ),
            source=Source(topic=topic.topic, topic_id=None, cluster_id=None, generation=0),
        )

    finds = settings.patterns or settings.discovery.topic_settings
    return Worker(
        members=Membership(
            source=Discovery(settings, broker, registered) if finds or registered else None,
            make=task,
            broker=broker,
            lanes={topic.topic: Lane(task=task(topic), due=0.0) for topic in settings.topics},
            seconds=settings.discovery.interval_seconds,
            memory_bytes=settings.memory.budget_bytes,
        ),
        coordinator=Coordinator(catalog=catalog, broker=broker, store_for=store_for, clock=clock, ids=ids),
        clock=clock,
        ids=ids,
        should_stop=should_stop,
        exit_at_end=exit_at_end,
    )


def broker_of(settings: IngestSettings) -> Broker:
    """The configured Kafka connection.

    Raises:
        ConfigError: the Kafka client is not installed.
    """
    try:
        from ingest_plugin.confluent import ConfluentBroker  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise ConfigError("the Kafka client is missing: pip install 'frazil[ingest]'") from None
    return ConfluentBroker(settings.kafka)


def outbox_of(settings: IngestSettings) -> Outbox:
    """The configured Kafka connection, for producing.

    Raises:
        ConfigError: the Kafka client is not installed.
    """
    try:
        from ingest_plugin.producing import ConfluentOutbox  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise ConfigError("the Kafka client is missing: pip install 'frazil[ingest]'") from None
    return ConfluentOutbox(settings.kafka)


def registered_of(settings: IngestSettings) -> RegisteredTopics | None:
    """Where topics are registered, unless the settings say not to ask."""
    return None if settings.discovery.registered is False else Registrations(settings.catalog)


def catalog_of(settings: CatalogSettings) -> RestCatalog:
    """The configured catalog."""
    return RestCatalog(settings.uri, settings.warehouse, token=settings.token.get_secret_value() or None)


def decoder_of(topic: TopicSettings, registry: SchemaRegistry | None) -> Decoder:
    """Everything between a topic's messages and its rows.

    Raises:
        ConfigError: a format needs a registry, and none is configured.
    """
    values = _format(topic, Part.VALUE, topic.value_format, registry)
    key_format = topic.key_format
    if key_format is None and topic.transform is Transform.FLATTEN_DEBEZIUM:
        # Connectors write keys as they write values: it takes the key to know what a delete is about.
        key_format = topic.value_format
    keys = None
    if key_format is not None:
        plain = key_format in (ValueFormat.STRING, ValueFormat.RAW, ValueFormat.JSON)
        keys = KeyReader(key_format, None if plain else _format(topic, Part.KEY, key_format, registry))
    return chain_of(topic, values, keys)


def _format(topic: TopicSettings, part: Part, form: ValueFormat, registry: SchemaRegistry | None) -> Decoder:
    settings = topic.value_part if part is Part.VALUE else topic.key_part
    if form in REGISTERED:
        if registry is None:
            raise ConfigError(f"[topics.{topic.topic}]: {form} needs a section [registry]")
        if form is ValueFormat.BY_SCHEMA_ID:
            return SchemaIdDecoder(registry, part, settings.place)
        return LatestSchemaDecoder(registry, topic.topic, part, settings)
    match form:
        case ValueFormat.CONNECT_JSON:
            return ConnectJsonDecoder(part)
        case ValueFormat.STRING:
            return StringDecoder(with_key=topic.key_format is None)
        case ValueFormat.RAW:
            return RawDecoder(with_key=topic.key_format is None)
        case _:
            return JsonDecoder()
