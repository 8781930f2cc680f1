"""Every captured message of a real Debezium connector, in every format, against the rows of its source database."""

import datetime
import decimal
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ingest_plugin.transform.debezium import TOMBSTONE
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from tests.factories.captured import FORMATS, final_rows, lab_of, messages, register
from tests.factories.ingest_lab import Lab
from tests.fakes.registry import FakeRegistry, serve

AMOUNT = {"fields.cast": {"amount": "decimal(14,4)"}}
# What schemaless JSON does not say: which numbers are times, and which text is bytes.
SAID = {
    "orders": {"fields.cast": {"amount": "decimal(14,4) from bytes"}},
    "types": {
        "fields.cast": {
            "num": "decimal(10,2) from bytes", "r": "float", "d": "double", "ts": "timestamp from micros",
            "ts3": "timestamp from millis", "dt": "date from days", "tm3": "time from millis", "u": "uuid",
            "bin": "binary", "bits": "binary", "m": "decimal(20,2) from bytes",
        }
    },
}  # fmt: skip
TEXT_OF_TIME = {"fields.cast": {"tm": "string"}}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        register(running)
        yield running


def raw_rows(lab: Lab) -> list[dict[str, Any]]:
    """Rows with timestamps as numbers: the source's infinity is beyond what datetime has."""
    table = lab.table()
    rows = []
    for task in snapshot_files(lab.store, table.metadata).tasks:
        for batch in read_task(lab.store, task, table.metadata):
            arrays = {}
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                is_stamp = pa.types.is_timestamp(column.type)
                arrays[name] = column.cast(pa.int64()).to_pylist() if is_stamp else column.to_pylist()
            rows += [{name: values[row] for name, values in arrays.items()} for row in range(batch.num_rows)]
    return rows


def as_columns(table: str, row: dict[str, str | None], like: dict[str, Any]) -> dict[str, Any]:
    """PostgreSQL's text as the values that a column of that kind has; columns whose form differs are left out."""
    return {name: _value(text, like.get(name)) for name, text in row.items()}


def _value(text: str | None, like: Any) -> Any:
    if text is None or like is None:
        return text
    if isinstance(like, bool):
        return text == "true"
    if isinstance(like, int):
        return int(text)
    if isinstance(like, decimal.Decimal):
        return decimal.Decimal(text)
    return float(text) if isinstance(like, float) else text


def test_every_file_is_read(registry: FakeRegistry) -> None:
    """No message of any set is lost: each is a row, a dead letter, or skipped for what it is."""
    for name in FORMATS:
        for table in sorted({one["topic"].removeprefix(f"{name}.") for one in messages(name)}):
            plain = {"transform.value.type": "flatten"} if name == "json-noschema-unwrap" else {}
            lab = lab_of(name, table, registry, **{"errors.tolerance": "all", **plain})
            sent = len(lab.cluster.topics[lab.topic].logs[0])
            worker = lab.worker()
            worker.run()
            assert worker.stopped == {}, (name, table)
            (lane,) = worker._lanes.values()
            skipped = sum(lane.task.skipped.values())
            letters = lane.task.bad_records["records"]
            rows = 0 if lab.table().metadata.current_snapshot is None else len(raw_rows(lab))
            assert rows + letters + skipped == sent, (name, table)


@pytest.mark.parametrize(
    "name", ["json-noschema", "json-schema", "avro", "avro-apicurio-headers", "json-noschema-txmeta"]
)
def test_ingest_case_41_upserted_orders_are_the_source_rows(registry: FakeRegistry, name: str) -> None:
    keys = {"upsert.enable": True, "id.columns": "[id]", "metadata.columns": False}
    cast = SAID["orders"] if name.startswith("json-noschema") else AMOUNT
    lab = lab_of(name, "shop.orders", registry, **keys, **cast)
    assert lab.run().stopped == {}
    rows = {row["id"]: row for row in raw_rows(lab)}
    if name == "json-noschema":
        assert sorted(rows) == sorted(int(row["id"] or 0) for row in final_rows("orders"))
        for wanted in final_rows("orders"):
            row = rows[int(wanted["id"] or 0)]
            assert {column: row[column] for column in wanted} == as_columns("orders", wanted, row)
    else:
        # Only the first set has the snapshot that tells the columns' last state of rows that were not changed.
        assert sorted(rows) == [1, 33, 50, 70, 71, 72]
        assert [(rows[number]["customer"], str(rows[number]["amount"])) for number in (71, 72)] == [
            (5_000_000_000, "7.1234"),
            (1, "7.2000"),
        ]
    assert {row["_cdc"]["source"] for row in rows.values()} == {"shop.orders"}


