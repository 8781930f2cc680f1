"""Who asks. Every request is the anonymous principal: a server without accounts trusts its network.

An `Authorization` header is accepted and not looked at, since clients without credentials send `Bearer None`.
"""

from starlette.requests import Request

from catalog_server.services.principals import ANONYMOUS, Principal


def principal_of(request: Request) -> Principal:
    """The principal on whose behalf the request is made."""
    del request
    return ANONYMOUS
