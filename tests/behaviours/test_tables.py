"""What clients may rely on about tables, but for commits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from catalog_server.bootstrap import Platform, build
from catalog_server.services import tables as table_services
from catalog_server.services.handles import TableHandle
from catalog_server.services.paging import PageRequest
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.settings import load
from catalog_server.store import unreferenced
from table_format.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    TooLarge,
    Unavailable,
)
from table_format.ident import Namespace, TableIdent
from table_format.io.faults import Rule
from table_format.io.local import local_path
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec
from table_format.metadata.document import TableMetadata
from tests.factories.commits import SCHEMA, append
from tests.factories.platforms import WAREHOUSE, Starter, commit, create

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")
U = TableIdent.of("ns", "u")


def files(memory: MemoryObjectStore) -> list[str]:
    return sorted(info.path for info in memory.list("memory://lake"))


async def register(platform: Platform, ident: TableIdent, at: str, *, overwrite: bool = False) -> TableHandle:
    return await platform.tables.register(ANONYMOUS, "default", ident, at, overwrite=overwrite)


async def test_create_and_load(platform: Platform, memory: MemoryObjectStore) -> None:
    made = await create(platform, T, properties={"k": "v"})
    assert made.metadata_location is not None
    assert made.metadata.location.startswith(f"{WAREHOUSE}/ns/t-")
    assert made.metadata_location.startswith(f"{made.metadata.location}/metadata/00000-")
    assert files(memory) == [made.metadata_location]
    loaded = await platform.tables.load(ANONYMOUS, "default", T)
    assert loaded.metadata.properties["k"] == "v"
    assert TableMetadata.parse(loaded.raw) == made.metadata
    assert loaded.row == made.row
    assert await platform.tables.exists(ANONYMOUS, "default", T)


async def test_R35_an_empty_table_says_so_consistently(table: TableHandle) -> None:
    document = table.metadata.document
    assert document["snapshots"] == []
    assert document["refs"] == {}
    assert document.get("current-snapshot-id", -1) == -1
    assert table.metadata.current_snapshot is None


async def test_a_second_create_is_refused_and_leaves_nothing(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    with pytest.raises(AlreadyExists, match=r"^Table already exists: ns\.t$"):
        await create(platform, T)
    with pytest.raises(AlreadyExists):
        await platform.tables.stage(ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={}))
    assert files(memory) == before


async def test_create_needs_its_namespace(platform: Platform, memory: MemoryObjectStore) -> None:
    with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: no$"):
        await create(platform, TableIdent.of("no", "t"))
    assert files(memory) == []


async def test_two_servers_that_create_one_name_make_one_table(
    start: Starter, platform: Platform, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        outcomes = await asyncio.gather(
            *(
                (platform if n % 2 else second).tables.create(
                    ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={})
                )
                for n in range(6)
            ),
            return_exceptions=True,
        )
    made = [outcome for outcome in outcomes if isinstance(outcome, TableHandle)]
    assert len(made) == 1
    assert all(isinstance(outcome, AlreadyExists) for outcome in outcomes if outcome is not made[0])
    assert files(memory) == [made[0].metadata_location]


async def test_a_missing_table_says_so(platform: Platform) -> None:
    missing = TableIdent.of("no", "such")
    for call in (
        platform.tables.load(ANONYMOUS, "default", missing),
        platform.tables.pointer(ANONYMOUS, "default", missing),
        platform.tables.drop(ANONYMOUS, "default", missing),
        platform.tables.purge(ANONYMOUS, "default", missing),
        platform.tables.rename(ANONYMOUS, "default", missing, T),
        platform.commits.commit(ANONYMOUS, "default", missing, [], []),
    ):
        with pytest.raises(NoSuchTable, match=r"^Table does not exist: no\.such$"):
            await call
    assert not await platform.tables.exists(ANONYMOUS, "default", missing)


async def test_a_missing_metadata_file_says_so(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    assert table.metadata_location is not None
    memory.delete_many([table.metadata_location])
    async with start() as fresh:
        with pytest.raises(
            NoSuchFile, match=f"^Failed to open input stream for file: {table.metadata_location}$"
        ):
            await fresh.tables.load(ANONYMOUS, "default", T)


async def test_metadata_replaced_and_deleted_while_it_is_read_is_read_anew(
    platform: Platform, start: Starter, table: TableHandle, faults: list[Rule]
) -> None:
    """The pointer was read, then commits of another server deleted what it named: that is no missing table."""
    loop = asyncio.get_running_loop()

    def replaced() -> BaseException:
        asyncio.run_coroutine_threadsafe(commit(platform, T, *append(table.metadata, 1)), loop).result(30)
        return NoSuchFile("deleted after a later commit")

    async with start() as other:
        faults.append(Rule(methods=frozenset({"get"}), pattern=str(table.metadata_location), error=replaced))
        loaded = await other.tables.load(ANONYMOUS, "default", T)
        assert loaded.metadata.current_snapshot_id == 1


async def test_a_file_written_again_after_a_drop_is_not_answered_from_memory(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    """Hadoop tables count `v1.metadata.json` anew after a drop; a second server must not commit on the first one."""
    at = str(table.metadata_location)
    async with start() as other:
        await other.tables.load(ANONYMOUS, "default", T)
        await platform.tables.drop(ANONYMOUS, "default", T)
        second = TableMetadata({**table.metadata.document, "table-uuid": "b" * 36, "properties": {"n": "2"}})
        memory.put(at, second.to_bytes())
        await register(platform, T, at)
        for server in (platform, other):
            assert (await server.tables.load(ANONYMOUS, "default", T)).metadata == second
        committed = await commit(other, T, [{"type": "assert-table-uuid", "uuid": "b" * 36}], [])
        assert committed.metadata == second


async def test_a_place_behind_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    platform = build(load(None, {}, {"server.data_dir": tmp_path / "data"}))
    await platform.start()
    try:
        await platform.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
        first = await create(platform, T)
        warehouse = tmp_path / "data" / "warehouse"
        (warehouse / "out").symlink_to(tmp_path)
        (warehouse / "alias").symlink_to(first.metadata.location.removeprefix("file://"))
        for place in (f"file://{warehouse}/out/t", f"file://{warehouse}/alias"):
            with pytest.raises(Invalid, match="symbolic link"):
                await create(platform, U, location=place)
            for update in (
                {"action": "set-location", "location": place},
                {"action": "set-properties", "updates": {"write.data.path": place}},
            ):
                with pytest.raises(Invalid, match="symbolic link"):
                    await commit(platform, T, [], [update])
        with pytest.raises(Invalid, match="symbolic link"):
            await register(platform, U, f"file://{warehouse}/alias/metadata/x.metadata.json")
        assert not (tmp_path / "t").exists()
    finally:
        await platform.close()


async def test_a_store_that_is_away_is_unavailable_and_then_fine(
    start: Starter, table: TableHandle, faults: list[Rule]
) -> None:
    async with start() as fresh:
        faults.append(Rule(methods=frozenset({"get", "head"})))
        with pytest.raises(Unavailable):
            await fresh.tables.load(ANONYMOUS, "default", T)
        loaded = await fresh.tables.load(ANONYMOUS, "default", T)
        assert loaded.metadata == table.metadata


async def test_concurrent_loads_read_the_file_once(
    start: Starter, table: TableHandle, faults: list[Rule]
) -> None:
    once = Rule(methods=frozenset({"get"}), nth=10**9)
    faults.append(once)
    async with start() as fresh:
        await asyncio.gather(*(fresh.tables.load(ANONYMOUS, "default", T) for _ in range(20)))
    assert once.seen == 1


async def test_a_staged_create_stores_nothing(platform: Platform, memory: MemoryObjectStore) -> None:
    staged = await platform.tables.stage(ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={}))
    assert staged.metadata_location is None
    assert staged.metadata.location.startswith(f"{WAREHOUSE}/ns/t-")
    assert files(memory) == []
    assert not await platform.tables.exists(ANONYMOUS, "default", T)


async def test_directories_are_made_on_a_local_disk(tmp_path: Path) -> None:
    platform = build(load(None, {}, {"server.data_dir": tmp_path / "my data"}))
    await platform.start()
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
    made = await create(platform, T)
    staged = await platform.tables.stage(ANONYMOUS, "default", U, TableSpec(schema=SCHEMA, properties={}))
    given = f"file:{tmp_path}/my data/warehouse/given/"
    third = await create(platform, TableIdent.of("ns", "given"), location=given)
    await platform.close()
    assert third.metadata.location == given
    for handle in (made, staged, third):
        top = Path(local_path(handle.metadata.location))
        assert sorted(entry.name for entry in top.iterdir()) == ["data", "metadata"]
    assert made.metadata_location is not None
    on_disk = Path(made.metadata_location.removeprefix("file://")).read_bytes()
    assert on_disk == made.raw


async def test_R11_a_name_used_again_gets_a_place_of_its_own(platform: Platform) -> None:
    first = await create(platform, T)
    await platform.tables.rename(ANONYMOUS, "default", T, U)
    second = await create(platform, T)
    assert second.metadata.location != first.metadata.location
    moved = await platform.tables.load(ANONYMOUS, "default", U)
    assert moved.metadata_location == first.metadata_location
    await platform.tables.drop(ANONYMOUS, "default", T)
    third = await create(platform, T)
    assert third.metadata.location not in (first.metadata.location, second.metadata.location)


async def test_rename(platform: Platform, table: TableHandle) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("other",)), {})
    await create(platform, U)
    for destination, error in (
        (U, AlreadyExists),
        (TableIdent.of("gone", "t"), NoSuchNamespace),
        (TableIdent.of("ns", ".."), Invalid),
    ):
        with pytest.raises(error):
            await platform.tables.rename(ANONYMOUS, "default", T, destination)
    moved = TableIdent.of("other", "t")
    await platform.tables.rename(ANONYMOUS, "default", T, moved)
    loaded = await platform.tables.load(ANONYMOUS, "default", moved)
    assert loaded.metadata_location == table.metadata_location
    after = await commit(platform, moved, *append(loaded.metadata, 1))
    assert after.metadata.current_snapshot_id == 1
    with pytest.raises(NoSuchTable):
        await commit(platform, T, *append(loaded.metadata, 2))


async def test_drop_keeps_every_file(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    await commit(platform, T, *append(table.metadata, 1))
    before = files(memory)
    await platform.tables.drop(ANONYMOUS, "default", T)
    assert files(memory) == before
    assert (await platform.jobs.list(ANONYMOUS, _any_job(), None)).items == []
    assert not await platform.tables.exists(ANONYMOUS, "default", T)


async def test_purge_frees_the_name_and_leaves_the_files_to_a_job(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    assert table.row is not None
    await platform.tables.purge(ANONYMOUS, "default", T)
    assert files(memory) == before
    (job,) = (await platform.jobs.list(ANONYMOUS, _any_job(), None)).items
    assert (job.kind, job.state, job.table, job.table_uuid) == (
        "tablePurge",
        "queued",
        "t",
        table.metadata.uuid,
    )
    assert job.payload == {
        "metadata_location": table.metadata_location,
        "location": table.metadata.location,
        "resource_id": table.row.resource_id,
        "created_at_ms": table.row.created_at_ms,
        "dropped_at_ms": job.created_at_ms,
    }
    again = await create(platform, T)
    assert again.metadata.uuid != table.metadata.uuid


def _any_job() -> Any:
    from catalog_server.services.jobs import JobFilter

    return JobFilter()


async def test_list_pages_and_the_whole_bucket(platform: Platform) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("ns", "in")), {})
    for name in ("c", "a", "b"):
        await create(platform, TableIdent.of("ns", name))
    await create(platform, TableIdent.of("ns", "in", "x"))
    ns = Namespace(("ns",))
    every = await platform.tables.list(ANONYMOUS, "default", ns, None)
    assert [row.ident.name for row in every.items] == ["a", "b", "c"]
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = await platform.tables.list_all(ANONYMOUS, "default", PageRequest(token=token, size=2))
        seen += [str(row.ident) for row in page.items]
        token = page.next_token
    assert seen == ["ns.a", "ns.b", "ns.c", "ns.in.x"]


@pytest.mark.parametrize("at_once", [1, 2, 3, 1000])
async def test_names_are_listed_alike_however_many(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(table_services, "_NAMES_AT_ONCE", at_once)
    ns = Namespace(("ns",))
    assert (await platform.tables.names(ANONYMOUS, "default", ns, None)).items == []
    for name in ("ü", "a b", "Z"):
        await create(platform, TableIdent.of("ns", name))
    every = await platform.tables.names(ANONYMOUS, "default", ns, None)
    assert every.items == ["Z", "a b", "ü"]
    page = await platform.tables.names(ANONYMOUS, "default", ns, PageRequest(token="", size=2))
    assert page.items == ["Z", "a b"]
    rest = PageRequest(token=str(page.next_token), size=2)
    assert (await platform.tables.names(ANONYMOUS, "default", ns, rest)).items == ["ü"]


async def test_names_in_what_is_not_there(platform: Platform) -> None:
    with pytest.raises(NoSuchNamespace):
        await platform.tables.names(ANONYMOUS, "default", Namespace(("none",)), None)
    with pytest.raises(NoSuchWarehouse):
        await platform.tables.names(ANONYMOUS, "none", Namespace(("ns",)), None)


GOOD = f"{WAREHOUSE}/given"


@pytest.mark.parametrize(
    "location",
    [
        "memory://other/t",
        "memory://lake/warehouse2/t",
        "memory://lake",
        WAREHOUSE,
        f"{WAREHOUSE}/",
        f"{GOOD}/../../x",
        f"{GOOD}/%2e%2e/x",
        f"{GOOD}//x",
        f"{GOOD}/./x",
        f"{GOOD} ",
        f"{GOOD}\t",
        f"{GOOD}\u202e",
        f"{GOOD}#x",
        f"{GOOD}?x",
        f"{GOOD}\\x",
        "Memory://lake/warehouse/x",
        "memory://user:secret@lake/warehouse/x",
        "http://169.254.169.254/",
        "file:///etc",
        "/etc",
        "",
        "x:y",
    ],
)
async def test_S5_places_outside_the_bucket_or_ambiguous_are_refused(
    platform: Platform, memory: MemoryObjectStore, location: str
) -> None:
    spec = TableSpec(schema=SCHEMA, properties={}, location=location)
    with pytest.raises(Invalid):
        await platform.tables.create(ANONYMOUS, "default", T, spec)
    with pytest.raises(Invalid):
        await platform.tables.stage(ANONYMOUS, "default", T, spec)
    for name in (
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
    ):
        with pytest.raises(Invalid):
            await create(platform, T, properties={name: location})
    assert files(memory) == []


async def test_S7_a_place_inside_or_around_another_tables_is_refused(platform: Platform) -> None:
    await create(platform, T, location=f"{GOOD}/t", properties={"write.data.path": f"{GOOD}/data-of-t"})
    for location in (f"{GOOD}/t", f"{GOOD}/t/", f"{GOOD}/t/data", GOOD, f"{GOOD}/data-of-t/x"):
        with pytest.raises(AlreadyExists, match="overlaps"):
            await create(platform, U, location=location)
        with pytest.raises(AlreadyExists, match="overlaps"):
            await create(platform, U, properties={"write.metadata.path": location})
    assert (await create(platform, U, location=f"{GOOD}/t2/")).metadata.location == f"{GOOD}/t2/"


async def test_register_what_was_dropped(platform: Platform, table: TableHandle) -> None:
    committed = await commit(platform, T, *append(table.metadata, 1))
    assert committed.metadata_location is not None
    await platform.tables.drop(ANONYMOUS, "default", T)
    back = await register(platform, U, committed.metadata_location)
    assert back.metadata_location == committed.metadata_location
    assert back.metadata.uuid == table.metadata.uuid
    after = await commit(platform, U, *append(back.metadata, 2))
    assert after.metadata_location is not None
    assert after.metadata_location.rpartition("/")[2].startswith("00002-")


async def test_register_refuses_a_name_or_uuid_in_use(platform: Platform, table: TableHandle) -> None:
    assert table.metadata_location is not None
    with pytest.raises(AlreadyExists, match=r"^Table already exists: ns\.t$"):
        await register(platform, T, table.metadata_location)
    with pytest.raises(AlreadyExists, match="uuid"):
        await register(platform, U, table.metadata_location)
    with pytest.raises(AlreadyExists, match="uuid"):
        await register(platform, U, table.metadata_location, overwrite=True)
    await platform.tables.drop(ANONYMOUS, "default", T)
    with pytest.raises(NoSuchNamespace):
        await register(platform, TableIdent.of("no", "t"), table.metadata_location)


async def test_register_with_overwrite_moves_the_pointer(platform: Platform, table: TableHandle) -> None:
    assert table.metadata_location is not None
    later = await commit(platform, T, *append(table.metadata, 1))
    back = await register(platform, T, table.metadata_location, overwrite=True)
    assert back.metadata.current_snapshot_id is None
    assert back.row is not None
    assert later.row is not None
    assert back.row.version == later.row.version + 1
    other = await create(platform, U)
    await platform.tables.drop(ANONYMOUS, "default", U)
    assert other.metadata_location is not None
    replaced = await register(platform, T, other.metadata_location, overwrite=True)
    assert replaced.metadata.uuid == other.metadata.uuid
    assert (await platform.tables.pointer(ANONYMOUS, "default", T)).table_uuid == other.metadata.uuid


async def test_register_reads_the_file_as_it_is_now(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    assert table.metadata_location is not None
    await platform.tables.drop(ANONYMOUS, "default", T)
    rewritten = TableMetadata({**table.metadata.document, "properties": {"written": "again"}})
    memory.put(table.metadata_location, rewritten.to_bytes())
    back = await register(platform, T, table.metadata_location)
    assert back.metadata.properties["written"] == "again"
    assert (await platform.tables.load(ANONYMOUS, "default", T)).raw == back.raw


async def test_marks_of_unreferenced_files_do_not_outlive_what_they_were_made_on(
    platform: Platform, table: TableHandle
) -> None:
    assert table.metadata_location is not None
    uuid = table.metadata.uuid or ""

    async def marked() -> dict[str, int]:
        return await platform.database.read(unreferenced.known, uuid)

    await platform.database.write(unreferenced.mark, uuid, [("p", 10, 1)])
    await register(platform, T, table.metadata_location, overwrite=True)
    assert await marked() == {}
    await platform.database.write(unreferenced.mark, uuid, [("p", 10, 1)])
    await platform.tables.drop(ANONYMOUS, "default", T)
    assert await marked() == {}


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "file:///proc/self/environ",
        "http://169.254.169.254/latest/meta-data/x.metadata.json",
        "memory://other/x.metadata.json",
        f"{WAREHOUSE}/../x.metadata.json",
        "memory://lake/warehouse2/x.metadata.json",
    ],
)
async def test_R14_register_reads_nothing_outside_the_bucket(
    platform: Platform, faults: list[Rule], location: str
) -> None:
    touched = Rule(nth=10**9)
    faults.append(touched)
    with pytest.raises(Invalid):
        await register(platform, T, location)
    assert touched.seen == 0


@pytest.mark.parametrize(
    "content", [b"secret = 1", b"{}", b"[]", b'{"format-version": 2}', b"\x1f\x8b\x00", b""]
)
async def test_R14_register_tells_nothing_of_a_files_content(
    platform: Platform, memory: MemoryObjectStore, content: bytes
) -> None:
    memory.put(f"{WAREHOUSE}/x.metadata.json", content)
    with pytest.raises(Invalid) as caught:
        await register(platform, T, f"{WAREHOUSE}/x.metadata.json")
    assert str(caught.value) == f"{WAREHOUSE}/x.metadata.json is not a readable table metadata file"


async def test_register_of_a_missing_file(platform: Platform) -> None:
    with pytest.raises(NoSuchFile, match=r"^Failed to open input stream for file: "):
        await register(platform, T, f"{WAREHOUSE}/none.metadata.json")


@pytest.mark.parametrize(
    "change",
    [
        {"location": "memory://other/t"},
        {"location": f"{WAREHOUSE}/../x"},
        {"properties": {"write.data.path": "memory://other/data"}},
        {"metadata-log": [{"timestamp-ms": 1, "metadata-file": "memory://other/0.json"}]},
        {"metadata-log": [{"timestamp-ms": 1, "metadata-file": f"{WAREHOUSE}/a/../../x"}]},
        {
            "snapshots": [
                {
                    "snapshot-id": 1,
                    "timestamp-ms": 1,
                    "sequence-number": 0,
                    "summary": {"operation": "append"},
                    "manifest-list": "memory://other/m.avro",
                }
            ]
        },
        {
            "statistics": [
                {
                    "snapshot-id": 1,
                    "statistics-path": "memory://other/s.puffin",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                }
            ]
        },
    ],
)
async def test_S8_register_refuses_metadata_that_points_outside(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, change: dict[str, Any]
) -> None:
    await platform.tables.drop(ANONYMOUS, "default", T)
    at = f"{WAREHOUSE}/r/metadata/00000-x.metadata.json"
    codec.write(memory, at, TableMetadata({**table.metadata.document, **change}))
    with pytest.raises(Invalid):
        await register(platform, T, at)
    assert not await platform.tables.exists(ANONYMOUS, "default", T)


async def test_S8_register_refuses_another_tables_place(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    at = f"{WAREHOUSE}/r/metadata/00000-x.metadata.json"
    stranger = {**table.metadata.document, "table-uuid": "11111111-2222-4333-8444-555555555555"}
    codec.write(memory, at, TableMetadata(stranger))
    with pytest.raises(AlreadyExists, match="overlaps"):
        await register(platform, U, at)


async def test_S9_a_metadata_bomb_is_refused(
    start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    import gzip

    at = f"{WAREHOUSE}/r/metadata/00000-x.gz.metadata.json"
    memory.put(at, gzip.compress(b" " * (4 << 20)))
    async with start(**{"limits.max_metadata_mb": 1}) as small:
        with pytest.raises(Invalid):
            await register(small, U, at)


async def test_S9_what_is_registered_has_bounds_of_its_own(
    start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    document = {**table.metadata.document, "table-uuid": "11111111-2222-4333-8444-555555555555"}
    at = f"{WAREHOUSE}/r/metadata/00000-x.metadata.json"
    many = {**document, "location": f"{WAREHOUSE}/r", "properties": {f"k{n}": "" for n in range(3000)}}
    codec.write(memory, at, TableMetadata(many))
    async with start(**{"limits.max_register_values": 2000}) as small:
        with pytest.raises(TooLarge, match="more than 2000 values"):
            await register(small, U, at)
    codec.write(memory, f"{at}2", TableMetadata({**many, "properties": {"a": "x" * (2 << 20)}}))
    async with start(**{"limits.max_register_mb": 1}) as small:
        with pytest.raises(TooLarge, match="more than 1048576 bytes"):
            await register(small, U, f"{at}2")
        await register(small, U, at)


async def test_a_store_that_refuses_the_first_file_makes_no_table(
    platform: Platform, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    for after, error in ((False, Unavailable), (True, Forbidden)):
        faults[:] = [Rule(methods=frozenset({"put"}), after=after, error=lambda error=error: error("no"))]
        with pytest.raises(error):
            await create(platform, T)
    assert files(memory) == []
    assert not await platform.tables.exists(ANONYMOUS, "default", T)
