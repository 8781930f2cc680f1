from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.metadata import updates
from table_format.metadata.document import TableMetadata
from tests.factories.metadata_documents import (
    LOCATION,
    NOW,
    PREVIOUS,
    UUID,
    add_snapshot,
    applied,
    changed,
    set_ref,
    snapshot,
    table,
    with_history,
)


def invalid(base: TableMetadata, *found: Any) -> str:
    with pytest.raises(Invalid) as caught:
        applied(base, *found)
    return caught.value.message


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (5, "an update must be an object, not an integer"),
        ({}, "an update lacks the member 'action'"),
        ({"action": None}, "'action' of an update must be a string, not null"),
        ({"action": "freeze"}, "unknown update action 'freeze'"),
        ({"action": "add-view-version"}, "unknown update action 'add-view-version'"),
        ({"action": "set-location"}, "set-location lacks the member 'location'"),
        (
            {"action": "set-location", "location": "file:///x", "n": float("nan")},
            "set-location holds a number that JSON cannot express",
        ),
        ({"action": "set-location", "location": ""}, "'location' of set-location must not be empty"),
        ({"action": "set-properties"}, "set-properties lacks the member 'updates'"),
        (
            {"action": "set-properties", "updates": {"a": 5}},
            "'a' of 'updates' of set-properties must be a string, not an integer",
        ),
        (
            {"action": "set-properties", "updates": {"format-version": "1"}},
            "format-version is not a property: send an upgrade-format-version update",
        ),
        (
            {"action": "remove-properties", "removals": "a"},
            "'removals' of remove-properties must be an array, not a string",
        ),
        (
            {"action": "assign-uuid", "uuid": "x"},
            "'uuid' must be a UUID such as 0b1f5a5e-8b0e-4bb5-a4b9-3ef7c7e0d9a1",
        ),
        (
            {"action": "assign-uuid", "uuid": "11111111-2222-3333-4444-555555555555"},
            f"Cannot reassign table UUID: the table already has {UUID}",
        ),
        (
            {"action": "upgrade-format-version", "format-version": 4},
            "Cannot upgrade table to unsupported format version: v4 (supported: v3)",
        ),
        ({"action": "upgrade-format-version", "format-version": 1}, "Cannot downgrade v2 table to v1"),
        (
            {"action": "upgrade-format-version", "format-version": "3"},
            "'format-version' of upgrade-format-version must be an integer, not a string",
        ),
        (
            {"action": "add-encryption-key", "encryption-key": {"key-id": "k"}},
            "encryption key lacks the member 'encrypted-key-metadata'",
        ),
        (
            {
                "action": "add-encryption-key",
                "encryption-key": {"key-id": "k", "encrypted-key-metadata": "eA==", "properties": {"a": 1}},
            },
            "'a' of 'properties' of encryption key must be a string, not an integer",
        ),
        ({"action": "remove-encryption-key"}, "remove-encryption-key lacks the member 'key-id'"),
    ],
)
def test_malformed(update: Any, text: str) -> None:
    assert invalid(table(), update) == text


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": UUID.upper()},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": LOCATION},
        {"action": "set-properties", "updates": {}},
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "set-properties", "updates": {"format-version": "2", "uuid": "x", "snapshot-count": "3"}},
        {"action": "remove-properties", "removals": ["gone"]},
        {"action": "remove-snapshots", "snapshot-ids": [77]},
        {"action": "remove-snapshot-ref", "ref-name": "gone"},
        {"action": "remove-statistics", "snapshot-id": 77},
        {"action": "remove-partition-statistics", "snapshot-id": 77},
        {"action": "remove-schemas", "schema-ids": [77]},
        {"action": "remove-partition-specs", "spec-ids": [77]},
        {"action": "remove-encryption-key", "key-id": "gone"},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "set-default-sort-order", "sort-order-id": 0},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2},
    ],
    ids=lambda update: update["action"],
)
def test_what_changes_nothing_gives_the_base_itself(update: dict[str, Any]) -> None:
    base = applied(with_history(2), {"action": "set-properties", "updates": {"a": "1"}})
    assert applied(base, update) is base


