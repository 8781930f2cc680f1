"""Which earlier metadata files a commit may delete once it is done, where the table wants that.

Those that fell off the table's log, and nothing else; none where files of a dropped table lie too: a log that a client
wrote may name the very file that table is to be restored from. What stays goes with removal of unreferenced files,
which reads what such neighbours need.
"""

from collections.abc import Sequence

from catalog_server.services import commit_plan
from catalog_server.services.commit_unit import Part
from catalog_server.store import places
from catalog_server.store.engine import Database
from catalog_server.store.tables import TableRow
from table_format.errors import TableFormatError


async def unneeded(database: Database, parts: Sequence[Part], rows: Sequence[TableRow]) -> list[str]:
    """The files; `rows` are the tables after the commit, in the order of the parts."""
    found = {row.id: _of(part) for part, row in zip(parts, rows, strict=True)}
    wanted = {table_id: files for table_id, files in found.items() if files}
    if not wanted:
        return []
    try:
        shared = await database.read(places.shared, list(wanted))
    except TableFormatError:
        return []  # the commit is done: what can not be told now is left
    return [path for table_id, files in wanted.items() if table_id not in shared for path in files]


def _of(part: Part) -> list[str]:
    if part.new_location is None:
        return []
    return commit_plan.obsolete_metadata_files(part.planned, part.new_location)
