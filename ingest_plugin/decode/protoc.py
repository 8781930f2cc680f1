"""Protobuf schemas as descriptors: .proto text through protoc, or a FileDescriptorProto in base64.

protoc runs as a process of its own, so that no schema can harm this one, and sees nothing but the schema's own files
and Google's and Confluent's well-known ones.
"""

import base64
import binascii
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError

from ingest_plugin.decode.formats import Unmappable
from ingest_plugin.decode.registry import RegisteredSchema
from table_format.errors import Unavailable

MAIN = "frazil_main.proto"
_SECONDS = 60
_MAX_ERROR = 400
# What Confluent's registry offers to every schema without being asked; the layouts are theirs.
_WELL_KNOWN: Mapping[str, str] = {
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
    "google/type/date.proto": """
syntax = "proto3";
package google.type;
message Date {
  int32 year = 1;
  int32 month = 2;
  int32 day = 3;
}
""",
    "google/type/timeofday.proto": """
syntax = "proto3";
package google.type;
message TimeOfDay {
  int32 hours = 1;
  int32 minutes = 2;
  int32 seconds = 3;
  int32 nanos = 4;
}
""",
}


def file_of(schema: RegisteredSchema) -> FileDescriptor:
    """The schema's file in a pool of its own, with everything that it imports.

    Raises:
        Unmappable: it is no valid schema, or imports what neither its references nor the well-known files have.
        Unavailable: protoc is missing or does not end.
    """
    texts = {reference.name: reference.text for reference in schema.references}
    main = _descriptor_in(schema.text)
    if main is None or any(_descriptor_in(text) is None for text in texts.values()):
        return _pooled(_compiled(schema.text, texts), MAIN)
    whole = descriptor_pb2.FileDescriptorSet()
    for name, text in texts.items():
        found = _descriptor_in(text)
        if found is not None:
            found.name = name
            whole.file.append(found)
    main.name = MAIN
    whole.file.append(main)
    return _pooled(whole, MAIN)


def _descriptor_in(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The descriptor that the text is in base64, if it is."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compiled(text: str, texts: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString(_descriptors(text, tuple(sorted(texts.items()))))


# Topics share schemas, and the same schema has an id per topic where it was registered for each.
@lru_cache(maxsize=256)
def _descriptors(text: str, texts: tuple[tuple[str, str], ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="frazil-protoc-") as folder:
        root = Path(folder)
        for name, content in {**_WELL_KNOWN, **dict(texts), MAIN: text}.items():
            _place(root, name).write_text(content, "utf-8")
        output = root / "set.bin"
        with as_file(files("grpc_tools") / "_proto") as google:
            command = [sys.executable, "-I", "-m", "grpc_tools.protoc", f"-I{root}", f"-I{google}"]
            command += ["--include_imports", f"--descriptor_set_out={output}", str(root / MAIN)]
            try:
                done = subprocess.run(  # noqa: S603 - our own interpreter; what others wrote is in files
                    command, capture_output=True, timeout=_SECONDS, check=False, cwd=root
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"protoc does not run: {type(error).__name__}") from None
        if done.returncode or not output.exists():
            raise Unmappable(_complaint(done.stderr.decode("utf-8", "replace"), root))
        return output.read_bytes()


def _place(root: Path, name: str) -> Path:
    """Where a file of that import path goes: inside the folder, whatever the path says."""
    parts = PurePosixPath(name).parts
    if not parts or any(part in ("..", "/", ".") for part in parts) or "\0" in name or "\\" in name:
        raise Unmappable(f"import path {name!r} leads elsewhere")
    path = root.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _complaint(text: str, root: Path) -> str:
    told = text.replace(f"{root}/", "").replace(MAIN, "schema").strip().splitlines()
    lines = [line for line in told if "warning" not in line]
    if "No module named" in text:
        raise Unavailable("protoc is missing: pip install 'frazil[ingest]'")
    return " | ".join(lines)[:_MAX_ERROR] or "protoc refuses the schema"


def _pooled(whole: descriptor_pb2.FileDescriptorSet, main: str) -> FileDescriptor:
    pool = descriptor_pool.DescriptorPool()
    _with_well_known(whole)
    by_name = {file.name: file for file in whole.file}
    added: set[str] = set()

    def add(name: str, below: tuple[str, ...]) -> None:
        if name in added:
            return
        if name in below or name not in by_name:
            raise Unmappable(
                f"import {name!r} is {'a circle' if name in below else 'not among the references'}"
            )
        for needed in by_name[name].dependency:
            add(needed, (*below, name))
        added.add(name)
        pool.AddSerializedFile(by_name[name].SerializeToString())

    try:
        add(main, ())
        return pool.FindFileByName(main)
    except (TypeError, KeyError) as error:
        raise Unmappable(f"not a valid Protobuf schema: {str(error)[:_MAX_ERROR]}") from None


def _with_well_known(whole: descriptor_pb2.FileDescriptorSet) -> None:
    """Google's own files for descriptors that were registered without them."""
    have = {file.name for file in whole.file}
    wanted = {name for file in whole.file for name in file.dependency} - have
    if not wanted:
        return
    imports = "".join(f'import "{name}";\n' for name in sorted(wanted))
    for file in _compiled(f'syntax = "proto3";\n{imports}', {}).file:
        if file.name != MAIN and file.name not in have:
            whole.file.append(file)
