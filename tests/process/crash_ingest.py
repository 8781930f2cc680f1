"""Ingest, made to kill itself (SIGKILL) at one point of its cycle. Run as `python crash_ingest.py ingest run …`.

FRAZIL_TEST_CRASH_POINT names the point, FRAZIL_TEST_CRASH_AT the how-manieth time it is passed; with
FRAZIL_TEST_CRASH_SIGNAL=SIGSTOP it sleeps there until it is woken. Only ports are wrapped: the code under test is the
product's, unchanged.
"""

import itertools
import os
import signal
from typing import Any

import requests

from catalog_server.cli import main
from ingest_plugin.confluent import ConfluentBroker
from ingest_plugin.write.buffer import RowBuffer
from ingest_plugin.write.task import TopicTask
from table_format.io.local import LocalObjectStore

POINT = os.environ["FRAZIL_TEST_CRASH_POINT"]
AT = int(os.environ["FRAZIL_TEST_CRASH_AT"])
SIGNAL = signal.Signals[os.environ.get("FRAZIL_TEST_CRASH_SIGNAL", "SIGKILL")]
times = itertools.count(1)


def die_at(point: str) -> None:
    # One that was killed passes no further point; one that slept goes on as if nothing had been.
    if point == POINT and next(times) == AT:
        os.kill(os.getpid(), SIGNAL)


original_poll = ConfluentBroker.poll
original_close_files = RowBuffer.close_files
original_put = LocalObjectStore.put
original_send = requests.Session.send
original_committed = TopicTask.committed


def poll(self: Any, *args: Any, **kwargs: Any) -> Any:
    polled = original_poll(self, *args, **kwargs)
    if polled.messages:
        die_at("after-poll")
    return polled


def close_files(self: Any) -> Any:
    files = original_close_files(self)
    if files:
        die_at("after-data-files")
    return files


def put(self: Any, path: str, data: bytes, *, if_absent: bool = False) -> None:
    original_put(self, path, data, if_absent=if_absent)
    if "/metadata/snap-" in path:
        die_at("after-manifest-list")


def send(self: Any, request: requests.PreparedRequest, **kwargs: Any) -> Any:
    body = request.body or b""
    commit = request.method == "POST" and b"add-snapshot" in (
        body.encode() if isinstance(body, str) else body
    )
    if commit:
        die_at("before-commit-is-sent")
    answer = original_send(self, request, **kwargs)
    if commit and answer.status_code == 200:
        die_at("after-commit-before-its-answer-is-read")
    return answer


def committed(self: Any) -> None:
    die_at("after-answer-before-it-is-noted")
    original_committed(self)


ConfluentBroker.poll = poll  # type: ignore[method-assign]
RowBuffer.close_files = close_files  # type: ignore[method-assign]
LocalObjectStore.put = put  # type: ignore[method-assign]
requests.Session.send = send  # type: ignore[method-assign]
TopicTask.committed = committed  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
