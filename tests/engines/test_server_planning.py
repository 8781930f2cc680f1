"""Scans planned by the server beside the same scans planned by the clients themselves: Java's and PyIceberg's.

The same files with the same deletes for every filter, and the same rows.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from table_format.ident import TableIdent
from table_format.rest import RestCatalog
from tests.engines.conftest import extension
from tests.factories.scans import PlannedLake
from tests.java.driver import IcebergJava
from tests.java.fixtures import java
from tests.process.servers import Server

__all__ = ["java"]

pytestmark = [
    pytest.mark.engine,
    pytest.mark.java,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMESPACE = "planned"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "at", TimestampType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "score", DoubleType(), required=False),
    NestedField(7, "place", StructType(NestedField(8, "city", StringType(), required=False)), required=False),
)
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("score", pa.float64()),
        ("place", pa.struct([("city", pa.string())])),
    ]
)
NOON = datetime(2024, 1, 1, 12)  # noqa: DTZ001 - the column has no zone
CITIES = ["Aachen", "Bern", "Cham", None]


def rows(start: int, end: int, *, nulls: bool = True) -> pa.Table:
    numbers = range(start, end)
    return pa.Table.from_pylist(
        [
            {
                "id": None if nulls and n % 13 == 0 else n,
                "name": None if nulls and n % 11 == 0 else f"{'abcde'[n % 5]}-{n:03}",
                "day": None if nulls and n % 17 == 0 else date(2024, 1, 1) + timedelta(days=n % 4),
                "at": NOON + timedelta(hours=n),
                "price": Decimal(n) / 4,
                "score": float("nan") if n % 7 == 0 else n / 2,
                "place": {"city": CITIES[n % 4]},
            }
            for n in numbers
        ],
        schema=ARROW,
    )


def connect(server: Server, mode: str = "client") -> Catalog:
    options = {"uri": server.iceberg, "warehouse": "default", "scan-planning-mode": mode}
    return load_catalog("frazil", type="rest", **options)


def plain(server: Server) -> None:
    """Files of many ranges, no partitions."""
    table = connect(server).create_table((NAMESPACE, "plain"), SCHEMA)
    for start in range(0, 120, 20):
        table.append(rows(start, start + 20))


def partitioned(server: Server) -> None:
    """Partitions of every kind, a spec that changed, and columns that were added and renamed since."""
    fill_partitions(server, "partitioned", nulls=True)


def partitioned_without_nulls(server: Server) -> None:
    """PyIceberg takes no answer with a null among the partition's values."""
    fill_partitions(server, "partitioned_without_nulls", nulls=False)


def fill_partitions(server: Server, name: str, *, nulls: bool) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, TruncateTransform(1), "letter"),
        PartitionField(1, 1001, BucketTransform(2), "shard"),
    )
    table = connect(server).create_table((NAMESPACE, name), SCHEMA, partition_spec=spec)
    table.append(rows(0, 40, nulls=nulls))
    with table.update_spec() as update:
        update.remove_field("shard")
        update.add_field("at", DayTransform(), "at_day")
        update.add_field("day", IdentityTransform(), "by_day")
    table.append(rows(40, 80, nulls=nulls))
    with table.update_schema() as change:
        change.add_column("extra", LongType())
        change.rename_column("price", "cost")
    with table.update_schema() as change:
        change.rename_column("cost", "price")  # filters name it
    extra = pa.array([7] * 20, pa.int64())
    table.append(rows(80, 100, nulls=nulls).append_column("extra", extra))


def positions(server: Server) -> None:
    """Position deletes, by DuckDB."""
    table = connect(server).create_table((NAMESPACE, "positions"), SCHEMA)
    for start in range(0, 60, 20):
        table.append(rows(start, start + 20))
    delete_by_duckdb(server, "positions", "id IN (3, 25, 26)")
    table.refresh()
    table.append(rows(60, 70))
    delete_by_duckdb(server, "positions", "id > 57 AND id < 63")


def vectors(server: Server) -> None:
    """A table of format version 3 with deletion vectors, by DuckDB."""
    properties = {"format-version": "3"}
    table = connect(server).create_table((NAMESPACE, "vectors"), SCHEMA, properties=properties)
    with duck(server) as connection:
        names = ", ".join(f'"{name}"' for name in ARROW.names)
        for start in range(0, 60, 20):
            batch = rows(start, start + 20)
            connection.register("batch", batch)
            connection.execute(f"INSERT INTO lake.{NAMESPACE}.vectors ({names}) SELECT {names} FROM batch")
            connection.unregister("batch")
    delete_by_duckdb(server, "vectors", "id IN (3, 25, 26)")
    table.refresh()
    assert table.metadata.format_version == 3


