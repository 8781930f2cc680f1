"""Names and places: `Namespace`, `TableIdent`, and functions on locations (absolute URIs as text).

Locations are compared and stored as raw text, never through a URL parser: object keys may hold `#`, `?`, `%`.
"""

from dataclasses import dataclass

from table_format.errors import Invalid

# Engines write s3a:// and s3n:// for the same objects; only these schemes may differ between equal places.
_EQUAL_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """One or more levels, each any non-empty text; `Namespace(())` is the root."""

    levels: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.levels)

    @property
    def parent(self) -> "Namespace":
        """The namespace one level up (the root's parent is the root)."""
        return Namespace(self.levels[:-1])


@dataclass(frozen=True, slots=True, order=True)
class TableIdent:
    """A table's (or view's) full name inside one bucket."""

    namespace: Namespace
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @classmethod
    def of(cls, *parts: str) -> "TableIdent":
        """`TableIdent.of("db", "t")`: the last part is the name."""
        return cls(Namespace(parts[:-1]), parts[-1])


def scheme(location: str) -> str:
    """The part before `://`, as written.

    Raises:
        Invalid: the text has no scheme.
    """
    head, sep, _ = location.partition("://")
    if not sep or not head:
        raise Invalid(f"location {location!r} is not an absolute URI: write for example file:///data/t")
    return head


def strip_slash(location: str) -> str:
    """The location without trailing slashes, but never shorter than its scheme."""
    stripped = location.rstrip("/")
    return stripped if ":/" in stripped else location


def join(location: str, *parts: str) -> str:
    """`join("s3://b/t/", "metadata", "x")` is `s3://b/t/metadata/x`."""
    return "/".join([strip_slash(location), *(part.strip("/") for part in parts)])


def canonical(location: str) -> str:
    """The text by which two locations are equal: s3a and s3n count as s3, `file:/x` as `file:///x`.

    Nothing else is normalised.
    """
    if location.startswith("file:/") and not location.startswith("file://"):
        location = "file://" + location[len("file:") :]
    head = scheme(location)
    return _EQUAL_SCHEMES.get(head, head) + location[len(head) :]


def contains(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` itself or lies below it (both canonicalised, slash forms alike)."""
    outer_text, inner_text = strip_slash(canonical(outer)), strip_slash(canonical(inner))
    return inner_text == outer_text or inner_text.startswith(outer_text + "/")
