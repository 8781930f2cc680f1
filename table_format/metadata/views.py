"""`ViewMetadata`: a view's metadata as one immutable JSON document plus typed read views, checked where it enters.

As with tables the document is the truth: every key, known or not, at every level survives our commits, and nobody
mutates a document that was handed to a `ViewMetadata`. Source: Iceberg view spec, "View Metadata".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from table_format.errors import Invalid, InvalidView
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, jsontext, members

FORMAT_VERSION = 1
SQL = "sql"
_WHAT = "view metadata"
_VERSION = "a view version"


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """One version of a view's metadata; equal when the documents are equal."""

    document: JsonObject

    @classmethod
    def parse(cls, raw: bytes) -> "ViewMetadata":
        """Read the bytes of a metadata file (already decompressed) and check them.

        Raises:
            Invalid: not JSON, or not view metadata that this program understands.
        """
        return cls(check_view(jsontext.loads(raw)))

    def to_bytes(self) -> bytes:
        """The document as compact JSON, keys in their order."""
        return jsontext.dumps(self.document)

    @property
    def uuid(self) -> str:
        """The view's UUID."""
        return cast("str", self.document["view-uuid"])

    @property
    def location(self) -> str:
        """The view's base location, as written."""
        return cast("str", self.document["location"])

    @property
    def properties(self) -> Mapping[str, str]:
        """View properties."""
        return cast("Mapping[str, str]", self.document.get("properties") or {})

    @property
    def schemas(self) -> Sequence[JsonObject]:
        """All schemas."""
        return cast("Sequence[JsonObject]", self.document["schemas"])

    @property
    def versions(self) -> Sequence[JsonObject]:
        """The versions that are kept, oldest first as written."""
        return cast("Sequence[JsonObject]", self.document["versions"])

    @property
    def current_version_id(self) -> int:
        """Id of the current version."""
        return cast("int", self.document["current-version-id"])

    @property
    def current_version(self) -> JsonObject:
        """The version that engines read."""
        return next(row for row in self.versions if row["version-id"] == self.current_version_id)

    @property
    def version_log(self) -> Sequence[JsonObject]:
        """History of the current version: {timestamp-ms, version-id}."""
        return cast("Sequence[JsonObject]", self.document["version-log"])


def check_view(document: object) -> JsonObject:
    """The document itself, if it is valid view metadata.

    Raises:
        Invalid: it is not; the message says where.
    """
    if type(document) is not dict or "view-uuid" not in document:
        raise Invalid("view metadata is not a JSON object with a view-uuid")
    check_format_version(members.integer(document, "format-version", _WHAT))
    members.filled_text(document, "view-uuid", _WHAT)
    members.filled_text(document, "location", _WHAT)
    if document.get("properties") is not None:
        members.text_map(document, "properties", _WHAT)
    schema_ids = [_schema_id(schema) for schema in members.objects(document, "schemas", _WHAT)]
    _check_unique(schema_ids, "schema-id")
    versions = members.objects(document, "versions", _WHAT)
    for version in versions:
        check_version(version)
    version_ids = [version["version-id"] for version in versions]
    _check_unique(version_ids, "version-id")
    current = members.integer(document, "current-version-id", _WHAT, 0, members.INT_MAX)
    if current not in version_ids:
        raise Invalid(f"Cannot find current version {current} in view versions: {version_ids}")
    # A version that is long replaced may have lost its schema; engines read only the current one.
    wanted = versions[version_ids.index(current)]["schema-id"]
    if wanted not in schema_ids:
        raise Invalid(f"Cannot find current schema with id {wanted} in schemas: {schema_ids}")
    for entry in members.objects(document, "version-log", _WHAT):
        members.integer(entry, "timestamp-ms", "version-log")
        members.integer(entry, "version-id", "version-log", high=members.INT_MAX)
    return document


def check_format_version(version: int) -> None:
    """Check that it is a version of the view format that this program understands.

    Raises:
        InvalidView: it is not.
    """
    if version != FORMAT_VERSION:
        raise InvalidView(f"Unsupported format version: {version} (supported for views: {FORMAT_VERSION})")


def check_version(version: JsonObject) -> None:
    """Check the shape of a view version; representations of a type that we do not know are not looked into.

    Raises:
        Invalid: it has not the shape of one.
    """
    members.integer(version, "version-id", _VERSION, 0, members.INT_MAX)
    members.integer(version, "timestamp-ms", _VERSION, 0)
    members.integer(version, "schema-id", _VERSION, -1, members.INT_MAX)
    members.text_map(version, "summary", _VERSION)
    for representation in members.objects(version, "representations", _VERSION):
        if is_sql(representation):
            members.text(representation, "sql", "a representation")
            members.filled_text(representation, "dialect", "a representation")
    members.optional_text(version, "default-catalog", _VERSION)
    members.texts(version, "default-namespace", _VERSION)


def is_sql(representation: JsonObject) -> bool:
    """Whether the representation is a query.

    Raises:
        Invalid: it has no type.
    """
    return members.text(representation, "type", "a representation").lower() == SQL


def dialects(version: JsonObject) -> list[str]:
    """The dialects in which the version has a query, in lower case: dialects differ in more than case."""
    return [found["dialect"].lower() for found in version["representations"] if is_sql(found)]


def _schema_id(schema: JsonObject) -> int:
    columns.columns(schema)
    columns.identifier_ids(schema)
    return members.integer(schema, "schema-id", "schema", 0, members.INT_MAX)


def _check_unique(ids: Sequence[int], what: str) -> None:
    if len(set(ids)) != len(ids):
        raise Invalid(f"view metadata has two of the same {what}")
