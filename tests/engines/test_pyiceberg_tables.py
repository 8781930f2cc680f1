"""PyIceberg against a running server: the whole life of a table, on names of every kind."""

import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType

from tests.process.servers import Server

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    # PyIceberg warns of its own deprecations and of deletes that rewrite files.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMES = [
    ("plain", "table"),
    ("with space", "ta ble"),
    ("dot.ted", "ta.ble"),
    ("sla/shed", "ta/ble"),
    ("per%cent", "%41+&=?#"),
    ("grüße", "水🧊"),
    ("pl+us", "a+b"),
]


def rows(*numbers: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "name": pa.array([f"n{number}" for number in numbers], pa.string()),
            "score": pa.array([number / 2 for number in numbers], pa.float32()),
        }
    )


def connect(server: Server) -> Catalog:
    return load_catalog("frazil", type="rest", uri=server.iceberg, warehouse="default")


@pytest.fixture
def catalog(server: Server) -> Catalog:
    return connect(server)


def ids(table: Any, **options: Any) -> list[int]:
    found: list[int] = sorted(table.scan(**options).to_arrow()["id"].to_pylist())
    return found


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_the_whole_life_of_a_table(catalog: Catalog, namespace: str, name: str) -> None:
    catalog.create_namespace((namespace,), {"owner": "ada"})
    identifier = (namespace, name)
    table = catalog.create_table(identifier, schema=rows(1).schema)
    assert catalog.list_tables((namespace,)) == [identifier]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(identifier, schema=rows(1).schema)

    table.append(rows(1, 2, 3))
    first = table.current_snapshot()
    assert first is not None
    table.append(rows(4, 5))
    assert ids(catalog.load_table(identifier)) == [1, 2, 3, 4, 5]

    evolve(table)
    table = catalog.load_table(identifier)
    columns = [field.name for field in table.schema().fields]
    assert columns == ["title", "id", "extra"]
    assert isinstance(table.schema().find_field("id").field_type, LongType)
    assert ids(table) == [1, 2, 3, 4, 5]

    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_bucket")
        spec.add_field("title", IdentityTransform(), "title_part")
    newer = pa.table({"title": ["n6", "n7"], "id": pa.array([6, 7], pa.int64()), "extra": [0.5, 0.7]})
    table.append(newer)
    assert len(table.specs()) == 2
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]

    table.overwrite(newer.slice(0, 1), overwrite_filter=EqualTo("id", 6))
    table.delete(GreaterThan("id", 6))
    table.delete(EqualTo("id", 1))
    assert ids(catalog.load_table(identifier)) == [2, 3, 4, 5, 6]
    assert ids(table, snapshot_id=first.snapshot_id) == [1, 2, 3]

    renamed = (namespace, f"{name} renamed")
    catalog.rename_table(identifier, renamed)
    assert not catalog.table_exists(identifier)
    assert ids(catalog.load_table(renamed)) == [2, 3, 4, 5, 6]
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace((namespace,))
    catalog.drop_table(renamed)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(renamed)
    catalog.drop_namespace((namespace,))
    assert not catalog.namespace_exists((namespace,))


def evolve(table: Any) -> None:
    """Add, rename, drop, reorder, promote."""
    with table.update_schema() as schema:
        schema.add_column("extra", DoubleType())
    with table.update_schema() as schema:
        schema.rename_column("name", "title")
    with table.update_schema() as schema:
        schema.update_column("id", field_type=LongType())
    with table.update_schema() as schema:
        schema.move_first("title")
    with table.update_schema() as schema:
        schema.delete_column("score")


def test_overwrite_everything_and_read_an_old_tag(catalog: Catalog) -> None:
    catalog.create_namespace("overwritten")
    table = catalog.create_table("overwritten.t", schema=rows(1).schema)
    table.append(rows(1, 2))
    tagged = table.current_snapshot()
    assert tagged is not None
    table.manage_snapshots().create_tag(tagged.snapshot_id, "before").commit()
    table.overwrite(rows(9))
    assert ids(catalog.load_table("overwritten.t")) == [9]
    loaded = catalog.load_table("overwritten.t")
    assert loaded.refs()["before"].snapshot_id == tagged.snapshot_id
    assert ids(loaded, snapshot_id=tagged.snapshot_id) == [1, 2]


def test_a_staged_create_and_properties_in_one_commit(catalog: Catalog) -> None:
    catalog.create_namespace("staged")
    with catalog.create_table_transaction("staged.t", schema=rows(1).schema) as transaction:
        transaction.set_properties({"a": "b"})
        transaction.append(rows(1, 2))
        with pytest.raises(NoSuchTableError):
            catalog.load_table("staged.t")
    table = catalog.load_table("staged.t")
    assert ids(table) == [1, 2]
    assert table.properties["a"] == "b"


def test_namespaces_nested_and_with_properties(catalog: Catalog) -> None:
    catalog.create_namespace(("top level",), {"a": "1"})
    catalog.create_namespace(("top level", "in.ner"))
    catalog.create_table(("top level", "in.ner", "t"), schema=rows(1).schema)
    assert catalog.list_namespaces(("top level",)) == [("top level", "in.ner")]
    assert ("top level",) in catalog.list_namespaces()
    summary = catalog.update_namespace_properties(("top level",), removals={"a", "zz"}, updates={"b": "2"})
    assert (summary.updated, summary.removed, summary.missing) == (["b"], ["a"], ["zz"])
    assert catalog.load_namespace_properties(("top level",))["b"] == "2"
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties("missing")


