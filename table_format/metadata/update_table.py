"""Updates of the table as a whole: UUID, format version, location, properties, encryption keys."""

import re

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import members, snapshots
from table_format.metadata.draft import Draft

SUPPORTED_VERSIONS = (1, 2, 3)
FORMAT_VERSION = "format-version"
# Java keeps these out of the stored properties: they describe the table and are members of their own.
RESERVED_PROPERTIES = frozenset({
    FORMAT_VERSION,
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
})  # fmt: skip
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def check_uuid(value: str) -> None:
    """Check that the text is a UUID.

    Raises:
        Invalid: it is not.
    """
    if not _UUID.fullmatch(value):
        raise Invalid("'uuid' must be a UUID such as 0b1f5a5e-8b0e-4bb5-a4b9-3ef7c7e0d9a1")


def assign_uuid(draft: Draft, update: JsonObject) -> None:
    """Give a table without UUID its UUID; a table's UUID never changes.

    Raises:
        Invalid: not a UUID, or the table has another.
    """
    wanted = members.text(update, "uuid", "assign-uuid")
    check_uuid(wanted)
    current = draft.document.get("table-uuid")
    if current is None:
        draft.put("table-uuid", wanted)
    elif current.lower() != wanted.lower():
        raise Invalid(f"Cannot reassign table UUID: the table already has {current}")


def upgrade_format_version(draft: Draft, update: JsonObject) -> None:
    """Move the table to a later format version.

    Raises:
        Invalid: an earlier or an unsupported version.
    """
    wanted = members.integer(update, "format-version", "upgrade-format-version")
    current = draft.format_version
    if wanted not in SUPPORTED_VERSIONS:
        raise Invalid(f"Cannot upgrade table to unsupported format version: v{wanted} (supported: v3)")
    if wanted < current:
        raise Invalid(f"Cannot downgrade v{current} table to v{wanted}")
    if wanted == current:
        return
    draft.put("format-version", wanted)
    draft.put("last-sequence-number", draft.document.get("last-sequence-number") or 0)
    if wanted >= 3:
        # Rows that are there already get their ids when a later snapshot carries their files.
        draft.put("next-row-id", 0)
        if draft.document["current-snapshot-id"] == -1:
            draft.main_dropped()


def set_location(draft: Draft, update: JsonObject) -> None:
    """Move the table's base location (files stay where they are).

    Raises:
        Invalid: empty or not a string.
    """
    location = members.filled_text(update, "location", "set-location")
    if location != draft.document["location"]:
        draft.put("location", location)


def set_properties(draft: Draft, update: JsonObject) -> None:
    """Set properties; reserved ones are left out, as Java does.

    Raises:
        Invalid: a value is not a string, or the format version is to be changed this way.
    """
    # Clients before Iceberg 1.1 wrote "updated".
    key = "updated" if "updated" in update and "updates" not in update else "updates"
    wanted = members.text_map(update, key, "set-properties")
    if wanted.get(FORMAT_VERSION, str(draft.format_version)) != str(draft.format_version):
        raise Invalid("format-version is not a property: send an upgrade-format-version update")
    known = draft.document["properties"]
    fresh = {
        name: value
        for name, value in wanted.items()
        if name not in RESERVED_PROPERTIES and known.get(name) != value
    }
    if fresh:
        draft.entries("properties").update(fresh)


def remove_properties(draft: Draft, update: JsonObject) -> None:
    """Remove properties; missing ones are ignored."""
    key = "removed" if "removed" in update and "removals" not in update else "removals"
    unwanted = set(members.texts(update, key, "remove-properties"))
    for name in sorted(unwanted & set(draft.document["properties"])):
        del draft.entries("properties")[name]


def add_encryption_key(draft: Draft, update: JsonObject) -> None:
    """Add an encryption key; a known id is ignored.

    Raises:
        Invalid: not a valid key entry.
    """
    key = members.nested(update, "encryption-key", "add-encryption-key")
    snapshots.check_encryption_key(key)
    key = members.without_nulls(key, {"encrypted-by-id", "properties"})
    if draft.find("encryption-keys", "key-id", key["key-id"]) is None:
        draft.rows("encryption-keys").append(key)


def remove_encryption_key(draft: Draft, update: JsonObject) -> None:
    """Remove an encryption key; an unknown id is ignored."""
    key_id = members.text(update, "key-id", "remove-encryption-key")
    known = draft.document.get("encryption-keys") or []
    kept = [key for key in known if key["key-id"] != key_id]
    if len(kept) != len(known):
        draft.rows("encryption-keys")[:] = kept
