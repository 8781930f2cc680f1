"""`Lane`: one topic's place in the loop, and what can be told of it to people."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest_plugin.kafka import TopicPartition
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.write.task import TopicTask
from table_format.jsontypes import JsonObject


@dataclass(slots=True, kw_only=True)
class Lane:
    """One topic's place in the loop."""

    task: TopicTask
    due: float
    failures: int = 0
    wait_until: float | None = None
    stopped: str | None = None
    paused: bool = False
    halted: bool = False
    """The broker delivers nothing although partitions are begun: after a wait with a commit still open."""
    leaving: bool = False
    """Nothing more is taken; it goes once what was taken is committed."""
    successor: TopicSettings | None = None
    """What the topic is told from then on, if it is still to be read."""
    gone: bool = False
    """The topic is not there any more."""
    last_error: str | None = None
    last_commit_ms: int | None = None
    owned: set[int] = field(default_factory=set)
    unstarted: set[int] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """Its name."""
        return self.task.settings.topic

    @property
    def running(self) -> bool:
        """Whether records are taken now."""
        return self.stopped is None and self.wait_until is None and not self.paused

    @property
    def takes(self) -> bool:
        """Whether records that are delivered are taken."""
        return self.running and not self.leaving

    def places(self, partitions: Iterable[int]) -> list[TopicPartition]:
        """These partitions of the topic."""
        return [TopicPartition(self.topic, partition) for partition in sorted(partitions)]

    @property
    def state(self) -> str:
        """stopped, leaving, paused, waiting or running."""
        if self.stopped is not None:
            return "stopped"
        if self.leaving:
            return "leaving"
        if self.paused:
            return "paused"
        return "waiting" if self.wait_until is not None else "running"

    def document(self) -> JsonObject:
        """For machines."""
        return {
            "state": self.state,
            "reason": self.stopped,
            "lastError": self.last_error,
            "lastCommitMs": self.last_commit_ms,
            "partitions": sorted(self.owned),
            "badRecords": self.task.bad_records["records"],
        }
