"""Which object store holds a location, with the installation's storage settings."""

from collections.abc import Callable
from dataclasses import dataclass

from table_format.io.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Stores:
    """The object stores of this process."""

    resolve: Callable[[str], ObjectStore]

    def store_for(self, location: str) -> ObjectStore:
        """The store that holds the location.

        Raises:
            Unsupported: none is known for its scheme.
        """
        return self.resolve(location)
