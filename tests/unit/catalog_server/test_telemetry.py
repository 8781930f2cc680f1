"""Telemetry: the list of metrics is the registry's, and log lines are what the settings say."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from catalog_server import telemetry


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def test_every_metric_is_listed_and_every_listed_one_exists() -> None:
    registered = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in telemetry.REGISTRY.collect()
    }
    assert {metric.name: metric.kind for metric in telemetry.METRICS} == registered
    assert all(metric.name.startswith("frazil_") for metric in telemetry.METRICS)


def test_json_lines_carry_what_is_bound(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure_logging("info", "json")
    log = structlog.get_logger("x")
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        log.info("something_happened", table="ns.t")
        log.debug("too_quiet")
    logging.getLogger("lib").warning("from a library")
    logging.getLogger("lib").info("not this")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["table"], first["request_id"], first["level"]) == (
        "something_happened",
        "ns.t",
        "r1",
        "info",
    )
    assert second["event"] == "from a library"


def test_auto_is_json_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure_logging("warning", "auto")
    try:
        int("reason")
    except ValueError:
        structlog.get_logger("x").exception("it_failed")
    line = json.loads(capsys.readouterr().err)
    assert "ValueError: invalid literal" in line["exception"]


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure_logging("info", "text")
    structlog.get_logger("x").info("something_happened", table="t")
    line = capsys.readouterr().err
    assert "something_happened" in line
    assert not line.startswith("{")


def test_S14_a_traceback_shows_no_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "json"):
        telemetry.configure_logging("info", form)
        session_key = "s3cr3t-" * 3
        try:
            int("reason")
        except ValueError:
            structlog.get_logger(form).exception("it_failed")
        written = capsys.readouterr().err
        assert "ValueError: invalid literal" in written
        assert session_key not in written
