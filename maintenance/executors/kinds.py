"""The names of executors, as settings have them; imports nothing, so that settings cost nothing."""

from enum import StrEnum


class ExecutorKind(StrEnum):
    """The values of the setting `maintenance.executor`."""

    PROCESS = "process"
    RAY = "ray"
    INLINE = "inline"
