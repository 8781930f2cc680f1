"""kill -9 of ingest at every point of its cycle, again and again: each record exactly once (ingest cases 1, 4, 5)."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from tests.fakes.mock_cluster import mock_cluster
from tests.process.servers import Server, environment, frazil, serving

KILLS = int(os.environ.get("INGEST_KILLS", "3"))
"""How often it is killed at each point."""
pytestmark = [pytest.mark.process, pytest.mark.timeout(240 + 20 * KILLS)]
HARNESS = str(Path(__file__).with_name("crash_ingest.py"))
POINTS = (
    "after-poll",
    "after-data-files",
    "after-manifest-list",
    "before-commit-is-sent",
    "after-commit-before-its-answer-is-read",
    "after-answer-before-it-is-noted",
)


class Producing:
    """Numbered records, some 400 a second over four partitions, for as long as the block lasts."""

    def __init__(self, servers: str, topic: str) -> None:
        self.count = 0
        self._servers, self._topic = servers, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 5, "log_level": 0})
        while not self._stop.wait(0.05):
            for number in range(self.count, self.count + 20):
                producer.produce(
                    self._topic, json.dumps({"id": number, "text": f"record {number}"}), str(number)
                )
            self.count += 20
            producer.poll(0)
        assert producer.flush(30) == 0


def write_config(directory: Path, server: Server, servers: str, topic: str) -> Path:
    config = directory / "ingest.toml"
    config.write_text(
        f'[catalog]\nuri = "{server.iceberg}"\n'
        f'[kafka]\n"bootstrap.servers" = "{servers}"\ngroup = "killed"\nassignment = "all"\n'
        f'[topics.{topic}]\nnamespace = "db"\ntable = "records"\n"convert.value.type" = "json"\n'
        '"commit.interval.ms" = 150\n"partition.by" = "[bucket(id, 2)]"\n'
    )
    return config


def committed_ids(server: Server) -> list[int]:
    try:
        table = load_catalog("c", type="rest", uri=server.iceberg).load_table("db.records")
    except NoSuchTableError:
        return []
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def kill_again_and_again(directory: Path, server: Server, servers: str, topic: str, point: str) -> None:
    config = write_config(directory, server, servers, topic)
    with Producing(servers, topic) as producing:
        for number in range(KILLS):
            env = environment({"FRAZIL_TEST_CRASH_POINT": point, "FRAZIL_TEST_CRASH_AT": str(2 + number % 3)})
            code, log = run([sys.executable, HARNESS], config, directory / f"crash-{number}.log", env)
            assert code == -9, log
            seen = committed_ids(server)
            assert len(seen) == len(set(seen)), "a record is in the table twice"
    code, log = run(frazil(), config, directory / "last.log", environment(), "--exit-at-end")
    assert code == 0, log
    assert committed_ids(server) == list(range(producing.count))


def run(program: list[str], config: Path, log: Path, env: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Exit code and log of one run of ingest."""
    command = [*program, "ingest", "run", "--config", str(config), *arguments]
    with log.open("wb") as out:
        code = subprocess.run(command, env=env, stdout=out, stderr=out, timeout=90, check=False).returncode
    return code, log.read_text()


@pytest.mark.parametrize("point", POINTS)
def test_killed_at(tmp_path: Path, point: str) -> None:
    with serving(tmp_path) as server, mock_cluster() as servers:
        kill_again_and_again(tmp_path, server, servers, "events", point)


@pytest.mark.kafka
def test_killed_after_the_commit_with_a_real_broker(tmp_path: Path, broker: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic("killed-events", 4, 1)])["killed-events"].result(30)
    with serving(tmp_path) as server:
        kill_again_and_again(
            tmp_path, server, broker, "killed-events", "after-commit-before-its-answer-is-read"
        )
