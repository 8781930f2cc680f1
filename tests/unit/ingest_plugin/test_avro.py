"""Avro by schema id: what a schema becomes, what its values become, and what is refused."""

import datetime
import decimal
import io
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from ingest_plugin.bind.compile import Binder
from ingest_plugin.decode.avro_schema import compile_schema
from ingest_plugin.decode.formats import Unmappable
from ingest_plugin.decode.registered import SchemaIdDecoder
from ingest_plugin.decode.registry import SchemaRegistry
from ingest_plugin.decode.values import ErrorKind
from ingest_plugin.settings import RegistrySettings
from table_format.errors import Forbidden, Unavailable
from table_format.schema.types import with_fresh_ids
from tests.fakes.broker import FakeMessage
from tests.fakes.clock import ManualClock
from tests.fakes.registry import FakeRegistry, serve


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve("/apis/ccompat/v7") as running:
        yield running


def client(registry: FakeRegistry, clock: ManualClock | None = None, **more: Any) -> SchemaRegistry:
    return SchemaRegistry(RegistrySettings(url=registry.url + "/", **more), clock or ManualClock())


def record(fields: list[dict[str, Any]], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields, **more}


def framed(schema_id: int, schema: Any, value: Any, tail: bytes = b"") -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue() + tail


def message(value: bytes | None, offset: int = 0) -> FakeMessage:
    return FakeMessage("t", 0, offset, value)


def types_of(schema: Any) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in compile_schema(schema).struct["fields"]}


def bound(registry: FakeRegistry, schema: Any, *values: Any) -> list[dict[str, Any]]:
    """The values written, decoded and bound to the table that the schema makes."""
    schema_id = registry.register("s", schema)
    decoded = SchemaIdDecoder(client(registry)).decode(
        [message(framed(schema_id, schema, v)) for v in values]
    )
    assert decoded.errors == {}
    (group,) = decoded.groups
    assert group.struct is not None
    ids = itertools.count(1)
    struct = with_fresh_ids(group.struct, lambda: next(ids))
    assert isinstance(struct, dict)
    result = Binder(struct, trusted=True, reserved=frozenset()).bind(group.rows)
    assert result.errors == {}
    columns = {name: array.to_pylist() for name, array in result.arrays.items()}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(values))]


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


