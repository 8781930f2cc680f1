"""The token endpoint: deprecated by the specification, but called by clients that were given a credential.

While the server has no accounts, every credential is accepted and the token it gets opens nothing that is closed
to others. Errors have the OAuth form of RFC 6749, not the Iceberg envelope.
"""

from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request
from starlette.responses import Response

from catalog_server.api.bodies import read_body
from catalog_server.bootstrap import Platform
from table_format.errors import Invalid

_LIFETIME_SECONDS = 3600
_GRANTS = {"client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange", "refresh_token"}
_BODY_LIMIT = 64 * 1024
_NO_STORE = {"Cache-Control": "no-store"}


async def get_token(request: Request, platform: Platform) -> Response:
    """A bearer token for any credential."""
    try:
        body = await read_body(request, _BODY_LIMIT)
        form = dict(
            parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=64)
        )
    except (ValueError, Invalid):
        return _refused("invalid_request", "the body must be a URL-encoded form")
    grant = form.get("grant_type")
    if grant is None:
        return _refused("invalid_request", "grant_type is missing")
    if grant not in _GRANTS:
        return _refused("unsupported_grant_type", "grant_type must be client_credentials or token-exchange")
    token = {
        "access_token": platform.ids.uuid(),
        "token_type": "bearer",
        "expires_in": _LIFETIME_SECONDS,
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "scope": form.get("scope") or "catalog",
    }
    return Response(orjson.dumps(token), media_type="application/json", headers=_NO_STORE)


def _refused(error: str, description: str) -> Response:
    body = orjson.dumps({"error": error, "error_description": description})
    return Response(body, status_code=400, media_type="application/json", headers=_NO_STORE)
