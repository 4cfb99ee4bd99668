"""Download from the LIBSVM data pages, with limits on time and size, retries and checks.

A file is there in full or not at all.
"""

from __future__ import annotations

import bz2
import errno
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from antithetic._util.files import atomic_file
from antithetic._util.progress import progress_bar

T = TypeVar("T")

PAGES = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_SECONDS_OF_SILENCE = 30.0
_SECONDS_IN_ALL = 1800.0
_WAITS = (1.0, 4.0, 10.0)  # seconds before the second try and those after it
_LARGEST = 1 << 26


class DownloadError(Exception):
    """The file could not be downloaded; ``passing`` says whether another try may help."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


def fetch(name: str, remote: str, folder: Path, check: Callable[[Path], T]) -> T:
    """Download ``remote`` into ``folder`` as ``name.bz2``, and return what ``check`` makes of it.

    The file appears under its name only after the check. Whatever goes wrong, or Ctrl-C, leaves no
    file behind.
    """
    deadline = time.monotonic() + _SECONDS_IN_ALL
    waits = iter(_WAITS)
    while True:
        try:
            with _appearing(folder / f"{name}.bz2") as file:
                with closing(_body(PAGES + remote, name, deadline)) as body:
                    _store(body, file, packed=remote.endswith(".bz2"))
                return check(Path(file.name))
        except DownloadError as error:
            wait = next(waits, None)
            if not error.passing or wait is None or time.monotonic() + wait > deadline:
                raise
        time.sleep(wait)


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write that appears once the block has ended well.

    Errors of the disk say which folder it is about.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            yield file
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        message = (
            f"cannot write to the cache folder: {reason}; make room there, or set ANTITHETIC_CACHE"
            " to another folder"
        )
        raise OSError(error.errno, message, str(path.parent)) from error


def _store(body: Iterator[bytes], file: IO[bytes], packed: bool) -> None:
    squeeze = None if packed else bz2.BZ2Compressor()
    for chunk in body:
        file.write(chunk if squeeze is None else squeeze.compress(chunk))
    if squeeze is not None:
        file.write(squeeze.flush())
    file.flush()  # the check opens it by its name


def _body(url: str, name: str, deadline: float) -> Generator[bytes, None, None]:
    """Chunks of the answer; every error of the net is a DownloadError."""
    _check_address(url)
    request = urllib.request.Request(url, headers={"User-Agent": "antithetic"})
    try:
        with urllib.request.build_opener(_OneHost()).open(
            request, timeout=_SECONDS_OF_SILENCE
        ) as response:
            yield from _chunks(response, url, name, deadline)
    except urllib.error.HTTPError as error:
        error.close()
        passing = error.code in (408, 429) or error.code >= 500
        raise DownloadError(f"{url} returned {error.code} {error.reason}", passing) from error
    except (OSError, http.client.HTTPException) as error:
        # No name service: waiting a few seconds will not help.
        offline = isinstance(getattr(error, "reason", None), socket.gaierror)
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DownloadError(
            f"{url} cannot be reached, or the connection broke off: {reason}", passing=not offline
        ) from error


def _chunks(response: Any, url: str, name: str, deadline: float) -> Iterator[bytes]:
    told = response.headers.get("Content-Length", "")
    length = int(told) if told.isdecimal() else None
    done = 0
    with progress_bar(f"download {name}", length or 0, show=length is not None) as show:
        while (length is None or done < length) and (chunk := response.read1(1 << 16)):
            done += len(chunk)
            if max(done, length or 0) > _LARGEST:
                raise DownloadError(
                    f"{url} sends more than {_LARGEST} bytes, so it cannot be {name}"
                )
            if time.monotonic() > deadline:
                raise DownloadError(f"{url} took more than {_SECONDS_IN_ALL:g} seconds")
            show(done)
            yield chunk
    if length is not None and done < length:
        raise DownloadError(
            f"the connection to {url} broke off after {done} of {length} bytes", passing=True
        )


class _OneHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        try:
            _check_address(newurl)
        except DownloadError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(url: str) -> None:
    """Refuse what is not on the host of the data pages, or less private than they are."""
    pages, other = urlsplit(PAGES), urlsplit(url)
    if other.netloc != pages.netloc or other.scheme not in {pages.scheme, "https"}:
        raise DownloadError(
            f"{PAGES} leads to {other.scheme}://{other.netloc}, another host: refused"
        )
