"""Messages of a real Debezium connector on PostgreSQL (tests/data/debezium-postgres), produced into a lab's topic."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from tests.factories.ingest_lab import Lab
from tests.fakes.registry import FakeRegistry

DATA = Path(__file__).resolve().parents[1] / "data" / "debezium-postgres"
FORMATS = {
    "json-noschema": "json",
    "json-schema": "connect_json",
    "json-schema-connecttime": "connect_json",
    "json-noschema-unwrap": "json",
    "json-noschema-txmeta": "json",
    "avro": "by_schema_id",
    "avro-apicurio-headers": "by_schema_id",
}
"""The captured sets, and the value format of each."""


def messages(name: str) -> list[dict[str, Any]]:
    """The messages of a set, each topic's in order."""
    path = DATA / f"{name}.jsonl"
    text = (
        path.read_text()
        if path.exists()
        else gzip.decompress(path.with_suffix(".jsonl.gz").read_bytes()).decode()
    )
    found = [json.loads(line) for line in text.splitlines()]
    return sorted(found, key=lambda one: (one["topic"], one["partition"], one["offset"]))


def final_rows(table: str) -> list[dict[str, str | None]]:
    """What the source table had in the end, every column as PostgreSQL's text."""
    rows: list[dict[str, str | None]] = json.loads((DATA / "final_rows.json").read_text())[table]
    return rows


def register(registry: FakeRegistry) -> None:
    """Have the schemas under the ids that the messages name."""
    for number, entry in json.loads((DATA / "schemas.json").read_text()).items():
        registry.given[int(number)] = entry["schema"]


def lab_of(name: str, table: str, registry: FakeRegistry | None = None, **keys: Any) -> Lab:
    """A lab whose one topic has the messages of a set that belong to a table (`shop.orders`, `message`, …)."""
    given: dict[str, Any] = {
        "convert.value.type": FORMATS[name],
        "transform.value.type": "flatten_debezium",
        **keys,
    }
    if name == "avro-apicurio-headers":
        given |= {"convert.value.schema.id": "headers", "convert.key.schema.id": "headers"}
    if name.startswith("avro"):
        given["convert.key.type"] = "by_schema_id"
    lab = Lab(topic=table.rpartition(".")[2], **given)
    if registry is not None:
        lab.document["registry"] = {"url": registry.url}
    for one in messages(name):
        if one["topic"].removeprefix(f"{name}.") == table:
            lab.cluster.produce(
                lab.topic,
                _bytes(one["value"]),
                key=_bytes(one["key"]),
                headers=[(header, _bytes(value)) for header, value in one["headers"]],
                timestamp_ms=one["timestamp"],
            )
    return lab


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
