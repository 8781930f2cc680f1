"""A process that executes one piece of work after the other, until its input ends.

Reads and writes frames (a length, a pickle) on its standard streams; `process` is the other end. When the input ends
amid a piece of work, that is told to end at its next step, and the process does not outlive it.
"""

import gc
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

import pyarrow as pa

from maintenance.executors.inline import attempt
from maintenance.executors.memory import resident, watch, within
from maintenance.executors.port import Ended, GoOn, Reach, Stopped, Work
from maintenance.places import holds
from table_format.errors import Internal
from table_format.io import resolve
from table_format.io.confined import Confined

LENGTH: Final = struct.Struct("!Q")
EXCEEDED: Final = 77
"""Exit status of a process that took too much memory amid a step."""
_NICENESS: Final = 5
_GRACE_SECONDS: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A piece of work, and how its objects are reached."""

    work: Work[Any]
    location: str
    properties: Mapping[str, str] = field(repr=False)
    within: str
    bytes_per_second: float | None = None

    @classmethod
    def of(cls, work: Work[Any], reach: Reach, most: int) -> "Order":
        """The order to do that work with those objects, where there is room for `most` pieces of work."""
        _, rate = reach.pace().among(most)
        return cls(
            work=work,
            location=reach.location,
            properties=reach.properties,
            within=reach.within,
            bytes_per_second=rate,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How it ended, without the work itself."""

    ended: Ended[Any] | None
    """None when it was told to end."""
    resident: int
    """Bytes of the process in memory afterwards."""


def answer(order: Order, go_on: GoOn) -> Answer:
    """Execute an order here; what nobody expected becomes an error too."""
    store = Confined(resolve.store_for(order.location, order.properties), order.within, holds)
    try:
        ended = attempt(order.work, store, go_on, order.bytes_per_second)
    except Stopped:
        return Answer(ended=None, resident=resident())
    except Exception as error:  # noqa: BLE001 - top of the loop: the other end is told, and logs it
        sys.stderr.write(traceback.format_exc())
        crash = Internal(f"{order.work.title}: {type(error).__name__}: {error}")
        return Answer(ended=Ended(work=order.work, error=crash), resident=resident())
    if ended.error is not None:
        ended.error.__traceback__ = None  # which would keep all that the failed steps held
    gc.collect()
    pa.default_memory_pool().release_unused()
    return Answer(ended=replace(ended, work=_NOTHING), resident=resident())


class _Nothing:
    """Stands for the work, which whoever asked has."""

    title = ""

    def run(self, store: object, go_on: object) -> None:
        """Nothing."""


_NOTHING: Final = _Nothing()


def frame(value: object) -> bytes:
    """A value as a message."""
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def read_frame(source: BinaryIO) -> Any:
    """The next value, or None at the end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = source.read(length)
    # Both ends are this program, of the same version, and nobody else has the pipe.
    return pickle.loads(body) if len(body) == length else None  # noqa: S301


def main() -> None:
    """Serve until standard input ends; the argument is the most memory to take, in bytes."""
    most = int(sys.argv[1])
    # The other end decides when we end, also when a terminal or a service manager signals to all of its processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICENESS)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print amid the answers
    watch(most, lambda: os._exit(EXCEEDED))
    orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
    ending = threading.Event()
    threading.Thread(target=_listen, args=(orders, ending), name="orders", daemon=True).start()

    def go_on() -> None:
        if ending.is_set():
            raise Stopped

    check = within(most, go_on)
    while (order := orders.get()) is not None:
        try:
            sink.write(frame(answer(order, check)))
            sink.flush()
        except BrokenPipeError:
            break
    os._exit(0)  # the reading thread may hold the input's lock


def _listen(orders: "queue.SimpleQueue[Order | None]", ending: threading.Event) -> None:
    while (order := read_frame(sys.stdin.buffer)) is not None:
        orders.put(order)
    ending.set()
    orders.put(None)
    # A step that lasts longer than this is not waited for: nobody wants its outcome any more.
    threading.Event().wait(_GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
