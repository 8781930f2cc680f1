"""One topic's section, wherever it comes from: keys in any spelling become `TopicSettings`, or one line of error.

The file, patterns, the catalog's registrations and the topics' own settings are all read here, so that a key means the
same and is refused in the same words everywhere.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from ingest_plugin.keys import PREFIX, ConfigError, check_known, topic_keys
from ingest_plugin.topic_settings import Section, Tolerance, TopicSettings
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

_TABLES_OF_A_TOPIC = frozenset({"schema", "fields.rename", "fields.cast"})

M = TypeVar("M", bound=Section)


def whole(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The section with its keys whole again: TOML takes an unquoted `commit.interval.ms` apart.

    Raises:
        ConfigError: a key is given twice, with and without quotes.
    """
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


def topic_of(
    section: str, name: str, given: Mapping[str, object], defaults: Mapping[str, object]
) -> TopicSettings:
    """The settings of one topic; `defaults` are offered keys without their prefix.

    Raises:
        ConfigError: one line on what is wrong, where, and what to write.
    """
    keys = {**defaults, **topic_keys(section, given)}
    namespace = namespace_of(section, keys.pop("namespace", None))
    replacement = keys.pop("table.dot.replacement", None)
    if not isinstance(replacement, str | None):
        raise ConfigError(f"[{section}]: 'table.dot.replacement' is text that stands for a dot")
    default_name = name if replacement is None else name.replace(".", replacement)
    return model(
        TopicSettings,
        section,
        {**keys, "topic": name, "namespace": namespace, "table": keys.get("table", default_name)},
    )


def namespace_of(section: str, value: object) -> Namespace:
    """Text is one level per dot; a list gives the levels as they are.

    Raises:
        ConfigError: it is missing, or empty.
    """
    levels = value.split(".") if isinstance(value, str) else value
    if not isinstance(levels, list) or not levels or not all(isinstance(x, str) and x for x in levels):
        raise ConfigError(f"[{section}]: 'namespace' is missing or empty")
    return Namespace(tuple(levels))


def model(kind: type[M], section: str, given: Mapping[str, Any]) -> M:
    """A section read as what it must be.

    Raises:
        ConfigError: a key is unknown, or a value is not one of the key.
    """
    check_known(section, given, {field.alias or name for name, field in kind.model_fields.items()})
    try:
        return kind.model_validate(given)
    except ConfigError as error:
        raise ConfigError(f"[{section}]: {error}") from None
    except ValidationError as error:
        first: JsonObject = dict(error.errors(include_url=False, include_input=False)[0])
        key = ".".join(str(part) for part in first["loc"]) or "value"
        raise ConfigError(f"[{section}]: '{key}': {first['msg']}") from None


def collisions(topics: Iterable[TopicSettings]) -> dict[str, str]:
    """Topics that would write a table which an earlier one of them writes, with the reason.

    One table may be the home of several topics when all of them say so.
    """
    refused: dict[str, str] = {}
    writers: dict[TableIdent, TopicSettings] = {}
    for topic in topics:
        idents = tables_of(topic)
        before = {ident: writers[_folded(ident)] for ident in idents if _folded(ident) in writers}
        clash = next(((ident, other) for ident, other in before.items() if not _share(other, topic)), None)
        if clash is None:
            writers |= {_folded(ident): topic for ident in idents if ident not in before}
            continue
        refused[topic.topic] = (
            f"topics '{clash[1].topic}' and '{topic.topic}' would both write table {clash[0]}"
            ": give one of them another 'table', or all of them table.shared = true"
        )
    return refused


def tables_of(topic: TopicSettings) -> list[TableIdent]:
    """The tables that a topic writes."""
    alone = topic.tolerance is Tolerance.NONE or topic.dead_letter_topic
    return [topic.ident] if alone else [topic.ident, topic.dead_letters]


def _folded(ident: TableIdent) -> TableIdent:
    return TableIdent(ident.namespace, ident.name.casefold())


def _share(one: TopicSettings, other: TopicSettings) -> bool:
    return one.shared and other.shared and one.ident == other.ident
