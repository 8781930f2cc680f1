"""`Call`: one request to the Iceberg API with its names decoded and its body read; and answers to it."""

from dataclasses import dataclass

import orjson
from starlette.requests import Request
from starlette.responses import Response

from catalog_server.api.headers import headers
from catalog_server.api.iceberg.wire import Query
from catalog_server.api.rawpath import RawNames
from catalog_server.bootstrap import Platform
from catalog_server.services.paging import PageRequest
from catalog_server.services.principals import Principal
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

_DELEGATIONS = ("remote-signing", "vended-credentials")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What an operation needs to know about its request."""

    request: Request
    platform: Platform
    principal: Principal
    names: RawNames
    query: Query
    body: JsonObject

    @property
    def bucket(self) -> str:
        """The table bucket, which the path's prefix names."""
        return self.names.text("prefix")

    @property
    def namespace(self) -> Namespace:
        """The namespace in the path."""
        return self.names.namespace()

    @property
    def table(self) -> TableIdent:
        """The table in the path."""
        return TableIdent(self.names.namespace(), self.names.text("table"))

    @property
    def view(self) -> TableIdent:
        """The view in the path."""
        return TableIdent(self.names.namespace(), self.names.text("view"))

    def page(self) -> PageRequest | None:
        """The page asked for; None for everything at once.

        Raises:
            Invalid: the page size is no number above zero.
        """
        if "pageToken" not in self.query.values and "pageSize" not in self.query.values:
            return None
        return PageRequest(token=self.query.text("pageToken") or "", size=self.query.page_size())

    def delegation(self) -> list[str]:
        """The kinds of delegated access that the client asks for, in one order.

        Whatever else stands in the header (or headers) is passed over: clients send the oddest things there.
        """
        values = headers(self.request.scope, b"x-iceberg-access-delegation")
        if not values:
            return []
        asked = {kind.strip().lower() for kind in ",".join(values).split(",")}
        return [kind for kind in _DELEGATIONS if kind in asked]


def json_answer(body: JsonObject) -> Response:
    """200 with a small JSON body."""
    return Response(orjson.dumps(body), media_type="application/json")


def no_content() -> Response:
    """204."""
    return Response(status_code=204)
