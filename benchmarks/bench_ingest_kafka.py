"""Records a second from a real Kafka broker to a committed table: `frazil ingest run --exit-at-end` over a full topic.

`python -m benchmarks.bench_ingest_kafka [RECORDS]` (needs a Java runtime and Maven for the broker). The clock runs from
the start of the process to its end, so its start-up (about a second) is in it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import requests
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.bench_ingest import flight
from benchmarks.servers import frazil
from tests.kafka.real_broker import real_broker

PARTITIONS = 4


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "records", nargs="?", type=int, default=500_000, help="how many (default: %(default)s)"
    )
    records: int = parser.parse_args().records
    grid = Table(
        title=f"{records:,} JSON records of 19 fields, {PARTITIONS} partitions, to a committed table"
    )
    for column in ("commit.interval.ms", "records/s", "records per CPU second", "peak memory, MB", "commits"):
        grid.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        (home / "broker").mkdir()
        (home / "server").mkdir()
        with real_broker(home / "broker") as broker, frazil(home / "server" / "data") as server:
            fill(broker.bootstrap, records)
            for interval in (1_000, 10_000):
                grid.add_row(
                    f"{interval:,}", *ingest(home, server.base_url, broker.bootstrap, interval, records)
                )
    Console(width=120).print(grid)


def fill(bootstrap: str, records: int) -> None:
    """Produce the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("flights", PARTITIONS, 1)])["flights"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(records):
        while True:
            try:
                producer.produce("flights", orjson.dumps(flight(number)), str(number))
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("the broker did not take all records")


def ingest(home: Path, base_url: str, bootstrap: str, interval: int, records: int) -> list[str]:
    """One run into a table of its own; its figures."""
    uri = base_url.split("/v1/", maxsplit=1)[0]
    table = f"flights_{interval}"
    config = home / f"{table}.toml"
    config.write_text(
        f'[catalog]\nuri = "{uri}"\n[kafka]\n"bootstrap.servers" = "{bootstrap}"\nassignment = "all"\n'
        f'[topics.flights]\nnamespace = "bench"\ntable = "{table}"\n"convert.value.type" = "json"\n'
        f'"commit.interval.ms" = {interval}\n'
    )
    command = [
        sys.executable,
        "-m",
        "catalog_server",
        "ingest",
        "run",
        "--config",
        str(config),
        "--exit-at-end",
    ]
    with (home / f"{table}.log").open("wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, code, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    if code:
        raise SystemExit((home / f"{table}.log").read_text()[-2000:])
    metadata = requests.get(f"{base_url}/namespaces/bench/tables/{table}", timeout=30).json()["metadata"]
    total = int(metadata["snapshots"][-1]["summary"]["total-records"])
    if total != records:
        raise SystemExit(f"{total} records are in the table, not {records}")
    cpu = usage.ru_utime + usage.ru_stime
    return [
        f"{records / seconds:,.0f}",
        f"{records / cpu:,.0f}",
        f"{usage.ru_maxrss / 1024:,.0f}",
        str(len(metadata["snapshots"])),
    ]


if __name__ == "__main__":
    main()
