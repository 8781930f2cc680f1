"""Every setting there is: accepted, inherited, told with its source, and acting. One missing here is a failure."""

from dataclasses import fields

import pytest

from maintenance.policies import PolicyType, effective, explain, validate
from maintenance.policy_types import InForce
from maintenance.quiet_hours import QuietHours, Window
from maintenance.setting_rules import DAY_S, HOUR_S, MIB, SETTINGS, SortField, Tier
from maintenance.table_properties import PROPERTIES
from table_format.errors import Invalid

COMPACTION, SNAPSHOTS, UNREFERENCED, RECORDS, MANIFESTS, STATISTICS = PolicyType
QUIET = {"timeZone": "Europe/Berlin", "windows": [{"days": ["mon"], "from": "08:00", "to": "18:00"}]}
NIGHTS = {"timeZone": "UTC", "windows": [{"days": ["sun"], "from": "22:00", "to": "06:00"}]}


def quiet(zone, day, begin, to):
    return QuietHours(time_zone=zone, windows=(Window(days=(day,), begin=(begin, 0), to=(to, 0)),))


QUIET_CASE = (QUIET, NIGHTS, quiet("Europe/Berlin", 0, 8, 18), quiet("UTC", 6, 22, 6))

# (policy type, setting) -> (a value, another, the member of the policy in force that it decides, its two values)
CASES = {
    (COMPACTION, "targetFileSizeMB"): (64, 128, "target_file_size_bytes", 64 * MIB, 128 * MIB),
    (COMPACTION, "strategy"): ("sort", "z-order", "strategy", "sort", "z-order"),
    (COMPACTION, "sortOrder"): (
        [{"column": "a"}],
        [{"column": "a.b", "transform": "day", "direction": "desc", "nullOrder": "nulls-first"}],
        "sort_order",
        (SortField(column="a", transform="identity", direction="asc", null_order="nulls-first"),),
        (SortField(column="a.b", transform="day", direction="desc", null_order="nulls-first"),),
    ),
    (COMPACTION, "tiers"): (
        [{"belowBytes": 2048, "targetBytes": 4096}],
        [{"belowBytes": 4096, "targetBytes": 8192}],
        "tiers",
        (Tier(below_bytes=2048, target_bytes=4096),),
        (Tier(below_bytes=4096, target_bytes=8192),),
    ),
    (COMPACTION, "copyRowGroups"): (False, True, "copy_row_groups", False, True),
    (COMPACTION, "minInputFiles"): (2, 3, "min_input_files", 2, 3),
    (COMPACTION, "minFileAgeSeconds"): (1, 2, "min_file_age_seconds", 1, 2),
    (COMPACTION, "openPartitionSeconds"): (1, 2, "open_partition_seconds", 1, 2),
    (COMPACTION, "deleteFileThreshold"): (1, 2, "delete_file_threshold", 1, 2),
    (COMPACTION, "deleteRatio"): (0.5, 1, "delete_ratio", 0.5, 1.0),
    (COMPACTION, "mergePositionDeletes"): (False, True, "merge_position_deletes", False, True),
    (COMPACTION, "maxBytesPerRun"): (MIB, 2 * MIB, "max_bytes_per_run", MIB, 2 * MIB),
    (COMPACTION, "triggerFileCount"): (1, 2, "trigger_file_count", 1, 2),
    (COMPACTION, "triggerBytes"): (MIB, 2 * MIB, "trigger_bytes", MIB, 2 * MIB),
    (COMPACTION, "triggerDeleteFiles"): (1, 2, "trigger_delete_files", 1, 2),
    (COMPACTION, "triggerDeleteRecords"): (1, 2, "trigger_delete_records", 1, 2),
    (COMPACTION, "triggerCommits"): (1, 2, "trigger_commits", 1, 2),
    (SNAPSHOTS, "minSnapshotsToKeep"): (2, 3, "min_snapshots_to_keep", 2, 3),
    (SNAPSHOTS, "maxSnapshotAgeHours"): (1, 2, "max_snapshot_age_ms", HOUR_S * 1000, 2 * HOUR_S * 1000),
    (SNAPSHOTS, "maxSnapshotAgeSeconds"): (3600, 3601, "max_snapshot_age_ms", 3_600_000, 3_601_000),
    (SNAPSHOTS, "maxRefAgeHours"): (1, 2, "max_ref_age_ms", HOUR_S * 1000, 2 * HOUR_S * 1000),
    (SNAPSHOTS, "maxRefAgeSeconds"): (3600, 3601, "max_ref_age_ms", 3_600_000, 3_601_000),
    (SNAPSHOTS, "metadataVersionsToKeep"): (1, 2, "metadata_versions_to_keep", 1, 2),
    (SNAPSHOTS, "deleteOldMetadata"): (True, False, "delete_old_metadata", True, False),
    (SNAPSHOTS, "cleanExpiredMetadata"): (True, False, "clean_expired_metadata", True, False),
    (UNREFERENCED, "unreferencedDays"): (1, 2, "unreferenced_seconds", DAY_S, 2 * DAY_S),
    (UNREFERENCED, "nonCurrentDays"): (1, 2, "noncurrent_seconds", DAY_S, 2 * DAY_S),
    (UNREFERENCED, "unreferencedSeconds"): (DAY_S, DAY_S + 1, "unreferenced_seconds", DAY_S, DAY_S + 1),
    (UNREFERENCED, "nonCurrentSeconds"): (DAY_S, DAY_S + 1, "noncurrent_seconds", DAY_S, DAY_S + 1),
    (RECORDS, "days"): (1, 2, "days", 1, 2),
    (RECORDS, "column"): ("a", "b", "column", "a", "b"),
    (RECORDS, "rowDeleteShare"): (0.1, 1, "row_delete_share", 0.1, 1.0),
    (RECORDS, "maxBytesPerRun"): (MIB, 2 * MIB, "max_bytes_per_run", MIB, 2 * MIB),
    (MANIFESTS, "targetSizeBytes"): (MIB, 2 * MIB, "target_size_bytes", MIB, 2 * MIB),
    (MANIFESTS, "minManifests"): (2, 3, "min_manifests", 2, 3),
    (MANIFESTS, "triggerCommits"): (1, 2, "trigger_commits", 1, 2),
    (STATISTICS, "ndv"): (False, True, "ndv", False, True),
    (STATISTICS, "partitionStatistics"): (False, True, "partition_statistics", False, True),
    (STATISTICS, "columns"): (["a"], ["a", "b"], "columns", ("a",), ("a", "b")),
    (STATISTICS, "maxColumns"): (1, 2, "max_columns", 1, 2),
    (STATISTICS, "minChangeRatio"): (0.5, 1, "min_change_ratio", 0.5, 1.0),
    (STATISTICS, "triggerCommits"): (1, 2, "trigger_commits", 1, 2),
}
for _kind in (COMPACTION, RECORDS):
    CASES[_kind, "maxMBPerSecond"] = (1, 2, "max_mb_per_second", 1, 2)
    CASES[_kind, "maxMemoryMB"] = (256, 512, "max_memory_mb", 256, 512)
