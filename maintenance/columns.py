"""Which columns a rewrite writes, and why the rows of some tables cannot be rewritten. Pure.

Columns of type unknown hold nothing but null and stand in no file. From format version 3 on a rewritten file stores
the lineage of its rows.
"""

from typing import Final

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.scan.lineage import LAST_UPDATED, ROW_ID, with_lineage
from table_format.schema.types import FieldView, is_primitive, parse_primitive, walk

_LATEST: Final = 3
_UNKNOWN: Final = "unknown"


def keeps_lineage(metadata: TableMetadata) -> bool:
    """Whether the table's rows have ids."""
    return metadata.format_version > 2


def why_not_rewritten(metadata: TableMetadata) -> str | None:
    """Why no file of the table can be rewritten without doubt; None when they can."""
    if metadata.format_version > _LATEST:
        return f"format version {metadata.format_version} is not known here"
    try:
        for view in walk(metadata.schema()):
            if (reason := _why_not_column(view)) is not None:
                return f"column {view.path!r} {reason}"
    except Invalid as error:
        return error.message
    names = {field["name"] for field in metadata.schema()["fields"]}
    if keeps_lineage(metadata) and (taken := sorted(names & {ROW_ID, LAST_UPDATED})):
        return f"column {taken[0]!r} has the name of a column that rewritten files store for row lineage"
    if names and not written_schema(metadata)["fields"]:
        return "all its columns are of type unknown"
    return None


def _why_not_column(view: FieldView) -> str | None:
    if not is_primitive(view.type):
        return None
    try:
        primitive = parse_primitive(str(view.type))
    except Unsupported:
        kind = str(view.type).partition("(")[0].strip().lower()
        return f"is of type {kind}, which is not rewritten here"
    if primitive.name == _UNKNOWN and view.parent_id is not None:
        return "is of type unknown inside another column, which is not rewritten here"
    return None


def written_schema(metadata: TableMetadata) -> JsonObject:
    """The columns that a rewritten file has."""
    schema = metadata.schema()
    kept = [field for field in schema["fields"] if not _is_unknown(field["type"])]
    written = {**schema, "fields": kept}
    return with_lineage(written) if keeps_lineage(metadata) else written


def _is_unknown(json_type: object) -> bool:
    return isinstance(json_type, str) and json_type.strip().lower() == _UNKNOWN
