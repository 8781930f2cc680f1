"""Maintenance policies: what a policy document may say, and what is in force for one table.

A document is {"status": "enabled"|"disabled", "settings": {...}} with S3 Tables' setting names plus ours. It
may hang on a bucket, a namespace or a table; a nearer one overrides setting by setting. For snapshots and
target size the table's Iceberg properties count too: the order is own policy, property, namespace, bucket,
default. Nothing below a safety floor comes from a property, and from a policy only with `allow_unsafe`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from maintenance import setting_rules
from maintenance.setting_rules import DAY_S, HOUR_S, MIB, Tier
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

__all__ = ["CompactionPolicy", "PolicyType", "SnapshotPolicy", "Tier", "UnreferencedPolicy"]


class PolicyType(StrEnum):
    """The three kinds of policy, by their S3 Tables names."""

    COMPACTION = "icebergCompaction"
    SNAPSHOTS = "icebergSnapshotManagement"
    UNREFERENCED = "icebergUnreferencedFileRemoval"


COMPACTION: Final = PolicyType.COMPACTION
SNAPSHOTS: Final = PolicyType.SNAPSHOTS
UNREFERENCED: Final = PolicyType.UNREFERENCED

MIN_SNAPSHOT_AGE_S: Final = HOUR_S
"""Snapshots younger than this only go when an operator allowed unsafe settings."""
MIN_UNREFERENCED_AGE_S: Final = DAY_S
"""An unreferenced file younger than this may belong to a commit in flight."""

_SMALL_BELOW, _SMALL_TARGET = 32 * MIB, 64 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPolicy:
    """What compaction does for one table."""

    disabled_reason: str | None
    """Why this kind of maintenance does not run; None when it does."""
    target_file_size_bytes: int
    tiers: tuple[Tier, ...]
    min_input_files: int
    trigger_file_count: int
    min_file_age_seconds: int
    interval_seconds: int
    notes: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether it runs at all."""
        return self.disabled_reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy:
    """Which snapshots of one table are kept."""

    disabled_reason: str | None
    min_snapshots_to_keep: int
    max_snapshot_age_ms: int
    max_ref_age_ms: int | None
    interval_seconds: int
    notes: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether it runs at all."""
        return self.disabled_reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreferencedPolicy:
    """When unreferenced files of one table are marked, and when they are deleted."""

    disabled_reason: str | None
    unreferenced_seconds: int
    noncurrent_seconds: int
    interval_seconds: int
    notes: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether it runs at all."""
        return self.disabled_reason is None


Policy: TypeAlias = "CompactionPolicy | SnapshotPolicy | UnreferencedPolicy"

_DEFAULTS: Final[Mapping[PolicyType, JsonObject]] = {
    COMPACTION: {
        "targetFileSizeMB": 512,
        "strategy": "auto",
        "minInputFiles": 5,
        "triggerFileCount": 10,
        "minFileAgeSeconds": 0,
        "intervalSeconds": HOUR_S,
    },
    SNAPSHOTS: {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 120, "intervalSeconds": HOUR_S},
    UNREFERENCED: {"unreferencedDays": 3, "nonCurrentDays": 10, "intervalSeconds": DAY_S},
}

# A longer-worded setting and the one it replaces: naming either at a nearer level overrides both.
_TWINS: Final = {
    "maxSnapshotAgeHours": "maxSnapshotAgeSeconds",
    "maxSnapshotAgeSeconds": "maxSnapshotAgeHours",
    "unreferencedDays": "unreferencedSeconds",
    "unreferencedSeconds": "unreferencedDays",
    "nonCurrentDays": "nonCurrentSeconds",
    "nonCurrentSeconds": "nonCurrentDays",
    "targetFileSizeMB": "targetFileSizeBytes",
    "targetFileSizeBytes": "targetFileSizeMB",
}


def policy_type(name: str) -> PolicyType:
    """The policy type of that name.

    Raises:
        Invalid: there is none.
    """
    try:
        return PolicyType(name)
    except ValueError:
        raise Invalid(f"unknown policy type {name!r}: use one of {', '.join(PolicyType)}") from None


def defaults(kind: str) -> JsonObject:
    """The built-in document of a policy type.

    Raises:
        Invalid: no such policy type.
    """
    return {"status": "enabled", "settings": dict(_DEFAULTS[policy_type(kind)])}


