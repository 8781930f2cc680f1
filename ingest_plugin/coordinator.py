"""Commits: a topic's files and offsets in one snapshot, checked against the table's own offsets at every attempt.

Exactly once rests on three facts: rows and offsets are one commit; the commit applies only where the table's
recorded offsets equal those from which the files start; and the catalog accepts it only on the head that was
checked. Kafka's group membership merely spreads the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from ingest_plugin import metrics, offsets, status
from ingest_plugin.commit_state import Verdict, judge
from ingest_plugin.kafka import Broker, TopicPartition
from ingest_plugin.write.buffer import StoreFor
from ingest_plugin.write.letters import LettersGone, LettersWait
from ingest_plugin.write.task import Pending, TopicStopped, TopicTask
from table_format.catalog import LoadedTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.commit.append import MERGE_FROM_MANIFESTS
from table_format.commit.change import Change
from table_format.commit.retry import CommitResult, commit_with_retry
from table_format.commit.row_delta import row_delta
from table_format.errors import Internal, NoSuchTable, Unavailable
from table_format.manifest.entries import Content, DataFile
from table_format.metadata.document import TableMetadata

log = structlog.get_logger("frazil.ingest.commit")


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """Commits tasks."""

    catalog: TableCatalog
    broker: Broker
    store_for: StoreFor
    clock: Clock
    ids: Ids

    def commit(self, task: TopicTask) -> bool:
        """Commit everything that the task has taken; False when the table has moved on and the task must be reset.

        Safe to call again after any of these errors: the same files are offered under the same commit id.

        Raises:
            TopicStopped: the topic or its table is not the one that was read.
            CommitStateUnknown: it may have happened; call again before anything else.
            Unavailable: a dependency is away; nothing was applied.
            CommitFailed: every attempt lost its race.
        """
        if task.pending is None and not task.taken:
            return True
        if not self._same_topic(task):
            return False
        if task.binder.table is None:
            self._ensure_table(task)
        began = self.clock.monotonic()
        complete = self._complete(task) if task.pending is None else {}
        pending = task.prepare(self.ids.uuid(), complete)
        if pending is None:
            return True
        try:
            verdict, result = self._commit_rows(task, pending, self._with_letters(task, pending))
        except LettersGone as error:
            raise TopicStopped(str(error)) from None
        except LettersWait as error:
            raise Unavailable(str(error)) from None
        if verdict in (Verdict.COVERED, Verdict.OVERLAP):
            log.warning(
                status.SUPERSEDED,
                topic=task.settings.topic,
                rows=pending.rows,
                files=len(pending.files),
                why=verdict,
            )
            return False
        letters = task.letters.count
        task.committed()
        seconds = self.clock.monotonic() - began
        metrics.COMMIT_SECONDS.labels(task.settings.topic).observe(seconds)
        metrics.FILES.labels(task.settings.topic).inc(len(pending.files))
        metrics.DEAD_LETTERS.labels(task.settings.topic).inc(letters)
        task.binder.adopt(result.table)
        self.broker.note_progress(
            {TopicPartition(task.settings.topic, p): part.end for p, part in pending.ranges.items()}
        )
        log.info(
            status.COMMITTED,
            topic=task.settings.topic,
            table=str(task.settings.ident),
            rows=pending.rows,
            files=len(pending.files),
            offsets={str(p): end for p, end in sorted(_ends(pending).items())},
            seconds=round(seconds, 3),
        )
        return True

    def _same_topic(self, task: TopicTask) -> bool:
        """Whether what was read comes from the topic that now has the name; else it must not be committed.

        Raises:
            TopicStopped: it does not, and the topic is not to be read anew.
            Unavailable: no broker answered.
        """
        if task.source.topic_id is None and task.source.cluster_id is None:
            return True
        info = self.broker.topic(task.settings.topic)
        known = offsets.Recorded(cluster_id=task.source.cluster_id, topic_id=task.source.topic_id)
        if info is not None and known.is_of(
            replace(task.source, topic_id=info.topic_id, cluster_id=info.cluster_id)
        ):
            return True
        if info is not None and task.settings.on_recreated == "restart":
            return False
        raise TopicStopped(
            "the topic was deleted or made anew while it was read; what was read since the last commit is dropped"
            ". To take in the new topic, give it another 'table' or set on.topic.recreated = \"restart\""
        )

    def _complete(self, task: TopicTask) -> dict[int, int]:
        """Partitions read to their end, and when that was the end; none when nobody knows."""
        places = [TopicPartition(task.settings.topic, partition) for partition in task.position]
        now = self.clock.now_ms()
        try:
            ends = self.broker.ends(places) if task.fault is None else {}
        except Unavailable:
            return {}
        return {
            place.partition: now for place, end in ends.items() if (self.broker.position(place) or 0) >= end
        }

    def _ensure_table(self, task: TopicTask) -> None:
        """Have a table before any dead letter is committed: the offsets behind them need a place."""
        if task.binder.ensure_table() is None:
            raise TopicStopped(
                f"table {task.settings.ident} does not exist, and none of the first {task.bad_records['records']}"
                " records could become a row that tells its columns; give the topic a schema"
            )

    def _with_letters(self, task: TopicTask, pending: Pending) -> TableCatalog:
        """The catalog by which the rows are committed so that dead letters are there when the offsets are."""
        if not task.letters.count:
            return self.catalog
        keys = offsets.summary(offsets.Recorded(), task.source, _ends(pending), pending.commit_id)
        return task.letters.along(self.catalog, keys, pending.commit_id)

    def _commit_rows(
        self, task: TopicTask, pending: Pending, catalog: TableCatalog
    ) -> tuple[Verdict, CommitResult]:
        verdict = Verdict.APPLY
        home = task.binder.table
        if home is None:
            raise Internal("a commit without a table")
        store = self.store_for(home.metadata.location, home.config)
        data = [file for file in pending.files if file.content is Content.DATA]
        deletes = [file for file in pending.files if file.content is not Content.DATA]

        def build(table: LoadedTable) -> Change | None:
            nonlocal verdict
            if pending.table_uuid is not None and table.metadata.uuid != pending.table_uuid:
                raise TopicStopped(f"table {table.ident} was dropped and made anew while it was written")
            before = offsets.recorded(table.metadata, task.settings.topic)
            landed = offsets.landed(table.metadata, pending.commit_id)
            verdict = judge(before.offsets, pending.ranges, landed=landed)
            if verdict is Verdict.APPLY and not (
                _deletes_reach(table.metadata, deletes) and _may_follow(before, task)
            ):
                verdict = Verdict.OVERLAP
            if verdict is not Verdict.APPLY:
                return None
            keys = offsets.summary(
                before,
                task.source,
                _ends(pending),
                pending.commit_id,
                through=pending.through,
                lost=pending.lost,
            )
            change = row_delta(
                store,
                table,
                data,
                deletes,
                summary=keys,
                clock=self.clock,
                ids=self.ids,
                merge_min=MERGE_FROM_MANIFESTS,
            )
            change.updates.append(offsets.mirror(keys))
            pending.sent = True
            return change

        try:
            result = commit_with_retry(
                catalog, task.settings.ident, build, store=store, clock=self.clock, ids=self.ids
            )
        except NoSuchTable:
            raise TopicStopped(f"table {task.settings.ident} was dropped while it was written") from None
        # A commit that the loop found to be in the table after all has been applied, whatever was judged before.
        return (Verdict.LANDED if result.applied else verdict), result


def _may_follow(before: offsets.Recorded, task: TopicTask) -> bool:
    """Whether the offsets in the table are of the log that was read, or of the one in whose place it was read."""
    replaced = task.replaces
    return before.is_of(task.source) or (
        replaced is not None
        and (before.cluster_id, before.topic_id) == (replaced.cluster_id, replaced.topic_id)
    )


def _deletes_reach(metadata: TableMetadata, deletes: Sequence[DataFile]) -> bool:
    """Whether deletes within partitions still reach all rows: not when the partitioning was changed meanwhile."""
    within = any(metadata.spec(file.spec_id)["fields"] for file in deletes)
    return not within or len(metadata.partition_specs) == 1


def _ends(pending: Pending) -> dict[int, int]:
    return {partition: part.end for partition, part in pending.ranges.items()}
