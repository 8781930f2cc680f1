"""Policies: set at three levels, in force for a table with their sources, versions, and who changed what."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.drops import DropFilter
from catalog_server.services.handles import TableHandle
from catalog_server.services.paging import PageRequest
from catalog_server.services.policies import EffectivePolicy, PolicyScope
from catalog_server.services.principals import ANONYMOUS, Principal
from catalog_server.store import schema
from maintenance.policies import PolicyType, SnapshotPolicy
from maintenance.ports import JobKind
from maintenance.setting_rules import SETTINGS
from table_format.errors import (
    Invalid,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    NotFound,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.commits import append
from tests.factories.platforms import Starter, commit, create

pytestmark = pytest.mark.anyio

COMPACTION, SNAPSHOTS = "icebergCompaction", "icebergSnapshotManagement"
UNREFERENCED = "icebergUnreferencedFileRemoval"
BUCKET = PolicyScope(bucket="default")
NAMESPACE = PolicyScope(bucket="default", namespace=Namespace(("ns",)))
TABLE = PolicyScope(bucket="default", namespace=Namespace(("ns",)), table="t")
T = TableIdent.of("ns", "t")


async def put(platform: Platform, scope: PolicyScope, kind: str, **settings: Any) -> int:
    document = {"status": "enabled", "settings": settings}
    return (await platform.policies.put(ANONYMOUS, scope, kind, document)).version


async def effective(platform: Platform, kind: str) -> EffectivePolicy:
    every = await platform.policies.effective(ANONYMOUS, "default", T)
    assert [policy.policy_type for policy in every] == [
        "icebergCompaction",
        "icebergSnapshotManagement",
        "icebergUnreferencedFileRemoval",
        "icebergRecordExpiration",
        "icebergManifests",
        "icebergStatistics",
    ]
    return next(policy for policy in every if policy.policy_type == kind)


async def test_nearer_levels_win_setting_by_setting(platform: Platform, table: TableHandle) -> None:
    await put(platform, BUCKET, COMPACTION, targetFileSizeMB=128, minInputFiles=3)
    await put(platform, NAMESPACE, COMPACTION, targetFileSizeMB=256)
    found = await effective(platform, COMPACTION)
    assert found.enabled
    assert (found.settings["targetFileSizeMB"], found.sources["targetFileSizeMB"]) == (256, "namespace ns")
    assert (found.settings["minInputFiles"], found.sources["minInputFiles"]) == (3, "bucket")
    assert found.sources["triggerFileCount"] == "default"
    await platform.policies.put(ANONYMOUS, TABLE, COMPACTION, {"status": "disabled"})
    found = await effective(platform, COMPACTION)
    assert (found.enabled, found.sources["status"]) == (False, "table")
    await platform.policies.delete(ANONYMOUS, TABLE, COMPACTION)
    assert (await effective(platform, COMPACTION)).enabled


async def test_table_properties_count_below_the_tables_own_policy(
    platform: Platform, table: TableHandle
) -> None:
    await commit(
        platform,
        T,
        [],
        [{"action": "set-properties", "updates": {"history.expire.min-snapshots-to-keep": "7"}}],
    )
    found = await effective(platform, SNAPSHOTS)
    assert found.settings["minSnapshotsToKeep"] == 7
    assert found.sources["minSnapshotsToKeep"] == "property history.expire.min-snapshots-to-keep"
    await put(platform, TABLE, SNAPSHOTS, minSnapshotsToKeep=2)
    assert (await effective(platform, SNAPSHOTS)).settings["minSnapshotsToKeep"] == 2


async def test_what_is_not_set_is_not_found(platform: Platform, table: TableHandle) -> None:
    with pytest.raises(NotFound, match="No policy icebergCompaction"):
        await platform.policies.get(ANONYMOUS, TABLE, COMPACTION)
    with pytest.raises(NotFound):
        await platform.policies.delete(ANONYMOUS, TABLE, COMPACTION)
    assert await platform.policies.list(ANONYMOUS, TABLE) == []
    for scope, error in (
        (PolicyScope(bucket="nope"), NoSuchWarehouse),
        (PolicyScope(bucket="default", namespace=Namespace(("no",))), NoSuchNamespace),
        (PolicyScope(bucket="default", namespace=Namespace(("ns",)), table="no"), NoSuchTable),
    ):
        with pytest.raises(error):
            await platform.policies.get(ANONYMOUS, scope, COMPACTION)
        with pytest.raises(error):
            await put(platform, scope, COMPACTION)
    with pytest.raises(NoSuchTable):
        await platform.policies.effective(ANONYMOUS, "default", TableIdent.of("ns", "no"))


async def test_a_version_protects_against_lost_updates(platform: Platform, table: TableHandle) -> None:
    assert await put(platform, TABLE, COMPACTION, minInputFiles=3) == 1
    document = {"status": "enabled", "settings": {"minInputFiles": 4}}
    changed = await platform.policies.put(ANONYMOUS, TABLE, COMPACTION, document, if_version=1)
    assert (changed.version, changed.document) == (2, document)
    with pytest.raises(VersionConflict):
        await platform.policies.put(ANONYMOUS, TABLE, COMPACTION, {"status": "disabled"}, if_version=1)
    with pytest.raises(VersionConflict):
        await platform.policies.delete(ANONYMOUS, TABLE, COMPACTION, if_version=1)
    assert (await platform.policies.get(ANONYMOUS, TABLE, COMPACTION)).document == document


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("nope", {"status": "enabled"}),
        (COMPACTION, {"status": "on"}),
        (COMPACTION, {"status": "enabled", "extra": 1}),
        (COMPACTION, {"status": "enabled", "settings": {"targetFileSizeMB": 1}}),
        (COMPACTION, {"status": "enabled", "settings": {"targetFileSizeMB": "64"}}),
        (SNAPSHOTS, {"status": "enabled", "settings": {"maxSnapshotAgeSeconds": 1}}),
        ("icebergUnreferencedFileRemoval", {"status": "enabled", "settings": {"unreferencedSeconds": 1}}),
    ],
)
async def test_S20_a_wrong_or_dangerous_policy_is_refused(
    platform: Platform, kind: str, document: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await platform.policies.put(ANONYMOUS, BUCKET, kind, document)


async def test_dangerous_ages_need_the_servers_consent(start: Starter) -> None:
    document = {"status": "enabled", "settings": {"unreferencedSeconds": 1, "nonCurrentSeconds": 1}}
    async with start(**{"maintenance.allow_unsafe": True}) as platform:
        view = await platform.policies.put(ANONYMOUS, BUCKET, "icebergUnreferencedFileRemoval", document)
    assert view.document == document


async def test_what_was_stored_while_unsafe_values_were_allowed_counts_as_the_floor_afterwards(
    start: Starter,
) -> None:
    ages = {"unreferencedSeconds": 1, "nonCurrentSeconds": 1}
    kept = {"minSnapshotsToKeep": 0, "maxSnapshotAgeSeconds": 1}
    async with start(**{"maintenance.allow_unsafe": True}) as platform:
        await platform.namespaces.create(ANONYMOUS, "default", Namespace(("ns",)), {})
        await create(platform, T)
        await put(platform, BUCKET, UNREFERENCED, **ages)
        await put(platform, TABLE, SNAPSHOTS, **kept)
        found = await effective(platform, SNAPSHOTS)
        assert {name: found.settings[name] for name in kept} == kept
        assert found.notes == ()
    async with start() as platform:
        found = await effective(platform, SNAPSHOTS)
        assert {name: (found.settings[name], found.sources[name]) for name in kept} == {
            "minSnapshotsToKeep": (1, "table"),
            "maxSnapshotAgeSeconds": (3600, "table"),
        }
        assert [note.partition(",")[0] for note in found.notes] == [
            "minSnapshotsToKeep is 0 (table)",
            "maxSnapshotAgeSeconds is 1 (table)",
        ]
        assert (await effective(platform, UNREFERENCED)).settings["unreferencedSeconds"] == 86_399
        # What is set is what was set; what runs go by is the floor, and their reports say so.
        assert (await platform.policies.get(ANONYMOUS, TABLE, SNAPSHOTS)).document["settings"] == kept
        row = await platform.tables.row(ANONYMOUS, "default", T)
        policy = await platform.policies.in_force(row, PolicyType.SNAPSHOTS)
        assert isinstance(policy, SnapshotPolicy)
        assert (policy.min_snapshots_to_keep, policy.max_snapshot_age_ms) == (1, 3_600_000)
        assert list(policy.notes) == list(found.notes)


async def test_every_setting_there_is_is_told_with_its_source_at_every_level(
    platform: Platform, table: TableHandle
) -> None:
    await put(platform, NAMESPACE, COMPACTION, targetFileSizeMB=64)
    for scope in (BUCKET, NAMESPACE, TABLE):
        for found in await platform.policies.effective_at(ANONYMOUS, scope):
            assert list(found.settings) == list(SETTINGS[found.policy_type])
            assert set(found.sources) == {"status", *found.settings}
    told = await effective(platform, COMPACTION)
    assert told.settings["maxBytesPerRun"] == 8 * 1024**3
    assert told.settings["tiers"] == [{"belowBytes": 32 * 1024**2, "targetBytes": 64 * 1024**2}]
    assert (told.settings["triggerBytes"], told.sources["triggerBytes"]) == (None, "default")


async def test_changes_are_recorded_with_their_author(platform: Platform, table: TableHandle) -> None:
    document = {"status": "disabled", "settings": {}}
    await platform.policies.put(Principal(name="ann"), TABLE, COMPACTION, document)
    rows = await platform.database.read(
        lambda connection: connection.execute(schema.policy_changes.select()).all()
    )
    assert [(row.scope, row.policy_type, row.before, row.after, row.principal) for row in rows] == [
        ("table", COMPACTION, None, document, "ann")
    ]


async def test_a_table_of_the_same_name_inherits_nothing(platform: Platform, table: TableHandle) -> None:
    await put(platform, TABLE, COMPACTION, minInputFiles=9)
    await platform.tables.drop(ANONYMOUS, "default", T)
    await create(platform, T)
    assert (await effective(platform, COMPACTION)).settings["minInputFiles"] == 5
    await platform.tables.rename(ANONYMOUS, "default", T, TableIdent.of("ns", "u"))


async def test_a_registration_over_a_table_keeps_what_hangs_on_the_table(
    platform: Platform, table: TableHandle
) -> None:
    """Another table's metadata, handed over or dropped: the policies and tags of that one do not come along."""
    other = TableIdent.of("ns", "u")
    row = await platform.tables.row(ANONYMOUS, "default", T)
    await put(platform, TABLE, COMPACTION, minInputFiles=9)
    await platform.tags.put(ANONYMOUS, row.resource_id, {"of": "t"})
    for dropped in (False, True):
        made = await create(platform, other)
        theirs = await platform.tables.row(ANONYMOUS, "default", other)
        await put(platform, replace(TABLE, table="u"), COMPACTION, minInputFiles=3)
        await platform.tags.put(ANONYMOUS, theirs.resource_id, {"of": "u"})
        leave = platform.tables.drop if dropped else platform.tables.unregister
        await leave(ANONYMOUS, "default", other)
        await platform.tables.register(ANONYMOUS, "default", T, str(made.metadata_location), overwrite=True)
        now = await platform.tables.row(ANONYMOUS, "default", T)
        assert (now.table_uuid, now.resource_id) == (made.metadata.uuid, row.resource_id)
        assert (await effective(platform, COMPACTION)).settings["minInputFiles"] == 9
        assert (await platform.tags.get(ANONYMOUS, now.resource_id)).tags == {"of": "t"}


