"""What adapters have in common when they compose an object: what is no range, and the errors about sources."""

from table_format.errors import Invalid, Unavailable
from table_format.io.store import Range


def check_range(wanted: Range) -> None:
    """Make sure that it is a range of at least nought bytes.

    Raises:
        Invalid: it is not.
    """
    if not 0 <= wanted.start <= wanted.end:
        raise Invalid(f"byte range [{wanted.start}, {wanted.end}) of {wanted.path} is not a range")


def beyond(wanted: Range) -> Invalid:
    """The error for a range that the object is too short for."""
    return Invalid(f"{wanted.path} ends before byte {wanted.end}, up to which it was to be copied")


def replaced(wanted: Range) -> Unavailable:
    """The error for a source that is another version than the one to be copied."""
    return Unavailable(f"{wanted.path} was replaced while it was copied; read it again")
