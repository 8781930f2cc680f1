"""Time, ids and randomness as arguments. The only module that calls `time`, `uuid` and `random`."""

import random
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Where "now" comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        ...


class Ids(Protocol):
    """Where ids and jitter come from."""

    def uuid(self) -> str:
        """A random UUID (version 4), lower case with dashes."""
        ...

    def snapshot_id(self) -> int:
        """A positive 63-bit snapshot id."""
        ...

    def jitter(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high]."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


class SystemIds:
    """The machine's randomness."""

    def uuid(self) -> str:
        """A random UUID (version 4)."""
        return str(uuid.uuid4())

    def snapshot_id(self) -> int:
        """A positive 63-bit snapshot id, as Java makes it: the halves of a UUID folded together."""
        value = uuid.uuid4().int
        return ((value >> 64) ^ value) & 0x7FFF_FFFF_FFFF_FFFF

    def jitter(self, low: float, high: float) -> float:
        """A number drawn evenly from [low, high]."""
        return random.uniform(low, high)  # noqa: S311 - spreads retries, guards nothing
