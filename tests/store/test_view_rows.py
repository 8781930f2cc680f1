"""Rows of views: names shared with tables, places shared with nobody, a pointer that only a swap moves."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from catalog_server.store import namespaces, places, pointers, tables, views
from catalog_server.store.tables import Birth
from catalog_server.store.views import ViewBirth, ViewRow
from table_format.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace, NoSuchView
from table_format.ident import Namespace, TableIdent
from tests.factories.lookups import found

V = TableIdent.of("n", "v")
W = TableIdent.of("n", "w")
T = TableIdent.of("n", "t")


@pytest.fixture(autouse=True)
def _namespaces(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    namespaces.create(connection, 1, Namespace(("m",)), {}, 1)


def birth(number: int, ident: TableIdent, *at: str) -> ViewBirth:
    found = at or (f"s3://b/view-{number}",)
    return ViewBirth(
        ident=ident,
        view_uuid=f"uuid-{number}",
        location=found[0],
        places=found,
        metadata_location=f"{found[0]}/metadata/0.json",
    )


def add(connection: Connection, number: int, ident: TableIdent, *at: str) -> ViewRow:
    return views.create(connection, 1, birth(number, ident, *at), 1)


def add_table(connection: Connection, ident: TableIdent, at: str = "s3://b/table") -> tables.TableRow:
    made = Birth(ident=ident, table_uuid="table", location=at, places=(at,), metadata_location=f"{at}/0")
    return tables.create(connection, 1, made, 1)


def test_create_find_and_list(connection: Connection) -> None:
    made = add(connection, 1, V)
    assert (made.bucket, made.bucket_location, made.version, made.previous_metadata_location) == (
        "b",
        "s3://b",
        1,
        None,
    )
    assert views.require(connection, 1, V) == made
    assert views.find(connection, 1, W) is None
    assert views.find(connection, 2, V) is None
    add(connection, 2, W)
    listed = views.in_namespace(connection, made.namespace_id, None, 1)
    assert [row.ident for row in listed] == [V]
    assert [row.ident for row in views.in_namespace(connection, made.namespace_id, ("v",), None)] == [W]


def test_tables_and_views_share_their_names(connection: Connection) -> None:
    add(connection, 1, V)
    add_table(connection, T)
    with pytest.raises(AlreadyExists, match=r"^View already exists: n\.v$"):
        add(connection, 2, V)
    with pytest.raises(AlreadyExists, match=r"^Table with same name already exists: n\.t$"):
        add(connection, 2, T)
    with pytest.raises(AlreadyExists, match=r"^View with same name already exists: n\.v$"):
        add_table(connection, V, "s3://b/other")
    with pytest.raises(AlreadyExists, match=r"^Cannot rename n\.v to n\.t\. Table already exists: n\.t$"):
        views.rename(connection, 1, V, T, 2)
    with pytest.raises(AlreadyExists, match=r"^Cannot rename n\.t to n\.v\. View already exists: n\.v$"):
        tables.rename(connection, 1, T, V, 2)
    # A name is taken in its namespace only.
    assert add(connection, 2, TableIdent.of("m", "t")).id


@pytest.mark.parametrize("other", ["s3://b/x", "s3://b/x/", "s3://b/x/in", "s3a://b/x/metadata", "s3://b"])
def test_places_of_tables_and_views_do_not_overlap(connection: Connection, other: str) -> None:
    add(connection, 1, V, "s3://b/x")
    with pytest.raises(AlreadyExists, match="overlaps that of another view"):
        add_table(connection, T, other)
    with pytest.raises(AlreadyExists, match="overlaps that of another view"):
        add(connection, 2, W, other)
    views.drop(connection, 1, V)
    add_table(connection, T, "s3://b/x")
    with pytest.raises(AlreadyExists, match="overlaps that of another table"):
        add(connection, 3, V, other)


def test_an_own_place_is_no_overlap_and_an_old_one_stays(connection: Connection) -> None:
    row = add(connection, 1, V, "s3://b/x")
    places.refuse_overlap(connection, ["s3://b/x/y"], except_view_id=row.id)
    places.add_of_view(connection, row.id, ["s3://b/x", "s3://b/z/"])
    places.add_of_view(connection, row.id, ["s3://b/z"])
    with pytest.raises(AlreadyExists):
        add(connection, 2, W, "s3://b/z")
    assert sorted(places.other_than(connection, "none")) == ["s3://b/x", "s3://b/z"]


def test_a_uuid_is_one_views_only(connection: Connection) -> None:
    add(connection, 1, V)
    with pytest.raises(AlreadyExists, match=r"^View already exists with uuid uuid-1: n\.v$"):
        views.create(connection, 1, replace(birth(2, W), view_uuid="uuid-1"), 1)


def test_rename_and_drop(connection: Connection) -> None:
    row = add(connection, 1, V)
    with pytest.raises(NoSuchNamespace):
        views.rename(connection, 1, V, TableIdent.of("gone", "v"), 2)
    with pytest.raises(NoSuchView, match=r"^View does not exist: n\.w$"):
        views.rename(connection, 1, W, V, 2)
    views.rename(connection, 1, V, V, 2)
    views.rename(connection, 1, V, TableIdent.of("m", "u"), 2)
    moved = views.require(connection, 1, TableIdent.of("m", "u"))
    assert (moved.id, moved.metadata_location, moved.updated_at_ms) == (row.id, row.metadata_location, 2)
    assert views.drop(connection, 1, moved.ident) == moved
    with pytest.raises(NoSuchView):
        views.drop(connection, 1, moved.ident)
    assert places.other_than(connection, "none") == []
    # An id is never given out twice.
    assert add(connection, 1, V).id > row.id


def test_the_swap_moves_a_pointer_only_from_where_it_is(connection: Connection) -> None:
    row = add(connection, 1, V)
    after = pointers.swap_view(connection, row, "s3://b/1.json", "s3://b/l", 7)
    assert after is not None
    assert pointers.swap_view(connection, row, "s3://b/2.json", "s3://b/l", 8) is None
    assert views.require(connection, 1, V) == after
    assert (after.version, after.location, after.previous_metadata_location) == (
        2,
        "s3://b/l",
        row.metadata_location,
    )
    assert found(connection, pointers.read_view("b", V)) == after
    assert found(connection, pointers.read_view("b", W)) is None
    assert found(connection, pointers.read("b", V)) is None


def test_a_namespace_with_a_view_is_not_empty(connection: Connection) -> None:
    add(connection, 1, V)
    with pytest.raises(NamespaceNotEmpty, match=r"^Namespace n is not empty: it contains view v$"):
        namespaces.drop(connection, 1, Namespace(("n",)))
    views.drop(connection, 1, V)
    namespaces.drop(connection, 1, Namespace(("n",)))
