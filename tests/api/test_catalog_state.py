"""The fuzzer's witness sees what a request changes, and only that."""

from pathlib import Path

import pytest

from tests.api.catalog_state import CatalogState
from tests.api.iceberg_client import Catalog, in_process


@pytest.mark.parametrize("change", ["nothing", "a namespace", "a table", "a file"])
def test_a_change_is_seen(tmp_path: Path, change: str) -> None:
    with in_process(tmp_path) as (http, _):
        catalog = Catalog(http)
        levels, _ = catalog.new_table()
        state = CatalogState(tmp_path / "data")
        http.get(catalog.table(levels, "t"))
        if change == "a namespace":
            catalog.new_namespace()
        elif change == "a table":
            catalog.create(levels, "u")
        elif change == "a file":
            (tmp_path / "data/warehouse" / levels[0] / "stray").write_bytes(b"x")
        found = state.changes()
        state.close()
    assert {
        "nothing": found == [],
        "a namespace": found == ["rows of namespaces"],
        "a table": "rows of tables" in found and any(one.endswith(".metadata.json") for one in found),
        "a file": found == [str(tmp_path / "data/warehouse" / levels[0] / "stray")],
    }[change], found
