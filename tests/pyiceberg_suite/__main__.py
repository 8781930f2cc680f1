"""PyIceberg's own catalog integration tests against a real `frazil serve`.

python -m tests.pyiceberg_suite [-k EXPRESSION] [--keep DIRECTORY]

Its tests come from its source distribution of the installed version, or from a checkout that PYICEBERG_SOURCE names.
Prints one line per failure and `N passed, N failed, N skipped`; the exit code is 1 if a test failed or was skipped,
2 if the suite could not be run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tests.kit import report
from tests.kit.report import Outcome, Status
from tests.process.servers import serving
from tests.pyiceberg_suite import selection, source

SUITE_SECONDS = 900
NAME = "frazil"


class CannotRun(Exception):
    """The suite did not get as far as a result."""


def run(reports: Path, expression: str | None) -> list[Outcome]:
    """All outcomes, log and report left in the folder.

    Raises:
        CannotRun, SourceMissing: the suite can not be run here.
    """
    tests, packages = source.tests(), source.packages()
    _know_all_files(tests / "tests" / "integration")
    whole = [*selection.FILES, f"--deselect=tests/integration/{selection.SEPARATOR_TEST}"]
    for name, settings, chosen in (
        ("all", {}, whole),
        ("separator", {"FRAZIL_ICEBERG__NAMESPACE_SEPARATOR": "."}, [selection.SEPARATOR_TEST]),
    ):
        with (
            tempfile.TemporaryDirectory(prefix="frazil-pyiceberg-") as fresh,
            serving(Path(fresh), env=settings) as server,
        ):
            _provide(server.iceberg)
            _pytest(tests, packages, server.iceberg, reports / name, chosen, expression)
    found = report.outcomes(reports / "all") + report.outcomes(reports / "separator")
    if not found:
        log = (reports / "all" / "suite.log").read_text(errors="replace")
        raise CannotRun(f"no test ran: {log[-3000:]}")
    return report.judged(found, allowed=())


def _know_all_files(integration: Path) -> None:
    there = {path.name for path in integration.iterdir() if path.name.startswith("test_")}
    known = {*selection.FILES, *selection.NOT_RUN}
    if there != known:
        raise CannotRun(f"selection.py and {integration} differ in {sorted(there ^ known)}")


def _provide(uri: str) -> None:
    """What their tests expect to find: a namespace, and a table with a history."""
    catalog = load_catalog(NAME, type="rest", uri=uri)
    catalog.create_namespace("default")
    column = pa.schema([pa.field("number", pa.int32())])
    table = catalog.create_table("default.test_table_snapshot_operations", schema=column)
    for number in range(5):
        table.append(pa.table({"number": [number]}, schema=column))


def _pytest(
    tests: Path, packages: Path, uri: str, reports: Path, chosen: Sequence[str], expression: str | None
) -> None:
    reports.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-p", "frazil_server", f"--junitxml={reports / 'TEST-pyiceberg.xml'}"]
    command += [name if name.startswith("-") else f"tests/integration/{name}" for name in chosen]
    own = " and ".join(f"not {name}" for name in selection.OTHER_CATALOGS)
    command += ["-k", own if expression is None else f"({own}) and ({expression})"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYICEBERG_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(packages), str(Path(__file__).parent)]),
        "PYICEBERG_SUITE_URI": uri,
        "PYICEBERG_TEST_CATALOG": NAME,
        f"PYICEBERG_CATALOG__{NAME.upper()}__TYPE": "rest",
        f"PYICEBERG_CATALOG__{NAME.upper()}__URI": uri,
    }
    with (reports / "suite.log").open("wb") as log:
        subprocess.run(
            command, cwd=tests, env=environment, stdout=log, stderr=log, timeout=SUITE_SECONDS, check=False
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pyiceberg_suite", description=__doc__)
    parser.add_argument("-k", dest="expression", help="only the tests that pytest's expression selects")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="leave log and report there")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="frazil-pyiceberg-reports-") as temporary:
            reports = options.keep or Path(temporary)
            reports.mkdir(parents=True, exist_ok=True)
            found = run(reports, options.expression)
    except (CannotRun, source.SourceMissing, subprocess.TimeoutExpired) as error:
        print(f"PyIceberg's suite can not be run: {error}", file=sys.stderr)
        return 2
    for one in found:
        if one.status is Status.FAILED:
            print(f"FAILED {one.name}: {one.message[:400]}")
    print(f"{len(found)} tests in {time.monotonic() - started:.0f} s")
    print(report.closing_line(found))
    return 1 if any(one.status is Status.FAILED for one in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
