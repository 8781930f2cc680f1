"""One topic on its way into its table: what has been read since the last commit, as files, dead letters and offsets.

`take` either counts a batch of messages in completely or, by an exception, leaves the task to be reset. Offsets
advance together with rows and dead letters, never alone.
"""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import structlog

from ingest_plugin import metrics, status
from ingest_plugin.bind.keyed import STEPS, KeyedChanges, Keys
from ingest_plugin.bind.topic import TopicBinder
from ingest_plugin.commit_state import OffsetRange
from ingest_plugin.decode.values import DataError, Decoded, Decoder, ErrorKind
from ingest_plugin.kafka import NO_TIMESTAMP, Message
from ingest_plugin.offsets import Recorded, Source
from ingest_plugin.topic_settings import Tolerance, TopicSettings
from ingest_plugin.write.buffer import RowBuffer
from ingest_plugin.write.changes import ChangeBuffer
from ingest_plugin.write.dead_letters import MAX_MILLIS
from ingest_plugin.write.letters import Letters
from table_format.manifest.entries import DataFile

log = structlog.get_logger("frazil.ingest.task")


_NEVER = 2**63


class TopicStopped(Exception):
    """The topic cannot go on without a person; the message says why and what to do."""


@dataclass(slots=True, kw_only=True)
class Pending:
    """A commit that has been begun: its files, its ranges, and whether the catalog was ever asked."""

    commit_id: str
    files: Sequence[DataFile]
    rows: int
    ranges: Mapping[int, OffsetRange]
    table_uuid: str | None
    through: Mapping[int, int] = field(default_factory=dict)
    """Up to when (ms) partitions are complete with this commit."""
    lost: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """Rows, or keys to delete, and the messages' places from which they come."""

    batch: pa.RecordBatch
    places: Sequence[int]
    step: int = 0
    deletes: bool = False