async def test_R13_a_renamed_table_takes_its_own_policy_and_the_new_namespaces(
    platform: Platform, table: TableHandle
) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", Namespace(("other",)), {})
    other = PolicyScope(bucket="default", namespace=Namespace(("other",)))
    await put(platform, NAMESPACE, COMPACTION, minInputFiles=3)
    await put(platform, other, COMPACTION, minInputFiles=4)
    await put(platform, TABLE, COMPACTION, triggerFileCount=77)
    moved = TableIdent.of("other", "t")
    await platform.tables.rename(ANONYMOUS, "default", T, moved)
    found = (await platform.policies.effective(ANONYMOUS, "default", moved))[0]
    assert (found.settings["minInputFiles"], found.settings["triggerFileCount"]) == (4, 77)


RECORDS = "icebergRecordExpiration"
NESTED = Namespace(("ns", "in.ner"))


async def test_what_holds_is_told_at_every_level_with_the_namespace_it_comes_from(
    platform: Platform, table: TableHandle
) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", NESTED, {})
    inner = PolicyScope(bucket="default", namespace=NESTED)
    await put(platform, BUCKET, COMPACTION, minInputFiles=3, triggerFileCount=4, maxBytesPerRun=1 << 30)
    await put(platform, NAMESPACE, COMPACTION, triggerFileCount=5, minFileAgeSeconds=6)
    await put(platform, inner, COMPACTION, minFileAgeSeconds=7)

    async def at(scope: PolicyScope) -> dict[str, tuple[Any, str]]:
        every = await platform.policies.effective_at(ANONYMOUS, scope)
        found = next(policy for policy in every if policy.policy_type == COMPACTION)
        names = ("minInputFiles", "triggerFileCount", "minFileAgeSeconds", "maxBytesPerRun")
        return {name: (found.settings[name], found.sources[name]) for name in names}

    bucket = {
        "minInputFiles": (3, "bucket"),
        "triggerFileCount": (4, "bucket"),
        "minFileAgeSeconds": (0, "default"),
        "maxBytesPerRun": (1 << 30, "bucket"),
    }
    outer = {**bucket, "triggerFileCount": (5, "namespace ns"), "minFileAgeSeconds": (6, "namespace ns")}
    assert await at(BUCKET) == bucket
    assert await at(NAMESPACE) == outer
    assert await at(inner) == {**outer, "minFileAgeSeconds": (7, "namespace ns.in.ner")}
    assert await at(TABLE) == outer
    with pytest.raises(NoSuchNamespace):
        await at(PolicyScope(bucket="default", namespace=Namespace(("ns", "no"))))
    with pytest.raises(NoSuchWarehouse):
        await at(PolicyScope(bucket="no"))


