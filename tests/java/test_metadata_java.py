"""Our metadata engine and Java's, given the same commits, agree: on the documents, and on what is refused how.

Each commit is applied to the document that ours wrote, so Java also reads all of them. Where we knowingly do
otherwise is written in `excused` below, with the reason; nothing else may differ.

DIFFERENTIAL_EXAMPLES sets how many histories are tried.
"""

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from table_format.clock import SystemClock
from table_format.errors import CommitFailed, Invalid, RequirementFailed
from table_format.jsontypes import JsonObject
from table_format.metadata import create, requirements, updates
from table_format.metadata.document import TableMetadata
from tests.factories import any_commits
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    UUID,
    add_snapshot,
    field,
    set_ref,
    snapshot,
    struct,
    table,
    with_history,
)
from tests.java.driver import IcebergJava
from tests.java.outcomes import Outcome, Refused, asked, kind

pytestmark = pytest.mark.java

# Without shrinking, which would take minutes: a commit is small enough to be read.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "150"))


def ours(
    base: TableMetadata | None, commit: list[JsonObject], asserted: list[JsonObject], now_ms: int
) -> Outcome:
    try:
        requirements.check(asserted, base)
        if base is None:
            return updates.start(commit, now_ms=now_ms, location=None).document
        new = updates.apply(base, commit, now_ms=now_ms, previous_location=place(base))
    except Invalid as error:
        return Refused(400, str(error))
    except (CommitFailed, RequirementFailed) as error:
        return Refused(409, str(error))
    assert TableMetadata.parse(new.to_bytes()) == new
    return None if same(base, new.document) else new.document


def theirs(
    java: IcebergJava, base: TableMetadata | None, commit: list[JsonObject], asserted: list[JsonObject]
) -> Outcome:
    members = {} if base is None else {"base": base.document, "location": place(base)}
    found = asked(java, "applyTable", updates=commit, requirements=asserted, **members)
    if isinstance(found, Refused):
        return found
    # Java counts some updates that change nothing as a change: what is removed is not there, what is set is.
    return None if found is None or (base is not None and same(base, found)) else found


def place(base: TableMetadata) -> str:
    return f"{LOCATION}/metadata/{len(base.metadata_log):05d}-x.metadata.json"


def same(base: TableMetadata, new: JsonObject) -> bool:
    clocks = {"last-updated-ms", "metadata-log"}
    before, after = normal(base.document), normal(new)
    return all(before.get(key) == after.get(key) for key in ({*before, *after} - clocks))


def excused(commit: list[JsonObject], our: Outcome, their: Outcome) -> str | None:
    """Why the outcomes may differ: what we knowingly do otherwise, each for a reason."""
    why = their.why if isinstance(their, Refused) else ""
    if isinstance(our, Refused) and our.code == 409 and isinstance(their, Refused):
        return "Java parses all updates first, we look at requirements first: both refuse"
    if "arraySize cannot be negative" in why:
        return (
            "Java fails when more snapshots are to be removed than there are; unknown ids are to be ignored"
        )
    if isinstance(our, Refused):
        return _stricter(commit, our, isinstance(their, Refused))
    if "Cannot set last added" in why:
        return "-1 also means what an add resolved to when it was reused (concurrent replaces need it)"
    if "Cannot parse missing int: spec-id" in why or "Cannot parse spec with missing field IDs" in why:
        return "specs without ids are sent by real clients"
    if any("field-id" not in field for spec in _specs(commit) for field in spec["fields"]):
        return "Java numbers fields without ids from 1000, whatever has that id; ids must stay unique"
    return None


def _stricter(commit: list[JsonObject], our: Refused, both: bool) -> str | None:
    defaults = sum(update["action"].startswith("set-default") for update in commit)
    if "to unknown" in our.why and (both or defaults > 1):
        return "Java looks whether the default is there when all is done, we look at each"
    if "to unknown" in our.why and _takes_what_it_removed(commit):
        return (
            "Java makes a schema or spec current that the commit removed before: nobody can read that table"
        )
    if "Cannot change the initial-default" in our.why:
        return "the specification forbids it: rows that are there would change"
    if "Cannot add redundant partition" in our.why:
        return "Java's own builder refuses two fields of one source and transform, its REST handlers let them pass"
    if "'decimal(3, 4)'" in our.why:
        return "no file format holds a decimal with more digits after the point than digits"
    return None


def _takes_what_it_removed(commit: list[JsonObject]) -> bool:
    schemas: set[int] = set()
    specs: set[int] = set()
    for update in commit:
        match update["action"]:
            case "remove-schemas":
                schemas |= {-1, *update["schema-ids"]}  # -1: the last one added may be gone too
            case "remove-partition-specs":
                specs |= {-1, *update["spec-ids"]}
            case "set-current-schema" if update["schema-id"] in schemas:
                return True
            case "set-default-spec" if update["spec-id"] in specs:
                return True
    return False


def _specs(commit: list[JsonObject]) -> list[JsonObject]:
    return [update["spec"] for update in commit if update["action"] == "add-spec"]


