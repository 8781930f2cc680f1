"""A planning process: answers one planning job after another on its standard streams, until its input ends.

Reads and writes frames (lengths, a JSON head, bytes); the pool beside it (`plan_pool`) is the other end. Planning
decodes manifests in Python, which in the API process would hold up every other request.
"""

import os
import signal
import struct
import sys
import traceback
from collections.abc import Mapping
from typing import BinaryIO

from catalog_server.services.plan_work import Outcome, PlanJob, Planner
from table_format import errors
from table_format.errors import TableFormatError
from table_format.io import resolve
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

LENGTHS = struct.Struct("!II")
_NICENESS = 5  # requests come first
_SCANS_KEPT = 2


class ProcessGone(Exception):
    """The planning process ended instead of answering."""


class PlanningCrashed(Exception):
    """Planning failed in a way that nobody expected; the message is its traceback."""


def frame(head: JsonObject, body: bytes = b"") -> bytes:
    """One message."""
    text = jsontext.dumps(head)
    return LENGTHS.pack(len(text), len(body)) + text + body


def job_frame(job: PlanJob, properties: Mapping[str, str]) -> bytes:
    """A job as a message, with the properties (secrets included) by which its files are reached."""
    head = {
        "properties": dict(properties),
        "request": job.request,
        "page": job.page,
        "page_files": job.page_files,
        "page_bytes": job.page_bytes,
        "within": job.within,
    }
    return frame(head, job.metadata)


def outcome_of(head: JsonObject, body: bytes) -> Outcome:
    """What a process answered.

    Raises:
        TableFormatError: what planning raised there.
        PlanningCrashed: it raised something else.
    """
    if (error := head.get("error")) is not None:
        raise _error_class(error["class"])(error["message"])
    if (crash := head.get("crash")) is not None:
        raise PlanningCrashed(crash)
    return Outcome(tasks=body, pages=head["pages"], answered=head["answered"])


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our input
    os.nice(_NICENESS)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    properties: dict[str, str] = {}
    planner = Planner(lambda location: resolve.store_for(location, properties), keep=_SCANS_KEPT)
    while (message := _read(source)) is not None:
        properties.clear()
        properties.update(message[0]["properties"])
        sink.write(_answer(planner, *message))
        sink.flush()


def _answer(planner: Planner, head: JsonObject, body: bytes) -> bytes:
    job = PlanJob(
        metadata=body,
        request=head["request"],
        page=head["page"],
        page_files=head["page_files"],
        page_bytes=head["page_bytes"],
        within=head["within"],
    )
    try:
        outcome = planner.run(job)
    except TableFormatError as error:
        return frame({"error": {"class": type(error).__name__, "message": error.message}})
    except Exception:  # noqa: BLE001 - top of the loop: the server is told, and logs it
        return frame({"crash": traceback.format_exc()})
    return frame({"pages": outcome.pages, "answered": outcome.answered}, outcome.tasks)


def _error_class(name: str) -> type[TableFormatError]:
    known = getattr(errors, name, None)
    if isinstance(known, type) and issubclass(known, TableFormatError):
        return known
    return errors.Internal


def _read(source: BinaryIO) -> tuple[JsonObject, bytes] | None:
    """The next message, or None at the end of the input."""
    lengths = source.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head_length, body_length = LENGTHS.unpack(lengths)
    head, body = source.read(head_length), source.read(body_length)
    if len(body) < body_length or len(head) < head_length:
        return None
    return jsontext.loads(head), body


if __name__ == "__main__":
    main()
