"""`RestCatalog`: the catalog port over any Iceberg REST catalog.

Owns paths, headers and what an answer means for a commit: refused, applied, or unknown. It sends each commit once
and never again by itself; deciding what to do next is `table_format.commit.retry`'s work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, urlencode

import orjson
import requests
import requests.auth
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from table_format.catalog import LoadedTable, NewTable, TableChange
from table_format.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    Forbidden,
    Invalid,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchWarehouse,
    TableFormatError,
    TooLarge,
    Unavailable,
    Unprocessable,
    Unsupported,
)
from table_format.ident import Namespace, TableIdent
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

DEFAULT_SEPARATOR = "\x1f"
DEFAULT_TIMEOUTS = (10.0, 120.0)
"""Seconds to connect, and between two bytes of an answer."""

_TRANSACTIONS = "POST /v1/{prefix}/transactions/commit"

_REFUSALS: dict[int, type[TableFormatError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    405: Unsupported,
    406: Unsupported,
    413: TooLarge,
    415: Invalid,
    419: Forbidden,
    422: Unprocessable,
    429: Unavailable,
    501: Unsupported,
}


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """The catalog's answer to `GET v1/config`, overrides laid over defaults."""

    properties: Mapping[str, str]
    endpoints: Sequence[str]

    @property
    def prefix(self) -> str:
        """What stands between `v1/` and the resource, as given (already fit for a URL)."""
        return self.properties.get("prefix", "").strip("/")

    @property
    def separator(self) -> str:
        """What joins the levels of a namespace in a path."""
        return self.properties.get("namespace-separator") or DEFAULT_SEPARATOR


