"""One group as a piece of work that may travel: what its rewriting needs to know, and how it ended.

Only `execute` travels. What was opened comes back with the outcome, so that whoever commits can remove what is not.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from maintenance.compaction.plan_types import PlannedGroup
from maintenance.compaction.rewrite import Place, Rewritten, execute, next_path
from maintenance.executors.port import GoOn
from maintenance.ports import JobSettings
from table_format.clock import Ids
from table_format.errors import TableFormatError
from table_format.io.store import ObjectStore
from table_format.metadata.document import TableMetadata
from table_format.scan.deletes import DeleteCache
from table_format.scan.plan import FileTask

_PATHS: Final = 2
"""Files that a group may begin: one, and another one when it falls back from one way of writing to the other."""


def new_session() -> bytes:
    """A name that no other run has, in this or any process; it is written nowhere."""
    return os.urandom(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnd:
    """How the rewriting of a group ended."""

    rewritten: Rewritten | None = None
    error: TableFormatError | None = None
    opened: frozenset[str] = frozenset()
    """Every path that writing may have left an object at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group to be rewritten."""

    group: PlannedGroup
    tasks: Mapping[str, FileTask]
    """Its inputs by path."""
    metadata: TableMetadata
    session: bytes
    """From `new_session`: groups of one run that a process gets one after the other share small delete files."""
    name_prefix: str
    ids: Ids
    settings: JobSettings

    @property
    def title(self) -> str:
        """What it is, for messages."""
        inputs = self.group.inputs
        return f"compaction of {len(inputs)} files, first {inputs[0].path}"

    def likely_paths(self, store: ObjectStore) -> set[str]:
        """Where it writes, for when it can not say so itself."""
        place = self._place(store, lambda: None, DeleteCache())
        names = (self.group.spec_id, self.group.partition, place, "parquet")
        return {next_path(*names) for _ in range(_PATHS)}

    def run(self, store: ObjectStore, go_on: GoOn) -> GroupEnd:
        """Rewrite the group. What is raised, other than such errors as are given back, leaves no file."""
        place = self._place(store, go_on, _deletes_of(self.session))
        try:
            rewritten = execute(self.group, self.tasks, place)
        except TableFormatError as error:
            return GroupEnd(error=error, opened=frozenset(place.opened))
        except BaseException:
            with contextlib.suppress(TableFormatError):
                if place.opened:
                    store.delete_many(sorted(place.opened))
            raise
        return GroupEnd(rewritten=rewritten, opened=frozenset(place.opened))

    def _place(self, store: ObjectStore, go_on: GoOn, deletes: DeleteCache) -> Place:
        return Place(
            store=store,
            metadata=self.metadata,
            ids=self.ids,
            settings=self.settings,
            name_prefix=self.name_prefix,
            numbers=count(),
            opened=set(),
            go_on=go_on,
            deletes=deletes,
        )


_shared: tuple[bytes, DeleteCache] | None = None


def _deletes_of(session: bytes) -> DeleteCache:
    """The delete files that this process holds for a run; those of the run before are forgotten."""
    global _shared  # noqa: PLW0603 - a process has one, whatever it executes
    held = _shared
    if held is None or held[0] != session:
        held = _shared = (session, DeleteCache())
    return held[1]
