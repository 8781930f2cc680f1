"""Starts the servers that are measured: ours on its embedded default, SeaweedFS's Iceberg catalog as the peer."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: catalog base URL with the prefix, process id."""

    name: str
    base_url: str
    pid: int

    def rss_mb(self) -> float:
        """Resident memory of the server's own process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_seconds(self) -> float:
        """User and system CPU seconds so far, threads included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def frazil(home: Path, *, maintenance: bool = False) -> Iterator[Server]:
    """`frazil serve` with SQLite and files."""
    command = [sys.executable, "-m", "catalog_server", "serve", "--port", "0", "--data-dir", str(home)]
    command += [] if maintenance else ["--no-maintenance"]
    with (home.parent / "frazil.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            prefix = requests.get(f"{url}/iceberg/v1/config", timeout=10).json()["overrides"]["prefix"]
            yield Server(name="frazil", base_url=f"{url}/iceberg/v1/{prefix}", pid=process.pid)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def seaweedfs(home: Path) -> Iterator[Server]:
    """SeaweedFS in its all-in-one form, its Iceberg REST catalog over its own S3."""
    weed = Path(sys.executable).parent / "weed"
    # Every port has a gRPC twin 10,000 above it: keep them all below 50,000 and apart from each other.
    offset = _free_offset()
    ports = {"s3.port": 8333, "s3.port.iceberg": 18181, "master.port": 9333, "volume.port": 9340}
    ports |= {"filer.port": 8888, "admin.port": 23646}
    command = [str(weed), "-logtostderr=true", "mini", f"-dir={home}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-webdav=false", "-admin.ui=false", "-s3.port.lance=0"]
    command += [f"-{name}={port + offset}" for name, port in ports.items()] + ["-tableBucket=bench"]
    home.mkdir(parents=True)
    with (home.parent / "seaweedfs.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            base = f"http://127.0.0.1:{ports['s3.port.iceberg'] + offset}/v1"
            # The port answers before the bucket exists.
            _wait(f"{base}/bench/namespaces")
            yield Server(
                name="SeaweedFS",
                base_url=f"{base}/bench",
                pid=process.pid,
            )
        finally:
            process.terminate()
            process.wait()


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            if requests.get(url, timeout=5).ok:
                return
        except requests.RequestException:
            pass
        if time.monotonic() > deadline:
            raise SystemExit(f"the peer did not answer at {url}")
        time.sleep(0.3)


def _free_offset() -> int:
    for offset in range(100, 5_000, 37):
        wanted = [port + offset for port in (8333, 18181, 9333, 9340, 8888, 23646)]
        if all(_is_free(port) and _is_free(port + 10_000) for port in wanted):
            return offset
    raise SystemExit("no free block of ports for the peer")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