TYPES: list[tuple[str, Any, Any]] = [
    ("b", "boolean", "boolean"),
    ("i", "int", "int"),
    ("l", "long", "long"),
    ("f", "float", "float"),
    ("d", "double", "double"),
    ("s", "string", "string"),
    ("by", "bytes", "binary"),
    ("fx", {"type": "fixed", "name": "F", "size": 5}, "fixed[5]"),
    ("e", {"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
    ("dec", logical("bytes", "decimal", precision=9, scale=2), "decimal(9, 2)"),
    (
        "decf",
        {**logical("fixed", "decimal", precision=20, scale=3), "name": "DF", "size": 9},
        "decimal(20, 3)",
    ),
    ("decnop", logical("bytes", "decimal", scale=4), "decimal(38, 4)"),
    ("u", logical("string", "uuid"), "uuid"),
    ("uf", {**logical("fixed", "uuid"), "name": "UF", "size": 16}, "uuid"),
    ("da", logical("int", "date"), "date"),
    ("tm", logical("int", "time-millis"), "time"),
    ("tu", logical("long", "time-micros"), "time"),
    ("tsm", logical("long", "timestamp-millis"), "timestamptz"),
    ("tsu", logical("long", "timestamp-micros"), "timestamptz"),
    ("tsn", logical("long", "timestamp-nanos"), "timestamptz"),
    ("lm", logical("long", "local-timestamp-millis"), "timestamp"),
    ("lu", logical("long", "local-timestamp-micros"), "timestamp"),
    ("dur", {**logical("fixed", "duration"), "name": "DU", "size": 12}, "fixed[12]"),
    ("odd", logical("string", "date"), "string"),
    ("opt", ["null", "long"], "long"),
    ("opt2", ["string", "null"], "string"),
    (
        "arr",
        {"type": "array", "items": "int"},
        {"type": "list", "element": "int", "element-required": False},
    ),
    (
        "map",
        {"type": "map", "values": "long"},
        {"type": "map", "key": "string", "value": "long", "value-required": False},
    ),
]


@pytest.mark.parametrize(("name", "avro", "iceberg"), TYPES)
def test_every_type_has_its_iceberg_type(name: str, avro: Any, iceberg: Any) -> None:
    assert types_of(record([{"name": name, "type": avro}])) == {name: iceberg}


def test_values_of_logical_types(registry: FakeRegistry) -> None:
    some = uuid.UUID(int=7)
    written = [(name, avro) for name, avro, _ in TYPES if name != "decnop"]
    schema = record([{"name": name, "type": avro} for name, avro in written])
    raw = {
        **dict.fromkeys(name for name, _ in written),
        "b": True,
        "i": -1,
        "l": 2**62,
        "f": 0.5,
        "d": 1e300,
        "s": "ü",
        "by": b"\xff",
        "fx": b"12345",
        "e": "A",
        "dec": decimal.Decimal("-123.45"),
        "decf": decimal.Decimal("12345678901234567.891"),
        "u": some,
        "uf": some.bytes,
        "da": datetime.date(1969, 12, 31),
        "tm": datetime.time(1, 2, 3, 4000),
        "tu": datetime.time(1, 2, 3, 4),
        "tsm": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        "tsu": datetime.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=datetime.UTC),
        "tsn": 1_577_836_800_123_456_789,
        "lm": 1_577_836_800_000,
        "lu": 1_577_836_800_123_456,
        "dur": b"\1" * 12,
        "odd": "x",
        "opt2": "y",
        "arr": [1, 2],
        "map": {"k": 3},
    }
    (row,) = bound(registry, schema, raw)
    assert row["dec"] == decimal.Decimal("-123.45")
    assert row["decf"] == decimal.Decimal("12345678901234567.891")
    assert row["u"] == row["uf"] == some.bytes
    assert row["da"] == datetime.date(1969, 12, 31)
    assert row["tm"] == datetime.time(1, 2, 3, 4000)
    assert row["tu"] == datetime.time(1, 2, 3, 4)
    assert row["lm"] == datetime.datetime.fromisoformat("2020-01-01")
    assert row["opt"] is None
    assert row["map"] == [("k", 3)]
    assert (row["l"], row["f"], row["by"], row["e"]) == (2**62, 0.5, b"\xff", "A")
    # Ingest case 19: microseconds are kept; nanoseconds are cut to them.
    micros = datetime.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=datetime.UTC)
    assert row["tsu"] == row["tsn"] == micros
    assert row["lu"] == micros.replace(tzinfo=None)


def test_ingest_case_19_negative_and_microsecond_timestamps(registry: FakeRegistry) -> None:
    schema = record([{"name": "t", "type": logical("long", "timestamp-micros")}])
    raw = record([{"name": "t", "type": "long"}])
    schema_id = registry.register("s", schema)
    decoded = SchemaIdDecoder(client(registry)).decode([message(framed(schema_id, raw, {"t": -1}))])
    assert decoded.groups[0].rows == [{"t": -1}]


def test_ingest_case_23_decimal_precision_64_is_clamped_and_values_are_checked(
    registry: FakeRegistry,
) -> None:
    schema = record([{"name": "d", "type": logical("bytes", "decimal", precision=64, scale=2)}])
    assert types_of(schema) == {"d": "decimal(38, 2)"}
    schema_id = registry.register("s", schema)
    fits, too_big = decimal.Decimal(10**35), decimal.Decimal(10**40)
    decoded = SchemaIdDecoder(client(registry)).decode(
        [message(framed(schema_id, schema, {"d": value})) for value in (fits, too_big)]
    )
    (group,) = decoded.groups
    struct = {
        "type": "struct",
        "fields": [{"id": 1, "name": "d", "required": False, "type": "decimal(38, 2)"}],
    }
    result = Binder(struct, trusted=True, reserved=frozenset()).bind(group.rows)
    assert result.arrays["d"].to_pylist() == [fits]
    assert list(result.errors) == [1]