def equality(server: Server) -> None:
    """Equality deletes, some of one partition, some of all, between the appends that they do not reach."""
    lake = PlannedLake(
        RestCatalog(server.iceberg, "default"),
        TableIdent.of(NAMESPACE, "equality"),
        schema={
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "id", "required": False, "type": "long"},
                {"id": 2, "name": "name", "required": False, "type": "string"},
            ],
        },
        spec={
            "spec-id": 0,
            "fields": [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}],
        },
    )
    for number, name in enumerate("aabbc"):
        lake.append(lake.data_file([{"id": number, "name": name}], partition=(name,)))
    lake.row_delta([], [lake.equality_file([{"id": 1}], [1], partition=("a",))])
    lake.append(lake.data_file([{"id": 1, "name": "a"}], partition=("a",)))
    again = lake.data_file([{"id": 2, "name": "b"}], partition=("b",))
    lake.row_delta([again], [lake.equality_file([{"id": 2}], [1], partition=("b",))])


def wide(server: Server) -> None:
    """More files than one answer has."""
    lake = PlannedLake(RestCatalog(server.iceberg, "default"), TableIdent.of(NAMESPACE, "wide"))
    for start in range(0, 5000, 1250):
        lake.append_named(*[f"f{number:05}" for number in range(start, start + 1250)])


class duck:  # noqa: N801 - used like a function
    """A DuckDB connection with the catalog attached as `lake`."""

    def __init__(self, server: Server) -> None:
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
        for name in ("httpfs", "avro", "iceberg"):
            self._connection.execute(f"LOAD '{extension(name)}'")
        self._connection.execute(
            f"ATTACH 'default' AS lake (TYPE ICEBERG, ENDPOINT '{server.iceberg}', AUTHORIZATION_TYPE 'none')"
        )

    def __enter__(self) -> duckdb.DuckDBPyConnection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def delete_by_duckdb(server: Server, name: str, condition: str) -> None:
    with duck(server) as connection:
        connection.execute(f"DELETE FROM lake.{NAMESPACE}.{name} WHERE {condition}")


TABLES: dict[str, Callable[[Server], None]] = {
    make.__name__: make
    for make in (plain, partitioned, partitioned_without_nulls, positions, vectors, equality, wide)
}


@pytest.fixture(scope="module")
def filled(server: Server) -> Server:
    connect(server).create_namespace(NAMESPACE)
    for make in TABLES.values():
        make(server)
    return server


def leaf(kind: str, term: Any, *value: Any) -> dict[str, Any]:
    return {"type": kind, "term": term, **({"value": value[0]} if value else {})}


def both(kind: str, left: Any, right: Any) -> dict[str, Any]:
    return {"type": kind, "left": left, "right": right}


ON_NAME = [
    None,
    leaf("eq", "id", 25),
    leaf("eq", "id", -1),
    leaf("not-eq", "id", 25),
    leaf("lt", "id", 20),
    leaf("lt-eq", "id", 20),
    leaf("gt", "id", 59),
    leaf("gt-eq", "id", 59),
    {"type": "in", "term": "id", "values": [1, 2, 61]},
    {"type": "not-in", "term": "id", "values": [1, 2, 61]},
    {"type": "in", "term": "id", "values": list(range(0, 400, 2))},
    leaf("is-null", "id"),
    leaf("not-null", "id"),
    leaf("eq", "name", "a"),
    leaf("eq", "name", "b-026"),
    leaf("lt", "name", "b"),
    leaf("gt-eq", "name", "c-0"),
    leaf("starts-with", "name", "a"),
    leaf("starts-with", "name", "c-01"),
    leaf("not-starts-with", "name", "a"),
    {"type": "in", "term": "name", "values": ["a", "b", "c-012"]},
    leaf("is-null", "name"),
    leaf("not-null", "name"),
    both("and", leaf("gt", "id", 10), leaf("lt", "id", 30)),
    both("or", leaf("lt", "id", 10), leaf("gt", "id", 70)),
    both("and", leaf("gt", "id", 30), leaf("lt", "id", 10)),
    {"type": "not", "child": both("or", leaf("lt", "id", 40), leaf("is-null", "name"))},
    {"type": "not", "child": leaf("starts-with", "name", "a")},
    both("or", leaf("eq", "name", "a"), both("and", leaf("eq", "name", "b"), leaf("gt", "id", 2))),
    True,
    False,
]
ON_THE_REST = [
    leaf("eq", "day", "2024-01-02"),
    leaf("gt", "day", "2024-01-03"),
    leaf("is-null", "day"),
    leaf("lt", "at", "2024-01-02T00:00:00"),
    leaf("gt-eq", "at", "2024-01-03T12:00:00"),
    both("and", leaf("gt-eq", "at", "2024-01-02T12:00:00"), leaf("lt", "at", "2024-01-03T00:00:00")),
    leaf("eq", "price", "5.25"),
    leaf("gt", "price", "19.75"),
    leaf("gt", "score", 30.0),
    leaf("is-nan", "score"),
    leaf("not-nan", "score"),
    leaf("eq", "place.city", "Bern"),
    leaf("gt", "place.city", "Cham"),
    leaf("not-null", "place.city"),
]
FILTERS: dict[str, list[Any]] = dict.fromkeys(TABLES, ON_NAME + ON_THE_REST)
FILTERS |= {"equality": ON_NAME, "wide": [None, leaf("gt", "id", 3)]}


def compared(tasks: list[dict[str, Any]]) -> list[Any]:
    """What must be the same; of a residual, which may be put in other words, only whether there is one."""
    return sorted(
        [{**task, "residual": task["residual"] != "true"} for task in tasks], key=lambda task: task["file"]
    )


