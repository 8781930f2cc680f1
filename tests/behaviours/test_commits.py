"""The commit: one winner, no lost update, and never a file deleted that a pointer may name."""

import asyncio
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.commits import TableChange
from catalog_server.services.handles import TableHandle
from catalog_server.services.jobs import JobFilter
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.tables import TableSpec
from catalog_server.telemetry import REGISTRY
from table_format.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NoSuchNamespace,
    NoSuchTable,
    RequirementFailed,
    TooLarge,
    Unavailable,
)
from table_format.ident import TableIdent
from table_format.io.faults import Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec
from table_format.metadata.document import TableMetadata
from tests.databases import failing_commits, locked
from tests.factories.commits import SCHEMA, append, birth_updates
from tests.factories.platforms import WAREHOUSE, Starter, commit, create

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")
U = TableIdent.of("ns", "u")


def files(memory: MemoryObjectStore) -> list[str]:
    return sorted(info.path for info in memory.list("memory://lake"))


def setting(**properties: str) -> list[Any]:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return [{"action": "set-properties", "updates": names}]


async def load(platform: Platform, ident: TableIdent = T) -> TableHandle:
    return await platform.tables.load(ANONYMOUS, "default", ident)


async def transaction(platform: Platform, *changes: tuple[TableIdent, Any, Any]) -> list[TableHandle]:
    return await platform.commits.commit_transaction(
        ANONYMOUS,
        "default",
        [TableChange(ident=ident, requirements=needs, updates=updates) for ident, needs, updates in changes],
    )


async def test_append(platform: Platform, table: TableHandle, memory: MemoryObjectStore) -> None:
    after = await commit(platform, T, *append(table.metadata, 7))
    assert after.metadata.current_snapshot_id == 7
    assert after.metadata_location is not None
    assert after.metadata_location.rpartition("/")[2].startswith("00001-")
    assert after.metadata.metadata_log[-1]["metadata-file"] == table.metadata_location
    loaded = await load(platform)
    assert (loaded.metadata_location, loaded.raw, loaded.row) == (
        after.metadata_location,
        after.raw,
        after.row,
    )
    assert loaded.row is not None
    assert (loaded.row.version, loaded.row.previous_metadata_location) == (2, table.metadata_location)
    assert codec.read(memory, after.metadata_location) == after.metadata


