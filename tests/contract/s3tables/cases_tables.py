"""Tables, and the pointer to their metadata; what must not move it is in tests/api/test_s3tables_tables."""

import sqlite3
from contextlib import closing
from typing import Any

from tests.api.s3tables_client import following, fresh, metadata_file, written
from tests.contract.s3tables.cases_buckets import BAD, MISSING, NO_BUCKET, TAKEN
from tests.contract.s3tables.world import ACCOUNT, HOME, Cases, World

CASES = Cases()
FORBIDDEN = "ForbiddenException"
NO_TABLE = "The specified table does not exist."
NO_NAMESPACE = "The specified namespace does not exist."
STALE = "Provided version token does not match the table version token."
NOT_VALID = "The specified metadata location is not valid."
FIELDS = [{"name": "id", "type": "long", "required": True}, {"name": "at", "type": "timestamptz"}]
ICEBERG = {"iceberg": {"schema": {"fields": FIELDS}}}
FORMAT = {"format": "ICEBERG"}


def blank(world: World) -> dict[str, str]:
    """A blank table of its own: the parameters that name it."""
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace(), "name": world.fresh("t")}
    world.client.create_table(**where, **FORMAT)
    return where


def pointer(world: World, where: dict[str, str]) -> Any:
    return world.client.get_table_metadata_location(**where)


def next_file(world: World, where: dict[str, str]) -> tuple[str, str]:
    """The table's token, and a file that its pointer may be moved to."""
    found = pointer(world, where)
    warehouse = found["warehouseLocation"]
    current = found.get("metadataLocation")
    metadata = fresh(warehouse) if current is None else following(current, snapshot_id=1)
    return found["versionToken"], written(metadata, metadata_file(warehouse))


@CASES.success("CreateTable", "blank")
def create_blank(world: World) -> None:
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace(), "name": "t"}
    made = world.client.create_table(**where, **FORMAT)
    assert made["tableARN"].startswith(f"{world.bucket}/table/")
    assert "metadataLocation" not in pointer(world, where)


@CASES.success("CreateTable", "with all there is")
def create_with_everything(world: World) -> None:
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace(), "name": "t"}
    iceberg = {
        "schemaV2": {
            "type": "struct",
            "fields": [
                {"id": 5, "name": "id", "type": "long", "required": True},
                {
                    "id": 6,
                    "name": "tags",
                    "required": False,
                    "type": {"type": "list", "element-id": 7, "element": "string", "element-required": False},
                },
            ],
            "identifierFieldIds": [5],
        },
        "partitionSpec": {"fields": [{"sourceId": 5, "transform": "bucket[4]", "name": "b"}]},
        "writeOrder": {
            "orderId": 1,
            "fields": [
                {"sourceId": 5, "transform": "identity", "direction": "asc", "nullOrder": "nulls-last"}
            ],
        },
        "properties": {"owner": "me"},
    }
    made = world.client.create_table(
        **where,
        **FORMAT,
        metadata={"iceberg": iceberg},
        encryptionConfiguration={"sseAlgorithm": "AES256"},
        storageClassConfiguration={"storageClass": "INTELLIGENT_TIERING"},
        tags={"team": "ice"},
    )
    assert "metadataLocation" in pointer(world, where)
    assert world.client.list_tags_for_resource(resourceArn=made["tableARN"])["tags"] == {"team": "ice"}
    found = world.client.get_table_encryption(**where)["encryptionConfiguration"]
    assert found == {"sseAlgorithm": "AES256"}
    found = world.client.get_table_storage_class(**where)["storageClassConfiguration"]
    assert found == {"storageClass": "INTELLIGENT_TIERING"}


@CASES.success("CreateTable", "longest and shortest name")
def create_of_any_length(world: World) -> None:
    namespace = world.new_namespace()
    for name in ("_", "9" * 255, "rename", "maintenance"):
        where = {"tableBucketARN": world.bucket, "namespace": namespace, "name": name}
        world.client.create_table(**where, **FORMAT)
        assert world.client.get_table(**where)["name"] == name