def normal(document: JsonObject) -> JsonObject:
    """The document without what means the same written or not."""
    found = {key: value for key, value in document.items() if value not in (None, [], {}, -1)}
    if found["format-version"] == 1:
        found.pop("last-sequence-number", None)
    for key in ("schemas", "schema"):
        if key in found:
            found[key] = _normal_schema(found[key])
    found["snapshots"] = [_normal_snapshot(row) for row in found.get("snapshots", [])]
    for key in ("statistics", "partition-statistics"):
        if key in found:
            found[key] = sorted(found[key], key=lambda file: file["snapshot-id"])
    return found


def _normal_snapshot(row: JsonObject) -> JsonObject:
    """Java leaves out zero, and the count of rows where there are no row ids; we keep what was sent."""
    unwanted = set() if row.get("sequence-number") else {"sequence-number"}
    unwanted |= set() if "first-row-id" in row else {"added-rows"}
    return {key: value for key, value in row.items() if key not in unwanted}


_SPELLINGS = {
    "geometry": "geometry(OGC:CRS84)",
    "geometry( ogc:crs84 )": "geometry(ogc:crs84)",
    "geography": "geography(OGC:CRS84, spherical)",
    "geography(OGC:CRS84)": "geography(OGC:CRS84, spherical)",
    "geography(srid:4326)": "geography(srid:4326, spherical)",
}


def _normal_schema(value: Any) -> Any:
    """Types and defaults in Java's spelling."""
    if isinstance(value, list):
        return [_normal_schema(one) for one in value]
    if isinstance(value, str):
        return _SPELLINGS.get(value, value)
    if not isinstance(value, dict):
        return value
    inside = ("fields", "type", "element", "key", "value")
    found = {key: _normal_schema(one) if key in inside else one for key, one in value.items()}
    if found.get("identifier-field-ids") == []:
        del found["identifier-field-ids"]
    if found.get("type") in ("binary", "fixed[4]"):
        found |= {key: found[key].upper() for key in ("initial-default", "write-default") if key in found}
    return found


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
def test_same_commits_same_metadata(java: IcebergJava, data: st.DataObject) -> None:
    draw, version = data.draw, data.draw(st.sampled_from([1, 2, 3]))
    base: TableMetadata | None = any_commits.lived(version)
    if draw(st.booleans()):
        base = compared(java, None, any_commits.birth(draw, version), [{"type": "assert-create"}])
    for _ in range(draw(st.integers(1, 6)) if base is not None else 0):
        assert base is not None
        commit = any_commits.commit(draw, base)
        base = compared(java, base, commit, any_commits.requirements(draw, base)) or base


def compared(
    java: IcebergJava, base: TableMetadata | None, commit: list[JsonObject], asserted: list[JsonObject]
) -> TableMetadata | None:
    """The new metadata; None where the commit was refused or nothing changed. Both engines say the same."""
    their = theirs(java, base, commit, asserted)
    # Java looks at the clock itself; where it refuses, what time it saw is not known.
    now_ms = their["last-updated-ms"] if isinstance(their, dict) else SystemClock().now_ms()
    our = ours(base, commit, asserted, now_ms)
    reason = excused(commit, our, their)
    event(reason or kind(our))
    if reason is None:
        assert shown(our) == shown(their), (base and base.document, commit, our, their)
    return TableMetadata(our) if isinstance(our, dict) else None


def shown(outcome: Outcome) -> Any:
    if isinstance(outcome, Refused):
        return outcome.code
    return None if outcome is None else normal(outcome)


