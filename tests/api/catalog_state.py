"""`CatalogState`: everything that a request could change, and whether it has: rows of the database, and files."""

import hashlib
import os
import sqlite3
from pathlib import Path

# What is remembered about requests, of tables' sizes, and what is written some time after the answer, is no state of
# the catalog.
_ASIDE = {"idempotency", "metrics_reports", "scan_plans", "sqlite_sequence", "table_figures"}


class CatalogState:
    """The state when it was last taken, to compare with the state now."""

    def __init__(self, data_dir: Path) -> None:
        self._files = data_dir / "warehouse"
        self._database = sqlite3.connect(
            f"file:{data_dir / 'frazil.db'}?mode=ro", uri=True, check_same_thread=False
        )
        names = self._database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        self._tables = [name for (name,) in names.fetchall() if name not in _ASIDE]
        self.take()

    def take(self) -> None:
        """Remember the state as it is now."""
        self._version = self._now()
        self._taken = (self._rows(), self._listing())

    def changes(self) -> list[str]:
        """In what the state differs from the one taken."""
        rows, files = self._taken
        found = []
        if (version := self._now()) != self._version:
            self._version = version
            now = self._rows()
            found += [f"rows of {table}" for table in self._tables if now[table] != rows[table]]
        return found + sorted(self._listing() ^ files)

    def close(self) -> None:
        """Give the connection back."""
        self._database.close()

    def _now(self) -> int:
        """A number that another connection's commit changes."""
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        return int(version)

    def _rows(self) -> dict[str, str]:
        digests = {}
        for table in self._tables:
            rows = self._database.execute(f'SELECT * FROM "{table}"').fetchall()
            digests[table] = hashlib.blake2b(repr(sorted(rows, key=repr)).encode()).hexdigest()
        return digests

    def _listing(self) -> set[str]:
        found = set()
        waiting = [os.fspath(self._files)]
        while waiting:
            try:
                entries = list(os.scandir(waiting.pop()))
            except FileNotFoundError:
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    found.add(entry.path)
        return found
