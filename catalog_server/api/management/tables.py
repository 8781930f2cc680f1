"""Tables: identity, layout, snapshots and refs; register, rename, protect, unregister, drop."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from catalog_server.api.management import wire_tables as wire
from catalog_server.api.management.dropped import on_the_wire as dropped_on_the_wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    InNamespace,
    MaybeNamespace,
    OnePage,
    OnPlatform,
    TableName,
    Tagged,
)
from catalog_server.bootstrap import Platform
from catalog_server.services import table_history
from catalog_server.services.all_tables import protection_tag
from catalog_server.services.handles import TableHandle
from catalog_server.services.statistics import NO_STATISTICS, Statistics
from catalog_server.services.table_entries import TableEntry
from catalog_server.services.tables import TableSpec
from catalog_server.store.tables import TableRow
from table_format.errors import Invalid, NoSuchTable
from table_format.ident import Namespace, TableIdent

router = APIRouter(tags=["tables"])

_TABLE = "/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}"

IfMatch = Annotated[str | None, Header(alias="If-Match", description="ETag of the protection that is meant.")]


@router.get("/v1/buckets/{bucket}/tables")
async def list_tables(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: MaybeNamespace,
    page: OnePage,
    prefix: Annotated[str, Query(description="Only tables whose name begins so.")] = "",
) -> wire.Tables:
    """The tables of one namespace, or of the whole bucket."""
    found = await platform.all_tables.list(principal, bucket, namespace, page, prefix=prefix)
    return wire.Tables(
        tables=[_table(platform, row) for row in found.items], next_page_token=found.next_token
    )


@router.post("/v1/buckets/{bucket}/namespaces/{namespace}/tables", status_code=201)
async def make_table(
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    wanted: wire.NewTable,
) -> wire.Table:
    """Make an empty table, or one of metadata that exists already; that of a dropped table brings the table back."""
    ident = TableIdent(namespace, wanted.name)
    if wanted.metadata_location is None:
        return _table(platform, _row(await _create(platform, principal, bucket, ident, wanted)))
    if wanted.expected_metadata_location is not None and not wanted.overwrite:
        raise Invalid("expectedMetadataLocation goes with overwrite: without, there must be no such table")
    more = (wanted.table_schema, wanted.partition_spec, wanted.write_order, wanted.location)
    if wanted.properties or any(one is not None for one in more):
        raise Invalid("metadataLocation names metadata that says all of the table: give nothing else of it")
    handle = await platform.tables.register(
        principal,
        bucket,
        ident,
        wanted.metadata_location,
        overwrite=wanted.overwrite,
        expected=wanted.expected_metadata_location,
    )
    return _table(platform, _row(handle))


async def _create(
    platform: Platform, principal: By, bucket: str, ident: TableIdent, wanted: wire.NewTable
) -> TableHandle:
    if wanted.table_schema is None:
        raise Invalid("give schema, or the metadataLocation of metadata that exists already")
    if wanted.overwrite or wanted.expected_metadata_location is not None:
        raise Invalid("overwrite goes with metadataLocation: an empty table takes no table's place")
    spec = TableSpec(
        schema=wanted.table_schema,
        partition_spec=wanted.partition_spec,
        write_order=wanted.write_order,
        properties=wanted.properties,
        location=wanted.location,
        keeps_ids=True,
    )
    return await platform.tables.create(principal, bucket, ident, spec)


@router.get(_TABLE)
async def get_table(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.TableDetails:
    """One table with its figures, which are read from the manifests of its current snapshot."""
    entry = await platform.all_tables.one(principal, bucket, TableIdent(namespace, table))
    if entry.metadata_location is None:
        return wire.TableDetails(
            table=_table(platform, entry), format_version=None, properties={}, figures=_figures(NO_STATISTICS)
        )
    handle = await platform.tables.load(principal, bucket, entry.ident)
    return wire.TableDetails(
        table=_table(platform, _row(handle)),
        format_version=handle.metadata.format_version,
        properties=dict(handle.metadata.properties),
        figures=_figures(await platform.statistics.of(handle)),
    )


@router.delete(_TABLE)
async def drop_table(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    purge: Annotated[bool, Query(description="Have its files deleted, by a job.")] = False,
) -> wire.Drop:
    """Drop a table. Without purge it can be restored for some time, and its files stay in any case."""
    remove = platform.tables.purge if purge else platform.tables.drop
    gone = await remove(principal, bucket, TableIdent(namespace, table))
    return wire.Drop(dropped_table=None if gone is None else dropped_on_the_wire(gone))


@router.get(_TABLE + "/files")
async def get_table_files(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.TableFiles:
    """The files of a table's current snapshot, by size."""
    handle = await _load(platform, principal, bucket, TableIdent(namespace, table))
    found = await platform.statistics.of(handle)
    return wire.TableFiles(
        snapshot_id=found.current_snapshot_id,
        data_files=[wire.SizeClass(**asdict(one)) for one in found.file_sizes],
        delete_files=[wire.SizeClass(**asdict(one)) for one in found.delete_file_sizes],
        complete=found.complete,
    )


