"""Fixtures over the real broker; import them into a conftest where they are wanted."""

import os
from collections.abc import Iterator

import pytest

from tests.jars import missing
from tests.kafka.real_broker import RealBroker, real_broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    """A real broker. Without Java or Maven: a failure where CI is set, elsewhere a loud skip."""
    if (reason := missing()) is not None:
        if os.environ.get("CI"):
            pytest.fail(f"tests marked kafka need a broker: {reason}")
        pytest.skip(f"no real Kafka broker: {reason}")
    with real_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def broker(kafka: RealBroker) -> str:
    """The bootstrap address of a real broker."""
    return kafka.bootstrap
