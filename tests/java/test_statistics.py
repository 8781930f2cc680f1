"""Our statistics files as Java reads them: sketches that merge with its own, partition statistics like its own."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from maintenance.ports import JobKind
from maintenance.report import Outcome
from maintenance.statistics.job import run
from table_format.clock import SystemClock, SystemIds
from table_format.io.local import LocalObjectStore
from tests.factories.delete_histories import History
from tests.factories.lake import IDENT, Lake
from tests.fakes.jobs import FakeContext, job
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

TYPES = {
    "truth": "boolean",
    "small": "int",
    "large": "long",
    "single": "float",
    "real": "double",
    "price": "decimal(9, 2)",
    "wide": "decimal(38, 0)",
    "day": "date",
    "clock": "time",
    "local": "timestamp",
    "moment": "timestamptz",
    "text": "string",
    "key": "uuid",
    "code": "fixed[3]",
    "raw": "binary",
}
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(TYPES.items(), 1)
    ],
}


def row(number: int) -> dict[str, Any]:
    signed = (number - 150) * 7**5
    return {
        "truth": number % 2 == 0,
        "small": signed,
        "large": signed * 2**31,
        "single": signed / 3,
        "real": -0.0 if number == 0 else signed / 7,
        "price": Decimal(signed) / 100,
        "wide": Decimal(signed) * 10**25,
        "day": date.fromordinal(date(1970, 1, 1).toordinal() + number - 150),
        "clock": time(number % 24, number % 60, number % 60, number),
        "local": datetime(1960 + number % 40, 3, 1, 2, 3, 4, number, UTC).replace(tzinfo=None),
        "moment": datetime(1960 + number % 40, 3, 1, 2, 3, 4, number, UTC),
        "text": "é" * (number % 45),
        "key": number.to_bytes(16, "big"),
        "code": number.to_bytes(3, "big"),
        "raw": None if number % 5 == 0 else bytes([number % 256]) * (number % 40),
    }


def statistics(lake: Lake) -> None:
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.STATISTICS: {"status": "enabled"}},
        ident=IDENT,
    )
    assert run(ctx, job(JobKind.STATISTICS, IDENT, str(lake.metadata.uuid))).outcome is Outcome.DONE


def test_sketches_of_every_type_are_those_that_java_makes_of_the_rows(
    java: IcebergJava, tmp_path: Path
) -> None:
    lake = Lake(LocalObjectStore(), location=f"file://{tmp_path}", schema=SCHEMA, **{"format-version": "2"})
    rows = [row(number) for number in range(300)]
    for start in (0, 100, 200):
        lake.append_rows(*rows[start : start + 100])
        statistics(lake)  # the second and the third continue the sketches
    found = {one["column"]: one for one in java.ask("distinctValues", metadata=lake.table.metadata_location)}
    assert list(found) == list(TYPES)
    for name, one in found.items():
        # A sketch takes no value without bytes, and tells the two zeros apart.
        values = {repr(row[name]) for row in rows if row[name] not in (None, "", b"")}
        assert int(one["ndv"]) == one["sketch"] == one["java"] == one["both"] == len(values), name


SCRIPT = [
    *(("append", name, number) for number in range(3) for name in ("x", "y")),
    ("position", "x", 3),
    ("upsert", "x", 2),
    ("evolve", "x", 0),
    ("append", "x", 3),
    ("equality", "y", 1),
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_statistics_are_those_that_java_computes(
    java: IcebergJava, tmp_path: Path, version: int
) -> None:
    make = partial(
        Lake,
        LocalObjectStore(),
        location=f"file://{tmp_path / 'lake'}",
        clock=SystemClock(),
        ids=SystemIds(),
        **{"format-version": str(version)},
    )
    told = History.of(make, partitioned=True)
    for step in SCRIPT[:6] if version == 1 else SCRIPT:
        told.play(step)
    before = told.lake.table.metadata_location
    (tmp_path / "javas").mkdir()
    theirs = java.ask("computedPartitionStatistics", metadata=before, to=str(tmp_path / "javas"))
    statistics(told.lake)
    ours = java.ask("partitionStatistics", metadata=told.lake.table.metadata_location)
    without_deletes = all(not one["positionFiles"] and not one["equalityFiles"] for one in ours)
    for one in ours:
        # Java leaves open what only reading would tell; so do we, where there are deletes.
        assert one.pop("total") == (one["records"] if without_deletes else None)
    assert ours == [{key: value for key, value in one.items() if key != "total"} for one in theirs]
    assert len(ours) > 1
