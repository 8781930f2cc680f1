"""Small views and view updates as JSON documents."""

from typing import Any

from table_format.jsontypes import JsonObject
from table_format.metadata import view_updates
from table_format.metadata.views import ViewMetadata
from tests.factories.metadata_documents import NOW, UUID, field, struct

LOCATION = "file:///data/v"
SCHEMA = struct(
    field(3, "id", "int", required=True), field(4, "data", "string", doc="text"), **{"schema-id": 5}
)
OTHER_SCHEMA = struct(field(1, "some_id", "int", required=True), **{"schema-id": 7})


def query(sql: str = "select * from ns.tbl", dialect: str = "spark") -> JsonObject:
    return {"type": "sql", "sql": sql, "dialect": dialect}


def version(*queries: JsonObject, **more: Any) -> JsonObject:
    """A view version as Java sends it."""
    found = {
        "version-id": 1,
        "timestamp-ms": NOW,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "representations": list(queries or [query()]),
        "default-namespace": ["ns"],
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    return {key: value for key, value in found.items() if value is not ...}


def view(*queries: JsonObject, **properties: str) -> ViewMetadata:
    """A new view of one version."""
    return view_updates.new_view(
        schema=SCHEMA,
        version=version(*queries),
        properties={name.replace("_", "."): value for name, value in properties.items()},
        location=LOCATION,
        uuid=UUID,
        now_ms=NOW,
    )


def add_version(*queries: JsonObject, **more: Any) -> JsonObject:
    return {"action": "add-view-version", "view-version": version(*queries, **more)}


def set_current(version_id: int = -1) -> JsonObject:
    return {"action": "set-current-view-version", "view-version-id": version_id}


def setting(**properties: str) -> JsonObject:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return {"action": "set-properties", "updates": names}


def replacing(*queries: JsonObject, schema: JsonObject | None = None, **more: Any) -> list[JsonObject]:
    """The updates of a replacement."""
    added = [] if schema is None else [{"action": "add-schema", "schema": schema}]
    wanted = {"schema_id": 0 if schema is None else -1, **more}
    return [*added, add_version(*queries, **wanted), set_current()]
