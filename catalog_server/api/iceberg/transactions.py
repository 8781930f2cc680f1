"""Commits to several tables at once: all of them, or none."""

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call, no_content
from catalog_server.api.iceberg.wire import objects, table_ident
from catalog_server.services.commits import TableChange
from table_format.errors import Invalid


async def commit_transaction(call: Call) -> Response:
    """Apply every change if all requirements of all tables hold."""
    changes = [
        TableChange(
            ident=table_ident(change, "identifier"),
            requirements=objects(change, "requirements"),
            updates=objects(change, "updates"),
        )
        for change in objects(call.body, "table-changes")
    ]
    if not changes:
        raise Invalid("Malformed request: 'table-changes' is empty")
    await call.platform.commits.commit_transaction(call.principal, call.bucket, changes)
    return no_content()
