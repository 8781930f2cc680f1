"""Which topics are to be read now, and by which settings: what the file lists and what its patterns find, pure.

A topic that cannot be read as it is asked for is refused with a reason; the others are read.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ingest_plugin.keys import ConfigError
from ingest_plugin.pattern import Pattern
from ingest_plugin.settings import IngestSettings
from ingest_plugin.topic_section import collisions
from ingest_plugin.topic_settings import TopicSettings


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


def roster(settings: IngestSettings, *, seen: Collection[str], reading: Collection[str]) -> Roster:
    """The topics to be read, given the names that the brokers have and the topics that are read already."""
    refused: dict[str, str] = {}
    listed = {topic.topic: topic for topic in settings.topics}
    found: dict[str, TopicSettings] = {}
    for name, patterns in _matched(settings.patterns, sorted(set(seen) - listed.keys())):
        try:
            pattern = _one(name, patterns)
            topic = pattern.settings(name).model_copy(update={"discovered": True})
        except ConfigError as error:
            refused[name] = str(error)
        else:
            found[name] = topic
    # A topic that is read keeps its table, whatever the name of one that comes later.
    first = sorted(found.values(), key=lambda topic: topic.topic not in reading)
    refused |= collisions([*listed.values(), *first])
    found = {name: topic for name, topic in found.items() if name not in refused}
    absent = set(reading) - set(seen) - listed.keys()
    gone = frozenset(name for name, _ in _matched(settings.patterns, absent))
    return Roster(topics=listed | found, refused=refused, gone=gone)


def _matched(patterns: Collection[Pattern], names: Collection[str]) -> Iterator[tuple[str, list[Pattern]]]:
    for name in names:
        if matching := [pattern for pattern in patterns if pattern.matches(name)]:
            yield name, matching


def _one(name: str, patterns: list[Pattern]) -> Pattern:
    if len(patterns) > 1:
        both = " and ".join(f"[patterns.{pattern.name}]" for pattern in patterns)
        raise ConfigError(f"topic '{name}' matches {both}: exclude it from all but one")
    return patterns[0]
