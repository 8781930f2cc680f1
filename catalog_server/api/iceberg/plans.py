"""Scan planning on the server: plan a scan, ask for a plan, cancel it, fetch its pages.

Only the types of the request's members are checked here; what they mean is the planner's.
"""

import anyio.to_thread
import orjson
from starlette.responses import Response

from catalog_server.api.bodies import accepted_encoding, compress
from catalog_server.api.iceberg.call import Call, json_answer, no_content
from catalog_server.api.iceberg.wire import optional, required, string_list
from catalog_server.services.plans import PlanView
from catalog_server.store.plans import PlanState
from table_format.errors import Invalid
from table_format.jsontypes import JsonObject

_COMPRESS_FROM_BYTES = 32 * 1024
_LONGS = ("snapshot-id", "start-snapshot-id", "end-snapshot-id", "min-rows-requested")
_FLAGS = ("case-sensitive", "use-snapshot-schema")
_NAMES = ("select", "stats-fields")


async def plan_table_scan(call: Call) -> Response:
    """Plan a scan: completed with its tasks, or submitted when that takes long."""
    view = await call.platform.plans.submit(call.principal, call.bucket, call.table, _scan_request(call.body))
    return await _plan_answer(call, view, {"plan-id": view.id})


async def fetch_planning_result(call: Call) -> Response:
    """What has become of a plan."""
    view = await call.platform.plans.result(
        call.principal, call.bucket, call.table, call.names.text("plan-id")
    )
    return await _plan_answer(call, view, {})


async def cancel_planning(call: Call) -> Response:
    """Forget a plan."""
    await call.platform.plans.cancel(call.principal, call.bucket, call.table, call.names.text("plan-id"))
    return no_content()


async def fetch_scan_tasks(call: Call) -> Response:
    """One page of a plan."""
    token = required(call.body, "plan-task", str)
    page = await call.platform.plans.page(call.principal, call.bucket, call.table, token)
    return await _tasks_answer(call, {"plan-tasks": list(page.tokens)}, page.tasks)


async def _plan_answer(call: Call, view: PlanView, head: JsonObject) -> Response:
    head = {"status": view.state.value, **head}
    if view.state is PlanState.FAILED:
        return json_answer({**head, "error": view.error})
    if view.state is not PlanState.COMPLETED:
        return json_answer(head)
    return await _tasks_answer(call, {**head, "plan-tasks": list(view.tokens)}, view.tasks)


async def _tasks_answer(call: Call, head: JsonObject, tasks: bytes) -> Response:
    """The head with the scan tasks' members spliced in."""
    body = orjson.dumps(head)
    if tasks:
        body = body[:-1] + b"," + tasks + b"}"
    headers = {"Vary": "Accept-Encoding"}
    encoding = accepted_encoding(call.request.headers.get("accept-encoding", ""))
    if encoding is not None and len(body) >= _COMPRESS_FROM_BYTES:
        body = await anyio.to_thread.run_sync(compress, body, encoding)
        headers["Content-Encoding"] = encoding
    return Response(body, media_type="application/json", headers=headers)


def _scan_request(body: JsonObject) -> JsonObject:
    """The members that are known, of the types that they must have; null counts as missing.

    Raises:
        Invalid: another type.
    """
    known: JsonObject = {}
    for member in _LONGS:
        known[member] = optional(body, member, int)
    for member in _FLAGS:
        known[member] = optional(body, member, bool)
    for member in _NAMES:
        known[member] = string_list(body, member) if body.get(member) is not None else None
    known["filter"] = _filter(body)
    return {member: value for member, value in known.items() if value is not None}


def _filter(body: JsonObject) -> object:
    """An expression is an object, or just true or false."""
    value = body.get("filter")
    if value is not None and not isinstance(value, dict | bool):
        raise Invalid("Malformed request: 'filter' must be an object, true or false")
    return value
