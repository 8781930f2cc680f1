"""Models of scan planning: filters, files and the answers that carry them; and of remote signing."""

from catalog_server.api.iceberg.openapi.shapes import (
    any_of,
    array,
    flag,
    integer,
    long,
    mapping,
    nullable,
    record,
    ref,
    text,
    texts,
    variants,
    word,
)
from table_format.jsontypes import JsonObject

_ANY_VALUE = {"type": ["boolean", "integer", "number", "string"], "description": "A value, as in defaults."}
_NAMES = "Columns by their full names."
_KIND_OF_TERM = "The older form of the operand: a column's name, or a transform of it."
_OPERANDS = {
    "child": ref("ValueExpression"),
    "term": {"description": _KIND_OF_TERM, "anyOf": [text(), ref("TransformTerm")]},
}

_FILTERS: dict[str, JsonObject] = {
    "Predicate": any_of(
        flag("Everything, or nothing."),
        ref("ConstantPredicate"),
        ref("AndOrPredicate"),
        ref("NotPredicate"),
        ref("UnaryPredicate"),
        ref("ComparisonPredicate"),
        ref("SetPredicate"),
        doc="Which rows are wanted.",
    ),
    "ConstantPredicate": record("The older form of a constant.", {"type": word("true", "false")}),
    "AndOrPredicate": record(
        "Both, or one of two.",
        {"type": word("and", "or"), "left": ref("Predicate"), "right": ref("Predicate")},
    ),
    "NotPredicate": record("The contrary.", {"type": word("not"), "child": ref("Predicate")}),
    "UnaryPredicate": record(
        "A test of one value.",
        {"type": word("is-null", "not-null", "is-nan", "not-nan")},
        _OPERANDS,
    ),
    "ComparisonPredicate": record(
        "A comparison of a column with a value.",
        {"type": word("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq", "starts-with", "not-starts-with")},
        {
            "left": ref("ValueExpression"),
            "right": ref("ValueExpression"),
            "term": _OPERANDS["term"],
            "value": {"description": "The older form of the value to compare with.", **ref("Literal")},
        },
    ),
    "SetPredicate": record(
        "Whether a value is one of several.",
        {
            "type": word("in", "not-in"),
            "values": any_of(
                array(ref("Literal")),
                record(
                    "Values of a named type.",
                    {"type": word("literals"), "values": array(_ANY_VALUE), "data-type": text()},
                ),
            ),
        },
        _OPERANDS,
    ),
    "ValueExpression": any_of(ref("Literal"), ref("Reference"), ref("Apply"), doc="A value."),
    "Literal": any_of(
        _ANY_VALUE,
        record("", {"type": word("literal"), "value": _ANY_VALUE}, {"data-type": text("The value's type.")}),
        doc="A constant.",
    ),
    "Reference": any_of(ref("IdReference"), ref("NamedReference"), doc="A column: by its name or by its id."),
    "NamedReference": record("A column by its name.", {"type": word("reference"), "name": text()}),
    "IdReference": record("A column by its id.", {"type": word("reference"), "id": integer()}),
    "Apply": record(
        "A function of values.",
        {"type": word("apply"), "function": {}, "arguments": array({})},
    ),
    "TransformTerm": record(
        "The older form of a transform of a column.",
        {"type": word("transform"), "transform": ref("Transform"), "term": text()},
    ),
}

