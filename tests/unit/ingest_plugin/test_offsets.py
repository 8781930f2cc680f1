"""What a table says about where ingest stands, through rollbacks, expiry and foreign commits."""

from typing import Any

import orjson
import pytest

from ingest_plugin import offsets
from ingest_plugin.commit_state import OffsetRange, Verdict, judge
from ingest_plugin.offsets import Recorded, Source
from table_format.errors import Invalid
from table_format.metadata.document import TableMetadata

SOURCE = Source(topic="t", topic_id="T1", cluster_id="C1", generation=3)


def snapshot(number: int, parent: int | None, ends: dict[int, int] | None = None) -> dict[str, Any]:
    summary = {"operation": "append"}
    if ends is not None:
        summary |= offsets.summary(Recorded(), SOURCE, ends, f"commit-{number}")
    found: dict[str, Any] = {"snapshot-id": number, "summary": summary}
    return found if parent is None else {**found, "parent-snapshot-id": parent}


def table(*snapshots: dict[str, Any], head: int | None, state: dict[int, int] | None = None) -> TableMetadata:
    properties = {}
    if state is not None:
        keys = offsets.summary(Recorded(), SOURCE, state, "commit-p")
        properties = offsets.mirror(keys)["updates"]
    return TableMetadata(
        {
            "format-version": 2,
            "properties": properties,
            "current-snapshot-id": head,
            "snapshots": list(snapshots),
        }
    )


def test_the_newest_map_in_the_ancestry_counts() -> None:
    metadata = table(snapshot(1, None, {0: 5}), snapshot(2, 1, {0: 9, 1: 3}), snapshot(3, 2), head=3)
    found = offsets.recorded(metadata, "t")
    assert found.offsets == {0: 9, 1: 3}
    assert (found.topic_id, found.cluster_id, found.generation) == ("T1", "C1", 3)


def test_a_rollback_rewinds_the_offsets() -> None:
    metadata = table(snapshot(1, None, {0: 5}), snapshot(2, 1, {0: 9}), head=1, state={0: 9})
    assert offsets.recorded(metadata, "t").offsets == {0: 5}
    before_ingest = table(snapshot(1, None), snapshot(2, 1, {0: 9}), head=1, state={0: 9})
    assert offsets.recorded(before_ingest, "t").offsets == {}
    assert offsets.recorded(table(head=None, state={0: 9}), "t").offsets == {}


def test_ingest_case_7_offsets_survive_foreign_expiry() -> None:
    """Another engine compacted without our keys, then expired every snapshot that had them."""
    metadata = table(snapshot(8, 7), head=8, state={0: 9})
    assert offsets.recorded(metadata, "t").offsets == {0: 9}


def test_another_topics_offsets_are_kept_and_not_ours() -> None:
    metadata = table(snapshot(1, None, {0: 5}), head=1)
    found = offsets.recorded(metadata, "other")
    assert found.offsets == {}
    assert (found.topic_id, found.cluster_id) == (None, None)
    merged = offsets.summary(
        found, Source(topic="other", topic_id=None, cluster_id=None, generation=1), {2: 7}, "c"
    )
    assert orjson.loads(merged["ingest.offsets"]) == {"t": {"0": 5}, "other": {"2": 7}}
    assert "ingest.topic-id" not in merged


def test_partitions_of_other_processes_stay_as_recorded() -> None:
    before = offsets.recorded(table(snapshot(1, None, {0: 5, 1: 6}), head=1), "t")
    merged = offsets.summary(before, SOURCE, {1: 8, 10: 1}, "c")
    assert merged["ingest.offsets"] == '{"t":{"0":5,"1":8,"10":1}}'


def test_each_topic_of_a_table_has_the_cluster_it_was_read_from() -> None:
    """A cluster is replaced for one topic after the other: offsets in the old one mean nothing in the new one."""
    both = table(
        {
            "snapshot-id": 1,
            "summary": {"ingest.offsets": '{"t":{"0":5},"other":{"0":9}}', "ingest.cluster-id": "C1"},
        },
        head=1,
    )
    moved = Source(topic="other", topic_id=None, cluster_id="C2", generation=1)
    keys = offsets.summary(offsets.recorded(both, "other"), moved, {0: 2}, "c")
    for metadata in (
        table({"snapshot-id": 1, "summary": keys}, head=1),
        TableMetadata(
            {
                "format-version": 2,
                "properties": offsets.mirror(keys)["updates"],
                "current-snapshot-id": 2,
                "snapshots": [{"snapshot-id": 2, "parent-snapshot-id": 1, "summary": {}}],
            }
        ),
    ):
        assert offsets.recorded(metadata, "other").cluster_id == "C2"
        known = offsets.recorded(metadata, "t")
        assert (known.offsets, known.cluster_id) == ({0: 5}, "C1")
        assert not known.is_of(Source(topic="t", topic_id=None, cluster_id="C2", generation=1))


@pytest.mark.parametrize("broken", ["nonsense", "[1]", '{"t":{"0":"x"}}', '{"t":5}'])
def test_a_map_that_cannot_be_read_stops_everything(broken: str) -> None:
    metadata = table({"snapshot-id": 1, "summary": {"ingest.offsets": broken}}, head=1)
    with pytest.raises(Invalid, match=r"ingest\.offsets"):
        offsets.recorded(metadata, "t")


def test_landed_commits_are_found_wherever_the_table_remembers_them() -> None:
    metadata = table(snapshot(1, None, {0: 5}), snapshot(2, 1), head=2, state={0: 5})
    assert offsets.landed(metadata, "commit-1")
    assert offsets.landed(metadata, "commit-p")
    assert not offsets.landed(metadata, "commit-")


def test_verdicts() -> None:
    ranges = {0: OffsetRange(recorded=5, end=9), 1: OffsetRange(recorded=None, end=2)}
    assert judge({0: 5}, ranges, landed=False) is Verdict.APPLY
    assert judge({0: 5, 2: 100}, ranges, landed=False) is Verdict.APPLY
    assert judge({0: 5}, ranges, landed=True) is Verdict.LANDED
    assert judge({0: 9, 1: 2}, ranges, landed=False) is Verdict.COVERED
    assert judge({0: 12, 1: 5}, ranges, landed=False) is Verdict.COVERED
    assert judge({0: 7}, ranges, landed=False) is Verdict.OVERLAP
    assert judge({0: 9}, ranges, landed=False) is Verdict.OVERLAP
    assert judge({}, ranges, landed=False) is Verdict.OVERLAP
    assert judge({0: 3}, ranges, landed=False) is Verdict.OVERLAP
