"""Requirements of a commit (`assert-*`), checked against the current metadata before anything is written.

Texts are those of Java's UpdateRequirement, which clients and the compatibility kit match on. One is our own:
`assert-refs`, which only our expiration sends, since no standard one says "and there is no other branch or tag".
"""

from collections.abc import Callable, Sequence

from table_format.errors import Invalid, RequirementFailed
from table_format.jsontypes import JsonObject
from table_format.metadata import members
from table_format.metadata.document import TableMetadata
from table_format.metadata.views import ViewMetadata


def check(requirements: Sequence[JsonObject], base: TableMetadata | None) -> None:
    """Check every requirement against the current metadata, None for a table that does not exist.

    Raises:
        RequirementFailed: one does not hold.
        Invalid: one is malformed or unknown (found before any is judged).
    """
    if not isinstance(requirements, list | tuple):
        raise Invalid(f"requirements must be an array, not {members.shown(requirements)}")
    checks: list[tuple[Callable[[JsonObject, TableMetadata | None], None], JsonObject]] = []
    for requirement in requirements:
        kind = members.text(members.json_object(requirement, "a requirement"), "type", "a requirement")
        if kind not in _SHAPES:
            raise Invalid(f"unknown requirement type {kind[:80]!r}")
        _SHAPES[kind](requirement)
        checks.append((_CHECKS[kind], requirement))
    for holds, requirement in checks:
        holds(requirement, base)


def check_view(requirements: Sequence[JsonObject], base: ViewMetadata) -> None:
    """Check every requirement against the current metadata of a view; `assert-view-uuid` is the only one.

    Raises:
        RequirementFailed: one does not hold.
        Invalid: one is malformed or unknown (found before any is judged).
    """
    if not isinstance(requirements, list | tuple):
        raise Invalid(f"requirements must be an array, not {members.shown(requirements)}")
    wanted = []
    for requirement in requirements:
        kind = members.text(members.json_object(requirement, "a requirement"), "type", "a requirement")
        if kind != "assert-view-uuid":
            raise Invalid(f"unknown requirement type for a view {kind[:80]!r}")
        wanted.append(members.text(requirement, "uuid", kind))
    for uuid in wanted:
        if uuid.lower() != base.uuid.lower():
            raise RequirementFailed(
                f"Requirement failed: view UUID does not match: expected {base.uuid} != {uuid}"
            )


def _existing(base: TableMetadata | None) -> TableMetadata:
    if base is None:
        raise RequirementFailed("Requirement failed: current table metadata is missing")
    return base


def _create(_: JsonObject, base: TableMetadata | None) -> None:
    if base is not None:
        raise RequirementFailed("Requirement failed: table already exists")


def _uuid(requirement: JsonObject, base: TableMetadata | None) -> None:
    current = _existing(base).uuid
    if current is None or current.lower() != requirement["uuid"].lower():
        raise RequirementFailed(
            f"Requirement failed: UUID does not match: expected {current or 'null'} != {requirement['uuid']}"
        )


def _ref(requirement: JsonObject, base: TableMetadata | None) -> None:
    name, expected = requirement["ref"], requirement.get("snapshot-id")
    ref = None if base is None else base.refs.get(name)
    if ref is None:
        if expected is not None:
            raise RequirementFailed(
                f"Requirement failed: branch or tag {name} is missing, expected {expected}"
            )
        return
    if expected is None:
        raise RequirementFailed(f"Requirement failed: {ref['type']} {name} was created concurrently")
    if expected != ref["snapshot-id"]:
        raise RequirementFailed(
            f"Requirement failed: {ref['type']} {name} has changed: "
            f"expected id {expected} != {ref['snapshot-id']}"
        )


def _refs(requirement: JsonObject, base: TableMetadata | None) -> None:
    """`{"type": "assert-refs", "refs": [...]}`: the table's branches and tags are exactly those (our extension)."""
    changed = sorted(_existing(base).refs.keys() ^ set(requirement["refs"]))
    if changed:
        raise RequirementFailed(
            f"Requirement failed: branches or tags were created or removed concurrently: {', '.join(changed)}"
        )


def _last_field_id(requirement: JsonObject, base: TableMetadata | None) -> None:
    if base is not None:
        _equal("last assigned field id", requirement["last-assigned-field-id"], base.last_column_id)


def _schema_id(requirement: JsonObject, base: TableMetadata | None) -> None:
    _equal("current schema", requirement["current-schema-id"], _existing(base).current_schema_id)


def _last_partition_id(requirement: JsonObject, base: TableMetadata | None) -> None:
    if base is not None:
        given = requirement["last-assigned-partition-id"]
        _equal("last assigned partition id", given, base.last_partition_id)


def _spec_id(requirement: JsonObject, base: TableMetadata | None) -> None:
    _equal("default partition spec", requirement["default-spec-id"], _existing(base).default_spec_id)


def _order_id(requirement: JsonObject, base: TableMetadata | None) -> None:
    current = _existing(base).default_sort_order_id
    _equal("default sort order", requirement["default-sort-order-id"], current)


def _equal(what: str, expected: int, current: int) -> None:
    if expected != current:
        raise RequirementFailed(f"Requirement failed: {what} changed: expected id {expected} != {current}")


def _needs_integer(key: str) -> Callable[[JsonObject], None]:
    def shape(requirement: JsonObject) -> None:
        members.integer(requirement, key, requirement["type"])

    return shape


def _uuid_shape(requirement: JsonObject) -> None:
    members.text(requirement, "uuid", "assert-table-uuid")


def _ref_shape(requirement: JsonObject) -> None:
    members.text(requirement, "ref", "assert-ref-snapshot-id")
    # Without the key it means null: the ref must not exist.
    members.optional_integer(requirement, "snapshot-id", "assert-ref-snapshot-id")


def _refs_shape(requirement: JsonObject) -> None:
    members.texts(requirement, "refs", "assert-refs")


def _create_shape(_: JsonObject) -> None:
    """No members."""


_SHAPES: dict[str, Callable[[JsonObject], None]] = {
    "assert-create": _create_shape,
    "assert-table-uuid": _uuid_shape,
    "assert-ref-snapshot-id": _ref_shape,
    "assert-refs": _refs_shape,
    "assert-last-assigned-field-id": _needs_integer("last-assigned-field-id"),
    "assert-current-schema-id": _needs_integer("current-schema-id"),
    "assert-last-assigned-partition-id": _needs_integer("last-assigned-partition-id"),
    "assert-default-spec-id": _needs_integer("default-spec-id"),
    "assert-default-sort-order-id": _needs_integer("default-sort-order-id"),
}
_CHECKS: dict[str, Callable[[JsonObject, TableMetadata | None], None]] = {
    "assert-create": _create,
    "assert-table-uuid": _uuid,
    "assert-ref-snapshot-id": _ref,
    "assert-refs": _refs,
    "assert-last-assigned-field-id": _last_field_id,
    "assert-current-schema-id": _schema_id,
    "assert-last-assigned-partition-id": _last_partition_id,
    "assert-default-spec-id": _spec_id,
    "assert-default-sort-order-id": _order_id,
}
