"""Which files a compaction rewrites together: exact plans over invented snapshots."""

import json
import uuid
from decimal import Decimal

import pytest

from maintenance.compaction.plan import plan
from maintenance.compaction.plan_types import CompactionPlan, Nothing, PlannedFile, PlannedGroup
from maintenance.compaction.tiers import BinReason, pack, worth
from maintenance.policies import CompactionPolicy, Tier, validate
from maintenance.ports import JobSettings
from table_format.errors import Invalid
from table_format.manifest.entries import Content, DataFile, ManifestEntry, Status
from table_format.metadata.document import TableMetadata
from table_format.scan.lines import SnapshotLines
from table_format.scan.plan import FileTask
from tests.factories.lines import lines_of

SMALL = Tier(below_bytes=32, target_bytes=64)
LARGE = Tier(below_bytes=384, target_bytes=512)
NOW = 1_700_000_000_000


def policy(**changes):
    values = {
        "disabled_reason": None,
        "target_file_size_bytes": 512,
        "tiers": (SMALL, LARGE),
        "min_input_files": 5,
        "trigger_file_count": 10,
        "min_file_age_seconds": 0,
        "interval_seconds": 3600,
    }
    return CompactionPolicy(**{**values, **changes})


def metadata(*, version=2, transform="identity", written_ms=0, source=1, columns=()):
    return TableMetadata(
        {
            "format-version": version,
            "table-uuid": "u",
            "location": "memory://w/t",
            "schemas": [
                {
                    "schema-id": 0,
                    "type": "struct",
                    "fields": [{"id": 1, "name": "p", "required": False, "type": "int"}, *columns],
                }
            ],
            "current-schema-id": 0,
            "partition-specs": [
                {"spec-id": 0, "fields": []},
                {
                    "spec-id": 1,
                    "fields": [{"source-id": source, "field-id": 1000, "name": "p", "transform": transform}],
                },
            ],
            "current-snapshot-id": 9,
            "snapshots": [{"snapshot-id": 9, "timestamp-ms": written_ms, "sequence-number": 9}],
        }
    )


def task(path, size, *, sequence=1, deletes=(), **changes):
    values = {"file_path": path, "record_count": 10, "file_size_in_bytes": size, **changes}
    entry = ManifestEntry(
        status=Status.ADDED,
        snapshot_id=9,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=DataFile(**values),
    )
    return FileTask(entry, tuple(deletes))


def files(*tasks):
    return lines_of(9, 9, tasks, [])


def planned(*tasks, settings=None, of=None, **changes):
    return plan(files(*tasks), of or metadata(), policy(**changes), settings or JobSettings(), NOW)


def paths(result):
    return [[file.path for file in group.inputs] for group in result.groups]


def test_an_exact_plan():
    result = planned(
        task("a", 20, sequence=1), task("b", 20, sequence=2), task("c", 500, sequence=3), min_input_files=2
    )
    assert result == CompactionPlan(
        snapshot_id=9,
        sequence_number=9,
        groups=(
            PlannedGroup(
                spec_id=0,
                partition=(),
                below_bytes=32,
                target_bytes=64,
                reason="leaves-tier",
                rewritten_because="small row groups",
                inputs=(
                    PlannedFile(path="a", size=20, records=10, sequence_number=1),
                    PlannedFile(path="b", size=20, records=10, sequence_number=2),
                ),
            ),
        ),
        remaining_groups=0,
        data_files=3,
        left_alone={"large enough": 1},
    )


def test_neighbours_in_time_go_together_and_a_bin_never_exceeds_its_target():
    result = planned(*(task(f"f{n}", 25, sequence=10 - n) for n in range(5)), min_input_files=2)
    assert paths(result) == [["f4", "f3"], ["f2", "f1"]]
    assert all(group.size <= group.target_bytes for group in result.groups)
    assert result.left_alone == {"alone in its bin": 1}


def test_equal_sequence_numbers_are_ordered_by_path():
    result = planned(task("b", 20), task("a", 20), min_input_files=2)
    assert paths(result) == [["a", "b"]]


def test_partitions_and_specs_are_never_mixed():
    result = planned(
        *(task(f"x{n}", 20, spec_id=1, partition=("x",)) for n in range(2)),
        *(task(f"y{n}", 20, spec_id=1, partition=("y",)) for n in range(2)),
        *(task(f"z{n}", 20, spec_id=0) for n in range(2)),
    )
    assert paths(result) == [["z0", "z1"], ["x0", "x1"], ["y0", "y1"]]


