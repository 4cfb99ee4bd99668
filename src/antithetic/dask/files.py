"""Files as blocks, read by the tasks that need them: a folder, a pattern, or one file."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_rows
from antithetic.dask.blocks import join_classes, open_labels
from antithetic.dask.cluster import compute
from antithetic.datasets._arrow import _gather, _kind
from antithetic.datasets._read_file import _form, _read_pair, _refuse_columns, read_table
from antithetic.datasets._reading import Reading
from antithetic.datasets._table import choose, rows_and_labels

_BYTES_OF_A_BLOCK = 1 << 27  # row groups of Parquet are joined up to it
_MOST_CLASSES = 20  # as on one machine: integers with more values than this are a quantity


class Labelled(NamedTuple):
    """Delayed blocks of rows and of labels, and the names of the features.

    ``classes`` are the labels in order, or None for a quantity; ``rows`` counts all rows.
    """

    X: list[Any]
    y: list[Any]
    feature_names: list[str] | None
    target_name: str
    classes: NDArray[Any] | None
    rows: int


class _Piece(NamedTuple):
    """A file, or some row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...] | None = None


def open_files(
    data: str | os.PathLike[str],
    reading: Reading,
    client: Any,
    *,
    quantity: bool | None = None,
) -> Labelled:
    """Make a block of each file in a folder or matching a pattern, in the order of their names.

    A Zarr folder must hold the arrays X and y. The blocks of Parquet files are row groups of about
    128 MB. All files must have the same columns. ``quantity`` says whether labels are numbers to be
    predicted; with None, the labels decide, as on one machine.
    """
    data = os.fspath(data)
    reading = replace(reading, progress=False)  # progress bars of several workers would mix
    if _is_zarr(data):
        _refuse_columns(reading, data)
        X, y, names, target_name = *_zarr(data), None, "y"
    else:
        pieces = _pieces(data)
        first = dask.delayed(_columns, pure=False, traverse=False)(pieces[0], reading)
        names, target_name = compute(client, [first])[0]
        read = dask.delayed(_read, pure=False, traverse=False)
        rows = dask.delayed(_rows, pure=False, traverse=False)
        token = dask.base.tokenize(
            data, np.random.default_rng().integers(1 << 60).item()
        )  # a file with this name may have changed
        X = [
            rows(piece, reading, names, dask_key_name=(f"antithetic-rows-{token}", k))
            for k, piece in enumerate(pieces)
        ]
        y = [
            read(piece, reading, names, dask_key_name=(f"antithetic-labels-{token}", k))
            for k, piece in enumerate(pieces)
        ]
    task = dask.delayed(_kinds, pure=False, traverse=False)
    seen = compute(client, [task(number, part) for number, part in enumerate(y)])
    classes = _classes([found for _, *found in seen], quantity)
    return Labelled(X, y, names, target_name, classes, sum(rows for rows, *_ in seen))


def _is_zarr(data: str) -> bool:
    return os.path.isdir(data) and any(
        os.path.exists(os.path.join(data, name)) for name in ("zarr.json", ".zgroup", ".zmetadata")
    )


def _zarr(data: str) -> tuple[list[Any], list[Any]]:
    import dask.array as da

    try:
        X, y = (da.from_zarr(data, component=name) for name in ("X", "y"))
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(
            f"{data} is a Zarr folder, which must hold the arrays X, of rows, and y, of labels"
            f" ({error})"
        ) from error
    if X.ndim != 2 or X.shape[:1] != y.shape:
        raise ValueError(
            f"{data}: X must have rows and features, and y one label per row; got shapes"
            f" {X.shape} and {y.shape}"
        )
    X = X.rechunk({1: -1})
    return (
        X.to_delayed().ravel().tolist(),
        y.rechunk({0: X.chunks[0]}).to_delayed().ravel().tolist(),
    )


def _pieces(data: str) -> list[_Piece]:
    if os.path.isdir(data):
        found = sorted(
            str(path)
            for path in Path(data).iterdir()
            if path.is_file() and not path.name.startswith((".", "_"))
        )
    elif os.path.exists(data):
        found = [data]
    else:
        found = sorted(path for path in glob.glob(data, recursive=True) if os.path.isfile(path))
    if not found:
        raise ValueError(
            f"there are no files at {data}; name a file, a folder, or a pattern such as"
            " 'data/*.parquet' in quotes"
        )
    return [piece for path in found for piece in _cut(path)]


