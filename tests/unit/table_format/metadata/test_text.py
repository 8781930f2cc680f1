"""The text of metadata written with the help of the version before is the text written anew."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.metadata import jsontext, updates
from table_format.metadata.create import new_table
from table_format.metadata.document import TableMetadata
from table_format.metadata.text import MetadataText, text_of


def snapshots(count: int) -> list[dict[str, Any]]:
    return [{"snapshot-id": number, "summary": {"operation": "append"}} for number in range(count)]


def grown(before: MetadataText, **changes: Any) -> MetadataText:
    """The text of the document with some members changed, made from the one before."""
    document = {**before.document, **changes}
    made = text_of(document, before)
    assert made.raw == orjson.dumps(document)
    for key, (start, end) in made.spans.items():
        assert orjson.loads(made.raw[start:end]) == document[key]
    return made


def test_an_array_grows_at_its_end() -> None:
    text = text_of({"a": 1, "snapshots": snapshots(100), "snapshot-log": [], "z": "é"})
    for number in range(3):
        more = [*text.document["snapshots"], {"snapshot-id": 1000 + number}]
        text = grown(text, a=number, snapshots=more)
    assert text.raw.endswith(b',"snapshot-log":[],"z":"\xc3\xa9"}')


def test_what_did_not_change_is_taken_over() -> None:
    text = text_of({"snapshots": snapshots(100)})
    assert grown(text, properties={"a": "b"}).raw.startswith(text.raw[:-1])


def test_the_text_before_is_really_used() -> None:
    text = text_of({"snapshots": snapshots(100)})
    marked = MetadataText(text.document, text.raw.replace(b"append", b"APPEND"), text.spans)
    made = text_of({"snapshots": [*text.document["snapshots"], {"snapshot-id": 1}]}, marked)
    assert made.raw.count(b"APPEND") == 100


def test_an_array_that_shrank_or_changed_is_written_anew() -> None:
    text = text_of({"snapshots": snapshots(100)})
    grown(text, snapshots=text.document["snapshots"][1:])
    grown(text, snapshots=[])
    grown(text, snapshots=None)
    grown(text, snapshots=[{"snapshot-id": 7}, *text.document["snapshots"][1:], {}])


def test_equal_but_other_values_are_written_anew() -> None:
    text = text_of({"snapshots": [{"x": 1} for _ in range(60)]})
    made = grown(text, snapshots=[{"x": 1.0} for _ in range(61)])
    assert b'"x":1}' not in made.raw


def test_integers_of_any_size_and_empty_documents() -> None:
    assert text_of({}).raw == b"{}"
    huge = 10**30
    text = text_of({"snapshots": [*snapshots(80), {"n": huge}], "n": huge})
    assert jsontext.loads(text.raw)["snapshots"][-1]["n"] == huge
    more = text_of({**text.document, "snapshots": [*text.document["snapshots"], {"n": -huge}]}, text)
    assert jsontext.loads(more.raw)["snapshots"][-2:] == [{"n": huge}, {"n": -huge}]


_VALUES = st.sampled_from(
    [None, True, 1, 1.0, -(2**63), 2**64, 0.1, "", "é\u2028", [], [{}], {"a": [1]}, {"": 0}]
)


@settings(deadline=None, max_examples=60)
@given(st.integers(45, 55), st.lists(st.tuples(st.integers(0, 2), _VALUES), max_size=6))
def test_any_history_gives_the_text_written_anew(count: int, steps: list[tuple[int, Any]]) -> None:
    text = text_of({"first": 0, "snapshots": snapshots(count), "snapshot-log": snapshots(count)})
    for kind, value in steps:
        rows = list(text.document["snapshots"])
        if kind == 0:
            rows.append(value)
        elif kind == 1:
            rows.pop()
        document = {**text.document, "snapshots": rows, "other": value}
        text = text_of(document, text)
        assert text.raw == text_of(document).raw
        assert jsontext.loads(text.raw) == document


def long_table(count: int) -> TableMetadata:
    """A table with that many snapshots."""
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long", "required": False}]}
    metadata = new_table(
        schema=schema,
        partition_spec=None,
        write_order=None,
        properties={},
        location="file:///b/t",
        uuid="0190a0b0-0000-7000-8000-000000000001",
        now_ms=1,
    )
    for number in range(1, count + 1):
        metadata = changed(metadata, appended(number))
    return metadata


def appended(number: int, ref: str = "main") -> list[dict[str, Any]]:
    snapshot = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": number,
        "manifest-list": f"file:///b/t/metadata/{number}.avro",
        "summary": {"operation": "append", "é": "],["},
    }
    named = {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": number}
    return [{"action": "add-snapshot", "snapshot": snapshot}, named]


def changed(metadata: TableMetadata, changes: list[dict[str, Any]]) -> TableMetadata:
    return updates.apply(
        metadata, changes, now_ms=metadata.last_updated_ms + 1, previous_location="file:///b/m"
    )


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["append", "branch", "expire", "back", "set"]), st.integers(0, 63)))
)
def test_commits_leave_the_version_before_alone_and_give_the_text_written_anew(
    steps: list[tuple[str, int]],
) -> None:
    metadata = long_table(52)
    text = text_of(metadata.document)
    for number, (kind, which) in enumerate(steps, start=1_000):
        ids = [snapshot["snapshot-id"] for snapshot in metadata.snapshots]
        chosen = ids[which % len(ids)] if ids else number
        changes = {
            "append": appended(number),
            "branch": appended(number, ref="b"),
            "expire": [{"action": "remove-snapshots", "snapshot-ids": [chosen]}],
            "set": [{"action": "set-properties", "updates": {"snapshots": str(which)}}],
        }
        back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": chosen}
        metadata = changed(metadata, changes.get(kind, [back] if ids else []))
        assert jsontext.dumps(text.document) == text.raw
        text = text_of(metadata.document, text)
        assert text.raw == jsontext.dumps(metadata.document)
