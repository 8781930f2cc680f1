"""Protobuf by schema id: what each type becomes, presence, messages by index, and what is refused."""

import base64
import datetime
import decimal
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from ingest_plugin.bind.compile import Binder
from ingest_plugin.decode.formats import NUMBER, Unmappable
from ingest_plugin.decode.protobuf import ProtobufFormat, compile_protobuf
from ingest_plugin.decode.protoc import file_of
from ingest_plugin.decode.registered import SchemaIdDecoder
from ingest_plugin.decode.registry import Reference, RegisteredSchema, SchemaRegistry
from ingest_plugin.decode.values import ErrorKind
from ingest_plugin.settings import RegistrySettings
from table_format.schema.types import with_fresh_ids
from tests.factories.schemas import prefixed, proto_class
from tests.fakes.broker import FakeMessage
from tests.fakes.clock import ManualClock
from tests.fakes.registry import FakeRegistry, serve

HEAD = 'syntax = "proto3";\npackage demo;\n'
EVERYTHING = (
    HEAD
    + """
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";

message All {
  bool b = 1; float f = 2; double d = 3; string s = 4; bytes by = 5;
  int32 i32 = 6; sint32 si32 = 7; sfixed32 sf32 = 8; uint32 u32 = 9; fixed32 f32 = 10;
  int64 i64 = 11; sint64 si64 = 12; sfixed64 sf64 = 13; uint64 u64 = 14; fixed64 f64 = 15;
  Color color = 16; Point point = 17; repeated int32 list = 18; repeated Point points = 19;
  map<string, int64> by_name = 20; map<uint64, Point> by_number = 21; map<bool, Color> by_flag = 22;
  google.protobuf.Timestamp ts = 23; google.protobuf.Duration duration = 24; google.protobuf.Any any = 25;
  google.protobuf.Empty nothing = 26; google.protobuf.FieldMask mask = 27;
  google.protobuf.Struct free = 28; google.protobuf.Value value = 29; google.protobuf.ListValue values = 30;
  google.protobuf.BoolValue wb = 31; google.protobuf.StringValue ws = 32; google.protobuf.Int64Value wl = 33;
  google.protobuf.UInt64Value wu = 34; google.protobuf.BytesValue wy = 35; google.protobuf.DoubleValue wd = 36;
  google.type.Date day = 37; google.type.TimeOfDay tod = 38;
  confluent.type.Decimal dec = 39 [(confluent.field_meta) = {
    params: [{key: "precision", value: "10"}, {key: "scale", value: "2"}]}];
  confluent.type.Decimal free_dec = 40;
  Node node = 41; Empty none = 42; optional int32 maybe = 43;
  oneof pick { string a = 44; Point p = 45; }
}
message Point { int32 x = 1; int32 y = 2; }
message Node { int64 v = 1; Node next = 2; repeated Node kids = 3; }
message Empty {}
enum Color { RED = 0; BLUE = 5; }
"""
)
_LIST = {"type": "list", "element-required": False}
_MAP = {"type": "map", "value-required": False}
POINT = {"x": "int", "y": "int"}
TYPES: dict[str, Any] = {
    "b": "boolean", "f": "float", "d": "double", "s": "string", "by": "binary",
    "i32": "int", "si32": "int", "sf32": "int", "u32": "long", "f32": "long",
    "i64": "long", "si64": "long", "sf64": "long", "u64": "decimal(20, 0)", "f64": "decimal(20, 0)",
    "color": "string", "point": POINT, "list": {**_LIST, "element": "int"},
    "points": {**_LIST, "element": POINT},
    "by_name": {**_MAP, "key": "string", "value": "long"},
    "by_number": {**_MAP, "key": "decimal(20, 0)", "value": POINT},
    "by_flag": {**_MAP, "key": "boolean", "value": "string"},
    "ts": "timestamptz", "duration": {"seconds": "long", "nanos": "int"},
    "any": {"type_url": "string", "value": "binary"}, "nothing": "boolean",
    "mask": {**_LIST, "element": "string"}, "free": "string", "value": "string", "values": "string",
    "wb": "boolean", "ws": "string", "wl": "long", "wu": "decimal(20, 0)", "wy": "binary", "wd": "double",
    "day": "date", "tod": "time", "dec": "decimal(10, 2)", "free_dec": "string",
    "node": {"v": "long", "next": "string", "kids": {**_LIST, "element": "string"}},
    "none": "boolean", "maybe": "int", "a": "string", "p": POINT,
}  # fmt: skip


