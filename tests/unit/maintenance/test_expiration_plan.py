"""Which snapshots expire: exact plans over invented histories."""

import json

from maintenance.expiration.plan import ExpirationPlan, Nothing, plan
from maintenance.policies import SnapshotPolicy
from table_format.metadata.document import TableMetadata

HOUR = 3_600_000
NOW = 1_700_000_000_000


def policy(**changes):
    values = {
        "disabled_reason": None,
        "min_snapshots_to_keep": 1,
        "max_snapshot_age_ms": 10 * HOUR,
        "max_ref_age_ms": None,
        "interval_seconds": 3600,
    }
    return SnapshotPolicy(**{**values, **changes})


def snapshot(number, *, age, parent=None, **summary):
    found = {
        "snapshot-id": number,
        "timestamp-ms": NOW - age * HOUR,
        "sequence-number": number,
        "summary": {"operation": "append", **summary},
    }
    return found | ({} if parent is None else {"parent-snapshot-id": parent})


def metadata(snapshots, refs=None, current=None):
    current = snapshots[-1]["snapshot-id"] if current is None and snapshots else current
    document = {
        "format-version": 2,
        "location": "memory://w/t",
        "current-snapshot-id": -1 if current is None else current,
        "snapshots": snapshots,
    }
    return TableMetadata(document | ({} if refs is None else {"refs": refs}))


def chain(*ages):
    return [snapshot(n, age=age, parent=n - 1 if n > 1 else None) for n, age in enumerate(ages, start=1)]


def expired(snapshots, refs=None, current=None, limit=100, **changes):
    result = plan(metadata(snapshots, refs, current), policy(**changes), NOW, limit=limit)
    return () if isinstance(result, Nothing) else result.snapshot_ids


def branch(head, **more):
    return {"snapshot-id": head, "type": "branch", **more}


def tag(head, **more):
    return {"snapshot-id": head, "type": "tag", **more}


def test_an_exact_plan():
    assert plan(metadata(chain(30, 20, 5, 1)), policy(), NOW, limit=100) == ExpirationPlan(
        snapshot_ids=(1, 2), refs=(), older_than_ms=NOW - 10 * HOUR, kept=2
    )


def test_a_plan_survives_json():
    planned = plan(metadata(chain(30, 20, 5, 1)), policy(), NOW, limit=1)
    assert planned.remaining == 1
    assert ExpirationPlan.from_json(json.loads(json.dumps(planned.to_json()))) == planned


def test_a_snapshot_goes_only_if_old_and_beyond_the_number_to_keep():
    assert expired(chain(30, 20, 15, 12), min_snapshots_to_keep=3) == (1,)
    assert expired(chain(9, 8, 7, 6), min_snapshots_to_keep=1) == ()


def test_exactly_the_age_is_not_too_old():
    assert expired(chain(10, 5)) == ()


def test_maint_B11_only_the_policy_decides_not_how_busy_the_writer_is():
    """The last writer stopped long ago: all but the head go, the head stays."""
    assert expired(chain(9000, 8000, 7000)) == (1, 2)


def test_one_run_takes_the_oldest_up_to_its_limit():
    planned = plan(metadata(chain(50, 40, 30, 20, 1)), policy(), NOW, limit=2)
    assert (planned.snapshot_ids, planned.remaining, planned.kept) == ((1, 2), 2, 1)


def test_maint_B4_the_head_of_an_old_branch_or_tag_stays():
    snapshots = [*chain(90, 80, 70), snapshot(4, age=1, parent=3)]
    refs = {"main": branch(4), "audit": branch(2, **{"min-snapshots-to-keep": 1}), "v1": tag(1)}
    assert expired(snapshots, refs) == (3,)
    assert plan(metadata(snapshots, refs), policy(), NOW, limit=9).refs == ()


def test_a_branch_minimum_of_zero_still_keeps_its_head():
    refs = {"main": branch(3), "old": branch(1, **{"min-snapshots-to-keep": 0, "max-snapshot-age-ms": 0})}
    assert expired(chain(90, 80, 1), refs) == (2,)


def test_a_ref_past_its_own_age_goes_and_its_snapshots_with_it():
    snapshots = [*chain(90, 80), snapshot(3, age=70, parent=1), snapshot(4, age=1, parent=2)]
    refs = {"main": branch(4), "side": branch(3, **{"max-ref-age-ms": 60 * HOUR}), "keep": tag(1)}
    planned = plan(metadata(snapshots, refs), policy(), NOW, limit=9)
    assert (planned.refs, planned.snapshot_ids) == (("side",), (2, 3))


def test_the_default_age_of_refs_applies_to_those_without_their_own():
    snapshots = chain(90, 80, 1)
    refs = {"main": branch(3), "old": tag(1), "own": tag(2, **{"max-ref-age-ms": 1000 * HOUR})}
    planned = plan(metadata(snapshots, refs), policy(max_ref_age_ms=48 * HOUR), NOW, limit=9)
    assert (planned.refs, planned.snapshot_ids) == (("old",), (1,))


