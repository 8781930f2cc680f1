"""Whether topics have been read to the ends seen at their starts, for runs that stop there."""

from collections.abc import Iterable

from ingest_plugin.kafka import Broker
from ingest_plugin.lane import Lane
from table_format.errors import Unavailable


def at_end(lane: Lane, broker: Broker) -> bool:
    """Whether every partition that is ours has been read to the end seen at its start."""
    if not lane.owned or lane.unstarted:
        return False
    return all(
        (broker.position(place) or 0) >= lane.ends.get(place.partition, 0)
        for place in lane.places(lane.owned)
    )


def all_at_end(lanes: Iterable[Lane], broker: Broker) -> bool:
    """Whether nothing is left to be read or committed of topics that can be read."""
    return all(
        lane.stopped is not None
        or lane.paused
        or (lane.task.idle and lane.wait_until is None and at_end(lane, broker))
        for lane in lanes
    )


def missing(lanes: Iterable[Lane], broker: Broker) -> list[Lane]:
    """Topics that are not there, as far as the brokers say: they have no end to be read to."""
    found = []
    for lane in lanes:
        try:
            if broker.topic(lane.topic) is None:
                found.append(lane)
        except Unavailable:
            continue
    return found
