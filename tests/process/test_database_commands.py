"""`frazil db upgrade` and `frazil worker` touch the database that is meant, and decide nothing about buckets."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.postgres import Postgres
from tests.process.servers import run_frazil, serving

pytestmark = pytest.mark.process


@pytest.fixture(params=["sqlite", "postgres"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings of an empty database of each kind, outside of any data directory."""
    if request.param == "sqlite":
        yield {"FRAZIL_DATABASE__URL": f"sqlite:///{tmp_path}/own.db"}
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.lent() as name:
        yield {"FRAZIL_DATABASE__URL": server.url(name)}


def test_an_upgrade_makes_no_bucket_and_no_directory(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    for _ in range(2):
        result = run_frazil("db", "upgrade", env=env)
        assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith("is up to date")
    assert list(elsewhere.iterdir()) == []
    with serving(tmp_path, env=env) as server:
        answer = requests.get(f"{server.api}/buckets", timeout=30).json()
        places = [bucket["location"] for bucket in answer["buckets"]]
        assert places == [f"file://{server.data_dir}/warehouse"]


def test_an_upgrade_in_a_data_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "new" / "data"
    result = run_frazil("db", "upgrade", "--json", "--data-dir", str(data_dir))
    assert result.returncode == 0, result.stderr
    assert '"made"' in result.stdout
    assert "up to date" in run_frazil("db", "upgrade", "--data-dir", str(data_dir)).stdout
    connection = sqlite3.connect(data_dir / "frazil.db")
    assert connection.execute("SELECT count(*) FROM buckets").fetchone() == (0,)
    connection.close()


def test_a_worker_makes_no_database(tmp_path: Path) -> None:
    typo = tmp_path / "typo"
    result = run_frazil("worker", "--data-dir", str(typo))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"frazil: no database at {typo}/frazil.db: `frazil serve` makes one; see --data-dir\n"
    )
    assert not typo.exists()