def test_main_never_goes_however_old_and_whatever_it_says():
    refs = {"main": branch(2, **{"max-ref-age-ms": 1})}
    assert plan(metadata(chain(900, 800), refs), policy(), NOW, limit=9).refs == ()


def test_a_ref_whose_snapshot_is_unknown_is_left_alone():
    refs = {"main": branch(2), "broken": tag(77, **{"max-ref-age-ms": 1})}
    assert plan(metadata(chain(900, 800), refs), policy(), NOW, limit=9).refs == ()


def test_a_branch_keeps_by_its_own_numbers():
    snapshots = chain(90, 80, 70, 60)
    assert expired(snapshots, {"main": branch(4, **{"min-snapshots-to-keep": 3})}) == (1,)
    assert expired(snapshots, {"main": branch(4, **{"max-snapshot-age-ms": 85 * HOUR})}) == (1,)


def test_a_ref_cannot_ask_for_less_than_an_hour():
    snapshots = [*chain(90), snapshot(2, age=0.5, parent=1), snapshot(3, age=0, parent=2)]
    assert expired(snapshots, {"main": branch(3, **{"max-snapshot-age-ms": 1})}) == (1,)


def test_maint_B5_each_branch_keeps_its_own_ancestors():
    """The only ref is not main."""
    snapshots = chain(90, 80, 5, 1)
    assert expired(snapshots, {"dev": branch(4)}, current=-1) == (1, 2)


def test_snapshots_on_no_ref_stay_until_they_are_old():
    snapshots = [*chain(90, 1), snapshot(3, age=20, parent=1), snapshot(4, age=5, parent=1)]
    assert expired(snapshots, {"main": branch(2)}, current=2) == (1, 3)


def test_the_newest_snapshot_with_ingest_offsets_stays_until_a_newer_one_that_stays_carries_them():
    bearing = [
        snapshot(1, age=90, **{"ingest.offsets": '{"t":{"0":5}}'}),
        snapshot(2, age=80, parent=1, **{"ingest.offsets": '{"t":{"0":9}}'}),
        snapshot(3, age=70, parent=2),
    ]
    assert expired([*bearing, snapshot(4, age=1, parent=3)]) == (1, 3)
    carried = snapshot(4, age=1, parent=3, **{"ingest.offsets": '{"t":{"0":9}}'})
    assert expired([*bearing, carried]) == (1, 2, 3)


def test_each_topic_partition_keeps_its_newest_offsets():
    snapshots = [
        snapshot(1, age=90, **{"ingest.offsets": '{"a":{"0":5}}'}),
        snapshot(2, age=80, parent=1, **{"ingest.offsets": '{"b":{"0":9}}'}),
        snapshot(3, age=1, parent=2, **{"ingest.offsets": '{"b":{"0":12}}'}),
    ]
    assert expired(snapshots) == (2,)


def test_offsets_on_another_branch_do_not_stand_for_those_of_main():
    snapshots = [
        snapshot(1, age=90, **{"ingest.offsets": '{"t":{"0":5}}'}),
        snapshot(2, age=80, parent=1),
        snapshot(3, age=1, parent=1, **{"ingest.offsets": '{"t":{"0":7}}'}),
        snapshot(4, age=1, parent=2),
    ]
    assert expired(snapshots, {"main": branch(4), "side": branch(3)}) == (2,)


def test_offsets_that_an_earlier_expiration_cut_off_from_main_stay():
    snapshots = [snapshot(1, age=90, **{"ingest.offsets": '{"t":{"0":5}}'}), snapshot(3, age=1, parent=2)]
    assert expired(snapshots) == ()


def test_other_ingest_keys_count_by_name():
    snapshots = [
        snapshot(1, age=90, **{"ingest.commit-id": "a"}),
        snapshot(2, age=80, parent=1, **{"ingest.commit-id": "b"}),
        snapshot(3, age=1, parent=2),
    ]
    assert expired(snapshots) == (1,)


def test_unreadable_offsets_count_as_one_claim():
    snapshots = [snapshot(1, age=90, **{"ingest.offsets": "not json"}), snapshot(2, age=1, parent=1)]
    assert expired(snapshots) == ()


def test_nothing_says_why_and_when_the_next_one_is_due():
    assert plan(metadata(chain(4, 1)), policy(), NOW, limit=9) == Nothing(
        reason="all 2 snapshots are heads, younger than the age, or within the number to keep",
        next_due_ms=NOW + 6 * HOUR,
    )
    assert plan(metadata([]), policy(), NOW, limit=9) == Nothing(reason="the table has no snapshots")


def test_a_cycle_of_parents_ends():
    snapshots = [snapshot(1, age=90, parent=2), snapshot(2, age=80, parent=1)]
    assert expired(snapshots) == (1,)
