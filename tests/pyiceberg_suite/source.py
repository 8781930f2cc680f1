"""PyIceberg's own tests, in the version that is installed here: from a checkout, or from its source distribution."""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.jars import cache_directory

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
CHECKOUT = "PYICEBERG_SOURCE"  # the variable that names a checkout of the same version
SECONDS = 900


class SourceMissing(Exception):
    """The tests, or what they import, can not be had on this machine."""


def tests() -> Path:
    """A folder with `tests/` and `pyproject.toml` of PyIceberg, and nothing else: the installed package is tested.

    Raises:
        SourceMissing: neither a checkout is named nor can the source distribution be downloaded.
    """
    version = importlib.metadata.version("pyiceberg")
    given = os.environ.get(CHECKOUT)
    if given is not None:
        return _cached(f"pyiceberg-checkout-{_digest(given)}", lambda to: _copy(Path(given), to), fresh=True)
    return _cached(f"pyiceberg-tests-{version}", lambda to: _download(version, to))


def packages() -> Path:
    """A folder of packages that only the tests of PyIceberg import.

    Raises:
        SourceMissing: they can not be installed.
    """
    digest = _digest(REQUIREMENTS.read_text())
    return _cached(
        f"pyiceberg-packages-{digest}",
        lambda to: _pip("install", "--no-deps", "--target", str(to), "-r", str(REQUIREMENTS)),
    )


def _cached(name: str, make: Callable[[Path], None], *, fresh: bool = False) -> Path:
    target = cache_directory() / name
    if fresh:
        shutil.rmtree(target, ignore_errors=True)
    if target.is_dir():
        return target
    draft = cache_directory() / f".{name}-{os.getpid()}"
    draft.mkdir(parents=True)
    try:
        make(draft)
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _download(version: str, to: Path) -> None:
    # pip builds the package's metadata on the way, which takes about a minute.
    _pip("download", "--no-deps", "--no-binary", "pyiceberg", "--dest", str(to), f"pyiceberg=={version}")
    archives = list(to.glob("*.tar.gz"))
    if len(archives) != 1:
        raise SourceMissing(f"pip brought no source distribution of pyiceberg {version}")
    with tarfile.open(archives[0]) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.0 to 3.11.3 have none
        archive.extractall(to / "all")
    (top,) = (to / "all").iterdir()
    _copy(top, to)
    shutil.rmtree(to / "all")
    archives[0].unlink()


def _copy(source: Path, to: Path) -> None:
    if not (source / "tests" / "integration").is_dir():
        raise SourceMissing(f"{source} holds no tests/integration of PyIceberg")
    shutil.copytree(source / "tests", to / "tests")
    shutil.copy(source / "pyproject.toml", to)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SourceMissing(f"pip {arguments[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
