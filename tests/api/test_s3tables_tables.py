"""Tables through the S3 Tables API: blank ones, the pointer that clients move, names shared with the Iceberg API."""

import gzip
import os
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from table_format.io.local import local_path
from tests.api.iceberg_client import SCHEMA, Http, assert_error, segment
from tests.api.s3tables_client import (
    BUCKET,
    Tables,
    assert_refused,
    edited,
    following,
    fresh,
    metadata_file,
    quoted,
    raw,
    read,
    written,
)

NOT_VALID = "The specified metadata location is not valid."
STALE = "Provided version token does not match the table version token."


@pytest.fixture
def tables(http: Http) -> Tables:
    return Tables(http)


def appended(tables: Tables, namespace: str, snapshot_id: int) -> dict[str, Any]:
    """An append as a client of this API makes it."""
    pointer = tables.pointer(namespace)
    new = following(pointer["metadataLocation"], snapshot_id=snapshot_id)
    location = written(new, metadata_file(pointer["warehouseLocation"]))
    return tables.moved(namespace, pointer["versionToken"], location)


class TestBlankTables:
    def test_is_there_for_this_api_alone(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        made = tables.create(namespace).json()
        assert set(made) == {"tableARN", "versionToken"}
        assert made["tableARN"].startswith(f"{BUCKET}/table/")
        found = tables.get(namespace)
        assert (found["name"], found["namespace"], found["format"], found["type"]) == (
            "t",
            [namespace],
            "ICEBERG",
            "customer",
        )
        assert (found["tableARN"], found["versionToken"]) == (made["tableARN"], made["versionToken"])
        assert "metadataLocation" not in found
        pointer = tables.pointer(namespace)
        assert pointer == {
            "versionToken": made["versionToken"],
            "warehouseLocation": found["warehouseLocation"],
        }
        by_arn = tables.http.get("/s3tables/get-table", params={"tableArn": made["tableARN"]})
        assert by_arn.json() == found
        assert_error(tables.loaded(namespace), 404, "NoSuchTableException")
        listed = tables.http.get(f"/iceberg/v1/default/namespaces/{namespace}/tables").json()
        assert listed["identifiers"] == []
        names = [
            one["name"]
            for one in tables.http.get(
                tables.path(namespace, "")[: -len(namespace) - 1] + f"?namespace={namespace}"
            ).json()["tables"]
        ]
        assert names == ["t"]

    def test_its_name_is_taken_everywhere(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        base = f"/iceberg/v1/default/namespaces/{namespace}"
        body: dict[str, Any] = {"name": "t", "schema": SCHEMA}
        for extra in ({}, {"stage-create": True}):
            answer = tables.http.post(f"{base}/tables", json={**body, **extra})
            message = assert_error(answer, 409, "AlreadyExistsException")
            assert message.startswith(f"Table already exists: {namespace}.t; it has no metadata yet")
        view = {
            "name": "t",
            "schema": SCHEMA,
            "properties": {},
            "view-version": {
                "version-id": 1,
                "timestamp-ms": 1,
                "schema-id": 0,
                "summary": {},
                "default-namespace": [namespace],
                "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            },
        }
        assert_error(tables.http.post(f"{base}/views", json=view), 409, "AlreadyExistsException")
        message = assert_refused(tables.create(namespace), 409, "ConflictException")
        assert message.startswith("A table with an identical name already exists in the namespace.")
        tables.http.post(f"{base}/tables", json={**body, "name": "other"})
        move = {
            "source": {"namespace": [namespace], "name": "other"},
            "destination": {"namespace": [namespace], "name": "t"},
        }
        assert_error(
            tables.http.post("/iceberg/v1/default/tables/rename", json=move), 409, "AlreadyExistsException"
        )
        answer = tables.http.delete(base)
        assert answer.status_code == 409, answer.text

    def test_a_name_that_is_taken_can_not_be_a_blank_table(self, tables: Tables) -> None:
        namespace = tables.new_table()
        assert_refused(tables.create(namespace), 409, "ConflictException")

    def test_the_iceberg_api_can_drop_it(self, tables: Tables) -> None:
        for purge in ("false", "true"):
            namespace = tables.new_blank()
            path = f"/iceberg/v1/default/namespaces/{namespace}/tables/t"
            assert tables.http.delete(f"{path}?purgeRequested={purge}").status_code == 204
            assert_refused(
                tables.http.get(tables.path(namespace, "t", "/metadata-location")), 404, "NotFoundException"
            )
            assert tables.create(namespace).status_code == 200

    def test_its_first_metadata_makes_it_a_table(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        before = tables.get(namespace)
        document = fresh(before["warehouseLocation"])
        location = written(document, metadata_file(before["warehouseLocation"], "00000-first.metadata.json"))
        moved = tables.moved(namespace, before["versionToken"], location)
        assert set(moved) == {"name", "tableARN", "namespace", "versionToken", "metadataLocation"}
        assert (moved["name"], moved["namespace"], moved["metadataLocation"]) == ("t", [namespace], location)
        assert moved["tableARN"] == before["tableARN"]
        assert moved["versionToken"] != before["versionToken"]
        loaded = tables.loaded(namespace).json()
        assert (loaded["metadata-location"], loaded["metadata"]["table-uuid"]) == (location, document.uuid)
        assert tables.pointer(namespace)["versionToken"] == moved["versionToken"]
        appended(tables, namespace, 7)
        assert tables.loaded(namespace).json()["metadata"]["current-snapshot-id"] == 7

    def test_first_metadata_of_another_place_is_refused(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        location = written(
            fresh(pointer["warehouseLocation"] + "-beside"), metadata_file(pointer["warehouseLocation"])
        )
        answer = tables.update(namespace, pointer["versionToken"], location)
        assert "must be" in assert_refused(answer, 400, "BadRequestException")
        assert tables.pointer(namespace) == pointer

    def test_first_metadata_of_another_table_is_refused(self, tables: Tables) -> None:
        other = tables.loaded(tables.new_table()).json()["metadata"]
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        mine = edited(fresh(pointer["warehouseLocation"]), table_uuid=other["table-uuid"])
        location = written(mine, metadata_file(pointer["warehouseLocation"]))
        assert_refused(tables.update(namespace, pointer["versionToken"], location), 409, "ConflictException")
        assert tables.pointer(namespace) == pointer

    def test_another_table_may_not_have_the_id_of_a_blank_one_as_its_uuid(self, tables: Tables) -> None:
        blank = tables.get(tables.new_blank())["tableARN"].rpartition("/")[2]
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        mine = edited(fresh(pointer["warehouseLocation"]), table_uuid=blank)
        location = written(mine, metadata_file(pointer["warehouseLocation"]))
        assert_refused(tables.update(namespace, pointer["versionToken"], location), 409, "ConflictException")

    def test_first_metadata_of_a_dropped_table_is_refused(self, tables: Tables) -> None:
        namespace = tables.new_table()
        document = read(tables.pointer(namespace)["metadataLocation"])
        path = f"/iceberg/v1/default/namespaces/{namespace}/tables/t"
        assert tables.http.delete(path).status_code == 204
        assert tables.create(namespace).status_code == 200
        pointer = tables.pointer(namespace)
        new = edited(fresh(pointer["warehouseLocation"]), table_uuid=document.uuid)
        location = written(new, metadata_file(pointer["warehouseLocation"]))
        answer = tables.update(namespace, pointer["versionToken"], location)
        message = assert_refused(answer, 409, "ConflictException")
        assert f"Dropped table {namespace}.t of the bucket default has the uuid" in message

    @pytest.mark.parametrize("uuid", ["x", "a\0b", "11111111-8b0e-4bb5-a4b9-3ef7c7e0d9a1" * 300])
    def test_first_metadata_with_no_uuid_is_refused(self, tables: Tables, uuid: str) -> None:
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        new = edited(fresh(pointer["warehouseLocation"]), table_uuid=uuid)
        answer = tables.update(
            namespace,
            pointer["versionToken"],
            written(new, metadata_file(pointer["warehouseLocation"])),
        )
        assert "no table-uuid that is a UUID" in assert_refused(answer, 400, "BadRequestException")

    def test_first_metadata_that_would_give_ids_out_twice_is_refused(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        new = edited(fresh(pointer["warehouseLocation"]), last_column_id=1)
        answer = tables.update(
            namespace,
            pointer["versionToken"],
            written(new, metadata_file(pointer["warehouseLocation"])),
        )
        assert "its last-column-id is 1" in assert_refused(answer, 400, "BadRequestException")

    def test_no_other_table_is_made_in_its_place(self, tables: Tables) -> None:
        blank = tables.pointer(tables.new_blank())["warehouseLocation"]
        answer = tables.http.post(
            f"/iceberg/v1/default/namespaces/{tables.new_namespace()}/tables",
            json={"name": "t", "schema": SCHEMA, "location": blank + "/below"},
        )
        assert_error(answer, 409, "AlreadyExistsException")

    def test_rename_and_delete(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        before = tables.get(namespace)
        body = {"newName": "u", "versionToken": before["versionToken"]}
        assert tables.http.put(tables.path(namespace, "t", "/rename"), json=body).status_code == 204
        after = tables.get(namespace, "u")
        assert (after["tableARN"], after["warehouseLocation"]) == (
            before["tableARN"],
            before["warehouseLocation"],
        )
        assert after["versionToken"] != before["versionToken"]
        stale = tables.path(namespace, "u") + f"?versionToken={before['versionToken']}"
        assert assert_refused(tables.http.delete(stale), 409, "ConflictException") == STALE
        path = tables.path(namespace, "u") + f"?versionToken={after['versionToken']}"
        assert tables.http.delete(path).status_code == 204
        assert tables.http.delete(f"/iceberg/v1/default/namespaces/{namespace}").status_code == 204


class TestRaces:
    def test_one_of_many_creates_a_table(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        metadata = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
        more: list[dict[str, Any]] = [{}, {"metadata": metadata}] * 4
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda body: tables.create(namespace, **body).status_code, more))
        assert Counter(answers) == {200: 1, 409: 7}
        assert tables.http.delete(tables.path(namespace, "t")).status_code == 204
        assert tables.http.delete(f"/iceberg/v1/default/namespaces/{namespace}").status_code == 204

    def test_one_of_many_gives_a_blank_table_its_first_metadata(self, tables: Tables) -> None:
        namespace = tables.new_blank()
        pointer = tables.pointer(namespace)
        warehouse = pointer["warehouseLocation"]
        files = [written(fresh(warehouse), metadata_file(warehouse)) for _ in range(8)]
        with ThreadPoolExecutor(8) as threads:
            answers = list(
                threads.map(lambda at: tables.update(namespace, pointer["versionToken"], at), files)
            )
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 7}
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert tables.pointer(namespace)["metadataLocation"] == won["metadataLocation"]
        assert tables.pointer(namespace)["versionToken"] == won["versionToken"]
        assert all(Path(local_path(location)).exists() for location in files)

    def test_a_table_that_goes_while_its_pointer_moves_is_there_or_gone(self, tables: Tables) -> None:
        for _ in range(5):
            namespace = tables.new_table()
            pointer = tables.pointer(namespace)
            new = following(pointer["metadataLocation"], snapshot_id=1)
            location = written(new, metadata_file(pointer["warehouseLocation"]))
            gone = tables.path(namespace, "t") + f"?versionToken={pointer['versionToken']}"
            with ThreadPoolExecutor(2) as threads:
                moving = threads.submit(tables.update, namespace, pointer["versionToken"], location)
                going = threads.submit(tables.http.delete, gone)
                outcome = moving.result().status_code, going.result().status_code
            assert outcome in {(200, 409), (404, 204), (409, 204)}
            there = tables.http.get(tables.path(namespace, "t", "/metadata-location"))
            assert there.status_code == (200 if outcome[0] == 200 else 404)


class TestCreateWithMetadata:
    def test_a_flat_schema(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        fields = [
            {"name": "id", "type": "long", "required": True},
            {"id": 1, "name": "name", "type": "string"},
            {"name": "price", "type": "decimal(9, 2)"},
        ]
        answer = tables.create(namespace, metadata={"iceberg": {"schema": {"fields": fields}}})
        assert answer.status_code == 200, answer.text
        metadata = tables.loaded(namespace).json()["metadata"]
        assert metadata["schemas"][0]["fields"] == [
            {"id": 2, "name": "id", "required": True, "type": "long"},
            {"id": 1, "name": "name", "required": False, "type": "string"},
            {"id": 3, "name": "price", "required": False, "type": "decimal(9, 2)"},
        ]
        assert tables.get(namespace)["versionToken"] == answer.json()["versionToken"]
        assert tables.get(namespace)["tableARN"] == answer.json()["tableARN"]

    def test_a_nested_schema_with_all_that_belongs_to_a_table(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        iceberg = {
            "schemaV2": {
                "type": "struct",
                "schema-id": 3,
                "identifier-field-ids": [10],
                "fields": [
                    {"id": 10, "name": "id", "type": "long", "required": True, "doc": "key"},
                    {"id": 20, "name": "at", "type": "timestamptz", "required": False},
                    {
                        "id": 30,
                        "name": "tags",
                        "required": False,
                        "type": {
                            "type": "list",
                            "element-id": 31,
                            "element": "string",
                            "element-required": False,
                        },
                    },
                ],
            },
            "partitionSpec": {"fields": [{"source-id": 20, "transform": "day", "name": "day"}]},
            "writeOrder": {
                "order-id": 1,
                "fields": [
                    {"source-id": 10, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
                ],
            },
            "properties": {"owner": "me", "format-version": "3"},
        }
        answer = tables.create(namespace, metadata={"iceberg": iceberg})
        assert answer.status_code == 200, answer.text
        metadata = tables.loaded(namespace).json()["metadata"]
        assert metadata["format-version"] == 3
        schema = metadata["schemas"][0]
        assert (schema["schema-id"], schema["identifier-field-ids"]) == (0, [10])
        assert [field["id"] for field in schema["fields"]] == [10, 20, 30]
        assert schema["fields"][2]["type"]["element-id"] == 31
        assert metadata["partition-specs"][0]["fields"] == [
            {"source-id": 20, "field-id": 1000, "transform": "day", "name": "day"}
        ]
        assert metadata["sort-orders"][0]["fields"][0]["source-id"] == 10
        assert metadata["properties"]["owner"] == "me"

    @pytest.mark.parametrize(
        ("metadata", "told"),
        [
            ({}, "iceberg"),
            ({"iceberg": {}}, "schema or a schemaV2"),
            ({"iceberg": {"schema": {"fields": []}, "schemaV2": {"type": "struct", "fields": []}}}, "either"),
            ({"iceberg": {"schema": {"fields": [{"name": "a", "type": "text"}]}}}, "'text'"),
            ({"iceberg": {"schema": {"fields": [{"name": "a", "type": {"type": "struct"}}]}}}, "string"),
            ({"iceberg": {"schema": {"fields": [{"type": "int"}]}}}, "name"),
            ({"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}] * 2}}}, "multiple fields"),
            (
                {"iceberg": {"schema": {"fields": [{"id": 1, "name": n, "type": "int"} for n in "ab"]}}},
                "multiple fields for id 1",
            ),
            (
                {
                    "iceberg": {
                        "schema": {"fields": [{"name": "a", "type": "int"}]},
                        "partitionSpec": {"fields": [{"source-id": 9, "transform": "day", "name": "d"}]},
                    }
                },
                "Cannot find source column",
            ),
            (
                {
                    "iceberg": {
                        "schema": {"fields": [{"name": "a", "type": "int"}]},
                        "properties": {"format-version": "9"},
                    }
                },
                "format version",
            ),
            ({"iceberg": {"schema": {"fields": [{"name": "a", "type": "int", "extra": 1}]}}}, "extra"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_can_not_be_a_table_is_refused_and_leaves_nothing(
        self, tables: Tables, metadata: Any, told: str
    ) -> None:
        namespace = tables.new_namespace()
        message = assert_refused(tables.create(namespace, metadata=metadata), 400, "BadRequestException")
        assert told in message
        assert tables.http.delete(f"/iceberg/v1/default/namespaces/{namespace}").status_code == 204

    def test_where_there_is_no_namespace(self, tables: Tables) -> None:
        for metadata in (
            {},
            {"metadata": {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}},
        ):
            message = assert_refused(tables.create("missing_ns", **metadata), 404, "NotFoundException")
            assert message.startswith("The specified namespace does not exist.")

    @pytest.mark.parametrize("name", ["Up", "a-b", "", "x" * 256, "a.b"])
    def test_names_that_can_not_be(self, tables: Tables, name: str) -> None:
        assert_refused(tables.create(tables.new_namespace(), name), 400, "BadRequestException")


class TestTheToken:
    def test_changes_with_every_commit_through_either_door(self, tables: Tables) -> None:
        namespace = tables.new_table()
        seen = [tables.pointer(namespace)["versionToken"]]
        for turn in range(1, 7):
            if turn % 2:
                seen.append(appended(tables, namespace, turn)["versionToken"])
            else:
                body = {
                    "requirements": [],
                    "updates": [{"action": "set-properties", "updates": {"n": str(turn)}}],
                }
                path = f"/iceberg/v1/default/namespaces/{namespace}/tables/t"
                assert tables.http.post(path, json=body).status_code == 200
                seen.append(tables.pointer(namespace)["versionToken"])
            assert tables.pointer(namespace)["versionToken"] == seen[-1]
        assert len(set(seen)) == 7
        log = [
            entry["metadata-file"] for entry in tables.loaded(namespace).json()["metadata"]["metadata-log"]
        ]
        assert len(log) == len(set(log)) == 6

    def test_a_commit_that_changes_nothing_keeps_it(self, tables: Tables) -> None:
        namespace = tables.new_table()
        before = tables.pointer(namespace)
        path = f"/iceberg/v1/default/namespaces/{namespace}/tables/t"
        assert tables.http.post(path, json={"requirements": [], "updates": []}).status_code == 200
        assert tables.pointer(namespace) == before

    def test_none_comes_again_when_a_table_is_registered_again(self, tables: Tables) -> None:
        namespace = tables.new_table()
        before = tables.get(namespace)
        management = f"/api/v1/buckets/default/namespaces/{namespace}/tables/t/unregister"
        assert tables.http.post(management).status_code == 200
        answer = tables.http.post(
            f"/iceberg/v1/default/namespaces/{namespace}/register",
            json={"name": "t", "metadata-location": before["metadataLocation"]},
        )
        assert answer.status_code == 200, answer.text
        after = tables.get(namespace)
        assert after["tableARN"] == before["tableARN"]
        assert after["versionToken"] != before["versionToken"]
        stale = tables.http.delete(tables.path(namespace, "t") + f"?versionToken={before['versionToken']}")
        assert assert_refused(stale, 409, "ConflictException") == STALE

    def test_a_stale_one_is_refused(self, tables: Tables) -> None:
        namespace = tables.new_table()
        before = tables.pointer(namespace)
        appended(tables, namespace, 1)
        pointer = tables.pointer(namespace)
        location = written(
            following(pointer["metadataLocation"], snapshot_id=2), metadata_file(pointer["warehouseLocation"])
        )
        for token in (before["versionToken"], "x", pointer["versionToken"] + "0"):
            answer = tables.update(namespace, token, location)
            assert assert_refused(answer, 409, "ConflictException") == STALE
        assert tables.pointer(namespace) == pointer

    def test_a_repeated_update_is_answered_as_the_first_was(self, tables: Tables) -> None:
        namespace = tables.new_table()
        before = tables.pointer(namespace)
        location = written(
            following(before["metadataLocation"], snapshot_id=1), metadata_file(before["warehouseLocation"])
        )
        first = tables.moved(namespace, before["versionToken"], location)
        assert tables.moved(namespace, before["versionToken"], location) == first
        appended(tables, namespace, 2)
        assert_refused(tables.update(namespace, before["versionToken"], location), 409, "ConflictException")


class TestRefusedUpdates:
    """Each leaves the pointer where it is, and the client's file too."""

    def refused(
        self,
        tables: Tables,
        namespace: str,
        location: str,
        status: int = 400,
        name: str = "BadRequestException",
    ) -> str:
        before = tables.pointer(namespace)
        message = assert_refused(tables.update(namespace, before["versionToken"], location), status, name)
        assert tables.pointer(namespace) == before
        assert tables.loaded(namespace).status_code == 200
        return message

    def next_of(self, tables: Tables, namespace: str) -> tuple[Any, str]:
        pointer = tables.pointer(namespace)
        return following(pointer["metadataLocation"], snapshot_id=5), pointer["warehouseLocation"]

    def test_outside_the_table(self, tables: Tables, tmp_path: Path) -> None:
        namespace, other = tables.new_table(), tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        beside = tables.pointer(other)["warehouseLocation"]
        for place in (beside, warehouse + "-more", f"file://{tmp_path}", f"{warehouse}/../x"):
            location = metadata_file(place)
            if ".." not in place:
                written(new, location)
            message = self.refused(tables, namespace, location)
            assert message.startswith(NOT_VALID)

    @pytest.mark.parametrize(
        "location", ["x", "http://127.0.0.1/a.metadata.json", "s3://b/a.metadata.json", "file:x"]
    )
    def test_no_place_of_ours(self, tables: Tables, location: str) -> None:
        assert self.refused(tables, tables.new_table(), location).startswith(NOT_VALID)

    @pytest.mark.parametrize(
        "name", ["v1.json", "metadata.json", "a.metadata.json.zst", "a.metadata.JSON", ".metadata.json"]
    )
    def test_another_ending(self, tables: Tables, name: str) -> None:
        namespace = tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        location = metadata_file(warehouse, name)
        raw(location, new.to_bytes())
        assert "does not end in" in self.refused(tables, namespace, location)

    def test_a_missing_file(self, tables: Tables) -> None:
        namespace = tables.new_table()
        _, warehouse = self.next_of(tables, namespace)
        message = self.refused(tables, namespace, metadata_file(warehouse))
        assert message.startswith(f"{NOT_VALID} There is no file at")

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"[]", b"{}", b"\x1f\x8bxx", gzip.compress(b"{}"), b"secret"], ids=range(7)
    )
    def test_an_unreadable_file(self, tables: Tables, data: bytes) -> None:
        namespace = tables.new_table()
        _, warehouse = self.next_of(tables, namespace)
        location = raw(metadata_file(warehouse), data)
        message = self.refused(tables, namespace, location)
        assert "not a readable table metadata file" in message
        assert "secret" not in message
        assert Path(local_path(location)).read_bytes() == data

    def test_a_directory_and_a_link(self, tables: Tables, tmp_path: Path) -> None:
        namespace = tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        directory = metadata_file(warehouse)
        os.mkdir(local_path(directory))
        self.refused(tables, namespace, directory)
        elsewhere = written(new, f"file://{tmp_path}/{uuid.uuid4()}.metadata.json")
        link = metadata_file(warehouse)
        os.symlink(local_path(elsewhere), local_path(link))
        assert "symbolic link" in self.refused(tables, namespace, link)

    def test_another_tables_uuid(self, tables: Tables) -> None:
        namespace = tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        location = written(edited(new, table_uuid=str(uuid.uuid4())), metadata_file(warehouse))
        assert "table-uuid" in self.refused(tables, namespace, location)

    def test_what_was_made_from_another_version(self, tables: Tables) -> None:
        namespace = tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        appended(tables, namespace, 1)
        location = written(new, metadata_file(warehouse))
        message = self.refused(tables, namespace, location, 409, "ConflictException")
        assert "made from another version" in message

    def test_an_older_version_of_itself(self, tables: Tables) -> None:
        namespace = tables.new_table()
        old = tables.pointer(namespace)["metadataLocation"]
        appended(tables, namespace, 1)
        self.refused(tables, namespace, old, 409, "ConflictException")

    def test_what_loses_the_current_snapshot(self, tables: Tables) -> None:
        namespace = tables.new_table()
        appended(tables, namespace, 1)
        new, warehouse = self.next_of(tables, namespace)
        lost = edited(new, snapshots=[row for row in new.snapshots if row["snapshot-id"] != 1])
        assert "lost" in self.refused(tables, namespace, written(lost, metadata_file(warehouse)))

    def test_sequence_numbers_that_go_back(self, tables: Tables) -> None:
        namespace = tables.new_table()
        appended(tables, namespace, 1)
        appended(tables, namespace, 2)
        pointer = tables.pointer(namespace)
        base = read(pointer["metadataLocation"])
        new = following(pointer["metadataLocation"], {"action": "set-properties", "updates": {"a": "b"}})
        back = edited(
            new,
            last_sequence_number=1,
            snapshots=[{**row, "sequence-number": 1} for row in base.snapshots],
        )
        location = written(back, metadata_file(pointer["warehouseLocation"]))
        assert "goes back" in self.refused(tables, namespace, location)

    def test_files_and_places_of_elsewhere(self, tables: Tables, tmp_path: Path) -> None:
        namespace, other = tables.new_table(), tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        beside = tables.pointer(other)["warehouseLocation"]
        outside = f"file://{tmp_path}/x.avro"

        def listing(path: str) -> Any:
            return edited(new, snapshots=[{**row, "manifest-list": path} for row in new.snapshots])

        self.refused(tables, namespace, written(listing(outside), metadata_file(warehouse)))
        location = written(listing(f"{beside}/metadata/x.avro"), metadata_file(warehouse))
        self.refused(tables, namespace, location, 409, "ConflictException")
        location = written(edited(new, location=beside), metadata_file(warehouse))
        self.refused(tables, namespace, location, 409, "ConflictException")
        location = written(edited(new, location=f"file://{tmp_path}"), metadata_file(warehouse))
        self.refused(tables, namespace, location)
        sent = edited(new, properties={"write.data.path": f"file://{tmp_path}"})
        self.refused(tables, namespace, written(sent, metadata_file(warehouse)))

    def test_more_columns_and_properties_than_are_allowed(self, tables: Tables) -> None:
        namespace = tables.new_table()
        new, warehouse = self.next_of(tables, namespace)
        many = edited(new, properties={f"p{n}": "" for n in range(10_001)})
        assert "10000" in self.refused(tables, namespace, written(many, metadata_file(warehouse)))

    def test_where_there_is_no_table(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        answer = tables.update(namespace, "token", "file:///x/metadata/a.metadata.json")
        assert assert_refused(answer, 404, "NotFoundException").startswith(
            "The specified table does not exist."
        )

    def test_a_view_is_no_table(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        assert_refused(
            tables.update(namespace, "t", "file:///x/a.metadata.json", "v"), 404, "NotFoundException"
        )


class TestUpdatesThatFollow:
    def test_a_gzipped_file_of_either_name(self, tables: Tables) -> None:
        namespace = tables.new_table()
        for number, name in enumerate(("1-a.gz.metadata.json", "2-b.metadata.json.gz"), 1):
            pointer = tables.pointer(namespace)
            new = following(pointer["metadataLocation"], snapshot_id=number)
            location = written(new, metadata_file(pointer["warehouseLocation"], name))
            tables.moved(namespace, pointer["versionToken"], location)
            assert tables.loaded(namespace).json()["metadata"]["current-snapshot-id"] == number

    def test_expiration_rollback_and_changes_of_the_schema(self, tables: Tables) -> None:
        namespace = tables.new_table()
        for number in (1, 2, 3):
            appended(tables, namespace, number)
        for changes in (
            [{"action": "remove-snapshots", "snapshot-ids": [1]}],
            [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2}],
            [
                {
                    "action": "add-schema",
                    "schema": {
                        **SCHEMA,
                        "fields": [
                            *SCHEMA["fields"],  # type: ignore[misc]
                            {"id": 3, "name": "more", "type": "int", "required": False},
                        ],
                    },
                },
                {"action": "set-current-schema", "schema-id": -1},
            ],
        ):
            pointer = tables.pointer(namespace)
            new = following(pointer["metadataLocation"], *changes)
            location = written(new, metadata_file(pointer["warehouseLocation"]))
            tables.moved(namespace, pointer["versionToken"], location)
        metadata = tables.loaded(namespace).json()["metadata"]
        assert metadata["current-snapshot-id"] == 2
        assert [row["snapshot-id"] for row in metadata["snapshots"]] == [2, 3]
        assert metadata["current-schema-id"] == 1

    def test_maintenance_is_asked_for_as_by_any_commit(self, tables: Tables) -> None:
        namespace = tables.new_table()
        pointer = tables.pointer(namespace)
        new = following(pointer["metadataLocation"], snapshot_id=1)
        many = {"operation": "append", "added-data-files": "50", "total-data-files": "50"}
        busy = edited(new, snapshots=[{**row, "summary": many} for row in new.snapshots])
        location = written(busy, metadata_file(pointer["warehouseLocation"]))
        tables.moved(namespace, pointer["versionToken"], location)
        query = {"bucket": "default", "namespace": namespace, "table": "t"}
        jobs = tables.http.get("/api/v1/jobs", params=query).json()["jobs"]
        assert [(job["kind"], job["origin"]) for job in jobs] == [("icebergCompaction", "commit")]

    def test_old_metadata_files_stay_whoever_is_to_delete_them(self, tables: Tables) -> None:
        """The client that writes metadata deletes the old files itself, as Java's catalogs do after their commit."""
        namespace = tables.new_table()
        wanted = {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        }
        locations = [tables.pointer(namespace)["metadataLocation"]]
        for number in range(4):
            pointer = tables.pointer(namespace)
            new = following(
                pointer["metadataLocation"],
                {"action": "set-properties", "updates": {**wanted, "n": str(number)}},
            )
            locations.append(written(new, metadata_file(pointer["warehouseLocation"])))
            tables.moved(namespace, pointer["versionToken"], locations[-1])
        assert all(Path(local_path(location)).exists() for location in locations)
        assert len(tables.loaded(namespace).json()["metadata"]["metadata-log"]) == 1

    def test_a_log_that_names_other_files_deletes_none(self, tables: Tables) -> None:
        namespace = tables.new_table()
        pointer = tables.pointer(namespace)
        warehouse = pointer["warehouseLocation"]
        new = following(pointer["metadataLocation"], snapshot_id=7)
        old = raw(f"{warehouse}/metadata/00000-old.metadata.json", b"{}")
        needed = [
            raw(f"{warehouse}/data/rows.parquet", b"rows"),
            raw(new.snapshots[-1]["manifest-list"], b"manifests"),
        ]
        log = [{"timestamp-ms": new.last_updated_ms, "metadata-file": path} for path in (old, *needed)]
        new = edited(
            new,
            metadata_log=[*log, *new.metadata_log],
            properties={
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "1",
            },
        )
        tables.moved(namespace, pointer["versionToken"], written(new, metadata_file(warehouse)))
        update = {"action": "set-properties", "updates": {"a": "b"}}
        answer = tables.http.post(
            f"/iceberg/v1/default/namespaces/{namespace}/tables/t",
            json={"requirements": [], "updates": [update]},
        )
        assert answer.status_code == 200, answer.text
        there = [Path(local_path(path)).exists() for path in (old, *needed)]
        assert there == [False, True, True]

    def test_a_log_that_names_a_dropped_neighbours_metadata_does_not_delete_it(self, tables: Tables) -> None:
        """Made anew at the place of a dropped table, as clients do it; its metadata still restores the other."""
        namespace = tables.new_table()
        first = tables.pointer(namespace)
        where = f"/iceberg/v1/default/namespaces/{namespace}/tables"
        assert tables.http.delete(f"{where}/t").status_code == 204
        place = first["warehouseLocation"]
        made = tables.http.post(where, json={"name": "t", "schema": SCHEMA, "location": place})
        assert made.status_code == 200, made.text
        second = tables.pointer(namespace)
        assert (second["warehouseLocation"], second["metadataLocation"]) != (place, first["metadataLocation"])
        new = following(second["metadataLocation"], snapshot_id=7)
        named = {"timestamp-ms": new.last_updated_ms, "metadata-file": first["metadataLocation"]}
        properties = {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "1",
        }
        new = edited(new, metadata_log=[named, *new.metadata_log], properties=properties)
        tables.moved(namespace, second["versionToken"], written(new, metadata_file(place)))
        for number in range(3):
            update = {"action": "set-properties", "updates": {"n": str(number)}}
            answer = tables.http.post(f"{where}/t", json={"requirements": [], "updates": [update]})
            assert answer.status_code == 200, answer.text
        log = tables.loaded(namespace).json()["metadata"]["metadata-log"]
        assert first["metadataLocation"] not in [entry["metadata-file"] for entry in log]
        assert Path(local_path(first["metadataLocation"])).exists()

        # Once the one that is there now is out of the way, the first is restored as it was.
        assert tables.http.delete(f"{where}/t?purgeRequested=true").status_code == 204
        dropped = "/api/v1/buckets/default/dropped-tables"
        found = tables.http.get(dropped, params={"namespace": namespace}).json()["droppedTables"]
        (old,) = [one for one in found if one["metadataLocation"] == first["metadataLocation"]]
        restored = tables.http.post(f"{dropped}/{old['id']}/undrop", json={})
        assert restored.status_code == 200, restored.text
        assert tables.pointer(namespace)["metadataLocation"] == first["metadataLocation"]

    @pytest.mark.parametrize("number", [2**63 - 1, 2**62 + 1])
    def test_a_sequence_number_that_no_commit_could_follow_is_refused(
        self, tables: Tables, number: int
    ) -> None:
        namespace = tables.new_table()
        pointer = tables.pointer(namespace)
        new = following(pointer["metadataLocation"], snapshot_id=7)
        for stuck in (
            edited(new, last_sequence_number=number),
            edited(
                new,
                last_sequence_number=number,
                snapshots=[{**row, "sequence-number": number} for row in new.snapshots],
            ),
        ):
            location = written(stuck, metadata_file(pointer["warehouseLocation"]))
            refused = tables.update(namespace, pointer["versionToken"], location)
            message = assert_refused(refused, 400, "BadRequestException")
            assert f"last-sequence-number is {number}" in message
        assert tables.pointer(namespace) == pointer
        last = edited(new, last_sequence_number=2**62 - 1)
        last = edited(last, snapshots=[{**row, "sequence-number": 2**62 - 1} for row in new.snapshots])
        tables.moved(
            namespace, pointer["versionToken"], written(last, metadata_file(pointer["warehouseLocation"]))
        )
        after = following(tables.pointer(namespace)["metadataLocation"], snapshot_id=8)
        assert after.last_sequence_number == 2**62

    def test_the_properties_may_send_metadata_elsewhere(self, tables: Tables) -> None:
        namespace = tables.new_table()
        pointer = tables.pointer(namespace)
        place = pointer["warehouseLocation"] + "-metadata"
        new = following(
            pointer["metadataLocation"],
            {"action": "set-properties", "updates": {"write.metadata.path": place}},
        )
        location = written(new, metadata_file(pointer["warehouseLocation"]))
        moved = tables.moved(namespace, pointer["versionToken"], location)
        after = written(following(location, snapshot_id=1), f"{place}/00002-x.metadata.json")
        tables.moved(namespace, moved["versionToken"], after)
        taken = tables.http.post(
            f"/iceberg/v1/default/namespaces/{namespace}/tables",
            json={"name": "u", "schema": SCHEMA, "location": place},
        )
        assert_error(taken, 409, "AlreadyExistsException")


class TestNames:
    def test_rename_keeps_arn_place_and_metadata(self, tables: Tables) -> None:
        namespace, other = tables.new_table(), tables.new_namespace()
        before = tables.get(namespace)
        path = tables.path(namespace, "t", "/rename")
        for body in (
            {"newName": "u"},
            {"newNamespaceName": other},
            {"newName": "t", "newNamespaceName": namespace},
        ):
            assert tables.http.put(path, json=body).status_code == 204
            namespace_now = body.get("newNamespaceName", namespace)
            name = body.get("newName", "u")
            path = tables.path(namespace_now, name, "/rename")
            after = tables.get(namespace_now, name)
            for member in ("tableARN", "warehouseLocation", "metadataLocation"):
                assert after[member] == before[member]
        assert tables.get(namespace)["versionToken"] != before["versionToken"]

    @pytest.mark.parametrize(
        ("body", "status", "name", "told"),
        [
            (
                {},
                400,
                "BadRequestException",
                "Neither a new namespace name nor a new table name is specified.",
            ),
            ({"newName": "A"}, 400, "BadRequestException", "newName"),
            ({"newName": "u", "versionToken": "x"}, 409, "ConflictException", STALE),
            (
                {"newNamespaceName": "missing_ns"},
                404,
                "NotFoundException",
                "The specified destination namespace does not exist.",
            ),
            (
                {"newName": "taken"},
                409,
                "ConflictException",
                "A table with an identical name already exists in the namespace.",
            ),
        ],
        ids=["nothing", "name", "token", "namespace", "taken"],
    )
    @pytest.mark.parametrize("blank", [True, False], ids=["blank", "table"])
    def test_refused_renames(
        self, tables: Tables, blank: bool, body: dict[str, str], status: int, name: str, told: str
    ) -> None:
        namespace = tables.new_blank() if blank else tables.new_table()
        tables.create(namespace, "taken")
        before = tables.get(namespace)
        answer = tables.http.put(tables.path(namespace, "t", "/rename"), json=body)
        assert told in assert_refused(answer, status, name)
        assert tables.get(namespace) == before

    def test_what_this_api_can_not_name_is_hidden_and_not_broken(self, tables: Tables) -> None:
        outer = tables.new_namespace()
        assert (
            tables.http.post("/iceberg/v1/default/namespaces", json={"namespace": [outer, "in"]}).status_code
            == 200
        )
        body: dict[str, Any] = {"name": "t", "schema": SCHEMA}
        for levels, name in (([outer], "Upper"), ([outer, "in"], "t"), ([outer], "plain")):
            path = f"/iceberg/v1/default/namespaces/{segment(*levels)}/tables"
            assert tables.http.post(path, json={**body, "name": name}).status_code == 200
        listed = tables.http.get(f"/s3tables/tables/{quoted(BUCKET)}?namespace={outer}").json()["tables"]
        assert [one["name"] for one in listed] == ["plain"]
        for path in (
            tables.path(outer, "Upper", "/metadata-location"),
            tables.path(f"{outer}\x1fin", "t", "/metadata-location"),
        ):
            assert_refused(tables.http.get(path), 404, "NotFoundException")
        query = {"tableBucketARN": BUCKET, "namespace": outer, "name": "Upper"}
        assert_refused(tables.http.get("/s3tables/get-table", params=query), 400, "BadRequestException")

    def test_names_that_are_words_of_paths(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        for name in ("maintenance", "rename", "policy", "metadata_location", "table", "encryption"):
            assert tables.create(namespace, name).status_code == 200
            assert "versionToken" in tables.pointer(namespace, name)
            assert tables.http.delete(tables.path(namespace, name)).status_code == 204


class TestDelete:
    def test_the_files_go_by_a_job(self, tables: Tables) -> None:
        namespace = tables.new_table()
        pointer = tables.pointer(namespace)
        stale = tables.http.delete(tables.path(namespace, "t") + "?versionToken=x")
        assert assert_refused(stale, 409, "ConflictException") == STALE
        path = tables.path(namespace, "t") + f"?versionToken={pointer['versionToken']}"
        assert tables.http.delete(path).status_code == 204
        assert_refused(tables.http.delete(path), 404, "NotFoundException")
        jobs = tables.http.get("/api/v1/jobs", params={"bucket": "default", "kind": "tablePurge"}).json()[
            "jobs"
        ]
        assert namespace in str(jobs)

    def test_an_empty_token_is_no_token_left_out(self, tables: Tables) -> None:
        namespace = tables.new_table()
        answer = tables.http.delete(tables.path(namespace, "t") + "?versionToken=")
        assert "'versionToken'" in assert_refused(answer, 400, "BadRequestException")
        assert tables.loaded(namespace).status_code == 200

    def test_an_arn_of_none_is_not_found(self, tables: Tables) -> None:
        for arn in (f"{BUCKET}/table/{uuid.uuid4()}", BUCKET.replace("default", "other") + "/table/x"):
            answer = tables.http.get("/s3tables/get-table", params={"tableArn": arn})
            assert_refused(answer, 404, "NotFoundException")

    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"tableBucketARN": BUCKET},
            {"namespace": "a", "name": "b"},
            {"tableArn": BUCKET},
            {"tableArn": f"{BUCKET}/table/x", "namespace": "a"},
        ],
        ids=["nothing", "half", "no bucket", "bucket", "both"],
    )
    def test_get_needs_one_way_to_name_the_table(self, tables: Tables, query: dict[str, str]) -> None:
        answer = tables.http.get("/s3tables/get-table", params=query)
        assert_refused(answer, 400, "BadRequestException")


class TestListing:
    def test_pages_by_key_with_blank_tables_among_them(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        names = [f"t{number}" for number in range(7)] + ["u1", "u2"]
        for number, name in enumerate(names):
            more = (
                {}
                if number % 2
                else {"metadata": {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}}
            )
            assert tables.create(namespace, name, **more).status_code == 200
        path = f"/s3tables/tables/{quoted(BUCKET)}"
        query: dict[str, Any] = {"namespace": namespace, "prefix": "t", "maxTables": 3}
        pages = []
        while True:
            answer = tables.http.get(path, params=query).json()
            pages.append([one["name"] for one in answer["tables"]])
            if len(pages) == 1:
                tables.http.delete(tables.path(namespace, "t1"))  # behind the key: no page shifts
            if "continuationToken" not in answer:
                break
            query["continuationToken"] = answer["continuationToken"]
        assert pages == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
        everything = tables.http.get(path, params={"maxTables": 1000}).json()["tables"]
        assert {"u1", "u2"} <= {one["name"] for one in everything if one["namespace"] == [namespace]}

    def test_tokens_are_bound_to_their_listing(self, tables: Tables) -> None:
        namespace = tables.new_namespace()
        for name in "abc":
            tables.create(namespace, name)
        path = f"/s3tables/tables/{quoted(BUCKET)}"
        token = tables.http.get(path, params={"namespace": namespace, "maxTables": 1}).json()[
            "continuationToken"
        ]
        for query in ({"continuationToken": token}, {"namespace": namespace, "continuationToken": "x"}):
            answer = tables.http.get(path, params=query)
            assert assert_refused(answer, 400, "BadRequestException").startswith(
                "The continuation token is not valid."
            )

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ({"maxTables": "0"}, 400),
            ({"maxTables": "1001"}, 400),
            ({"maxTables": "x"}, 400),
            ({"prefix": "x" * 256}, 400),
            ({"namespace": "missing_ns"}, 404),
        ],
        ids=["0", "1001", "x", "prefix", "namespace"],
    )
    def test_limits(self, tables: Tables, query: dict[str, str], status: int) -> None:
        answer = tables.http.get(f"/s3tables/tables/{quoted(BUCKET)}", params=query)
        assert answer.status_code == status, answer.text