_COUNTS = "By column id: `keys` and `values` are of the same length and order."
_FILE = {
    "spec-id": integer("The partition spec that the file was written by."),
    "partition": array(nullable(_ANY_VALUE), "The partition's values, in the order of the spec's fields."),
    "file-path": text(),
    "file-format": word("avro", "orc", "parquet", "puffin"),
    "file-size-in-bytes": long(),
    "record-count": long(),
}
_MAYBE = {
    "key-metadata": nullable(text("Hexadecimal.")),
    "split-offsets": nullable(array(long(), "Where the file may be split.")),
    "sort-order-id": nullable(integer()),
}
_FILES: dict[str, JsonObject] = {
    "CountMap": record(_COUNTS, {}, {"keys": array(integer()), "values": array(long())}),
    "ValueMap": record(_COUNTS, {}, {"keys": array(integer()), "values": array(_ANY_VALUE)}),
    "DataFile": record(
        "A file of rows.",
        {"content": word("data"), **_FILE},
        {
            **_MAYBE,
            "first-row-id": nullable(long()),
            "column-sizes": nullable(ref("CountMap")),
            "value-counts": nullable(ref("CountMap")),
            "null-value-counts": nullable(ref("CountMap")),
            "nan-value-counts": nullable(ref("CountMap")),
            "lower-bounds": nullable(ref("ValueMap")),
            "upper-bounds": nullable(ref("ValueMap")),
        },
    ),
    "PositionDeleteFile": record(
        "A file, or a part of one, that says by position which rows are deleted.",
        {"content": word("position-deletes"), **_FILE},
        {
            **_MAYBE,
            "referenced-data-file": nullable(text("The one data file that it is for.")),
            "content-offset": nullable(long("Where in the file a deletion vector begins.")),
            "content-size-in-bytes": nullable(long("How long the deletion vector is.")),
        },
    ),
    "EqualityDeleteFile": record(
        "A file that says by values which rows are deleted.",
        {"content": word("equality-deletes"), **_FILE},
        {**_MAYBE, "equality-ids": nullable(array(integer(), "Ids of the columns that are compared."))},
    ),
    "DeleteFile": any_of(ref("PositionDeleteFile"), ref("EqualityDeleteFile"), doc="A file of deletes."),
    "FileScanTask": record(
        "A data file to read.",
        {"data-file": ref("DataFile")},
        {
            "delete-file-references": array(integer(), "Positions in `delete-files` of this answer."),
            "residual-filter": {"description": "What the reader must still filter by.", **ref("Predicate")},
        },
    ),
}

_TASKS = {
    "delete-files": array(ref("DeleteFile"), "Delete files that the tasks of this answer refer to."),
    "file-scan-tasks": array(ref("FileScanTask")),
    "plan-tasks": array(text(), "Each stands for more files: fetch them one by one, in any order."),
}
_CREDENTIALS = {"storage-credentials": array(ref("StorageCredential"))}
_ID = {"plan-id": text("Names the plan in later requests.")}
_PLANS: dict[str, JsonObject] = {
    "CompletedPlan": record(
        "The plan is ready.", {"status": word("completed"), **_ID}, {**_TASKS, **_CREDENTIALS}
    ),
    "FetchedPlan": record("The plan is ready.", {"status": word("completed")}, {**_TASKS, **_CREDENTIALS}),
    "SubmittedPlan": record("The plan is being made.", {"status": word("submitted"), **_ID}),
    "UnfinishedPlan": record(
        "The plan is being made, or was given up.", {"status": word("submitted", "cancelled")}
    ),
    "FailedPlan": record(
        "The scan cannot be planned.", {"status": word("failed"), "error": ref("ErrorModel")}
    ),
    "PlanTableScanResult": variants(
        "status",
        {"completed": "CompletedPlan", "submitted": "SubmittedPlan", "failed": "FailedPlan"},
        "A plan, or the beginning of one.",
    ),
    "FetchPlanningResult": variants(
        "status",
        {
            "completed": "FetchedPlan",
            "submitted": "UnfinishedPlan",
            "cancelled": "UnfinishedPlan",
            "failed": "FailedPlan",
        },
        "A plan, or how far it is.",
    ),
}

MODELS: dict[str, JsonObject] = {
    **_FILTERS,
    **_FILES,
    **_PLANS,
    "PlanTableScanRequest": record(
        "What is to be read: one snapshot (the current one when none is named) or what was appended between two.",
        {},
        {
            "snapshot-id": {"type": "integer", "format": "int64"},
            "start-snapshot-id": {"type": "integer", "format": "int64", "description": "Exclusive."},
            "end-snapshot-id": {"type": "integer", "format": "int64", "description": "Inclusive."},
            "select": array(text(), _NAMES),
            "filter": ref("Predicate"),
            "min-rows-requested": long("A hint that so many rows are enough."),
            "case-sensitive": flag("Whether names of columns must match in case.", default=True),
            "use-snapshot-schema": flag(
                "Bind names to the snapshot's schema, not to the table's.", default=False
            ),
            "stats-fields": array(text(), "Columns whose statistics to send along."),
        },
    ),
    "FetchScanTasksRequest": record(
        "One of the plan's tasks.", {"plan-task": text("As an earlier answer gave it.", minLength=1)}
    ),
    "FetchScanTasksResult": record("Files of one plan task, and maybe further plan tasks.", {}, _TASKS),
    "UnregisterTableResult": record(
        "The table that the catalog has forgotten; its files are all there.",
        {"metadata-location": text(), "metadata": ref("TableMetadata")},
    ),
    "RemoteSignRequest": record(
        "A request to storage that the server is asked to sign.",
        {
            "region": text(),
            "uri": text(),
            "method": word("PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS"),
            "headers": mapping(array(text())),
        },
        {"properties": texts(), "body": text(), "provider": text()},
    ),
}