async def test_maint_A10_what_holds_says_that_the_table_forbids_it(
    platform: Platform, table: TableHandle
) -> None:
    properties = {"gc.enabled": "false", "history.expire.min-snapshots-to-keep": "many"}
    await commit(platform, T, [], [{"action": "set-properties", "updates": properties}])
    found = await effective(platform, SNAPSHOTS)
    assert (found.enabled, found.disabled_reason) == (
        True,
        "the table property gc.enabled is false: its files may belong to another table",
    )
    assert found.notes == (
        "table property history.expire.min-snapshots-to-keep is 'many', not a positive whole number: ignored",
    )
    assert (await effective(platform, COMPACTION)).disabled_reason is None
    records = await effective(platform, RECORDS)
    assert (records.enabled, records.disabled_reason) == (False, "no policy asks for it")


async def test_statistics_are_off_until_asked_for_and_refuse_columns_that_cannot_be_counted(
    platform: Platform, table: TableHandle
) -> None:
    kind = "icebergStatistics"
    found = await effective(platform, kind)
    assert (found.enabled, found.disabled_reason) == (False, "no policy asks for it")
    with pytest.raises(Invalid, match="column 'gone' is no top-level column of the table: name top-level"):
        await put(platform, TABLE, kind, columns=["id", "gone"])
    await put(platform, NAMESPACE, kind, columns=["gone"])  # its tables may have one
    await put(platform, TABLE, kind, columns=["id"], minChangeRatio=0.5)
    found = await effective(platform, kind)
    assert (found.enabled, found.settings["columns"], found.sources["columns"]) == (True, ["id"], "table")
    assert (found.settings["maxColumns"], found.sources["maxColumns"]) == (100, "default")
    capped = {"write.metadata.metrics.max-inferred-column-defaults": "7"}
    await commit(platform, T, [], [{"action": "set-properties", "updates": capped}])
    found = await effective(platform, kind)
    assert (found.settings["maxColumns"], found.sources["maxColumns"]) == (
        7,
        f"property {next(iter(capped))}",
    )


