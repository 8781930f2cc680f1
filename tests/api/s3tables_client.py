"""A client of the S3 Tables API that writes metadata by itself, as AWS's Java catalog does; on a local disk."""

import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from table_format.clock import SystemIds
from table_format.io.local import LocalObjectStore, local_path
from table_format.jsontypes import JsonObject
from table_format.metadata import codec, create, updates
from table_format.metadata.document import TableMetadata
from tests.api.iceberg_client import SCHEMA, append_updates

ACCOUNT = "000000000000"
BUCKET = f"arn:aws:s3tables:us-east-1:{ACCOUNT}:bucket/default"
NOW = 1_700_000_000_000

_STORE = LocalObjectStore()


def quoted(text: str) -> str:
    return quote(text, safe="")


def assert_refused(answer: httpx.Response, status: int, name: str) -> str:
    """The answer is that error in AWS's form; its message."""
    assert (answer.status_code, answer.headers.get("x-amzn-errortype")) == (status, name), answer.text
    message: str = answer.json()["message"]
    return message


class Tables:
    """Shorthand over one client and the bucket `default`."""

    def __init__(self, http: Any) -> None:
        self.http = http

    def new_namespace(self) -> str:
        name = f"ns_{uuid.uuid4().hex[:12]}"
        answer = self.http.post("/iceberg/v1/default/namespaces", json={"namespace": [name]})
        assert answer.status_code == 200, answer.text
        return name

    def path(self, namespace: str, name: str = "", more: str = "") -> str:
        last = f"/{quoted(name)}" if name else ""
        return f"/s3tables/tables/{quoted(BUCKET)}/{quoted(namespace)}{last}{more}"

    def create(self, namespace: str, name: str = "t", **body: Any) -> httpx.Response:
        answer: httpx.Response = self.http.put(
            self.path(namespace), json={"name": name, "format": "ICEBERG", **body}
        )
        return answer

    def new_blank(self, name: str = "t") -> str:
        """A blank table in a fresh namespace."""
        namespace = self.new_namespace()
        assert self.create(namespace, name).status_code == 200
        return namespace

    def new_table(self, name: str = "t") -> str:
        """A table with metadata in a fresh namespace, made by the Iceberg API."""
        namespace = self.new_namespace()
        answer = self.http.post(
            f"/iceberg/v1/default/namespaces/{namespace}/tables", json={"name": name, "schema": SCHEMA}
        )
        assert answer.status_code == 200, answer.text
        return namespace

    def get(self, namespace: str, name: str = "t") -> JsonObject:
        query = {"tableBucketARN": BUCKET, "namespace": namespace, "name": name}
        answer = self.http.get("/s3tables/get-table", params=query)
        assert answer.status_code == 200, answer.text
        found: JsonObject = answer.json()
        return found

    def pointer(self, namespace: str, name: str = "t") -> JsonObject:
        answer = self.http.get(self.path(namespace, name, "/metadata-location"))
        assert answer.status_code == 200, answer.text
        found: JsonObject = answer.json()
        return found

    def update(self, namespace: str, token: str, location: str, name: str = "t") -> httpx.Response:
        answer: httpx.Response = self.http.put(
            self.path(namespace, name, "/metadata-location"),
            json={"versionToken": token, "metadataLocation": location},
        )
        return answer

    def moved(self, namespace: str, token: str, location: str, name: str = "t") -> JsonObject:
        answer = self.update(namespace, token, location, name)
        assert answer.status_code == 200, answer.text
        found: JsonObject = answer.json()
        return found

    def loaded(self, namespace: str, name: str = "t") -> httpx.Response:
        """The table through the Iceberg API."""
        answer: httpx.Response = self.http.get(f"/iceberg/v1/default/namespaces/{namespace}/tables/{name}")
        return answer


def read(location: str) -> TableMetadata:
    return codec.read(_STORE, location)


def written(metadata: TableMetadata, location: str) -> str:
    """Write a metadata file; its location."""
    codec.write(_STORE, location, metadata)
    return location


def raw(location: str, data: bytes) -> str:
    """Write any bytes; the location."""
    path = Path(local_path(location))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return location


def fresh(location: str, **more: Any) -> TableMetadata:
    """The metadata of a new table at the location."""
    return create.new_table(
        schema=SCHEMA,
        partition_spec=None,
        write_order=None,
        properties={},
        location=location,
        uuid=SystemIds().uuid(),
        now_ms=NOW,
        **more,
    )


def metadata_file(warehouse: str, name: str | None = None) -> str:
    return f"{warehouse}/metadata/{name or f'00001-{uuid.uuid4()}.metadata.json'}"


def following(base_location: str, *changes: JsonObject, snapshot_id: int | None = None) -> TableMetadata:
    """What a client makes of the current metadata: its changes, and an append of that snapshot."""
    base = read(base_location)
    wanted = [*changes]
    if snapshot_id is not None:
        wanted += append_updates(base.document, snapshot_id)
    return updates.apply(base, wanted, now_ms=base.last_updated_ms + 1, previous_location=base_location)


def edited(metadata: TableMetadata, **members: Any) -> TableMetadata:
    """The metadata with members (underscores for dashes) as they are given."""
    changed = {name.replace("_", "-"): value for name, value in members.items()}
    return TableMetadata({**metadata.document, **changed})
