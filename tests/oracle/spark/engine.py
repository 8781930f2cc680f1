"""Spark 4.1 with Iceberg, installed once from the package registries, as a reader and a writer of histories."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import jars
from tests.oracle import values
from tests.oracle.histories import Engine
from tests.oracle.lab import NAMESPACE, Lab, Version
from tests.oracle.readers import Found, columns_of, ordered, schema_of, text
from tests.oracle.writers import Step, Target

PYSPARK = "4.1.4"
_HERE = Path(__file__).parent
_OF_TYPE = {"long": "BIGINT", "int": "INT", "timestamptz": "TIMESTAMP", "timestamp": "TIMESTAMP_NTZ"}


class SparkError(Exception):
    """Spark refused a statement."""


class Spark:
    """The running process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of a statement.

        Raises:
            SparkError: it failed.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sql": statement}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Spark ended:\n{self._log.read_text(errors='replace')[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise SparkError(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows


def _python() -> Path:
    """The Python that has PySpark."""
    target = jars.cache_directory() / f"pyspark-{PYSPARK}"
    if not target.is_dir():
        fresh = target.with_name(f".{target.name}-{os.getpid()}")
        subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
        pip = [str(fresh / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"pyspark=={PYSPARK}"], check=True)
        try:
            fresh.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return target / "bin/python"


@contextmanager
def running(lab: Lab, place: Path) -> Iterator[Spark]:
    """Spark on the lab's catalog, for the length of a `with` block.

    Raises:
        JarsMissing: it can not be had on this machine.
    """
    place.mkdir(parents=True, exist_ok=True)
    folder, log = jars.fetched(_HERE / "pom.xml", "spark"), place / "spark.log"
    command = [str(_python()), str(_HERE / "session.py"), lab.iceberg, str(folder), str(place)]
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=place
        )
    try:
        yield Spark(process, log)
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


# reading


