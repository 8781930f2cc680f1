"""Where tables may lie: inside their bucket, at a place of their own, at an address that means one thing only.

Texts are checked as they are, never decoded or normalised: what two programs could read as two places is refused.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from table_format.clock import Ids
from table_format.errors import Invalid
from table_format.ident import Namespace, TableIdent, canonical, contains, join
from table_format.metadata.codec import AnyMetadata
from table_format.metadata.document import TableMetadata

# Table properties that send files elsewhere (the last two are old names that engines still read).
PATH_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_ENCODED_DOT = re.compile(r"%(?:2e|2f|5c|00)", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_SHORT = 48  # characters of a name that its directory shows; the id behind it makes it unique


def check_text(location: str) -> None:
    """Check that the text is a plain absolute URI.

    Raises:
        Invalid: it is not; the message says what is wrong with it.
    """
    wrong = _fault(location)
    if wrong is not None:
        raise Invalid(f"location {location!r} {wrong}")


def check_inside(bucket_location: str, location: str) -> None:
    """Check that a location is plain and lies below the bucket's (the bucket's own place is not a table's).

    Raises:
        Invalid: it is or does not.
    """
    check_text(location)
    if not contains(bucket_location, location) or contains(location, bucket_location):
        raise Invalid(f"location {location!r} is not inside the table bucket's location {bucket_location}")


def is_inside(outer: str, path: str) -> bool:
    """Whether a file's path lies below `outer`, without anything that some program could read as leading out."""
    return (
        ":" in path
        and contains(outer, path)
        and ".." not in path.split("/")
        and _ENCODED_DOT.search(path) is None
        and not _invisible(path)
    )


def overlap(first: str, second: str) -> bool:
    """Whether one place is, or is inside, the other as any program may read them.

    Host names of either case are one, and so are escapes and what they stand for: rather refused than mistaken.
    """
    return contains(_read_freely(first), _read_freely(second)) or contains(
        _read_freely(second), _read_freely(first)
    )


def _read_freely(location: str) -> str:
    head, separator, rest = canonical(location).partition("://")
    authority, slash, path = rest.partition("/")
    while (decoded := unquote(path)) != path:
        path = decoded
    return f"{head}{separator}{authority.lower()}{slash}{path}"


def check_metadata(bucket_location: str, metadata: TableMetadata) -> None:
    """Check every place that metadata, as foreign as a registered file's, refers to.

    Raises:
        Invalid: one is outside the bucket or not plain.
    """
    for place in places(metadata):
        check_inside(bucket_location, place)
    for path in embedded(metadata):
        if not is_inside(bucket_location, path):
            raise Invalid(
                f"the metadata refers to a file outside the table bucket's location {bucket_location}"
            )


def places(metadata: AnyMetadata) -> tuple[str, ...]:
    """The directories into which writers put the files of this table or view."""
    own = [metadata.location]
    own += [metadata.properties[name] for name in PATH_PROPERTIES if name in metadata.properties]
    return tuple(dict.fromkeys(own))


def embedded(metadata: TableMetadata) -> Iterator[str]:
    """Every file that the metadata names."""
    for snapshot in metadata.snapshots:
        if "manifest-list" in snapshot:
            yield snapshot["manifest-list"]
        yield from snapshot.get("manifests") or []
    for entry in metadata.metadata_log:
        yield entry["metadata-file"]
    for file in (*metadata.statistics, *metadata.partition_statistics):
        yield file["statistics-path"]


def elsewhere(own: Iterable[str], files: Iterable[str]) -> list[str]:
    """The directories of those files that lie in none of a table's own places."""
    own = tuple(own)
    directories = dict.fromkeys(file.rpartition("/")[0] for file in files)
    return [directory for directory in directories if not any(contains(place, directory) for place in own)]


def three_slashes(location: str) -> str:
    """`file:/x` as `file:///x`, the form that every client compares by; anything else as it is.

    For places below which we choose tables' locations; a table's own is kept as its client gave it.
    """
    if location.startswith("file:/") and not location.startswith("file://"):
        return "file://" + location.removeprefix("file:")
    return location


def namespace_location(bucket_location: str, namespace: Namespace, properties: Mapping[str, str]) -> str:
    """The namespace's `location` property, or the one that follows from its name."""
    given = properties.get("location")
    return (
        three_slashes(given)
        if given
        else join(bucket_location, *(_safe(level) for level in namespace.levels))
    )


def new_location(namespace_at: str, ident: TableIdent, ids: Ids) -> str:
    """A place that no table ever had: a readable name of URL-safe characters, and a fresh id."""
    return join(namespace_at, f"{_safe(ident.name)}-{ids.uuid()[-8:]}")


def _safe(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _UNSAFE.sub("_", plain)[:_SHORT].strip("_") or "x"


def _invisible(text: str) -> bool:
    if text.isascii():
        return not text.isprintable()
    return any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text)


def _fault(location: str) -> str | None:
    absolute = canonical(location) if ":" in location else location
    head, separator, rest = absolute.partition("://")
    if not separator or not _SCHEME.fullmatch(head):
        return "is not an absolute URI like s3://bucket/path or file:///path, its scheme in lower case"
    if _invisible(location):
        return "holds control or invisible characters"
    if location != location.strip():
        return "begins or ends with a blank"
    for character in "#?\\":
        if character in location:
            return f"holds {character!r}"
    return _path_fault(rest)


def _path_fault(rest: str) -> str | None:
    if _ENCODED_DOT.search(rest):
        return "holds an encoded dot, slash or zero byte"
    authority, _, path = rest.partition("/")
    if "@" in authority:
        return "holds user information"
    if not path and authority:
        return None  # a whole S3 bucket, say
    segments = path.removesuffix("/").split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "has an empty, '.' or '..' path segment"
    return None
