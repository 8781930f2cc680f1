"""Policy documents: bounds, defaults, inheritance, table properties, safety floors."""

import pytest

from maintenance.policies import (
    COMPACTION,
    RECORDS,
    SNAPSHOTS,
    UNREFERENCED,
    CompactionPolicy,
    PolicyType,
    SnapshotPolicy,
    Sourced,
    Tier,
    UnreferencedPolicy,
    complete,
    default_tiers,
    defaults,
    effective,
    explain,
    validate,
)
from maintenance.setting_rules import MIB, SETTINGS
from table_format.errors import Invalid


def document(**settings):
    return {"status": "enabled", "settings": settings}


def compaction(*layers, properties=None):
    policy = effective(COMPACTION, layers, properties or {})
    assert isinstance(policy, CompactionPolicy)
    return policy


def snapshots(*layers, properties=None):
    policy = effective(SNAPSHOTS, layers, properties or {})
    assert isinstance(policy, SnapshotPolicy)
    return policy


def unreferenced(*layers, properties=None):
    policy = effective(UNREFERENCED, layers, properties or {})
    assert isinstance(policy, UnreferencedPolicy)
    return policy


def test_the_defaults_are_those_of_s3_tables():
    assert compaction() == CompactionPolicy(
        disabled_reason=None,
        target_file_size_bytes=512 * MIB,
        tiers=(
            Tier(below_bytes=32 * MIB, target_bytes=64 * MIB),
            Tier(below_bytes=384 * MIB, target_bytes=512 * MIB),
        ),
        min_input_files=5,
        trigger_file_count=10,
        min_file_age_seconds=0,
        interval_seconds=3600,
    )
    assert snapshots() == SnapshotPolicy(
        disabled_reason=None,
        min_snapshots_to_keep=1,
        max_snapshot_age_ms=120 * 3600 * 1000,
        max_ref_age_ms=None,
        interval_seconds=3600,
    )
    assert unreferenced() == UnreferencedPolicy(
        disabled_reason=None,
        unreferenced_seconds=3 * 86400,
        noncurrent_seconds=10 * 86400,
        interval_seconds=86400,
    )


@pytest.mark.parametrize("kind", list(PolicyType))
def test_the_default_documents_are_valid_themselves(kind):
    assert validate(kind, defaults(kind), allow_unsafe=False) == defaults(kind)


