"""Equality deletes written: files of keys whose older rows are gone (spec, "Equality Delete Files").

Such a file reaches rows of strictly older commits only, within its partition, or in the whole table when its spec
has no partition fields. Which of the two is right is decided by `reach`: a delete that may miss a row is worse than
one that reads more files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from table_format.clock import Ids
from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile
from table_format.metadata.document import TableMetadata
from table_format.schema.types import parse_primitive
from table_format.write.parquet import TableWriter

_NOT_KEYS = frozenset({"float", "double", "unknown", "variant", "geometry", "geography"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The spec under which deletes by some key are written; `whole_table` when it has no partition fields."""

    spec_id: int
    whole_table: bool


def reach(metadata: TableMetadata, key_ids: Sequence[int]) -> Reach | None:
    """Where deletes by this key reach every row that may have it; None when the table has no fitting spec.

    Within the current spec's partitions only when the table never had another spec and each partition value follows
    from the key: else a row of the key may lie in another partition. Otherwise everywhere.
    """
    spec = metadata.spec()
    keys = set(key_ids)
    sources = [field["source-id"] for field in spec["fields"] if field["transform"] != "void"]
    if keys.issuperset(sources) and len(metadata.partition_specs) == 1:
        return Reach(spec_id=spec["spec-id"], whole_table=not sources)
    for known in metadata.partition_specs:
        if not known["fields"]:
            return Reach(spec_id=known["spec-id"], whole_table=True)
    return None


def key_schema(schema: JsonObject, key_ids: Sequence[int]) -> JsonObject:
    """The columns of a key, in the schema's order.

    Raises:
        Invalid: a column is not there, or of a type whose values have no one equality.
    """
    known = {field["id"]: field for field in schema["fields"]}
    if not key_ids:
        raise Invalid("a key needs at least one column")
    for wanted in key_ids:
        if wanted not in known:
            raise Invalid(f"the table has no top-level column with id {wanted} to be part of a key")
        field = known[wanted]
        if not isinstance(field["type"], str) or parse_primitive(field["type"]).name in _NOT_KEYS:
            raise Invalid(f"column {field['name']!r} cannot be part of a key: its type is {field['type']}")
    keys = set(key_ids)
    return {"type": "struct", "fields": [field for field in schema["fields"] if field["id"] in keys]}


class EqualityDeleteWriter:
    """Writes keys of one table as equality delete files; `paths` are those begun, as with `TableWriter`."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        metadata: TableMetadata,
        ids: Ids,
        target_bytes: int,
        key_ids: Sequence[int],
        name_prefix: str = "",
    ) -> None:
        """Prepare; nothing is opened before there are keys.

        Raises:
            Invalid: the key is none, the table is of format version 1, or none of its specs lets deletes reach every
                row (see `reach`).
        """
        if metadata.format_version < 2:
            raise Invalid("a table of format version 1 has no delete files; upgrade it to version 2")
        keys = key_schema(metadata.schema(), key_ids)
        found = reach(metadata, key_ids)
        if found is None:
            raise Invalid(
                "deletes by this key may miss rows in other partitions, and the table has no unpartitioned spec under"
                " which they would reach all; add one"
            )
        self._ids = [field["id"] for field in keys["fields"]]
        self._writer = TableWriter(
            store=store,
            metadata=metadata,
            ids=ids,
            target_bytes=target_bytes,
            spec_id=found.spec_id,
            schema=keys,
            name_prefix=f"{name_prefix}deletes-",
        )

    @property
    def paths(self) -> list[str]:
        """Every path that was begun."""
        return self._writer.paths

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of keys."""
        return self._writer.arrow_schema

    def write(self, keys: pa.RecordBatch) -> None:
        """Take keys: just the key columns, by field id or name. Equal keys need not be given twice.

        Raises:
            Invalid: a column is missing, too many, or a value does not fit; the writer stays usable.
            Unavailable: the store did not take a file; abort and begin again.
        """
        self._writer.write(keys)

    def flush(self) -> list[DataFile]:
        """Finish all files and give them as entries for delete manifests.

        Raises:
            Unavailable: the store did not take a file; none is given: abort and begin again.
        """
        return [
            replace(file, content=Content.EQUALITY_DELETES, equality_ids=list(self._ids), sort_order_id=None)
            for file in self._writer.flush()
        ]

    def abort(self) -> list[str]:
        """Discard what is not finished, and give every path that was begun."""
        return self._writer.abort()
