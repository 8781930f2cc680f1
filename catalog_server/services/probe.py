"""Tries out whether a place can be a bucket's: everything that tables need of their store, step by step.

One small object is written, not overwritten, read, listed and deleted again; nothing is left behind, on a local disk
no directory either.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from catalog_server.services.local_places import missing_directories, remove_empty
from table_format.clock import Ids
from table_format.errors import AlreadyExists, Invalid, NoSuchFile, TableFormatError
from table_format.ident import join
from table_format.io.store import ObjectStore

WRITE, KEEP, READ, LIST, DELETE = "write", "conditional-write", "read", "list", "delete"
_DATA = b"Written by frazil to try this place out; it can be deleted.\n"


class _Failed(Exception):
    """A step did something else than it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStep:
    """One thing tried: whether it works, or None when it was not tried; and what failed and what to do."""

    name: str
    ok: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """How it went."""

    location: str
    steps: tuple[ProbeStep, ...]

    @property
    def ok(self) -> bool:
        """Whether the place can be a bucket's."""
        return all(step.ok for step in self.steps)

    def require(self) -> None:
        """Refuse a place that can not be a bucket's.

        Raises:
            Invalid: something failed; the message says what worked, what failed exactly, and what to do.
        """
        if self.ok:
            return
        failed = "; ".join(f"{step.name} failed: {step.detail}" for step in self.steps if step.ok is False)
        worked = ", ".join(step.name for step in self.steps if step.ok)
        untried = ", ".join(step.name for step in self.steps if step.ok is None)
        told = f"location {self.location} can not be a table bucket's: {failed}"
        told += f" (worked: {worked})" if worked else ""
        raise Invalid(told + (f" (not tried: {untried})" if untried else ""))


def probe(store: ObjectStore, location: str, ids: Ids) -> ProbeReport:
    """Try a place out. Blocks; for a thread."""
    path = join(location, f"frazil-probe-{ids.uuid()}")
    tried = {
        WRITE: lambda: _must_write(store, path),
        KEEP: lambda: _must_not_overwrite(store, path),
        READ: lambda: _must_read(store, path),
        LIST: lambda: _must_list(store, location, path),
        DELETE: lambda: _must_delete(store, path),
    }
    steps: list[ProbeStep] = []
    with _nothing_left(store, location, path):
        for name, step in tried.items():
            if steps and steps[0].ok is False:
                steps.append(ProbeStep(name=name, ok=None))  # without an object there is nothing to try
            else:
                steps.append(_tried(name, step))
    return ProbeReport(location=location, steps=tuple(steps))


def _tried(name: str, step: Callable[[], None]) -> ProbeStep:
    try:
        step()
    except TableFormatError as error:
        return ProbeStep(name=name, ok=False, detail=error.message)
    except _Failed as error:
        return ProbeStep(name=name, ok=False, detail=str(error))
    return ProbeStep(name=name, ok=True)


def _must_write(store: ObjectStore, path: str) -> None:
    # Read first, as some stores make a bucket that is missing, however it is misspelled; by a GET, as the answer to a
    # HEAD gives no reason.
    with contextlib.suppress(NoSuchFile):
        store.get(path)
    store.put(path, _DATA, if_absent=True)


def _must_not_overwrite(store: ObjectStore, path: str) -> None:
    try:
        store.put(path, b"overwritten", if_absent=True)
    except AlreadyExists:
        return
    raise _Failed(
        "the store overwrites an object though it was told not to (If-None-Match: *): use a store or version that "
        "knows conditional writes, or say s3.conditional-write=false, which looks first and then writes"
    )


def _must_read(store: ObjectStore, path: str) -> None:
    found = store.get(path)
    if found != _DATA:
        raise _Failed(
            f"the object holds other bytes than were written ({len(found)} instead of {len(_DATA)})"
        )
    if store.head(path).size != len(_DATA) or store.get(path, (2, 9)) != _DATA[2:9]:
        raise _Failed("a part of the object, or its size, is not what was written")


def _must_list(store: ObjectStore, location: str, path: str) -> None:
    for info in store.list(location):
        if info.path == path:
            if info.modified_ms is None:
                raise _Failed("the listing does not tell when objects were written, which clean-up must know")
            return
    raise _Failed("an object that was just written is not in the listing")


def _must_delete(store: ObjectStore, path: str) -> None:
    for failure in store.delete_many([path]):
        raise _Failed(f"the store refused to delete {failure.path}: {failure.reason}")
    if store.exists(path):
        raise _Failed("an object is still there after it was deleted: versions or retention may be in force")


@contextmanager
def _nothing_left(store: ObjectStore, location: str, path: str) -> Iterator[None]:
    made = missing_directories(location)
    try:
        yield
    finally:
        with contextlib.suppress(TableFormatError):
            store.delete_many([path])
        remove_empty(made)
