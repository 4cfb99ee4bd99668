"""A table as a file: one uncompressed ``.npz`` without pickle, written in full or not at all, and checked when it is read."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from antithetic.pairing.fingerprint import Fingerprint

_LARGEST_META = 1 << 16


def write(path: str | os.PathLike[str], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays and a small dict. The file appears only once it is complete; what was there before stays until then."""
    path = Path(path)
    encoded = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".unfinished")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, meta=encoded, **arrays)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], dtypes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote: the dict, and those of the one-dimensional arrays named in ``dtypes`` that are there.

    Nothing is unpickled, nothing is decompressed, and no more memory is taken than the file is long.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            meta = json.loads(_read_array(archive, "meta", np.uint8, _LARGEST_META).tobytes())
            present = {name: dtype for name, dtype in dtypes.items() if f"{name}.npy" in archive.namelist()}
            arrays = {name: _read_array(archive, name, dtype) for name, dtype in present.items()}
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)} is not a table file, or it is damaged: {error}") from error
    if not isinstance(meta, dict):
        raise ValueError(f"{os.fspath(path)} is not a table file: its description is not a dict")
    return meta, arrays


def read_fingerprint(meta: dict[str, Any], arrays: dict[str, NDArray[Any]], n: int) -> Fingerprint:
    """Fingerprint of a table of ``n`` rows, from what :func:`read` returned."""
    labels = arrays.get("labels")
    if labels is not None and len(labels) != n:
        raise ValueError(f"it has {len(labels)} labels for {n} rows")
    return Fingerprint(labels, *(None if meta[key] is None else int(meta[key]) for key in ("width", "values")))


def _read_array(archive: zipfile.ZipFile, name: str, dtype: Any, largest: int | None = None) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it holds compressed arrays, which tables never are")
    if largest is not None and info.file_size > largest:
        raise ValueError(f"{name} is longer than {largest} bytes")
    with archive.open(info) as file:
        if npy.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has an unknown format")
        shape, _, found = npy.read_array_header_1_0(file)
        data = file.read()
    if found != np.dtype(dtype) or len(shape) != 1 or prod(shape) * found.itemsize != len(data):
        raise ValueError(f"{name} should be a whole column of {np.dtype(dtype)}; got shape {shape} of {found} in {len(data)} bytes")
    return np.frombuffer(data, dtype=found)
