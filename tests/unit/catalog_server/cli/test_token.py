"""The token that commands send to whoever guards the server; a server of its own stands for that guard."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from catalog_server.cli import completion
from catalog_server.cli.client import ManagementClient, without_client_variables
from catalog_server.cli.output import Failed

BUCKETS = b'{"buckets": [{"name": "default"}], "nextPageToken": null}'


class Guard(HTTPServer):
    """Lets in who has the token."""

    asked: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Guard

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization")
        self.server.asked.append(sent)
        status, body = (200, BUCKETS) if sent == "Bearer s3cret.t0ken=" else (401, b"<html>who?</html>")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def guard() -> Iterator[Guard]:
    with Guard(("127.0.0.1", 0), Answer) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_commands_and_completion_send_the_token(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_TOKEN", "s3cret.t0ken=")
    found = list(ManagementClient(guard.url).pages("/buckets", "buckets"))
    assert [bucket["name"] for bucket in found] == ["default"]
    assert completion.buckets({"url": guard.url}, "") == ["default"]
    assert guard.asked == ["Bearer s3cret.t0ken="] * 2


def test_without_a_token_nothing_is_sent_and_the_refusal_says_what_is_missing(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FRAZIL_TOKEN", raising=False)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with pytest.raises(Failed, match=r"answered 401: .* another token than FRAZIL_TOKEN holds$"):
        ManagementClient(guard.url).get("/buckets")
    assert completion.buckets({"url": guard.url}, "") == []
    assert guard.asked == [None, None]


@pytest.mark.parametrize("token", ["two words", "line\n", "café"])
def test_what_is_no_token_is_refused_without_being_shown(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("FRAZIL_TOKEN", token)
    with pytest.raises(Failed, match="FRAZIL_TOKEN holds no bearer token") as failure:
        ManagementClient(guard.url)
    assert token not in str(failure.value)
    assert completion.buckets({"url": guard.url}, "") == []
    assert guard.asked == []


def test_what_only_commands_read_is_no_setting_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_TOKEN", "t")
    monkeypatch.setenv("FRAZIL_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FRAZIL_SERVER__PORT", "1")
    left = without_client_variables()
    assert {name for name in left if name.startswith("FRAZIL_")} >= {"FRAZIL_SERVER__PORT"}
    assert not {"FRAZIL_TOKEN", "FRAZIL_URL"} & set(left)
