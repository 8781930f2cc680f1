"""A table's snapshots, branches and tags as its metadata tells them."""

from collections.abc import Sequence
from dataclasses import dataclass

from catalog_server.services import paging
from catalog_server.services.handles import TableHandle
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot, and the branches and tags whose head it is."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    summary: dict[str, str]
    schema_id: int | None
    refs: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A branch or tag with its own retention; None where it has none."""

    name: str
    type: str
    snapshot_id: int
    min_snapshots_to_keep: int | None
    max_snapshot_age_ms: int | None
    max_ref_age_ms: int | None


async def snapshots(table: TableHandle, page: paging.PageRequest) -> paging.Page[Snapshot]:
    """The snapshots, newest first.

    Raises:
        Invalid: the page request is wrong.
    """
    heads: dict[int, list[str]] = {}
    for name, ref in sorted(table.metadata.refs.items()):
        heads.setdefault(ref["snapshot-id"], []).append(name)
    ordered = sorted(table.metadata.snapshots, key=_order, reverse=True)

    async def fetch(after: tuple[str, ...] | None, limit: int | None) -> Sequence[JsonObject]:
        last = None if after is None else _position(after)
        rest = ordered if last is None else [one for one in ordered if _order(one) < last]
        return rest if limit is None else rest[:limit]

    def key(one: JsonObject) -> tuple[str, ...]:
        return tuple(str(part) for part in _order(one))

    found = await paging.paged(page, f"snapshots {table.metadata.uuid}", fetch, key)
    return paging.Page(items=[_snapshot(one, heads) for one in found.items], next_token=found.next_token)


def refs(table: TableHandle) -> list[Ref]:
    """The branches and tags, by name."""
    return [
        Ref(
            name=name,
            type=ref["type"],
            snapshot_id=ref["snapshot-id"],
            min_snapshots_to_keep=ref.get("min-snapshots-to-keep"),
            max_snapshot_age_ms=ref.get("max-snapshot-age-ms"),
            max_ref_age_ms=ref.get("max-ref-age-ms"),
        )
        for name, ref in sorted(table.metadata.refs.items())
    ]


def _order(snapshot: JsonObject) -> tuple[int, int, int]:
    return snapshot.get("sequence-number") or 0, snapshot["timestamp-ms"], snapshot["snapshot-id"]


def _position(after: tuple[str, ...]) -> tuple[int, int, int]:
    try:
        sequence_number, timestamp_ms, snapshot_id = (int(part) for part in after)
    except ValueError:
        raise Invalid("pageToken is not one that this listing gave") from None
    return sequence_number, timestamp_ms, snapshot_id


def _snapshot(one: JsonObject, heads: dict[int, list[str]]) -> Snapshot:
    summary = {str(name): str(value) for name, value in (one.get("summary") or {}).items()}
    return Snapshot(
        snapshot_id=one["snapshot-id"],
        parent_snapshot_id=one.get("parent-snapshot-id"),
        sequence_number=one.get("sequence-number") or 0,
        timestamp_ms=one["timestamp-ms"],
        operation=summary.pop("operation", None),
        summary=summary,
        schema_id=one.get("schema-id"),
        refs=heads.get(one["snapshot-id"], []),
    )
