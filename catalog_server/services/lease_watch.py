"""Which leases nobody renews: watched by this process's own clock, since those of other machines may tell another time.

A worker's heartbeat writes a lease's end by the worker's clock. To whoever is a minute ahead it has run out already;
that it was not renewed for as long as it lasts is what tells that its worker stopped.
"""

from collections.abc import Mapping

from table_format.clock import Clock


class LeaseWatch:
    """The leases that one process saw at its looks, and since when each is as it is."""

    def __init__(self, clock: Clock, *, lease_ms: int) -> None:
        self._clock = clock
        self._lease_seconds = lease_ms / 1000
        self._since: dict[tuple[int, int], float] = {}

    def unrenewed(self, leases: Mapping[int, int]) -> dict[int, int]:
        """Those of the leases (each job's id with its lease's end in ms) that are as they were a lease's length ago."""
        now = self._clock.monotonic()
        self._since = {lease: self._since.get(lease, now) for lease in leases.items()}
        return {
            job_id: end for (job_id, end), since in self._since.items() if now - since >= self._lease_seconds
        }