@router.get(_TABLE + "/snapshots")
async def list_snapshots(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    page: OnePage,
) -> wire.Snapshots:
    """The snapshots of a table, newest first."""
    handle = await _load(platform, principal, bucket, TableIdent(namespace, table))
    found = await table_history.snapshots(handle, page)
    return wire.Snapshots(
        snapshots=[wire.Snapshot(**asdict(one)) for one in found.items], next_page_token=found.next_token
    )


@router.get(_TABLE + "/refs")
async def list_refs(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.Refs:
    """The branches and tags of a table."""
    handle = await _load(platform, principal, bucket, TableIdent(namespace, table))
    return wire.Refs(refs=[wire.Ref(**asdict(one)) for one in table_history.refs(handle)])


@router.get(_TABLE + "/protection", responses=Tagged.OF_OK)
async def get_protection(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    response: Response,
) -> wire.Protection:
    """Whether a table refuses to be dropped."""
    return _protection(
        await platform.all_tables.one(principal, bucket, TableIdent(namespace, table)), response
    )


@router.put(_TABLE + "/protection", responses=Tagged.OF_OK)
async def put_protection(  # noqa: PLR0913 - each is one part of the request
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    wanted: wire.Protection,
    response: Response,
    if_match: IfMatch = None,
) -> wire.Protection:
    """Let a table refuse to be dropped, purged, unregistered and overwritten, or no more."""
    ident = TableIdent(namespace, table)
    entry = await platform.all_tables.protect(
        principal, bucket, ident, protected=wanted.protected, if_match=_tag(if_match)
    )
    return _protection(entry, response)


@router.post(_TABLE + "/rename")
async def rename_table(
    *,
    platform: OnPlatform,
    principal: By,
    bucket: BucketName,
    namespace: InNamespace,
    table: TableName,
    wanted: wire.NewName,
) -> wire.Table:
    """Give a table another name, maybe in another namespace; its files stay where they are."""
    levels = namespace.levels if wanted.namespace is None else tuple(wanted.namespace)
    destination = TableIdent(Namespace(levels), table if wanted.name is None else wanted.name)
    renamed = await platform.all_tables.rename(principal, bucket, TableIdent(namespace, table), destination)
    return _table(platform, renamed)


@router.post(_TABLE + "/unregister")
async def unregister_table(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.Unregistered:
    """Take a table out of the catalog and keep every file of it; it is not among the dropped tables."""
    ident = TableIdent(namespace, table)
    await platform.all_tables.require_metadata(principal, bucket, ident)
    handle = await platform.tables.unregister(principal, bucket, ident)
    row = _row(handle)
    return wire.Unregistered(metadata_location=row.metadata_location, location=row.location)


async def _load(platform: Platform, principal: By, bucket: str, ident: TableIdent) -> TableHandle:
    await platform.all_tables.require_metadata(principal, bucket, ident)
    return await platform.tables.load(principal, bucket, ident)


def _row(handle: TableHandle) -> TableRow:
    if handle.row is None:
        raise NoSuchTable(f"Table does not exist: {handle.ident}")
    return handle.row


def _table(platform: Platform, row: TableRow | TableEntry) -> wire.Table:
    return wire.Table(
        bucket=row.bucket,
        namespace=list(row.ident.namespace.levels),
        name=row.ident.name,
        arn=platform.arns.table(row.bucket, row.resource_id),
        uuid=row.table_uuid,
        resource_id=row.resource_id,
        location=row.location,
        metadata_location=row.metadata_location,
        version=row.version,
        protected=row.protected,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
    )


def _figures(found: Statistics) -> wire.Figures:
    values = asdict(found)
    values.pop("delete_file_sizes")
    values["file_sizes"] = [wire.SizeClass(**asdict(one)) for one in found.file_sizes]
    return wire.Figures(**values)


def _protection(entry: TableEntry, response: Response) -> wire.Protection:
    response.headers["ETag"] = f'"{protection_tag(entry)}"'
    return wire.Protection(protected=entry.protected)


def _tag(if_match: str | None) -> str | None:
    if if_match is None or if_match.strip() == "*":
        return None
    tag = if_match.strip().removeprefix("W/")
    if len(tag) < 2 or not (tag.startswith('"') and tag.endswith('"')):
        raise Invalid(f"If-Match must be an ETag that this API gave, not {if_match[:100]!r}")
    return tag[1:-1]
