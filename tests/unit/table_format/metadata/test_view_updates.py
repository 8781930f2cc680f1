"""View updates: ids as Java's builder gives them, dialects kept, history pruned, nothing changed but what was asked."""

from copy import deepcopy
from typing import Any

import pytest

from table_format.errors import Invalid, InvalidView
from table_format.jsontypes import JsonObject
from table_format.metadata import view_updates
from table_format.metadata.views import ViewMetadata, check_view
from tests.factories.metadata_documents import NOW, UUID, field, struct
from tests.factories.views import (
    LOCATION,
    OTHER_SCHEMA,
    SCHEMA,
    add_version,
    query,
    replacing,
    set_current,
    setting,
    version,
    view,
)

LATER = NOW + 60_000
FREE = {"replace_drop-dialect_allowed": "true"}


def applied(base: ViewMetadata, *updates: Any) -> ViewMetadata:
    before = deepcopy(base.document)
    found = view_updates.apply(base, list(updates), now_ms=LATER)
    assert base.document == before
    check_view(found.document)
    return found


def refused(base: ViewMetadata, *updates: Any) -> str:
    with pytest.raises(InvalidView) as caught:
        applied(base, *updates)
    return caught.value.message


def ids(found: ViewMetadata) -> list[int]:
    return [row["version-id"] for row in found.versions]


def log(found: ViewMetadata) -> list[int]:
    return [row["version-id"] for row in found.version_log]


def test_a_new_view_is_version_1_of_schema_0_with_its_own_column_ids() -> None:
    made = view_updates.new_view(
        schema=SCHEMA,
        version=version(version_id=9, schema_id=77, default_catalog="c", x_own={"k": 1}),
        properties={"a": "b"},
        location=LOCATION,
        uuid=UUID,
        now_ms=LATER,
    )
    first = version(schema_id=0, default_catalog="c", x_own={"k": 1})
    assert made.document == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": LOCATION,
        "properties": {"a": "b"},
        "schemas": [{**SCHEMA, "schema-id": 0}],
        "current-version-id": 1,
        "versions": [first],
        "version-log": [{"timestamp-ms": NOW, "version-id": 1}],
    }
    assert list(made.document)[:3] == ["view-uuid", "format-version", "location"]


def test_a_new_view_has_no_properties_when_none_are_given() -> None:
    assert view().properties == {}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": 5}, "view-version must be an object, not an integer"),
        ({"schema": 5}, "'schema' of add-schema must be an object, not an integer"),
        ({"schema": {"type": "struct", "fields": [{}]}}, "field lacks the member 'name'"),
        ({"schema": struct(field(1, "a", "frob"))}, "Cannot parse type string to primitive: 'frob' of 'a'"),
        (
            {"schema": struct(field(1, "a"), field(1, "b"))},
            "Invalid schema: multiple fields for id 1: a and b",
        ),
        ({"location": ""}, "'location' of set-location must not be empty"),
        (
            {"version": {**version(), "x": float("inf")}},
            "add-view-version holds a number that JSON cannot express",
        ),
        ({"properties": {"a": None}}, "'a' of 'updates' of set-properties must be a string, not null"),
        ({"uuid": "x"}, "'uuid' must be a UUID such as 0b1f5a5e-8b0e-4bb5-a4b9-3ef7c7e0d9a1"),
        ({"version": version(summary=...)}, "a view version lacks the member 'summary'"),
        (
            {"version": version(query(dialect="trino"), query("x", dialect="Trino"))},
            "Invalid view version: Cannot add multiple queries for dialect trino",
        ),
        (
            {"version": {**version(), "representations": []}},
            "Invalid view version: Cannot add a version without a query",
        ),
        (
            {"version": version(query(), {"type": "plan"})},
            "Found unsupported view representations: plan",
        ),
        (
            {"properties": {"version.history.num-entries": "0"}},
            "version.history.num-entries must be positive but was 0",
        ),
    ],
)
def test_what_can_not_be_a_new_view_is_refused(changes: dict[str, Any], text: str) -> None:
    good: dict[str, Any] = {
        "schema": SCHEMA,
        "version": version(),
        "properties": {},
        "location": LOCATION,
        "uuid": UUID,
        "now_ms": NOW,
    }
    with pytest.raises(Invalid) as caught:
        view_updates.new_view(**{**good, **changes})
    assert caught.value.message == text