def by_spark(spark: Spark, table: str, version: Version, snapshot_id: int) -> Found:
    """One snapshot, read by Spark."""
    schema = schema_of(version.metadata, snapshot_id)
    lineage = version.metadata.format_version >= 3
    wanted = [_shown(f"`{field['name']}`", field["type"]) for field in schema["fields"]]
    if lineage:
        wanted += ["CAST(_row_id AS STRING)", "CAST(_last_updated_sequence_number AS STRING)"]
    rows = spark.sql(f"SELECT {', '.join(wanted)} FROM {NAMESPACE}.{table} VERSION AS OF {snapshot_id}")
    kinds = [field["type"] for field in schema["fields"]] + ["string"] * (2 * lineage)
    read = [[_text(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in rows]
    return Found(columns_of(schema), ordered(read), lineage)


def _text(kind: Any, value: Any) -> str | None:
    return text(kind, value) if kind in ("float", "double") else value


def _shown(column: str, kind: Any) -> str:
    """An expression for the text of a value; of a float the value itself, whose bits SQL does not tell."""
    if not isinstance(kind, str):
        return _nested(column, kind)
    if kind in ("float", "double"):
        return f"CAST({column} AS DOUBLE)"
    if kind == "date":
        return f"CAST(unix_date({column}) AS STRING)"
    if kind in ("timestamp", "timestamptz"):
        return f"CAST(unix_micros(CAST({column} AS TIMESTAMP)) AS STRING)"
    if kind == "binary" or kind.startswith("fixed"):
        return f"lower(hex({column}))"
    return f"CAST({column} AS STRING)"


def _nested(column: str, kind: Any) -> str:
    if kind["type"] == "struct":
        parts = [_word(f"{column}.`{field['name']}`", field["type"]) for field in kind["fields"]]
        inner = "concat('(', " + ", ', ', ".join(parts) + ", ')')"
    elif kind["type"] == "list":
        inner = f"concat('[', array_join(transform({column}, x -> {_word('x', kind['element'])}), ', '), ']')"
    else:
        entry = f"concat({_word('e.key', kind['key'])}, '=', {_word('e.value', kind['value'])})"
        entries = f"array_sort(transform(map_entries({column}), e -> {entry}))"
        inner = f"concat('{{', array_join({entries}, ', '), '}}')"
    return f"IF({column} IS NULL, NULL, {inner})"


def _word(value: str, kind: Any) -> str:
    return f"coalesce({_shown(value, kind)}, 'null')"


# writing


def writes(spark: Spark) -> dict[str, Step]:
    """What Spark does to tables, by name."""

    def append(target: Target) -> None:
        spark.sql(f"INSERT INTO {_name(target)} {_select(target, target.rows(12))}")

    def delete(target: Target) -> None:
        spark.sql(f"DELETE FROM {_name(target)} WHERE {_where(target)}")

    def update(target: Target) -> None:
        field = target.rng.choice([f for f in target.fields if f["name"] != target.key])
        new = _literal(field["type"], values.value(target.rng, field["type"]))
        spark.sql(f"UPDATE {_name(target)} SET `{field['name']}` = {new} WHERE {_where(target)}")

    def merge(target: Target) -> None:
        by_key = {row[target.key]: row for row in target.rows(8)}
        spark.sql(
            f"MERGE INTO {_name(target)} t USING ({_select(target, list(by_key.values()))}) s "
            f"ON t.`{target.key}` = s.`{target.key}` "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def how(target: Target) -> None:
        """From here on rows are deleted by files of deletes, or by writing files anew."""
        mode = target.rng.choice(("merge-on-read", "merge-on-read", "copy-on-write"))
        named = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("delete", "update", "merge"))
        spark.sql(f"ALTER TABLE {_name(target)} SET TBLPROPERTIES ({named})")

    return {"append": append, "delete": delete, "update": update, "merge": merge, "mode": how}


def _name(target: Target) -> str:
    return f"{NAMESPACE}.{target.table}"


def _where(target: Target) -> str:
    given = target.key_value()
    column = f"`{target.key}`"
    return f"{column} IS NULL" if given is None else f"{column} = {_literal(target.key_type, given)}"


def _select(target: Target, rows: list[values.Row]) -> str:
    return " UNION ALL ".join(
        "SELECT "
        + ", ".join(f"{_literal(f['type'], row[f['name']])} AS `{f['name']}`" for f in target.fields)
        for row in rows
    )


def _literal(kind: Any, given: Any) -> str:
    if given is None:
        return f"CAST(NULL AS {_sql_type(kind)})"
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            parts = [f"'{f['name']}', {_literal(f['type'], given[f['name']])}" for f in kind["fields"]]
            return f"named_struct({', '.join(parts)})"
        if kind["type"] == "list":
            items = ", ".join(_literal(kind["element"], item) for item in given)
            return f"CAST(array({items}) AS {_sql_type(kind)})"
        pairs = ", ".join(f"'{k}', {_literal(kind['value'], v)}" for k, v in given.items())
        return f"CAST(map({pairs}) AS {_sql_type(kind)})"
    if kind == "binary" or kind.startswith("fixed"):
        return f"X'{given}'"
    escaped = str(given).replace("'", "\\'")
    return f"CAST('{escaped}' AS {_sql_type(kind)})"


def _sql_type(kind: Any) -> str:
    if not isinstance(kind, str):
        if kind["type"] == "struct":
            inner = ", ".join(f"{field['name']}: {_sql_type(field['type'])}" for field in kind["fields"])
            return f"STRUCT<{inner}>"
        if kind["type"] == "list":
            return f"ARRAY<{_sql_type(kind['element'])}>"
        return f"MAP<{_sql_type(kind['key'])}, {_sql_type(kind['value'])}>"
    if kind.startswith("fixed"):
        return "BINARY"
    return _OF_TYPE.get(kind, "STRING" if kind == "uuid" else kind.upper())


def engine(spark: Spark) -> Engine:
    """Spark as histories take it; it has no type for a time of day."""
    return Engine(
        name="spark",
        writes=writes(spark),
        read=lambda table, version, snapshot: by_spark(spark, table, version, snapshot),
        unknown_types=frozenset({"time"}),
    )
