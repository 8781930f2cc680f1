"""AutoMQ's keys on the topics themselves: followed where the brokers have them."""

from typing import Any

from ingest_plugin.roster import Roster, roster
from tests.factories.ingest_lab import Lab, settings_of

PREFIX = "automq.table.topic."


def found(own: dict[str, dict[str, str]], **document: Any) -> Roster:
    settings = settings_of(
        {"discovery": {"topic_settings": True}, "defaults": {"namespace": "lake"}} | document
    )
    keyed = {name: {PREFIX + key: value for key, value in keys.items()} for name, keys in own.items()}
    return roster(settings, seen=["a", "b", "c"], own=keyed, registered={}, reading=())


def test_a_topic_that_says_enable_is_read_as_it_says() -> None:
    keys = {
        "enable": "true",
        "namespace": "shop",
        "commit.interval.ms": "1000",
        "convert.value.type": "string",
        "partition.by": "[hour(_kafka_metadata.timestamp)]",
        "errors.tolerance": "all",
    }
    now = found({"a": keys, "b": {"commit.interval.ms": "1000"}})
    assert set(now.topics) == {"a"}
    assert (str(now.topics["a"].ident), now.topics["a"].commit_interval_ms) == ("shop.a", 1000)
    assert now.topics["a"].discovered
    assert str(found({"a": {"enable": " TRUE "}}).topics["a"].ident) == "lake.a"


def test_what_a_topic_says_itself_counts_before_its_pattern_and_not_before_the_file() -> None:
    patterns = {"all": {"glob": "*", "commit.interval.ms": 500, "table": "t_{topic}"}}
    topics = {"c": {"commit.interval.ms": 700}}
    own = {"a": {"commit.interval.ms": "900"}, "b": {"enable": "false"}, "c": {"commit.interval.ms": "900"}}
    now = found(own, patterns=patterns, topics=topics).topics
    assert {name: (topic.table, topic.commit_interval_ms) for name, topic in now.items()} == {
        "a": ("t_a", 900),
        "c": ("c", 700),
    }


def test_what_cannot_be_followed_is_refused_for_that_topic() -> None:
    now = found(
        {
            "a": {"enable": "true", "expire.snapshot.retain.last": "5"},
            "b": {"enable": "true", "convert.value.type": "by_schema_id"},
            "c": {"enable": "true"},
        }
    )
    assert set(now.topics) == {"c"}
    assert "set the policy icebergSnapshotManagement" in now.refused["a"]
    assert "needs a section [registry]" in now.refused["b"]


def test_a_running_worker_follows_the_settings_of_its_topics() -> None:
    lab = Lab(topic="a")
    lab.document = {"discovery": {"topic_settings": True}, "defaults": {"namespace": "demo"}}
    settings = lab.cluster.topics["a"].settings
    lab.json({"n": 1})
    due, steps = 0.0, iter(range(3))

    def should_stop() -> bool:
        nonlocal due
        if lab.clock.monotonic() < due:
            return False
        due = lab.clock.monotonic() + 35
        step = next(steps, None)
        if step == 0:
            settings.update({PREFIX + "enable": "true", PREFIX + "convert.value.type": "json"})
            settings[PREFIX + "commit.interval.ms"] = "1000"
        elif step == 1:
            settings[PREFIX + "enable"] = "false"
        elif step == 2:
            lab.json({"n": 2})
        return step is None

    worker = lab.run(exit_at_end=False, should_stop=should_stop)
    assert lab.values("n") == [1]
    assert worker.document() == {}
    # Internal topics are not even asked for their settings.
    lab.cluster.create("__hidden")
    lab.cluster.topics["__hidden"].settings[PREFIX + "enable"] = "true"
    settings[PREFIX + "enable"] = "true"
    assert lab.run().stopped == {}
    assert lab.values("n") == [1, 2]
