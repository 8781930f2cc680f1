"""Which names things may have. Anything readable is allowed; what no path can carry is not."""

import re
import unicodedata

from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent

MAX_NAME_LENGTH = 255
MAX_LEVELS = 32

_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61})[a-z0-9]")


def check_bucket(name: str) -> None:
    """A bucket name is part of every URL and ARN, so it is plain.

    Raises:
        Invalid: it is not.
    """
    if not _BUCKET.fullmatch(name):
        raise Invalid(
            f"table bucket name {name!r} must be 3 to 63 lower-case letters, digits and dashes, "
            "and begin and end with a letter or digit"
        )


def check_namespace(namespace: Namespace) -> None:
    """Check every level.

    Raises:
        Invalid: there is no level, there are too many, or one can not be a name.
    """
    if not namespace.levels:
        raise Invalid("a namespace needs at least one level")
    if len(namespace.levels) > MAX_LEVELS:
        raise Invalid(f"a namespace has at most {MAX_LEVELS} levels, not {len(namespace.levels)}")
    for level in namespace.levels:
        _check(level, "namespace level")


def check_table(ident: TableIdent) -> None:
    """Check the namespace and the name.

    Raises:
        Invalid: one of them can not be a name.
    """
    check_namespace(ident.namespace)
    _check(ident.name, "table name")


def check_view(ident: TableIdent) -> None:
    """Check the namespace and the name.

    Raises:
        Invalid: one of them can not be a name.
    """
    check_namespace(ident.namespace)
    _check(ident.name, "view name")


def _check(name: str, what: str) -> None:
    if not name:
        raise Invalid(f"a {what} must not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise Invalid(f"a {what} has at most {MAX_NAME_LENGTH} characters, not {len(name)}")
    if name in (".", ".."):
        raise Invalid(f"a {what} must not be {name!r}: no URL could address it")
    # Cc: control characters (U+001F separates levels in URLs); Cs: halves of characters, which UTF-8 can not write.
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise Invalid(f"a {what} must not hold control characters: {name!r}")
