"""Our OpenAPI document beside upstream's, operation by operation: whatever differs is known, with a reason."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from catalog_server.api.iceberg.openapi.document import DESCRIBED, document
from tests.contract import differences as known
from tests.contract.members import Side, differences
from tests.contract.upstream import (
    REPAIRS,
    Document,
    body_of,
    operations,
    parameters,
)

OURS = document(tuple(DESCRIBED))
OPERATIONS = operations(OURS)


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda repair: repair.make.__name__.strip("_"))
def test_a_repair_still_has_something_to_repair(as_published: Document, repair: Any) -> None:
    document = copy.deepcopy(as_published)
    repair.make(document)
    assert document != as_published, repair.reason


def test_the_operations_are_the_same(upstream: Document) -> None:
    """Same ids, verbs and paths."""
    assert operations(upstream) == OPERATIONS


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_parameters(upstream: Document, name: str) -> None:
    path, verb = OPERATIONS[name]
    theirs, ours = parameters(upstream, path, verb), parameters(OURS, path, verb)
    only_there = {f"{name} {parameter}" for _, parameter in theirs.keys() - ours.keys()}
    only_here = {f"{name} {parameter}" for _, parameter in ours.keys() - theirs.keys()}
    assert only_there == {line for line in known.PARAMETERS_THERE if line.split(" ")[0] == name}
    assert only_here == {line for line in known.PARAMETERS_HERE if line.split(" ")[0] == name}
    assert {key: needed for key, needed in ours.items() if key in theirs} == {
        key: needed for key, needed in theirs.items() if key in ours
    }


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_statuses(upstream: Document, name: str) -> None:
    path, verb = OPERATIONS[name]
    theirs, ours = (set(one["paths"][path][verb]["responses"]) for one in (upstream, OURS))
    only_there = {f"{name} {status}" for status in theirs - ours - known.STATUSES_ONLY_THERE.keys()}
    only_here = {f"{name} {status}" for status in ours - theirs - known.STATUSES_ONLY_HERE.keys()}
    assert only_there == {line for line in known.STATUSES_THERE if line.split(" ")[0] == name}
    assert only_here == {line for line in known.STATUSES_HERE if line.split(" ")[0] == name}


def test_every_general_difference_of_statuses_occurs(upstream: Document) -> None:
    there, here = set(), set()
    for path, verb in OPERATIONS.values():
        theirs, ours = (set(one["paths"][path][verb]["responses"]) for one in (upstream, OURS))
        there |= theirs - ours
        here |= ours - theirs
    assert known.STATUSES_ONLY_THERE.keys() <= there
    assert known.STATUSES_ONLY_HERE.keys() <= here


def bodies(upstream: Document) -> Iterator[tuple[str, str, Any, Any]]:
    """Operation, which body, upstream's schema and ours."""
    for name, (path, verb) in OPERATIONS.items():
        theirs, ours = (one["paths"][path][verb] for one in (upstream, OURS))
        yield name, "request", *_pair(upstream, theirs.get("requestBody"), ours.get("requestBody"))
        for status in sorted(theirs["responses"].keys() & ours["responses"].keys()):
            yield name, status, *_pair(upstream, theirs["responses"][status], ours["responses"][status])


def _pair(upstream: Document, theirs: Any, ours: Any) -> tuple[Any, Any]:
    return body_of(upstream, theirs), body_of(OURS, ours)


def test_what_has_a_body(upstream: Document) -> None:
    differ = [
        (name, which) for name, which, theirs, ours in bodies(upstream) if (theirs is None) != (ours is None)
    ]
    assert {name for name, _ in differ} == known.BODIES_THERE
    assert {which[0] for _, which in differ} == {"4", "5"}


def test_members_of_bodies(upstream: Document) -> None:
    """At every depth: the same members, and the same of them needed."""
    found = {
        f"{member}: {what}"
        for _, _, theirs, ours in bodies(upstream)
        if theirs is not None and ours is not None
        for member, what in differences(Side(upstream), Side(OURS), theirs, ours)
    }
    assert found == known.MEMBERS.keys()


def test_the_walk_reaches_the_depths(upstream: Document) -> None:
    """The comparison above would be content with less if it did not get this far."""
    change = copy.deepcopy(OURS)
    schemas = change["components"]["schemas"]
    for model in (
        "BlobMetadata",
        "MapType",
        "ViewVersion",
        "AssertTableUUID",
        "RemoveSchemasUpdate",
        "SortField",
    ):
        schemas[model]["required"] = []
    found = {
        member
        for name, which, theirs, _ in bodies(upstream)
        if which in {"request", "200"} and theirs is not None
        for member, what in differences(Side(upstream), Side(change), theirs, _body(change, name, which))
        if what == "needed there only"
    }
    assert {
        "BlobMetadata.fields",
        "MapType.key-id",
        "ViewVersion.default-namespace",
        "AssertTableUUID.uuid",
        "RemoveSchemasUpdate.schema-ids",
        "SortField.direction",
    } <= found


def _body(document: Document, name: str, which: str) -> Any:
    path, verb = OPERATIONS[name]
    operation = document["paths"][path][verb]
    return body_of(
        document, operation["requestBody"] if which == "request" else operation["responses"][which]
    )


def prose(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"description", "summary"} and isinstance(inner, str):
                yield " ".join(re.findall(r"[a-z0-9]+", inner.lower()))
            else:
                yield from prose(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from prose(inner)


def test_no_text_of_upstream_is_copied(as_published: Document) -> None:
    """No run of seven words, and no whole description of three."""
    theirs = set(prose(as_published))
    runs = {run for text in theirs for run in _runs(text)}
    for text in set(prose(OURS)):
        assert text not in theirs or len(text.split()) < 3
        assert not runs & set(_runs(text)), text


def _runs(text: str) -> Iterator[str]:
    words = text.split()
    for start in range(len(words) - 6):
        yield " ".join(words[start : start + 7])
