"""One table changed through both doors at once: commits of the Iceberg API, and clients that move the pointer."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from table_format.io.local import local_path
from tests.api.iceberg_client import SCHEMA, append_requirements, append_updates
from tests.api.s3tables_client import Tables, following, metadata_file, read, written
from tests.postgres import Postgres
from tests.process.servers import serving
from tests.process.test_postgres import two_servers

WRITERS = 8
COMMITS = 4


class World:
    """What the writers share: the ids that they take, and what they were told."""

    def __init__(self) -> None:
        self.ids = itertools.count(1)
        self.applied: list[int] = []
        self.tokens: list[str] = []
        self.errors: list[BaseException] = []


@pytest.mark.process
def test_no_update_is_lost_between_the_two_doors(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        run_writers([server.url])


@pytest.mark.process
def test_no_update_is_lost_between_the_doors_of_two_servers(postgres: Postgres, tmp_path: Path) -> None:
    with two_servers(postgres.url(postgres.empty()), tmp_path) as servers:
        run_writers([server.url for server in servers])


def run_writers(urls: list[str]) -> None:
    with httpx.Client(base_url=urls[0], timeout=120) as http:
        tables = Tables(http)
        namespace = tables.new_namespace()
        properties = {"write.metadata.previous-versions-max": "1000"}
        answer = http.post(
            f"/iceberg/v1/default/namespaces/{namespace}/tables",
            json={"name": "t", "schema": SCHEMA, "properties": properties},
        )
        assert answer.status_code == 200, answer.text
        world = World()
        threads = [
            threading.Thread(target=guarded, args=(world, door, urls[number % len(urls)], namespace))
            for number in range(WRITERS)
            for door in (through_iceberg, through_s3tables)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert world.errors == []
        check(tables, namespace, answer.json()["metadata-location"], world)


def guarded(world: World, door: Callable[..., None], url: str, namespace: str) -> None:
    try:
        with httpx.Client(base_url=url, timeout=120) as http:
            for _ in range(COMMITS):
                door(world, Tables(http), namespace, next(world.ids))
    except BaseException as error:  # noqa: BLE001 - told in the main thread
        world.errors.append(error)


def through_iceberg(world: World, tables: Tables, namespace: str, snapshot_id: int) -> None:
    path = f"/iceberg/v1/default/namespaces/{namespace}/tables/t"
    while True:
        metadata = tables.loaded(namespace).json()["metadata"]
        body: dict[str, Any] = {
            "requirements": append_requirements(metadata),
            "updates": append_updates(metadata, snapshot_id),
        }
        answer = tables.http.post(path, json=body)
        if answer.status_code == 200:
            world.applied.append(snapshot_id)
            return
        assert answer.status_code == 409, answer.text


def through_s3tables(world: World, tables: Tables, namespace: str, snapshot_id: int) -> None:
    while True:
        pointer = tables.pointer(namespace)
        new = following(pointer["metadataLocation"], snapshot_id=snapshot_id)
        location = written(new, metadata_file(pointer["warehouseLocation"]))
        answer = tables.update(namespace, pointer["versionToken"], location)
        if answer.status_code == 200:
            world.applied.append(snapshot_id)
            world.tokens += [pointer["versionToken"], answer.json()["versionToken"]]
            return
        assert answer.status_code == 409, answer.text
        Path(local_path(location)).unlink()


def check(tables: Tables, namespace: str, first: str, world: World) -> None:
    total = 2 * WRITERS * COMMITS
    metadata = tables.loaded(namespace).json()
    document = metadata["metadata"]
    # Every commit that was answered as applied is there, once, on one line of ancestors.
    assert sorted(world.applied) == sorted(row["snapshot-id"] for row in document["snapshots"])
    assert len(world.applied) == total
    by_id = {row["snapshot-id"]: row for row in document["snapshots"]}
    line, at = [], document["current-snapshot-id"]
    while at is not None:
        line.append(at)
        at = by_id[at].get("parent-snapshot-id")
    assert len(line) == total
    # The log is unbroken: each file names the one before it, back to the first.
    chain, here = [], metadata["metadata-location"]
    while here != first:
        chain.append(here)
        here = read(here).metadata_log[-1]["metadata-file"]
    assert len(chain) == total
    assert [entry["metadata-file"] for entry in document["metadata-log"]] == [first, *reversed(chain[1:])]
    # No token was good for two updates.
    used, given = world.tokens[::2], world.tokens[1::2]
    assert len(set(used)) == len(used) == len(set(given))
    assert not {new for old, new in zip(used, given, strict=True) if old == new}
