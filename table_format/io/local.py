"""`LocalObjectStore`: `file:///…` on a POSIX file system, durable and never half visible.

An object is written into a nameless (or, where the file system has no such thing, hidden) file of the same
directory, synced, and only then given its name; the directory is synced after that. The path of a URI is taken
raw: `%`, `#` and `?` are letters like any other. Only regular files are objects.
"""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

from table_format.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NoSuchFile,
    TableFormatError,
    Unavailable,
)
from table_format.ident import strip_slash
from table_format.io.kernel_copy import copy_bytes
from table_format.io.output import Output
from table_format.io.ranges import beyond, check_range, replaced
from table_format.io.store import DeleteFailure, ObjectInfo, Piece, Range

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HIDDEN_START, _HIDDEN_END = ".frazil-", ".partial"
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.EILSEQ)
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)

# Of files as large as that, which are written whole, the system need not keep a copy in memory: whoever wrote one has
# its content, and a table with long metadata writes such a file at every commit and reads none of them again. Kept,
# they would push out what is read, and each would be written to memory that nobody has touched for long.
_UNCACHED_FROM_BYTES = 1 << 20

_serial = itertools.count()

# Nameless files get their name through /proc, so without it they cannot be used.
_NAMELESS = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0


def storage_error(error: OSError, path: str) -> TableFormatError:
    """The error of our tree that an operating system's error on `path` amounts to."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NoSuchFile(f"no such file: {path}")
    if error.errno == errno.EEXIST:
        return AlreadyExists(f"file exists already: {path}")
    if error.errno == errno.EISDIR:
        return NoSuchFile(f"{path} is a directory, not a file")
    if error.errno in _DENIED:
        return Forbidden(f"access to {path} denied ({reason}): check the owner and mode of the directory")
    if error.errno in _IMPOSSIBLE:
        return Invalid(f"{path} cannot be a file name here: {reason}")
    return Unavailable(f"storage failed on {path}: {reason}")


def local_path(path: str) -> str:
    """The file system path of a `file:` URI, taken raw.

    Raises:
        Invalid: not a `file:///` URI of an absolute path, or one with `..` or NUL in it.
    """
    if path.startswith("file:///"):
        raw = path[len("file://") :]
    elif path.startswith("file:/") and not path.startswith("file://"):
        raw = path[len("file:") :]
    else:
        raise Invalid(f"{path!r} is not a local file URI: write file:/// and an absolute path")
    if "\0" in raw or ".." in raw.split("/"):
        raise Invalid(f"{path!r} has '..' or NUL in it, which no file of a table may have")
    try:
        os.fsencode(raw)
    except UnicodeEncodeError:
        raise Invalid(f"{path!r} cannot be encoded as a file name") from None
    return raw


def is_there(path: str) -> bool:
    """Whether anything has that name: one look at the disk; what can not be told counts as there.

    Raises:
        Invalid: not a local path.
    """
    try:
        os.stat(local_path(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _object_path(path: str) -> str:
    raw = local_path(path)
    name = raw.rpartition("/")[2]
    if not name or name == ".":
        raise Invalid(f"{path!r} names a directory, not a file")
    if _hidden(name):
        raise Invalid(f"{path!r}: file names {_HIDDEN_START}*{_HIDDEN_END} are reserved")
    return raw


def _hidden(name: str) -> bool:
    return name.startswith(_HIDDEN_START) and name.endswith(_HIDDEN_END)


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(
        path=path,
        size=status.st_size,
        # A copy that keeps times (cp -p, rsync, tar) has an old mtime, but its ctime says when it came here, as an
        # object store would; taken for old, a file about to be committed could be removed as unreferenced.
        modified_ms=max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000,
        # Two files written within a tick of the system's clock have the same time, but not the same number.
        etag=f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}",
    )


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget(descriptor: int) -> None:
    advise = getattr(os, "posix_fadvise", None)
    if advise is not None:  # a hint, and not every system takes it
        with contextlib.suppress(OSError):
            advise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def make_directories(directory: str) -> None:
    """Create the directory and its missing parents, durably."""
    missing = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = directory.rpartition("/")[0] or "/"
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        _sync_directory(path.rpartition("/")[0] or "/")


class _FileSink:
    """One object on its way; nameless until published where the file system can do that."""

    def __init__(self, path: str, *, if_absent: bool) -> None:
        self._path = path
        self._target = _object_path(path)
        self._directory = self._target.rpartition("/")[0] or "/"
        self._if_absent = if_absent
        self._hidden: str | None = None
        self._open = False
        try:
            make_directories(self._directory)
            self._descriptor = self._create()
        except OSError as error:
            raise self._refusal(error) from error
        self._open = True

    def _create(self) -> int:
        if _NAMELESS:
            try:
                return os.open(self._directory, _NAMELESS | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except OSError as error:
                if error.errno not in _NO_NAMELESS:
                    raise
        self._hidden, descriptor = self._create_hidden()
        return descriptor

    def _next_hidden(self) -> str:
        name = f"{_HIDDEN_START}{os.getpid()}-{next(_serial)}{_HIDDEN_END}"
        return f"{self._directory.rstrip('/')}/{name}"

    def _create_hidden(self) -> tuple[str, int]:
        while True:
            name = self._next_hidden()
            # A file of that name is another process's, or a dead one's: take the next number.
            with contextlib.suppress(FileExistsError):
                return name, os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)

    def write(self, data: "ReadableBuffer") -> None:
        """Take all of the bytes."""
        rest = memoryview(data).cast("B")
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise self._refusal(error) from error

    def take(self, wanted: Range, go_on: Callable[[], None]) -> int:
        """Copy a range of another file; how many bytes went through this process."""
        check_range(wanted)
        try:
            source = _open_regular(wanted.path)
        except OSError as error:
            raise storage_error(error, wanted.path) from error
        try:
            _check_version(source, wanted)
            # A name may be given to another file, which this one does not notice; writing into it changes its time.
            through = self._copy(source, wanted, go_on)
            _check_version(source, wanted)
        finally:
            os.close(source)
        return through

    def _copy(self, source: int, wanted: Range, go_on: Callable[[], None]) -> int:
        if os.fstat(source).st_size < wanted.end:
            raise beyond(wanted)
        try:
            return copy_bytes(source, self._descriptor, wanted.start, wanted.size, go_on)
        except EOFError:
            raise replaced(wanted) from None
        except OSError as error:
            raise self._refusal(error) from error

    def publish(self, *, cached: bool = True) -> None:
        """Sync, name, sync the directory; and if it is not to stay cached, tell the system so."""
        try:
            os.fsync(self._descriptor)
            self._name()
            if not cached:
                _forget(self._descriptor)
            _sync_directory(self._directory)
        except OSError as error:
            raise self._refusal(error) from error
        finally:
            self.discard()

    def _name(self) -> None:
        if self._if_absent:
            self._link(self._target)
            return
        if self._hidden is None:
            while True:
                name = self._next_hidden()
                with contextlib.suppress(FileExistsError):
                    self._link(name)
                    break
            self._hidden = name
        os.replace(self._hidden, self._target)
        self._hidden = None

    def _link(self, target: str) -> None:
        if self._hidden is None:
            # Following the link in /proc is what gives a nameless file its first name (open(2), O_TMPFILE).
            # Python follows it only when given a directory descriptor, which an absolute path then ignores.
            source = f"/proc/self/fd/{self._descriptor}"
            os.link(source, target, src_dir_fd=self._descriptor, follow_symlinks=True)
        else:
            os.link(self._hidden, target)

    def discard(self) -> None:
        """Leave nothing behind but the published object."""
        if self._open:
            self._open = False
            os.close(self._descriptor)
        if self._hidden is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._hidden)
            self._hidden = None

    def _refusal(self, error: OSError) -> TableFormatError:
        if error.errno in (errno.EISDIR, errno.ENOTDIR):
            return Invalid(f"{self._path} cannot be written: a file and a directory would share a name")
        if error.errno == errno.ENOENT:
            return Unavailable(f"{self._path} cannot be written: its directory was removed meanwhile")
        return storage_error(error, self._path)


def _open_regular(path: str) -> int:
    # O_NONBLOCK: opening a pipe that lies there by accident must not wait for its writer.
    descriptor = os.open(_object_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoSuchFile(f"{path} is not a file")
    return descriptor


def _check_version(descriptor: int, wanted: Range) -> None:
    if wanted.etag not in (None, _info(wanted.path, os.fstat(descriptor)).etag):
        raise replaced(wanted)


class LocalObjectStore:
    """The object store over a local (or mounted) file system."""

    def get(self, path: str, byte_range: tuple[int, int] | None = None) -> bytes:
        """The file's bytes, or those of [start, end) that exist."""
        try:
            descriptor = _open_regular(path)
        except OSError as error:
            raise storage_error(error, path) from error
        with open(descriptor, "rb") as file:
            try:
                if byte_range is None:
                    return file.read()
                start, end = byte_range
                if not 0 <= start <= end:
                    raise Invalid(f"byte range [{start}, {end}) of {path} is not a range")
                file.seek(start)
                # Room for all that was asked for is taken at once, so ask for what there is.
                return file.read(max(0, min(end, os.fstat(descriptor).st_size) - start))
            except OSError as error:
                raise storage_error(error, path) from error

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        """Write the whole file, durably."""
        sink = _FileSink(path, if_absent=if_absent)
        try:
            sink.write(data)
        except BaseException:
            sink.discard()
            raise
        sink.publish(cached=len(data) < _UNCACHED_FROM_BYTES)

    def head(self, path: str) -> ObjectInfo:
        """Size and age of one file."""
        try:
            status = os.stat(_object_path(path))
        except OSError as error:
            raise storage_error(error, path) from error
        if not stat.S_ISREG(status.st_mode):
            raise NoSuchFile(f"{path} is not a file")
        return _info(path, status)

    def exists(self, path: str) -> bool:
        """Whether there is a regular file of that name."""
        try:
            self.head(path)
        except NoSuchFile:
            return False
        return True

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All files below the directory; symbolic links inside it are neither listed nor followed."""
        base = strip_slash(prefix)
        pending = [(local_path(base), base)]
        while pending:
            directory, shown = pending.pop()
            for entry in _entries(directory, shown):
                shown_entry = f"{shown.rstrip('/')}/{entry.name}"
                # A file removed between listing and looking is simply no longer there.
                try:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, shown_entry))
                        continue
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise storage_error(error, shown_entry) from error
                if stat.S_ISREG(status.st_mode) and not _hidden(entry.name):
                    yield _info(shown_entry, status)

    def delete_many(self, paths: Iterable[str]) -> Sequence[DeleteFailure]:
        """Remove regular files; whatever else stands under a name is left alone and reported."""
        failures = []
        for path in paths:
            try:
                raw = _object_path(path)
                if not stat.S_ISREG(os.lstat(raw).st_mode):
                    failures.append(DeleteFailure(path, "not a regular file"))
                    continue
                os.unlink(raw)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                failures.append(DeleteFailure(path, storage_error(error, path).message))
            except Invalid as error:
                failures.append(DeleteFailure(path, error.message))
        return failures

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader."""
        try:
            return open(_open_regular(path), "rb")
        except OSError as error:
            raise storage_error(error, path) from error

    def open_output(self, path: str) -> BinaryIO:
        """A writer whose file appears at `close()`."""
        return cast("BinaryIO", Output(_FileSink(path, if_absent=False), path))

    def compose(self, path: str, pieces: Sequence[Piece], go_on: Callable[[], None]) -> int:
        """Join the pieces; the system copies ranges without their bytes coming here, where it can."""
        sink = _FileSink(path, if_absent=False)
        through = 0
        try:
            for piece in pieces:
                go_on()
                if isinstance(piece, Range):
                    through += sink.take(piece, go_on)
                else:
                    sink.write(piece)
                    through += len(piece)
        except BaseException:
            sink.discard()
            raise
        sink.publish()
        return through


def _entries(directory: str, shown: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise storage_error(error, shown) from error
