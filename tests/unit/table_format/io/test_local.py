"""What only a file system can do wrong: links, directories, pipes, full disks, hidden files."""

import errno
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from table_format.errors import AlreadyExists, Forbidden, Invalid, NoSuchFile, Unavailable
from table_format.io.local import LocalObjectStore, is_there, local_path, storage_error

STORE = LocalObjectStore()


def uri(path: Path) -> str:
    return f"file://{path}"


def everything_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.fixture(params=["nameless", "hidden"])
def kind_of_partial_file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "hidden":
        monkeypatch.setattr("table_format.io.local._NAMELESS", 0)
    return str(request.param)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("kind_of_partial_file")
def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    STORE.put(uri(tmp_path / "x"), b"old")
    with largest_file(10_000):
        for if_absent in (False, True):
            with pytest.raises(Unavailable):
                STORE.put(uri(tmp_path / f"y{if_absent}"), b"x" * 20_000, if_absent=if_absent)
        with pytest.raises(Unavailable):
            STORE.put(uri(tmp_path / "x"), b"x" * 20_000)
        out = STORE.open_output(uri(tmp_path / "z"))
        out.write(b"x" * 9_000)
        with pytest.raises(Unavailable):
            out.write(b"x" * 9_000)
        with pytest.raises(Unavailable, match="earlier write failed"):
            out.close()
    assert everything_in(tmp_path) == ["x"]
    assert STORE.get(uri(tmp_path / "x")) == b"old"


@pytest.mark.usefixtures("kind_of_partial_file")
@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_failure_while_publishing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(Unavailable, match="No space left"):
            STORE.put(uri(tmp_path / "x"), b"data", if_absent=call != "replace")
    assert everything_in(tmp_path) == []


def test_kill_while_writing_leaves_nothing_visible(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from table_format.io.local import LocalObjectStore\n"
        "out = LocalObjectStore().open_output(sys.argv[1])\n"
        "out.write(b'x' * 3_000_000)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    target = uri(tmp_path / "sub" / "x")
    done = subprocess.run([sys.executable, "-c", script, target], check=False, cwd=Path(__file__).parents[4])
    assert done.returncode == -9
    assert list(STORE.list(uri(tmp_path))) == []
    assert not STORE.exists(target)


def test_hidden_files_of_dead_processes_are_neither_listed_nor_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("table_format.io.local._NAMELESS", 0)
    monkeypatch.setattr("table_format.io.local._serial", iter(range(7, 100)))
    left = tmp_path / f".frazil-{os.getpid()}-7.partial"
    left.write_bytes(b"half")
    STORE.put(uri(tmp_path / "x"), b"whole")
    assert [info.path for info in STORE.list(uri(tmp_path))] == [uri(tmp_path / "x")]
    assert left.read_bytes() == b"half"
    with pytest.raises(Invalid, match="reserved"):
        STORE.put(uri(left), b"")


@pytest.mark.usefixtures("kind_of_partial_file")
def test_files_get_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        STORE.put(uri(tmp_path / "x"), b"data")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_maint_A1_a_file_copied_with_its_old_times_is_as_young_as_the_copy(tmp_path: Path) -> None:
    began = time.time()
    imported = tmp_path / "t" / "data" / "imported.parquet"
    STORE.put(uri(imported), b"x")
    os.utime(imported, (946684800, 946684800))  # what cp -p, rsync -t and tar do
    found = [STORE.head(uri(imported)), *STORE.list(uri(tmp_path / "t"))]
    assert all(info.modified_ms is not None and info.modified_ms >= (began - 5) * 1000 for info in found)


def test_list_neither_shows_nor_follows_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    STORE.put(uri(outside / "secret"), b"s")
    STORE.put(uri(tmp_path / "t" / "own"), b"o")
    (tmp_path / "t" / "link-to-dir").symlink_to(outside)
    (tmp_path / "t" / "link-to-file").symlink_to(outside / "secret")
    (tmp_path / "t" / "loop").symlink_to(tmp_path / "t")
    os.mkfifo(tmp_path / "t" / "pipe")
    assert [info.path for info in STORE.list(uri(tmp_path / "t"))] == [uri(tmp_path / "t" / "own")]


def test_a_warehouse_behind_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "warehouse").symlink_to(tmp_path / "disk")
    STORE.put(uri(tmp_path / "warehouse" / "t" / "x"), b"data")
    assert [info.path for info in STORE.list(uri(tmp_path / "warehouse"))] == [
        uri(tmp_path / "warehouse" / "t" / "x")
    ]
    assert (tmp_path / "disk" / "t" / "x").read_bytes() == b"data"


