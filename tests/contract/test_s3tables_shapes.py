"""The shapes that requests are read with are those of the service's model: members, what is required, limits, words."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.model import ListShape, MapShape, OperationModel, Shape, StringShape, StructureShape

from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.router import OPERATIONS
from catalog_server.api.s3tables.wire import Anything, Flag, Items, Struct, Text, Texts, Whole
from tests.contract.s3tables.model import MODEL, on_the_wire

OFFERED = [operation for operation in OPERATIONS if operation.offered]

# Where we ask for more than the model: columns and types have names.
STRICTER = {
    f"metadata.iceberg.{member}.fields[].{name}: lengths (1, None), the model has (None, None)"
    for member, name in (("schema", "name"), ("schema", "type"), ("schemaV2", "name"))
}


def by_place(model: OperationModel, place: str) -> dict[str, tuple[Shape, bool]]:
    """The members of a request that stand in the path (`uri`), the query (`querystring`) or the body (empty)."""
    shape = model.input_shape
    if shape is None:
        return {}
    return {
        member.serialization.get("name", name): (member, name in shape.required_members)
        for name, member in shape.members.items()
        if member.serialization.get("location", "") == place
    }


def differences(ours: Any, theirs: Shape, at: str, *, answer: bool) -> Iterator[str]:
    if isinstance(ours, Anything):
        return
    if isinstance(ours, Struct):
        assert isinstance(theirs, StructureShape | MapShape), at
        if isinstance(theirs, MapShape):  # a map whose keys are words
            for name, one in ours.members.items():
                assert name in theirs.key.enum, (at, name)
                yield from differences(one, theirs.value, f"{at}.{name}", answer=answer)
            return
        yield from _of_members(ours, theirs, at, answer=answer)
        return
    if isinstance(ours, Items):
        assert isinstance(theirs, ListShape), at
        yield from differences(ours.of, theirs.member, f"{at}[]", answer=answer)
        if not answer:
            yield from _limits(at, (ours.least or None, ours.most), theirs)
        return
    if isinstance(ours, Texts):
        assert isinstance(theirs, MapShape), at
        yield from differences(ours.key, theirs.key, f"{at} key", answer=answer)
        yield from differences(ours.value, theirs.value, f"{at} value", answer=answer)
        return
    yield from _of_simple(ours, theirs, at, answer=answer)


def _of_simple(ours: Any, theirs: Shape, at: str, *, answer: bool) -> Iterator[str]:
    if isinstance(ours, Flag):
        assert theirs.type_name == "boolean", at
        return
    if isinstance(ours, Whole):
        assert theirs.type_name in {"integer", "long"}, at
        wanted = (theirs.metadata.get("min"), theirs.metadata.get("max"))
        if not answer and wanted not in {(None, None), (ours.least, ours.most)}:
            yield f"{at}: {ours.least}..{ours.most}, the model has {wanted}"
        return
    assert isinstance(ours, Text), at
    if theirs.type_name == "timestamp":
        return
    assert isinstance(theirs, StringShape), at
    if list(ours.choices) != list(theirs.enum):
        yield f"{at}: {ours.choices}, the model has {theirs.enum}"
    if answer:
        return
    if ours.pattern != theirs.metadata.get("pattern"):
        yield f"{at}: {ours.pattern}, the model has {theirs.metadata.get('pattern')}"
    yield from _limits(at, (ours.least or None, ours.most), theirs)


def _of_members(ours: Struct, theirs: StructureShape, at: str, *, answer: bool) -> Iterator[str]:
    if getattr(theirs, "is_tagged_union", False) != ours.union:
        yield f"{at}: a union or not"
    known = on_the_wire(theirs)
    required = {name for name, (_, needed) in known.items() if needed}
    if set(ours.required) != required:
        yield f"{at}: required {ours.required}, the model has {sorted(required)}"
    extra = set(ours.members) - set(known)
    missing = set() if answer else set(known) - set(ours.members)
    if extra or missing:
        yield f"{at}: members too many {sorted(extra)}, missing {sorted(missing)}"
    for name in set(ours.members) & set(known):
        yield from differences(ours.members[name], known[name][0], f"{at}.{name}", answer=answer)


def _limits(at: str, ours: tuple[int | None, int | None], theirs: Shape) -> Iterator[str]:
    wanted = (theirs.metadata.get("min") or None, theirs.metadata.get("max"))
    if ours != wanted:
        yield f"{at}: lengths {ours}, the model has {wanted}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_verb_path_and_status_are_the_models(operation: Operation) -> None:
    http = MODEL.operation_model(operation.name).http
    assert (operation.method, operation.path) == (http["method"], http["requestUri"])
    assert operation.status == http.get("responseCode", 200)


@pytest.mark.parametrize("operation", OFFERED, ids=lambda operation: operation.name)
def test_requests_are_the_models(operation: Operation) -> None:
    model = MODEL.operation_model(operation.name)
    assert set(by_place(model, "uri")) == set(operation.parameters)
    found = []
    for name, shape in operation.path_shapes.items():
        found += list(differences(shape, by_place(model, "uri")[name][0], name, answer=False))
    for ours, place in ((operation.query, "querystring"), (operation.body, "")):
        theirs = by_place(model, place)
        members = {} if ours is None else ours.members
        assert set(members) == set(theirs), place
        assert (ours is None) == (not theirs and place == "")
        for name, (shape, needed) in theirs.items():
            assert ours is not None
            assert (name in ours.required) == needed, name
            found += list(differences(members[name], shape, name, answer=False))
    assert set(found) == (STRICTER if operation.name == "CreateTable" else set())


@pytest.mark.parametrize("operation", OFFERED, ids=lambda operation: operation.name)
def test_answers_are_the_models(operation: Operation) -> None:
    theirs = MODEL.operation_model(operation.name).output_shape
    if operation.answer is None:
        assert theirs is None or not theirs.members
    else:
        assert isinstance(theirs, StructureShape)
        assert list(differences(operation.answer, theirs, "", answer=True)) == []


@pytest.mark.parametrize("operation", OFFERED, ids=lambda operation: operation.name)
def test_errors_are_the_models(operation: Operation) -> None:
    theirs = {shape.name for shape in MODEL.operation_model(operation.name).error_shapes}
    assert {*operation.errors, "InternalServerErrorException"} <= theirs
