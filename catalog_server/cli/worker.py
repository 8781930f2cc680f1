"""`frazil worker`: a process that does nothing but table maintenance; `serve` runs one as its child."""

import asyncio
import os
import signal
import socket

import anyio
import uvloop

from catalog_server.bootstrap import Platform, build
from catalog_server.cli.output import print_line
from catalog_server.cli.serve import Config, DataDir, UntilStdinEnds, start_errors, start_settings
from catalog_server.cli.supervise import when_stdin_ends
from catalog_server.settings import Settings
from maintenance.scheduler import Scheduler
from maintenance.worker import Worker, WorkerSettings


def worker(data_dir: DataDir = None, config: Config = None, until_stdin_ends: UntilStdinEnds = False) -> None:
    """Run table maintenance: claim jobs from the database and run them, until Ctrl-C or SIGTERM.

    `frazil serve` already runs one beside the API. Start more where one is not enough; they share the work.
    """
    with start_errors():
        settings = start_settings(config, {"server.data_dir": data_dir})
        uvloop.run(_work(settings, until_stdin_ends=until_stdin_ends))


async def _work(settings: Settings, *, until_stdin_ends: bool) -> None:
    platform = build(settings)
    await platform.join()
    try:
        stop = anyio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if until_stdin_ends:
            when_stdin_ends(lambda: loop.call_soon_threadsafe(stop.set))
        print_line("maintenance ready")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_scheduler(platform).run, stop)
            tasks.start_soon(_worker(platform).run, stop)
    finally:
        await platform.close()


def _scheduler(platform: Platform) -> Scheduler:
    tick_seconds = platform.settings.maintenance.tick_seconds
    expiring = (platform.idempotency, platform.reports, platform.plans, platform.jobs, platform.drops)
    sweeps = tuple(service.forget_expired for service in expiring)
    return Scheduler(platform.jobs, platform.jobs, platform.clock, tick_seconds, sweeps)


def _worker(platform: Platform) -> Worker:
    wanted = platform.settings.maintenance
    settings = WorkerSettings(
        owner=f"{socket.gethostname()}:{os.getpid()}:{platform.ids.uuid()[:8]}",
        concurrency=wanted.concurrency,
        lease_ms=int(wanted.lease_seconds * 1000),
        poll_seconds=wanted.poll_seconds,
        drain_seconds=platform.settings.server.drain_seconds,
    )
    return Worker(platform.jobs, platform.job_context, platform.clock, platform.ids, settings)