@pytest.fixture(scope="module")
def everything() -> Any:
    return proto_class(EVERYTHING, "demo.All")


@pytest.fixture(scope="module")
def compiled() -> ProtobufFormat:
    return compile_protobuf(RegisteredSchema(kind="PROTOBUF", text=EVERYTHING))


def plain(kind: Any) -> Any:
    """A type with structs as dicts of their fields."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {field["name"]: plain(field["type"]) for field in kind["fields"]}
    return {
        name: plain(inner) if name in ("element", "key", "value") else inner for name, inner in kind.items()
    }


def bound(compiled: ProtobufFormat, name: str, body: bytes) -> dict[str, Any]:
    """The row as it comes out of the table's columns."""
    reader = compiled.named(name)
    ids = itertools.count(1)
    struct = with_fresh_ids(reader.struct, lambda: next(ids))
    assert isinstance(struct, dict)
    result = Binder(struct, trusted=True, reserved=frozenset()).bind([reader.read(body, 0)])
    assert result.errors == {}
    return {name: array.to_pylist()[0] for name, array in result.arrays.items()}


def test_every_type_has_its_column(compiled: ProtobufFormat) -> None:
    assert plain(compiled.named("demo.All").struct) == TYPES


def test_fields_keep_their_numbers(compiled: ProtobufFormat) -> None:
    fields = compiled.named("demo.All").struct["fields"]
    assert [field[NUMBER] for field in fields[:3]] == ["demo.All#1", "demo.All#2", "demo.All#3"]
    assert [field[NUMBER] for field in fields[16]["type"]["fields"]] == ["demo.Point#1", "demo.Point#2"]


def test_ingest_case_26_and_16_values_of_every_type(everything: Any, compiled: ProtobufFormat) -> None:
    value = everything(
        b=True, f=0.5, d=1e300, s="ü", by=b"\xff\x00", i32=-(2**31), si32=-1, sf32=2**31 - 1, u32=2**32 - 1,
        f32=2**31, i64=-(2**63), si64=-1, sf64=2**63 - 1, u64=2**64 - 1, f64=2**63, color=5, list=[1, -1],
        maybe=0, a="",
    )  # fmt: skip
    value.point.x = 3
    value.points.add(y=4)
    value.by_name["k"] = 2**40
    value.by_number[2**64 - 1].x = 1
    value.by_flag[True] = 9
    value.ts.seconds, value.ts.nanos = -1, 999_999_999
    value.duration.seconds, value.duration.nanos = 5, 6
    value.any.type_url, value.any.value = "t/x", b"1"
    value.nothing.SetInParent()
    value.none.SetInParent()
    value.mask.paths.extend(["a.b", "c"])
    value.free["deep"] = {"list": [1, None, {"x": True}]}
    value.value.number_value = 2.5
    value.values.append("x")
    value.wb.value, value.ws.value, value.wl.value, value.wu.value = False, "", 2**62, 2**64 - 1
    value.wy.value, value.wd.value = b"", 0.0
    value.day.year, value.day.month, value.day.day = 1969, 12, 31
    value.tod.hours, value.tod.minutes, value.tod.seconds, value.tod.nanos = 23, 59, 59, 999_999_999
    value.dec.value, value.dec.scale = (-12345).to_bytes(2, "big", signed=True), 2
    value.free_dec.value, value.free_dec.scale = (1).to_bytes(1, "big"), 30
    value.node.v = 1
    value.node.next.v, value.node.next.next.v = 2, 2**63 - 1
    value.node.kids.add(v=7)
    row = bound(compiled, "demo.All", value.SerializeToString())
    assert row == {
        "b": True, "f": 0.5, "d": 1e300, "s": "ü", "by": b"\xff\x00",
        "i32": -(2**31), "si32": -1, "sf32": 2**31 - 1, "u32": 2**32 - 1, "f32": 2**31,
        "i64": -(2**63), "si64": -1, "sf64": 2**63 - 1,
        "u64": decimal.Decimal(2**64 - 1), "f64": decimal.Decimal(2**63),
        "color": "BLUE", "point": {"x": 3, "y": 0}, "list": [1, -1], "points": [{"x": 0, "y": 4}],
        "by_name": [("k", 2**40)], "by_number": [(decimal.Decimal(2**64 - 1), {"x": 1, "y": 0})],
        "by_flag": [(True, "9")],
        "ts": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC),
        "duration": {"seconds": 5, "nanos": 6}, "any": {"type_url": "t/x", "value": b"1"},
        "nothing": True, "none": True, "mask": ["a.b", "c"],
        "free": '{"deep":{"list":[1.0,null,{"x":true}]}}', "value": "2.5", "values": '["x"]',
        "wb": False, "ws": "", "wl": 2**62, "wu": decimal.Decimal(2**64 - 1), "wy": b"", "wd": 0.0,
        "day": datetime.date(1969, 12, 31), "tod": datetime.time(23, 59, 59, 999_999),
        "dec": decimal.Decimal("-123.45"), "free_dec": "0." + "0" * 29 + "1",
        "node": {"v": 1, "next": '{"v":"2","next":{"v":"9223372036854775807"}}', "kids": ['{"v":"7"}']},
        "maybe": 0, "a": "", "p": None,
    }  # fmt: skip


