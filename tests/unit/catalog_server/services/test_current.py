"""A metadata file that is gone is an error only while the table still points to it."""

from pathlib import Path
from typing import Any

import pytest

from catalog_server.services.current import load_present, pointer_to_present
from catalog_server.services.documents import Document
from catalog_server.store.tables import TableRow
from table_format.errors import NoSuchFile
from table_format.ident import TableIdent
from table_format.metadata.document import TableMetadata

pytestmark = pytest.mark.anyio

T = TableIdent.of("ns", "t")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pointers:
    """A database whose pointer of the one table is at each of the places in turn, and stays at the last."""

    def __init__(self, *places: str | None) -> None:
        self._places = list(places)

    async def hot(self, *_: Any) -> TableRow | None:
        place = self._places.pop(0) if len(self._places) > 1 else self._places[0]
        if place is None:
            return None
        return TableRow(
            id=1,
            bucket_id=1,
            bucket="default",
            bucket_location="file:///b",
            namespace_id=1,
            ident=T,
            table_uuid="u",
            location="file:///b/t",
            metadata_location=place,
            previous_metadata_location=None,
            version=1,
            created_at_ms=0,
            updated_at_ms=0,
            resource_id="u",
            protected=False,
        )


class Memory:
    """A cache that holds every document, whether its file is there or not."""

    async def load(self, location: str) -> Document:
        return Document(location, b"{}", TableMetadata({"table-uuid": "u"}))


async def asked_both_ways(*places: str | None) -> set[str | None]:
    row = await pointer_to_present(Pointers(*places), "default", T)  # type: ignore[arg-type]
    found = await load_present(Pointers(*places), Memory(), "default", T)  # type: ignore[arg-type]
    return {row.metadata_location if row else None, found[0].metadata_location if found else None}


async def test_a_file_deleted_by_later_commits_is_no_error(tmp_path: Path) -> None:
    there, gone = f"file://{tmp_path}/there", f"file://{tmp_path}/gone"
    Path(tmp_path / "there").touch()
    assert await asked_both_ways(there) == {there}
    assert await asked_both_ways(gone, there) == {there}
    assert await asked_both_ways(gone, f"{gone}2", there) == {there}
    assert await asked_both_ways(gone, None) == {None}
    assert await asked_both_ways(None) == {None}


async def test_a_file_that_the_table_still_points_to_is_one(tmp_path: Path) -> None:
    gone = f"file://{tmp_path}/gone"
    with pytest.raises(NoSuchFile):
        await pointer_to_present(Pointers(gone), "default", T)  # type: ignore[arg-type]
    with pytest.raises(NoSuchFile):
        await asked_both_ways(gone)
