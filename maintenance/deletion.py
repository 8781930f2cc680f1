"""Deletion in batches: before each one the lease is read again and the paths are checked again; then they go.

Decides nothing about what may be deleted; the caller's check does, and it may only say no to what was planned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maintenance.ports import LEASE_LOST, JobContext
from table_format.io.store import ObjectStore


@dataclass(slots=True)
class Deleted:
    """How a deletion went."""

    paths: list[str] = field(default_factory=list)
    """Gone now (some may have been gone before)."""
    kept: list[str] = field(default_factory=list)
    """Not deleted because the check before the batch said no."""
    failures: list[str] = field(default_factory=list)
    """Paths the store refused to delete, each with the reason."""
    lease_lost: bool = False
    why_stopped: str = LEASE_LOST
    """When `lease_lost`: why, for the report."""
    left: int = 0
    """Not reached."""


Check = Callable[[Sequence[str]], Sequence[str]]
"""Those of the paths that may be deleted right now."""


def delete_in_batches(
    ctx: JobContext,
    store: ObjectStore,
    paths: Sequence[str],
    check: Check,
    after_batch: Callable[[Sequence[str]], None] | None = None,
) -> Deleted:
    """Delete in the given order; stops, without an error, as soon as the lease is gone or the job is to end.

    Raises:
        Forbidden: the store denies access.
        Unavailable: the store is away; what was deleted until then stays deleted.
    """
    done = Deleted()
    size = ctx.settings.delete_batch
    for start in range(0, len(paths), size):
        batch = paths[start : start + size]
        allowed = check(batch)
        # The lease is read last, so that as little time as possible lies between the answer and the deletion.
        if not ctx.still_leased():
            done.lease_lost = True
            done.why_stopped = ctx.stopped or LEASE_LOST
            done.left = len(paths) - start
            return done
        failures = store.delete_many(allowed)
        failed = {failure.path for failure in failures}
        gone = [path for path in allowed if path not in failed]
        done.paths += gone
        done.failures += [f"{failure.path}: {failure.reason}" for failure in failures]
        chosen = set(allowed)
        done.kept += [path for path in batch if path not in chosen]
        if after_batch is not None:
            after_batch(gone)
    return done
