"""The only exception tree of the project.

A kind says what a caller may do about an error; a class below it exists only where a door has to name the
thing (the Iceberg REST envelope distinguishes a missing table from a missing namespace). Messages say what,
which and what to do, and are written for the person who sent the request.

    TableFormatError
    ├── NotFound                  NOT_FOUND
    │   ├── NoSuchWarehouse, NoSuchNamespace, NoSuchTable, NoSuchView, NoSuchFunction, NoSuchFile, NoSuchJob,
    │   │   NoSuchPlan, NoSuchPlanTask
    ├── AlreadyExists             ALREADY_EXISTS
    │   └── NameTaken                                 a table or view has the name
    ├── NamespaceNotEmpty         CONFLICT
    ├── BucketNotEmpty            CONFLICT
    ├── JobInTheWay               CONFLICT
    ├── CommitFailed              CONFLICT            the commit certainly did not happen; reload and retry
    │   └── RequirementFailed     REQUIREMENT_FAILED
    ├── VersionConflict           CONFLICT            optimistic concurrency on anything that is not a table
    ├── Invalid                   INVALID             the request is wrong, whatever the state
    │   ├── TooLarge
    │   └── InvalidView           a view whose parts do not fit together (Java's IllegalArgumentException)
    ├── Unprocessable             INVALID             well-formed, but contradicts itself
    ├── Unsupported               UNSUPPORTED
    ├── Forbidden                 FORBIDDEN
    ├── Unavailable               UNAVAILABLE         certainly not applied; try again later
    ├── CommitStateUnknown        COMMIT_STATE_UNKNOWN  may have happened: nothing may be deleted
    └── Internal                  INTERNAL            a broken invariant of ours
"""

from enum import StrEnum
from typing import ClassVar


class Kind(StrEnum):
    """What a caller may do about an error; a new kind only if a caller would act differently."""

    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    CONFLICT = "conflict"
    REQUIREMENT_FAILED = "requirement_failed"
    INVALID = "invalid"
    UNSUPPORTED = "unsupported"
    FORBIDDEN = "forbidden"
    UNAVAILABLE = "unavailable"
    COMMIT_STATE_UNKNOWN = "commit_state_unknown"
    INTERNAL = "internal"


class TableFormatError(Exception):
    """Root of the tree; `kind` is fixed per class."""

    kind: ClassVar[Kind] = Kind.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(TableFormatError):
    """Something named by the caller does not exist."""

    kind = Kind.NOT_FOUND


class NoSuchWarehouse(NotFound):
    """No table bucket of that name."""


class NoSuchNamespace(NotFound):
    """No namespace of that name."""


class NoSuchTable(NotFound):
    """No table of that name."""


class NoSuchView(NotFound):
    """No view of that name."""


class NoSuchFunction(NotFound):
    """No function of that name."""


class NoSuchFile(NotFound):
    """An object that should be in the object store is not there."""


class NoSuchJob(NotFound):
    """No maintenance job of that id."""


class NoSuchPlan(NotFound):
    """No scan plan of that id: never made, or expired."""


class NoSuchPlanTask(NotFound):
    """No page of a scan plan under that token: never handed out, cancelled, expired, or its files are gone."""


class AlreadyExists(TableFormatError):
    """The name to be created is taken."""

    kind = Kind.ALREADY_EXISTS


class NameTaken(AlreadyExists):
    """A table or view of that name is in the namespace."""


class NamespaceNotEmpty(TableFormatError):
    """A namespace that still has tables, views or child namespaces was to be dropped."""

    kind = Kind.CONFLICT


class BucketNotEmpty(TableFormatError):
    """A table bucket that still holds something, or is needed, was to be deleted."""

    kind = Kind.CONFLICT


class JobInTheWay(TableFormatError):
    """A maintenance job is not in the state that is asked for, or another one holds its place."""

    kind = Kind.CONFLICT


class CommitFailed(TableFormatError):
    """The commit certainly did not happen; reload and try again."""

    kind = Kind.CONFLICT


class RequirementFailed(CommitFailed):
    """An `assert-*` requirement does not hold on the current table."""

    kind = Kind.REQUIREMENT_FAILED


class VersionConflict(TableFormatError):
    """The resource changed since the caller read it."""

    kind = Kind.CONFLICT


class Invalid(TableFormatError):
    """The request is wrong, whatever the state of the table."""

    kind = Kind.INVALID


class TooLarge(Invalid):
    """The request exceeds a limit."""


class InvalidView(Invalid):
    """A view, or a version of one, whose parts do not fit together; clients tell it by its name."""


class Unprocessable(TableFormatError):
    """Well-formed, but contradicts itself (for example a key both set and removed)."""

    kind = Kind.INVALID


class Unsupported(TableFormatError):
    """Valid by the specification, but not offered here."""

    kind = Kind.UNSUPPORTED


class Forbidden(TableFormatError):
    """Known, but not allowed."""

    kind = Kind.FORBIDDEN


class Unavailable(TableFormatError):
    """A dependency is away; the operation was certainly not applied."""

    kind = Kind.UNAVAILABLE


class CommitStateUnknown(TableFormatError):
    """The commit may or may not have happened: reload and look; delete nothing."""

    kind = Kind.COMMIT_STATE_UNKNOWN


class Internal(TableFormatError):
    """An invariant of ours is broken."""

    kind = Kind.INTERNAL


def log_fields(error: Exception) -> dict[str, object]:
    """What a line of the log says of an error.

    What is away is told in one line with its cause, as it comes again with every try; all else with its traceback.
    """
    if not isinstance(error, Unavailable):
        return {"error": str(error), "exc_info": error}
    return {"error": error.message, "cause": repr(error.__cause__) if error.__cause__ is not None else None}
