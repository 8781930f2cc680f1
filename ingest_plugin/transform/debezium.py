"""`flatten_debezium`: change events unwrapped into rows, what they do, and the column `_cdc`.

A delete's row is its key alone: the image before it has zeros and nulls in the other columns, unless the table sends
whole images. What the source did not send of an unchanged value is null in the row and named beside it. Events that
are no rows (heartbeats, transaction borders, schema changes, logical messages) are skipped and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest_plugin.change import Change, Op, op_of
from ingest_plugin.decode.logical import UNAVAILABLE, UNAVAILABLE_BYTES
from ingest_plugin.decode.values import DataError, Extra, Group, Row, invalid, unmappable
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import CDC_COLUMN, TruncatePolicy
from ingest_plugin.transform.keys import Key
from ingest_plugin.transform.position import position_of
from table_format.jsontypes import JsonObject

CDC_TYPE: JsonObject = {
    "type": "struct",
    "fields": [
        {"name": name, "required": False, "type": kind}
        for name, kind in (
            ("op", "string"),
            ("ts", "timestamptz"),
            ("offset", "long"),
            ("source", "string"),
            ("position", "string"),
            ("snapshot", "boolean"),
            ("unchanged", {"type": "list", "element": "string", "element-required": False}),
        )
    ],
}
_LETTERS: Mapping[str, str] = {"c": "I", "r": "I", "u": "U", "d": "D"}
_MARKERS = (UNAVAILABLE, UNAVAILABLE_BYTES, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
"""An unavailable value as text, as bytes, and as bytes in base64."""
# Fields by which the other events that Debezium writes to topics are known.
_OTHERS: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"status", "id", "event_count"}), "transaction metadata"),
    (frozenset({"ddl", "source"}), "schema change"),
    (frozenset({"tableChanges", "source"}), "schema change"),
)
_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
TOMBSTONE = "tombstone after a delete"


@dataclass(slots=True)
class Unwrapped:
    """Rows taken out of one group of envelopes, and what became of the others."""

    group: Group
    errors: dict[int, DataError] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)


def unwrap(
    group: Group,
    messages: Sequence[Message],
    keys: Mapping[int, Key | DataError],
    truncate: TruncatePolicy,
) -> Unwrapped:
    """The group's envelopes as rows with their changes and `_cdc`; `keys` are those of the messages, by place."""
    rows: list[Row] = []
    positions: list[int] = []
    changes: list[Change] = []
    cdc: list[Row] = []
    found = Unwrapped(group)
    struct = group.struct
    after_type = None if struct is None else _member(struct, "after")
    for row, place in zip(group.rows, group.positions, strict=True):
        outcome = _event(row, messages[place], keys.get(place), truncate)
        if isinstance(outcome, DataError):
            found.errors[place] = outcome
        elif isinstance(outcome, str):
            found.skipped[place] = outcome
        elif struct is not None and after_type is None:
            found.errors[place] = unmappable("the schema's field 'after' is no record")
        else:
            new, change, told = outcome
            rows.append(new)
            positions.append(place)
            changes.append(change)
            cdc.append(told)
    key = next((one for place in positions if isinstance(one := keys.get(place), Key)), None)
    found.group = Group(
        rows=rows,
        positions=positions,
        struct=after_type,
        schema_key=group.schema_key,
        trusted=group.trusted,
        changes=changes,
        extras={CDC_COLUMN: Extra(type=CDC_TYPE, values=cdc)},
        key_columns=None if key is None or key.fields is None else tuple(key.fields),
    )
    return found


def _member(struct: JsonObject, name: str) -> JsonObject | None:
    kind = next((one["type"] for one in struct["fields"] if one["name"] == name), None)
    return kind if isinstance(kind, dict) and kind["type"] == "struct" else None


def _event(
    envelope: Row, message: Message, key: Key | DataError | None, truncate: TruncatePolicy
) -> tuple[Row, Change, Row] | DataError | str:
    """The row of an event with what it does; or why it is a bad record; or what it is if it is no row."""
    letter = envelope.get("op")
    if letter is None:
        return _other(envelope)
    if letter == "m":
        return "logical message"
    if letter == "t":
        if truncate is TruncatePolicy.SKIP:
            return "truncate"
        return invalid("the source table was truncated; its rows are still in this table (cdc.truncate)")
    op = op_of(letter)
    if op is None:
        return invalid(f"unknown Debezium operation {letter!r}")
    if isinstance(key, DataError):
        return key
    image = envelope.get("before" if op is Op.DELETE else "after")
    if not isinstance(image, dict):
        return invalid(f"a Debezium event with op {letter!r} without its row ({type(image).__name__})")
    return _change(envelope, image, op, str(letter), message, key)


def _change(
    envelope: Row, image: Row, op: Op, letter: str, message: Message, key: Key | None
) -> tuple[Row, Change, Row]:
    row = image
    if op is Op.DELETE and key is not None and key.fields is not None:
        # The key may have fields that the row does not (a key of the user's choice), never the other way round.
        row = {name: image[name] for name in key.fields if name in image}
    unchanged = frozenset(name for name, value in row.items() if _is_marker(value))
    if unchanged:
        row = {name: None if name in unchanged else value for name, value in row.items()}
    source = envelope.get("source")
    source = source if isinstance(source, dict) else {}
    before = envelope.get("before")
    position = position_of(source)
    snapshot = letter == "r"
    change = Change(
        op=op,
        position=position,
        unchanged=unchanged,
        before=before if isinstance(before, dict) else None,
        snapshot=snapshot,
    )
    told = {
        "op": _LETTERS.get(letter, letter.upper()),
        "ts": _micros(source, envelope),
        "offset": message.offset(),
        "source": ".".join(
            str(part) for part in (source.get("schema") or source.get("db"), source.get("table")) if part
        )
        or None,
        "position": None if position is None else ".".join(map(str, position.at)),
        "snapshot": snapshot,
        "unchanged": sorted(unchanged) or None,
    }
    return row, change, told


def _is_marker(value: Any) -> bool:
    if type(value) is list:
        return len(value) == 1 and type(value[0]) in (str, bytes) and value[0] in _MARKERS
    return type(value) in (str, bytes) and value in _MARKERS


def _other(row: Row) -> DataError | str:
    names = {name for name, value in row.items() if value is not None}
    if names and names <= _HEARTBEAT:
        return "heartbeat"
    for needed, what in _OTHERS:
        if needed <= row.keys() and (what != "schema change" or "op" not in row):
            return what
    if row.keys() == {"schema", "payload"}:
        return invalid('the value has its schema beside it: write convert.value.type = "connect_json"')
    return invalid("not a Debezium event: there is no field 'op'")


def _micros(source: Mapping[str, Any], envelope: Row) -> int | None:
    """When the source changed the row."""
    for where, name, factor in (
        (source, "ts_us", 1),
        (source, "ts_ms", 1000),
        (envelope, "ts_us", 1),
        (envelope, "ts_ms", 1000),
    ):
        value = where.get(name)
        if type(value) is int and value > 0:
            micros: int = value * factor
            return micros if micros < 2**63 else None
    return None
