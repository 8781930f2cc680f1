"""`validate`: whether brokers, registry, catalog, topics and tables answer as the settings expect. Writes nothing."""

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import cast

from ingest_plugin import offsets, tables
from ingest_plugin.assembly import broker_of, catalog_of, registered_of
from ingest_plugin.discovery import Discovery
from ingest_plugin.kafka import Broker, TopicPartition
from ingest_plugin.keys import ConfigError
from ingest_plugin.partition_by import spec_of
from ingest_plugin.settings import IngestSettings
from ingest_plugin.topic_settings import TopicSettings
from table_format.catalog import TableCatalog
from table_format.clock import SystemClock
from table_format.errors import TableFormatError
from table_format.jsontypes import JsonObject
from table_format.schema import evolve
from table_format.schema.types import with_fresh_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    what: str
    ok: bool
    detail: str

    def document(self) -> JsonObject:
        """For machines."""
        return {"what": self.what, "ok": self.ok, "detail": self.detail}


def run(settings: IngestSettings) -> list[Finding]:
    """Check everything that can be checked; one trouble does not hide the next."""
    findings: list[Finding] = []
    catalog = catalog_of(settings.catalog)
    findings.append(_attempt("catalog", lambda: f"{settings.catalog.uri}, warehouse {_reached(settings)}"))
    if (registry := settings.registry) is not None:
        findings.append(_attempt("registry", lambda: _registry(settings) or registry.url))
    try:
        broker = broker_of(settings)
    except (TableFormatError, ConfigError) as error:
        return [*findings, Finding(what="kafka", ok=False, detail=str(error))]
    try:
        kafka = _attempt("kafka", lambda: f"cluster {broker.cluster_id()}")
        findings.append(kafka)
        # A broker that is away keeps every question waiting for seconds: it is asked once.
        registered = registered_of(settings) if findings[0].ok else None
        source = Discovery(settings, broker, registered)
        topics, others = _roster(source) if kafka.ok else (settings.topics, [])
        findings += others
        for topic in topics:
            findings.append(_topic(topic, broker) if kafka.ok else _not_asked(topic))
            if topic.dead_letter_topic and kafka.ok:
                letters = partial(_letters, topic.dead_letter_topic, broker)
                findings.append(_attempt(f"dead letters of {topic.topic}", letters))
            findings.append(_attempt(f"table {topic.ident}", partial(_table, topic, catalog)))
    finally:
        broker.close()
    return findings


def _attempt(what: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(what=what, ok=True, detail=ask())
    except (TableFormatError, ConfigError) as error:
        return Finding(what=what, ok=False, detail=str(error))


def _reached(settings: IngestSettings) -> str:
    catalog_of(settings.catalog).config()
    return settings.catalog.warehouse


def _registry(settings: IngestSettings) -> str:
    from ingest_plugin.decode.registry import SchemaRegistry  # noqa: PLC0415 - only when one is configured

    if settings.registry is not None:
        SchemaRegistry(settings.registry, SystemClock()).check()
    return ""


def _roster(source: Discovery) -> tuple[Collection[TopicSettings], list[Finding]]:
    """The topics that would be read, and what there is to say of those that would not, and of the patterns."""
    try:
        found = source.now(())
    except TableFormatError as error:
        return source.settings.topics, [Finding(what="topics", ok=False, detail=str(error))]
    findings = []
    for pattern in source.settings.patterns:
        count = sum(topic.discovered and pattern.matches(name) for name, topic in found.topics.items())
        findings.append(Finding(what=f"pattern {pattern.name}", ok=True, detail=f"{count} topics"))
    findings += [
        Finding(what=f"topic {name}", ok=False, detail=reason) for name, reason in found.refused.items()
    ]
    return found.topics.values(), findings


def _topic(topic: TopicSettings, broker: Broker) -> Finding:
    return _attempt(f"topic {topic.topic}", lambda: _describe(topic, broker))


def _not_asked(topic: TopicSettings) -> Finding:
    return Finding(what=f"topic {topic.topic}", ok=False, detail="not checked: no broker answers")


def _describe(topic: TopicSettings, broker: Broker) -> str:
    info = broker.topic(topic.topic)
    if info is None:
        raise ConfigError("the topic does not exist")
    marks = [broker.watermarks(TopicPartition(topic.topic, partition)) for partition in info.partitions]
    return f"{len(marks)} partitions, {sum(high - low for low, high in marks)} offsets kept"


def _letters(name: str, broker: Broker) -> str:
    if broker.topic(name) is None:
        raise ConfigError(f"topic {name} does not exist: create it")
    return f"topic {name}"


def _table(topic: TopicSettings, catalog: TableCatalog) -> str:
    table = tables.find(catalog, topic.ident)
    fields = [{"name": n, "required": False, "type": kind} for n, kind in topic.explicit.types().items()]
    counter = itertools.count(1)
    explicit = cast("JsonObject", with_fresh_ids({"type": "struct", "fields": fields}, lambda: next(counter)))
    if table is None:
        return f"will be created{_partitioning(topic, explicit)}"
    schema = table.metadata.schema()
    named = {name.lower() for name in topic.explicit.columns}
    others = [field for field in schema["fields"] if field["name"].lower() not in named]
    wanted = {"type": "struct", "fields": [*others, *explicit["fields"]]}
    changes = evolve.changes(schema, wanted, case_sensitive=False)
    if hopeless := evolve.incompatible(changes):
        raise ConfigError("; ".join(map(str, hopeless)))
    known = offsets.recorded(table.metadata, topic.topic)
    return f"exists, {len(changes)} columns to add or change, offsets {dict(known.offsets) or 'none yet'}"


def _partitioning(topic: TopicSettings, explicit: JsonObject) -> str:
    """Partition terms on explicit columns are checked; others can be only when records have shown the columns."""
    known = {field["name"] for field in explicit["fields"]}
    spec_of([term for term in topic.partition_by if term.column in known], explicit)
    later = [term.column for term in topic.partition_by if term.column not in known]
    return f"; partition columns {later} are checked when records show them" if later else ""
