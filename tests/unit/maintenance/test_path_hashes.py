"""Very many paths by hash: one that is there is never missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maintenance import path_hashes
from maintenance.path_hashes import PathHashes


@given(st.lists(st.lists(st.text(max_size=4), max_size=30), max_size=8), st.lists(st.text(max_size=4)))
def test_it_holds_what_was_added_and_nothing_else(added: list[list[str]], asked: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_hashes, "_FEW", 5)
        patch.setattr(path_hashes, "_MANY", 7)
        held, known = PathHashes(), set[str]()
        for texts in added:
            held.add(texts)
            known.update(texts)
            questions = [*known, *asked]
            assert [held.holds(text) for text in questions] == [text in known for text in questions]
            assert held.held(questions).tolist() == [text in known for text in questions]


def test_one_hash_for_two_keeps_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_hashes, "hash", lambda _: 7, raising=False)
    held = PathHashes()
    held.add(["a"])
    assert held.holds("b")
    assert held.held(["a", "b"]).tolist() == [True, True]
