"""Records in a registry's framing, of each kind of schema, for tests."""

import io
import json
from typing import Any

import fastavro
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ingest_plugin.decode.protoc import file_of
from ingest_plugin.decode.registry import Reference, RegisteredSchema


def prefixed(schema_id: int, body: bytes) -> bytes:
    """The body behind magic byte and schema id."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def avro_body(schema: Any, value: Any) -> bytes:
    """A value in Avro's binary form."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def json_body(value: Any) -> bytes:
    """A value in JSON."""
    return json.dumps(value).encode()


def proto_class(text: str, name: str, **references: str) -> type[Message]:
    """The class of a message of a schema's text; references by import path, `/` and `.` written `__` and `_`."""
    named = tuple(
        Reference(name=path.replace("__", "/").replace("_proto", ".proto"), text=content)
        for path, content in references.items()
    )
    file = file_of(RegisteredSchema(kind="PROTOBUF", text=text, references=named))
    return GetMessageClass(file.pool.FindMessageTypeByName(name))
