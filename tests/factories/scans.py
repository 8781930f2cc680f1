"""Tables for scan planning tests, written through a platform or server, and what a client makes of the answers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from table_format.catalog import TableCatalog
from table_format.clock import Clock, SystemClock, SystemIds
from table_format.ident import TableIdent
from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import DataFile
from tests.factories.lake import Lake

Json: TypeAlias = dict[str, Any]


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
        return [
            DataFile(
                **{
                    "file_path": f"{self.metadata.location}/data/{name}.parquet",
                    "record_count": 1,
                    "file_size_in_bytes": 1000,
                    "spec_id": self.metadata.default_spec_id,
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