class RestCatalog:
    """One warehouse (table bucket) of a REST catalog. Not for several threads at once: give each its own."""

    def __init__(
        self,
        uri: str,
        warehouse: str | None,
        token: str | None = None,
        session: requests.Session | None = None,
        timeouts: tuple[float, float] = DEFAULT_TIMEOUTS,
    ) -> None:
        self._uri = uri.rstrip("/")
        self._warehouse = warehouse
        self._session = session if session is not None else requests.Session()
        self._timeouts = timeouts
        self._auth = Bearer(token) if token else None
        self._config: CatalogConfig | None = None

    def config(self) -> CatalogConfig:
        """The catalog's configuration, asked for once.

        Raises:
            NoSuchWarehouse: the catalog does not know the warehouse.
            Unavailable: the catalog is away.
            Forbidden: the token is not accepted.
        """
        if self._config is None:
            query = f"?{urlencode({'warehouse': self._warehouse})}" if self._warehouse else ""
            answer = self._send("GET", f"{self._uri}/v1/config{query}")
            if answer.status_code == requests.codes.not_found:
                raise NoSuchWarehouse(_error_of(answer).message)
            body = _body(answer, Unavailable)
            merged = {**(body.get("defaults") or {}), **(body.get("overrides") or {})}
            self._config = CatalogConfig(merged, body.get("endpoints") or [])
        return self._config

    def load(self, ident: TableIdent) -> LoadedTable:
        """The current table.

        Raises:
            NoSuchTable: there is none.
            Unavailable: the catalog is away.
        """
        return _loaded(ident, _body(self._send("GET", self._table_url(ident)), Unavailable))

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Apply the updates if the requirements hold; sent once, whatever comes back.

        Raises:
            CommitFailed: certainly not applied (409).
            CommitStateUnknown: may have been applied.
            Invalid: the request itself is wrong.
            NoSuchTable: there is none.
            Unavailable: certainly not applied, try later.
        """
        change = TableChange(ident=ident, requirements=requirements, updates=updates)
        answer = self._send("POST", self._table_url(ident), _change_body(change))
        if answer.status_code == requests.codes.conflict:
            raise CommitFailed(_error_of(answer).message)
        return _loaded(ident, _body(answer, CommitStateUnknown), broken=CommitStateUnknown)

    def commits_together(self) -> bool:
        """Whether the catalog says that it commits to several tables at once.

        Raises:
            Unavailable: the catalog is away.
        """
        return _TRANSACTIONS in self.config().endpoints

    def commit_together(self, changes: Sequence[TableChange]) -> None:
        """Apply all the changes or none; sent once, whatever comes back.

        Raises:
            CommitFailed: certainly none was applied (409).
            CommitStateUnknown: all may have been applied.
            Invalid: the request itself is wrong.
            NoSuchTable: one of the tables is not there.
            Unavailable: certainly none was applied, try later.
        """
        body = {"table-changes": [_change_body(change) for change in changes]}
        answer = self._send("POST", self._url("transactions/commit"), body)
        if answer.status_code == requests.codes.conflict:
            raise CommitFailed(_error_of(answer).message)
        if not 200 <= answer.status_code < 300:
            raise _failure(answer, CommitStateUnknown)

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create the table, and its namespace levels where they are missing.

        Raises:
            AlreadyExists: the name is taken.
            CommitStateUnknown: it may have been created.
        """
        body: JsonObject = {"name": ident.name, "schema": table.schema, "properties": dict(table.properties)}
        if table.partition_spec is not None:
            body["partition-spec"] = table.partition_spec
        if table.write_order is not None:
            body["write-order"] = table.write_order
        url = f"{self._namespace_url(ident.namespace)}/tables"
        try:
            return _loaded(ident, self._created(url, body), broken=CommitStateUnknown)
        except NoSuchNamespace:
            self._create_namespaces(ident.namespace)
        return _loaded(ident, self._created(url, body), broken=CommitStateUnknown)

    def _create_namespaces(self, namespace: Namespace) -> None:
        for depth in range(1, len(namespace.levels) + 1):
            levels = list(namespace.levels[:depth])
            try:
                self._created(self._url("namespaces"), {"namespace": levels, "properties": {}})
            except AlreadyExists:
                continue

    def _created(self, url: str, body: JsonObject) -> JsonObject:
        answer = self._send("POST", url, body)
        if answer.status_code == requests.codes.conflict:
            raise AlreadyExists(_error_of(answer).message)
        if answer.status_code == requests.codes.not_found:
            raise NoSuchNamespace(_error_of(answer).message)
        return _body(answer, CommitStateUnknown)

    def _url(self, path: str) -> str:
        prefix = self.config().prefix
        return f"{self._uri}/v1/{prefix}/{path}" if prefix else f"{self._uri}/v1/{path}"

    def _namespace_url(self, namespace: Namespace) -> str:
        joined = self.config().separator.join(namespace.levels)
        return self._url(f"namespaces/{_segment(joined)}")

    def _table_url(self, ident: TableIdent) -> str:
        return f"{self._namespace_url(ident.namespace)}/tables/{_segment(ident.name)}"

    def _send(self, method: str, url: str, body: JsonObject | None = None) -> requests.Response:
        """Send once. Without an answer: `Unavailable` when nothing was sent or nothing could change, else unknown."""
        headers = {"Accept": "application/json"} | (
            {} if body is None else {"Content-Type": "application/json"}
        )
        data = None if body is None else orjson.dumps(body)
        request = self._session.prepare_request(
            requests.Request(method, self._uri, headers=headers, data=data, auth=self._auth)
        )
        # requests would decode %2E and then drop "." and ".." segments: names may be just that.
        request.url = url
        settings = self._session.merge_environment_settings(url, {}, False, None, None)
        try:
            # A redirected POST would come out as a GET.
            return self._session.send(
                request, timeout=self._timeouts, allow_redirects=method == "GET", **settings
            )
        except requests.exceptions.RequestException as error:
            if method == "GET" or _never_sent(error):
                raise Unavailable(f"cannot reach the catalog at {self._uri}: {error}") from error
            raise CommitStateUnknown(f"no answer from the catalog at {self._uri}: {error}") from error


