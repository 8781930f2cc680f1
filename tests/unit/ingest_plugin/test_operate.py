"""What operators ask: how far a topic is, leave it alone, go on, read from elsewhere; and what workers make of it."""

import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import orjson
import pytest

from ingest_plugin import metrics, operate
from ingest_plugin.keys import ConfigError
from ingest_plugin.topic_settings import TopicSettings
from ingest_plugin.watch import watched
from table_format.metadata.document import TableMetadata
from tests.factories.ingest_lab import Lab, settings_of
from tests.fakes.broker import FakeBroker


def topic(lab: Lab) -> TopicSettings:
    (found,) = settings_of(lab.document).topics
    return found


def status(lab: Lab) -> operate.TopicStatus:
    return operate.status(topic(lab), lab.catalog, FakeBroker(lab.cluster, lab.clock))


def reset(lab: Lab, to: Any) -> None:
    source, ends = operate.targets(topic(lab), FakeBroker(lab.cluster, lab.clock), to)
    operate.reset(
        topic(lab),
        lab.catalog,
        lambda _location, _config: lab.store,
        source,
        ends,
        clock=lab.clock,
        ids=lab.ids,
    )


def running(lab: Lab, steps: dict[int, Callable[[], object]], seconds: float) -> Any:
    """A worker that runs for so many seconds of the lab's clock; at poll N step N is taken."""
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        steps.get(polls, lambda: None)()
        return lab.clock.monotonic() > seconds

    return lab.run(exit_at_end=False, should_stop=should_stop)


def test_how_far_a_topic_is() -> None:
    lab = Lab(partitions=2)
    lab.json({"a": 1})
    found = status(lab)
    assert (found.state, found.last_commit_ms, found.valid_through_ms) == ("no table", None, None)
    assert [(each.committed, each.end, each.lag) for each in found.partitions] == [(None, 1, 1), (None, 0, 0)]
    lab.run()
    lab.json({"a": 2}, {"a": 3})
    found = status(lab)
    assert (found.state, found.reason) == ("ok", None)
    assert [(each.committed, each.end, each.lag) for each in found.partitions] == [(1, 3, 2), (None, 0, 0)]
    head = lab.table().metadata.current_snapshot
    assert head is not None
    assert found.last_commit_ms == head["timestamp-ms"]
    assert found.valid_through_ms == int(lab.summary()["ingest.valid-through-ts"])
    assert found.document()["partitions"][0]["lag"] == 2


def test_a_status_that_says_what_is_wrong() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})
    lab.run()
    lab.json({"a": 3}, {"a": 4})
    lab.cluster.trim(lab.topic, 3)
    assert "no longer has the next offset of partition 0" in str(status(lab).reason)
    lab.cluster.away = True
    assert status(lab).state == "unknown"
    lab.cluster.away = False
    lab.cluster.delete(lab.topic)
    assert status(lab).reason == "the topic does not exist"
    lab.cluster.create(lab.topic)
    assert (status(lab).state, status(lab).reason) == (
        "mismatch",
        "the table was filled from another topic or cluster",
    )


def test_a_pause_commits_what_was_read_and_lasts_until_it_is_resumed() -> None:
    lab = Lab(**{"commit.interval.ms": 900_000})
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})
    steps = {
        5: lambda: operate.set_paused(topic(lab), lab.catalog, paused=True),
    }
    worker = running(lab, steps, 40)
    assert worker.document()["flights"]["state"] == "paused"
    assert lab.values("a") == [1, 2]
    lab.json({"a": 3})
    assert lab.run().stopped == {}
    assert lab.values("a") == [1, 2]
    assert status(lab).state == "paused"
    # 130: long after a worker that runs has taken note of the pause.
    running(lab, {300: lambda: operate.set_paused(topic(lab), lab.catalog, paused=False)}, 200)
    assert lab.values("a") == [1, 2, 3]
    assert operate.set_paused(topic(lab), lab.catalog, paused=False) is False


def test_a_pause_is_noticed_at_the_next_commit() -> None:
    lab = Lab(**{"commit.interval.ms": 500})
    lab.json({"a": 1})
    lab.run()
    lab.json({"a": 2})
    steps: dict[int, Callable[[], object]] = {
        3: lambda: operate.set_paused(topic(lab), lab.catalog, paused=True),
        12: lambda: lab.json({"a": 3}),
    }
    running(lab, steps, 15)
    assert lab.values("a") == [1, 2]


def test_what_has_no_table_cannot_be_paused_or_set_back() -> None:
    lab = Lab()
    with pytest.raises(ConfigError, match="has no table"):
        operate.set_paused(topic(lab), lab.catalog, paused=True)
    with pytest.raises(ConfigError, match="has no table"):
        reset(lab, "earliest")


