"""Answers to requests that carried an Idempotency-Key, written in the transaction of the request itself.

A request with a key holds a `Claim` in its context. The first unit of work that succeeds on its behalf writes the
claim's row in the same transaction, so that effect and answer are there together or not at all; a unit that finds
the key answered already is undone. Requests without a key pay one look at a context variable.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

import orjson
from sqlalchemy import Connection, delete
from sqlalchemy.exc import IntegrityError

from catalog_server.store.lookup import Lookup, for_driver
from catalog_server.store.postgres_errors import sqlstate
from catalog_server.store.schema import idempotency
from catalog_server.store.units import row_locks
from table_format.errors import Kind, NoSuchWarehouse, TableFormatError
from table_format.jsontypes import JsonObject

# As text for the driver: every commit of a client that sends keys runs both.
_FIND = "SELECT fingerprint, outcome FROM idempotency WHERE bucket_id = ? AND principal = ? AND key = ?"
_RECORD = """
INSERT INTO idempotency (bucket_id, principal, key, fingerprint, outcome, created_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""

_NO_REFERENCE = "23503"

P = ParamSpec("P")
T = TypeVar("T")


class AlreadyAnswered(TableFormatError):
    """A request with the same key got here first: this one certainly had no effect. Never told to a client."""

    kind = Kind.CONFLICT


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """An Idempotency-Key, whose it is, and a digest of the request that it came with."""

    bucket_id: int
    principal: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the request with a key was answered."""

    fingerprint: str
    outcome: JsonObject


@dataclass(slots=True, kw_only=True)
class Claim:
    """One request's wish to have its answer kept; `note` tells what to keep of a unit's result."""

    key: RequestKey
    note: Callable[[Any], JsonObject]
    now_ms: int
    recorded: bool = field(default=False, init=False)
    """Whether a unit that ran to its end has written the row."""


_CLAIM: ContextVar[Claim | None] = ContextVar("idempotency_claim", default=None)


@contextmanager
def claiming(claim: Claim) -> Iterator[None]:
    """Let the units of work in this context (and in tasks begun in it) write the claim's row."""
    token = _CLAIM.set(claim)
    try:
        yield
    finally:
        _CLAIM.reset(token)


def joined(fn: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[Connection, P], T]:
    """The unit of work, writing the present context's claim as well; `fn` itself where there is none.

    The unit raises AlreadyAnswered, and is undone, when the key has an answer. Whoever runs units on behalf of
    several requests has to join each in that request's own context.
    """
    claim = _CLAIM.get()
    if claim is None or claim.recorded:
        return fn
    held = claim

    def unit(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        held.recorded = False  # a run before this one may have been undone
        if find(connection, held.key) is not None:
            raise AlreadyAnswered("a request with the same Idempotency-Key was answered already")
        result = fn(connection, *args, **kwargs)
        record(connection, held.key, held.note(result), held.now_ms)
        held.recorded = True
        return result

    return unit


def lookup(key: RequestKey) -> Lookup[Answer | None]:
    """The answer under that key, or None."""
    return Lookup(_FIND, (key.bucket_id, key.principal, key.key), _answer)


def find(connection: Connection, key: RequestKey) -> Answer | None:
    """The answer under that key as the unit of work sees it, or None."""
    wanted = (key.bucket_id, key.principal, key.key)
    return _answer(connection.exec_driver_sql(for_driver(connection, _FIND), wanted).all())


def record(connection: Connection, key: RequestKey, outcome: JsonObject, now_ms: int) -> None:
    """Insert an answer.

    Raises:
        NoSuchWarehouse: the bucket was deleted while the request was on its way (and maybe made anew).
    """
    values = (key.bucket_id, key.principal, key.key, key.fingerprint, orjson.dumps(outcome).decode(), now_ms)
    try:
        connection.exec_driver_sql(for_driver(connection, _RECORD), values)
    except IntegrityError as error:
        if not _is_without_bucket(error):
            raise
        raise NoSuchWarehouse("The table bucket was deleted while the request was on its way") from error


def settle(connection: Connection, key: RequestKey, outcome: JsonObject, now_ms: int) -> Answer:
    """Keep this answer, unless there is one already; the one that is kept."""
    found = find(connection, key)
    if found is not None:
        return found
    record(connection, key, outcome, now_ms)
    return Answer(fingerprint=key.fingerprint, outcome=outcome)


@row_locks
def forget_before(connection: Connection, before_ms: int) -> int:
    """Delete answers older than that; how many."""
    return connection.execute(delete(idempotency).where(idempotency.c.created_at_ms < before_ms)).rowcount


def _is_without_bucket(error: IntegrityError) -> bool:
    """Whether the one reference of the row leads nowhere."""
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorname == "SQLITE_CONSTRAINT_FOREIGNKEY"
    return sqlstate(error) == _NO_REFERENCE


def _answer(rows: Sequence[Sequence[Any]]) -> Answer | None:
    return Answer(fingerprint=rows[0][0], outcome=orjson.loads(rows[0][1])) if rows else None