def test_ingest_case_34_a_union_of_several_is_a_struct_of_optional_branches(registry: FakeRegistry) -> None:
    inner = record([{"name": "x", "type": logical("int", "time-millis")}], name="a.P")
    other = record([{"name": "y", "type": "string"}], name="b.P")
    schema = record([{"name": "u", "type": ["null", "int", "string", inner, other]}])
    assert types_of(schema)["u"] == {
        "type": "struct",
        "fields": [
            {"name": "int", "required": False, "type": "int"},
            {"name": "string", "required": False, "type": "string"},
            {
                "name": "a_P",
                "required": False,
                "type": {"type": "struct", "fields": [{"name": "x", "required": False, "type": "time"}]},
            },
            {
                "name": "b_P",
                "required": False,
                "type": {"type": "struct", "fields": [{"name": "y", "required": False, "type": "string"}]},
            },
        ],
    }
    rows = bound(
        registry,
        schema,
        {"u": None},
        {"u": 5},
        {"u": "five"},
        {"u": ("a.P", {"x": datetime.time(0, 0, 1)})},
        {"u": ("b.P", {"y": "z"})},
    )
    nothing = {"int": None, "string": None, "a_P": None, "b_P": None}
    assert [row["u"] for row in rows] == [
        None,
        {**nothing, "int": 5},
        {**nothing, "string": "five"},
        {**nothing, "a_P": {"x": datetime.time(0, 0, 1)}},
        {**nothing, "b_P": {"y": "z"}},
    ]


def test_named_types_are_found_in_their_namespace(registry: FakeRegistry) -> None:
    leaf = record([{"name": "v", "type": "int"}], name="Leaf")
    schema = record(
        [
            {"name": "one", "type": leaf},
            {"name": "two", "type": "Leaf"},
            {"name": "three", "type": ["null", "x.y.Leaf"]},
            {"name": "many", "type": {"type": "array", "items": "Leaf"}},
        ],
        namespace="x.y",
    )
    (row,) = bound(registry, schema, {"one": {"v": 1}, "two": {"v": 2}, "three": None, "many": [{"v": 3}]})
    assert row == {"one": {"v": 1}, "two": {"v": 2}, "three": None, "many": [{"v": 3}]}


def test_what_only_can_be_null_gets_no_column(registry: FakeRegistry) -> None:
    schema = record(
        [
            {"name": "n", "type": "null"},
            {"name": "empty", "type": record([], name="E")},
            {"name": "map", "type": {"type": "map", "values": "null"}},
            {"name": "v", "type": "int"},
        ]
    )
    assert types_of(schema) == {"v": "int"}
    (row,) = bound(registry, schema, {"n": None, "empty": {}, "map": {"k": None}, "v": 4})
    assert row == {"v": 4}


def test_a_map_with_other_keys_and_a_value_that_is_no_record(registry: FakeRegistry) -> None:
    pair = record([{"name": "key", "type": "long"}, {"name": "value", "type": "string"}], name="KV")
    schema = record([{"name": "m", "type": {"type": "array", "logicalType": "map", "items": pair}}])
    assert types_of(schema)["m"] == {"type": "map", "key": "long", "value": "string", "value-required": False}
    (row,) = bound(registry, schema, {"m": [{"key": 1, "value": "a"}]})
    assert row == {"m": [(1, "a")]}
    assert bound(registry, ["null", "string"], "text", None) == [{"value": "text"}, {"value": None}]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record([{"name": "a", "type": {"type": "array", "items": "null"}}]), "take no bytes"),
        (record([{"name": "a", "type": {"type": "array", "items": record([], name="E")}}]), "take no bytes"),
        (record([{"name": "a", "type": record([], name="R")}]), "defined again inside itself"),
        (record([{"name": "a", "type": "Unknown"}]), "unknown type"),
        (record([{"name": "a", "type": {"type": "fixed", "name": "F"}}]), "no positive size"),
        (record([{"name": "a", "type": 5}]), "not an Avro schema"),
        (record([]), "no field that holds a value"),
        ({"type": "record", "fields": []}, "has no name"),
    ],
)
def test_schemas_that_have_no_table_form(schema: Any, reason: str) -> None:
    with pytest.raises(Unmappable, match=reason):
        compile_schema(schema)


