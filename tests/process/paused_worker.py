"""The program, made to wait at one point until it is let go on. Run as `python paused_worker.py worker …`.

FRAZIL_TEST_PAUSE_POINT names the point. There it makes the file `reached` in the directory FRAZIL_TEST_PAUSE_AT and
waits for the file `go-on`. Only ports are wrapped: the code under test is the product's, unchanged.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog_server.cli import main
from catalog_server.services import commit_unit
from catalog_server.store.sqlite import SqliteDatabase
from table_format.io.local import LocalObjectStore
from table_format.io.store import ObjectInfo

POINT = os.environ["FRAZIL_TEST_PAUSE_POINT"]
AT = Path(os.environ["FRAZIL_TEST_PAUSE_AT"])
os.environ.setdefault("FRAZIL_MAINTENANCE__EXECUTOR", "inline")  # what is paused must be in this process


def pause_at(point: str) -> None:
    if point != POINT:
        return
    (AT / "reached").touch()
    while not (AT / "go-on").exists():
        time.sleep(0.01)


original_open_output = LocalObjectStore.open_output
original_list = LocalObjectStore.list
original_put = LocalObjectStore.put
original_write = SqliteDatabase.write


def open_output(self: LocalObjectStore, path: str) -> Any:
    output = original_open_output(self, path)
    pause_at("amid-rewrite")
    return output


def listing(self: LocalObjectStore, prefix: str) -> Iterator[ObjectInfo]:
    pause_at("before-listing")
    return original_list(self, prefix)


def put(self: LocalObjectStore, path: str, data: Any, *, if_absent: bool = False) -> None:
    original_put(self, path, data, if_absent=if_absent)
    if path.endswith(".metadata.json"):
        pause_at("amid-commit")


async def write(self: SqliteDatabase, fn: Any, *args: Any, **kwargs: Any) -> Any:
    result = await original_write(self, fn, *args, **kwargs)
    if fn in (commit_unit.run, commit_unit.swap):
        pause_at("after-commit")
    return result


LocalObjectStore.open_output = open_output  # type: ignore[method-assign]
LocalObjectStore.list = listing  # type: ignore[method-assign]
LocalObjectStore.put = put  # type: ignore[method-assign]
SqliteDatabase.write = write  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
