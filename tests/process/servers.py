"""Real `frazil serve` processes for tests: started on a free port and a temporary data directory, always ended.

with serving(tmp_path) as server:
    requests.get(server.url + "/health/live")
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 60.0


@dataclass
class Server:
    """One running server process."""

    process: subprocess.Popen[bytes]
    url: str
    data_dir: Path
    log: Path
    stdout: list[str] = field(default_factory=list)

    @property
    def iceberg(self) -> str:
        """Base URI for Iceberg clients."""
        return f"{self.url}/iceberg"

    @property
    def api(self) -> str:
        """Base URI of the management API."""
        return f"{self.url}/api/v1"

    @property
    def pid(self) -> int:
        return self.process.pid

    def log_text(self) -> str:
        """What the server has logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def terminate(self) -> int:
        """SIGTERM and wait: the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL and wait; also after `terminate`, to give the pipe back."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


def frazil(*arguments: str) -> list[str]:
    """The command line of this checkout's program."""
    return [sys.executable, "-m", "catalog_server", *arguments]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without settings of the surroundings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FRAZIL_")}
    return {**kept, **(extra or {})}


def run_frazil(
    *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        frazil(*arguments), env=environment(env), capture_output=True, text=True, timeout=timeout, check=False
    )


def start_server(
    directory: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    maintenance: bool = False,
    command: Sequence[str] | None = None,
) -> Server:
    """Start a server on `directory/data` and wait for its `ready` line. The caller stops it."""
    directory.mkdir(parents=True, exist_ok=True)
    data_dir = directory / "data"
    log = directory / "serve.log"
    flags = [] if maintenance else ["--no-maintenance"]
    line = [*(command or frazil()), "serve", "--port", "0", "--data-dir", str(data_dir), *flags, *arguments]
    with log.open("ab") as stderr:
        process = subprocess.Popen(line, env=environment(env), stdout=subprocess.PIPE, stderr=stderr)
    server = Server(process, "", data_dir, log)
    try:
        first = _first_line(process, START_SECONDS)
    except TimeoutError:
        server.kill()
        raise
    if not first.startswith("ready http://"):
        server.kill()
        raise RuntimeError(f"the server did not start: {first!r}\n{server.log_text()}")
    server.url = first.removeprefix("ready ").strip()
    server.stdout.append(first)
    return server


@contextmanager
def serving(
    directory: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    maintenance: bool = False,
) -> Iterator[Server]:
    """A server for the length of a `with` block."""
    server = start_server(directory, *arguments, env=env, maintenance=maintenance)
    try:
        yield server
    finally:
        try:
            server.terminate()
        finally:
            server.kill()


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> str:
    stdout = process.stdout
    assert stdout is not None
    deadline = time.monotonic() + seconds
    received = b""
    while b"\n" not in received:
        left = deadline - time.monotonic()
        readable, _, _ = select.select([stdout], [], [], max(left, 0))
        if not readable:
            raise TimeoutError(f"no ready line within {seconds} s")
        chunk = os.read(stdout.fileno(), 4096)
        if not chunk:
            break
        received += chunk
    return received.decode()
