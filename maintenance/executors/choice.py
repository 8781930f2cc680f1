"""Which executor an installation uses."""

import importlib
import os

from maintenance.executors.inline import InlineExecutor
from maintenance.executors.kinds import ExecutorKind
from maintenance.executors.port import Executor

_MB = 1 << 20


def executor_of(
    kind: ExecutorKind, *, side_by_side: int, memory_mb: int, most_memory_mb: int, ray_address: str
) -> Executor:
    """The executor; nothing is started and nothing connected to before there is work."""
    if most_memory_mb:  # of all pieces that run at the same time; 0 is no limit
        fitting = max(1, most_memory_mb // memory_mb)
        side_by_side = min(side_by_side or os.cpu_count() or 1, fitting)
    made: Executor
    match kind:
        case ExecutorKind.INLINE:
            made = InlineExecutor()
        # The API's process puts a platform together too, and never executes anything: it need not load these.
        case ExecutorKind.PROCESS:
            pool = importlib.import_module("maintenance.executors.process").ProcessPool
            made = pool(processes=side_by_side, memory_bytes=memory_mb * _MB)
        case ExecutorKind.RAY:
            ray = importlib.import_module("maintenance.executors.cluster").RayExecutor
            made = ray(side_by_side=side_by_side, memory_bytes=memory_mb * _MB, address=ray_address)
    return made
