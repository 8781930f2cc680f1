"""`frazil serve`: the API in this process (or in N), maintenance in one child; one `ready` line once it answers.

Everything that can be wrong with the start itself is found before the line is printed and told in one line.
"""

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
import uvloop

from catalog_server.app import create_app
from catalog_server.bootstrap import build, serve_lock
from catalog_server.cli.client import without_client_variables
from catalog_server.cli.output import CannotStart, print_line
from catalog_server.cli.protocol import bounded
from catalog_server.cli.supervise import STDIN_FLAG, Child, when_stdin_ends
from catalog_server.settings import Settings, StartError, load
from catalog_server.telemetry import configure_logging

_BACKLOG = 2048
# Longer than the idle time after which clients and proxies drop a connection themselves: a request must not meet
# a connection that the server is just closing.
_KEEP_ALIVE_SECONDS = 75
_CHILD_GRACE_SECONDS = 5.0

Config = Annotated[
    Path | None, typer.Option("--config", help="Settings file (TOML); FRAZIL_… variables win over it.")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the embedded database and tables lie.  [default: frazil-data]"),
]
UntilStdinEnds = Annotated[bool, typer.Option(STDIN_FLAG, hidden=True)]


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on.  [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port to listen on; 0 takes a free one.  [default: 8181]"),
    ] = None,
    data_dir: DataDir = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="API processes.")] = 1,
    maintenance: Annotated[
        bool | None,
        typer.Option("--maintenance/--no-maintenance", help="Run table maintenance beside the API."),
    ] = None,
    config: Config = None,
) -> None:
    """Run the server: Iceberg REST catalog, management API and table maintenance.

    Prints one line `ready http://HOST:PORT` once it answers. Stop it with Ctrl-C or SIGTERM: requests and jobs in
    flight are finished first.
    """
    overrides: dict[str, object] = {
        "server.host": host,
        "server.port": port,
        "server.data_dir": data_dir,
        "maintenance.enabled": maintenance,
    }
    with start_errors():
        settings = start_settings(config, overrides)
        shared = [] if config is None else ["--config", str(config.absolute())]
        shared += ["--data-dir", str(settings.server.data_dir.absolute())]
        with serve_lock(settings):
            uvloop.run(_serve(settings, shared, workers))


async def _serve(settings: Settings, shared: list[str], workers: int) -> None:
    listener = _listen(settings.server.host, settings.server.port)
    if workers == 1:
        await _alone(settings, listener, shared)
    else:
        await _shared(settings, listener, shared, workers)


def api_process(
    fd: Annotated[int, typer.Option("--fd")],
    data_dir: DataDir = None,
    config: Config = None,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """One of several API processes behind one listening socket."""
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        listener = socket.socket(fileno=fd)
        uvloop.run(
            _answer(settings, listener, lambda: print_line("ready"), until_stdin_ends=until_stdin_ends)
        )


@contextmanager
def start_errors() -> Iterator[None]:
    """Tell what is wrong with a start in one line.

    Raises:
        CannotStart: for every StartError.
    """
    try:
        yield
    except StartError as error:
        raise CannotStart(str(error)) from None


def start_settings(config: Path | None, overrides: dict[str, object]) -> Settings:
    """The settings of a server process, with its logging set up by them.

    Raises:
        StartError: a setting is wrong.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = load(config, without_client_variables(), given)
    configure_logging(settings.telemetry.log_level, settings.telemetry.log_format)
    return settings


async def _alone(settings: Settings, listener: socket.socket, shared: list[str]) -> None:
    """API here, maintenance and ingest in children."""
    stop = asyncio.Event()
    children: list[asyncio.Task[None]] = []

    def ready() -> None:
        beside = _side_children(settings, listener, shared)
        children.extend(asyncio.create_task(child.run(stop)) for child in beside)
        print_line(f"ready {_url(listener)}")

    try:
        await _answer(settings, listener, ready, stopping=stop.set)
    finally:
        stop.set()
        await asyncio.gather(*children)


async def _shared(settings: Settings, listener: socket.socket, shared: list[str], workers: int) -> None:
    """N API children and those beside them; this process only watches over all."""
    await _check_start(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    drain = _child_drain(settings)
    arguments = ["api-process", "--fd", str(listener.fileno()), *shared]
    children = [
        Child(f"api-{number}", arguments, drain_seconds=drain, fds=[listener.fileno()])
        for number in range(1, workers + 1)
    ]
    running = [asyncio.create_task(child.run(stop)) for child in children]
    stopping = asyncio.create_task(stop.wait())
    all_ready = asyncio.create_task(_all_ready(children))
    await asyncio.wait({stopping, all_ready}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        beside = _side_children(settings, listener, shared)
        running.extend(asyncio.create_task(child.run(stop)) for child in beside)
        print_line(f"ready {_url(listener)}")
    await stopping
    all_ready.cancel()
    listener.close()
    await asyncio.gather(*running)


def _side_children(settings: Settings, listener: socket.socket, shared: list[str]) -> list[Child]:
    """What runs beside the API."""
    drain = _child_drain(settings)
    children = []
    if settings.maintenance.enabled:
        children.append(Child("maintenance", ["worker", *shared], drain_seconds=drain))
    if settings.ingest.enabled:
        catalog = ["--catalog-default", f"{_url(listener)}/iceberg"]
        arguments = ["ingest", "run", "--config", settings.ingest.config, *catalog]
        children.append(Child("ingest", arguments, drain_seconds=drain))
    return children


async def _all_ready(children: list[Child]) -> None:
    for child in children:
        await child.ready.wait()


async def _check_start(settings: Settings) -> None:
    """Migrate, make the default bucket and find what is wrong once, before several processes do."""
    platform = build(settings)
    await platform.start()
    await platform.warn_of_moved()
    await platform.close()


async def _answer(
    settings: Settings,
    listener: socket.socket,
    ready: Callable[[], None],
    *,
    stopping: Callable[[], None] | None = None,
    until_stdin_ends: bool = False,
) -> None:
    """Answer requests on the listener until told to stop; `stopping` is called when that begins."""
    platform = build(settings)
    await platform.start()
    try:
        if not until_stdin_ends:  # the parent of several has told already
            await platform.warn_of_moved()
        config = uvicorn.Config(
            create_app(platform),
            http=bounded(settings.server.head_seconds, settings.server.body_seconds),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(settings.server.drain_seconds)),
        )
        server = _Server(config, ready, stopping)
        if until_stdin_ends:
            loop = asyncio.get_running_loop()
            when_stdin_ends(lambda: loop.call_soon_threadsafe(server.stop))
        await server.serve(sockets=[listener])
    finally:
        await platform.close()


class _Server(uvicorn.Server):
    """uvicorn, telling when it serves, and ending with exit code 0 after a signal."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None] | None
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        if self.started:
            # What a start leaves is never garbage; looking through it again took 100 ms of all requests at a time.
            gc.collect()
            gc.freeze()
            self._ready()

    def stop(self) -> None:
        """Finish what is in flight and end; at the second call end at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self._stopping is not None:
            self._stopping()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stop the server (uvicorn's own version raises them again after the end)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _child_drain(settings: Settings) -> float:
    """A child drains by the same setting; only one that does not end even then is killed."""
    return settings.server.drain_seconds + _CHILD_GRACE_SECONDS


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket; from here on connections queue until the server answers them.

    Raises:
        StartError: the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"port {port} on {host} is taken by another program: choose another with --port (0 takes a free one)"
            ) from None
        raise StartError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
