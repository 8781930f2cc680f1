"""Starts the servers that are measured: ours on its embedded default, and the peers beside it, all on loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import requests

from benchmarks.peers import CannotRun, java, nessie_jar, reference_classes, reference_source

_HEAP = "-Xmx1g"


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
def frazil(
    home: Path, *, maintenance: bool = False, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """`frazil serve` with SQLite and files."""
    command = [sys.executable, "-m", "catalog_server", "serve", "--port", "0", "--data-dir", str(home)]
    command += [] if maintenance else ["--no-maintenance"]
    variables = {**os.environ, **(environment or {})}
    with (home.parent / "frazil.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=variables)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            prefix = requests.get(f"{url}/iceberg/v1/config", timeout=10).json()["overrides"]["prefix"]
            yield Server(name="frazil", base_url=f"{url}/iceberg/v1/{prefix}", pid=process.pid)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def reference(home: Path) -> Iterator[Server]:
    """Iceberg's own REST test server: JdbcCatalog on SQLite, local files."""
    port = _free_port()
    command = [java(17), _HEAP, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", f"{reference_classes()}/*", str(reference_source()), str(port), str(home)]
    with _running(command, home.parent / "reference.log") as pid:
        base = f"http://127.0.0.1:{port}/v1"
        _wait(f"{base}/config")
        yield Server(name="Java reference", base_url=base, pid=pid)


@contextmanager
def nessie(home: Path) -> Iterator[Server]:
    """Project Nessie with its version store in memory, metadata files in SeaweedFS's S3 (whose CPU is not counted)."""
    port, management = _free_port(), _free_port()
    with _weed(home, "bucket") as ports:
        secret = "bench-secrets.s3"
        s3 = "nessie.catalog.service.s3.default-options"
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": management,
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": "s3://bench/",
            f"{s3}.endpoint": f"http://127.0.0.1:{ports['s3.port']}/",
            f"{s3}.path-style-access": "true",
            f"{s3}.region": "us-east-1",
            f"{s3}.access-key": f"urn:nessie-secret:quarkus:{secret}",
            f"{secret}.name": _S3_KEY,
            f"{secret}.secret": _S3_SECRET,
        }
        command = [java(21), _HEAP, *(f"-D{name}={value}" for name, value in options.items())]
        command += ["-jar", str(nessie_jar())]
        with _running(command, home.parent / "nessie.log") as pid:
            base = f"http://127.0.0.1:{port}/iceberg/v1"
            prefix = _wait(f"{base}/config").json()["defaults"]["prefix"]
            yield Server(name="Nessie", base_url=f"{base}/{quote(prefix, safe='')}", pid=pid)


@contextmanager
def seaweedfs(home: Path) -> Iterator[Server]:
    """SeaweedFS in its all-in-one form, its Iceberg REST catalog over its own S3."""
    with _weed(home, "tableBucket", signed=False) as ports:
        base = f"http://127.0.0.1:{ports['s3.port.iceberg']}/v1"
        # The port answers before the bucket exists.
        _wait(f"{base}/bench/namespaces")
        yield Server(name="SeaweedFS", base_url=f"{base}/bench", pid=ports["pid"])


PEERS: Mapping[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "reference": reference,
    "nessie": nessie,
    "seaweedfs": seaweedfs,
}
__all__ = ["PEERS", "CannotRun", "Server", "frazil"]

# Of a store that lives as long as the benchmark, on loopback.
_S3_KEY, _S3_SECRET = "bench", "bench-secret"


@contextmanager
def _weed(home: Path, bucket_option: str, *, signed: bool = True) -> Iterator[dict[str, int]]:
    """A SeaweedFS with one bucket named `bench`; its ports by option, and its process id."""
    weed = Path(sys.executable).parent / "weed"
    # Every port has a gRPC twin 10,000 above it: keep them all below 50,000 and apart from each other.
    offset = _free_offset()
    known = {"s3.port": 8333, "s3.port.iceberg": 18181, "master.port": 9333, "volume.port": 9340}
    known |= {"filer.port": 8888, "admin.port": 23646}
    ports = {name: port + offset for name, port in known.items()}
    command = [str(weed), "-logtostderr=true", "mini", f"-dir={home}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-webdav=false", "-admin.ui=false", "-s3.port.lance=0"]
    command += [f"-{name}={port}" for name, port in ports.items()] + [f"-{bucket_option}=bench"]
    home.mkdir(parents=True)
    keys = {"AWS_ACCESS_KEY_ID": _S3_KEY, "AWS_SECRET_ACCESS_KEY": _S3_SECRET} if signed else {}
    with _running(command, home.parent / "seaweedfs.log", keys) as pid:
        _answering(f"http://127.0.0.1:{ports['s3.port']}/")
        yield {**ports, "pid": pid}


@contextmanager
def _running(command: list[str], log: Path, variables: Mapping[str, str] | None = None) -> Iterator[int]:
    with log.open("wb") as sink:
        environment = {**os.environ, **(variables or {})}
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment, cwd=log.parent)
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answering(url: str) -> None:
    """Wait for any answer at all."""
    deadline = time.monotonic() + 240
    while True:
        try:
            requests.get(url, timeout=5)
        except requests.RequestException:
            if time.monotonic() > deadline:
                raise CannotRun(f"the peer did not answer at {url}") from None
            time.sleep(0.3)
        else:
            return


def _wait(url: str) -> requests.Response:
    deadline = time.monotonic() + 240
    while True:
        try:
            answer = requests.get(url, timeout=5)
        except requests.RequestException:
            pass
        else:
            if answer.ok:
                return answer
        if time.monotonic() > deadline:
            raise CannotRun(f"the peer did not answer at {url}")
        time.sleep(0.3)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _free_offset() -> int:
    for offset in range(100, 5_000, 37):
        wanted = [port + offset for port in (8333, 18181, 9333, 9340, 8888, 23646)]
        if all(_is_free(port) and _is_free(port + 10_000) for port in wanted):
            return offset
    raise CannotRun("no free block of ports for the peer")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
