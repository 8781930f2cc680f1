"""The text of metadata written with the help of the version before is the text written anew."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.metadata import jsontext
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
