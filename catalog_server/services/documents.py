"""Metadata of tables and views kept in memory: raw JSON, parsed document and derived forms, by metadata location.

A metadata file never changes once written, so an entry never goes stale; which one is current is asked of the
database every time. Least recently used entries go when the byte budget is spent.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from catalog_server.services.stores import Stores
from catalog_server.telemetry import DOCUMENT_CACHE_BYTES, DOCUMENT_LOADS
from table_format.errors import Invalid, NoSuchFile, TooLarge
from table_format.io.local import is_there
from table_format.io.store import ObjectStore
from table_format.metadata import codec
from table_format.metadata.document import TableMetadata
from table_format.metadata.text import MetadataText, text_of
from table_format.metadata.views import ViewMetadata

M = TypeVar("M", TableMetadata, ViewMetadata)
M_co = TypeVar("M_co", covariant=True)

# Parsed JSON in Python takes several times the room of its text (measured: 5 to 9 times).
_PARSED_FACTOR = 7
_FROM_MEMORY = DOCUMENT_LOADS.labels("memory")
_FROM_STORE = DOCUMENT_LOADS.labels("store")


def refuse_gone(location: str) -> None:
    """Refuse a metadata file of a local disk that is no longer there, though it may still be in memory.

    An engine that was given it would fail later, at a file that it can not find. A look at the disk takes
    microseconds; in an object store it would cost a request, so there memory is believed.

    Raises:
        NoSuchFile: the file is gone.
    """
    if location.startswith("file:") and not is_there(location):
        raise _gone(location)


class MetadataFile(Generic[M]):
    """One immutable metadata file: uncompressed JSON, parsed, and forms derived from it on demand."""

    __slots__ = ("_lock", "_variants", "location", "metadata", "raw")

    def __init__(self, location: str, raw: bytes, metadata: M) -> None:
        self.location = location
        self.raw = raw
        self.metadata: M = metadata
        self._variants: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def variant(self, name: str, make: Callable[[bytes], bytes]) -> bytes:
        """The derived form of that name, made from the raw bytes at first use; callable from any thread."""
        with self._lock:
            known = self._variants.get(name)
            if known is None:
                known = self._variants[name] = make(self.raw)
            return known

    @property
    def weight(self) -> int:
        """About how many bytes of memory this takes."""
        variants = tuple(self._variants.values())
        return len(self.raw) * (1 + _PARSED_FACTOR) + sum(map(len, variants))


class Document(MetadataFile[TableMetadata]):
    """A table's metadata file."""

    __slots__ = ("text",)

    def __init__(self, location: str, raw: bytes, metadata: TableMetadata) -> None:
        super().__init__(location, raw, metadata)
        self.text = MetadataText(metadata.document, raw, {})

    @classmethod
    def of(cls, location: str, text: MetadataText, metadata: TableMetadata) -> "Document":
        """From a text that the next version can take its long arrays from."""
        document = cls(location, text.raw, metadata)
        document.text = text
        return document


class ViewDocument(MetadataFile[ViewMetadata]):
    """A view's metadata file."""

    __slots__ = ()


AnyDocument: TypeAlias = Document | ViewDocument
D = TypeVar("D", bound=AnyDocument)


class _Reader(Protocol[M_co]):
    def __call__(
        self, store: ObjectStore, location: str, *, max_bytes: int, max_values: int | None
    ) -> M_co: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """How much a metadata file may hold: bytes, compressed and not, and JSON values (None: any number)."""

    max_bytes: int
    max_values: int | None = None


