"""Topics that are registered at the catalog: what may be, for the server that keeps it and for us who read it.

All that the server knows of ingest. A registration is complete in itself: `[defaults]` of a file are not added to it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ingest_plugin.keys import ConfigError
from ingest_plugin.topic_section import collisions, tables_of, topic_of, whole
from ingest_plugin.topic_settings import TopicSettings, check_topic, is_topic_name
from table_format.errors import AlreadyExists, Invalid

DEFAULT_GROUP = "frazil"
"""The group of ingest processes that reads a topic when none is named; also that of a file which names none."""


def topic_from(topic: str, settings: Mapping[str, Any]) -> TopicSettings:
    """The settings of a registered topic.

    Raises:
        ConfigError: in the words in which a file would be refused.
    """
    section = f"topics.{topic}"
    return topic_of(section, topic, whole(section, settings), {})


def checked(topic: str, settings: Mapping[str, Any]) -> TopicSettings:
    """The same, for whoever takes a registration; whether there is a schema registry only ingest knows.

    Raises:
        Invalid: Kafka has no such names, or a file would be refused; the message is that of the file.
    """
    if not is_topic_name(topic):
        raise Invalid(
            f"{topic!r} is no name of a topic: those have 1 to 249 letters, digits, '.', '_' and '-'"
        )
    try:
        found = topic_from(topic, settings)
        check_topic(found, has_registry=True)
        orjson.dumps(settings)
    except ConfigError as error:
        # Half a character, of which JSON may have an escape, can be told of but not written.
        raise Invalid(str(error).encode("utf-8", "backslashreplace").decode()) from None
    except TypeError as error:
        raise Invalid(f"[topics.{topic}]: the settings cannot be kept: {error}") from None
    return found


def check_beside(topic: TopicSettings, others: Iterable[TopicSettings]) -> None:
    """Make sure that a topic writes no table of the others.

    Raises:
        AlreadyExists: it would, and they do not share it.
    """
    for reason in collisions([*others, topic]).values():
        raise AlreadyExists(reason)


def places_of(topic: TopicSettings) -> list[str]:
    """One text per table that a topic writes: topics without a text in common have no table in common."""
    return [
        orjson.dumps([*ident.namespace.levels, ident.name.casefold()]).decode() for ident in tables_of(topic)
    ]