def test_what_is_not_set_is_null_where_the_format_can_tell(compiled: ProtobufFormat) -> None:
    row = compiled.named("").read(b"", 0)
    zeros = {name: value for name, value in row.items() if value is not None}
    assert zeros == {
        "b": False, "f": 0.0, "d": 0.0, "s": "", "by": b"", "i32": 0, "si32": 0, "sf32": 0, "u32": 0, "f32": 0,
        "i64": 0, "si64": 0, "sf64": 0, "u64": 0, "f64": 0, "color": "RED", "list": [], "points": [],
        "by_name": [], "by_number": [], "by_flag": [],
    }  # fmt: skip


def test_proto2_has_presence_everywhere_and_required_fields() -> None:
    text = """
    syntax = "proto2";
    message M { required int32 id = 1; optional string name = 2 [default = "x"];
                optional group G = 3 { optional int32 v = 4; } }
    """
    made = proto_class(text, "M")
    reader = compile_protobuf(RegisteredSchema(kind="PROTOBUF", text=text)).named("")
    assert reader.read(made(id=0).SerializeToString(), 0) == {"id": 0, "name": None, "g": None}
    whole = made(id=1, name="")
    whole.g.v = 5
    assert reader.read(whole.SerializeToString(), 0) == {"id": 1, "name": "", "g": {"v": 5}}
    with pytest.raises(ValueError, match="required"):
        reader.read(b"", 0)


def test_messages_by_index_list_and_by_name() -> None:
    text = (
        HEAD
        + "message A { int32 a = 1; message B { int32 b = 1; message C { int32 c = 1; } } }\nmessage D { int32 d = 1; }"
    )
    found = compile_protobuf(RegisteredSchema(kind="PROTOBUF", text=text))
    for data, name, start in (
        (b"\0", "demo.A", 1),
        (b"\x02\0", "demo.A", 2),
        (b"\x02\x02", "demo.D", 2),
        (b"\x04\0\0", "demo.A.B", 3),
        (b"\x06\0\0\0", "demo.A.B.C", 4),
    ):
        variant, _, end = found.select(data, 0)
        assert (variant, end) == (name, start)
    for damaged in (b"", b"\x02", b"\x02\x04", b"\x04\0\x02", b"\x01", b"\xff" * 9, b"\x80", b"\x02\x01"):
        with pytest.raises((ValueError, EOFError)):
            found.select(damaged, 0)
    assert found.named("demo.A.B.C").read(b"\x08\x05", 0) == {"c": 5}
    with pytest.raises(Unmappable, match=r"no message 'demo\.X'"):
        found.named("demo.X")


def test_fields_that_the_schema_does_not_have_are_no_small_matter(compiled: ProtobufFormat) -> None:
    newer = proto_class(
        HEAD + "message N { int64 v = 1; N next = 2; repeated N kids = 3; string more = 4; }", "demo.N"
    )
    node = compiled.named("demo.Node")
    assert node.read(newer(v=1).SerializeToString(), 0)["v"] == 1
    for value in (newer(v=1, more="x"), newer(next=newer(more="x")), newer(kids=[newer(more="y")])):
        with pytest.raises(ValueError, match="fields that message"):
            node.read(value.SerializeToString(), 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "schema:1:1"),
        (HEAD, "no message"),
        (HEAD + 'import "not/there.proto";\nmessage A { int32 a = 1; }', "not/there.proto"),
        (HEAD + "message A { B b = 1; }", '"B" is not defined'),
        (HEAD + "message A { int32 a = 1; int32 b = 1; }", "Field number 1"),
        (
            'syntax = "proto2"; message A { extensions 100 to 200; } extend A { optional int32 x = 100; }',
            "extensions",
        ),
        (HEAD + "message A {}", "no field"),
    ],
)
def test_schemas_that_have_no_table_form(text: str, reason: str) -> None:
    with pytest.raises(Unmappable, match=reason):
        compile_protobuf(RegisteredSchema(kind="PROTOBUF", text=text)).named("")


