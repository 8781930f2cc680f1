"""Table buckets."""

from typing import Any

import requests

from tests.contract.s3tables.world import ACCOUNT, HOME, Cases, World

CASES = Cases()
BAD, MISSING, TAKEN, DENIED = (
    "BadRequestException",
    "NotFoundException",
    "ConflictException",
    "ForbiddenException",
)
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/one"
NO_BUCKET = "The specified bucket does not exist."


@CASES.success("CreateTableBucket")
def create_bucket(world: World) -> None:
    name = world.fresh("bucket-")
    assert world.client.create_table_bucket(name=name)["arn"] == HOME + name
    found = world.client.get_table_bucket(tableBucketARN=HOME + name)
    assert (found["name"], found["arn"], found["type"]) == (name, HOME + name, "customer")
    assert (found["ownerAccountId"], len(found["tableBucketId"])) == (ACCOUNT, 36)


@CASES.success("CreateTableBucket", "with everything")
def create_bucket_with_everything(world: World) -> None:
    encryption = {"sseAlgorithm": "aws:kms", "kmsKeyArn": KEY}
    arn = world.new_bucket(
        encryptionConfiguration=encryption,
        storageClassConfiguration={"storageClass": "INTELLIGENT_TIERING"},
        tags={"team": "ice", "empty": ""},
    )
    client = world.client
    assert client.get_table_bucket_encryption(tableBucketARN=arn)["encryptionConfiguration"] == encryption
    found = client.get_table_bucket_storage_class(tableBucketARN=arn)["storageClassConfiguration"]
    assert found == {"storageClass": "INTELLIGENT_TIERING"}
    assert client.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "ice", "empty": ""}


@CASES.success("CreateTableBucket", "longest and shortest name")
def create_bucket_of_any_length(world: World) -> None:
    number = world.fresh("")
    for name in (number.rjust(3, "0")[-3:], number.rjust(63, "0")):
        arn = world.client.create_table_bucket(name=name)["arn"]
        assert world.client.get_table_bucket(tableBucketARN=arn)["name"] == name


@CASES.refused("CreateTableBucket", TAKEN, "name taken", "already exists, and you own it")
def create_bucket_again(world: World) -> dict[str, Any]:
    return {"name": world.bucket.removeprefix(HOME)}


def _bad_name(what: str, name: Any) -> None:
    CASES.refused("CreateTableBucket", BAD, f"name {what}")(lambda _: {"name": name})


_bad_name("too short", "ab")
_bad_name("too long", "a" * 64)
_bad_name("upper case", "Bucket")
_bad_name("underscore", "a_bucket")
_bad_name("begins with a dash", "-bucket")
_bad_name("ends with a dash", "bucket-")
_bad_name("not a string", 555)
_bad_name("of a multi-region access point", "bucket.mrap")
for _reserved in (
    *("xn--one", "sthree-one", "amzn-s3-demo-one", "aws", "awsome"),
    *("one-s3alias", "one--ol-s3", "one--x-s3", "one--table-s3"),
):
    CASES.refused(
        "CreateTableBucket", BAD, f"reserved {_reserved}", "The specified bucket name is not valid."
    )(lambda _, name=_reserved: {"name": name})


@CASES.success("CreateTableBucket", "names that are only nearly reserved")
def create_bucket_of_a_name_that_is_nearly_reserved(world: World) -> None:
    for name in ("xn-one", "sthreeone", "amzn-s3-demo", "our-aws", "one-table-s3", "s3alias"):
        world.client.create_table_bucket(name=name)


@CASES.success("GetTableBucket", "a reserved name, made by our own API")
def get_bucket_of_a_reserved_name(world: World) -> None:
    made = requests.post(f"{world.server.api}/buckets", json={"name": "aws-taken--table-s3"}, timeout=30)
    assert made.status_code == 201, made.text
    found = world.client.get_table_bucket(tableBucketARN=made.json()["arn"])
    assert found["name"] == "aws-taken--table-s3"


@CASES.refused("CreateTableBucket", BAD, "no name", "at 'name' failed to satisfy constraint")
def create_bucket_without_name(_: World) -> dict[str, Any]:
    return {}


def _bad_option(what: str, text: str, **options: Any) -> None:
    CASES.refused("CreateTableBucket", BAD, what, text)(
        lambda world: {"name": world.fresh("bucket"), **options}
    )


