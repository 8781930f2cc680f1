"""Settings of a table go where the table goes: with its name, into the drop and back, and away for good with it."""

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.handles import TableHandle
from catalog_server.services.principals import ANONYMOUS
from catalog_server.services.resource_settings import of_bucket, of_table
from catalog_server.store import resource_settings
from table_format.errors import NoSuchTable, NoSuchWarehouse
from table_format.ident import Namespace, TableIdent
from tests.factories.platforms import create

pytestmark = pytest.mark.anyio

NS = Namespace(("ns",))
T, U = TableIdent(NS, "t"), TableIdent(NS, "u")


async def put(platform: Platform, ident: TableIdent) -> None:
    await platform.resource_settings.put(ANONYMOUS, of_table("default", ident), "policy", {"of": ident.name})


async def get(platform: Platform, ident: TableIdent) -> object:
    [found] = await platform.resource_settings.get(ANONYMOUS, of_table("default", ident), "policy")
    return found


async def test_a_renamed_table_keeps_its_settings(platform: Platform, table: TableHandle) -> None:
    await put(platform, T)
    await platform.tables.rename(ANONYMOUS, "default", T, U)
    assert await get(platform, U) == {"of": "t"}
    await create(platform, T)
    assert await get(platform, T) is None


async def test_a_dropped_table_comes_back_with_its_settings_and_the_next_of_its_name_has_none(
    platform: Platform, table: TableHandle
) -> None:
    await put(platform, T)
    gone = await platform.tables.drop(ANONYMOUS, "default", T)
    assert gone is not None
    await create(platform, T)
    assert await get(platform, T) is None
    await platform.drops.undrop(ANONYMOUS, "default", gone.resource_id, U)
    assert await get(platform, U) == {"of": "t"}


async def test_settings_of_a_table_that_is_forgotten_are_gone(platform: Platform, table: TableHandle) -> None:
    await put(platform, T)
    row = await platform.tables.unregister(ANONYMOUS, "default", T)
    assert await platform.database.read(resource_settings.find, row.row.resource_id, "policy") is None


async def test_what_is_set_on_what_is_not_there_is_refused(platform: Platform) -> None:
    settings = platform.resource_settings
    with pytest.raises(NoSuchTable):
        await put(platform, T)
    with pytest.raises(NoSuchWarehouse):
        await settings.put(ANONYMOUS, of_bucket("missing"), "policy", {})
    with pytest.raises(NoSuchWarehouse):
        await settings.remove(ANONYMOUS, of_bucket("missing"), "policy")
    with pytest.raises(NoSuchWarehouse):
        await settings.get(ANONYMOUS, of_table("missing", T), "policy")


async def test_several_settings_are_read_at_once(platform: Platform) -> None:
    settings, where = platform.resource_settings, of_bucket("default")
    await settings.put(ANONYMOUS, where, "a", {"n": 1})
    assert await settings.get(ANONYMOUS, where, "a", "b") == [{"n": 1}, None]
    assert await settings.remove(ANONYMOUS, where, "a")
    assert not await settings.remove(ANONYMOUS, where, "a")
