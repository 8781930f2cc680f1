"""Pieces of work executed here: by the caller itself, or by a process for another."""

from collections.abc import Generator, Iterable

from maintenance.executors.port import Ended, GoOn, R, Reach, Work
from maintenance.executors.throttle import Throttle, ThrottledStore
from table_format.clock import Clock, SystemClock
from table_format.errors import TableFormatError
from table_format.io.counted import CountedStore
from table_format.io.store import ObjectStore


def attempt(
    work: Work[R],
    store: ObjectStore,
    go_on: GoOn,
    bytes_per_second: float | None = None,
    clock: Clock | None = None,
) -> Ended[R]:
    """Run one piece here, no faster than that."""
    clock = clock or SystemClock()
    throttle = None if bytes_per_second is None else Throttle(bytes_per_second, clock, go_on)
    counted = CountedStore(store if throttle is None else ThrottledStore(store, throttle))
    began = clock.monotonic()
    result: R | None = None
    failure: TableFormatError | None = None
    try:
        result = work.run(counted, go_on)
    except TableFormatError as error:
        failure = error
    return Ended(
        work=work,
        result=result,
        error=failure,
        calls=counted.calls,
        seconds=clock.monotonic() - began,
        throttled=0.0 if throttle is None else throttle.waited,
    )


class InlineExecutor:
    """Executes in the caller's thread, one piece after the other."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def run(self, works: Iterable[Work[R]], reach: Reach, go_on: GoOn) -> Generator[Ended[R], None, None]:
        """Execute all."""
        for work in works:
            _, rate = reach.pace().among(1)
            yield attempt(work, reach.store, go_on, rate, self._clock)

    def close(self) -> None:
        """Nothing to end."""
