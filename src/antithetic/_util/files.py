"""Files that are written in full or not at all: the one writer of the package."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import IO

_NAME_KEPT = 40  # characters of the name, so that a longer one does not become too long


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file of these bytes by :func:`atomic_file`."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file to write that replaces the one at ``path`` once the block has ended.

    It is a new file beside the target, renamed once all of it is on the disk: after an error, a
    full disk, Ctrl-C or a crash the old file remains. An existing file keeps its permissions. A
    symbolic link stays, and the file that it leads to is replaced. A device or a pipe is written
    to once the block has ended, since some devices do not know how much they were given. An OSError
    names ``path``.
    """
    with naming(path):
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = None
    if mode is not None and not stat.S_ISREG(mode):
        content = io.BytesIO()
        yield content
        with naming(path), open(path, "wb") as special:
            special.write(content.getbuffer())
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    unfinished = os.path.join(folder, f"{name[:_NAME_KEPT]}.{token_hex(8)}.unfinished")
    with naming(path, unfinished):
        try:
            with open(unfinished, "xb") as file:
                if mode is not None:
                    os.chmod(unfinished, mode & 0o777)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, target)
        except BaseException:
            with suppress(OSError):  # the first error is what the user needs to know
                os.unlink(unfinished)
            raise


@contextmanager
def naming(path: str | os.PathLike[str], unfinished: str = "") -> Iterator[None]:
    """Let an OSError that names no file, as on a full disk, or ``unfinished``, name ``path``."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, unfinished):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
