"""Which object store serves a location: by scheme, built in or attached by an entry point.

A third party attaches one under the entry-point group `table_format.object_stores`: the name is the scheme, the
value a callable `(location, properties) -> ObjectStore`.
"""

import importlib
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from table_format.clock import SystemClock
from table_format.errors import Unsupported
from table_format.ident import canonical, scheme
from table_format.io.local import LocalObjectStore, local_path
from table_format.io.memory import MemoryObjectStore
from table_format.io.s3_settings import SCHEMES as S3_SCHEMES
from table_format.io.store import ObjectStore

GROUP = "table_format.object_stores"
StoreFactory: TypeAlias = Callable[[str, Mapping[str, str]], ObjectStore]

_lock = threading.Lock()
_memory_stores: dict[str, MemoryObjectStore] = {}
_local = LocalObjectStore()


def store_for(location: str, properties: Mapping[str, str] | None = None) -> ObjectStore:
    """The store that holds `location`; `properties` are the bucket's or table's storage settings.

    Raises:
        Invalid: the location is no absolute URI, or a property has an impossible value.
        Unsupported: no store is known for its scheme.
    """
    name = scheme(canonical(location))
    if name == "file":
        local_path(location)
        return _local
    if name == "memory":
        authority = location.partition("://")[2].partition("/")[0]
        with _lock:
            return _memory_stores.setdefault(authority, MemoryObjectStore(SystemClock()))
    if name in S3_SCHEMES:
        # Its client library takes a moment and memory, which whoever has local files only need not spend.
        opened: StoreFactory = importlib.import_module("table_format.io.s3").open_store
        return opened(location, properties or {})
    return _attached(name)(location, properties or {})


def _attached(name: str) -> StoreFactory:
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        attached = sorted({f"{point.name}://" for point in entry_points(group=GROUP)})
        usable = ["file:///", "s3://", "oss://", *attached]
        raise Unsupported(
            f"no object store for {name}:// locations: use {' or '.join(usable)}, or install a package that provides "
            f"{name!r} in the entry-point group {GROUP!r}"
        )
    try:
        return cast("StoreFactory", found[0].load())
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"the object store for {name}:// ({found[0].value}) cannot be loaded: {error}"
        ) from error