def test_nan_partitions_are_one_partition():
    result = planned(
        task("a", 20, spec_id=1, partition=(float("nan"),)),
        task("b", 20, spec_id=1, partition=(float("nan"),)),
    )
    assert paths(result) == [["a", "b"]]


def test_files_of_the_second_tier_are_merged_among_themselves():
    result = planned(*(task(f"f{n}", 100, sequence=n) for n in range(5)), task("small", 5))
    assert paths(result) == [["f0", "f1", "f2", "f3", "f4"]]
    assert (result.groups[0].below_bytes, result.groups[0].target_bytes) == (384, 512)


@pytest.mark.parametrize(
    ("sizes", "minimum", "reason"),
    [
        ([31], 2, None),  # never a single file
        ([16, 16], 5, BinReason.LEAVES_TIER),
        ([15, 16], 2, None),  # 31 is below the border, and not twice the largest
        ([15, 15], 2, BinReason.REMAINDER),
        ([5, 5, 5, 5], 5, None),  # too few
        ([4, 4, 4, 4, 4], 5, BinReason.REMAINDER),
        ([16, 1, 1, 1, 1], 5, None),  # would rewrite 16 for the sake of 4
    ],
)
def test_when_a_bin_is_worth_rewriting(sizes, minimum, reason):
    made = files(*(task(str(n), size, sequence=n) for n, size in enumerate(sizes))).lines
    (candidate,) = pack(made, [SMALL])
    assert worth(candidate, minimum) == reason


def test_packing_passes_over_files_that_are_large_enough():
    assert pack(files(task("large", 32)).lines, [SMALL]) == []


def delete(path, records=1, *, sequence=9, **changes):
    values = {"content": Content.POSITION_DELETES, "record_count": records, **changes}
    return task(path, 1, sequence=sequence, **values).entry


def test_files_with_deletes_are_merged_like_others():
    result = planned(task("a", 20, deletes=[delete("d")]), task("b", 20), task("c", 3))
    assert paths(result) == [["a", "b", "c"]]
    assert [file.delete_files for file in result.groups[0].inputs] == [1, 0, 0]
    assert result.groups[0].reason == "leaves-tier"


def test_what_is_not_worth_merging_is_rewritten_for_its_deletes():
    """Three of ten rows deleted: the default ratio; two of ten is less."""
    heavy = task("a", 20, deletes=[delete("d", 3)])
    assert paths(planned(heavy, task("b", 5))) == [["a"]]
    assert planned(heavy, task("b", 5)).left_alone == {"too little to merge yet": 1}
    assert planned(heavy).groups[0].reason == "deletes"
    light = planned(task("a", 20, deletes=[delete("d", 2)]), task("b", 5))
    assert (type(light), light.left_alone) == (Nothing, {"too little to merge yet": 2})


def test_delete_heavy_files_of_one_bin_become_one_file():
    heavy = [task(n, 5, deletes=[delete(f"d{n}", 5)]) for n in "ab"]
    assert paths(planned(*heavy, task("c", 5))) == [["a", "b"]]


def test_large_files_are_rewritten_for_their_deletes_each_alone():
    large = [task(n, 600, deletes=[delete(f"d{n}", 5)]) for n in "ab"]
    result = planned(*large, task("c", 600, deletes=[delete("few")]), task("e", 600))
    assert paths(result) == [["a"], ["b"]]
    assert result.left_alone == {"large enough": 1, "large enough, with few deletes": 1}


def test_many_delete_files_are_heavy_however_few_rows_they_delete():
    few = [delete(f"d{n}", 0) for n in range(3)]
    assert isinstance(planned(task("a", 600, deletes=few), delete_file_threshold=4), Nothing)
    assert paths(planned(task("a", 600, deletes=few), delete_file_threshold=3)) == [["a"]]


def test_what_reaches_several_files_is_spread_over_their_rows():
    keys = delete("d", 6, content=Content.EQUALITY_DELETES)
    tasks = [task(n, 600, deletes=[keys]) for n in "ab"]
    assert isinstance(planned(*tasks, delete_ratio=0.31), Nothing)
    assert paths(planned(*tasks, delete_ratio=0.3)) == [["a"], ["b"]]