@dataclass(slots=True, kw_only=True)
class TopicTask:
    """Everything uncommitted of one topic in this process."""

    settings: TopicSettings
    decoder: Decoder
    binder: TopicBinder
    rows: RowBuffer
    letters: Letters
    source: Source
    keys: Keys | None = None
    """How records name the row they mean; None: all rows are added."""
    changes: ChangeBuffer | None = None
    """With `keys`: what is changed before it goes into `rows`."""
    recorded: dict[int, int | None] = field(default_factory=dict)
    """Per partition that is ours: what the table recorded when we last knew."""
    position: dict[int, int] = field(default_factory=dict)
    """Per partition that is ours: the next offset to take."""
    stamps: dict[int, int] = field(default_factory=dict)
    """Per partition: the timestamp (ms) of the last record taken, where it has one."""
    through: dict[int, int] = field(default_factory=dict)
    """Per partition: up to when (ms) it is complete in the table, as far as we committed it."""
    replaces: Recorded | None = None
    """What the table says of another log of the same name, in whose place this one is read."""
    lost: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Per partition: offsets [from, to) that the log had deleted before they were read, until that is committed."""
    taken: dict[int, int] = field(default_factory=dict)
    """Per partition with something uncommitted: the offset behind the last message taken."""
    pending: Pending | None = None
    fault: str | None = None
    """Why the topic must stop once what has been taken is committed."""
    bad_records: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    """Records that are no rows and not bad either, by what they are."""
    _moments: int = 0
    _skipping: Sequence[str] = ()
    """What the batch at hand skips: counted once it has been taken."""

    @property
    def full(self) -> bool:
        """Whether a commit is due because of what is held in memory."""
        return self.letters.full or (self.changes is not None and self.changes.full)

    @property
    def held(self) -> int:
        """Bytes of memory that what was taken needs, about."""
        return self.rows.held + self.letters.held + (0 if self.changes is None else self.changes.held)

    def close_files(self) -> None:
        """Have in files what can be there before a commit.

        Raises:
            Unavailable: the store is away: reset the task.
        """
        self.rows.close_files()
        self.letters.close_files()

    @property
    def idle(self) -> bool:
        """Whether nothing waits for a commit."""
        return self.pending is None and not self.taken

    def begin(self, partition: int, *, recorded: int | None, position: int) -> None:
        """Make a partition ours, from this offset on."""
        self.recorded[partition] = recorded
        self.position[partition] = position

    def adopt(self, recorded: Recorded, source: Source) -> None:
        """Know whose log this is; partitions are begun one by one."""
        generation = max(source.generation, recorded.generation + 1)
        self.source = Source(
            topic=source.topic,
            topic_id=source.topic_id,
            cluster_id=source.cluster_id,
            generation=generation,
        )

    def take(self, messages: Sequence[Message]) -> None:
        """Turn messages of our partitions into rows and dead letters.

        Raises:
            TopicStopped: the table cannot be made or changed as these records need it.
            Unavailable: something is away; nothing, or not all, of the batch was taken: reset the task.
        """
        messages = self._ours(messages)
        if not messages or self.fault is not None:
            return
        metrics.RECORDS.labels(self.settings.topic).inc(len(messages))
        metrics.BYTES.labels(self.settings.topic).inc(sum(len(m.value() or b"") for m in messages))
        with _paused_gc():
            bound, errors = self._bound(messages)
            errors = self._tolerated(messages, errors)
            limits = self._limits(messages, errors)
            for part in bound:
                self._write(part, messages, limits, errors)
            self._moments += STEPS * len(messages)
            letters = [
                (messages[place], error)
                for place, error in sorted(errors.items())
                if _within(messages[place], limits)
            ]
            if letters:
                self.letters.add(letters)
                self._count(letters)
            self._advance(messages, limits)
            if self._skipping:
                self._count_skipped()

    def _ours(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Without messages of partitions that are not ours, or that were taken before."""
        # A batch is nearly always taken whole: the first message of each partition decides that, at C speed.
        first = {m.partition(): m.offset() for m in reversed(messages)}
        if all(offset >= self.position.get(partition, _NEVER) for partition, offset in first.items()):
            return messages
        return [m for m in messages if m.offset() >= self.position.get(m.partition(), _NEVER)]

    def _bound(self, messages: Sequence[Message]) -> tuple[list[_Bound], dict[int, DataError]]:
        if self.keys is not None:
            return self._bound_by_key(messages, self.keys)
        decoded = self._decoded(messages)
        errors = dict(decoded.errors)
        parts = []
        for group in decoded.groups:
            bound = self.binder.bind(group, messages)
            errors.update(bound.errors)
            if bound.batch is not None:
                parts.append(_Bound(batch=bound.batch, places=bound.places))
        return parts, errors

    def _bound_by_key(
        self, messages: Sequence[Message], keys: Keys
    ) -> tuple[list[_Bound], dict[int, DataError]]:
        """What is put is bound first: it says more about the table's columns."""
        sorted_out = self._sorted(messages, keys)
        errors: dict[int, DataError] = {}
        parts = []
        for changes in sorted_out:
            errors.update(changes.errors)
        for group in [put for changes in sorted_out for put in changes.puts]:
            bound = self.binder.bind(group.group, messages)
            errors.update(bound.errors)
            if bound.batch is not None:
                parts.append(_Bound(batch=bound.batch, places=bound.places, step=group.step))
        for group in [each for changes in sorted_out for each in changes.deletes]:
            bound = self.binder.bind_keys(group.group)
            errors.update(bound.errors)
            if bound.batch is not None:
                parts.append(_Bound(batch=bound.batch, places=bound.places, step=group.step, deletes=True))
        return parts, errors

    def _decoded(self, messages: Sequence[Message]) -> Decoded:
        decoded = self.decoder.decode(messages)
        self._skipping = list(decoded.skipped.values())
        return decoded

    def _sorted(self, messages: Sequence[Message], keys: Keys) -> list[KeyedChanges]:
        empty = [place for place, message in enumerate(messages) if message.value() is None]
        if not empty or keys.are_record_keys or keys.tombstones_decoded:
            return [keys.sort(self._decoded(messages), frozenset(empty))]
        gone = frozenset(empty)
        living = [place for place in range(len(messages)) if place not in gone]
        decoded = self._decoded([messages[place] for place in living]) if living else Decoded()
        text = self.binder.key_is_text()
        return [keys.of_tombstones(messages, empty, text=text), keys.sort(_moved(decoded, living))]

    def _tolerated(self, messages: Sequence[Message], errors: dict[int, DataError]) -> dict[int, DataError]:
        """The errors, after noting the first one that the topic's tolerance does not cover."""
        tolerance = self.settings.tolerance
        for place in sorted(errors):
            error = errors[place]
            if tolerance is Tolerance.NONE or (
                tolerance is Tolerance.INVALID_DATA and error.kind is ErrorKind.UNMAPPABLE
            ):
                message = messages[place]
                self.fault = (
                    f"record at partition {message.partition()} offset {message.offset()}: {error.reason}"
                    f" (errors.tolerance = {tolerance})"
                )
                break
        return errors

    def _limits(self, messages: Sequence[Message], errors: Mapping[int, DataError]) -> dict[int, int]:
        """Where each partition ends for this batch: before its first record that is not tolerated, if any."""
        limits: dict[int, int] = {}
        if self.fault is None:
            return limits
        everything = self.settings.tolerance is Tolerance.NONE
        for place in sorted(errors, reverse=True):
            if everything or errors[place].kind is ErrorKind.UNMAPPABLE:
                limits[messages[place].partition()] = messages[place].offset()
        return limits

    def _write(
        self,
        part: _Bound,
        messages: Sequence[Message],
        limits: Mapping[int, int],
        errors: Mapping[int, DataError],
    ) -> None:
        table, batch, places = self.binder.table, part.batch, part.places
        if limits or (self.keys is not None and errors):
            # A record that is refused in part is refused whole: the row of its old key stays, too.
            keep = [
                row
                for row, place in enumerate(places)
                if place not in errors and _within(messages[place], limits)
            ]
            batch, places = batch.take(pa.array(keep, pa.int64())), [places[row] for row in keep]
        if not batch.num_rows or table is None:
            return
        if self.changes is None:
            self.rows.write(table, self.binder.conformed(batch))
            return
        order = [self._moments + STEPS * place + part.step for place in places]
        if part.deletes:
            self.changes.delete(table, batch, order)
        else:
            self.changes.upsert(table, self.binder.conformed(batch), order)

    def _advance(self, messages: Sequence[Message], limits: Mapping[int, int]) -> None:
        counted = [m for m in messages if _within(m, limits)] if limits else messages
        last = {m.partition(): m for m in counted}
        for partition, message in last.items():
            self.position[partition] = self.taken[partition] = message.offset() + 1
            kind, millis = message.timestamp()
            if kind != NO_TIMESTAMP and 0 <= millis <= MAX_MILLIS:
                self.stamps[partition] = millis

    def _count_skipped(self) -> None:
        found = Counter(self._skipping)
        self.skipped.update(found)
        self._skipping = ()
        log.info(status.SKIPPED, topic=self.settings.topic, records=dict(found))

    def _count(self, letters: Iterable[tuple[Message, DataError]]) -> None:
        reasons = Counter(error.reason for _, error in letters)
        self.bad_records.update({"records": sum(reasons.values())})
        reason, count = reasons.most_common(1)[0]
        log.warning(
            status.BAD_RECORDS,
            topic=self.settings.topic,
            count=sum(reasons.values()),
            most=f"{count} x {reason}",
            kept_in=self.settings.dead_letter_topic or str(self.settings.dead_letters),
        )

    def prepare(self, commit_id: str, complete: Mapping[int, int] | None = None) -> Pending | None:
        """Close the files and begin a commit of everything taken; None when there is nothing.

        `complete` are partitions read to their end, with the moment (ms) of that end.

        Raises:
            Unavailable: the store is away: reset the task.
        """
        if self.pending is None and self.taken:
            table = self.binder.table
            # Once there is a pending commit it is repeated, not begun anew: nothing may be left that can fail half-way.
            self.letters.close_files()
            if self.changes is not None:
                self.changes.flush()
            self.pending = Pending(
                commit_id=commit_id,
                files=self.rows.close_files(),
                rows=self.rows.rows,
                ranges={
                    partition: OffsetRange(recorded=self.recorded[partition], end=end)
                    for partition, end in self.taken.items()
                },
                table_uuid=None if table is None else table.metadata.uuid,
                through={**self.stamps, **(complete or {})},
                lost={p: span for p, span in self.lost.items() if p in self.taken},
            )
        return self.pending

    def committed(self) -> None:
        """The pending commit is in the table: go on behind it."""
        if self.pending is not None:
            self.recorded.update({p: part.end for p, part in self.pending.ranges.items()})
            self.through.update(self.pending.through)
            self.lost = {p: span for p, span in self.lost.items() if p not in self.pending.lost}
        self.rows.forget()
        self.letters.committed()
        self.taken = {}
        self.pending = None

    def reset(self) -> None:
        """Forget everything uncommitted and give up all partitions; files that no commit named are deleted."""
        sent = self.pending is not None and self.pending.sent
        if self.changes is not None:
            self.changes.drop()
        self.rows.discard(delete=not sent)
        self.letters.discard()
        self.recorded, self.position, self.taken = {}, {}, {}
        self.stamps, self.through, self.lost, self.replaces = {}, {}, {}, None
        self.pending, self.fault = None, None


def _moved(decoded: Decoded, places: Sequence[int]) -> Decoded:
    """What was decoded from some of the messages, by places among all of them."""
    for group in decoded.groups:
        group.positions = [places[position] for position in group.positions]
    return Decoded(
        groups=decoded.groups,
        errors={places[position]: error for position, error in decoded.errors.items()},
        skipped={places[position]: reason for position, reason in decoded.skipped.items()},
    )


def _within(message: Message, limits: Mapping[int, int]) -> bool:
    return not limits or message.offset() < limits.get(message.partition(), _NEVER)


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Without collections: a batch is hundreds of thousands of small objects without cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
