"""Row functions: names of every sort, places that must not overlap, pages by key, policy versions."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from catalog_server.store import (
    idempotency,
    namespaces,
    places,
    pointers,
    policies,
    schema,
    tables,
    unreferenced,
)
from catalog_server.store.idempotency import Answer, RequestKey
from catalog_server.store.keys import key_of, lineage, namespace_of
from catalog_server.store.policies import PolicyKey
from catalog_server.store.tables import Birth, TableRow
from table_format.errors import (
    AlreadyExists,
    JobInTheWay,
    NamespaceNotEmpty,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchTable,
    NotFound,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from tests.factories.lookups import found

ODD_NAMES = ["a b", "a.b", "a/b", "a%2Fb", "ä€漢", "A", "a", "a+b", "a'b\"c", "%", "_", "a\\b", "👍"]


def birth(number: int, ident: TableIdent, *places: str) -> Birth:
    at = places or (f"s3://b/place-{number}",)
    return Birth(
        ident=ident,
        table_uuid=f"uuid-{number}",
        location=at[0],
        places=at,
        metadata_location=f"{at[0]}/metadata/0.json",
    )


def add(connection: Connection, number: int, ident: TableIdent, *places: str) -> TableRow:
    return tables.create(connection, 1, birth(number, ident, *places), 1)


def test_keys_round_trip() -> None:
    for levels in ((), ("a",), ("a.b", "c d", "/")):
        assert namespace_of(key_of(Namespace(levels))) == Namespace(levels)
    assert lineage(Namespace(("a", "b"))) == ["a", "a\x1fb"]


def test_names_are_compared_letter_by_letter(connection: Connection) -> None:
    for number, name in enumerate(ODD_NAMES):
        namespaces.create(connection, 1, Namespace((name,)), {"n": name}, 1)
        add(connection, number, TableIdent.of(name, name))
    for name in ODD_NAMES:
        assert namespaces.require(connection, 1, Namespace((name,))).properties == {"n": name}
        assert tables.require(connection, 1, TableIdent.of(name, name)).ident == TableIdent.of(name, name)
    root = namespaces.children(connection, 1, Namespace(()), None, None)
    assert {row.namespace.levels[0] for row in root} == set(ODD_NAMES)


def test_a_dot_in_a_name_is_no_separator(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("a.b",)), {}, 1)
    namespaces.create(connection, 1, Namespace(("a",)), {}, 1)
    with pytest.raises(NoSuchNamespace):
        namespaces.require(connection, 1, Namespace(("a", "b")))
    assert namespaces.children(connection, 1, Namespace(("a",)), None, None) == []


def test_a_child_needs_its_parent(connection: Connection) -> None:
    with pytest.raises(NoSuchNamespace, match="Namespace does not exist: p"):
        namespaces.create(connection, 1, Namespace(("p", "c")), {}, 1)


def test_R16_namespace_not_empty(connection: Connection) -> None:
    for levels in (("p",), ("p", "c"), ("px",)):
        namespaces.create(connection, 1, Namespace(levels), {}, 1)
    with pytest.raises(NamespaceNotEmpty, match=r"is not empty: it contains namespace p\.c"):
        namespaces.drop(connection, 1, Namespace(("p",)))
    add(connection, 1, TableIdent.of("p", "c", "t"))
    with pytest.raises(NamespaceNotEmpty, match="is not empty: it contains table t"):
        namespaces.drop(connection, 1, Namespace(("p", "c")))
    tables.drop(connection, 1, TableIdent.of("p", "c", "t"))
    namespaces.drop(connection, 1, Namespace(("p", "c")))
    namespaces.drop(connection, 1, Namespace(("p",)))
    assert namespaces.find(connection, 1, Namespace(("px",))) is not None


def test_namespaces_page_by_key(connection: Connection) -> None:
    for name in ("c", "a", "b"):
        namespaces.create(connection, 1, Namespace((name,)), {}, 1)
    first = namespaces.children(connection, 1, Namespace(()), None, 2)
    assert [row.namespace.levels[0] for row in first] == ["a", "b"]
    namespaces.drop(connection, 1, Namespace(("a",)))  # an offset would now lose an entry
    rest = namespaces.children(connection, 1, Namespace(()), ("b",), 2)
    assert [row.namespace.levels[0] for row in rest] == ["c"]


def test_tables_page_by_name_and_across_namespaces(connection: Connection) -> None:
    for number, (namespace, name) in enumerate([("n", "b"), ("n", "a"), ("m", "z")]):
        if namespaces.find(connection, 1, Namespace((namespace,))) is None:
            namespaces.create(connection, 1, Namespace((namespace,)), {}, 1)
        add(connection, number, TableIdent.of(namespace, name))
    owner = namespaces.require(connection, 1, Namespace(("n",)))
    assert [row.ident.name for row in tables.in_namespace(connection, owner.id, None, None)] == ["a", "b"]
    assert [row.ident.name for row in tables.in_namespace(connection, owner.id, ("a",), 5)] == ["b"]
    whole = tables.in_bucket(connection, 1, None, None)
    assert [str(row.ident) for row in whole] == ["m.z", "n.a", "n.b"]
    assert [str(row.ident) for row in tables.in_bucket(connection, 1, ("m", "z"), 1)] == ["n.a"]


@pytest.mark.parametrize(
    "other",
    ["s3://b/w/t", "s3://b/w/t/", "s3a://b/w/t", "s3://b/w", "s3://b/w/t/data", "s3n://b/w/t/x/y"],
)
def test_S7_overlapping_places_are_refused(connection: Connection, other: str) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    add(connection, 1, TableIdent.of("n", "t"), "s3://b/w/t")
    with pytest.raises(AlreadyExists, match="overlaps that of another table"):
        add(connection, 2, TableIdent.of("n", "u"), "s3://b/elsewhere", other)


@pytest.mark.parametrize("other", ["s3://b/w/t1", "s3://b/w/t-", "s3://b/w/", "s3://b/w/s", "s3://c/w/t"])
def test_S6_R32_a_sibling_with_the_same_beginning_is_no_overlap(connection: Connection, other: str) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    add(connection, 1, TableIdent.of("n", "t"), "s3://b/w/t")
    place = other if other != "s3://b/w/" else "s3://b/w2"
    assert add(connection, 2, TableIdent.of("n", "u"), place).location == place


def test_a_place_left_behind_stays_the_tables(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    row = add(connection, 1, TableIdent.of("n", "t"), "s3://b/old")
    places.add_of_table(connection, row.id, ["s3://b/new", "s3://b/old/"])
    for place in ("s3://b/old", "s3://b/new"):
        with pytest.raises(AlreadyExists):
            add(connection, 2, TableIdent.of("n", "u"), place)
    tables.drop(connection, 1, row.ident)
    assert add(connection, 2, TableIdent.of("n", "u"), "s3://b/old").version == 1


def test_a_uuid_is_one_tables_only(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    add(connection, 1, TableIdent.of("n", "t"))
    twin = replace(birth(2, TableIdent.of("n", "u")), table_uuid="uuid-1")
    with pytest.raises(AlreadyExists, match="uuid-1"):
        tables.create(connection, 1, twin, 1)


def test_rename_and_drop(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    namespaces.create(connection, 1, Namespace(("m",)), {}, 1)
    row = add(connection, 1, TableIdent.of("n", "t"))
    add(connection, 2, TableIdent.of("m", "taken"))
    with pytest.raises(AlreadyExists, match=r"Cannot rename n\.t to m\.taken"):
        tables.rename(connection, 1, row.ident, TableIdent.of("m", "taken"), 2)
    with pytest.raises(NoSuchNamespace):
        tables.rename(connection, 1, row.ident, TableIdent.of("gone", "t"), 2)
    with pytest.raises(NoSuchTable, match=r"Table does not exist: n\.x"):
        tables.rename(connection, 1, TableIdent.of("n", "x"), TableIdent.of("m", "x"), 2)
    tables.rename(connection, 1, row.ident, row.ident, 2)
    tables.rename(connection, 1, row.ident, TableIdent.of("m", "u"), 2)
    moved = tables.require(connection, 1, TableIdent.of("m", "u"))
    assert (moved.id, moved.location, moved.metadata_location) == (
        row.id,
        row.location,
        row.metadata_location,
    )
    assert tables.find(connection, 1, row.ident) is None
    assert tables.drop(connection, 1, moved.ident).id == row.id
    with pytest.raises(NoSuchTable):
        tables.drop(connection, 1, moved.ident)


def test_an_id_is_never_given_out_twice(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    first = add(connection, 1, TableIdent.of("n", "t"))
    tables.drop(connection, 1, first.ident)
    assert add(connection, 1, TableIdent.of("n", "t")).id > first.id


def test_the_swap_moves_a_pointer_only_from_where_it_is(connection: Connection) -> None:
    namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    row = add(connection, 1, TableIdent.of("n", "t"))
    change = pointers.Swap(
        table_id=row.id,
        expected=row.metadata_location,
        new="s3://b/1.json",
        table_uuid="u",
        location="s3://b/l",
    )
    assert pointers.swap(connection, change, 7)
    assert not pointers.swap(connection, change, 8)
    now = tables.require(connection, 1, row.ident)
    assert now == pointers.moved(row, change, 7)
    assert (now.version, now.previous_metadata_location) == (2, row.metadata_location)
    assert found(connection, pointers.read("b", row.ident)) == now
    assert found(connection, pointers.read("b", TableIdent.of("n", "x"))) is None


def test_policy_layers_go_from_the_bucket_to_the_table(connection: Connection) -> None:
    outer = namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    inner = namespaces.create(connection, 1, Namespace(("n", "m")), {}, 1)
    other = namespaces.create(connection, 1, Namespace(("o",)), {}, 1)
    row = add(connection, 1, TableIdent.of("n", "m", "t"))
    for scope, scope_id in (
        ("bucket", 1),
        ("namespace", outer.id),
        ("namespace", inner.id),
        ("namespace", other.id),
        ("table", row.id),
        ("table", row.id + 1),
    ):
        put(connection, scope, scope_id, {"at": f"{scope} {scope_id}"}, None)
    layers = found(connection, pointers.policy_layers(row))
    assert [(layer.scope, layer.documents["p"]["at"]) for layer in layers] == [
        ("bucket", "bucket 1"),
        ("namespace", f"namespace {outer.id}"),
        ("namespace", f"namespace {inner.id}"),
        ("table", f"table {row.id}"),
    ]


def key(scope: str, scope_id: int) -> PolicyKey:
    return PolicyKey(scope=scope, scope_id=scope_id, policy_type="p", principal="me", now_ms=5)


def put(
    connection: Connection, scope: str, scope_id: int, document: dict[str, object], version: int | None
) -> int:
    return policies.put(connection, key(scope, scope_id), document, version).version


def test_a_policy_version_never_names_two_contents(connection: Connection) -> None:
    assert put(connection, "table", 1, {"a": 1}, 0) == 1
    assert put(connection, "table", 1, {"a": 1}, 1) == 1
    assert put(connection, "table", 1, {"a": 2}, 1) == 2
    with pytest.raises(VersionConflict, match="at version 2, not 1"):
        put(connection, "table", 1, {"a": 3}, 1)
    with pytest.raises(VersionConflict):
        policies.remove(connection, key("table", 1), 1)
    policies.remove(connection, key("table", 1), 2)
    with pytest.raises(NotFound):
        policies.remove(connection, key("table", 1), None)
    with pytest.raises(VersionConflict):
        put(connection, "table", 1, {"a": 4}, 2)
    assert put(connection, "table", 1, {"a": 4}, None) == 4


def test_every_policy_change_is_recorded(connection: Connection) -> None:
    put(connection, "bucket", 1, {"a": 1}, None)
    put(connection, "bucket", 1, {"a": 2}, None)
    policies.remove(connection, key("bucket", 1), None)
    rows = connection.execute(schema.policy_changes.select().order_by(schema.policy_changes.c.id)).all()
    assert [(row.before, row.after, row.principal, row.at_ms) for row in rows] == [
        (None, {"a": 1}, "me", 5),
        ({"a": 1}, {"a": 2}, "me", 5),
        ({"a": 2}, None, "me", 5),
    ]


def test_dropping_takes_the_policies_along(connection: Connection) -> None:
    owner = namespaces.create(connection, 1, Namespace(("n",)), {}, 1)
    row = add(connection, 1, TableIdent.of("n", "t"))
    put(connection, "table", row.id, {}, None)
    put(connection, "namespace", owner.id, {}, None)
    put(connection, "bucket", 1, {}, None)
    tables.drop(connection, 1, row.ident)
    namespaces.drop(connection, 1, owner.namespace)
    assert [(found.scope, found.scope_id) for found in policies.everywhere(connection)] == [("bucket", 1)]


def test_idempotency_rows_are_per_bucket_and_principal_and_expire(connection: Connection) -> None:
    key = RequestKey(bucket_id=1, principal="me", key="k", fingerprint="f")
    idempotency.record(connection, key, {"x": 1}, 10)
    assert idempotency.find(connection, key) == Answer(fingerprint="f", outcome={"x": 1})
    assert idempotency.find(connection, replace(key, principal="you")) is None
    assert idempotency.find(connection, replace(key, bucket_id=2)) is None
    other = replace(key, fingerprint="g")
    assert idempotency.settle(connection, other, {"y": 2}, 11) == Answer(fingerprint="f", outcome={"x": 1})
    assert idempotency.forget_before(connection, 10) == 0
    assert idempotency.forget_before(connection, 11) == 1
    assert idempotency.find(connection, key) is None


def test_unreferenced_files_keep_their_first_time(connection: Connection) -> None:
    unreferenced.mark(connection, "u", [("a", 10, 1), ("b", 20, 2)])
    unreferenced.mark(connection, "u", [("a", 11, 9), ("c", 30, 3)])
    unreferenced.mark(connection, "v", [("a", 40, 7)])
    assert unreferenced.known(connection, "u") == {"a": 1, "b": 2, "c": 3}
    unreferenced.forget(connection, "u", ["a", "zzz", *(f"x{number}" for number in range(1200))])
    assert unreferenced.known(connection, "u") == {"b": 2, "c": 3}
    assert unreferenced.known(connection, "v") == {"a": 7}


def test_a_file_is_either_being_deleted_or_held(connection: Connection) -> None:
    unreferenced.mark(connection, "u", [("a", 10, 1), ("b", 20, 2), ("c", 30, 3)])
    wanted = unreferenced.Hold(until_ms=None, held_at_ms=50, held_by="me", version=50)
    assert unreferenced.hold(connection, "u", "a", wanted, 0) == unreferenced.NoncurrentRow(
        path="a", size=10, noted_at_ms=1, deleting=False, hold=wanted
    )
    assert unreferenced.claim(connection, "u", ["c", "a", "b"], 60) == ["c", "b"]
    with pytest.raises(JobInTheWay, match="b is being deleted: it can not be held any more"):
        unreferenced.hold(connection, "u", "b", wanted, None)
    assert unreferenced.find(connection, "u", "b").deleting
    unreferenced.release(connection, "u", "a", None)
    assert unreferenced.claim(connection, "u", ["a"], 60) == ["a"]


def test_a_hold_ends_at_its_moment_and_its_version_never_repeats(connection: Connection) -> None:
    unreferenced.mark(connection, "u", [("a", 10, 1)])
    wanted = unreferenced.Hold(until_ms=100, held_at_ms=50, held_by="me", version=50)
    unreferenced.hold(connection, "u", "a", wanted, None)
    assert unreferenced.held(connection, "u", ["a", "b"], 99) == {"a"}
    assert unreferenced.held(connection, "u", ["a"], 100) == set()
    assert unreferenced.held(connection, "v", ["a"], 99) == set()
    again = unreferenced.hold(connection, "u", "a", wanted, 50)
    assert again.hold is not None
    assert again.hold.version == 51
    for known in (0, 50):
        with pytest.raises(VersionConflict, match="it is at version 51, not"):
            unreferenced.hold(connection, "u", "a", wanted, known)
        with pytest.raises(VersionConflict):
            unreferenced.release(connection, "u", "a", known)
    unreferenced.release(connection, "u", "a", 51)
    with pytest.raises(NoSuchFile, match="a is not held"):
        unreferenced.release(connection, "u", "a", None)


def test_what_is_held_stays_held_when_it_is_forgotten_and_is_listed(connection: Connection) -> None:
    unreferenced.mark(connection, "u", [(name, 10, 1) for name in ("a", "b", "d")])
    wanted = unreferenced.Hold(until_ms=None, held_at_ms=50, held_by="me", version=50)
    unreferenced.hold(connection, "u", "b", wanted, None)
    unreferenced.forget_all(connection, "u")
    unreferenced.mark(connection, "u", [("a", 10, 1), ("c", 30, 9)])
    rows = unreferenced.page(connection, "u", None, None, held_only=False)
    assert [(row.path, row.noted_at_ms, row.hold is not None) for row in rows] == [
        ("a", 1, False),
        ("b", None, True),
        ("c", 9, False),
    ]
    assert [row.path for row in unreferenced.page(connection, "u", "a", 1, held_only=False)] == ["b"]
    assert [row.path for row in unreferenced.page(connection, "u", None, None, held_only=True)] == ["b"]
    with pytest.raises(NoSuchFile):
        unreferenced.hold(connection, "u", "zzz", wanted, None)
    with pytest.raises(NoSuchFile):
        unreferenced.find(connection, "v", "a")
