"""PyIceberg against a running server: the life of a view, as far as PyIceberg knows it (it can not replace one)."""

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceNotEmptyError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from tests.process.servers import Server

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCHEMA = Schema(
    NestedField(10, "id", LongType(), required=True),
    NestedField(11, "name", StringType(), required=False),
)
NAMES = [
    ("plain", "view"),
    ("dot.ted", "vi.ew"),
    ("with space", "view"),
    ("sla/shed", "view"),
    ("grüße", "view"),
]


@pytest.fixture
def catalog(server: Server) -> Catalog:
    return load_catalog("frazil", type="rest", uri=server.iceberg, warehouse="default")


def version(sql: str = "select id, name from ns.t", dialect: str = "spark") -> ViewVersion:
    return ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=1_700_000_000_000,
        summary={"engine": "pyiceberg"},
        representations=[SQLViewRepresentation(type="sql", sql=sql, dialect=dialect)],
        default_namespace=["ns"],
    )


@pytest.mark.parametrize("name", NAMES, ids="/".join)
def test_the_life_of_a_view(catalog: Catalog, name: tuple[str, str]) -> None:
    catalog.create_namespace((f"life {name[0]}",))
    ident = (f"life {name[0]}", name[1])
    assert not catalog.view_exists(ident)
    with pytest.raises(NoSuchViewError, match="View does not exist"):
        catalog.load_view(ident)
    made = catalog.create_view(ident, SCHEMA, version(), properties={"a": "b"})
    assert made.metadata.properties == {"a": "b"}
    assert catalog.view_exists(ident)
    loaded = catalog.load_view(ident)
    assert loaded == made
    assert loaded.metadata.location.startswith("file:///")
    current = loaded.metadata.versions[0]
    assert (current.version_id, current.schema_id, loaded.metadata.current_version_id) == (1, 0, 1)
    assert current.representations[0].root.sql == "select id, name from ns.t"
    assert current.summary == {"engine": "pyiceberg"}
    assert [field.name for field in loaded.metadata.schemas[0].fields] == ["id", "name"]
    assert catalog.list_views(ident[0:1]) == [ident]
    assert catalog.list_tables(ident[0:1]) == []
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view(ident, SCHEMA, version())
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(ident[0:1])
    catalog.drop_view(ident)
    with pytest.raises(NoSuchViewError):
        catalog.drop_view(ident)
    assert catalog.list_views(ident[0:1]) == []
    catalog.drop_namespace(ident[0:1])


def test_register_brings_a_dropped_view_back(catalog: Catalog) -> None:
    catalog.create_namespace("registered")
    made = catalog.create_view("registered.v", SCHEMA, version())
    location = metadata_location(catalog, "registered", "v")
    catalog.drop_view("registered.v")
    again = catalog.register_view("registered.w", location)
    assert again.metadata == made.metadata
    assert catalog.load_view("registered.w").metadata == made.metadata
    with pytest.raises((TableAlreadyExistsError, ViewAlreadyExistsError)):
        catalog.register_view("registered.w", location)


def test_tables_and_views_share_their_names(catalog: Catalog) -> None:
    catalog.create_namespace("shared")
    catalog.create_view("shared.v", SCHEMA, version())
    catalog.create_table("shared.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match="View with same name already exists"):
        catalog.create_table("shared.v", SCHEMA)
    with pytest.raises(ViewAlreadyExistsError, match="Table with same name already exists"):
        catalog.create_view("shared.t", SCHEMA, version())
    with pytest.raises(
        TableAlreadyExistsError, match=r"Cannot rename shared\.t to shared\.v\. View already exists"
    ):
        catalog.rename_table("shared.t", "shared.v")


def metadata_location(catalog: Catalog, namespace: str, view: str) -> str:
    """PyIceberg keeps the location of a view's metadata to itself."""
    import requests

    answer = requests.get(
        f"{catalog.properties['uri']}/v1/default/namespaces/{namespace}/views/{view}", timeout=30
    )
    location: str = answer.json()["metadata-location"]
    return location
