"""Tables of format version 3 that Java makes, through a whole life in the running server: nothing is lost.

Java writes rows, deletion vectors, defaults, variants and geometries. Java, our appender and writer, and PyIceberg
commit; our maintenance expires and removes. After each step Java and our own reader read every row, with its id and
the sequence number of its last change.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from table_format.catalog import LoadedTable
from table_format.clock import SystemClock, SystemIds
from table_format.commit.append import append
from table_format.commit.change import Change
from table_format.commit.retry import commit_with_retry
from table_format.ident import TableIdent
from table_format.io.resolve import store_for
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.rest import RestCatalog
from table_format.scan.deletes import read_task
from table_format.scan.plan import snapshot_files
from table_format.write.parquet import TableWriter
from tests.factories.metadata_documents import field, struct
from tests.java.driver import IcebergJava, iceberg_java
from tests.process.servers import Server, serving

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(240)]

FAST = {
    "FRAZIL_MAINTENANCE__ALLOW_UNSAFE": "true",
    "FRAZIL_MAINTENANCE__TICK_SECONDS": "0.3",
    "FRAZIL_MAINTENANCE__POLL_SECONDS": "0.1",
}
POLICIES = {
    "icebergCompaction": {"minInputFiles": 2, "triggerFileCount": 1000},
    "icebergManifests": {"minManifests": 2},
    "icebergSnapshotManagement": {"minSnapshotsToKeep": 1, "maxSnapshotAgeSeconds": 1},
    "icebergUnreferencedFileRemoval": {"unreferencedSeconds": 1, "nonCurrentSeconds": 1},
}
MANY_RETRIES = {"format-version": "3", "commit.retry.num-retries": "50", "commit.retry.max-wait-ms": "500"}
EXACT = "1234567890123456789012345678.0123456789"
KEYS = [
    {"key-id": "k1", "encrypted-key-metadata": "eA==", "properties": {"a": "b"}},
    {"key-id": "k2", "encrypted-key-metadata": "AAECAw==", "encrypted-by-id": "k1"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), env=FAST, maintenance=True) as running:
        for kind, settings in POLICIES.items():
            document = {"status": "enabled", "settings": {**settings, "intervalSeconds": 86400}}
            url = f"{running.api}/buckets/default/policies/{kind}"
            requests.put(url, json=document, timeout=30).raise_for_status()
        body = {"namespace": ["db"]}
        requests.post(f"{running.iceberg}/v1/default/namespaces", json=body, timeout=30).raise_for_status()
        yield running


class Life:
    """One table, and what must be in it: by `id` the row id, the sequence number and `d`."""

    def __init__(self, server: Server, java: IcebergJava, name: str) -> None:
        self.server = server
        self.java = java
        self.name = name
        self.url = f"{server.iceberg}/v1/default/namespaces/db/tables/{name}"
        self.catalog = RestCatalog(server.iceberg, "default")
        self.expected: dict[int, tuple[int, int, str | None]] = {}

    def ask(self, command: str, **members: Any) -> Any:
        return self.java.ask(command, uri=self.server.iceberg, table=f"db.{self.name}", **members)

    @property
    def metadata(self) -> Any:
        answer = requests.get(self.url, timeout=30)
        answer.raise_for_status()
        return answer.json()["metadata"]

    def update(self, *updates: Any) -> None:
        body = {"requirements": [], "updates": list(updates)}
        requests.post(self.url, json=body, timeout=30).raise_for_status()

    def read(self, **scan: Any) -> dict[int, tuple[int, int, str | None]]:
        rows = self.ask("rows", **scan)
        found = {
            int(row["id"]): (int(row["_row_id"]), int(row["_last_updated_sequence_number"]), row.get("d"))
            for row in rows
        }
        assert len(found) == len(rows), "a row is there twice"
        return found

    def read_ours(self) -> dict[int, tuple[int, int, str | None]]:
        """The same by our own reader, in those columns whose types it has."""
        document = self.metadata
        schema = next(s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"])
        readable = schema | {"fields": [f for f in schema["fields"] if f["name"] in ("id", "d")]}
        metadata = TableMetadata(document | {"schemas": [readable]})
        store = store_for(metadata.location)
        rows = [
            row
            for task in snapshot_files(store, metadata).tasks
            for batch in read_task(store, task, metadata, lineage=True)
            for row in batch.to_pylist()
        ]
        found = {
            row["id"]: (
                row["_row_id"],
                row["_last_updated_sequence_number"],
                None if row.get("d") is None else str(row["d"]),
            )
            for row in rows
        }
        assert len(found) == len(rows), "a row is there twice"
        return found

    def check(self) -> None:
        assert self.read() == self.expected
        assert self.read_ours() == self.expected

    def append_ours(self, write: Any) -> None:
        """Files that `write` makes for the table, committed by our appender."""

        def build(table: LoadedTable) -> Change:
            store = store_for(table.metadata.location)
            files = write(table)
            return append(store, table, files, summary={}, clock=SystemClock(), ids=SystemIds(), merge_min=2)

        ident = TableIdent.of("db", self.name)
        store = store_for(self.catalog.load(ident).metadata.location)
        commit_with_retry(self.catalog, ident, build, store=store, clock=SystemClock(), ids=SystemIds())

    def job(self, kind: str) -> Any:
        """The report of a maintenance job of that kind."""
        url = f"{self.server.api}/buckets/default/namespaces/db/tables/{self.name}/jobs"
        answer = requests.post(url, json={"kind": kind}, timeout=30)
        answer.raise_for_status()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            job = requests.get(f"{self.server.api}/jobs/{answer.json()['id']}", timeout=30).json()
            if job["state"] in ("done", "failed"):
                assert job["state"] == "done", job
                return job["report"]
            time.sleep(0.1)
        raise TimeoutError(f"the job did not end: {job}")

    def until(self, kind: str, reached: Any) -> None:
        """Run the job until its age limits have passed and it has had its effect."""
        deadline = time.monotonic() + 60
        while not reached():
            assert time.monotonic() < deadline, f"{kind} has no effect"
            self.job(kind)


def disk(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:"))


def batch_writer(*numbers: int) -> Callable[[LoadedTable], list[DataFile]]:
    """Writes one file with the rows, as ingest does."""

    def write(table: LoadedTable) -> list[DataFile]:
        store = store_for(table.metadata.location)
        writer = TableWriter(store=store, metadata=table.metadata, ids=SystemIds(), target_bytes=2**20)
        columns = {"id": pa.array(numbers, pa.int64()), "d": pa.array([None] * len(numbers), pa.string())}
        writer.write(pa.RecordBatch.from_pydict(columns))
        return writer.flush()

    return write


def test_a_table_made_by_java_keeps_everything(server: Server, java: IcebergJava) -> None:
    life = Life(server, java, "all")
    columns = [
        field(1, "id", required=True),
        field(2, "v", "variant"),
        field(3, "g", "geometry(EPSG:3857)"),
        field(4, "ns", "timestamp_ns"),
        field(5, "u", "unknown"),
    ]
    life.ask("createTable", schema=struct(*columns), properties={"format-version": "3"})
    life.update(*({"action": "add-encryption-key", "encryption-key": key} for key in KEYS))

    def row(number: int, **more: Any) -> Any:
        return {
            "id": number,
            "v": number * 10,
            "g": float(number),
            "ns": "2024-01-01T00:00:00.000000001",
            **more,
        }

    # Rows from before the column, whose value is its exact default, and rows from after it.
    first = life.ask("append", rows=[row(number) for number in range(3)])
    life.ask("addColumn", name="d", type="decimal(38, 10)", default=EXACT)
    life.ask("append", rows=[row(number, d="1.0000000000") for number in range(3, 6)])
    life.expected = {number: (number, 1, EXACT) for number in range(3)}
    life.expected |= {number: (number, 2, "1.0000000000") for number in range(3, 6)}
    life.check()
    everything, tagged = dict(life.expected), life.metadata["current-snapshot-id"]
    life.update({"action": "set-snapshot-ref", "ref-name": "whole", "type": "tag", "snapshot-id": tagged})

    # Deletion vectors, the second one in place of the first; a statistics file.
    vectors = [life.ask("delete", path=first["path"], positions=[position])["path"] for position in (1, 0)]
    del life.expected[0], life.expected[1]
    life.check()
    statistics = life.ask("statistics")["path"]

    # Our appender, with a file that Java wrote; it merges the manifests on its way.
    file = life.ask("append", rows=[row(6, d=EXACT), row(7, d=EXACT)], commit=False)
    ours = DataFile(file_path=file["path"], record_count=file["records"], file_size_in_bytes=file["size"])
    following = life.metadata["next-row-id"]
    life.append_ours(lambda _: [ours])
    life.expected |= {6: (following, 5, EXACT), 7: (following + 1, 5, EXACT)}
    life.check()
    assert life.metadata["next-row-id"] > following + 1
    # And Java after us.
    following = life.metadata["next-row-id"]
    life.ask("append", rows=[row(8, d=EXACT)])
    life.expected[8] = (following, 6, EXACT)
    life.check()

    # Manifests written anew keep row ids and sequence numbers, of files and of vectors.
    assert life.job("icebergManifests")["figures"]["manifestsReplaced"] > 1
    life.check()
    assert life.read(snapshot=tagged) == everything

    # Compaction leaves a table with such columns alone, and says why.
    before = life.metadata
    assert (
        "column 'v' is of type variant, which is not rewritten here"
        in life.job("icebergCompaction")["reason"]
    )
    assert life.metadata == before

    # Expiration leaves the head and the tag.
    head = before["current-snapshot-id"]
    life.until(
        "icebergSnapshotManagement",
        lambda: {one["snapshot-id"] for one in life.metadata["snapshots"]} == {head, tagged},
    )
    life.check()
    assert life.read(snapshot=tagged) == everything
    # The vector that was replaced went with its snapshot, as did the statistics; the one in use stays.
    assert [disk(vector).exists() for vector in vectors] == [False, True]
    assert not disk(statistics).exists()

    # Removal of unreferenced files takes a stray, and nothing else.
    statistics = life.ask("statistics")["path"]
    stray = disk(first["path"]).with_name("stray.parquet")
    stray.write_bytes(b"x")
    old = {path for path in disk(before["location"]).rglob("*") if path.is_file()} - {stray}
    for path in (*old, stray):
        os.utime(path, (1, 1))
    life.until("icebergUnreferencedFileRemoval", lambda: not stray.exists())
    life.check()
    assert life.read(snapshot=tagged) == everything
    assert disk(statistics).exists()
    assert disk(vectors[1]).exists()

    # Dropped without its files and registered anew, it is the same table.
    kept = life.metadata
    where = requests.get(life.url, timeout=30).json()["metadata-location"]
    requests.delete(life.url, timeout=30).raise_for_status()
    body = {"name": life.name, "metadata-location": where}
    register = f"{server.iceberg}/v1/default/namespaces/db/register"
    requests.post(register, json=body, timeout=30).raise_for_status()
    assert life.metadata == kept
    life.check()
    assert kept["encryption-keys"] == KEYS
    assert [one["type"] for one in kept["schemas"][0]["fields"]] == [one["type"] for one in columns]
    assert kept["schemas"][1]["fields"][-1]["initial-default"] == EXACT
    assert [one["snapshot-id"] for one in kept["statistics"]] == [head]
    life.update({"action": "remove-encryption-key", "key-id": "k2"})
    assert life.metadata["encryption-keys"] == KEYS[:1]
    life.check()

    # Without those columns it is compacted: one file, no vector, each row with its id, last change and values.
    schema = life.metadata["schemas"][-1]
    columns = [column for column in schema["fields"] if column["name"] not in ("v", "g")]
    life.update(
        {"action": "add-schema", "schema": {**schema, "schema-id": 9, "fields": columns}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    rows = life.ask("rows")
    report = life.job("icebergCompaction")
    figures = report["figures"]
    assert [figures[key] for key in ("filesRewritten", "rowsDeleted", "dataFilesAfter")] == [4, 2, 1]
    life.check()
    by_id = {row["id"]: row for row in rows}
    assert {row["id"]: row for row in life.ask("rows")} == by_id
    assert {row["ns"] for row in rows} == {"2024-01-01T00:00:00.000000001"}
    assert life.metadata["snapshots"][-1]["summary"]["total-delete-files"] == "0"
    # And Java goes on from there.
    following = life.metadata["next-row-id"]
    life.ask("append", rows=[{"id": 9, "d": EXACT}])
    life.expected[9] = (following, life.metadata["last-sequence-number"], EXACT)
    life.check()


def test_our_writer_and_pyiceberg_on_an_upgraded_table(server: Server, java: IcebergJava) -> None:
    """Rows from before the upgrade have no ids until the next commit gives them some, once and for all."""
    life = Life(server, java, "upgraded")
    life.ask("createTable", schema=struct(field(1, "id"), field(2, "d", "string")), properties={})

    life.append_ours(batch_writer(0, 1))
    theirs = load_catalog("c", type="rest", uri=server.iceberg).load_table("db.upgraded")
    life.update({"action": "upgrade-format-version", "format-version": 3})
    assert [row["_row_id"] for row in life.ask("rows")] == [None, None]
    life.append_ours(batch_writer(2))
    life.expected = {0: (1, 1, None), 1: (2, 1, None), 2: (0, 2, None)}
    life.check()
    # A client that knows format version 2 only sets a property and a tag.
    theirs = theirs.refresh()
    with theirs.transaction() as transaction:
        transaction.set_properties({"by": "pyiceberg"})
    with theirs.manage_snapshots() as manage:
        manage.create_tag(theirs.metadata.current_snapshot_id, "theirs")
    assert life.metadata["properties"]["by"] == "pyiceberg"
    assert life.metadata["refs"]["theirs"]["snapshot-id"] == life.metadata["current-snapshot-id"]
    assert life.metadata["next-row-id"] == 3
    file = life.ask("append", rows=[{"id": 3, "d": "x"}])
    life.expected[3] = (3, 3, "x")
    life.check()
    # Our manifests, merged by ours and carried by Java, with a vector of Java's.
    life.append_ours(batch_writer(4))
    following = life.metadata["next-row-id"]
    life.expected[4] = (life.metadata["snapshots"][-1]["first-row-id"], 4, None)
    life.check()
    life.ask("delete", path=file["path"], positions=[0])
    del life.expected[3]
    life.append_ours(batch_writer(5))
    life.expected[5] = (following, 6, None)
    life.check()
    assert life.job("icebergManifests")["figures"]["manifestsReplaced"] > 1
    life.check()
    report = life.job("icebergCompaction")
    assert [report["figures"][key] for key in ("rowsDeleted", "dataFilesAfter")] == [1, 1]
    life.check()


def test_writers_that_race_never_share_row_ids(server: Server, java: IcebergJava, tmp_path: Path) -> None:
    """Two Java engines and our appender on one table: whoever loses takes ids anew, every row has one of its own."""
    life = Life(server, java, "raced")
    life.ask("createTable", schema=struct(field(1, "id"), field(2, "d", "string")), properties=MANY_RETRIES)

    def append_as(engine: IcebergJava, first: int) -> None:
        for number in range(first, first + 4):
            rows = [{"id": 10 * number + part} for part in range(3)]
            engine.ask("append", uri=server.iceberg, table="db.raced", rows=rows)

    def ours(first: int) -> None:
        for number in range(first, first + 4):
            life.append_ours(batch_writer(*(10 * number + part for part in range(3))))

    with iceberg_java(tmp_path / "second.log") as second, ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(append_as, java, 0), pool.submit(append_as, second, 10), pool.submit(ours, 20)]
        for future in futures:
            future.result()
    found = life.read()
    assert sorted(found) == [
        10 * (first + n) + part for first in (0, 10, 20) for n in range(4) for part in range(3)
    ]
    row_ids = [row_id for row_id, _, _ in found.values()]
    assert len(set(row_ids)) == len(row_ids) == 36
    assert max(row_ids) < life.metadata["next-row-id"]
    # Each file's rows have ids in a row, and all of one commit.
    for number in (*range(4), *range(10, 14), *range(20, 24)):
        (first, commit, _), *others = [found[10 * number + part] for part in range(3)]
        assert [row[:2] for row in others] == [(first + 1, commit), (first + 2, commit)]
    assert life.job("icebergCompaction")["figures"]["filesRewritten"] == 12
    assert life.read() == found
