"""The ingest configuration: a TOML file, overridden by FRAZIL_INGEST__SECTION__KEY in the environment.

Owns reading and everything beside the topics' own keys; holds no objects. Topic settings are complete after loading:
defaults are merged in, names are resolved, collisions are refused.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator

from ingest_plugin.keys import PREFIX, ConfigError, check_known, topic_keys
from ingest_plugin.topic_settings import Section, Tolerance, TopicSettings, check_topic
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

ENV_PREFIX = "FRAZIL_INGEST__"
# Whether the server runs ingest as its child, and by which file.
_OF_THE_SERVER = ("FRAZIL_INGEST__ENABLED", "FRAZIL_INGEST__CONFIG")
_TABLES_OF_A_TOPIC = frozenset({"schema", "fields.rename", "fields.cast"})
_SECTIONS = ("catalog", "kafka", "registry", "status", "defaults", "topics")
_OWN_KAFKA_KEYS = ("group", "assignment")
# Settings that the exactly-once protocol needs as it sets them.
_FIXED_KAFKA_KEYS = frozenset({"enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"})


M = TypeVar("M", bound=Section)


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


class IngestSettings(Section):
    """Everything that `frazil ingest` is told."""

    catalog: CatalogSettings
    kafka: KafkaSettings
    registry: RegistrySettings | None = None
    status: StatusSettings = StatusSettings()
    topics: tuple[TopicSettings, ...] = Field(min_length=1)


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    document: Mapping[str, Any] | None = None,
    catalog_default: str = "",
) -> IngestSettings:
    """Read and check the configuration; `document` stands in for a file, `catalog_default` for a missing catalog.uri.

    Raises:
        ConfigError: one line on what is wrong, where, and what to write.
    """
    given = _read(path) if document is None else dict(document)
    check_known("top level", given, _SECTIONS)
    for name, section in [*given.items(), *_members(given.get("topics"))]:
        if not isinstance(section, dict):
            raise ConfigError(f"'{name}' must be a section: write [{name}] or [topics.{name}]")
    merged = _overlaid(_with_dotted_keys(given), environ)
    topics = merged.get("topics", {})
    if not topics:
        raise ConfigError("no topic is configured: write a section [topics.NAME]")
    defaults = topic_keys("defaults", merged.get("defaults", {}))
    registry = merged.get("registry")
    settings = IngestSettings(
        catalog=_model(
            CatalogSettings,
            "catalog",
            ({"uri": catalog_default} if catalog_default else {}) | merged.get("catalog", {}),
        ),
        kafka=_kafka(merged.get("kafka", {})),
        registry=_model(RegistrySettings, "registry", registry) if registry else None,
        status=_model(StatusSettings, "status", merged.get("status", {})),
        topics=tuple(_topic(name, given, defaults) for name, given in topics.items()),
    )
    _check_together(settings)
    return settings


def _members(section: object) -> Iterable[tuple[str, object]]:
    return section.items() if isinstance(section, dict) else ()


def _with_dotted_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with Kafka and topic keys whole again: TOML takes an unquoted `commit.interval.ms` apart."""
    whole = dict(document)
    for section in whole.keys() & {"kafka", "defaults"}:
        whole[section] = _whole(section, whole[section])
    if "topics" in whole:
        whole["topics"] = {topic: _whole(f"topics.{topic}", keys) for topic, keys in whole["topics"].items()}
    return whole


def _whole(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in _whole_keys(given):
        if name in result:
            raise ConfigError(f"[{section}]: '{name}' is given twice, with and without quotes")
        result[name] = value
    return result


def _whole_keys(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for part, value in given.items():
        name = before + part
        if isinstance(value, dict) and name.removeprefix(PREFIX) not in _TABLES_OF_A_TOPIC:
            yield from _whole_keys(value, f"{name}.")
        else:
            yield name, value


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
        if section not in _SECTIONS or len(keys) != (2 if section == "topics" else 1) or not all(keys):
            raise ConfigError(
                f"environment variable {variable}: write {ENV_PREFIX}SECTION__KEY or {ENV_PREFIX}TOPICS__topic__KEY"
            )
        target = document.setdefault(section, {})
        if section == "topics":
            target[keys[0]] = target = dict(target.get(keys[0], {}))
        key = keys[-1].lower()
        target[key.replace("_", ".") if section in ("kafka", "defaults", "topics") else key] = value
    return document


def _kafka(given: dict[str, Any]) -> KafkaSettings:
    own = {name: given[name] for name in _OWN_KAFKA_KEYS if name in given}
    client = {name: _client_value(value) for name, value in given.items() if name not in _OWN_KAFKA_KEYS}
    for name in client:
        if name in _FIXED_KAFKA_KEYS or name == "group.id":
            advice = "write group" if name == "group.id" else "exactly-once ingest sets it"
            raise ConfigError(f"[kafka]: '{name}' cannot be set: {advice}")
    if not client.get("bootstrap.servers"):
        raise ConfigError("[kafka]: 'bootstrap.servers' is missing")
    return _model(KafkaSettings, "kafka", {**own, "client": client})


def _client_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topic(name: str, given: Mapping[str, object], defaults: Mapping[str, object]) -> TopicSettings:
    section = f"topics.{name}"
    keys = {**defaults, **topic_keys(section, given)}
    namespace = _namespace(section, keys.pop("namespace", None))
    replacement = keys.pop("table.dot.replacement", None)
    default_name = name if replacement is None else name.replace(".", str(replacement))
    return _model(
        TopicSettings,
        section,
        {**keys, "topic": name, "namespace": namespace, "table": keys.get("table", default_name)},
    )


def _namespace(section: str, value: object) -> Namespace:
    """Text is one level per dot; a list gives the levels as they are."""
    levels = value.split(".") if isinstance(value, str) else value
    if not isinstance(levels, list) or not levels or not all(isinstance(x, str) and x for x in levels):
        raise ConfigError(f"[{section}]: 'namespace' is missing or empty")
    return Namespace(tuple(levels))


def _model(model: type[M], section: str, given: Mapping[str, Any]) -> M:
    check_known(section, given, _known_names(model))
    try:
        return model.model_validate(given)
    except ConfigError as error:
        raise ConfigError(f"[{section}]: {error}") from None
    except ValidationError as error:
        first: JsonObject = dict(error.errors(include_url=False, include_input=False)[0])
        key = ".".join(str(part) for part in first["loc"]) or "value"
        raise ConfigError(f"[{section}]: '{key}': {first['msg']}") from None


def _known_names(model: type[Section]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _check_together(settings: IngestSettings) -> None:
    owners: dict[TableIdent, str] = {}
    for topic in settings.topics:
        check_topic(topic, has_registry=settings.registry is not None)
        idents = [topic.ident]
        if topic.tolerance is not Tolerance.NONE:
            idents.append(topic.dead_letters)
        for ident in idents:
            folded = TableIdent(ident.namespace, ident.name.casefold())
            if folded in owners:
                raise ConfigError(
                    f"topics '{owners[folded]}' and '{topic.topic}' would both write table {ident}"
                    ": give one of them another 'table'"
                )
            owners[folded] = topic.topic
