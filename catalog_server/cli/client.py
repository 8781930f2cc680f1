"""The management API as the commands use it, and names as people type them."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import requests
import typer

from catalog_server.cli.output import Failed
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject

DEFAULT_URL = "http://127.0.0.1:8181"
URL_VARIABLE = "FRAZIL_URL"
TOKEN_VARIABLE = "FRAZIL_TOKEN"  # noqa: S105 - the name of a variable, no token
_SEPARATOR = "\x1f"
_TOKEN = re.compile(r"[\x21-\x7e]+")
_TIMEOUT_SECONDS = (5.0, 60.0)

Url = Annotated[
    str, typer.Option("--url", envvar=URL_VARIABLE, help="Address of the server.", show_default=True)
]
QueryValue: TypeAlias = "str | Sequence[str] | None"
Json = Annotated[bool, typer.Option("--json", help="Print the server's answer as JSON.")]


def completed_by(name: str) -> Callable[[typer.Context, str], list[str]]:
    """Completion of a value by that function of `completion`, which is loaded only when a shell asks."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        function = getattr(import_module("catalog_server.cli.completion"), name)
        found: list[str] = function(ctx.params, incomplete)
        return found

    return complete


BUCKETS, NAMESPACES, TABLES = completed_by("buckets"), completed_by("namespaces"), completed_by("tables")
"""For `autocompletion=` of options and arguments that name such a thing."""

Bucket = Annotated[str, typer.Option("--bucket", help="Table bucket.", autocompletion=BUCKETS)]
TABLE_HELP = "Table as NAMESPACE.NAME; put a part that holds dots in double quotes."


@dataclass(frozen=True, slots=True)
class Answer:
    """A document and its version tag."""

    document: JsonObject
    etag: str | None


class Bearer(requests.auth.AuthBase):
    """The token of FRAZIL_TOKEN, where there is one: for a proxy before the server that asks for it."""

    def __init__(self) -> None:
        self._token = os.environ.get(TOKEN_VARIABLE, "")
        if self._token and _TOKEN.fullmatch(self._token) is None:
            raise Failed(f"{TOKEN_VARIABLE} holds no bearer token: it may not hold blanks or odd characters")

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """The request with the token. Sessions leave it out where an answer leads to another host."""
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class ManagementClient:
    """Calls to one server; every failure is a `Failed` that says what to do."""

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/")
        if not self._base.lower().startswith(("http://", "https://")):
            raise Failed(
                f"the server's address (--url or FRAZIL_URL) is {url!r}: begin it with http:// or https://"
            )
        self._session = requests.Session()
        self._session.auth = Bearer()

    def get(self, path: str, query: Mapping[str, QueryValue] | None = None) -> JsonObject:
        """The document at a path."""
        return self.send("GET", path, query=query).document

    def find(self, path: str) -> Answer | None:
        """The document at a path, or None where there is none."""
        response = self._request("GET", path)
        return None if response.status_code == 404 else self._answer(response)

    def send(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        query: Mapping[str, QueryValue] | None = None,
        if_match: str | None = None,
    ) -> Answer:
        """One request.

        Raises:
            Failed: the server is not there, or refused.
        """
        headers = {} if if_match is None else {"If-Match": if_match}
        return self._answer(self._request(method, path, body=body, query=query, headers=headers))

    def pages(
        self, path: str, member: str, query: Mapping[str, QueryValue] | None = None
    ) -> Iterator[JsonObject]:
        """The documents that hold the pages of a listing under `member`, one after the other, flattened."""
        token: str | None = None
        while True:
            page = self.get(path, {**(query or {}), "pageToken": token})
            yield from page[member]
            token = page.get("nextPageToken")
            if not token:
                return

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        query: Mapping[str, QueryValue] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            return self._session.request(
                method,
                f"{self._base}/api/v1{path}",
                json=body,
                params=parameters,
                headers=dict(headers or {}),
                timeout=_TIMEOUT_SECONDS,
            )
        except requests.ConnectionError:
            raise Failed(
                f"no frazil server answers at {self._base}: start one with `frazil serve`, or name one with --url"
            ) from None
        except requests.RequestException as error:
            raise Failed(f"the server at {self._base} did not answer properly: {error}") from None

    def _answer(self, response: requests.Response) -> Answer:
        if not response.ok:
            raise self._refusal(response)
        document = _json_object(response) if response.content else {}
        if document is None:
            raise _foreign(response)
        return Answer(_Document(document, response), response.headers.get("ETag"))

    @staticmethod
    def _refusal(response: requests.Response) -> Failed:
        detail = (_json_object(response) or {}).get("detail")
        if not detail and response.status_code in (401, 403):
            return Failed(
                f"{response.url} answered {response.status_code}: whoever guards the server wants another token "
                f"than {TOKEN_VARIABLE} holds"
            )
        return Failed(str(detail)) if detail else _foreign(response)


