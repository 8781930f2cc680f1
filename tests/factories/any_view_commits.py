"""Hypothesis: commits to views as any client might send them, right and wrong, drawn against the state of a view."""

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from table_format.jsontypes import JsonObject
from table_format.metadata import view_updates
from table_format.metadata.views import ViewMetadata
from tests.factories.any_commits import rarely
from tests.factories.metadata_documents import NOW, UUID, field, struct
from tests.factories.views import LOCATION, add_version, query, replacing, set_current

Draw = Callable[..., Any]
SCHEMAS = (
    struct(field(1, "id", "int", required=True), **{"schema-id": 0}),
    struct(field(1, "id", "long", required=True), field(2, "data", "string", doc="text"), **{"schema-id": 4}),
    struct(field(1, "v", "variant"), field(2, "g", "geometry(srid:1)"), **{"schema-id": 2}),
)


def _one(draw: Draw, values: Any) -> Any:
    return draw(st.sampled_from(list(values)))


def version(draw: Draw, schema_id: int, version_id: int) -> JsonObject:
    """The update that adds a version: of one or two dialects, perhaps the same one twice."""
    dialects = [_one(draw, ["spark", "spark", "trino", "Spark"]) for _ in range(_one(draw, [1, 1, 1, 2]))]
    queries = [query(_one(draw, ["select 1", "select 2"]), dialect) for dialect in dialects]
    more: dict[str, Any] = {"default_catalog": "c"} if rarely(draw) else {}
    namespace = _one(draw, [["ns"], ["ns", "x"], []])
    return add_version(*queries, version_id=version_id, schema_id=schema_id, default_namespace=namespace,
                       timestamp_ms=NOW + version_id, **more)  # fmt: skip


def replace(draw: Draw, view: ViewMetadata) -> list[JsonObject]:
    """A version with a schema of its own, or of one that is there, or of none; made current or not."""
    updates: list[JsonObject] = []
    schema_id = _one(draw, [*(row["schema-id"] for row in view.schemas), 77 if rarely(draw) else 0])
    if draw(st.booleans()):
        updates.append({"action": "add-schema", "schema": _one(draw, SCHEMAS)})
        schema_id = -1
    highest = max(row["version-id"] for row in view.versions)
    updates.append(version(draw, schema_id, _one(draw, [highest + 1, highest + 1, highest, 1, highest + 5])))
    return [*updates, *([set_current()] if draw(st.integers(0, 3)) else [])]


def go_back(draw: Draw, view: ViewMetadata) -> list[JsonObject]:
    """An older version made current, perhaps one that is not there."""
    return [set_current(_one(draw, [*(row["version-id"] for row in view.versions), 77, -1]))]


def properties(draw: Draw, view: ViewMetadata) -> list[JsonObject]:
    """Properties set or removed, those that rule the history too."""
    names = ["a", "b", "version.history.num-entries", "replace.drop-dialect.allowed"]
    if draw(st.booleans()):
        return [
            {"action": "remove-properties", "removals": draw(st.lists(st.sampled_from(names), max_size=2))}
        ]
    values = {"a": "1", "b": "", "version.history.num-entries": _one(draw, ["1", "2", "3", "0"])}
    values["replace.drop-dialect.allowed"] = _one(draw, ["true", "false"])
    chosen = draw(st.lists(st.sampled_from(names), max_size=2))
    return [{"action": "set-properties", "updates": {name: values[name] for name in chosen}}]


def rest(draw: Draw, view: ViewMetadata) -> list[JsonObject]:
    """Location, UUID, format version, or a schema alone."""
    return [
        _one(
            draw,
            [
                {"action": "set-location", "location": _one(draw, [LOCATION, "file:///w"])},
                {"action": "assign-uuid", "uuid": _one(draw, [UUID, UUID, UUID.replace("0", "1")])},
                {"action": "upgrade-format-version", "format-version": _one(draw, [1, 1, 0, 2])},
                {"action": "add-schema", "schema": _one(draw, SCHEMAS)},
            ],
        )
    ]


@cache
def lived() -> ViewMetadata:
    """A view of three versions, of which it keeps three, the second one current again."""
    base = view_updates.new_view(
        schema=SCHEMAS[0],
        version=add_version(query("select 0"))["view-version"],
        properties={"version.history.num-entries": "3", "replace.drop-dialect.allowed": "true"},
        location=LOCATION,
        uuid=UUID,
        now_ms=NOW,
    )
    for number, schema in ((2, SCHEMAS[1]), (3, SCHEMAS[2])):
        base = view_updates.apply(
            base, replacing(query(f"select {number}"), schema=schema), now_ms=NOW + number
        )
    return view_updates.apply(base, [set_current(2)], now_ms=NOW + 9)


STEPS = (replace, replace, replace, go_back, properties, rest)


def commit(draw: Draw, view: ViewMetadata) -> list[JsonObject]:
    """The updates of one commit: one or two steps, each drawn against the view as it is before the commit."""
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=2))
    return [update for step in steps for update in step(draw, view)]


def requirements(draw: Draw) -> list[JsonObject]:
    """None, or the only one that views have."""
    wanted = UUID.replace("0", "1") if rarely(draw) else UUID
    return [{"type": "assert-view-uuid", "uuid": wanted}] if draw(st.booleans()) else []