_bad_option(
    "algorithm", "enum value set: [AES256, aws:kms]", encryptionConfiguration={"sseAlgorithm": "ROT13"}
)
_bad_option("kms without key", "needs a kmsKeyArn", encryptionConfiguration={"sseAlgorithm": "aws:kms"})
_bad_option(
    "key without kms",
    "takes no kmsKeyArn",
    encryptionConfiguration={"sseAlgorithm": "AES256", "kmsKeyArn": KEY},
)
_bad_option(
    "key that is none",
    "regular expression",
    encryptionConfiguration={"sseAlgorithm": "aws:kms", "kmsKeyArn": "x"},
)
_bad_option("storage class", "STANDARD, INTELLIGENT", storageClassConfiguration={"storageClass": "GLACIER"})
_bad_option("too many tags", "at most 50 tags", tags={f"k{n}": "" for n in range(51)})
_bad_option("tag key too long", "less than or equal to 128", tags={"k" * 129: ""})
_bad_option("tag value too long", "less than or equal to 256", tags={"k": "v" * 257})
_bad_option("reserved tag", "aws:", tags={"aws:x": "v"})


@CASES.success("ListTableBuckets")
def list_buckets(world: World) -> None:
    start = world.fresh("list-")
    made = [world.client.create_table_bucket(name=f"{start}{end}")["arn"] for end in ("c", "a", "b")]
    found = world.client.list_table_buckets(prefix=start)["tableBuckets"]
    assert [bucket["arn"] for bucket in found] == sorted(made)
    assert found[0] == {
        **found[0],
        **{name: world.client.get_table_bucket(tableBucketARN=found[0]["arn"])[name] for name in found[0]},
    }


@CASES.success("ListTableBuckets", "pages")
def list_buckets_in_pages(world: World) -> None:
    start = world.fresh("page-")
    made = [world.client.create_table_bucket(name=f"{start}{end}")["arn"] for end in range(5)]
    pages = world.client.get_paginator("list_table_buckets").paginate(
        prefix=start, PaginationConfig={"PageSize": 2}
    )
    found = [[bucket["arn"] for bucket in page["tableBuckets"]] for page in pages]
    assert found == [made[:2], made[2:4], made[4:]]


@CASES.success("ListTableBuckets", "by type")
def list_buckets_by_type(world: World) -> None:
    start = world.fresh("type-")
    arn = world.client.create_table_bucket(name=start)["arn"]
    of_customers = world.client.list_table_buckets(prefix=start, type="customer")["tableBuckets"]
    assert [bucket["arn"] for bucket in of_customers] == [arn]
    assert world.client.list_table_buckets(prefix=start, type="aws")["tableBuckets"] == []


for _what, _options in (
    ("none of a page", {"maxBuckets": 0}),
    ("more than a page", {"maxBuckets": 1001}),
    ("token", {"continuationToken": "nonsense"}),
    ("long prefix", {"prefix": "a" * 64}),
    ("type", {"type": "other"}),
):
    CASES.refused("ListTableBuckets", BAD, _what)(lambda _, options=_options: options)


@CASES.success("GetTableBucket")
def get_bucket(world: World) -> None:
    assert world.client.get_table_bucket(tableBucketARN=world.bucket)["arn"] == world.bucket


@CASES.success("DeleteTableBucket")
def delete_bucket(world: World) -> None:
    arn = world.new_bucket(tags={"a": "b"}, encryptionConfiguration={"sseAlgorithm": "AES256"})
    before = world.client.get_table_bucket(tableBucketARN=arn)["tableBucketId"]
    world.client.delete_table_bucket(tableBucketARN=arn)
    assert world.client.list_table_buckets(prefix=arn.removeprefix(HOME))["tableBuckets"] == []
    # What hung on it does not hang on the next one of the name.
    world.client.create_table_bucket(name=arn.removeprefix(HOME))
    assert world.client.get_table_bucket(tableBucketARN=arn)["tableBucketId"] != before
    assert world.client.list_tags_for_resource(resourceArn=arn)["tags"] == {}
    assert world.code("GetTableBucketEncryption", tableBucketARN=arn) == MISSING


@CASES.refused("DeleteTableBucket", TAKEN, "not empty", "The bucket that you tried to delete is not empty.")
def delete_bucket_with_namespace(world: World) -> dict[str, Any]:
    arn = world.new_bucket()
    world.new_namespace(arn)
    return {"tableBucketARN": arn}


@CASES.refused("DeleteTableBucket", DENIED, "protected", "protected")
def delete_protected_bucket(world: World) -> dict[str, Any]:
    arn = world.new_bucket()
    world.protect_bucket(arn)
    return {"tableBucketARN": arn}


for _operation in ("GetTableBucket", "DeleteTableBucket"):
    CASES.refused(_operation, MISSING, "missing", NO_BUCKET)(lambda _: {"tableBucketARN": HOME + "missing"})
    CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
        lambda _: {"tableBucketARN": "x"}
    )
    CASES.refused(_operation, BAD, "a table's ARN", "names a table")(
        lambda world: {"tableBucketARN": world.bucket + "/table/x"}
    )