async def test_every_change_is_listed_with_who_when_and_what_it_was(
    platform: Platform, table: TableHandle
) -> None:
    first = {"status": "enabled", "settings": {"minInputFiles": 3}}
    second = {"status": "disabled", "settings": {}}
    await platform.policies.put(Principal(name="ann"), TABLE, COMPACTION, first)
    await platform.policies.put(Principal(name="ann"), TABLE, COMPACTION, first)  # no change
    await platform.policies.put(Principal(name="bob"), TABLE, COMPACTION, second)
    await put(platform, TABLE, SNAPSHOTS, minSnapshotsToKeep=2)
    await put(platform, NAMESPACE, COMPACTION, minInputFiles=9)
    await platform.policies.delete(Principal(name="eve"), TABLE, COMPACTION)
    await platform.policies.put(Principal(name="ann"), TABLE, COMPACTION, first)
    page = await platform.policies.history(ANONYMOUS, TABLE, COMPACTION, None)
    assert [(change.principal, change.before, change.after) for change in page.items] == [
        ("ann", None, first),
        ("eve", second, None),
        ("bob", first, second),
        ("ann", None, first),
    ]
    assert [change.at_ms for change in page.items] == sorted((c.at_ms for c in page.items), reverse=True)
    assert len((await platform.policies.history(ANONYMOUS, TABLE, None, None)).items) == 5
    assert len((await platform.policies.history(ANONYMOUS, NAMESPACE, None, None)).items) == 1
    seen: list[int] = []
    token = ""
    while True:
        got = await platform.policies.history(ANONYMOUS, TABLE, None, PageRequest(token=token, size=2))
        seen += [change.id for change in got.items]
        if got.next_token is None:
            break
        token = got.next_token
    assert (len(seen), seen) == (5, sorted(set(seen), reverse=True))
    with pytest.raises(Invalid):
        await platform.policies.history(ANONYMOUS, TABLE, "nope", None)
    with pytest.raises(Invalid):
        await platform.policies.history(ANONYMOUS, TABLE, None, PageRequest(token="nope"))
    with pytest.raises(NoSuchTable):
        await platform.policies.history(
            ANONYMOUS, PolicyScope(bucket="default", namespace=Namespace(("ns",)), table="no"), None, None
        )


