"""The upstream OpenAPI document of the Iceberg REST catalog: where it is, what is wrong in it, its validators.

The document is not part of this project: `ICEBERG_OPENAPI_SPEC` names the file. Without it these tests fail in
continuous integration; elsewhere they are left out, loudly.
"""

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT.parent / "shared/spec/rest-catalog-open-api.yaml"
Document = dict[str, Any]


@pytest.fixture(scope="session")
def as_published() -> Document:
    """The document as it is. Without it: a failure where CI is set, elsewhere a loud skip."""
    path = Path(os.environ.get("ICEBERG_OPENAPI_SPEC") or DEFAULT)
    if not path.is_file():
        reason = f"no upstream OpenAPI document at {path}: set ICEBERG_OPENAPI_SPEC to the file"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    document: Document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    for operation in (inner for item in document["paths"].values() for inner in item.values()):
        if isinstance(operation, dict):
            # YAML reads the statuses as numbers.
            operation["responses"] = {str(code): answer for code, answer in operation["responses"].items()}
    return document


@pytest.fixture(scope="session")
def upstream(as_published: Document) -> Document:
    """The document with its faults repaired."""
    document = copy.deepcopy(as_published)
    for repair in REPAIRS:
        repair.make(document)
    return document


@dataclass(frozen=True, slots=True)
class Repair:
    """One fault of the document, and what we do about it."""

    reason: str
    make: Callable[[Document], None]


def _nullable_is_a_type(document: Document) -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.pop("nullable", False) and "type" in value:
                value["type"] = [value["type"], "null"]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(document["components"])


def _overlapping_unions(*models: str) -> Callable[[Document], None]:
    def make(document: Document) -> None:
        for model in models:
            schema = document["components"]["schemas"][model]
            schema["anyOf"] = schema.pop("oneOf")

    return make


def _errors_in_envelopes(document: Document) -> None:
    bare, envelope = "#/components/schemas/ErrorModel", "#/components/schemas/IcebergErrorResponse"
    answers = list(document["components"]["responses"].values())
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                answers += operation["responses"].values()
    for answer in answers:
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if schema.get("$ref") == bare:
            schema["$ref"] = envelope


def _status_beside_error(document: Document) -> None:
    del document["components"]["schemas"]["IcebergErrorResponse"]["additionalProperties"]


def _requirements_by_their_type(document: Document) -> None:
    schemas = document["components"]["schemas"]
    targets = schemas["TableRequirement"]["discriminator"]["mapping"].values()
    schemas["AnyTableRequirement"] = {
        "oneOf": [{"$ref": target} for target in targets],
        "discriminator": schemas["TableRequirement"]["discriminator"],
    }
    items = schemas["CommitTableRequest"]["properties"]["requirements"]["items"]
    items["$ref"] = "#/components/schemas/AnyTableRequirement"


def _also_null(model: str, *members: str) -> Callable[[Document], None]:
    def make(document: Document) -> None:
        properties = document["components"]["schemas"][model]["properties"]
        for member in members:
            kind = properties[member].get("type")
            if kind is None:
                properties[member] = {"anyOf": [properties[member], {"type": "null"}]}
            else:
                properties[member]["type"] = [kind, "null"]

    return make


def _null_partition_values(document: Document) -> None:
    partition = document["components"]["schemas"]["ContentFile"]["properties"]["partition"]
    partition["items"] = {"anyOf": [partition["items"], {"type": "null"}]}


REPAIRS = (
    Repair(
        "`nullable` is a word of OpenAPI 3.0 and means nothing in 3.1, whose number the document bears: the last "
        "page's token, a staged table's location and the reference that must not exist are null nonetheless",
        _nullable_is_a_type,
    ),
    Repair(
        "exactly one of several that overlap is never satisfied: `variant` is a primitive's name too, 5 an integer, "
        "a long, a float and a double, and a bare text a constant of ten types",
        _overlapping_unions("Type", "PrimitiveTypeValue"),
    ),
    Repair(
        "the errors of views and 406 have the bare error as their body, whereas Java's client and server read and "
        "write the envelope around it everywhere",
        _errors_in_envelopes,
    ),
    Repair(
        "a failed plan is an error envelope with `status` beside `error`, which the envelope's "
        "`additionalProperties: false` forbids",
        _status_beside_error,
    ),
    Repair(
        "the requirements of a commit are only said to have a type: the models of the single ones are listed "
        "beside, in a discriminator, which validates nothing",
        _requirements_by_their_type,
    ),
    Repair(
        "Java writes null for the current snapshot of an empty table of format version 3",
        _also_null("TableMetadata", "current-snapshot-id"),
    ),
    Repair("a partition value may be null", _null_partition_values),
)


def resolve(document: Document, value: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to; anything else as it is."""
    while "$ref" in value:
        target: Any = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


def parameters(document: Document, path: str, verb: str) -> dict[tuple[str, str], bool]:
    """Where and what the parameters of an operation are, and whether each is required."""
    item = document["paths"][path]
    found = [resolve(document, one) for one in item.get("parameters", []) + item[verb].get("parameters", [])]
    return {(one["in"], one["name"]): one.get("required", False) for one in found}


def operations(document: Document) -> dict[str, tuple[str, str]]:
    """Path and verb of every operation, by its id."""
    return {
        operation["operationId"]: (path, verb)
        for path, item in document["paths"].items()
        for verb, operation in item.items()
        if verb != "parameters"
    }


def body_of(document: Document, holder: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of a request's or an answer's body; None without one."""
    if holder is None:
        return None
    content = resolve(document, holder).get("content") or {}
    schema: dict[str, Any] | None = next(iter(content.values()))["schema"] if content else None
    return schema
