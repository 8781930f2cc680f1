"""Plans in words: every kind that there is, totals first, long lists cut unless all is wanted."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from catalog_server.cli.plans import _why, print_plan
from maintenance.compaction.plan_types import CompactionPlan, PlannedDeletes, PlannedFile, PlannedGroup
from maintenance.compaction.tiers import BinReason
from maintenance.expiration.plan import ExpirationPlan
from maintenance.orphans.plan import OrphanPlan
from maintenance.ports import Unreferenced
from maintenance.statistics.plan import Column, StatisticsPlan
from table_format.io.store import ObjectInfo

Printed = pytest.CaptureFixture[str]


def shown(capsys: Printed, plan: Any, *, every: bool = False) -> str:
    print_plan(plan, every=every)
    return capsys.readouterr().out


def file(number: int) -> PlannedFile:
    return PlannedFile(
        path=f"s3://lake/t/f{number:03}.parquet", size=1 << 20, records=10, sequence_number=3, delete_files=1
    )


def compaction(groups: int, files: int) -> CompactionPlan:
    return CompactionPlan(
        snapshot_id=5_000_000_000_000_000_000,
        sequence_number=7,
        groups=tuple(
            PlannedGroup(
                spec_id=0,
                partition=(f"p{number}", None, 1.5, UUID(int=number)),
                below_bytes=32 << 20,
                target_bytes=64 << 20,
                reason="fills its tier",
                inputs=tuple(file(number * files + one) for one in range(files)),
            )
            for number in range(groups)
        ),
        remaining_groups=2,
        data_files=1_234,
        left_alone={"large enough": 9},
    )


def test_a_plan_of_compaction_names_groups_and_files(capsys: Printed) -> None:
    told = shown(capsys, compaction(1, 3).to_json())
    for text in (
        "5000000000000000000",
        "groups left for the next run │ 2",
        "1,234",
        "9 large enough",
        "Groups of files to rewrite (1)",
        f"p0, null, 1.5, {UUID(int=0)}",
        "3.0 MiB",
        "fills its tier",
        "binpack",
        "Files to rewrite (3)",
        "s3://lake/t/f002.parquet",
    ):
        assert text in told, told
    assert "more" not in told
    assert "{" not in told


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("leaves-tier", "small, each below 32.0 MiB: together they fill a file"),
        ("remainder", "small, each below 32.0 MiB: twice the largest together"),
        ("unsorted", "not in the table's sort order"),
        ("deletes", "deletes: up to 1 delete files reach one"),
    ],
)
def test_why_files_are_rewritten_is_told_in_words(capsys: Printed, reason: str, told: str) -> None:
    plan = compaction(2, 3)
    short = replace(plan.groups[0], partition=("p",), reason=reason)
    copied, decoded = short, replace(short, rewritten_because="small row groups")
    printed = shown(capsys, replace(plan, groups=(copied, decoded)).to_json())
    assert printed.count(told) == 2
    assert printed.count("row groups copied") == 1
    assert printed.count("decoded: small row groups") == 1


def test_every_reason_of_a_plan_has_words() -> None:
    reasons = {*(str(one) for one in BinReason), "deletes"}
    plan = compaction(1, 1)
    for reason in reasons:
        group = replace(plan.groups[0], reason=reason).to_json()
        assert _why(group) not in reasons


def test_deletes_that_are_stored_anew_are_told(capsys: Printed) -> None:
    merged = PlannedDeletes(spec_id=0, partition=("p",), inputs=(file(1), file(2)))
    vectors = replace(merged, data_files=("s3://lake/t/a", "s3://lake/t/b"))
    told = shown(capsys, replace(compaction(1, 1), deletes=(merged, vectors)).to_json())
    assert "Position deletes to store anew, without their data files (2)" in told
    assert "small: many are merged into one" in told
    assert "superseded by 2 deletion vectors" in told
    assert "{" not in told


def test_of_a_large_plan_the_first_ten_of_each_are_told_and_how_many_there_are(capsys: Printed) -> None:
    plan = compaction(40, 30).to_json()
    told = shown(capsys, plan)
    assert "Groups of files to rewrite (40)" in told
    assert "and 30 more groups: --all prints them, --json the whole plan" in told
    assert "Files to rewrite (1,200)" in told
    assert "and 1,190 more files: --all" in told
    assert told.count(".parquet") == 10
    assert len(told.splitlines()) < 50
    whole = shown(capsys, plan, every=True)
    assert whole.count(".parquet") == 1_200
    assert "more" not in whole


def test_a_plan_of_expiration(capsys: Printed) -> None:
    planned = ExpirationPlan(
        snapshot_ids=tuple(range(10**18, 10**18 + 12)), refs=("old",), older_than_ms=0, kept=3, remaining=0
    )
    told = shown(capsys, {**planned.to_json(), "paths": ["s3://lake/t/a.avro"]})
    for text in (
        "Snapshots to expire (12)",
        "and 2 more entries",
        "1000000000000000009",
        "Branches and tags to remove (1)",
        "Files to delete (1)",
        "s3://lake/t/a.avro",
        "1970-01-01 00:00:00Z",
        "snapshots kept",
    ):
        assert text in told, told


def test_a_plan_of_unreferenced_files(capsys: Printed) -> None:
    planned = OrphanPlan(
        mark=(Unreferenced(path="s3://lake/t/new", size=2048, first_seen_ms=0),),
        forget=("s3://lake/t/back",),
        delete=(ObjectInfo(path="s3://lake/t/old", size=10, modified_ms=0, etag=None),),
        waiting=4,
        too_young=5,
        listed=20,
        next_due_ms=None,
    )
    told = shown(capsys, planned.to_json())
    for text in (
        "Files to mark as unreferenced (1)",
        "2.0 KiB",
        "Files to delete (1)",
        "10 B",
        "s3://lake/t/back",
        "files marked and waiting",
        "files listed",
    ):
        assert text in told, told


def test_a_plan_of_statistics(capsys: Printed) -> None:
    planned = StatisticsPlan(
        snapshot_id=10**18,
        sequence_number=4,
        columns=(
            Column(id=1, name="id", type="long", continued=True),
            Column(id=2, name="kind", type="string", continued=False),
        ),
        since=10**18 - 1,
        unchanged=False,
        partitions=True,
        told=("column 'tags' is a struct, list or map",),
    )
    told = shown(capsys, planned.to_json())
    for text in (
        "Columns whose distinct values are counted (2)",
        "continued",
        "counted anew",
        "1000000000000000000",
        "999999999999999999",
        "Not computed (1)",
        "column 'tags' is a struct, list or map",
        "partition statistics",
    ):
        assert text in told, told


def test_a_plan_of_expiring_records_tells_of_files_that_leave_the_table(capsys: Printed) -> None:
    plan = {
        "column": "at",
        "older-than-ms": 0,
        "files": 1,
        "records": 9,
        "bytes": 2048,
        "paths": ["s3://lake/t/p"],
        "rewrite": [
            {"path": "s3://lake/t/q", "records": 77, "bytes": 4096, "old-share": 0.51},
            {"path": "s3://lake/t/r", "records": 78, "bytes": 4096, "old-share": None},
        ],
        "files-to-rewrite": 2,
        "data-files": 3,
        "left-alone": {},
    }
    told = shown(capsys, plan)
    for text in (
        "Files that leave the table (1)",
        "2.0 KiB",
        "column",
        "records",
        "without their old rows (2)",
    ):
        assert text in told, told
    for text in ("s3://lake/t/q", "77", "51%", "not known"):
        assert text in told, told


def test_a_plan_of_manifests(capsys: Printed) -> None:
    part = {
        "spec-id": 0,
        "content": "data",
        "why": "small",
        "manifests": 7,
        "bytes": 2048,
        "paths": ["s3://lake/t/m.avro"],
    }
    plan = {"parts": [part], "manifests": 9, "target-bytes": 8 << 20, "remaining": 0}
    told = shown(capsys, plan)
    for text in (
        "Manifests to rewrite together (1)",
        "8.0 MiB",
        "2.0 KiB",
        "small",
        "manifests of the table",
    ):
        assert text in told, told
    assert "{" not in told


def test_what_is_not_known_is_told_under_its_own_name(capsys: Printed) -> None:
    told = shown(capsys, {"odd": [["m1", 3], {"path": "m2"}, "m3"], "target": 8, "none": []})
    for text in ("odd (3)", '["m1",3]', '{"path":"m2"}', "m3", "target", "8"):
        assert text in told, told
