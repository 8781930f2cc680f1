"""The topics to be read, asked of whoever knows: the brokers for what patterns match."""

from collections.abc import Collection
from dataclasses import dataclass

from ingest_plugin.kafka import Broker
from ingest_plugin.roster import Roster, roster
from ingest_plugin.settings import IngestSettings


@dataclass(frozen=True, slots=True)
class Discovery:
    """The topic source of a configuration."""

    settings: IngestSettings
    broker: Broker

    def now(self, reading: Collection[str]) -> Roster:
        """The topics to be read from now on.

        Raises:
            Unavailable: the brokers are away.
        """
        seen = self.broker.topics() if self.settings.patterns else ()
        return roster(self.settings, seen=seen, reading=reading)
