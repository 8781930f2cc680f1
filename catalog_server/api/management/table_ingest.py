"""What a table says of its ingest: offsets by topic, and up to when it has all records."""

from fastapi import APIRouter

from catalog_server.api.management import wire_ingest as wire
from catalog_server.api.management.parameters import BucketName, By, InNamespace, OnPlatform, TableName
from ingest_plugin import offsets
from table_format.ident import TableIdent

router = APIRouter(tags=["ingest"])


@router.get("/v1/buckets/{bucket}/namespaces/{namespace}/tables/{table}/ingest")
async def get_table_ingest(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.TableIngest:
    """How far ingest has filled a table, as its newest snapshot tells; no topics where none ever did."""
    ident = TableIdent(namespace, table)
    await platform.all_tables.require_metadata(principal, bucket, ident)
    handle = await platform.tables.load(principal, bucket, ident)
    known = offsets.standing(handle.metadata)
    return wire.TableIngest(
        valid_through_ms=known.complete_through,
        last_commit_ms=offsets.last_commit_ms(handle.metadata),
        paused=handle.metadata.properties.get(offsets.PAUSED_PROPERTY) == "true",
        topics=[
            wire.TopicInTable(
                topic=topic,
                topic_id=known.topic_ids.get(topic),
                partitions=[
                    wire.PartitionInTable(
                        partition=int(partition),
                        next_offset=next_offset,
                        valid_through_ms=known.through.get(topic, {}).get(partition),
                    )
                    for partition, next_offset in sorted(partitions.items(), key=lambda pair: int(pair[0]))
                ],
            )
            for topic, partitions in sorted(known.everything.items())
        ],
    )
