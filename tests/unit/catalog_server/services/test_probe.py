"""Trying a place out: each step's verdict, and nothing left behind."""

from pathlib import Path
from typing import Any

import pytest

from catalog_server.services.probe import ProbeReport, probe
from table_format.clock import SystemClock, SystemIds
from table_format.errors import Forbidden, Invalid, Unavailable
from table_format.io.faults import Failing, Method, Rule
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from table_format.io.resolve import store_for
from table_format.io.s3 import S3ObjectStore
from table_format.io.s3_settings import read_settings
from table_format.io.store import ObjectInfo, ObjectStore
from tests.fakes.clock import ManualClock
from tests.s3 import READER_KEY, READER_SECRET, S3Server
from tests.s3_faults import Fault, faulty


def verdicts(report: ProbeReport) -> dict[str, bool | None]:
    return {step.name: step.ok for step in report.steps}


def detail(report: ProbeReport) -> str:
    return next(step.detail for step in report.steps if step.ok is False)


@pytest.fixture
def memory() -> MemoryObjectStore:
    return MemoryObjectStore(SystemClock())


def test_a_place_that_works(memory: MemoryObjectStore) -> None:
    report = probe(memory, "memory://m/x", SystemIds())
    assert verdicts(report) == {
        "write": True,
        "conditional-write": True,
        "read": True,
        "list": True,
        "delete": True,
    }
    report.require()
    assert list(memory.list("memory://m")) == []


def test_on_a_local_disk_no_directory_is_left(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for place in ("there", "there/a/b", "new/c"):
        assert probe(LocalObjectStore(), f"file://{tmp_path}/{place}", SystemIds()).ok
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_read_only_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    report = probe(LocalObjectStore(), f"file://{tmp_path}/file/x", SystemIds())
    assert verdicts(report)["write"] is False
    with pytest.raises(Invalid, match=r"write failed: .*not tried: conditional-write, read, list, delete"):
        report.require()


@pytest.mark.parametrize(
    ("method", "step"),
    [("head", "read"), ("list", "list"), ("delete_many", "delete"), ("put", "write"), ("get", "write")],
)
def test_the_step_that_failed_is_named_with_its_reason(
    memory: MemoryObjectStore, method: Method, step: str
) -> None:
    rule = Rule(methods=frozenset({method}), error=lambda: Forbidden("denied: ask for the permission"))
    report = probe(Failing(memory, [rule]), "memory://m/x", SystemIds())
    assert [name for name, ok in verdicts(report).items() if ok is False] == [step]
    with pytest.raises(Invalid, match=f"{step} failed: denied: ask for the permission"):
        report.require()
    assert list(memory.list("memory://m")) == []


class Overwriting(Failing):
    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        super().put(path, data)


class Forgetful(Failing):
    def list(self, prefix: str) -> Any:
        return iter([ObjectInfo(info.path, info.size, None) for info in super().list(prefix)])


class Keeping(Failing):
    def delete_many(self, paths: Any) -> Any:
        return []


class Empty(Failing):
    def list(self, prefix: str) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("kind", "step", "told"),
    [
        (Overwriting, "conditional-write", "s3.conditional-write=false"),
        (Forgetful, "list", "when objects were written"),
        (Empty, "list", "not in the listing"),
        (Keeping, "delete", "still there"),
    ],
)
def test_a_store_that_does_something_else(
    memory: MemoryObjectStore, kind: type[Failing], step: str, told: str
) -> None:
    store: ObjectStore = kind(memory)
    report = probe(store, "memory://m/x", SystemIds())
    assert verdicts(report)[step] is False
    assert any(told in line.detail for line in report.steps)


def test_a_write_of_unknown_outcome_is_cleared_away(memory: MemoryObjectStore) -> None:
    rule = Rule(methods=frozenset({"put"}), after=True, error=lambda: Unavailable("nobody answers"))
    assert not probe(Failing(memory, [rule]), "memory://m/x", SystemIds()).ok
    assert list(memory.list("memory://m")) == []


def test_a_real_s3_server(s3: S3Server) -> None:
    place = f"s3://{s3.bucket()}/some/where"
    assert verdicts(probe(store_for(place, s3.properties), place, SystemIds())) == dict.fromkeys(
        ("write", "conditional-write", "read", "list", "delete"), True
    )
    assert list(store_for(place, s3.properties).list(place)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"s3.access-key-id": READER_KEY, "s3.secret-access-key": READER_SECRET}, "AccessDenied"),
        ({"s3.secret-access-key": "wrong-secret-text"}, "the secret key is not the one"),
        ({"s3.endpoint": "http://127.0.0.1:9", "s3.retry.num-retries": "0"}, "can not be reached"),
    ],
)
def test_a_real_s3_server_that_refuses(s3: S3Server, change: dict[str, str], told: str) -> None:
    place = f"s3://{s3.bucket()}/x"
    report = probe(store_for(place, {**s3.properties, **change}), place, SystemIds())
    assert verdicts(report)["write"] is False
    assert told in detail(report)
    assert "wrong-secret-text" not in detail(report)


def test_a_bucket_that_is_not_there(s3: S3Server) -> None:
    report = probe(store_for("s3://nothing-here/x", s3.properties), "s3://nothing-here/x", SystemIds())
    assert "there is no bucket 'nothing-here'" in detail(report)
    assert "nothing-here" not in {found["Name"] for found in s3.client().list_buckets()["Buckets"]}


def test_a_real_s3_server_on_a_bad_day(s3: S3Server) -> None:
    with faulty(s3) as proxy:
        place = f"s3://{s3.bucket()}/x"
        clock = ManualClock()
        store = S3ObjectStore(read_settings(place, proxy.server.properties), clock=clock, ids=SystemIds())
        proxy.faults += [Fault(kind="answer_lost", pattern="^PUT"), Fault(kind="slow_down", pattern="^GET")]
        assert probe(store, place, SystemIds()).ok
        assert len(clock.sleeps) == 2
