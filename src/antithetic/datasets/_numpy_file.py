"""``.npy`` and ``.npz``: nothing is unpickled, and headers are checked against the bytes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from antithetic.datasets._stream import limited, open_stream, read_exactly
from antithetic.datasets._table import NamedColumns

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_NAMES = [("X", "y"), ("data", "target")]
_LABELS = ("y", "target", "labels")
_PARTS = ("data", "indices", "indptr", "shape")


def read_npy(path: Path, max_bytes: int, progress: bool = False) -> NamedColumns:
    """Read an array of numbers with two axes as a table whose columns are called x1, x2, ..."""
    with open_stream(path, max_bytes, progress=progress) as stream:
        array = _array(stream, str(path), max_bytes)
        if stream.read(1):
            raise ValueError(f"{path} has more bytes than its array")
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not len(array):
        raise ValueError(
            f"{path} must hold numbers in rows and columns, at least one row; it has shape"
            f" {array.shape} and type {array.dtype}"
        )
    return NamedColumns(
        [f"x{number}" for number in range(1, array.shape[1] + 1)],
        array.astype(np.float64, copy=False),
    )


def read_npz(path: Path, max_bytes: int) -> tuple[Any, NDArray[Any], list[str] | None]:
    """Read X and y, data and target, or the parts of a CSR matrix and labels.

    And feature_names where it has them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = _members(archive, path, max_bytes)
    # the zip reader raises many kinds of errors for bytes that are damaged, encrypted, or packed in
    # a way it does not know
    except Exception as error:
        if str(error).startswith(str(path)):  # ours, which says all there is to say
            raise
        raise ValueError(f"{path} is not a readable npz archive: {error}") from error
    labels = next((arrays[name] for name in _LABELS if name in arrays), None)
    if {"indices", "indptr", "data"} <= arrays.keys():
        X = _csr(arrays, str(path))
    else:
        X = next(
            (arrays[rows] for rows, target in _NAMES if rows in arrays and target in arrays), None
        )
    if X is None or labels is None:
        raise ValueError(
            f"{path} holds {', '.join(map(repr, arrays)) or 'no arrays'}; it must hold X and y, or"
            " data and target, or data, indices, indptr, shape (a CSR matrix) and y"
        )
    if X.dtype.kind not in "biuf" or X.ndim != 2:
        raise ValueError(
            f"{path} must hold rows as numbers with two axes; they have shape {X.shape} and type"
            f" {X.dtype}"
        )
    if labels.dtype.kind == "S":
        labels = labels.astype(str)
    names = arrays.get("feature_names")
    return X, labels, None if names is None else [str(name) for name in names.ravel().tolist()]


def _members(archive: zipfile.ZipFile, path: Path, max_bytes: int) -> dict[str, NDArray[Any]]:
    """Arrays that we know what to do with."""
    known = {*_PARTS, *_LABELS, "X", "format", "feature_names"}
    arrays = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name not in known or name == info.filename:
            continue
        if name in arrays:
            raise ValueError(f"{path} has two arrays called {name!r}")
        with archive.open(info) as source, limited(source, str(path), max_bytes) as stream:
            arrays[name] = _array(stream, f"{path}, array {name!r}", max_bytes)
            stream.read()  # to the end, where the checksum is
        max_bytes -= info.file_size  # the archive gives no more than that
    return arrays


def _array(stream: io.BufferedReader, where: str, max_bytes: int) -> NDArray[Any]:
    try:
        version = npy.read_magic(stream)
        shape, fortran, dtype = _HEADERS[version](stream)
    except Exception as error:  # the header is a Python expression, read by Python's own parser
        if "max_bytes" in str(error):  # of the stream, which says all there is to say
            raise
        raise ValueError(f"{where} is not a NumPy array, or it is damaged: {error}") from error
    if dtype.kind not in "biufUS" or dtype.itemsize == 0:
        raise ValueError(
            f"{where} has type {dtype}; only numbers are read, and strings as labels (nothing is"
            " unpickled)"
        )
    count = dtype.itemsize
    for axis in shape:
        count *= axis
    if count > max_bytes or min(shape, default=0) < 0:
        raise ValueError(
            f"{where} has shape {shape}: more than {max_bytes:,} bytes; set a larger"
            " max_bytes to read it"
        )
    flat = np.frombuffer(read_exactly(stream, count, where), dtype=dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _csr(arrays: dict[str, NDArray[Any]], where: str) -> sparse.csr_array:
    layout = arrays["format"].tolist() if "format" in arrays else "csr"
    if layout not in ("csr", b"csr"):
        raise ValueError(f"{where} holds a sparse matrix of the layout {layout!r}; save it as CSR")
    if (
        "shape" not in arrays
        or arrays["shape"].shape != (2,)
        or any(arrays[part].dtype.kind not in "iu" for part in _PARTS[1:])
    ):
        raise ValueError(
            f"{where} holds an incomplete CSR matrix: data, indices, indptr and shape (two whole"
            " numbers) are needed"
        )
    n, d = arrays["shape"].tolist()
    try:
        X = sparse.csr_array(tuple(arrays[part] for part in _PARTS[:3]), shape=(n, d))
        X.check_format(full_check=True)  # kernels trust the indices
    except (ValueError, OverflowError, TypeError) as error:
        raise ValueError(f"{where} holds a CSR matrix with wrong parts: {error}") from error
    return X
