"""Whether a table may be pointed to a metadata file that its client wrote, and what that comes to. Pure.

The S3 Tables API lets clients write metadata by themselves and only asks us to move the pointer: everything that a
commit of ours would have refused is refused here, on the file as it was read.
"""

import re
from dataclasses import dataclass

from catalog_server.services import commit_plan, locations
from catalog_server.services.commit_plan import Current, Planned
from catalog_server.services.content_limits import ContentLimits
from catalog_server.services.documents import Document
from catalog_server.store.table_entries import TableEntry
from table_format.errors import CommitFailed, Invalid, TableFormatError
from table_format.ident import TableIdent, contains
from table_format.metadata.document import TableMetadata
from table_format.metadata.succession import check_counters, check_successor

NOT_VALID = "The specified metadata location is not valid."
"""How AWS begins to say that it does not take a metadata location."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NAME = re.compile(r"[^/]+\.metadata\.json(\.gz)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the metadata of a table may lie: in its bucket, in these directories."""

    bucket_location: str
    within: tuple[str, ...]


def check_location(location: str, place: Place) -> None:
    """Check the text of a new metadata location, before anything is read from there.

    Raises:
        Invalid: it is not in the table's place, or not named as a metadata file.
    """
    try:
        locations.check_text(location)
    except Invalid as error:
        raise Invalid(f"{NOT_VALID} {error.message}") from None
    if not any(locations.is_inside(directory, location) for directory in place.within):
        wanted = " or ".join(place.within)
        raise Invalid(f"{NOT_VALID} {location} is not inside the table's location {wanted}")
    if not _NAME.fullmatch(location.rpartition("/")[2]):
        raise Invalid(f"{NOT_VALID} {location} does not end in .metadata.json or .metadata.json.gz")


def follow(
    ident: TableIdent,
    current: Current,
    document: Document,
    bucket_location: str,
    content: ContentLimits,
) -> Planned:
    """The move of a table from its current metadata to what follows from it.

    Raises:
        CommitFailed: the file was made from another version of the table.
        Invalid: it is another table's, goes back, holds too much, or names places outside the bucket.
    """
    row, base = current.row, current.base
    if row is None or base is None:
        raise CommitFailed(f"table {ident} has no metadata to follow from")
    new = document.metadata
    try:
        check_successor(base.metadata, row.metadata_location, new)
    except TableFormatError as error:
        raise type(error)(f"{NOT_VALID} {document.location} does not follow: {error.message}") from None
    _check_content(new, base.metadata, content)
    known_files = set(locations.embedded(base.metadata))
    # The current file itself is named by the log of what follows.
    known_files.add(row.metadata_location)
    files = tuple(path for path in locations.embedded(new) if path not in known_files)
    before = locations.places(base.metadata)
    places = tuple(place for place in locations.places(new) if place not in before)
    _check_places(places, files, bucket_location)
    return Planned(
        ident=ident,
        current=current,
        metadata=new,
        new_places=places,
        new_files=files,
        jobs=commit_plan.wanted_jobs(current, new),
    )


def begin(
    entry: TableEntry,
    current: Current,
    document: Document,
    bucket_location: str,
    content: ContentLimits,
) -> Planned:
    """The first metadata of a blank table: any, at the table's place.

    Raises:
        Invalid: it is of another place, has no uuid, holds too much, or names places outside the bucket.
    """
    new = document.metadata
    if not _is_uuid(new.uuid):
        raise Invalid(f"{NOT_VALID} {document.location} has no table-uuid that is a UUID")
    try:
        check_counters(new)
    except Invalid as error:
        raise Invalid(f"{NOT_VALID} {document.location} can not be a table: {error.message}") from None
    places = locations.places(new)
    files = tuple(dict.fromkeys(locations.embedded(new)))
    _check_places(places, files, bucket_location)
    if not contains(entry.location, new.location):
        raise Invalid(
            f"{NOT_VALID} its metadata says that the table lies at {new.location}; it must be {entry.location}"
        )
    _check_content(new, None, content)
    return Planned(
        ident=entry.ident,
        current=current,
        metadata=new,
        new_places=places,
        new_files=files,
        jobs=commit_plan.wanted_jobs(current, new),
    )


def _is_uuid(text: str | None) -> bool:
    return text is not None and _UUID.fullmatch(text) is not None


def _check_content(new: TableMetadata, base: TableMetadata | None, content: ContentLimits) -> None:
    """What is there already stays, however much it is."""
    known = () if base is None else base.schemas
    for schema in new.schemas:
        if schema not in known:
            content.check_schema(schema)
    held: dict[str, str] = {} if base is None else dict(base.properties)
    added = {name: value for name, value in new.properties.items() if held.get(name) != value}
    if added:
        # Others may have gone as these came.
        content.check_properties(added, len(new.properties) - len(added))


def _check_places(places: tuple[str, ...], files: tuple[str, ...], bucket_location: str) -> None:
    for place in places:
        locations.check_inside(bucket_location, place)
    for path in files:
        if not locations.is_inside(bucket_location, path):
            raise Invalid(
                f"{NOT_VALID} the metadata names a file outside the table bucket's location {bucket_location}"
            )
