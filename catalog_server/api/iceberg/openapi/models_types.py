"""Models of schemas, partition specs and sort orders."""

from catalog_server.api.iceberg.openapi.shapes import (
    any_of,
    array,
    flag,
    integer,
    record,
    ref,
    text,
    word,
)
from table_format.jsontypes import JsonObject

_COLUMN_ID = "Id of the column; it never changes and is never used again."

MODELS: dict[str, JsonObject] = {
    "Namespace": array(
        text(minLength=1),
        "A namespace as its levels, outermost first.",
        minItems=1,
    ),
    "TableIdentifier": record(
        "A table or view: the namespace it is in, and its name.",
        {"namespace": ref("Namespace"), "name": text(minLength=1)},
    ),
    "PrimitiveType": text(
        "A type without parts, for example `long`, `timestamptz`, `decimal(9, 2)`, `fixed[16]` or, from format "
        "version 3 on, `variant` and `geometry(srid:4326)`.",
        minLength=1,
    ),
    "StructField": record(
        "A column, or a field of a struct.",
        {
            "id": integer(_COLUMN_ID),
            "name": text(),
            "type": ref("Type"),
            "required": flag("Whether every row has a value."),
        },
        {
            "doc": text("What the column means."),
            "initial-default": {
                "description": "Value in rows that were written before the column was there (format version 3)."
            },
            "write-default": {
                "description": "Value in new rows that do not name the column (format version 3)."
            },
        },
    ),
    "StructType": record(
        "A struct.", {"type": word("struct"), "fields": array(ref("StructField"), "The fields, in order.")}
    ),
    "ListType": record(
        "A list.",
        {
            "type": word("list"),
            "element-id": integer(_COLUMN_ID),
            "element": ref("Type"),
            "element-required": flag("Whether no element is null."),
        },
    ),
    "MapType": record(
        "A map.",
        {
            "type": word("map"),
            "key-id": integer(_COLUMN_ID),
            "key": ref("Type"),
            "value-id": integer(_COLUMN_ID),
            "value": ref("Type"),
            "value-required": flag("Whether no value is null."),
        },
    ),
    "Type": any_of(
        ref("PrimitiveType"),
        ref("StructType"),
        ref("ListType"),
        ref("MapType"),
        doc="The type of a column: a name, or an object for a type that has parts.",
    ),
    "Schema": record(
        "The columns of a table or view.",
        {"type": word("struct"), "fields": array(ref("StructField"), "The columns, in order.")},
        {
            "schema-id": integer("Given by the server when the schema is added.", low=-1),
            "identifier-field-ids": array(integer(), "Ids of the columns that together tell rows apart."),
        },
    ),
    "PartitionField": record(
        "One value by which data files are kept apart.",
        {
            "source-id": integer("Id of the column that the value is made from."),
            "transform": ref("Transform"),
            "name": text("Name of the partition field; it may equal a column's only for `identity`."),
        },
        {"field-id": integer("Given by the server when it is left out.")},
    ),
    "Transform": text(
        "How a value is made from a column: `identity`, `void`, `year`, `month`, `day`, `hour`, `bucket[N]` or "
        "`truncate[W]`."
    ),
    "PartitionSpec": record(
        "How the table's data files are kept apart; without fields, not at all.",
        {"fields": array(ref("PartitionField"))},
        {"spec-id": integer("Given by the server when the spec is added.", low=-1)},
    ),
    "SortField": record(
        "One part of a sort order.",
        {
            "source-id": integer("Id of the column that is sorted by."),
            "transform": ref("Transform"),
            "direction": word("asc", "desc"),
            "null-order": word("nulls-first", "nulls-last"),
        },
    ),
    "SortOrder": record(
        "In what order writers should put rows into a file; without fields, in any.",
        {
            "order-id": integer("Given by the server when the order is added; 0 is no order.", low=-1),
            "fields": array(ref("SortField")),
        },
    ),
}