async def test_two_that_set_a_policy_at_once_do_not_overwrite_each_other(
    platform: Platform, table: TableHandle
) -> None:
    async def add(name: str) -> bool:
        document = {"status": "enabled", "settings": {name: 7}}
        try:
            await platform.policies.put(ANONYMOUS, TABLE, COMPACTION, document, if_version=0)
        except VersionConflict:
            return False
        return True

    won = await asyncio.gather(
        *(add(name) for name in ("minInputFiles", "triggerFileCount", "triggerCommits"))
    )
    assert won.count(True) == 1
    assert len((await platform.policies.history(ANONYMOUS, TABLE, None, None)).items) == 1


async def test_rows_expire_by_a_column_that_the_table_has_or_the_policy_is_refused(
    platform: Platform, table: TableHandle
) -> None:
    with pytest.raises(Invalid, match="not partitioned by the time of any top-level column: name the column"):
        await put(platform, TABLE, RECORDS, days=3)
    with pytest.raises(Invalid, match=r"is of type .*: rows expire by a date or timestamp"):
        await put(platform, TABLE, RECORDS, days=3, column="id")
    with pytest.raises(Invalid, match="no top-level column 'at'"):
        await put(platform, TABLE, RECORDS, days=3, column="at")
    assert await platform.policies.list(ANONYMOUS, TABLE) == []
    # Wider levels are for tables that are yet to come; and what is off needs no column.
    await put(platform, BUCKET, RECORDS, days=3, column="at")
    with pytest.raises(Invalid, match="no top-level column 'at'"):
        await put(platform, TABLE, RECORDS, days=3)
    await platform.policies.put(ANONYMOUS, TABLE, RECORDS, {"status": "disabled"})
    found = await effective(platform, RECORDS)
    assert (found.enabled, found.settings["days"], found.sources["days"]) == (False, 3, "bucket")


async def test_a_policy_decides_which_metadata_files_a_commit_keeps(
    platform: Platform, table: TableHandle, memory: MemoryObjectStore
) -> None:
    async def change(number: int) -> None:
        await commit(platform, T, [], [{"action": "set-properties", "updates": {"n": str(number)}}])

    async def left() -> tuple[int, int]:
        metadata = (await platform.tables.load(ANONYMOUS, "default", T)).metadata
        files = [i for i in memory.list(metadata.location) if i.path.endswith(".metadata.json")]
        return len(metadata.metadata_log), len(files)

    await put(platform, BUCKET, SNAPSHOTS, metadataVersionsToKeep=2)
    for number in range(4):
        await change(number)
    assert await left() == (2, 5)
    await put(platform, NAMESPACE, SNAPSHOTS, deleteOldMetadata=True)
    await change(5)
    assert await left() == (
        2,
        5,
    )  # one came, one that fell off the log went; what fell off before is another's work
    # The table's property counts more than its namespace, and its own policy more than that.
    updates = {
        "write.metadata.previous-versions-max": "4",
        "write.metadata.delete-after-commit.enabled": "false",
    }
    await commit(platform, T, [], [{"action": "set-properties", "updates": updates}])
    assert await left() == (3, 6)
    await put(platform, TABLE, SNAPSHOTS, metadataVersionsToKeep=1, deleteOldMetadata=True)
    await change(6)
    assert await left() == (1, 4)
    await platform.policies.delete(ANONYMOUS, TABLE, SNAPSHOTS)
    await change(7)
    assert await left() == (2, 5)


