"""Maintenance policies: what a policy document may say, and what is in force for one table.

A document is {"status": "enabled"|"disabled", "settings": {...}} with S3 Tables' setting names plus ours. It
may hang on a bucket, a namespace or a table; a nearer one overrides setting by setting, and the status only if it gives
one. Some Iceberg properties of the
table count too: the order is own policy, property, namespace, bucket, default. Nothing below a safety floor comes
from a property, and from a policy only with `allow_unsafe`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from maintenance import setting_rules
from maintenance.policy_types import (
    CompactionPolicy,
    ManifestPolicy,
    Policy,
    RecordPolicy,
    SnapshotPolicy,
    Sourced,
    StatisticsPolicy,
    UnreferencedPolicy,
)
from maintenance.quiet_hours import quiet_hours
from maintenance.safety import MIN_UNREFERENCED_AGE_S, raise_to_floors, refuse_unsafe
from maintenance.setting_rules import MIB, SETTINGS, TWINS, SortField, Tier, seconds_of
from maintenance.table_properties import MIN_SNAPSHOT_AGE_S, from_properties, gc_disabled, notes
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

__all__ = [
    "MIN_SNAPSHOT_AGE_S",
    "MIN_UNREFERENCED_AGE_S",
    "CompactionPolicy",
    "ManifestPolicy",
    "Policy",
    "PolicyType",
    "RecordPolicy",
    "SnapshotPolicy",
    "Sourced",
    "StatisticsPolicy",
    "Tier",
    "UnreferencedPolicy",
]


class PolicyType(StrEnum):
    """The kinds of policy, by their S3 Tables names."""

    COMPACTION = "icebergCompaction"
    SNAPSHOTS = "icebergSnapshotManagement"
    UNREFERENCED = "icebergUnreferencedFileRemoval"
    RECORDS = "icebergRecordExpiration"
    MANIFESTS = "icebergManifests"
    STATISTICS = "icebergStatistics"


COMPACTION: Final = PolicyType.COMPACTION
SNAPSHOTS: Final = PolicyType.SNAPSHOTS
UNREFERENCED: Final = PolicyType.UNREFERENCED
RECORDS: Final = PolicyType.RECORDS
MANIFESTS: Final = PolicyType.MANIFESTS
STATISTICS: Final = PolicyType.STATISTICS

_ON_REQUEST: Final = (RECORDS, STATISTICS)
"""Kinds that only run where somebody says so: one takes rows away, one reads all of them."""

_SMALL_BELOW, _SMALL_TARGET = 32 * MIB, 64 * MIB


def policy_type(name: str) -> PolicyType:
    """The policy type of that name.

    Raises:
        Invalid: there is none.
    """
    try:
        return PolicyType(name)
    except ValueError:
        raise Invalid(f"unknown policy type {name[:80]!r}: use one of {', '.join(PolicyType)}") from None


def default_status(kind: str) -> str:
    """What holds where no level says: on, but for what only runs where somebody asks for it."""
    return "disabled" if policy_type(kind) in _ON_REQUEST else "enabled"


def defaults(kind: str) -> JsonObject:
    """The built-in document of a policy type.

    Raises:
        Invalid: no such policy type.
    """
    rules = SETTINGS[policy_type(kind)]
    settings = {name: rule.default for name, rule in rules.items() if rule.default is not None}
    return {"status": default_status(kind), "settings": settings}


def validate(kind: str, document: JsonObject, *, allow_unsafe: bool) -> JsonObject:
    """The document with `settings`, and `status` where it gives one, checked; settings that are null are dropped.

    Raises:
        Invalid: unknown type, member or setting, a value out of bounds, or a dangerous one not allowed.
    """
    wanted = policy_type(kind)
    if not isinstance(document, dict):
        raise Invalid('a policy is a JSON object {"status": ..., "settings": {...}}')
    unknown = sorted(str(name) for name in set(document) - {"status", "settings"})
    if unknown:
        raise Invalid(f'unknown member {unknown[0][:80]!r} in the policy: it has "status" and "settings"')
    status = document.get("status")
    if status not in (None, "enabled", "disabled"):
        raise Invalid(
            f'policy status is {str(status)[:80]!r}: write "enabled" or "disabled", or leave it out'
        )
    given = document.get("settings")
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise Invalid("policy settings must be a JSON object")
    checked = setting_rules.check(wanted.value, given)
    if not allow_unsafe:
        refuse_unsafe(wanted.value, checked)
    return {"settings": checked} if status is None else {"status": status, "settings": checked}


Layers: TypeAlias = Sequence[tuple[str, JsonObject]]
"""(name, document) from the widest level to the table's own, which comes last; {} for a level that has no policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is in force: `status` and every setting that something gives, and what was not taken as written."""

    settings: Mapping[str, Sourced]
    """`status` among them. The source is a layer's name, "property NAME" or "default"."""
    notes: tuple[str, ...] = ()

    def value(self, name: str) -> object:
        """The value of a setting; None when nothing gives it one."""
        found = self.settings.get(name)
        return None if found is None else found.value


