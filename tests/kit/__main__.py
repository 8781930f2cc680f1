"""Iceberg's own REST compatibility kit (Java, JUnit) against a real `frazil serve`.

python -m tests.kit [catalog|view ...] [--tests REGEX] [--keep DIRECTORY]

Prints one line per failure and `N passed, N failed, N skipped`; the exit code is 1 if a test failed or was skipped
for a reason not on the list in `report.py`, 2 if the kit could not be run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import jars
from tests.kit import folders, report
from tests.kit.report import Outcome, Status
from tests.process.servers import serving

POM = Path(__file__).with_name("pom.xml")
PACKAGE = "org.apache.iceberg.rest"
SUITES = {"catalog": "RESTCompatibilityKitCatalogTests", "view": "RESTCompatibilityKitViewCatalogTests"}
# What `make test-kit` runs.
BY_DEFAULT = ("catalog", "view")
WAREHOUSE = "default"
# The kit asks for tables at file:/tmp/<namespace>/<table>, so this is where the server's bucket lies. Without
# maintenance nothing but the requested tables is ever touched there.
SERVER = {"FRAZIL_STORAGE__DEFAULT_BUCKET_LOCATION": folders.ROOT.as_uri()}
# What the server does, in the kit's words; each of them makes the kit test more.
SWITCHES = {
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.overrides-requested-location": "false",
    "rck.supports-names-with-dot": "true",
}
SUITE_SECONDS = 900


class CannotRun(Exception):
    """The kit did not get as far as a result."""


def run(suites: Sequence[str], reports: Path, tests: str | None) -> list[Outcome]:
    """All outcomes of the suites, their logs and reports left in a folder for each.

    Raises:
        CannotRun, Occupied, JarsMissing: the kit can not be run here.
    """
    if (reason := jars.missing()) is not None:
        raise CannotRun(reason)
    classes = jars.fetched(POM, "kit")
    return [one for suite in suites for one in run_suite(suite, classes, reports / suite, tests)]


def run_suite(suite: str, classes: Path, reports: Path, tests: str | None) -> list[Outcome]:
    """One class of the kit on a new server of its own: the kit refuses a catalog that another class has used.

    Raises:
        CannotRun: no test ran.
    """
    reports.mkdir(parents=True, exist_ok=True)
    for old in reports.glob("TEST-*.xml"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="frazil-kit-") as fresh, folders.owned():
        try:
            with serving(Path(fresh), env=SERVER) as server:
                properties = {"uri": server.iceberg, "warehouse": WAREHOUSE, **SWITCHES}
                _junit(SUITES[suite], classes, reports, properties, tests)
        finally:
            shutil.copytree(fresh, reports, ignore=lambda *_: {"data"}, dirs_exist_ok=True)
    found = report.outcomes(reports)
    if not found:
        log = (reports / "kit.log").read_text(errors="replace")
        raise CannotRun(f"{suite}: no test ran: {log[-3000:]}")
    return report.judged(found)


def _junit(
    suite: str, classes: Path, reports: Path, properties: Mapping[str, str], tests: str | None
) -> None:
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    command += ["-cp", f"{classes}/*", "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--disable-banner", "--disable-ansi-colors", "--details=none", "--config=rck.local=false"]
    command += [f"--select-class={PACKAGE}.{suite}", f"--reports-dir={reports}"]
    if tests is not None:
        command.append(f"--include-methodname=.*#.*({tests}).*")
    # The kit takes variables of this prefix for properties of the catalog.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CATALOG_")}
    with (reports / "kit.log").open("wb") as log:
        subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=SUITE_SECONDS, check=False)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kit", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {list(SUITES)}")
    parser.add_argument("--tests", metavar="REGEX", help="only the test methods whose names match")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="leave logs and reports there")
    options = parser.parse_args(arguments)
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="frazil-kit-reports-") as temporary:
            reports = options.keep or Path(temporary)
            found = run(options.suites or BY_DEFAULT, reports, options.tests)
    except (CannotRun, folders.Occupied, jars.JarsMissing, subprocess.TimeoutExpired) as error:
        print(f"the kit can not be run: {error}", file=sys.stderr)
        return 2
    for one in found:
        if one.status is Status.FAILED:
            print(f"FAILED {one.name}: {one.message[:400]}")
    print(f"{len(found)} tests in {time.monotonic() - started:.0f} s")
    print(report.closing_line(found))
    return 1 if any(one.status is Status.FAILED for one in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
