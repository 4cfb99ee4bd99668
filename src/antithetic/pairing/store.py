"""A table as a file: one uncompressed ``.npz`` without pickle, checked when it is read.

It is written in full or not at all.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from antithetic._util.files import atomic_file
from antithetic.pairing.fingerprint import Fingerprint

_LARGEST_META = 1 << 16


def write(
    path: str | os.PathLike[str], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write arrays and a small dict, in full or not at all."""
    encoded = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with atomic_file(path) as file:
        # the names are ours, none is an option
        np.savez(file, meta=encoded, **arrays)  # type: ignore[arg-type]


def read(
    path: str | os.PathLike[str], dtypes: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote: the dict, and the arrays named in ``dtypes``.

    Arrays are one-dimensional; those that are not in the file are left out.

    Nothing is unpickled, nothing is decompressed, and no more memory is taken than the file is
    long.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                meta = json.loads(_read_array(archive, "meta", np.uint8, _LARGEST_META).tobytes())
                present = {
                    name: dtype
                    for name, dtype in dtypes.items()
                    if f"{name}.npy" in archive.namelist()
                }
                arrays = {
                    name: _read_array(archive, name, dtype) for name, dtype in present.items()
                }
            if not isinstance(meta, dict):
                raise ValueError("its description is not a dict")
        except Exception as error:
            # The zip and JSON readers raise many kinds of errors on files of other formats.
            raise ValueError(
                f"{os.fspath(path)} is not a table file, or it is damaged: {error}"
            ) from error
    return meta, arrays


def write_table(
    path: str | os.PathLike[str],
    name: str,
    column: NDArray[np.intp],
    mark: Fingerprint,
    described: dict[str, Any],
) -> None:
    """Write a permutation, what describes it, and the fingerprint of its data."""
    arrays: dict[str, NDArray[Any]] = {name: column.astype(np.int64)}
    if mark.labels is not None:
        arrays["labels"] = mark.labels
    about = {"width": mark.width, "values": mark.values, "content": _hash(arrays)}
    write(path, described | about, arrays)


def _hash(arrays: dict[str, NDArray[Any]]) -> str:
    """Hash of the content of a table file, so that a changed permutation is noticed."""
    content = blake2b(digest_size=16)
    for name in sorted(arrays):
        content.update(name.encode())
        content.update(np.ascontiguousarray(arrays[name]).tobytes())
    return content.hexdigest()


@contextmanager
def read_table(
    path: str | os.PathLike[str], name: str, form: str
) -> Iterator[tuple[NDArray[np.intp], Fingerprint, dict[str, Any]]]:
    """Yield what :func:`write_table` wrote.

    Any error inside the block becomes one that names the file.
    """
    meta, arrays = read(path, {name: np.int64, "labels": np.uint64})
    try:
        if meta["format"] != form:
            raise ValueError(
                f"its format is {meta['format']!r}, and this version reads {form!r}; make the table"
                " again with antithetic.pair, and save it"
            )
        if meta["content"] != _hash(arrays):
            raise ValueError("its rows have changed since it was saved")
        column, labels = arrays[name].astype(np.intp), arrays.get("labels")
        if labels is not None and len(labels) != len(column):
            raise ValueError(f"it has {len(labels)} labels for {len(column)} rows")
        width, values = (
            None if meta[key] is None else int(meta[key]) for key in ("width", "values")
        )
        yield column, Fingerprint(labels, width, values), meta
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a table file, or it is damaged: {error}"
        ) from error


def _read_array(
    archive: zipfile.ZipFile, name: str, dtype: Any, largest: int | None = None
) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it holds compressed arrays, which tables never are")
    if largest is not None and info.file_size > largest:
        raise ValueError(f"{name} is longer than {largest} bytes")
    itemsize = np.dtype(dtype).itemsize
    with archive.open(info) as file:
        content = file.read()
    # the header is not parsed, but compared with the one that an array of this length has
    for length in {
        (len(content) - start) // itemsize for start in (64, 128) if len(content) >= start
    }:
        header = _header(dtype, length)
        if content.startswith(header) and len(content) == len(header) + length * itemsize:
            return np.frombuffer(content, dtype=dtype, offset=len(header))
    raise ValueError(f"{name} must be one complete column of {np.dtype(dtype)}")


def _header(dtype: Any, length: int) -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(
        buffer,
        {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)},
    )
    return buffer.getvalue()
