"""The memory of a process over all its topics: who gives some back when all together hold too much. Pure."""

from collections.abc import Iterable

from ingest_plugin.lane import Lane


def fullest(lanes: Iterable[Lane], budget: int) -> Lane | None:
    """The topic that holds most, of those that can give some back now; None while all are within the budget."""
    held = [(lane.task.held, lane) for lane in lanes]
    if sum(size for size, _ in held) <= budget:
        return None
    able = [(size, lane) for size, lane in held if size and lane.stopped is None and lane.wait_until is None]
    return max(able, key=lambda pair: pair[0])[1] if able else None
