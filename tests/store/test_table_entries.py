"""Rows of blank tables: hidden from what reads tables, but their names, ids and places are taken."""

import pytest
from sqlalchemy import Connection

from catalog_server.store import namespaces, places, pointers, table_entries, tables, tags, views
from catalog_server.store.table_entries import Beginning, BlankBirth, Listing, TableEntry
from catalog_server.store.tables import Birth
from catalog_server.store.views import ViewBirth
from table_format.errors import AlreadyExists, Forbidden, NamespaceNotEmpty, NameTaken
from table_format.ident import Namespace, TableIdent
from tests.factories.lookups import found

DB = Namespace(("db",))
NAME = TableIdent(DB, "t")
PLACE = "s3://b/db/t"


@pytest.fixture
def blank(connection: Connection) -> TableEntry:
    namespaces.create(connection, 1, DB, {}, 1)
    return make(connection, NAME, "r1", PLACE)


def make(connection: Connection, ident: TableIdent, resource_id: str, location: str) -> TableEntry:
    birth = BlankBirth(ident=ident, resource_id=resource_id, location=location)
    return table_entries.create_blank(connection, 1, birth, 1)


def table(connection: Connection, name: str, uuid: str, place: str) -> None:
    birth = Birth(
        ident=TableIdent(DB, name),
        table_uuid=uuid,
        location=place,
        places=(place,),
        metadata_location=f"{place}/m",
    )
    tables.create(connection, 1, birth, 1)


def beginning(entry: TableEntry, **changes: object) -> Beginning:
    members: dict[str, object] = {
        "entry": entry,
        "metadata_location": f"{PLACE}/metadata/0",
        "table_uuid": "u1",
        "location": PLACE,
        "places": (PLACE,),
        **changes,
    }
    return Beginning(**members)  # type: ignore[arg-type]


def test_what_reads_tables_does_not_see_it(connection: Connection, blank: TableEntry) -> None:
    assert tables.find(connection, 1, NAME) is None
    assert tables.by_uuid(connection, "r1") is None
    assert tables.everywhere(connection) == tables.in_bucket(connection, 1, None, None) == []
    assert tables.in_namespace(connection, blank.namespace_id, None, None) == []
    assert found(connection, pointers.read("b", NAME)) is None
    assert found(connection, pointers.table_names("b", DB, "", 10)) == []


def test_the_s3_tables_api_does(connection: Connection, blank: TableEntry) -> None:
    table(connection, "u", "u2", "s3://b/db/u")
    assert blank.metadata_location is None
    assert found(connection, table_entries.read("b", NAME)) == blank
    assert table_entries.by_resource_id(connection, 1, "r1") == blank
    assert table_entries.by_resource_id(connection, 2, "r1") is None
    listing = Listing(bucket_id=1, namespace=DB, prefix="")
    assert [one.ident.name for one in table_entries.page(connection, listing, None, 9)] == ["t", "u"]
    assert [one.ident.name for one in table_entries.page(connection, listing, ("db", "t"), 9)] == ["u"]
    narrow = Listing(bucket_id=1, namespace=None, prefix="u")
    assert [one.ident.name for one in table_entries.page(connection, narrow, None, 9)] == ["u"]


def test_names_are_shared_with_tables_and_views(connection: Connection, blank: TableEntry) -> None:
    with pytest.raises(NameTaken, match="Table already exists"):
        table(connection, "t", "u3", "s3://b/db/x")
    with pytest.raises(NameTaken):
        make(connection, NAME, "r2", "s3://b/db/y")
    view = ViewBirth(
        ident=NAME, view_uuid="v", location="s3://b/v", places=("s3://b/v",), metadata_location="s3://b/v/m"
    )
    with pytest.raises(NameTaken, match="Table with same name"):
        views.create(connection, 1, view, 1)
    table(connection, "u", "u2", "s3://b/db/u")
    with pytest.raises(NameTaken):
        tables.rename(connection, 1, TableIdent(DB, "u"), NAME, 2)
    with pytest.raises(NameTaken):
        table_entries.rename(connection, blank, TableIdent(DB, "u"), 2)
    with pytest.raises(NamespaceNotEmpty):
        namespaces.drop(connection, 1, DB)


def test_its_id_and_place_are_taken(connection: Connection, blank: TableEntry) -> None:
    with pytest.raises(AlreadyExists, match="uuid r1"):
        table(connection, "u", "r1", "s3://b/db/u")
    with pytest.raises(AlreadyExists, match="overlaps"):
        table(connection, "u", "u2", f"{PLACE}/below")
    assert list(places.other_than(connection, "u2")) == [PLACE]


def test_its_first_metadata_makes_it_a_table(connection: Connection, blank: TableEntry) -> None:
    more = "s3://b/db/t-data"
    assert table_entries.begin(connection, beginning(blank, places=(PLACE, more)), 5)
    row = tables.require(connection, 1, NAME)
    assert (row.id, row.resource_id, row.table_uuid, row.version) == (blank.id, "r1", "u1", 2)
    assert (row.metadata_location, row.previous_metadata_location) == (f"{PLACE}/metadata/0", None)
    assert sorted(places.other_than(connection, "else")) == [PLACE, more]


def test_only_the_blank_table_that_was_seen_begins(connection: Connection, blank: TableEntry) -> None:
    table_entries.rename(connection, blank, TableIdent(DB, "u"), 2)
    assert not table_entries.begin(connection, beginning(blank), 5)
    now = table_entries.require(connection, 1, TableIdent(DB, "u"))
    assert now.version == 2
    assert table_entries.begin(connection, beginning(now), 5)
    assert not table_entries.begin(connection, beginning(now), 6)


def test_drop_takes_along_what_hangs_on_it_and_frees_name_and_place(
    connection: Connection, blank: TableEntry
) -> None:
    tags.put(connection, "r1", {"k": "v"})
    assert table_entries.drop_if_blank(connection, 1, NAME)
    assert not table_entries.drop_if_blank(connection, 1, NAME)
    assert tags.of(connection, "r1") == {}
    table(connection, "t", "r1", PLACE)
    assert not table_entries.drop_if_blank(connection, 1, NAME)
    assert tables.find(connection, 1, NAME) is not None


def test_a_protected_one_stays(connection: Connection, blank: TableEntry) -> None:
    connection.exec_driver_sql("UPDATE tables SET protected = TRUE")
    with pytest.raises(Forbidden, match="protected"):
        table_entries.drop_if_blank(connection, 1, NAME)
