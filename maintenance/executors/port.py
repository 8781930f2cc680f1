"""The port to whatever executes pieces of a job's work: what a piece is, how it ends, and how it is run in any place.

A piece travels, so it is picklable and holds no store: it is given one where it runs. What it decided and what is
committed never travels. A piece that is lost with its process says nothing of the others.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from table_format.errors import TableFormatError, Unavailable, Unsupported
from table_format.ident import canonical, scheme
from table_format.io.store import ObjectStore

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

GoOn = Callable[[], None]
"""Asked between steps; raises when the work is to end."""


class Stopped(Exception):
    """A job ends at a safe step because it was told to; nothing is half-done."""


class WorkLost(Unavailable):
    """The process that did a piece of work ended before the work did; it may be tried again."""


class MemoryExceeded(Unsupported):
    """A piece of work took more memory than it may; it would again."""


class Work(Protocol[R_co]):
    """One piece of work; picklable."""

    @property
    def title(self) -> str:
        """What it is, for messages."""
        ...

    def run(self, store: ObjectStore, go_on: GoOn) -> R_co:
        """Do it.

        Raises:
            TableFormatError: it can not be done.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a job may go, as many jobs as run at this moment."""

    bytes_per_second: float | None = None
    """What its pieces read and write together; None is no limit."""
    pieces: int | None = None
    """How many of them may run side by side; None: as many as there is room for."""

    def among(self, most: int) -> tuple[int, float | None]:
        """How many pieces may run where there is room for `most`, and how many bytes a second each may move."""
        side_by_side = most if self.pieces is None else max(1, min(most, self.pieces))
        rate = self.bytes_per_second
        return side_by_side, None if rate is None else rate / side_by_side


UNLIMITED: Final = Pace()


def _unlimited() -> Pace:
    return UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How the objects are reached: here by `store`, elsewhere by a store made of the location and its properties."""

    location: str
    properties: Mapping[str, str] = field(repr=False)
    """Secrets included."""
    within: str
    """The place outside of which nothing is reached, whatever metadata names."""
    store: ObjectStore
    """Confined to that place already."""
    pace: Callable[[], Pace] = _unlimited
    """Asked whenever a piece begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[R]):
    """How a piece of work ended: with a result or an error."""

    work: Work[R]
    result: R | None = None
    error: TableFormatError | None = None
    calls: Mapping[str, int] = field(default_factory=dict)
    """Calls of the object store, by kind; unknown (empty) when the process was lost."""
    seconds: float = 0.0
    throttled: float = 0.0
    """Seconds of them, or of several threads at once, that it waited as it was too fast."""


class Executor(Protocol):
    """Executes pieces of work, several side by side where it can."""

    def run(self, works: Iterable[Work[R]], reach: Reach, go_on: GoOn) -> Generator[Ended[R], None, None]:
        """Execute all, and give each as it ends. A piece is only asked for when it can begin.

        When `go_on` or the iterable raises, or nobody wants more, pieces that run are ended and their end awaited.
        """
        ...

    def close(self) -> None:
        """End what is left of processes; nothing may be running."""
        ...


def stays_here(reach: Reach) -> bool:
    """Whether the objects are in this process's memory, so that no other process can reach them."""
    return scheme(canonical(reach.location)) == "memory"
