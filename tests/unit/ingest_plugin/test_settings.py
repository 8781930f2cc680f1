import tomllib
from pathlib import Path
from typing import Any

import pytest

from ingest_plugin.keys import ConfigError
from ingest_plugin.settings import load
from ingest_plugin.topic_settings import Tolerance, ValueFormat
from table_format.ident import TableIdent

BASE = """
[catalog]
uri = "http://127.0.0.1:8181/iceberg"
[kafka]
"bootstrap.servers" = "127.0.0.1:9092"
"""


def loaded(text: str, environ: dict[str, str] | None = None, tmp_path: Path | None = None) -> Any:
    return load(None, environ or {}, document=tomllib.loads(BASE + text))


def refused(text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(text, environ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_full_file(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    path.write_text(
        BASE
        + """
[registry]
url = "http://127.0.0.1:8081/apis/ccompat/v7"
[defaults]
"commit.interval.ms" = 5000
namespace = "demo"
[topics.flights]
"convert.value.type" = "json"
"partition.by" = "[month(time_hour), bucket(16, id)]"
"errors.tolerance" = "all"
"write.target.file.size.bytes" = 1048576
"metadata.columns" = false
schema = { columns = { time_hour = "timestamptz" }, extra = "reject" }
[topics."a.b"]
"convert.value.type" = "by_schema_id"
table = "ab"
"commit.interval.ms" = "900000"
"""
    )
    settings = load(path, {})
    flights, other = settings.topics
    assert flights.ident == TableIdent.of("demo", "flights")
    assert flights.dead_letters == TableIdent.of("demo", "flights__dead_letters")
    assert (flights.commit_interval_ms, other.commit_interval_ms) == (5000, 900_000)
    assert (flights.value_format, other.value_format) == (ValueFormat.JSON, ValueFormat.BY_SCHEMA_ID)
    assert flights.tolerance is Tolerance.ALL
    assert [term.iceberg_transform for term in flights.partition_by] == ["month", "bucket[16]"]
    assert flights.target_bytes == 1_048_576
    assert not flights.metadata_columns
    assert flights.explicit.types() == {"time_hour": "timestamptz"}
    assert other.ident == TableIdent.of("demo", "ab")
    assert settings.kafka.client == {"bootstrap.servers": "127.0.0.1:9092"}
    assert settings.kafka.group == "frazil"


def test_defaults_of_a_topic() -> None:
    (topic,) = loaded('[topics.t]\nnamespace = "a.b"').topics
    assert topic.ident == TableIdent.of("a", "b", "t")
    assert topic.value_format is ValueFormat.RAW
    assert topic.tolerance is Tolerance.INVALID_DATA
    assert topic.commit_interval_ms == 60_000
    assert topic.metadata_columns


def test_keys_with_the_prefix_are_the_same_keys() -> None:
    (topic,) = loaded(
        '[topics.t]\n"automq.table.topic.namespace" = "n"\n"automq.table.topic.commit.interval.ms" = "1000"\n'
        '"automq.table.topic.enable" = "true"\n"automq.table.topic.upsert.enable" = "false"\n'
    ).topics
    assert topic.ident == TableIdent.of("n", "t")
    assert topic.commit_interval_ms == 1000
    assert "twice" in refused('[topics.t]\n"automq.table.topic.namespace" = "n"\nnamespace = "n"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[topics.t]\nnamespace = "n"\n"comit.interval.ms" = 1000', "did you mean 'commit.interval.ms'?"),
        (
            '[topics.t]\nnamespace = "n"\n"automq.table.topic.partition.bi" = "x"',
            "did you mean 'partition.by'?",
        ),
        (
            '[topics.t]\nnamespace = "n"\n"transform.value.type" = "flatten_debezium"',
            "flatten_debezium needs values with fields",
        ),
        ('[topics.t]\nnamespace = "n"\n"transform.value.type" = "unnest"', "'transform.value.type'"),
        ('[topics.t]\nnamespace = "n"\n"convert.key.type" = "by_schema_id"', "needs a section [registry]"),
        ('[topics.t]\nnamespace = "n"\n"fields.cast" = { a = "date from bytes" }', "is made from days"),
        ('[topics.t]\nnamespace = "n"\n"fields.cast" = { a = "dates" }', "column 'a'"),
        ('[topics.t]\nnamespace = "n"\n"fields.include" = "a"\n"fields.exclude" = ["b"]', "not both"),
        ('[topics.t]\nnamespace = "n"\n"expire.snapshot.enabled" = true', "icebergSnapshotManagement"),
        ('[topics.t]\nnamespace = "n"\n"commit.interval.ms" = 99', "'commit.interval.ms'"),
        ('[topics.t]\nnamespace = "n"\n"commit.interval.ms" = 900001', "'commit.interval.ms'"),
        ('[topics.t]\nnamespace = "n"\n"convert.value.type" = "protobuf"', "'convert.value.type'"),
        ('[topics.t]\nnamespace = "n"\n"errors.tolerance" = "some"', "'errors.tolerance'"),
        ('[topics.t]\nnamespace = "n"\n"convert.value.type" = "by_schema_id"', "[registry]"),
        ('[topics.t]\nnamespace = "n"\nschema = { columns = { a = "int" } }', "json"),
        ("[topics.t]", "'namespace' is missing"),
        ('[topics.t]\nnamespace = ""', "'namespace' is missing"),
        ("", "no topic"),
        ("[topics]\nt = 5", "must be a section"),
        ('[topisc.t]\nnamespace = "n"', "did you mean 'topics'?"),
        ('[topics.t]\nnamespace = "n"\n[registry]\nurl = "x"\nuser = "y"', "did you mean 'username'?"),
        ('[topics.t]\nnamespace = "n"\n"partition.by" = "day(ts"', "partition.by"),
        ('[topics.t]\nnamespace = "n"\n"partition.by" = 5', "partition.by"),
        (
            '[topics.t]\nnamespace = "n"\n"convert.value.type" = "json"\nschema = { columns = { a = "intt" } }',
            "intt",
        ),
        (
            (
                '[topics.t]\nnamespace = "n"\n"convert.value.type" = "json"\n'
                'schema = { columns = { _kafka_metadata = "int" } }'
            ),
            "is ours",
        ),
    ],
)
def test_what_is_refused_in_one_line(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_ingest_case_47_dots_are_replaced_and_collisions_refused() -> None:
    dotted = loaded('[defaults]\nnamespace = "n"\n"table.dot.replacement" = "_"\n[topics."a.b-c"]').topics[0]
    assert dotted.ident == TableIdent.of("n", "a_b-c")
    kept = loaded('[topics."a.b-c"]\nnamespace = "n"').topics[0]
    assert kept.ident == TableIdent.of("n", "a.b-c")
    message = refused(
        '[defaults]\nnamespace = "n"\n"table.dot.replacement" = "_"\n[topics."a.b"]\n[topics."A_b"]'
    )
    assert "'a.b' and 'A_b'" in message
    assert "dead_letters" in refused(
        '[defaults]\nnamespace = "n"\n[topics.x]\n[topics.y]\ntable = "x__dead_letters"'
    )


def test_the_environment_overrides_the_file() -> None:
    environ = {
        "FRAZIL_INGEST__CATALOG__URI": "http://other",
        "FRAZIL_INGEST__CATALOG__TOKEN": "secret",
        "FRAZIL_INGEST__KAFKA__BOOTSTRAP_SERVERS": "k:1",
        "FRAZIL_INGEST__KAFKA__GROUP": "g",
        "FRAZIL_INGEST__DEFAULTS__NAMESPACE": "env",
        "FRAZIL_INGEST__TOPICS__Flights__COMMIT_INTERVAL_MS": "1234",
        "OTHER": "x",
    }
    settings = loaded("[topics.Flights]", environ)
    assert settings.catalog.uri == "http://other"
    assert settings.catalog.token.get_secret_value() == "secret"
    assert "secret" not in repr(settings)
    assert settings.kafka.client == {"bootstrap.servers": "k:1"}
    assert settings.kafka.group == "g"
    assert settings.topics[0].ident == TableIdent.of("env", "Flights")
    assert settings.topics[0].commit_interval_ms == 1234
    assert "FRAZIL_INGEST__NOPE__X" in refused("[topics.Flights]", {"FRAZIL_INGEST__NOPE__X": "1"})


def test_client_settings_that_would_break_the_protocol_are_refused() -> None:
    text = '[topics.t]\nnamespace = "n"\n'
    for key in ("enable.auto.commit", "group.id"):
        with pytest.raises(ConfigError, match=key):
            load(
                None,
                {},
                document={
                    "catalog": {"uri": "x"},
                    "kafka": {"bootstrap.servers": "x", key: "1"},
                    "topics": {"t": {"namespace": "n"}},
                },
            )
    assert loaded(text).kafka.assignment == "group"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "none.toml", {})
    broken = tmp_path / "broken.toml"
    broken.write_text("[catalog\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(broken, {})


def test_keys_need_no_quotes() -> None:
    """TOML reads an unquoted dotted key as tables within tables; AutoMQ's prefix works as well."""
    settings = load(
        None,
        {},
        document=tomllib.loads(
            """
            catalog.uri = "http://127.0.0.1:8181/iceberg"
            kafka.bootstrap.servers = "127.0.0.1:9092"
            [defaults]
            commit.interval.ms = 5000
            [topics.a]
            namespace = "n"
            automq.table.topic.convert.value.type = "json"
            schema.columns = { "x.y" = "long" }
            write.target.file.size.bytes = 4096
            """
        ),
    )
    topic = settings.topics[0]
    assert settings.kafka.client == {"bootstrap.servers": "127.0.0.1:9092"}
    assert (topic.commit_interval_ms, topic.value_format) == (5000, ValueFormat.JSON)
    assert (topic.explicit.columns, topic.target_bytes) == ({"x.y": "long"}, 4096)


def test_one_key_in_both_spellings_is_refused() -> None:
    twice = 'namespace = "n"\ncommit.interval.ms = 5000\n"commit.interval.ms" = 6000'
    assert "[topics.a]: 'commit.interval.ms' is given twice" in refused(f"[topics.a]\n{twice}")


def test_a_topic_name_with_dots_but_without_quotes_is_told_how_to_write_it() -> None:
    assert 'written in quotes: [topics."a.b"]' in refused('[topics.my.topic]\nnamespace = "n"')


def test_a_server_that_runs_ingest_lends_its_address_where_there_is_none() -> None:
    document: dict[str, Any] = {"kafka": {"bootstrap.servers": "k"}, "topics": {"t": {"namespace": "n"}}}
    server = {"FRAZIL_INGEST__ENABLED": "true", "FRAZIL_INGEST__CONFIG": "x"}
    found = load(None, server, document=document, catalog_default="http://here/iceberg")
    assert found.catalog.uri == "http://here/iceberg"
    document["catalog"] = {"uri": "http://there/iceberg"}
    found = load(None, server, document=document, catalog_default="http://here/iceberg")
    assert found.catalog.uri == "http://there/iceberg"
