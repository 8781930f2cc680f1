"""What the page on the S3 Tables API shows works as it is written there, and over a real connection."""

import re
import socket
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.process.servers import serving

pytestmark = pytest.mark.process
PAGE = Path(__file__).resolve().parents[2] / "docs/s3-tables-api.md"
SHOWN = "http://127.0.0.1:8181"


def test_the_python_of_the_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    with serving(tmp_path) as server:
        for example in examples:
            assert SHOWN in example
            exec(compile(example.replace(SHOWN, server.url), str(PAGE), "exec"), {})
    assert "['sales'] orders" in capsys.readouterr().out


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(tmp_path: Path) -> None:
    """The SDK of Java sends `Expect: 100-continue` with every PUT."""
    arn = quote("arn:aws:s3tables:us-east-1:000000000000:bucket/default", safe="")
    body = b'{"namespace": ["waited"]}'
    with serving(tmp_path) as server:
        where = urlsplit(server.url)
        with socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=20) as raw:
            head = (
                f"PUT /s3tables/namespaces/{arn} HTTP/1.1\r\nHost: {where.netloc}\r\n"
                f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            raw.sendall(head.encode())
            assert raw.recv(4096).startswith(b"HTTP/1.1 100 ")
            raw.sendall(body)
            answer = b""
            while chunk := raw.recv(4096):
                answer += chunk
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert b'"namespace":["waited"]' in answer
