"""Views: list, create, load, exists, replace, drop, register, rename.

Trino and Sail ask for a view of the name before almost every table: that there is none is one indexed read.
"""

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call, json_answer, no_content
from catalog_server.api.iceberg.load_result import view_result
from catalog_server.api.iceberg.wire import checked_name, objects, optional, required, strings, table_ident
from catalog_server.services.views import ViewSpec
from table_format.errors import NoSuchView
from table_format.ident import TableIdent


async def list_views(call: Call) -> Response:
    """The views of one namespace."""
    page = await call.platform.views.list(call.principal, call.bucket, call.namespace, call.page())
    identifiers = [{"namespace": row.ident.namespace.levels, "name": row.ident.name} for row in page.items]
    return json_answer({"identifiers": identifiers, "next-page-token": page.next_token})


async def create_view(call: Call) -> Response:
    """Create a view."""
    body = call.body
    ident = TableIdent(call.namespace, checked_name(body.get("name"), "'name'"))
    spec = ViewSpec(
        schema=required(body, "schema", dict),
        version=required(body, "view-version", dict),
        properties=strings(body, "properties"),
        location=optional(body, "location", str),
    )
    return await view_result(
        call.request, await call.platform.views.create(call.principal, call.bucket, ident, spec)
    )


async def load_view(call: Call) -> Response:
    """A view's metadata."""
    call.query.check_chain()
    return await view_result(
        call.request, await call.platform.views.load(call.principal, call.bucket, call.view)
    )


async def view_exists(call: Call) -> Response:
    """204 or 404."""
    ident = call.view
    if not await call.platform.views.exists(call.principal, call.bucket, ident):
        raise NoSuchView(f"View does not exist: {ident}")
    return no_content()


async def replace_view(call: Call) -> Response:
    """Apply updates if the requirements hold."""
    optional(call.body, "identifier", dict)
    needs = objects(call.body, "requirements") if call.body.get("requirements") is not None else []
    handle = await call.platform.views.replace(
        call.principal, call.bucket, call.view, needs, objects(call.body, "updates")
    )
    return await view_result(call.request, handle)


async def drop_view(call: Call) -> Response:
    """Forget the view; its files stay."""
    await call.platform.views.drop(call.principal, call.bucket, call.view)
    return no_content()


async def register_view(call: Call) -> Response:
    """Adopt existing metadata as a view."""
    handle = await call.platform.views.register(
        call.principal,
        call.bucket,
        TableIdent(call.namespace, checked_name(call.body.get("name"), "'name'")),
        required(call.body, "metadata-location", str),
    )
    return await view_result(call.request, handle)


async def rename_view(call: Call) -> Response:
    """Give a view another name, maybe in another namespace."""
    source, destination = table_ident(call.body, "source"), table_ident(call.body, "destination")
    await call.platform.views.rename(call.principal, call.bucket, source, destination)
    return no_content()
