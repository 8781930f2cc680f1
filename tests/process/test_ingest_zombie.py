"""Processes that sleep through the loss of their partitions, and wake up in the middle of a commit."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.process.servers import Server, environment, frazil, serving
from tests.process.test_ingest_killed import HARNESS, committed_ids

pytestmark = [pytest.mark.process, pytest.mark.kafka, pytest.mark.timeout(400)]
PARTITIONS = 3
POINTS = ["before-commit-is-sent"] + (
    ["after-poll", "after-data-files"] if "INGEST_KILLS" in os.environ else []
)


def write_config(directory: Path, server: Server, servers: str, topic: str) -> Path:
    config = directory / "ingest.toml"
    config.write_text(
        f'[catalog]\nuri = "{server.iceberg}"\n'
        f'[kafka]\n"bootstrap.servers" = "{servers}"\ngroup = "{topic}"\n"session.timeout.ms" = 6000\n'
        f'[topics.{topic}]\nnamespace = "db"\ntable = "records"\n"convert.value.type" = "json"\n'
        '"commit.interval.ms" = 300\n'
    )
    return config


def produce(servers: str, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
    for number in range(first, end):
        producer.produce(topic, json.dumps({"id": number}), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@contextmanager
def started(
    program: list[str], config: Path, log: Path, env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*program, "ingest", "run", "--config", str(config)], env=env, stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def eventually(what: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)


def sleeps(process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None
    # Without WNOWAIT it would be told once only.
    return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.mark.parametrize("point", POINTS)
def test_ingest_case_2_a_process_that_slept_through_its_rebalance(
    tmp_path: Path, broker: str, point: str
) -> None:
    """Its partitions went to another process, which committed the same records; then it wakes up and commits, too."""
    topic = f"zombie-{point}"
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    with serving(tmp_path) as server:
        config = write_config(tmp_path, server, broker, topic)
        produce(broker, topic, 0, 300)
        asleep = {
            "FRAZIL_TEST_CRASH_POINT": point,
            "FRAZIL_TEST_CRASH_AT": "2",
            "FRAZIL_TEST_CRASH_SIGNAL": "SIGSTOP",
        }
        first_log = tmp_path / "first.log"
        with started([sys.executable, HARNESS], config, first_log, environment(asleep)) as first:
            eventually(lambda: committed_ids(server) == list(range(300)))
            produce(broker, topic, 300, 600)
            eventually(lambda: sleeps(first))
            with started(frazil(), config, tmp_path / "second.log", environment()) as second:
                eventually(lambda: len(committed_ids(server)) == 600)
                first.send_signal(signal.SIGCONT)
                eventually(lambda: b"files_superseded" in first_log.read_bytes())
                produce(broker, topic, 600, 900)
                eventually(lambda: len(committed_ids(server)) >= 900)
                for process in (first, second):
                    process.send_signal(signal.SIGTERM)
                for process in (first, second):
                    process.wait(60)
        assert committed_ids(server) == list(range(900))