def explain(
    kind: str, layers: Layers, table_properties: Mapping[str, str], *, allow_unsafe: bool = False
) -> Explained:
    """What is in force for one table, or at the level of the last layer, and where each value comes from.

    Raises:
        Invalid: no such policy type.
    """
    wanted = policy_type(kind)
    found: dict[str, Sourced] = {"status": Sourced(default_status(wanted), "default")}
    settings = defaults(wanted)["settings"]
    found |= {name: Sourced(value, "default") for name, value in settings.items()}
    for name, document in layers[:-1]:
        _overlay(found, name, document)
    for setting, value, source in from_properties(wanted.value, table_properties):
        _put(found, setting, Sourced(value, source))
    if layers:
        _overlay(found, *layers[-1])
    if wanted is RECORDS and found["status"].source == "default" and "days" in found:
        # Whoever says after how long rows expire says that they do, unless somebody says that they do not.
        found["status"] = Sourced("enabled", found["days"].source)
    told = notes(wanted.value, table_properties)
    if allow_unsafe:
        return Explained(settings=found, notes=told)
    raised, why = raise_to_floors(wanted.value, found)
    return Explained(settings=raised, notes=told + why)


def complete(kind: str, explained: Explained) -> dict[str, Sourced]:
    """Every setting there is, in the order of the documentation, `status` first.

    What only follows from others is worked out, from where they come (`tiers`, of the target size). What nobody gives
    is None by "default", and of two settings that say the same in different units the one that is not in force is None,
    from where the other one comes.
    """
    found = explained.settings
    every = {"status": found["status"]}
    for name in SETTINGS[policy_type(kind)]:
        twin = TWINS.get(name, name)
        if name not in found and twin in found:
            every[name] = Sourced(None, found[twin].source)
            every[twin] = found[twin]  # also what only a property can say: targetFileSizeBytes
        else:
            every[name] = found.get(name, Sourced(None, "default"))
    if "tiers" in every and every["tiers"].value is None:
        tiers = [{"belowBytes": at.below_bytes, "targetBytes": at.target_bytes} for at in _tiers(explained)]
        target = found.get("targetFileSizeBytes") or found["targetFileSizeMB"]
        every["tiers"] = Sourced(tiers, target.source)
    return every


def _overlay(found: dict[str, Sourced], source: str, document: JsonObject) -> None:
    if "status" in document:
        found["status"] = Sourced(document["status"], source)
    settings = document.get("settings") or {}
    for setting, value in sorted(settings.items()):  # so that tiers come after the target size they overrule
        _put(found, setting, Sourced(value, source))


def _put(found: dict[str, Sourced], setting: str, value: Sourced) -> None:
    if setting in TWINS:
        found.pop(TWINS[setting], None)
    if setting.startswith("targetFileSize"):
        found.pop("tiers", None)  # a nearer target replaces tiers that were cut for another one
    found[setting] = value


def effective(
    kind: str,
    layers: Sequence[JsonObject],
    table_properties: Mapping[str, str],
    *,
    allow_unsafe: bool = False,
) -> Policy:
    """The policy in force for one table.

    `layers` go from the widest (bucket) to the table's own, which must be the last; give {} for a level
    without a policy. Where `allow_unsafe` is not given, nothing lies below a safety floor.

    Raises:
        Invalid: no such policy type.
    """
    named = [(f"level {n}", layer) for n, layer in enumerate(layers)]
    explained = explain(kind, named, table_properties, allow_unsafe=allow_unsafe)
    return in_force(kind, explained, table_properties)


def in_force(kind: str, explained: Explained, table_properties: Mapping[str, str]) -> Policy:
    """What maintenance goes by, of what `explain` found with the same table properties.

    Raises:
        Invalid: no such policy type.
    """
    wanted, found = policy_type(kind), explained.settings
    values: JsonObject = {name: sourced.value for name, sourced in found.items()}
    reason = _why_disabled(wanted, found, table_properties)
    quiet = None if values.get("quietHours") is None else quiet_hours(values["quietHours"])
    if quiet is not None and not quiet.zone_is_known:
        reason = (
            reason or f"the time zone {quiet.time_zone!r} of its quiet hours is not known on this machine"
        )
    common: dict[str, Any] = {
        "disabled_reason": reason,
        "interval_seconds": int(values["intervalSeconds"]),
        "quiet_hours": quiet,
        "dry_run": bool(values["dryRun"]),
        "max_concurrent_jobs": values.get("maxConcurrentJobs"),
        "notes": explained.notes,
    }
    rewriting: dict[str, Any] = {
        "max_bytes_per_run": values.get("maxBytesPerRun"),
        "max_mb_per_second": values.get("maxMBPerSecond"),
        "max_memory_mb": values.get("maxMemoryMB"),
    }
    if wanted is COMPACTION:
        return _compaction(values, _tiers(explained), common | rewriting)
    if wanted is SNAPSHOTS:
        return _snapshots(values, common)
    if wanted is MANIFESTS:
        return ManifestPolicy(
            target_size_bytes=int(values["targetSizeBytes"]),
            min_manifests=int(values["minManifests"]),
            trigger_commits=int(values["triggerCommits"]),
            **common,
        )
    if wanted is STATISTICS:
        return _statistics(values, common)
    if wanted is RECORDS:
        return RecordPolicy(
            days=int(values.get("days", 0)),
            column=values.get("column"),
            row_delete_share=float(values["rowDeleteShare"]),
            **common,
            **rewriting,
        )
    return UnreferencedPolicy(
        unreferenced_seconds=seconds_of(values, "unreferencedDays") or 0,
        noncurrent_seconds=seconds_of(values, "nonCurrentDays") or 0,
        **common,
    )