@pytest.mark.parametrize(
    ("target", "tiers"),
    [
        (512 * MIB, ((32 * MIB, 64 * MIB), (384 * MIB, 512 * MIB))),
        (128 * MIB, ((32 * MIB, 64 * MIB), (96 * MIB, 128 * MIB))),
        (64 * MIB, ((32 * MIB, 64 * MIB),)),
        (16 * MIB, ((8 * MIB, 16 * MIB),)),
    ],
)
def test_the_second_tier_vanishes_for_small_targets(target, tiers):
    assert default_tiers(target) == tuple(Tier(below_bytes=low, target_bytes=top) for low, top in tiers)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (COMPACTION, document(targetFileSizeMB=63), "targetFileSizeMB is 63: it must be between 64 and 512"),
        (COMPACTION, document(targetFileSizeMB=513), "must be between 64 and 512"),
        (COMPACTION, document(targetFileSizeMB="512"), "must be a whole number"),
        (COMPACTION, document(minInputFiles=True), "must be a whole number"),
        (COMPACTION, document(minInputFiles=1), "must be between 2 and 10000"),
        (COMPACTION, document(strategy="zorder"), "must be one of auto, binpack, sort, z-order"),
        (COMPACTION, document(strategy=["sort"]), "must be one of auto, binpack, sort, z-order"),
        (
            COMPACTION,
            document(minSnapshotsToKeep=1),
            "unknown setting 'minSnapshotsToKeep' of icebergCompaction",
        ),
        (COMPACTION, document(sortOrder=[]), "list of 1 to 16"),
        (COMPACTION, document(sortOrder="a"), "list of 1 to 16"),
        (COMPACTION, document(sortOrder=[{"direction": "asc"}]), "must have a column"),
        (COMPACTION, document(sortOrder=[{"column": "a", "order": 1}]), "may have transform"),
        (COMPACTION, document(sortOrder=[{"column": ""}]), "the name of a column"),
        (COMPACTION, document(sortOrder=[{"column": "a", "direction": "up"}]), "asc or desc"),
        (COMPACTION, document(sortOrder=[{"column": "a", "transform": 3}]), "transform is 3"),
        (COMPACTION, document(sortOrder=[{"column": "a", "nullOrder": "last"}]), "nulls-first or nulls-last"),
        (COMPACTION, document(sortOrder=[{"column": "a"}, {"column": "a"}]), "the same column twice"),
        (COMPACTION, document(tiers=[]), "list of 1 to 8"),
        (COMPACTION, document(tiers=[{"belowBytes": 2048}]), "exactly belowBytes and targetBytes"),
        (
            COMPACTION,
            document(tiers=[{"belowBytes": 2048, "targetBytes": 2048}]),
            "greater than its belowBytes",
        ),
        (COMPACTION, document(tiers=[{"belowBytes": 1, "targetBytes": 2048}]), "between 1024"),
        (
            COMPACTION,
            document(
                tiers=[
                    {"belowBytes": 4096, "targetBytes": 8192},
                    {"belowBytes": 4096, "targetBytes": 9000},
                ]
            ),
            "greater than the tier before it",
        ),
        (SNAPSHOTS, document(minSnapshotsToKeep=-1), "between 0 and"),
        (SNAPSHOTS, document(minSnapshotsToKeep=0), "unsafe"),
        (SNAPSHOTS, document(maxRefAgeSeconds=3599), "unsafe"),
        (SNAPSHOTS, document(maxSnapshotAgeHours=0), "between 1 and"),
        (SNAPSHOTS, document(maxSnapshotAgeHours=1, maxSnapshotAgeSeconds=3600), "say the same thing"),
        (SNAPSHOTS, document(maxSnapshotAgeSeconds=3599), "unsafe"),
        (UNREFERENCED, document(unreferencedDays=0), "between 1 and"),
        (UNREFERENCED, document(nonCurrentDays=1, nonCurrentSeconds=86400), "say the same thing"),
        ("icebergSort", document(), "unknown policy type 'icebergSort'"),
        (COMPACTION, {"status": False}, 'write "enabled" or "disabled"'),
        (COMPACTION, {"status": "on"}, 'write "enabled" or "disabled"'),
        (COMPACTION, {"status": "enabled", "setting": {}}, "unknown member 'setting'"),
        (COMPACTION, {"status": "enabled", "settings": []}, "must be a JSON object"),
        (COMPACTION, [], "a policy is a JSON object"),
    ],
)
def test_a_wrong_document_is_refused_with_what_is_wrong(kind, given, message):
    with pytest.raises(Invalid, match=r".*" + message.replace("(", r"\(")):
        validate(kind, given, allow_unsafe=False)


def test_a_disabled_policy_needs_no_settings():
    assert validate(COMPACTION, {"status": "disabled"}, allow_unsafe=False) == {
        "status": "disabled",
        "settings": {},
    }


def test_small_tiers_and_short_ages_as_a_trial_on_little_data_uses_them():
    tiers = [{"belowBytes": 98304, "targetBytes": 196608}, {"belowBytes": 786432, "targetBytes": 1048576}]
    wanted = document(tiers=tiers, minInputFiles=2, triggerFileCount=2, strategy="binpack")
    assert validate(COMPACTION, wanted, allow_unsafe=False) == wanted
    assert [tier.target_bytes for tier in compaction(wanted).tiers] == [196608, 1048576]
    short = document(minSnapshotsToKeep=1, maxSnapshotAgeSeconds=1)
    assert validate(SNAPSHOTS, short, allow_unsafe=True) == short
    in_force = effective(SNAPSHOTS, [short], {}, allow_unsafe=True)
    assert isinstance(in_force, SnapshotPolicy)
    assert (in_force.max_snapshot_age_ms, in_force.enabled, in_force.notes) == (1000, True, ())


