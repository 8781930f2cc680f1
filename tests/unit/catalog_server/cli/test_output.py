"""What people see: tables, times, lengths of time, and the question before something is destroyed."""

import pytest

from catalog_server.cli import output
from catalog_server.cli.output import Failed


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, ""),
        (0, "1970-01-01 00:00:00Z"),
        (1_764_510_005_999, "2025-11-30 13:40:05Z"),
        (-5, "1970-01-01 00:00:00Z"),
    ],
)
def test_moments(ms: int | None, shown: str) -> None:
    assert output.moment(ms) == shown


def test_a_moment_beyond_the_calendar_is_its_end() -> None:
    assert output.moment(2**62) == "9999-12-31 23:59:59Z"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0.0 s"),
        (-3, "0.0 s"),
        (1_540, "1.5 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h 0 min"),
        (47 * 3_600_000, "47 h 0 min"),
        (49 * 3_600_000, "2 d 1 h"),
    ],
)
def test_durations(ms: float, shown: str) -> None:
    assert output.duration(ms) == shown


def test_a_record_leaves_out_what_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_record("Thing", [("name", "n"), ("error", None), ("dry run", False), ("empty", "")])
    told = capsys.readouterr().out
    assert "name" in told
    assert "no" in told
    assert "empty" in told
    assert "error" not in told


def test_nothing_is_destroyed_without_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    output.confirm("Drop it?", yes=True)
    with pytest.raises(Failed, match="--yes"):
        output.confirm("Drop it?", yes=False)  # pytest's standard input is no terminal