@CASES.refused(
    "CreateTable", TAKEN, "name taken", "A table with an identical name already exists in the namespace."
)
def create_again(world: World) -> dict[str, Any]:
    return {**blank(world), **FORMAT}


for _what, _changes in (
    ("upper case", {"name": "A"}),
    ("dash", {"name": "a-b"}),
    ("empty", {"name": ""}),
    ("too long", {"name": "a" * 256}),
    ("no name", {"name": None}),
    ("format", {"format": "DELTA"}),
    ("no format", {"format": None}),
    ("no schema", {"metadata": {"iceberg": {"properties": {}}}}),
    ("no metadata in it", {"metadata": {}}),
    ("unknown type", {"metadata": {"iceberg": {"schema": {"fields": [{"name": "a", "type": "text"}]}}}}),
    ("encryption", {"encryptionConfiguration": {"sseAlgorithm": "rot13"}}),
    ("key missing", {"encryptionConfiguration": {"sseAlgorithm": "aws:kms"}}),
    ("storage class", {"storageClassConfiguration": {"storageClass": "GLACIER"}}),
    ("51 tags", {"tags": {f"k{n}": "" for n in range(51)}}),
    ("reserved tag", {"tags": {"aws:x": ""}}),
    ("long tag", {"tags": {"k": "v" * 257}}),
):
    CASES.refused("CreateTable", BAD, _what)(
        lambda world, changes=_changes: {
            "tableBucketARN": world.bucket,
            "namespace": world.new_namespace(),
            "name": "t",
            **FORMAT,
            **changes,
        }
    )


@CASES.success("GetTable")
def get_table(world: World) -> None:
    found = world.client.get_table(**world.table)
    assert (found["name"], found["namespace"]) == (world.table["name"], [world.table["namespace"]])
    assert (found["format"], found["type"]) == ("ICEBERG", "customer")
    assert {found["createdBy"], found["modifiedBy"], found["ownerAccountId"]} == {ACCOUNT}
    bucket = world.client.get_table_bucket(tableBucketARN=world.bucket)
    assert found["tableBucketId"] == bucket["tableBucketId"]
    assert found["metadataLocation"].startswith(found["warehouseLocation"])


@CASES.success("GetTable", "by ARN")
def get_table_by_arn(world: World) -> None:
    found = world.client.get_table(**world.table)
    again = world.client.get_table(tableArn=found["tableARN"])
    assert {**again, "ResponseMetadata": 0} == {**found, "ResponseMetadata": 0}


for _what, _query in (
    ("nothing", {}),
    ("half", {"tableBucketARN": HOME + "default", "name": "a"}),
    ("the ARN of a bucket", {"tableArn": HOME + "default"}),
    ("upper case", {"tableBucketARN": HOME + "default", "namespace": "a", "name": "A"}),
):
    CASES.refused("GetTable", BAD, _what)(lambda _, query=_query: dict(query))
CASES.refused("GetTable", MISSING, "ARN of none", NO_TABLE)(
    lambda world: {"tableArn": f"{world.bucket}/table/00000000-0000-0000-0000-000000000000"}
)


@CASES.success("ListTables")
def list_tables(world: World) -> None:
    bucket = world.new_bucket()
    assert world.client.list_tables(tableBucketARN=bucket)["tables"] == []
    for namespace in ("b", "a"):
        world.client.create_namespace(tableBucketARN=bucket, namespace=[namespace])
        for name in ("t_2", "t1", "u"):
            world.client.create_table(tableBucketARN=bucket, namespace=namespace, name=name, **FORMAT)

    def listed(**options: Any) -> list[str]:
        found = world.client.list_tables(tableBucketARN=bucket, **options)["tables"]
        return [f"{one['namespace'][0]}.{one['name']}" for one in found]

    assert listed() == ["a.t1", "a.t_2", "a.u", "b.t1", "b.t_2", "b.u"]
    assert listed(namespace="b") == ["b.t1", "b.t_2", "b.u"]
    assert listed(prefix="t_") == ["a.t_2", "b.t_2"]


