"""What a run cost, and what it spares each later scan of the whole table: figures of its report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from maintenance.report import Figure
from table_format.clock import Clock
from table_format.io.counted import CountedStore

_CALLS_PER_FILE: Final = 2
"""A reader asks for a file's footer, and at least once for its content."""


@dataclass(slots=True)
class Spent:
    """Seconds by phase, and calls of the object store."""

    clock: Clock
    store: CountedStore
    planning: float = 0.0
    rewriting: float = 0.0
    """Of all groups together, also where they ran side by side."""
    committing: float = 0.0
    throttled: float = 0.0
    """Seconds of rewriting that went by waiting, as it was too fast."""

    @contextmanager
    def on_planning(self) -> Iterator[None]:
        """Count the time of the block."""
        began = self.clock.monotonic()
        yield
        self.planning += self.clock.monotonic() - began

    @contextmanager
    def on_commit(self) -> Iterator[None]:
        """Count the time of the block, also of one that fails."""
        began = self.clock.monotonic()
        try:
            yield
        finally:
            self.committing += self.clock.monotonic() - began

    def figures(self) -> dict[str, Figure]:
        """For the report."""
        return {
            "planMs": int(self.planning * 1000),
            "rewriteMs": int(self.rewriting * 1000),
            "commitMs": int(self.committing * 1000),
            "throttledMs": int(self.throttled * 1000),
            "storeCalls": [f"{number} {kind}" for kind, number in sorted(self.store.calls.items())],
        }

    def spared(self, *, before: int, data_files: int, delete_files: int) -> dict[str, Figure]:
        """For the report: by so many fewer files than `before`; estimates, as docs/maintenance.md explains."""
        share = data_files / before if before else 0.0
        return {
            "storeCallsSparedPerScan": _CALLS_PER_FILE * (data_files + delete_files),
            "planMsSparedPerScan": int(self.planning * 1000 * share),
        }
