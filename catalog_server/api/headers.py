"""Headers of a request by their names, from the pairs as the server gives them: names in lower case, nothing decoded.

The general mapping of the framework costs several times as much, and hot requests ask for half a dozen.
"""

from starlette.types import Scope


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of that (lower case) name, or None."""
    for known, value in scope["headers"]:
        if known == name:
            return str(value, "latin-1")
    return None


def headers(scope: Scope, name: bytes) -> list[str]:
    """All headers of that (lower case) name, in their order."""
    return [str(value, "latin-1") for known, value in scope["headers"] if known == name]
