"""The commit decision, pure: do files that cover offset ranges still belong behind what the table has recorded?

Every attempt of every commit passes here with freshly loaded offsets. A writer that lost its partitions, however
late it wakes up, finds that its ranges no longer start where the table ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What to do with a pending commit."""

    APPLY = "apply"
    LANDED = "landed"
    """It is in the table already."""
    COVERED = "covered"
    """Another writer has committed all of it."""
    OVERLAP = "overlap"
    """The table has moved otherwise: drop the files and read again from where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets [start, end) of one partition; `recorded` is what the table said when reading began, if anything."""

    recorded: int | None
    end: int


def judge(now: Mapping[int, int], ranges: Mapping[int, OffsetRange], *, landed: bool) -> Verdict:
    """Compare a pending commit's ranges with the offsets that the table records now."""
    if landed:
        return Verdict.LANDED
    if all(now.get(partition) == part.recorded for partition, part in ranges.items()):
        return Verdict.APPLY
    if all((now.get(partition) or 0) >= part.end for partition, part in ranges.items()):
        return Verdict.COVERED
    return Verdict.OVERLAP
