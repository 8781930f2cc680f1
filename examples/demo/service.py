"""Starts and talks to the two Frazil processes of the demo: `frazil serve` and `frazil ingest run`."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

_START_TIMEOUT = 60.0  # seconds; a cold start on a busy two-core machine takes a few


@contextmanager
def server(data_dir: Path, log: Path) -> Iterator[str]:
    """A running `frazil serve` on a free port; yields its base URL.

    Raises:
        SystemExit: it did not come up; names its log.
    """
    # Expiring after seconds is refused by default: only a demonstration wants it.
    unsafe = {"FRAZIL_MAINTENANCE__ALLOW_UNSAFE": "true", "FRAZIL_MAINTENANCE__TICK_SECONDS": "1"}
    command = [sys.executable, "-m", "catalog_server", "serve", "--port", "0", "--data-dir", str(data_dir)]
    with log.open("wb") as err:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=err, env=_environment(unsafe), text=True
        )
        try:
            yield _wait_ready(process, log)
        finally:
            _stop(process)


@contextmanager
def ingest(config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A running `frazil ingest run`; leaving the block stops it gracefully (it commits what it holds)."""
    command = [sys.executable, "-m", "catalog_server", "ingest", "run", "--config", str(config)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=_environment({}))
        try:
            yield process
        finally:
            _stop(process)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its Frazil settings: the demo must not touch a real site."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")} | extra


def _wait_ready(process: "subprocess.Popen[str]", log: Path) -> str:
    lines: queue.Queue[str] = queue.Queue()

    def pump() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=pump, daemon=True).start()
    try:
        line = lines.get(timeout=_START_TIMEOUT)
    except queue.Empty:
        line = ""
    if not line.startswith("ready "):
        raise SystemExit(f"frazil serve did not start; its log is {log}")
    return line.split()[1]


def _stop(process: "subprocess.Popen[Any]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Api:
    """The calls the demo makes: the catalog's loadTable and the management API."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._session = requests.Session()

    def table(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The LoadTableResult, or None while there is no such table."""
        answer = self._session.get(
            f"{self.base_url}/iceberg/v1/default/namespaces/{namespace}/tables/{name}", timeout=30
        )
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        return answer.json()

    def figures(self, namespace: str, name: str) -> dict[str, Any]:
        """The table's layout by the management API."""
        answer = self._session.get(
            f"{self.base_url}/api/v1/buckets/default/namespaces/{namespace}/tables/{name}", timeout=30
        )
        answer.raise_for_status()
        return answer.json()

    def committed_rows(self, namespace: str, name: str) -> int:
        """`total-records` of the current snapshot; 0 before the first."""
        loaded = self.table(namespace, name)
        if loaded is None:
            return 0
        head = loaded["metadata"].get("current-snapshot-id")
        for snapshot in loaded["metadata"].get("snapshots", []):
            if snapshot["snapshot-id"] == head:
                return int(snapshot["summary"]["total-records"])
        return 0

    def put_policy(self, policy: str, document: dict[str, Any]) -> None:
        """Set a policy on the bucket `default`; every table in it inherits it."""
        answer = self._session.put(
            f"{self.base_url}/api/v1/buckets/default/policies/{policy}", json=document, timeout=30
        )
        if not answer.ok:
            raise SystemExit(f"setting {policy} failed with {answer.status_code}: {answer.text}")

    def jobs(self, table: str) -> list[dict[str, Any]]:
        """Every maintenance job of one table, newest first."""
        answer = self._session.get(
            f"{self.base_url}/api/v1/jobs",
            params={"bucket": "default", "namespace": "demo", "table": table, "pageSize": 200},
            timeout=30,
        )
        answer.raise_for_status()
        return answer.json()["jobs"]