for _kind in PolicyType:
    CASES[_kind, "intervalSeconds"] = (1, 2, "interval_seconds", 1, 2)
    CASES[_kind, "quietHours"] = (*QUIET_CASE[:2], "quiet_hours", *QUIET_CASE[2:])
    CASES[_kind, "maxConcurrentJobs"] = (1, 2, "max_concurrent_jobs", 1, 2)
    CASES[_kind, "dryRun"] = (True, False, "dry_run", True, False)

# property -> (its text, the setting it stands for, the value told)
PROPERTY_CASES = {
    "write.target-file-size-bytes": ("134217728", "targetFileSizeMB", "targetFileSizeBytes", 128 * MIB),
    "history.expire.max-snapshot-age-ms": ("7200000", "maxSnapshotAgeHours", "maxSnapshotAgeSeconds", 7200),
    "history.expire.min-snapshots-to-keep": ("9", "minSnapshotsToKeep", "minSnapshotsToKeep", 9),
    "history.expire.max-ref-age-ms": ("7200000", "maxRefAgeHours", "maxRefAgeSeconds", 7200),
    "write.metadata.previous-versions-max": ("7", "metadataVersionsToKeep", "metadataVersionsToKeep", 7),
    "write.metadata.delete-after-commit.enabled": ("true", "deleteOldMetadata", "deleteOldMetadata", True),
    "commit.manifest.target-size-bytes": ("1048576", "targetSizeBytes", "targetSizeBytes", MIB),
    "write.metadata.metrics.max-inferred-column-defaults": ("7", "maxColumns", "maxColumns", 7),
}
LEVELS = ("bucket", "namespace a", "namespace a.b", "table")


def document(setting, value):
    return {"status": "enabled", "settings": {setting: value}}


def layers(**set_at):
    return [(level, set_at.get(level.replace(" ", "_").replace(".", "_"), {})) for level in LEVELS]


def test_the_table_has_every_setting_and_no_other():
    assert set(CASES) == {(PolicyType(kind), name) for kind, rules in SETTINGS.items() for name in rules}
    assert set(PROPERTY_CASES) == {name for known in PROPERTIES.values() for name in known}