def test_a_reference_cannot_lead_out_of_its_folder() -> None:
    text = HEAD + "message A { int32 a = 1; }"
    for name in ("../evil.proto", "/etc/evil.proto", ""):
        with pytest.raises(Unmappable, match="leads elsewhere"):
            file_of(
                RegisteredSchema(kind="PROTOBUF", text=text, references=(Reference(name=name, text=HEAD),))
            )


def test_descriptors_in_base64_as_some_producers_register_them() -> None:
    parts = {"common/money.proto": 'syntax = "proto3"; package common; message Money { int64 units = 1; }'}
    text = (
        HEAD + 'import "common/money.proto"; import "google/protobuf/timestamp.proto";'
        " message A { common.Money price = 1; google.protobuf.Timestamp at = 2; }"
    )
    references = tuple(Reference(name=name, text=content) for name, content in parts.items())
    from_text = file_of(RegisteredSchema(kind="PROTOBUF", text=text, references=references))
    encoded = {}
    for name, file in (("common/money.proto", from_text.dependencies[0]), ("", from_text)):
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        encoded[name] = base64.b64encode(proto.SerializeToString()).decode()
    schema = RegisteredSchema(
        kind="PROTOBUF",
        text=encoded[""],
        references=(Reference(name="common/money.proto", text=encoded["common/money.proto"]),),
    )
    assert plain(compile_protobuf(schema).named("").struct) == {
        "price": {"units": "long"},
        "at": "timestamptz",
    }


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with serve() as running:
        yield running


def test_references_through_the_registry_and_data_errors(registry: FakeRegistry) -> None:
    registry.register(
        "money", 'syntax = "proto3"; package common; message Money { int64 units = 1; }', kind="PROTOBUF"
    )
    text = (
        HEAD
        + 'import "common/money.proto"; message A { common.Money price = 1; message In { string s = 1; } }'
    )
    schema_id = registry.register(
        "t-value",
        text,
        kind="PROTOBUF",
        references=[{"name": "common/money.proto", "subject": "money", "version": 1}],
    )
    made = proto_class(
        text,
        "demo.A",
        common__money_proto='syntax = "proto3"; package common; message Money { int64 units = 1; }',
    )
    good = made(price={"units": 7}).SerializeToString()
    values = [
        prefixed(schema_id, b"\0" + good),
        prefixed(schema_id, b"\x04\0\0" + b"\x0a\x01z"),
        prefixed(schema_id, b"\x02\x08" + good),
        prefixed(schema_id, b"\0" + good[:-1]),
        prefixed(schema_id, b"\0" + b"\x0a\xff\xff\xff\xff\x07"),
        prefixed(schema_id, b"\0\xff"),
        None,
        prefixed(schema_id, b"\0" + good),
    ]
    decoder = SchemaIdDecoder(SchemaRegistry(RegistrySettings(url=registry.url), ManualClock()))
    decoded = decoder.decode([FakeMessage("t", 0, offset, value) for offset, value in enumerate(values)])
    first, second = decoded.groups
    assert (first.rows, first.positions) == ([{"price": {"units": 7}}] * 2, [0, 7])
    assert (second.rows, second.positions) == ([{"s": "z"}], [1])
    assert first.schema_key != second.schema_key
    assert sorted(decoded.errors) == [2, 3, 4, 5, 6]
    assert {error.kind for error in decoded.errors.values()} == {ErrorKind.INVALID}
    assert "no message at [4]" in decoded.errors[2].reason


def test_deep_and_long_lies_are_refused_in_bounded_memory(compiled: ProtobufFormat) -> None:
    node = compiled.named("demo.Node")
    body = b""
    for _ in range(5000):
        body = b"\x12" + _varint(len(body)) + body
    with pytest.raises(ValueError, match=r"."):
        node.read(body, 0)
    with pytest.raises(ValueError, match=r"."):
        compiled.named("demo.All").read(b"\x22\xff\xff\xff\xff\x07abc", 0)
    levels = json.loads(node.read(_nested(40), 0)["next"])
    depth = 0
    while levels:
        levels, depth = levels.get("next"), depth + 1
    assert depth == 40


def _nested(levels: int) -> bytes:
    body = b"\x08\x01"
    for _ in range(levels):
        body = b"\x12" + _varint(len(body)) + body
    return body


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