def test_null_settings_are_dropped():
    given = document(targetFileSizeMB=None, minInputFiles=3)
    assert validate(COMPACTION, given, allow_unsafe=False) == document(minInputFiles=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"unreferencedSeconds": 1},
        {"nonCurrentSeconds": 86_399},
        {"unreferencedSeconds": 43_200, "nonCurrentSeconds": 43_199},
    ],
)
def test_maint_A1_ages_under_a_day_are_refused_unless_unsafe_is_allowed(settings):
    with pytest.raises(Invalid, match="commits in flight"):
        validate(UNREFERENCED, document(**settings), allow_unsafe=False)
    assert validate(UNREFERENCED, document(**settings), allow_unsafe=True) == document(**settings)


def test_maint_A1_no_mix_of_allowed_levels_gets_below_a_day():
    bucket = validate(
        UNREFERENCED, document(unreferencedSeconds=0, nonCurrentSeconds=86_400), allow_unsafe=False
    )
    table = validate(UNREFERENCED, document(unreferencedSeconds=86_400), allow_unsafe=False)
    with pytest.raises(Invalid, match="add up to 0 s"):
        validate(UNREFERENCED, document(nonCurrentSeconds=0), allow_unsafe=False)
    policy = unreferenced(bucket, {}, table)
    assert policy.unreferenced_seconds + policy.noncurrent_seconds == 172_800


def test_a_nearer_level_overrides_setting_by_setting():
    bucket = document(targetFileSizeMB=128, minInputFiles=7)
    namespace = document(minInputFiles=3)
    table = {"status": "disabled", "settings": {"triggerFileCount": 2}}
    policy = compaction(bucket, namespace, table)
    assert policy.disabled_reason == "the policy is disabled"
    assert (policy.target_file_size_bytes, policy.min_input_files, policy.trigger_file_count) == (
        128 * MIB,
        3,
        2,
    )


def test_a_nearer_level_enables_again():
    assert compaction({"status": "disabled", "settings": {}}, document()).enabled


def test_hours_at_a_nearer_level_override_seconds_of_a_wider_one():
    policy = snapshots(document(maxSnapshotAgeSeconds=7200), document(maxSnapshotAgeHours=5))
    assert policy.max_snapshot_age_ms == 5 * 3600 * 1000


def test_tiers_overrule_the_target_size_beside_them_and_of_wider_levels():
    tiers = [{"belowBytes": 4096, "targetBytes": 8192}]
    for layers in (
        [document(tiers=tiers, targetFileSizeMB=128)],
        [document(targetFileSizeMB=128), document(tiers=tiers)],
    ):
        policy = compaction(*layers)
        assert policy.tiers == (Tier(below_bytes=4096, target_bytes=8192),)
        assert policy.target_file_size_bytes == 8192


def test_a_nearer_target_size_replaces_tiers_of_a_wider_level():
    policy = compaction(
        document(tiers=[{"belowBytes": 4096, "targetBytes": 8192}]), document(targetFileSizeMB=64)
    )
    assert policy.tiers == (Tier(below_bytes=32 * MIB, target_bytes=64 * MIB),)


def test_the_order_is_table_policy_property_namespace_bucket_default():
    properties = {"history.expire.min-snapshots-to-keep": "4"}
    bucket, namespace = document(minSnapshotsToKeep=2), document(minSnapshotsToKeep=3)
    assert snapshots(bucket, namespace, {}).min_snapshots_to_keep == 3
    assert snapshots(bucket, namespace, {}, properties=properties).min_snapshots_to_keep == 4
    assert (
        snapshots(
            bucket, namespace, document(minSnapshotsToKeep=5), properties=properties
        ).min_snapshots_to_keep
        == 5
    )