@CASES.success("ListTables", "pages of tables and blank ones")
def list_tables_in_pages(world: World) -> None:
    namespace = world.new_namespace()
    where = {"tableBucketARN": world.bucket, "namespace": namespace}
    for number in range(5):
        more = {"metadata": ICEBERG} if number % 2 else {}
        world.client.create_table(**where, name=f"t{number}", **FORMAT, **more)
    pages = world.client.get_paginator("list_tables").paginate(**where, PaginationConfig={"PageSize": 2})
    found = [[one["name"] for one in page["tables"]] for page in pages]
    assert found == [["t0", "t1"], ["t2", "t3"], ["t4"]]


for _what, _options in (
    ("none of a page", {"maxTables": 0}),
    ("more than a page", {"maxTables": 1001}),
    ("token", {"continuationToken": "nonsense"}),
    ("long prefix", {"prefix": "a" * 256}),
):
    CASES.refused("ListTables", BAD, _what)(
        lambda world, options=_options: {"tableBucketARN": world.bucket, **options}
    )
CASES.refused("ListTables", MISSING, "no namespace", NO_NAMESPACE)(
    lambda world: {"tableBucketARN": world.bucket, "namespace": "missing"}
)


@CASES.success("RenameTable")
def rename_table(world: World) -> None:
    for where in (blank(world), world.new_table()):
        before = world.client.get_table(**where)
        other = world.new_namespace()
        world.client.rename_table(
            **where, newName="renamed", newNamespaceName=other, versionToken=before["versionToken"]
        )
        after = world.client.get_table(tableBucketARN=world.bucket, namespace=other, name="renamed")
        assert (after["tableARN"], after["warehouseLocation"]) == (
            before["tableARN"],
            before["warehouseLocation"],
        )
        assert after["versionToken"] != before["versionToken"]
        assert world.code("GetTable", **where) == MISSING


CASES.refused(
    "RenameTable", BAD, "to nothing", "Neither a new namespace name nor a new table name is specified."
)(lambda world: world.table)
CASES.refused("RenameTable", BAD, "to what is no name")(lambda world: {**world.table, "newName": "A-B"})
CASES.refused(
    "RenameTable", MISSING, "to no namespace", "The specified destination namespace does not exist."
)(lambda world: {**world.table, "newNamespaceName": "missing"})
CASES.refused("RenameTable", TAKEN, "stale token", STALE)(
    lambda world: {**world.table, "newName": "other", "versionToken": "x"}
)


@CASES.refused("RenameTable", TAKEN, "name taken", "A table with an identical name already exists")
def rename_to_a_name_in_use(world: World) -> dict[str, Any]:
    first = blank(world)
    world.client.create_table(**{**first, "name": "other"}, **FORMAT)
    return {**first, "newName": "other"}


@CASES.success("DeleteTable")
def delete_table(world: World) -> None:
    for where in (blank(world), world.new_table()):
        token = pointer(world, where)["versionToken"]
        world.client.delete_table(**where, versionToken=token)
        assert world.code("GetTable", **where) == MISSING
        world.client.create_table(**where, **FORMAT)
        world.client.delete_table(**where)


CASES.refused("DeleteTable", TAKEN, "stale token", STALE)(lambda world: {**world.table, "versionToken": "x"})


@CASES.refused("DeleteTable", FORBIDDEN, "protected", "protected")
def delete_a_protected_table(world: World) -> dict[str, Any]:
    where = world.new_table()
    with closing(sqlite3.connect(world.server.data_dir / "frazil.db", timeout=30)) as database, database:
        database.execute("UPDATE tables SET protected = 1 WHERE name = ?", [where["name"]])
    return where


@CASES.success("GetTableMetadataLocation")
def get_pointer(world: World) -> None:
    found, table = pointer(world, world.table), world.client.get_table(**world.table)
    for member in ("versionToken", "metadataLocation", "warehouseLocation"):
        assert found[member] == table[member]


