"""Manifest lists: which manifests a snapshot has (Iceberg spec, "Manifest Lists")."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.manifest import encode
from table_format.manifest.avro import LIST_FIELDS, LIST_NAMES, SUMMARY_FIELDS, list_columns, list_schema
from table_format.manifest.compiler import Compiled, Compiler, array_of, attributes, members
from table_format.manifest.container import Container, build_container, open_container, read_records
from table_format.manifest.decode import Malformed, Reader, read_bytes
from table_format.manifest.entries import UNASSIGNED, FieldSummary, ManifestContent, ManifestFile
from table_format.manifest.read import count_entries

_COUNTS = (
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
)


@dataclass(slots=True)
class ListMemo:
    """Manifests as lists told them: the lists of a table's snapshots repeat most of each other, byte by byte.

    By schema and by the bytes of its first value (the path), a record as it stood in a list, and what it says.
    """

    known: dict[bytes, dict[bytes, tuple[bytes, ManifestFile]]] = field(default_factory=dict)

    def reader(self, container: Container, read: Reader) -> Reader:
        """A reader that decodes no record that it has seen."""
        known = self.known.setdefault(container.meta.get("avro.schema", b""), {})

        def read_known(data: bytes, position: int) -> tuple[ManifestFile, int]:
            try:
                path, _ = read_bytes(data, position)
            except (Malformed, IndexError):
                return read(data, position)  # it begins with something else
            found = known.get(path)
            if found is not None and data.startswith(found[0], position):
                return found[1], position + len(found[0])
            manifest, end = read(data, position)
            known[path] = data[position:end], manifest
            return manifest, end

        return read_known


def read_manifest_list(store: ObjectStore, location: str, memo: ListMemo | None = None) -> list[ManifestFile]:
    """The manifests of a snapshot, in the list's order; give one `memo` to many lists of a table.

    Raises:
        NoSuchFile: the list is gone.
        Invalid: it is cut off or damaged.
    """
    container = open_container(store.get(location), location)
    try:
        record = Compiler(ids=LIST_NAMES).compile(container.schema)
        found = members(record, LIST_FIELDS, ("path", "length"), {"partitions": _summaries_reader})
    except Malformed as error:
        raise Invalid(f"{location} is not a manifest list: {error}") from None
    read_values = attributes(found)

    def read(data: bytes, position: int) -> tuple[ManifestFile, int]:
        values, position = read_values(data, position)
        return _manifest_file(values, location), position

    return list(read_records(container, read if memo is None else memo.reader(container, read)))


def _summaries_reader(compiled: Compiled) -> Reader:
    if compiled.kind == "null":
        return compiled.read
    if compiled.kind != "array" or compiled.item is None:
        raise Malformed(f"its schema has {compiled.kind} for the partition summaries")
    read = attributes(members(compiled.item, SUMMARY_FIELDS, ("contains_null",), {}))

    def read_summary(data: bytes, position: int) -> tuple[FieldSummary, int]:
        values, position = read(data, position)
        return FieldSummary(**values), position

    return array_of(compiled, read_summary)


def _manifest_file(values: dict[str, Any], location: str) -> ManifestFile:
    content = values.pop("content", None) or 0
    known = {name: value for name, value in values.items() if value is not None}
    if not known.get("path") or "length" not in known or content not in (0, 1):
        raise Invalid(f"{location}: a manifest in it has no path, no length or an unknown content")
    known.setdefault("spec_id", 0)
    return ManifestFile(content=ManifestContent(content), **known)


def write_manifest_list(  # noqa: PLR0913 - each is one fact of the header
    store: ObjectStore,
    location: str,
    manifests: Sequence[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
) -> int:
    """Write the list; manifests of this commit get its sequence number.

    From format version 3 on, data manifests without row ids get theirs from `first_row_id` on, the table's next one.
    The result is how many row ids are used up by that.

    Raises:
        AlreadyExists: there is a file of that name.
        Invalid: the manifests cannot all be in one list.
        Unsupported: the format version is not written here.
    """
    if format_version not in (1, 2, 3):
        raise Unsupported(f"manifest lists of format version {format_version} are not written; use version 3")
    if (first_row_id is None) == (format_version > 2):
        raise Invalid("a manifest list has a first row id from format version 3 on, and must have one")
    _check_distinct(manifests, location)
    columns = list_columns(format_version)
    write = encode.record([column.writer() for column in columns])
    block = bytearray()
    next_row_id = first_row_id
    for manifest in manifests:
        if format_version == 1:
            ready = _for_v1(manifest)
        else:
            ready = _for_v2(store, manifest, snapshot_id=snapshot_id, sequence_number=sequence_number)
        if next_row_id is not None:
            ready, next_row_id = _with_row_ids(ready, next_row_id)
        try:
            write(block, ready)
        except (TypeError, ValueError, AttributeError) as error:
            raise Invalid(f"manifest {manifest.path} cannot be listed: {error}") from None
    meta = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        **({"sequence-number": str(sequence_number)} if format_version > 1 else {}),
        **({} if first_row_id is None else {"first-row-id": str(first_row_id)}),
        "format-version": str(format_version),
    }
    blocks = [(len(manifests), bytes(block))] if manifests else []
    store.put(location, build_container(list_schema(columns), meta, blocks), if_absent=True)
    return (next_row_id or 0) - (first_row_id or 0)


def _with_row_ids(manifest: ManifestFile, next_row_id: int) -> tuple[ManifestFile, int]:
    """The manifest with ids for all rows that it may give ids to, and the next free id.

    Existing files count too: those of a table that was upgraded have none, and which do is not known here.
    """
    if manifest.content is not ManifestContent.DATA or manifest.first_row_id is not None:
        return manifest, next_row_id
    rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    return replace(manifest, first_row_id=next_row_id), next_row_id + rows


def _check_distinct(manifests: Sequence[ManifestFile], location: str) -> None:
    seen: set[str] = set()
    for manifest in manifests:
        if manifest.path in seen:
            raise Invalid(f"{location} would name manifest {manifest.path} twice, and so its rows")
        seen.add(manifest.path)


def _for_v1(manifest: ManifestFile) -> ManifestFile:
    if manifest.content is not ManifestContent.DATA:
        raise Invalid(f"delete manifest {manifest.path} cannot be in a table of format version 1")
    return manifest


def _for_v2(
    store: ObjectStore, manifest: ManifestFile, *, snapshot_id: int, sequence_number: int
) -> ManifestFile:
    if any(getattr(manifest, name) is None for name in _COUNTS):
        manifest = count_entries(store, manifest)
    unassigned = UNASSIGNED in (manifest.sequence_number, manifest.min_sequence_number)
    if unassigned and manifest.added_snapshot_id != snapshot_id:
        raise Invalid(
            f"manifest {manifest.path} of snapshot {manifest.added_snapshot_id} has no sequence number, "
            f"and that of snapshot {snapshot_id} is not its own"
        )
    lowest, own = manifest.min_sequence_number, manifest.sequence_number
    return replace(
        manifest,
        sequence_number=sequence_number if own == UNASSIGNED else own,
        min_sequence_number=sequence_number if lowest == UNASSIGNED else lowest,
    )
