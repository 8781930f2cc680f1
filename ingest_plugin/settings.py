"""The ingest configuration: a TOML file, overridden by FRAZIL_INGEST__SECTION__KEY in the environment.

Owns reading and everything beside the topics' own keys; holds no objects. Topic settings are complete after loading:
defaults are merged in, names are resolved, collisions are refused.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from ingest_plugin.keys import ConfigError, check_known, topic_keys
from ingest_plugin.pattern import Pattern, pattern_of
from ingest_plugin.topic_section import collisions, model, topic_of, whole
from ingest_plugin.topic_settings import MIB, Section, TopicSettings, check_topic

ENV_PREFIX = "FRAZIL_INGEST__"
# Whether the server runs ingest as its child, and by which file.
_OF_THE_SERVER = ("FRAZIL_INGEST__ENABLED", "FRAZIL_INGEST__CONFIG")
_SECTIONS = (
    "catalog",
    "kafka",
    "registry",
    "status",
    "discovery",
    "memory",
    "defaults",
    "topics",
    "patterns",
)
_NAMED = frozenset({"topics", "patterns"})
"""Sections that hold sections with names."""
_OWN_KAFKA_KEYS = ("group", "assignment")
# Settings that the exactly-once protocol needs as it sets them.
_FIXED_KAFKA_KEYS = frozenset({"enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"})


class CatalogSettings(Section):
    """The Iceberg REST catalog."""

    uri: str = Field(min_length=1)
    warehouse: str = "default"
    token: SecretStr = SecretStr("")


class KafkaSettings(Section):
    """How to reach the brokers; `client` passes through to librdkafka."""

    group: str = Field(default="frazil", min_length=1)
    assignment: Literal["group", "all"] = "group"
    client: dict[str, str]
    ahead_bytes: int = 64 * MIB
    """What is fetched ahead of what was asked for, unless `client` says it."""


class RegistrySettings(Section):
    """A schema registry with Confluent's REST paths; several URLs are one registry."""

    urls: tuple[str, ...] = Field(min_length=1, alias="url")
    username: str = ""
    password: SecretStr = SecretStr("")
    token: SecretStr = SecretStr("")
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    @field_validator("urls", mode="before")
    @classmethod
    def _split_urls(cls, value: Any) -> Any:
        urls = value.split(",") if isinstance(value, str) else value
        if not isinstance(urls, list | tuple):
            raise ConfigError("'url' must be text, several URLs with commas between them, or a list")
        urls = tuple(str(url).strip() for url in urls if str(url).strip())
        for url in urls:
            if not url.lower().startswith(("http://", "https://")):
                raise ConfigError(f"'url': {url!r} does not begin with http:// or https://")
        return urls

    @property
    def url(self) -> str:
        """The URLs, for people."""
        return ", ".join(self.urls)


class StatusSettings(Section):
    """Where a running process tells what it does."""

    listen: str = ""


class DiscoverySettings(Section):
    """How topics are found that the file does not list, and how often is looked."""

    interval_seconds: float = Field(default=30, ge=0.1, le=3600)
    topic_settings: bool = False
    """Whether AutoMQ's keys are read from the topics themselves."""
    registered: bool | None = None
    """Whether topics registered at the catalog are read; None: where the catalog has registrations."""


class MemorySettings(Section):
    """What one process may take."""

    budget_bytes: int = Field(default=512 * MIB, ge=MIB)
    """Of what was read and is not in files yet, over all topics; a quarter of it for what the client fetches ahead."""


