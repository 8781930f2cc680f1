"""pyarrow file handles over an object store, for the Parquet data path.

Local files are opened as real files, so that reading some columns reads only their ranges; other stores are read
through their seekable readers. An output appears at `close()` and not at all after `abort()`.
"""

from io import IOBase
from types import TracebackType
from typing import cast

import pyarrow as pa

from table_format.io.confined import Confined
from table_format.io.counted import CountedStore
from table_format.io.local import LocalObjectStore, local_path, storage_error
from table_format.io.store import ObjectStore


class ArrowOutput(pa.PythonFile):
    """A pyarrow file over a store's writer; leaving a `with` block by an exception discards the object."""

    def __init__(self, writer: IOBase, mode: str) -> None:
        super().__init__()  # type: ignore[call-arg]  # the file is made in __new__, from the same arguments
        self._writer = writer

    def abort(self) -> None:
        """Discard the object; after `close()` it does nothing."""
        if not self._writer.closed:
            self._writer.__exit__(GeneratorExit, GeneratorExit(), None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def pyarrow_input(store: ObjectStore, path: str) -> pa.NativeFile:
    """A seekable pyarrow file to read one object.

    Raises:
        NoSuchFile: it does not exist.
    """
    if _is_local(store):
        store.head(path)
        try:
            return pa.OSFile(local_path(path), mode="r")
        except OSError as error:
            raise storage_error(error, path) from error
    return pa.PythonFile(cast("IOBase", store.open_input(path)), mode="r")


def _is_local(store: ObjectStore) -> bool:
    """Whether the files are local ones, whatever stands before them to count and to confine."""
    inner = store
    while isinstance(inner, CountedStore | Confined):
        inner = inner.inner
    return isinstance(inner, LocalObjectStore)


def pyarrow_output(store: ObjectStore, path: str) -> ArrowOutput:
    """A pyarrow file to write one object."""
    return ArrowOutput(cast("IOBase", store.open_output(path)), "w")