class _Document(JsonObject):
    """An answer; one that lacks what the management API always gives came from another program."""

    def __init__(self, members: JsonObject, response: requests.Response) -> None:
        super().__init__(members)
        self._response = response

    def __missing__(self, key: str) -> Any:
        raise _foreign(self._response)


def _json_object(response: requests.Response) -> JsonObject | None:
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _foreign(response: requests.Response) -> Failed:
    return Failed(
        f"{response.url} answered {response.status_code} and nothing we know: is this a frazil server?"
    )


def segment(name: str) -> str:
    """A name as one path segment."""
    return quote(name, safe="")


def namespace_segment(namespace: Namespace) -> str:
    """A namespace as one path segment."""
    return segment(_SEPARATOR.join(namespace.levels))


def namespace_text(namespace: Namespace) -> str:
    """A namespace as a query value."""
    return _SEPARATOR.join(namespace.levels)


def bucket_path(bucket: str) -> str:
    """Path of a bucket."""
    return f"/buckets/{segment(bucket)}"


def namespace_path(bucket: str, namespace: Namespace) -> str:
    """Path of a namespace."""
    return f"{bucket_path(bucket)}/namespaces/{namespace_segment(namespace)}"


def table_path(bucket: str, ident: TableIdent) -> str:
    """Path of a table."""
    return f"{namespace_path(bucket, ident.namespace)}/tables/{segment(ident.name)}"


def parse_namespace(text: str) -> Namespace:
    """A namespace as people type it: levels joined by dots, a level that holds dots in double quotes."""
    return Namespace(tuple(_parts(text)))


def parse_table(text: str) -> TableIdent:
    """A table as people type it: `db.events`, `lake.raw."odd.name"`."""
    parts = _parts(text)
    if len(parts) < 2:
        raise typer.BadParameter(f"{text!r} names no namespace: write NAMESPACE.NAME")
    return TableIdent(Namespace(tuple(parts[:-1])), parts[-1])


def shown_name(levels: list[str] | None, name: str | None = None) -> str:
    """Levels and a name as `parse_table` reads them."""
    parts = [*(levels or []), *([] if name is None else [name])]
    return ".".join(
        f'"{part.replace(chr(34), chr(34) * 2)}"' if set(part) & set('."') else part for part in parts
    )


def _parts(text: str) -> list[str]:
    parts: list[str] = []
    rest = text
    while True:
        part, rest = _quoted(rest, text) if rest.startswith('"') else _plain(rest)
        if not part:
            raise typer.BadParameter(f"{text!r} has an empty part")
        parts.append(part)
        if not rest:
            return parts
        rest = rest[1:]


def _plain(rest: str) -> tuple[str, str]:
    part, dot, tail = rest.partition(".")
    return part, dot + tail


def _quoted(rest: str, whole: str) -> tuple[str, str]:
    part, position = "", 1
    while True:
        end = rest.find('"', position)
        if end < 0:
            raise typer.BadParameter(f"{whole!r} has a quote that does not end")
        part += rest[position:end]
        if rest[end + 1 : end + 2] != '"':
            break
        part, position = part + '"', end + 2
    tail = rest[end + 1 :]
    if tail and not tail.startswith("."):
        raise typer.BadParameter(f"{whole!r}: after a quoted part comes a dot or the end")
    return part, tail


def without_client_variables() -> dict[str, str]:
    """The environment without what only client commands read, for the server's settings."""
    return {name: value for name, value in os.environ.items() if name not in (URL_VARIABLE, TOKEN_VARIABLE)}
