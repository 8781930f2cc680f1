"""Starting: the lock on the data directory, the default bucket, and one clear line when it can not be."""

import subprocess
import sys
from pathlib import Path

import pytest

from catalog_server.bootstrap import DataDirInUse, DataDirNotWritable, build, serve_lock
from catalog_server.services.principals import ANONYMOUS
from catalog_server.settings import Settings, StartError, load
from catalog_server.store import pointers
from table_format.errors import Unavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def settings(data_dir: Path, **overrides: object) -> Settings:
    return load(None, {}, {"server.data_dir": data_dir, **overrides})


async def test_the_first_start_makes_the_default_bucket(tmp_path: Path) -> None:
    platform = build(settings(tmp_path / "a" / "b"))
    await platform.start()
    await platform.ready()
    bucket = await platform.buckets.get(ANONYMOUS, "default")
    assert bucket.location == f"file://{tmp_path}/a/b/warehouse"
    await platform.close()
    with pytest.raises(Unavailable):
        await platform.database.hot(pointers.bucket_location("default"))
    again = build(settings(tmp_path / "a" / "b", **{"storage.default_bucket_location": "memory://x"}))
    await again.start()
    assert (await again.buckets.get(ANONYMOUS, "default")).location == bucket.location
    await again.close()


async def test_a_data_directory_that_no_location_can_name(tmp_path: Path) -> None:
    platform = build(settings(tmp_path / "a#b"))
    with pytest.raises(StartError, match=r"can not be made.*choose another data directory") as caught:
        await platform.start()
    assert "\n" not in str(caught.value)
    await platform.close()


async def test_a_default_bucket_of_an_impossible_name_or_place(tmp_path: Path) -> None:
    for overrides in ({"storage.default_bucket": "No"}, {"storage.default_bucket_location": "nowhere"}):
        platform = build(settings(tmp_path, **overrides))
        with pytest.raises(StartError, match="default bucket can not be made"):
            await platform.start()
        await platform.close()


async def test_a_second_default_bucket_on_the_firsts_place(tmp_path: Path) -> None:
    platform = build(settings(tmp_path))
    await platform.start()
    await platform.close()
    other = build(
        settings(
            tmp_path,
            **{
                "storage.default_bucket": "other",
                "storage.default_bucket_location": f"file://{tmp_path}/warehouse/x",
            },
        )
    )
    with pytest.raises(StartError, match="overlaps"):
        await other.start()
    await other.close()


async def test_a_directory_without_write_permission() -> None:
    with pytest.raises(DataDirNotWritable, match="is not writable"):  # not even root makes directories there
        await build(settings(Path("/proc/frazil-data"))).start()


async def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for data_dir in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataDirNotWritable, match="is not writable") as caught:
            await build(settings(data_dir)).start()
        assert "\n" not in str(caught.value)
        with pytest.raises(DataDirNotWritable), serve_lock(settings(data_dir)):
            pass


def test_the_data_directory_is_one_servers(tmp_path: Path) -> None:
    with serve_lock(settings(tmp_path)):
        with (
            pytest.raises(DataDirInUse, match="in use by another frazil serve"),
            serve_lock(settings(tmp_path)),
        ):
            pass
        with serve_lock(settings(tmp_path / "other")):
            pass
    with serve_lock(settings(tmp_path)):
        pass


@pytest.mark.process
def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from catalog_server.bootstrap import serve_lock; from catalog_server.settings import load\n"
        "with serve_lock(load(None, {}, {'server.data_dir': Path(sys.argv[1])})):\n"
        "    print('held', flush=True); time.sleep(100)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with pytest.raises(DataDirInUse), serve_lock(settings(tmp_path)):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with serve_lock(settings(tmp_path)):
        pass