def test_upserted_lines_follow_their_composite_key(registry: FakeRegistry) -> None:
    keys = {"upsert.enable": True, "id.columns": ["order_id", "line"], "metadata.columns": False}
    lab = lab_of("avro", "shop.lines", registry, **keys)
    assert lab.run().stopped == {}
    assert [(row["order_id"], row["line"], row["qty"]) for row in raw_rows(lab)] == [(1, 22, 7)]
    (letter,) = lab.dead_letters()
    assert "truncated" in letter["reason"]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_ingest_case_49_events_that_are_no_rows(registry: FakeRegistry, policy: str) -> None:
    for name, table, what in (
        ("json-noschema", "message", "logical message"),
        ("json-noschema-txmeta", "transaction", "transaction metadata"),
        ("json-noschema-txmeta", "__debezium-heartbeat.json-noschema-txmeta", "heartbeat"),
    ):
        topic = table if table != "__debezium-heartbeat.json-noschema-txmeta" else "__debezium-heartbeat"
        lab = lab_of(name, table, registry, **{"cdc.truncate": policy})
        worker = lab.worker()
        worker.run()
        (lane,) = worker._lanes.values()
        assert worker.stopped == {}
        assert set(lane.task.skipped) == {what}, topic
    lab = lab_of("json-schema", "shop.lines", registry, **{"cdc.truncate": policy})
    worker = lab.worker()
    worker.run()
    (lane,) = worker._lanes.values()
    assert worker.stopped == {}
    if policy == "skip":
        assert lane.task.skipped == {"truncate": 1, TOMBSTONE: 2}
    else:
        (letter,) = lab.dead_letters()
        assert "truncated" in letter["reason"]


def test_appended_changes_keep_what_the_source_said(registry: FakeRegistry) -> None:
    lab = lab_of("avro", "shop.orders", registry, **AMOUNT)
    assert lab.run().stopped == {}
    by_offset = {row["_kafka_metadata"]["offset"]: row for row in lab.rows()}
    assert [by_offset[offset]["_cdc"]["op"] for offset in (0, 2, 3, 4)] == ["I", "I", "U", "D"]
    first, unchanged, deleted = by_offset[0], by_offset[3], by_offset[4]
    assert first["_cdc"]["snapshot"] is True
    assert first["big_text"].startswith("0123")
    assert (unchanged["big_text"], unchanged["_cdc"]["unchanged"]) == (None, ["big_text"])
    assert {name for name, value in deleted.items() if value is not None} == {
        "id", "_cdc", "_kafka_key", "_kafka_metadata"
    }  # fmt: skip
    assert (deleted["id"], deleted["_kafka_key"]) == (3, {"id": 3})
    assert deleted["_cdc"]["ts"].tzinfo is not None
    assert int(deleted["_cdc"]["position"]) > int(unchanged["_cdc"]["position"])


def check_types(rows: dict[int, dict[str, Any]]) -> None:
    """Typed columns against the source's text."""
    micro = datetime.timedelta(microseconds=1)
    zoned = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for wanted in final_rows("types"):
        row = rows[int(wanted["id"] or 0)]
        for column in ("sm", "big", "t", "vc", "e", "x", "j", "jb"):
            assert row[column] == _value(wanted[column], row[column]), column
        for column in ("r", "d"):
            assert str(row[column]).lower() == str(_value(wanted[column], 0.0)).lower(), column
        assert row["num"] == (None if wanted["num"] is None else decimal.Decimal(wanted["num"]))
        for column in ("ts", "tstz"):
            text = wanted[column]
            if text == "infinity":
                assert row[column] == 9223372036825200000
            elif text is None:
                assert row[column] is None
            else:
                stamp = datetime.datetime.fromisoformat(text)
                stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=datetime.UTC)
                assert row[column] == (stamp - zoned) // micro, column
        assert row["dt"] == (None if wanted["dt"] is None else datetime.date.fromisoformat(wanted["dt"]))
        assert row["u"] == (None if wanted["u"] is None else uuid.UUID(wanted["u"]).bytes) or row["u"] == (
            None if wanted["u"] is None else uuid.UUID(wanted["u"])
        )
        whole = wanted["tm"]
        assert row["tm"] == (None if whole is None else whole + ("" if "." in whole else ".000000"))
        free = wanted["numfree"]
        assert row["numfree"] == (None if free in (None, "NaN") else free)


