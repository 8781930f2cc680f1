"""The schema, partitioning and order of a table to be created, as the S3 Tables API writes them, made Iceberg's.

Ids that the client gives stay as they are; columns without one get the lowest that is free.
"""

from collections.abc import Sequence
from itertools import count

from catalog_server.api.s3tables.wire import Anything, Flag, Items, Struct, Text, Texts, Whole
from catalog_server.services.tables import TableSpec
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

_ID = Whole(least=0)
_FIELD = Struct(
    members={"id": _ID, "name": Text(least=1), "type": Text(least=1), "required": Flag()},
    required=("name", "type"),
    doc="A column of a primitive type.",
)
_FIELD_V2 = Struct(
    members={
        "id": _ID,
        "name": Text(least=1),
        "type": Anything(doc="A primitive type's name, or a struct, list or map as Iceberg writes it."),
        "required": Flag(),
        "doc": Text(),
    },
    required=("id", "name", "type", "required"),
)
_SCHEMA = Struct(members={"fields": Items(of=_FIELD)}, required=("fields",))
_SCHEMA_V2 = Struct(
    members={
        "type": Text(choices=("struct",)),
        "fields": Items(of=_FIELD_V2),
        "schema-id": _ID,
        "identifier-field-ids": Items(of=_ID),
    },
    required=("type", "fields"),
)
_PARTITION_FIELD = Struct(
    members={"source-id": _ID, "transform": Text(), "name": Text(), "field-id": _ID},
    required=("source-id", "transform", "name"),
)
_SPEC = Struct(
    members={"fields": Items(of=_PARTITION_FIELD), "spec-id": _ID},
    required=("fields",),
    doc="The first spec of a table has the id 0, whatever `spec-id` says.",
)
_SORT_FIELD = Struct(
    members={
        "source-id": _ID,
        "transform": Text(),
        "direction": Text(choices=("asc", "desc")),
        "null-order": Text(choices=("nulls-first", "nulls-last")),
    },
    required=("source-id", "transform", "direction", "null-order"),
)
_ORDER = Struct(
    members={"order-id": _ID, "fields": Items(of=_SORT_FIELD)},
    required=("order-id", "fields"),
    doc="The first order of a table has the id 1, whatever `order-id` says.",
)
METADATA = Struct(
    members={
        "iceberg": Struct(
            members={
                "schema": _SCHEMA,
                "schemaV2": _SCHEMA_V2,
                "partitionSpec": _SPEC,
                "writeOrder": _ORDER,
                "properties": Texts(),
            },
            doc="Exactly one of `schema` and `schemaV2`.",
        )
    },
    union=True,
    doc="What the table shall be. Without it the table is there, but has no metadata until a client gives it some.",
)


def spec_of(metadata: JsonObject) -> TableSpec:
    """What the metadata of a CreateTable asks for.

    Raises:
        Invalid: there is no schema in it, or there are two, or ids that mean two columns.
    """
    iceberg = metadata["iceberg"]
    if ("schema" in iceberg) == ("schemaV2" in iceberg):
        raise Invalid("The specified metadata is not valid: give either a schema or a schemaV2")
    return TableSpec(
        schema=_nested(iceberg["schemaV2"]) if "schemaV2" in iceberg else _flat(iceberg["schema"]["fields"]),
        partition_spec=iceberg.get("partitionSpec"),
        write_order=iceberg.get("writeOrder"),
        properties=iceberg.get("properties", {}),
        keeps_ids=True,
    )


def _flat(fields: Sequence[JsonObject]) -> JsonObject:
    taken = {field["id"] for field in fields if "id" in field}
    free = (number for number in count(1) if number not in taken)
    return {
        "type": "struct",
        "fields": [
            {
                "id": field["id"] if "id" in field else next(free),
                "name": field["name"],
                "required": field.get("required", False),
                "type": field["type"],
            }
            for field in fields
        ],
    }


def _nested(schema: JsonObject) -> JsonObject:
    return {name: value for name, value in schema.items() if name != "schema-id"}