def test_iceberg_properties_are_respected():
    policy = snapshots(
        {},
        properties={
            "history.expire.max-snapshot-age-ms": "7200000",
            "history.expire.min-snapshots-to-keep": "9",
            "history.expire.max-ref-age-ms": "10800000",
        },
    )
    assert (policy.max_snapshot_age_ms, policy.min_snapshots_to_keep, policy.max_ref_age_ms) == (
        7200000,
        9,
        10800000,
    )
    target = compaction({}, properties={"write.target-file-size-bytes": str(128 * MIB)})
    assert target.target_file_size_bytes == 128 * MIB


def test_a_property_never_goes_below_the_floor_and_nonsense_is_ignored_with_a_note():
    policy = snapshots(
        {},
        properties={
            "history.expire.max-snapshot-age-ms": "1",
            "history.expire.min-snapshots-to-keep": "many",
        },
    )
    assert (policy.max_snapshot_age_ms, policy.min_snapshots_to_keep) == (3600_000, 1)
    assert policy.notes == (
        "table property history.expire.max-snapshot-age-ms is 1, below the floor: 3600000 used",
        "table property history.expire.min-snapshots-to-keep is 'many', not a positive whole number: ignored",
    )


def test_maint_A10_gc_enabled_false_stops_what_deletes_but_not_compaction():
    properties = {"gc.enabled": "False"}
    reason = "the table property gc.enabled is false: its files may belong to another table"
    assert snapshots(document(), properties=properties).disabled_reason == reason
    assert unreferenced(document(), properties=properties).disabled_reason == reason
    assert compaction(document(), properties=properties).disabled_reason is None


def test_explain_names_the_source_of_every_value():
    layers = [
        ("bucket", document(minSnapshotsToKeep=2)),
        ("namespace", {}),
        ("table", document(maxSnapshotAgeHours=9)),
    ]
    found = explain(SNAPSHOTS, layers, {"history.expire.min-snapshots-to-keep": "3"})
    assert found.settings == {
        "status": Sourced("enabled", "table"),
        "minSnapshotsToKeep": Sourced(3, "property history.expire.min-snapshots-to-keep"),
        "maxSnapshotAgeHours": Sourced(9, "table"),
        "metadataVersionsToKeep": Sourced(100, "default"),
        "deleteOldMetadata": Sourced(False, "default"),
        "cleanExpiredMetadata": Sourced(False, "default"),
        "dryRun": Sourced(False, "default"),
        "intervalSeconds": Sourced(3600, "default"),
    }


def stored(**settings):
    """A document as a server that allowed it has stored it."""
    return document(**settings)


@pytest.mark.parametrize(
    ("kind", "settings", "told", "notes"),
    [
        (
            SNAPSHOTS,
            {"minSnapshotsToKeep": 0, "maxSnapshotAgeSeconds": 1, "maxRefAgeSeconds": 3599},
            {"minSnapshotsToKeep": 1, "maxSnapshotAgeSeconds": 3600, "maxRefAgeSeconds": 3600},
            ["minSnapshotsToKeep is 0", "maxSnapshotAgeSeconds is 1", "maxRefAgeSeconds is 3599"],
        ),
        (SNAPSHOTS, {"maxSnapshotAgeSeconds": 3600}, {"maxSnapshotAgeSeconds": 3600}, []),
        (
            UNREFERENCED,
            {"unreferencedSeconds": 1, "nonCurrentSeconds": 60},
            {"unreferencedSeconds": 86_340, "nonCurrentSeconds": 60},
            ["unreferencedSeconds is 1"],
        ),
        (UNREFERENCED, {"unreferencedSeconds": 0, "nonCurrentDays": 1}, {"unreferencedSeconds": 0}, []),
    ],
)
def test_what_was_stored_below_a_floor_counts_as_the_floor_and_says_so(kind, settings, told, notes):
    layers = [("bucket", stored(**settings)), ("table", {})]
    found = explain(kind, layers, {})
    assert {name: found.value(name) for name in told} == told
    assert {found.settings[name].source for name in told} == {"bucket"}
    assert [note.partition(" (bucket), below the floor: ")[0] for note in found.notes] == notes
    policy = effective(kind, [at for _, at in layers], {})
    assert len(policy.notes) == len(notes)
    allowed = explain(kind, layers, {}, allow_unsafe=True)
    assert {name: allowed.value(name) for name in settings} == settings
    assert allowed.notes == ()


