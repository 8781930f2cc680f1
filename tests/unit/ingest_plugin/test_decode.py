from collections.abc import Sequence

import pytest

from ingest_plugin.decode.json import JsonDecoder
from ingest_plugin.decode.plain import RawDecoder, StringDecoder
from ingest_plugin.decode.values import Decoder, ErrorKind
from tests.fakes.broker import FakeMessage


def messages(values: Sequence[bytes | None], key: bytes | None = None) -> list[FakeMessage]:
    return [FakeMessage("t", 0, offset, value, key) for offset, value in enumerate(values)]


def test_json_objects_are_rows_in_order() -> None:
    decoded = JsonDecoder().decode(messages([b'{"a":1}', b'{"b":[true,null,1.5]}']))
    (group,) = decoded.groups
    assert group.rows == [{"a": 1}, {"b": [True, None, 1.5]}]
    assert group.positions == [0, 1]
    assert group.struct is None
    assert decoded.errors == {}


def test_ingest_case_46_one_malformed_record_does_not_hurt_the_others() -> None:
    bad = [
        b"{",
        None,
        b"",
        b"[1]",
        b'"x"',
        b"3",
        b"null",
        b'{"a":NaN}',
        b'{"a":1}{"b":2}',
        b'{"a":"\xff"}',
        b'{"a":1},',
    ]
    decoded = JsonDecoder().decode(messages([b'{"a":1}', *bad, b'{"a":2}']))
    (group,) = decoded.groups
    assert group.rows == [{"a": 1}, {"a": 2}]
    assert group.positions == [0, len(bad) + 1]
    assert sorted(decoded.errors) == list(range(1, len(bad) + 1))
    assert {error.kind for error in decoded.errors.values()} == {ErrorKind.INVALID}
    assert decoded.errors[2].reason == "the value is null (a tombstone)"
    assert decoded.errors[4].reason == "a JSON list, not an object"


def test_ingest_case_43_a_null_key_is_a_null_key() -> None:
    decoders: list[tuple[Decoder, object]] = [(RawDecoder(), b"v"), (StringDecoder(), "v")]
    for decoder, value in decoders:
        decoded = decoder.decode(messages([b"v"]))
        assert decoded.groups[0].rows == [{"_kafka_key": None, "_kafka_value": value}]
        assert decoded.errors == {}


def test_raw_keeps_null_and_empty_apart() -> None:
    decoded = RawDecoder().decode(messages([None, b"", b"\xff"], key=b""))
    assert [row["_kafka_value"] for row in decoded.groups[0].rows] == [None, b"", b"\xff"]
    assert [row["_kafka_key"] for row in decoded.groups[0].rows] == [b"", b"", b""]


@pytest.mark.parametrize("bad", ["key", "value"])
def test_string_refuses_what_is_not_text(bad: str) -> None:
    record = FakeMessage("t", 0, 0, b"\xff" if bad == "value" else b"v", b"\xff" if bad == "key" else b"k")
    decoded = StringDecoder().decode([record, FakeMessage("t", 0, 1, "ü".encode(), b"k")])
    assert decoded.groups[0].rows == [{"_kafka_key": "k", "_kafka_value": "ü"}]
    assert decoded.groups[0].positions == [1]
    assert decoded.errors[0].reason == "not UTF-8: invalid start byte at byte 0"


def test_whole_numbers_beyond_64_bits_are_exact() -> None:
    values = [b'{"a":123456789012345678901234567890}', b'{"a":[-18446744073709551616],"b":1.5}', b'{"a":1}']
    decoded = JsonDecoder().decode(
        messages([*values, b'{"a":' + b"9" * 5000 + b"}", b'{"a":"' + b"1" * 30 + b'"}'])
    )
    (group,) = decoded.groups
    rows = [{"a": 123456789012345678901234567890}, {"a": [-(2**64)], "b": 1.5}, {"a": 1}, {"a": "1" * 30}]
    assert group.rows == rows
    assert list(map(repr, group.rows)) == list(map(repr, rows))
    assert list(decoded.errors) == [3]
