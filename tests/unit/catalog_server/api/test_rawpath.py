"""Path segments are decoded once, strictly, and a plus is ambiguous."""

import pytest

from catalog_server.api.rawpath import RawNames, decode, split_namespace
from table_format.errors import Invalid
from table_format.ident import Namespace


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("a%2Fb", "a/b"),
        ("a%20b", "a b"),
        ("a+b", "a b"),
        ("a%2Bb", "a+b"),
        ("100%25", "100%"),
        ("%2541", "%41"),
        ("f1%5Fcross", "f1_cross"),
        ("gr%C3%BC%C3%9Fe", "grüße"),
        ("%E6%B0%B4", "水"),
        ("..", ".."),
        ("%2E%2e", ".."),
        ("a%3Fb%23c%26d%3De", "a?b#c&d=e"),
    ],
)
def test_decode(raw: str, text: str) -> None:
    assert decode(raw) == text


def test_plus_can_be_read_literally() -> None:
    assert decode("a+b", plus_is_space=False) == "a+b"
    assert decode("a%20b", plus_is_space=False) == "a b"


@pytest.mark.parametrize(
    "raw",
    [
        "%",
        "a%2",
        "%zz",
        "%ff",
        "%C0%AF",
        "%E0%80%AF",
        "%ED%A0%80",
        "%00",
        "a%00b",
        "%F5%80%80%80",
        "%C3",
        "\xff",
    ],
)
def test_what_is_not_utf8_or_holds_zero_is_refused(raw: str) -> None:
    with pytest.raises(Invalid, match="Malformed path"):
        decode(raw)


def test_namespace_levels_are_split_at_1f_and_nowhere_else() -> None:
    names = RawNames({"namespace": "a.b%1Fc%2Fd"})
    assert names.namespace() == Namespace(("a.b", "c/d"))


@pytest.mark.parametrize("text", ["", "\x1f", "a\x1f", "\x1fa", "a\x1f\x1fb"])
def test_empty_levels_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="level"):
        split_namespace(text)


def test_only_a_raw_plus_is_ambiguous() -> None:
    assert RawNames({"table": "a+b"}).ambiguous
    assert not RawNames({"table": "a%2Bb", "namespace": "a%20b"}).ambiguous
    assert RawNames({"table": "a+b"}).literal().text("table") == "a+b"