def test_a_reset_reads_again_or_leaves_out() -> None:
    lab = Lab(partitions=2, **{"upsert.enable": True, "id.columns": "a"})
    lab.json({"a": 1}, {"a": 2})
    lab.json({"a": 3}, partition=1)
    lab.run()
    reset(lab, "earliest")
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":0,"1":0}}'
    assert "ingest.valid-through-ts" not in lab.summary()
    lab.run()
    assert sorted(lab.values("a")) == [1, 2, 3]
    assert lab.summary()["ingest.offsets"] == '{"flights":{"0":2,"1":1}}'
    lab.json({"a": 4}, {"a": 5})
    reset(lab, {0: 3})
    lab.run()
    assert sorted(lab.values("a")) == [1, 2, 3, 5]
    lab.json({"a": 6})
    reset(lab, "latest")
    lab.run()
    assert sorted(lab.values("a")) == [1, 2, 3, 5]


@pytest.mark.parametrize(
    ("to", "reason"), [({7: 0}, "no partition 7"), ({0: 9}, "has offsets 0 to 1, not 9"), ({0: -1}, "not -1")]
)
def test_a_reset_to_what_is_not_there(to: dict[int, int], reason: str) -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    with pytest.raises(ConfigError, match=reason):
        reset(lab, to)


def test_an_idle_worker_follows_a_reset() -> None:
    lab = Lab()
    lab.json({"a": 1}, {"a": 2})
    running(lab, {20: lambda: reset(lab, {0: 1})}, 60)
    assert lab.values("a") == [1, 2, 2]


def test_an_idle_worker_follows_a_rollback_of_the_table() -> None:
    lab = Lab()
    lab.json({"a": 1})
    lab.run()
    before = lab.table().metadata
    lab.json({"a": 2})

    def roll_back() -> None:
        assert lab.values("a") == [1, 2]
        rolled = {**lab.table().metadata.document, "current-snapshot-id": before.current_snapshot_id}
        rolled["refs"] = {"main": {"snapshot-id": before.current_snapshot_id, "type": "branch"}}
        lab.catalog.put(lab.ident, TableMetadata(rolled))
        assert lab.values("a") == [1]

    running(lab, {20: roll_back}, 60)
    assert lab.values("a") == [1, 2]


def test_a_worker_that_is_busy_follows_a_reset_at_its_next_commit() -> None:
    lab = Lab(**{"commit.interval.ms": 500})
    lab.json({"a": 1}, {"a": 2})
    lab.run()
    lab.json({"a": 3})
    lab.catalog.before_commit.append(lambda: reset(lab, {0: 1}))
    lab.run()
    assert lab.values("a") == [1, 2, 2, 3]


def fetch(port: int | None, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        body: bytes = answer.read()
        return body


def test_a_running_process_tells_what_it_does() -> None:
    lab = Lab(topic="told")
    lab.json({"a": 1}, "bad")
    worker = lab.worker()
    with watched("127.0.0.1:0", worker.document) as port:
        worker.run()
        found = orjson.loads(fetch(port, "/status"))["told"]
        text = fetch(port, "/metrics").decode()
        with pytest.raises(HTTPError):
            fetch(port, "/other")
    assert (found["state"], found["badRecords"], found["reason"]) == ("running", 1, None)
    assert found["lastCommitMs"] is not None
    assert 'frazil_ingest_records_total{topic="told"} 2.0' in text
    assert 'frazil_ingest_bytes_total{topic="told"} 12.0' in text
    assert 'frazil_ingest_dead_letters_total{topic="told"} 1.0' in text
    assert 'frazil_ingest_files_total{topic="told"} 1.0' in text
    assert 'frazil_ingest_commit_seconds_count{topic="told"} 1.0' in text


def test_lag_is_measured_now_and_then() -> None:
    lab = Lab(topic="behind")
    lab.json(*({"a": number} for number in range(5)))
    broker = FakeBroker(lab.cluster, lab.clock)
    seen: list[float] = []

    def should_stop() -> bool:
        # A poll takes 5000 records at most; what is produced behind its back is lag when it is measured.
        lab.json({"a": 1})
        seen.append(gauge("frazil_ingest_lag_records"))
        lab.clock.sleep(1)
        return len(seen) > 100

    lab.run(broker=broker, exit_at_end=False, should_stop=should_stop)
    assert max(seen) == 1
    assert gauge("frazil_ingest_topic_running") == 1


def gauge(name: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, {"topic": "behind"}) or 0.0


def test_an_address_that_cannot_be_listened_on() -> None:
    for listen in ("nonsense", "127.0.0.1:99999999"):
        with pytest.raises(ConfigError, match="cannot listen"), watched(listen, dict):
            pass
    with watched("", dict) as port:
        assert port is None
