"""A job's context as its worker hands it out: it also knows what the worker knows of the lease.

Once the job is told to stop, it stays told; and whether it was told decides how its end is recorded.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from maintenance.executors.port import UNLIMITED, Executor, Pace, Reach
from maintenance.policies import Policy
from maintenance.ports import (
    LEASE_LOST,
    DroppedNeighbour,
    JobContext,
    JobKind,
    JobSettings,
    PurgeSurroundings,
    UnreferencedLog,
)
from table_format.catalog import TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import CommitFailed
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject


class Stop(StrEnum):
    """Why a job is to end before it is done; the values are told in its report."""

    LOST = LEASE_LOST
    DRAINED = "the worker stops, another attempt goes on"
    CANCELLED = "it was cancelled"


class LeasedContext:
    """A job's context; once a stop is called for, it stays called for, and the first reason counts."""

    def __init__(self, inner: JobContext) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._stop: Stop | None = None
        self._told = False
        self.pace: Pace = UNLIMITED
        """How fast it may go now; its worker keeps it up to date."""

    def stop(self, why: Stop) -> None:
        """From now on the job is to end, whatever the database says."""
        with self._lock:
            self._stop = self._stop or why

    @property
    def told(self) -> Stop | None:
        """Why the job was told to end; None when it was not, and so whatever it reports is all there was to do."""
        return self._stop if self._told else None

    @property
    def stopped(self) -> str | None:
        """Why the job is to end at its next safe step."""
        if self._stop is None:
            return None
        self._told = True
        return self._stop.value

    def still_leased(self) -> bool:
        """Whether the job may go on by the worker and by the database; a no is final.

        Else a job that stopped for a no, while a late heartbeat got its lease back, would count as done.
        """
        if self._stop is None and not self._inner.still_leased():
            self.stop(Stop.CANCELLED if self._inner.cancel_requested() else Stop.LOST)
        return self.stopped is None

    def cancel_requested(self) -> bool:
        """Whether somebody asked the job to end."""
        return self._stop is Stop.CANCELLED or self._inner.cancel_requested()

    def save_plan(self, plan: JsonObject) -> None:
        """Store the plan while the lease is ours; a cancelled job may still say what is left to do.

        Raises:
            CommitFailed: it is not, or the worker stops.
        """
        if self._stop is not Stop.CANCELLED and self.stopped is not None:
            raise CommitFailed(f"the plan was not stored: {self.stopped}")
        self._inner.save_plan(plan)

    @property
    def catalog(self) -> TableCatalog:
        """The catalog."""
        return self._inner.catalog

    @property
    def clock(self) -> Clock:
        """Time."""
        return self._inner.clock

    @property
    def ids(self) -> Ids:
        """Ids."""
        return self._inner.ids

    @property
    def settings(self) -> JobSettings:
        """Limits."""
        return self._inner.settings

    @property
    def unreferenced(self) -> UnreferencedLog:
        """The log of unreferenced files."""
        return self._inner.unreferenced

    @property
    def executor(self) -> Executor:
        """Where work is executed."""
        return self._inner.executor

    def store_for(self, location: str) -> ObjectStore:
        """The store of a location."""
        return self._inner.store_for(location)

    def reaches(self, path: str) -> bool:
        """Whether the path lies in the table's bucket."""
        return self._inner.reaches(path)

    def reach(self, location: str) -> Reach:
        """How it is reached, and how fast."""
        return replace(self._inner.reach(location), pace=lambda: self.pace)

    def policy(self, kind: JobKind) -> Policy:
        """The policy in force."""
        return self._inner.policy(kind)

    def other_table_locations(self) -> Sequence[str]:
        """Where other tables lie."""
        return self._inner.other_table_locations()

    def dropped_neighbours(self, locations: Sequence[str]) -> Sequence[DroppedNeighbour]:
        """Dropped tables around those places."""
        return self._inner.dropped_neighbours(locations)

    def purge_surroundings(self, locations: Sequence[str]) -> PurgeSurroundings:
        """What a purge must know."""
        return self._inner.purge_surroundings(locations)
