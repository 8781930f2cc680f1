"""Places of tables on a local disk: the directories that engines expect, and no symbolic link on the way to them."""

import contextlib
import os
from collections.abc import Iterable, Sequence

from table_format.errors import Invalid
from table_format.ident import strip_slash
from table_format.io.local import local_path, make_directories


def refuse_links(bucket_location: str, places: Iterable[str]) -> None:
    """Check that below its bucket no place is reached through a symbolic link.

    A link may lead out of the bucket, or give another table's directory a second name: texts do not show it.

    Raises:
        Invalid: one is.
    """
    if not bucket_location.startswith("file:"):
        return
    root = os.path.normpath(local_path(bucket_location)).rstrip("/")
    plain: set[str] = set()  # metadata may name thousands of files, all in a few directories
    for place in places:
        path = os.path.normpath(local_path(place))
        if _leads_on(root, path, plain):
            raise Invalid(f"location {place!r} leads through a symbolic link: name the place itself")


def _leads_on(root: str, path: str, plain: set[str]) -> bool:
    """Whether a path leads out of the root, or below it through a link; directories that are none are added."""
    if not path.startswith(root + "/"):
        return True
    directory = root
    *above, name = path[len(root) + 1 :].split("/")
    for part in above:
        directory += "/" + part
        if directory in plain:
            continue
        if os.path.islink(directory):
            return True
        plain.add(directory)
    return os.path.islink(f"{directory}/{name}")


def real_place(location: str) -> str:
    """Where a place on a local disk really is, links followed as they are now; any other place as it is."""
    if not location.startswith("file:///"):
        return location
    return f"file://{os.path.realpath(local_path(location))}"


def is_missing(location: str) -> bool:
    """Whether the location is a directory of the local disk that is not there."""
    return location.startswith("file:") and not os.path.isdir(local_path(location))


def missing_directories(location: str) -> list[str]:
    """The directories that would have to be made to write at the location, the outermost first."""
    missing: list[str] = []
    if location.startswith("file:"):
        directory = os.path.normpath(local_path(location))
        while not os.path.isdir(directory) and directory != "/":
            missing.append(directory)
            directory = os.path.dirname(directory)
    return missing[::-1]


def remove_empty(directories: Sequence[str]) -> None:
    """Remove those of the nested directories, given outermost first, that are there and empty."""
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def make_table_directories(location: str) -> None:
    """Make the directories that some engines expect to find.

    Raises:
        Invalid: the disk can not hold a directory of that name.
    """
    if not location.startswith("file:"):
        return
    top = strip_slash(local_path(location))
    try:
        for name in ("metadata", "data"):
            make_directories(f"{top}/{name}")
    except OSError as error:
        raise Invalid(f"no table can be made at {location}: {error.strerror}") from error
