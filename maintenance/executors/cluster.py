"""Pieces of work on a Ray cluster (extra `ray`): an existing one, or one that Ray starts on this machine.

The cluster's machines need Frazil installed, in the same version. Properties of the store, secrets included, travel
to them with the work.
"""

import importlib
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, Final

import structlog

from maintenance.executors.child import Answer, Order, answer
from maintenance.executors.inline import InlineExecutor
from maintenance.executors.memory import within
from maintenance.executors.port import Ended, GoOn, R, Reach, Work, WorkLost, stays_here
from table_format.errors import Unavailable

_log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 0.2


class NoRay(Unavailable):
    """The extra `ray` is not installed, or the cluster cannot be reached."""


class RayExecutor:
    """An `Executor` on Ray; connects when there is work."""

    def __init__(self, *, side_by_side: int, memory_bytes: int, address: str) -> None:
        """Prepare; 0 side by side is one for each CPU of the cluster, an empty address a cluster on this machine."""
        self._side_by_side = side_by_side
        self._memory = memory_bytes
        self._address = address
        self._remote: Any = None

    def run(self, works: Iterable[Work[R]], reach: Reach, go_on: GoOn) -> Generator[Ended[R], None, None]:
        """Execute all, as many side by side as configured.

        Raises:
            NoRay: there is no Ray.
        """
        if stays_here(reach):
            yield from InlineExecutor().run(works, reach, go_on)
            return
        ray = self._connected()
        most = self._side_by_side or max(1, int(ray.cluster_resources().get("CPU", 1)))
        pending = iter(works)
        running: dict[Any, Work[R]] = {}
        more = True
        try:
            while more or running:
                go_on()
                side_by_side, _ = reach.pace().among(most)
                while more and len(running) < side_by_side:
                    work = next(pending, None)
                    more = work is not None
                    if work is not None:
                        order = Order.of(work, reach, most)
                        running[self._remote.remote(order, self._memory)] = work
                if running:
                    done, _ = ray.wait(list(running), num_returns=1, timeout=_POLL_SECONDS)
                    for reference in done:
                        work = running.pop(reference)
                        yield _ended(ray, reference, work)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=30)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._remote is not None:
            importlib.import_module("ray").shutdown()
            self._remote = None

    def _connected(self) -> Any:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise NoRay(
                "setting maintenance.executor is ray, but Ray is not installed: pip install 'frazil[ray]'"
            ) from None
        if self._remote is None:
            try:
                if not ray.is_initialized():
                    ray.init(
                        address=self._address or None,
                        include_dashboard=False if not self._address else None,
                        log_to_driver=False,
                    )
            except (ConnectionError, RuntimeError, ValueError) as error:
                where = self._address or "this machine"
                raise NoRay(f"Ray on {where} (setting maintenance.ray_address): {error}") from error
            # A piece that was lost is the job's business: what it wrote is to be removed first. Each has a process of
            # its own, as what the one before left in memory would count against it.
            options = {"max_retries": 0, "max_calls": 1, "num_cpus": 1, "memory": self._memory}
            self._remote = ray.remote(**options)(_execute)
        return ray


def _execute(order: Order, memory: int) -> Answer:
    """What runs on the cluster."""
    return answer(order, within(memory, lambda: None))


def _ended(ray: Any, reference: Any, work: Work[R]) -> Ended[R]:
    try:
        found: Answer = ray.get(reference)
    except ray.exceptions.RayError as error:
        _log.warning("maintenance.work_lost", work=work.title, error=str(error))
        told = str(error).strip().splitlines()[0]
        lost = WorkLost(f"{work.title}: Ray lost it before it was done ({type(error).__name__}: {told})")
        return Ended(work=work, error=lost)
    if found.ended is None:
        return Ended(work=work, error=WorkLost(f"{work.title}: it was told to end"))
    return replace(found.ended, work=work)
