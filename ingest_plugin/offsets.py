"""Where a table says ingest stands: offsets in snapshot summaries, mirrored in a table property.

The newest ancestor of main's head that carries the map is the truth, so a rollback rewinds the offsets with the
rows. The property speaks only when the ancestry has been cut by expiry before any map was found.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

OFFSETS = "ingest.offsets"
COMMIT_ID = "ingest.commit-id"
CLUSTER_ID = "ingest.cluster-id"
"""Id of the cluster that the commit is of."""
CLUSTER_IDS = "ingest.cluster-ids"
"""Ids by topic, in tables that hold several: a cluster is replaced for one topic after the other."""
TOPIC_ID = "ingest.topic-id"
"""Id of the topic that the commit is of."""
TOPIC_IDS = "ingest.topic-ids"
"""Ids by topic, in tables that hold several."""
GENERATION = "ingest.generation"
MAPPING_VERSION = "ingest.mapping-version"
THROUGH = "ingest.valid-through"
THROUGH_TS = "ingest.valid-through-ts"
LOST = "ingest.lost-offsets"
STATE_PROPERTY = "ingest.state"
PAUSED_PROPERTY = "ingest.paused"
CURRENT_MAPPING = "1"
_KEYS = (
    OFFSETS,
    COMMIT_ID,
    CLUSTER_ID,
    CLUSTER_IDS,
    TOPIC_ID,
    TOPIC_IDS,
    GENERATION,
    MAPPING_VERSION,
    THROUGH,
    THROUGH_TS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the table says; `everything` is the whole map, other topics included."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    everything: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cluster_id: str | None = None
    topic_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Of all topics of which the table tells one."""
    cluster_ids: Mapping[str, str] = field(default_factory=dict)
    """By topic, as far as the table tells."""
    generation: int = 0
    through: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per topic and partition: the moment (ms since the epoch) up to which all records are in the table."""

    @property
    def complete_through(self) -> int | None:
        """The moment (ms since the epoch) up to which the table has all records of all its partitions, if told."""
        return _least(self.everything, self.through)

    def is_of(self, source: "Source") -> bool:
        """Whether these offsets belong to the source's log, as far as both tell."""
        return all(
            before is None or now is None or before == now
            for before, now in (
                (self.cluster_id, source.cluster_id),
                (self.topic_id, source.topic_id),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which log the offsets belong to, and who writes."""

    topic: str
    topic_id: str | None
    cluster_id: str | None
    generation: int
    """How many times a process took partitions of this topic over; for people who look, not for fencing."""


def recorded(metadata: TableMetadata, topic: str) -> Recorded:
    """The newest state that the table's history, or else its property, tells for a topic.

    Raises:
        Invalid: the state is there but cannot be read: going on would double or lose rows.
    """
    state = _state(metadata)
    if state is None:
        return Recorded()
    try:
        everything = {name: dict(per) for name, per in orjson.loads(state[OFFSETS]).items()}
        own = {int(partition): int(offset) for partition, offset in everything.get(topic, {}).items()}
        generation = int(state.get(GENERATION, "0"))
        through = {name: dict(per) for name, per in orjson.loads(state.get(THROUGH, "{}")).items()}
        topic_ids = _ids(state, TOPIC_IDS)
        cluster_ids = _ids(state, CLUSTER_IDS)
    except (orjson.JSONDecodeError, ValueError, TypeError, AttributeError) as error:
        raise Invalid(f"{OFFSETS} of the table cannot be read ({error}): {state[OFFSETS]!r}") from None
    known = bool(own)
    if TOPIC_IDS not in state and TOPIC_ID in state:
        # A table of one topic; one that was renamed while it was read is meant, too.
        topic_ids = {topic if known else name: state[TOPIC_ID] for name in everything}
    if CLUSTER_IDS not in state and CLUSTER_ID in state:
        cluster_ids = dict.fromkeys(everything, state[CLUSTER_ID])
    return Recorded(
        offsets=own,
        everything=everything,
        cluster_id=cluster_ids.get(topic) if known else None,
        topic_id=topic_ids.get(topic) if known else None,
        topic_ids=topic_ids,
        cluster_ids=cluster_ids,
        generation=generation,
        through=through,
    )


def _ids(state: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: str(known) for name, known in orjson.loads(state.get(key, "{}")).items()}


def standing(metadata: TableMetadata) -> Recorded:
    """The newest state of all topics together.

    Raises:
        Invalid: the state is there but cannot be read.
    """
    found = recorded(metadata, "")
    try:
        everything = _whole(found.everything)
        through = _whole(found.through)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{OFFSETS} or {THROUGH} of the table cannot be read: {error}") from None
    return replace(found, everything=everything, through=through)


def _whole(by_topic: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(int(p)): int(number) for p, number in per.items()} for topic, per in by_topic.items()}


def _state(metadata: TableMetadata) -> Mapping[str, str] | None:
    complete = False
    for snapshot in _ancestry(metadata):
        summary: Mapping[str, str] = snapshot.get("summary") or {}
        if OFFSETS in summary:
            return summary
        complete = snapshot.get("parent-snapshot-id") in (None, -1)
    if complete or metadata.current_snapshot is None:
        return None
    text = metadata.properties.get(STATE_PROPERTY)
    if text is None:
        return None
    try:
        state = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Invalid(f"table property {STATE_PROPERTY} is not JSON: {text!r}") from None
    return state if isinstance(state, dict) and OFFSETS in state else None


def _ancestry(metadata: TableMetadata) -> Iterator[JsonObject]:
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.snapshots}
    current = metadata.current_snapshot_id
    seen: set[int] = set()
    while current is not None and current in by_id and current not in seen:
        seen.add(current)
        snapshot = by_id[current]
        yield snapshot
        current = snapshot.get("parent-snapshot-id")


def last_commit_ms(metadata: TableMetadata) -> int | None:
    """When ingest last committed, as far as the table remembers it."""
    last: tuple[str, int] | None = None
    for snapshot in _ancestry(metadata):
        # Maintenance copies the keys into its snapshots: the oldest one with an id is the commit itself.
        commit_id = (snapshot.get("summary") or {}).get(COMMIT_ID)
        if last is not None and commit_id not in (None, last[0]):
            break
        if commit_id is not None:
            last = (commit_id, int(snapshot["timestamp-ms"]))
    return None if last is None else last[1]


def landed(metadata: TableMetadata, commit_id: str) -> bool:
    """Whether a commit of that id is in the table, anywhere in what it remembers."""
    if any((snapshot.get("summary") or {}).get(COMMIT_ID) == commit_id for snapshot in metadata.snapshots):
        return True
    state = metadata.properties.get(STATE_PROPERTY)
    return state is not None and f'"{commit_id}"' in state


def summary(
    before: Recorded,
    source: Source,
    ends: Mapping[int, int],
    commit_id: str,
    *,
    through: Mapping[int, int] | None = None,
    lost: Mapping[int, tuple[int, int]] | None = None,
) -> dict[str, str]:
    """The summary keys of a commit that brings partitions to `ends`; all others stay as recorded.

    Offsets of another log of the same name are replaced, not added to. `through` is up to when (ms) partitions are
    complete; `lost` are ranges [from, to) that the log had deleted before they were read.
    """
    same = before.is_of(source)
    own = {**before.offsets, **ends} if same else dict(ends)
    merged = {**before.everything, source.topic: {str(p): own[p] for p in sorted(own)}}
    result = {
        OFFSETS: orjson.dumps(merged).decode(),
        COMMIT_ID: commit_id,
        GENERATION: str(max(before.generation, source.generation)),
        MAPPING_VERSION: CURRENT_MAPPING,
    }
    result |= _through(before, source.topic, merged, through or {}, same=same)
    if lost:
        ranges = {str(partition): list(span) for partition, span in sorted(lost.items())}
        result[LOST] = orjson.dumps({source.topic: ranges}).decode()
    if source.cluster_id is not None:
        result[CLUSTER_ID] = source.cluster_id
    if source.topic_id is not None:
        result[TOPIC_ID] = source.topic_id
    if len(merged) > 1:
        result[TOPIC_IDS] = _with_id(before.topic_ids, source.topic, source.topic_id)
        result[CLUSTER_IDS] = _with_id(before.cluster_ids, source.topic, source.cluster_id)
    return result


def _with_id(before: Mapping[str, str], topic: str, now: str | None) -> str:
    ids = {name: known for name, known in before.items() if name != topic}
    return orjson.dumps(ids if now is None else {**ids, topic: now}, option=orjson.OPT_SORT_KEYS).decode()


def _through(
    before: Recorded,
    topic: str,
    offsets: Mapping[str, Mapping[str, int]],
    now: Mapping[int, int],
    *,
    same: bool,
) -> dict[str, str]:
    """Moments never go back; the least of them speaks for the table, once every partition with records has one."""
    known = dict(before.through.get(topic, {})) if same else {}
    for partition, moment in now.items():
        known[str(partition)] = max(moment, known.get(str(partition), moment))
    if not known:
        return {}
    everything = {**before.through, topic: dict(sorted(known.items()))}
    result = {THROUGH: orjson.dumps(everything).decode()}
    if (least := _least(offsets, everything)) is not None:
        result[THROUGH_TS] = str(least)
    return result


def _least(offsets: Mapping[str, Mapping[str, int]], through: Mapping[str, Mapping[str, int]]) -> int | None:
    """The least of the moments, once every partition that has offsets has one."""
    if not all(partition in through.get(name, {}) for name, per in offsets.items() for partition in per):
        return None
    return min((moment for per in through.values() for moment in per.values()), default=None)


def mirror(keys: Mapping[str, str]) -> JsonObject:
    """The update that writes the same state into the table property."""
    state = {key: keys[key] for key in _KEYS if key in keys}
    return {"action": "set-properties", "updates": {STATE_PROPERTY: orjson.dumps(state).decode()}}
