"""Iceberg table properties that count as settings of a policy, and down to which floor.

A property is set by whoever may write to the table, so it never goes below a safety floor; one that is malformed does
not count. Either is told in a note.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from maintenance.setting_rules import HOUR_S, MIB

MIN_SNAPSHOT_AGE_S: Final = HOUR_S
"""Snapshots younger than this only go when an operator allowed unsafe settings."""

Setting: TypeAlias = tuple[str, object, str]
"""(setting, value, "property NAME")"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Property:
    setting: str
    read: Callable[[str], object]
    """The setting's value; None when the text is none."""
    expected: str
    floor: int | None = None
    """In the property's own unit."""


def _number(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if value > 0 else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.strip().lower())


def _whole(setting: str, *, floor: int, divisor: int = 1) -> _Property:
    def read(text: str) -> object:
        value = _number(text)
        return None if value is None else max(value, floor) // divisor

    return _Property(setting=setting, read=read, expected="a positive whole number", floor=floor)


PROPERTIES: Final[Mapping[str, Mapping[str, _Property]]] = {
    "icebergCompaction": {"write.target-file-size-bytes": _whole("targetFileSizeBytes", floor=MIB)},
    "icebergSnapshotManagement": {
        "history.expire.max-snapshot-age-ms": _whole(
            "maxSnapshotAgeSeconds", floor=MIN_SNAPSHOT_AGE_S * 1000, divisor=1000
        ),
        "history.expire.min-snapshots-to-keep": _whole("minSnapshotsToKeep", floor=1),
        "history.expire.max-ref-age-ms": _whole(
            "maxRefAgeSeconds", floor=MIN_SNAPSHOT_AGE_S * 1000, divisor=1000
        ),
        "write.metadata.previous-versions-max": _whole("metadataVersionsToKeep", floor=1),
        "write.metadata.delete-after-commit.enabled": _Property(
            setting="deleteOldMetadata", read=_truth, expected="true or false"
        ),
    },
    "icebergManifests": {
        "commit.manifest.target-size-bytes": _whole("targetSizeBytes", floor=64 * 1024),
    },
    "icebergStatistics": {
        "write.metadata.metrics.max-inferred-column-defaults": _whole("maxColumns", floor=1),
    },
}
"""Policy type -> property -> setting. `gc.enabled` is no setting: it forbids deleting files, whatever a policy says."""


def from_properties(policy_type: str, properties: Mapping[str, str]) -> list[Setting]:
    """The settings that the table's properties ask for."""
    found: list[Setting] = []
    for name, known in PROPERTIES.get(policy_type, {}).items():
        text = properties.get(name)
        value = None if text is None else known.read(text)
        if value is not None:
            found.append((known.setting, value, f"property {name}"))
    return found


def notes(policy_type: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """What was not taken from the properties as written, for the job's report."""
    told = []
    for name, known in PROPERTIES.get(policy_type, {}).items():
        text = properties.get(name)
        if text is None:
            continue
        if known.read(text) is None:
            told.append(f"table property {name} is {text!r}, not {known.expected}: ignored")
        elif known.floor is not None and (_number(text) or 0) < known.floor:
            told.append(f"table property {name} is {text}, below the floor: {known.floor} used")
    return tuple(told)


def gc_disabled(properties: Mapping[str, str]) -> bool:
    """Whether the table says that its files are not its own to delete."""
    return properties.get("gc.enabled", "true").strip().lower() == "false"
