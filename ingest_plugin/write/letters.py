"""Where records go that could not become rows: what a topic's task needs of such a place.

Whatever it is, letters are there before the offsets behind them are committed: a crash may repeat some, and loses none.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ingest_plugin.decode.values import DataError
from ingest_plugin.kafka import Message
from table_format.catalog import TableCatalog


class LettersGone(Exception):
    """The place is not the one that was written to, or does not take these letters: the message says what to do."""


class LettersWait(Exception):
    """The place does not take letters now; what it has taken already is not sent again."""


class Letters(Protocol):
    """One topic's dead letters since the last commit."""

    @property
    def count(self) -> int:
        """How many wait for a commit."""
        ...

    @property
    def full(self) -> bool:
        """Whether what is held in memory should be committed before more is taken."""
        ...

    @property
    def held(self) -> int:
        """Bytes of memory, about."""
        ...

    def add(self, letters: Sequence[tuple[Message, DataError]]) -> None:
        """Keep these records, with the reason.

        Raises:
            Unavailable: something is away.
        """
        ...

    def close_files(self) -> None:
        """Make ready what waits.

        Raises:
            Unavailable: something is away; what waits must be discarded.
        """
        ...

    def along(self, catalog: TableCatalog, summary: Mapping[str, str], commit_id: str) -> TableCatalog:
        """The catalog by which the rows of the same stretch are to be committed, so that the letters are there then.

        Committing by it may raise `LettersGone` and `LettersWait`; it is safe to do again with the same id.
        """
        ...

    def committed(self) -> None:
        """What waited is where it belongs."""
        ...

    def discard(self) -> None:
        """Drop what waits: its records will be read again."""
        ...
