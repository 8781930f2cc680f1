"""View updates: every action of the REST specification for views, applied to a document (copy on write).

Semantics are those of Java's ViewMetadata.Builder, with two leniencies that concurrent replaces need: `-1` also
means what an add in this commit resolved to when it was reused, and an added version is compared with the known
ones after its schema is resolved. An action that we do not know fails the commit.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from table_format.errors import Invalid, InvalidView
from table_format.jsontypes import JsonObject
from table_format.metadata import columns, members, views
from table_format.metadata.update_table import check_uuid
from table_format.metadata.views import ViewMetadata

LAST_ADDED = -1
FIRST_VERSION = 1
HISTORY_SIZE = "version.history.num-entries"
DROP_DIALECT_ALLOWED = "replace.drop-dialect.allowed"
_HISTORY_SIZE_DEFAULT = 10
_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)
# View schemas have no format version of their own; every type is allowed.
_ANY_TYPE = 3


class ViewDraft:
    """A view's metadata while the updates of one commit are applied to it; the base stays untouched."""

    def __init__(self, base: ViewMetadata | None, *, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.document: JsonObject = _blank() if base is None else dict(base.document)
        self.changed = base is None
        self.last_schema_id: int | None = None
        self.last_version_id: int | None = None
        self.added_versions: set[int] = set()
        # Java logs one move per commit, the last.
        self.log_entry: JsonObject | None = None

    def put(self, key: str, value: object) -> None:
        """Set a top-level member."""
        self.document[key] = value
        self.changed = True

    def append(self, key: str, row: JsonObject) -> None:
        """Add to a top-level array."""
        self.put(key, [*self.document[key], row])

    def rows(self, key: str) -> Sequence[JsonObject]:
        """A top-level array; not to be changed."""
        return cast("Sequence[JsonObject]", self.document[key])

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties so far."""
        return cast("Mapping[str, str]", self.document.get("properties") or {})

    def version(self, version_id: int) -> JsonObject | None:
        """The version of that id, or None."""
        return next((row for row in self.rows("versions") if row["version-id"] == version_id), None)

    def finish(self) -> ViewMetadata:
        """The finished metadata, or the base itself when nothing changed.

        Raises:
            InvalidView: the updates together do not make valid metadata.
        """
        if self.base is not None:
            if not self.changed:
                return self.base
            self._check_dialects(self.base.current_version)
        if self.log_entry is not None:
            self.append("version-log", self.log_entry)
        self._expire_versions(_history_size(self.properties))
        return ViewMetadata(self.document)

    def _check_dialects(self, previous: JsonObject) -> None:
        """Refuse a replacement that engines of another dialect could not read any more, unless that is allowed."""
        if self.properties.get(DROP_DIALECT_ALLOWED, "false").strip().lower() == "true":
            return
        current = cast("JsonObject", self.version(self.document["current-version-id"]))
        before, after = set(views.dialects(previous)), set(views.dialects(current))
        if not before <= after:
            raise InvalidView(
                f"Cannot replace view due to loss of view dialects ({DROP_DIALECT_ALLOWED}=false):\n"
                f"Previous dialects: {sorted(before)}\nNew dialects: {sorted(after)}"
            )

    def _expire_versions(self, history_size: int) -> None:
        """Keep the newest versions by id, at least those of this commit and the current one."""
        current = self.document["current-version-id"]
        room = max(len({*self.added_versions, current}), history_size)
        versions = self.rows("versions")
        if len(versions) <= room:
            return
        others = sorted((row["version-id"] for row in versions if row["version-id"] != current), reverse=True)
        kept = {current, *others[: room - 1]}
        self.put("versions", [row for row in versions if row["version-id"] in kept])
        log: list[JsonObject] = []
        for entry in self.rows("version-log"):
            if entry["version-id"] in kept:
                log.append(entry)
            else:
                log.clear()  # history has no gaps: what came before an unknown version goes with it
        self.put("version-log", log)


def apply(base: ViewMetadata, updates: Sequence[JsonObject], *, now_ms: int) -> ViewMetadata:
    """The metadata after the updates; `base` itself when they change nothing.

    Raises:
        Invalid: malformed, or not applicable.
    """
    draft = ViewDraft(base, now_ms=now_ms)
    if not isinstance(updates, list | tuple):
        raise Invalid(f"updates must be an array, not {members.shown(updates)}")
    for update in updates:
        action = members.text(members.json_object(update, "an update"), "action", "an update")
        if action not in _ACTIONS:
            raise Invalid(f"unknown update action for a view {action[:80]!r}")
        members.check_json(update, action)
        _ACTIONS[action](draft, update)
    return draft.finish()


def new_view(
    *,
    schema: JsonObject,
    version: JsonObject,
    properties: Mapping[str, str],
    location: str,
    uuid: str,
    now_ms: int,
) -> ViewMetadata:
    """Metadata of a view that is about to be created: version 1, schema 0, column ids as given.

    Raises:
        Invalid: anything in it is malformed or does not fit together.
    """
    first = {
        **members.json_object(version, "view-version"),
        "version-id": FIRST_VERSION,
        "schema-id": LAST_ADDED,
    }
    updates: list[JsonObject] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": dict(properties)},
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": first},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
    ]
    draft = ViewDraft(None, now_ms=now_ms)
    for update in updates:
        members.check_json(update, update["action"])
        _ACTIONS[update["action"]](draft, update)
    return draft.finish()


def _assign_uuid(draft: ViewDraft, update: JsonObject) -> None:
    wanted = members.text(update, "uuid", "assign-uuid")
    check_uuid(wanted)
    if draft.base is None:
        draft.put("view-uuid", wanted)
    elif draft.base.uuid.lower() != wanted.lower():
        raise InvalidView(f"Cannot reassign uuid: the view already has {draft.base.uuid}")


def _upgrade_format_version(draft: ViewDraft, update: JsonObject) -> None:
    wanted = members.integer(update, "format-version", "upgrade-format-version")
    if wanted < views.FORMAT_VERSION:
        raise InvalidView(f"Cannot downgrade v{views.FORMAT_VERSION} view to v{wanted}")
    views.check_format_version(wanted)


def _add_schema(draft: ViewDraft, update: JsonObject) -> None:
    schema = members.nested(update, "schema", "add-schema")
    members.optional_integer(schema, "schema-id", "schema", LAST_ADDED, members.INT_MAX)
    columns.check_new(schema, _ANY_TYPE)
    for known in draft.rows("schemas"):
        if columns.covers(known, schema):
            draft.last_schema_id = known["schema-id"]
            return
    draft.last_schema_id = _next_id((known["schema-id"] for known in draft.rows("schemas")), 0)
    draft.append("schemas", columns.rebuilt(schema, draft.last_schema_id, lambda column_id: column_id))


def _set_location(draft: ViewDraft, update: JsonObject) -> None:
    location = members.filled_text(update, "location", "set-location")
    if location != draft.document["location"]:
        draft.put("location", location)


def _set_properties(draft: ViewDraft, update: JsonObject) -> None:
    wanted = members.text_map(update, "updates", "set-properties")
    known = draft.properties
    if any(known.get(name) != value for name, value in wanted.items()):
        draft.put("properties", {**known, **wanted})


def _remove_properties(draft: ViewDraft, update: JsonObject) -> None:
    unwanted = set(members.texts(update, "removals", "remove-properties"))
    known = draft.properties
    if unwanted & set(known):
        draft.put("properties", {name: value for name, value in known.items() if name not in unwanted})


def _add_view_version(draft: ViewDraft, update: JsonObject) -> None:
    version = _resolved(draft, members.nested(update, "view-version", "add-view-version"))
    for known in draft.rows("versions"):
        if _behaves_like(known) == _behaves_like(version):
            draft.last_version_id = known["version-id"]
            return
    ids = [known["version-id"] for known in draft.rows("versions")]
    version_id = max(version["version-id"], _next_id(ids, version["version-id"]))
    draft.append("versions", {**version, "version-id": version_id})
    draft.added_versions.add(version_id)
    draft.last_version_id = version_id


def _resolved(draft: ViewDraft, version: JsonObject) -> JsonObject:
    """The version with the id of a schema that is there, its representations checked."""
    views.check_version(version)
    schema_id = version["schema-id"]
    if schema_id == LAST_ADDED:
        if draft.last_schema_id is None:
            raise InvalidView("Cannot set last added schema: no schema has been added")
        schema_id = draft.last_schema_id
    if not any(known["schema-id"] == schema_id for known in draft.rows("schemas")):
        raise InvalidView(f"Cannot add version with unknown schema: {schema_id}")
    unknown = sorted({row["type"] for row in version["representations"] if not views.is_sql(row)})
    if unknown:
        raise InvalidView(f"Found unsupported view representations: {', '.join(unknown)[:80]}")
    seen: set[str] = set()
    for dialect in views.dialects(version):
        if dialect in seen:
            raise InvalidView(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)
    if not seen:
        raise InvalidView("Invalid view version: Cannot add a version without a query")
    return {**version, "schema-id": schema_id}


def _behaves_like(version: JsonObject) -> JsonObject:
    """All of a version that says what it does: two versions that differ elsewhere only are the same."""
    return {
        key: value
        for key, value in version.items()
        if key not in ("version-id", "timestamp-ms") and value is not None
    }


def _set_current_view_version(draft: ViewDraft, update: JsonObject) -> None:
    wanted = members.integer(update, "view-version-id", "set-current-view-version", high=members.INT_MAX)
    if wanted == LAST_ADDED:
        if draft.last_version_id is None:
            raise InvalidView("Cannot set last version id: no current version id has been set")
        wanted = draft.last_version_id
    if wanted == draft.document["current-version-id"]:
        return
    version = draft.version(wanted)
    if version is None:
        raise InvalidView(f"Cannot set current version to unknown version: {wanted}")
    draft.put("current-version-id", wanted)
    at = version["timestamp-ms"] if wanted in draft.added_versions else draft.now_ms
    draft.log_entry = {"timestamp-ms": at, "version-id": wanted}


def _next_id(known: Iterable[int], first: int) -> int:
    found = max(known, default=first - 1) + 1
    if found > members.INT_MAX:
        raise InvalidView("Cannot give a new id: the view uses the highest one already")
    return found


def _history_size(properties: Mapping[str, str]) -> int:
    text = properties.get(HISTORY_SIZE, str(_HISTORY_SIZE_DEFAULT))
    size = int(text) if _NUMBER.fullmatch(text) else 0
    if size <= 0:
        raise InvalidView(f"{HISTORY_SIZE} must be positive but was {text[:20]}")
    return size


def _blank() -> JsonObject:
    return {
        "view-uuid": None,
        "format-version": views.FORMAT_VERSION,
        "location": None,
        "properties": {},
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
    }


_ACTIONS: dict[str, Callable[[ViewDraft, JsonObject], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_view_version,
}
