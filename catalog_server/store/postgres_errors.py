"""What PostgreSQL's and asyncpg's errors mean: worth another try, unavailable, or a fault of the caller's."""

import socket
import ssl

import asyncpg
from sqlalchemy.exc import DBAPIError

from table_format.errors import Invalid, Unavailable

ANY = (DBAPIError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Every way in which a statement, or the way to the server, can fail."""

_NUL_CHARACTER = "22021"
_LIMIT_EXCEEDED = "54000"
_STATEMENT_COMPLETION_UNKNOWN = "40003"
# Serialization failure and deadlock; and what a unit meets when another inserts or deletes between its look and its
# step. The next try sees what the other did, and says so in its own words.
_MAY_PASS = {"40001", "40P01", "23505", "23503", "23P01"}
# Connection lost, resources (memory, disk, connections) used up, told to stop, lock or statement timeout, a standby.
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")
_UNAVAILABLE = {"55P03", "25006", "25P03", "25P04", "40001", "40P01"}


class Again(Exception):
    """A unit was certainly undone, by something that another try may not meet."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def sqlstate(error: BaseException | None) -> str | None:
    """The server's five-character code, through the layers; None when the server did not say anything."""
    while error is not None:
        found = getattr(error, "sqlstate", None)
        if isinstance(found, str):
            return found
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return None


def may_pass(error: BaseException) -> bool:
    """Whether the same unit may succeed (or be refused for a good reason) when it is run again at once."""
    return sqlstate(error) in _MAY_PASS or _is_stale_statement(error)


def undone_by_server(error: BaseException) -> bool:
    """Whether an error in answer to COMMIT says that nothing was applied."""
    code = sqlstate(error)
    return code is not None and code[:2] in {"23", "40"} and code != _STATEMENT_COMPLETION_UNKNOWN


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, so that another one may answer."""
    code = sqlstate(error)
    if code is not None:
        return code.startswith(("08", "57P"))
    return _is_connection_error(error) and not isinstance(_innermost(error), TimeoutError)


def is_nul_character(error: BaseException) -> bool:
    """Whether a text had the one character that PostgreSQL does not store."""
    return sqlstate(error) == _NUL_CHARACTER


def refused(error: BaseException, label: str) -> BaseException:
    """What to raise for a unit that certainly changed nothing: the error itself when it is a fault of this program."""
    if is_nul_character(error):
        return Invalid("a name or value holds the character U+0000, which can not be stored")
    code = sqlstate(error)
    if code == _LIMIT_EXCEEDED:
        return Invalid("a name, id or location is too long to be stored")
    known = code is not None and (code[:2] in _UNAVAILABLE_CLASSES or code in _UNAVAILABLE)
    if known or _is_stale_statement(error) or (code is None and _is_connection_error(error)):
        return unavailable(error, label)
    return error


def unavailable(error: BaseException, label: str) -> Unavailable:
    """The error for whoever asked."""
    if isinstance(error, Unavailable):
        return error
    return Unavailable(
        f"the catalog's database {label} does not answer now ({_text(error)}); nothing was changed"
    )


def start_reason(error: BaseException) -> str:
    """Why a database can not be used, in one line without secrets."""
    cause = _innermost(error)
    if isinstance(cause, asyncpg.InvalidCatalogNameError):
        return f"{_text(cause)}; create it first (createdb)"
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    if isinstance(cause, ssl.SSLError):
        return f"no secure connection: {cause.reason or 'TLS failed'}"
    if isinstance(cause, asyncpg.ClientConfigurationError):
        return "the URL is not a PostgreSQL one; write special characters of the password as %XX"
    return _text(cause)


def _text(error: BaseException) -> str:
    cause = _innermost(error)
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    text = str(cause).strip().split("\n")[0]
    return text or type(cause).__name__


def _innermost(error: BaseException) -> BaseException:
    """The driver's own error."""
    while isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig.__cause__ or error.orig
    return error


def _is_connection_error(error: BaseException) -> bool:
    cause = _innermost(error)
    if isinstance(cause, ValueError):
        return False  # a value that the driver can not send
    return isinstance(cause, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError)


def _is_stale_statement(error: BaseException) -> bool:
    """A migration by a newer server made a prepared statement useless; the next try prepares it anew."""
    return isinstance(_innermost(error), asyncpg.exceptions.InvalidCachedStatementError)
