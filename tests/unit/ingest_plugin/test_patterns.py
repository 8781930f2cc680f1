"""Topics by pattern: which names match, what each is told, which two may not be one table."""

from typing import Any

import pytest

from ingest_plugin.keys import ConfigError
from ingest_plugin.roster import Roster, roster
from ingest_plugin.settings import load
from table_format.ident import TableIdent
from tests.factories.ingest_lab import settings_of


def found(document: dict[str, Any], *seen: str, reading: tuple[str, ...] = ()) -> Roster:
    return roster(settings_of(document), seen=seen, own={}, registered={}, reading=reading)


def tables(document: dict[str, Any], *seen: str) -> dict[str, str]:
    return {topic: str(each.ident) for topic, each in found(document, *seen).topics.items()}


def one(**keys: Any) -> dict[str, Any]:
    return {"patterns": {"shop": {"namespace": "demo", **keys}}}


def test_a_regular_expression_matches_whole_names() -> None:
    names = tables(
        one(regex=r"shop\.(orders|items)"), "shop.orders", "shop.items", "shop.items.old", "my.shop.items"
    )
    assert names == {"shop.orders": "demo.shop.orders", "shop.items": "demo.shop.items"}


def test_a_glob_and_what_it_leaves_out() -> None:
    document = one(glob="shop.*", exclude=["*.tmp", "shop.secret"])
    assert set(tables(document, "shop.a", "shop.a.tmp", "shop.secret", "shopping")) == {"shop.a"}
    assert set(tables(one(glob="*", exclude="x*"), "xa", "a")) == {"a"}


def test_internal_topics_are_matched_by_no_pattern() -> None:
    names = ("__consumer_offsets", "__transaction_state", "_schemas", "a")
    assert set(tables(one(regex=".*"), *names)) == {"a"}
    listed = one(regex=".*") | {"topics": {"_audit": {"namespace": "demo"}}}
    assert set(tables(listed, "_audit")) == {"_audit"}


def test_names_of_tables_are_made_of_the_topics() -> None:
    document = one(
        regex=r"(?P<site>[a-z.]+)-(\w+)",
        table="{2}_of_{site}",
        namespace="raw.{site}",
        **{"table.dot.replacement": "_"},
    )
    topic = found(document, "eu.west-orders").topics["eu.west-orders"]
    assert topic.ident == TableIdent.of("raw", "eu.west", "orders_of_eu_west")
    assert tables(one(glob="*", table="t_{topic}"), "a") == {"a": "demo.t_a"}


def test_keys_and_defaults_are_those_of_a_topic() -> None:
    document = one(glob="*", **{"automq.table.topic.convert.value.type": "json"}) | {
        "defaults": {"commit.interval.ms": 500}
    }
    topic = found(document, "a").topics["a"]
    assert (topic.value_format, topic.commit_interval_ms, topic.discovered) == ("json", 500, True)


def test_a_topic_that_is_listed_is_told_what_stands_there() -> None:
    document = one(glob="*") | {"topics": {"a": {"namespace": "own"}}}
    assert tables(document, "a", "b") == {"a": "own.a", "b": "demo.b"}


def test_a_topic_that_two_patterns_match_is_refused_alone() -> None:
    document = {
        "patterns": {"one": {"glob": "a*", "namespace": "x"}, "two": {"glob": "*b", "namespace": "y"}}
    }
    now = found(document, "ab", "ac")
    assert set(now.topics) == {"ac"}
    assert "[patterns.one] and [patterns.two]" in now.refused["ab"]


def test_two_topics_for_one_table_are_refused_unless_they_share_it() -> None:
    document = one(regex=r"(\w+)\.\w", table="{1}")
    now = found(document, "t.a", "t.b")
    assert set(now.topics) == {"t.a"}
    assert "topics 't.a' and 't.b' would both write table demo.t" in now.refused["t.b"]
    assert "table.shared = true" in now.refused["t.b"]
    # Who is read already keeps the table, whatever comes later.
    assert set(found(document, "t.a", "t.b", reading=("t.b",)).topics) == {"t.b"}
    assert tables(one(regex=r"(\w+)\.\w", table="{1}", **{"table.shared": True}), "t.a", "t.b") == {
        "t.a": "demo.t",
        "t.b": "demo.t",
    }


def test_a_table_of_dead_letters_is_nobodys_home() -> None:
    document = one(glob="*", **{"table.shared": True})
    now = found(document, "t", "t__dead_letters")
    assert set(now.topics) == {"t"}
    assert "would both write table demo.t__dead_letters" in now.refused["t__dead_letters"]
    now = found(document, "t", "t__dead_letters", reading=("t__dead_letters",))
    assert set(now.topics) == {"t__dead_letters"}
    assert "would both write table demo.t__dead_letters" in now.refused["t"]


def test_what_is_gone_is_what_was_read_by_a_pattern() -> None:
    document = one(glob="a*") | {"topics": {"listed": {"namespace": "x"}}}
    assert found(document, reading=("a1", "b1", "listed")).gone == {"a1"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "give 'regex' or 'glob'"),
        ({"regex": "a", "glob": "b"}, "give 'regex' or 'glob'"),
        ({"regex": "("}, "not a regular expression"),
        ({"regex": ""}, "is no pattern"),
        ({"glob": 5}, "is no pattern"),
        ({"regex": "a", "exclude": ["["]}, "not a regular expression"),
        ({"regex": "(a)", "table": "{2}"}, "has {2}, but there is only {1}, {topic}"),
        ({"regex": "a", "namespace": "x.{site}"}, "has {site}"),
        ({"regex": "a", "commit.interval": 5}, "unknown key 'commit.interval'"),
        ({"regex": "a", "commit.interval.ms": 5}, "'commit.interval.ms'"),
        ({"regex": "a", "namespace": ""}, "'namespace' is missing or empty"),
        (
            {"regex": "a", "table": "x", "upsert.enable": True, "id.columns": "[a]", "table.shared": True},
            "table.shared",
        ),
    ],
)
def test_what_is_refused_when_the_file_is_read(keys: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=r"patterns\.shop") as refused:
        settings_of(one(**keys))
    assert expected in str(refused.value)


def test_a_group_that_gives_no_name_refuses_that_topic() -> None:
    now = found(one(regex=r"(\w+)?-a", table="{1}"), "-a", "b-a")
    assert set(now.topics) == {"b-a"}
    assert "'table' = '{1}' gives no name" in now.refused["-a"]


def test_patterns_in_the_environment_and_with_dots_unquoted() -> None:
    environ = {
        "FRAZIL_INGEST__CATALOG__URI": "http://unused",
        "FRAZIL_INGEST__KAFKA__BOOTSTRAP_SERVERS": "unused",
        "FRAZIL_INGEST__PATTERNS__shop__COMMIT_INTERVAL_MS": "700",
        "FRAZIL_INGEST__DISCOVERY__INTERVAL_SECONDS": "5",
    }
    document = one(glob="*", commit={"interval": {"ms": 900}})
    settings = load(None, environ, document=document)
    assert settings.discovery.interval_seconds == 5
    assert (
        roster(settings, seen=["a"], own={}, registered={}, reading=()).topics["a"].commit_interval_ms == 700
    )
