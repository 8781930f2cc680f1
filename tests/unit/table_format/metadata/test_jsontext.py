import json

import pytest

from table_format.errors import Invalid
from table_format.metadata import jsontext


@pytest.mark.parametrize(
    "number",
    [0, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40, -(10**40)],
)
@pytest.mark.parametrize("shape", ["%d", "[%d]", '{"a":%d}', "[1,%d]", "[1, %d]", "[1,\n%d]", "[1,\t%d]"])
def test_integers_of_any_size_stay_exact(number: int, shape: str) -> None:
    text = shape % number
    value = jsontext.loads(text.encode())
    assert value == json.loads(text)
    assert json.loads(jsontext.dumps(value)) == json.loads(text)


def test_large_integer_is_written_as_one() -> None:
    assert jsontext.dumps({"a": 2**64, "ü": "é"}) == '{"a":18446744073709551616,"ü":"é"}'.encode()


def test_digits_inside_text_cost_nothing_but_time() -> None:
    text = b'{"path":"snap-12345678901234567890123.avro","n":1.5}'
    assert jsontext.loads(text) == {"path": "snap-12345678901234567890123.avro", "n": 1.5}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"a":NaN}',
        b'{"a":NaN,"b":18446744073709551616}',
        b'{"a":Infinity,"b":18446744073709551616}',
        b"\xff\xfe",
        b'"\\ud800"',
        b"1e999",
        b"[" * 2000 + b"]" * 2000,
        b"[18446744073709551616," + b"[" * 20000 + b"]" * 20000 + b"]",
        b"9" * 5000,
    ],
    ids=lambda raw: str(raw[:12]),
)
def test_what_is_not_json(raw: bytes) -> None:
    with pytest.raises(Invalid, match="not valid JSON"):
        jsontext.loads(raw)


@pytest.mark.parametrize("value", [{"a": 2**64, "b": float("nan")}, {1, 2}, "\ud800"])
def test_what_cannot_be_written(value: object) -> None:
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        jsontext.dumps(value)


def test_depth_that_one_writer_refuses_is_written_by_the_other() -> None:
    text = b"[" * 300 + b"]" * 300
    assert jsontext.dumps(jsontext.loads(text)) == text


def test_depth_beyond_both_is_refused() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        jsontext.dumps(value)


def _values(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_values, value.values()))
    return 1 + (sum(map(_values, value)) if isinstance(value, list) else 0)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "[]",
        "{}",
        "[1]",
        '{"a": 1}',
        "[[],[[]],{}]",
        '{"a":{"b":[1,2,{"c":null}]},"d":[]}',
        '"[{,"',
        " [ 1 , 2 ] ",
    ],
)
def test_values_are_never_counted_too_few(text: str) -> None:
    assert jsontext.most_values(text.encode()) >= _values(json.loads(text))


def test_values_are_not_counted_far_too_many() -> None:
    plain = json.dumps([{"a": 1, "b": [1, 2, 3]}] * 100).encode()
    assert jsontext.most_values(plain) == _values(json.loads(plain))
