"""The settings that policy documents may carry: names, types, bounds and defaults. Says nothing about precedence.

`SETTINGS` is the whole vocabulary; documentation and tests are held to it. A setting stands here only if maintenance
acts on it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from maintenance.quiet_hours import check_quiet_hours
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

MIB: Final = 1024 * 1024
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

MAX_BYTES_PER_RUN: Final = 8 * 1024 * MIB
"""Input of one compaction, unless a policy says otherwise; what is left makes the job be enqueued again."""

_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**53
_MAX_DAYS: Final = 36_500
_MIN_TIER_BYTES: Final = 1024
_MAX_TIER_BYTES: Final = 16 * 1024 * MIB
_MAX_TIERS: Final = 8
_MIN_MANIFEST_BYTES: Final = 64 * 1024
_MAX_MANIFEST_BYTES: Final = 64 * MIB
_MAX_COLUMN: Final = 1024
_MAX_SHOWN: Final = 80
_MAX_SORT_FIELDS: Final = 16
_MAX_COLUMNS: Final = 1000
_SORT_CHOICES: Final = {
    "transform": re.compile(r"identity|year|month|day|hour|bucket\[[0-9]{1,9}\]|truncate\[[0-9]{1,9}\]"),
    "direction": re.compile(r"asc|desc"),
    "nullOrder": re.compile(r"nulls-first|nulls-last"),
}
_STRATEGIES: Final = ("auto", "binpack", "sort", "z-order")

Check = Callable[[str, object], object]
"""(name, value) -> the value; raises Invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Files smaller than `below_bytes` (and not of a lower tier) are packed up to `target_bytes`."""

    below_bytes: int
    target_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One field of a sort order that a policy asks for: by the name of its column, nested ones joined by dots."""

    column: str
    transform: str
    direction: str
    null_order: str

    @classmethod
    def from_json(cls, document: JsonObject) -> "SortField":
        """A field as a policy has it, with what it leaves out."""
        direction = document.get("direction", "asc")
        return cls(
            column=document["column"],
            transform=document.get("transform", "identity"),
            direction=direction,
            null_order=document.get("nullOrder", f"nulls-{'first' if direction == 'asc' else 'last'}"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one setting may be."""

    check: Check
    bounds: str
    """For people: what is accepted."""
    default: object = None
    """The built-in value; None: nothing, until somebody sets it."""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def whole(low: int, high: int, default: int | None = None) -> Rule:
    """A whole number between two bounds, both included."""
    return Rule(
        check=lambda name, value: _whole(name, value, low, high), bounds=f"{low} to {high}", default=default
    )


def _whole(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"setting {name} is {_shown(value)}: it must be a whole number")
    if not low <= value <= high:
        raise Invalid(f"setting {name} is {_shown(value)}: it must be between {low} and {high}")
    return value


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"setting {name} is {_shown(value)}: it must be true or false")
    return value


def _ratio(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"setting {name} is {_shown(value)}: it must be a number")
    if not 0 < value <= 1:
        raise Invalid(f"setting {name} is {_shown(value)}: it must be above 0 and at most 1")
    return value


def _strategy(name: str, value: object) -> str:
    if value not in _STRATEGIES:
        raise Invalid(f"setting {name} is {_shown(value)}: it must be one of {', '.join(_STRATEGIES)}")
    return str(value)


def _column(name: str, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_COLUMN:
        raise Invalid(f"setting {name} is {_shown(value)}: it must be the name of a column")
    return value


def _columns(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_COLUMNS:
        raise Invalid(f"setting {name} must be a list of 1 to {_MAX_COLUMNS} names of columns")
    names = [_column(f"{name}[{position}]", item) for position, item in enumerate(value)]
    if len(set(names)) < len(names):
        raise Invalid(f"setting {name} names the same column twice")
    return names


def _tiers(name: str, value: object) -> list[JsonObject]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_TIERS:
        raise Invalid(f"setting {name} must be a list of 1 to {_MAX_TIERS} objects")
    tiers: list[JsonObject] = []
    for position, item in enumerate(value):
        if not isinstance(item, dict) or set(item) != {"belowBytes", "targetBytes"}:
            raise Invalid(f"{name}[{position}] must have exactly belowBytes and targetBytes")
        low = _whole(f"{name}[{position}].belowBytes", item["belowBytes"], _MIN_TIER_BYTES, _MAX_TIER_BYTES)
        top = _whole(f"{name}[{position}].targetBytes", item["targetBytes"], _MIN_TIER_BYTES, _MAX_TIER_BYTES)
        if top <= low:
            raise Invalid(
                f"{name}[{position}].targetBytes must be greater than its belowBytes ({low}): "
                "else the tier's outputs would be its inputs again"
            )
        if tiers and (low <= tiers[-1]["belowBytes"] or top <= tiers[-1]["targetBytes"]):
            raise Invalid(f"{name}[{position}] must be greater than the tier before it in both values")
        tiers.append({"belowBytes": low, "targetBytes": top})
    return tiers


def _sort_order(name: str, value: object) -> list[JsonObject]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_SORT_FIELDS:
        raise Invalid(f"setting {name} must be a list of 1 to {_MAX_SORT_FIELDS} objects")
    for position, item in enumerate(value):
        where = f"{name}[{position}]"
        if not isinstance(item, dict) or "column" not in item or set(item) - set(_SORT_CHOICES) - {"column"}:
            raise Invalid(f"{where} must have a column, and may have {', '.join(_SORT_CHOICES)}")
        _column(f"{where}.column", item["column"])
        for member, allowed in _SORT_CHOICES.items():
            text = item.get(member)
            if member in item and not (isinstance(text, str) and allowed.fullmatch(text)):
                raise Invalid(
                    f"{where}.{member} is {_shown(text)}: it must be {allowed.pattern.replace('|', ' or ')}"
                )
    seen = [SortField.from_json(item) for item in value]
    if len({(field.column, field.transform) for field in seen}) < len(seen):
        raise Invalid(f"setting {name} names the same column twice")
    return value


def _common(interval_seconds: int) -> dict[str, Rule]:
    """What every kind of policy has."""
    return {
        "intervalSeconds": whole(1, 31 * DAY_S, interval_seconds),
        "quietHours": Rule(check=check_quiet_hours, bounds="a time zone and 1 to 20 windows"),
        "dryRun": Rule(check=_truth, bounds="true or false", default=False),
        "maxConcurrentJobs": whole(1, 1000),
    }


def _rewriting() -> dict[str, Rule]:
    """Settings of the kinds that rewrite files in an executor."""
    return {
        "maxBytesPerRun": whole(MIB, _MAX_LONG, MAX_BYTES_PER_RUN),
        "maxMBPerSecond": whole(1, 1_000_000),
        "maxMemoryMB": whole(256, 100_000_000),
    }


SETTINGS: Final[Mapping[str, Mapping[str, Rule]]] = {
    "icebergCompaction": {
        "targetFileSizeMB": whole(64, 512, 512),
        "strategy": Rule(check=_strategy, bounds=" or ".join(_STRATEGIES), default="auto"),
        "sortOrder": Rule(
            check=_sort_order,
            bounds=f"1 to {_MAX_SORT_FIELDS} columns, each with transform, direction and nullOrder if they are others",
        ),
        "tiers": Rule(check=_tiers, bounds=f"1 to {_MAX_TIERS} pairs of belowBytes and targetBytes"),
        "copyRowGroups": Rule(check=_truth, bounds="true or false", default=True),
        "minInputFiles": whole(2, 10_000, 5),
        "minFileAgeSeconds": whole(0, 30 * DAY_S, 0),
        "openPartitionSeconds": whole(0, 30 * DAY_S, 0),
        "deleteFileThreshold": whole(1, 1_000_000, 100),
        "deleteRatio": Rule(check=_ratio, bounds="above 0, at most 1", default=0.3),
        "mergePositionDeletes": Rule(check=_truth, bounds="true or false", default=True),
        **_rewriting(),
        "triggerFileCount": whole(1, 1_000_000, 10),
        "triggerBytes": whole(MIB, _MAX_LONG),
        "triggerDeleteFiles": whole(1, 1_000_000),
        "triggerDeleteRecords": whole(1, _MAX_LONG),
        "triggerCommits": whole(1, 1_000_000),
        **_common(HOUR_S),
    },
    "icebergSnapshotManagement": {
        "minSnapshotsToKeep": whole(0, _MAX_INT, 1),
        "maxSnapshotAgeHours": whole(1, _MAX_INT, 120),
        "maxSnapshotAgeSeconds": whole(0, _MAX_INT),
        "maxRefAgeHours": whole(1, _MAX_INT),
        "maxRefAgeSeconds": whole(0, _MAX_INT),
        "metadataVersionsToKeep": whole(1, 10_000, 100),
        "deleteOldMetadata": Rule(check=_truth, bounds="true or false", default=False),
        "cleanExpiredMetadata": Rule(check=_truth, bounds="true or false", default=False),
        **_common(HOUR_S),
    },
    "icebergUnreferencedFileRemoval": {
        "unreferencedDays": whole(1, _MAX_DAYS, 3),
        "nonCurrentDays": whole(1, _MAX_DAYS, 10),
        "unreferencedSeconds": whole(0, _MAX_INT),
        "nonCurrentSeconds": whole(0, _MAX_INT),
        **_common(DAY_S),
    },
    "icebergRecordExpiration": {
        "days": whole(1, _MAX_DAYS),
        "column": Rule(check=_column, bounds="the name of a date or timestamp column"),
        "rowDeleteShare": Rule(check=_ratio, bounds="above 0, at most 1", default=0.5),
        **_rewriting(),
        **_common(DAY_S),
    },
    "icebergManifests": {
        "targetSizeBytes": whole(_MIN_MANIFEST_BYTES, _MAX_MANIFEST_BYTES, 8 * MIB),
        "minManifests": whole(2, 10_000, 10),
        "triggerCommits": whole(1, 1_000_000, 100),
        **_common(DAY_S),
    },
    "icebergStatistics": {
        "ndv": Rule(check=_truth, bounds="true or false", default=True),
        "partitionStatistics": Rule(check=_truth, bounds="true or false", default=True),
        "columns": Rule(check=_columns, bounds=f"1 to {_MAX_COLUMNS} names of top-level columns"),
        "maxColumns": whole(1, _MAX_COLUMNS, 100),
        "minChangeRatio": Rule(check=_ratio, bounds="above 0, at most 1", default=0.1),
        "triggerCommits": whole(1, 1_000_000),
        **_common(DAY_S),
    },
}

BUCKETS_ONLY: Final = frozenset({"maxConcurrentJobs", "maxMBPerSecond", "maxMemoryMB"})
"""Settings that are about all tables of a bucket together."""

TWINS: Final[Mapping[str, str]] = {
    name: other
    for pair in (
        ("maxSnapshotAgeHours", "maxSnapshotAgeSeconds"),
        ("maxRefAgeHours", "maxRefAgeSeconds"),
        ("unreferencedDays", "unreferencedSeconds"),
        ("nonCurrentDays", "nonCurrentSeconds"),
        ("targetFileSizeMB", "targetFileSizeBytes"),
    )
    for name, other in (pair, pair[::-1])
}
"""Settings that say the same in another unit: only one of two may be given, and a nearer one replaces either.

`targetFileSizeBytes` is only what a table property says.
"""


def seconds_of(settings: Mapping[str, object], longer: str) -> int | None:
    """A time that is given in seconds, or in the longer unit that the name says; None when it is not given."""
    seconds, units = settings.get(TWINS[longer]), settings.get(longer)
    if isinstance(seconds, int):
        return seconds
    if not isinstance(units, int):
        return None
    return units * (HOUR_S if longer.endswith("Hours") else DAY_S)


def check(policy_type: str, given: JsonObject) -> JsonObject:
    """The settings without those that are null, each within its bounds.

    Raises:
        Invalid: an unknown setting, a wrong type, a value out of bounds, or two settings that say the same.
    """
    rules = SETTINGS[policy_type]
    checked: JsonObject = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in rules:
            raise Invalid(
                f"unknown setting {str(name)[:80]!r} of {policy_type}: it has {', '.join(sorted(rules))}"
            )
        checked[name] = rules[name].check(name, value)
    for name in checked:
        if TWINS.get(name) in checked:
            one, other = sorted([name, TWINS[name]])
            raise Invalid(f"settings {one} and {other} say the same thing: give only one of them")
    return checked
