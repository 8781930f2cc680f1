"""The AWS CLI, fetched once into the user's cache directory."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.jars import cache_directory

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
REQUIREMENTS = HERE / "requirements.txt"


def aws_cli() -> Path:
    """The folder with its packages; another text of the requirements is another folder."""
    version = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    target = cache_directory() / f"aws-cli-{version}"
    if target.is_dir():
        return target
    fresh = target.with_name(f".{target.name}-{id(target)}")
    fresh.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    done = subprocess.run(
        [*command, "--target", str(fresh), "-r", str(REQUIREMENTS)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"pip could not fetch the AWS CLI: {(done.stdout + done.stderr)[-2000:]}")
    try:
        fresh.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return target
