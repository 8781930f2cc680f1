"""The package as people get it: built, installed where nothing else is, run over PostgreSQL and S3 by settings."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog

from tests.postgres import Postgres
from tests.process.servers import environment, start_server
from tests.process.test_worker_killed import ended
from tests.s3 import KEY, SECRET, S3Server

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
INGEST = """
[catalog]
uri = "http://127.0.0.1:1/iceberg"
[kafka]
"bootstrap.servers" = "127.0.0.1:1"
[topics.t]
namespace = "db"
"""


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel, made of the sdist, and what it depends on."""
    place = tmp_path_factory.mktemp("package")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place / "dist", cwd=ROOT)
    (sdist,) = (place / "dist").glob("frazil-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.0 to 3.11.3 have none
        archive.extractall(place / "source")
    (source,) = (place / "source").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place / "dist", cwd=source)
    (wheel,) = (place / "dist").glob("frazil-*.whl")
    run(sys.executable, "-m", "venv", place / "env", cwd=place)
    programs = place / "env" / "bin"
    quiet = ("--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    run(programs / "python", "-m", "pip", "install", *quiet, wheel, cwd=place)
    return programs


def test_the_package_runs_over_postgresql_and_s3_by_settings_alone(
    installed: Path, postgres: Postgres, s3: S3Server, tmp_path: Path
) -> None:
    bucket = s3.bucket()
    with postgres.lent() as database:
        settings = {
            "FRAZIL_DATABASE__URL": postgres.url(database),
            "FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": f"s3://{bucket}/warehouse",
            "FRAZIL_STORAGE__BUCKETS_LOCATION": f"s3://{bucket}/buckets",
            "FRAZIL_STORAGE__PROPERTIES": json.dumps(s3.properties),
        }
        server = start_server(tmp_path, env=settings, command=[str(installed / "frazil")], maintenance=True)
        try:
            check(server, bucket)
        finally:
            server.terminate()
            server.kill()
        deep = run(installed / "frazil", "verify", "--deep", "--json", cwd=tmp_path, env=settings)
        assert json.loads(deep) == {"looked": 1, "found": []}


def check(server: Any, bucket: str) -> None:
    """Appends, a compaction, and reading."""
    own = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    catalog = load_catalog("c", type="rest", uri=server.iceberg, **own)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    assert table.location().startswith(f"s3://{bucket}/warehouse/")
    for number in range(6):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    url = f"{server.api}/buckets/default/namespaces/db/tables/t/jobs"
    asked = requests.post(url, json={"kind": "icebergCompaction"}, timeout=60)
    assert asked.status_code == 202, asked.text
    assert ended(server, asked.json()["id"])["report"]["figures"]["filesRewritten"] == 6
    table.refresh()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(6))
    assert len(list(table.scan().plan_files())) == 1


def test_what_was_not_installed_is_told(installed: Path, tmp_path: Path) -> None:
    place = run(
        installed / "python", "-c", "import catalog_server; print(catalog_server.__file__)", cwd=tmp_path
    )
    assert place.startswith(str(installed.parent))
    config = tmp_path / "ingest.toml"
    config.write_text(INGEST)
    command = [str(installed / "frazil"), "ingest", "validate", "--config", str(config)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "the Kafka client is missing: pip install 'frazil[ingest]'" in done.stdout + done.stderr
