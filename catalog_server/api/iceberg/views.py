"""Views are not offered; engines that ask anyway get their "no such view" without a look into the database.

Trino and Sail ask for a view of the name before almost every table.
"""

from starlette.responses import Response

from catalog_server.api.iceberg.call import Call
from table_format.errors import NoSuchView
from table_format.ident import TableIdent


async def no_such_view(call: Call) -> Response:
    """404, always.

    Raises:
        NoSuchView: always.
    """
    raise NoSuchView(f"View does not exist: {TableIdent(call.namespace, call.names.text('view'))}")
