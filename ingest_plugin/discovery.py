"""The topics to be read, asked of whoever knows: the brokers for what patterns match, the catalog for registrations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from ingest_plugin import status
from ingest_plugin.kafka import Broker
from ingest_plugin.keys import PREFIX
from ingest_plugin.pattern import is_internal
from ingest_plugin.registered import RegisteredTopics
from ingest_plugin.roster import Roster, roster
from ingest_plugin.settings import IngestSettings
from table_format.errors import Forbidden, Unsupported

log = structlog.get_logger("frazil.ingest")

Registered = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Discovery:
    """The topic source of a configuration."""

    settings: IngestSettings
    broker: Broker
    registered: RegisteredTopics | None
    """None: registrations are not asked for."""
    _answered: bool = False
    _said: set[str] = field(default_factory=set)

    def now(self, reading: Collection[str]) -> Roster:
        """The topics to be read from now on.

        Raises:
            Unavailable: brokers or catalog are away.
            Unsupported: registrations are demanded, and the catalog has none.
        """
        registered = self._registrations()
        own_settings = self.settings.discovery.topic_settings
        seen = self.broker.topics() if self.settings.patterns or own_settings else ()
        visible = [name for name in seen if not is_internal(name)] if own_settings else []
        own = self.broker.own_settings(visible, PREFIX) if own_settings else {}
        return roster(self.settings, seen=seen, own=own, registered=registered, reading=reading)

    def _registrations(self) -> Registered:
        if self.registered is None:
            return {}
        try:
            found = self.registered.of(self.settings.kafka.group)
        except (Unsupported, Forbidden) as error:
            # What was once there is not given up because it is refused now.
            if self._answered or self.settings.discovery.registered:
                raise
            self._say(status.NOT_REGISTERED, reason=str(error))
            return {}
        self._answered = True
        for topic in self.settings.topics:
            if topic.topic in found:
                self._say(status.FILE_COUNTS, topic=topic.topic)
        return found

    def _say(self, event: str, **told: str) -> None:
        """Log once: it holds for every round."""
        if (text := f"{event} {told}") not in self._said:
            self._said.add(text)
            log.info(event, **told)
