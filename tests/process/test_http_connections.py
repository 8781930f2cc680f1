"""What happens on one connection, byte by byte: requests in a row, pipelined, announced, broken off, half closed."""

import gzip
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.process.servers import Server, serving

pytestmark = pytest.mark.process
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("connections"), "--no-maintenance") as started:
        yield started


class Connection:
    """One TCP connection, written to and read from by hand."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self._rest = b""

    def send(self, *parts: bytes) -> None:
        self.wire.sendall(b"".join(parts))

    def answer(self, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split(" ")[1])
        length = 0 if method == "HEAD" or status in {100, 204, 304} else int(headers["content-length"])
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return status, headers, body

    def closed(self) -> bool:
        """Whether the server closes without another word."""
        return self._rest == b"" and self.wire.recv(1) == b""

    def _more(self) -> None:
        received = self.wire.recv(65536)
        assert received, f"closed after {self._rest!r}"
        self._rest += received


@contextmanager
def connected(server: Server) -> Iterator[Connection]:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as wire:
        yield Connection(wire)


def request(method: str, path: str, body: object = None, headers: str = "") -> bytes:
    head = f"{method} /iceberg/v1{path} HTTP/1.1\r\nHost: x\r\n{headers}"
    if body is None:
        return f"{head}\r\n".encode()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def namespace(name: str) -> bytes:
    return request("POST", "/default/namespaces", {"namespace": [name]})


def test_requests_in_a_row_share_a_connection(server: Server) -> None:
    with connected(server) as connection:
        for number in range(20):
            connection.send(namespace(f"row{number}"))
            assert connection.answer()[0] == 200
            connection.send(request("HEAD", f"/default/namespaces/row{number}"))
            assert connection.answer("HEAD")[0] == 204
            connection.send(request("GET", "/default/namespaces/none"))
            assert connection.answer()[0] == 404


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    table = {"name": "t", "schema": SCHEMA}
    with connected(server) as connection:
        connection.send(
            namespace("piped"),
            request("POST", "/default/namespaces/piped/tables", table),
            request("HEAD", "/default/namespaces/piped/tables/t"),
            request("POST", "/default/namespaces/piped/tables", table),
            request("GET", "/config"),
            request("DELETE", "/default/namespaces/piped/tables/t"),
            request("DELETE", "/default/namespaces/piped"),
        )
        statuses = [connection.answer(method)[0] for method in ("", "", "HEAD", "", "", "", "")]
    assert statuses == [200, 200, 204, 409, 200, 204, 204]


def test_a_body_that_nobody_reads_does_not_become_the_next_request(server: Server) -> None:
    smuggled = request("DELETE", "/default/namespaces/kept")
    with connected(server) as connection:
        connection.send(namespace("kept"))
        assert connection.answer()[0] == 200
        for method, path in (
            ("GET", "/config"),
            ("DELETE", "/default/namespaces/none"),
            ("POST", "/default/namespaces/kept/tables/none/unregister"),
            ("POST", "/nowhere"),
            ("PUT", "/config"),
        ):
            connection.send(request(method, path, smuggled), request("HEAD", "/default/namespaces/kept"))
            connection.answer()
            assert connection.answer("HEAD")[0] == 204, (method, path)


def test_a_request_that_comes_byte_by_byte(server: Server) -> None:
    with connected(server) as connection:
        for byte in namespace("slowly"):
            connection.send(bytes([byte]))
        assert connection.answer()[0] == 200


def test_a_client_that_asks_first_is_told_to_go_on(server: Server) -> None:
    body = json.dumps({"namespace": ["asked"]}).encode()
    head = request("POST", "/default/namespaces", body, "Expect: 100-continue\r\n").removesuffix(body)
    with connected(server) as connection:
        connection.send(head)
        assert connection.answer()[0] == 100
        connection.send(body, request("GET", "/default/namespaces/asked"))
        assert connection.answer()[0] == 200
        assert connection.answer()[0] == 200


def test_chunked_bodies_and_what_follows_them(server: Server) -> None:
    body = gzip.compress(json.dumps({"namespace": ["chunked"]}).encode())
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body)))
    head = (
        b"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Encoding: gzip\r\n\r\n"
    )
    with connected(server) as connection:
        connection.send(head, chunks, b"0\r\n\r\n", request("HEAD", "/default/namespaces/chunked"))
        assert connection.answer()[0] == 200
        assert connection.answer("HEAD")[0] == 204


def test_a_half_closed_connection_gets_its_answer(server: Server) -> None:
    with connected(server) as connection:
        connection.send(namespace("half"), request("HEAD", "/default/namespaces/half"))
        connection.wire.shutdown(socket.SHUT_WR)
        assert connection.answer()[0] == 200
        assert connection.answer("HEAD")[0] == 204


def test_a_body_that_is_broken_off_has_no_effect(server: Server) -> None:
    whole = namespace("broken")
    with connected(server) as connection:
        connection.send(whole[:-5])
        connection.wire.shutdown(socket.SHUT_WR)
        while connection.wire.recv(65536):
            pass
    with connected(server) as connection:
        connection.send(request("HEAD", "/default/namespaces/broken"))
        assert connection.answer("HEAD")[0] == 404


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nContent-Length: 50\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x5\r\n",
        "Transfer-Encoding: xchunked\r\n",
    ],
)
def test_a_body_of_uncertain_length_is_refused_and_the_connection_ends(server: Server, framing: str) -> None:
    smuggled = request("GET", "/config")
    head = f"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\n{framing}\r\n"
    with connected(server) as connection:
        connection.send(head.encode(), b"0\r\n\r\n", smuggled)
        received = b""
        while chunk := connection.wire.recv(65536):
            received += chunk
    statuses = re.findall(rb"HTTP/1.1 (\d\d\d)", received)
    assert statuses in ([b"400"], [])


def test_too_large_is_told_before_the_body_is_read_and_ends_the_connection(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-maintenance", env={"FRAZIL_LIMITS__MAX_BODY_MB": "1"}) as server:
        head = (
            b"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000000\r\n\r\n"
        )
        with connected(server) as connection:
            connection.send(head)
            status, _, body = connection.answer()
            assert (status, json.loads(body)["error"]["type"]) == (413, "PayloadTooLargeException")
        with connected(server) as connection:
            connection.send(request("GET", "/config"))
            assert connection.answer()[0] == 200
