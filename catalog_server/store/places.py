"""Places: every directory that a table or view ever put files into while it existed. None may overlap another's.

Those of a dropped table are kept with it: a table may be made there again, since clients do that, but both are then
marked as sharing the place; and no other table's files may be put there.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    bindparam,
    insert,
    or_,
    select,
    update,
)

from catalog_server.store.schema import dropped_places, table_places, tables, view_places
from table_format.errors import AlreadyExists
from table_format.ident import canonical, strip_slash


def refuse_overlap(
    connection: Connection,
    places: Iterable[str],
    except_table_id: int | None = None,
    except_view_id: int | None = None,
) -> None:
    """Check that the places are neither inside nor around those of a table or view other than the excepted one.

    Raises:
        AlreadyExists: they are.
    """
    for place in places:
        for kind, known, owner, excepted in (
            ("table", table_places, table_places.c.table_id, except_table_id),
            ("view", view_places, view_places.c.view_id, except_view_id),
        ):
            query = _overlapping(known, owner, anybody=excepted is None)
            around = {**_around(place), **({} if excepted is None else {"excepted": excepted})}
            if connection.execute(query, around).first() is not None:
                raise AlreadyExists(
                    f"Location {place} overlaps that of another {kind}: choose another location"
                )


def refuse_inside(
    connection: Connection, directories: Iterable[str], except_table_ids: Collection[int] = ()
) -> None:
    """Check that no directory is, or lies in, a place of a table (dropped ones too) or view but the excepted tables.

    Raises:
        AlreadyExists: one does: the clean-up of the other would delete what lies there.
    """
    for directory in directories:
        around = _itself_and_ancestors(place_key(directory))
        for kind, known, owner in (
            ("table", table_places, table_places.c.table_id),
            ("dropped table", dropped_places, dropped_places.c.table_id),
            ("view", view_places, view_places.c.view_id),
        ):
            query = select(owner).where(known.c.place.in_(around))
            if kind != "view" and except_table_ids:
                query = query.where(owner.not_in(except_table_ids))
            if connection.execute(query.limit(1)).first() is not None:
                raise AlreadyExists(
                    f"a file in {directory} lies in the location of another {kind}: keep it in the table's own"
                )


def add_of_table(connection: Connection, table_id: int, places: Iterable[str]) -> None:
    """Remember places of a table; those it had before stay, its older files lie there."""
    known = connection.execute(select(table_places.c.place).where(table_places.c.table_id == table_id))
    new = sorted({place_key(place) for place in places} - set(known.scalars()))
    if new:
        rows = [
            {"table_id": table_id, "place": place, "shared": _shared_with_dropped(connection, place)}
            for place in new
        ]
        connection.execute(insert(table_places), rows)


def shared(connection: Connection, table_ids: Collection[int]) -> set[int]:
    """Those tables at one of whose places files of a dropped table lie, or lay."""
    query = select(table_places.c.table_id).where(
        table_places.c.table_id.in_(table_ids), table_places.c.shared
    )
    return set(connection.execute(query).scalars())


def mark_shared(connection: Connection, table_id: int) -> None:
    """Mark the places of a table that overlap those of dropped tables, and theirs."""
    for place in connection.execute(
        select(table_places.c.place).where(table_places.c.table_id == table_id)
    ).scalars():
        if _shared_with_dropped(connection, place):
            own = and_(table_places.c.table_id == table_id, table_places.c.place == place)
            connection.execute(update(table_places).where(own).values(shared=True))


def _shared_with_dropped(connection: Connection, place: str) -> bool:
    """Whether dropped tables have files at that place; theirs are marked."""
    marked = connection.execute(
        update(dropped_places).where(touches(dropped_places, place)).values(shared=True)
    )
    return marked.rowcount > 0


def add_of_view(connection: Connection, view_id: int, places: Iterable[str]) -> None:
    """Remember places of a view; those it had before stay."""
    known = connection.execute(select(view_places.c.place).where(view_places.c.view_id == view_id))
    new = {place_key(place) for place in places} - set(known.scalars())
    if new:
        connection.execute(
            insert(view_places), [{"view_id": view_id, "place": place} for place in sorted(new)]
        )


def overlapped(connection: Connection, places: Iterable[str]) -> str | None:
    """The place of a table (not of a dropped one) that overlaps one of those, or None."""
    for place in places:
        query = select(table_places.c.place).where(touches(table_places, place))
        found: str | None = connection.execute(query.limit(1)).scalar_one_or_none()
        if found is not None:
            return found
    return None


def other_than(connection: Connection, table_uuid: str) -> Sequence[str]:
    """Places of every view, and of every table but the one with that uuid; not of dropped tables."""
    of_tables = (
        select(table_places.c.place)
        .join(tables, tables.c.id == table_places.c.table_id)
        .where(tables.c.table_uuid != table_uuid)
    )
    return list(connection.execute(of_tables.union_all(select(view_places.c.place))).scalars())


def place_key(location: str) -> str:
    """The text by which places are compared."""
    return strip_slash(canonical(location))


def touches(known: Table, location: str) -> ColumnElement[bool]:
    """Whether a row's place is that location, lies in it, or has it inside."""
    own = place_key(location)
    return or_(
        known.c.place.in_(_itself_and_ancestors(own)),
        and_(known.c.place > own + "/", known.c.place < own + "0"),  # "0" follows "/"
    )


@cache
def _overlapping(known: Table, owner: Column[int], *, anybody: bool) -> Select[Any]:
    """`touches` for the values of `_around`; made once, since making a statement costs more than running it."""
    place = known.c.place
    above = place.in_(bindparam("itself_and_above", expanding=True))
    inside = and_(place > bindparam("begin"), place < bindparam("end"))
    query = select(owner).where(or_(above, inside)).limit(1)
    return query if anybody else query.where(owner != bindparam("excepted"))


def _around(location: str) -> dict[str, object]:
    own = place_key(location)
    return {"itself_and_above": _itself_and_ancestors(own), "begin": own + "/", "end": own + "0"}


def _itself_and_ancestors(own: str) -> list[str]:
    return [own, *(own[:end] for end in range(len(own)) if own[end] == "/")]
