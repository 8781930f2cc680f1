from typing import Any

import pytest

from table_format.errors import Invalid, RequirementFailed
from table_format.metadata import requirements
from tests.factories.metadata_documents import (
    UUID,
    add_snapshot,
    applied,
    set_ref,
    snapshot,
    table,
    with_history,
)

OTHER = "11111111-2222-3333-4444-555555555555"


def failure(requirement: dict[str, Any], base: Any) -> str:
    with pytest.raises(RequirementFailed) as caught:
        requirements.check([requirement], base)
    return caught.value.message


def ref(name: str, *snapshot_id: int | None) -> dict[str, Any]:
    more = {"snapshot-id": snapshot_id[0]} if snapshot_id else {}
    return {"type": "assert-ref-snapshot-id", "ref": name, **more}


def test_all_hold_on_a_table() -> None:
    requirements.check(
        [
            {"type": "assert-table-uuid", "uuid": UUID.upper()},
            ref("main", 2),
            ref("other", None),
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
            {"type": "assert-current-schema-id", "current-schema-id": 0},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
            {"type": "assert-default-spec-id", "default-spec-id": 0},
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
        ],
        with_history(2),
    )


def test_create() -> None:
    requirements.check([{"type": "assert-create"}], None)
    message = failure({"type": "assert-create"}, table())
    assert message == "Requirement failed: table already exists"


def test_uuid_text_has_the_current_one_first() -> None:
    message = failure({"type": "assert-table-uuid", "uuid": OTHER}, table())
    assert message == f"Requirement failed: UUID does not match: expected {UUID} != {OTHER}"


def test_uuid_of_a_v1_table_without_one() -> None:
    base = table(version=1)
    base.document["table-uuid"] = None
    message = failure({"type": "assert-table-uuid", "uuid": OTHER}, base)
    assert message == f"Requirement failed: UUID does not match: expected null != {OTHER}"


@pytest.mark.parametrize("requirement", [ref("main"), ref("main", None)], ids=["no key", "null"])
def test_ref_must_not_exist(requirement: dict[str, Any]) -> None:
    requirements.check([requirement], table())
    message = failure(requirement, with_history(1))
    assert message == "Requirement failed: branch main was created concurrently"


def test_tag_is_called_tag() -> None:
    base = applied(with_history(1), set_ref(1, "v1", "tag"))
    assert failure(ref("v1"), base) == "Requirement failed: tag v1 was created concurrently"
    assert failure(ref("v1", 7), base) == "Requirement failed: tag v1 has changed: expected id 7 != 1"


def test_ref_moved_or_missing() -> None:
    base = with_history(2)
    assert failure(ref("main", 1), base) == "Requirement failed: branch main has changed: expected id 1 != 2"
    assert failure(ref("gone", 2), base) == "Requirement failed: branch or tag gone is missing, expected 2"


def test_refs_are_exactly_those() -> None:
    base = applied(with_history(2), set_ref(1, "v1", "tag"))
    requirements.check([{"type": "assert-refs", "refs": ["v1", "main"]}], base)
    began = "Requirement failed: branches or tags were created or removed concurrently: "
    assert failure({"type": "assert-refs", "refs": ["main"]}, base) == began + "v1"
    assert failure({"type": "assert-refs", "refs": ["gone", "main", "v1"]}, base) == began + "gone"
    assert failure({"type": "assert-refs", "refs": []}, None).endswith("current table metadata is missing")


def test_main_is_implied_by_old_metadata() -> None:
    base = with_history(2)
    del base.document["refs"]
    requirements.check([ref("main", 2)], base)


@pytest.mark.parametrize(
    ("kind", "key", "what", "current"),
    [
        ("assert-last-assigned-field-id", "last-assigned-field-id", "last assigned field id", 3),
        ("assert-current-schema-id", "current-schema-id", "current schema", 0),
        (
            "assert-last-assigned-partition-id",
            "last-assigned-partition-id",
            "last assigned partition id",
            999,
        ),
        ("assert-default-spec-id", "default-spec-id", "default partition spec", 0),
        ("assert-default-sort-order-id", "default-sort-order-id", "default sort order", 0),
    ],
)
def test_ids(kind: str, key: str, what: str, current: int) -> None:
    message = failure({"type": kind, key: 77}, table())
    assert message == f"Requirement failed: {what} changed: expected id 77 != {current}"


def test_without_a_table() -> None:
    requirements.check(
        [
            ref("main"),
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 5},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 5},
        ],
        None,
    )
    missing = "Requirement failed: current table metadata is missing"
    assert failure({"type": "assert-table-uuid", "uuid": UUID}, None) == missing
    assert failure({"type": "assert-current-schema-id", "current-schema-id": 0}, None) == missing
    assert failure({"type": "assert-default-spec-id", "default-spec-id": 0}, None) == missing
    assert failure({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, None) == missing
    assert failure(ref("main", 3), None).endswith("branch or tag main is missing, expected 3")


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        ("assert-create", "a requirement must be an object, not a string"),
        ({}, "a requirement lacks the member 'type'"),
        ({"type": 5}, "'type' of a requirement must be a string, not an integer"),
        ({"type": "assert-frost"}, "unknown requirement type 'assert-frost'"),
        ({"type": "assert-view-uuid", "uuid": UUID}, "unknown requirement type 'assert-view-uuid'"),
        ({"type": "assert-table-uuid"}, "assert-table-uuid lacks the member 'uuid'"),
        (
            {"type": "assert-table-uuid", "uuid": None},
            "'uuid' of assert-table-uuid must be a string, not null",
        ),
        ({"type": "assert-ref-snapshot-id"}, "assert-ref-snapshot-id lacks the member 'ref'"),
        ({"type": "assert-refs"}, "assert-refs lacks the member 'refs'"),
        (
            ref("main", True),
            "'snapshot-id' of assert-ref-snapshot-id must be an integer, not a boolean",
        ),
        (
            ref("main", 1.0),  # type: ignore[arg-type]
            "'snapshot-id' of assert-ref-snapshot-id must be an integer, not a fraction",
        ),
        (
            ref("main", 2**63),
            f"'snapshot-id' of assert-ref-snapshot-id must lie between {-(2**63)} and {2**63 - 1}",
        ),
        (
            {"type": "assert-default-spec-id", "default-spec-id": "0"},
            "'default-spec-id' of assert-default-spec-id must be an integer, not a string",
        ),
    ],
)
def test_malformed_is_invalid_even_where_another_fails(requirement: Any, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        requirements.check([{"type": "assert-create"}, requirement], table())
    assert caught.value.message == text


def test_snapshot_ids_are_compared_exactly() -> None:
    big = 2**63 - 1
    base = applied(table(), add_snapshot(snapshot(big, number=1, at=1_700_000_000_500)), set_ref(big))
    requirements.check([ref("main", big)], base)
    assert failure(ref("main", big - 1), base).endswith(f"expected id {big - 1} != {big}")


@pytest.mark.parametrize(("wrong", "shown"), [(None, "null"), ({}, "an object"), ("x", "a string")])
def test_requirements_must_be_an_array(wrong: Any, shown: str) -> None:
    with pytest.raises(Invalid) as caught:
        requirements.check(wrong, table())
    assert caught.value.message == f"requirements must be an array, not {shown}"
