"""Places of tables on a local disk: the directories that engines expect, and no symbolic link on the way to them."""

import os
from collections.abc import Iterable

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
    root = strip_slash(local_path(bucket_location))
    real_root = os.path.realpath(root)
    for place in places:
        path = local_path(place).rstrip("/")
        if os.path.realpath(path) != real_root + path[len(root) :]:
            raise Invalid(f"location {place!r} leads through a symbolic link: name the place itself")


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
