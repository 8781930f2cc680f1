"""What real clients send: PyIceberg and DuckDB at work, their exchanges kept."""

import functools
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import uvicorn
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchTableError
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from catalog_server.app import create_app
from tests.api.iceberg_client import in_process
from tests.contract.recording import Exchange, Recorder
from tests.engines.conftest import extension


@contextmanager
def listening(directory: Path, client: str) -> Iterator[tuple[str, list[Exchange]]]:
    """A server on a free loopback port: its base URI for Iceberg clients, and what is exchanged."""
    with in_process(directory) as (http, platform), socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # from here on clients can connect; they are answered once the server runs
        recorder = Recorder(create_app(platform), client)
        server = uvicorn.Server(uvicorn.Config(recorder, lifespan="off", log_config=None))
        running = http.portal.start_task_soon(functools.partial(server.serve, sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/iceberg", recorder.exchanges
        finally:
            server.should_exit = True
            running.result()


def pyiceberg(uri: str) -> None:
    """A table and a view through most of what PyIceberg can do."""
    catalog = load_catalog("frazil", type="rest", uri=uri, warehouse="default")
    catalog.create_namespace("py ns", {"owner": "ada"})
    catalog.create_namespace(("py ns", "inner"))
    catalog.update_namespace_properties("py ns", {"owner"}, {"team": "ice"})
    assert catalog.list_namespaces("py ns") == [("py ns", "inner")]
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    table = catalog.create_table("py ns.t", rows.schema)
    table.append(rows)
    asking = load_catalog(
        "frazil", type="rest", uri=uri, warehouse="default", **{"scan-planning-mode": "server"}
    )
    assert len(asking.load_table("py ns.t").scan(EqualTo("name", "b")).to_arrow()) == 1
    table.delete(EqualTo("id", 1))
    with table.update_schema() as schema:
        schema.add_column("extra", LongType())
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "b")
    with table.manage_snapshots() as snapshots:
        current = table.current_snapshot()
        assert current is not None
        snapshots.create_tag(current.snapshot_id, "v1")
    with table.transaction() as transaction:
        transaction.set_properties(a="b")
    assert catalog.load_table("py ns.t").scan().to_arrow().num_rows == 1
    with catalog.create_table_transaction("py ns.staged", rows.schema) as staged:
        staged.append(rows)
    assert sorted(catalog.list_tables("py ns")) == [("py ns", "staged"), ("py ns", "t")]
    catalog.rename_table("py ns.t", "py ns.u")
    assert not catalog.table_exists("py ns.t")
    _refused(NoSuchTableError, lambda: catalog.load_table("py ns.t"))
    _refused(NamespaceNotEmptyError, lambda: catalog.drop_namespace("py ns"))
    location = catalog.load_table("py ns.u").metadata_location
    catalog.drop_table("py ns.u")
    catalog.register_table("py ns.back", location)
    catalog.purge_table("py ns.back")
    query = SQLViewRepresentation(type="sql", sql="select 1", dialect="spark")
    version = ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=1_700_000_000_000,
        summary={"engine": "pyiceberg"},
        representations=[query],
        default_namespace=["py ns"],
    )
    catalog.create_view("py ns.v", Schema(NestedField(1, "name", StringType(), required=False)), version)
    assert catalog.list_views("py ns") == [("py ns", "v")]
    catalog.load_view("py ns.v")
    catalog.drop_view("py ns.v")


def _refused(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected")


def duck(uri: str) -> None:
    """A table through most of what DuckDB can do."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("httpfs", "avro", "iceberg"):
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute(
        f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')"
    )
    for statement in (
        "CREATE SCHEMA lake.duck",
        "CREATE TABLE lake.duck.t (id INTEGER, name VARCHAR)",
        "INSERT INTO lake.duck.t VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE lake.duck.copy AS SELECT * FROM lake.duck.t",
        "UPDATE lake.duck.t SET name = 'c' WHERE id = 2",
        "DELETE FROM lake.duck.t WHERE id = 1",
        "ALTER TABLE lake.duck.t ADD COLUMN extra DOUBLE",
        "ALTER TABLE lake.duck.t RENAME COLUMN name TO title",
        "ALTER TABLE lake.duck.t ALTER COLUMN id SET DATA TYPE BIGINT",
        "BEGIN",
        "INSERT INTO lake.duck.t VALUES (3, 'd', 0.5)",
        "INSERT INTO lake.duck.copy VALUES (3, 'd')",
        "COMMIT",
    ):
        connection.execute(statement)
    assert connection.execute("SELECT id FROM lake.duck.t ORDER BY id").fetchall() == [(2,), (3,)]
    connection.execute("DROP TABLE lake.duck.t")
    connection.close()
