"""Files that are written in full or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in full or not at all: after a full disk or a crash, the old file remains.

    A link stays, and the file that it leads to is written; anything else, such as a pipe or
    ``/dev/null``, is written to.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            special.write(content)
        return
    path = Path(os.path.realpath(path))
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".unfinished")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # it can only be read by setting it
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
