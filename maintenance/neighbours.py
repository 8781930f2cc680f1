"""What dropped tables that can be had back need, at places that a job's table shares with them.

Whatever deletes files of a table asks here before every batch: nothing that another's last metadata reaches may go,
and nothing at all while that can not be read.
"""

from collections.abc import Iterator, Sequence

from maintenance.places import References
from maintenance.ports import DroppedNeighbour, JobContext
from table_format.commit.expire import content_of, reachable
from table_format.errors import Invalid, NoSuchFile, Unavailable
from table_format.metadata.codec import read as read_metadata


class UnknownNeighbour(Unavailable):
    """What another dropped table at the same place needs can not be told, so nothing may be deleted."""


class Neighbours:
    """The dropped tables around some places, whose needs become references; what one needs is read once.

    References only grow: what a table needed that was restored or forgotten meanwhile stays protected.
    """

    def __init__(self, ctx: JobContext, roots: Sequence[str], references: References) -> None:
        self._ctx = ctx
        self._roots = roots
        self._references = references
        self._read: set[DroppedNeighbour] = set()

    def cover(self) -> None:
        """Refer to what those need that are there now.

        Raises:
            UnknownNeighbour: what one needs can not be told.
            Unavailable: the store or the catalog is away.
        """
        for one in self._ctx.dropped_neighbours(self._roots):
            if one not in self._read:
                self._references.add(needed_by(self._ctx, one))
                self._read.add(one)


def needed_by(ctx: JobContext, neighbour: DroppedNeighbour) -> Iterator[str]:
    """Every file that the dropped table's last metadata reaches, itself included.

    Raises:
        UnknownNeighbour: it can not be read.
        Unavailable: the store is away.
    """
    store = ctx.store_for(neighbour.location)
    try:
        metadata = read_metadata(store, neighbour.metadata_location)
        ids = [snapshot["snapshot-id"] for snapshot in metadata.snapshots]
        found = reachable(store, metadata, ids)
        yield from content_of(store, metadata, found.manifests.values())
    except (NoSuchFile, Invalid) as error:
        raise UnknownNeighbour(
            f"another dropped table has files at the same place, and which can not be told: {error.message}; "
            "restore it, or let it be forgotten or purged first"
        ) from error
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    yield from (*found.manifests, *found.manifest_lists)
    yield from (entry["statistics-path"] for entry in statistics)
    yield from (entry["metadata-file"] for entry in metadata.metadata_log)
    yield neighbour.metadata_location
