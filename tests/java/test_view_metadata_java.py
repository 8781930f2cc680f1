"""Our view metadata engine and Java's, given the same commits, agree: on the documents, and on what is refused how.

As in `test_metadata_java.py`, each commit is applied to the document that ours wrote, and `excused` says where we
knowingly do otherwise.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from table_format.errors import Invalid, RequirementFailed
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, requirements, view_updates
from table_format.metadata.views import ViewMetadata
from tests.factories import any_view_commits
from tests.factories.metadata_documents import NOW, UUID
from tests.factories.views import LOCATION, add_version, query
from tests.java.driver import IcebergJava
from tests.java.outcomes import Outcome, Refused, asked, kind
from tests.java.test_metadata_java import edited

pytestmark = pytest.mark.java

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
EXAMPLES = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "100"))


def ours(base: ViewMetadata, commit: list[JsonObject], asserted: list[JsonObject]) -> Outcome:
    try:
        requirements.check_view(asserted, base)
        new = view_updates.apply(base, commit, now_ms=NOW + 10**9)
    except Invalid as error:
        return Refused(400, str(error))
    except RequirementFailed as error:
        return Refused(409, str(error))
    assert ViewMetadata.parse(new.to_bytes()) == new
    return None if normal(new.document) == normal(base.document) else new.document


def theirs(
    java: IcebergJava, base: ViewMetadata, commit: list[JsonObject], asserted: list[JsonObject]
) -> Outcome:
    location = f"{LOCATION}/metadata/x.metadata.json"
    found = asked(
        java, "applyView", base=base.document, location=location, updates=commit, requirements=asserted
    )
    # Java counts some updates that change nothing as a change.
    return None if isinstance(found, dict) and normal(found) == normal(base.document) else found


def excused(base: ViewMetadata, commit: list[JsonObject], our: Outcome, their: Outcome) -> str | None:
    """Why the outcomes may differ: what we knowingly do otherwise, each for a reason."""
    why = their.why if isinstance(their, Refused) else ""
    if isinstance(our, Refused) and our.code == 409 and isinstance(their, Refused):
        return "Java parses all updates first, we look at requirements first: both refuse"
    if isinstance(our, Refused):
        return None
    if "Cannot set last" in why:
        return "-1 also means what an add resolved to when it was reused (concurrent replaces need it)"
    if _reuses_a_schema(base, commit) and any(
        update["action"] == "add-view-version" and update["view-version"]["schema-id"] == -1
        for update in commit
    ):
        # Java compares the -1 itself, so that each such replacement makes a version, equal or not.
        return "versions are compared after their schema is known, and -1 is also a schema that was reused"
    return None


def _reuses_a_schema(base: ViewMetadata, commit: list[JsonObject]) -> bool:
    known = list(base.schemas)
    for update in commit:
        if update["action"] == "add-schema":
            if any(columns.covers(schema, update["schema"]) for schema in known):
                return True
            known.append(update["schema"])
    return False


def normal(document: JsonObject) -> JsonObject:
    """The document without what means the same written or not, and without Java's own clock."""
    found = {key: value for key, value in document.items() if value != {}}
    found["schemas"] = [
        {key: value for key, value in row.items() if (key, value) != ("identifier-field-ids", [])}
        for row in document["schemas"]
    ]
    found["versions"] = sorted(document["versions"], key=lambda row: int(row["version-id"]))
    added = {row["version-id"]: row["timestamp-ms"] for row in document["versions"]}
    found["version-log"] = [
        row["version-id"] if row["timestamp-ms"] != added[row["version-id"]] else row
        for row in document["version-log"]
    ]
    return found


def shown(outcome: Outcome) -> Any:
    if isinstance(outcome, Refused):
        return outcome.code
    return None if outcome is None else normal(outcome)


@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
def test_same_commits_same_view(java: IcebergJava, data: st.DataObject) -> None:
    base = any_view_commits.lived() if data.draw(st.booleans()) else born(java, data.draw)
    for _ in range(data.draw(st.integers(1, 6)) if base is not None else 0):
        assert base is not None
        commit = any_view_commits.commit(data.draw, base)
        asserted = any_view_commits.requirements(data.draw)
        our, their = ours(base, commit, asserted), theirs(java, base, commit, asserted)
        reason = excused(base, commit, our, their)
        event(reason or kind(our))
        if reason is None:
            assert shown(our) == shown(their), (base.document, commit, our, their)
        base = ViewMetadata(our) if isinstance(our, dict) else base


def born(java: IcebergJava, draw: Any) -> ViewMetadata | None:
    """A new view, the same from both; None where both refuse it."""
    schema = draw(st.sampled_from(any_view_commits.SCHEMAS))
    version = any_view_commits.version(draw, -1, 1)
    commit = [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "set-location", "location": LOCATION},
        {"action": "set-properties", "updates": {"a": "b"}},
        {"action": "add-schema", "schema": schema},
        version,
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    our, their = made(schema, version["view-version"]), asked(java, "applyView", updates=commit)
    assert shown(our) == shown(their), (commit, our, their)
    return ViewMetadata(our) if isinstance(our, dict) else None


def made(schema: JsonObject, version: JsonObject) -> Outcome:
    given = {"schema": schema, "version": version, "properties": {"a": "b"}}
    try:
        return view_updates.new_view(**given, location=LOCATION, uuid=UUID, now_ms=NOW).document
    except Invalid as error:
        return Refused(400, str(error))


REPLACEMENT: list[JsonObject] = [
    {"action": "add-schema", "schema": any_view_commits.SCHEMAS[1]},
    add_version(
        query("select 9"), query("select 8", "trino"), version_id=9, schema_id=-1, default_catalog="c"
    ),
]


@pytest.mark.parametrize("place", range(len(REPLACEMENT)))
def test_java_reads_what_comes_of_members_that_are_missing_null_or_empty(
    java: IcebergJava, place: int
) -> None:
    base, accepted = any_view_commits.lived(), 0
    for update in (REPLACEMENT[place], *edited(REPLACEMENT[place])):
        commit = [*REPLACEMENT]
        commit[place] = {**update, "action": REPLACEMENT[place]["action"]}
        our = ours(base, commit, [])
        if isinstance(our, dict):
            accepted += 1
            again = asked(java, "applyView", base=our, location=f"{LOCATION}/m.json", updates=[])
            assert not isinstance(again, Refused), (commit, again)
    assert accepted > 0
