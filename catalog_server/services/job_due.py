"""Which tables are due for which kind of maintenance, at one tick of the clock. Reads only.

After a downtime everything is due at once: the most overdue come first, no more are given than the queue has room for,
and each is put off by a part of its interval that depends on the table, so that they do not all run at once, nor all
again an interval later.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from catalog_server.store import job_listing as listing
from catalog_server.store import namespaces, policies, tables
from catalog_server.store.keys import lineage
from catalog_server.store.tables import TableRow
from maintenance import policies as rules
from maintenance.policies import Policy, PolicyType
from maintenance.ports import JobKind, NewJob
from maintenance.schedule import due_at
from table_format.jsontypes import JsonObject

ORIGIN: Final = "maintenance"
MOST_QUEUED: Final = 200
"""As many jobs of the clock may be queued at the same time."""
_LONGEST_SPREAD_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A table and the kind it is due for."""

    row: TableRow
    kind: PolicyType
    interval_ms: int
    late_ms: int
    """How long ago it fell due."""

    def run_after_ms(self, now_ms: int) -> int:
        """When it may run: at once, if it fell due just now."""
        spread_ms = min(self.interval_ms // 10, _LONGEST_SPREAD_MS)
        if self.late_ms <= spread_ms:
            return 0
        return now_ms + zlib.crc32(f"{self.row.table_uuid} {self.kind}".encode()) % (spread_ms + 1)

    def job(self, now_ms: int, max_attempts: int) -> NewJob:
        """The job to be queued."""
        return NewJob(
            kind=JobKind(self.kind.value),
            bucket_id=self.row.bucket_id,
            table_id=self.row.id,
            table_uuid=self.row.table_uuid,
            ident=self.row.ident,
            run_after_ms=self.run_after_ms(now_ms),
            max_attempts=max_attempts,
        )


def due(connection: Connection, now_ms: int) -> list[Due]:
    """What is due and has no job yet, the most overdue (by its own interval) first."""
    room = MOST_QUEUED - listing.open_by_origin(connection, ORIGIN)
    if room <= 0:
        return []
    found = sorted(_all(connection, now_ms), key=lambda one: one.late_ms / one.interval_ms, reverse=True)
    return found[:room]


def _all(connection: Connection, now_ms: int) -> Iterator[Due]:
    documents = {
        (row.scope, row.scope_id, row.policy_type): row.document for row in policies.everywhere(connection)
    }
    ends = listing.last_ends(connection)
    ids = namespaces.ids(connection)
    known = _Policies()
    for row in tables.everywhere(connection):
        scopes = [("bucket", row.bucket_id)]
        scopes += [("namespace", ids[row.bucket_id, key]) for key in lineage(row.ident.namespace)]
        scopes.append(("table", row.id))
        for kind in PolicyType:
            since_ms = ends.get((row.table_uuid, kind.value, False), row.created_at_ms)
            if since_ms is None:
                continue  # one is queued or runs
            policy = known.of(kind, [documents.get((*scope, kind.value), {}) for scope in scopes])
            at_ms = due_at(policy, since_ms, now_ms)
            if at_ms is not None and at_ms <= now_ms:
                interval_ms = max(policy.interval_seconds * 1000, 1)
                yield Due(row=row, kind=kind, interval_ms=interval_ms, late_ms=now_ms - at_ms)


class _Policies:
    """Policies, each worked out once: most tables have the same documents above them, or none."""

    def __init__(self) -> None:
        self._known: dict[str, Policy] = {}

    def of(self, kind: PolicyType, layers: Sequence[JsonObject]) -> Policy:
        """The policy in force by these documents, widest first."""
        key = f"{kind}{layers!r}"
        if key not in self._known:
            self._known[key] = rules.effective(kind.value, layers, {})
        return self._known[key]