def _cut(path: str) -> list[_Piece]:
    """Pieces of a file: one, or several for a Parquet file with many row groups."""
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            return [_Piece(path)]
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet file, which needs pyarrow: pip install 'antithetic[tables]'"
        ) from error
    with parquet.ParquetFile(path) as reader:
        sizes = [reader.metadata.row_group(k).total_byte_size for k in range(reader.num_row_groups)]
    pieces: list[list[int]] = []
    held = _BYTES_OF_A_BLOCK
    for group, size in enumerate(sizes):
        if held + size > _BYTES_OF_A_BLOCK:
            pieces.append([])
            held = 0
        pieces[-1].append(group)
        held += size
    return [_Piece(path, tuple(groups)) for groups in pieces] if len(pieces) > 1 else [_Piece(path)]


def _columns(piece: _Piece, reading: Reading) -> tuple[list[str] | None, str]:
    _, _, names, target_name = _whole(piece, reading)
    return names, target_name


def _rows(piece: _Piece, reading: Reading, expected: list[str] | None) -> Any:
    return _checked(piece, reading, expected)[0]


def _read(piece: _Piece, reading: Reading, expected: list[str] | None) -> Any:
    return _checked(piece, reading, expected)[1]


def _checked(piece: _Piece, reading: Reading, expected: list[str] | None) -> tuple[Any, Any]:
    X, y, names, _ = _whole(piece, reading, None if expected is None else len(expected))
    if names != expected:
        raise ValueError(
            f"{piece.path} has different columns from the first file: {names} instead of {expected}"
        )
    return check_rows(X, piece.path), y


def _whole(
    piece: _Piece, reading: Reading, width: int | None = None
) -> tuple[Any, Any, list[str] | None, str]:
    """Rows, labels, names of the features and of the labels.

    Each label is returned once.
    """
    path = Path(piece.path)
    where = str(path)
    if piece.groups is not None:
        table, choice = _read_groups(piece, reading)
    else:
        form = _form(path, reading.max_bytes)
        if form in ("svmlight", "npz"):
            _refuse_columns(reading, where)
            X, y, names, _ = _read_pair(path, form, width, reading, named=False)
            return X, y, names, "y"
        table, choice = read_table(path, form, reading)
    X, y, names = rows_and_labels(table, choice, False, where)
    return X, y, names, table.names[choice.target]


def _read_groups(piece: _Piece, reading: Reading) -> Any:
    """Read some row groups of a Parquet file."""
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    with parquet.ParquetFile(piece.path) as reader:
        names = [
            name
            for name in reader.schema_arrow.names
            if not (name.startswith("__index_level_") and name.endswith("__"))
        ]
        choice = choose(names, reading, piece.path)
        used = [names[column] for column in choice.used]
        schema = reader.schema_arrow
        kinds = [_kind(pa, schema.field(name), False, piece.path) for name in used]
        batches = reader.iter_batches(columns=used, row_groups=list(piece.groups or ()))
        return _gather(batches, used, kinds, pa, piece.path), choice.among_used()


def _classes(seen: list[Any], quantity: bool | None) -> NDArray[Any] | None:
    """Labels in order, or None if they are a quantity or are to be treated as one."""
    words = any(labels.dtype.kind in "US" for labels, _ in seen if len(labels))
    if quantity or (quantity is None and not words and any(fractions for _, fractions in seen)):
        return None
    classes = join_classes([labels for labels, _ in seen if len(labels)])
    if quantity is None and not words and len(classes) > _MOST_CLASSES:
        return None
    return classes


def _kinds(number: int, part: Any) -> tuple[int, NDArray[Any], bool]:
    """Rows and labels of a block, and whether there are more than two labels, some fractions."""
    column = open_labels(number, part)
    labels = np.unique(column)
    fractions = (
        labels.dtype.kind == "f" and len(labels) > 2 and bool((labels != np.floor(labels)).any())
    )
    return len(column), (labels[: _MOST_CLASSES + 1] if fractions else labels), fractions
