"""How much memory this process has resident, and a watch that it stays below a cap.

By /proc, so on Linux; elsewhere there is no cap.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

from maintenance.executors.port import GoOn, MemoryExceeded

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_EVERY_SECONDS: Final = 0.1


def resident() -> int:
    """Bytes of this process that are in memory, files that it maps aside; 0 where that can not be told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


def told(most: int) -> str:
    """What a piece of work that exceeds the cap is told."""
    return (
        f"it took more than {most >> 20} MB of memory, which is the most that a group may take: "
        "raise the setting maintenance.group_memory_mb"
    )


def within(most: int, go_on: GoOn) -> GoOn:
    """A `go_on` that looks at the memory too.

    Raises when called:
        MemoryExceeded: more is resident than the cap.
    """

    def check() -> None:
        go_on()
        if resident() > most:
            raise MemoryExceeded(told(most))

    return check


def watch(most: int, exceeded: Callable[[], None]) -> None:
    """Call `exceeded` from a thread of its own as soon as more is resident, which may be amid one long step."""
    never = threading.Event()

    def look() -> None:
        while not never.wait(_EVERY_SECONDS):
            if resident() > most:
                exceeded()
                return

    threading.Thread(target=look, name="memory-watch", daemon=True).start()
