"""Attacks on a real server through raw sockets: slow, endless, huge and malformed requests; others are served on."""

import gzip
import json
import select
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import zstandard

from tests.process.servers import Server, serving

HEAD_SECONDS, BODY_SECONDS = 1, 4
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "FRAZIL_SERVER__HEAD_SECONDS": str(HEAD_SECONDS),
        "FRAZIL_SERVER__BODY_SECONDS": str(BODY_SECONDS),
    }
    with serving(tmp_path_factory.mktemp("attacks"), env=settings) as running:
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the usual times, for what takes long on a busy machine."""
    with serving(tmp_path_factory.mktemp("patient")) as running:
        yield running


def new_namespace(server: Server) -> str:
    """The URL of a fresh namespace."""
    name = f"ns_{uuid.uuid4().hex[:10]}"
    made = requests.post(f"{server.iceberg}/v1/default/namespaces", json={"namespace": [name]}, timeout=30)
    assert made.status_code == 200
    return f"{server.iceberg}/v1/default/namespaces/{name}"


@pytest.fixture
def namespace(server: Server) -> str:
    return new_namespace(server)


def connected(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def everything(link: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    while chunk := link.recv(65536):
        received += chunk
    return received


def ask(server: Server, head: bytes, body: bytes = b"") -> bytes:
    """One request as it is, and the answer until the server closes the connection."""
    with connected(server) as link:
        link.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
        return everything(link)


def trickle(link: socket.socket, byte: bytes) -> bytes:
    """Send a byte every now and then until the server has something to say."""
    for _ in range(1000):
        if select.select([link], [], [], 0.1)[0]:
            return everything(link)
        link.sendall(byte)
    return b"never"


def test_S10_a_connection_that_asks_nothing_is_closed(server: Server) -> None:
    with connected(server) as link:
        assert everything(link) == b""


@pytest.mark.parametrize("start", [b"G", b"GET /health/live HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: "])
def test_S10_a_head_that_trickles_is_cut_off(server: Server, start: bytes) -> None:
    with connected(server) as link:
        link.sendall(start)
        assert trickle(link, b"E").startswith(b"HTTP/1.1 4")  # 408, or 400 where the parser is faster
    assert requests.get(f"{server.url}/health/live", timeout=30).ok


@pytest.mark.parametrize("length", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
def test_S10_a_body_that_trickles_is_cut_off(server: Server, namespace: str, length: bytes) -> None:
    path = namespace.removeprefix(server.url).encode()
    with connected(server) as link:
        link.sendall(b"POST " + path + b"/tables HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n")
        if b"chunked" in length:
            link.sendall(b"fffff\r\n")
        answer = trickle(link, b" ")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"in due time" in answer
    assert requests.get(namespace, timeout=30).status_code == 200


def test_S10_a_second_request_that_stops_midway_does_not_lose_the_answer_to_the_first(server: Server) -> None:
    with connected(server) as link:
        link.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /health/live HTTP/1.1\r\nHo")
        answer = everything(link)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answer


def test_S10_an_idle_connection_between_requests_stays(server: Server) -> None:
    """Clients keep connections for longer than a head may take."""
    with connected(server) as idle:
        for _ in range(2):
            idle.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += idle.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            with connected(server) as other:
                assert everything(other) == b""  # as long as this one lasts, the other one is idle


def test_S10_an_endless_body_is_answered_and_then_left(server: Server, namespace: str) -> None:
    path = namespace.removeprefix(server.url).encode()
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    answer = b""
    with connected(server) as link:
        link.sendall(b"POST " + path + b"/tables HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(OSError, match=r"reset|pipe|aborted"):  # noqa: PT012
            while True:
                if select.select([link], [], [], 0)[0]:
                    answer += link.recv(65536)
                link.sendall(chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the limit is 33554432 bytes" in answer


def test_S10_a_body_of_100_mb_is_refused_by_its_length(server: Server, namespace: str) -> None:
    head = (
        f"POST {namespace.removeprefix(server.url)}/tables HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600"
    )
    assert ask(server, head.encode()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: -1",
        b"Content-Length: 2, 2",
        b"Content-Length: 0x2",
        b"Content-Length: 99999999999999999999999",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2",
        b"Transfer-Encoding: identity\r\nContent-Length: 2",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding : chunked",
    ],
)
def test_S10_lengths_that_two_programs_could_read_differently_are_refused(
    server: Server, lengths: bytes
) -> None:
    head = b"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\n" + lengths
    answer = ask(server, head, b"{}GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert answer.startswith(b"HTTP/1.1 4"), answer


def test_S10_no_other_protocol_is_spoken(server: Server) -> None:
    head = b"GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
    head += b"\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    with connected(server) as link:
        link.sendall(head + b"\r\nConnection: Upgrade\r\n\r\n")
        assert not link.recv(65536).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize(
    "target",
    [
        b"namespaces/a%1Fb",
        b"namespaces/%1F",
        b"namespaces/a%2Fb",
        b"namespaces/%00",
        b"namespaces/a%00b",
        b"namespaces/%C0%AF",  # an overlong slash
        b"namespaces/%E0%80%AF",
        b"namespaces/%C0%80",  # an overlong zero
        b"namespaces/%ED%A0%80",  # half a character
        b"namespaces/%F4%90%80%80",  # beyond Unicode
        b"namespaces/%80",
        b"namespaces/%2e%2e",
        b"namespaces/..",
        b"namespaces/../../../health/live",
        b"namespaces/%2e%2e/%2e%2e/config",
        b"namespaces/..%2f..%2fconfig",
        b"namespaces/..%5c..%5cconfig",
        b"namespaces/.;/config",
        b"namespaces//tables",
        b"namespaces/%252e%252e/tables/t",
        b"namespaces/x/tables/..%2F..%2Fetc%2Fpasswd",
        b"namespaces/x/tables/%EF%BC%8F",
        b"namespaces/x\\tables",
        b"%2e%2e/config",
        b"../config",
        b"./config/",
    ],
)
def test_S17_odd_paths_lead_nowhere(server: Server, target: bytes) -> None:
    """Neither a name nor a segment is read as another one: 400 or 404, in the envelope."""
    for method in (b"GET", b"DELETE"):
        answer = ask(server, method + b" /iceberg/v1/default/" + target + b" HTTP/1.1\r\nHost: x")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head[9:12] in {b"400", b"404", b"405"}, answer
        if head.startswith(b"HTTP/1.1 4") and b"application/json" in head:
            assert json.loads(body)["error"]["code"] == int(head[9:12])


@pytest.mark.parametrize(
    "line",
    [
        b"GET http://evil.example/iceberg/v1/default/namespaces/none HTTP/1.1",
        b"GET //evil.example/iceberg/v1/config HTTP/1.1",
        b"GET * HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT evil.example:443 HTTP/1.1",
        b"GET /iceberg/v1/config\x00 HTTP/1.1",
        b"GET /iceberg/v1/con fig HTTP/1.1",
        b"GET /iceberg/v1/config#x\x7f HTTP/1.1",
        b"GET /iceberg/v1/config HTTP/9.9",
        b"BREW /iceberg/v1/config HTTP/1.1",
        b"get /iceberg/v1/config HTTP/1.1",
        b"GET\t/iceberg/v1/config\tHTTP/1.1",
    ],
)
def test_S17_odd_request_lines_are_the_clients_fault(server: Server, line: bytes) -> None:
    with connected(server) as link:
        link.sendall(line + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = everything(link)
    assert not answer or answer[9:10] == b"4", answer
    assert requests.get(f"{server.url}/health/live", timeout=30).ok


def columns(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"c{n}", "required": False, "type": "long"} for n in range(1, count + 1)]


def nested(depth: int) -> str:
    opening = '{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":'
    return opening * depth + '"long"' + "}]}" * depth


def heavy() -> dict[str, Callable[[], bytes]]:
    """Bodies for a create that cost the attacker little."""

    def create(**more: Any) -> bytes:
        return json.dumps({"name": "x", "schema": SCHEMA, **more}).encode()

    wide = {"type": "struct", "schema-id": 0, "fields": columns(20_000)}
    commented = {"type": "struct", "fields": [{**columns(1)[0], "doc": "x" * (10 << 20)}]}
    return {
        "arrays 100,000 deep": lambda: b"[" * 100_000,
        "objects 100,000 deep": lambda: b'{"a":' * 100_000,
        "structs 1,000 deep": lambda: b'{"name":"x","schema":' + nested(1000).encode() + b"}",
        "structs 300 deep": lambda: b'{"name":"x","schema":' + nested(300).encode() + b"}",
        "20,000 columns": lambda: create(schema=wide),
        "1,000,000 properties": lambda: create(properties={f"k{n}": "" for n in range(1_000_000)}),
        "20,000 properties": lambda: create(properties={f"k{n}": "" for n in range(20_000)}),
        "a property of 10 MB": lambda: create(properties={"comment": "x" * (10 << 20)}),
        "a comment of 10 MB": lambda: create(schema=commented),
        "10,000,000 empty objects": lambda: b'{"x":[' + b"{}," * 10_000_000 + b"{}]}",
        "a number of 10 MB": lambda: b'{"x":' + b"9" * (10 << 20) + b"}",
    }


@pytest.mark.parametrize("name", list(heavy()))
def test_S11_S12_heavy_bodies_are_refused_and_others_served_meanwhile(patient: Server, name: str) -> None:
    namespace = new_namespace(patient)
    body = heavy()[name]()
    with ThreadPoolExecutor(4) as pool:
        attacks = [
            pool.submit(requests.post, f"{namespace}/tables", data=body, timeout=120) for _ in range(4)
        ]
        served = 0
        while not all(attack.done() for attack in attacks):
            served += requests.get(namespace, timeout=60).status_code == 200
    assert served
    for attack in attacks:
        answer = attack.result()
        assert answer.status_code in {400, 413}, answer.text[:300]
        assert answer.json()["error"]["message"][:500]
        assert len(answer.content) < 2000
    assert requests.get(f"{namespace}/tables", timeout=30).json()["identifiers"] == []


def peak_mb(server: Server) -> int:
    """The most memory that the server held since `forget_peak`, in MiB."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) >> 10
    raise AssertionError("no VmHWM")


