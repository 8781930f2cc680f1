"""Which object store holds a location."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from table_format.io.store import ObjectStore


def _no_properties(_location: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Stores:
    """The object stores of this process. May ask the database: for worker threads, never on the event loop."""

    resolve: Callable[[str], ObjectStore]
    properties: Callable[[str], Mapping[str, str]] = _no_properties

    def store_for(self, location: str) -> ObjectStore:
        """The store that holds the location.

        Raises:
            NoSuchWarehouse: it is in no bucket, and of a kind that can not be reached without knowing which.
            Unavailable: the database does not answer.
            Unsupported: none is known for its scheme.
        """
        return self.resolve(location)

    def properties_for(self, location: str) -> Mapping[str, str]:
        """By which properties, secrets included, another process reaches that store.

        Raises:
            NoSuchWarehouse, Unavailable: as `store_for`.
        """
        return self.properties(location)
