"""Functions: there are none, and nothing is advertised; a client that asks all the same is told so properly."""

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call
from table_format.errors import NoSuchFunction, NoSuchNamespace, NotFound


async def list_functions(call: Call) -> Response:
    """404: of the namespace, or of the operation.

    Raises:
        NoSuchNamespace: there is no such namespace.
        NotFound: there is; but functions are not offered.
    """
    await _require_namespace(call)
    raise NotFound("Functions are not offered by this catalog; GET /v1/config lists what is")


async def load_function(call: Call) -> Response:
    """404: of the namespace, or of the function.

    Raises:
        NoSuchNamespace: there is no such namespace.
        NoSuchFunction: there is; but no function is.
    """
    await _require_namespace(call)
    raise NoSuchFunction(f"Function does not exist: {call.namespace}.{call.names.text('function')}")


async def _require_namespace(call: Call) -> None:
    namespace = call.namespace
    if not await call.platform.namespaces.exists(call.principal, call.bucket, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {namespace}")
