"""What the kit said: JUnit's XML as outcomes, and the tests that may be skipped, each with the reason."""

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_CATALOG = "RESTCompatibilityKitCatalogTests"
_VIEWS = "RESTCompatibilityKitViewCatalogTests"

# The kit's own switches for REST are constants in its classes, so these are skipped against every server that is not
# the kit's, whatever it can do. What we offer of them is tested in Python.
ALWAYS_SKIPPED: dict[str, str] = {
    # The namespace without levels as a place for tables and properties: no REST path can name it.
    f"{_CATALOG}.createAndDropEmptyNamespace": "supportsEmptyNamespace() is false",
    f"{_CATALOG}.listNamespacesWithEmptyNamespace": "supportsEmptyNamespace() is false",
    f"{_CATALOG}.listTablesInEmptyNamespace": "supportsEmptyNamespace() is false",
    f"{_CATALOG}.namespacePropertiesOnEmptyNamespace": "supportsEmptyNamespace() is false",
    f"{_VIEWS}.listViewsInEmptyNamespace": "supportsEmptyNamespace() is false",
    # Nested namespaces: tests/api/test_iceberg_namespaces.py.
    f"{_CATALOG}.testListNestedNamespaces": "supportsNestedNamespaces() is false",
    f"{_CATALOG}.testDropNamespaceWithNestedNamespace": "supportsNestedNamespaces() is false",
    # Slashes in names: tests/api/test_iceberg_names.py.
    f"{_CATALOG}.testNamespaceWithSlash": "supportsNamesWithSlashes() is false",
    f"{_CATALOG}.testTableNameWithSlash": "supportsNamesWithSlashes() is false",
    # Would have to start the catalog again with another property.
    f"{_CATALOG}.createTableInUniqueLocation": "@Disabled: the server is not configurable per test",
}


class Status(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One test of the kit; `message` is on one line."""

    name: str
    status: Status
    message: str
    seconds: float


def outcomes(directory: Path) -> list[Outcome]:
    """The outcomes in all reports of a directory."""
    return [one for path in sorted(directory.glob("TEST-*.xml")) for one in _cases(path)]


def judged(found: Sequence[Outcome], allowed: Collection[str] = ALWAYS_SKIPPED) -> list[Outcome]:
    """The outcomes, a skip that is not on the list turned into a failure: nothing leaves the kit unnoticed."""
    return [_judge(one, allowed) for one in found]


def closing_line(found: Sequence[Outcome]) -> str:
    """`N passed, N failed, N skipped`."""
    return ", ".join(f"{sum(one.status is status for one in found)} {status}" for status in Status)


def _judge(one: Outcome, allowed: Collection[str]) -> Outcome:
    if one.status is not Status.SKIPPED or one.name in allowed:
        return one
    message = f"skipped, though not on the list of those that may be: {one.message}"
    return Outcome(name=one.name, status=Status.FAILED, message=message, seconds=one.seconds)


def _cases(path: Path) -> Iterator[Outcome]:
    for case in ET.parse(path).getroot().iter("testcase"):
        status, message = Status.PASSED, ""
        for tag, meaning in (
            ("failure", Status.FAILED),
            ("error", Status.FAILED),
            ("skipped", Status.SKIPPED),
        ):
            node = case.find(tag)
            if node is not None:
                status = meaning
                message = " ".join((node.get("message") or node.text or "").split())
        suite = (case.get("classname") or "").rpartition(".")[2]
        name = (case.get("name") or "").replace("()", "")
        yield Outcome(
            name=f"{suite}.{name}", status=status, message=message, seconds=float(case.get("time") or 0)
        )