def test_delete_many_removes_nothing_but_files(tmp_path: Path) -> None:
    STORE.put(uri(tmp_path / "target"), b"t")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    failures = STORE.delete_many([uri(tmp_path / n) for n in ("link", "empty", "pipe", "missing", "target")])
    assert [failure.path for failure in failures] == [uri(tmp_path / n) for n in ("link", "empty", "pipe")]
    assert everything_in(tmp_path) == ["empty", "link", "pipe"]


def test_a_pipe_is_no_object_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for call in (STORE.get, STORE.open_input, STORE.head):
        with pytest.raises(NoSuchFile, match="not a file"):
            call(uri(tmp_path / "pipe"))
    assert not STORE.exists(uri(tmp_path / "pipe"))


def test_a_file_and_a_directory_cannot_share_a_name(tmp_path: Path) -> None:
    STORE.put(uri(tmp_path / "file"), b"x")
    STORE.put(uri(tmp_path / "dir" / "y"), b"x")
    with pytest.raises(Invalid, match="share a name"):
        STORE.put(uri(tmp_path / "file" / "below"), b"x")
    with pytest.raises(Invalid, match="share a name"):
        STORE.put(uri(tmp_path / "dir"), b"x")
    with pytest.raises(AlreadyExists):
        STORE.put(uri(tmp_path / "dir"), b"x", if_absent=True)
    assert everything_in(tmp_path) == ["dir", "dir/y", "file"]


def test_a_name_too_long_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be a file name"):
        STORE.put(uri(tmp_path / ("x" * 300)), b"")
    with pytest.raises(Invalid, match="cannot be encoded"):
        STORE.get("file:///tmp/\ud800")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, NoSuchFile),
        (errno.EACCES, Forbidden),
        (errno.EPERM, Forbidden),
        (errno.EROFS, Forbidden),
        (errno.EEXIST, AlreadyExists),
        (errno.ENOSPC, Unavailable),
        (errno.EDQUOT, Unavailable),
        (errno.EIO, Unavailable),
        (errno.EMFILE, Unavailable),
        (errno.ENAMETOOLONG, Invalid),
    ],
)
def test_errors_of_the_system_name_the_file(number: int, kind: type[Exception]) -> None:
    error = storage_error(OSError(number, os.strerror(number)), "file:///t/x")
    assert type(error) is kind
    assert "file:///t/x" in str(error)


def test_a_listing_that_fails_midway_is_an_error_and_not_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/x", "b/x"):
        STORE.put(uri(tmp_path / name), b"")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("/b"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(Forbidden, match="/b denied"):
        list(STORE.list(uri(tmp_path)))


def test_uri_forms() -> None:
    assert local_path("file:///a/b%20c#d?e") == "/a/b%20c#d?e"
    assert local_path("file:/a/b") == "/a/b"
    for wrong in ("file://host/a", "file:a", "s3://b/k", "file://", ""):
        with pytest.raises(Invalid, match="not a local file URI"):
            local_path(wrong)


def test_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert is_there(f"file:{tmp_path}/x")
    assert is_there(uri(tmp_path / "x"))
    assert not is_there(uri(tmp_path / "y"))
    assert not is_there(uri(tmp_path / "x" / "y"))
    (tmp_path / "loop").symlink_to("loop")
    assert is_there(uri(tmp_path / "loop"))  # can not be told
    with pytest.raises(Invalid):
        is_there("s3://b/x")


def test_single_slash_locations_are_listed_as_written(tmp_path: Path) -> None:
    STORE.put(f"file:{tmp_path}/t/x", b"1")
    assert [info.path for info in STORE.list(f"file:{tmp_path}/t")] == [f"file:{tmp_path}/t/x"]


def test_directories_and_file_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    STORE.put(uri(tmp_path / "a" / "b" / "x"), b"data", if_absent=True)
    assert synced[:2] == [str(tmp_path), str(tmp_path / "a")]
    assert synced[2].startswith(str(tmp_path / "a" / "b") + "/")
    assert synced[3:] == [str(tmp_path / "a" / "b")]


def test_a_large_file_written_whole_is_not_kept_in_the_systems_memory(
    tmp_path: Path, kind_of_partial_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *hint: told.append(hint))
    STORE.put(uri(tmp_path / "small"), b"x" * 1000)
    assert told == []
    STORE.put(uri(tmp_path / "large"), b"x" * (1 << 20))
    assert told == [(0, 0, os.POSIX_FADV_DONTNEED)]
    assert STORE.get(uri(tmp_path / "large")) == b"x" * (1 << 20)


def test_a_hint_that_is_refused_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind_of_partial_file: str
) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(os, "posix_fadvise", refused, raising=False)
    STORE.put(uri(tmp_path / "large"), b"x" * (1 << 20), if_absent=True)
    assert everything_in(tmp_path) == ["large"]
