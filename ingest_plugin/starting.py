"""Where partitions are begun, pure: what the table recorded against what the log still has, and what to do between.

Going on where the two do not fit would lose or double rows: that is a stop, unless the settings have said otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ingest_plugin.kafka import TopicPartition
from ingest_plugin.offsets import Recorded, Source
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.write.task import TopicStopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Offsets to begin at; `anew` when the table's offsets are of another log; `lost` are skipped ranges [from, to)."""

    offsets: Mapping[TopicPartition, int]
    anew: bool
    lost: Mapping[int, tuple[int, int]]


def starts(
    settings: TopicSettings,
    known: Recorded,
    source: Source,
    watermarks: Mapping[TopicPartition, tuple[int, int]],
) -> Starts:
    """Where to begin, given the first kept and the next offset of each partition.

    Raises:
        TopicStopped: topic or log do not match what the table recorded.
    """
    others = sorted(known.everything.keys() - {settings.topic})
    if others and settings.discovered and not settings.shared:
        raise TopicStopped(
            f"table {settings.ident} holds topic '{others[0]}': let the pattern give this one another 'table', or set"
            " table.shared = true to have both in one"
        )
    anew = not known.is_of(source)
    if anew and settings.on_recreated == "fail":
        raise TopicStopped(another_log(known, source))
    begin: dict[TopicPartition, int] = {}
    lost: dict[int, tuple[int, int]] = {}
    for place, (low, high) in watermarks.items():
        begin[place] = low
        recorded = None if anew else known.offsets.get(place.partition)
        if recorded is None:
            continue
        if recorded < low and settings.on_gap == "skip":
            lost[place.partition] = (recorded, low)
        else:
            _check_reachable(place, recorded, low, high)
            begin[place] = recorded
    return Starts(offsets=begin, anew=anew, lost=lost)


def another_log(known: Recorded, source: Source) -> str:
    """Why the table's offsets are none of this log's."""
    what, before, now = next(
        (what, before, now)
        for what, before, now in (
            ("cluster", known.cluster_id, source.cluster_id),
            ("topic", known.topic_id, source.topic_id),
        )
        if before is not None and now is not None and before != now
    )
    return (
        f"the table was filled from another {what} of this name (id {before}, now {now}): its offsets mean nothing"
        " here. Give the topic another 'table' to take in the new one, or set on.topic.recreated = \"restart\" to add"
        " it to this table from its beginning"
    )


def _check_reachable(place: TopicPartition, recorded: int, low: int, high: int) -> None:
    if recorded < low:
        raise TopicStopped(
            f"partition {place.partition}: records {recorded} to {low - 1} were deleted from the log before they"
            ' were ingested; they cannot be had any more. Set on.retention.gap = "skip" to go on from'
            f" offset {low}"
        )
    if recorded > high:
        raise TopicStopped(
            f"partition {place.partition}: the table has records up to offset {recorded}, but the log ends at {high}:"
            " the topic was made anew or has lost data"
        )
