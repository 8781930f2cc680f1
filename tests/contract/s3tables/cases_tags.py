"""Tags of buckets and tables."""

from typing import Any

import requests

from tests.contract.s3tables.cases_buckets import BAD, MISSING
from tests.contract.s3tables.world import HOME, Cases, World

CASES = Cases()
MOST = 50


def new_bucket(world: World) -> str:
    return world.new_bucket()


def new_table(world: World) -> str:
    table = world.new_table()
    bucket = table["tableBucketARN"]
    url = f"{world.server.iceberg}/v1/{bucket.removeprefix(HOME)}/namespaces/{table['namespace']}/tables"
    answer = requests.get(f"{url}/{table['name']}", timeout=60)
    return f"{bucket}/table/{answer.json()['metadata']['table-uuid']}"


def tags(world: World, arn: str) -> dict[str, str]:
    found: dict[str, str] = world.client.list_tags_for_resource(resourceArn=arn)["tags"]
    return found


for _what, _new in (("bucket", new_bucket), ("table", new_table)):

    def tag(world: World, new: Any = _new) -> None:
        arn = new(world)
        assert tags(world, arn) == {}
        world.client.tag_resource(resourceArn=arn, tags={"a": "1", "b": ""})
        world.client.tag_resource(resourceArn=arn, tags={"a": "2", "c d": "\u00fc"})
        assert tags(world, arn) == {"a": "2", "b": "", "c d": "\u00fc"}

    def untag(world: World, new: Any = _new) -> None:
        arn = new(world)
        world.client.tag_resource(resourceArn=arn, tags={"a": "1", "b": "2", "c&d=e": "3"})
        world.client.untag_resource(resourceArn=arn, tagKeys=["a", "c&d=e", "missing"])
        assert tags(world, arn) == {"b": "2"}

    def as_many_as_can_be(world: World, new: Any = _new) -> None:
        arn = new(world)
        wanted = {f"{number}".rjust(128, "k"): "v" * 256 for number in range(MOST)}
        world.client.tag_resource(resourceArn=arn, tags=wanted)
        assert tags(world, arn) == wanted

    def one_too_many(world: World, new: Any = _new) -> dict[str, Any]:
        arn = new(world)
        world.client.tag_resource(resourceArn=arn, tags={str(number): "" for number in range(MOST)})
        return {"resourceArn": arn, "tags": {"another": ""}}

    CASES.success("TagResource", _what)(tag)
    CASES.success("ListTagsForResource", _what)(tag)
    CASES.success("UntagResource", _what)(untag)
    CASES.success("TagResource", f"{_what}, as many as can be")(as_many_as_can_be)
    CASES.refused("TagResource", BAD, f"{_what}, one too many", "at most 50 tags")(one_too_many)

for _what, _tags in (
    ("long key", {"k" * 129: ""}),
    ("empty key", {"": ""}),
    ("long value", {"k": "v" * 257}),
    ("number", {"k": 5}),
    ("reserved", {"aws:k": "v"}),
    ("control character", {"k": "\u0007"}),
    ("zero byte", {"k": "\u0000"}),
    ("half a character", {"k": "\ud800"}),
    ("missing", None),
):
    CASES.refused("TagResource", BAD, _what)(
        lambda world, wanted=_tags: {"resourceArn": world.bucket, "tags": wanted}
    )
for _operation, _rest in (
    ("TagResource", {"tags": {"a": "b"}}),
    ("UntagResource", {"tagKeys": ["a"]}),
    ("ListTagsForResource", {}),
):
    CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
        lambda _, rest=_rest: {"resourceArn": "x", **rest}
    )
    CASES.refused(_operation, MISSING, "no bucket", "The specified bucket does not exist.")(
        lambda _, rest=_rest: {"resourceArn": HOME + "missing", **rest}
    )
    CASES.refused(_operation, MISSING, "no table", "The specified table does not exist.")(
        lambda world, rest=_rest: {"resourceArn": f"{world.bucket}/table/missing", **rest}
    )
    CASES.refused(_operation, MISSING, "a table of another bucket", "The specified table does not exist.")(
        lambda world, rest=_rest: {
            "resourceArn": f"{world.new_bucket()}/table/{new_table(world).rpartition('/')[2]}",
            **rest,
        }
    )
CASES.refused("UntagResource", BAD, "no keys")(lambda world: {"resourceArn": world.bucket, "tagKeys": []})
CASES.refused("UntagResource", BAD, "long key")(
    lambda world: {"resourceArn": world.bucket, "tagKeys": ["k" * 129]}
)
