"""How a bucket's store is reached, by several processes on one database."""

import asyncio

import pytest

from catalog_server.store import buckets as rows
from maintenance.ports import JobKind
from table_format.errors import NoSuchWarehouse
from tests.factories.platforms import Starter

pytestmark = pytest.mark.anyio

PLACE = "s3://lake/sales/t/data/x"


async def test_a_bucket_of_another_process_is_reached_at_once_and_a_deleted_one_no_more(
    start: Starter,
) -> None:
    async with start() as one, start() as two:

        async def region() -> str | None:
            return (await asyncio.to_thread(two.storage.properties_of, PLACE)).get("s3.region")

        with pytest.raises(NoSuchWarehouse, match="s3://lake/sales"):
            await region()
        made = await one.database.write(
            rows.create, "sales", "s3a://lake/sales", {}, 1, storage={"s3.region": "r1"}
        )
        assert await region() == "r1"
        assert (await two.storage.told_properties("sales"))["client.region"] == "r1"
        await one.database.write(rows.remove, made, JobKind.PURGE.value)
        with pytest.raises(NoSuchWarehouse):
            await region()
        assert await two.storage.told_properties("sales") == {}
        await one.database.write(rows.create, "other", "s3://lake", {}, 1, storage={"s3.region": "r2"})
        assert await region() == "r2"


async def test_a_bucket_inside_a_longer_place_is_not_taken_for_it(start: Starter) -> None:
    async with start() as one:
        for number, place in enumerate(("s3://lake/sale", "s3://lake/sales2", "s3://lake/sales/t/data/x/y")):
            await one.database.write(rows.create, f"b{number}", place, {}, 1)
        with pytest.raises(NoSuchWarehouse):
            await asyncio.to_thread(one.storage.properties_of, PLACE)
