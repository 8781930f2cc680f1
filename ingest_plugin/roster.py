"""Which topics are to be read now, and by which settings: listed, registered or found by a pattern. Pure.

A topic that cannot be read as it is asked for is refused with a reason; the others are read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ingest_plugin.keys import PREFIX, ConfigError
from ingest_plugin.registration import topic_from
from ingest_plugin.settings import IngestSettings
from ingest_plugin.topic_section import collisions, topic_of
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
    own: Mapping[str, Mapping[str, str]],
    registered: Mapping[str, Mapping[str, Any]],
    reading: Collection[str],
) -> Roster:
    """The topics to be read, given what the brokers have, the registrations, and what is read already.

    `own` are AutoMQ's keys, with their prefix, that were set on topics themselves. What the file lists counts before a
    registration, either before a topic's own settings, and those key by key before a pattern's.
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
    for name in sorted(set(seen) - listed.keys() - registered.keys()):
        try:
            topic = _discovered(settings, name, own.get(name, {}))
        except ConfigError as error:
            refused[name] = str(error)
        else:
            found |= {} if topic is None else {name: topic}
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
    finds_all = settings.discovery.topic_settings
    gone = frozenset(name for name in absent if finds_all or any(p.matches(name) for p in settings.patterns))
    return Roster(topics=topics, refused=refused, gone=gone)


def _discovered(settings: IngestSettings, name: str, own: Mapping[str, str]) -> TopicSettings | None:
    """A topic that nobody names: enabled by its own settings, or matched by a pattern and not disabled by them."""
    enabled = own.get(f"{PREFIX}enable", "").strip().lower()
    patterns = [pattern for pattern in settings.patterns if pattern.matches(name)]
    if enabled == "false" or not (patterns or enabled == "true"):
        return None
    if len(patterns) > 1:
        both = " and ".join(f"[patterns.{pattern.name}]" for pattern in patterns)
        raise ConfigError(f"topic '{name}' matches {both}: exclude it from all but one")
    section = f"settings of topic {name} itself"
    topic = patterns[0].settings(name, own) if patterns else topic_of(section, name, own, settings.defaults)
    if own:
        check_topic(topic, has_registry=settings.registry is not None, section=section)
    return topic.model_copy(update={"discovered": True})