def test_no_updates_give_the_base_itself() -> None:
    base = table()
    assert applied(base) is base


def test_properties() -> None:
    base = table(a="1", b="2")
    new = applied(
        base,
        {"action": "set-properties", "updates": {"a": "3", "c": "4"}},
        {"action": "remove-properties", "removals": ["b", "gone"]},
    )
    assert new.properties == {"write.parquet.compression-codec": "zstd", "a": "3", "c": "4"}
    assert changed(base, new) == {"properties", "last-updated-ms", "metadata-log"}


def test_properties_under_their_old_names() -> None:
    new = applied(
        table(b="2"),
        {"action": "set-properties", "updated": {"a": "3"}},
        {"action": "remove-properties", "removed": ["b"]},
    )
    assert new.properties == {"write.parquet.compression-codec": "zstd", "a": "3"}


def test_location() -> None:
    base = table()
    new = applied(base, {"action": "set-location", "location": "file:///elsewhere/"})
    assert new.location == "file:///elsewhere/"
    assert changed(base, new) == {"location", "last-updated-ms", "metadata-log"}


def test_encryption_keys() -> None:
    key = {"key-id": "k1", "encrypted-key-metadata": "eA==", "x": 1, "properties": {"a": "b"}}
    other = {"key-id": "k2", "encrypted-key-metadata": "eQ==", "encrypted-by-id": "k1"}
    one = applied(table(), {"action": "add-encryption-key", "encryption-key": key})
    assert one.document["encryption-keys"] == [key]
    assert applied(one, {"action": "add-encryption-key", "encryption-key": {**key, "x": 2}}) is one
    two = applied(one, {"action": "add-encryption-key", "encryption-key": other})
    three = applied(two, {"action": "remove-encryption-key", "key-id": "k1"})
    assert three.document["encryption-keys"] == [other]


def test_uuid_of_an_old_table() -> None:
    base = table(version=1)
    del base.document["table-uuid"]
    assert applied(base, {"action": "set-properties", "updates": {"a": "b"}}).uuid is None
    upgrade = {"action": "upgrade-format-version", "format-version": 2}
    assert invalid(base, upgrade) == "UUID is required in format v2: add an assign-uuid update"
    assert applied(base, upgrade, {"action": "assign-uuid", "uuid": UUID}).uuid == UUID


def test_upgrade_from_v1_to_v2() -> None:
    base = with_history(1, version=1)
    new = applied(base, {"action": "upgrade-format-version", "format-version": 2})
    assert new.format_version == 2
    assert new.last_sequence_number == 0
    assert changed(base, new) == {
        "format-version",
        "last-sequence-number",
        "schema",
        "partition-spec",
        "last-updated-ms",
        "metadata-log",
    }
    assert "schema" not in new.document
    assert "partition-spec" not in new.document


def test_upgrade_to_v3() -> None:
    empty = applied(table(), {"action": "upgrade-format-version", "format-version": 3})
    assert empty.document["next-row-id"] == 0
    assert empty.document["current-snapshot-id"] is None
    full = applied(with_history(1), {"action": "upgrade-format-version", "format-version": 3})
    assert full.document["current-snapshot-id"] == 1
    assert full.last_sequence_number == 1


def test_metadata_log_grows_and_is_trimmed() -> None:
    base = table(**{"write.metadata.previous-versions-max": "2"})
    states = [base]
    for number in range(1, 5):
        states.append(
            updates.apply(
                states[-1],
                [{"action": "set-properties", "updates": {"n": str(number)}}],
                now_ms=NOW + number,
                previous_location=f"file:///m/{number}",
            )
        )
    assert states[4].metadata_log == [
        {"timestamp-ms": NOW + 2, "metadata-file": "file:///m/3"},
        {"timestamp-ms": NOW + 3, "metadata-file": "file:///m/4"},
    ]
    assert updates.trimmed_metadata_files(states[1], states[2]) == []
    assert updates.trimmed_metadata_files(states[2], states[3]) == ["file:///m/1"]
    assert updates.trimmed_metadata_files(states[2], states[4]) == ["file:///m/1", "file:///m/2"]


