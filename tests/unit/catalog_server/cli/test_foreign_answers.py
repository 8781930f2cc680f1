"""Commands that were pointed at another program than a frazil server, and names that look like something else."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from catalog_server import cli
from catalog_server.cli import completion
from catalog_server.cli.client import ManagementClient
from catalog_server.cli.output import Failed, print_table


class Foreign(HTTPServer):
    """Answers everything alike."""

    status, content_type, body = 200, "text/html", b"<html>hello</html>"


class Answer(BaseHTTPRequestHandler):
    server: Foreign

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.content_type)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    with Foreign(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (200, "text/html", b"<html>hello</html>"),
        (200, "application/json", b"{}"),
        (200, "application/json", b"[]"),
        (200, "text/plain", b""),
        (404, "text/html", b"<html>no</html>"),
        (400, "application/json", b'"x"'),
        (500, "application/json", b"{not json"),
    ],
)
def test_an_answer_of_another_program_is_told_in_one_line(
    foreign: Foreign, status: int, content_type: str, body: bytes
) -> None:
    foreign.status, foreign.content_type, foreign.body = status, content_type, body
    client = ManagementClient(f"http://127.0.0.1:{foreign.server_address[1]}")
    with pytest.raises(Failed, match="is this a frazil server") as failure:
        list(client.pages("/buckets", "buckets"))
    assert "\n" not in str(failure.value)


def test_names_that_look_like_markup_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("ns.[/]", ["table"], [["[red]x[/red]"], ["[/]"], [":smile:"]])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("ns.[/]", "[red]x[/red]", ":smile:"))


def test_an_argument_that_is_not_utf_8_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["frazil", "table", "show", os.fsdecode(b"ns.\xff")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "frazil: argument 'ns.\\udcff' is not UTF-8\n"


@pytest.mark.parametrize("complete", [completion.buckets, completion.namespaces, completion.tables])
@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"buckets": [{}]}', b'{"namespaces": [1], "tables": [{}]}', b'{"tables": 1}']
)
def test_an_answer_of_another_program_completes_nothing(
    foreign: Foreign, complete: object, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.body = body
    assert callable(complete)
    assert complete({"url": f"http://127.0.0.1:{foreign.server_address[1]}"}, "a.") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("url", ["127.0.0.1:8181", "localhost:8181", "file:///tmp", ""])
def test_an_address_that_is_none_is_told_with_what_to_write(url: str) -> None:
    with pytest.raises(Failed, match="begin it with http:// or https://"):
        ManagementClient(url)
    assert completion.buckets({"url": url}, "") == []


def test_a_status_that_is_none_is_told_with_all_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["frazil", "policy", "set", "compaction", "--status", "on"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "'on': write enabled, disabled or inherited" in capsys.readouterr().err