def test_types_of_format_v3_may_stand_in_a_view() -> None:
    schema = struct(field(1, "a", "variant"), field(2, "b", "timestamp_ns"))
    assert (
        applied(view(), {"action": "add-schema", "schema": schema}).schemas[1]["fields"][0]["type"]
        == "variant"
    )


@pytest.mark.parametrize(
    ("updates", "text"),
    [
        ("x", "updates must be an array, not a string"),
        ([5], "an update must be an object, not an integer"),
        ([{}], "an update lacks the member 'action'"),
        ([{"action": "add-snapshot"}], "unknown update action for a view 'add-snapshot'"),
        (
            [{"action": "set-location", "location": "s3://b/v", "x": float("nan")}],
            "set-location holds a number that JSON cannot express",
        ),
        ([{"action": "set-location"}], "set-location lacks the member 'location'"),
        (
            [{"action": "remove-properties", "removals": "a"}],
            "'removals' of remove-properties must be an array, not a string",
        ),
        ([{"action": "add-view-version"}], "add-view-version lacks the member 'view-version'"),
        (
            [{"action": "set-current-view-version"}],
            "set-current-view-version lacks the member 'view-version-id'",
        ),
        ([add_version(version_id=-1)], "'version-id' of a view version must lie between 0 and 2147483647"),
    ],
)
def test_malformed_updates_are_refused(updates: Any, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        view_updates.apply(view(), updates, now_ms=LATER)
    assert caught.value.message == text
    assert not isinstance(caught.value, InvalidView)


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "assign-uuid", "uuid": UUID.upper()}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "add-schema", "schema": {**SCHEMA, "schema-id": 99}}],
        [{"action": "set-location", "location": LOCATION}],
        [setting(a="b")],
        [{"action": "remove-properties", "removals": ["zz"]}],
        [add_version(version_id=7, timestamp_ms=LATER)],
        [add_version(version_id=7, timestamp_ms=LATER, default_catalog=None), set_current()],
        [set_current(1)],
    ],
)
def test_what_changes_nothing_gives_the_base_itself(updates: list[JsonObject]) -> None:
    base = view(a="b")
    assert view_updates.apply(base, updates, now_ms=LATER) is base


def test_the_uuid_and_the_format_version_stay() -> None:
    assert refused(view(), {"action": "assign-uuid", "uuid": UUID.replace("0", "1")}) == (
        f"Cannot reassign uuid: the view already has {UUID}"
    )
    up, down = ({"action": "upgrade-format-version", "format-version": wanted} for wanted in (2, 0))
    assert refused(view(), up) == "Unsupported format version: 2 (supported for views: 1)"
    assert refused(view(), down) == "Cannot downgrade v1 view to v0"


def test_properties_are_set_and_removed_and_the_place_moves() -> None:
    moved = applied(
        view(a="1", b="2"),
        setting(b="3", c="4"),
        {"action": "remove-properties", "removals": ["a", "zz"]},
        {"action": "set-location", "location": "s3://b/v"},
    )
    assert moved.properties == {"b": "3", "c": "4"}
    assert moved.location == "s3://b/v"
    assert (moved.versions, moved.version_log) == (view().versions, view().version_log)


def test_a_replacement_takes_the_next_ids_and_is_logged() -> None:
    after = applied(
        view(**FREE),
        *replacing(query("select 1", "trino"), schema=OTHER_SCHEMA, version_id=1, timestamp_ms=NOW + 5),
    )
    assert ids(after) == [1, 2]
    assert after.current_version["schema-id"] == 1
    assert after.schemas[1] == {**OTHER_SCHEMA, "schema-id": 1}
    assert after.version_log == [
        {"timestamp-ms": NOW, "version-id": 1},
        {"timestamp-ms": NOW + 5, "version-id": 2},
    ]


def test_a_free_higher_version_id_is_kept() -> None:
    assert ids(applied(view(), *replacing(query("select 1"), version_id=7))) == [1, 7]


def test_an_added_version_that_is_known_is_reused() -> None:
    two = applied(view(), *replacing(query("select 1")))
    back = applied(two, *replacing(query(), version_id=3, timestamp_ms=LATER + 9))
    assert ids(back) == [1, 2]
    assert back.current_version_id == 1
    # It was made long ago: the move is logged with the time it happened.
    assert back.version_log[-1] == {"timestamp-ms": LATER, "version-id": 1}


