"""Who asks. Every service call names a principal, so that rights can be decided in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of a service."""

    name: str


ANONYMOUS = Principal(name="anonymous")
"""The caller where authentication is off."""

SYSTEM = Principal(name="system")
"""The server itself: start-up, scheduler and maintenance jobs."""
