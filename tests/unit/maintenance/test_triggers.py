"""Which jobs a snapshot asks for."""

import pytest

from maintenance.policies import COMPACTION, MANIFESTS, SNAPSHOTS, STATISTICS
from maintenance.ports import JobKind
from maintenance.triggers import benefit, expiry_due, table_policies, wants
from table_format.metadata.document import TableMetadata

NOW = 1_700_000_000_000


def metadata(version=2, snapshots=()):
    return TableMetadata(
        {"format-version": version, "location": "memory://w/t", "snapshots": list(snapshots)}
    )


def asked(summary, *, version=2, status="enabled", trigger=10):
    layers = {COMPACTION: [{"status": status, "settings": {"triggerFileCount": trigger}}]}
    return wants(summary, metadata(version), table_policies(layers, {}))


def summary(added, total, deleted=0, operation="append"):
    return {
        "operation": operation,
        "added-data-files": str(added),
        "deleted-data-files": str(deleted),
        "total-data-files": str(total),
    }


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (summary(1, 9), False),
        (summary(1, 10), True),
        (summary(1, 11), False),
        (summary(3, 21), True),
        (summary(25, 26), True),
        (summary(12, 12), True),
        (summary(1, 10, deleted=1, operation="overwrite"), False),
        (summary(1, 10, operation="replace"), False),
        ({"operation": "delete", "total-data-files": "10"}, False),
        ({"operation": "append", "added-data-files": "10"}, True),
        ({"operation": "append", "added-data-files": "9"}, False),
        ({"operation": "append", "added-data-files": "many"}, False),
        ({"operation": "append", "added-data-files": "9" * 5000}, False),
        ({}, False),
    ],
)
def test_compaction_is_asked_for_when_the_file_count_passes_a_multiple(given, answer):
    assert asked(given) == ([JobKind.COMPACTION] if answer else [])


def test_not_for_a_disabled_policy():
    assert asked(summary(1, 10), status="disabled") == []
    assert asked(summary(1, 10), version=3) == [JobKind.COMPACTION]


def asked_by(summary, trigger, value, *, now=2, before=1, version=2):
    layers = {
        COMPACTION: [{"status": "enabled", "settings": {"triggerFileCount": 1_000_000, trigger: value}}]
    }

    def at(number):
        known = {} if version == 1 else {"last-sequence-number": number}
        snapshots = [{"snapshot-id": n, "timestamp-ms": NOW} for n in range(number)]
        return TableMetadata(
            {"format-version": version, "location": "memory://w/t", "snapshots": snapshots, **known}
        )

    return wants(summary, at(now), table_policies(layers, {}), at(before)) == [JobKind.COMPACTION]


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("trigger", "every", "added", "total", "answer"),
    [
        ("triggerBytes", 8 * MIB, {"added-files-size": MIB}, {"total-files-size": 7 * MIB}, False),
        ("triggerBytes", 8 * MIB, {"added-files-size": MIB}, {"total-files-size": 8 * MIB}, True),
        ("triggerBytes", 8 * MIB, {"added-files-size": MIB}, {"total-files-size": 9 * MIB - 1}, True),
        ("triggerBytes", 8 * MIB, {"added-files-size": MIB}, {"total-files-size": 9 * MIB}, False),
        ("triggerBytes", 8 * MIB, {"added-files-size": 8 * MIB}, {}, True),
        ("triggerBytes", 8 * MIB, {"removed-files-size": MIB}, {"total-files-size": 8 * MIB}, False),
        ("triggerDeleteFiles", 3, {"added-delete-files": 1}, {"total-delete-files": 2}, False),
        ("triggerDeleteFiles", 3, {"added-delete-files": 1}, {"total-delete-files": 3}, True),
        (
            "triggerDeleteFiles",
            3,
            {"added-delete-files": 1, "removed-delete-files": 1},
            {"total-delete-files": 3},
            False,
        ),
        ("triggerDeleteRecords", 9, {"added-position-deletes": 8}, {"total-position-deletes": 8}, False),
        ("triggerDeleteRecords", 9, {"added-equality-deletes": 9}, {}, True),
        (
            "triggerDeleteRecords",
            9,
            {"added-position-deletes": 1, "added-equality-deletes": 1},
            {"total-position-deletes": 5, "total-equality-deletes": 4},
            True,
        ),
    ],
)
def test_other_triggers_ask_when_their_count_passes_a_multiple(trigger, every, added, total, answer):
    given = {"operation": "overwrite", **{key: str(value) for key, value in (added | total).items()}}
    assert asked_by(given, trigger, every) is answer
    assert asked_by({**given, "operation": "replace"}, trigger, every) is False
    assert asked_by(given, "minInputFiles", 5) is False  # not set


