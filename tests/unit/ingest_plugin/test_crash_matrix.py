"""A process that dies at any one of its calls to store, catalog or brokers, before or after the call took effect.

Every call of a run is counted, and the run repeated to die at each in turn; then another process goes on, and in part
of the matrix dies, too. What is in the table is compared with what was produced, which the code under test never saw.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from tests.factories.ingest_lab import Lab
from tests.fakes.broker import FakeBroker

ROUNDS = int(os.environ.get("INGEST_CRASHES", "30"))
"""How many seeded pairs of deaths are tried beside the deaths at every call."""

SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"partition.by": "[bucket(id, 2)]"},
    "changes": {"upsert.enable": True, "id.columns": "id", "partition.by": "[place]"},
}
COLUMNS = {"columns": {"id": "long", "place": "string", "n": "long"}}
CALLS = {
    "store": ("get", "put", "head", "exists", "list", "delete_many", "open_input", "open_output"),
    "catalog": ("load", "commit", "create", "commit_together"),
    "broker": ("poll", "topic", "watermarks", "ends", "start", "stop"),
}


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Fate:
    """Dies at call number `at`, after its effect or before; counts the calls."""

    at: int | None = None
    after: bool = False
    calls: int = 0
    dead: bool = False

    def call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.dead:
            raise Killed  # clean-up code of a process that is gone does not run either
        self.calls += 1
        if self.calls == self.at:
            self.dead = True
            if self.after:
                method(*args, **kwargs)
            raise Killed
        return method(*args, **kwargs)


class Mortal:
    """Something whose calls may be the last."""

    def __init__(self, inner: Any, names: tuple[str, ...], fate: Fate) -> None:
        self._inner, self._names, self._fate = inner, names, fate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found
        return lambda *args, **kwargs: self._fate.call(found, *args, **kwargs)


class World:
    """A topic that is produced to while it is ingested."""

    def __init__(self, shape: str) -> None:
        keys = {**SHAPES[shape], "schema": COLUMNS, "commit.interval.ms": 400}
        self.lab = Lab(partitions=2, topic="t", **keys)
        self.shape = shape
        self.good: list[dict[str, Any]] = []
        self.bad: list[tuple[int, int]] = []

    def produce(self) -> None:
        for _ in range(4):
            number = len(self.good)
            key = number % 3
            row = {"id": key, "place": "ab"[number // 3 % 2], "n": number}
            self._send(key % 2, orjson.dumps(row), str(key).encode())
            self.good.append(row)
        self.bad.append((1, self._send(1, b"{", b"1")))

    def _send(self, partition: int, value: bytes, key: bytes) -> int:
        return self.lab.cluster.produce("t", value, partition=partition, key=key, timestamp_ms=1)

    def live(self, fate: Fate, more: int = 2) -> bool:
        """One process that works while more is produced; whether it came to an orderly end."""
        lab = self.lab
        store, catalog = lab.store, lab.catalog
        polls = 0

        def should_stop() -> bool:
            nonlocal polls
            polls += 1
            if polls in (6, 12) and more >= polls // 6:
                self.produce()
            return polls > 22

        lab.store = Mortal(store, CALLS["store"], fate)  # type: ignore[assignment]  # all its methods are there
        lab.catalog = Mortal(catalog, CALLS["catalog"], fate)  # type: ignore[assignment]  # as above
        broker: Any = Mortal(FakeBroker(lab.cluster, lab.clock), CALLS["broker"], fate)
        try:
            worker = lab.worker(broker=broker, exit_at_end=False, should_stop=should_stop)
            worker.run()
            assert worker.stopped == {}
        except Killed:
            return False
        finally:
            lab.store, lab.catalog = store, catalog
        return True

    def check(self) -> None:
        """What was produced, and nothing else, each once; or of each key the last."""
        rows = [{name: row[name] for name in ("id", "place", "n")} for row in self.lab.rows()]
        if self.shape == "rows":
            assert sorted(rows, key=_number) == self.good
        else:
            last = {row["id"]: row for row in self.good}
            assert sorted(rows, key=_number) == sorted(last.values(), key=_number)
        letters = Counter((row["partition"], row["offset"]) for row in self.lab.dead_letters())
        assert letters == Counter(self.bad)


def _number(row: dict[str, Any]) -> int:
    return int(row["n"])


def begun(shape: str) -> World:
    world = World(shape)
    world.produce()
    return world


def calls_of_a_life(shape: str) -> int:
    fate = Fate()
    world = begun(shape)
    assert world.live(fate)
    world.check()
    return fate.calls


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_dying_at_every_call(shape: str, after: bool) -> None:
    count = calls_of_a_life(shape)
    assert count > 60
    for at in range(1, count + 1):
        world = begun(shape)
        assert not world.live(Fate(at, after))
        assert world.live(Fate(), more=0)
        world.check()


@pytest.mark.parametrize("shape", list(SHAPES))
def test_dying_again_and_again(shape: str) -> None:
    count = calls_of_a_life(shape)
    for seed in range(ROUNDS):
        draw = random.Random(seed)
        world = begun(shape)
        for _ in range(3):
            world.live(Fate(draw.randint(1, count), draw.random() < 0.5), more=draw.randint(0, 2))
        assert world.live(Fate(), more=0), seed
        world.check()
