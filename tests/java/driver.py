"""Iceberg's Java implementation as one long-lived process that answers questions.

with iceberg_java(log) as java:
    java.ask("applyTable", base=None, updates=[...], requirements=[...])

The sources beside this file are compiled once per content, into the cache directory of the jars. A new command is a
method named in `Driver.commands()`.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import jars

_HERE = Path(__file__).parent
_MAIN = "Driver"


class JavaError(Exception):
    """Java refused: `kind` is the simple name of the exception's class."""

    def __init__(self, kind: str, message: str, at: str = "") -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.at = at


class IcebergJava:
    """The running process; one question at a time."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, command: str, **members: Any) -> Any:
        """The result of a command.

        Raises:
            JavaError: the command threw.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = json.dumps({"command": command, **members})
        self._process.stdin.write(question.encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Java process ended:\n{self._log.read_text(errors='replace')[-3000:]}")
        answer = json.loads(line)
        if (error := answer.get("error")) is not None:
            raise JavaError(error["class"], error["message"], error["at"])
        return answer["result"]


@contextmanager
def iceberg_java(log: Path) -> Iterator[IcebergJava]:
    """The process for the length of a `with` block; what it logs goes to the file.

    Raises:
        JarsMissing: it can not be had on this machine.
    """
    classpath = f"{_compiled()}{os.pathsep}{_jars()}/*"
    options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Duser.timezone=UTC"]
    command = ["java", *options, "-cp", classpath, _MAIN]
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=log.parent
        )
    try:
        yield IcebergJava(process, log)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _jars() -> Path:
    return jars.fetched(_HERE / "pom.xml", "iceberg")


def _compiled() -> Path:
    sources = sorted(_HERE.glob("*.java"))
    digest = hashlib.sha256((_HERE / "pom.xml").read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    target = jars.cache_directory() / f"iceberg-driver-{digest.hexdigest()[:12]}"
    if target.is_dir():
        return target
    fresh = target.with_name(f".{target.name}-{os.getpid()}")
    command = ["javac", "-nowarn", "-proc:none", "-cp", f"{_jars()}/*", "-d", str(fresh)]
    done = subprocess.run(
        [*command, *map(str, sources)], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise jars.JarsMissing(f"javac: {done.stderr[-3000:]}")
    try:
        fresh.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(fresh)
    return target
