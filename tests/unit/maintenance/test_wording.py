"""Counts with their nouns."""

from maintenance.wording import are, counted


def test_the_noun_follows_the_number():
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
    assert [are(number) for number in (0, 1, 2)] == ["are", "is", "are"]
