"""A clock that stands still until told, and ids that count."""

import uuid


class ManualClock:
    """Time moves by `sleep` and `advance` only; every sleep is written down."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0
        self.sleeps: list[float] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._now_ms += round(seconds * 1000)


class CountingIds:
    """uuid 1, 2, 3, …; snapshot ids from `first_snapshot_id`; jitter takes the upper end."""

    def __init__(self, first_snapshot_id: int = 1001) -> None:
        self._uuids = 0
        self._snapshot_id = first_snapshot_id - 1

    def uuid(self) -> str:
        self._uuids += 1
        return str(uuid.UUID(int=self._uuids, version=4))

    def snapshot_id(self) -> int:
        self._snapshot_id += 1
        return self._snapshot_id

    def jitter(self, low: float, high: float) -> float:
        assert low <= high
        return high
