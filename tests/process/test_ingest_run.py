"""`frazil ingest` as a process, against a running server and librdkafka's mock cluster."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from table_format.errors import NotFound
from table_format.ident import TableIdent
from table_format.io.resolve import store_for
from table_format.rest import RestCatalog
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.fakes.mock_cluster import mock_cluster
from tests.process.servers import Server, serving

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
IDENT = TableIdent.of("demo", "flights")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "server") as running:
        yield running


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with mock_cluster() as address:
        yield address


def write_config(tmp_path: Path, server: Server, bootstrap: str, more: str = "") -> Path:
    path = tmp_path / "ingest.toml"
    path.write_text(
        f'[catalog]\nuri = "{server.iceberg}"\n'
        f'[kafka]\n"bootstrap.servers" = "{bootstrap}"\nassignment = "all"\n'
        '[topics.flights]\nnamespace = "demo"\n"convert.value.type" = "json"\n"commit.interval.ms" = 300\n'
        '"partition.by" = "[month(at)]"\nschema = { columns = { at = "timestamptz" } }\n' + more
    )
    return path


def command(config: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "catalog_server", "ingest", "run", "--config", str(config), *arguments]


def produce(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        value = {"n": number, "at": f"2024-{number % 12 + 1:02d}-01T00:00:00Z"}
        producer.produce("flights", orjson.dumps(value), partition=number % 4)
    assert producer.flush(20) == 0


def rows(server: Server, ident: TableIdent = IDENT) -> list[dict[str, Any]]:
    table = RestCatalog(server.iceberg, "default").load(ident)
    store = store_for(table.metadata.location, table.config)
    return [
        row
        for task in snapshot_files(store, table.metadata).tasks
        for batch in read_task(store, task, table.metadata)
        for row in batch.to_pylist()
    ]


def numbers(server: Server) -> Counter[int]:
    return Counter(row["n"] for row in rows(server))


def test_a_batch_load_ends_at_the_end_and_goes_on_from_there(
    tmp_path: Path, server: Server, bootstrap: str
) -> None:
    config = write_config(tmp_path, server, bootstrap)
    produce(bootstrap, 0, 2000)
    broken = Producer({"bootstrap.servers": bootstrap})
    broken.produce("flights", b"{", partition=0)
    assert broken.flush(10) == 0
    for _ in range(2):
        done = subprocess.run(
            command(config, "--exit-at-end", "--json"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
        assert {"topic_started", "finished"} <= set(events)
        assert numbers(server) == Counter(range(2000))
        letters = rows(server, TableIdent.of("demo", "flights__dead_letters"))
        assert [(row["partition"], row["offset"], row["value"]) for row in letters] == [(0, 500, b"{")]
    replayed = frazil_ingest(config, "replay", "flights", "--json")
    assert replayed.returncode == 0, replayed.stderr
    found = json.loads(replayed.stdout)
    assert (found["rows"], found["left"]) == (0, 1)


def test_dead_letters_and_offsets_are_one_commit(tmp_path: Path, server: Server, bootstrap: str) -> None:
    """The real catalog takes both tables in one request, and the same commit stands in both."""
    config = write_config(tmp_path, server, bootstrap)
    produce(bootstrap, 0, 40)
    broken = Producer({"bootstrap.servers": bootstrap})
    broken.produce("flights", b"{", partition=0)
    assert broken.flush(10) == 0
    done = subprocess.run(command(config, "--exit-at-end"), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    catalog = RestCatalog(server.iceberg, "default")
    assert catalog.commits_together()
    heads = [
        catalog.load(ident).metadata.current_snapshot
        for ident in (IDENT, TableIdent.of("demo", "flights__dead_letters"))
    ]
    ids = [head["summary"]["ingest.commit-id"] for head in heads if head is not None]
    assert len(ids) == 2
    assert ids[0] == ids[1]


def frazil_ingest(config: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "catalog_server", "ingest", *arguments, "--config", str(config)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, input=typed)


def test_status_pause_resume_and_reset(tmp_path: Path, server: Server, bootstrap: str) -> None:
    config = write_config(tmp_path, server, bootstrap)
    produce(bootstrap, 0, 40)
    assert frazil_ingest(config, "run", "--exit-at-end").returncode == 0
    produce(bootstrap, 40, 4)
    (told,) = json.loads(frazil_ingest(config, "status", "--json").stdout)
    assert told["state"] == "ok"
    assert [(each["committedOffset"], each["endOffset"]) for each in told["partitions"]] == [(10, 11)] * 4
    shown = frazil_ingest(config, "status")
    assert shown.returncode == 0, shown.stderr
    assert "flights" in shown.stdout
    assert "flights is paused" in frazil_ingest(config, "pause", "flights").stdout
    assert frazil_ingest(config, "run", "--exit-at-end").returncode == 0
    assert numbers(server) == Counter(range(40))
    assert "flights is resumed" in frazil_ingest(config, "resume", "flights").stdout
    assert frazil_ingest(config, "pause", "nights").returncode == 2
    refused = frazil_ingest(config, "reset", "flights", "--to", "0=11", typed="n\n")
    assert (refused.returncode, "nothing was changed" in refused.stderr) == (1, True)
    unasked = frazil_ingest(config, "reset", "flights", "--to", "0=11", typed="")
    assert (unasked.returncode, "say --yes to do it" in unasked.stderr) == (1, True)
    assert frazil_ingest(config, "reset", "flights", "--to", "0=11", "--yes").returncode == 0
    assert frazil_ingest(config, "run", "--exit-at-end").returncode == 0
    # The record of partition 0 that the reset left out is number 40.
    assert numbers(server) == Counter({*range(44)} - {40})


def test_a_stop_commits_and_a_restart_continues(tmp_path: Path, server: Server, bootstrap: str) -> None:
    config = write_config(tmp_path, server, bootstrap)
    produce(bootstrap, 0, 500)
    process = subprocess.Popen(command(config), stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            assert process.stderr is not None
            if "committed" in process.stderr.readline():
                break
        produce(bootstrap, 500, 500)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    finally:
        process.kill()
        process.wait()
    done = subprocess.run(command(config, "--exit-at-end"), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0
    assert numbers(server) == Counter(range(1000))


def test_a_stopped_topic_is_an_exit_code_and_a_line(tmp_path: Path, server: Server, bootstrap: str) -> None:
    config = write_config(tmp_path, server, bootstrap, '"errors.tolerance" = "none"\n')
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("flights", b"{", partition=0)
    assert producer.flush(10) == 0
    done = subprocess.run(command(config), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert (
        "error: topic flights: record at partition 0 offset 0: not valid JSON" in done.stderr.splitlines()[-1]
    )


def test_ingest_beside_the_server(tmp_path: Path, bootstrap: str) -> None:
    config = tmp_path / "ingest.toml"
    config.write_text(
        f'[kafka]\n"bootstrap.servers" = "{bootstrap}"\nassignment = "all"\n'
        '[topics.flights]\nnamespace = "demo"\n"convert.value.type" = "json"\n"commit.interval.ms" = 300\n'
    )
    produce(bootstrap, 0, 100)
    env = {"FRAZIL_INGEST__ENABLED": "true", "FRAZIL_INGEST__CONFIG": str(config)}
    with serving(tmp_path / "server", env=env) as server:
        end = time.monotonic() + 90
        while True:
            try:
                if sum(numbers(server).values()) >= 100:
                    break
            except NotFound:
                pass
            assert time.monotonic() < end
            time.sleep(0.1)
        assert numbers(server) == Counter(range(100))