def test_a_file_without_rows_is_not_heavy_by_ratio():
    assert isinstance(planned(task("a", 600, record_count=0, deletes=[delete("d", 5)])), Nothing)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"file_format": "AVRO"}, "a delete file of it has format AVRO"),
        (
            {"file_format": "puffin", "content": Content.EQUALITY_DELETES},
            "a delete file of it has format PUFFIN",
        ),
        ({"key_metadata": b"k"}, "a delete file of it is encrypted"),
        (
            {"spec_id": 1, "partition": (1,)},
            "a position delete that names it is filed under another partition",
        ),
    ],
)
def test_files_whose_deletes_cannot_be_applied_are_left_alone_with_the_reason(changes, reason):
    bad = task("d", 1, **{"content": Content.POSITION_DELETES, **changes}).entry
    result = planned(task("a", 20, deletes=[bad]), task("b", 20), task("c", 20))
    assert paths(result) == [["b", "c"]]
    assert result.left_alone == {reason: 1}


@pytest.mark.parametrize("value", [0, -0.1, 1.01, True, "0.3", float("nan")])
def test_a_ratio_that_makes_no_sense_is_refused(value):
    with pytest.raises(Invalid, match="setting deleteRatio is"):
        validate(
            "icebergCompaction",
            {"status": "enabled", "settings": {"deleteRatio": value}},
            allow_unsafe=True,
        )


def test_most_files_and_deletes_first():
    deletes = [delete(f"d{n}", spec_id=1, partition=(2,)) for n in range(3)]
    burdened = task("x", 20, spec_id=1, partition=(2,), deletes=deletes)
    tasks = [task(f"p{n}", 20, spec_id=1, partition=(1,)) for n in range(3)]
    assert paths(planned(burdened, *tasks, delete_file_threshold=3)) == [["x"], ["p0", "p1", "p2"]]


def test_maint_C11_lower_case_parquet_is_parquet():
    result = planned(task("a", 20, file_format="parquet"), task("b", 20, file_format="PARQUET"))
    assert paths(result) == [["a", "b"]]


def test_what_cannot_be_rewritten_is_counted_with_its_reason():
    result = planned(
        task("orc", 20, file_format="ORC"),
        task("secret", 20, key_metadata=b"k"),
        task("odd", 20, spec_id=1, partition=(1,)),
        of=metadata(transform="zcurve[3]"),
    )
    assert isinstance(result, Nothing)
    assert result.left_alone == {"encrypted": 1, "format ORC": 1, "partition transform unknown here": 1}
    assert "1 encrypted, 1 format ORC, 1 partition transform unknown here" in result.reason


def test_files_of_a_partition_column_that_was_dropped_are_left_alone():
    result = planned(*(task(n, 20, spec_id=1, partition=(1,)) for n in "ab"), of=metadata(source=2))
    assert isinstance(result, Nothing)
    assert result.left_alone == {"partition column was dropped": 2}


@pytest.mark.parametrize("transform", ["identity", "month", "hour", "bucket[16]", "truncate[4]", "void"])
def test_known_transforms(transform):
    result = planned(
        *(task(n, 20, spec_id=1, partition=(1,)) for n in "ab"), of=metadata(transform=transform)
    )
    assert paths(result) == [["a", "b"]]


def test_young_files_are_left_until_they_are_old_enough():
    young = [task("a", 20), task("b", 20)]
    result = planned(*young, of=metadata(written_ms=NOW - 59_000), min_file_age_seconds=60)
    assert isinstance(result, Nothing)
    assert result.left_alone == {"younger than minFileAgeSeconds": 2}
    assert isinstance(
        planned(*young, of=metadata(written_ms=NOW - 61_000), min_file_age_seconds=60), CompactionPlan
    )


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"type": "variant"}, "column 'c' is of type variant, which is not rewritten here"),
        ({"type": "geometry(EPSG:3857)"}, "column 'c' is of type geometry, which is not rewritten here"),
        ({"type": "Geography"}, "column 'c' is of type geography, which is not rewritten here"),
        (
            {"type": {"type": "list", "element-id": 8, "element": "variant", "element-required": False}},
            "column 'c.element' is of type variant, which is not rewritten here",
        ),
        (
            {
                "type": {
                    "type": "struct",
                    "fields": [{"id": 8, "name": "u", "required": False, "type": "unknown"}],
                }
            },
            "column 'c.u' is of type unknown inside another column, which is not rewritten here",
        ),
        ({"type": "interval"}, "unknown type 'interval'"),
        (
            {"name": "_row_id", "type": "long"},
            "column '_row_id' has the name of a column that rewritten files store for row lineage",
        ),
    ],
)
def test_a_table_with_a_column_that_cannot_be_rewritten_is_left_alone_with_the_reason(column, reason):
    of = metadata(version=3, columns=[{"id": 7, "name": "c", "required": False, **column}])
    result = planned(task("a", 20), task("b", 20), of=of)
    assert isinstance(result, Nothing)
    assert result.reason == f"the table is left alone: {reason}"
    assert result.data_files == 2


