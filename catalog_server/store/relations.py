"""Names in a namespace, which tables and views share: what has a name, and the refusals of one that is taken.

To be asked inside the transaction that takes the name: writes are serialised, so what was free stays free.
"""

from enum import StrEnum

from sqlalchemy import Connection, bindparam, select

from catalog_server.store.schema import tables, views
from table_format.errors import NameTaken
from table_format.ident import TableIdent


class Relation(StrEnum):
    """What can have a name in a namespace."""

    TABLE = "table"
    VIEW = "view"


def refuse_taken(connection: Connection, namespace_id: int, ident: TableIdent, wanted: Relation) -> None:
    """Check that no table and no view has that name.

    Raises:
        NameTaken: one has.
    """
    holder = _holder(connection, namespace_id, ident.name)
    if holder is not None:
        raise taken(ident, holder, wanted)


def refuse_rename(
    connection: Connection, namespace_id: int, source: TableIdent, destination: TableIdent
) -> None:
    """Check that no table and no view has the new name.

    Raises:
        NameTaken: one has.
    """
    holder = _holder(connection, namespace_id, destination.name)
    if holder is not None:
        raise NameTaken(
            f"Cannot rename {source} to {destination}. {holder.capitalize()} already exists: {destination}"
        )


def taken(ident: TableIdent, holder: Relation, wanted: Relation) -> NameTaken:
    """The error for a name in use, in the words that Java's clients expect."""
    same = "" if holder is wanted else " with same name"
    return NameTaken(f"{holder.capitalize()}{same} already exists: {ident}")


def _holder(connection: Connection, namespace_id: int, name: str) -> Relation | None:
    wanted = {"of_namespace": namespace_id, "of_name": name}
    for relation, query in _HOLDERS:
        if connection.execute(query, wanted).first() is not None:
            return relation
    return None


# Made once, since making a statement costs more than running it.
_HOLDERS = [
    (
        relation,
        select(rows.c.id).where(
            rows.c.namespace_id == bindparam("of_namespace"), rows.c.name == bindparam("of_name")
        ),
    )
    for relation, rows in ((Relation.TABLE, tables), (Relation.VIEW, views))
]
