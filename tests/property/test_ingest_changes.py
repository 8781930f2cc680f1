"""Whatever is logged for keys, wherever commits end, whoever compacts: the table is what a replay one by one leaves."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories.change_logs import KEYED, LAYOUTS, PARTITIONS, ChangeLog, steps
from tests.factories.ingest_lab import Lab


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(layout=st.sampled_from(list(LAYOUTS)), script=steps)
def test_the_table_is_a_replay_of_the_log(layout: str, script: list[Any]) -> None:
    log = ChangeLog(Lab(partitions=PARTITIONS, topic="t", **KEYED, **LAYOUTS[layout]))
    for step in script:
        log.play(step)
    if not log.finish():
        return
    rows = log.lab.rows()
    assert sorted((row["id"], row["place"], row["version"]) for row in rows) == log.expected()
    by_key = {row["id"]: row for row in rows}
    for key, row in log.rows.items():
        more = {name: value for name, value in row.items() if name.startswith("more")}
        assert {name: by_key[key][name] for name in more} == more
