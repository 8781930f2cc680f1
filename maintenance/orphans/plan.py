"""Which listed files are unreferenced, which of them may be deleted now, and when to stop rather than guess.

Pure: a listing, the references read after it, what was known before, policy and time in; paths out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from maintenance.places import References, comparable, inside
from maintenance.policies import MIN_UNREFERENCED_AGE_S, UnreferencedPolicy
from maintenance.ports import JobSettings, Unreferenced
from table_format.io.store import ObjectInfo
from table_format.jsontypes import JsonObject

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPlan:
    """What one run does."""

    mark: tuple[Unreferenced, ...]
    """Unreferenced for the first time."""
    forget: tuple[str, ...]
    """Marked earlier, but referenced after all, or gone."""
    delete: tuple[ObjectInfo, ...]
    """Marked for long enough."""
    waiting: int
    """Marked, but not for long enough."""
    too_young: int
    """Unreferenced, but so young that a commit in flight may need it, or of unknown age."""
    listed: int
    next_due_ms: int | None
    """When the next file will be due, if nothing else changes."""
    held: int = 0
    """Marked for long enough, but somebody holds them back."""

    @property
    def bytes_to_delete(self) -> int:
        """Size of what is deleted."""
        return sum(info.size for info in self.delete)

    def to_json(self) -> JsonObject:
        """As plain JSON."""
        return {
            "mark": [[file.path, file.size, file.first_seen_ms] for file in self.mark],
            "forget": list(self.forget),
            "delete": [[info.path, info.size] for info in self.delete],
            "waiting": self.waiting,
            "held": self.held,
            "too-young": self.too_young,
            "listed": self.listed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Something does not add up: nothing is marked and nothing is deleted."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How old an unreferenced file must be to be marked, and how long it stays marked."""

    unreferenced_ms: int
    noncurrent_ms: int


def ages(policy: UnreferencedPolicy, settings: JobSettings) -> Ages:
    """The policy's ages; together never under the floor unless the installation allows it."""
    unreferenced, noncurrent = policy.unreferenced_seconds, policy.noncurrent_seconds
    if not settings.allow_unsafe:
        unreferenced = max(unreferenced, MIN_UNREFERENCED_AGE_S - noncurrent)
    return Ages(unreferenced_ms=unreferenced * 1000, noncurrent_ms=noncurrent * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about one table's files."""

    location: str
    listing: Sequence[ObjectInfo]
    references: References
    must_be_listed: Iterable[str]
    """Files that were referenced before the listing began and still are; those known to be listed may be left out."""
    known: Mapping[str, int]
    """First-seen time of files marked earlier."""
    held: Collection[str] = frozenset()
    """Files that somebody holds back from deletion."""


def plan(
    evidence: Evidence, wanted: Ages, settings: JobSettings, now_ms: int, *, allow_large_share: bool = False
) -> OrphanPlan | Stop:
    """What to mark, forget and delete, or why to stop."""
    if (missing := _missing(evidence)) is not None:
        return missing
    unreferenced = evidence.references.unheld(evidence.listing)
    if (mismatch := _mismatch(evidence, unreferenced)) is not None:
        return mismatch
    old = [info for info in unreferenced if _is_old(info, now_ms - wanted.unreferenced_ms)]
    share = len(old) / len(evidence.listing) if evidence.listing else 0.0
    if (
        len(old) > settings.share_applies_above
        and share > settings.max_unreferenced_share
        and not allow_large_share
    ):
        return Stop(
            reason=f"{len(old)} of {len(evidence.listing)} files below {evidence.location} look unreferenced, more "
            f"than {settings.max_unreferenced_share:.0%}: check the table's location, then run the job with "
            "allowLargeShare"
        )
    due_before = now_ms - wanted.noncurrent_ms
    marked = [info for info in old if info.path in evidence.known]
    ripe = [info for info in marked if evidence.known[info.path] <= due_before]
    due = [info for info in ripe if info.path not in evidence.held]
    new = [info for info in old if info.path not in evidence.known]
    still = {info.path for info in old}
    return OrphanPlan(
        mark=tuple(Unreferenced(path=info.path, size=info.size, first_seen_ms=now_ms) for info in new),
        forget=tuple(sorted(path for path in evidence.known if path not in still)),
        delete=tuple(due),
        waiting=len(marked) - len(ripe),
        held=len(ripe) - len(due),
        too_young=len(unreferenced) - len(old),
        listed=len(evidence.listing),
        next_due_ms=_next_due(evidence, unreferenced, new, wanted, now_ms),
    )


def together(plans: Sequence[OrphanPlan]) -> OrphanPlan:
    """The plans of a table's places as one."""
    due = [planned.next_due_ms for planned in plans if planned.next_due_ms is not None]
    return OrphanPlan(
        mark=tuple(file for planned in plans for file in planned.mark),
        forget=tuple(path for planned in plans for path in planned.forget),
        delete=tuple(info for planned in plans for info in planned.delete),
        waiting=sum(planned.waiting for planned in plans),
        too_young=sum(planned.too_young for planned in plans),
        listed=sum(planned.listed for planned in plans),
        next_due_ms=min(due, default=None),
        held=sum(planned.held for planned in plans),
    )


def _is_old(info: ObjectInfo, before_ms: int) -> bool:
    """Old enough for certain: an unknown or zero time counts as just written."""
    return info.modified_ms is not None and 0 < info.modified_ms < before_ms


def _missing(evidence: Evidence) -> Stop | None:
    """A file the table needs is not in the listing: another spelling of paths, a wrong place, or a broken table."""
    asked = {comparable(path): path for path in evidence.must_be_listed if inside(evidence.location, path)}
    for info in evidence.listing if asked else ():
        asked.pop(comparable(info.path), None)
    missing = list(asked.values())
    if not missing:
        return None
    shown = ", ".join(sorted(missing)[:_SHOWN])
    return Stop(
        reason=f"{len(missing)} referenced files are not among those listed below {evidence.location} ({shown}): the "
        "store may spell paths in another way, or files are lost; nothing is removed until that is clear"
    )


def _mismatch(evidence: Evidence, unreferenced: Sequence[ObjectInfo]) -> Stop | None:
    """A file that is unreferenced by its whole path only: the authority is written in two ways."""
    for info in unreferenced:
        if evidence.references.may_hold(info.path):
            return Stop(
                reason=f"{info.path} is listed, and the metadata refers to the same path under another scheme or "
                "authority: they may be the same file, so nothing is removed"
            )
    return None


def _next_due(
    evidence: Evidence,
    unreferenced: Sequence[ObjectInfo],
    new: Sequence[ObjectInfo],
    wanted: Ages,
    now_ms: int,
) -> int | None:
    times: list[int] = []
    fresh = {info.path for info in new}
    for info in unreferenced:
        if info.path in fresh:
            times.append(now_ms + wanted.noncurrent_ms)
        elif info.path in evidence.known:
            times.append(evidence.known[info.path] + wanted.noncurrent_ms)
        elif info.modified_ms:
            times.append(info.modified_ms + wanted.unreferenced_ms)
    return min((time for time in times if time > now_ms), default=None)
