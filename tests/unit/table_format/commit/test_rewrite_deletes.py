"""Deletes stored anew: what contradicts itself is refused, what lost its race is dropped and changes nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from table_format.catalog import LoadedTable
from table_format.commit.change import Change
from table_format.commit.rewrite import Rewrite, rewrite
from table_format.commit.rewrite_deletes import DeleteRewrite
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile, ManifestEntry
from table_format.scan.plan import snapshot_files
from table_format.write.vectors import write_vectors
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock

UPGRADE: list[Any] = [{"action": "upgrade-format-version", "format-version": 3}]


def row(number: int, name: str = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


def new_lake(**options: Any) -> Lake:
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, **options)


def burdened(**options: Any) -> tuple[Lake, DataFile]:
    """A data file of three rows with two position delete files of a row each."""
    lake = new_lake(**options)
    file = lake.append_rows(row(0), row(1), row(2), partition=("a",) if options else ())
    for place in range(2):
        lake.row_delta([], [lake.position_file([(file.file_path, place)], partition=file.partition)])
    return lake, file


def deletes(lake: Lake) -> list[ManifestEntry]:
    return snapshot_files(lake.store, lake.metadata).delete_entries


def merge(lake: Lake, file: DataFile) -> DeleteRewrite:
    head = lake.metadata.current_snapshot
    assert head is not None
    return DeleteRewrite(
        data=[task.entry for task in lake.tasks() if task.entry.data_file.file_path == file.file_path],
        deletes=deletes(lake),
        output=lake.position_file([(file.file_path, 0), (file.file_path, 1)], partition=file.partition),
        named=frozenset({file.file_path}),
        base_snapshot_id=head["snapshot-id"],
        base_sequence_number=head["sequence-number"],
    )


def vector(lake: Lake, file: DataFile) -> DeleteRewrite:
    path = lake.path("v")
    (output,) = write_vectors(lake.store, path, [(file, np.array([0, 1]))], created_by="x")
    return replace(merge(lake, file), output=output)


def send(lake: Lake, *changes: DeleteRewrite) -> list[Rewrite]:
    dropped: list[Rewrite] = []

    def build(table: LoadedTable) -> Change | None:
        change, lost = rewrite(
            lake.store, table, [], summary={}, clock=lake.clock, ids=lake.ids, deletes=changes
        )
        dropped[:] = lost
        return change

    lake.commit(build)
    return dropped


def test_merged_and_vector() -> None:
    lake, file = burdened()
    assert send(lake, merge(lake, file)) == []
    (left,) = deletes(lake)
    assert (left.sequence_number, left.file_sequence_number, lake.rows()) == (3, 4, [row(2)])
    lake.catalog.commit(IDENT, [], UPGRADE)
    assert send(lake, vector(lake, file)) == []
    (left,) = deletes(lake)
    assert (left.data_file.referenced_data_file, lake.rows()) == (file.file_path, [row(2)])


def test_what_contradicts_itself_is_refused() -> None:
    lake, file = burdened(spec=BY_NAME)
    other = lake.append_rows(row(9, "b"), partition=("b",))
    good = merge(lake, file)
    lake.append_rows(row(5), partition=("a",))
    data = replace(good, output=lake.data_file([row(1)], partition=("a",)))
    keys = lake.equality_file([row(1)], [1], partition=("a",))
    odd = replace(good.deletes[0], data_file=keys)
    moved = replace(vector(lake, file), data=[t.entry for t in lake.tasks() if t.entry.data_file == other])
    for fault, change in (
        ("has an output that deletes no positions", data),
        ("is of other files than position delete files", replace(good, deletes=[odd])),
        ("is of files younger than its base snapshot", replace(good, base_sequence_number=1)),
        ("mixes partitions", replace(good, output=lake.position_file([("x", 1)], partition=("b",)))),
        ("has a vector of another data file", moved),
    ):
        with pytest.raises(Invalid, match=fault):
            send(lake, change)
    with pytest.raises(Invalid, match="rewritten twice in one commit"):
        send(lake, good, good)
    with pytest.raises(Invalid, match="if the one were dropped, the other would be wrong"):
        rewrite(
            lake.store,
            lake.table,
            [lake.group([t for t in lake.tasks() if t.entry.data_file.file_path == file.file_path])],
            summary={},
            clock=lake.clock,
            ids=lake.ids,
            deletes=[good],
        )
    assert lake.rows() == [row(2), row(5), row(9, "b")]


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_not_as_it_was_read_is_dropped(version: int) -> None:
    def read() -> tuple[Lake, DataFile, DeleteRewrite]:
        lake, file = burdened()
        if version == 3:
            lake.catalog.commit(IDENT, [], UPGRADE)
        return lake, file, (merge if version == 2 else vector)(lake, file)

    # One of the delete files went: its row is back.
    lake, _, change = read()
    head = lake.metadata.current_snapshot
    assert head is not None
    back = {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": head["parent-snapshot-id"],
    }
    lake.catalog.commit(IDENT, [], [back])
    assert send(lake, change) == [change]
    assert lake.rows() == [row(1), row(2)]
    # The table is of another version, where there is such.
    if version == 2:
        lake, _, change = read()
        lake.catalog.commit(IDENT, [], UPGRADE)
        assert send(lake, change) == [change]
        assert lake.rows() == [row(2)]
    # The data file was rewritten, and its deletes went along.
    lake, _, change = read()
    lake.rewrite(replace(lake.group(), keeps_lineage=True))
    assert send(lake, change) == [change]
    assert (lake.rows(), deletes(lake)) == ([row(2)], [])


def test_a_path_that_is_live_again_drops_the_merge() -> None:
    """What the files say of it was left out, as it was gone."""
    lake, file = burdened()
    late = lake.data_file([row(7), row(8)])
    lake.row_delta([], [lake.position_file([(late.file_path, 0)])])
    change = replace(merge(lake, file), named=frozenset({file.file_path, late.file_path}))
    lake.append(late)
    assert send(lake, change) == [change]
    assert lake.rows() == [row(2), row(7), row(8)]
