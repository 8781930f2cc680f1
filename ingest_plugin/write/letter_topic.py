"""Dead letters as records of a Kafka topic: key, value and headers as they were, and headers that tell the rest.

They are acknowledged by all replicas before the catalog is asked to commit the offsets behind them. A crash, or a
commit that is refused after that, repeats them: topic, partition and offset in the headers tell the copies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ingest_plugin import offsets
from ingest_plugin.decode.values import DataError
from ingest_plugin.kafka import NO_TIMESTAMP, Message
from ingest_plugin.together import CommitAfter
from ingest_plugin.write.letters import LettersGone, LettersWait
from table_format.catalog import TableCatalog

MEMORY = 32 * 1024 * 1024
"""Bytes of letters from which on a commit does not wait for its interval."""
CONNECT, OWN = "__connect.errors.", "frazil.errors."


@dataclass(frozen=True, slots=True)
class Parcel:
    """One record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class NotSent(Exception):
    """Some parcels were not acknowledged; `final` when they never will be."""

    def __init__(self, reason: str, left: Sequence[Parcel], *, final: bool) -> None:
        super().__init__(reason)
        self.left = left
        self.final = final


class Outbox(Protocol):
    """A connection that produces."""

    def send(self, topic: str, parcels: Sequence[Parcel]) -> None:
        """Return once all are acknowledged by all replicas.

        Raises:
            NotSent: some are not.
        """
        ...


@dataclass(slots=True, kw_only=True)
class LetterTopic:
    """One topic's dead letters since the last commit, on their way to another topic."""

    topic: str
    group: str
    outbox: Outbox
    _waiting: list[Parcel] = field(default_factory=list)
    _count: int = 0
    _bytes: int = 0
    _sealed: bool = False
    """Whether what waits belongs to a commit that has been begun."""

    @property
    def count(self) -> int:
        """How many wait for a commit."""
        return self._count

    @property
    def full(self) -> bool:
        """Whether what is held in memory should be committed before more is taken."""
        return self._bytes >= MEMORY

    @property
    def held(self) -> int:
        """Bytes of the letters."""
        return self._bytes

    def add(self, letters: Sequence[tuple[Message, DataError]]) -> None:
        """Keep these records, with the reason."""
        for message, error in letters:
            parcel = Parcel(message.key(), message.value(), self._headers(message, error))
            self._waiting.append(parcel)
            self._bytes += sum(len(part or b"") for part in (parcel.key, parcel.value))
            self._bytes += sum(len(name) + len(value or b"") for name, value in parcel.headers)
        self._count += len(letters)

    def _headers(self, message: Message, error: DataError) -> list[tuple[str, bytes | None]]:
        told = {
            f"{CONNECT}topic": message.topic(),
            f"{CONNECT}partition": str(message.partition()),
            f"{CONNECT}offset": str(message.offset()),
            f"{CONNECT}connector.name": self.group,
            f"{CONNECT}exception.class.name": f"DataError.{error.kind}",
            f"{CONNECT}exception.message": error.reason,
        }
        kind, millis = message.timestamp()
        if kind != NO_TIMESTAMP:
            # In a header: as the record's own it might be older than what the topic keeps.
            told[f"{OWN}timestamp"] = str(millis)
        return [*(message.headers() or []), *((name, text.encode()) for name, text in told.items())]

    def close_files(self) -> None:
        """There are none."""

    def along(self, catalog: TableCatalog, summary: Mapping[str, str], commit_id: str) -> TableCatalog:
        """The catalog, which is asked to commit only once all letters have been acknowledged."""
        known = {
            "commit.id": commit_id,
            "cluster.id": summary.get(offsets.CLUSTER_ID),
            "topic.id": summary.get(offsets.TOPIC_ID),
        }
        more = [(f"{OWN}{name}", text.encode()) for name, text in known.items() if text is not None]
        return CommitAfter(catalog, lambda: self._send(more))

    def _send(self, more: Sequence[tuple[str, bytes]]) -> None:
        if not self._waiting:
            return
        if not self._sealed:
            self._sealed = True
            self._waiting = [Parcel(each.key, each.value, [*each.headers, *more]) for each in self._waiting]
        try:
            self.outbox.send(self.topic, self._waiting)
        except NotSent as error:
            self._waiting = list(error.left)
            told = f"{len(error.left)} dead letters cannot be produced to topic {self.topic}: {error}"
            raise (LettersGone if error.final else LettersWait)(told) from None
        self._waiting = []

    def committed(self) -> None:
        """What waited is in the topic, and the offsets behind it in the table."""
        self._waiting, self._count, self._bytes, self._sealed = [], 0, 0, False

    def discard(self) -> None:
        """Drop what waits: its records will be read again."""
        self.committed()
