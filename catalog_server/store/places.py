"""Places: every directory that a table or view ever put files into while it existed. None may overlap another's."""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, Table, and_, insert, or_, select

from catalog_server.store.schema import table_places, tables, view_places
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
            query = select(owner).where(_touches(known, place_key(place)))
            if excepted is not None:
                query = query.where(owner != excepted)
            if connection.execute(query.limit(1)).first() is not None:
                raise AlreadyExists(
                    f"Location {place} overlaps that of another {kind}: choose another location"
                )


def refuse_inside(
    connection: Connection, directories: Iterable[str], except_table_id: int | None = None
) -> None:
    """Check that no directory is, or lies in, a place of a table or view other than the excepted table.

    Raises:
        AlreadyExists: one does: the clean-up of the other would delete what lies there.
    """
    for directory in directories:
        around = _itself_and_ancestors(place_key(directory))
        for kind, known, owner in (
            ("table", table_places, table_places.c.table_id),
            ("view", view_places, view_places.c.view_id),
        ):
            query = select(owner).where(known.c.place.in_(around))
            if kind == "table" and except_table_id is not None:
                query = query.where(owner != except_table_id)
            if connection.execute(query.limit(1)).first() is not None:
                raise AlreadyExists(
                    f"a file in {directory} lies in the location of another {kind}: keep it in the table's own"
                )


def add_of_table(connection: Connection, table_id: int, places: Iterable[str]) -> None:
    """Remember places of a table; those it had before stay, its older files lie there."""
    known = connection.execute(select(table_places.c.place).where(table_places.c.table_id == table_id))
    new = {place_key(place) for place in places} - set(known.scalars())
    if new:
        connection.execute(
            insert(table_places), [{"table_id": table_id, "place": place} for place in sorted(new)]
        )


def add_of_view(connection: Connection, view_id: int, places: Iterable[str]) -> None:
    """Remember places of a view; those it had before stay."""
    known = connection.execute(select(view_places.c.place).where(view_places.c.view_id == view_id))
    new = {place_key(place) for place in places} - set(known.scalars())
    if new:
        connection.execute(
            insert(view_places), [{"view_id": view_id, "place": place} for place in sorted(new)]
        )


def other_than(connection: Connection, table_uuid: str) -> Sequence[str]:
    """Places of every view, and of every table but the one with that uuid."""
    of_tables = (
        select(table_places.c.place)
        .join(tables, tables.c.id == table_places.c.table_id)
        .where(tables.c.table_uuid != table_uuid)
    )
    return list(connection.execute(of_tables.union_all(select(view_places.c.place))).scalars())


def place_key(location: str) -> str:
    """The text by which places are compared."""
    return strip_slash(canonical(location))


def _touches(known: Table, own: str) -> ColumnElement[bool]:
    return or_(
        known.c.place.in_(_itself_and_ancestors(own)),
        and_(known.c.place > own + "/", known.c.place < own + "0"),  # "0" follows "/"
    )


def _itself_and_ancestors(own: str) -> list[str]:
    return [own, *(own[:end] for end in range(len(own)) if own[end] == "/")]
