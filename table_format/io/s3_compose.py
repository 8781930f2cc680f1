"""An S3 object made of ranges of others: the store copies them as parts, so that their bytes do not come here.

A part of an upload has 5 MiB at least, the last one apart. What is smaller is fetched and sent together with its
neighbours, of which no more is fetched than is missing.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Protocol

from table_format.errors import TableFormatError
from table_format.io.ranges import beyond, check_range
from table_format.io.s3_streams import Upload
from table_format.io.store import Piece, Range

_log = logging.getLogger(__name__)

LEAST_PART: Final = 5 << 20
MOST_PART: Final = 64 << 20
"""Copied by one request: little enough to be done within its time limit."""
_PARTS_AT_ONCE: Final = 4
_MOST_PARTS: Final = 10_000


class CopyingUpload(Upload, Protocol):
    """An upload whose parts may be copied by the store."""

    def copy_part(self, number: int, source: Range) -> str:
        """Copy a part (the first is 1); its entity tag."""
        ...


@dataclass(slots=True)
class Sent:
    """A part whose bytes are fetched, where they are a range, and sent."""

    pieces: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(size_of(piece) for piece in self.pieces)


Part = Range | Sent
"""A range is a part that the store copies."""


def size_of(piece: Piece) -> int:
    """The piece's bytes."""
    return piece.size if isinstance(piece, Range) else len(piece)


def parts_of(pieces: Sequence[Piece]) -> list[Part]:
    """The parts that make up the object, in order; all but the last have `LEAST_PART` bytes or more."""
    total = sum(size_of(piece) for piece in pieces)
    most = max(MOST_PART, -(-total // (_MOST_PARTS // 2)))
    parts: list[Part] = []
    small = Sent()
    for piece in pieces:
        rest = piece
        if isinstance(rest, Range) and small.pieces:
            missing = min(max(0, LEAST_PART - small.size), rest.size)
            small.pieces += [_cut(rest, 0, missing)] if missing else []
            rest = _cut(rest, missing, rest.size)
        if small.size >= LEAST_PART:
            parts.append(small)
            small = Sent()
        if isinstance(rest, Range) and rest.size >= LEAST_PART:
            parts += _split(rest, most)
        elif size_of(rest):
            small.pieces.append(rest)
    if len(small.pieces) == 1 and parts and isinstance(small.pieces[0], Range):
        parts.append(small.pieces[0])  # the last part may be small
    elif small.pieces:
        parts.append(small)
    return parts


def _cut(whole: Range, start: int, end: int) -> Range:
    return Range(path=whole.path, start=whole.start + start, end=whole.start + end, etag=whole.etag)


def _split(whole: Range, most: int) -> Iterator[Range]:
    number = -(-whole.size // most)
    borders = [whole.size * place // number for place in range(number + 1)]
    return (_cut(whole, start, end) for start, end in pairwise(borders))


def compose(
    upload: CopyingUpload,
    fetch: Callable[[Range], bytes],
    pieces: Sequence[Piece],
    threads: Executor,
    go_on: Callable[[], None],
) -> int:
    """Make the object; how many of its bytes went through this process.

    Raises:
        Invalid: a range is none, or its object ends before it.
        NoSuchFile, Unavailable: as the store; Unavailable too when a source was replaced.
    """
    for piece in pieces:
        if isinstance(piece, Range):
            check_range(piece)
    parts = parts_of(pieces)
    sent = sum(part.size for part in parts if isinstance(part, Sent))
    if len(parts) < 2 and sent == sum(map(size_of, pieces)):
        go_on()
        upload.put(_joined(parts[0], fetch) if parts and isinstance(parts[0], Sent) else b"")
        return sent
    upload.begin()
    running: deque[Future[str]] = deque()
    tags: list[str] = []
    try:
        for number, part in enumerate(parts, 1):
            go_on()
            if len(running) >= _PARTS_AT_ONCE:
                tags.append(running.popleft().result())
            running.append(threads.submit(_put_part, upload, fetch, number, part))
        while running:
            tags.append(running.popleft().result())
        go_on()
        upload.complete(tags)
    except BaseException:
        # A part that arrives after the others were forgotten would stay, so wait for all.
        for part_running in running:
            if not part_running.cancel():
                part_running.exception()
        _forget(upload)
        raise
    return sent


def _forget(upload: CopyingUpload) -> None:
    try:
        upload.abort()
    except TableFormatError as error:
        _log.warning("an unfinished upload could not be aborted: %s", error.message)


def _put_part(upload: CopyingUpload, fetch: Callable[[Range], bytes], number: int, part: Part) -> str:
    if isinstance(part, Range):
        return upload.copy_part(number, part)
    return upload.part(number, _joined(part, fetch))


def _joined(part: Sent, fetch: Callable[[Range], bytes]) -> bytes:
    return b"".join(_fetched(piece, fetch) if isinstance(piece, Range) else piece for piece in part.pieces)


def _fetched(wanted: Range, fetch: Callable[[Range], bytes]) -> bytes:
    data = fetch(wanted)
    if len(data) != wanted.size:
        raise beyond(wanted)
    return data