@CASES.success("UpdateTableMetadataLocation")
def update_pointer(world: World) -> None:
    for where in (blank(world), world.new_table()):
        token, location = next_file(world, where)
        arn = world.client.get_table(**where)["tableARN"]
        moved = world.client.update_table_metadata_location(
            **where, versionToken=token, metadataLocation=location
        )
        assert (moved["name"], moved["namespace"]) == (where["name"], [where["namespace"]])
        assert (moved["tableARN"], moved["metadataLocation"]) == (arn, location)
        assert moved["versionToken"] not in ("", token)
        again = world.client.update_table_metadata_location(
            **where, versionToken=token, metadataLocation=location
        )
        assert again["versionToken"] == moved["versionToken"]


@CASES.refused("UpdateTableMetadataLocation", TAKEN, "stale token", STALE)
def update_with_a_stale_token(world: World) -> dict[str, Any]:
    where = world.new_table()
    _, location = next_file(world, where)
    return {**where, "versionToken": "x", "metadataLocation": location}


@CASES.refused("UpdateTableMetadataLocation", TAKEN, "another version's", "made from another version")
def update_to_what_does_not_follow(world: World) -> dict[str, Any]:
    where = world.new_table()
    token, location = next_file(world, where)
    _, late = next_file(world, where)
    moved = world.client.update_table_metadata_location(
        **where, versionToken=token, metadataLocation=location
    )
    return {**where, "versionToken": moved["versionToken"], "metadataLocation": late}


for _what, _location in (
    ("no place", "x"),
    ("another scheme", "http://127.0.0.1/x.metadata.json"),
    ("elsewhere", "file:///etc/x.metadata.json"),
    ("empty", ""),
    ("too long", "file:///" + "x" * 2048),
    ("missing", None),
):
    CASES.refused("UpdateTableMetadataLocation", BAD, _what)(
        lambda world, location=_location: {
            **world.table,
            "versionToken": pointer(world, world.table)["versionToken"],
            "metadataLocation": location,
        }
    )
for _what, _token in (("no token", None), ("empty token", ""), ("long token", "x" * 2049)):
    CASES.refused("UpdateTableMetadataLocation", BAD, _what, "at 'versionToken'")(
        lambda world, token=_token: {**world.table, "versionToken": token, "metadataLocation": "file:///x"}
    )


_MORE: dict[str, dict[str, Any]] = {
    "DeleteTable": {},
    "GetTable": {},
    "GetTableMetadataLocation": {},
    "RenameTable": {"newName": "x"},
    "UpdateTableMetadataLocation": {"versionToken": "x", "metadataLocation": "file:///x"},
    "GetTableMaintenanceConfiguration": {},
    "GetTableMaintenanceJobStatus": {},
    "PutTableMaintenanceConfiguration": {"type": "icebergCompaction", "value": {"status": "enabled"}},
}
for _operation, _given in _MORE.items():
    CASES.refused(_operation, MISSING, "missing", NO_TABLE)(
        lambda world, given=_given: {**world.table, "name": "missing", **given}
    )
    CASES.refused(_operation, MISSING, "no bucket", NO_BUCKET)(
        lambda world, given=_given: {**world.table, "tableBucketARN": HOME + "missing", **given}
    )
    if _operation != "GetTable":
        CASES.refused(_operation, MISSING, "a name that is not shown", NO_TABLE)(
            lambda world, given=_given: {**world.table, "name": "A/b c", **given}
        )
        CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
            lambda world, given=_given: {**world.table, "tableBucketARN": "x", **given}
        )
for _operation, _given in (("CreateTable", {"name": "t", **FORMAT}), ("ListTables", {})):
    CASES.refused(_operation, MISSING, "no bucket", NO_BUCKET)(
        lambda _, given=_given: {"tableBucketARN": HOME + "missing", "namespace": "a", **given}
    )
CASES.refused("CreateTable", MISSING, "no namespace", NO_NAMESPACE)(
    lambda world: {"tableBucketARN": world.bucket, "namespace": "missing", "name": "t", **FORMAT}
)