def edited(value: Any) -> Iterator[Any]:
    """Copies of a JSON value in which one member, at any depth, is missing, null or empty."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inside in members:
        for other in (None, type(inside)()):
            copied = copy.copy(value)
            copied[key] = other
            yield copied
        if isinstance(value, dict):
            yield {name: one for name, one in value.items() if name != key}
        for other in edited(inside):
            copied = copy.copy(value)
            copied[key] = other
            yield copied


EXAMPLE_FIELD = {"doc": "d", "initial-default": 5, "write-default": 6}
EXAMPLE_ROWS = {
    "sequence-number": 9,
    "first-row-id": 40,
    "added-rows": 5,
    "key-id": "k1",
    "parent-snapshot-id": 4,
}
EXAMPLE_FILE = {"snapshot-id": 3, "statistics-path": f"{LOCATION}/x", "file-size-in-bytes": 5}
EXAMPLE_BLOB = {"type": "t", "snapshot-id": 3, "sequence-number": 3, "fields": [1], "properties": {"a": "b"}}
EXAMPLES_OF_UPDATES: dict[str, JsonObject] = {
    "add-schema": {
        "schema": struct(
            field(1, "id", required=True),
            field(9, "n", "int", **EXAMPLE_FIELD),
            field(10, "s", struct(field(11, "x", "int", **EXAMPLE_FIELD))),
            field(12, "l", {"type": "list", "element-id": 13, "element": "int", "element-required": True}),
            field(
                14,
                "m",
                {
                    "type": "map",
                    "key-id": 15,
                    "key": "int",
                    "value-id": 16,
                    "value": "int",
                    "value-required": True,
                },
            ),
            **{"schema-id": 7, "identifier-field-ids": [1]},
        )
    },
    "add-spec": {
        "spec": {
            "spec-id": 5,
            "fields": [{"source-id": 2, "field-id": 1001, "name": "t", "transform": "truncate[2]"}],
        }
    },
    "add-sort-order": {
        "sort-order": {
            "order-id": 5,
            "fields": [
                {"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
            ],
        }
    },
    "add-snapshot": {"snapshot": snapshot(9, at=NOW + 5000, **{**EXAMPLE_ROWS, "schema-id": 0})},
    "set-snapshot-ref": {
        **set_ref(4, "new"),
        "max-ref-age-ms": 5,
        "max-snapshot-age-ms": 5,
        "min-snapshots-to-keep": 5,
    },
    "set-statistics": {
        "snapshot-id": 3,
        "statistics": {**EXAMPLE_FILE, "file-footer-size-in-bytes": 5, "blob-metadata": [EXAMPLE_BLOB]},
    },
    "set-partition-statistics": {"partition-statistics": EXAMPLE_FILE},
    "set-properties": {"updates": {"x": "y"}},
    "add-encryption-key": {
        "encryption-key": {
            "key-id": "k9",
            "encrypted-key-metadata": "eA==",
            "encrypted-by-id": "k1",
            "properties": {"a": "b"},
        }
    },
}


@pytest.mark.parametrize("action", EXAMPLES_OF_UPDATES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_what_comes_of_members_that_are_missing_null_or_empty(
    java: IcebergJava, action: str, version: int
) -> None:
    base, accepted = any_commits.lived(version), 0
    for update in (EXAMPLES_OF_UPDATES[action], *edited(EXAMPLES_OF_UPDATES[action])):
        commit = [{**update, "action": action}]
        our = ours(base, commit, [], NOW + 10_000)
        if isinstance(our, dict):
            accepted += 1
            again = asked(java, "applyTable", base=our, location=f"{LOCATION}/m.json", updates=[])
            assert not isinstance(again, Refused), (commit, again)
    assert accepted > 0 or (action, version) in {
        ("add-snapshot", 1),
        ("add-schema", 1),
        ("add-schema", 2),
        ("add-spec", 1),
    }


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
def test_a_new_table_is_the_same(java: IcebergJava, data: st.DataObject) -> None:
    wanted = any_commits.creation(data.draw, data.draw(st.sampled_from([1, 2, 3])))
    their = asked(java, "newTable", location=LOCATION, **wanted)
    our = created(wanted, their["last-updated-ms"] if isinstance(their, dict) else NOW)
    event(kind(our))
    if isinstance(our, Refused) and _stricter([], our, isinstance(their, Refused)):
        return
    if isinstance(their, dict):
        their = {**their, "table-uuid": UUID}
    assert shown(our) == shown(their), (wanted, our, their)


def created(wanted: JsonObject, now_ms: int) -> Outcome:
    try:
        return create.new_table(
            schema=wanted["schema"],
            partition_spec=wanted["spec"],
            write_order=wanted["order"],
            properties=wanted["properties"],
            location=LOCATION,
            uuid=UUID,
            now_ms=now_ms,
        ).document
    except Invalid as error:
        return Refused(400, str(error))


def test_row_ids_are_never_given_twice(java: IcebergJava) -> None:
    """A snapshot whose row ids begin after the next one: Java gives ids again that its rows have, the specification
    wants the next id above all that are used."""
    base, rows = table(version=3), {"first-row-id": 100, "added-rows": 10}
    commit = [add_snapshot(snapshot(1, at=NOW, **rows)), set_ref(1)]
    our, their = ours(base, commit, [], NOW), theirs(java, base, commit, [])
    assert isinstance(our, dict)
    assert isinstance(their, dict)
    assert (our["next-row-id"], their["next-row-id"]) == (110, 10)


def test_the_last_sequence_number_never_falls(java: IcebergJava) -> None:
    """A snapshot without a parent (a replacement that lost a race) may have an old number: Java's last one would fall
    to it, so Java fails; ours stays."""
    base = with_history(3)
    commit = [add_snapshot(snapshot(9, number=1, at=base.last_updated_ms))]
    our, their = ours(base, commit, [], base.last_updated_ms), theirs(java, base, commit, [])
    assert isinstance(our, dict)
    assert (our["last-sequence-number"], shown(their)) == (3, 400)


def test_a_tables_uuid_is_never_changed(java: IcebergJava) -> None:
    base, commit = table(), [{"action": "assign-uuid", "uuid": UUID.replace("0", "1")}]
    their = theirs(java, base, commit, [])
    assert isinstance(their, dict)
    assert their["table-uuid"] == commit[0]["uuid"]
    assert shown(ours(base, commit, [], NOW)) == 400
