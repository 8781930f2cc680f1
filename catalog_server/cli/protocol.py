"""The HTTP protocol with bounds on what a client may take of memory and time before its request is whole.

uvicorn has none: a head may grow forever, and a connection that sends a byte a minute stays. It also sends the head
of an answer by itself, before the body; here they go together.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 256 * 1024
# A body that nobody reads any more (its request was refused) is still taken in, so that the client gets to see the
# answer; not for long.
LINGER_SECONDS = 10.0

_TIMEOUT_ANSWER = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 41\r\n\r\nThe request did not arrive in due time.\r\n"
)


# What is written in less than that waits, in memory, for what follows it at the same moment.
_SEND_FROM_BYTES = 64 * 1024


class JoinedWrites(asyncio.Transport):
    """A transport that sends together what is written at one moment: a head and its body wake the client once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._held = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, at the end of this turn of the event loop at the latest."""
        if not data:
            return
        self._parts.append(bytes(data))  # no copy of what is bytes already
        self._held += len(data)
        if self._held >= _SEND_FROM_BYTES:
            self._flush()
        elif len(self._parts) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.writelines(self._parts)
        self._parts = []
        self._held = 0

    def close(self) -> None:
        """Send what was written, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the transport knows of its connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Take nothing from the client for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take from the client again."""
        self._transport.resume_reading()


class BoundedRequests(HttpToolsProtocol):
    """Closes connections whose requests do not come to an end, in bytes or in time."""

    def __init__(self, *arguments: Any, head_seconds: float, body_seconds: float, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_seconds = head_seconds
        self._body_seconds = body_seconds
        self._open_head_bytes: int | None = None  # received since a head began; None outside of heads
        self._open_body = False
        self._said_all = False  # the client will send no more
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, not forever."""
        super().connection_made(JoinedWrites(transport, self.loop))
        self._wait(self._head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the connection."""
        super().data_received(data)
        if self._open_head_bytes is None or self.transport.is_closing():
            return
        self._open_head_bytes += len(data)
        if self._open_head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("Request line and headers too large.")

    def on_message_begin(self) -> None:
        """A head begins."""
        self._open_head_bytes = 0
        self._wait(self._head_seconds)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has ended; its body begins, if only to end at once."""
        self._open_head_bytes = None
        self._open_body = True
        self._wait(self._body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._open_body = False
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The request is answered; a client that still sends its body has little time left."""
        super().on_response_complete()
        if self._open_body and not self.transport.is_closing():
            self._wait(min(LINGER_SECONDS, self._body_seconds))
        if self._said_all and not self._owes_answers():
            self.transport.close()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more (RFC 9112 §9.6): whether the connection stays until its requests are answered."""
        # A body that will never be whole is nobody's request: closing the connection tells its reader so.
        self._said_all = self.cycle is not None and not self._open_body and self._owes_answers()
        return self._said_all

    def _owes_answers(self) -> bool:
        return bool(self.pipeline) or not self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if self.pipeline or (answering and not self._open_body):
            # A further request that has begun while an earlier one is worked on: that one is answered first.
            self._wait(self._body_seconds)
            return
        began = self._open_body or self._open_head_bytes is not None
        if began and not (cycle is not None and self._open_body and cycle.response_started):
            self.transport.write(_TIMEOUT_ANSWER)
        self.transport.close()


def bounded(head_seconds: float, body_seconds: float) -> partial[BoundedRequests]:
    """The protocol for uvicorn, with these times for a request's head and body."""
    return partial(BoundedRequests, head_seconds=head_seconds, body_seconds=body_seconds)
