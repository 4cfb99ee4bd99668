"""An untrusted file as a stream of bytes, decompressed while it is read, up to a limit.

Errors name the file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from antithetic._util.progress import progress_bar

_OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_PATIENCE = 1.0  # seconds of reading before a bar is shown
_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_LONGEST_LINE = 1 << 26  # a line is held in memory as a whole, so it needs a limit of its own


def beginning(path: Path, where: str) -> bytes:
    """First bytes of a file as it is stored; an error if it is empty, or not a regular file."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{where} is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}; give the"
            " path of a data file"
        )
    with open(path, "rb") as file:
        first = file.read(8)
    if not first:
        raise ValueError(f"{where} is empty")
    return first


@contextmanager
def open_stream(
    path: Path, max_bytes: int, where: str | None = None, *, progress: bool = False
) -> Iterator[io.BufferedReader]:
    """Open a file, through gzip, bzip2 or xz where it begins like one of them.

    The byte after ``max_bytes`` is a ValueError.

    Errors name ``where``, by default the path. ``progress`` shows a bar if it takes long.
    """
    where = where or str(path)
    first = beginning(path, where)
    opener = next((opener for magic, opener in _OPENERS.items() if first.startswith(magic)), None)
    with (
        open(path, "rb") as file,
        file if opener is None else opener(file, "rb") as source,
        progress_bar(f"reading {path.name}", path.stat().st_size, progress, _PATIENCE) as tell,
        # How much of a packed file is behind is known by its packed bytes alone.
        limited(source, where, max_bytes, opener is not None, lambda: tell(file.tell())) as stream,
    ):
        yield stream


def limited(
    source: IO[bytes],
    where: str,
    max_bytes: int,
    packed: bool = True,
    tell: Callable[[], None] = lambda: None,
) -> io.BufferedReader:
    """Wrap a stream so that reading past the limit raises ValueError.

    So does damaged content, if the stream is ``packed``. ``tell`` is called after each piece.
    """
    return io.BufferedReader(_Limited(source, where, max_bytes, packed, tell), 1 << 18)


class _Limited(io.RawIOBase):
    def __init__(
        self,
        source: IO[bytes],
        where: str,
        max_bytes: int,
        packed: bool,
        tell: Callable[[], None],
    ) -> None:
        self._source, self._where, self._max_bytes, self._packed = source, where, max_bytes, packed
        self._left, self._tell = max_bytes, tell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            # One byte more shows that the limit is exceeded.
            chunk = self._source.read(min(len(buffer), self._left + 1))
        except _DAMAGED as error:
            if not self._packed:  # a true error of the disk
                raise
            raise ValueError(
                f"{self._where} is damaged or cut off: {error or type(error).__name__}"
            ) from error
        if len(chunk) > self._left:
            raise ValueError(
                f"{self._where} holds more than {self._max_bytes:,} bytes; set a larger"
                " max_bytes to read it"
            )
        self._left -= len(chunk)
        buffer[: len(chunk)] = chunk
        self._tell()
        return len(chunk)


class Lines:
    """Lines of a stream as bytes, counted: ``number`` is that of the line given last, from 1."""

    def __init__(self, stream: io.BufferedReader, where: str) -> None:
        self._stream, self._where = stream, where
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        while line := self._stream.readline(_LONGEST_LINE):
            self.number += 1
            if self.number == 1 and b"\r" in line.rstrip(b"\r\n") and b"\0" not in line:
                raise ValueError(
                    f"{self._where} has lines that end in carriage returns alone, as on old Macs;"
                    " convert them to newlines, for example with tr '\\r' '\\n'"
                )
            if len(line) == _LONGEST_LINE:
                raise ValueError(
                    f"{self._where}, line {self.number} is longer than {_LONGEST_LINE} bytes: this"
                    " is not a table of numbers"
                )
            yield line

    def read(self) -> bytes:
        """Read all. Never called, but scikit-learn accepts only files that have this method."""
        raise io.UnsupportedOperation("these are lines")

    def text(self) -> Iterator[str]:
        """Lines as UTF-8, a byte order mark left out."""
        for line in self:
            try:
                yield line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self._where}, line {self.number} is not UTF-8 text ({error.reason}); convert"
                    " the file to UTF-8"
                ) from error


def read_exactly(stream: io.BufferedReader, count: int, where: str) -> bytearray:
    """Read ``count`` bytes in pieces, so that a header with a wrong length costs no memory."""
    content = bytearray()
    while len(content) < count:
        piece = stream.read(min(count - len(content), 1 << 24))
        if not piece:
            raise ValueError(
                f"{where} is cut off: it should have {count} bytes, and has {len(content)}"
            )
        content += piece
    return content
