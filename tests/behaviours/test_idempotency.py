"""Answers to Idempotency-Keys on every kind of database: there with the effect or not at all, one per key."""

import asyncio
from typing import Any

import pytest

from catalog_server.bootstrap import Platform
from catalog_server.services.idempotency import RequestKey
from catalog_server.services.principals import ANONYMOUS
from catalog_server.store.idempotency import AlreadyAnswered
from table_format.errors import AlreadyExists, Invalid, NoSuchNamespace, RequirementFailed
from table_format.ident import Namespace, TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.commits import append
from tests.factories.platforms import WAREHOUSE, Starter, create

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")


async def key_of(platform: Platform, key: str = "k", fingerprint: str = "f") -> RequestKey:
    bucket = await platform.commits.bucket("default")
    return RequestKey(bucket_id=bucket.id, principal="me", key=key, fingerprint=fingerprint)


def said(result: object) -> dict[str, Any]:
    return {"said": type(result).__name__}


async def make(platform: Platform, name: str) -> None:
    await platform.namespaces.create(ANONYMOUS, "default", Namespace((name,)), {})


async def test_R7_effect_and_answer_are_there_together(platform: Platform, start: Starter) -> None:
    key = await key_of(platform)
    with platform.idempotency.claim(key, said) as claim:
        await make(platform, "new")
        assert claim.recorded
    async with start() as second:
        assert await second.idempotency.find(key) == {"said": "NamespaceDetails"}
        with pytest.raises(AlreadyAnswered), second.idempotency.claim(key, said):
            await make(second, "other")
        assert not await second.namespaces.exists(ANONYMOUS, "default", Namespace(("other",)))


async def test_R7_a_unit_that_fails_leaves_no_answer(platform: Platform) -> None:
    key = await key_of(platform)
    with platform.idempotency.claim(key, said) as claim:
        with pytest.raises(AlreadyExists):
            await make(platform, "ns")
        with pytest.raises(NoSuchNamespace):
            await platform.namespaces.drop(ANONYMOUS, "default", Namespace(("none",)))
        assert not claim.recorded
        assert await platform.idempotency.find(key) is None
        await make(platform, "then")
    assert await platform.idempotency.find(key) == {"said": "NamespaceDetails"}


async def test_a_note_that_fails_undoes_the_effect(platform: Platform) -> None:
    def broken(_: object) -> dict[str, Any]:
        raise Invalid("no note")

    with pytest.raises(Invalid, match="no note"), platform.idempotency.claim(await key_of(platform), broken):
        await make(platform, "undone")
    assert not await platform.namespaces.exists(ANONYMOUS, "default", Namespace(("undone",)))


async def test_only_the_first_unit_of_a_request_is_tied_to_its_key(platform: Platform) -> None:
    key = await key_of(platform)
    with platform.idempotency.claim(key, said):
        await make(platform, "one")
        await make(platform, "two")
    await make(platform, "three")
    assert await platform.idempotency.find(key) == {"said": "NamespaceDetails"}


async def test_R7_one_commit_of_many_with_one_key_on_two_servers(
    platform: Platform, start: Starter, memory: MemoryObjectStore
) -> None:
    made = await create(platform, T)
    key = await key_of(platform)
    needs, updates = append(made.metadata, 1)
    async with start() as second:

        async def send(on: Platform) -> str:
            with on.idempotency.claim(key, said):
                try:
                    await on.commits.commit(ANONYMOUS, "default", T, needs, updates)
                except (AlreadyAnswered, RequirementFailed) as error:
                    return type(error).__name__
                return "applied"

        outcomes = await asyncio.gather(*(send(platform if number % 2 else second) for number in range(6)))
    assert outcomes.count("applied") == 1
    loaded = await platform.tables.load(ANONYMOUS, "default", T)
    assert [snapshot["snapshot-id"] for snapshot in loaded.metadata.snapshots] == [1]
    left = [info.path for info in memory.list(WAREHOUSE) if info.path.endswith(".metadata.json")]
    assert sorted(left) == sorted([made.metadata_location or "", loaded.metadata_location or ""])


async def test_settling_keeps_the_answer_that_came_first(platform: Platform, start: Starter) -> None:
    key = await key_of(platform)
    async with start() as second:
        answers = await asyncio.gather(
            *(
                (platform if number % 2 else second).idempotency.settle(key, {"status": number})
                for number in range(6)
            )
        )
    assert len({answer["status"] for answer in answers}) == 1
    assert await platform.idempotency.find(key) == answers[0]


async def test_R8_a_key_is_of_one_request_principal_and_bucket(platform: Platform) -> None:
    key = await key_of(platform)
    await platform.idempotency.settle(key, {"status": 204})
    other_request = await key_of(platform, fingerprint="g")
    with pytest.raises(Invalid, match="Idempotency-Key"):
        await platform.idempotency.find(other_request)
    with pytest.raises(Invalid, match="Idempotency-Key"):
        await platform.idempotency.settle(other_request, {"status": 400})
    other = RequestKey(bucket_id=key.bucket_id, principal="you", key=key.key, fingerprint="g")
    assert await platform.idempotency.find(other) is None


async def test_turns_are_taken_by_equal_requests_only(platform: Platform) -> None:
    key, other = await key_of(platform), await key_of(platform, key="other")
    order: list[str] = []

    async def second() -> None:
        async with platform.idempotency.turn(key):
            order.append("second")

    async with platform.idempotency.turn(key):
        waiting = asyncio.create_task(second())
        async with platform.idempotency.turn(other):
            order.append("other")
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["other", "first", "second"]