def test_every_member_of_a_policy_in_force_is_decided_by_a_setting():
    decided = {member for _, _, member, _, _ in CASES.values()}
    told = {field.name for field in fields(InForce)} - {
        "interval_seconds",
        "quiet_hours",
        "dry_run",
        "max_concurrent_jobs",
    }
    for kind in PolicyType:
        members = {field.name for field in fields(effective(kind, [], {}))}
        assert members - told <= decided


@pytest.mark.parametrize(("kind", "setting"), list(CASES), ids=str)
class TestEachSetting:
    def test_is_accepted(self, kind, setting):
        first, second, *_ = CASES[kind, setting]
        for value in (first, second):
            assert validate(kind, document(setting, value), allow_unsafe=False) == document(setting, value)

    def test_is_refused_where_it_does_not_belong(self, kind, setting):
        first, *_ = CASES[kind, setting]
        for other in PolicyType:
            if setting not in SETTINGS[other]:
                with pytest.raises(Invalid, match=f"unknown setting '{setting}' of {other}: it has "):
                    validate(other, document(setting, first), allow_unsafe=True)

    def test_is_inherited_from_each_level_and_told_with_it(self, kind, setting):
        value, _, member, in_force, _ = CASES[kind, setting]
        for place, level in enumerate(LEVELS):
            named = [(name, document(setting, value) if name == level else {}) for name in LEVELS]
            assert explain(kind, named, {}).settings[setting].value == value
            assert explain(kind, named, {}).settings[setting].source == level
            policy = effective(kind, [at for _, at in named], {})
            assert getattr(policy, member) == in_force, f"set at level {place}"

    def test_of_a_nearer_level_wins_over_each_wider_one(self, kind, setting):
        wide, near, member, _, in_force = CASES[kind, setting]
        for wider in range(len(LEVELS)):
            for nearer in range(wider + 1, len(LEVELS)):
                named = [(name, {}) for name in LEVELS]
                named[wider] = (LEVELS[wider], document(setting, wide))
                named[nearer] = (LEVELS[nearer], document(setting, near))
                found = explain(kind, named, {}).settings[setting]
                assert (found.value, found.source) == (near, LEVELS[nearer])
                assert getattr(effective(kind, [at for _, at in named], {}), member) == in_force

    def test_decides_something_that_the_default_does_not(self, kind, setting):
        first, second, member, *_ = CASES[kind, setting]
        default = getattr(effective(kind, [], {}), member)
        changed = [getattr(effective(kind, [document(setting, v)], {}), member) for v in (first, second)]
        assert changed[0] != changed[1]
        assert default not in changed or changed.count(default) == 1

    def test_given_as_null_is_as_if_it_were_not_given(self, kind, setting):
        assert validate(kind, document(setting, None), allow_unsafe=False)["settings"] == {}


@pytest.mark.parametrize("name", list(PROPERTY_CASES))
def test_a_property_counts_below_the_tables_policy_and_above_all_others(name):
    text, setting, told, value = PROPERTY_CASES[name]
    (kind,) = [PolicyType(kind) for kind, known in PROPERTIES.items() if name in known]
    own, other, member, in_force, _ = CASES[kind, setting]
    inherited = layers(bucket=document(setting, other), namespace_a_b=document(setting, other))
    found = explain(kind, inherited, {name: text}).settings
    assert (found[told].value, found[told].source) == (value, f"property {name}")
    assert setting == told or setting not in found
    with_own = [*inherited[:-1], ("table", document(setting, own))]
    found = explain(kind, with_own, {name: text}).settings
    assert (found[setting].value, found[setting].source) == (own, "table")
    assert setting == told or told not in found
    assert getattr(effective(kind, [at for _, at in with_own], {name: text}), member) == in_force


@pytest.mark.parametrize("name", [name for name in PROPERTY_CASES if not name.endswith(".enabled")])
def test_a_property_below_its_floor_counts_as_the_floor_with_a_note(name):
    (kind,) = [PolicyType(kind) for kind, known in PROPERTIES.items() if name in known]
    setting = PROPERTY_CASES[name][1]
    known = PROPERTIES[kind][name]
    policy = effective(kind, [], {name: "1"})
    floor_is_one = known.floor == 1
    assert policy.notes == (
        () if floor_is_one else (f"table property {name} is 1, below the floor: {known.floor} used",)
    )
    for nonsense in ("0", "-5", "many", ""):
        ignored = effective(kind, [], {name: nonsense})
        assert ignored.notes == (f"table property {name} is {nonsense!r}, not {known.expected}: ignored",)
        member = CASES[kind, setting][2]
        assert getattr(ignored, member) == getattr(effective(kind, [], {}), member)
