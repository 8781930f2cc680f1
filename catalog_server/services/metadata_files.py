"""The metadata files of commits: written each under a new name, deleted when no pointer can name them."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

import structlog

from catalog_server.services.commit_plan import Planned
from catalog_server.services.documents import Document, ViewDocument
from catalog_server.services.stores import Stores
from table_format.clock import Ids
from table_format.errors import AlreadyExists, TableFormatError
from table_format.metadata import codec
from table_format.metadata.text import text_of
from table_format.metadata.views import ViewMetadata

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class MetadataFiles:
    """Writes and deletes on the storage threads."""

    def __init__(
        self, stores: Stores, ids: Ids, threads: Executor, *, max_bytes: int = codec.MAX_BYTES
    ) -> None:
        self._stores = stores
        self._max_bytes = max_bytes
        self._ids = ids
        self._threads = threads

    async def write(self, planned: Sequence[Planned]) -> list[Document | None]:
        """Write the metadata of every part that changes anything; all files are there, or none.

        Raises:
            TooLarge: one could not be read again.
            Unavailable, Forbidden: the object store refuses; nothing was committed.
            AlreadyExists: a file of that name is there; it stays.
        """
        named = [(part, self._location(part) if part.changes else None) for part in planned]
        outcomes = await asyncio.gather(
            *(self._write_one(part, location) for part, location in named), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            # Whether the failed ones are there or not, no pointer can name ours. A file in the way is not ours.
            await self.delete(
                [
                    location
                    for (_, location), outcome in zip(named, outcomes, strict=True)
                    if location is not None and not isinstance(outcome, AlreadyExists)
                ]
            )
            raise failures[0]
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def write_view(self, metadata: ViewMetadata, previous_location: str | None) -> ViewDocument:
        """Write one view's metadata; the file is there, or not.

        Raises:
            Unavailable, Forbidden: the object store refuses; nothing was committed.
            AlreadyExists: a file of that name is there; it stays.
        """
        location = codec.new_location(metadata, previous_location, self._ids)

        def work() -> ViewDocument:
            store = self._stores.store_for(location)
            raw = codec.write(store, location, metadata, max_bytes=self._max_bytes)
            return ViewDocument(location, raw, metadata)

        try:
            return await self._in_thread(work)
        except AlreadyExists:
            raise  # what is in the way is not ours
        except Exception:
            # Whether it is there or not: no pointer can name it. (Cancelled, it is not known whose file may be there.)
            await self.delete([location])
            raise

    async def _write_one(self, part: Planned, location: str | None) -> Document | None:
        if location is None:
            return None

        def work() -> Document:
            store = self._stores.store_for(location)
            before = None if part.current.base is None else part.current.base.text
            text = text_of(part.metadata.document, before)
            codec.write_text(store, location, text.raw, max_bytes=self._max_bytes)
            return Document.of(location, text, part.metadata)

        return await self._in_thread(work)

    def _location(self, part: Planned) -> str:
        row = part.current.row
        return codec.new_location(part.metadata, None if row is None else row.metadata_location, self._ids)

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete files that no pointer names; what fails stays for the removal of unreferenced files."""

        def work() -> None:
            for path in paths:
                for failure in self._stores.store_for(path).delete_many([path]):
                    _log.warning("metadata_file_not_deleted", path=failure.path, reason=failure.reason)

        if not paths:
            return
        try:
            await self._in_thread(work)
        except TableFormatError as error:
            _log.warning("metadata_file_not_deleted", paths=list(paths), reason=error.message)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