class DocumentCache:
    """Loads documents, each at most once at a time. Used on the event loop only."""

    def __init__(
        self,
        stores: Stores,
        threads: Executor,
        *,
        max_bytes: int,
        max_metadata_bytes: int,
        foreign: FileBounds | None = None,
    ) -> None:
        self._stores = stores
        self._threads = threads
        self._max_bytes = max_bytes
        self._bounds = FileBounds(max_bytes=max_metadata_bytes)
        self._foreign = foreign or self._bounds
        self._documents: OrderedDict[str, AnyDocument] = OrderedDict()
        self._loading: dict[str, asyncio.Task[AnyDocument]] = {}
        self._weights: dict[str, int] = {}
        self._total = 0

    def peek(self, location: str) -> Document | None:
        """The table's document if it is in memory."""
        found = self._peek(location)
        return found if isinstance(found, Document) else None

    def _peek(self, location: str) -> AnyDocument | None:
        found = self._documents.get(location)
        if found is not None:
            self._documents.move_to_end(location)
            self._weigh(found)  # forms may have been derived since
        return found

    def put(self, document: AnyDocument) -> None:
        """Keep a document that was just written or read."""
        self._documents[document.location] = document
        self._documents.move_to_end(document.location)
        self._weigh(document)
        while self._total > self._max_bytes and self._documents:
            location, _ = self._documents.popitem(last=False)
            self._total -= self._weights.pop(location)
        DOCUMENT_CACHE_BYTES.set(self._total)

    def _weigh(self, document: AnyDocument) -> None:
        weight = document.weight
        self._total += weight - self._weights.get(document.location, 0)
        self._weights[document.location] = weight

    async def load(self, location: str) -> Document:
        """The table's document at that location, from memory or the object store.

        Raises:
            NoSuchFile: there is no such file.
            Invalid: it is not table metadata (the message holds nothing of its content).
            Unavailable: the store does not answer.
        """
        known = self.peek(location)
        if known is not None:
            _FROM_MEMORY.inc()
            return known
        found = await self._load(location, self._fetch)
        # A view's file may have lain at this address once.
        return found if isinstance(found, Document) else await self._read(location, self._fetch)

    async def load_view(self, location: str) -> ViewDocument:
        """The view's document at that location, from memory or the object store.

        Raises:
            NoSuchFile, Invalid, Unavailable: as `load`.
        """
        found = await self._load(location, self._fetch_view)
        return found if isinstance(found, ViewDocument) else await self._read(location, self._fetch_view)

    async def fetch(self, location: str) -> Document:
        """The table's document as the object store has it now, whatever is in memory.

        Raises:
            NoSuchFile, Invalid, Unavailable: as `load`.
        """
        return await self._in_thread(self._fetch, location)

    async def fetch_foreign(self, location: str) -> Document:
        """A document that is none of ours yet, in the bounds of such files.

        Raises:
            NoSuchFile, Invalid, Unavailable: as `load`.
            TooLarge: it is out of bounds.
        """
        return await self._in_thread(lambda at: self._fetch(at, self._foreign), location)

    async def fetch_foreign_view(self, location: str) -> ViewDocument:
        """A view's document that is none of ours yet, in the bounds of such files.

        Raises:
            NoSuchFile, Invalid, TooLarge, Unavailable: as `fetch_foreign`.
        """
        return await self._in_thread(lambda at: self._fetch_view(at, self._foreign), location)

    async def fetch_view(self, location: str) -> ViewDocument:
        """The view's document as the object store has it now, whatever is in memory.

        Raises:
            NoSuchFile, Invalid, Unavailable: as `load`.
        """
        return await self._in_thread(self._fetch_view, location)

    async def _load(self, location: str, fetch: Callable[[str], AnyDocument]) -> AnyDocument:
        known = self._peek(location)
        if known is not None:
            _FROM_MEMORY.inc()
            return known
        task = self._loading.get(location)
        if task is None:
            _FROM_STORE.inc()
            task = asyncio.get_running_loop().create_task(self._read(location, fetch))
            self._loading[location] = task
            task.add_done_callback(lambda _: self._loading.pop(location, None))
        # Whoever is cancelled must not take the others' read along.
        return await asyncio.shield(task)

    async def _read(self, location: str, fetch: Callable[[str], D]) -> D:
        document = await self._in_thread(fetch, location)
        self.put(document)
        return document

    async def _in_thread(self, fetch: Callable[[str], D], location: str) -> D:
        return await asyncio.get_running_loop().run_in_executor(self._threads, fetch, location)

    def _fetch(self, location: str, bounds: FileBounds | None = None) -> Document:
        metadata = self._parsed(codec.read, location, "table", bounds)
        return Document.of(location, text_of(metadata.document), metadata)

    def _fetch_view(self, location: str, bounds: FileBounds | None = None) -> ViewDocument:
        metadata = self._parsed(codec.read_view, location, "view", bounds)
        return ViewDocument(location, metadata.to_bytes(), metadata)

    def _parsed(self, read: _Reader[M], location: str, of: str, bounds: FileBounds | None) -> M:
        allowed = bounds or self._bounds
        store = self._stores.store_for(location)
        try:
            return read(store, location, max_bytes=allowed.max_bytes, max_values=allowed.max_values)
        except NoSuchFile:
            raise _gone(location) from None
        except TooLarge:
            raise
        except Invalid:
            raise Invalid(f"{location} is not a readable {of} metadata file") from None


def _gone(location: str) -> NoSuchFile:
    return NoSuchFile(f"Failed to open input stream for file: {location}")
