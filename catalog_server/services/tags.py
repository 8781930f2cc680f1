"""Tags on buckets and tables: short texts that people and cost reports sort by. What they say means nothing here."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services.content_version import version_of
from catalog_server.services.principals import Principal
from catalog_server.store import resources
from catalog_server.store import tags as rows
from catalog_server.store.engine import Database
from table_format.errors import Invalid, VersionConflict

MOST_TAGS = 50
LONGEST_KEY = 128
LONGEST_VALUE = 256
_RESERVED = "aws:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The tags of one resource; the version is made of them, so that equal tags are of one version."""

    tags: dict[str, str]

    @property
    def version(self) -> int:
        """A number that names these tags."""
        return version_of(self.tags)


class TagService:
    """Use-cases on the tags of anything that has a resource id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, principal: Principal, resource_id: str) -> Tags:
        """The tags of a resource.

        Raises:
            NotFound: there is no such resource.
        """
        return await self._database.read(_get, resource_id)

    async def put(
        self,
        principal: Principal,
        resource_id: str,
        wanted: Mapping[str, str],
        *,
        if_version: int | None = None,
    ) -> Tags:
        """Have exactly these tags.

        Raises:
            NotFound: there is no such resource.
            Invalid: there are too many, or one can not be.
            VersionConflict: the tags are not those of that version.
        """
        check(wanted)
        return await self._database.write(_replace, resource_id, dict(wanted), if_version)

    async def add(self, principal: Principal, resource_id: str, wanted: Mapping[str, str]) -> Tags:
        """Set these tags; those of other keys stay.

        Raises:
            NotFound: there is no such resource.
            Invalid: one can not be, or there would be too many.
        """
        check(wanted)
        return await self._database.write(_add, resource_id, dict(wanted))

    async def remove(self, principal: Principal, resource_id: str, keys: Iterable[str]) -> Tags:
        """Remove the tags of those keys, where they are there.

        Raises:
            NotFound: there is no such resource.
        """
        return await self._database.write(_remove, resource_id, list(keys))


def check(wanted: Mapping[str, str]) -> None:
    """Check tags.

    Raises:
        Invalid: there are too many, or one can not be.
    """
    _check_count(len(wanted))
    for key, value in wanted.items():
        if not 1 <= len(key) <= LONGEST_KEY:
            raise Invalid(f"the key of a tag has 1 to {LONGEST_KEY} characters, not {len(key)}")
        if len(value) > LONGEST_VALUE:
            raise Invalid(
                f"the value of tag {key!r} has at most {LONGEST_VALUE} characters, not {len(value)}"
            )
        if key.lower().startswith(_RESERVED):
            raise Invalid(f"tag {key!r}: keys that begin with {_RESERVED} are reserved")
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in key + value):
            raise Invalid(f"tag {key!r} holds control characters")


def _check_count(count: int) -> None:
    if count > MOST_TAGS:
        raise Invalid(f"a resource has at most {MOST_TAGS} tags, not {count}")


def _get(connection: Connection, resource_id: str) -> Tags:
    resources.require(connection, resource_id)
    return Tags(tags=rows.of(connection, resource_id))


def _replace(
    connection: Connection, resource_id: str, wanted: dict[str, str], if_version: int | None
) -> Tags:
    before = _get(connection, resource_id)
    if if_version is not None and if_version != before.version:
        raise VersionConflict("The tags changed since they were read; read them again and retry")
    rows.forget(connection, resource_id)
    rows.put(connection, resource_id, wanted)
    return Tags(tags=rows.of(connection, resource_id))


def _add(connection: Connection, resource_id: str, wanted: dict[str, str]) -> Tags:
    before = _get(connection, resource_id)
    _check_count(len({*before.tags, *wanted}))
    rows.put(connection, resource_id, wanted)
    return Tags(tags=rows.of(connection, resource_id))


def _remove(connection: Connection, resource_id: str, keys: Sequence[str]) -> Tags:
    resources.require(connection, resource_id)
    rows.remove(connection, resource_id, keys)
    return Tags(tags=rows.of(connection, resource_id))