def _why_disabled(
    kind: PolicyType, found: Mapping[str, Sourced], properties: Mapping[str, str]
) -> str | None:
    if kind in (SNAPSHOTS, UNREFERENCED) and gc_disabled(properties):
        return "the table property gc.enabled is false: its files may belong to another table"
    if found["status"].value != "enabled":
        never_asked = kind in _ON_REQUEST and found["status"].source == "default"
        return "no policy asks for it" if never_asked else "the policy is disabled"
    if kind is RECORDS and "days" not in found:
        return "the policy does not say after how many days rows expire"
    if kind is STATISTICS and not (found["ndv"].value or found["partitionStatistics"].value):
        return "the policy has both ndv and partitionStatistics off: there is nothing to compute"
    return None


def _tiers(explained: Explained) -> tuple[Tier, ...]:
    given, in_bytes = explained.value("tiers"), explained.value("targetFileSizeBytes")
    if isinstance(given, list) and given:
        return tuple(Tier(below_bytes=tier["belowBytes"], target_bytes=tier["targetBytes"]) for tier in given)
    megabytes = explained.value("targetFileSizeMB")
    return default_tiers(in_bytes if isinstance(in_bytes, int) else int(str(megabytes)) * MIB)


def _compaction(values: JsonObject, chosen: tuple[Tier, ...], common: dict[str, Any]) -> CompactionPolicy:
    return CompactionPolicy(
        target_file_size_bytes=chosen[-1].target_bytes,
        tiers=chosen,
        strategy=str(values["strategy"]),
        copy_row_groups=bool(values["copyRowGroups"]),
        sort_order=tuple(SortField.from_json(field) for field in values.get("sortOrder") or ()),
        min_input_files=int(values["minInputFiles"]),
        min_file_age_seconds=int(values["minFileAgeSeconds"]),
        open_partition_seconds=int(values["openPartitionSeconds"]),
        delete_file_threshold=int(values["deleteFileThreshold"]),
        delete_ratio=float(values["deleteRatio"]),
        merge_position_deletes=bool(values["mergePositionDeletes"]),
        trigger_file_count=int(values["triggerFileCount"]),
        trigger_bytes=values.get("triggerBytes"),
        trigger_delete_files=values.get("triggerDeleteFiles"),
        trigger_delete_records=values.get("triggerDeleteRecords"),
        trigger_commits=values.get("triggerCommits"),
        **common,
    )


def default_tiers(target_bytes: int) -> tuple[Tier, ...]:
    """32 MB -> 64 MB, then 75 % of the target -> target; one tier when the target is 64 MB or less."""
    if target_bytes < _SMALL_TARGET:
        return (Tier(below_bytes=target_bytes // 2, target_bytes=target_bytes),)
    first = Tier(below_bytes=_SMALL_BELOW, target_bytes=_SMALL_TARGET)
    if target_bytes == _SMALL_TARGET:
        return (first,)
    return (first, Tier(below_bytes=max(target_bytes * 3 // 4, _SMALL_BELOW + 1), target_bytes=target_bytes))


def _snapshots(values: JsonObject, common: dict[str, Any]) -> SnapshotPolicy:
    ref_age = seconds_of(values, "maxRefAgeHours")
    return SnapshotPolicy(
        min_snapshots_to_keep=int(values["minSnapshotsToKeep"]),
        max_snapshot_age_ms=(seconds_of(values, "maxSnapshotAgeHours") or 0) * 1000,
        max_ref_age_ms=None if ref_age is None else ref_age * 1000,
        metadata_versions_to_keep=int(values["metadataVersionsToKeep"]),
        delete_old_metadata=bool(values["deleteOldMetadata"]),
        clean_expired_metadata=bool(values["cleanExpiredMetadata"]),
        **common,
    )


def _statistics(values: JsonObject, common: dict[str, Any]) -> StatisticsPolicy:
    return StatisticsPolicy(
        ndv=bool(values["ndv"]),
        partition_statistics=bool(values["partitionStatistics"]),
        columns=tuple(values.get("columns") or ()),
        max_columns=int(values["maxColumns"]),
        min_change_ratio=float(values["minChangeRatio"]),
        trigger_commits=values.get("triggerCommits"),
        **common,
    )
