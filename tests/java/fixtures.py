"""The fixture over Iceberg's Java implementation; import it into a conftest where it is wanted."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.jars import missing
from tests.java.driver import IcebergJava, iceberg_java


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJava]:
    """Iceberg's Java implementation. Without a JDK or Maven: a failure where CI is set, elsewhere a loud skip."""
    reason = missing() or (None if shutil.which("javac") else "not found on the path: javac")
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(f"tests marked java need a JDK and Maven: {reason}")
        pytest.skip(f"no Java implementation of Iceberg: {reason}")
    with iceberg_java(tmp_path_factory.mktemp("java") / "driver.log") as running:
        yield running
