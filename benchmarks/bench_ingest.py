"""Records per second of ingest on one core, without Kafka and without a catalog: decode, bind, write Parquet.

`python -m benchmarks.bench_ingest [RECORDS]`; with Kafka and a catalog: `bench_ingest_kafka`.
"""

import argparse
import gc
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import fastavro
import orjson
import structlog

from ingest_plugin.assembly import decoder_of
from ingest_plugin.bind.topic import TopicBinder
from ingest_plugin.decode.registry import SchemaRegistry
from table_format.io.local import LocalObjectStore
from tests.factories.ingest_lab import Lab, settings_of
from tests.fakes.broker import FakeMessage
from tests.fakes.registry import serve

BATCH = 5000
FLIGHT: dict[str, object] = {
    "year": 2013,
    "month": 1,
    "day": 1,
    "dep_time": 517,
    "sched_dep_time": 515,
    "dep_delay": 2.0,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11.0,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227.0,
    "distance": 1400,
    "hour": 5,
    "minute": 15,
    "time_hour": "2013-01-01T10:00:00Z",
}
AVRO_TYPES = {int: "long", float: "double", str: "string"}
AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": name, "type": ["null", AVRO_TYPES[type(value)]]} for name, value in FLIGHT.items()],
}


def flight(number: int) -> dict[str, object]:
    return FLIGHT | {"flight": number, "tailnum": f"N{number % 4000}", "day": number % 28 + 1}


def measure(name: str, lab: Lab, encode: Callable[[dict[str, object]], bytes], records: int) -> None:
    """Ingest into files on disk, then decode and bind the same records once more on their own."""
    for number in range(records):
        lab.cluster.produce(lab.topic, encode(flight(number)), timestamp_ms=1_700_000_000_000 + number)
    messages = [message for message in lab.cluster.topics[lab.topic].logs[0] if message is not None]
    with tempfile.TemporaryDirectory() as directory:
        lab.store = lab.catalog.store = LocalObjectStore()
        lab.catalog.location = Path(directory).as_uri()
        began = time.process_time()
        worker = lab.run()
        total = time.process_time() - began
        assert worker.stopped == {}
        bound = decode_and_bind(lab, messages)
    size = sum(len(message.value() or b"") for message in messages)
    print(
        f"{name:28s} decode+bind {records / bound:10,.0f} records/s   all with Parquet and commit"
        f" {records / total:10,.0f} records/s  {size / total / 1e6:6.1f} MB/s"
    )


def decode_and_bind(lab: Lab, messages: Sequence[FakeMessage]) -> float:
    """Seconds of processor time."""
    settings = settings_of(lab.document)
    (topic,) = settings.topics
    registry = None if settings.registry is None else SchemaRegistry(settings.registry, lab.clock)
    decoder = decoder_of(topic, registry)
    binder = TopicBinder(settings=topic, catalog=lab.catalog, clock=lab.clock, ids=lab.ids)
    binder.open()
    gc.disable()
    began = time.process_time()
    for start in range(0, len(messages), BATCH):
        batch = messages[start : start + BATCH]
        for group in decoder.decode(batch).groups:
            assert not binder.bind(group, batch).errors
    elapsed = time.process_time() - began
    gc.enable()
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "records", nargs="?", type=int, default=200_000, help="how many (default: %(default)s)"
    )
    records: int = parser.parse_args().records
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    measure("json, inferred", Lab(), orjson.dumps, records)
    typed = {"schema": {"columns": {"time_hour": "timestamptz"}}, "partition.by": "month(time_hour)"}
    measure("json, timestamp, partitioned", Lab(**typed), orjson.dumps, records)
    parsed = fastavro.parse_schema(AVRO)
    with serve() as registry:
        schema_id = registry.register("flights-value", AVRO)

        def avro(value: dict[str, object]) -> bytes:
            body = io.BytesIO()
            fastavro.schemaless_writer(body, parsed, value)
            return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()

        lab = Lab(**{"convert.value.type": "by_schema_id"})
        lab.document["registry"] = {"url": registry.url}
        measure("avro by schema id", lab, avro, records)


if __name__ == "__main__":
    main()
