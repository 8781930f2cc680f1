"""Metadata from which unused schemas and specs are gone, read by Java: the same rows at the head and at the tag."""

from pathlib import Path

import pytest

from maintenance.expiration.job import run
from maintenance.ports import JobKind
from table_format.clock import SystemIds
from table_format.io.local import LocalObjectStore
from tests.factories.lake import BY_NAME, IDENT, SCHEMA, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job
from tests.java.driver import IcebergJava

pytestmark = pytest.mark.java

DAY = 86_400


def test_java_reads_a_table_whose_unused_schemas_and_specs_are_gone(
    java: IcebergJava, tmp_path: Path
) -> None:
    clock = ManualClock()
    lake = Lake(LocalObjectStore(), location=f"file://{tmp_path}", clock=clock, ids=SystemIds(), spec=BY_NAME)

    def commit(*updates: object) -> None:
        lake.catalog.commit(IDENT, [], list(updates))  # type: ignore[arg-type]

    def evolve(number: int) -> None:
        column = {"id": 2 + number, "name": f"c{number}", "required": False, "type": "long"}
        schema = {"type": "struct", "fields": [*SCHEMA["fields"], column]}
        commit(
            {"action": "add-schema", "schema": schema, "last-column-id": 10},
            {"action": "set-current-schema", "schema-id": -1},
        )

    lake.append_rows({"id": 1, "name": "a"}, partition=("a",))
    tagged = lake.metadata.current_snapshot_id
    ref = {"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": tagged}
    commit(ref)
    evolve(1)
    evolve(2)
    for transform in ("bucket[4]", "bucket[8]"):
        spec = {"fields": [{"source-id": 1, "name": transform[:-3] + transform[-2], "transform": transform}]}
        commit({"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1})
    lake.append_rows({"id": 2, "name": "b", "c2": 5}, partition=(1,))
    clock.advance(3 * DAY)
    commit({"action": "set-properties", "updates": {"a": "b"}})
    clock.advance(2 * DAY)
    asked = {"maxSnapshotAgeHours": 1, "cleanExpiredMetadata": True}
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.SNAPSHOTS: {"status": "enabled", "settings": asked}},
        ident=IDENT,
    )
    report = run(ctx, job(JobKind.SNAPSHOTS, IDENT, str(lake.metadata.uuid)))
    assert (report.figures["schemasRemoved"], report.figures["specsRemoved"]) == (["1"], ["1"])
    rows = java.ask("readRows", metadata=lake.table.metadata_location)
    assert sorted(row[0] for row in rows) == ["1", "2"]
    (row,) = java.ask("readRows", metadata=lake.table.metadata_location, snapshot=tagged)
    assert row[0] == "1"
