"""What a run of a job did, what it did not do, and why; stored in the job's row and shown to people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from table_format.jsontypes import JsonObject

Figure: TypeAlias = "int | str | list[str]"


class Outcome(StrEnum):
    """How a run ended (a run that failed has an error instead of a report)."""

    DONE = "done"
    NOTHING = "nothing"
    SKIPPED = "skipped"
    CONFLICT = "conflict"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of one run."""

    outcome: Outcome
    reason: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    plan: JsonObject | None = None
    again_after_ms: int | None = None
    """Enqueue the same job again after this time (0: there is more to do right now than one run takes)."""

    def to_json(self) -> JsonObject:
        """The report as stored; the plan is kept beside it, not in it."""
        return {
            "outcome": str(self.outcome),
            "reason": self.reason,
            "figures": dict(self.figures),
            "againAfterMs": self.again_after_ms,
        }


def nothing(reason: str, **figures: Figure) -> Report:
    """There was no work."""
    return Report(outcome=Outcome.NOTHING, reason=reason, figures=figures)


def skipped(reason: str, **figures: Figure) -> Report:
    """There may be work, but it must not be done."""
    return Report(outcome=Outcome.SKIPPED, reason=reason, figures=figures)
