"""A small keep-alive HTTP/1.1 load generator on asyncio streams: cheap enough to share two cores with the server.

On uvloop a request costs it about as much CPU as our server, so that rates show the servers and not their client.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import orjson

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_BUFFER = 16 << 20  # a large answer in few reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run gave."""

    answers: int
    failures: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float = 0.0

    def with_cpu(self, seconds: float) -> "Result":
        """The same with the server's CPU seconds shared out among the answers."""
        return replace(self, cpu_ms=1000 * seconds / max(self.answers, 1))

    @property
    def per_second(self) -> float:
        """Good answers a second."""
        return (self.answers - self.failures) / self.seconds


class Connection:
    """One keep-alive connection."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._host, self._port, self._base = parts.hostname or "127.0.0.1", parts.port or 80, parts.path
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of one exchange; sent again if the server had closed the idle connection."""
        data = b"" if body is None else orjson.dumps(body)
        head = (
            f"{method} {self._base}{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(data)}\r\n"
        )
        message = head.encode() + b"Content-Type: application/json\r\n\r\n" + data
        fresh = self._writer is None
        try:
            return await self._exchange(message, has_body=method != "HEAD")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            if fresh:
                raise
            return await self._exchange(message, has_body=method != "HEAD")

    async def _exchange(self, message: bytes, *, has_body: bool) -> tuple[int, bytes]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=_BUFFER)
        assert self._reader is not None
        self._writer.write(message)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        status = int(raw[9:12])
        if not has_body:
            return status, b""
        length = _LENGTH.search(raw)
        if length is not None:
            return status, await self._reader.readexactly(int(length[1]))
        return status, await self._chunks() if _CHUNKED.search(raw) else b""

    async def json(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """The body as JSON.

        Raises:
            RuntimeError: any status of 400 or more.
        """
        status, data = await self.request(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {data[:300]!r}")
        return orjson.loads(data) if data else {}

    def close(self) -> None:
        """Drop the connection."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None

    async def _chunks(self) -> bytes:
        assert self._reader is not None
        parts = []
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            part = await self._reader.readexactly(size + 2)
            if size == 0:
                return b"".join(parts)
            parts.append(part[:-2])


async def run(
    base_url: str,
    workers: int,
    seconds: float,
    step: Callable[[Connection, int], Awaitable[bool]],
    *,
    most: int | None = None,
) -> Result:
    """Let each worker repeat `step(connection, worker)` for a while, or until `most` steps are done.

    A step gives True when it did its work.
    """
    times: list[float] = []
    failures = 0
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal failures
        connection = Connection(base_url)
        while time.perf_counter() < end and (most is None or len(times) < most):
            start = time.perf_counter()
            good = await step(connection, number)
            times.append(time.perf_counter() - start)
            failures += not good
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(workers)))
    ordered = sorted(times)
    return Result(
        answers=len(times),
        failures=failures,
        seconds=time.perf_counter() - start,
        p50_ms=statistics.median(ordered) * 1000,
        p99_ms=ordered[int(len(ordered) * 0.99)] * 1000,
    )
