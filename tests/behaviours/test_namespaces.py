"""What clients may rely on about namespaces."""

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.paging import PageRequest
from catalog_server.services.principals import ANONYMOUS
from table_format.errors import (
    AlreadyExists,
    Invalid,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchWarehouse,
    Unprocessable,
)
from table_format.ident import Namespace, TableIdent
from tests.factories.platforms import WAREHOUSE, create

pytestmark = pytest.mark.anyio

ROOT = Namespace(())
NS = Namespace(("ns",))


async def make(platform: Platform, *levels: str, **properties: str) -> Namespace:
    namespace = Namespace(levels)
    await platform.namespaces.create(ANONYMOUS, "default", namespace, properties)
    return namespace


async def test_create_get_and_list(platform: Platform) -> None:
    await make(platform, "ns", "b", owner="me")
    await make(platform, "ns", "a")
    info = await platform.namespaces.get(ANONYMOUS, "default", Namespace(("ns", "b")))
    assert info.properties == {"owner": "me", "location": f"{WAREHOUSE}/ns/b"}
    assert (await platform.namespaces.list(ANONYMOUS, "default", ROOT, None)).items == [NS]
    children = await platform.namespaces.list(ANONYMOUS, "default", NS, None)
    assert [child.levels for child in children.items] == [("ns", "a"), ("ns", "b")]
    assert children.next_token is None
    assert await platform.namespaces.exists(ANONYMOUS, "default", NS)


async def test_a_second_create_is_refused(platform: Platform) -> None:
    with pytest.raises(AlreadyExists, match=r"^Namespace already exists: ns$"):
        await make(platform, "ns")


async def test_R20_a_missing_namespace_says_so(platform: Platform) -> None:
    missing = Namespace(("no", "such"))
    for call in (
        platform.namespaces.get(ANONYMOUS, "default", missing),
        platform.namespaces.drop(ANONYMOUS, "default", missing),
        platform.namespaces.list(ANONYMOUS, "default", missing, None),
        platform.tables.list(ANONYMOUS, "default", missing, None),
        platform.namespaces.update_properties(ANONYMOUS, "default", missing, removals=[], updates={}),
    ):
        with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: no\.such$"):
            await call
    assert not await platform.namespaces.exists(ANONYMOUS, "default", missing)


async def test_a_missing_bucket_says_so(platform: Platform) -> None:
    with pytest.raises(NoSuchWarehouse, match="Table bucket does not exist: nope"):
        await platform.namespaces.get(ANONYMOUS, "nope", NS)
    with pytest.raises(NoSuchWarehouse):
        await platform.tables.pointer(ANONYMOUS, "nope", TableIdent.of("ns", "t"))
    with pytest.raises(NoSuchWarehouse):
        await platform.commits.commit(ANONYMOUS, "nope", TableIdent.of("ns", "t"), [], [])


async def test_R16_namespace_not_empty(platform: Platform) -> None:
    child = await make(platform, "ns", "c")
    await create(platform, TableIdent(child, "t"))
    with pytest.raises(NamespaceNotEmpty, match="is not empty"):
        await platform.namespaces.drop(ANONYMOUS, "default", NS)
    with pytest.raises(NamespaceNotEmpty, match="is not empty"):
        await platform.namespaces.drop(ANONYMOUS, "default", child)
    await platform.tables.drop(ANONYMOUS, "default", TableIdent(child, "t"))
    await platform.namespaces.drop(ANONYMOUS, "default", child)
    await platform.namespaces.drop(ANONYMOUS, "default", NS)
    assert not await platform.namespaces.exists(ANONYMOUS, "default", NS)


async def test_R17_a_namespace_always_has_a_location(platform: Platform) -> None:
    own = await make(platform, "own", location=f"{WAREHOUSE}/elsewhere")
    plain = await make(platform, "A b/ä")
    at = {
        namespace: (await platform.namespaces.get(ANONYMOUS, "default", namespace)).properties["location"]
        for namespace in (own, plain)
    }
    assert at == {own: f"{WAREHOUSE}/elsewhere", plain: f"{WAREHOUSE}/A_b_a"}
    table = await create(platform, TableIdent(own, "t"))
    assert table.metadata.location.startswith(f"{WAREHOUSE}/elsewhere/t-")


@pytest.mark.parametrize("location", ["memory://other/x", "file:///etc", f"{WAREHOUSE}/../x", "x", WAREHOUSE])
async def test_a_namespaces_location_stays_inside_the_bucket(platform: Platform, location: str) -> None:
    with pytest.raises(Invalid):
        await make(platform, "bad", location=location)
    with pytest.raises(Invalid):
        await platform.namespaces.update_properties(
            ANONYMOUS, "default", NS, removals=[], updates={"location": location}
        )


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "a.b",
        "a/b",
        "%2F",
        "a%20b",
        "ä€漢",
        "👍",
        "a+b",
        "a&b=c",
        "a?b#c",
        "a\\b",
        "'\"",
        "...",
        " ",
        "*",
    ],
)
async def test_R28_readable_names_round_trip(platform: Platform, name: str) -> None:
    outer = await make(platform, name)
    inner = await make(platform, name, name)
    ident = TableIdent(inner, name)
    made = await create(platform, ident)
    assert outer in (await platform.namespaces.list(ANONYMOUS, "default", ROOT, None)).items
    assert (await platform.namespaces.list(ANONYMOUS, "default", outer, None)).items == [inner]
    listed = await platform.tables.list(ANONYMOUS, "default", inner, None)
    assert [row.ident for row in listed.items] == [ident]
    loaded = await platform.tables.load(ANONYMOUS, "default", ident)
    assert loaded.metadata_location == made.metadata_location
    path = made.metadata.location.removeprefix(WAREHOUSE)
    assert all(character.isascii() and (character.isalnum() or character in "-_/") for character in path)


