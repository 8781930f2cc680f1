"""What became of a commit, in our engine or in Java's."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from table_format.jsontypes import JsonObject
from tests.java.driver import IcebergJava, JavaError

_CONFLICTS = {"CommitFailedException", "RetryableValidationException"}


@dataclass(frozen=True)
class Refused:
    """A commit that was not applied, and the HTTP code that says so."""

    code: int
    why: str


Outcome: TypeAlias = "JsonObject | Refused | None"  # a new document, a refusal, or nothing has changed


def asked(java: IcebergJava, command: str, **members: Any) -> Outcome:
    """What Java makes of a commit."""
    try:
        found: JsonObject | None = java.ask(command, **members)
    except JavaError as error:
        return Refused(409 if error.kind in _CONFLICTS else 400, str(error))
    return found


def kind(outcome: Outcome) -> str:
    """In one word or two."""
    if isinstance(outcome, Refused):
        return f"refused with {outcome.code}"
    return "same" if outcome is None else "new"
