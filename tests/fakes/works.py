"""Pieces of work for executors, that do what tests need where they run."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from table_format.errors import Invalid
from table_format.io.store import ObjectStore

MEMORY = 300 << 20
"""What the executors of tests may take: a process with pyarrow loaded takes a third."""


@dataclass(frozen=True)
class Act:
    """One piece; what it does is named, so that it can travel."""

    deed: str
    folder: Path
    name: str = "work"

    @property
    def title(self) -> str:
        return f"{self.deed} {self.name}"

    def run(self, store: ObjectStore, go_on: Callable[[], None]) -> tuple[str, int]:
        deed: Callable[[Act, ObjectStore, Callable[[], None]], None] = globals()[f"_{self.deed}"]
        deed(self, store, go_on)
        return self.name, os.getpid()

    @property
    def began(self) -> Path:
        """Holds the process's id, once it has begun."""
        return self.folder / f"{self.name}.began"

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()


def _copy(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    go_on()
    store.put(act.uri(act.name), store.get(act.uri("input")))


def _refuse(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    raise Invalid(f"{act.name} makes no sense")


def _crash(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    raise ZeroDivisionError(act.name)


def _die(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wait(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    """Goes on in small steps until it is told to end."""
    act.began.write_text(str(os.getpid()))
    while True:
        go_on()
        time.sleep(0.01)


def _hang(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    """One step without an end."""
    act.began.write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)


def _meet(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    """Ends when another piece runs at the same time."""
    act.began.write_text(str(os.getpid()))
    while len(list(act.folder.glob("*.began"))) < 2:
        go_on()
        time.sleep(0.01)


def _eat(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    """Takes more memory from step to step."""
    held = []
    while True:
        held.append(b"x" * (8 << 20))
        go_on()
        time.sleep(0.01)


def _gorge(act: Act, store: ObjectStore, go_on: Callable[[], None]) -> None:
    """Takes more and more memory within one step."""
    held = []
    while True:
        held.append(b"x" * (8 << 20))
        time.sleep(0.01)
