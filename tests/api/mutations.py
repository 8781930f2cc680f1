"""What can be wrong with a request: members, bytes, paths, headers. Every choice is the given generator's."""

import copy
import gzip
import random
import zlib
from typing import Any

from tests.api.direct import Headers

ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    -2,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    1e308,
    0.5,
    "",
    "x",
    "0",
    "-1",
    "\u0000",
    "\ud800",
    "ü" * 50,
    "main",
    "a/../../b",
    "file:///etc/passwd",
    [],
    [[]],
    [None],
    [1, "x"],
    {},
    {"a": None},
    {"type": "struct", "fields": []},
    {"id": 1, "name": "x", "type": "long", "required": "yes"},
]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths_in(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths_in(inner, (*path, index))
    return found


def mutate(body: Any, rng: random.Random) -> Any:
    """The body with one to three members replaced, removed, renamed, doubled."""
    body = copy.deepcopy(body)
    for _ in range(rng.randint(1, 3)):
        places = [place for place in paths_in(body) if place]
        if not places:
            return rng.choice(ODD_VALUES)
        *way, last = rng.choice(places)
        holder = body
        for step in way:
            holder = holder[step]
        action = rng.choice(["replace", "replace", "remove", "rename", "copy"])
        if action == "replace":
            holder[last] = copy.deepcopy(rng.choice(ODD_VALUES))
        elif action == "remove":
            del holder[last]
        elif action == "rename" and isinstance(holder, dict):
            holder[rng.choice([last.upper(), last + "x", "unknown"])] = holder.pop(last)
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
    return body


def mangle(content: bytes, rng: random.Random) -> bytes:
    """The bytes with a few of them changed, cut or doubled."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        position = rng.randrange(len(changed))
        action = rng.choice(["flip", "cut", "insert"])
        if action == "flip":
            changed[position] = rng.randrange(256)
        elif action == "cut":
            del changed[position : position + rng.randint(1, 20)]
        else:
            changed[position:position] = bytes(rng.randrange(256) for _ in range(3))
    return bytes(changed)


ODD_NAMES = [
    b"no-such", b"", b"%", b"%zz", b"%00", b"%FF%FE", b"%2F", b"..", b"%2E%2E", b"a%1Fb", b"%1F", b"a%1F", b"a+b",
    b"%2B", b"%25", b"x" * 2000, b"%F0%9F%A7%8A", b"a;b", b"a=b&c", b"*", b"'", b"\"", b"tables", b"%0A", b"default",
]  # fmt: skip
ODD_TEXTS = [
    b"", b"0", b"-1", b"1", b"1.5", b"x", b"1" * 30, b"9" * 19, b"true", b"True", b"maybe", b"null", b"all", b"refs",
    b"%00", b"%FF", b"%", b"a%1Fb", b"%1F", b"%E2%82%AC", b"eyJ9", b"%22", b"0x10", b"1e3", b"+", b"%2B", b"a,b",
    b"x" * 5000, b"&", b"=", b"%3D%3D", b"\\",
]  # fmt: skip
_VERBS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X"]
_ALPHABET = b"abc/%.?&=+0129AFx-~!$'()*,;:@[]{}|^`\"<>\\"


def odd_target(target: bytes, rng: random.Random) -> bytes:
    """The path and query with a few characters replaced, put in or taken out; its first part stays."""
    changed = bytearray(target)
    fixed = target.index(b"/", 1) + 1
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(fixed, max(fixed + 1, len(changed)))
        put = bytes(rng.choice(_ALPHABET) for _ in range(rng.randint(0, 3)))
        changed[position : position + rng.randint(0, 2)] = put
    return bytes(changed)


def odd_query(names: list[str], rng: random.Random) -> bytes:
    """One to four parameters, known ones for the most part, with odd values, some of them twice."""
    pairs = []
    for _ in range(rng.randint(1, 4)):
        name = rng.choice([*names, *names, "x", ""]).encode()
        pairs.append(name + rng.choice([b"=", b"=", b"=", b""]) + rng.choice(ODD_TEXTS))
    return b"&".join(pairs)


def odd_verb(rng: random.Random) -> str:
    return rng.choice(_VERBS)


_ODD_HEADERS: dict[bytes, list[bytes]] = {
    b"content-type": [
        b"",
        b"text/html",
        b"application/json; charset=utf-16",
        b"multipart/form-data",
        b"\xff",
        b"/",
    ],
    b"content-length": [b"-1", b"x", b"99999999999999999999", b"1e9", b"\xb2"],
    b"accept": [b"", b"text/html", b"*/*;q=x", b"\xff"],
    b"accept-encoding": [b"gzip;q=x", b"zstd, gzip;q=0", b",,,", b"\xff", b"*", b"zstd;q=" + b"9" * 400],
    b"if-none-match": [b"*", b"x", b'"', b'W/"x"', b'"a", "b"', b"\xff", b"," * 500],
    b"if-match": [b"*", b"x", b'"1"', b'"' + b"9" * 30 + b'"', b'W/"2"', b"\xff", b'"-1"', b'"\xb2"'],
    b"idempotency-key": [
        b"",
        b"x",
        b"x" * 5000,
        b"\xff\xfe",
        b"017F22E2-79B0-7CC3-98C4-DC0C0C07398F",
        b"null",
        b"a,b",
    ],
    b"x-iceberg-access-delegation": [b"", b"x", b"vended-credentials,remote-signing", b"\xff", b"," * 1000],
    b"authorization": [b"Bearer None", b"Bearer", b"Basic \xff", b"x" * 5000, b""],
    b"x-request-id": [b"", b"\xff", b"x" * 5000, b"a\tb"],
    b"range": [b"bytes=0-0", b"bytes=x", b"\xff"],
    b"expect": [b"100-continue", b"x"],
    b"transfer-encoding": [b"chunked", b"x"],
}


def odd_headers(rng: random.Random) -> Headers:
    """One to three headers with odd values; one may come twice."""
    names = [rng.choice(list(_ODD_HEADERS)) for _ in range(rng.randint(1, 3))]
    return tuple((name, rng.choice(_ODD_HEADERS[name])) for name in names)


def odd_encoding(content: bytes, rng: random.Random) -> tuple[bytes, Headers]:
    """The body in an encoding that it may or may not be in, whole or broken."""
    packed = rng.choice([gzip.compress(content, mtime=0), zlib.compress(content), content])
    kind = rng.choice(["as it is", "mangled", "cut", "twice", "many", "bomb", "raw"])
    if kind == "mangled":
        packed = mangle(packed, rng)
    elif kind == "cut":
        packed = packed[: rng.randrange(len(packed) + 1)]
    elif kind == "twice":
        packed = packed + packed
    elif kind == "many":
        packed = gzip.compress(b"", mtime=0) * rng.choice([2, 64, 65, 300]) + packed
    elif kind == "bomb":
        packed = _BOMB
    elif kind == "raw":
        packed = bytes(rng.randrange(256) for _ in range(rng.randint(0, 60)))
    named = [
        b"gzip",
        b"x-gzip",
        b"GZIP",
        b"gzip, gzip",
        b"br",
        b"zstd",
        b"deflate",
        b"identity",
        b"",
        b"\xff",
    ]
    return packed, ((b"content-encoding", rng.choice(named)),)


# Some three hundred times as large when it is unpacked: not JSON, and none of it is kept.
_BOMB = gzip.compress(b" " * (2 << 20), mtime=0)
