"""The ingest loop of one process: poll, take, commit at the interval; one thread, any number of topics.

A topic's trouble is its own: what passes is tried again after a wait, what does not stops that topic with a status.
Any number of processes may run; partitions are spread by the consumer group, correctness is not.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from ingest_plugin import offsets, status
from ingest_plugin.coordinator import Coordinator
from ingest_plugin.ending import all_at_end, at_end, missing
from ingest_plugin.kafka import Message, TopicPartition
from ingest_plugin.keys import ConfigError
from ingest_plugin.lane import Lane
from ingest_plugin.lookout import Asked, Lookout, asked, is_paused
from ingest_plugin.membership import GONE, Membership
from ingest_plugin.memory import fullest
from ingest_plugin.offsets import Source
from ingest_plugin.starting import another_log, starts
from ingest_plugin.tables import SchemaConflict, find
from ingest_plugin.write.task import TopicStopped
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed, CommitStateUnknown, TableFormatError, Unavailable
from table_format.jsontypes import JsonObject

log = structlog.get_logger("frazil.ingest")

BATCH = 5000
_LONGEST_POLL = 0.25
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_SHUTDOWN_ATTEMPTS = 2
_SHUTDOWN_SECONDS = 20.0
_SOON = 2.0
# What is away takes 10 s to say so: fifty topics that wait for it would keep the loop from polling and from stopping.
_LONGEST_ROUND = 1.0
# Trouble that may pass; everything else stops the topic.
_PASSING = (Unavailable, CommitFailed, CommitStateUnknown)
_STOPPING = (TopicStopped, TableFormatError, ConfigError, SchemaConflict)


class Worker:
    """Runs topics until stopped, or until the end seen at the start."""

    def __init__(
        self,
        *,
        members: Membership,
        coordinator: Coordinator,
        clock: Clock,
        ids: Ids,
        should_stop: Callable[[], bool],
        exit_at_end: bool = False,
    ) -> None:
        self._members = members
        self._broker = members.broker
        self._coordinator = coordinator
        self._clock = clock
        self._ids = ids
        self._should_stop = should_stop
        self._exit_at_end = exit_at_end
        self._lanes = members.lanes
        self._discovery_due = 0.0
        self._lookout = Lookout(self._broker, clock)

    @property
    def stopped(self) -> Mapping[str, str]:
        """Topics that cannot go on or be read at all, with the reason."""
        stopped = {lane.topic: lane.stopped for lane in self._lanes.values() if lane.stopped is not None}
        return {**self._members.refused, **stopped}

    def document(self) -> JsonObject:
        """What the topics are doing, for machines; may be asked from another thread."""
        refused = {topic: {"state": "refused", "reason": why} for topic, why in self._members.refused.items()}
        return refused | {lane.topic: lane.document() for lane in list(self._lanes.values())}

    def run(self) -> bool:
        """Ingest; True when everything taken was committed and no topic is stopped.

        Raises:
            Forbidden: the brokers refuse us for good.
            Unavailable: it cannot be told which topics are to be read to their ends.
        """
        self._broker.open(list(self._lanes), self._on_revoked)
        if self._exit_at_end:
            self._members.refresh()
            for lane in missing(self._lanes.values(), self._broker):
                self._stop(lane, "the topic does not exist")
        self._discover()
        try:
            while not self._should_stop() and self._has_work():
                self._turn()
                if self._exit_at_end and all_at_end(self._lanes.values(), self._broker):
                    break
            clean = self._finish()
        finally:
            self._broker.close()
        log.info(status.FINISHED, stopped=dict(self.stopped))
        return clean and not self.stopped

    def _has_work(self) -> bool:
        waits_for_topics = self._members.waits and not self._exit_at_end
        return waits_for_topics or any(lane.stopped is None for lane in self._lanes.values())

    def _discover(self) -> None:
        """Topics that came, left or changed; when it cannot be told, what is read stays, and it is asked again soon."""
        seconds = self._members.seconds
        try:
            if not self._exit_at_end:
                self._members.refresh()
        except TableFormatError as error:
            log.warning(status.NOT_LOOKED, reason=str(error))
            if isinstance(error, Unavailable):
                seconds = min(seconds, _SOON)
        for lane in self._lanes.values():
            if lane.gone and lane.stopped is None:
                self._stop(lane, GONE)
        self._members.subscribe()
        self._discovery_due = self._clock.monotonic() + seconds

    def _turn(self) -> None:
        if self._clock.monotonic() >= self._discovery_due:
            self._broker.discover()
            self._look_out()
            self._discover()
        polled = self._broker.poll(BATCH, self._poll_seconds())
        for place in polled.assigned:
            lane = self._lanes.get(place.topic)
            if lane is not None:
                lane.owned.add(place.partition)
                lane.unstarted.add(place.partition)
        for topic, messages in _by_topic(polled.messages).items():
            lane = self._lanes.get(topic)
            if lane is not None and lane.takes:
                self._guarded(lane, partial(lane.task.take, messages))
        # Only now may anything be committed: the broker's positions are behind all that it has delivered, and a
        # commit says by them up to when the table is complete.
        for place, reason in polled.broken.items():
            lane = self._lanes.get(place.topic)
            if lane is not None and lane.stopped is None and place.partition in lane.owned:
                self._commit_then_leave(lane, f"partition {place.partition}: {reason}")
        self._relieve()
        self._tend_all()

    def _relieve(self) -> None:
        """While all topics together hold too much: write out what one holds, or commit it where that does not help.

        Nothing is polled meanwhile, so that this is what holds the brokers back.
        """
        while (lane := fullest(self._lanes.values(), self._members.memory_bytes)) is not None:
            before = lane.task.held
            self._guarded(lane, lane.task.close_files)
            if lane.task.held >= before:
                self._guarded(lane, partial(self._commit, lane))
            if lane.task.held >= before:
                break

    def _look_out(self) -> None:
        """What people asked for by the tables, and how far everything is; what is away is asked again later."""
        began = self._clock.monotonic()
        for lane in list(self._lanes.values()):
            free = lane.wait_until is None and lane.task.pending is None
            if lane.stopped is None and free and not lane.leaving:
                self._guarded(lane, partial(self._do_what_is_asked, lane))
            if self._clock.monotonic() - began > _LONGEST_ROUND:
                break
        self._lookout.measure(self._lanes.values())

    def _do_what_is_asked(self, lane: Lane) -> None:
        match asked(lane):
            case Asked.PAUSE:
                self._commit(lane)
                self._pause(lane)
            case Asked.RESUME:
                lane.paused = False
                log.info(status.RESUMED, topic=lane.topic)
                self._restart(lane)
            case Asked.REREAD:
                log.warning(status.TABLE_MOVED, topic=lane.topic)
                self._restart(lane)
            case Asked.NOTHING:
                pass

    def _pause(self, lane: Lane) -> None:
        """Read nothing more of the topic until its table says so; the partitions stay ours."""
        self._restart(lane)
        lane.paused = True
        log.info(status.PAUSED, topic=lane.topic)

    def _tend_all(self) -> None:
        """Every topic in turn; when that takes long, the rest is left to the next turn, which begins with them."""
        began = self._clock.monotonic()
        for topic in list(self._lanes):
            self._tend(self._lanes[topic])
            self._leave_if_done(self._lanes[topic])
            if topic in self._lanes:
                self._lanes[topic] = self._lanes.pop(topic)
            if self._clock.monotonic() - began > _LONGEST_ROUND:
                break

    def _leave_if_done(self, lane: Lane) -> None:
        if lane.leaving and (lane.stopped is not None or lane.task.idle):
            lane.task.reset()
            self._members.leave(lane)
            self._members.subscribe()

    def _tend(self, lane: Lane) -> None:
        """Whatever a topic needs besides its messages: a wait ended, partitions begun, a commit due, a fault."""
        now = self._clock.monotonic()
        if lane.stopped is not None or lane.paused or (lane.wait_until is not None and now < lane.wait_until):
            return
        if lane.wait_until is not None:
            lane.wait_until = None
            if lane.task.pending is None:
                self._restart(lane)
        if lane.task.pending is None and lane.unstarted and not lane.leaving:
            self._guarded(lane, partial(self._start, lane))
        if lane.wait_until is None and lane.stopped is None and self._commit_due(lane):
            self._guarded(lane, partial(self._commit, lane))

    def _commit_due(self, lane: Lane) -> bool:
        task = lane.task
        if task.idle:
            return task.fault is not None
        is_at_end = self._exit_at_end and at_end(lane, self._broker)
        return (
            task.fault is not None
            or is_at_end
            or lane.leaving
            or task.full
            or task.pending is not None
            or self._clock.monotonic() >= lane.due
        )

    def _poll_seconds(self) -> float:
        now = self._clock.monotonic()
        waits = [lane.due - now for lane in self._lanes.values() if not lane.task.idle]
        return max(0.01, min([_LONGEST_POLL, *waits]))

    def _guarded(self, lane: Lane, action: Callable[[], None]) -> None:
        """Do something for one topic; its errors end or delay that topic only."""
        try:
            action()
        except _PASSING as error:
            self._wait(lane, error)
        except _STOPPING as error:
            self._stop(lane, str(error))
        except Exception as error:
            # A fault of ours: it must end neither the process nor the other topics.
            log.exception("unexpected_error", topic=lane.topic)
            self._stop(lane, f"unexpected {type(error).__name__}: {error}")

    def _wait(self, lane: Lane, error: TableFormatError) -> None:
        lane.failures += 1
        lane.last_error = str(error)
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(lane.failures - 1, 10))
        seconds = self._ids.jitter(longest / 2, longest)
        lane.wait_until = self._clock.monotonic() + seconds
        if lane.task.pending is None:
            lane.task.reset()
        lane.halted = True
        self._broker.stop(lane.places(lane.owned))
        log.warning(
            status.WAITING, topic=lane.topic, reason=str(error), kind=error.kind, seconds=round(seconds, 2)
        )

    def _stop(self, lane: Lane, reason: str) -> None:
        lane.stopped = lane.last_error = reason
        lane.task.reset()
        self._broker.stop(lane.places(lane.owned))
        log.error(status.STOPPED, topic=lane.topic, reason=reason)

    def _commit_then_leave(self, lane: Lane, reason: str) -> None:
        """Begin anew where the settings say how to go on from a log that changed; else stop."""
        self._guarded(lane, partial(self._commit, lane))
        settings = lane.task.settings
        if lane.stopped is not None or lane.wait_until is not None:
            return
        if settings.on_gap == "skip" or settings.on_recreated == "restart":
            self._wait(lane, Unavailable(reason))
        else:
            self._stop(lane, reason)

    def _commit(self, lane: Lane) -> None:
        fault = lane.task.fault
        applied = self._coordinator.commit(lane.task)
        lane.failures = 0
        lane.last_commit_ms = self._clock.now_ms() if applied else lane.last_commit_ms
        lane.due = self._clock.monotonic() + lane.task.settings.commit_interval_ms / 1000
        if not applied:
            self._restart(lane)
        elif fault is not None:
            raise TopicStopped(fault)
        elif is_paused(lane.task.binder.table):
            self._pause(lane)
        elif lane.halted:
            self._restart(lane)

    def _restart(self, lane: Lane) -> None:
        """Drop what is uncommitted and go on from where the table is."""
        lane.task.reset()
        lane.halted = False
        self._broker.stop(lane.places(lane.owned))
        lane.unstarted = set(lane.owned)

    def _start(self, lane: Lane) -> None:
        """Begin partitions at the table's offsets.

        Raises:
            TopicStopped: topic or log do not match what the table recorded.
            Unavailable: catalog or brokers are away.
        """
        task = lane.task
        info = self._broker.topic(lane.topic)
        if info is None:
            raise TopicStopped("the topic does not exist")
        # Rows already taken go on in the table version they were bound to; offsets are always read afresh.
        table = task.binder.open() if task.idle else find(task.binder.catalog, task.settings.ident)
        if is_paused(table):
            self._pause(lane)
            return
        known = offsets.Recorded() if table is None else offsets.recorded(table.metadata, lane.topic)
        source = Source(
            topic=lane.topic, topic_id=info.topic_id, cluster_id=self._broker.cluster_id(), generation=0
        )
        reading = offsets.Recorded(cluster_id=task.source.cluster_id, topic_id=task.source.topic_id)
        if not task.idle and not reading.is_of(source):
            # What was taken is of a log that is no more: none of it may be committed as this one's.
            self._restart(lane)
            return
        watermarks = {place: self._broker.watermarks(place) for place in lane.places(lane.unstarted)}
        begin = starts(task.settings, known, source, watermarks)
        if not reading.is_of(source):
            lane.ends.clear()
        for place, (_, high) in watermarks.items():
            lane.ends.setdefault(place.partition, high)
        task.adopt(known, source)
        if begin.anew:
            task.replaces = known
            log.warning(status.TOPIC_ANEW, topic=lane.topic, reason=another_log(known, source))
        for place, offset in begin.offsets.items():
            task.begin(place.partition, recorded=known.offsets.get(place.partition), position=offset)
        for partition, (first, end) in begin.lost.items():
            task.lost[partition] = (first, end)
            log.error(status.RECORDS_LOST, topic=lane.topic, partition=partition, first=first, end=end)
        self._broker.start(begin.offsets)
        lane.unstarted.clear()
        lane.due = self._clock.monotonic() + task.settings.commit_interval_ms / 1000
        log.info(
            status.STARTED, topic=lane.topic, offsets={str(p.partition): o for p, o in begin.offsets.items()}
        )

    def _on_revoked(self, places: list[TopicPartition], lost: bool) -> None:
        for topic in dict.fromkeys(place.topic for place in places):
            lane = self._lanes.get(topic)
            if lane is None:
                continue
            gone = {place.partition for place in places if place.topic == topic}
            if not lost and lane.running:
                self._commit_before_leaving(lane)
            lane.owned -= gone
            # What could not be committed is read again, by whoever has the partitions then.
            lane.task.reset()
            lane.unstarted = set(lane.owned)

    def _commit_before_leaving(self, lane: Lane) -> None:
        """Save the next owner work; when it fails the records are merely read again."""
        try:
            self._coordinator.commit(lane.task)
        except (*_PASSING, *_STOPPING) as error:
            log.warning("not_committed_before_rebalance", topic=lane.topic, reason=str(error))

    def _finish(self) -> bool:
        """Commit what is left; True when all of it is in."""
        deadline = self._clock.monotonic() + _SHUTDOWN_SECONDS
        for attempt in range(_SHUTDOWN_ATTEMPTS):
            left = [lane for lane in self._lanes.values() if lane.stopped is None and not lane.task.idle]
            if not left:
                return True
            if attempt:
                self._clock.sleep(self._ids.jitter(_FIRST_WAIT / 2, _FIRST_WAIT))
            for lane in left:
                if self._clock.monotonic() < deadline:
                    self._guarded(lane, partial(self._commit, lane))
        for lane in self._lanes.values():
            lane.task.reset()
        log.warning("not_all_committed", advice="nothing is lost: the next run reads it again")
        return False


def _by_topic(messages: Sequence[Message]) -> dict[str, list[Message]]:
    by_topic: dict[str, list[Message]] = {}
    for message in messages:
        by_topic.setdefault(message.topic(), []).append(message)
    return by_topic
