"""Views: one winner for a name, no lost replacement, and never a file deleted that a pointer may name."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle, ViewHandle
from catalog_server.services.metadata_files import MetadataFiles
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.services.views import ViewSpec
from catalog_server.store import places
from catalog_server.store.lookup import Lookup
from catalog_server.telemetry import REGISTRY
from table_format.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchView,
    RequirementFailed,
    Unavailable,
)
from table_format.ident import Namespace, TableIdent
from table_format.io.faults import Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec
from table_format.metadata.views import ViewMetadata
from tests.databases import failing_commits
from tests.factories.commits import SCHEMA as TABLE_SCHEMA
from tests.factories.platforms import WAREHOUSE, Starter, commit
from tests.factories.views import OTHER_SCHEMA, SCHEMA, query, replacing, setting, version

pytestmark = pytest.mark.anyio

V = TableIdent.of("ns", "v")
W = TableIdent.of("ns", "w")
# What ends a staged create, place and uuid left to the server.
BIRTH = [
    {"action": "add-schema", "schema": TABLE_SCHEMA},
    {"action": "set-current-schema", "schema-id": -1},
]
Meanwhile: TypeAlias = Callable[[], Awaitable[object]]


def files(memory: MemoryObjectStore) -> list[str]:
    return sorted(info.path for info in memory.list("memory://lake"))


async def create(platform: Platform, ident: TableIdent = V, **spec: Any) -> ViewHandle:
    wanted = ViewSpec(**{"schema": SCHEMA, "version": version(), "properties": {}, **spec})
    return await platform.views.create(ANONYMOUS, "default", ident, wanted)


async def load(platform: Platform, ident: TableIdent = V) -> ViewHandle:
    return await platform.views.load(ANONYMOUS, "default", ident)


async def replace(platform: Platform, updates: Any, needs: Any = (), ident: TableIdent = V) -> ViewHandle:
    return await platform.views.replace(ANONYMOUS, "default", ident, list(needs), updates)


async def new_table(platform: Platform, ident: TableIdent = V, **spec: Any) -> TableHandle:
    wanted = TableSpec(**{"schema": TABLE_SCHEMA, "properties": {}, **spec})
    return await platform.tables.create(ANONYMOUS, "default", ident, wanted)


@pytest.fixture
async def view(platform: Platform) -> ViewHandle:
    return await create(platform)


def between_file_and_swap(files: MetadataFiles, method: str, meanwhile: Meanwhile) -> None:
    """Lets something else happen once, right after the next metadata file was written."""
    original = getattr(files, method)

    async def interrupted(*args: Any) -> Any:
        setattr(files, method, original)
        written = await original(*args)
        await meanwhile()
        return written

    setattr(files, method, interrupted)


async def test_create_and_load(platform: Platform, memory: MemoryObjectStore) -> None:
    made = await create(platform, properties={"k": "v"})
    assert made.metadata.location.startswith(f"{WAREHOUSE}/ns/v-")
    assert made.metadata_location.startswith(f"{made.metadata.location}/metadata/00000-")
    assert files(memory) == [made.metadata_location]
    loaded = await load(platform)
    assert (loaded.row, loaded.metadata, loaded.metadata_location) == (
        made.row,
        made.metadata,
        made.metadata_location,
    )
    assert codec.read_view(memory, made.metadata_location) == made.metadata
    assert await platform.views.exists(ANONYMOUS, "default", V)
    assert not await platform.views.exists(ANONYMOUS, "default", W)


async def test_another_server_reads_the_view_from_the_store(
    platform: Platform, start: Starter, view: ViewHandle
) -> None:
    async with start() as second:
        assert (await load(second)).metadata == view.metadata


async def test_what_can_not_be_created_writes_nothing(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    with pytest.raises(AlreadyExists, match=r"^View already exists: ns\.v$"):
        await create(platform)
    with pytest.raises(NoSuchNamespace):
        await create(platform, TableIdent.of("no", "v"))
    with pytest.raises(AlreadyExists, match="overlaps that of another view"):
        await create(platform, W, location=view.metadata.location)
    with pytest.raises(Invalid, match="not inside the table bucket"):
        await create(platform, W, location="memory://elsewhere/x")
    with pytest.raises(AlreadyExists, match=r"^View with same name already exists: ns\.v$"):
        await new_table(platform)
    assert files(memory) == before


async def test_a_staged_create_that_meets_a_view_writes_nothing(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    with pytest.raises(AlreadyExists, match=r"^View with same name already exists: ns\.v$"):
        await commit(platform, V, [{"type": "assert-create"}], BIRTH)
    assert files(memory) == before


async def test_of_a_view_and_a_table_that_race_for_a_name_exactly_one_wins(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        for number in range(12):
            name = TableIdent.of("ns", f"race{number}")
            outcomes = await asyncio.gather(
                create(platform, name),
                new_table(second, name),
                create(second, name),
                commit(platform, name, [{"type": "assert-create"}], BIRTH),
                return_exceptions=True,
            )
            won = [found for found in outcomes if isinstance(found, ViewHandle | TableHandle)]
            lost = [found for found in outcomes if isinstance(found, BaseException)]
            assert len(won) == 1, outcomes
            assert all(isinstance(found, AlreadyExists | RequirementFailed) for found in lost), outcomes
            assert await platform.views.exists(ANONYMOUS, "default", name) == isinstance(won[0], ViewHandle)
            assert await platform.tables.exists(ANONYMOUS, "default", name) == isinstance(won[0], TableHandle)
            # Nobody's file is left behind, and the winner's is there.
            assert [path for path in files(memory) if f"/race{number}-" in path] == [won[0].metadata_location]


async def test_the_transaction_itself_refuses_a_name_that_was_taken_after_the_check(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        between_file_and_swap(platform.views._files, "write_view", lambda: new_table(second, W))
        with pytest.raises(AlreadyExists, match=r"^Table with same name already exists: ns\.w$"):
            await create(platform, W)
        between_file_and_swap(platform.commits._files, "write", lambda: create(second, V))
        with pytest.raises(AlreadyExists, match=r"^View with same name already exists: ns\.v$"):
            await new_table(platform, V)
        third = TableIdent.of("ns", "third")
        between_file_and_swap(platform.commits._files, "write", lambda: create(second, third))
        with pytest.raises(AlreadyExists, match=r"^View with same name already exists: ns\.third$"):
            await commit(platform, third, [{"type": "assert-create"}], BIRTH)
    assert len(files(memory)) == 3


async def test_renames_that_race_for_a_name(platform: Platform, view: ViewHandle) -> None:
    await new_table(platform, W)
    target = TableIdent.of("ns", "target")
    outcomes = await asyncio.gather(
        platform.views.rename(ANONYMOUS, "default", V, target),
        platform.tables.rename(ANONYMOUS, "default", W, target),
        return_exceptions=True,
    )
    assert [isinstance(found, AlreadyExists) for found in outcomes if found is not None] == [True]


async def test_of_parallel_replacements_none_is_lost(
    platform: Platform, start: Starter, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    await replace(platform, [setting(**{"version_history_num-entries": "50"})])
    async with start() as second:
        made = await asyncio.gather(
            *(
                replace(
                    platform if number % 2 else second,
                    replacing(query(f"select {number}"), schema=OTHER_SCHEMA),
                )
                for number in range(12)
            )
        )
    after = (await load(platform)).metadata
    said = {row["representations"][0]["sql"] for row in after.versions}
    assert said == {"select * from ns.tbl", *(f"select {number}" for number in range(12))}
    assert sorted(row["version-id"] for row in after.versions) == list(range(1, 14))
    assert [entry["version-id"] for entry in after.version_log] == list(range(1, 14))
    assert len(after.schemas) == 2
    # A file for the birth, one for the setting and one for each replacement; those of lost races are gone.
    assert len(files(memory)) == 14
    assert {handle.metadata_location for handle in made} <= set(files(memory))


async def test_of_parallel_replacements_of_properties_none_is_lost(
    platform: Platform, view: ViewHandle
) -> None:
    await asyncio.gather(*(replace(platform, [setting(**{f"k{number}": "x"})]) for number in range(16)))
    after = await load(platform)
    assert set(after.metadata.properties) == {f"k{number}" for number in range(16)}
    assert after.row.version == 17


async def test_requirements_and_updates_are_judged_before_anything_is_written(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    with pytest.raises(RequirementFailed):
        await replace(platform, [setting(a="b")], [{"type": "assert-view-uuid", "uuid": "other"}])
    with pytest.raises(Invalid):
        await replace(platform, replacing(query("x", "trino")))
    with pytest.raises(Invalid, match="not inside"):
        await replace(platform, [setting(write_metadata_path="memory://elsewhere/x")])
    with pytest.raises(NoSuchView, match=r"^View does not exist: ns\.w$"):
        await replace(platform, [], ident=W)
    with pytest.raises(Invalid, match="view name"):
        await replace(platform, [], ident=TableIdent.of("ns", ".."))
    assert files(memory) == before


async def test_a_race_lost_too_often_says_so_and_leaves_nothing(
    start: Starter, platform: Platform, view: ViewHandle, memory: MemoryObjectStore, monkeypatch: Any
) -> None:
    from catalog_server.store import pointers

    before = files(memory)
    monkeypatch.setattr(pointers, "swap_view", lambda *_: None)
    async with start(**{"limits.commit_attempts": 3}) as impatient:
        with pytest.raises(CommitFailed, match=r"^Cannot commit to view ns\.v: it changed concurrently"):
            await replace(impatient, [setting(a="b", write_metadata_path=f"{WAREHOUSE}/p")])
    assert files(memory) == before
    # The place of the lost swap was undone with it.
    await platform.database.read(places.refuse_overlap, [f"{WAREHOUSE}/p"])


async def test_a_view_dropped_meanwhile_is_missed(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    before = files(memory)
    drop = platform.views.drop
    between_file_and_swap(platform.views._files, "write_view", lambda: drop(ANONYMOUS, "default", V))
    with pytest.raises(NoSuchView, match=r"^View does not exist: ns\.v$"):
        await replace(platform, [setting(a="b")])
    assert files(memory) == before


async def test_a_view_made_anew_meanwhile_is_told_from_the_old_one(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    async def anew() -> None:
        await platform.views.drop(ANONYMOUS, "default", V)
        await create(platform)

    between_file_and_swap(platform.views._files, "write_view", anew)
    needs = [{"type": "assert-view-uuid", "uuid": view.metadata.uuid}]
    with pytest.raises(RequirementFailed):
        await replace(platform, [setting(a="b")], needs)
    assert files(memory) == sorted([view.metadata_location, (await load(platform)).metadata_location])


async def test_a_view_renamed_meanwhile_is_replaced_under_its_new_name_or_not_at_all(
    platform: Platform, view: ViewHandle
) -> None:
    rename = platform.views.rename
    between_file_and_swap(platform.views._files, "write_view", lambda: rename(ANONYMOUS, "default", V, W))
    await replace(platform, [setting(a="b")])
    assert (await load(platform, W)).metadata.properties == {"a": "b"}


@pytest.mark.parametrize("applied", [False, True])
async def test_an_unknown_outcome_deletes_nothing(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore, applied: bool
) -> None:
    before = files(memory)
    with failing_commits(platform.database, applied=applied), pytest.raises(CommitStateUnknown):
        await replace(platform, [setting(a="b")])
    kept = set(files(memory)) - set(before)
    assert len(kept) == 1
    assert (await load(platform)).metadata_location == (kept.pop() if applied else view.metadata_location)
    with failing_commits(platform.database, applied=applied), pytest.raises(CommitStateUnknown):
        await create(platform, W)
    assert len(files(memory)) == len(before) + 2
    assert await platform.views.exists(ANONYMOUS, "default", W) is applied


async def test_a_store_that_refuses_commits_nothing(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    before = files(memory)
    faults.append(Rule(methods=frozenset({"put"}), times=None))
    with pytest.raises(Unavailable):
        await replace(platform, [setting(a="b")])
    with pytest.raises(Unavailable):
        await create(platform, W)
    faults.clear()
    assert files(memory) == before
    assert (await load(platform)).row == view.row
    assert not await platform.views.exists(ANONYMOUS, "default", W)


async def test_a_client_that_goes_away_does_not_stop_its_replacement(
    platform: Platform, view: ViewHandle
) -> None:
    async def goes_away() -> None:
        waiting.cancel()
        await asyncio.sleep(0.05)

    between_file_and_swap(platform.views._files, "write_view", goes_away)
    waiting = asyncio.create_task(replace(platform, [setting(a="b")]))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await platform.views.drain()
    assert (await load(platform)).metadata.properties == {"a": "b"}


async def test_drop_keeps_every_file_and_frees_the_place(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    await replace(platform, [setting(a="b")])
    before = files(memory)
    await platform.views.drop(ANONYMOUS, "default", V)
    assert files(memory) == before
    with pytest.raises(NoSuchView, match=r"^View does not exist: ns\.v$"):
        await platform.views.drop(ANONYMOUS, "default", V)
    with pytest.raises(NoSuchView):
        await load(platform)
    again = await create(platform, location=view.metadata.location)
    assert again.metadata.uuid != view.metadata.uuid


async def test_what_we_do_not_know_survives_our_replacements(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    strange = {**view.metadata.document, "x-new": {"a": [1.5, None, {"b": 2**63 - 1}]}}
    at = f"{view.metadata.location}/metadata/00009-strange.metadata.json"
    codec.write(memory, at, ViewMetadata(strange))
    await platform.views.drop(ANONYMOUS, "default", V)
    registered = await platform.views.register(ANONYMOUS, "default", V, at)
    assert registered.metadata.document == strange
    after = await replace(platform, replacing(query("n")))
    assert after.metadata.document["x-new"] == strange["x-new"]
    assert after.metadata_location.rpartition("/")[2].startswith("00010-")


async def test_a_registered_file_is_never_ours_to_delete(
    platform: Platform, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    other = await create(platform, W)
    for wanted in (V, TableIdent.of("ns", "third")):
        with pytest.raises(AlreadyExists):
            await platform.views.register(ANONYMOUS, "default", wanted, other.metadata_location)
    assert other.metadata_location in files(memory)


async def test_metadata_written_again_at_a_dropped_views_address_is_never_answered_from_memory(
    platform: Platform, start: Starter, view: ViewHandle, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        assert (await load(second)).metadata.uuid == view.metadata.uuid
        await platform.views.drop(ANONYMOUS, "default", V)
        other = {**view.metadata.document, "view-uuid": "0b1f5a5e-8b0e-4bb5-a4b9-3ef7c7e0d9ff"}
        memory.put(view.metadata_location, ViewMetadata(other).to_bytes())
        await platform.views.register(ANONYMOUS, "default", W, view.metadata_location)
        assert (await load(second, W)).metadata.document == other
        assert (await load(second, W)).metadata.document == other


async def test_a_namespace_with_a_view_is_not_empty(platform: Platform, view: ViewHandle) -> None:
    with pytest.raises(NamespaceNotEmpty, match=r"^Namespace ns is not empty: it contains view v$"):
        await platform.namespaces.drop(ANONYMOUS, "default", Namespace(("ns",)))


async def test_maintenance_of_a_table_keeps_off_the_places_of_views(
    platform: Platform, view: ViewHandle
) -> None:
    await new_table(platform, W)
    table = await platform.tables.load(ANONYMOUS, "default", W)
    assert table.metadata.uuid is not None
    others = await platform.database.read(places.other_than, table.metadata.uuid)
    assert others == [view.metadata.location]


async def test_a_missing_view_costs_one_indexed_read_and_no_file(
    platform: Platform, view: ViewHandle
) -> None:
    asked: list[str] = []
    inner = platform.database.hot

    async def counted(lookup: Lookup[Any]) -> Any:
        asked.append(lookup.sql)
        return await inner(lookup)

    platform.database.hot = counted  # type: ignore[method-assign]
    loads = REGISTRY.get_sample_value("frazil_document_loads_total", {"found": "store"})
    with pytest.raises(NoSuchView):
        await load(platform, W)
    assert not await platform.views.exists(ANONYMOUS, "default", W)
    platform.database.hot = inner  # type: ignore[method-assign]
    assert len(asked) == 2
    assert REGISTRY.get_sample_value("frazil_document_loads_total", {"found": "store"}) == loads