def test_versions_that_differ_in_what_they_do_are_two() -> None:
    changes: list[dict[str, Any]] = [
        {"summary": {"engine-name": "trino"}},
        {"default_catalog": "c"},
        {"default_namespace": []},
        {"x_own": 1},
    ]
    for change in changes:
        assert ids(applied(view(), *replacing(**change))) == [1, 2]


def test_a_reused_schema_is_the_last_added_one_too() -> None:
    two = applied(view(), *replacing(query("a"), schema=OTHER_SCHEMA))
    again = applied(two, *replacing(query("b"), schema={**SCHEMA, "schema-id": 3}))
    assert again.current_version["schema-id"] == 0
    assert len(again.schemas) == 2


def test_one_commit_may_add_several_versions_and_logs_one_move() -> None:
    after = applied(
        view(),
        add_version(query("a")),
        set_current(),
        add_version(query("b"), version_id=2),
        set_current(),
    )
    assert ids(after) == [1, 2, 3]
    assert log(after) == [1, 3]


def test_ids_that_point_nowhere_are_refused() -> None:
    assert refused(view(), set_current()) == "Cannot set last version id: no current version id has been set"
    assert refused(view(), set_current(9)) == "Cannot set current version to unknown version: 9"
    assert (
        refused(view(), add_version(schema_id=-1)) == "Cannot set last added schema: no schema has been added"
    )
    assert refused(view(), add_version(schema_id=4)) == "Cannot add version with unknown schema: 4"


def test_the_highest_id_has_no_successor() -> None:
    top = applied(view(), *replacing(query("a"), version_id=2**31 - 1))
    assert "uses the highest one already" in refused(top, *replacing(query("b")))


def test_a_dialect_is_lost_only_where_that_is_allowed() -> None:
    both = view(query(dialect="Spark"), query(dialect="trino"))
    one = replacing(query("x", "SPARK"))
    assert refused(both, *one) == (
        "Cannot replace view due to loss of view dialects (replace.drop-dialect.allowed=false):\n"
        "Previous dialects: ['spark', 'trino']\nNew dialects: ['spark']"
    )
    allowed = applied(both, setting(**{"replace_drop-dialect_allowed": "TRUE"}), *one)
    assert allowed.current_version["representations"] == [query("x", "SPARK")]
    more = applied(both, *replacing(query("x", "spark"), query("x", "trino"), query("x", "hive")))
    assert len(more.current_version["representations"]) == 3


def numbered(count: int, **properties: str) -> ViewMetadata:
    found = view(query("1"), **properties)
    for number in range(2, count + 1):
        found = applied(found, *replacing(query(str(number)), version_id=number))
    return found


def test_history_is_pruned_to_the_newest_versions() -> None:
    assert ids(numbered(12)) == list(range(3, 13))
    kept = numbered(5, **{"version_history_num-entries": "3"})
    assert (ids(kept), log(kept)) == ([3, 4, 5], [3, 4, 5])


def test_the_current_version_is_kept_however_old_and_the_log_has_no_gap() -> None:
    three = numbered(3, **{"version_history_num-entries": "3"})
    back = applied(three, set_current(1))
    assert log(back) == [1, 2, 3, 1]
    one_more = applied(back, add_version(query("4")))
    assert ids(one_more) == [1, 3, 4]
    assert log(one_more) == [3, 1]


def test_versions_added_in_one_commit_outlive_a_short_history() -> None:
    found = applied(
        view(query("0"), **{"version_history_num-entries": "1"}),
        add_version(query("1")),
        add_version(query("2")),
        set_current(),
    )
    assert ids(found) == [2, 3]
    assert log(found) == [3]


@pytest.mark.parametrize("text", ["0", "-3", "many", "", "9" * 30])
def test_a_history_size_that_is_none_is_refused(text: str) -> None:
    assert refused(view(), setting(**{"version_history_num-entries": text})) == (
        f"version.history.num-entries must be positive but was {text[:20]}"
    )


def test_what_we_do_not_know_survives_updates() -> None:
    document: JsonObject = {**view().document, "x-top": {"a": [1]}, "properties": None}
    document["versions"] = [{**version(query(), {"type": "plan", "x": 1}), "x-v": 2}]
    document["version-log"] = [{"timestamp-ms": 1, "version-id": 1, "x-l": 3}]
    after = applied(ViewMetadata(document), setting(a="b"), *replacing(query("n")))
    assert after.document["x-top"] == {"a": [1]}
    assert after.versions[0] == document["versions"][0]
    assert after.version_log[0] == document["version-log"][0]
    assert after.properties == {"a": "b"}
