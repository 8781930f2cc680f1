"""The decorators do what they add; that they otherwise are stores shows the behaviour suite."""

import pytest

from table_format.clock import SystemClock
from table_format.errors import Unavailable
from table_format.io.faults import Counting, Failing, Rule
from table_format.io.memory import MemoryObjectStore


def new_store(*rules: Rule) -> Failing:
    return Failing(MemoryObjectStore(SystemClock()), rules)


def test_a_rule_before_the_operation_keeps_it_from_happening() -> None:
    store = new_store(Rule(methods=frozenset({"put"}), pattern=r"metadata/"))
    store.put("memory://t/data/x", b"1")
    with pytest.raises(Unavailable, match="injected"):
        store.put("memory://t/metadata/x", b"1")
    assert not store.exists("memory://t/metadata/x")
    store.put("memory://t/metadata/x", b"1")
    assert store.get("memory://t/metadata/x") == b"1"


def test_a_rule_after_the_operation_loses_only_the_answer() -> None:
    store = new_store(
        Rule(methods=frozenset({"put"}), after=True),
        Rule(methods=frozenset({"delete_many"}), after=True, pattern="y$"),
    )
    with pytest.raises(Unavailable):
        store.put("memory://t/x", b"1")
    assert store.get("memory://t/x") == b"1"
    store.put("memory://t/y", b"1")
    with pytest.raises(Unavailable):
        store.delete_many(["memory://t/x", "memory://t/y"])
    assert [info.path for info in store.list("memory://t")] == []


def test_the_nth_call_fails_as_often_as_told() -> None:
    store = new_store(Rule(methods=frozenset({"exists"}), nth=2, times=2))
    outcomes = []
    for _ in range(5):
        try:
            outcomes.append(store.exists("memory://t/x"))
        except Unavailable:
            outcomes.append(None)
    assert outcomes == [False, None, None, False, False]


def test_times_none_fails_for_ever_with_the_error_given() -> None:
    store = new_store(Rule(nth=3, times=None, error=lambda: KeyboardInterrupt("killed")))
    store.exists("memory://t/x")
    store.exists("memory://t/x")
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt, match="killed"):
            store.get("memory://t/x")


@pytest.mark.parametrize("after", [False, True])
def test_publishing_an_output_can_fail(after: bool) -> None:
    store = new_store(Rule(methods=frozenset({"close_output"}), after=after))
    out = store.open_output("memory://t/x")
    out.write(b"1")
    with pytest.raises(Unavailable):
        out.close()
    assert out.closed
    assert store.exists("memory://t/x") is after


def test_opening_can_fail() -> None:
    store = new_store(
        Rule(methods=frozenset({"open_output"})), Rule(methods=frozenset({"open_input"}), after=True)
    )
    with pytest.raises(Unavailable):
        store.open_output("memory://t/x")
    store.put("memory://t/x", b"1")
    with pytest.raises(Unavailable):
        store.open_input("memory://t/x")
    with store.open_input("memory://t/x") as reader:
        assert reader.read() == b"1"


def test_a_listing_can_break_at_its_end() -> None:
    store = new_store(Rule(methods=frozenset({"list"}), after=True))
    store.put("memory://t/x", b"1")
    seen = []
    with pytest.raises(Unavailable):
        seen.extend(info.path for info in store.list("memory://t"))
    assert [info.path for info in store.list("memory://t")] == ["memory://t/x"]


def test_counting() -> None:
    store = Counting(MemoryObjectStore(SystemClock()))
    store.put("memory://t/x", b"12345")
    with store.open_output("memory://t/y") as out:
        out.write(b"123")
    store.get("memory://t/x", (1, 3))
    with store.open_input("memory://t/y") as reader:
        reader.read()
    list(store.list("memory://t"))
    store.delete_many(["memory://t/x", "memory://t/y"])
    assert store.calls == {
        "put": 1, "open_output": 1, "get": 1, "open_input": 1, "list": 1, "delete_many": 1,
    }  # fmt: skip
    assert store.paths["delete_many"] == ["memory://t/x", "memory://t/y"]
    assert (store.bytes_read, store.bytes_written) == (5, 8)
    store.reset()
    assert (sum(store.calls.values()), store.bytes_read, store.bytes_written) == (0, 0, 0)
