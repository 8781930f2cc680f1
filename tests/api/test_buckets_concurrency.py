"""Two servers on one database are asked to change the same buckets, namespaces and tables at once.

Whatever order the requests get: no 5xx, and what is left fits together.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.iceberg_client import Http, in_process
from tests.api.test_management_buckets import whole
from tests.databases import database_url

__all__ = ["database_url"]

NAMES = ("bucket-a", "bucket-b")
WORKERS, STEPS = 4, 30
SCHEMA: dict[str, Any] = {"type": "struct", "fields": []}
ARN = "arn%3Aaws%3As3tables%3Aus-east-1%3A000000000000%3Abucket%2Fdefault"
ALLOWED = {200, 201, 204, 400, 403, 404, 409, 412}


@pytest.fixture
def servers(tmp_path: Path, database_url: str) -> Iterator[tuple[Http, Http]]:
    with ExitStack() as stack:
        standing = {"database.url": database_url, "database.busy_timeout_seconds": 30}
        first = stack.enter_context(in_process(tmp_path, **standing))[0]
        yield first, stack.enter_context(in_process(tmp_path, **standing))[0]


def steps(http: Http, name: str, at: str, number: int) -> dict[str, Callable[[], Any]]:
    """What may be asked of one bucket."""
    bucket, base = f"/api/v1/buckets/{name}", f"/iceberg/v1/{name}/namespaces/n/tables"
    birth = {"name": f"t{number % 3}", "schema": SCHEMA}
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"n": str(number)}}]}
    return {
        "create": lambda: http.post("/api/v1/buckets", json={"name": name}),
        "register": lambda: http.post("/api/v1/buckets", json={"name": name, "location": at}),
        "delete": lambda: http.delete(bucket),
        "protect": lambda: http.put(bucket, json=whole(protected=number % 2 == 0)),
        "tag": lambda: http.put(f"{bucket}/tags", json={"tags": {"n": str(number)}}),
        "show": lambda: http.get(bucket),
        "namespace": lambda: http.post(f"{bucket}/namespaces", json={"namespace": ["n"]}),
        "no-namespace": lambda: http.delete(f"{bucket}/namespaces/n"),
        "table": lambda: http.post(base, json=birth),
        "commit": lambda: http.post(f"{base}/{birth['name']}", json=change),
        "drop": lambda: http.delete(f"{base}/{birth['name']}"),
        "forget": lambda: forget(http, bucket),
    }


def forget(http: Http, bucket: str) -> Any:
    listed = http.get(f"{bucket}/dropped-tables")
    for row in listed.json().get("droppedTables", []) if listed.status_code == 200 else []:
        http.delete(f"{bucket}/dropped-tables/{row['id']}")
    return listed


def test_no_half_state_and_no_5xx(servers: tuple[Http, Http], tmp_path: Path) -> None:
    def work(worker: int) -> Counter[tuple[str, int]]:
        rng = random.Random(worker)
        seen: Counter[tuple[str, int]] = Counter()
        for number in range(STEPS):
            http, name = servers[worker % 2], rng.choice(NAMES)
            offered = steps(http, name, f"file://{tmp_path}/registered/{name}", number)
            what = rng.choice(sorted(offered))
            answer = offered[what]()
            assert answer.status_code in ALLOWED, (what, answer.status_code, answer.text)
            seen[what, answer.status_code] += 1
        return seen

    with ThreadPoolExecutor(WORKERS) as threads:
        seen = sum(threads.map(work, range(WORKERS)), Counter())
    assert {status for _, status in seen} >= {201, 204, 404, 409}, seen
    for name in NAMES:
        left(servers, name)


def left(servers: tuple[Http, Http], name: str) -> None:
    """Both servers agree on what is there, and all of it can be taken away again."""
    http, other = servers
    path, base = f"/api/v1/buckets/{name}", f"/iceberg/v1/{name}/namespaces/n/tables"
    if http.get(path).status_code == 404:
        assert other.get(path).status_code == 404
        assert other.get(base).json()["error"]["type"] == "NoSuchWarehouseException"
        return
    assert http.get(path).json() == other.get(path).json()
    http.put(path, json=whole())
    listed = other.get(base)
    for identifier in listed.json().get("identifiers", []):
        assert http.get(f"{base}/{identifier['name']}").status_code == 200
        assert http.delete(f"{base}/{identifier['name']}").status_code == 204
    http.delete(f"{path}/namespaces/n")
    forget(http, path)
    gone = other.delete(path)
    assert gone.status_code == 204, gone.text


def life_of_tables(http: Http, number: int) -> dict[str, Callable[[], Any]]:
    """What may be asked of a table that others rename, drop and restore at the same time."""
    bucket = "/api/v1/buckets/default"
    name, other = f"t{number % 3}", f"t{(number + 1) % 3}"
    base, entry = f"{bucket}/namespaces/n/tables", "/s3tables/tables/" + ARN
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"n": str(number)}}]}

    def dropped(what: str) -> Any:
        listed = http.get(f"{bucket}/dropped-tables")
        rows = listed.json()["droppedTables"]
        if not rows:
            return listed
        at, body = f"{bucket}/dropped-tables/{rows[number % len(rows)]['id']}", {"name": name}
        return http.post(f"{at}/{what}", **({"json": body} if what == "undrop" else {}))

    def registered_again() -> Any:
        out = http.post(f"{base}/{name}/unregister")
        if out.status_code != 200:
            return out
        at = out.json()["metadataLocation"]
        again = http.post(base, json={"name": other, "metadataLocation": at})
        if again.status_code != 409:
            return again
        return http.post(base, json={"name": at.rpartition("/")[2], "metadataLocation": at})

    return {
        "create": lambda: http.post(base, json={"name": name, "schema": SCHEMA}),
        "blank": lambda: http.put(f"{entry}/n", json={"name": name, "format": "ICEBERG"}),
        "commit": lambda: http.post(f"/iceberg/v1/default/namespaces/n/tables/{name}", json=change),
        "rename": lambda: http.post(f"{base}/{name}/rename", json={"name": other}),
        "drop": lambda: http.delete(f"{base}/{name}"),
        "drop-and-purge": lambda: http.delete(f"{base}/{name}", params={"purge": "true"}),
        "protect": lambda: http.put(f"{base}/{name}/protection", json={"protected": number % 3 == 0}),
        "undrop": lambda: dropped("undrop"),
        "purge": lambda: dropped("purge"),
        "handed-over": registered_again,
    }


def test_tables_are_there_or_dropped_and_never_both(servers: tuple[Http, Http]) -> None:
    made = servers[0].post("/api/v1/buckets/default/namespaces", json={"namespace": ["n"]})
    assert made.status_code == 201, made.text

    def work(worker: int) -> set[str]:
        rng, born = random.Random(worker), set()
        for number in range(STEPS):
            offered = life_of_tables(servers[worker % 2], rng.randrange(3))
            what = rng.choice(sorted(offered))
            answer = offered[what]()
            assert answer.status_code in {*ALLOWED, 202}, (what, answer.status_code, answer.text, number)
            if what == "create" and answer.status_code == 201:
                born.add(answer.json()["resourceId"])
        return born

    with ThreadPoolExecutor(WORKERS) as threads:
        born = set().union(*threads.map(work, range(WORKERS)))
    first, second = servers
    bucket = "/api/v1/buckets/default"
    tables = first.get(f"{bucket}/tables").json()["tables"]
    gone = first.get(f"{bucket}/dropped-tables").json()["droppedTables"]
    assert tables == second.get(f"{bucket}/tables").json()["tables"]
    there, lost = {one["resourceId"] for one in tables}, {one["id"] for one in gone}
    assert (len(there), len(lost), there & lost) == (len(tables), len(gone), set())
    # No purge ran, so what was made and not handed over can still be found or had back.
    assert born <= there | lost
    for one in tables:
        path = f"/iceberg/v1/default/namespaces/n/tables/{one['name']}"
        assert second.get(path).status_code == (404 if one["metadataLocation"] is None else 200)
    for row in gone:
        back = first.post(f"{bucket}/dropped-tables/{row['id']}/undrop", json={"name": f"back-{row['id']}"})
        assert back.status_code == 200, back.text
