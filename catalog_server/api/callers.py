"""Which client a request comes from, as far as its turn to commit is concerned; nothing is allowed or refused by it."""

from starlette.requests import Request

from catalog_server.api.headers import header


def caller_of(request: Request) -> str:
    """A text that stays the same over one client's requests.

    Clients keep their connections, so that is what tells them apart, also those of one machine. Behind a proxy any
    connection may carry anybody's request, and the proxy's own headers tell.
    """
    scope = request.scope
    forwarded = header(scope, b"x-forwarded-for") or header(scope, b"forwarded")
    if forwarded is not None:
        parts = (forwarded, header(scope, b"user-agent"), header(scope, b"authorization"))
        return f"forwarded {hash(parts)}"
    client = scope.get("client")
    return "" if client is None else f"{client[0]} {client[1]}"