@pytest.mark.parametrize(
    ("before", "now", "answer"),
    [(8, 9, False), (9, 10, True), (10, 11, False), (18, 21, True), (0, 1, False)],
)
@pytest.mark.parametrize("version", [1, 2])
def test_every_so_many_commits_a_run_is_asked_for(version, before, now, answer):
    given = {"operation": "delete"}
    assert asked_by(given, "triggerCommits", 10, before=before, now=now, version=version) is answer
    assert asked_by(given, "triggerCommits", 1, before=before, now=now, version=version)


def test_expiration_is_due_when_the_oldest_of_several_snapshots_is_too_old():
    def due(*ages_hours, status="enabled"):
        layers = {SNAPSHOTS: [{"status": status, "settings": {"maxSnapshotAgeHours": 10}}]}
        snapshots = [
            {"snapshot-id": n, "timestamp-ms": NOW - age * 3_600_000} for n, age in enumerate(ages_hours)
        ]
        return expiry_due(metadata(snapshots=snapshots), table_policies(layers, {}).snapshots, NOW)

    assert due(11, 1)
    assert not due(10, 1)
    assert not due(11)
    assert not due()
    assert not due(11, 1, status="disabled")


@pytest.mark.parametrize(
    ("before", "after", "operation", "status", "answer"),
    [
        (9, 10, "append", "enabled", True),
        (10, 11, "append", "enabled", False),
        (19, 22, "overwrite", "enabled", True),
        (9, 10, "replace", "enabled", False),
        (9, 10, "append", "disabled", False),
    ],
)
@pytest.mark.parametrize(
    ("policy", "kind"), [(MANIFESTS, JobKind.MANIFESTS), (STATISTICS, JobKind.STATISTICS)]
)
def test_some_jobs_are_asked_for_when_the_commits_pass_a_multiple(
    policy, kind, before, after, operation, status, answer
):
    def at(number):
        members = {"format-version": 3, "location": "memory://w/t", "last-sequence-number": number}
        return TableMetadata({**members, "snapshots": []})

    layers = {policy: [{"status": status, "settings": {"triggerCommits": 10}}]}
    found = wants({"operation": operation}, at(after), table_policies(layers, {}), at(before))
    assert found == ([kind] if answer else [])


def test_statistics_are_only_asked_for_by_commits_where_a_policy_says_how_many():
    metadata = TableMetadata({"format-version": 3, "location": "memory://w/t", "last-sequence-number": 100})
    for layers in ({}, {STATISTICS: [{"status": "enabled", "settings": {}}]}):
        assert JobKind.STATISTICS not in wants({"operation": "append"}, metadata, table_policies(layers, {}))


def test_benefit_grows_with_the_files_that_would_go_per_megabyte():
    policy = table_policies({}, {}).compaction

    def worth(files, size, deletes=0):
        totals = {
            "total-data-files": str(files),
            "total-files-size": str(size),
            "total-delete-files": str(deletes),
        }
        return benefit(totals, policy)

    mib = 1 << 20
    assert worth(1, mib) == 0  # nothing to join
    assert worth(10, 5120 * mib) == 0  # as large as they shall be
    assert worth(101, 100 * mib) == 4
    assert worth(401, 100 * mib) == 5
    assert worth(11, 640 * mib) < worth(101, 640 * mib) < worth(1001, 640 * mib)
    assert worth(1, mib, deletes=16) == 6
    assert worth(10**9, 1) == 9
    assert benefit({}, policy) == 0
    assert benefit({"total-data-files": "many", "total-files-size": "-1"}, policy) == 0
