"""Thousands of malformed requests to the S3 Tables API: no 5xx, every error in AWS's form, nothing changed."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from catalog_server.api.s3tables.errors import STATUSES, UNKNOWN_OPERATION
from catalog_server.api.s3tables.operation import Operation
from catalog_server.api.s3tables.router import OPERATIONS
from tests.api import fuzzing
from tests.api.direct import Answer, Sent
from tests.api.iceberg_client import Catalog
from tests.api.mutations import (
    ODD_NAMES,
    mangle,
    mutate,
    odd_encoding,
    odd_headers,
    odd_query,
    odd_target,
    odd_verb,
)

BUCKET = "arn:aws:s3tables:us-east-1:000000000000:bucket/default"
ENCRYPTION = {"sseAlgorithm": "aws:kms", "kmsKeyArn": "arn:aws:kms:us-east-1:000000000000:key/one"}
STORAGE_CLASS = {"storageClass": "STANDARD"}
POLICY = {"resourcePolicy": '{"Statement": [{"Effect": "Allow", "Action": "*"}]}'}
# A good body for every operation that takes one; a new one needs its own here.
BODIES: dict[str, Any] = {
    "CreateTableBucket": {
        "name": "fuzzed",
        "encryptionConfiguration": ENCRYPTION,
        "storageClassConfiguration": STORAGE_CLASS,
        "tags": {"a": "b"},
    },
    "CreateNamespace": {"namespace": ["fuzzed"]},
    "PutTableBucketPolicy": POLICY,
    "PutTablePolicy": POLICY,
    "PutTableBucketEncryption": {"encryptionConfiguration": ENCRYPTION},
    "PutTableBucketStorageClass": {"storageClassConfiguration": STORAGE_CLASS},
    "PutTableBucketMaintenanceConfiguration": {
        "value": {
            "status": "enabled",
            "settings": {"icebergUnreferencedFileRemoval": {"unreferencedDays": 3, "nonCurrentDays": 9}},
        }
    },
    "CreateTable": {
        "name": "fuzzed",
        "format": "ICEBERG",
        "metadata": {
            "iceberg": {
                "schemaV2": {
                    "type": "struct",
                    "fields": [
                        {"id": 1, "name": "id", "type": "long", "required": True, "doc": "key"},
                        {
                            "id": 2,
                            "name": "tags",
                            "required": False,
                            "type": {
                                "type": "list",
                                "element-id": 3,
                                "element": "string",
                                "element-required": False,
                            },
                        },
                    ],
                    "identifier-field-ids": [1],
                },
                "partitionSpec": {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "b"}]},
                "writeOrder": {
                    "order-id": 1,
                    "fields": [
                        {
                            "source-id": 1,
                            "transform": "identity",
                            "direction": "asc",
                            "null-order": "nulls-last",
                        }
                    ],
                },
                "properties": {"owner": "me", "format-version": "2"},
            }
        },
        "encryptionConfiguration": ENCRYPTION,
        "storageClassConfiguration": STORAGE_CLASS,
        "tags": {"a": "b"},
    },
    "RenameTable": {"newName": "fuzzed2", "newNamespaceName": "missing", "versionToken": "x"},
    "UpdateTableMetadataLocation": {
        "versionToken": "x",
        "metadataLocation": "file:///nowhere/metadata/00000-x.metadata.json",
    },
    "PutTableMaintenanceConfiguration": {
        "value": {"status": "enabled", "settings": {"icebergCompaction": {"targetFileSizeMB": 64}}}
    },
    "PutTableRecordExpirationConfiguration": {"value": {"status": "disabled", "settings": {"days": 30}}},
    "TagResource": {"tags": {"a": "b", "c": ""}},
}
WITH_BODY = [operation for operation in OPERATIONS if operation.body is not None]
KNOWN = {**STATUSES, UNKNOWN_OPERATION: 404}


def check(answer: Answer, sent: Sent) -> None:
    assert 0 < answer.status < 500, (answer, sent)
    if answer.status < 400:
        return
    name = answer.headers["x-amzn-errortype"]
    assert KNOWN[name] == answer.status, (answer, sent)
    if sent.method != "HEAD":
        assert answer.headers["content-type"] == "application/json", sent
        document = json.loads(answer.body)
        assert set(document) == {"message"}, sent
        assert document["message"], sent


def requests(catalog: Catalog, rng: random.Random) -> Iterator[Sent]:
    """Without end."""
    levels, made = catalog.new_table()
    table = f"{BUCKET}/table/{made['metadata']['table-uuid']}"
    names = {
        "tableBucketARN": BUCKET,
        "namespace": levels[0],
        "name": "t",
        "type": rng.choice(["icebergUnreferencedFileRemoval", "icebergCompaction"]),
        "resourceArn": table,
        "tableArn": table,
    }
    while True:
        kind = rng.choices(["body", "path", "query", "headers", "encoding"], [50, 25, 10, 8, 7])[0]
        if kind in {"body", "encoding"}:
            operation = rng.choice(WITH_BODY)
            content = fuzzing.packed(mutate(BODIES[operation.name], rng))
            target = _path(operation, names, rng, odd=0.0)
            if kind == "body":
                content = mangle(content, rng) if rng.random() < 0.2 else content
                yield Sent(operation.method, target, content)
            else:
                content, headers = odd_encoding(fuzzing.packed(BODIES[operation.name]), rng)
                yield Sent(operation.method, target, content, headers)
            continue
        operation = rng.choice(OPERATIONS)
        content = fuzzing.packed(BODIES.get(operation.name, {}))
        target = _path(operation, names, rng, odd=0.5 if kind == "path" else 0.0)
        if kind == "path" and rng.random() < 0.4:
            target = odd_target(target, rng)
        if kind == "query":
            target += b"?" + odd_query([*operation.query.members, "tableBucketARN", "tagKeys"], rng)
        verb = odd_verb(rng) if rng.random() < 0.2 else operation.method
        yield Sent(verb, target, content, odd_headers(rng) if kind == "headers" else ())


def _path(operation: Operation, names: dict[str, str], rng: random.Random, *, odd: float) -> bytes:
    parts = [b"/s3tables"]
    for part in operation.parts:
        if not part.startswith("{"):
            parts.append(part.encode())
        elif rng.random() < odd:
            parts.append(rng.choice([*ODD_NAMES, b"arn:aws", b"arn%3Aaws%3As3tables", b"arn:a:b:c:d:bucket"]))
        else:
            # An ARN with its slashes as they are, or in one segment.
            parts.append(quote(names[part[1:-1]], safe=rng.choice(["", ":/"])).encode())
    return b"/".join(parts)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunk", fuzzing.chunks(fuzzing.REQUESTS // 10))
def test_malformed_requests(tmp_path: Path, chunk: int) -> None:
    fuzzing.run(tmp_path, chunk, requests, check)


def test_every_operation_that_takes_a_body_is_fuzzed() -> None:
    """A new one needs a good body above."""
    assert {operation.name for operation in WITH_BODY} == set(BODIES)
