"""What one topic is told: its formats, table, partitioning, transforms and tolerance; names and bounds of every key.

Holds no objects. Reading files and environment, and what topics must not have in common, are in `settings`.
"""

import re
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ingest_plugin.bind.typetext import parse_cast, parse_type
from ingest_plugin.keys import ConfigError
from ingest_plugin.partition_by import PartitionTerm, parse
from table_format.ident import Namespace, TableIdent
from table_format.schema.types import JsonType

DEAD_LETTERS_SUFFIX = "__dead_letters"
METADATA_COLUMN = "_kafka_metadata"
KEY_COLUMN, VALUE_COLUMN, HEADER_COLUMN = "_kafka_key", "_kafka_value", "_kafka_header"
CDC_COLUMN = "_cdc"
MIB = 1024 * 1024
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class ValueFormat(StrEnum):
    """`convert.value.type` and `convert.key.type`."""

    JSON = "json"
    CONNECT_JSON = "connect_json"
    BY_SCHEMA_ID = "by_schema_id"
    BY_LATEST_SCHEMA = "by_latest_schema"
    STRING = "string"
    RAW = "raw"


REGISTERED = frozenset({ValueFormat.BY_SCHEMA_ID, ValueFormat.BY_LATEST_SCHEMA})
"""Formats that need a schema registry."""


class Transform(StrEnum):
    """`transform.value.type`: what of a value becomes columns."""

    NONE = "none"
    FLATTEN = "flatten"
    FLATTEN_DEBEZIUM = "flatten_debezium"


class SubjectStrategy(StrEnum):
    """`subject.name.strategy`: which subject of the registry a topic's latest schema is found under."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic_record"


class SchemaIdPlace(StrEnum):
    """`schema.id`: where a record says which schema it was written with."""

    PREFIX = "prefix"
    HEADERS = "headers"


class TruncatePolicy(StrEnum):
    """`cdc.truncate`: what to do when the source table was emptied by one event."""

    DEAD_LETTER = "dead_letter"
    SKIP = "skip"


class Tolerance(StrEnum):
    """`errors.tolerance`: what happens to a record that cannot become a row."""

    NONE = "none"
    INVALID_DATA = "invalid_data"
    ALL = "all"


class Section(BaseModel):
    """A closed section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class PartSettings(Section):
    """How keys or values are found in the registry."""

    subject: str = ""
    message: str = ""
    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    place: SchemaIdPlace = SchemaIdPlace.PREFIX


class SchemaSettings(Section):
    """Types of columns that are not left to inference."""

    columns: dict[str, str] = Field(default_factory=dict)
    extra: Literal["add", "reject"] = "add"

    def types(self) -> dict[str, JsonType]:
        """Iceberg types by column name, without ids."""
        return {name: parse_type(text, name) for name, text in self.columns.items()}


