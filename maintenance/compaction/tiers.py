"""Packing of one partition's files into bins, tier by tier, and the rule by which a bin is worth rewriting.

A bin becomes one file. Every rewrite therefore lowers the number of files, so that planning and rewriting, repeated
without new files, ends. In a tier a row is rewritten once to leave the tier, or as a remainder, each time into a
file at least twice the size of the largest it came from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from maintenance.setting_rules import Tier
from table_format.manifest.lines import FileLine


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
    files: tuple[FileLine, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size_in_bytes for file in self.files)


def tier_of(size: int, tiers: Sequence[Tier]) -> Tier | None:
    """The first tier whose border the size is below; None for a file that is large enough."""
    for tier in tiers:  # asked for every file of a table: a generator would take three times as long
        if size < tier.below_bytes:
            return tier
    return None


def pack(files: Sequence[FileLine], tiers: Sequence[Tier]) -> list[Bin]:
    """All bins of one partition, also those not worth rewriting: per tier, in the order of (sequence, path)."""
    by_tier: dict[int, list[FileLine]] = {}
    for file in sorted(files, key=attrgetter("sequence_number", "file_path")):
        tier = tier_of(file.file_size_in_bytes, tiers)
        if tier is not None:
            by_tier.setdefault(tier.below_bytes, []).append(file)
    bins = [
        packed
        for tier in tiers
        for packed in _filled(tier, by_tier.pop(tier.below_bytes, []))  # two with one border are one
    ]
    return sorted(bins, key=lambda candidate: (candidate.tier.below_bytes, _age(candidate)))


def _filled(tier: Tier, files: Sequence[FileLine]) -> Iterator[Bin]:
    content: list[FileLine] = []
    size = 0
    for file in files:
        if content and size + file.file_size_in_bytes > tier.target_bytes:
            yield Bin(tier=tier, files=tuple(content))
            content, size = [], 0
        content.append(file)
        size += file.file_size_in_bytes
    if content:
        yield Bin(tier=tier, files=tuple(content))


def _age(candidate: Bin) -> tuple[int, str]:
    first = candidate.files[0]
    return first.sequence_number, first.file_path


def worth(candidate: Bin, min_input_files: int) -> BinReason | None:
    """Why the bin is worth rewriting, or None."""
    if len(candidate.files) < 2:
        return None
    size = candidate.size
    if size >= candidate.tier.below_bytes:
        return BinReason.LEAVES_TIER
    largest = max(file.file_size_in_bytes for file in candidate.files)
    if len(candidate.files) >= min_input_files and size >= 2 * largest:
        return BinReason.REMAINDER
    return None
