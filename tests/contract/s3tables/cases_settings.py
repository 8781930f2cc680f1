"""Resource policies, encryption, storage class and metrics, of buckets and tables."""

import json
from collections.abc import Callable
from typing import Any

from tests.contract.s3tables.cases_buckets import BAD, KEY, MISSING, NO_BUCKET
from tests.contract.s3tables.world import HOME, Cases, World, ask

CASES = Cases()
NO_TABLE = "The specified table does not exist."
Where = Callable[[World], dict[str, str]]


def policy(size: int | None = None) -> str:
    """A policy, of exactly so many bytes if that is given."""
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::000000000000:root"},
                "Action": "s3tables:GetTable",
                "Resource": "*",
            }
        ],
    }
    text = json.dumps(document)
    if size is not None:
        document["Statement"][0]["Sid"] = "x" * (size - len(text))  # type: ignore[index]
        text = json.dumps(document)
        assert len(text) == size
    return text


def new_bucket(world: World) -> dict[str, str]:
    return {"tableBucketARN": world.new_bucket()}


def new_table(world: World) -> dict[str, str]:
    return world.new_table()


def _policies(what: str, new: Where) -> None:
    get, put, delete = f"Get{what}Policy", f"Put{what}Policy", f"Delete{what}Policy"

    def set_and_read(world: World) -> None:
        where, text = new(world), policy()
        ask(world, put, {**where, "resourcePolicy": text})
        assert ask(world, get, where)["resourcePolicy"] == text
        spaced = json.dumps(json.loads(text), indent=2) + "\n"
        ask(world, put, {**where, "resourcePolicy": spaced})
        assert ask(world, get, where)["resourcePolicy"] == spaced

    def as_long_as_can_be(world: World) -> None:
        ask(world, put, {**new(world), "resourcePolicy": policy(20_480)})

    def delete_it(world: World) -> None:
        where = new(world)
        ask(world, put, {**where, "resourcePolicy": policy()})
        for _ in range(2):
            ask(world, delete, where)
            assert world.code(get, **where) == MISSING

    CASES.success(get)(set_and_read)
    CASES.success(put)(set_and_read)
    CASES.success(put, "as long as can be")(as_long_as_can_be)
    CASES.success(delete, "twice")(delete_it)
    CASES.refused(get, MISSING, "none set", "does not have a resource policy")(new)
    for fault, text in {
        "one byte too long": policy(20_481),
        "too many bytes in few characters": json.dumps(
            {"Statement": [], "x": "\u00fc" * 10_300}, ensure_ascii=False
        ),
        "empty": "",
        "no JSON": "{",
        "not a number": '{"Statement": [], "a": NaN}',
        "a list": "[]",
        "no statement": "{}",
        "a text for a statement": '{"Statement": ["x"]}',
        "no effect": '{"Statement": [{"Action": "*"}]}',
        "an effect that is none": '{"Statement": {"Effect": "Maybe"}}',
        "missing": None,
        "an object": {"Statement": []},
    }.items():
        CASES.refused(put, BAD, fault)(
            lambda world, text=text: {**of_one(what)(world), "resourcePolicy": text}  # type: ignore[misc]
        )


def of_one(what: str) -> Where:
    """Where something is that nobody changes."""
    if what == "TableBucket":
        return lambda world: {"tableBucketARN": world.bucket}
    return lambda world: world.table


_policies("TableBucket", new_bucket)
_policies("Table", new_table)


@CASES.success("PutTableBucketEncryption")
def put_encryption(world: World) -> None:
    arn = world.new_bucket()
    for wanted in ({"sseAlgorithm": "AES256"}, {"sseAlgorithm": "aws:kms", "kmsKeyArn": KEY}):
        world.client.put_table_bucket_encryption(tableBucketARN=arn, encryptionConfiguration=wanted)
        found = world.client.get_table_bucket_encryption(tableBucketARN=arn)["encryptionConfiguration"]
        assert found == wanted


@CASES.success("GetTableBucketEncryption")
def get_encryption(world: World) -> None:
    put_encryption_of = {"sseAlgorithm": "AES256"}
    arn = world.new_bucket(encryptionConfiguration=put_encryption_of)
    found = world.client.get_table_bucket_encryption(tableBucketARN=arn)
    assert found["encryptionConfiguration"] == put_encryption_of


@CASES.success("DeleteTableBucketEncryption", "twice")
def delete_encryption(world: World) -> None:
    arn = world.new_bucket(encryptionConfiguration={"sseAlgorithm": "AES256"})
    for _ in range(2):
        world.client.delete_table_bucket_encryption(tableBucketARN=arn)
        assert world.code("GetTableBucketEncryption", tableBucketARN=arn) == MISSING


@CASES.success("GetTableEncryption", "of its bucket")
def get_encryption_of_table(world: World) -> None:
    arn = world.new_bucket(encryptionConfiguration={"sseAlgorithm": "AES256"})
    found = world.client.get_table_encryption(**world.new_table(bucket=arn))["encryptionConfiguration"]
    assert found == {"sseAlgorithm": "AES256"}


