"""Random histories of a view: whatever is replaced, the document stays valid and says what was asked last."""

from copy import deepcopy
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from table_format.jsontypes import JsonObject
from table_format.metadata import view_updates
from table_format.metadata.views import ViewMetadata
from tests.factories.metadata_documents import NOW
from tests.factories.views import OTHER_SCHEMA, SCHEMA, add_version, query, set_current, setting, view

SQLS = st.sampled_from(["a", "b", "c", "d"])
ADDED = st.builds(
    lambda sql, number, schema: (sql, number, schema),
    SQLS,
    st.integers(0, 6),
    st.sampled_from([None, SCHEMA, OTHER_SCHEMA]),
)
History: TypeAlias = list[tuple[list[tuple[str, int, JsonObject | None]], bool]]
COMMITS = st.lists(st.tuples(st.lists(ADDED, min_size=1, max_size=3), st.booleans()), max_size=12)


def updates_of(added: list[tuple[str, int, JsonObject | None]], current: bool) -> list[JsonObject]:
    found: list[JsonObject] = []
    for sql, number, schema in added:
        if schema is not None:
            found.append({"action": "add-schema", "schema": schema})
        found.append(add_version(query(sql), version_id=number, schema_id=0 if schema is None else -1))
    return [*found, set_current()] if current else found


@given(COMMITS, st.integers(1, 4))
def test_every_history_keeps_the_rules(commits: History, size: int) -> None:
    now = view(query("a"), **{"version_history_num-entries": str(size)})
    for number, (added, current) in enumerate(commits):
        before = deepcopy(now.document)
        after = view_updates.apply(now, updates_of(added, current), now_ms=NOW + number)
        assert now.document == before
        assert ViewMetadata.parse(after.to_bytes()) == after
        if current:
            assert after.current_version["representations"] == [query(added[-1][0])]
        else:
            assert after.current_version_id == now.current_version_id
        ids = [row["version-id"] for row in after.versions]
        assert after is now or len(ids) <= max(size, len(added) + 1)
        # Old versions keep their ids and contents, and go oldest first.
        known = {row["version-id"]: row for row in now.versions}
        assert all(known[row["version-id"]] == row for row in after.versions if row["version-id"] in known)
        gone = set(known) - set(ids)
        assert all(lost < kept for lost in gone for kept in ids if kept != after.current_version_id)
        # No two versions say the same, and the log names kept versions only and ends with the current one.
        said = [str({**row, "version-id": 0}) for row in after.versions]
        assert len(set(said)) == len(said)
        logged = [entry["version-id"] for entry in after.version_log]
        assert set(logged) <= set(ids)
        assert logged[-1] == after.current_version_id
        assert view_updates.apply(after, [], now_ms=NOW) is after
        now = after
    assert view_updates.apply(now, [setting(a="b")], now_ms=NOW).properties["a"] == "b"