class TopicSettings(Section):
    """One topic and its table."""

    topic: str
    discovered: bool = False
    """Whether nobody names the topic: found by a pattern. It takes no table that another topic has filled."""
    namespace: Namespace
    table: str
    commit_interval_ms: int = Field(default=60_000, ge=100, le=900_000, alias="commit.interval.ms")
    value_format: ValueFormat = Field(default=ValueFormat.RAW, alias="convert.value.type")
    partition_by: tuple[PartitionTerm, ...] = Field(default=(), alias="partition.by")
    tolerance: Tolerance = Field(default=Tolerance.INVALID_DATA, alias="errors.tolerance")
    dead_letter_topic: str = Field(default="", alias="errors.deadletter.topic")
    explicit: SchemaSettings = Field(default_factory=SchemaSettings, alias="schema")
    target_bytes: int = Field(default=64 * MIB, ge=1024, le=2048 * MIB, alias="write.target.file.size.bytes")
    metadata_columns: bool = Field(default=True, alias="metadata.columns")
    upsert: bool = Field(default=False, alias="upsert.enable")
    id_columns: tuple[str, ...] = Field(default=(), alias="id.columns")
    cdc_field: tuple[str, ...] = Field(default=(), alias="cdc.field")
    upsert_bytes: int = Field(default=128 * MIB, ge=1024, le=4096 * MIB, alias="write.upsert.memory.bytes")
    on_recreated: Literal["fail", "restart"] = Field(default="fail", alias="on.topic.recreated")
    on_gap: Literal["fail", "skip"] = Field(default="fail", alias="on.retention.gap")
    shared: bool = Field(default=False, alias="table.shared")
    header_column: bool = Field(default=False, alias="header.column")
    key_format: ValueFormat | None = Field(default=None, alias="convert.key.type")
    transform: Transform = Field(default=Transform.FLATTEN, alias="transform.value.type")
    truncate: TruncatePolicy = Field(default=TruncatePolicy.DEAD_LETTER, alias="cdc.truncate")
    include: tuple[str, ...] = Field(default=(), alias="fields.include")
    exclude: tuple[str, ...] = Field(default=(), alias="fields.exclude")
    rename: dict[str, str] = Field(default_factory=dict, alias="fields.rename")
    cast: dict[str, str] = Field(default_factory=dict, alias="fields.cast")
    value_subject: str = Field(default="", alias="convert.value.by_latest_schema.subject")
    key_subject: str = Field(default="", alias="convert.key.by_latest_schema.subject")
    value_message: str = Field(default="", alias="convert.value.by_latest_schema.message.full.name")
    key_message: str = Field(default="", alias="convert.key.by_latest_schema.message.full.name")
    value_strategy: SubjectStrategy = Field(
        default=SubjectStrategy.TOPIC, alias="convert.value.subject.name.strategy"
    )
    key_strategy: SubjectStrategy = Field(
        default=SubjectStrategy.TOPIC, alias="convert.key.subject.name.strategy"
    )
    value_id_place: SchemaIdPlace = Field(default=SchemaIdPlace.PREFIX, alias="convert.value.schema.id")
    key_id_place: SchemaIdPlace = Field(default=SchemaIdPlace.PREFIX, alias="convert.key.schema.id")

    @field_validator("include", "exclude", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        """`[a, b]` as AutoMQ writes lists, `a, b`, or a TOML list."""
        if not isinstance(value, str):
            return value
        return tuple(name for part in value.strip().strip("[]").split(",") if (name := part.strip()))

    @property
    def value_part(self) -> PartSettings:
        """How values are found in the registry."""
        return PartSettings(
            subject=self.value_subject,
            message=self.value_message,
            strategy=self.value_strategy,
            place=self.value_id_place,
        )

    @property
    def key_part(self) -> PartSettings:
        """How keys are found in the registry."""
        return PartSettings(
            subject=self.key_subject,
            message=self.key_message,
            strategy=self.key_strategy,
            place=self.key_id_place,
        )

    @property
    def own_columns(self) -> frozenset[str]:
        """Columns that ingest fills itself: a record's field of that name is refused."""
        names = {METADATA_COLUMN} if self.metadata_columns else set()
        if self.header_column:
            names.add(HEADER_COLUMN)
        if self.key_format is not None:
            names.add(KEY_COLUMN)
        if self.transform is Transform.FLATTEN_DEBEZIUM:
            names.add(CDC_COLUMN)
        return frozenset(names)

    @field_validator("id_columns", mode="before")
    @classmethod
    def _parse_key(cls, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.strip().removeprefix("[").removesuffix("]").split(",")]
            value = [] if value == [""] else value
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
            raise ConfigError(f"id.columns must be a list of column names, got {value!r}")
        if "_from_debezium_key_" in value:
            raise ConfigError(
                "id.columns = [_from_debezium_key_] is not offered: name the columns of the connector's key"
            )
        folded = [name.lower() for name in value]
        for name in value:
            if folded.count(name.lower()) > 1:
                raise ConfigError(f"id.columns names column '{name}' twice")
        return tuple(value)

    @field_validator("cdc_field", mode="before")
    @classmethod
    def _parse_path(cls, value: Any) -> tuple[str, ...]:
        if not isinstance(value, str) or not all(value.split(".")):
            raise ConfigError(
                f"cdc.field must be the name of a field, with dots between levels, got {value!r}"
            )
        return tuple(value.split("."))

    @property
    def keyed(self) -> bool:
        """Whether rows take the place of those with the same key."""
        return self.upsert or bool(self.cdc_field)

    @field_validator("partition_by", mode="before")
    @classmethod
    def _parse_partition(cls, value: Any) -> tuple[PartitionTerm, ...]:
        parts = [value] if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ConfigError(f"partition.by must be text or a list of texts, got {value!r}")
        return parse(value)

    @property
    def ident(self) -> TableIdent:
        """The table that holds this topic."""
        return TableIdent(self.namespace, self.table)

    @property
    def dead_letters(self) -> TableIdent:
        """The table that keeps this topic's records that could not become rows."""
        return TableIdent(self.namespace, self.table + DEAD_LETTERS_SUFFIX)


def check_topic(topic: TopicSettings, *, has_registry: bool, section: str = "") -> None:
    """Refuse what the keys of one topic must not say together; `section` is where they stand, if not in the topic's.

    Raises:
        ConfigError: they contradict each other, or need what is not configured.
    """
    section = f"[{section or f'topics.{topic.topic}'}]"
    for used in (topic.value_format, topic.key_format):
        if used in REGISTERED and not has_registry:
            raise ConfigError(f"{section}: {used} needs a section [registry] with 'url'")
    if topic.explicit.columns and topic.value_format is not ValueFormat.JSON:
        raise ConfigError(
            f"{section}: 'schema' is for convert.value.type = \"json\"; 'fields.cast' is for all"
        )
    if ours := sorted(topic.own_columns.intersection(topic.explicit.columns)):
        raise ConfigError(f"{section}: column '{ours[0]}' is ours")
    for part, name, strategy, message in (
        ("value", topic.value_format, topic.value_strategy, topic.value_message),
        ("key", topic.key_format, topic.key_strategy, topic.key_message),
    ):
        if (
            name is ValueFormat.BY_LATEST_SCHEMA
            and strategy is not SubjectStrategy.TOPIC
            and not message
            and not (topic.value_subject if part == "value" else topic.key_subject)
        ):
            raise ConfigError(
                f"{section}: subject.name.strategy = {strategy} needs"
                f" convert.{part}.by_latest_schema.message.full.name, the record's full name"
            )
    plain = topic.value_format in (ValueFormat.RAW, ValueFormat.STRING)
    if topic.transform is Transform.FLATTEN_DEBEZIUM and plain:
        raise ConfigError(f"{section}: flatten_debezium needs values with fields, not {topic.value_format}")
    if topic.include and topic.exclude:
        raise ConfigError(f"{section}: give fields.include or fields.exclude, not both")
    _check_key(topic, section)
    _check_letters(topic, section)
    topic.explicit.types()
    for column, text in topic.cast.items():
        parse_cast(text, column)


def _check_letters(topic: TopicSettings, section: str) -> None:
    if not topic.dead_letter_topic:
        return
    if not is_topic_name(topic.dead_letter_topic) or topic.dead_letter_topic == topic.topic:
        raise ConfigError(
            f"{section}: errors.deadletter.topic = {topic.dead_letter_topic!r} is no name of another topic"
        )
    if topic.tolerance is Tolerance.NONE:
        raise ConfigError(f"{section}: with errors.tolerance = none nothing goes to errors.deadletter.topic")


def is_topic_name(text: str) -> bool:
    """Whether Kafka has topics of such names."""
    return _TOPIC_NAME.fullmatch(text) is not None and text not in (".", "..")


def _check_key(topic: TopicSettings, section: str) -> None:
    if topic.shared and topic.keyed:
        raise ConfigError(
            f"{section}: table.shared cannot be had with upsert.enable or cdc.field: changes"
            " of one key in two topics have no order"
        )
    if topic.keyed and not topic.id_columns:
        wanted = "upsert.enable" if topic.upsert else "cdc.field"
        raise ConfigError(f"{section}: {wanted} needs 'id.columns', the columns that tell rows apart")
    plain = topic.value_format in (ValueFormat.RAW, ValueFormat.STRING)
    if topic.id_columns and plain and topic.id_columns != (KEY_COLUMN,):
        raise ConfigError(f"{section}: id.columns of a {topic.value_format} topic can only be [{KEY_COLUMN}]")
    if topic.metadata_columns and METADATA_COLUMN in topic.id_columns:
        raise ConfigError(f"{section}: '{METADATA_COLUMN}' cannot be part of id.columns")
