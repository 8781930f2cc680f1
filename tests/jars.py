"""Jars of other programs that tests run: named by a pom, fetched once into the user's cache directory.

Needs `java` (17 or newer) and `mvn` on the path.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path


class JarsMissing(Exception):
    """The jars can not be had on this machine."""


def missing() -> str | None:
    """What is missing to fetch and run jars, or None."""
    wanted = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"not found on the path: {', '.join(wanted)}" if wanted else None


def cache_directory() -> Path:
    """Where the tests keep what they fetched, for the next run and the next checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frazil-tests"


def fetched(pom: Path, name: str) -> Path:
    """The folder with the jars of the pom, fetched if need be; another text of the pom is another folder.

    Raises:
        JarsMissing: they can not be fetched.
    """
    version = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    cache = cache_directory()
    target = cache / f"{name}-{version}"
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    fresh = cache / f".{name}-{version}-{os.getpid()}"
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise JarsMissing(f"mvn could not fetch the jars of {name}: {(done.stdout + done.stderr)[-2000:]}")
    try:
        fresh.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return target
