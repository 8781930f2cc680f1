"""Client of a schema registry with Confluent's REST paths: schemas by id, guid or latest version, with references.

Ids never change their meaning, so found schemas are kept for ever; "not found" is kept for a while and in bounded
number, so that garbage ids do not become a request per record; what is latest is kept for a while. A base URL keeps
its path. Several URLs are one registry: whichever answers is asked first from then on.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter

from ingest_plugin.settings import RegistrySettings
from table_format.clock import Clock
from table_format.errors import Forbidden, Unavailable
from table_format.jsontypes import JsonObject

CONNECT_SECONDS, READ_SECONDS = 3.05, 10.0
NOT_FOUND_SECONDS = 30.0
LATEST_SECONDS = 300.0
SOONEST_LATEST_SECONDS = 5.0
"""How soon a subject is asked for anew when a record does not fit the version that was the latest."""
_MAX_REFERENCES = 200
_MAX_NOT_FOUND = 10_000
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
_MISSING = (40401, 40402, 40403)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A schema that another refers to, under the name that the other uses: a type's, an import's path, a URL."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema's text, its kind (AVRO, PROTOBUF, JSON), and what it refers to, each after those it needs."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    id: int = 0


class _NoSuchPath(Unavailable):
    """404 without a word on what is missing: a wrong address, or an id that the registry does not even take."""


class SchemaRegistry:
    """Schemas by id."""

    def __init__(self, settings: RegistrySettings, clock: Clock) -> None:
        self._bases = [url.rstrip("/") for url in settings.urls]
        self._clock = clock
        self._session = requests.Session()
        # Idle connections that a proxy closed are opened anew; answers that say something are never asked for twice.
        self._session.mount("http://", HTTPAdapter(max_retries=0))
        self._session.mount("https://", HTTPAdapter(max_retries=0))
        self._session.headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
        # Given with every request: what the environment says of authorities would win over a session's.
        self._authority: str | bool = settings.ca_file or True
        if settings.cert_file:
            self._session.cert = (
                (settings.cert_file, settings.key_file) if settings.key_file else settings.cert_file
            )
        if settings.token.get_secret_value():
            self._session.headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        elif settings.username:
            self._session.auth = (settings.username, settings.password.get_secret_value())
        self._known: dict[Hashable, RegisteredSchema] = {}
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}
        self._not_found: dict[Hashable, float] = {}

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema of that id, or None when the registry does not have it.

        Raises:
            Unavailable: the registry does not answer properly.
            Forbidden: it refuses our credentials.
        """
        return self._cached(schema_id, f"/schemas/ids/{schema_id}", lambda _found: schema_id)

    def schema_by_guid(self, guid: str) -> RegisteredSchema | None:
        """The schema of that globally unique id, or None; raises as `schema` does."""
        return self._cached(guid, f"/schemas/guids/{quote(guid, safe='')}", lambda found: found.get("id"))

    def latest(self, subject: str, *, newer: bool = False) -> RegisteredSchema | None:
        """The latest version of a subject, or None; with `newer` the registry is asked again, within reason.

        Raises:
            Unavailable: the registry does not answer properly.
            Forbidden: it refuses our credentials.
        """
        now = self._clock.monotonic()
        if (kept := self._latest.get(subject)) is not None:
            asked, schema = kept
            if now - asked < (SOONEST_LATEST_SECONDS if newer else LATEST_SECONDS):
                return schema
        found = self._find(("latest", subject), f"/subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            return None
        schema = self._whole(found, found.get("id"))
        self._latest[subject] = (now, schema)
        return schema

    def check(self) -> None:
        """Ask something harmless.

        Raises:
            Unavailable: the registry does not answer properly.
            Forbidden: it refuses our credentials.
        """
        self._get("/subjects")

    def _cached(
        self, key: Hashable, path: str, id_of: Callable[[JsonObject], object]
    ) -> RegisteredSchema | None:
        if (known := self._known.get(key)) is not None:
            return known
        found = self._find(key, path)
        if found is None:
            return None
        schema = self._known[key] = self._whole(found, id_of(found))
        return schema

    def _find(self, key: Hashable, path: str) -> JsonObject | None:
        """The answer, or None when it is missing or was missing a moment ago."""
        asked = self._not_found.get(key)
        if asked is not None and self._clock.monotonic() - asked < NOT_FOUND_SECONDS:
            return None
        try:
            found = self._get(path)
        except _NoSuchPath:
            # A damaged record may name an id that it has no path for. If it answers otherwise, there is none.
            self.check()
            found = None
        self._not_found.pop(key, None)
        if found is None:
            while len(self._not_found) >= _MAX_NOT_FOUND:
                del self._not_found[next(iter(self._not_found))]
            self._not_found[key] = self._clock.monotonic()
        return found

    def _whole(self, found: JsonObject, schema_id: object) -> RegisteredSchema:
        references: dict[tuple[str, str, int], str] = {}
        self._follow(found, references)
        return RegisteredSchema(
            kind=str(found.get("schemaType") or "AVRO"),
            text=_text(found),
            references=tuple(Reference(name=key[0], text=text) for key, text in references.items()),
            id=schema_id if isinstance(schema_id, int) else 0,
        )

    def _follow(self, schema: JsonObject, found: dict[tuple[str, str, int], str]) -> None:
        for key in _references(schema):
            if key in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise Unavailable(f"schema registry: more than {_MAX_REFERENCES} references")
            _name, subject, version = key
            answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if answer is None:
                raise Unavailable(
                    f"schema registry: referenced subject {subject} version {version} is missing"
                )
            # Known before it is followed: schemas that refer to each other in a circle end here.
            found[key] = _text(answer)
            self._follow(answer, found)
            found[key] = found.pop(key)  # last: it comes after those it needs

    def _get(self, path: str) -> JsonObject | None:
        """Ask one URL after the other, first that which answered last.

        Raises:
            Unavailable: none answers properly.
            Forbidden: one refuses us.
        """
        troubles: list[Unavailable] = []
        for base in list(self._bases):
            try:
                answer = self._ask(base, path)
            except Unavailable as trouble:
                troubles.append(trouble)
                continue
            if troubles:
                self._bases.remove(base)
                self._bases.insert(0, base)
            return answer
        # Who answers that there is no such path says more than who does not answer.
        told = next((trouble for trouble in troubles if isinstance(trouble, _NoSuchPath)), None)
        if told is not None or len(troubles) == 1:
            raise told or troubles[0]
        raise Unavailable("; ".join(map(str, troubles)))

    def _ask(self, base: str, path: str) -> JsonObject | None:
        try:
            response = self._session.get(
                base + path,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                allow_redirects=False,
                verify=self._authority,
            )
        except requests.exceptions.SSLError as error:
            raise Unavailable(
                f"schema registry at {base}: no trusted TLS connection ({_reason(error)}); set ca_file, or cert_file"
                " and key_file, in [registry]"
            ) from None
        except (requests.RequestException, OSError) as error:
            raise Unavailable(f"schema registry at {base} does not answer: {type(error).__name__}") from None
        if response.status_code == requests.codes.not_found and _says_missing(response):
            return None
        if response.status_code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise Forbidden(
                f"schema registry at {base} refuses us: HTTP {response.status_code}; check username and password, or"
                " token, in [registry]"
            )
        if response.status_code == requests.codes.not_found:
            raise _NoSuchPath(f"schema registry at {base}: HTTP 404 for {path}; is its path part of the URL?")
        if response.status_code != requests.codes.ok:
            raise Unavailable(f"schema registry at {base}: HTTP {response.status_code} for {path}")
        if len(response.content) > _MAX_ANSWER_BYTES:
            raise Unavailable(f"schema registry at {base}: more than {_MAX_ANSWER_BYTES} bytes for {path}")
        try:
            answer = response.json()
        except requests.JSONDecodeError:
            raise Unavailable(f"schema registry at {base}: no JSON for {path}") from None
        return answer if isinstance(answer, dict) else {}


def _reason(error: Exception) -> str:
    """The innermost message: urllib3 wraps it several times, with addresses of objects."""
    inner: BaseException = error
    while (cause := getattr(inner, "reason", None) or (inner.args[0] if inner.args else None)) is not None:
        if not isinstance(cause, BaseException):
            break
        inner = cause
    return " ".join(str(inner).split())[:200]


def _references(schema: JsonObject) -> list[tuple[str, str, int]]:
    try:
        return [
            (str(one.get("name") or one["subject"]), str(one["subject"]), int(one["version"]))
            for one in schema.get("references") or ()
        ]
    except (LookupError, TypeError, ValueError, AttributeError):
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
