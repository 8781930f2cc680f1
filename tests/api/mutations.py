"""What can be wrong with a request: members, bytes, paths, headers. Every choice is the given generator's."""

import copy
import random
from typing import Any

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