def validate(kind: str, document: JsonObject, *, allow_unsafe: bool) -> JsonObject:
    """The document with exactly `status` and `settings`, checked; settings that are null are dropped.

    Raises:
        Invalid: unknown type, member or setting, a value out of bounds, or a dangerous one not allowed.
    """
    wanted = policy_type(kind)
    if not isinstance(document, dict):
        raise Invalid('a policy is a JSON object {"status": ..., "settings": {...}}')
    unknown = sorted(set(document) - {"status", "settings"})
    if unknown:
        raise Invalid(f'unknown member {unknown[0]!r} in the policy: it has "status" and "settings"')
    status = document.get("status")
    if status not in ("enabled", "disabled"):
        raise Invalid(f'policy status is {status!r}: write "enabled" or "disabled"')
    given = document.get("settings")
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise Invalid("policy settings must be a JSON object")
    checked = setting_rules.check(wanted.value, given)
    if not allow_unsafe:
        _refuse_unsafe(wanted, checked)
    return {"status": status, "settings": checked}


def _refuse_unsafe(kind: PolicyType, given: JsonObject) -> None:
    if kind is SNAPSHOTS and given.get("maxSnapshotAgeSeconds", MIN_SNAPSHOT_AGE_S) < MIN_SNAPSHOT_AGE_S:
        raise Invalid(
            f"maxSnapshotAgeSeconds below {MIN_SNAPSHOT_AGE_S} removes snapshots that readers may still use; "
            "it needs a server that allows unsafe maintenance settings"
        )
    if kind is not UNREFERENCED:
        return
    # What a level does not name counts as zero here, so that no mix of levels can fall below the floor.
    ages = [_seconds(given, "unreferencedDays"), _seconds(given, "nonCurrentDays")]
    named = [age for age in ages if age is not None]
    if named and sum(named) < MIN_UNREFERENCED_AGE_S:
        raise Invalid(
            f"unreferencedSeconds and nonCurrentSeconds given here add up to {sum(named)} s; below "
            f"{MIN_UNREFERENCED_AGE_S} s files of commits in flight could be deleted, so that needs a server "
            "that allows unsafe maintenance settings"
        )


def _seconds(settings: JsonObject, days_name: str) -> int | None:
    seconds = settings.get(_TWINS[days_name])
    if seconds is not None:
        return int(seconds)
    days = settings.get(days_name)
    return None if days is None else int(days) * DAY_S


@dataclass(frozen=True, slots=True)
class Sourced:
    """A setting's value in force and where it comes from."""

    value: object
    source: str


def explain(
    kind: str, layers: Sequence[tuple[str, JsonObject]], table_properties: Mapping[str, str]
) -> dict[str, Sourced]:
    """Every setting in force (and `status`) with its source: a layer's name, "property NAME" or "default".

    `layers` are (name, document) from the widest to the table's own, which comes last; give {} for a level
    that has no policy.

    Raises:
        Invalid: no such policy type.
    """
    wanted = policy_type(kind)
    found: dict[str, Sourced] = {"status": Sourced("enabled", "default")}
    found |= {name: Sourced(value, "default") for name, value in _DEFAULTS[wanted].items()}
    for name, document in layers[:-1]:
        _overlay(found, name, document)
    for setting, value, source in _from_properties(wanted, table_properties):
        _put(found, setting, Sourced(value, source))
    if layers:
        _overlay(found, *layers[-1])
    return found


def _overlay(found: dict[str, Sourced], source: str, document: JsonObject) -> None:
    if "status" in document:
        found["status"] = Sourced(document["status"], source)
    settings = document.get("settings") or {}
    for setting, value in sorted(settings.items()):  # so that tiers come after the target size they overrule
        _put(found, setting, Sourced(value, source))


def _put(found: dict[str, Sourced], setting: str, value: Sourced) -> None:
    if setting in _TWINS:
        found.pop(_TWINS[setting], None)
    if setting.startswith("targetFileSize"):
        found.pop("tiers", None)  # a nearer target replaces tiers that were cut for another one
    found[setting] = value