def test_data_errors_are_values(registry: FakeRegistry) -> None:
    schema = record([{"name": "a", "type": "string"}])
    schema_id = registry.register("s", schema)
    good = framed(schema_id, schema, {"a": "hello"})
    nothing = registry.register("r", record([]))
    other = registry.register("p", 'syntax = "proto3";', kind="PROTOBUF")
    bad = [
        None,
        b"",
        b"\0\0\0",
        b'{"a":1}',
        b"\1" + good[1:],
        good[:-1],
        good + b"x",
        b"\0" + (999).to_bytes(4, "big") + good[5:],
        good[:5] + b"\x02\xff",
    ]
    odd = [b"\0" + number.to_bytes(4, "big") + b"\0" for number in (nothing, other)]
    decoded = SchemaIdDecoder(client(registry)).decode(
        [message(value, offset) for offset, value in enumerate([good, *bad, *odd, good])]
    )
    assert [group.positions for group in decoded.groups] == [[0, len(bad) + len(odd) + 1]]
    assert {decoded.errors[place].kind for place in range(1, len(bad) + 1)} == {ErrorKind.INVALID}
    kinds = {decoded.errors[place].kind for place in range(len(bad) + 1, len(bad) + len(odd) + 1)}
    assert kinds == {ErrorKind.UNMAPPABLE}
    assert decoded.errors[8].reason == "the schema registry has no schema 999"
    assert "1 bytes are left over" in decoded.errors[7].reason


def test_one_group_a_schema_in_order_of_appearance(registry: FakeRegistry) -> None:
    first, second = record([{"name": "a", "type": "int"}]), record([{"name": "b", "type": "string"}])
    one, two = registry.register("s", first), registry.register("s", second)
    decoder = SchemaIdDecoder(client(registry))
    values = [framed(two, second, {"b": "x"}), framed(one, first, {"a": 1}), framed(two, second, {"b": "y"})]
    decoded = decoder.decode([message(value) for value in values])
    assert [(group.schema_key, group.positions) for group in decoded.groups] == [
        ((two, 0), [0, 2]),
        ((one, 0), [1]),
    ]
    decoder.decode([message(value) for value in values])
    assert len(registry.requests) == 2


def test_references_are_followed_in_order(registry: FakeRegistry) -> None:
    leaf = record([{"name": "v", "type": "int"}], name="x.Leaf")
    middle = record([{"name": "leaf", "type": "x.Leaf"}], name="x.Middle")
    top = record([{"name": "m", "type": "x.Middle"}, {"name": "l", "type": ["null", "x.Leaf"]}], name="x.Top")
    registry.register("leaf subject", leaf)
    registry.register(
        "middle/subject", middle, references=[{"name": "x.Leaf", "subject": "leaf subject", "version": 1}]
    )
    schema_id = registry.register(
        "top", top, references=[{"name": "x.Middle", "subject": "middle/subject", "version": 1}]
    )
    whole = record(
        [{"name": "m", "type": {**middle, "fields": [{"name": "leaf", "type": leaf}]}}], name="x.Top"
    )
    whole["fields"].append({"name": "l", "type": ["null", "x.Leaf"]})
    value = framed(schema_id, whole, {"m": {"leaf": {"v": 1}}, "l": {"v": 2}})
    decoded = SchemaIdDecoder(client(registry)).decode([message(value)])
    assert decoded.groups[0].rows == [{"m": {"leaf": {"v": 1}}, "l": {"v": 2}}]


