"""How `frazil maintenance status` tells what the server answers: with room for its texts on a narrow terminal."""

import pytest

from catalog_server.cli.client import ManagementClient
from catalog_server.cli.maintenance import status

RUN = {"kind": "icebergCompaction", "enabled": True, "result": "successful", "reason": "nothing to merge"}
OFF = {"kind": "icebergRecordExpiration", "enabled": False, "result": "notYetRun", "reason": ""}
KINDS = [
    {
        **RUN,
        "lastRun": {"finishedAtMs": 0},
        "nextRun": {"atMs": 60_000, "why": "interval", "reason": "3600 s"},
    },
    {**OFF, "lastRun": None, "nextRun": {"atMs": None, "why": "disabled", "reason": "no policy asks"}},
]


def test_each_kind_has_a_row_for_its_last_run_and_one_for_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ManagementClient, "get", lambda *_: {"behind": None, "kinds": KINDS})
    status("db.t")
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert rows == [
        ["compaction", "last", "1970-01-01 00:00:00Z", "successful: nothing to merge"],
        ["", "next", "1970-01-01 00:01:00Z", "3600 s"],
        ["records", "last", "", "notYetRun, disabled"],
        ["", "next", "disabled", "no policy asks"],
    ]
    assert max(map(len, lines)) <= 80