def test_levels_that_are_harmless_alone_are_not_below_a_day_together():
    policy = unreferenced(stored(unreferencedSeconds=0), stored(nonCurrentSeconds=1))
    assert policy.unreferenced_seconds + policy.noncurrent_seconds == 86_400
    (note,) = policy.notes
    assert note.startswith("unreferencedSeconds is 0 (level 0), below the floor: 86399 used; that needs a ")


@pytest.mark.parametrize("kind", list(PolicyType))
def test_completed_every_setting_has_a_source_and_no_level_says_it_twice(kind):
    every = complete(kind, explain(kind, [("bucket", document()), ("table", {})], {}))
    assert list(every) == ["status", *SETTINGS[kind]]
    assert {sourced.source for name, sourced in every.items() if name != "status"} == {"default"}
    for name, rule in SETTINGS[kind].items():
        if name != "tiers":
            assert every[name].value == rule.default


def test_completed_compaction_tells_what_a_run_goes_by():
    every = complete(COMPACTION, explain(COMPACTION, [("table", document(targetFileSizeMB=64))], {}))
    assert every["tiers"] == Sourced([{"belowBytes": 32 * MIB, "targetBytes": 64 * MIB}], "table")
    assert every["maxBytesPerRun"] == Sourced(8 * 1024 * MIB, "default")
    assert every["targetFileSizeMB"] == Sourced(64, "table")
    properties = {"write.target-file-size-bytes": str(16 * MIB)}
    of_property = complete(COMPACTION, explain(COMPACTION, [("table", {})], properties))
    source = "property write.target-file-size-bytes"
    assert of_property["targetFileSizeMB"] == Sourced(None, source)
    assert of_property["targetFileSizeBytes"] == Sourced(16 * MIB, source)
    assert of_property["tiers"] == Sourced([{"belowBytes": 8 * MIB, "targetBytes": 16 * MIB}], source)
    assert complete(COMPACTION, explain(COMPACTION, [], {}))["tiers"].source == "default"


def test_a_level_that_gives_no_status_leaves_it_to_those_above():
    off = {"status": "disabled", "settings": {}}
    numbers = validate(COMPACTION, {"settings": {"minInputFiles": 8}}, allow_unsafe=False)
    assert numbers == {"settings": {"minInputFiles": 8}}
    assert validate(COMPACTION, {"status": None}, allow_unsafe=False) == {"settings": {}}
    found = explain(COMPACTION, [("bucket", off), ("table", numbers)], {}).settings
    assert (found["status"], found["minInputFiles"]) == (Sourced("disabled", "bucket"), Sourced(8, "table"))
    on = explain(COMPACTION, [("bucket", numbers), ("table", {})], {}).settings
    assert on["status"] == Sourced("enabled", "default")


def test_rows_expire_where_somebody_says_after_how_long_unless_somebody_says_no():
    days = {"settings": {"days": 30}}
    found = explain(RECORDS, [("bucket", {}), ("table", days)], {})
    assert found.settings["status"] == Sourced("enabled", "table")
    off = {"status": "disabled", "settings": {}}
    for layers in ([("bucket", off), ("table", days)], [("bucket", days), ("table", off)]):
        assert explain(RECORDS, layers, {}).settings["status"].value == "disabled"
    other = explain(RECORDS, [("table", {"settings": {"intervalSeconds": 3600}})], {})
    assert other.settings["status"] == Sourced("disabled", "default")


def test_completed_the_unit_that_is_not_in_force_is_none_from_where_the_other_comes():
    layers = [("bucket", document(maxSnapshotAgeHours=9)), ("table", document(maxSnapshotAgeSeconds=7200))]
    every = complete(SNAPSHOTS, explain(SNAPSHOTS, layers, {}))
    assert every["maxSnapshotAgeSeconds"] == Sourced(7200, "table")
    assert every["maxSnapshotAgeHours"] == Sourced(None, "table")
