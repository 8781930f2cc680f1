"""Table buckets made, changed and deleted by several servers at once, on each kind of database: no half state."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import Connection, select

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle
from catalog_server.services.namespaces import NamespaceInfo
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.services.tags import Tags
from catalog_server.services.views import ViewSpec
from catalog_server.store import schema
from catalog_server.store.buckets import BucketRow, BucketSettings
from catalog_server.store.idempotency import Claim, RequestKey, claiming
from table_format.errors import (
    AlreadyExists,
    BucketNotEmpty,
    Forbidden,
    Invalid,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    NotFound,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.commits import SCHEMA, birth_updates
from tests.factories.platforms import Starter
from tests.factories.views import version

pytestmark = pytest.mark.anyio

N = Namespace(("n",))
T = TableIdent.of("n", "t")
ROUNDS = 6


def setting(**properties: str) -> list[dict[str, Any]]:
    return [{"action": "set-properties", "updates": properties}]


async def make(platform: Platform, name: str = "bucket", at: str | None = None) -> BucketRow:
    return await platform.buckets.create(ANONYMOUS, name, location=at or f"memory://{name}")


async def delete(platform: Platform, name: str = "bucket") -> None:
    await platform.buckets.delete(ANONYMOUS, name)


async def namespace(platform: Platform, name: str = "bucket") -> NamespaceInfo:
    return await platform.namespaces.create(ANONYMOUS, name, N, {})


async def table(platform: Platform, name: str = "bucket") -> TableHandle:
    spec = TableSpec(schema=SCHEMA, properties={})
    return await platform.tables.create(ANONYMOUS, name, T, spec)


async def both(*work: Any) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


def kinds(outcomes: list[Any]) -> list[type]:
    return [type(outcome) for outcome in outcomes]


async def test_of_several_servers_that_make_one_bucket_one_does(start: Starter) -> None:
    async with start() as first, start() as second:
        for number in range(ROUNDS):
            name = f"bucket-{number}"
            outcomes = await both(
                *(make((first, second)[n % 2], name, f"memory://p{number}/{n}") for n in range(6))
            )
            assert sorted(kind.__name__ for kind in kinds(outcomes)) == ["AlreadyExists"] * 5 + ["BucketRow"]
            (made,) = [outcome for outcome in outcomes if isinstance(outcome, BucketRow)]
            assert (
                await second.buckets.get(ANONYMOUS, name) == await first.buckets.get(ANONYMOUS, name) == made
            )


async def test_of_several_servers_that_take_one_place_one_gets_it(start: Starter) -> None:
    async with start() as first, start() as second:
        spellings = (
            "s3://Wide/place",
            "s3a://wide/place",
            "s3n://wide/place/",
            "s3://wide/place/in",
            "s3://wide",
        )
        outcomes = await both(
            *(make((first, second)[n % 2], f"bucket-{n}", place) for n, place in enumerate(spellings))
        )
        assert sorted(kind.__name__ for kind in kinds(outcomes)) == ["AlreadyExists"] * 4 + ["BucketRow"]


async def test_two_spellings_of_one_place_overlap_and_different_places_do_not(platform: Platform) -> None:
    pairs = [
        ("s3://lake/a", "s3a://lake/a"),
        ("s3://lake/a", "s3://lake/a/"),
        ("s3://lake/a", "s3://LAKE/a/b"),
        ("s3://lake/a b", "s3://lake/a%20b"),
        ("s3://lake/%61", "s3://lake/a"),
        ("s3://lake/%2561", "s3://lake/a"),
        ("file:/lake/a", "file:///lake/a"),
        ("s3://lake", "s3://lake/deep/inside"),
        ("s3://lake/deep/inside", "s3://lake/"),
    ]
    for number, (there, wanted) in enumerate(pairs):
        own = f"lake-{number}"
        await make(platform, own, there.replace("lake", own))
        with pytest.raises(AlreadyExists, match=f"overlaps that of table bucket {own}$"):
            await make(platform, "wanted", wanted.replace("lake", own).replace("LAKE", own.upper()))
    for number, at in enumerate(
        ("s3://beside/a", "s3://beside/ab", "s3://beside/A", "s3://beside-a", "file:///beside/a")
    ):
        await make(platform, f"beside-{number}", at)


async def test_a_link_is_no_second_place(platform: Platform, tmp_path: Any) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    await make(platform, "there", f"file://{tmp_path}/real/bucket")
    with pytest.raises(AlreadyExists, match="overlaps that of table bucket there"):
        await make(platform, "wanted", f"file://{tmp_path}/link/bucket/inner")
    with pytest.raises(Invalid, match="local file URI"):
        await make(platform, "wanted", f"file://localhost{tmp_path}/other")


async def test_a_bucket_is_never_deleted_under_a_namespace_that_is_being_made(start: Starter) -> None:
    async with start() as first, start() as second:
        for _ in range(ROUNDS):
            await make(first)
            outcomes = await both(delete(first), namespace(second))
            assert kinds(outcomes) in ([type(None), NoSuchWarehouse], [BucketNotEmpty, NamespaceInfo])
            if isinstance(outcomes[0], BucketNotEmpty):
                await first.namespaces.drop(ANONYMOUS, "bucket", N)
                await delete(second)
            await nothing_left(first)


async def test_a_bucket_is_never_deleted_under_a_table_that_is_being_made(
    start: Starter, memory: MemoryObjectStore
) -> None:
    async def clear(platform: Platform) -> None:
        await platform.namespaces.drop(ANONYMOUS, "bucket", N)
        await delete(platform)

    async with start() as first, start() as second:
        for _ in range(ROUNDS * 2):
            await make(first)
            await namespace(first)
            outcomes = await both(clear(first), table(second))
            assert kinds(outcomes) in (
                [type(None), NoSuchWarehouse],
                [type(None), NoSuchNamespace],
                [NamespaceNotEmpty, TableHandle],
            )
            if outcomes[0] is None:
                assert (
                    list(memory.list("memory://bucket")) == []
                )  # certainly not created: its file went again
            else:
                with pytest.raises(BucketNotEmpty, match=r"it contains table n\.t"):
                    await delete(second)
                await second.tables.unregister(ANONYMOUS, "bucket", T)
                await clear(second)
                memory.delete_many([info.path for info in memory.list("memory://bucket")])
            await nothing_left(first)


async def test_a_view_keeps_its_bucket(platform: Platform) -> None:
    await make(platform)
    await namespace(platform)
    spec = ViewSpec(schema=SCHEMA, version=version(), properties={})
    await platform.views.create(ANONYMOUS, "bucket", TableIdent.of("n", "v"), spec)
    with pytest.raises(BucketNotEmpty, match=r"it contains view n\.v"):
        await delete(platform)


async def test_protection_and_deletion_at_once_leave_one_of_both(start: Starter) -> None:
    async with start() as first, start() as second:
        for _ in range(ROUNDS):
            await make(first)
            outcomes = await both(delete(first), second.buckets.protect(ANONYMOUS, "bucket", protected=True))
            assert kinds(outcomes) in ([type(None), NoSuchWarehouse], [Forbidden, BucketRow])
            if isinstance(outcomes[0], Forbidden):
                await second.buckets.protect(ANONYMOUS, "bucket", protected=False)
                await delete(second)
            await nothing_left(first)


async def test_tags_never_outlive_their_bucket(start: Starter) -> None:
    async with start() as first, start() as second:
        for _ in range(ROUNDS):
            made = await make(first)
            outcomes = await both(delete(first), second.tags.add(ANONYMOUS, made.resource_id, {"a": "b"}))
            assert kinds(outcomes) in ([type(None), NotFound], [type(None), Tags])
            await nothing_left(first)


async def test_tags_that_are_added_at_once_are_all_there_up_to_the_limit(start: Starter) -> None:
    async with start() as first, start() as second:
        made = await make(first)
        outcomes = await both(
            *(
                (first, second)[n % 2].tags.add(
                    ANONYMOUS, made.resource_id, {f"{n}-{m}": "" for m in range(11)}
                )
                for n in range(6)
            )
        )
        assert sorted(kind.__name__ for kind in kinds(outcomes)) == ["Invalid"] * 2 + ["Tags"] * 4
        left = await first.tags.remove(ANONYMOUS, made.resource_id, ["none"])
        assert len(left.tags) == 44


async def test_settings_changed_at_once_are_changed_by_one(start: Starter) -> None:
    async with start() as first, start() as second:
        made = await make(first)
        outcomes = await both(
            *(
                (first, second)[n % 2].buckets.update(
                    ANONYMOUS, "bucket", BucketSettings(properties={"n": str(n)}), if_version=made.version
                )
                for n in range(6)
            )
        )
        assert sorted(kind.__name__ for kind in kinds(outcomes)) == ["BucketRow"] + ["VersionConflict"] * 5
        assert (await second.buckets.get(ANONYMOUS, "bucket")).version == 2
        with pytest.raises(VersionConflict):
            await first.buckets.delete(ANONYMOUS, "bucket", if_version=1)


async def test_a_bucket_that_another_server_made_anew_is_never_mistaken(
    start: Starter, memory: MemoryObjectStore
) -> None:
    async with start() as first, start() as second:
        old = await make(first, at="memory://old")
        await namespace(first)
        await table(first)
        await first.commits.commit(ANONYMOUS, "bucket", T, [], setting(a="b"))  # the bucket is remembered now
        await second.tables.unregister(ANONYMOUS, "bucket", T)
        await second.namespaces.drop(ANONYMOUS, "bucket", N)
        await delete(second)
        for attempt in (
            table(first),
            first.commits.commit(ANONYMOUS, "bucket", T, [], setting(a="b")),
            first.tables.load(ANONYMOUS, "bucket", T),
            first.tables.exists(ANONYMOUS, "bucket", T),
            first.views.exists(ANONYMOUS, "bucket", T),
            first.tables.names(ANONYMOUS, "bucket", N, None),
        ):
            with pytest.raises(NoSuchWarehouse):
                await attempt

        new = await make(second, at="memory://new")
        assert new.resource_id != old.resource_id
        with pytest.raises(NoSuchTable):
            await first.commits.commit(ANONYMOUS, "bucket", T, [], setting(a="b"))
        await namespace(second)
        await table(second)
        paths = {info.path for info in memory.list("memory://old")}
        moved = await first.commits.commit(ANONYMOUS, "bucket", T, [], setting(c="d"))
        assert moved.metadata.location.startswith("memory://new/")
        outside = setting(**{"write.data.path": "memory://old/data"})
        with pytest.raises(Invalid, match="memory://new"):
            await first.commits.commit(ANONYMOUS, "bucket", T, [], outside)
        await first.tables.unregister(ANONYMOUS, "bucket", T)
        assert (await table(first)).metadata.location.startswith("memory://new/")
        assert {info.path for info in memory.list("memory://old")} == paths


async def test_a_request_with_a_key_is_refused_when_its_bucket_was_made_anew_meanwhile(
    platform: Platform,
) -> None:
    old = await make(platform)
    await delete(platform)
    await make(platform)
    key = RequestKey(bucket_id=old.id, principal="p", key="k", fingerprint="f")
    with (
        claiming(Claim(key=key, note=lambda _: {}, now_ms=1)),
        pytest.raises(NoSuchWarehouse, match="on its way"),
    ):
        await namespace(platform)
    assert not await platform.namespaces.exists(ANONYMOUS, "bucket", N)
    await nothing_left(platform)


@pytest.mark.parametrize("what", ["commit", "creation"])
async def test_what_a_server_remembers_of_a_bucket_does_not_outlive_it(start: Starter, what: str) -> None:
    async with start() as first, start() as second:
        await make(first, at="memory://old")
        await namespace(first)
        made = await table(first)
        await first.commits.commit(ANONYMOUS, "bucket", T, [], setting(a="b"))  # it is remembered now
        await second.tables.unregister(ANONYMOUS, "bucket", T)
        await second.namespaces.drop(ANONYMOUS, "bucket", N)
        await delete(second)
        await make(second, at="memory://new")
        await namespace(second)
        if what == "commit":
            await table(second)
            for place, works in (("memory://old/n/data", False), ("memory://new/n/data", True)):
                attempt = first.commits.commit(
                    ANONYMOUS, "bucket", T, [], setting(**{"write.data.path": place})
                )
                if works:
                    await attempt
                else:
                    with pytest.raises(Invalid, match="memory://new"):
                        await attempt
            return
        updates = [update for update in birth_updates(made.metadata) if update["action"] != "set-location"]
        born = await first.commits.commit(ANONYMOUS, "bucket", T, [{"type": "assert-create"}], updates)
        assert born.metadata.location.startswith("memory://new/n/t-")


def test_everything_that_refers_to_a_bucket_goes_with_it_or_keeps_it() -> None:
    """A new table with a reference needs a line in `buckets.held` (it keeps the bucket) or `buckets.remove`."""
    referring = {
        table.name
        for table in schema.METADATA.tables.values()
        for key in table.foreign_keys
        if key.column.table is schema.buckets
    }
    assert referring == {
        "namespaces",
        "tables",
        "dropped_tables",
        "views",
        "jobs",
        "idempotency",
        "ingest_topics",
        "ingest_topic_changes",
    }


async def nothing_left(platform: Platform) -> None:
    """No row refers to a bucket that is not there."""

    def strays(connection: Connection) -> list[Any]:
        there = select(schema.buckets.c.id)
        found: list[Any] = []
        for rows in (
            schema.namespaces,
            schema.tables,
            schema.views,
            schema.jobs,
            schema.idempotency,
            schema.ingest_topics,
            schema.ingest_topic_changes,
        ):
            found += connection.execute(select(rows).where(rows.c.bucket_id.not_in(there))).all()
        resources = select(schema.buckets.c.resource_id).union(select(schema.tables.c.resource_id))
        for rows in (schema.tags, schema.resource_settings):
            found += connection.execute(select(rows).where(rows.c.resource_id.not_in(resources))).all()
        return found

    assert await platform.database.read(strays) == []
