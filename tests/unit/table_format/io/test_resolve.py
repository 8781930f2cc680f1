"""Schemes and the stores behind them."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from table_format.clock import SystemClock
from table_format.errors import Invalid, Unsupported
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from table_format.io.resolve import store_for
from table_format.io.store import ObjectStore


@pytest.mark.parametrize("location", ["file:///data/t", "file:/data/t"])
def test_file(location: str) -> None:
    assert isinstance(store_for(location), LocalObjectStore)


def test_memory_is_shared_by_authority() -> None:
    store_for("memory://one/a").put("memory://one/a", b"1")
    assert store_for("memory://one/b/c").get("memory://one/a") == b"1"
    assert not store_for("memory://two/a").exists("memory://one/a")


@pytest.mark.parametrize("location", ["/data/t", "data", "", "file://host/x", "file:///a/../b"])
def test_no_location(location: str) -> None:
    with pytest.raises(Invalid):
        store_for(location)


def test_an_unknown_scheme_says_what_to_do() -> None:
    with pytest.raises(Unsupported, match=r"gopher://.*file:///.*table_format.object_stores"):
        store_for("gopher://hole/t")


def plugin(location: str, properties: Mapping[str, str]) -> ObjectStore:
    assert location == "crate://b/t"
    assert properties == {"k": "v"}
    return MemoryObjectStore(SystemClock())


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    info = tmp_path / "crate_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crate-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[table_format.object_stores]\ncrate = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_third_party_attaches_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crate_store.py").write_text("plugin = None\n")
    install(tmp_path, monkeypatch, "crate_store:plugin")
    module = __import__("crate_store")
    monkeypatch.setattr(module, "plugin", plugin)
    monkeypatch.setitem(sys.modules, "crate_store", module)
    assert isinstance(store_for("crate://b/t", {"k": "v"}), MemoryObjectStore)
    with pytest.raises(Unsupported, match=r"use file:/// or s3:// or oss:// or crate://, or install"):
        store_for("gopher://hole/t")


def test_a_broken_plugin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "no_such_module_anywhere:plugin")
    with pytest.raises(Unsupported, match="no_such_module_anywhere"):
        store_for("crate://b/t")
