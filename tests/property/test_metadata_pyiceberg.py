"""Our metadata engine and pyiceberg's, given the same commits, agree (where pyiceberg follows the specification).

Left out, because pyiceberg is wrong or cannot: reuse of equal schemas, specs and orders; specs without ids;
removal of what is missing; gaps in the snapshot log; several snapshots in one commit; format v3; encryption keys.
Each of these stands, beside Java, in `tests/java/test_where_pyiceberg_is_wrong.py`.
"""

import copy
import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableUpdate, update_table_metadata

from table_format.errors import Invalid
from table_format.metadata import create, updates
from table_format.metadata.document import TableMetadata
from tests.factories import metadata_histories as histories
from tests.factories.metadata_documents import LOCATION, NOW, UUID, field, struct, table

_PARSE: TypeAdapter[Any] = TypeAdapter(tuple[TableUpdate, ...])


def normal(model: Any) -> dict[str, Any]:
    """A pyiceberg model as plain data, without the clocks that the engines read for themselves."""
    found: dict[str, Any] = model.model_dump(by_alias=True)
    found.pop("last-updated-ms")
    found["snapshot-log"] = [entry["snapshot-id"] for entry in found["snapshot-log"]]
    found["metadata-log"] = [entry["metadata-file"] for entry in found["metadata-log"]]
    known = {snapshot["snapshot-id"] for snapshot in found["snapshots"]}
    for snapshot in found["snapshots"]:
        # pyiceberg forgets a removed parent, Java and we leave its id.
        if snapshot.get("parent-snapshot-id") not in known:
            snapshot.pop("parent-snapshot-id", None)
    for key in ("statistics", "partition-statistics"):
        found[key] = sorted(found[key], key=lambda file: file["snapshot-id"])
    # In v1 pyiceberg leaves the legacy members as they were; Java and we keep them in step.
    found.pop("schema", None)
    found.pop("partition-spec", None)
    if found["format-version"] == 1:
        found.pop("last-sequence-number", None)
    return found


def theirs(model: Any, commit: list[Any], location: str) -> Any:
    # Its validators write into what they are given.
    parsed = _PARSE.validate_python(copy.deepcopy(commit))
    try:
        return update_table_metadata(model, parsed, metadata_location=location)
    except (ValueError, ValidationError):
        return None


def ours(metadata: TableMetadata, commit: list[Any], location: str) -> TableMetadata | None:
    try:
        now = metadata.last_updated_ms + 5
        return updates.apply(metadata, commit, now_ms=now, previous_location=location)
    except Invalid:
        return None


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_same_commits_same_metadata(data: st.DataObject) -> None:
    metadata = table(version=data.draw(st.sampled_from([1, 2])))
    model = TableMetadataUtil.parse_raw(metadata.to_bytes().decode())
    steps = (*histories.ADDING, *histories.OTHER, *histories.REMOVING)
    for number in range(data.draw(st.integers(1, 12))):
        commit = histories.commit(data.draw, metadata, steps)
        location = f"{LOCATION}/metadata/{number:05d}-x.metadata.json"
        new, new_model = ours(metadata, commit, location), theirs(model, commit, location)
        assert (new is None) == (new_model is None), commit
        if new is None or new is metadata:
            continue
        metadata, model = new, new_model
        again = TableMetadataUtil.parse_raw(metadata.to_bytes().decode())
        assert normal(again) == normal(model), commit
        assert TableMetadata.parse(metadata.to_bytes()) == metadata


PRIMITIVES = st.sampled_from(
    ["int", "long", "string", "date", "timestamptz", "decimal(9, 2)", "uuid", "double"]
)


@st.composite
def tables(draw: Any) -> tuple[Any, Any, Any]:
    """Schema with nested columns under odd ids, a spec and an order on some of its top-level columns."""
    numbers = iter(draw(st.permutations(range(3, 60))))

    def type_(depth: int) -> Any:
        kind = (
            draw(st.sampled_from(["primitive", "primitive", "struct", "list", "map"]))
            if depth < 3
            else "primitive"
        )
        if kind == "struct":
            return struct(*(column(f"s{i}", depth + 1) for i in range(draw(st.integers(1, 3)))))
        if kind == "list":
            return {
                "type": "list",
                "element-id": next(numbers),
                "element": type_(depth + 1),
                "element-required": draw(st.booleans()),
            }
        if kind == "map":
            return {
                "type": "map",
                "key-id": next(numbers),
                "key": draw(PRIMITIVES),
                "value-id": next(numbers),
                "value": type_(depth + 1),
                "value-required": draw(st.booleans()),
            }
        return draw(PRIMITIVES)

    def column(name: str, depth: int) -> Any:
        return field(next(numbers), name, type_(depth), required=draw(st.booleans()))

    columns = [field(0, "zero", "long", required=True), field(2, "at", "timestamptz")]
    columns += [column(f"c{i}", 1) for i in range(draw(st.integers(0, 3)))]
    schema = struct(
        *draw(st.permutations(columns)), **{"identifier-field-ids": draw(st.sampled_from([[], [0]]))}
    )
    parts = [
        {"source-id": 2, "field-id": 1000, "name": "hour", "transform": "hour"},
        {"source-id": 0, "field-id": 1001, "name": "b", "transform": "bucket[5]"},
        {"source-id": 0, "field-id": 1002, "name": "zero", "transform": "identity"},
    ]
    spec = {"spec-id": 0, "fields": draw(st.lists(st.sampled_from(parts), unique_by=lambda p: p["name"]))}
    sorts = [{"source-id": 2, "transform": "day", "direction": "desc", "null-order": "nulls-last"}]
    order = {"order-id": 1, "fields": sorts} if draw(st.booleans()) else {"order-id": 0, "fields": []}
    return schema, spec, order


@given(tables(), st.sampled_from(["1", "2"]))
@settings(max_examples=40, deadline=None)
def test_new_table_is_numbered_alike(found: tuple[Any, Any, Any], version: str) -> None:
    schema, spec, order = found
    properties = {"format-version": version, "write.parquet.compression-codec": "zstd"}
    metadata = create.new_table(
        schema=schema,
        partition_spec=spec,
        write_order=order,
        properties=properties,
        location=LOCATION,
        uuid=UUID,
        now_ms=NOW,
    )
    expected = new_table_metadata(
        Schema.model_validate(schema),
        PartitionSpec.model_validate(spec),
        SortOrder.model_validate(order),
        LOCATION,
        dict(properties),
        uuid.UUID(UUID),
    )
    assert normal(TableMetadataUtil.parse_raw(metadata.to_bytes().decode())) == normal(expected)