def test_a_table_of_unknown_columns_only_is_left_alone():
    of = metadata(version=2)
    of = TableMetadata(
        {**of.document, "schemas": [{"schema-id": 0, "type": "struct", "fields": [
            {"id": 1, "name": "p", "required": False, "type": "unknown"}
        ]}]}
    )  # fmt: skip
    assert "all its columns are of type unknown" in planned(task("a", 20), task("b", 20), of=of).reason


def test_a_format_version_of_the_future_is_left_alone():
    result = planned(task("a", 20), task("b", 20), of=metadata(version=4))
    assert result.reason == "the table is left alone: format version 4 is not known here"


def test_an_empty_table_has_nothing_to_do():
    assert plan(SnapshotLines(None, 0, []), metadata(), policy(), JobSettings(), NOW) == Nothing(
        reason="the table has no data files"
    )


def test_maint_D3_a_run_with_nothing_to_do_says_which_rule_said_no():
    result = planned(task("a", 5), task("b", 6), task("big", 400))
    assert result == Nothing(
        reason=(
            "no group of files is worth rewriting: 1 large enough, 2 too little to merge yet (files from 384 bytes "
            "are large enough; a group must reach its tier's border, or have 5 files and twice the bytes of its "
            "largest)"
        ),
        data_files=3,
        left_alone={"large enough": 1, "too little to merge yet": 2},
    )


def test_one_run_takes_what_its_limits_allow_most_files_first():
    tasks = [task(f"p{p}-{n}", 20, spec_id=1, partition=(p,)) for p in range(4) for n in range(2)]
    tasks += [task(f"p9-{n}", 10, spec_id=1, partition=(9,)) for n in range(6)]
    by_bytes = planned(*tasks, max_bytes_per_run=100)
    assert [group.partition for group in by_bytes.groups] == [(9,), (0,)]
    assert by_bytes.remaining_groups == 3
    by_number = planned(*tasks, settings=JobSettings(max_groups_per_run=1))
    assert [group.partition for group in by_number.groups] == [(9,)]
    tiny = planned(*tasks, max_bytes_per_run=1)
    assert len(tiny.groups) == 1


def test_a_plan_survives_json():
    partition = (True, 3, "x", None, 1.5, float("-inf"), b"\x00\xff", Decimal("1.10"), uuid.UUID(int=7))
    result = planned(*(task(n, 20, spec_id=1, partition=partition) for n in "ab"))
    assert CompactionPlan.from_json(json.loads(json.dumps(result.to_json()))) == result
    nothing = planned(task("a", 5))
    assert Nothing.from_json(json.loads(json.dumps(nothing.to_json()))) == nothing


def test_a_foreign_partition_value_is_refused():
    document = planned(task("a", 20), task("b", 20)).groups[0].to_json()
    with pytest.raises(Invalid, match="not a stored partition value"):
        PlannedGroup.from_json({**document, "partition": [{"date": "2020"}]})


def test_maint_D4_planning_and_rewriting_ends_and_then_does_nothing():
    """Outputs of exactly the size of their inputs: each row moves at most a few times."""
    tasks = [task(f"f{n:03}", 3 + n % 7, sequence=n) for n in range(200)]
    rounds = 0
    while isinstance(result := planned(*tasks), CompactionPlan):
        rounds += 1
        gone = {file.path for group in result.groups for file in group.inputs}
        assert len(gone) > len(result.groups)
        tasks = [known for known in tasks if known.entry.data_file.file_path not in gone]
        tasks += [task(f"r{rounds}-{n}", group.size, sequence=500) for n, group in enumerate(result.groups)]
    assert rounds <= 6
    assert len(tasks) <= 6
    assert sum(known.entry.data_file.file_size_in_bytes for known in tasks) == sum(
        3 + n % 7 for n in range(200)
    )