async def test_a_bucket_says_how_many_jobs_of_a_kind_run_at_once(
    platform: Platform, table: TableHandle
) -> None:
    names = [T, *(TableIdent.of("ns", f"t{n}") for n in range(2))]
    for ident in names[1:]:
        await create(platform, ident)
    await put(platform, BUCKET, COMPACTION, maxConcurrentJobs=1)
    for scope in (NAMESPACE, TABLE):
        with pytest.raises(Invalid, match="about all tables of a bucket together: set it at the bucket"):
            await put(platform, scope, COMPACTION, maxConcurrentJobs=1)
    for ident in names:
        await platform.jobs.request(ANONYMOUS, "default", ident, COMPACTION, dry_run=False)
    await platform.jobs.request(ANONYMOUS, "default", names[1], SNAPSHOTS, dry_run=False)

    async def claimed() -> tuple[str, TableIdent | None] | None:
        job = await platform.jobs.claim("w", list(JobKind), 60_000)
        return None if job is None else (job.kind, job.ident)

    assert await claimed() == (COMPACTION, T)
    assert await claimed() == (SNAPSHOTS, names[1])
    assert await claimed() is None
    await put(platform, BUCKET, COMPACTION, maxConcurrentJobs=2)
    assert await claimed() == (COMPACTION, names[2])
    assert await claimed() is None


async def test_a_restored_table_has_its_policies_and_their_history_again(
    platform: Platform, table: TableHandle
) -> None:
    await put(platform, TABLE, COMPACTION, minInputFiles=9)
    await platform.tables.drop(ANONYMOUS, "default", T)
    await create(platform, T)
    assert (await platform.policies.history(ANONYMOUS, TABLE, None, None)).items == []
    await platform.tables.rename(ANONYMOUS, "default", T, TableIdent.of("ns", "u"))
    (row,) = (await platform.drops.list(ANONYMOUS, "default", DropFilter(), None)).items
    await platform.drops.undrop(ANONYMOUS, "default", row.resource_id)
    assert (await effective(platform, COMPACTION)).settings["minInputFiles"] == 9
    assert len((await platform.policies.history(ANONYMOUS, TABLE, None, None)).items) == 1


TRIGGERS: list[tuple[dict[str, int], list[dict[str, str]], bool]] = [
    ({"triggerCommits": 3}, [{}, {}], False),
    ({"triggerCommits": 3}, [{}, {}, {}], True),
    ({"triggerBytes": 1 << 20}, [{"added-files-size": "1048575", "total-files-size": "1048575"}], False),
    ({"triggerBytes": 1 << 20}, [{"added-files-size": "1048576", "total-files-size": "1048576"}], True),
    ({"triggerDeleteFiles": 1}, [{"added-delete-files": "1", "total-delete-files": "1"}], True),
    ({"triggerDeleteRecords": 2}, [{"added-equality-deletes": "1"}], False),
    ({"triggerDeleteRecords": 2}, [{"added-equality-deletes": "2"}], True),
    ({}, [{"added-delete-files": "9", "total-delete-files": "9"}], False),
]


async def test_commits_ask_for_compaction_as_the_policy_says(platform: Platform) -> None:
    for number, (settings, summaries, asked) in enumerate(TRIGGERS):
        ident = TableIdent.of("ns", f"t{number}")
        await create(platform, ident)
        if settings:
            scope = PolicyScope(bucket="default", namespace=Namespace(("ns",)), table=ident.name)
            await put(platform, scope, COMPACTION, **settings)
        for snapshot_id, summary in enumerate(summaries, 1):
            metadata = (await platform.tables.load(ANONYMOUS, "default", ident)).metadata
            needs, updates = append(metadata, snapshot_id, summary={"operation": "overwrite", **summary})
            await commit(platform, ident, needs, updates)
        job = await platform.jobs.claim("w", list(JobKind), 60_000)
        assert (job is not None) is asked, (settings, summaries)
        assert job is None or (job.kind, job.ident) == (JobKind.COMPACTION, ident)
