"""Topics registered at the catalog, over HTTP: read by processes that ingest, changed by `frazil ingest topic`.

They are of Frazil's own management API, beside the Iceberg catalog at `[catalog] uri`. Other catalogs do not have it,
and whoever asks there is told so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import orjson
import requests

from ingest_plugin.settings import CatalogSettings
from table_format.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NotFound,
    TableFormatError,
    Unavailable,
    Unsupported,
    VersionConflict,
)
from table_format.jsontypes import JsonObject
from table_format.rest import DEFAULT_TIMEOUTS, Bearer

_ICEBERG, _MANAGEMENT = "/iceberg", "/api/v1"
_PROBLEM = "urn:frazil:problem:"
_PAGE = 1000
_ANY = '"0"'


class RegisteredTopics(Protocol):
    """Where registrations are read."""

    def of(self, group: str) -> Mapping[str, Mapping[str, Any]]:
        """What the topics registered for a group of processes are told, by topic.

        Raises:
            Unavailable: it does not answer now.
            Unsupported: the catalog has no registrations.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One topic as it is registered; `etag` names this version of it."""

    topic: str
    group: str
    settings: JsonObject
    etag: str


class Registrations:
    """The registrations at one bucket of a Frazil server."""

    def __init__(self, catalog: CatalogSettings) -> None:
        uri = catalog.uri.rstrip("/")
        self._uri = uri
        # An ARN names its bucket at its end.
        self._bucket = catalog.warehouse.rpartition("/")[2]
        self._base = f"{uri.removesuffix(_ICEBERG)}{_MANAGEMENT}" if uri.endswith(_ICEBERG) else None
        self._session = requests.Session()
        token = catalog.token.get_secret_value()
        self._auth = Bearer(token) if token else None
        self._known = False
        """Whether there ever was an answer of a server that has registrations."""

    def of(self, group: str) -> Mapping[str, Mapping[str, Any]]:
        """What the topics registered for a group of processes are told, by topic.

        Raises:
            Unavailable: the server does not answer now.
            Unsupported: this is no Frazil server, or one without registrations.
        """
        return {each.topic: each.settings for each in self.all() if each.group == group}

    def all(self) -> Iterator[Registration]:
        """All registrations, by topic.

        Raises:
            Unavailable, Unsupported: as `of`.
        """
        token: str | None = None
        while True:
            query = {"pageSize": str(_PAGE)} | ({} if token is None else {"pageToken": token})
            page, _ = self._ask("GET", "topics", tells="topics", query=query)
            for each in page["topics"]:
                yield _registration(each)
            token = page.get("nextPageToken")
            if not token:
                return

    def find(self, topic: str) -> Registration | None:
        """One registration.

        Raises:
            Unavailable, Unsupported: as `of`.
        """
        if not self._known:
            next(self.all(), None)  # else a missing topic would look like a missing API
        try:
            found, _ = self._ask("GET", f"topics/{_segment(topic)}", tells="topic")
        except NotFound:
            return None
        return _registration(found)

    def put(self, topic: str, group: str, settings: Mapping[str, Any], etag: str | None) -> Registration:
        """Register a topic (an `etag` of None: it must not be there yet), or say something else of one.

        Raises:
            Invalid: the settings are not those of a topic.
            AlreadyExists: it, or another topic of the table, is registered.
            VersionConflict: somebody else changed it.
            Unavailable, Unsupported: as `of`.
        """
        body = {"group": group, "settings": dict(settings)}
        path = f"topics/{_segment(topic)}"
        found, _ = self._ask("PUT", path, tells="topic", body=body, etag=etag or _ANY)
        return _registration(found)

    def remove(self, topic: str, etag: str) -> None:
        """Register a topic no more.

        Raises:
            NotFound: it is not registered.
            VersionConflict: somebody else changed it.
            Unavailable, Unsupported: as `of`.
        """
        self._ask("DELETE", f"topics/{_segment(topic)}", etag=etag)

    def history(self, topic: str | None) -> list[JsonObject]:
        """The newest changes, of one topic or all.

        Raises:
            Unavailable, Unsupported: as `of`.
        """
        query = {"pageSize": "100"} | ({} if topic is None else {"topic": topic})
        page, _ = self._ask("GET", "history", tells="changes", query=query)
        changes: list[JsonObject] = page["changes"]
        return changes

    def _ask(
        self,
        method: str,
        path: str,
        *,
        tells: str | None = None,
        body: JsonObject | None = None,
        query: Mapping[str, str] | None = None,
        etag: str | None = None,
    ) -> tuple[JsonObject, str]:
        if self._base is None:
            raise self._not_offered(f"its address does not end with {_ICEBERG}")
        headers = {"Accept": "application/json"} | ({} if etag is None else {"If-Match": etag})
        try:
            answer = self._session.request(
                method,
                f"{self._base}/buckets/{_segment(self._bucket)}/ingest/{path}",
                json=body,
                params=dict(query or {}),
                headers=headers,
                auth=self._auth,
                timeout=DEFAULT_TIMEOUTS,
            )
        except requests.RequestException as error:
            raise Unavailable(f"cannot reach the catalog at {self._uri}: {error}") from error
        document = _object(answer)
        # Proxies and other catalogs may answer with a document, too: ours has the member that is asked for.
        if answer.ok and document is not None and (tells is None or tells in document):
            self._known = True
            return document, answer.headers.get("ETag", "")
        raise self._failure(answer, document)

    def _failure(self, answer: requests.Response, document: JsonObject | None) -> TableFormatError:
        status, told = answer.status_code, f"it answered {answer.status_code}"
        detail = str((document or {}).get("detail") or told)
        if status in (401, 403):
            return Forbidden(f"the catalog at {self._uri} refuses us: {detail}")
        if status >= 500 or status in (408, 429):
            return Unavailable(f"the catalog at {self._uri}: {detail}")
        kinds = {400: Invalid, 404: NotFound, 409: AlreadyExists, 412: VersionConflict, 422: Invalid}
        # A path that it does not have is a 404 of a Frazil server, too.
        ours = str((document or {}).get("type")).startswith(_PROBLEM) and status != requests.codes.not_found
        if (self._known or ours) and status in kinds:
            return kinds[status](detail)
        if self._known:
            return Unavailable(f"the catalog at {self._uri}: {detail}")
        return self._not_offered(detail)

    def _not_offered(self, why: str) -> Unsupported:
        return Unsupported(
            f"the catalog at {self._uri} has no registered topics ({why}): only a Frazil server has, at"
            f" {_MANAGEMENT} beside {_ICEBERG}; topics of the file are read all the same"
        )


def _registration(document: JsonObject) -> Registration:
    return Registration(
        topic=document["topic"],
        group=document["group"],
        settings=document["settings"],
        etag=f'"{document["version"]}"',
    )


def _object(answer: requests.Response) -> JsonObject | None:
    if not answer.content:
        return {} if answer.status_code == requests.codes.no_content else None
    try:
        found = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _segment(text: str) -> str:
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")
