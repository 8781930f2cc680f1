"""The settings that policy documents may carry: names, types and bounds. Says nothing about precedence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

MIB: Final = 1024 * 1024
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

_MAX_INT: Final = 2**31 - 1
_MAX_DAYS: Final = 36_500
_MIN_TIER_BYTES: Final = 1024
_MAX_TIER_BYTES: Final = 16 * 1024 * MIB
_MAX_TIERS: Final = 8
_STRATEGIES: Final = ("auto", "binpack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Files smaller than `below_bytes` (and not of a lower tier) are packed up to `target_bytes`."""

    below_bytes: int
    target_bytes: int


# policy type -> setting -> (lowest, highest)
_BOUNDS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "icebergCompaction": {
        "targetFileSizeMB": (64, 512),
        "minInputFiles": (2, 10_000),
        "triggerFileCount": (1, 1_000_000),
        "minFileAgeSeconds": (0, 30 * DAY_S),
        "intervalSeconds": (1, 31 * DAY_S),
    },
    "icebergSnapshotManagement": {
        "minSnapshotsToKeep": (1, _MAX_INT),
        "maxSnapshotAgeHours": (1, _MAX_INT),
        "maxSnapshotAgeSeconds": (0, _MAX_INT),
        "intervalSeconds": (1, 31 * DAY_S),
    },
    "icebergUnreferencedFileRemoval": {
        "unreferencedDays": (1, _MAX_DAYS),
        "nonCurrentDays": (1, _MAX_DAYS),
        "unreferencedSeconds": (0, _MAX_INT),
        "nonCurrentSeconds": (0, _MAX_INT),
        "intervalSeconds": (1, 31 * DAY_S),
    },
}

_ONLY_ONE: Final = (
    ("maxSnapshotAgeHours", "maxSnapshotAgeSeconds"),
    ("unreferencedDays", "unreferencedSeconds"),
    ("nonCurrentDays", "nonCurrentSeconds"),
)


def check(policy_type: str, given: JsonObject) -> JsonObject:
    """The settings without those that are null, each within its bounds.

    Raises:
        Invalid: an unknown setting, a wrong type, a value out of bounds, or two settings that say the same.
    """
    bounds = _BOUNDS[policy_type]
    checked: JsonObject = {}
    for name, value in given.items():
        if value is None:
            continue
        if name in bounds:
            checked[name] = _whole(name, value, *bounds[name])
        elif policy_type == "icebergCompaction" and name == "strategy":
            checked[name] = _strategy(value)
        elif policy_type == "icebergCompaction" and name == "tiers":
            checked[name] = _tiers(value)
        else:
            known = sorted([*bounds, *(["strategy", "tiers"] if policy_type == "icebergCompaction" else [])])
            raise Invalid(f"unknown setting {name!r} of {policy_type}: it has {', '.join(known)}")
    for one, other in _ONLY_ONE:
        if one in checked and other in checked:
            raise Invalid(f"settings {one} and {other} say the same thing: give only one of them")
    return checked


def _whole(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"setting {name} is {value!r}: it must be a whole number")
    if not low <= value <= high:
        raise Invalid(f"setting {name} is {value}: it must be between {low} and {high}")
    return value


def _strategy(value: object) -> str:
    if value not in _STRATEGIES:
        raise Invalid(f"setting strategy is {value!r}: it must be one of {', '.join(_STRATEGIES)}")
    return str(value)


def _tiers(value: object) -> list[JsonObject]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_TIERS:
        raise Invalid(f"setting tiers must be a list of 1 to {_MAX_TIERS} objects")
    tiers: list[JsonObject] = []
    for position, item in enumerate(value):
        if not isinstance(item, dict) or set(item) != {"belowBytes", "targetBytes"}:
            raise Invalid(f"tiers[{position}] must have exactly belowBytes and targetBytes")
        low = _whole(f"tiers[{position}].belowBytes", item["belowBytes"], _MIN_TIER_BYTES, _MAX_TIER_BYTES)
        top = _whole(f"tiers[{position}].targetBytes", item["targetBytes"], _MIN_TIER_BYTES, _MAX_TIER_BYTES)
        if top <= low:
            raise Invalid(
                f"tiers[{position}].targetBytes must be greater than its belowBytes ({low}): "
                "else the tier's outputs would be its inputs again"
            )
        if tiers and (low <= tiers[-1]["belowBytes"] or top <= tiers[-1]["targetBytes"]):
            raise Invalid(f"tiers[{position}] must be greater than the tier before it in both values")
        tiers.append({"belowBytes": low, "targetBytes": top})
    return tiers
