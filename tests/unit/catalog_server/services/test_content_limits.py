"""How much a table, view or namespace may hold: the bound passes, one more does not."""

from typing import Any

import pytest

from catalog_server.services.content_limits import ContentLimits
from table_format.errors import Invalid

LIMITS = ContentLimits(columns=5, properties=3, text_bytes=8)


def struct(*types: Any, doc: str = "") -> dict[str, Any]:
    fields = [{"id": 1, "name": "a", "required": False, "type": kind, "doc": doc} for kind in types]
    return {"type": "struct", "fields": fields}


def test_columns_are_counted_at_every_level() -> None:
    inner = struct("int", "int")
    entries = {"type": "map", "key-id": 1, "key": struct("int"), "value-id": 2, "value": struct("int")}
    for schema in (
        struct(*["int"] * 5),
        struct("int", "int", inner),
        struct("int", "int", {"type": "list", "element-id": 3, "element": inner}),
        struct("int", "int", entries),
    ):
        LIMITS.check_schema(schema)
        schema["fields"].append({"id": 9, "name": "z", "required": False, "type": "int"})
        with pytest.raises(Invalid, match="at most 5 columns"):
            LIMITS.check_schema(schema)


def test_a_very_deep_schema_is_walked_without_recursion() -> None:
    deep: Any = "int"
    for _ in range(100_000):
        deep = {"type": "list", "element": deep}
    LIMITS.check_schema(struct(deep))


@pytest.mark.parametrize("text", ["x" * 9, "ü" * 5, "€€€", "\U0001f600\U0001f600x"])
def test_texts_are_measured_in_bytes(text: str) -> None:
    shorter = text[:-1]
    LIMITS.check_properties({shorter: shorter})
    LIMITS.check_schema(struct("int", doc=shorter))
    LIMITS.check_version({"representations": [{"type": "sql", "sql": shorter}, "odd"]})
    for check in (
        lambda: LIMITS.check_properties({"a": text}),
        lambda: LIMITS.check_properties({text: "a"}),
        lambda: LIMITS.check_schema(struct("int", doc=text)),
        lambda: LIMITS.check_version({"representations": [{"type": "sql", "sql": text}]}),
    ):
        with pytest.raises(Invalid, match="at most 8 bytes"):
            check()


def setting(*names: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": dict.fromkeys(names, "")}


def test_properties_are_counted_with_those_that_stay() -> None:
    held = {"a": "", "b": ""}
    LIMITS.check_updates([setting("c")], held)
    LIMITS.check_updates([setting("a", "b", "c")], held)
    LIMITS.check_updates([{"action": "remove-properties", "removals": ["a"]}, setting("c", "d")], held)
    for updates in ([setting("c", "d")], [setting("c"), setting("d")]):
        with pytest.raises(Invalid, match="at most 3 properties can be set, not 4"):
            LIMITS.check_updates(updates, held)
    with pytest.raises(Invalid, match="at most 3 properties"):
        LIMITS.check_properties(dict.fromkeys("abcd", ""))


def test_what_was_there_before_the_bound_may_stay_but_not_grow() -> None:
    held = dict.fromkeys("abcdef", "")
    LIMITS.check_updates([setting("a")], held)
    LIMITS.check_updates([{"action": "remove-properties", "removals": ["a", "none"]}], held)
    with pytest.raises(Invalid, match="at most 3 properties can be set, not 7"):
        LIMITS.check_updates([setting("g")], held)


def test_updates_that_add_schemas_and_versions_are_looked_into() -> None:
    with pytest.raises(Invalid, match="columns"):
        LIMITS.check_updates([{"action": "add-schema", "schema": struct(*["int"] * 6)}], {})
    version = {"representations": [{"type": "sql", "sql": "select 123"}]}
    with pytest.raises(Invalid, match="view"):
        LIMITS.check_updates([{"action": "add-view-version", "view-version": version}], {})


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"action": 5},
        {"action": "add-schema", "schema": []},
        {"action": "add-schema", "schema": {"fields": {"a": 1}}},
        {"action": "set-properties", "updates": [1]},
        {"action": "set-properties", "updates": {"a": 5}},
        {"action": "remove-properties", "removals": [[], {}, None]},
        {"action": "remove-properties", "removals": "a"},
        {"action": "add-view-version", "view-version": {"representations": 5}},
    ],
)
def test_nonsense_is_left_to_those_who_read_it(update: dict[str, Any]) -> None:
    LIMITS.check_updates([update], {})


@pytest.mark.parametrize("properties", [{"a": "\ud800"}, {"\udfff": "a"}, {"a": "x\udc00y"}])
def test_half_a_character_can_not_be_stored(properties: dict[str, str]) -> None:
    """JSON has escapes for them, and the database could not write them: that was a 500."""
    with pytest.raises(Invalid, match="half a character"):
        LIMITS.check_properties(properties)
    LIMITS.check_properties({"\U00010000": "\ue000"})
