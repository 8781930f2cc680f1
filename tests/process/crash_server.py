"""The program, made to kill itself (SIGKILL) at one point. Run as `python crash_server.py serve …` or `… worker …`.

FRAZIL_TEST_CRASH_POINT names the point; the file FRAZIL_TEST_CRASH_TRIGGER arms it, so that a test can prepare first.
With FRAZIL_TEST_CRASH_SIGNAL=SIGSTOP it sleeps there, once, until it is woken. Only ports are wrapped: the code under
test is the product's, unchanged.
"""

import os
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from catalog_server.cli import main
from catalog_server.services import commit_unit
from catalog_server.store.postgres import PostgresDatabase
from catalog_server.store.sqlite import SqliteDatabase
from table_format.io.local import LocalObjectStore
from table_format.io.store import DeleteFailure

POINT = os.environ["FRAZIL_TEST_CRASH_POINT"]
TRIGGER = Path(os.environ["FRAZIL_TEST_CRASH_TRIGGER"])
SIGNAL = signal.Signals[os.environ.get("FRAZIL_TEST_CRASH_SIGNAL", "SIGKILL")]


def die_at(point: str) -> None:
    if point == POINT and TRIGGER.exists():
        if SIGNAL is signal.SIGSTOP:
            TRIGGER.unlink()
        os.kill(os.getpid(), SIGNAL)


original_put = LocalObjectStore.put
original_delete_many = LocalObjectStore.delete_many


def put(self: LocalObjectStore, path: str, data: bytes, *, if_absent: bool = False) -> None:
    is_metadata = path.endswith(".metadata.json")
    if is_metadata:
        die_at("before-metadata-write")
    original_put(self, path, data, if_absent=if_absent)
    if path.endswith("-m0.avro"):
        die_at("after-manifest-write")
    if is_metadata:
        die_at("between-metadata-write-and-swap")


def dying(original: Any) -> Any:
    async def write(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        result = await original(self, fn, *args, **kwargs)
        if fn in (commit_unit.run, commit_unit.swap):
            die_at("after-swap-before-answer")
        die_at("after-write-before-answer")
        return result

    return write


def delete_many(self: LocalObjectStore, paths: Iterable[str]) -> Sequence[DeleteFailure]:
    wanted = list(paths)
    half = original_delete_many(self, wanted[: len(wanted) // 2])
    die_at("amid-deletion")
    return [*half, *original_delete_many(self, wanted[len(wanted) // 2 :])]


LocalObjectStore.delete_many = delete_many  # type: ignore[method-assign]
LocalObjectStore.put = put  # type: ignore[method-assign]
SqliteDatabase.write = dying(SqliteDatabase.write)  # type: ignore[method-assign]
PostgresDatabase.write = dying(PostgresDatabase.write)  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