@pytest.mark.parametrize("name", ["", ".", "..", "a\x1fb", "a\nb", "\x00", "\x7f", "\ud800", "x" * 256])
async def test_R28_names_that_no_path_can_carry_are_refused(platform: Platform, name: str) -> None:
    with pytest.raises(Invalid):
        await make(platform, name)
    with pytest.raises(Invalid):
        await make(platform, "ns", name)
    with pytest.raises(Invalid):
        await create(platform, TableIdent.of("ns", name))
    with pytest.raises(Invalid):
        await platform.commits.commit(ANONYMOUS, "default", TableIdent.of("ns", name), [], [])


async def test_the_root_is_no_namespace(platform: Platform) -> None:
    with pytest.raises(Invalid):
        await make(platform)
    with pytest.raises(Invalid):
        await make(platform, *["x"] * 33)


async def test_properties_change(platform: Platform) -> None:
    namespace = await make(platform, "p", a="1", b="2")
    change = await platform.namespaces.update_properties(
        ANONYMOUS, "default", namespace, removals=["a", "zz", "a"], updates={"c": "3", "b": "4"}
    )
    assert (change.updated, change.removed, change.missing) == (["c", "b"], ["a"], ["zz"])
    info = await platform.namespaces.get(ANONYMOUS, "default", namespace)
    assert info.properties == {"b": "4", "c": "3", "location": f"{WAREHOUSE}/p"}
    with pytest.raises(Unprocessable):
        await platform.namespaces.update_properties(
            ANONYMOUS, "default", namespace, removals=["b"], updates={"b": "5"}
        )


async def test_pages_by_key_lose_nothing_while_others_are_dropped(platform: Platform) -> None:
    for number in range(7):
        await make(platform, "ns", f"n{number}")
    first = await platform.namespaces.list(ANONYMOUS, "default", NS, PageRequest(size=3))
    assert [child.levels[-1] for child in first.items] == ["n0", "n1", "n2"]
    await platform.namespaces.drop(ANONYMOUS, "default", Namespace(("ns", "n0")))
    assert first.next_token is not None
    second = await platform.namespaces.list(
        ANONYMOUS, "default", NS, PageRequest(token=first.next_token, size=4)
    )
    assert [child.levels[-1] for child in second.items] == ["n3", "n4", "n5", "n6"]
    assert second.next_token is None


@pytest.mark.parametrize("token", ["x", "####", "WyJ0YWJsZXMiXQ", "e30", "bnVsbA", "é"])
async def test_a_token_of_something_else_is_refused(platform: Platform, token: str) -> None:
    with pytest.raises(Invalid, match="pageToken"):
        await platform.namespaces.list(ANONYMOUS, "default", ROOT, PageRequest(token=token))


async def test_a_token_belongs_to_its_listing(platform: Platform) -> None:
    await make(platform, "a")
    first = await platform.namespaces.list(ANONYMOUS, "default", ROOT, PageRequest(size=1))
    assert first.next_token is not None
    with pytest.raises(Invalid, match="pageToken"):
        await platform.namespaces.list(ANONYMOUS, "default", NS, PageRequest(token=first.next_token))
    with pytest.raises(Invalid, match="pageSize"):
        await platform.namespaces.list(ANONYMOUS, "default", NS, PageRequest(size=0))


async def test_buckets_do_not_lie_in_each_other(platform: Platform) -> None:
    made = await platform.buckets.create(ANONYMOUS, "second", location="memory://second/")
    assert made.location == "memory://second"
    for location in ("memory://second/in", WAREHOUSE, "memory://lake"):
        with pytest.raises(AlreadyExists, match="overlaps"):
            await platform.buckets.create(ANONYMOUS, "third", location=location)
    with pytest.raises(AlreadyExists):
        await platform.buckets.create(ANONYMOUS, "second", location="memory://second")
    for name in ("ab", "Upper", "a_b", "-ab", "a/b", "x" * 64):
        with pytest.raises(Invalid):
            await platform.buckets.create(ANONYMOUS, name)
    listed = await platform.buckets.list(ANONYMOUS, PageRequest(size=1))
    assert [row.name for row in listed.items] == ["default"]
    own = await platform.buckets.create(ANONYMOUS, "third")
    assert own.location.startswith("file:///")
    assert own.location.endswith("/data/buckets/third")
