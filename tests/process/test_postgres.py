"""Servers over PostgreSQL: several at once, through a crash of the database, and when it can not be used at all."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.postgres import PASSWORD, Postgres, free_port, running
from tests.process.servers import Server, run_frazil, serving, start_server

pytestmark = pytest.mark.process

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "x", "type": "long", "required": False}],
}
TABLES = "v1/default/namespaces/db/tables"


def environment(url: str, warehouse: Path) -> dict[str, str]:
    return {
        "FRAZIL_DATABASE__URL": url,
        "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": f"file://{warehouse}",
        "FRAZIL_MAINTENANCE__POLL_SECONDS": "0.1",
    }


@contextmanager
def two_servers(url: str, directory: Path, *, maintenance: bool = False) -> Iterator[list[Server]]:
    """Two servers started at the same moment, each with a data directory of its own."""
    env = environment(url, directory / "warehouse")

    def start(name: str) -> Server:
        return start_server(directory / name, env=env, maintenance=maintenance)

    with ThreadPoolExecutor(2) as threads, ExitStack() as stack:
        servers = []
        for started in [threads.submit(start, name) for name in ("a", "b")]:
            server = started.result()
            stack.callback(server.kill)
            servers.append(server)
        yield servers
        for server in servers:
            assert server.terminate() == 0


def post(server: Server, path: str, body: dict[str, Any]) -> requests.Response:
    return requests.post(f"{server.iceberg}/{path}", json=body, timeout=60)


def load(server: Server, table: str = "t") -> dict[str, Any]:
    answer = requests.get(f"{server.iceberg}/{TABLES}/{table}", timeout=60)
    assert answer.status_code == 200, answer.text
    metadata: dict[str, Any] = answer.json()["metadata"]
    return metadata


def append(server: Server, metadata: dict[str, Any], snapshot_id: int) -> requests.Response:
    current = metadata.get("current-snapshot-id")
    current = None if current == -1 else current
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **({} if current is None else {"parent-snapshot-id": current}),
    }
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    needs = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": current}]
    return post(server, f"{TABLES}/t", {"requirements": needs, "updates": updates})


def chain(metadata: dict[str, Any]) -> list[int]:
    """Snapshot ids from the current one back to the first: what the table consists of."""
    parents = {made["snapshot-id"]: made.get("parent-snapshot-id") for made in metadata["snapshots"]}
    found, at = [], metadata.get("current-snapshot-id")
    while at is not None and at != -1:
        found.append(at)
        at = parents[at]
    return found


def test_two_servers_start_at_once_and_share_every_commit(postgres: Postgres, tmp_path: Path) -> None:
    writers, appends = 8, 6
    answers: list[int] = []
    with two_servers(postgres.url(postgres.empty()), tmp_path) as servers:
        assert post(servers[0], "v1/default/namespaces", {"namespace": ["db"]}).status_code == 200

        with ThreadPoolExecutor(8) as threads:
            made = threads.map(
                lambda n: post(servers[n % 2], TABLES, {"name": "t", "schema": SCHEMA}).status_code, range(8)
            )
            assert Counter(made) == {200: 1, 409: 7}

        def write(writer: int) -> None:
            for number in range(appends):
                mine = servers[(writer + number) % 2]
                while True:
                    answer = append(mine, load(mine), writer * 1000 + number)
                    answers.append(answer.status_code)
                    if answer.status_code == 200:
                        break

        with ThreadPoolExecutor(writers) as threads:
            list(threads.map(write, range(1, writers + 1)))
        first, second = (load(server) for server in servers)
    assert first == second
    assert sorted(chain(first)) == sorted(w * 1000 + n for w in range(1, 9) for n in range(appends))
    assert Counter(answers)[200] == writers * appends
    assert set(answers) <= {200, 409}


def test_two_workers_run_each_job_once(postgres: Postgres, tmp_path: Path) -> None:
    tables = [f"t{number}" for number in range(12)]
    with two_servers(postgres.url(postgres.empty()), tmp_path, maintenance=True) as servers:
        assert post(servers[0], "v1/default/namespaces", {"namespace": ["db"]}).status_code == 200
        for name in tables:
            assert post(servers[0], TABLES, {"name": name, "schema": SCHEMA}).status_code == 200
            asked = requests.post(
                f"{servers[1].api}/buckets/default/namespaces/db/tables/{name}/jobs",
                json={"kind": "icebergSnapshotManagement"},
                timeout=60,
            )
            assert asked.status_code in (200, 201, 202), asked.text
        deadline = time.monotonic() + 60
        while True:
            jobs = requests.get(f"{servers[0].api}/jobs", timeout=60).json()["jobs"]
            if all(job["state"] == "done" for job in jobs) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
    assert Counter((job["table"], job["state"], job["attempts"]) for job in jobs) == {
        (name, "done", 1): 1 for name in tables
    }


def test_a_crash_of_postgresql_in_the_middle_of_commits_loses_nothing(tmp_path: Path) -> None:
    """Without a restart of the servers: unavailable or unknown while it is away, then as before."""
    with running() as postgres, two_servers(postgres.url(postgres.empty()), tmp_path) as servers:
        assert post(servers[0], "v1/default/namespaces", {"namespace": ["db"]}).status_code == 200
        assert post(servers[0], TABLES, {"name": "t", "schema": SCHEMA}).status_code == 200
        acknowledged: list[int] = []
        answers: Counter[int] = Counter()
        finished = threading.Event()
        progress = threading.Condition()

        def write(writer: int) -> None:
            mine, number = servers[writer % 2], 0
            while not finished.is_set():
                known = requests.get(f"{mine.iceberg}/{TABLES}/t", timeout=60)
                number += 1
                snapshot_id = writer * 100_000 + number
                answer = (
                    known if known.status_code != 200 else append(mine, known.json()["metadata"], snapshot_id)
                )
                if answer.status_code == 503:
                    assert "Retry-After" in answer.headers
                with progress:
                    answers[answer.status_code] += 1
                    if answer.status_code == 200:
                        acknowledged.append(snapshot_id)
                    progress.notify_all()

        def until(enough: int) -> None:
            with progress:
                assert progress.wait_for(lambda: len(acknowledged) >= enough, 60), answers

        def until_unavailable(enough: int) -> None:
            with progress:
                assert progress.wait_for(lambda: answers[503] >= enough, 60), answers

        with ThreadPoolExecutor(6) as threads:
            writing = [threads.submit(write, writer) for writer in range(1, 7)]
            try:
                for _ in range(2):
                    until(len(acknowledged) + 10)
                    postgres.kill()
                    until_unavailable(answers[503] + 5)
                    assert requests.get(f"{servers[0].url}/health/ready", timeout=60).status_code == 503
                    postgres.start()
                    until(len(acknowledged) + 10)
            finally:
                finished.set()
            for thread in writing:
                thread.result()
        table = load(servers[0])
    held = chain(table)
    assert len(held) == len(set(held))
    assert set(acknowledged) <= set(held)
    # What is there beside was answered as unknown.
    assert len(set(held) - set(acknowledged)) <= answers[500]
    assert set(answers) <= {200, 409, 500, 503}, answers


def refused(tmp_path: Path, url: str) -> str:
    """What `frazil serve` says of a database that it can not use."""
    done = run_frazil("serve", "--port", "0", "--data-dir", str(tmp_path), env={"FRAZIL_DATABASE__URL": url})
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for secret in (PASSWORD, "wr0ng", url):
        assert secret not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("frazil: ")]
    return line


def test_a_database_that_can_not_be_reached_is_told_in_one_line(postgres: Postgres, tmp_path: Path) -> None:
    there = postgres.database()
    nowhere = postgres.url(there).replace(f":{postgres.port}/", f":{free_port()}/")
    assert "can not be used" in refused(tmp_path, nowhere)
    line = refused(tmp_path, postgres.url(there, password="wr0ng"))
    assert "password authentication failed" in line
    assert postgres.label(there) in line


def test_a_database_that_is_missing_or_too_new_is_told_in_one_line(
    postgres: Postgres, tmp_path: Path
) -> None:
    there = postgres.database()
    assert "does not exist; create it first" in refused(tmp_path, postgres.url("no_such_database"))
    postgres.sql(there, "UPDATE alembic_version SET version_num = '9999_future'")
    line = refused(tmp_path, postgres.url(there))
    assert "9999_future" in line
    assert "newer frazil" in line


def test_secrets_are_not_logged(postgres: Postgres, tmp_path: Path) -> None:
    with running() as away:
        env = environment(away.url(away.empty()), tmp_path / "warehouse")
        with serving(tmp_path, env=env) as server:
            away.kill()
            assert requests.get(f"{server.url}/health/ready", timeout=60).status_code == 503
            answer = requests.get(f"{server.iceberg}/v1/default/namespaces", timeout=60)
            assert answer.status_code == 503
            for text in (server.log_text(), answer.text):
                assert "postgresql://frazil@127.0.0.1" in text
                assert PASSWORD not in text
                assert "not%3Aa%2Fsecret" not in text
