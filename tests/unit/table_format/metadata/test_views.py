"""View documents: what is read, what is refused, and that nothing unknown is lost."""

from typing import Any

import pytest

from table_format.clock import SystemClock
from table_format.errors import Invalid, InvalidView, NoSuchFile, RequirementFailed, TooLarge
from table_format.io.memory import MemoryObjectStore
from table_format.metadata import codec, requirements
from table_format.metadata.views import ViewMetadata, check_view, dialects
from tests.factories.metadata_documents import NOW, UUID
from tests.factories.metadata_documents import table as a_table
from tests.factories.views import LOCATION, query, version, view


def changed(**members: Any) -> dict[str, Any]:
    document = {**view().document, **{key.replace("_", "-"): value for key, value in members.items()}}
    return {key: value for key, value in document.items() if value is not ...}


def test_the_read_views_of_a_document() -> None:
    found = ViewMetadata.parse(view(a="b").to_bytes())
    assert found == view(a="b")
    assert (found.uuid, found.location, found.properties) == (UUID, LOCATION, {"a": "b"})
    assert [schema["schema-id"] for schema in found.schemas] == [0]
    assert found.current_version_id == 1
    assert found.current_version is found.versions[0]
    assert found.version_log == [{"timestamp-ms": NOW, "version-id": 1}]
    assert ViewMetadata(check_view(changed(properties=None))).properties == {}


def test_unknown_keys_at_every_level_survive_reading_and_writing() -> None:
    document = changed(x_new={"big": 2**70, "deep": [None, 1.5]})
    document["versions"] = [{**version(), "x-own": [True]}]
    document["versions"][0]["representations"] = [
        {**query(), "x": 1},
        {"type": "plan", "bytes": "AA=="},
    ]
    found = ViewMetadata.parse(ViewMetadata(document).to_bytes())
    assert found.document == document
    assert dialects(found.current_version) == ["spark"]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "view metadata is not a JSON object with a view-uuid"),
        (a_table().document, "view metadata is not a JSON object with a view-uuid"),
        (changed(format_version=...), "view metadata lacks the member 'format-version'"),
        (changed(format_version=2), "Unsupported format version: 2 (supported for views: 1)"),
        (changed(format_version=True), "'format-version' of view metadata must be an integer, not a boolean"),
        (changed(view_uuid=""), "'view-uuid' of view metadata must not be empty"),
        (changed(location=None), "'location' of view metadata must be a string, not null"),
        (
            changed(properties={"a": 1}),
            "'a' of 'properties' of view metadata must be a string, not an integer",
        ),
        (changed(schemas={}), "'schemas' of view metadata must be an array, not an object"),
        (changed(schemas=[]), "Cannot find current schema with id 0 in schemas: []"),
        (changed(schemas=[{"type": "list"}]), "schema must be of type 'struct'"),
        (changed(schemas=[view().schemas[0]] * 2), "view metadata has two of the same schema-id"),
        (changed(versions=[]), "Cannot find current version 1 in view versions: []"),
        (changed(versions=[version(), version()]), "view metadata has two of the same version-id"),
        (changed(current_version_id=9), "Cannot find current version 9 in view versions: [1]"),
        (
            changed(current_version_id=-1),
            "'current-version-id' of view metadata must lie between 0 and 2147483647",
        ),
        (changed(version_log=[{"version-id": 1}]), "version-log lacks the member 'timestamp-ms'"),
        (changed(version_log=[{"timestamp-ms": 1}]), "version-log lacks the member 'version-id'"),
        (
            changed(versions=[version(version_id="1")]),
            "'version-id' of a view version must be an integer, not a string",
        ),
        (changed(versions=[version(timestamp_ms=...)]), "a view version lacks the member 'timestamp-ms'"),
        (
            changed(versions=[version(schema_id=None)]),
            "'schema-id' of a view version must be an integer, not null",
        ),
        (
            changed(versions=[version(summary=["x"])]),
            "'summary' of a view version must be an object, not an array",
        ),
        (changed(versions=[version({})]), "a representation lacks the member 'type'"),
        (
            changed(versions=[version({"type": "SQL", "dialect": "x"})]),
            "a representation lacks the member 'sql'",
        ),
        (changed(versions=[version(query(dialect=""))]), "'dialect' of a representation must not be empty"),
        (
            changed(versions=[version(default_catalog=1)]),
            "'default-catalog' of a view version must be a string, not an integer",
        ),
        (
            changed(versions=[version(default_namespace=...)]),
            "a view version lacks the member 'default-namespace'",
        ),
        (
            changed(versions=[version(default_namespace=[1])]),
            "'default-namespace' of a view version (an element) must be a string, not an integer",
        ),
    ],
)
def test_what_is_no_view_is_refused(document: Any, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_view(document)
    assert caught.value.message == text


def test_a_replaced_version_may_have_lost_its_schema() -> None:
    document = changed(versions=[version(version_id=7, schema_id=44), version()])
    assert check_view(document) is document


def test_a_view_can_be_stored_plain_or_gzipped_and_read_again() -> None:
    store = MemoryObjectStore(SystemClock())
    for location in ("memory://b/1.metadata.json", "memory://b/1.gz.metadata.json"):
        assert codec.write(store, location, view()) == view().to_bytes()
        assert codec.read_view(store, location) == view()
        assert store.get(location) == codec.encode(view(), location)
        with pytest.raises(TooLarge, match=f"Cannot read view metadata from {location}"):
            codec.read_view(store, location, max_bytes=100)


def test_a_file_that_is_no_view_says_which() -> None:
    store = MemoryObjectStore(SystemClock())
    store.put("memory://b/t", a_table().to_bytes())
    store.put("memory://b/v", view().to_bytes())
    store.put("memory://b/f2", ViewMetadata(changed(format_version=2)).to_bytes())
    with pytest.raises(Invalid, match=r"^Cannot read view metadata from memory://b/t: view metadata is not"):
        codec.read_view(store, "memory://b/t")
    with pytest.raises(Invalid, match=r"^Cannot read table metadata from memory://b/v: table metadata"):
        codec.read(store, "memory://b/v")
    with pytest.raises(InvalidView, match="Unsupported format version: 2"):
        codec.read_view(store, "memory://b/f2")
    with pytest.raises(NoSuchFile, match=r"^Failed to open input stream for file: memory://b/none$"):
        codec.read_view(store, "memory://b/none")


def test_the_uuid_is_the_only_thing_to_require() -> None:
    requirements.check_view([], view())
    requirements.check_view([{"type": "assert-view-uuid", "uuid": UUID.upper()}], view())
    with pytest.raises(RequirementFailed) as failed:
        requirements.check_view([{"type": "assert-view-uuid", "uuid": "other"}], view())
    assert failed.value.message == f"Requirement failed: view UUID does not match: expected {UUID} != other"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ("x", "requirements must be an array, not a string"),
        ([1], "a requirement must be an object, not an integer"),
        ([{}], "a requirement lacks the member 'type'"),
        (
            [{"type": "assert-view-uuid", "uuid": "other"}, {"type": "assert-create"}],
            "unknown requirement type for a view 'assert-create'",
        ),
        ([{"type": "assert-view-uuid"}], "assert-view-uuid lacks the member 'uuid'"),
    ],
)
def test_malformed_requirements_are_found_before_any_is_judged(found: Any, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        requirements.check_view(found, view())
    assert caught.value.message == text
