import orjson
import pytest

from table_format.errors import Invalid
from table_format.metadata.document import TableMetadata
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


def test_views() -> None:
    metadata = applied(with_history(2), set_ref(1, "old", "tag"))
    assert metadata.format_version == 2
    assert metadata.uuid == UUID
    assert metadata.location == LOCATION
    assert metadata.properties == {"write.parquet.compression-codec": "zstd"}
    assert metadata.last_updated_ms == NOW + 3000
    assert metadata.last_sequence_number == 2
    assert metadata.last_column_id == 3
    assert metadata.last_partition_id == 999
    assert metadata.current_schema_id == 0
    assert metadata.schema() == metadata.schema(0) == {**SCHEMA, "schema-id": 0}
    assert metadata.default_spec_id == 0
    assert metadata.spec() == metadata.spec(0) == {"spec-id": 0, "fields": []}
    assert metadata.sort_orders == [{"order-id": 0, "fields": []}]
    assert metadata.default_sort_order_id == 0
    assert metadata.current_snapshot_id == 2
    assert metadata.current_snapshot is metadata.snapshots[1]
    assert metadata.snapshot(1) is metadata.snapshots[0]
    assert metadata.snapshot(9) is None
    assert metadata.snapshot(None) is None
    assert set(metadata.refs) == {"main", "old"}
    assert len(metadata.snapshot_log) == 2
    assert len(metadata.metadata_log) == 3
    assert metadata.statistics == []
    assert metadata.partition_statistics == []


def test_views_of_an_empty_table() -> None:
    for absent in (-1, None):
        metadata = TableMetadata({**table().document, "current-snapshot-id": absent})
        assert metadata.current_snapshot_id is None
        assert metadata.current_snapshot is None
        assert metadata.refs == {}


def test_last_partition_id_of_old_metadata() -> None:
    spec = {"fields": [{"source-id": 3, "name": "day", "transform": "day"}]}
    document = dict(table(spec=spec).document)
    del document["last-partition-id"]
    assert TableMetadata(document).last_partition_id == 1000


def test_no_such_schema_or_spec() -> None:
    with pytest.raises(Invalid) as schema_error:
        table().schema(7)
    assert schema_error.value.message == "table metadata has no schema with id 7"
    with pytest.raises(Invalid) as spec_error:
        table().spec(7)
    assert spec_error.value.message == "table metadata has no partition spec with id 7"


def test_bytes_round_trip_keeps_order_and_exact_numbers() -> None:
    document = {**table().document, "x-small": 0.1, "x-long": 2**63 - 1, "x-huge": 10**30, "x-ü": "é"}
    metadata = TableMetadata(document)
    again = TableMetadata.parse(metadata.to_bytes())
    assert again == metadata
    assert list(again.document) == list(document)
    assert again.document["x-huge"] == 10**30


def test_parse_refuses_what_is_not_metadata() -> None:
    with pytest.raises(Invalid, match="not valid JSON"):
        TableMetadata.parse(b"{")
    broken = {**table().document, "schemas": 5}
    with pytest.raises(Invalid, match="must be an array"):
        TableMetadata.parse(orjson.dumps(broken))
