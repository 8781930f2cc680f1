"""Who runs next, and how many at once: buckets in turn, limits that hold, dry runs aside."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from catalog_server.store import buckets, jobs
from catalog_server.store.engine import Database
from catalog_server.store.jobs import ClaimRules, JobRow
from tests.store.openers import Opener, claimant
from tests.store.test_jobs import KINDS, birth


@pytest.fixture
def second(connection: Connection) -> int:
    """Another bucket's id."""
    return buckets.create(connection, "c", "s3://c", {}, 1).id


def queue(connection: Connection, table: str, bucket_id: int = 1, **changes: object) -> int:
    made = replace(birth(table=table), bucket_id=bucket_id, **changes)  # type: ignore[arg-type]
    return jobs.enqueue(connection, made, 100).id


def claim(connection: Connection, now_ms: int, rules: ClaimRules | None = None) -> JobRow | None:
    return jobs.claim(connection, claimant("w", now_ms + 50), KINDS, now_ms, rules or ClaimRules())


def claimed(connection: Connection, count: int, rules: ClaimRules | None = None) -> list[int | None]:
    found = [claim(connection, 1000 + n, rules) for n in range(count)]
    return [None if row is None else row.id for row in found]


def test_a_bucket_with_many_jobs_delays_another_by_one(connection: Connection, second: int) -> None:
    many = [queue(connection, f"t{n}") for n in range(5)]
    few = [queue(connection, f"u{n}", second) for n in range(2)]
    assert claimed(connection, 7) == [many[0], few[0], many[1], few[1], *many[2:]]


def test_urgent_jobs_pass_the_turns_of_buckets(connection: Connection, second: int) -> None:
    waiting = queue(connection, "u", second)
    first, then = (queue(connection, name, priority=10) for name in ("a", "b"))
    assert claimed(connection, 3) == [first, then, waiting]


def test_what_is_worth_more_goes_first_but_nothing_waits_for_ever(
    connection: Connection, second: int
) -> None:
    """A step is worth ten minutes of waiting; the turns of buckets come before that."""
    patient = queue(connection, "a")
    worth = [queue(connection, f"t{n}", priority=n) for n in (1, 9, 3)]
    other = queue(connection, "u", second)
    assert claimed(connection, 5) == [worth[1], other, worth[2], worth[0], patient]
    late = [jobs.enqueue(connection, birth(table=f"l{n}"), n * 600_000).id for n in (1, 2)]
    made = replace(birth(table="m"), priority=1)
    worth_one = jobs.enqueue(connection, made, 2 * 600_000 + 1).id
    found = [claim(connection, 2_000_000 + n) for n in range(3)]
    assert [row.id for row in found if row is not None] == [late[0], worth_one, late[1]]


def test_limits_hold_back_all_but_dry_runs(connection: Connection, second: int) -> None:
    one, two = queue(connection, "a"), queue(connection, "b")
    other, dry = queue(connection, "u", second), queue(connection, "d", dry_run=True)
    per_bucket = ClaimRules(per_bucket=1)
    assert claimed(connection, 4, per_bucket) == [one, other, dry, None]
    jobs.finish(connection, one, "w", ({}, None), 1100)
    assert claim(connection, 1101, ClaimRules(total=1)) is None
    assert claimed(connection, 2, ClaimRules(total=2)) == [two, None]


def test_a_bucket_may_have_a_limit_of_its_own(connection: Connection, second: int) -> None:
    mine = [queue(connection, name) for name in ("a", "b", "c")]
    others = [queue(connection, name, second) for name in ("u", "v")]
    rules = ClaimRules(per_bucket=1, of_buckets={1: 2})
    assert claimed(connection, 5, rules) == [mine[0], others[0], mine[1], None, None]
    only = ClaimRules(of_buckets={second: 0})
    assert claimed(connection, 2, only) == [mine[2], None]


def test_a_place_for_dry_runs_takes_nothing_else(connection: Connection) -> None:
    queue(connection, "a", priority=10)
    dry = queue(connection, "b", dry_run=True)
    assert claimed(connection, 2, ClaimRules(dry_only=True)) == [dry, None]


@pytest.mark.anyio
async def test_limits_hold_among_workers_that_claim_at_once(database: Database, opened: Opener) -> None:
    await database.write(buckets.create, "b", "s3://b", {}, 1)
    beside = await opened()
    for number in range(20):
        await database.write(jobs.enqueue, birth(table=f"t{number}"), 100)

    def alone(connection: Connection, owner: str, rules: ClaimRules) -> JobRow | None:
        return jobs.claim(connection, claimant(owner, 150), KINDS, 100, rules)

    found = await asyncio.gather(
        *((beside if n % 2 else database).write(alone, f"w{n}", ClaimRules(per_bucket=7)) for n in range(20))
    )
    assert sum(row is not None for row in found) == 7
