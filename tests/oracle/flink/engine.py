"""Flink 2.1 with Iceberg, its jars fetched once from the registry, as a writer of histories: appends and upserts."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import jars
from tests.oracle.histories import Engine
from tests.oracle.lab import NAMESPACE, Lab
from tests.oracle.writers import Step, Target

_HERE = Path(__file__).parent
_OPENED = (
    "lang",
    "lang.reflect",
    "lang.invoke",
    "net",
    "io",
    "nio",
    "text",
    "time",
    "util",
    "util.concurrent",
)
_OF_TYPE = {
    "int": "INT",
    "long": "BIGINT",
    "string": "STRING",
    "timestamp": "TIMESTAMP(6)",
    "timestamptz": "TIMESTAMP_LTZ(6)",
    "binary": "BYTES",
}


class FlinkError(Exception):
    """Flink refused a statement."""


class Flink:
    """The running process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def sql(self, statement: str) -> None:
        """Have it done.

        Raises:
            FlinkError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(statement.replace("\n", " ").encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError(f"Flink ended:\n{self._log.read_text(errors='replace')[-3000:]}")
        if line != "ok":
            raise FlinkError(line[:2000])


@contextmanager
def running(lab: Lab, place: Path) -> Iterator[Flink]:
    """Flink with the lab's catalog, for the length of a `with` block.

    Raises:
        JarsMissing: it can not be had on this machine.
    """
    place.mkdir(parents=True, exist_ok=True)
    folder, log = jars.fetched(_HERE / "pom.xml", "flink"), place / "flink.log"
    opens = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED]
    options = ["-Xmx1g", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={place}", "-Duser.timezone=UTC"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    classpath = f"{_compiled(folder)}{os.pathsep}{folder}/*"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            ["java", *options, *opens, "-cp", classpath, "Session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=place,
        )
    try:
        made = Flink(process, log)
        made.sql(
            "CREATE CATALOG ice WITH ('type'='iceberg', 'catalog-type'='rest', 'cache-enabled'='false', "
            f"'uri'='{lab.iceberg}', 'io-impl'='org.apache.iceberg.hadoop.HadoopFileIO')"
        )
        yield made
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _compiled(folder: Path) -> Path:
    source = _HERE / "Session.java"
    digest = hashlib.sha256(source.read_bytes() + (_HERE / "pom.xml").read_bytes()).hexdigest()[:12]
    target = jars.cache_directory() / f"flink-session-{digest}"
    if not target.is_dir():
        fresh = target.with_name(f".{target.name}-{os.getpid()}")
        command = ["javac", "-nowarn", "-proc:none", "-cp", f"{folder}/*", "-d", str(fresh), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise jars.JarsMissing(f"javac: {done.stderr[-3000:]}")
        try:
            fresh.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return target


def engine(flink: Flink) -> Engine:
    """Flink as histories take it: it upserts by the table's identifier; its types have no UUID and no exact time."""
    writes: dict[str, Step] = {
        "append": lambda target: _insert(flink, target, upsert=False),
        "upsert": lambda target: _insert(flink, target, upsert=True),
    }
    return Engine("flink", writes, None, frozenset({"uuid", "time", "fixed[4]"}), identified=True)


def _insert(flink: Flink, target: Target, *, upsert: bool) -> None:
    rows = target.rows(8)
    names = ", ".join(f"`{field['name']}`" for field in target.fields)
    selected = " UNION ALL ".join(
        "SELECT " + ", ".join(_literal(field["type"], row[field["name"]]) for field in target.fields)
        for row in rows
    )
    hint = "/*+ OPTIONS('upsert-enabled'='true') */ " if upsert else ""
    flink.sql(f"INSERT INTO ice.{NAMESPACE}.{target.table} {hint}({names}) {selected}")


def _literal(kind: Any, given: Any) -> str:
    if given is None or (not isinstance(kind, str) and not given):  # SQL of Flink has no empty collections
        return f"CAST(NULL AS {_sql_type(kind)})"
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            parts = [_literal(field["type"], given[field["name"]]) for field in kind["fields"]]
            return f"CAST(ROW({', '.join(parts)}) AS {_sql_type(kind)})"
        if kind["type"] == "list":
            return f"ARRAY[{', '.join(_literal(kind['element'], item) for item in given)}]"
        pairs = ", ".join(f"'{k}', {_literal(kind['value'], v)}" for k, v in given.items())
        return f"CAST(MAP[{pairs}] AS {_sql_type(kind)})"
    if kind == "binary":
        return f"CAST(X'{given}' AS BYTES)"
    text = str(given)
    if kind.startswith("timestamp"):
        text = text.replace("T", " ").removesuffix("+00:00")
    escaped = text.replace("'", "''")
    return f"CAST('{escaped}' AS {_sql_type(kind)})"


def _sql_type(kind: Any) -> str:
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            inner = ", ".join(f"`{field['name']}` {_sql_type(field['type'])}" for field in kind["fields"])
            return f"ROW<{inner}>"
        if kind["type"] == "list":
            return f"ARRAY<{_sql_type(kind['element'])}>"
        return f"MAP<{_sql_type(kind['key'])}, {_sql_type(kind['value'])}>"
    return _OF_TYPE.get(kind, kind.upper())


__all__ = ["FlinkError", "engine", "running"]
