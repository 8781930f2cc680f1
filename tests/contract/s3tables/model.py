"""The service's model as botocore has it, and a validator of answers by it.

botocore checks requests and takes answers as they come; so every answer, before it is parsed, is held against the
model here: exactly its members, the required ones there, types, lengths, patterns and words right.
"""

import json
import re
from datetime import datetime
from typing import Any

from botocore.model import (
    ListShape,
    MapShape,
    OperationModel,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)
from botocore.session import get_session

MODEL: ServiceModel = get_session().get_service_model("s3tables")
OPERATIONS: tuple[str, ...] = tuple(MODEL.operation_names)


def faults(shape: Shape, value: Any, at: str = "") -> list[str]:
    """What is wrong with a JSON value for it to be of that shape."""
    if isinstance(shape, StructureShape):
        return _of_structure(shape, value, at)
    if isinstance(shape, ListShape):
        if not isinstance(value, list):
            return [f"{at}: {value!r} is no list"]
        found = _length(shape, len(value), at)
        return found + [
            one for n, inner in enumerate(value) for one in faults(shape.member, inner, f"{at}[{n}]")
        ]
    if isinstance(shape, MapShape):
        if not isinstance(value, dict):
            return [f"{at}: {value!r} is no object"]
        keys = [one for key in value for one in faults(shape.key, key, f"{at} key")]
        return keys + [
            one for key, inner in value.items() for one in faults(shape.value, inner, f"{at}.{key}")
        ]
    return _of_simple(shape, value, at)


def on_the_wire(shape: StructureShape) -> dict[str, tuple[Shape, bool]]:
    """The members by the names that they have in JSON, and whether they are required."""
    return {
        member.serialization.get("name", name): (member, name in shape.required_members)
        for name, member in shape.members.items()
    }


def _of_structure(shape: StructureShape, value: Any, at: str) -> list[str]:
    if shape.metadata.get("document") or getattr(shape, "is_document_type", False):
        return []
    if not isinstance(value, dict):
        return [f"{at}: {value!r} is no object"]
    known = on_the_wire(shape)
    found = [
        f"{at}: {name} is missing"
        for name, (_, needed) in known.items()
        if needed and value.get(name) is None
    ]
    found += [f"{at}: {name} is not in the model" for name in value if name not in known]
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        found.append(f"{at}: a union of {sorted(value)}")
    for name, inner in value.items():
        if name in known and inner is not None:
            found += faults(known[name][0], inner, f"{at}.{name}")
    return found


def _of_simple(shape: Shape, value: Any, at: str) -> list[str]:
    kind = shape.type_name
    if kind == "string":
        assert isinstance(shape, StringShape)
        if not isinstance(value, str):
            return [f"{at}: {value!r} is no string"]
        found = _length(shape, len(value), at)
        if shape.enum and value not in shape.enum:
            found.append(f"{at}: {value!r} is none of {shape.enum}")
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(pattern, value):
            found.append(f"{at}: {value!r} does not match {pattern}")
        return found
    if kind in {"integer", "long"}:
        if not isinstance(value, int) or isinstance(value, bool):
            return [f"{at}: {value!r} is no whole number"]
        return _range(shape, value, at)
    if kind == "boolean":
        return [] if isinstance(value, bool) else [f"{at}: {value!r} is neither true nor false"]
    assert kind == "timestamp", kind
    return _of_time(shape, value, at)


def _of_time(shape: Shape, value: Any, at: str) -> list[str]:
    assert shape.serialization["timestampFormat"] == "iso8601"
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return [f"{at}: {value!r} is no time"]
    return [] if moment.utcoffset() is not None else [f"{at}: {value!r} has no time zone"]


def _length(shape: Shape, length: int, at: str) -> list[str]:
    return _range(shape, length, f"{at} length")


def _range(shape: Shape, number: int, at: str) -> list[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    low = [f"{at}: {number} is under {least}"] if least is not None and number < least else []
    return low + ([f"{at}: {number} is over {most}"] if most is not None and number > most else [])


def success_faults(operation: OperationModel, status: int, body: bytes) -> list[str]:
    """What is wrong with a successful answer."""
    found = []
    wanted = operation.http.get("responseCode", 200)
    if status != wanted:
        found.append(f"status {status}, not {wanted}")
    shape = operation.output_shape
    if shape is None or not shape.members:
        return found if body in (b"", b"{}") else [*found, f"a body where there is none: {body[:100]!r}"]
    return found + faults(shape, json.loads(body))


def error_faults(operation: OperationModel, status: int, headers: Any, body: bytes) -> list[str]:
    """What is wrong with an error."""
    name = headers.get("x-amzn-errortype", "")
    shapes = {shape.name: shape for shape in operation.error_shapes}
    if name not in shapes:
        return [f"{name!r} is none of the operation's errors: {sorted(shapes)}"]
    found = []
    if status != shapes[name].metadata["error"]["httpStatusCode"]:
        found.append(f"status {status} for {name}")
    document = json.loads(body)
    if set(document) != {"message"} or not isinstance(document["message"], str) or not document["message"]:
        found.append(f"the body of an error is its message: {body[:200]!r}")
    return found