@pytest.mark.parametrize("name", ["json-schema", "avro"])
def test_ingest_case_20_22_and_19_typed_columns_are_the_source_values(
    registry: FakeRegistry, name: str
) -> None:
    keys = {"upsert.enable": True, "id.columns": "[id]", "metadata.columns": False, **TEXT_OF_TIME}
    lab = lab_of(name, "shop.types", registry, **keys)
    assert lab.run().stopped == {}
    columns = lab.columns()
    assert {name: columns[name] for name in ("ts", "ts3", "tstz", "dt", "tm3", "tmtz", "u", "num", "m", "iv")} == {
        "ts": "timestamp", "ts3": "timestamp", "tstz": "timestamptz", "dt": "date", "tm3": "time",
        "tmtz": "string", "u": "uuid", "num": "decimal(10, 2)", "m": columns["m"], "iv": "long",
    }  # fmt: skip
    assert re.fullmatch(r"decimal\(\d+, 2\)", columns["m"])
    rows = {row["id"]: row for row in raw_rows(lab)}
    assert sorted(rows) == [1, 2, 3, 4, 5]
    check_types(rows)
    one = rows[1]
    assert (one["bin"], one["bits"], one["ip"], one["tmtz"]) == (
        b"\0\xff\x10",
        b"\xa5",
        "10.1.2.3",
        "10:34:56.789012Z",
    )
    assert (one["ai"], one["at"], one["an"]) == (
        [],
        ["x", None, "a,b"],
        [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
    )
    assert (one["m"], one["iv"], one["pt"]["x"], one["pt"]["y"]) == (
        decimal.Decimal("12.34"),
        37091106700000,
        1.5,
        2.5,
    )
    assert one["tm3"] == datetime.time(12, 34, 56, 789000)


def test_types_of_schemaless_json_are_what_the_settings_say(registry: FakeRegistry) -> None:
    keys = {"upsert.enable": True, "id.columns": "[id]", "metadata.columns": False}
    lab = lab_of("json-noschema", "shop.types", registry, **keys, **SAID["types"])
    assert lab.run().stopped == {}
    rows = {row["id"]: row for row in raw_rows(lab)}
    # The fourth row's timestamp is infinite, which text has no form for.
    assert sorted(rows) == [1, 2, 3, 5]
    (letter,) = lab.dead_letters()
    assert "9223372036825200000 is beyond the years" in letter["reason"]
    one = rows[1]
    assert (one["num"], one["bin"], one["m"]) == (
        decimal.Decimal("0.01"),
        b"\0\xff\x10",
        decimal.Decimal("12.34"),
    )
    assert one["dt"] == datetime.date(2026, 3, 1)
    assert str(rows[3]["r"]) == "nan"
    assert rows[3]["d"] == float("-inf")


def test_a_time_that_no_column_has_is_told(registry: FakeRegistry) -> None:
    lab = lab_of("avro", "shop.types", registry)
    assert lab.run().stopped == {}
    (letter,) = lab.dead_letters()
    assert letter["reason"] == "column 'tm': 86400000000 microseconds are no time of day"


def test_a_scale_that_changes_stops_the_topic(registry: FakeRegistry) -> None:
    lab = lab_of("json-schema", "shop.orders", registry)
    (reason,) = lab.run().stopped.values()
    assert "column 'amount' is decimal(10, 2), the data has decimal(14, 4)" in reason


def test_rows_that_were_unwrapped_before(registry: FakeRegistry) -> None:
    keys = {
        "transform.value.type": "flatten",
        "cdc.field": "__op",
        "id.columns": "[id]",
        "fields.exclude": "[__deleted, __source_ts_ms]",
        "fields.rename": {"__source_lsn": "lsn"},
        "metadata.columns": False,
    }
    lab = lab_of("json-noschema-unwrap", "shop.orders", registry, **keys)
    assert lab.run().stopped == {}
    rows = {row["id"]: row for row in raw_rows(lab)}
    assert sorted(rows) == [1, 33, 50, 70, 71, 72]
    assert {"lsn", "__op"} <= rows[1].keys()
    assert not {"__deleted", "__source_lsn"} & rows[1].keys()
