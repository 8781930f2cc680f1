"""The fixture over Iceberg's Java implementation; import it into a conftest where it is wanted."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jars import fetched, missing
from tests.java.driver import IcebergJava, iceberg_java
from tests.s3tables_clients.fetch import POM


@pytest.fixture(scope="session")
def s3tables_jars() -> Path:
    """The folder with AWS's S3TablesCatalog; what is missing is told as for `java`."""
    _needs(missing(), "S3TablesCatalog of AWS")
    return fetched(POM, "s3tables-clients")


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJava]:
    """Iceberg's Java implementation. Without a JDK or Maven: a failure where CI is set, elsewhere a loud skip."""
    _needs(
        missing() or (None if shutil.which("javac") else "not found on the path: javac"),
        "Java implementation of Iceberg",
    )
    with iceberg_java(tmp_path_factory.mktemp("java") / "driver.log") as running:
        yield running


def _needs(reason: str | None, what: str) -> None:
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"tests marked java need a JDK and Maven: {reason}")
    pytest.skip(f"no {what}: {reason}")
