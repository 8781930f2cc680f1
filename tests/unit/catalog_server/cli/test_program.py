"""The program as it is called: wrong calls in one line with exit code 2, its version, what a shell completes."""

import re
import sys
from importlib.metadata import version

import pytest

from catalog_server import cli


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["frazil", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope"], "No such command 'nope'; see `frazil --help`"),
        (["maintenance", "run"], "Missing argument 'kind'; see `frazil maintenance run --help`"),
        (["bucket", "list", "--nope"], "No such option: --nope; see `frazil bucket list --help`"),
        (
            ["maintenance", "run", "compaction", "t"],
            "Invalid value: 't' names no namespace: write NAMESPACE.NAME; see `frazil maintenance run --help`",
        ),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert call(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"frazil: {told}\n")


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "maintenance") == 2
    printed = capsys.readouterr()
    assert "Usage: frazil maintenance" in printed.out + printed.err


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"frazil {version('frazil')}\n"


@pytest.mark.parametrize(
    ("words", "at", "command"),
    [
        ("frazil ", 1, None),
        ("frazil maint", 1, None),
        ("frazil maintenance ", 2, "maintenance"),
        ("frazil maintenance r", 2, "maintenance"),
        ("", 0, None),
    ],
)
def test_the_command_that_is_completed(words: str, at: int, command: str | None) -> None:
    asked = {"_FRAZIL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    assert cli.command_to_complete(asked) == command
    assert cli.command_to_complete({"COMP_WORDS": words}) is None


@pytest.mark.parametrize(
    ("words", "at", "offered"),
    [
        ("frazil ma", 1, ["maintenance"]),
        ("frazil maintenance ru", 2, ["run"]),
        ("frazil maintenance run --ti", 3, ["--timeout"]),
        ("frazil --vers", 1, ["--version"]),
        ("frazil policy set un", 3, ["unreferenced"]),
        ("frazil policy history --kind co", 4, ["compaction"]),
        ("frazil table reports --type sc", 4, ["scan-report"]),
    ],
)
def test_commands_and_options_are_completed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    at: int,
    offered: list[str],
) -> None:
    monkeypatch.setenv("_FRAZIL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(at))
    assert call(monkeypatch) == 0
    assert capsys.readouterr().out.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_that_show_help_are_told_nothing_untrue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("_FRAZIL_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "frazil maint")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert call(monkeypatch) == 0
    assert set(re.findall(r"\w+", capsys.readouterr().out)) <= {"_arguments", "maintenance"}
