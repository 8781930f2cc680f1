"""A small vocabulary for JSON Schemas (2020-12, which OpenAPI 3.1 uses), so that models read as declarations."""

from typing import Any

from table_format.jsontypes import JsonObject

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def ref(model: str) -> JsonObject:
    """Another model."""
    return {"$ref": f"#/components/schemas/{model}"}


def text(doc: str = "", **more: Any) -> JsonObject:
    """A string."""
    return _told({"type": "string", **more}, doc)


def word(*choices: str, doc: str = "") -> JsonObject:
    """One of a few strings."""
    return text(doc, const=choices[0]) if len(choices) == 1 else text(doc, enum=list(choices))


def flag(doc: str = "", **more: Any) -> JsonObject:
    """True or false."""
    return _told({"type": "boolean", **more}, doc)


def integer(doc: str = "", low: int = 0) -> JsonObject:
    """A whole number of 32 bits."""
    return _told({"type": "integer", "format": "int32", "minimum": low, "maximum": INT_MAX}, doc)


def long(doc: str = "", low: int = 0) -> JsonObject:
    """A whole number of 64 bits."""
    return _told({"type": "integer", "format": "int64", "minimum": low, "maximum": LONG_MAX}, doc)


def array(items: JsonObject, doc: str = "", **more: Any) -> JsonObject:
    """An array of one kind."""
    return _told({"type": "array", "items": items, **more}, doc)


def mapping(values: JsonObject, doc: str = "") -> JsonObject:
    """An object that maps any name to one kind."""
    return _told({"type": "object", "additionalProperties": values}, doc)


def texts(doc: str = "") -> JsonObject:
    """An object that maps strings to strings."""
    return mapping(text(), doc)


def nullable(schema: JsonObject) -> JsonObject:
    """The schema, or null."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": [*types, "null"]}


def any_of(*schemas: JsonObject, doc: str = "") -> JsonObject:
    """At least one of several."""
    return _told({"anyOf": list(schemas)}, doc)


def record(doc: str, needed: dict[str, JsonObject], maybe: dict[str, JsonObject] | None = None) -> JsonObject:
    """An object with members that must and members that may be there; others are allowed and kept."""
    members = {**needed, **(maybe or {})}
    schema: JsonObject = {"type": "object"}
    if members:
        schema["properties"] = members
    if needed:
        schema["required"] = list(needed)
    return _told(schema, doc)


def variants(member: str, models: dict[str, str], doc: str) -> JsonObject:
    """One of several records, told apart by the value of one member."""
    references = {value: ref(model) for value, model in models.items()}
    targets = {value: reference["$ref"] for value, reference in references.items()}
    distinct = list({reference["$ref"]: reference for reference in references.values()}.values())
    return _told({"oneOf": distinct, "discriminator": {"propertyName": member, "mapping": targets}}, doc)


def _told(schema: JsonObject, doc: str) -> JsonObject:
    return {**schema, "description": doc} if doc else schema
