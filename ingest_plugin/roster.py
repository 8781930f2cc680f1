"""Which topics are to be read now, and by which settings: listed, registered or found by a pattern. Pure.

A topic that cannot be read as it is asked for is refused with a reason; the others are read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingest_plugin.keys import ConfigError
from ingest_plugin.pattern import Pattern
from ingest_plugin.registration import topic_from
from ingest_plugin.settings import IngestSettings
from ingest_plugin.topic_section import collisions
from ingest_plugin.topic_settings import TopicSettings, check_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Topics by name, and those that are refused, with the reason."""

    topics: Mapping[str, TopicSettings]
    refused: Mapping[str, str] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    """Topics that were read, would be, and are not there any more."""


class TopicSource(Protocol):
    """Says again and again which topics are to be read."""

    def now(self, reading: Collection[str]) -> Roster:
        """The topics to be read from now on, given those that are read.

        Raises:
            Unavailable: it cannot be told now; what is read stays as it is.
        """
        ...


def roster(
    settings: IngestSettings,
    *,
    seen: Collection[str],
    registered: Mapping[str, Mapping[str, Any]],
    reading: Collection[str],
) -> Roster:
    """The topics to be read, given the names that the brokers have, the registrations, and what is read already.

    What the file lists counts before a registration, and either before a pattern.
    """
    refused: dict[str, str] = {}
    listed = {topic.topic: topic for topic in settings.topics}
    told: dict[str, TopicSettings] = {}
    for name in sorted(registered.keys() - listed.keys()):
        try:
            told[name] = topic_from(name, registered[name])
            check_topic(told[name], has_registry=settings.registry is not None)
        except ConfigError as error:
            told.pop(name, None)
            refused[name] = str(error)
    found: dict[str, TopicSettings] = {}
    for name, patterns in _matched(settings.patterns, sorted(set(seen) - listed.keys() - registered.keys())):
        try:
            found[name] = _one(name, patterns).settings(name).model_copy(update={"discovered": True})
        except ConfigError as error:
            refused[name] = str(error)
    kept = {topic.dead_letter_topic: topic.topic for topic in (listed | told | found).values()}
    for name in kept.keys() & told.keys():
        refused[name] = f"topic '{name}' keeps the dead letters of topic '{kept[name]}'"
    told = {name: topic for name, topic in told.items() if name not in kept}
    found = {name: topic for name, topic in found.items() if name not in kept}
    # A topic that is read keeps its table, whatever the name of one that comes later.
    ordered = [
        topic
        for named in (told, found)
        for topic in sorted(named.values(), key=lambda topic: topic.topic not in reading)
    ]
    refused |= collisions([*listed.values(), *ordered])
    topics = {name: topic for name, topic in (listed | told | found).items() if name not in refused}
    absent = set(reading) - set(seen) - topics.keys()
    gone = frozenset(name for name, _ in _matched(settings.patterns, absent))
    return Roster(topics=topics, refused=refused, gone=gone)


def _matched(patterns: Collection[Pattern], names: Collection[str]) -> Iterator[tuple[str, list[Pattern]]]:
    for name in names:
        if matching := [pattern for pattern in patterns if pattern.matches(name)]:
            yield name, matching


def _one(name: str, patterns: list[Pattern]) -> Pattern:
    if len(patterns) > 1:
        both = " and ".join(f"[patterns.{pattern.name}]" for pattern in patterns)
        raise ConfigError(f"topic '{name}' matches {both}: exclude it from all but one")
    return patterns[0]
