"""What holds for any commit: unknown keys survive, the base is untouched, what is accepted can be read back,
and what is malformed is refused with an error of ours."""

import copy
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.errors import TableFormatError
from table_format.metadata import create, requirements, updates
from table_format.metadata.document import TableMetadata
from tests.factories import metadata_histories as histories
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    SCHEMA,
    UUID,
    applied,
    set_ref,
    table,
    with_history,
)

# Objects that are maps by names of the user's own: an extra key there would be an entry, not an unknown member.
MAPS = {"properties", "summary", "refs"}
NOTE = "x-invented"


def annotated(value: Any, path: str = "") -> Any:
    """A copy with an invented key, itself holding an object, in every object at every level."""
    if isinstance(value, list):
        return [annotated(item, f"{path}[{number}]") for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    copied = {key: annotated(item, f"{path}.{key}") for key, item in value.items()}
    return copied if path.rpartition(".")[2] in MAPS else {**copied, NOTE: {"at": [path, 1.5, None]}}


def notes(value: Any) -> set[str]:
    """Where the invented keys stand that are still there."""
    if isinstance(value, list):
        return set().union(*(notes(item) for item in value))
    if not isinstance(value, dict):
        return set()
    own = {value[NOTE]["at"][0]} if NOTE in value else set()
    return own.union(*(notes(item) for key, item in value.items() if key != NOTE))


@cache
def rich_table(version: int) -> TableMetadata:
    """A table that has something at every level."""
    nested = {
        "type": "struct",
        "fields": [
            *SCHEMA["fields"],
            {
                "id": 4,
                "name": "m",
                "required": False,
                "type": {
                    "type": "map",
                    "key-id": 5,
                    "key": "string",
                    "value-id": 6,
                    "value": {"type": "list", "element-id": 7, "element": "int", "element-required": False},
                    "value-required": False,
                },
            },
        ],
    }
    file = {"snapshot-id": 1, "statistics-path": f"{LOCATION}/s", "file-size-in-bytes": 1}
    blob = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"a": "b"}}
    key = {"key-id": "k", "encrypted-key-metadata": "eA==", "properties": {"a": "b"}}
    part = {"source-id": 1, "name": "b", "transform": "bucket[3]"}
    sort = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
    base = applied(
        with_history(2, version=min(version, 2)),
        {"action": "add-schema", "schema": nested},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [part]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": [sort]}},
        set_ref(1, "v1", "tag"),
        {
            "action": "set-statistics",
            "statistics": {**file, "file-footer-size-in-bytes": 1, "blob-metadata": [blob]},
        },
        {"action": "set-partition-statistics", "partition-statistics": file},
        {"action": "add-encryption-key", "encryption-key": key},
    )
    if version == 3:
        base = applied(base, {"action": "upgrade-format-version", "format-version": 3})
    return base


@cache
def with_notes(version: int) -> TableMetadata:
    document = annotated(rich_table(version).document)
    if version == 1:
        # Derived from the lists, and written anew from them.
        document = {
            **document,
            "schema": document["schemas"][-1],
            "partition-spec": document["partition-specs"][-1]["fields"],
        }
    return TableMetadata.parse(TableMetadata(document).to_bytes())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_invented_keys_survive_at_every_level(data: st.DataObject) -> None:
    metadata = with_notes(data.draw(st.sampled_from([1, 2, 3])))
    expected = notes(metadata.document)
    assert len(expected) > 25
    steps = (*histories.ADDING, histories.OTHER[0], histories.OTHER[2])
    for _ in range(data.draw(st.integers(1, 6))):
        metadata = applied(metadata, *histories.commit(data.draw, metadata, steps))
        assert expected - notes(metadata.document) == set()
    again = TableMetadata.parse(metadata.to_bytes())
    assert expected - notes(again.document) == set()


def test_invented_keys_of_a_table_with_only_legacy_members_survive() -> None:
    document = dict(
        table(version=1, spec={"fields": [{"source-id": 1, "name": "b", "transform": "bucket[3]"}]}).document
    )
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id"):
        del document[key]
    metadata = TableMetadata.parse(TableMetadata(annotated(document)).to_bytes())
    new = applied(metadata, {"action": "set-properties", "updates": {"a": "b"}})
    assert notes(metadata.document) - notes(new.document) == set()
    assert NOTE in new.document["schemas"][0]
    assert NOTE in new.document["partition-specs"][0]["fields"][0]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_base_is_untouched_and_the_new_one_is_valid(data: st.DataObject) -> None:
    metadata = rich_table(data.draw(st.sampled_from([1, 2])))
    steps = (*histories.ADDING, *histories.OTHER, *histories.REMOVING)
    for _ in range(data.draw(st.integers(1, 6))):
        before = copy.deepcopy(metadata.document)
        try:
            new = applied(metadata, *histories.commit(data.draw, metadata, steps))
        except TableFormatError:
            new = metadata
        assert metadata.document == before
        assert TableMetadata.parse(new.to_bytes()) == new
        metadata = new


SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 1, 2, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 1.5, float("nan"), float("inf")]
    ),
    st.sampled_from(
        ["", "main", "-1", "1", "struct", "list", "append", "branch", "decimal(1,2)", "\ud800", "ü"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "type", "fields", "snapshot-id", "x"]), inner, max_size=3),
    ),
    max_leaves=5,
)


def damaged(draw: Any, value: Any) -> Any:
    """A copy in which one place holds something else, or nothing, or once more what it held."""
    places: list[tuple[Any, Any]] = []
    root = copy.deepcopy(value)

    def collect(container: Any) -> None:
        for key in list(container.keys() if isinstance(container, dict) else range(len(container))):
            places.append((container, key))
            if isinstance(container[key], (dict, list)):
                collect(container[key])

    collect(root)
    container, key = draw(st.sampled_from(places))
    how = draw(st.sampled_from(["replace", "drop", "repeat"]))
    if how == "replace":
        container[key] = draw(VALUES)
    elif how == "drop":
        del container[key]
    elif isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    else:
        container[draw(st.sampled_from(["x", "snapshot-id", "type", "name"]))] = copy.deepcopy(container[key])
    return root


WHOLE_TABLE = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": rich_table(2).schema()},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": rich_table(2).spec()},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": rich_table(2).sort_orders[1]},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-location", "location": LOCATION},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "add-snapshot", "snapshot": rich_table(2).snapshots[0]},
    {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": 1,
        "max-ref-age-ms": 5,
    },
    {"action": "set-statistics", "statistics": rich_table(2).statistics[0]},
    {"action": "set-partition-statistics", "partition-statistics": rich_table(2).partition_statistics[0]},
    {"action": "add-encryption-key", "encryption-key": rich_table(2).document["encryption-keys"][0]},
]
REQUIREMENTS = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
]


def readable(metadata: TableMetadata) -> None:
    assert TableMetadata.parse(metadata.to_bytes()).to_bytes() == metadata.to_bytes()


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_updates_are_refused_or_give_readable_metadata(data: st.DataObject) -> None:
    found = damaged(data.draw, WHOLE_TABLE)
    if data.draw(st.booleans()):
        found = damaged(data.draw, found)
    for make in (
        lambda: updates.start(found, now_ms=NOW, location=None),
        lambda: applied(rich_table(2), *found[2:]),
        lambda: applied(table(version=1), *found[2:]),
    ):
        try:
            metadata = make()
        except TableFormatError:
            continue
        readable(metadata)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_requirements_hold_or_fail(data: st.DataObject) -> None:
    found = damaged(data.draw, REQUIREMENTS)
    for base in (None, rich_table(2)):
        try:
            requirements.check(found, base)
        except TableFormatError:
            continue


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_files_are_refused_or_can_be_committed_to(data: st.DataObject) -> None:
    document = damaged(data.draw, rich_table(data.draw(st.sampled_from([1, 2]))).document)
    try:
        metadata = TableMetadata.parse(TableMetadata(document).to_bytes())
        requirements.check([{"type": "assert-ref-snapshot-id", "ref": "gone"}], metadata)
        new = applied(
            metadata,
            {"action": "set-properties", "updates": {"new": "one"}},
            {"action": "remove-snapshots", "snapshot-ids": [1]},
            {"action": "add-schema", "schema": SCHEMA},
            {"action": "add-spec", "spec": {"fields": []}},
            {"action": "set-current-schema", "schema-id": metadata.current_schema_id},
        )
    except TableFormatError:
        return
    readable(new)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_creations_are_refused_or_give_readable_metadata(data: st.DataObject) -> None:
    arguments = {
        "schema": rich_table(2).schema(),
        "partition_spec": rich_table(2).spec(),
        "write_order": rich_table(2).sort_orders[1],
        "properties": {"a": "b", "format-version": "2"},
    }
    found = damaged(data.draw, arguments)
    full = {**dict.fromkeys(arguments), **{key: found[key] for key in arguments if key in found}}
    full["properties"] = full["properties"] if isinstance(full["properties"], dict) else {}
    try:
        metadata = create.new_table(**full, location=LOCATION, uuid=UUID, now_ms=NOW)
    except TableFormatError:
        return
    readable(metadata)
