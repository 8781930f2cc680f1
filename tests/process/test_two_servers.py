"""Two real servers over one PostgreSQL are asked for the same bucket, place or policy at the same moment.

Whatever order the requests get: one wins, nobody is answered 5xx, and what is left is what the winners were told.
Commits through both doors of two servers are in `test_two_doors`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.postgres import Postgres
from tests.process.servers import Server
from tests.process.test_postgres import two_servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CALLERS = 8
ROUNDS = 6
Ask = Callable[[Server, int], requests.Response]


@pytest.fixture(scope="module")
def servers(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with two_servers(postgres.url(postgres.empty()), tmp_path_factory.mktemp("two")) as running:
        yield running


def at_once(servers: list[Server], ask: Ask) -> list[requests.Response]:
    """The answers to callers of both servers that all begin at the same moment."""
    start = threading.Barrier(CALLERS)

    def call(number: int) -> requests.Response:
        start.wait()
        return ask(servers[number % len(servers)], number)

    with ThreadPoolExecutor(CALLERS) as threads:
        return list(threads.map(call, range(CALLERS)))


def statuses(answers: list[requests.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


def create(server: Server, body: dict[str, Any]) -> requests.Response:
    return requests.post(f"{server.api}/buckets", json=body, timeout=60)


def test_one_of_many_makes_a_bucket_of_a_name(servers: list[Server]) -> None:
    for number in range(ROUNDS):
        name = f"race-{number}"
        answers = at_once(servers, lambda server, _, name=name: create(server, {"name": name}))
        assert statuses(answers) == {201: 1, 409: CALLERS - 1}
        (made,) = [answer.json() for answer in answers if answer.status_code == 201]
        for server in servers:
            found = requests.get(f"{server.api}/buckets/{name}", timeout=60).json()
            assert (found["resourceId"], found["location"]) == (made["resourceId"], made["location"])


def test_of_places_that_overlap_one_becomes_a_bucket(servers: list[Server], tmp_path: Path) -> None:
    for number in range(ROUNDS):
        # Every one of them lies around or below every other one.
        places = [f"file://{tmp_path}/{number}" + "/deeper" * depth for depth in range(CALLERS)]
        names = [f"place-{number}-{depth}" for depth in range(CALLERS)]

        def register(
            server: Server, caller: int, places: list[str] = places, names: list[str] = names
        ) -> requests.Response:
            return create(server, {"name": names[caller], "location": places[caller]})

        answers = at_once(servers, register)
        # A trial of a place may see another one's object there: refused all the same, but never let in.
        assert statuses(answers)[201] == 1, [answer.text for answer in answers]
        assert set(statuses(answers)) <= {201, 400, 409}
        listed = requests.get(f"{servers[0].api}/buckets", params={"prefix": f"place-{number}-"}, timeout=60)
        assert len(listed.json()["buckets"]) == 1
        left = [path for path in (tmp_path / str(number)).rglob("*") if path.is_file()]
        assert left == [], "a trial left something behind"


def test_a_bucket_goes_once_or_keeps_what_is_made_in_it(servers: list[Server]) -> None:
    seen: Counter[str] = Counter()
    for number in range(2 * ROUNDS):
        bucket = f"{servers[0].api}/buckets/gone-{number}"
        assert create(servers[0], {"name": f"gone-{number}"}).status_code == 201

        def either(server: Server, caller: int, number: int = number) -> requests.Response:
            path = f"{server.api}/buckets/gone-{number}"
            if caller % 4 < 2:  # two of each on either server
                return requests.delete(path, timeout=60)
            return requests.post(f"{path}/namespaces", json={"namespace": ["n"]}, timeout=60)

        answers = at_once(servers, either)
        deleted = [one for one in answers if one.request.method == "DELETE" and one.status_code == 204]
        made = [one for one in answers if one.request.method == "POST" and one.status_code == 201]
        assert (len(deleted), len(made)) in ((1, 0), (0, 1)), [one.text for one in answers]
        assert set(statuses(answers)) <= {201, 204, 404, 409}
        seen["deleted" if deleted else "kept"] += 1
        for server in servers:
            there = requests.get(f"{server.api}/buckets/gone-{number}", timeout=60).status_code
            assert there == (404 if deleted else 200)
        if made:
            names = requests.get(f"{bucket}/namespaces", timeout=60).json()["namespaces"]
            assert names == [["n"]]
    assert sum(seen.values()) == 2 * ROUNDS


def test_a_bucket_of_the_same_name_is_not_mixed_up_with_the_one_before(servers: list[Server]) -> None:
    """Both servers know the name from before: neither goes on with the old id or place."""
    for number in range(ROUNDS):
        one, other = servers if number % 2 else servers[::-1]
        first = create(one, {"name": "again"}).json()
        table = {"name": "t", "schema": {"type": "struct", "fields": []}}
        base = "v1/again/namespaces"
        made = requests.post(f"{other.iceberg}/{base}", json={"namespace": ["n"]}, timeout=60)
        assert made.status_code == 200
        created = requests.post(f"{other.iceberg}/{base}/n/tables", json=table, timeout=60).json()
        assert created["metadata-location"].startswith(f"{first['location']}/")
        gone = f"{other.iceberg}/{base}/n/tables/t?purgeRequested=false"
        assert requests.delete(gone, timeout=60).status_code == 204
        (dropped,) = requests.get(f"{one.api}/buckets/again/dropped-tables", timeout=60).json()[
            "droppedTables"
        ]
        path = f"{one.api}/buckets/again/dropped-tables/{dropped['id']}"
        assert requests.delete(path, timeout=60).status_code == 204
        assert requests.delete(f"{one.iceberg}/{base}/n", timeout=60).status_code == 204
        assert requests.delete(f"{other.api}/buckets/again", timeout=60).status_code == 204
        assert requests.get(f"{one.iceberg}/{base}", timeout=60).status_code == 404


@pytest.mark.parametrize("level", ["bucket", "namespace"])
def test_of_policies_put_onto_the_same_version_one_holds(servers: list[Server], level: str) -> None:
    name = f"policy-{level}"
    assert create(servers[0], {"name": name}).status_code == 201
    made = requests.post(f"{servers[0].api}/buckets/{name}/namespaces", json={"namespace": ["n"]}, timeout=60)
    assert made.status_code == 201
    place = f"buckets/{name}" + ("" if level == "bucket" else "/namespaces/n")
    path = f"{place}/policies/icebergCompaction"
    etag, expected = '"0"', []
    for number in range(ROUNDS):

        def put(server: Server, caller: int, etag: str = etag, number: int = number) -> requests.Response:
            body = {"settings": {"minInputFiles": 10 * number + caller + 2}}
            return requests.put(f"{server.api}/{path}", json=body, headers={"If-Match": etag}, timeout=60)

        answers = at_once(servers, put)
        assert statuses(answers) == {200: 1, 412: CALLERS - 1}, [answer.text for answer in answers]
        (won,) = [answer for answer in answers if answer.status_code == 200]
        for server in servers:
            found = requests.get(f"{server.api}/{path}", timeout=60)
            assert (found.json(), found.headers["etag"]) == (won.json(), won.headers["etag"])
        etag = won.headers["etag"]
        expected.append(won.json()["settings"])
    # Every change that was answered as made is in the history, once, each upon the one before it.
    changes = requests.get(f"{servers[1].api}/{place}/policies/history", timeout=60).json()["changes"][::-1]
    assert [change["after"]["settings"] for change in changes] == expected
    assert [change["before"] and change["before"]["settings"] for change in changes] == [None, *expected[:-1]]


def test_of_tags_put_onto_the_same_version_one_set_holds(servers: list[Server]) -> None:
    assert create(servers[0], {"name": "tagged"}).status_code == 201
    path = "buckets/tagged/tags"
    for number in range(ROUNDS):
        etag = requests.get(f"{servers[0].api}/{path}", timeout=60).headers["etag"]

        def put(server: Server, caller: int, etag: str = etag, number: int = number) -> requests.Response:
            body = {"tags": {"round": str(number), "by": str(caller)}}
            return requests.put(f"{server.api}/{path}", json=body, headers={"If-Match": etag}, timeout=60)

        answers = at_once(servers, put)
        assert statuses(answers) == {200: 1, 412: CALLERS - 1}, [answer.text for answer in answers]
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert requests.get(f"{servers[1].api}/{path}", timeout=60).json() == won
