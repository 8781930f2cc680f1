"""Tables for scan planning tests, written through a platform or server, and what a client makes of the answers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from table_format.catalog import LoadedTable, NewTable, TableCatalog
from table_format.clock import Clock, SystemClock, SystemIds
from table_format.ident import TableIdent
from table_format.io.local import LocalObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from tests.api.iceberg_client import Catalog
from tests.factories.lake import Lake

Json: TypeAlias = dict[str, Any]


class ClientCatalog:
    """The three calls of `TableCatalog` through the tests' HTTP client; every answer must be fine."""

    def __init__(self, client: Catalog) -> None:
        self._client = client

    def load(self, ident: TableIdent) -> LoadedTable:
        return _loaded(ident, self._client.http.get(self._client.table(ident.namespace.levels, ident.name)))

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        levels, name = ident.namespace.levels, ident.name
        return _loaded(ident, self._client.commit(levels, name, list(updates), list(requirements)))

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        levels = self._client.new_namespace(*ident.namespace.levels)
        body = {"schema": table.schema, "partition-spec": table.partition_spec}
        properties = dict(table.properties)
        return _loaded(ident, self._client.create(levels, ident.name, **body, properties=properties))


def _loaded(ident: TableIdent, answer: Any) -> LoadedTable:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return LoadedTable(
        ident=ident, metadata_location=body["metadata-location"], metadata=TableMetadata(body["metadata"])
    )


class PlannedLake(Lake):
    """A table of a real catalog on the local disk, whose data files need not exist to be planned."""

    def __init__(
        self, catalog: TableCatalog, ident: TableIdent, *, clock: Clock | None = None, **options: Any
    ) -> None:
        clock = clock or SystemClock()
        super().__init__(
            LocalObjectStore(), catalog=catalog, ident=ident, clock=clock, ids=SystemIds(), **options
        )

    def named(self, *names: str, **fields: Any) -> list[DataFile]:
        """Data files of these names that nobody has written."""
        metadata = self.metadata
        return [
            DataFile(
                **{
                    "file_path": f"{metadata.location}/data/{name}.parquet",
                    "record_count": 1,
                    "file_size_in_bytes": 1000,
                    "spec_id": metadata.default_spec_id,
                    **fields,
                }
            )
            for name in names
        ]

    def append_named(self, *names: str, **fields: Any) -> None:
        self.append(*self.named(*names, **fields))


def names_of(answer: Json) -> list[str]:
    """The names of the data files in one answer, in its order."""
    return [
        task["data-file"]["file-path"].rpartition("/")[2].removesuffix(".parquet")
        for task in answer.get("file-scan-tasks", [])
    ]


def deletes_of(answer: Json) -> dict[str, list[str]]:
    """By data file: the names of its delete files, in their order."""
    deletes = [file["file-path"].rpartition("/")[2] for file in answer.get("delete-files", [])]
    tasks = answer.get("file-scan-tasks", [])
    return {
        name: [deletes[number] for number in task.get("delete-file-references", [])]
        for name, task in zip(names_of(answer), tasks, strict=True)
    }


def follow(answer: Json, fetch: Callable[[str], Json]) -> list[str]:
    """The names in an answer and all its pages, as often as they come."""
    found = names_of(answer)
    tokens: Sequence[str] = answer.get("plan-tasks", [])
    while tokens:
        pages = [fetch(token) for token in tokens]
        found += [name for page in pages for name in names_of(page)]
        tokens = [token for page in pages for token in page.get("plan-tasks", [])]
    return found
