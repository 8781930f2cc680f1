"""What is looked at now and then beside the stream: what people asked of a topic by its table, and how far it is.

A table's property says that its topic is paused; its offsets may have been moved by a reset or a rollback. Nothing is
changed here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ingest_plugin import metrics, offsets
from ingest_plugin.kafka import Broker
from ingest_plugin.lane import Lane
from ingest_plugin.tables import find
from table_format.catalog import LoadedTable
from table_format.clock import Clock
from table_format.errors import TableFormatError


class Asked(StrEnum):
    """What a table asks of its topic."""

    NOTHING = "nothing"
    PAUSE = "pause"
    RESUME = "resume"
    REREAD = "reread"
    """The table stands elsewhere than we left it: go on from there."""


def is_paused(table: LoadedTable | None) -> bool:
    """Whether the table says that its topic is not to be read."""
    return table is not None and table.metadata.properties.get(offsets.PAUSED_PROPERTY) == "true"


def asked(lane: Lane) -> Asked:
    """What the table as the catalog has it now asks of this topic.

    Raises:
        Unavailable: the catalog is away.
        Invalid: the table's offsets cannot be read.
    """
    task = lane.task
    table = find(task.binder.catalog, task.settings.ident)
    if is_paused(table) is not lane.paused:
        return Asked.RESUME if lane.paused else Asked.PAUSE
    if lane.paused or not task.idle or table is None:
        return Asked.NOTHING
    known = offsets.recorded(table.metadata, lane.topic).offsets
    moved = any(known.get(partition) != before for partition, before in task.recorded.items())
    return Asked.REREAD if moved else Asked.NOTHING


@dataclass(frozen=True, slots=True)
class Lookout:
    """Measures how far topics are."""

    broker: Broker
    clock: Clock

    def measure(self, lanes: Iterable[Lane]) -> None:
        """Set the gauges; those of what is away keep their last value."""
        for lane in lanes:
            metrics.RUNNING.labels(lane.topic).set(lane.running)
            if not lane.task.position:
                continue
            places = lane.places(lane.task.position)
            try:
                ends = self.broker.ends(places)
            except TableFormatError:
                continue
            position = lane.task.position
            lag = sum(
                max(0, ends[place] - max(position[place.partition], self.broker.position(place) or 0))
                for place in places
            )
            metrics.LAG.labels(lane.topic).set(lag)
            behind = 0.0
            if (lag or not lane.task.idle) and lane.task.through:
                behind = max(0.0, (self.clock.now_ms() - min(lane.task.through.values())) / 1000)
            metrics.LAG_SECONDS.labels(lane.topic).set(behind)
