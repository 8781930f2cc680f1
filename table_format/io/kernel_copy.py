"""Bytes from one open file into another, copied by the system where it can (Linux), else through memory.

The target is written at its own position, which moves on; the source is read at a given offset.
"""

import errno
import os
from collections.abc import Callable
from typing import Final

CHUNK_BYTES: Final = 16 << 20
"""Copied between two questions whether to go on."""
_CANNOT: Final = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF, errno.EPERM)
_BY_SYSTEM: Final = hasattr(os, "copy_file_range")


def copy_bytes(source: int, target: int, offset: int, size: int, go_on: Callable[[], None]) -> int:
    """Copy `size` bytes from `offset` of the source; how many of them went through this process.

    Raises:
        EOFError: the source ends before that.
        OSError: reading or writing failed.
    """
    done = through = 0
    by_system = _BY_SYSTEM
    while done < size:
        go_on()
        wanted = min(CHUNK_BYTES, size - done)
        if by_system:
            copied = _by_system(source, target, offset + done, wanted)
            # Some file systems answer 0 for what they cannot copy: whether the file ends there, reading tells.
            by_system = copied > 0
            done += copied
        else:
            copied = _through_memory(source, target, offset + done, wanted)
            done += copied
            through += copied
    return through


def _by_system(source: int, target: int, offset: int, size: int) -> int:
    try:
        return os.copy_file_range(source, target, size, offset_src=offset)
    except OSError as error:
        if error.errno in _CANNOT:
            return 0
        raise


def _through_memory(source: int, target: int, offset: int, size: int) -> int:
    data = os.pread(source, size, offset)
    if not data:
        raise EOFError
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]
    return len(data)
