"""JSON text in and out without losing integers.

orjson reads integers beyond 64 bits as floats and refuses to write them; tables may carry such numbers under
keys that we do not know. Text that could hold one takes the slower standard parser, which keeps them exact.
Fractions are IEEE doubles, as RFC 8259 recommends.
"""

import json
from typing import Any

import orjson

from table_format.errors import Invalid

# With every digit flattened to 0, a number beyond 64 bits shows as one of these; file names rarely do.
_FLATTEN = bytes.maketrans(b"123456789", b"000000000")
_SUSPECTS = (
    b"0" * 20,
    *(before + b"-" + b"0" * 19 for before in (b":", b"[", b",", b" ", b"\n", b"\t", b"\r")),
)


def loads(raw: bytes) -> Any:
    """Parse one JSON value; integers of any size stay exact.

    Raises:
        Invalid: not JSON, or nested too deeply to be read.
    """
    flat = raw.translate(_FLATTEN)
    try:
        if flat.startswith(b"-") or any(suspect in flat for suspect in _SUSPECTS):
            return json.loads(raw, parse_constant=_refuse_constant)
        return orjson.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"not valid JSON: {error}") from None


def most_values(raw: bytes) -> int:
    """At least as many as there are values in the JSON text, however it is written: found without parsing it.

    A value takes two bytes of text and up to some hundred bytes of memory.
    """
    return 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def dumps(value: object) -> bytes:
    """Compact JSON, keys in their order.

    Raises:
        Invalid: a value that JSON cannot express, or nested too deeply.
    """
    return _text(value, sort_keys=False)


def canonical(value: object) -> bytes:
    """Compact JSON with sorted keys: equal for equal values.

    Raises:
        Invalid: as `dumps`.
    """
    return _text(value, sort_keys=True)


def _text(value: object, *, sort_keys: bool) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except TypeError:
        pass
    try:
        return json.dumps(
            value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=sort_keys
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"cannot be written as JSON: {error}") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
