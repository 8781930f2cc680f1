"""What is written to a connection at one moment is sent at once, all of it, in order, and never late."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from catalog_server.cli.protocol import JoinedWrites

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Wire(asyncio.Transport):
    """What a transport was told to send, call by call."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.calls: list[list[Any]] = []
        self.closed = False

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        assert not self.closed
        self.calls.append(list(list_of_data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def joined() -> tuple[JoinedWrites, Wire]:
    wire = Wire()
    return JoinedWrites(wire, asyncio.get_running_loop()), wire


async def test_a_head_and_its_body_go_together() -> None:
    transport, wire = joined()
    transport.write(b"head")
    transport.write(b"")
    transport.write(bytearray(b"body"))
    assert wire.calls == []
    await asyncio.sleep(0)
    assert wire.calls == [[b"head", b"body"]]
    transport.write(b"next")
    await asyncio.sleep(0)
    assert wire.calls[1:] == [[b"next"]]


async def test_much_does_not_wait_and_is_not_copied() -> None:
    transport, wire = joined()
    long = b"x" * (64 * 1024)
    transport.write(b"head")
    transport.write(long)
    transport.write(b"tail")
    assert wire.calls == [[b"head", long]]
    assert wire.calls[0][1] is long
    await asyncio.sleep(0)
    assert wire.calls[1:] == [[b"tail"]]


async def test_what_was_written_is_sent_before_the_connection_closes() -> None:
    transport, wire = joined()
    transport.write(b"last words")
    transport.close()
    assert (wire.calls, wire.closed, transport.is_closing()) == ([[b"last words"]], True, True)
    await asyncio.sleep(0)
    assert len(wire.calls) == 1


async def test_nothing_is_sent_on_a_connection_that_broke_off() -> None:
    transport, wire = joined()
    transport.write(b"too late")
    transport.abort()
    await asyncio.sleep(0)
    assert wire.calls == []
    assert transport.get_extra_info("peername") == ("127.0.0.1", 1)
