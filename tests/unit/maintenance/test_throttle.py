"""So many bytes a second: what is paid for, how long it waits, and that waiting ends when the work is to end."""

import io
from contextlib import suppress

import pytest

from maintenance.executors.choice import executor_of
from maintenance.executors.inline import InlineExecutor, attempt
from maintenance.executors.kinds import ExecutorKind
from maintenance.executors.port import Pace, Reach, Stopped
from maintenance.executors.throttle import Throttle, ThrottledStore
from table_format.errors import Unsupported
from table_format.io.fileio import pyarrow_input, pyarrow_output
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import Range
from tests.fakes.clock import ManualClock

PATH = "memory://w/a"


def go_on():
    """Nothing stops."""


def throttled(rate, clock=None):
    clock = clock or ManualClock()
    store = MemoryObjectStore(clock)
    store.put(PATH, bytes(1000))
    throttle = Throttle(rate, clock, go_on)
    return ThrottledStore(store, throttle), throttle, clock


def test_a_second_is_free_and_the_rest_takes_its_time():
    store, throttle, clock = throttled(100)
    store.get(PATH, (0, 100))
    assert clock.monotonic() == 0
    store.get(PATH)
    assert clock.monotonic() == pytest.approx(10)
    assert throttle.waited == pytest.approx(10)
    assert max(clock.sleeps) <= 0.2


def test_time_in_which_nothing_is_moved_fills_a_second_and_no_more():
    store, _, clock = throttled(100)
    clock.advance(1000)
    store.get(PATH, (0, 300))
    assert clock.monotonic() == pytest.approx(1002)


def test_every_way_of_reading_and_writing_is_paid_for():
    ways = {
        "get": lambda store: store.get(PATH),
        "put": lambda store: store.put("memory://w/b", bytes(1000)),
        "open_input": lambda store: store.open_input(PATH).read(),
        "a pyarrow reader": lambda store: pyarrow_input(store, PATH).read(),
        "a pyarrow writer": _written,
        "compose": lambda store: store.compose("memory://w/c", [bytes(1000)], go_on),
    }
    for name, way in ways.items():
        store, _, clock = throttled(1000)
        way(store)
        way(store)
        assert clock.monotonic() == pytest.approx(1), name


def _written(store):
    with pyarrow_output(store, "memory://w/b") as sink:
        sink.write(bytes(1000))
    assert store.exists("memory://w/b")


def test_what_costs_no_bytes_is_free():
    store, throttle, clock = throttled(1)
    clock.advance(5)
    assert store.exists(PATH)
    assert store.head(PATH).size == 1000
    assert [info.path for info in store.list("memory://w")] == [PATH]
    assert store.delete_many([PATH]) == []
    assert (clock.monotonic(), throttle.waited) == (5, 0)


def test_what_the_store_copies_itself_costs_what_passed_through():
    store, _, clock = throttled(1000)

    class Copies(MemoryObjectStore):
        def compose(self, path, pieces, go_on):
            return 500

    store.inner = Copies(clock)
    store.compose("memory://w/c", [Range(path=PATH, start=0, end=1000)], go_on)
    assert clock.monotonic() == 0
    store.compose("memory://w/c", [Range(path=PATH, start=0, end=1000)], go_on)
    store.compose("memory://w/c", [Range(path=PATH, start=0, end=1000)], go_on)
    assert clock.monotonic() == pytest.approx(0.5)


@pytest.mark.parametrize("how", ["aborted", "left by an exception", "dropped"])
def test_an_output_that_is_not_closed_does_not_appear(how):
    store, _, _ = throttled(1000)
    if how == "aborted":
        sink = pyarrow_output(store, "memory://w/b")
        sink.write(b"x")
        sink.abort()
    elif how == "left by an exception":
        with suppress(Unsupported), store.open_output("memory://w/b") as sink:
            sink.write(b"x")
            raise Unsupported("no")
    else:
        sink = store.open_output("memory://w/b")
        sink.write(b"x")
        del sink
    assert not store.exists("memory://w/b")


@pytest.mark.parametrize("error", [Stopped(), Unsupported("it took more than it may")])
def test_waiting_ends_when_the_work_is_to_end_and_raises_nothing(error):
    clock = ManualClock()
    asked = []

    def stop_at_two():
        asked.append(clock.monotonic())
        if clock.monotonic() >= 2:
            raise error

    throttle = Throttle(1, clock, stop_at_two)
    throttle.take(1_000_000)
    ended = clock.monotonic()
    assert 2 <= ended <= 2.4
    before = len(asked)
    throttle.take(1_000_000)
    assert (clock.monotonic(), len(asked)) == (ended, before)


class Reads:
    title = "reads"

    def __init__(self, times=2):
        self.times = times

    def run(self, store, go_on):
        for _ in range(self.times):
            with store.open_input(PATH) as source:
                assert isinstance(source, io.BufferedIOBase)
                source.read()
            go_on()
        return "read"


def test_a_piece_of_work_tells_how_long_it_was_held_back():
    clock = ManualClock()
    store = MemoryObjectStore(clock)
    store.put(PATH, bytes(1000))
    ended = attempt(Reads(3), store, go_on, 1000, clock)
    assert (ended.result, ended.error) == ("read", None)
    assert ended.throttled == pytest.approx(2)
    assert attempt(Reads(3), store, go_on, None, clock).throttled == 0


def test_the_pace_is_asked_for_whenever_a_piece_begins():
    clock = ManualClock()
    store = MemoryObjectStore(clock)
    store.put(PATH, bytes(1000))
    paces = [Pace(bytes_per_second=1000), Pace(bytes_per_second=500), Pace()]
    reach = Reach(
        location="memory://w", properties={}, within="memory://w", store=store, pace=lambda: paces.pop(0)
    )
    ended = list(InlineExecutor(clock).run([Reads(), Reads(), Reads()], reach, go_on))
    assert [one.throttled for one in ended] == [pytest.approx(1), pytest.approx(3), 0]


@pytest.mark.parametrize(
    ("pace", "most", "expected"),
    [
        (Pace(), 4, (4, None)),
        (Pace(bytes_per_second=100), 4, (4, 25)),
        (Pace(bytes_per_second=100, pieces=2), 4, (2, 50)),
        (Pace(bytes_per_second=100, pieces=9), 4, (4, 25)),
        (Pace(pieces=0), 4, (1, None)),
    ],
)
def test_pieces_side_by_side_share_the_pace(pace, most, expected):
    assert pace.among(most) == expected


@pytest.mark.parametrize(("most_memory_mb", "expected"), [(0, 8), (1024, 4), (1023, 3), (10, 1), (99_999, 8)])
def test_as_many_processes_run_as_fit_into_the_memory(most_memory_mb, expected):
    made = executor_of(
        ExecutorKind.PROCESS, side_by_side=8, memory_mb=256, most_memory_mb=most_memory_mb, ray_address=""
    )
    assert made._most == expected
