"""Operations that make no sense on a server of one's own: each is known by its name and says why it is not offered.

What reads or removes a configuration answers that there is none, which is true; what would set one up is refused.
"""

from collections.abc import Awaitable, Callable

from catalog_server.api.s3tables.call import Call
from catalog_server.api.s3tables.operation import Operation
from table_format.errors import NotFound, Unsupported
from table_format.jsontypes import JsonObject

_REPLICATION = (
    "Replication is not offered by this server: replicate the object store and the database instead."
)
_MIGRATION = (
    "Migration from AWS Glue is not offered by this server: register tables by their metadata, "
    "at POST /iceberg/v1/{bucket}/namespaces/{namespace}/register."
)
_LOGGING = "Access logs in a bucket are not offered by this server: it writes its own log."


def _refused(why: str) -> Callable[[Call], Awaitable[JsonObject]]:
    async def refuse(call: Call) -> JsonObject:
        raise Unsupported(why)

    return refuse


def _absent(why: str) -> Callable[[Call], Awaitable[JsonObject]]:
    async def nothing_there(call: Call) -> JsonObject:
        raise NotFound(f"The specified configuration does not exist. {why}")

    return nothing_there


def _operation(name: str, method: str, path: str, status: int, why: str) -> Operation:
    there_is_none = method == "DELETE" or name.startswith("Get")
    return Operation(
        name=name,
        method=method,
        path=path,
        handler=(_absent if there_is_none else _refused)(why),
        summary=why,
        status=status,
        offered=False,
    )


OPERATIONS = tuple(
    _operation(name, method, path, status, why)
    for name, method, path, status, why in (
        ("GetTableBucketReplication", "GET", "/table-bucket-replication", 200, _REPLICATION),
        ("PutTableBucketReplication", "PUT", "/table-bucket-replication", 200, _REPLICATION),
        ("DeleteTableBucketReplication", "DELETE", "/table-bucket-replication", 204, _REPLICATION),
        ("GetTableReplication", "GET", "/table-replication", 200, _REPLICATION),
        ("PutTableReplication", "PUT", "/table-replication", 200, _REPLICATION),
        ("DeleteTableReplication", "DELETE", "/table-replication", 204, _REPLICATION),
        ("GetTableReplicationStatus", "GET", "/replication-status", 200, _REPLICATION),
        ("DisassociateTableReplication", "PUT", "/table-replication/disassociate", 200, _REPLICATION),
        ("StartTableMigration", "POST", "/start-table-migration", 202, _MIGRATION),
        ("SyncTableMigration", "POST", "/sync-table-migration", 202, _MIGRATION),
        ("GetTableMigration", "GET", "/get-table-migration", 200, _MIGRATION),
        ("ListTableMigrations", "GET", "/list-table-migrations", 200, _MIGRATION),
        ("UpdateTableMigration", "POST", "/update-table-migration", 200, _MIGRATION),
        ("CompleteTableMigration", "POST", "/complete-table-migration", 204, _MIGRATION),
        ("GetTableBucketLogging", "GET", "/buckets/{tableBucketARN}/logging", 200, _LOGGING),
        ("PutTableBucketLogging", "PUT", "/buckets/{tableBucketARN}/logging", 204, _LOGGING),
    )
)
