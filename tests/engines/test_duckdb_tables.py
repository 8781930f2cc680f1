"""DuckDB's own Iceberg client against a running server: the whole life of a table, on names that it can send."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import duckdb
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.process.servers import Server

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Connect = Callable[[], duckdb.DuckDBPyConnection]

# DuckDB joins levels by dots, so a dot in a name is out of its reach.
NAMES = [
    ("plain", "table"),
    ("with space", "ta ble"),
    ("sla/shed", "ta/ble"),
    ("per%cent", "%41+&=?#"),
    ("grüße", "水🧊"),
    ("pl+us", "a+b"),
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def all_rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    return found


def loaded(server: Server, namespace: str, table: str) -> dict[str, Any]:
    path = f"namespaces/{quote(namespace, safe='')}/tables/{quote(table, safe='')}"
    answer = requests.get(f"{server.iceberg}/v1/default/{path}", timeout=30)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_the_whole_life_of_a_table(server: Server, connect: Connect, namespace: str, name: str) -> None:
    duck = connect()
    schema = f"lake.{quoted(namespace)}"
    table = f"{schema}.{quoted(name)}"
    duck.execute(f"CREATE SCHEMA {schema}")
    duck.execute(f"CREATE TABLE {table} (id INTEGER, name VARCHAR, score FLOAT)")
    duck.execute(f"INSERT INTO {table} VALUES (1, 'n1', 0.5), (2, 'n2', 1.0), (3, 'n3', 1.5)")
    first = loaded(server, namespace, name)["metadata"]["current-snapshot-id"]
    duck.execute(f"INSERT INTO {table} VALUES (4, 'n4', 2.0)")
    assert all_rows(duck, f"SELECT id FROM {table} ORDER BY id") == [(1,), (2,), (3,), (4,)]

    duck.execute(f"ALTER TABLE {table} ADD COLUMN extra DOUBLE")
    duck.execute(f"ALTER TABLE {table} RENAME COLUMN name TO title")
    duck.execute(f"ALTER TABLE {table} ALTER COLUMN id SET DATA TYPE BIGINT")
    duck.execute(f"ALTER TABLE {table} DROP COLUMN score")
    duck = connect()
    described = [row[:2] for row in all_rows(duck, f"DESCRIBE {table}")]
    assert described == [("id", "BIGINT"), ("title", "VARCHAR"), ("extra", "DOUBLE")]

    duck.execute(f"ALTER TABLE {table} SET PARTITIONED BY (bucket(4, id))")
    duck.execute(f"INSERT INTO {table} VALUES (5000000000, 'big', 0.1), (6, 'n6', 0.6)")
    assert len(loaded(server, namespace, name)["metadata"]["partition-specs"]) == 2
    duck.execute(f"UPDATE {table} SET title = 'changed' WHERE id = 2")
    duck.execute(f"DELETE FROM {table} WHERE id = 1")
    expected = [(2, "changed"), (3, "n3"), (4, "n4"), (6, "n6"), (5_000_000_000, "big")]
    assert all_rows(connect(), f"SELECT id, title FROM {table} ORDER BY id") == expected

    past = all_rows(duck, f"SELECT count(*) FROM {table} AT (VERSION => {first})")
    assert past == [(3,)]

    duck.execute(f"ALTER TABLE {table} RENAME TO {quoted(name + ' renamed')}")
    renamed = f"{schema}.{quoted(name + ' renamed')}"
    duck = connect()
    assert all_rows(duck, f"SELECT count(*) FROM {renamed}") == [(5,)]
    with pytest.raises(duckdb.Error):
        duck.execute(f"SELECT * FROM {table}")
    duck.execute(f"DROP TABLE {renamed}")
    with pytest.raises(duckdb.Error):
        connect().execute(f"SELECT * FROM {renamed}")
    duck.execute(f"DROP SCHEMA {schema}")
    assert (namespace,) not in all_rows(connect(), "SELECT schema_name FROM information_schema.schemata")


def test_rename_by_the_api_is_seen(server: Server, connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.renaming")
    duck.execute("CREATE TABLE lake.renaming.a AS SELECT 1 AS x")
    body = {
        "source": {"namespace": ["renaming"], "name": "a"},
        "destination": {"namespace": ["renaming"], "name": "b"},
    }
    assert (
        requests.post(f"{server.iceberg}/v1/default/tables/rename", json=body, timeout=30).status_code == 204
    )
    assert all_rows(connect(), "SELECT x FROM lake.renaming.b") == [(1,)]
    with pytest.raises(duckdb.Error):
        connect().execute("SELECT * FROM lake.renaming.a")


def test_create_table_as_select_makes_its_directories(connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.made")
    duck.execute("CREATE TABLE lake.made.t AS SELECT range AS id, 'v' || range AS v FROM range(1000)")
    assert all_rows(connect(), "SELECT count(*), sum(id) FROM lake.made.t") == [(1000, 499500)]
    with pytest.raises(duckdb.Error, match=r"(?i)exist"):
        connect().execute("CREATE TABLE lake.made.t (x INTEGER)")


def test_a_transaction_over_two_tables_is_one_commit(server: Server, connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.pair")
    duck.execute("CREATE TABLE lake.pair.a (x INTEGER)")
    duck.execute("CREATE TABLE lake.pair.b (x INTEGER)")
    duck.execute("BEGIN")
    duck.execute("INSERT INTO lake.pair.a VALUES (1)")
    duck.execute("INSERT INTO lake.pair.b VALUES (2)")
    other = connect()
    assert all_rows(other, "SELECT count(*) FROM lake.pair.a") == [(0,)]
    duck.execute("COMMIT")
    again = connect()
    assert all_rows(again, "SELECT x FROM lake.pair.a UNION ALL SELECT x FROM lake.pair.b") == [(1,), (2,)]
    assert len(loaded(server, "pair", "a")["metadata"]["snapshots"]) == 1


def test_a_stale_transaction_changes_neither_table(server: Server, connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.stale")
    duck.execute("CREATE TABLE lake.stale.a (x INTEGER)")
    duck.execute("CREATE TABLE lake.stale.b (x INTEGER)")
    duck.execute("BEGIN")
    duck.execute("INSERT INTO lake.stale.a VALUES (1)")
    duck.execute("INSERT INTO lake.stale.b VALUES (1)")
    connect().execute("INSERT INTO lake.stale.b VALUES (2)")
    with pytest.raises(duckdb.Error):
        duck.execute("COMMIT")
    fresh = connect()
    assert all_rows(fresh, "SELECT x FROM lake.stale.a") == []
    assert all_rows(fresh, "SELECT x FROM lake.stale.b") == [(2,)]
    assert loaded(server, "stale", "a")["metadata"]["snapshots"] == []


def test_concurrent_inserts_lose_nothing(connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.many")
    duck.execute("CREATE TABLE lake.many.t (writer INTEGER, n INTEGER)")
    connections = [connect() for _ in range(4)]

    def write(writer: int) -> None:
        for number in range(5):
            for _ in range(200):
                try:
                    connections[writer].execute(f"INSERT INTO lake.many.t VALUES ({writer}, {number})")
                    break
                except duckdb.Error:
                    continue  # a conflict: the statement is simply repeated
            else:
                raise AssertionError("never committed")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [(writer, number) for writer in range(4) for number in range(5)]
    assert all_rows(connect(), "SELECT * FROM lake.many.t ORDER BY ALL") == expected


def test_nested_namespaces(connect: Connect, server: Server) -> None:
    for levels in (["outer"], ["outer", "inner"]):
        body = {"namespace": levels}
        assert (
            requests.post(f"{server.iceberg}/v1/default/namespaces", json=body, timeout=30).status_code == 200
        )
    duck = connect()
    duck.execute('CREATE TABLE lake."outer.inner".t AS SELECT 7 AS x')
    assert all_rows(connect(), 'SELECT x FROM lake."outer.inner".t') == [(7,)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_pyiceberg_and_duckdb_read_each_other(server: Server, connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.shared")
    duck.execute("CREATE TABLE lake.shared.t AS SELECT range::INTEGER AS id FROM range(3)")
    catalog = load_catalog("frazil", type="rest", uri=server.iceberg, warehouse="default")
    table = catalog.load_table("shared.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
    table.append(table.scan().to_arrow())
    assert all_rows(connect(), "SELECT count(*), sum(id) FROM lake.shared.t") == [(6, 6)]
    duck = connect()
    duck.execute("DELETE FROM lake.shared.t WHERE id = 1")
    assert sorted(catalog.load_table("shared.t").scan().to_arrow()["id"].to_pylist()) == [0, 0, 2, 2]


def test_unknown_keys_survive_a_duckdb_commit(server: Server, connect: Connect) -> None:
    duck = connect()
    duck.execute("CREATE SCHEMA lake.odd")
    duck.execute("CREATE TABLE lake.odd.t AS SELECT 1 AS x")
    before = loaded(server, "odd", "t")
    document = before["metadata"]
    document["x-invented"] = {"a": 1}
    document["schemas"][0]["x-invented"] = "s"
    document["snapshots"][0]["x-invented"] = [1]
    marked = f"{document['location']}/metadata/99999-00000000-0000-4000-8000-000000000001.metadata.json"
    Path(urlsplit(marked).path).write_text(json.dumps(document))
    base = f"{server.iceberg}/v1/default/namespaces/odd"
    assert requests.delete(f"{base}/tables/t", timeout=30).status_code == 204
    registered = requests.post(
        f"{base}/register", json={"name": "t", "metadata-location": marked}, timeout=30
    )
    assert registered.status_code == 200, registered.text
    connect().execute("INSERT INTO lake.odd.t VALUES (2)")
    after = loaded(server, "odd", "t")["metadata"]
    assert len(after["snapshots"]) == 2
    assert after["x-invented"] == {"a": 1}
    assert after["schemas"][0]["x-invented"] == "s"
    assert after["snapshots"][0]["x-invented"] == [1]
