"""The token endpoint: deprecated by the specification, but called by clients that were given a credential.

While the server has no accounts, every credential is accepted and the token it gets opens nothing that is closed
to others. The form is checked all the same (RFC 6749 §4.4, RFC 8693 §2.1), so that a client configured wrongly
hears of it here. Errors have the OAuth form, not the Iceberg envelope.
"""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request
from starlette.responses import Response

from catalog_server.api.bodies import read_body
from catalog_server.bootstrap import Platform
from table_format.errors import Invalid

_LIFETIME_SECONDS = 3600
_BODY_LIMIT = 64 * 1024
_NO_STORE = {"Cache-Control": "no-store"}
_FORM = "application/x-www-form-urlencoded"
_TYPE = "urn:ietf:params:oauth:token-type:"
_TOKEN_TYPES = frozenset(
    _TYPE + name for name in ("access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt")
)
_ACCESS_TOKEN = _TYPE + "access_token"


class _Refused(Exception):
    """The form is wrong; `error` is one of RFC 6749 §5.2."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


async def get_token(request: Request, platform: Platform) -> Response:
    """A bearer token for any credential, or for any token in exchange."""
    try:
        form = await _form(request)
        issued = _GRANTS.get(_needed(form, "grant_type"), _no_such_grant)(form, request)
    except _Refused as refused:
        body = orjson.dumps({"error": refused.error, "error_description": refused.description})
        headers = {**_NO_STORE, "WWW-Authenticate": "Basic"} if refused.status == 401 else _NO_STORE
        return Response(body, refused.status, headers, "application/json")
    token = {
        "access_token": platform.ids.uuid(),
        "token_type": "bearer",
        "expires_in": _LIFETIME_SECONDS,
        "issued_token_type": issued,
        "scope": form.get("scope") or "catalog",
    }
    return Response(orjson.dumps(token), media_type="application/json", headers=_NO_STORE)


async def _form(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
    if kind != _FORM:
        raise _Refused("invalid_request", f"the body must be a URL-encoded form ({_FORM}), not {kind}")
    try:
        body = await read_body(request, _BODY_LIMIT)
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except (ValueError, Invalid):
        raise _Refused("invalid_request", "the body must be a URL-encoded form") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise _Refused("invalid_request", "no parameter may be given twice")
    return form


def _client_credentials(form: Mapping[str, str], request: Request) -> str:
    basic = request.headers.get("authorization", "").lower().startswith("basic ")
    if not basic and not form.get("client_secret"):
        raise _Refused("invalid_client", "client_id and client_secret are missing", 401)
    return _ACCESS_TOKEN


def _token_exchange(form: Mapping[str, str], _: Request) -> str:
    _needed(form, "subject_token")
    _token_type(form, "subject_token_type")
    if form.get("actor_token"):
        _token_type(form, "actor_token_type")
    wanted = form.get("requested_token_type") or _ACCESS_TOKEN
    if wanted not in {_ACCESS_TOKEN, _TYPE + "jwt"}:
        raise _Refused("invalid_request", f"requested_token_type must be {_ACCESS_TOKEN}")
    return _ACCESS_TOKEN


def _no_such_grant(_: Mapping[str, str], __: Request) -> str:
    raise _Refused("unsupported_grant_type", f"grant_type must be one of: {', '.join(_GRANTS)}")


_GRANTS: dict[str, Callable[[Mapping[str, str], Request], str]] = {
    "client_credentials": _client_credentials,
    "urn:ietf:params:oauth:grant-type:token-exchange": _token_exchange,
}


def _needed(form: Mapping[str, str], parameter: str) -> str:
    value = form.get(parameter)
    if not value:
        raise _Refused("invalid_request", f"{parameter} is missing")
    return value


def _token_type(form: Mapping[str, str], parameter: str) -> None:
    if _needed(form, parameter) not in _TOKEN_TYPES:
        raise _Refused("invalid_request", f"{parameter} must be one of: {', '.join(sorted(_TOKEN_TYPES))}")
