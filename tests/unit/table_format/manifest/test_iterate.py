"""A manifest read from the middle is the end of the manifest read whole."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest import container, read, write
from table_format.manifest.entries import ManifestContent, ManifestFile
from table_format.manifest.read import Places, iterate_manifest, read_manifest
from table_format.manifest.write import write_manifest
from tests.factories.manifests import SNAPSHOT, added, new_file, new_metadata
from tests.fakes.clock import ManualClock

METADATA = new_metadata()
STORE = MemoryObjectStore(ManualClock())


@pytest.fixture(params=[16 << 20, 0], ids=["held", "ranged"])
def manifest(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ManifestFile:
    """Thirty entries in blocks of about three, read in one go or in pieces."""
    monkeypatch.setattr(read, "_HELD_BYTES", request.param)
    monkeypatch.setattr(container, "_WINDOW", 100)
    monkeypatch.setattr(write, "BLOCK_BYTES", 150)
    entries = [
        added(new_file(f"memory://t/data/{number}.parquet", record_count=number)) for number in range(30)
    ]
    written = write_manifest(
        STORE,
        f"memory://t/{request.node.name}.avro",
        entries,
        metadata=METADATA,
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    return replace(written, sequence_number=1, min_sequence_number=1)


@pytest.mark.parametrize("start", [0, 1, 2, 3, 4, 7, 29, 30, 31, 1000])
@pytest.mark.parametrize("first_row_id", [None, 100])
def test_from_any_entry_on(manifest: ManifestFile, start: int, first_row_id: int | None) -> None:
    described = replace(manifest, first_row_id=first_row_id)
    whole = read_manifest(STORE, described, METADATA)
    assert list(iterate_manifest(STORE, described, METADATA, start=start)) == whole[start:]
    assert len(whole) == 30


def test_the_blocks_before_are_not_expanded(manifest: ManifestFile) -> None:
    """A byte of the first block is turned: read from there the file is damaged, read from beyond it is not."""
    data = bytearray(STORE.get(manifest.path))
    sync = bytes(data[-16:])
    data[data.index(sync) + 16 + 8] ^= 0xFF
    STORE.put(manifest.path, bytes(data))
    assert len(list(iterate_manifest(STORE, manifest, METADATA, start=20))) == 10
    with pytest.raises(Invalid):
        list(iterate_manifest(STORE, manifest, METADATA))


def test_a_file_cut_off_inside_a_block_to_pass_over_is_damaged(manifest: ManifestFile) -> None:
    data = STORE.get(manifest.path)
    STORE.put(manifest.path, data[:-40])
    cut = replace(manifest, length=len(data) - 40)
    with pytest.raises(Invalid):
        list(iterate_manifest(STORE, cut, METADATA, start=30))


@pytest.mark.parametrize("first_row_id", [None, 100])
@pytest.mark.parametrize("starts", [range(0, 30, 4), range(29, -1, -3), [17, 3, 22, 3]], ids=str)
def test_places_lead_to_the_same_entries(
    manifest: ManifestFile, starts: Sequence[int], first_row_id: int | None
) -> None:
    described, places = replace(manifest, first_row_id=first_row_id), Places()
    whole = read_manifest(STORE, described, METADATA)
    for start in starts:
        part = list(islice(iterate_manifest(STORE, described, METADATA, start=start, places=places), 4))
        assert part == whole[start : start + 4]


def test_with_places_row_ids_are_not_counted_from_the_start_again(manifest: ManifestFile) -> None:
    described, places = replace(manifest, first_row_id=100), Places()
    whole = list(iterate_manifest(STORE, described, METADATA, places=places))
    data = bytearray(STORE.get(manifest.path))
    data[data.index(bytes(data[-16:])) + 16 + 8] ^= 0xFF
    STORE.put(manifest.path, bytes(data))
    assert list(iterate_manifest(STORE, described, METADATA, start=20, places=places)) == whole[20:]
    with pytest.raises(Invalid):
        list(iterate_manifest(STORE, described, METADATA, start=20))


def test_a_large_manifest_that_is_cut_off_is_damaged(manifest: ManifestFile) -> None:
    data = STORE.get(manifest.path)
    STORE.put(manifest.path, data[:-40])
    with pytest.raises(Invalid, match="is cut off"):
        list(iterate_manifest(STORE, manifest, METADATA))
