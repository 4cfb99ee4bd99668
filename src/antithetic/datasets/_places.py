"""Where the file of a set may be: in the user's folders, or in the cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDERS = ("", "bench", "mnist")
_MNIST_PARTS = {"mnist": "train", "mnist.t": "t10k"}


def cache_folder() -> Path:
    """Folder for downloads: ``ANTITHETIC_CACHE``, or ``antithetic`` in the platform's cache."""
    if own := os.environ.get("ANTITHETIC_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or ""
        if not os.path.isabs(base):  # the convention is to pass over a relative one
            base = os.path.expanduser("~/.cache")
    return Path(base) / "antithetic"


def homes(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """Folders to search, in order."""
    return [
        Path(home)
        for home in (data_home, os.environ.get("ANTITHETIC_DATA"), cache_folder())
        if home
    ]


def wanted_files(name: str) -> list[list[str]]:
    """File names that make up a set, any one of the alternatives for each part."""
    if name in _MNIST_PARTS:
        return [
            [f"{_MNIST_PARTS[name]}-{kind}-ubyte.gz"] for kind in ("images-idx3", "labels-idx1")
        ]
    return [[f"{name}.bz2", name]]  # the second one is how most come from LIBSVM


def find(name: str, data_home: str | os.PathLike[str] | None) -> list[Path] | None:
    """Files of a set, one for each part; None unless all are there."""
    found = [_first(alternatives, homes(data_home)) for alternatives in wanted_files(name)]
    present = [path for path in found if path is not None]
    return present if len(present) == len(found) else None


def _first(alternatives: list[str], places: list[Path]) -> Path | None:
    paths = (
        home / folder / filename
        for home in places
        for folder in _FOLDERS
        for filename in alternatives
    )
    return next((path for path in paths if path.is_file()), None)