def test_writers_on_one_table_lose_nothing(server: Server, catalog: Catalog) -> None:
    catalog.create_namespace("contended")
    properties = {
        "commit.retry.num-retries": "100",
        "commit.retry.min-wait-ms": "20",
        "commit.retry.max-wait-ms": "300",
        "commit.retry.total-timeout-ms": "240000",
    }
    catalog.create_table("contended.t", schema=rows(1).schema, properties=properties)
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            table = connect(server).load_table("contended.t")
            for number in range(3):
                table.append(rows(writer * 100 + number))
                table.refresh()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = sorted(writer * 100 + number for writer in range(6) for number in range(3))
    assert ids(catalog.load_table("contended.t")) == expected


def test_unknown_keys_at_every_level_survive_our_commits(server: Server, catalog: Catalog) -> None:
    catalog.create_namespace("strange")
    table = catalog.create_table("strange.t", schema=rows(1).schema)
    table.append(rows(1, 2))
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "id_bucket")
    with table.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    table.append(rows(3))
    document = json.loads(path_of(table.metadata_location).read_bytes())
    places = mark(document)
    marked = f"{document['location']}/metadata/99999-00000000-0000-4000-8000-000000000000.metadata.json"
    path_of(marked).write_text(json.dumps(document))
    catalog.drop_table("strange.t")
    table = catalog.register_table("strange.t", marked)

    table.append(rows(4))
    with table.update_schema() as schema:
        schema.add_column("extra", StringType())
    with table.transaction() as transaction:
        transaction.set_properties({"a": "b"})
    assert ids(catalog.load_table("strange.t")) == [1, 2, 3, 4]

    base = f"{server.iceberg}/v1/default/namespaces/strange/tables/t"
    after = requests.get(base, timeout=30).json()
    assert after["metadata"]["properties"]["a"] == "b"
    stored = json.loads(path_of(after["metadata-location"]).read_bytes())
    for kept in (after["metadata"], stored):
        for place in places:
            assert at(kept, place)["x-invented"] == {"deep": [1, None, "ü", 2**63 - 1]}, place


def mark(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Put an invented key into one object of every kind; where they are."""
    places: list[tuple[Any, ...]] = [
        (),
        ("schemas", 0),
        ("schemas", 0, "fields", 0),
        ("partition-specs", 1),
        ("partition-specs", 1, "fields", 0),
        ("sort-orders", 1),
        ("sort-orders", 1, "fields", 0),
        ("snapshots", 0),
        ("refs", "main"),
        ("snapshot-log", 0),
        ("metadata-log", 0),
    ]
    # The ref moves with each commit and is a new object then; a tag stays.
    document["refs"]["kept"] = {"snapshot-id": document["snapshots"][0]["snapshot-id"], "type": "tag"}
    places[places.index(("refs", "main"))] = ("refs", "kept")
    document["statistics"] = [
        {
            "snapshot-id": document["snapshots"][0]["snapshot-id"],
            "statistics-path": f"{document['location']}/metadata/s.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
    ]
    places.append(("statistics", 0))
    for place in places:
        at(document, place)["x-invented"] = {"deep": [1, None, "ü", 2**63 - 1]}
    return places


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        document = document[step]
    return document


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


def test_every_page_is_followed(server: Server) -> None:
    paged = load_catalog(
        "paged", **{"type": "rest", "uri": server.iceberg, "warehouse": "default", "rest-page-size": "2"}
    )
    paged.create_namespace("paged")
    for number in range(5):
        paged.create_table(f"paged.t{number}", schema=rows(1).schema)
    assert [name for _, name in paged.list_tables("paged")] == [f"t{number}" for number in range(5)]


def test_purge_and_credentials(server: Server, catalog: Catalog) -> None:
    catalog.create_namespace("purged")
    table = catalog.create_table("purged.t", schema=rows(1).schema)
    table.append(rows(1))
    catalog.purge_table("purged.t")
    assert not catalog.table_exists("purged.t")
    jobs = requests.get(f"{server.api}/jobs?kind=tablePurge", timeout=30).json()["jobs"]
    assert [job["table"] for job in jobs] == ["t"]
    with_credential = load_catalog("credential", type="rest", uri=server.iceberg, credential="id:secret")
    assert ("purged",) in with_credential.list_namespaces()
    assert quote("purged") == "purged"
    assert isinstance(table.schema().find_field("id").field_type, IntegerType)


def test_the_management_api_counts_what_was_written(server: Server, catalog: Catalog) -> None:
    catalog.create_namespace("counted")
    table = catalog.create_table("counted.t", schema=rows(1).schema)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    details = requests.get(f"{server.api}/buckets/default/namespaces/counted/tables/t", timeout=30).json()
    figures = details["figures"]
    files = table.inspect.files()
    sizes = files["file_size_in_bytes"].to_pylist()
    assert (figures["dataFiles"], figures["records"], figures["snapshots"], figures["manifests"]) == (
        2,
        4,
        2,
        2,
    )
    assert figures["bytes"] == sum(sizes)
    assert figures["deleteFiles"] == 0
    assert figures["fileSizes"][0] == {"belowBytes": 1 << 20, "files": 2, "bytes": sum(sizes)}
    assert figures["currentSnapshotId"] == table.refresh().metadata.current_snapshot_id
    assert details["table"]["version"] >= 3
