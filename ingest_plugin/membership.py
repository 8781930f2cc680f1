"""Which topics have a lane: they come and go while the loop runs.

What a topic has taken is committed before it goes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from ingest_plugin import metrics, status
from ingest_plugin.kafka import Broker
from ingest_plugin.lane import Lane
from ingest_plugin.roster import Roster, TopicSource
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.write.task import TopicTask

log = structlog.get_logger("frazil.ingest")

GONE = "the topic does not exist any more"


@dataclass(slots=True, kw_only=True)
class Membership:
    """The lanes, as the source last said."""

    source: TopicSource | None
    make: Callable[[TopicSettings], TopicTask]
    broker: Broker
    lanes: dict[str, Lane]
    """By topic; what is read from the start on, to begin with."""
    seconds: float
    """How often the source is to be asked."""
    memory_bytes: int
    """What all lanes together may hold."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Topics that are asked for and cannot be read, with the reason."""
    _listed: frozenset[str] = frozenset()
    _subscribed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._listed = self._subscribed = frozenset(self.lanes)

    @property
    def waits(self) -> bool:
        """Whether the source may still bring what can be read; topics that were listed and stopped wait for nothing."""
        if self.source is None:
            return False
        return not self.lanes or any(topic not in self._listed for topic in self.lanes)

    def refresh(self) -> None:
        """Let topics come that are to be read by now; mark those that are not, or otherwise than before, as leaving.

        Raises:
            Unavailable: the source cannot tell; nothing changes.
        """
        if self.source is None:
            return
        wanted = self.source.now(self.lanes.keys())
        for topic, reason in wanted.refused.items():
            if self.refused.get(topic) != reason:
                log.error(status.REFUSED, topic=topic, reason=reason)
        self.refused = dict(wanted.refused)
        for topic, lane in list(self.lanes.items()):
            self._compare(lane, wanted.topics.get(topic), wanted)
        for topic, settings in wanted.topics.items():
            if topic not in self.lanes:
                log.info(status.JOINED, topic=topic, table=str(settings.ident))
                self.lanes[topic] = Lane(task=self.make(settings), due=0.0)

    def _compare(self, lane: Lane, settings: TopicSettings | None, wanted: Roster) -> None:
        lane.successor = settings
        if settings is None and lane.topic in wanted.gone:
            lane.gone = True
            return
        # One that has come back, or is asked for otherwise, gets a new lane: it goes on where its table is.
        # So does one that is asked for again before it has gone: nothing is delivered to the old lane any more.
        lane.leaving = lane.leaving or settings is None or lane.gone or settings != lane.task.settings
        if lane.leaving:
            self.broker.stop(lane.places(lane.owned))

    def leave(self, lane: Lane) -> None:
        """A lane that is leaving, and has nothing uncommitted, goes."""
        if lane.successor is None:
            log.info(status.LEFT, topic=lane.topic)
            del self.lanes[lane.topic]
            for gauge in (metrics.RUNNING, metrics.LAG, metrics.LAG_SECONDS):
                gauge.labels(lane.topic)  # there may be none to remove yet
                gauge.remove(lane.topic)
            return
        log.info(status.TOLD_OTHERWISE, topic=lane.topic, table=str(lane.successor.ident))
        anew = Lane(task=self.make(lane.successor), due=0.0)
        if not lane.gone:
            anew.owned, anew.unstarted = set(lane.owned), set(lane.owned)
        self.lanes[lane.topic] = anew

    def subscribe(self) -> None:
        """Have the brokers deliver what has a lane, and nothing else."""
        topics = frozenset(topic for topic, lane in self.lanes.items() if not lane.gone)
        if topics != self._subscribed:
            self.broker.subscribe(sorted(topics))
            self._subscribed = topics
