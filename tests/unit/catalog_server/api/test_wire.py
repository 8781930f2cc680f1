"""Members and query parameters: exactly the type asked for, nothing coerced."""

import pytest

from catalog_server.api.iceberg import wire
from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent


@pytest.mark.parametrize("value", [5, True, [], {}, 1.5])
def test_a_wrong_type_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match="'name' must be a string"):
        wire.required({"name": value}, "name", str)


def test_true_is_not_a_number_and_one_is_not_true() -> None:
    with pytest.raises(Invalid):
        wire.required({"a": True}, "a", int)
    with pytest.raises(Invalid):
        wire.required({"a": 1}, "a", bool)


def test_missing_and_null_are_alike() -> None:
    assert wire.optional({}, "a", str) is None
    assert wire.optional({"a": None}, "a", str) is None
    for body in ({}, {"a": None}, {"A": "x"}):
        with pytest.raises(Invalid, match="'a' is missing"):
            wire.required(body, "a", str)


def test_maps_and_lists_of_strings() -> None:
    assert wire.strings({"p": {"a": "b"}}, "p") == {"a": "b"}
    assert wire.strings({}, "p") == {}
    assert wire.string_list({"r": ["a"]}, "r") == ["a"]
    for bad in ({"p": {"a": 1}}, {"p": {"a": None}}, {"p": ["a"]}):
        with pytest.raises(Invalid):
            wire.strings(bad, "p")
    with pytest.raises(Invalid):
        wire.string_list({"r": ["a", 1]}, "r")
    with pytest.raises(Invalid):
        wire.objects({"u": [{}, 1]}, "u")


@pytest.mark.parametrize("levels", [[], [""], ["a", ""], ["a", 1], "a", {}, [None], ["a\0"], ["a\x1fb"]])
def test_odd_namespaces_are_refused(levels: object) -> None:
    with pytest.raises(Invalid):
        wire.namespace_member({"namespace": levels})


def test_table_ident() -> None:
    body = {"source": {"namespace": ["a", "b"], "name": "t"}}
    assert wire.table_ident(body, "source") == TableIdent(Namespace(("a", "b")), "t")
    with pytest.raises(Invalid):
        wire.table_ident({"source": {"namespace": ["a"]}}, "source")


@pytest.mark.parametrize(("text", "value"), [("True", True), ("true", True), ("FALSE", False), ("", False)])
def test_booleans_in_any_case(text: str, value: bool) -> None:
    assert wire.Query.parse(f"purgeRequested={text}".encode()).flag("purgeRequested") is value


@pytest.mark.parametrize("text", ["1", "yes", "tru"])
def test_other_booleans_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        wire.Query.parse(f"purgeRequested={text}".encode()).flag("purgeRequested")


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "1e3", "9" * 30, "%D9%A1", "+1"])
def test_odd_page_sizes_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        wire.Query.parse(f"pageSize={text}".encode()).page_size()


@pytest.mark.parametrize("query", [b"a=%ff", b"a=%00", b"\xff=1", b"&".join(b"a=%d" % n for n in range(100))])
def test_odd_queries_are_refused(query: bytes) -> None:
    with pytest.raises(Invalid):
        wire.Query.parse(query)


def test_parent_is_a_namespace() -> None:
    assert wire.Query.parse(b"parent=a%1Fb%20c").namespace("parent") == Namespace(("a", "b c"))
    assert wire.Query.parse(b"parent=").namespace("parent") is None