def test_a_registry_in_trouble_blames_no_record(registry: FakeRegistry) -> None:
    decoder = SchemaIdDecoder(client(registry))
    registry.status = 503
    with pytest.raises(Unavailable, match="HTTP 503"):
        decoder.decode([message(b"\0\0\0\0\1x")])
    registry.status = 401
    with pytest.raises(Forbidden, match="HTTP 401"):
        decoder.decode([message(b"\0\0\0\0\1x")])


def test_a_registry_that_is_not_there() -> None:
    gone = SchemaRegistry(RegistrySettings(url="http://127.0.0.1:9/x"), ManualClock())
    with pytest.raises(Unavailable, match="does not answer"):
        gone.schema(1)


def test_unknown_ids_are_asked_again_after_a_while(registry: FakeRegistry) -> None:
    clock = ManualClock()
    asking = client(registry, clock)
    assert asking.schema(1) is None
    assert asking.schema(1) is None
    registry.register("s", record([{"name": "a", "type": "int"}]))
    assert len(registry.requests) == 1
    clock.advance(31)
    assert asking.schema(1) is not None


def test_credentials_are_sent(registry: FakeRegistry) -> None:
    client(registry, username="u", password="p").check()
    client(registry, token="t").check()
    assert registry.authorizations == ["Basic dTpw", "Bearer t"]
    assert registry.requests == ["/apis/ccompat/v7/subjects"] * 2


def test_times_outside_a_day_are_data_errors(registry: FakeRegistry) -> None:
    for logical, day in (("time-millis", 86_400_000), ("time-micros", 86_400_000_000)):
        kind = {"type": "int" if day < 2**31 else "long", "logicalType": logical}
        plain = record([{"name": "at", "type": "long"}])
        schema_id = registry.register("s", record([{"name": "at", "type": kind}]))
        bodies = []
        for value in (0, day - 1, day, -1):
            body = io.BytesIO()
            fastavro.schemaless_writer(body, fastavro.parse_schema(plain), {"at": value})
            bodies.append(message(b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()))
        (group,) = SchemaIdDecoder(client(registry)).decode(bodies).groups
        assert group.struct is not None
        struct = {"type": "struct", "fields": [{**group.struct["fields"][0], "id": 1}]}
        result = Binder(struct, trusted=True, reserved=frozenset()).bind(group.rows)
        assert list(result.kept) == [0, 1]
        assert sorted(result.errors) == [2, 3]
        assert f"{day * (1000 if kind['type'] == 'int' else 1)} microseconds are no time" in result.errors[2]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "R", "fields": [{"type": "int"}]},
        {"type": "record", "name": "R", "fields": {"a": 1}},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "enum", "name": "E"}}]},
        [1, 2],
        "{{{",
    ],
)
def test_a_document_that_is_no_schema_is_a_data_error(registry: FakeRegistry, schema: Any) -> None:
    schema_id = registry.register("s", schema)
    decoded = SchemaIdDecoder(client(registry)).decode(
        [message(b"\0" + schema_id.to_bytes(4, "big") + b"\2")]
    )
    assert decoded.errors[0].reason.startswith(f"schema {schema_id} cannot become a table: ")


def test_a_reference_without_subject_blames_no_record(registry: FakeRegistry) -> None:
    registry.register("s", record([{"name": "a", "type": "int"}]), references=[{"name": "q"}])
    with pytest.raises(Unavailable, match="without subject"):
        client(registry).schema(1)


def test_a_wrong_address_is_not_an_unknown_schema(registry: FakeRegistry) -> None:
    """A 404 that does not speak of the schema must not send a topic's records to the dead letters."""
    wrong = SchemaRegistry(RegistrySettings(url=registry.url + "/elsewhere"), ManualClock())
    with pytest.raises(Unavailable, match="HTTP 404"):
        wrong.schema(1)
    with pytest.raises(Unavailable, match="HTTP 404"):
        wrong.check()
