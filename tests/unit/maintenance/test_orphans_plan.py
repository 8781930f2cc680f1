"""Which listed files are unreferenced, and when to stop: exact plans over invented listings."""

import pytest

from maintenance.orphans.plan import Ages, Evidence, OrphanPlan, Stop, ages, plan
from maintenance.places import References, after_authority, inside, overlapping, own_roots
from maintenance.policies import UnreferencedPolicy
from maintenance.ports import JobSettings, Unreferenced
from table_format.io.store import ObjectInfo

DAY = 86_400_000
NOW = 1_700_000_000_000
AGES = Ages(unreferenced_ms=3 * DAY, noncurrent_ms=10 * DAY)
LOCATION = "s3://b/t"


def info(name, *, age=30, size=10):
    return ObjectInfo(
        name if "://" in name else f"{LOCATION}/{name}", size, None if age is None else NOW - age * DAY
    )


def planned(listing, referenced=(), *, must=(), known=None, location=LOCATION, **more):
    evidence = Evidence(
        location=location,
        listing=listing,
        references=References(referenced),
        must_be_listed=must,
        known=known or {},
    )
    return plan(evidence, AGES, more.pop("settings", JobSettings()), NOW, **more)


def test_the_first_run_marks_and_deletes_nothing():
    assert planned([info("data/a"), info("data/x")], ["s3://b/t/data/a"]) == OrphanPlan(
        mark=(Unreferenced(path="s3://b/t/data/x", size=10, first_seen_ms=NOW),),
        forget=(),
        delete=(),
        waiting=0,
        too_young=0,
        listed=2,
        next_due_ms=NOW + 10 * DAY,
    )


def test_a_file_marked_for_long_enough_is_deleted_and_not_before():
    waiting = planned([info("x")], known={"s3://b/t/x": NOW - 10 * DAY + 1})
    assert (waiting.delete, waiting.waiting, waiting.next_due_ms) == ((), 1, NOW + 1)
    due = planned([info("x")], known={"s3://b/t/x": NOW - 10 * DAY})
    assert [found.path for found in due.delete] == ["s3://b/t/x"]
    assert due.mark == ()
    assert due.bytes_to_delete == 10


def test_a_marked_file_that_is_referenced_again_or_gone_is_forgotten():
    result = planned([info("a")], ["s3://b/t/a"], known={"s3://b/t/a": 0, "s3://b/t/gone": 0})
    assert result.forget == ("s3://b/t/a", "s3://b/t/gone")
    assert result.delete == ()


def test_maint_A1_a_young_file_may_belong_to_a_commit_in_flight():
    result = planned([info("a", age=2.9)])
    assert (result.mark, result.too_young) == ((), 1)


def test_maint_A11_unknown_or_zero_time_keeps_the_file():
    listing = [info("a", age=None), ObjectInfo("s3://b/t/z", 1, 0)]
    result = planned(listing, known={"s3://b/t/a": 0, "s3://b/t/z": 0})
    assert (result.mark, result.delete, result.too_young) == ((), (), 2)


def test_maint_A2_s3a_and_s3n_are_s3():
    listing = [info("a"), info("b")]
    result = planned(listing, ["s3a://b/t/a", "s3n://b/t/b"], must=["s3a://b/t/a"])
    assert (result.mark, result.listed) == ((), 2)


def test_maint_A2_another_spelling_of_the_authority_stops_the_job():
    listing = [ObjectInfo("hdfs://host/t/data/a", 1, 1)]
    result = planned(listing, ["hdfs:/t/data/a"], location="hdfs://host/t")
    assert isinstance(result, Stop)
    assert "another scheme or authority" in result.reason


def test_maint_A2_a_referenced_file_that_is_not_listed_stops_the_job():
    result = planned([info("x")], ["s3://b/t/data/a"], must=["s3://b/t/data/a"])
    assert isinstance(result, Stop)
    assert "1 referenced files are not among those listed below s3://b/t (s3://b/t/data/a)" in result.reason


def test_a_referenced_file_elsewhere_need_not_be_listed():
    assert isinstance(planned([info("x")], must=["s3://other/data/a"]), OrphanPlan)


@pytest.mark.parametrize("name", ["data/x=a#b/f.parquet", "data/x=a?b/f.parquet", "data/a%20b+c.parquet"])
def test_maint_A4_paths_are_compared_as_raw_text(name):
    result = planned([info(name)], [f"{LOCATION}/{name}"], must=[f"{LOCATION}/{name}"])
    assert (result.mark, result.delete) == ((), ())


def test_a_share_that_is_too_large_stops_the_job_unless_confirmed():
    listing = [info(f"x{n}") for n in range(21)] + [info(f"a{n}") for n in range(20)]
    referenced = [f"{LOCATION}/a{n}" for n in range(20)]
    stopped = planned(listing, referenced)
    assert isinstance(stopped, Stop)
    assert "21 of 41 files" in stopped.reason
    assert len(planned(listing, referenced, allow_large_share=True).mark) == 21
    assert len(planned(listing[1:], referenced).mark) == 20


def test_the_ages_never_sum_to_less_than_a_day_unless_allowed():
    policy = UnreferencedPolicy(
        disabled_reason=None, unreferenced_seconds=1, noncurrent_seconds=60, interval_seconds=1
    )
    assert ages(policy, JobSettings()) == Ages(unreferenced_ms=DAY - 60_000, noncurrent_ms=60_000)
    assert ages(policy, JobSettings(allow_unsafe=True)) == Ages(unreferenced_ms=1000, noncurrent_ms=60_000)


@pytest.mark.parametrize(
    ("path", "within"),
    [
        ("s3://b/t/x", True),
        ("s3a://b/t/x", True),
        ("s3://b/t", False),
        ("s3://b/t2/x", False),
        ("s3://b/t/../u/x", False),
        ("/t/x", False),
        ("", False),
    ],
)
def test_what_lies_inside_a_location(path, within):
    assert inside("s3://b/t/", path) is within


def test_what_follows_the_authority():
    assert (
        after_authority("s3://b/k/x")
        == after_authority("hdfs:/k/x")
        == after_authority("file:///k/x")
        == "/k/x"
    )
    assert after_authority("k/a:b") == "k/a:b"


def test_references_without_a_scheme_equal_only_themselves():
    references = References(["rel/x"])
    assert references.holds("rel/x")
    assert not references.holds("s3://b/rel/x")


def test_maint_A7_overlapping_locations_are_found_both_ways():
    assert overlapping("s3://b/t", ["s3://b/u", "s3a://b/t/inner"]) == "s3a://b/t/inner"
    assert overlapping("s3://b/t", ["s3://b"]) == "s3://b"
    assert overlapping("s3://b/t", ["s3://b/t/"]) == "s3://b/t/"
    assert overlapping("s3://b/t", ["s3://b/t2", "s3://b/tt"]) is None
    assert overlapping("s3://b/t", ["nonsense"]) == "nonsense"


def test_a_tables_places_are_its_location_and_what_its_properties_name():
    assert own_roots("s3://b/t", {"write.data.path": "s3://d/t", "x": "y"}) == ["s3://b/t", "s3://d/t"]