@pytest.mark.parametrize("name", TABLES)
def test_java_finds_the_same_files_with_the_same_deletes(
    filled: Server, java: IcebergJava, name: str
) -> None:
    differing = {}
    for wanted in FILTERS[name]:
        asked = {"uri": filled.iceberg, "namespace": NAMESPACE, "table": name, "filter": wanted}
        by_client = java.ask("planFiles", mode="client", **asked)
        by_server = java.ask("planFiles", mode="server", **asked)
        if compared(by_client) != compared(by_server):
            differing[str(wanted)] = [shown(by_client), shown(by_server)]
    assert differing == {}


def shown(tasks: list[dict[str, Any]]) -> list[Any]:
    some = [(task["file"].rpartition("/")[2], len(task["deletes"]), task["residual"]) for task in tasks[:6]]
    return [len(tasks), *some]


@pytest.mark.parametrize("name", ["plain", "partitioned", "positions", "vectors", "equality"])
def test_java_finds_the_same_in_other_ways_to_scan(filled: Server, java: IcebergJava, name: str) -> None:
    snapshots = [each.snapshot_id for each in connect(filled).load_table((NAMESPACE, name)).snapshots()]
    ways: list[dict[str, Any]] = [
        {"snapshot": snapshots[0]},
        {"snapshot": snapshots[1], "filter": leaf("gt", "id", 3)},
        {"select": ["name", "id"], "filter": leaf("lt", "id", 30)},
        {"caseSensitive": False, "select": ["NAME"], "filter": leaf("gt", "ID", 30)},
        {"stats": True},
    ]
    for way in ways:
        asked = {"uri": filled.iceberg, "namespace": NAMESPACE, "table": name, **way}
        by_client = java.ask("planFiles", mode="client", **asked)
        assert compared(java.ask("planFiles", mode="server", **asked)) == compared(by_client), way
        assert by_client, way


PY_FILTERS: list[BooleanExpression] = [
    AlwaysTrue(),
    EqualTo("id", 25),
    NotEqualTo("id", 25),
    LessThan("id", 20),
    GreaterThan("id", 50),
    And(GreaterThanOrEqual("id", 18), LessThan("id", 42)),
    Or(LessThan("id", 10), GreaterThan("id", 64)),
    In("id", {1, 2, 61}),
    NotIn("id", {1, 2, 61}),
    IsNull("name"),
    NotNull("name"),
    StartsWith("name", "a"),
    NotStartsWith("name", "a"),
    Not(Or(StartsWith("name", "b"), IsNull("id"))),
    EqualTo("name", "b-026"),
]
PY_ON_THE_REST: list[BooleanExpression] = [
    EqualTo("day", date(2024, 1, 2)),
    GreaterThan("at", NOON + timedelta(days=1)),
    GreaterThan("price", Decimal("9.75")),
    EqualTo("place.city", "Bern"),
]


def planned(table: Any, wanted: BooleanExpression) -> dict[str, set[str]]:
    tasks = list(table.scan(row_filter=wanted).plan_files())
    found = {task.file.file_path: {file.file_path for file in task.delete_files} for task in tasks}
    assert len(found) == len(tasks)
    return found


def agree(client: dict[str, set[str]], server: dict[str, set[str]], wanted: BooleanExpression) -> bool:
    """The same files with the same deletes, where PyIceberg is exact.

    Like Java, the server leaves out a file that holds nothing but the unwanted value, and gives a deletion vector
    only to its own data file; PyIceberg does neither.
    """
    fewer = isinstance(wanted, NotIn | NotEqualTo)
    return (server.keys() <= client.keys() if fewer else server.keys() == client.keys()) and all(
        deletes == client[path]
        or (deletes < client[path] and all(each.endswith(".puffin") for each in client[path]))
        for path, deletes in server.items()
    )


@pytest.mark.parametrize("name", ["plain", "partitioned_without_nulls", "positions", "vectors"])
def test_pyiceberg_finds_the_same_files_and_rows(filled: Server, name: str) -> None:
    by_client = connect(filled).load_table((NAMESPACE, name))
    by_server = connect(filled, "server").load_table((NAMESPACE, name))
    assert by_server.catalog.supports_server_side_planning()
    differing = {}
    for wanted in PY_FILTERS + PY_ON_THE_REST:
        files = planned(by_client, wanted), planned(by_server, wanted)
        found = [
            table.scan(row_filter=wanted, selected_fields=("at", "id", "name")).to_arrow().sort_by("at")
            for table in (by_client, by_server)
        ]
        if not agree(*files, wanted) or not found[0].equals(found[1]):
            differing[str(wanted)] = (files, [len(each) for each in found])
    assert differing == {}


def test_pyiceberg_follows_the_pages_of_a_large_table(filled: Server) -> None:
    table = connect(filled, "server").load_table((NAMESPACE, "wide"))
    paths = [task.file.file_path.rpartition("/")[2] for task in table.scan().plan_files()]
    assert sorted(paths) == [f"f{number:05}.parquet" for number in range(5000)]
