"""What people do to topics from outside: look, pause, resume, set back. All of it by the table, for any catalog.

A worker that runs meanwhile finds out by itself: its next commit no longer fits the table's offsets, and it reads the
table's properties now and then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ingest_plugin import offsets, tables
from ingest_plugin.kafka import Broker, TopicPartition
from ingest_plugin.keys import ConfigError
from ingest_plugin.lookout import is_paused
from ingest_plugin.offsets import Recorded, Source
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.write.buffer import StoreFor
from table_format.catalog import LoadedTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.commit.append import append
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.errors import TableFormatError
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition: offsets of the table and of the log, None where nobody knows."""

    partition: int
    committed: int | None
    first: int | None
    end: int | None
    through_ms: int | None

    @property
    def lag(self) -> int | None:
        """How many offsets of the log are not in the table."""
        if self.end is None:
            return None
        start = self.first if self.committed is None else self.committed
        return max(0, self.end - (start or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic, as table and log tell."""

    topic: str
    table: str
    state: str
    reason: str | None
    last_commit_ms: int | None
    valid_through_ms: int | None
    partitions: tuple[PartitionStatus, ...]

    def document(self) -> JsonObject:
        """For machines."""
        return {
            "topic": self.topic,
            "table": self.table,
            "state": self.state,
            "reason": self.reason,
            "lastCommitMs": self.last_commit_ms,
            "validThroughMs": self.valid_through_ms,
            "partitions": [
                {
                    "partition": each.partition,
                    "committedOffset": each.committed,
                    "endOffset": each.end,
                    "lag": each.lag,
                    "validThroughMs": each.through_ms,
                }
                for each in self.partitions
            ],
        }


def status(topic: TopicSettings, catalog: TableCatalog, broker: Broker) -> TopicStatus:
    """How far a topic is; what cannot be asked is left out and named as the reason.

    State: `paused`, `no table` (nothing was committed yet), `mismatch` (the table is of another log, or
    the log no longer has what comes next), `unknown` (something is away), else `ok`.
    """
    table: LoadedTable | None = None
    marks: dict[int, tuple[int, int]] = {}
    try:
        table = tables.find(catalog, topic.ident)
        known = Recorded() if table is None else offsets.recorded(table.metadata, topic.topic)
        info = broker.topic(topic.topic)
        if info is None:
            return _told(topic, table, known, marks, "mismatch", "the topic does not exist")
        marks = {p: broker.watermarks(TopicPartition(topic.topic, p)) for p in info.partitions}
    except TableFormatError as error:
        return _told(topic, table, Recorded(), marks, "unknown", str(error))
    source = Source(topic=topic.topic, topic_id=info.topic_id, cluster_id=info.cluster_id, generation=0)
    if not known.is_of(source):
        return _told(
            topic, table, known, marks, "mismatch", "the table was filled from another topic or cluster"
        )
    gone = [
        p for p, offset in known.offsets.items() if p in marks and not marks[p][0] <= offset <= marks[p][1]
    ]
    if gone:
        reason = f"the log no longer has the next offset of partition {', '.join(map(str, sorted(gone)))}"
        return _told(topic, table, known, marks, "mismatch", reason)
    if is_paused(table):
        return _told(topic, table, known, marks, "paused", None)
    return _told(topic, table, known, marks, "no table" if table is None else "ok", None)


def refused(topic: str, reason: str) -> TopicStatus:
    """A topic that is asked for and cannot be read."""
    return TopicStatus(
        topic=topic,
        table="",
        state="refused",
        reason=reason,
        last_commit_ms=None,
        valid_through_ms=None,
        partitions=(),
    )


def _told(
    topic: TopicSettings,
    table: LoadedTable | None,
    known: Recorded,
    marks: Mapping[int, tuple[int, int]],
    state: str,
    reason: str | None,
) -> TopicStatus:
    through = known.through.get(topic.topic, {})
    partitions = tuple(
        PartitionStatus(
            partition=partition,
            committed=known.offsets.get(partition),
            first=marks.get(partition, (None, None))[0],
            end=marks.get(partition, (None, None))[1],
            through_ms=through.get(str(partition)),
        )
        for partition in sorted({*marks, *known.offsets})
    )
    return TopicStatus(
        topic=topic.topic,
        table=str(topic.ident),
        state=state,
        reason=reason,
        last_commit_ms=None if table is None else offsets.last_commit_ms(table.metadata),
        valid_through_ms=known.complete_through,
        partitions=partitions,
    )


def set_paused(topic: TopicSettings, catalog: TableCatalog, *, paused: bool) -> bool:
    """Ask that a topic be left alone, or no longer; False when that was so already.

    Raises:
        ConfigError: the topic has no table yet.
        CommitFailed: other writers kept changing the table.
    """
    table = _existing(topic, catalog)
    if is_paused(table) is paused:
        return False
    update: JsonObject = (
        {"action": "set-properties", "updates": {offsets.PAUSED_PROPERTY: "true"}}
        if paused
        else {"action": "remove-properties", "removals": [offsets.PAUSED_PROPERTY]}
    )
    same = [] if table.metadata.uuid is None else [{"type": "assert-table-uuid", "uuid": table.metadata.uuid}]
    catalog.commit(topic.ident, same, [update])
    return True


def _existing(topic: TopicSettings, catalog: TableCatalog) -> LoadedTable:
    table = tables.find(catalog, topic.ident)
    if table is None:
        raise ConfigError(f"topic {topic.topic} has no table {topic.ident} yet: nothing was committed")
    return table


def targets(
    topic: TopicSettings, broker: Broker, to: Literal["earliest", "latest"] | Mapping[int, int]
) -> tuple[Source, dict[int, int]]:
    """Whose log it is, and the offset of each partition to set.

    Raises:
        ConfigError: the topic, a partition or an offset is not there.
        Unavailable: no broker answered.
    """
    info = broker.topic(topic.topic)
    if info is None:
        raise ConfigError(f"topic {topic.topic} does not exist")
    source = Source(topic=topic.topic, topic_id=info.topic_id, cluster_id=info.cluster_id, generation=0)
    marks = {p: broker.watermarks(TopicPartition(topic.topic, p)) for p in info.partitions}
    if to == "earliest":
        return source, {p: low for p, (low, _) in marks.items()}
    if to == "latest":
        return source, {p: high for p, (_, high) in marks.items()}
    for partition, offset in to.items():
        if partition not in marks:
            raise ConfigError(f"topic {topic.topic} has no partition {partition}")
        low, high = marks[partition]
        if not low <= offset <= high:
            raise ConfigError(f"partition {partition} has offsets {low} to {high}, not {offset}")
    return source, dict(to)


def reset(
    topic: TopicSettings,
    catalog: TableCatalog,
    store_for: StoreFor,
    source: Source,
    ends: Mapping[int, int],
    *,
    clock: Clock,
    ids: Ids,
) -> None:
    """Record these offsets as the table's: ingest goes on from there, whatever rows there are.

    Raises:
        ConfigError: the topic has no table yet.
        CommitStateUnknown: it may have happened.
    """
    table = _existing(topic, catalog)
    store = store_for(table.metadata.location, table.config)
    commit_id = ids.uuid()

    def build(now: LoadedTable) -> Change | None:
        if offsets.landed(now.metadata, commit_id):
            return None
        before = offsets.recorded(now.metadata, topic.topic)
        # Up to when the table is complete is said anew by the commits to come.
        others = {name: per for name, per in before.through.items() if name != topic.topic}
        keys = offsets.summary(replace(before, through=others), source, ends, commit_id)
        change = append(store, now, [], summary=keys, clock=clock, ids=ids)
        change.updates.append(offsets.mirror(keys))
        return change

    commit_with_retry(catalog, topic.ident, build, store=store, clock=clock, ids=ids)