@pytest.mark.parametrize(("text", "kept"), [("0", 1), ("-3", 1), ("1", 1), ("3", 3), ("x", 4), ("9" * 30, 4)])
def test_metadata_log_setting_that_is_no_number_does_not_stop_commits(text: str, kept: int) -> None:
    base = table(**{"write.metadata.previous-versions-max": text})
    for number in range(4):
        base = applied(base, {"action": "set-properties", "updates": {"n": str(number)}})
    assert len(base.metadata_log) == kept


def test_metadata_log_needs_a_previous_location() -> None:
    update = {"action": "set-properties", "updates": {"a": "b"}}
    new = updates.apply(table(), [update], now_ms=NOW, previous_location=None)
    assert new.metadata_log == []


def test_last_updated_never_goes_back() -> None:
    base = table()
    update = {"action": "set-properties", "updates": {"a": "b"}}
    assert applied(base, update, now=NOW + 5).last_updated_ms == NOW + 5
    assert applied(base, update, now=NOW - 3_600_000).last_updated_ms == NOW


def test_R35_empty_table_of_another_writer_gets_its_empty_members() -> None:
    base = table()
    for key in ("current-snapshot-id", "snapshots", "snapshot-log", "metadata-log", "refs", "properties"):
        del base.document[key]
    before = dict(base.document)
    new = updates.apply(
        TableMetadata.parse(base.to_bytes()),
        [{"action": "set-location", "location": "file:///x"}],
        now_ms=NOW,
        previous_location=None,
    )
    assert new.document["current-snapshot-id"] == -1
    assert [new.document[key] for key in ("snapshots", "snapshot-log", "metadata-log")] == [[], [], []]
    assert [new.document[key] for key in ("refs", "properties")] == [{}, {}]
    assert base.document == before


def test_v1_table_with_only_the_legacy_members() -> None:
    base = table(version=1)
    schema = {key: value for key, value in base.document["schema"].items() if key != "schema-id"}
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id"):
        del base.document[key]
    for key in ("sort-orders", "default-sort-order-id"):
        del base.document[key]
    base.document["schema"] = schema
    base.document["partition-spec"] = [{"source-id": 3, "name": "d", "transform": "day"}]
    new = applied(TableMetadata.parse(base.to_bytes()), {"action": "set-location", "location": "file:///x"})
    spec = [{"source-id": 3, "name": "d", "transform": "day", "field-id": 1000}]
    assert new.document["schemas"] == [{**schema, "schema-id": 0}]
    assert new.document["schema"] == {**schema, "schema-id": 0}
    assert new.document["current-schema-id"] == 0
    assert new.document["partition-specs"] == [{"spec-id": 0, "fields": spec}]
    assert new.document["partition-spec"] == spec
    assert new.document["default-spec-id"] == 0
    assert new.document["last-partition-id"] == 1000
    assert new.document["sort-orders"] == [{"order-id": 0, "fields": []}]


def test_base_is_never_changed() -> None:
    base = with_history(2)
    before = base.to_bytes()
    applied(
        base,
        {"action": "set-properties", "updates": {"a": "b"}},
        add_snapshot(snapshot(3, **{"parent-snapshot-id": 2})),
        set_ref(3),
        set_ref(1, "old", "tag"),
        {"action": "remove-snapshots", "snapshot-ids": [1]},
    )
    assert base.to_bytes() == before


def test_the_log_names_the_previous_file() -> None:
    new = applied(table(), {"action": "set-location", "location": "file:///x"})
    assert new.metadata_log == [{"timestamp-ms": NOW, "metadata-file": PREVIOUS}]


@pytest.mark.parametrize(
    ("wrong", "shown"), [(None, "null"), ({}, "an object"), ("x", "a string"), (5, "an integer")]
)
def test_updates_must_be_an_array(wrong: Any, shown: str) -> None:
    for call in (
        lambda: updates.apply(table(), wrong, now_ms=NOW, previous_location=None),
        lambda: updates.start(wrong, now_ms=NOW, location=None),
    ):
        with pytest.raises(Invalid) as caught:
            call()
        assert caught.value.message == f"updates must be an array, not {shown}"
