"""The folders below /tmp that the kit asks for: it wants tables at `file:/tmp/<namespace>/<table>`, and nowhere else.

One run at a time owns them. A folder that a run did not make is never touched: each of ours holds a marker.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/tmp")
# The first levels of all namespaces that the kit makes.
NAMESPACES = ("ns", "newdb", "ns1", "ns2", "other_ns", "a", "ns_1", "ns_2")
_LOCK = "frazil-kit.lock"
_MARKER = ".made-by-frazil-kit"


class Occupied(Exception):
    """Somebody else's file or folder has a name that the kit needs."""


@contextmanager
def owned(root: Path = ROOT) -> Iterator[None]:
    """The kit's folders, empty at the start and gone at the end; waits for another run that has them.

    Raises:
        Occupied: one is there, and not from an earlier run of ours.
    """
    with (root / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folders = [root / name for name in NAMESPACES]
        foreign = [str(folder) for folder in folders if os.path.lexists(folder) and not _ours(folder)]
        if foreign:
            raise Occupied(f"the kit needs {', '.join(foreign)}, but it is somebody else's: move it away")
        _remove(folders)
        try:
            for folder in folders:
                folder.mkdir()
                (folder / _MARKER).touch()
            yield
        finally:
            _remove(folders)


def _ours(folder: Path) -> bool:
    return not folder.is_symlink() and folder.stat().st_uid == os.geteuid() and (folder / _MARKER).is_file()


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        if os.path.lexists(folder) and _ours(folder):
            shutil.rmtree(folder)
