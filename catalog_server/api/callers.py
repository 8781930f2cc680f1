"""Which client a request comes from, as far as its turn to commit is concerned; nothing is allowed or refused by it."""

from starlette.requests import Request


def caller_of(request: Request) -> str:
    """A text that stays the same over one client's requests.

    Clients keep their connections, so that is what tells them apart, also those of one machine. Behind a proxy any
    connection may carry anybody's request, and the proxy's own headers tell.
    """
    headers = request.headers
    forwarded = headers.get("x-forwarded-for") or headers.get("forwarded")
    if forwarded is not None:
        parts = (forwarded, headers.get("user-agent", ""), headers.get("authorization", ""))
        return f"forwarded {hash(parts)}"
    client = request.client
    return "" if client is None else f"{client.host} {client.port}"
