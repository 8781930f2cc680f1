"""What the document says about tables, transactions and what is asked of a table."""

from catalog_server.api.iceberg.openapi.described import CONFLICT, ON_FILES, UNKNOWN, Described

_BUCKET = "/v1/{prefix}"
_NAMESPACE = _BUCKET + "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_DELEGATION, _KEY = "X-Iceberg-Access-Delegation", "Idempotency-Key"
_NO_TABLE = {UNKNOWN: "There is no such table."}
_NO_NAMESPACE = {UNKNOWN: "There is no such bucket or namespace."}
_TAKEN = {CONFLICT: "A table or view has the name."}

OPERATIONS: dict[str, Described] = {
    f"GET {_NAMESPACE}/tables": Described(
        id="listTables",
        summary="List the tables of a namespace",
        tag="tables",
        parameters=("pageToken", "pageSize"),
        answer="ListTablesResponse",
        refusals=_NO_NAMESPACE,
    ),
    f"POST {_NAMESPACE}/tables": Described(
        id="createTable",
        summary="Make a table, or stage one",
        tag="tables",
        parameters=(_DELEGATION, _KEY),
        body="CreateTableRequest",
        answer="LoadTableResult",
        headers=("ETag",),
        refusals={**ON_FILES, **_NO_NAMESPACE, **_TAKEN},
    ),
    f"GET {_TABLE}": Described(
        id="loadTable",
        summary="Load a table",
        tag="tables",
        parameters=(_DELEGATION, "If-None-Match", "snapshots", "referenced-by"),
        answer="LoadTableResult",
        headers=("ETag",),
        unchanged=True,
        refusals={**ON_FILES, **_NO_TABLE},
    ),
    f"HEAD {_TABLE}": Described(
        id="tableExists", summary="Ask whether a table exists", tag="tables", refusals=_NO_TABLE
    ),
    f"POST {_TABLE}": Described(
        id="updateTable",
        summary="Commit to a table",
        doc="Applies all updates or none, if every requirement holds. With `assert-create` it makes the table.",
        tag="tables",
        parameters=(_KEY,),
        body="CommitTableRequest",
        answer="CommitTableResponse",
        headers=("ETag",),
        refusals={
            **ON_FILES,
            **_NO_TABLE,
            CONFLICT: "A requirement does not hold, or the table was changed meanwhile.",
        },
    ),
    f"DELETE {_TABLE}": Described(
        id="dropTable",
        summary="Drop a table",
        doc="Without `purgeRequested` all its files stay.",
        tag="tables",
        parameters=("purgeRequested", _KEY),
        refusals=_NO_TABLE,
    ),
    f"POST {_NAMESPACE}/register": Described(
        id="registerTable",
        summary="Adopt a metadata file as a table",
        tag="tables",
        parameters=(_DELEGATION, _KEY),
        body="RegisterTableRequest",
        answer="LoadTableResult",
        headers=("ETag",),
        refusals={**ON_FILES, **_NO_NAMESPACE, **_TAKEN},
    ),
    f"POST {_BUCKET}/tables/rename": Described(
        id="renameTable",
        summary="Rename a table",
        tag="tables",
        parameters=(_KEY,),
        body="RenameTableRequest",
        refusals={
            UNKNOWN: "There is no such table, or no such namespace to move it to.",
            CONFLICT: "A table or view has the new name.",
        },
    ),
    f"POST {_BUCKET}/transactions/commit": Described(
        id="commitTransaction",
        summary="Commit to several tables at once",
        doc="All changes of all tables, or none.",
        tag="tables",
        parameters=(_KEY,),
        body="CommitTransactionRequest",
        refusals={
            **ON_FILES,
            **_NO_TABLE,
            CONFLICT: "A requirement does not hold, or a table was changed meanwhile.",
        },
    ),
    f"POST {_TABLE}/metrics": Described(
        id="reportMetrics",
        summary="Report on a scan or a commit",
        tag="tables",
        body="ReportMetricsRequest",
        refusals=_NO_TABLE,
    ),
    f"GET {_TABLE}/credentials": Described(
        id="loadCredentials",
        summary="Get credentials for a table's files",
        tag="tables",
        parameters=("planId", "referenced-by"),
        answer="LoadCredentialsResponse",
        refusals=_NO_TABLE,
    ),
}
