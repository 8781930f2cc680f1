"""What the document says about scan planning, unregistering, signing and functions."""

from catalog_server.api.iceberg.openapi.described import NOT_OFFERED, ON_FILES, UNKNOWN, Described

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_PLAN = _TABLE + "/plan/{plan-id}"
_DELEGATION, _KEY = "X-Iceberg-Access-Delegation", "Idempotency-Key"
_NO_TABLE = {UNKNOWN: "There is no such table."}
_NO_FUNCTIONS = {UNKNOWN: "There are no functions here, or no such namespace."}
_NO_PLAN = {UNKNOWN: "There is no such table or plan; plans expire."}

OPERATIONS: dict[str, Described] = {
    f"POST {_TABLE}/plan": Described(
        id="planTableScan",
        summary="Plan a scan: the files to read for a filter",
        tag="scans",
        parameters=(_DELEGATION,),
        body="PlanTableScanRequest",
        answer="PlanTableScanResult",
        refusals={**ON_FILES, **_NO_TABLE, NOT_OFFERED: "The scan cannot be planned here."},
    ),
    f"GET {_PLAN}": Described(
        id="fetchPlanningResult",
        summary="Get a plan",
        tag="scans",
        parameters=(_DELEGATION,),
        answer="FetchPlanningResult",
        refusals={**ON_FILES, **_NO_PLAN},
    ),
    f"DELETE {_PLAN}": Described(
        id="cancelPlanning",
        summary="Forget a plan",
        tag="scans",
        refusals=_NO_PLAN,
    ),
    f"POST {_TABLE}/tasks": Described(
        id="fetchScanTasks",
        summary="Get the files of one of a plan's tasks",
        tag="scans",
        body="FetchScanTasksRequest",
        answer="FetchScanTasksResult",
        refusals={**ON_FILES, UNKNOWN: "There is no such table or plan task."},
    ),
    f"POST {_TABLE}/unregister": Described(
        id="unregisterTable",
        summary="Forget a table and say where its metadata is",
        tag="tables",
        parameters=(_KEY,),
        answer="UnregisterTableResult",
        refusals={**ON_FILES, **_NO_TABLE},
    ),
    f"POST {_TABLE}/sign": Described(
        id="signRequest",
        summary="Sign a request to storage: not offered",
        doc="Not advertised. There for clients that call it unasked, so that they get an answer they understand.",
        tag="tables",
        body="RemoteSignRequest",
        offered=False,
        refusals=_NO_TABLE,
    ),
    f"GET {_NAMESPACE}/functions": Described(
        id="listFunctions",
        summary="List functions: not offered",
        doc="Not advertised.",
        tag="functions",
        parameters=("pageToken", "pageSize"),
        offered=False,
        refusals=_NO_FUNCTIONS,
    ),
    f"GET {_NAMESPACE}/functions/{{function}}": Described(
        id="loadFunction",
        summary="Load a function: not offered",
        doc="Not advertised.",
        tag="functions",
        offered=False,
        refusals=_NO_FUNCTIONS,
    ),
}
