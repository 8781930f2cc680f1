"""Where our OpenAPI document differs from upstream's, and why. A line that is no longer true fails the test."""

_NO_ACCOUNTS = "every request is the anonymous principal's: the server has no accounts yet"
_OURS = "a status of its own for what upstream has as 400 or does not think of"

# Statuses that differ in whatever operation has them.
STATUSES_ONLY_THERE = {
    "401": _NO_ACCOUNTS,
    "403": _NO_ACCOUNTS + ", and most operations touch no file that could be denied to the server itself",
    "419": _NO_ACCOUNTS,
    "502": "that is a gateway's to answer",
    "504": "that is a gateway's to answer",
    "5XX": "ours names the two that it answers: 500 and 503",
}
STATUSES_ONLY_HERE = {
    "413": _OURS,
    "415": _OURS,
    "500": "upstream has 5XX",
}

# Statuses that differ in one operation.
STATUSES_THERE = {
    "createNamespace 406": "namespaces have properties here",
    "updateProperties 406": "namespaces have properties here",
    "renameTable 406": "tables can be renamed here",
    "renameView 406": "views can be renamed here",
    "listFunctions 200": "there are no functions here: 404, and not advertised",
    "loadFunction 200": "there are no functions here: 404, and not advertised",
    "signRequest 200": "requests are not signed here: 400, and not advertised",
}
STATUSES_HERE = {
    "createNamespace 404": "the bucket, or the parent of a nested namespace, may be missing",
    "getToken 503": "upstream has 5XX",
    "signRequest 404": "the table may be missing",
}

PARAMETERS_THERE = {
    "planTableScan Idempotency-Key": "planning changes nothing in the catalog, so it may be done twice",
    "fetchScanTasks Idempotency-Key": "reading changes nothing, so it may be done twice",
    "cancelPlanning Idempotency-Key": "forgetting a plan twice is as good as once",
    "cancelPlanning X-Iceberg-Access-Delegation": "no access is given when a plan is forgotten",
}
PARAMETERS_HERE = {
    "createView Idempotency-Key": "all other operations that change something take one",
}

# Answers to HEAD have no body, whatever the status (RFC 9110 §9.3.2); upstream gives their errors one.
BODIES_THERE = {"namespaceExists", "tableExists", "viewExists"}

_ALWAYS = "ours is always there"
_OLD_TABLES = "snapshots of format version 1 may lack it, and are answered as they are"
MEMBERS = {
    "AssertRefSnapshotId.snapshot-id: needed there only": "ClickHouse leaves it out where others send null",
    "CatalogConfig.endpoints: needed here only": _ALWAYS,
    "CatalogConfig.idempotency-key-lifetime: needed here only": _ALWAYS,
    "CommitTableRequest.identifier: needed here only": "in a transaction nothing else names the table; "
    "upstream says so in prose",
    "CommitTableResponse.config: unknown there": "one answer serves create, load and commit",
    "CreateNamespaceResponse.properties: needed here only": _ALWAYS,
    "CreateViewRequest.properties: needed there only": "none means none",
    "ErrorModel.stack: unknown here": "a stack trace is for the log, not for a client",
    "GetNamespaceResponse.properties: needed here only": _ALWAYS,
    "ListNamespacesResponse.namespaces: needed here only": _ALWAYS,
    "ListNamespacesResponse.next-page-token: needed here only": _ALWAYS + ", null on the last page",
    "ListTablesResponse.identifiers: needed here only": _ALWAYS,
    "ListTablesResponse.next-page-token: needed here only": _ALWAYS + ", null on the last page",
    "LoadTableResult.remote-signing-config: unknown here": "requests are not signed here",
    "OAuthClientCredentialsRequest.client_id: needed there only": "clients also send it by HTTP Basic",
    "OAuthClientCredentialsRequest.client_secret: needed there only": "clients also send it by HTTP Basic",
    "OAuthError.error_uri: unknown here": "the description says it",
    "OAuthTokenResponse.expires_in: needed here only": _ALWAYS,
    "OAuthTokenResponse.issued_token_type: needed here only": _ALWAYS,
    "OAuthTokenResponse.refresh_token: unknown here": "a client asks anew",
    "OAuthTokenResponse.scope: needed here only": _ALWAYS,
    "PositionDeleteFile.referenced-data-file: unknown there": "Java and PyIceberg write and read it: without it a "
    "reader must look into the file",
    "Snapshot.key-id: unknown there": "the table specification has it for encrypted tables of version 3",
    "Snapshot.manifest-list: needed there only": _OLD_TABLES + ": they list their manifests themselves",
    "Snapshot.manifests: unknown there": "the table specification has it for format version 1",
    "Snapshot.summary: needed there only": _OLD_TABLES,
    "StatisticsFile.key-metadata: unknown there": "the table specification has it for encrypted tables",
    "UpdateNamespacePropertiesResponse.missing: needed here only": _ALWAYS,
}