_NONE_SET = "does not have an encryption configuration"
CASES.refused("GetTableBucketEncryption", MISSING, "none set", _NONE_SET)(new_bucket)
CASES.refused("GetTableEncryption", MISSING, "none set", _NONE_SET)(new_table)
for _what, _document in (
    ("algorithm", {"sseAlgorithm": "x"}),
    ("no algorithm", {"kmsKeyArn": KEY}),
    ("kms without key", {"sseAlgorithm": "aws:kms"}),
    ("key without kms", {"sseAlgorithm": "AES256", "kmsKeyArn": KEY}),
    ("long key", {"sseAlgorithm": "aws:kms", "kmsKeyArn": KEY + "x" * 2048}),
    ("missing", None),
):
    CASES.refused("PutTableBucketEncryption", BAD, _what)(
        lambda world, document=_document: {
            "tableBucketARN": world.bucket,
            "encryptionConfiguration": document,
        }
    )


@CASES.success("PutTableBucketStorageClass")
def put_storage_class(world: World) -> None:
    arn = world.new_bucket()
    for wanted in ("INTELLIGENT_TIERING", "STANDARD"):
        world.client.put_table_bucket_storage_class(
            tableBucketARN=arn, storageClassConfiguration={"storageClass": wanted}
        )
        found = world.client.get_table_bucket_storage_class(tableBucketARN=arn)
        assert found["storageClassConfiguration"] == {"storageClass": wanted}


@CASES.success("GetTableBucketStorageClass", "none set")
def get_storage_class(world: World) -> None:
    found = world.client.get_table_bucket_storage_class(tableBucketARN=world.bucket)
    assert found["storageClassConfiguration"] == {"storageClass": "STANDARD"}


@CASES.success("GetTableStorageClass", "of its bucket")
def get_storage_class_of_table(world: World) -> None:
    arn = world.new_bucket(storageClassConfiguration={"storageClass": "INTELLIGENT_TIERING"})
    found = world.client.get_table_storage_class(**world.new_table(bucket=arn))
    assert found["storageClassConfiguration"] == {"storageClass": "INTELLIGENT_TIERING"}
    found = world.client.get_table_storage_class(**world.table)
    assert found["storageClassConfiguration"] == {"storageClass": "STANDARD"}


for _what, _document in (("class", {"storageClass": "GLACIER"}), ("no class", {}), ("missing", None)):
    CASES.refused("PutTableBucketStorageClass", BAD, _what)(
        lambda world, document=_document: {
            "tableBucketARN": world.bucket,
            "storageClassConfiguration": document,
        }
    )


@CASES.success("PutTableBucketMetricsConfiguration", "twice")
def put_metrics(world: World) -> None:
    arn = world.new_bucket()
    for _ in range(2):
        world.client.put_table_bucket_metrics_configuration(tableBucketARN=arn)
        assert world.client.get_table_bucket_metrics_configuration(tableBucketARN=arn)["id"]


@CASES.success("GetTableBucketMetricsConfiguration")
def get_metrics(world: World) -> None:
    arn = world.new_bucket()
    world.client.put_table_bucket_metrics_configuration(tableBucketARN=arn)
    assert world.client.get_table_bucket_metrics_configuration(tableBucketARN=arn)["tableBucketARN"] == arn


@CASES.success("DeleteTableBucketMetricsConfiguration", "twice")
def delete_metrics(world: World) -> None:
    arn = world.new_bucket()
    world.client.put_table_bucket_metrics_configuration(tableBucketARN=arn)
    for _ in range(2):
        world.client.delete_table_bucket_metrics_configuration(tableBucketARN=arn)
        assert world.code("GetTableBucketMetricsConfiguration", tableBucketARN=arn) == MISSING


CASES.refused("GetTableBucketMetricsConfiguration", MISSING, "none set", "does not have a metrics")(
    new_bucket
)

_BODIES: dict[str, dict[str, Any]] = {
    "PutTableBucketPolicy": {"resourcePolicy": policy()},
    "PutTablePolicy": {"resourcePolicy": policy()},
    "PutTableBucketEncryption": {"encryptionConfiguration": {"sseAlgorithm": "AES256"}},
    "PutTableBucketStorageClass": {"storageClassConfiguration": {"storageClass": "STANDARD"}},
}
for _operation in (
    *(f"{verb}TableBucketPolicy" for verb in ("Get", "Put", "Delete")),
    *(f"{verb}TableBucketEncryption" for verb in ("Get", "Put", "Delete")),
    *(f"{verb}TableBucketMetricsConfiguration" for verb in ("Get", "Put", "Delete")),
    *(f"{verb}TableBucketStorageClass" for verb in ("Get", "Put")),
):
    _body = _BODIES.get(_operation, {})
    CASES.refused(_operation, MISSING, "no bucket", NO_BUCKET)(
        lambda _, body=_body: {"tableBucketARN": HOME + "missing", **body}
    )
    CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
        lambda _, body=_body: {"tableBucketARN": "x", **body}
    )
for _operation in (
    "GetTablePolicy",
    "PutTablePolicy",
    "DeleteTablePolicy",
    "GetTableEncryption",
    "GetTableStorageClass",
):
    _body = _BODIES.get(_operation, {})
    CASES.refused(_operation, MISSING, "no table", NO_TABLE)(
        lambda world, body=_body: {**world.table, "name": "missing", **body}
    )
    CASES.refused(_operation, MISSING, "a name that is not shown", NO_TABLE)(
        lambda world, body=_body: {**world.table, "name": "With Space", **body}
    )
    CASES.refused(_operation, MISSING, "no bucket", NO_BUCKET)(
        lambda world, body=_body: {**world.table, "tableBucketARN": HOME + "missing", **body}
    )
    CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
        lambda world, body=_body: {**world.table, "tableBucketARN": "x", **body}
    )