class IngestSettings(Section):
    """Everything that `frazil ingest` is told."""

    catalog: CatalogSettings
    kafka: KafkaSettings
    registry: RegistrySettings | None = None
    status: StatusSettings = StatusSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    memory: MemorySettings = MemorySettings()
    topics: tuple[TopicSettings, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    defaults: dict[str, Any] = Field(default_factory=dict)


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    document: Mapping[str, Any] | None = None,
    catalog_default: str = "",
    *,
    may_be_empty: bool = False,
) -> IngestSettings:
    """Read and check the configuration; `document` stands in for a file, `catalog_default` for a missing catalog.uri.

    `may_be_empty`: it need not name any topic.

    Raises:
        ConfigError: one line on what is wrong, where, and what to write.
    """
    given = _read(path) if document is None else dict(document)
    check_known("top level", given, _SECTIONS)
    for where, section in [*given.items(), *_members(given)]:
        if not isinstance(section, dict):
            raise ConfigError(f"'{where}' must be a section: write [{where}]")
    merged = _overlaid(_with_dotted_keys(given), environ)
    topics, patterns = merged.get("topics", {}), merged.get("patterns", {})
    discovery = model(DiscoverySettings, "discovery", merged.get("discovery", {}))
    if not (topics or patterns or discovery.registered or discovery.topic_settings or may_be_empty):
        raise ConfigError(
            "no topic is configured: write a section [topics.NAME] or [patterns.NAME], or registered = true in"
            " [discovery] to read those that are registered at the catalog"
        )
    memory = model(MemorySettings, "memory", merged.get("memory", {}))
    defaults = topic_keys("defaults", merged.get("defaults", {}))
    registry = merged.get("registry")
    settings = IngestSettings(
        catalog=model(
            CatalogSettings,
            "catalog",
            ({"uri": catalog_default} if catalog_default else {}) | merged.get("catalog", {}),
        ),
        kafka=_kafka(merged.get("kafka", {}), memory),
        memory=memory,
        registry=model(RegistrySettings, "registry", registry) if registry else None,
        status=model(StatusSettings, "status", merged.get("status", {})),
        discovery=discovery,
        defaults=defaults,
        topics=tuple(topic_of(f"topics.{name}", name, keys, defaults) for name, keys in topics.items()),
        patterns=tuple(pattern_of(name, keys, defaults) for name, keys in patterns.items()),
    )
    for topic in settings.topics:
        check_topic(topic, has_registry=settings.registry is not None)
    for pattern in settings.patterns:
        # Any name will do to see whether the keys are right.
        check_topic(
            pattern.settings("topic"),
            has_registry=settings.registry is not None,
            section=f"patterns.{pattern.name}",
        )
    kept = {topic.dead_letter_topic: topic.topic for topic in settings.topics}
    for topic in settings.topics:
        if topic.topic in kept:
            raise ConfigError(f"topic '{topic.topic}' keeps the dead letters of topic '{kept[topic.topic]}'")
    for reason in collisions(settings.topics).values():
        raise ConfigError(reason)
    return settings


def _members(document: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for section in sorted(_NAMED):
        within = document.get(section)
        for name, member in within.items() if isinstance(within, dict) else ():
            yield f"{section}.{name}", member


def _with_dotted_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with Kafka and topic keys whole again."""
    result = dict(document)
    for section in result.keys() & {"kafka", "defaults"}:
        result[section] = whole(section, result[section])
    for section in result.keys() & _NAMED:
        result[section] = {name: whole(f"{section}.{name}", keys) for name, keys in result[section].items()}
    return result


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _overlaid(document: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The document with environment values set: underscores inside a Kafka or topic key stand for dots."""
    document = {name: dict(value) if isinstance(value, dict) else value for name, value in document.items()}
    for variable, value in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX) or variable in _OF_THE_SERVER:
            continue
        parts = variable[len(ENV_PREFIX) :].split("__")
        section = parts[0].lower()
        keys = parts[1:]
        if section not in _SECTIONS or len(keys) != (2 if section in _NAMED else 1) or not all(keys):
            raise ConfigError(
                f"environment variable {variable}: write {ENV_PREFIX}SECTION__KEY or {ENV_PREFIX}TOPICS__topic__KEY"
            )
        target = document.setdefault(section, {})
        if section in _NAMED:
            target[keys[0]] = target = dict(target.get(keys[0], {}))
        key = keys[-1].lower()
        dotted = section in ("kafka", "defaults") or section in _NAMED
        target[key.replace("_", ".") if dotted else key] = value
    return document


def _kafka(given: dict[str, Any], memory: MemorySettings) -> KafkaSettings:
    own = {name: given[name] for name in _OWN_KAFKA_KEYS if name in given}
    client = {name: _client_value(value) for name, value in given.items() if name not in _OWN_KAFKA_KEYS}
    for name in client:
        if name in _FIXED_KAFKA_KEYS or name == "group.id":
            advice = "write group" if name == "group.id" else "exactly-once ingest sets it"
            raise ConfigError(f"[kafka]: '{name}' cannot be set: {advice}")
    if not client.get("bootstrap.servers"):
        raise ConfigError("[kafka]: 'bootstrap.servers' is missing")
    return model(
        KafkaSettings,
        "kafka",
        {**own, "client": client, "ahead_bytes": min(64 * MIB, memory.budget_bytes // 4)},
    )


def _client_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