def forget_peak(server: Server) -> None:
    """Measure the peak from here on (proc(5), clear_refs)."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


def bomb(kind: str, metadata: dict[str, Any]) -> tuple[str, bytes]:
    """The end of a file name and what the file holds."""
    tiny = json.dumps({**metadata, "snapshots": "@"}).encode()
    if kind == "3 million snapshots":
        return "metadata.json", tiny.replace(b'"@"', b"[" + b'{"snapshot-id":1},' * 3_000_000 + b"{}]")
    blanks = tiny.replace(b'"@"', b"[]") + b" " * (200 << 20)
    if kind == "gzip":
        return "gz.metadata.json", gzip.compress(blanks, 6)
    if kind == "gzip in a plain name":
        return "metadata.json", gzip.compress(blanks, 6)
    if kind == "zstd":
        return "metadata.json", zstandard.compress(blanks)
    return "metadata.json", blanks


@pytest.mark.parametrize(
    "kind", ["gzip", "gzip in a plain name", "zstd", "200 MB of blanks", "3 million snapshots"]
)
def test_S9_a_registered_bomb_takes_no_memory(patient: Server, kind: str) -> None:
    namespace = new_namespace(patient)
    made = requests.post(f"{namespace}/tables", json={"name": "t", "schema": SCHEMA}, timeout=30).json()
    place = Path(made["metadata"]["location"].removeprefix("file://")).parent / "r" / "metadata"
    place.mkdir(parents=True)
    foreign = {**made["metadata"], "table-uuid": str(uuid.uuid4()), "location": f"file://{place.parent}"}
    end, content = bomb(kind, foreign)
    (place / f"00000-x.{end}").write_bytes(content)
    forget_peak(patient)
    before = peak_mb(patient)
    body = {"name": "r", "metadata-location": f"file://{place}/00000-x.{end}"}
    answer = requests.post(f"{namespace}/register", json=body, timeout=120)
    assert answer.status_code in {400, 413}, answer.text
    assert len(answer.content) < 1000
    # A file of 64 MiB, the most that is registered, is held once or twice, never parsed.
    assert peak_mb(patient) - before < 200
    assert requests.head(f"{namespace}/tables/r", timeout=30).status_code == 404


def test_S19_odd_pages_and_endless_chains(server: Server, namespace: str) -> None:
    table = requests.post(f"{namespace}/tables", json={"name": "t", "schema": SCHEMA}, timeout=30)
    assert table.ok
    listing = f"{namespace}/tables"
    assert requests.get(f"{listing}?pageSize=999999999", timeout=30).json()["identifiers"]
    for size in ("1e9", "1000000000", "-1", "0", "x", "9" * 5000, "%F0%9F%98%80"):
        assert requests.get(f"{listing}?pageSize={size}", timeout=30).status_code == 400, size
    for token in ("x", "e30", "W10", "WyJ0YWJsZXMgb3RoZXIiLCJhIl0", "A" * 60_000, "%00", "..", "WyIiXQ=="):
        assert requests.get(f"{listing}?pageToken={token}", timeout=30).status_code == 400, token
    for end in ("", "/credentials"):
        whole = "%2C".join(["a%251Fv"] * 10_000)
        assert requests.get(f"{listing}/t{end}?referenced-by={whole}", timeout=30).status_code == 400
        chain = "%2C".join(["a%251Fv"] * 2_000)
        answer = requests.get(f"{listing}/t{end}?referenced-by={chain}", timeout=30)
        assert answer.status_code == 400
        assert "referenced-by" in answer.json()["error"]["message"]
        short = requests.get(f"{listing}/t{end}?referenced-by=a%251Fv,b%251Fw", timeout=30)
        assert short.status_code == 200


def test_a_hundred_slow_clients_hold_nobody_up(server: Server, namespace: str) -> None:
    links = [connected(server) for _ in range(100)]
    try:
        for link in links:
            link.sendall(
                b"POST /iceberg/v1/default/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
            )
        for _ in range(20):
            assert requests.get(namespace, timeout=30).status_code == 200
    finally:
        for link in links:
            link.close()
