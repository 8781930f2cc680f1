"""Operations that are not offered: each answers an error of its own that says so."""

from typing import Any

from tests.contract.s3tables.cases_buckets import BAD, MISSING
from tests.contract.s3tables.world import Cases

CASES = Cases()
_ROLE = "arn:aws:iam::000000000000:role/replication"
_ARN = "arn:aws:s3tables:us-east-1:000000000000:bucket/any"
_RULES = {"role": _ROLE, "rules": [{"destinations": [{"destinationTableBucketARN": _ARN}]}]}
_TABLE = {"tableArn": f"{_ARN}/table/x"}
_BUCKET = {"tableBucketARN": _ARN}
_OUTPUT = {"bucket": "arn:aws:s3:::reports"}

REPLICATION: dict[str, tuple[str, dict[str, Any]]] = {
    "GetTableBucketReplication": (MISSING, _BUCKET),
    "PutTableBucketReplication": (BAD, {**_BUCKET, "configuration": _RULES}),
    "DeleteTableBucketReplication": (MISSING, _BUCKET),
    "GetTableReplication": (MISSING, _TABLE),
    "PutTableReplication": (BAD, {**_TABLE, "configuration": _RULES}),
    "DeleteTableReplication": (MISSING, {**_TABLE, "versionToken": "x"}),
    "GetTableReplicationStatus": (MISSING, _TABLE),
    "DisassociateTableReplication": (BAD, _TABLE),
}
MIGRATION: dict[str, tuple[str, dict[str, Any]]] = {
    "StartTableMigration": (BAD, {"roleARN": _ROLE, "migrationOutput": _OUTPUT, "sourceType": "glueTable"}),
    "SyncTableMigration": (BAD, {"roleARN": _ROLE, "migrationOutput": _OUTPUT}),
    "GetTableMigration": (MISSING, {"migrationId": "x"}),
    "ListTableMigrations": (BAD, {}),
    "UpdateTableMigration": (BAD, {"migrationId": "x", "requestedState": "cancelled"}),
    "CompleteTableMigration": (BAD, {"tableARN": f"{_ARN}/table/x"}),
}
LOGGING: dict[str, tuple[str, dict[str, Any]]] = {
    "GetTableBucketLogging": (MISSING, _BUCKET),
    "PutTableBucketLogging": (BAD, {**_BUCKET, "tableBucketLoggingStatus": {}}),
}
NOT_OFFERED = {*REPLICATION, *MIGRATION, *LOGGING}

for _operations, _text in (
    (REPLICATION, "Replication is not offered by this server"),
    (MIGRATION, "Migration from AWS Glue is not offered by this server"),
    (LOGGING, "Access logs in a bucket are not offered by this server"),
):
    for _operation, (_outcome, _parameters) in _operations.items():
        CASES.refused(_operation, _outcome, "not offered", _text)(lambda _, given=_parameters: dict(given))
