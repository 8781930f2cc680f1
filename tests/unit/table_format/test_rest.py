"""What is sent for each call, and what each answer means. The HTTP library is real, its transport is not."""

import socket
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError

from table_format.catalog import NewTable, TableChange
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
from table_format.ident import TableIdent
from table_format.rest import RestCatalog

IDENT = TableIdent.of("db", "t")
METADATA = {"format-version": 2, "table-uuid": "u", "location": "file:///w/t", "snapshot-id": 2**63 - 1}
LOADED = {"metadata-location": "file:///w/t/metadata/00000-x.metadata.json", "metadata": METADATA}
CONFIG = {"defaults": {}, "overrides": {"prefix": "bucket"}, "endpoints": ["GET /v1/{prefix}/namespaces"]}


class Transport(BaseAdapter):
    """Answers in turn: (status, body, headers) or an exception; the config route answers by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.config: object = CONFIG
        self.answers: list[Any] = []
        self.sent: list[tuple[str, str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.options: list[tuple[Any, ...]] = []

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        url = request.url or ""
        if "/v1/config" in url and self.config is not None:
            return self._respond(request, 200, self.config, {})
        body = None if request.body is None else orjson.loads(request.body)
        self.sent.append((request.method or "", url, body))
        self.headers.append(request.headers)
        self.options.append((timeout,))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return self._respond(request, *answer)

    def _respond(
        self, request: requests.PreparedRequest, status: int, body: object = None, headers: Any = None
    ) -> requests.Response:
        response = requests.Response()
        response.status_code = status
        response.reason = "Reason"
        response._content = body if isinstance(body, bytes) else orjson.dumps(body)
        response.headers.update(headers or {})
        response.request = request
        response.url = request.url or ""
        return response

    def close(self) -> None:
        pass


def error(
    status: int, kind: str = "", message: str = "why", **headers: str
) -> tuple[int, object, dict[str, str]]:
    return status, {"error": {"message": message, "type": kind, "code": status}}, headers


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def catalog(transport: Transport) -> RestCatalog:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", transport)
    return RestCatalog("http://catalog.test/iceberg/", "bucket", "secret", session, (1.5, 30.0))


def test_load(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((200, {**LOADED, "config": {"a": "b"}}))
    table = catalog.load(IDENT)
    assert transport.sent == [("GET", "http://catalog.test/iceberg/v1/bucket/namespaces/db/tables/t", None)]
    assert transport.headers[0]["Authorization"] == "Bearer secret"
    assert transport.options == [((1.5, 30.0),)]
    assert (table.ident, table.metadata_location) == (IDENT, LOADED["metadata-location"])
    assert table.metadata.document == METADATA
    assert table.config == {"a": "b"}


def test_config_is_asked_for_once_with_the_warehouse(catalog: RestCatalog, transport: Transport) -> None:
    transport.config = None
    transport.answers.append((200, {"defaults": {"x": "1", "y": "1"}, "overrides": {"y": "2"}}))
    assert catalog.config().properties == {"x": "1", "y": "2"}
    assert catalog.config().prefix == ""
    assert [url for _, url, _ in transport.sent] == ["http://catalog.test/iceberg/v1/config?warehouse=bucket"]
    transport.answers.append((200, LOADED))
    catalog.load(IDENT)
    assert transport.sent[-1][1] == "http://catalog.test/iceberg/v1/namespaces/db/tables/t"


def test_config_of_an_unknown_warehouse(catalog: RestCatalog, transport: Transport) -> None:
    transport.config = None
    transport.answers.append(error(404, "NoSuchWarehouseException", "no such bucket"))
    with pytest.raises(NoSuchWarehouse, match="no such bucket"):
        catalog.config()


def test_endpoints_are_told(catalog: RestCatalog) -> None:
    assert catalog.config().endpoints == ["GET /v1/{prefix}/namespaces"]


def test_no_token_no_header(transport: Transport) -> None:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", transport)
    transport.answers.append((200, LOADED))
    RestCatalog("http://catalog.test", None, session=session).load(IDENT)
    assert "Authorization" not in transport.headers[0]
    assert transport.sent[0][1] == "http://catalog.test/v1/bucket/namespaces/db/tables/t"


@pytest.mark.parametrize(
    ("ident", "path"),
    [
        (TableIdent.of("a b", "c+d"), "namespaces/a%20b/tables/c%2Bd"),
        (TableIdent.of("x", "y", "t"), "namespaces/x%1Fy/tables/t"),
        (TableIdent.of("a/b%?#&=", "é.ü"), "namespaces/a%2Fb%25%3F%23%26%3D/tables/%C3%A9.%C3%BC"),
        (TableIdent.of("..", "."), "namespaces/%2E%2E/tables/%2E"),
        (TableIdent.of("%41", "%2F"), "namespaces/%2541/tables/%252F"),
    ],
)
def test_names_of_any_characters(
    catalog: RestCatalog, transport: Transport, ident: TableIdent, path: str
) -> None:
    transport.answers.append((200, LOADED))
    catalog.load(ident)
    assert transport.sent[0][1] == f"http://catalog.test/iceberg/v1/bucket/{path}"


def test_separator_announced_by_the_catalog(catalog: RestCatalog, transport: Transport) -> None:
    transport.config = {"defaults": {}, "overrides": {"prefix": "p", "namespace-separator": "\x1e"}}
    transport.answers.append((200, LOADED))
    catalog.load(TableIdent.of("a", "b", "t"))
    assert transport.sent[0][1] == "http://catalog.test/iceberg/v1/p/namespaces/a%1Eb/tables/t"


def test_commit(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((200, LOADED))
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2**63 - 1}
    update = {"action": "set-properties", "updates": {"k": "v"}}
    table = catalog.commit(IDENT, [requirement], [update])
    assert transport.sent == [
        (
            "POST",
            "http://catalog.test/iceberg/v1/bucket/namespaces/db/tables/t",
            {
                "identifier": {"namespace": ["db"], "name": "t"},
                "requirements": [requirement],
                "updates": [update],
            },
        )
    ]
    assert table.metadata.document["snapshot-id"] == 2**63 - 1
    assert "Idempotency-Key" not in transport.headers[0]


def test_a_commit_to_two_tables(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((204, b""))
    other = TableIdent.of("a", "b", "other")
    update = {"action": "set-properties", "updates": {"k": "v"}}
    changes = [
        TableChange(ident=ident, requirements=[{"type": "assert-create"}], updates=[update])
        for ident in (IDENT, other)
    ]
    catalog.commit_together(changes)
    ((method, url, body),) = transport.sent
    assert (method, url) == ("POST", "http://catalog.test/iceberg/v1/bucket/transactions/commit")
    assert [change["identifier"] for change in body["table-changes"]] == [
        {"namespace": ["db"], "name": "t"},
        {"namespace": ["a", "b"], "name": "other"},
    ]
    assert body["table-changes"][1]["updates"] == [update]


@pytest.mark.parametrize("offered", [True, False])
def test_whether_the_catalog_commits_to_several_tables(
    catalog: RestCatalog, transport: Transport, offered: bool
) -> None:
    if offered:
        transport.config = {**CONFIG, "endpoints": ["POST /v1/{prefix}/transactions/commit"]}
    assert catalog.commits_together() is offered


REFUSED = [
    (error(400, "BadRequestException"), Invalid),
    (error(401), Forbidden),
    (error(403), Forbidden),
    (error(404, "NoSuchTableException"), NoSuchTable),
    (error(404, "NoSuchNamespaceException"), NoSuchNamespace),
    (error(404, "NoSuchWarehouseException"), NoSuchWarehouse),
    (error(404), NoSuchTable),
    (error(406), Unsupported),
    (error(409, "CommitFailedException"), CommitFailed),
    (error(413), TooLarge),
    (error(418), Invalid),
    (error(419), Forbidden),
    (error(422), Unprocessable),
    (error(429), Unavailable),
    (error(501), Unsupported),
    (error(503, **{"Retry-After": "3"}), Unavailable),
    ((307, b"", {"Location": "http://elsewhere"}), Invalid),
]
UNKNOWN = [
    error(408),
    error(500, "CommitStateUnknownException"),
    error(502),
    error(503),
    error(504),
    error(520),
    (502, b"<html>Bad Gateway</html>"),
    (200, b"cut off {"),
    (200, []),
    (200, {"metadata-location": "x"}),
    (200, {"metadata-location": "x", "metadata": {"format-version": 4}}),
    requests.exceptions.ReadTimeout("read timed out"),
    requests.exceptions.ConnectionError(
        ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
    ),
    requests.exceptions.ChunkedEncodingError("cut off"),
    requests.exceptions.SSLError("bad record"),
]
CONNECTION = HTTPConnection("catalog.test")
NOT_SENT = [
    requests.exceptions.ConnectTimeout("no answer to SYN"),
    requests.exceptions.ConnectionError(
        MaxRetryError(
            HTTPConnectionPool("catalog.test"), "/", NewConnectionError(CONNECTION, "Connection refused")
        )
    ),
    requests.exceptions.ConnectionError(
        MaxRetryError(
            HTTPConnectionPool("catalog.test"), "/", NewConnectionError(CONNECTION, str(socket.gaierror()))
        )
    ),
]


@pytest.mark.parametrize(("answer", "kind"), REFUSED)
def test_commit_that_was_certainly_refused(
    catalog: RestCatalog, transport: Transport, answer: Any, kind: type[TableFormatError]
) -> None:
    transport.answers.append(answer)
    with pytest.raises(TableFormatError) as caught:
        catalog.commit(IDENT, [], [])
    assert type(caught.value) is kind
    assert len(transport.sent) == 1


@pytest.mark.parametrize(("answer", "kind"), REFUSED)
def test_a_commit_to_several_that_was_certainly_refused(
    catalog: RestCatalog, transport: Transport, answer: Any, kind: type[TableFormatError]
) -> None:
    transport.answers.append(answer)
    with pytest.raises(TableFormatError) as caught:
        catalog.commit_together([])
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "answer", [each for each in UNKNOWN if not (isinstance(each, tuple) and each[0] == 200)]
)
def test_a_commit_to_several_whose_outcome_is_unknown(
    catalog: RestCatalog, transport: Transport, answer: Any
) -> None:
    transport.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        catalog.commit_together([])
    assert len(transport.sent) == 1


@pytest.mark.parametrize("answer", UNKNOWN)
def test_commit_whose_outcome_is_unknown_is_never_sent_again(
    catalog: RestCatalog, transport: Transport, answer: Any
) -> None:
    transport.answers.append(answer)
    with pytest.raises(CommitStateUnknown):
        catalog.commit(IDENT, [], [])
    assert len(transport.sent) == 1


@pytest.mark.parametrize("answer", NOT_SENT)
def test_commit_that_was_never_sent(catalog: RestCatalog, transport: Transport, answer: Any) -> None:
    transport.answers.append(answer)
    with pytest.raises(Unavailable):
        catalog.commit(IDENT, [], [])


@pytest.mark.parametrize(
    "answer", [*UNKNOWN[:-6], *UNKNOWN[-4:], *NOT_SENT, error(429), error(503, **{"Retry-After": "3"})]
)
def test_load_without_a_usable_answer_is_unavailable(
    catalog: RestCatalog, transport: Transport, answer: Any
) -> None:
    transport.answers.append(answer)
    with pytest.raises(Unavailable):
        catalog.load(IDENT)


def test_load_of_a_newer_format(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((200, {"metadata-location": "x", "metadata": {"format-version": 4}}))
    with pytest.raises(Unsupported, match="format version 4"):
        catalog.load(IDENT)


def test_message_of_the_catalog_is_kept(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append(
        error(409, "CommitFailedException", "Requirement failed: branch main has changed")
    )
    with pytest.raises(CommitFailed, match="Requirement failed: branch main has changed"):
        catalog.commit(IDENT, [], [])


def test_credentials_of_the_longest_prefix_win(catalog: RestCatalog, transport: Transport) -> None:
    credentials = [
        {"prefix": "file:///", "config": {"key": "wide"}},
        {"prefix": "file:///w/t", "config": {"key": "narrow"}},
        {"prefix": "s3://other/long/prefix", "config": {"key": "foreign"}},
    ]
    transport.answers.append(
        (200, {**LOADED, "config": {"key": "plain", "a": "b"}, "storage-credentials": credentials})
    )
    assert catalog.load(IDENT).config == {"key": "narrow", "a": "b"}


NEW = NewTable(
    schema={"type": "struct", "fields": []},
    partition_spec={"fields": []},
    write_order={"fields": []},
    properties={"p": "1"},
)


def test_create(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((200, LOADED))
    assert catalog.create(IDENT, NEW).metadata.document == METADATA
    assert transport.sent == [
        (
            "POST",
            "http://catalog.test/iceberg/v1/bucket/namespaces/db/tables",
            {
                "name": "t",
                "schema": NEW.schema,
                "properties": {"p": "1"},
                "partition-spec": {"fields": []},
                "write-order": {"fields": []},
            },
        )
    ]


def test_create_makes_missing_namespaces_level_by_level(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.extend(
        [
            error(404, "NoSuchNamespaceException"),
            error(409, "AlreadyExistsException"),
            (200, {"namespace": ["a", "b"]}),
            (200, LOADED),
        ]
    )
    catalog.create(TableIdent.of("a", "b", "t"), NEW)
    base = "http://catalog.test/iceberg/v1/bucket/namespaces"
    assert [(url, body.get("namespace")) for _, url, body in transport.sent] == [
        (f"{base}/a%1Fb/tables", None),
        (base, ["a"]),
        (base, ["a", "b"]),
        (f"{base}/a%1Fb/tables", None),
    ]


def test_create_of_a_taken_name(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append(error(409, "AlreadyExistsException", "Table already exists: db.t"))
    with pytest.raises(AlreadyExists, match=r"Table already exists: db\.t"):
        catalog.create(IDENT, NEW)


def test_create_without_an_answer_is_unknown(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append(error(504))
    with pytest.raises(CommitStateUnknown):
        catalog.create(IDENT, NEW)


def test_create_sends_only_what_was_given(catalog: RestCatalog, transport: Transport) -> None:
    transport.answers.append((200, LOADED))
    catalog.create(IDENT, NewTable(schema=NEW.schema))
    assert transport.sent[0][2] == {"name": "t", "schema": NEW.schema, "properties": {}}