def _change_body(change: TableChange) -> JsonObject:
    return {
        "identifier": {"namespace": list(change.ident.namespace.levels), "name": change.ident.name},
        "requirements": list(change.requirements),
        "updates": list(change.updates),
    }


class Bearer(requests.auth.AuthBase):
    """A bearer token; as an auth object so that a .netrc entry for the host does not replace it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """The request with the token."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _segment(text: str) -> str:
    """One path segment; dots too are encoded where the whole segment is dots."""
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def _never_sent(error: requests.exceptions.RequestException) -> bool:
    """Whether no connection was made (refused, name unknown, connect timeout), so that no request went out."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return True
    cause = error.args[0] if error.args else None
    if isinstance(cause, MaxRetryError):
        cause = cause.reason
    return isinstance(cause, NewConnectionError | ConnectTimeoutError)


@dataclass(frozen=True, slots=True)
class _WireError:
    message: str
    type: str


def _error_of(answer: requests.Response) -> _WireError:
    """The error that an answer carries; a plain one when its body is not an Iceberg error."""
    plain = f"the catalog answered {answer.status_code} {answer.reason or ''}".rstrip()
    try:
        error = orjson.loads(answer.content)["error"]
        return _WireError(str(error.get("message") or plain), str(error.get("type") or ""))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return _WireError(plain, "")


def _body(answer: requests.Response, unclear: type[TableFormatError]) -> JsonObject:
    """The JSON object of a success; `unclear` is raised where a server may have acted before it failed.

    Raises:
        TableFormatError: of the kind that the status stands for.
    """
    status = answer.status_code
    if 200 <= status < 300:
        try:
            body = orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise unclear(f"the catalog's answer is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise unclear("the catalog's answer is not a JSON object")
        return cast("JsonObject", body)
    raise _failure(answer, unclear)


def _failure(answer: requests.Response, unclear: type[TableFormatError]) -> TableFormatError:
    status, error = answer.status_code, _error_of(answer)
    if status == requests.codes.not_found:
        return _not_found(error)
    # With Retry-After a 503 promises that nothing was done.
    if status == requests.codes.service_unavailable and "Retry-After" in answer.headers:
        return Unavailable(error.message)
    if status in _REFUSALS:
        return _REFUSALS[status](error.message)
    if status >= 500 or status == requests.codes.request_timeout:
        return unclear(error.message)
    if 300 <= status < 400:
        return Invalid(
            f"the catalog redirects to {answer.headers.get('Location', '?')}: use its final address"
        )
    return Invalid(error.message)


def _not_found(error: _WireError) -> TableFormatError:
    match error.type:
        case "NoSuchNamespaceException":
            return NoSuchNamespace(error.message)
        case "NoSuchWarehouseException":
            return NoSuchWarehouse(error.message)
        case _:
            return NoSuchTable(error.message)


def _loaded(ident: TableIdent, body: JsonObject, broken: type[TableFormatError] = Unavailable) -> LoadedTable:
    location, document = body.get("metadata-location"), body.get("metadata")
    if not isinstance(location, str) or not isinstance(document, dict):
        raise broken(f"the catalog's answer for {ident} lacks metadata-location or metadata")
    if document.get("format-version") not in (1, 2, 3):
        kind = Unsupported if broken is Unavailable else broken
        raise kind(f"{ident} has format version {document.get('format-version')!r}: 1 to 3 are known")
    return LoadedTable(
        ident=ident,
        metadata_location=location,
        metadata=TableMetadata(document),
        config=_storage_config(body, location),
    )


def _storage_config(body: JsonObject, location: str) -> dict[str, str]:
    """The table's settings, with the credentials of the longest prefix that covers it."""
    config: dict[str, str] = dict(body.get("config") or {})
    offered = [c for c in body.get("storage-credentials") or [] if location.startswith(c.get("prefix", ""))]
    if offered:
        config.update(
            max(offered, key=lambda credential: len(credential.get("prefix", ""))).get("config") or {}
        )
    return config
