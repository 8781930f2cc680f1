"""Namespaces."""

from typing import Any

import requests

from tests.contract.s3tables.cases_buckets import BAD, MISSING, NO_BUCKET, TAKEN
from tests.contract.s3tables.world import ACCOUNT, HOME, Cases, World

CASES = Cases()
NO_NAMESPACE = "The specified namespace does not exist."


@CASES.success("CreateNamespace")
def create_namespace(world: World) -> None:
    name = world.fresh("ns_")
    made = world.client.create_namespace(tableBucketARN=world.bucket, namespace=[name])
    assert (made["tableBucketARN"], made["namespace"]) == (world.bucket, [name])


@CASES.success("CreateNamespace", "longest and shortest name")
def create_namespace_of_any_length(world: World) -> None:
    bucket = world.new_bucket()
    for name in ("_", "9" * 255, "policy", "table"):
        world.client.create_namespace(tableBucketARN=bucket, namespace=[name])
        assert world.client.get_namespace(tableBucketARN=bucket, namespace=name)["namespace"] == [name]


@CASES.refused(
    "CreateNamespace", TAKEN, "name taken", "A namespace with an identical name already exists in the bucket."
)
def create_namespace_again(world: World) -> dict[str, Any]:
    return {"tableBucketARN": world.bucket, "namespace": [world.new_namespace()]}


for _what, _levels in (
    ("two levels", ["a", "b"]),
    ("no level", []),
    ("upper case", ["A"]),
    ("dash", ["a-b"]),
    ("empty", [""]),
    ("too long", ["a" * 256]),
    ("number", [5]),
    ("missing", None),
):
    CASES.refused("CreateNamespace", BAD, _what, "at 'namespace")(
        lambda world, levels=_levels: {"tableBucketARN": world.bucket, "namespace": levels}
    )


@CASES.success("GetNamespace")
def get_namespace(world: World) -> None:
    name = world.new_namespace()
    found = world.client.get_namespace(tableBucketARN=world.bucket, namespace=name)
    bucket = world.client.get_table_bucket(tableBucketARN=world.bucket)
    assert found["namespace"] == [name]
    assert (found["createdBy"], found["ownerAccountId"]) == (ACCOUNT, ACCOUNT)
    assert found["tableBucketId"] == bucket["tableBucketId"]
    assert len(found["namespaceId"]) == 36


@CASES.success("GetNamespace", "another of the same name has another id")
def get_namespace_again(world: World) -> None:
    where = {"tableBucketARN": world.bucket, "namespace": world.new_namespace()}
    before = world.client.get_namespace(**where)["namespaceId"]
    world.client.delete_namespace(**where)
    world.client.create_namespace(tableBucketARN=world.bucket, namespace=[where["namespace"]])
    assert world.client.get_namespace(**where)["namespaceId"] != before


@CASES.success("ListNamespaces")
def list_namespaces(world: World) -> None:
    bucket = world.new_bucket()
    assert world.client.list_namespaces(tableBucketARN=bucket)["namespaces"] == []
    for name in ("c", "ab", "a_b", "aa"):
        world.client.create_namespace(tableBucketARN=bucket, namespace=[name])
    found = world.client.list_namespaces(tableBucketARN=bucket)["namespaces"]
    assert [one["namespace"] for one in found] == [["a_b"], ["aa"], ["ab"], ["c"]]
    found = world.client.list_namespaces(tableBucketARN=bucket, prefix="a_")["namespaces"]
    assert [one["namespace"] for one in found] == [["a_b"]]


@CASES.success("ListNamespaces", "pages without what can not be shown")
def list_namespaces_in_pages(world: World) -> None:
    bucket = world.new_bucket()
    url = f"{world.server.iceberg}/v1/{bucket.removeprefix(HOME)}/namespaces"
    names = [f"n{number}" for number in range(5)]
    for levels in [
        *([name] for name in names),
        ["n0", "below"],
        ["n1-dash"],
        ["n2", "below"],
        ["N"],
        ["n3 space"],
    ]:
        assert requests.post(url, json={"namespace": levels}, timeout=60).status_code == 200
    pages = world.client.get_paginator("list_namespaces").paginate(
        tableBucketARN=bucket, prefix="n", PaginationConfig={"PageSize": 2}
    )
    found = [[one["namespace"][0] for one in page["namespaces"]] for page in pages]
    assert found == [["n0", "n1"], ["n2", "n3"], ["n4"]]


for _what, _options in (
    ("none of a page", {"maxNamespaces": 0}),
    ("more than a page", {"maxNamespaces": 1001}),
    ("token", {"continuationToken": "nonsense"}),
    ("long prefix", {"prefix": "a" * 256}),
):
    CASES.refused("ListNamespaces", BAD, _what)(
        lambda world, options=_options: {"tableBucketARN": world.bucket, **options}
    )


@CASES.refused("ListNamespaces", BAD, "token of another list", "The continuation token is not valid.")
def list_with_a_token_of_another_list(world: World) -> dict[str, Any]:
    bucket = world.new_bucket()
    for _ in range(2):
        world.new_namespace(bucket)
    token = world.client.list_namespaces(tableBucketARN=bucket, maxNamespaces=1)["continuationToken"]
    return {"tableBucketARN": world.bucket, "continuationToken": token}


@CASES.success("DeleteNamespace")
def delete_namespace(world: World) -> None:
    name = world.new_namespace()
    world.client.delete_namespace(tableBucketARN=world.bucket, namespace=name)
    assert world.code("GetNamespace", tableBucketARN=world.bucket, namespace=name) == MISSING


@CASES.refused("DeleteNamespace", TAKEN, "not empty", "The specified namespace is not empty.")
def delete_namespace_with_table(world: World) -> dict[str, Any]:
    table = world.new_table()
    return {"tableBucketARN": table["tableBucketARN"], "namespace": table["namespace"]}


@CASES.refused("DeleteNamespace", TAKEN, "a namespace below", "The specified namespace is not empty.")
def delete_namespace_with_hidden_child(world: World) -> dict[str, Any]:
    name = world.new_namespace()
    url = f"{world.server.iceberg}/v1/{world.bucket.removeprefix(HOME)}/namespaces"
    assert requests.post(url, json={"namespace": [name, "below"]}, timeout=60).status_code == 200
    return {"tableBucketARN": world.bucket, "namespace": name}


for _operation in ("GetNamespace", "DeleteNamespace"):
    CASES.refused(_operation, MISSING, "missing", NO_NAMESPACE)(
        lambda world: {"tableBucketARN": world.bucket, "namespace": "missing"}
    )
    CASES.refused(_operation, MISSING, "a name that is not shown", NO_NAMESPACE)(
        lambda world: {"tableBucketARN": world.bucket, "namespace": "With Space/And-Slash"}
    )
    CASES.refused(_operation, MISSING, "no bucket", NO_BUCKET)(
        lambda world: {"tableBucketARN": HOME + "missing", "namespace": "a"}
    )
    CASES.refused(_operation, BAD, "no ARN", "The specified ARN is not valid")(
        lambda world: {"tableBucketARN": "x", "namespace": "a"}
    )
CASES.refused("ListNamespaces", MISSING, "no bucket", NO_BUCKET)(
    lambda _: {"tableBucketARN": HOME + "missing"}
)
CASES.refused("CreateNamespace", MISSING, "no bucket", NO_BUCKET)(
    lambda _: {"tableBucketARN": HOME + "missing", "namespace": ["a"]}
)
