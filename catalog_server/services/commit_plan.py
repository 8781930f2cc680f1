"""What one table's part of a commit comes to: requirements judged, updates applied, places checked. Pure.

Nothing is read or written here; everything refused here is refused before anything was written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from catalog_server.services import locations
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.documents import Document
from catalog_server.store.pointers import Layer
from catalog_server.store.tables import TableRow, missing
from maintenance import triggers
from maintenance.places import References
from maintenance.policies import PolicyType
from maintenance.ports import JobKind
from maintenance.triggers import TablePolicies
from table_format.errors import Invalid
from table_format.ident import TableIdent, contains
from table_format.jsontypes import JsonObject
from table_format.metadata import codec, jsontext, requirements, updates
from table_format.metadata.document import TableMetadata
from table_format.metadata.draft import VersionsToKeep

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"

_LONG_FROM_BYTES = 128 * 1024
# These pass over the snapshots once, at most: a millisecond for ten thousand of them.
# No set: an action that nobody has checked yet may be anything, and a list cannot be looked up in one.
_QUICK = ("add-snapshot", "set-snapshot-ref", "set-properties", "remove-properties")
_QUICK_UNTIL_BYTES = 8 << 20
_LONG_FROM_NODES = 3_000

# Update action -> (member with the file, key of its path). Engines put these files where the table says.
_FILES_IN_UPDATES = {
    "add-snapshot": ("snapshot", "manifest-list"),
    "set-statistics": ("statistics", "statistics-path"),
    "set-partition-statistics": ("partition-statistics", "statistics-path"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What is to change on one table, as the client sent it."""

    ident: TableIdent
    requirements: Sequence[JsonObject]
    updates: Sequence[JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What a table is now: its row and metadata (both None when it does not exist), and the policies on it."""

    row: TableRow | None
    base: Document | None
    layers: Sequence[Layer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the plan may not make up by itself."""

    bucket_location: str
    now_ms: int
    fresh_location: str
    """Where the table goes if the commit creates it and names no place."""
    fresh_uuid: str
    content: ContentLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One table's part: its new metadata, ready to be written and pointed to."""

    ident: TableIdent
    current: Current
    metadata: TableMetadata
    new_places: tuple[str, ...]
    """Places that are not yet known to be the table's."""
    new_files: tuple[str, ...] = ()
    """Files beside the metadata that the client wrote and the commit names."""
    jobs: tuple[JobKind, ...]
    benefit: int = 0
    """What a compaction among them is worth, as a priority."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.current.base is None or self.metadata is not self.current.base.metadata


def plan(change: TableChange, current: Current, around: Surroundings) -> Planned:
    """Judge and apply one table's part of a commit.

    Raises:
        NoSuchTable: there is no table, and the commit is not one that creates it.
        RequirementFailed, CommitFailed: it does not hold on the current table.
        Invalid: it is wrong, adds too much, or sends files to a place outside the bucket.
    """
    held = {} if current.base is None else current.base.metadata.properties
    around.content.check_updates(change.updates, held)
    if current.row is None or current.base is None:
        metadata = _born(change, around)
    else:
        requirements.check(change.requirements, current.base.metadata)
        metadata = updates.apply(
            current.base.metadata,
            change.updates,
            now_ms=max(around.now_ms, current.base.metadata.last_updated_ms),
            previous_location=current.row.metadata_location,
            versions_to_keep=_versions_to_keep(current),
        )
    new_files = tuple(path for update in change.updates for path in _files_in(update))
    _check_files(new_files, around.bucket_location)
    before = () if current.base is None else locations.places(current.base.metadata)
    new_places = tuple(place for place in locations.places(metadata) if place not in before)
    for place in new_places:
        locations.check_inside(around.bucket_location, place)
    jobs = wanted_jobs(current, metadata)
    return Planned(
        ident=change.ident,
        current=current,
        metadata=metadata,
        new_places=new_places,
        new_files=new_files,
        jobs=jobs,
        benefit=_benefit(current, metadata) if JobKind.COMPACTION in jobs else 0,
    )


def takes_long(change: TableChange, current: Current) -> bool:
    """Whether planning would hold up the event loop for longer than handing it to a thread takes."""
    size = 0 if current.base is None else len(current.base.raw)
    quick = all(update.get("action") in _QUICK for update in change.updates if isinstance(update, dict))
    if size >= (_QUICK_UNTIL_BYTES if quick else _LONG_FROM_BYTES):
        return True
    waiting: list[Any] = [change.updates]
    room = _LONG_FROM_NODES
    while waiting and room > 0:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend(node.values())
        elif isinstance(node, list | tuple):
            waiting.extend(node)
        room -= 1
    return bool(waiting)


def is_creation(change: TableChange) -> bool:
    """Whether the commit says that it creates the table."""
    return any(requirement.get("type") == "assert-create" for requirement in change.requirements)


def obsolete_metadata_files(planned: Planned, new_location: str) -> list[str]:
    """Earlier metadata files that nothing names any more, where the table wants them deleted.

    Of a table that was registered, those from before are not among them: they may be what another catalog goes on with.
    """
    if planned.current.base is None or planned.current.row is None:
        return []
    if not _deletes_old_metadata(planned):
        return []
    named = (entry["metadata-file"] for entry in planned.metadata.metadata_log)
    kept = References([new_location, planned.current.row.metadata_location, *named])
    base = planned.current.base.metadata
    since = planned.current.row.created_at_ms  # those that clocks which differ put before it stay, too
    here = {entry["metadata-file"] for entry in base.metadata_log if entry["timestamp-ms"] >= since}
    trimmed = [path for path in updates.trimmed_metadata_files(base, planned.metadata) if path in here]
    # A log that others wrote may name anything: files of elsewhere (a registered table's past), or no metadata at all.
    own = locations.places(planned.metadata)
    return [
        path
        for path in trimmed
        if codec.names_metadata(path)
        and not kept.may_hold(path)
        and any(locations.is_inside(place, path) for place in own)
    ]


def held_places(document: Document) -> tuple[str, ...]:
    """The places that a table has from the moment on that it is made of metadata which is there already."""
    held = locations.places(document.metadata)
    if any(contains(place, document.location) for place in held):
        return held
    # The file may lie elsewhere: it must not be in another's place, whose clean-up would take it.
    return (*held, document.location)


def directories_elsewhere(document: Document) -> tuple[str, ...]:
    """Where files that the metadata names lie outside those places."""
    return tuple(locations.elsewhere(held_places(document), locations.embedded(document.metadata)))


def _born(change: TableChange, around: Surroundings) -> TableMetadata:
    if not is_creation(change):
        raise missing(change.ident)
    requirements.check(change.requirements, None)
    return updates.start(
        change.updates, now_ms=around.now_ms, location=around.fresh_location, uuid=around.fresh_uuid
    )


def _check_files(paths: Sequence[str], bucket_location: str) -> None:
    for path in paths:
        if not locations.is_inside(bucket_location, path):
            raise Invalid(f"file {path!r} is not inside the table bucket's location {bucket_location}")


def _files_in(update: JsonObject) -> Iterator[str]:
    if update["action"] not in _FILES_IN_UPDATES:
        return
    member, key = _FILES_IN_UPDATES[update["action"]]
    named = update.get(member) or {}
    if named.get(key) is not None:
        yield named[key]
    yield from named.get("manifests") or []  # a snapshot of format version 1 may list them itself


def _deletes_old_metadata(planned: Planned) -> bool:
    properties = planned.metadata.properties
    if _has_snapshot_policy(planned.current):
        return _in_force(planned.current, properties).snapshots.delete_old_metadata
    return properties.get(DELETE_AFTER_COMMIT, "false").strip().lower() == "true"


def _versions_to_keep(current: Current) -> VersionsToKeep | None:
    """What policies say of the metadata log; None where there are none, and the table's properties decide alone."""
    if not _has_snapshot_policy(current):
        return None
    return lambda properties: _in_force(current, properties).snapshots.metadata_versions_to_keep


def _has_snapshot_policy(current: Current) -> bool:
    return any(PolicyType.SNAPSHOTS.value in layer.documents for layer in current.layers)


def wanted_jobs(current: Current, metadata: TableMetadata) -> tuple[JobKind, ...]:
    """The maintenance that a commit with this new metadata asks for."""
    snapshot = metadata.current_snapshot
    before = None if current.base is None else current.base.metadata
    if snapshot is None or (before is not None and snapshot["snapshot-id"] == before.current_snapshot_id):
        return ()
    policies = _in_force(current, metadata.properties)
    return tuple(triggers.wants(snapshot.get("summary") or {}, metadata, policies, before))


def _benefit(current: Current, metadata: TableMetadata) -> int:
    summary = (metadata.current_snapshot or {}).get("summary") or {}
    return triggers.benefit(summary, _in_force(current, metadata.properties).compaction)


def _in_force(current: Current, properties: Mapping[str, str]) -> TablePolicies:
    documents = {
        kind.value: [layer.documents.get(kind.value, {}) for layer in current.layers] for kind in PolicyType
    }
    return _policies(jsontext.dumps(documents), frozenset(properties.items()))


@lru_cache(maxsize=512)
def _policies(documents: bytes, properties: frozenset[tuple[str, str]]) -> TablePolicies:
    """What is in force; nearly all commits of a server find one of a few answers."""
    return triggers.table_policies(jsontext.loads(documents), dict(properties))
