"""Packing of one partition's files into bins, tier by tier, and the rule by which a bin is worth rewriting.

A bin becomes one file. Every rewrite therefore lowers the number of files, so that planning and rewriting, repeated
without new files, ends. In a tier a row is rewritten once to leave the tier, or as a remainder, each time into a
file at least twice the size of the largest it came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from maintenance.compaction.plan_types import PlannedFile
from maintenance.setting_rules import Tier


class BinReason(StrEnum):
    """Why a bin is rewritten."""

    LEAVES_TIER = "leaves-tier"
    """Its bytes reach the tier's upper border."""
    REMAINDER = "remainder"
    """Enough files, and at least twice the bytes of the largest."""
    UNSORTED = "unsorted"
    """One file, large enough but not sorted by the order that its table wants; it becomes one that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one tier that are neighbours in time, together not above the tier's target."""

    tier: Tier
    files: tuple[PlannedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def tier_of(size: int, tiers: Sequence[Tier]) -> Tier | None:
    """The first tier whose border the size is below; None for a file that is large enough."""
    return next((tier for tier in tiers if size < tier.below_bytes), None)


def pack(files: Sequence[PlannedFile], tiers: Sequence[Tier]) -> list[Bin]:
    """All bins of one partition, also those not worth rewriting: per tier, in the order of (sequence, path)."""
    open_bins: dict[Tier, list[PlannedFile]] = {}
    sizes: dict[Tier, int] = {}
    bins: list[Bin] = []
    for file in sorted(files, key=lambda file: (file.sequence_number, file.path)):
        tier = tier_of(file.size, tiers)
        if tier is None:
            continue
        content = open_bins.setdefault(tier, [])
        if content and sizes[tier] + file.size > tier.target_bytes:
            bins.append(Bin(tier=tier, files=tuple(content)))
            content.clear()
        sizes[tier] = (sizes[tier] if content else 0) + file.size
        content.append(file)
    bins += [Bin(tier=tier, files=tuple(content)) for tier, content in open_bins.items() if content]
    return sorted(bins, key=lambda candidate: (candidate.tier.below_bytes, _age(candidate)))


def _age(candidate: Bin) -> tuple[int, str]:
    first = candidate.files[0]
    return first.sequence_number, first.path


def worth(candidate: Bin, min_input_files: int) -> BinReason | None:
    """Why the bin is worth rewriting, or None."""
    if len(candidate.files) < 2:
        return None
    size = candidate.size
    if size >= candidate.tier.below_bytes:
        return BinReason.LEAVES_TIER
    largest = max(file.size for file in candidate.files)
    if len(candidate.files) >= min_input_files and size >= 2 * largest:
        return BinReason.REMAINDER
    return None