def _from_properties(kind: PolicyType, properties: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Settings that the table's Iceberg properties ask for; malformed ones do not count."""
    names = _PROPERTIES.get(kind, {})
    found = []
    for name, (setting, divisor, floor) in names.items():
        value = _integer(properties.get(name))
        if value is not None and value > 0:
            found.append((setting, max(value // divisor, floor), f"property {name}"))
    return found


# property -> (setting, divisor to the setting's unit, floor in that unit)
_PROPERTIES: Final[Mapping[PolicyType, Mapping[str, tuple[str, int, int]]]] = {
    COMPACTION: {"write.target-file-size-bytes": ("targetFileSizeBytes", 1, MIB)},
    SNAPSHOTS: {
        "history.expire.max-snapshot-age-ms": ("maxSnapshotAgeSeconds", 1000, MIN_SNAPSHOT_AGE_S),
        "history.expire.min-snapshots-to-keep": ("minSnapshotsToKeep", 1, 1),
        "history.expire.max-ref-age-ms": ("maxRefAgeSeconds", 1000, MIN_SNAPSHOT_AGE_S),
    },
}


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def effective(kind: str, layers: Sequence[JsonObject], table_properties: Mapping[str, str]) -> Policy:
    """The policy in force for one table.

    `layers` go from the widest (bucket) to the table's own, which must be the last; give {} for a level
    without a policy.

    Raises:
        Invalid: no such policy type.
    """
    wanted = policy_type(kind)
    found = explain(kind, [(f"level {n}", layer) for n, layer in enumerate(layers)], table_properties)
    reason = None if found["status"].value == "enabled" else "the policy is disabled"
    values: JsonObject = {name: sourced.value for name, sourced in found.items()}
    notes = _notes(wanted, table_properties)
    if wanted is COMPACTION:
        return _compaction(values, reason, notes)
    if table_properties.get("gc.enabled", "true").strip().lower() == "false":
        reason = "the table property gc.enabled is false: its files may belong to another table"
    if wanted is SNAPSHOTS:
        return _snapshots(values, reason, notes)
    return UnreferencedPolicy(
        disabled_reason=reason,
        unreferenced_seconds=_seconds(values, "unreferencedDays") or 0,
        noncurrent_seconds=_seconds(values, "nonCurrentDays") or 0,
        interval_seconds=int(values["intervalSeconds"]),
        notes=notes,
    )


def _compaction(values: JsonObject, reason: str | None, notes: tuple[str, ...]) -> CompactionPolicy:
    target = values.get("targetFileSizeBytes") or int(values["targetFileSizeMB"]) * MIB
    tiers = values.get("tiers")
    chosen = (
        tuple(Tier(below_bytes=tier["belowBytes"], target_bytes=tier["targetBytes"]) for tier in tiers)
        if tiers
        else default_tiers(int(target))
    )
    return CompactionPolicy(
        disabled_reason=reason,
        target_file_size_bytes=chosen[-1].target_bytes,
        tiers=chosen,
        min_input_files=int(values["minInputFiles"]),
        trigger_file_count=int(values["triggerFileCount"]),
        min_file_age_seconds=int(values["minFileAgeSeconds"]),
        interval_seconds=int(values["intervalSeconds"]),
        notes=notes,
    )


def default_tiers(target_bytes: int) -> tuple[Tier, ...]:
    """32 MB -> 64 MB, then 75 % of the target -> target; one tier when the target is 64 MB or less."""
    if target_bytes < _SMALL_TARGET:
        return (Tier(below_bytes=target_bytes // 2, target_bytes=target_bytes),)
    first = Tier(below_bytes=_SMALL_BELOW, target_bytes=_SMALL_TARGET)
    if target_bytes == _SMALL_TARGET:
        return (first,)
    return (first, Tier(below_bytes=max(target_bytes * 3 // 4, _SMALL_BELOW + 1), target_bytes=target_bytes))


def _snapshots(values: JsonObject, reason: str | None, notes: tuple[str, ...]) -> SnapshotPolicy:
    seconds = values.get("maxSnapshotAgeSeconds")
    age_s = int(values["maxSnapshotAgeHours"]) * HOUR_S if seconds is None else int(seconds)
    ref_age = values.get("maxRefAgeSeconds")
    return SnapshotPolicy(
        disabled_reason=reason,
        min_snapshots_to_keep=int(values["minSnapshotsToKeep"]),
        max_snapshot_age_ms=age_s * 1000,
        max_ref_age_ms=None if ref_age is None else int(ref_age) * 1000,
        interval_seconds=int(values["intervalSeconds"]),
        notes=notes,
    )


def _notes(kind: PolicyType, properties: Mapping[str, str]) -> tuple[str, ...]:
    """What was not taken from the properties as written, for the job's report."""
    notes = []
    for name, (_, divisor, floor) in _PROPERTIES.get(kind, {}).items():
        text = properties.get(name)
        value = _integer(text)
        if text is None:
            continue
        if value is None or value <= 0:
            notes.append(f"table property {name} is {text!r}, not a positive whole number: ignored")
        elif value // divisor < floor:
            notes.append(f"table property {name} is {text}, below the floor: {floor * divisor} used")
    return tuple(notes)
