from collections.abc import Iterator

import pytest

from tests.java.driver import IcebergJava
from tests.java.fixtures import java
from tests.oracle.lab import Lab, opened

__all__ = ["java"]


@pytest.fixture(scope="module")
def lab(java: IcebergJava, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with opened(tmp_path_factory.mktemp("lab"), java) as running:
        yield running
