"""Known faults of other ingest tools whose right outcome is a small fact here."""

import io
from pathlib import Path

import pyarrow.parquet as pq

from ingest_plugin import offsets
from table_format.ident import TableIdent
from table_format.scan.plan import snapshot_files
from tests.factories.ingest_lab import Lab

ROOT = Path(__file__).resolve().parents[3]


def test_ingest_case_11_offsets_are_those_of_the_topic_whatever_the_table_is_called() -> None:
    lab = Lab(topic="a.b", table="other")
    lab.json({"a": 1}, {"a": 2})
    assert lab.run().stopped == {}
    table = lab.table(TableIdent.of("demo", "other"))
    assert offsets.recorded(table.metadata, "a.b").offsets == {0: 2}
    assert offsets.recorded(table.metadata, "other").offsets == {}
    lab.json({"a": 3})
    assert lab.run().stopped == {}
    assert [row["a"] for row in lab.rows(TableIdent.of("demo", "other"))] == [1, 2, 3]


def test_ingest_case_35_files_of_dead_letters_have_field_ids() -> None:
    lab = Lab()
    lab.json({"a": 1}, [1])
    assert lab.run().stopped == {}
    letters = lab.table(TableIdent.of("demo", "flights__dead_letters"))
    ids = {field["name"]: str(field["id"]) for field in letters.metadata.schema()["fields"]}
    (task,) = snapshot_files(lab.store, letters.metadata).tasks
    schema = pq.read_schema(io.BytesIO(lab.store.get(task.entry.data_file.file_path)))
    assert {field.name: field.metadata[b"PARQUET:field_id"].decode() for field in schema} == ids


def test_ingest_case_50_pyiceberg_writes_nothing_here() -> None:
    sources = (ROOT / "ingest_plugin").rglob("*.py")
    assert [path.name for path in sources if "pyiceberg" in path.read_text("utf-8")] == []
