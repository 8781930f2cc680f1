"""What must never be committed: machine paths, unfinished places, skipped tests."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THIS = Path(__file__).name
# A machine without Java may leave the real broker and Iceberg's own code out, one without the upstream document the
# comparison with it; continuous integration may not, and the fixtures see to it.
ALLOWED = {
    ("a test that may not run", path)
    for path in ("tests/kafka/fixtures.py", "tests/java/fixtures.py", "tests/contract/upstream.py")
}


def _tracked(*patterns: str) -> list[Path]:
    """Files known to git, or, in an exported tree without git, every file outside hidden folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    found = [path for pattern in patterns for path in ROOT.rglob(pattern)]
    return [path for path in found if path.is_file() and not any(p.startswith(".") for p in path.parts)]


@pytest.mark.parametrize(
    ("what", "pattern", "files"),
    [
        (
            "a path of one machine",
            r"(?<![\w.])/(?:work|root|home)/[a-z]",
            ("*.py", "*.md", "*.toml", "*.txt", "Makefile"),
        ),
        (
            "an unfinished place",
            r"NotImplementedError|\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b",
            ("*.py",),
        ),
        (
            "a test that may not run",
            r"pytest\.mark\.skip\b|pytest\.skip\(|importorskip|xfail\(",
            ("tests/**/*.py",),
        ),
        (
            "a download address",
            r"https?://[\w.-]*(?:pypi|pythonhosted|repo\d?\.maven|npmjs)[\w.-]*",
            ("*.txt", "*.toml", "*.py", "*.xml"),
        ),
    ],
)
def test_nothing_committed_holds(what: str, pattern: str, files: tuple[str, ...]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in _tracked(*files)
        if path.name != THIS and (what, path.relative_to(ROOT).as_posix()) not in ALLOWED
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], what
