"""Where in its source's log a Debezium event stands, from the `source` block of the connectors that say it."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from ingest_plugin.change import SourcePosition

_BINLOG = re.compile(r"\.(\d+)$")


def position_of(source: Mapping[str, Any]) -> SourcePosition | None:
    """The position, or None for a connector that says none or one that cannot be compared.

    PostgreSQL: LSN; MySQL and MariaDB: binlog file, position and row; SQL Server and Db2: LSN and serial number;
    Oracle: SCN.
    """
    connector = source.get("connector")
    at: tuple[int, ...] | None = None
    if connector == "postgresql":
        at = _postgres(source)
    elif connector in ("mysql", "mariadb"):
        at = _binlog(source)
    elif connector in ("sqlserver", "db2"):
        at = _hexadecimal(source.get("change_lsn") or source.get("commit_lsn"))
    elif connector == "oracle":
        at = _decimal(source.get("scn"))
    if at is None:
        return None
    return SourcePosition(source=f"{connector}/{source.get('name')}/{source.get('db')}", at=at)


def _postgres(source: Mapping[str, Any]) -> tuple[int, ...] | None:
    lsn = source.get("lsn")
    if type(lsn) is int:
        return (lsn,)
    # Rows of an incremental snapshot have no LSN of their own, but the one that the log had reached.
    sequence = source.get("sequence")
    try:
        parts = orjson.loads(sequence) if isinstance(sequence, str) else None
    except orjson.JSONDecodeError:
        return None
    return _decimal(parts[-1]) if isinstance(parts, list) and parts else None


def _binlog(source: Mapping[str, Any]) -> tuple[int, ...] | None:
    number = _BINLOG.search(str(source.get("file") or ""))
    place, row = source.get("pos"), source.get("row")
    if number is None or type(place) is not int:
        return None
    return int(number[1]), place, row if type(row) is int else 0


def _hexadecimal(text: object) -> tuple[int, ...] | None:
    try:
        return tuple(int(part, 16) for part in str(text).split(":")) if text else None
    except ValueError:
        return None


def _decimal(text: object) -> tuple[int, ...] | None:
    if type(text) is int:
        return (text,)
    return (int(text),) if isinstance(text, str) and text.isdecimal() else None
