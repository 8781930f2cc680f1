"""Policies: set at three levels, in force for a table with their sources, versions, and who changed what."""

from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle
from catalog_server.services.policies import EffectivePolicy, PolicyScope
from catalog_server.services.principals import ANONYMOUS, Principal
from catalog_server.store import schema
from table_format.errors import (
    Invalid,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    NotFound,
    VersionConflict,
)
from table_format.ident import Namespace, TableIdent
from tests.factories.platforms import Starter, commit

pytestmark = pytest.mark.anyio

COMPACTION, SNAPSHOTS = "icebergCompaction", "icebergSnapshotManagement"
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
        (COMPACTION, {}),
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
    from tests.factories.platforms import create

    await put(platform, TABLE, COMPACTION, minInputFiles=9)
    await platform.tables.drop(ANONYMOUS, "default", T)
    await create(platform, T)
    assert (await effective(platform, COMPACTION)).settings["minInputFiles"] == 5
    await platform.tables.rename(ANONYMOUS, "default", T, TableIdent.of("ns", "u"))


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
