"""One budget of memory over all topics and partitions of a process."""

import random
from typing import Any

import orjson
import pytest

from ingest_plugin.keys import ConfigError
from table_format.ident import TableIdent
from tests.factories.ingest_lab import Lab, settings_of

MIB = 1024 * 1024


def crowd(topics: int, **keys: Any) -> Lab:
    """A lab whose topics hold four times the budget together, and commit at their end only."""
    lab = Lab(topic="t0", **{"commit.interval.ms": 900_000, **keys})
    lab.document = {
        "patterns": {"all": {"glob": "t*", **lab.keys}},
        "memory": {"budget_bytes": MIB},
    }
    numbers = random.Random(7)
    for topic in range(topics):
        if topic:
            lab.cluster.create(f"t{topic}")
        for number in range(40):
            text = "".join(numbers.choices("abcdefgh", k=4 * MIB // topics // 40))
            value = orjson.dumps({"n": number, "text": text})
            lab.cluster.produce(f"t{topic}", value, timestamp_ms=1_700_000_000_000)
    return lab


def most_held(lab: Lab) -> int:
    """Run to where everything was read, and stop there; the most that was held between two polls."""
    most, polls = 0, 0

    def should_stop() -> bool:
        nonlocal most, polls
        polls += 1
        lanes = worker._members.lanes.values()
        most = max(most, sum(lane.task.held for lane in lanes))
        return polls > 60

    worker = lab.worker(exit_at_end=False, should_stop=should_stop)
    assert worker.run()
    return most


def files(lab: Lab, topic: str) -> int:
    head = lab.table(TableIdent.of("demo", topic)).metadata.current_snapshot
    assert head is not None
    return int(head["summary"]["total-data-files"])


def test_many_topics_together_stay_within_the_budget_and_no_row_is_lost() -> None:
    lab = crowd(20)
    assert 0 < most_held(lab) <= MIB
    for topic in range(20):
        rows = lab.rows(TableIdent.of("demo", f"t{topic}"))
        assert sorted(row["n"] for row in rows) == list(range(40))
        # What was written out waits for the commit that was due anyway.
        assert len(lab.table(TableIdent.of("demo", f"t{topic}")).metadata.snapshots) == 1


def test_rows_that_cannot_be_written_out_yet_are_committed() -> None:
    lab = crowd(8, **{"upsert.enable": True, "id.columns": "[n]"})
    assert most_held(lab) <= MIB
    for topic in range(8):
        rows = lab.rows(TableIdent.of("demo", f"t{topic}"))
        assert sorted(row["n"] for row in rows) == list(range(40))


def test_a_commit_for_memory_does_not_call_complete_what_is_not_taken_yet() -> None:
    """One poll brings records of both topics; what the second holds already is committed because of the first's."""
    lab = Lab(topic="a", **{"commit.interval.ms": 900_000, "upsert.enable": True, "id.columns": "[n]"})
    lab.cluster.create("b")
    lab.document = {"patterns": {"all": {"glob": "*", **lab.keys}}, "memory": {"budget_bytes": MIB}}
    stamp = 1_700_000_000_000

    def produce(topic: str, number: int, size: int) -> None:
        value = orjson.dumps({"n": number, "text": "x" * size})
        lab.cluster.produce(topic, value, timestamp_ms=stamp)

    produce("b", 1, MIB * 3 // 4)
    turns = 0

    def should_stop() -> bool:
        nonlocal turns
        turns += 1
        if turns == 20:
            produce("a", 1, MIB // 2)
            produce("b", 2, 10)
        return turns > 40

    assert lab.worker(exit_at_end=False, should_stop=should_stop).run()
    metadata = lab.table(TableIdent.of("demo", "b")).metadata
    found = [snapshot["summary"] for snapshot in metadata.snapshots]
    assert sorted(row["n"] for row in lab.rows(TableIdent.of("demo", "b"))) == [1, 2]
    for summary in found:
        is_whole = orjson.loads(summary["ingest.offsets"]) == {"b": {"0": 2}}
        assert is_whole or int(summary["ingest.valid-through-ts"]) <= stamp


def test_open_files_of_many_partitions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has a file open: their buffers are memory, too."""
    monkeypatch.setattr("table_format.write.parquet.ROW_GROUP_MEMORY", 4096)
    lab = crowd(1, **{"partition.by": "[n]", "write.target.file.size.bytes": 64 * MIB})
    assert most_held(lab) <= MIB
    rows = lab.rows(TableIdent.of("demo", "t0"))
    assert sorted(row["n"] for row in rows) == list(range(40))


def test_a_generous_budget_writes_nothing_out_early() -> None:
    lab = crowd(4)
    lab.document["memory"] = {"budget_bytes": 64 * MIB}
    assert most_held(lab) > MIB
    assert {files(lab, f"t{topic}") for topic in range(4)} == {1}


def test_what_the_client_fetches_ahead_is_part_of_it() -> None:
    topics = {"topics": {"t": {"namespace": "n"}}}
    for budget, ahead in ((MIB, MIB // 4), (100 * MIB, 25 * MIB), (1024 * MIB, 64 * MIB)):
        settings = settings_of({**topics, "memory": {"budget_bytes": budget}})
        assert settings.kafka.ahead_bytes == ahead
    with pytest.raises(ConfigError, match="budget_bytes"):
        settings_of({**topics, "memory": {"budget_bytes": 5}})