async def test_what_we_do_not_know_survives_our_commits(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    made = await create(platform, U)
    await platform.tables.drop(ANONYMOUS, "default", U)
    strange = {**made.metadata.document, "x-new": {"a": [1.5, None, {"b": 2**63 - 1}]}}
    at = f"{made.metadata.location}/metadata/00009-strange.metadata.json"
    codec.write(memory, at, TableMetadata(strange))
    registered = await platform.tables.register(ANONYMOUS, "default", U, at, overwrite=False)
    after = await commit(platform, U, *append(registered.metadata, 1, **{"x-own": {"deep": [True]}}))
    assert after.metadata.document["x-new"] == strange["x-new"]
    assert after.metadata.snapshots[0]["x-own"] == {"deep": [True]}
    assert TableMetadata.parse(after.raw) == after.metadata


async def test_R1_of_parallel_stale_commits_one_wins(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    outcomes = await asyncio.gather(
        *(commit(platform, T, *append(table.metadata, number + 1)) for number in range(16)),
        return_exceptions=True,
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, TableHandle)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(won) == 1
    assert {type(outcome) for outcome in lost} == {RequirementFailed}
    assert files(memory) == sorted(filter(None, [table.metadata_location, won[0].metadata_location]))


async def test_R1_over_two_servers_as_well(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        outcomes = await asyncio.gather(
            *(
                commit(platform if number % 2 else second, T, *append(table.metadata, number + 1))
                for number in range(12)
            ),
            return_exceptions=True,
        )
    won = [outcome for outcome in outcomes if isinstance(outcome, TableHandle)]
    assert len(won) == 1
    assert all(isinstance(outcome, TableHandle | CommitFailed) for outcome in outcomes)
    assert files(memory) == sorted(filter(None, [table.metadata_location, won[0].metadata_location]))


async def test_commits_without_requirements_are_rebased_over_two_servers(
    platform: Platform, start: Starter, table: TableHandle
) -> None:
    async with start(**{"limits.commit_attempts": 50}) as second:
        first = platform
        await asyncio.gather(
            *(commit(second, T, [], setting(**{f"s{number}": "x"})) for number in range(8)),
            *(_until_it_works(first, setting(**{f"f{number}": "x"})) for number in range(8)),
        )
    properties = (await load(platform)).metadata.properties
    assert {name for name in properties if name[0] in "sf" and name[1:].isdigit()} == {
        f"{side}{number}" for side in "sf" for number in range(8)
    }


async def _until_it_works(platform: Platform, updates: list[Any]) -> None:
    while True:
        try:
            await commit(platform, T, [], updates)
        except CommitFailed:
            continue
        return


async def test_R2_a_stale_sequence_number_is_a_conflict(platform: Platform, table: TableHandle) -> None:
    first = await commit(platform, T, *append(table.metadata, 1))
    _, stale = append(first.metadata, 2, **{"sequence-number": 1})
    with pytest.raises(CommitFailed):
        await commit(platform, T, [], stale)
    with pytest.raises(CommitFailed):
        await transaction(platform, (T, [], stale))
    assert (await load(platform)).metadata_location == first.metadata_location


async def test_R5_the_loser_deletes_its_own_file_only(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    """A second server swaps while the first has its file written and its swap still to come."""
    async with start() as second:
        inner = platform.database.write
        stolen: list[TableHandle] = []

        async def steal(*args: Any, **kwargs: Any) -> Any:
            if not stolen:
                stolen.append(await commit(second, T, *append(table.metadata, 99)))
                assert len(files(memory)) == 3
            return await inner(*args, **kwargs)

        platform.database.write = steal  # type: ignore[method-assign]
        with pytest.raises(RequirementFailed, match="main was created concurrently"):
            await commit(platform, T, *append(table.metadata, 1))
        platform.database.write = inner  # type: ignore[method-assign]
    assert files(memory) == sorted(filter(None, [table.metadata_location, stolen[0].metadata_location]))
    assert (await load(platform)).metadata.current_snapshot_id == 99


async def test_a_lost_race_without_a_contradiction_is_tried_again(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    async with start() as second:
        inner = platform.database.write
        stolen: list[TableHandle] = []

        async def steal(*args: Any, **kwargs: Any) -> Any:
            if len(stolen) < 2:
                stolen.append(await commit(second, T, [], setting(**{f"other{len(stolen)}": "x"})))
            return await inner(*args, **kwargs)

        platform.database.write = steal  # type: ignore[method-assign]
        after = await commit(platform, T, *append(table.metadata, 1))
        platform.database.write = inner  # type: ignore[method-assign]
    assert after.metadata.current_snapshot_id == 1
    assert {"other0", "other1"} <= set(after.metadata.properties)
    assert len(files(memory)) == 4


async def test_a_race_lost_too_often_is_a_conflict(
    start: Starter, platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    async with start(**{"limits.commit_attempts": 2}) as hasty:
        inner = hasty.database.write
        count = 0

        async def steal(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            await commit(platform, T, [], setting(n=str(count)))
            return await inner(*args, **kwargs)

        hasty.database.write = steal  # type: ignore[method-assign]
        with pytest.raises(CommitFailed, match="changed concurrently"):
            await commit(hasty, T, [], setting(mine="x"))
        hasty.database.write = inner  # type: ignore[method-assign]
    assert count == 2
    assert len(files(memory)) == 3


async def test_32_concurrent_appenders_lose_and_double_nothing(
    platform: Platform, table: TableHandle
) -> None:
    async def appender(number: int) -> int:
        refused = 0
        for turn in range(10):
            while True:
                current = await load(platform)
                try:
                    await commit(platform, T, *append(current.metadata, number * 1000 + turn + 1))
                except CommitFailed:
                    refused += 1
                    continue
                break
        return refused

    await asyncio.gather(*(appender(number) for number in range(32)))
    snapshots = (await load(platform)).metadata.snapshots
    assert {snapshot["snapshot-id"] for snapshot in snapshots} == {
        number * 1000 + turn + 1 for number in range(32) for turn in range(10)
    }
    assert [snapshot["sequence-number"] for snapshot in snapshots] == list(range(1, 321))
    parents = [snapshot.get("parent-snapshot-id") for snapshot in snapshots]
    assert parents == [None, *(snapshot["snapshot-id"] for snapshot in snapshots[:-1])]


async def test_commits_to_different_branches_all_land(platform: Platform, table: TableHandle) -> None:
    first = await commit(platform, T, *append(table.metadata, 1))

    def branch(number: int) -> list[Any]:
        return [
            {"action": "set-snapshot-ref", "ref-name": f"b{number}", "type": "branch", "snapshot-id": 1},
        ]

    needs = [{"type": "assert-table-uuid", "uuid": first.metadata.uuid}]
    await asyncio.gather(*(commit(platform, T, needs, branch(number)) for number in range(12)))
    assert set((await load(platform)).metadata.refs) == {"main", *(f"b{number}" for number in range(12))}


async def test_a_commit_that_changes_nothing_writes_nothing(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    changed = await commit(platform, T, [], setting(k="v"))
    same = await commit(platform, T, [], setting(k="v"))
    nothing = await commit(platform, T, [], [])
    assert same.metadata_location == nothing.metadata_location == changed.metadata_location
    assert len(files(memory)) == 2
    with pytest.raises(RequirementFailed):
        await commit(platform, T, [{"type": "assert-create"}], [])


@pytest.mark.parametrize(
    ("requirements", "updates"),
    [
        ([{"type": "assert-nothing"}], []),
        ([{}], []),
        ([], [{"action": "no-such-update"}]),
        ([], [{}]),
        ([], [{"action": "add-snapshot"}]),
        ([], [{"action": "set-properties", "updates": {"a": 1}}]),
        ([], [{"action": "set-snapshot-ref", "ref-name": "main", "type": "tag", "snapshot-id": 1}]),
    ],
)
async def test_a_malformed_commit_is_the_clients_fault(
    platform: Platform, table: TableHandle, requirements: Any, updates: Any
) -> None:
    with pytest.raises(Invalid):
        await commit(platform, T, requirements, updates)
    with pytest.raises((Invalid, NoSuchTable)):
        await commit(platform, U, requirements, updates)


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_outcome_deletes_nothing(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore, applied: bool
) -> None:
    with failing_commits(platform.database, applied=applied), pytest.raises(CommitStateUnknown):
        await commit(platform, T, *append(table.metadata, 1))
    assert len(files(memory)) == 2
    async with start() as fresh:
        assert (await load(fresh)).metadata.current_snapshot_id == (1 if applied else None)
    assert (await load(platform)).metadata.current_snapshot_id == (1 if applied else None)


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_create_deletes_nothing(
    platform: Platform, memory: MemoryObjectStore, applied: bool
) -> None:
    with failing_commits(platform.database, applied=applied), pytest.raises(CommitStateUnknown):
        await create(platform, T)
    assert len(files(memory)) == 1
    assert await platform.tables.exists(ANONYMOUS, "default", T) is applied


async def test_R5_metadata_is_trimmed_only_once_the_commit_is_definite(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    made = await create(
        platform,
        T,
        properties={
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "2",
        },
    )
    assert made.metadata_location is not None
    later = [await commit(platform, T, [], setting(n=str(number))) for number in range(3)]
    assert files(memory) == sorted(handle.metadata_location or "" for handle in later)
    before = files(memory)
    with failing_commits(platform.database, applied=False), pytest.raises(CommitStateUnknown):
        await commit(platform, T, [], setting(n="x"))
    assert set(before) < set(files(memory))


async def test_trimmed_files_stay_without_the_property(platform: Platform, memory: MemoryObjectStore) -> None:
    await create(platform, T, properties={"write.metadata.previous-versions-max": "1"})
    for number in range(4):
        await commit(platform, T, [], setting(n=str(number)))
    assert len(files(memory)) == 5


async def test_trimming_never_leaves_the_tables_own_places(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    """A log may name files of a table's past elsewhere in the bucket; those may be another table's now."""
    made = await create(platform, U)
    await platform.tables.drop(ANONYMOUS, "default", U)
    foreign = f"{WAREHOUSE}/elsewhere/metadata/00000-x.metadata.json"
    memory.put(foreign, b"{}")
    document = {
        **made.metadata.document,
        "properties": {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        },
        "metadata-log": [{"timestamp-ms": 1, "metadata-file": foreign}],
    }
    at = f"{made.metadata.location}/metadata/00001-y.metadata.json"
    codec.write(memory, at, TableMetadata(document))
    await platform.tables.register(ANONYMOUS, "default", U, at, overwrite=False)
    after = await commit(platform, U, [], setting(k="v"))
    assert [entry["metadata-file"] for entry in after.metadata.metadata_log] == [at]
    assert memory.exists(foreign)


async def test_trimming_leaves_what_is_from_before_the_table_came_here(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    """Another catalog may go on with what was handed over, and a log names whatever its writer wanted."""
    made = await create(platform, U)
    await platform.tables.unregister(ANONYMOUS, "default", U)
    begun = made.metadata.last_updated_ms
    handed_over = f"{made.metadata.location}/metadata/00000-x.metadata.json"
    memory.put(handed_over, b"{}")
    trimming = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    log = [{"timestamp-ms": begun - 3_600_000, "metadata-file": handed_over}]
    document = {
        **made.metadata.document,
        "properties": trimming,
        "metadata-log": log,
        "last-updated-ms": begun - 1000,
    }
    at = f"{made.metadata.location}/metadata/00001-y.metadata.json"
    codec.write(memory, at, TableMetadata(document))
    await platform.tables.register(ANONYMOUS, "default", U, at, overwrite=False)
    first, *_ = [await commit(platform, U, [], setting(k=str(number))) for number in range(3)]
    assert memory.exists(handed_over)
    assert memory.exists(at), "the other catalog names it still, and it was written only a second before"
    assert not memory.exists(first.metadata_location or "")


async def test_a_store_that_fails_before_the_swap_is_certainly_not_applied(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    for after in (False, True):
        faults[:] = [Rule(methods=frozenset({"put"}), after=after)]
        with pytest.raises(Unavailable):
            await commit(platform, T, *append(table.metadata, 1))
        assert files(memory) == [table.metadata_location]
    assert (await commit(platform, T, *append(table.metadata, 1))).metadata.current_snapshot_id == 1


async def test_a_busy_database_is_certainly_not_applied(
    start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    async with start(**{"database.busy_timeout_seconds": 0.05}) as hasty:
        async with locked(hasty.database):
            with pytest.raises(Unavailable):
                await commit(hasty, T, *append(table.metadata, 1))
        assert files(memory) == [table.metadata_location]


async def test_cleaning_up_may_fail_without_harm(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore, faults: list[Rule]
) -> None:
    faults.append(Rule(methods=frozenset({"put"}), after=True))
    faults.append(Rule(methods=frozenset({"delete_many"})))
    with pytest.raises(Unavailable, match="injected"):
        await commit(platform, T, *append(table.metadata, 1))
    assert len(files(memory)) == 2
    assert (await load(platform)).metadata_location == table.metadata_location


async def test_a_client_that_goes_away_leaves_no_half_commit(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    task = asyncio.create_task(commit(platform, T, *append(table.metadata, 1)))
    while not platform.commits._in_flight._running:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await platform.commits.drain()
    current = await load(platform)
    assert current.metadata.current_snapshot_id == 1
    assert files(memory) == sorted(filter(None, [table.metadata_location, current.metadata_location]))


async def test_too_many_waiting_commits_are_refused_early(start: Starter, table: TableHandle) -> None:
    async with start(**{"limits.commit_queue": 2}) as narrow:
        outcomes = await asyncio.gather(
            *(commit(narrow, T, [], setting(n=str(number))) for number in range(8)), return_exceptions=True
        )
    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert refused
    assert {type(outcome) for outcome in refused} == {Unavailable}
    assert len(refused) < 8


async def test_a_transaction_applies_all_or_nothing(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    other = await create(platform, U)
    good, bad = append(table.metadata, 1), append(other.metadata, 2)
    bad[0][1]["snapshot-id"] = 12345
    before = files(memory)
    with pytest.raises(RequirementFailed):
        await transaction(platform, (T, *good), (U, *bad))
    assert files(memory) == before
    assert (await load(platform)).metadata_location == table.metadata_location
    handles = await transaction(platform, (U, *append(other.metadata, 2)), (T, *good))
    assert [handle.ident for handle in handles] == [U, T]
    assert [handle.metadata.current_snapshot_id for handle in handles] == [2, 1]


async def test_a_transaction_that_loses_one_race_applies_nothing(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    other = await create(platform, U)
    async with start() as second:
        inner = platform.database.write
        stolen: list[TableHandle] = []

        async def steal(*args: Any, **kwargs: Any) -> Any:
            if not stolen:
                stolen.append(await commit(second, U, *append(other.metadata, 99)))
            return await inner(*args, **kwargs)

        platform.database.write = steal  # type: ignore[method-assign]
        with pytest.raises(RequirementFailed):
            await transaction(platform, (T, *append(table.metadata, 1)), (U, *append(other.metadata, 2)))
        platform.database.write = inner  # type: ignore[method-assign]
    assert (await load(platform)).metadata_location == table.metadata_location
    assert (await load(platform, U)).metadata.current_snapshot_id == 99
    assert len(files(memory)) == 3


async def test_load_13_a_failed_transaction_leaves_trimmed_metadata_intact(
    platform: Platform, memory: MemoryObjectStore
) -> None:
    trimming = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    await create(platform, T, properties=trimming)
    other = await create(platform, U)
    await commit(platform, T, [], setting(n="1"))
    before = files(memory)
    impossible = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}]
    with pytest.raises(RequirementFailed):
        await transaction(platform, (T, [], setting(n="2")), (U, impossible, append(other.metadata, 1)[1]))
    assert files(memory) == before


async def test_load_13_a_transaction_that_loses_its_race_deletes_no_metadata_that_is_still_named(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    """Polaris deleted the first table's old metadata before the last table's pointer had moved."""
    trimming = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    await create(platform, T, properties=trimming)
    other = await create(platform, U)
    await commit(platform, T, [], setting(n="1"))
    named = await load(platform)
    before = files(memory)
    async with start() as second:
        inner = platform.database.write
        stolen: list[TableHandle] = []

        async def steal(*args: Any, **kwargs: Any) -> Any:
            if not stolen:
                stolen.append(await commit(second, U, *append(other.metadata, 99)))
            return await inner(*args, **kwargs)

        platform.database.write = steal  # type: ignore[method-assign]
        with pytest.raises(RequirementFailed):
            await transaction(platform, (T, [], setting(n="2")), (U, *append(other.metadata, 2)))
        platform.database.write = inner  # type: ignore[method-assign]
    assert stolen
    assert set(before) <= set(files(memory))
    assert (await load(platform)).metadata_location == named.metadata_location
    assert codec.read(memory, named.metadata_location or "") == named.metadata


async def test_a_part_that_changes_nothing_still_has_to_hold(
    platform: Platform, start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    other = await create(platform, U)
    needs = append(other.metadata, 2)[0]
    handles = await transaction(platform, (T, *append(table.metadata, 1)), (U, needs, []))
    assert handles[1].metadata_location == other.metadata_location
    async with start() as second:
        inner = platform.database.write
        stolen: list[TableHandle] = []

        async def steal(*args: Any, **kwargs: Any) -> Any:
            if not stolen:
                stolen.append(await commit(second, U, *append(other.metadata, 99)))
            return await inner(*args, **kwargs)

        platform.database.write = steal  # type: ignore[method-assign]
        with pytest.raises(RequirementFailed):
            await transaction(platform, (T, *append(handles[0].metadata, 3)), (U, needs, []))
        platform.database.write = inner  # type: ignore[method-assign]
    assert (await load(platform)).metadata.current_snapshot_id == 1


async def test_a_table_named_twice_is_refused(platform: Platform, table: TableHandle) -> None:
    with pytest.raises(Invalid, match="twice"):
        await transaction(platform, (T, [], setting(a="1")), (T, [], setting(b="1")))
    assert (await load(platform)).metadata_location == table.metadata_location


async def test_transactions_in_opposite_order_do_not_block_each_other(
    platform: Platform, table: TableHandle
) -> None:
    await create(platform, U)
    await asyncio.wait_for(
        asyncio.gather(
            *(
                transaction(platform, *((ident, [], setting(**{f"k{n}": "v"})) for ident in order))
                for n, order in enumerate([(T, U), (U, T)] * 5)
            )
        ),
        timeout=60,
    )
    for ident in (T, U):
        properties = (await load(platform, ident)).metadata.properties
        assert {f"k{n}" for n in range(10)} <= set(properties)


async def test_a_staged_table_is_born_by_its_commit(platform: Platform, memory: MemoryObjectStore) -> None:
    staged = await platform.tables.stage(
        ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={"p": "q"})
    )
    updates = birth_updates(staged.metadata) + append(staged.metadata, 5)[1]
    with pytest.raises(NoSuchTable):
        await commit(platform, T, [], updates)
    born = await commit(platform, T, [{"type": "assert-create"}], updates)
    assert born.metadata.uuid == staged.metadata.uuid
    assert born.metadata.location == staged.metadata.location
    assert born.metadata.current_snapshot_id == 5
    assert born.metadata.properties["p"] == "q"
    assert files(memory) == [born.metadata_location]
    with pytest.raises(RequirementFailed, match="table already exists"):
        await commit(platform, T, [{"type": "assert-create"}], updates)
    with pytest.raises(AlreadyExists, match="overlaps"):
        await commit(platform, U, [{"type": "assert-create"}], updates)
    elsewhere = [*updates[:-2], {"action": "set-location", "location": f"{WAREHOUSE}/elsewhere"}]
    with pytest.raises(AlreadyExists, match="uuid"):
        await commit(platform, U, [{"type": "assert-create"}], elsewhere)
    assert files(memory) == [born.metadata_location]


async def test_a_table_born_without_uuid_and_place_gets_both(platform: Platform) -> None:
    staged = await platform.tables.stage(ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={}))
    updates = [
        update
        for update in birth_updates(staged.metadata)
        if update["action"] not in ("assign-uuid", "set-location")
    ]
    born = await commit(platform, T, [{"type": "assert-create"}], updates)
    assert born.metadata.uuid
    assert born.metadata.location.startswith(f"{WAREHOUSE}/ns/t-")
    with pytest.raises(NoSuchNamespace):
        await commit(platform, TableIdent.of("no", "t"), [{"type": "assert-create"}], updates)


async def test_of_parallel_births_one_wins(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    staged = [
        await platform.tables.stage(ANONYMOUS, "default", T, TableSpec(schema=SCHEMA, properties={}))
        for _ in range(6)
    ]
    async with start() as second:
        outcomes = await asyncio.gather(
            *(
                commit(
                    platform if n % 2 else second, T, [{"type": "assert-create"}], birth_updates(one.metadata)
                )
                for n, one in enumerate(staged)
            ),
            return_exceptions=True,
        )
    won = [outcome for outcome in outcomes if isinstance(outcome, TableHandle)]
    assert len(won) == 1
    assert all(isinstance(outcome, TableHandle | RequirementFailed) for outcome in outcomes)
    assert files(memory) == [won[0].metadata_location]


@pytest.mark.parametrize(
    "updates",
    [
        [{"action": "set-location", "location": "memory://other/t"}],
        [{"action": "set-location", "location": f"{WAREHOUSE}/x/../../y"}],
        setting(write_data_path="memory://other/data"),
        setting(write_metadata_path=f"{WAREHOUSE}2/x"),
        setting(**{"write_object-storage_path": "file:///tmp"}),
        [
            {
                "action": "set-statistics",
                "statistics": {
                    "snapshot-id": 1,
                    "statistics-path": "http://elsewhere/s.puffin",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                },
            }
        ],
    ],
)
async def test_S3_a_commit_sends_no_file_outside_the_bucket(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore, updates: list[Any]
) -> None:
    first = await commit(platform, T, *append(table.metadata, 1))
    before = files(memory)
    with pytest.raises(Invalid):
        await commit(platform, T, [], updates)
    with pytest.raises(Invalid):
        await transaction(platform, (T, [], updates))
    _, manifest = append(first.metadata, 2, **{"manifest-list": "memory://other/m.avro"})
    with pytest.raises(Invalid):
        await commit(platform, T, [], manifest)
    assert files(memory) == before


async def test_S3_a_commit_takes_no_other_tables_place(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    other = await create(platform, U)
    before = files(memory)
    inside = f"{other.metadata.location}/metadata"
    for updates in (
        [{"action": "set-location", "location": other.metadata.location + "/"}],
        setting(write_metadata_path=inside),
        setting(write_data_path=f"{WAREHOUSE}/ns"),
    ):
        with pytest.raises(AlreadyExists, match="overlaps"):
            await commit(platform, T, [], updates)
    assert files(memory) == before


async def test_a_table_may_move_and_keeps_its_old_place(platform: Platform, table: TableHandle) -> None:
    moved = await commit(platform, T, [], [{"action": "set-location", "location": f"{WAREHOUSE}/moved/"}])
    assert moved.row is not None
    assert moved.row.location == f"{WAREHOUSE}/moved/"
    assert moved.metadata_location is not None
    assert moved.metadata_location.startswith(f"{WAREHOUSE}/moved/metadata/00001-")
    for taken in (f"{WAREHOUSE}/moved", table.metadata.location):
        with pytest.raises(AlreadyExists, match="overlaps"):
            await create(platform, U, location=taken)


async def test_a_commit_asks_for_compaction_in_the_same_transaction(
    platform: Platform, table: TableHandle
) -> None:
    many = {"operation": "append", "added-data-files": "12", "total-data-files": "12"}
    with failing_commits(platform.database, applied=False), pytest.raises(CommitStateUnknown):
        await commit(platform, T, *append(table.metadata, 1, summary=many))
    assert (await platform.jobs.list(ANONYMOUS, JobFilter(), None)).items == []
    after = await commit(platform, T, *append(table.metadata, 1, summary=many))
    await commit(platform, T, *append(after.metadata, 2, summary=many))
    (job,) = (await platform.jobs.list(ANONYMOUS, JobFilter(), None)).items
    assert (job.kind, job.origin, job.state, job.table) == ("icebergCompaction", "commit", "queued", "t")


async def test_a_very_large_commit_is_applied_like_any_other(platform: Platform, table: TableHandle) -> None:
    after = await commit(platform, T, [], setting(**{f"k{number}": "v" * 100 for number in range(4000)}))
    assert len(after.raw) > 400_000
    again = await commit(platform, T, *append(after.metadata, 1))
    assert again.metadata.current_snapshot_id == 1


async def test_a_v1_table_without_uuid_gets_one_and_it_stays_unique(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    made = await create(platform, U, properties={"format-version": "1"})
    await platform.tables.drop(ANONYMOUS, "default", U)
    nameless = {key: value for key, value in made.metadata.document.items() if key != "table-uuid"}
    at = f"{made.metadata.location}/metadata/00001-x.metadata.json"
    codec.write(memory, at, TableMetadata(nameless))
    registered = await platform.tables.register(ANONYMOUS, "default", U, at, overwrite=False)
    assert registered.metadata.uuid is None
    with pytest.raises(AlreadyExists, match="uuid"):
        await commit(platform, U, [], [{"action": "assign-uuid", "uuid": table.metadata.uuid}])
    fresh = "11111111-2222-4333-8444-55555555AAAA"
    after = await commit(platform, U, [], [{"action": "assign-uuid", "uuid": fresh}])
    assert after.metadata.uuid == fresh
    assert (await platform.tables.pointer(ANONYMOUS, "default", U)).table_uuid == fresh.lower()


async def test_gzip_metadata_is_written_and_answered_plain(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    made = await create(platform, T, properties={"write.metadata.compression-codec": "gzip"})
    assert made.metadata_location is not None
    assert made.metadata_location.endswith(".gz.metadata.json")
    assert memory.get(made.metadata_location)[:2] == b"\x1f\x8b"
    async with start() as fresh:
        assert (await load(fresh)).raw == made.raw


async def test_commits_are_counted_by_outcome(platform: Platform, table: TableHandle) -> None:
    def counted(outcome: str) -> float:
        return REGISTRY.get_sample_value("frazil_commits_total", {"outcome": outcome}) or 0

    before = {outcome: counted(outcome) for outcome in ("applied", "refused", "unknown")}
    await commit(platform, T, [], setting(a="1"))
    with pytest.raises(RequirementFailed):
        await commit(platform, T, [{"type": "assert-create"}], [])
    with failing_commits(platform.database, applied=False), pytest.raises(CommitStateUnknown):
        await commit(platform, T, [], setting(a="2"))
    assert {outcome: counted(outcome) - before[outcome] for outcome in before} == {
        "applied": 1,
        "refused": 1,
        "unknown": 1,
    }


async def test_S12_a_commit_that_nobody_could_read_again_is_refused(
    start: Starter, table: TableHandle, memory: MemoryObjectStore
) -> None:
    """The bound on what is read holds for what is written, or one commit too many would make the table unreadable."""
    before = files(memory)
    async with start(**{"limits.max_metadata_mb": 1}) as small:
        with pytest.raises(TooLarge, match="expire snapshots"):
            await commit(small, T, [], setting(a="x" * (1 << 20)))
        assert files(memory) == before
        assert (await commit(small, T, [], setting(a="x"))).metadata.properties["a"] == "x"


async def test_S12_updates_in_small_bites_reach_the_bound_too(start: Starter, table: TableHandle) -> None:
    most = len(table.metadata.properties) + 3
    async with start(**{"limits.max_properties": most, "limits.max_columns": 3}) as small:
        for name in "abc":
            await commit(small, T, [], setting(**{name: "x"}))
        with pytest.raises(Invalid, match=f"at most {most} properties can be set, not {most + 1}"):
            await commit(small, T, [], setting(d="x"))
        assert (await commit(small, T, [], setting(a="y"))).metadata.properties["a"] == "y"
        fields = [{"id": n, "name": f"c{n}", "required": False, "type": "int"} for n in range(1, 5)]
        wide = {"type": "struct", "fields": fields}
        with pytest.raises(Invalid, match="at most 3 columns"):
            await transaction(small, (T, [], [{"action": "add-schema", "schema": wide}]))
