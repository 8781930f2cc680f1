"""Client of a schema registry with Confluent's REST paths: schemas by id, with their references.

Ids never change their meaning, so found schemas are kept for ever; "not found" is kept for a while, so that garbage
ids do not become a request per record. The base URL keeps its path.
"""

from dataclasses import dataclass
from urllib.parse import quote

import requests

from ingest_plugin.settings import RegistrySettings
from table_format.clock import Clock
from table_format.errors import Forbidden, Unavailable
from table_format.jsontypes import JsonObject

CONNECT_SECONDS, READ_SECONDS = 3.05, 10.0
NOT_FOUND_SECONDS = 30.0
_MAX_REFERENCES = 200
_MAX_NOT_FOUND = 10_000
_MISSING = (40401, 40402, 40403)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema's text, its kind (AVRO, PROTOBUF, JSON), and the texts it refers to, each after those it needs."""

    kind: str
    text: str
    references: tuple[str, ...] = ()


class SchemaRegistry:
    """Schemas by id."""

    def __init__(self, settings: RegistrySettings, clock: Clock) -> None:
        self._base = settings.url.rstrip("/")
        self._clock = clock
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
        if settings.token.get_secret_value():
            self._session.headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        elif settings.username:
            self._session.auth = (settings.username, settings.password.get_secret_value())
        self._known: dict[int, RegisteredSchema] = {}
        self._not_found: dict[int, float] = {}

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of that id, or None when the registry does not have it.

        Raises:
            Unavailable: the registry does not answer properly.
            Forbidden: it refuses our credentials.
        """
        if (known := self._known.get(schema_id)) is not None:
            return known
        asked = self._not_found.get(schema_id)
        if asked is not None and self._clock.monotonic() - asked < NOT_FOUND_SECONDS:
            return None
        found = self._get(f"/schemas/ids/{schema_id}")
        if found is None:
            if len(self._not_found) >= _MAX_NOT_FOUND:
                self._not_found.clear()
            self._not_found[schema_id] = self._clock.monotonic()
            return None
        references: dict[tuple[str, int], str] = {}
        self._follow(found, references)
        schema = RegisteredSchema(
            kind=str(found.get("schemaType") or "AVRO"),
            text=_text(found),
            references=tuple(references.values()),
        )
        self._known[schema_id] = schema
        return schema

    def check(self) -> None:
        """Ask something harmless.

        Raises:
            Unavailable: the registry does not answer properly.
            Forbidden: it refuses our credentials.
        """
        self._get("/subjects")

    def _follow(self, schema: JsonObject, found: dict[tuple[str, int], str]) -> None:
        for key in _references(schema):
            if key in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise Unavailable(f"schema registry: more than {_MAX_REFERENCES} references")
            answer = self._get(f"/subjects/{quote(key[0], safe='')}/versions/{key[1]}")
            if answer is None:
                raise Unavailable(f"schema registry: referenced subject {key[0]} version {key[1]} is missing")
            self._follow(answer, found)
            found[key] = _text(answer)

    def _get(self, path: str) -> JsonObject | None:
        try:
            response = self._session.get(self._base + path, timeout=(CONNECT_SECONDS, READ_SECONDS))
        except requests.RequestException as error:
            raise Unavailable(
                f"schema registry at {self._base} does not answer: {type(error).__name__}"
            ) from None
        if response.status_code == requests.codes.not_found and _says_missing(response):
            return None
        if response.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise Forbidden(f"schema registry at {self._base} refuses us: HTTP {response.status_code}")
        if response.status_code != requests.codes.ok:
            raise Unavailable(f"schema registry at {self._base}: HTTP {response.status_code} for {path}")
        try:
            answer = response.json()
        except requests.JSONDecodeError:
            raise Unavailable(f"schema registry at {self._base}: no JSON for {path}") from None
        return answer if isinstance(answer, dict) else {}


def _references(schema: JsonObject) -> list[tuple[str, int]]:
    try:
        return [(str(one["subject"]), int(one["version"])) for one in schema.get("references") or ()]
    except (LookupError, TypeError, ValueError):
        raise Unavailable("schema registry: a reference without subject or version") from None


def _says_missing(response: requests.Response) -> bool:
    """Whether this 404 is about a subject, version or schema (40401 to 40403), and not about the address."""
    try:
        return response.json()["error_code"] in _MISSING
    except (requests.JSONDecodeError, LookupError, TypeError):
        return False


def _text(answer: JsonObject) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise Unavailable("schema registry: an answer without 'schema'")
    return text
