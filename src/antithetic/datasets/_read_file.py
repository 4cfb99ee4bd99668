"""Read a user's own file of any supported format into rows and labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_classes, check_column, check_count, check_rows
from antithetic.datasets._arrow import read_arrow
from antithetic.datasets._numpy_file import read_npy, read_npz
from antithetic.datasets._reading import MAX_BYTES, Column, Reading
from antithetic.datasets._stream import Lines, beginning, open_stream
from antithetic.datasets._svmlight import (
    MOST_FEATURES,
    dense_if_full,
    looks_like_svmlight,
    read_svmlight,
)
from antithetic.datasets._table import (
    ColumnChoice,
    NamedColumns,
    check_names,
    choose,
    find_columns,
    rows_and_labels,
    warn_of_words,
)
from antithetic.datasets._text_table import read_text_table

_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow stream",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
}
_ENDINGS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "text",
    ".tsv": "text",
}
_SVMLIGHT_ENDINGS = {".svm", ".svmlight", ".libsvm"}
_PACKED = {".gz", ".bz2", ".xz"}
_MOST_NAMES = 1 << 20  # generated names are not worth more memory than that


def read_file(
    path: str | os.PathLike[str],
    *,
    target: Column | None = None,
    features: Sequence[Column] | None = None,
    leave_out: Sequence[Column] = (),
    one_hot: bool = False,
    dates: bool = False,
    decimal: str = ".",
    header: bool | None = None,
    n_features: int | None = None,
    max_bytes: int = MAX_BYTES,
    progress: bool = False,
) -> Any:
    r"""Read rows and labels from a file.

    SVMlight, CSV and TSV, each also compressed by gzip, bzip2 or xz; Parquet and Arrow (Feather),
    which need pyarrow, the extra ``tables``; ``.npy`` (a table of numbers) and ``.npz`` (``X`` and
    ``y``, ``data`` and ``target``, or the parts ``data``, ``indices``, ``indptr``, ``shape`` of a
    CSR matrix and ``y``; optionally ``feature_names``). The content decides which it is. The file
    need not be trusted: nothing in it is run, and it is read within the limits given.

    Parameters
    ----------
    path : path
        The file.
    target : str or int, default=None
        Column with the labels, by name or by number from 0. Default: the one called target, label,
        class or y, else the last.
    features : sequence of str or int, default=None
        Columns with the features, in the order wanted. Default: all others.
    leave_out : sequence of str or int, default=()
        Columns of a table that are neither features nor target; they may hold anything.
    one_hot : bool, default=False
        Replace a column of words by columns ``name=word`` of zeros and ones, one for each word.
        Otherwise such a column is an error. A warning names columns whose words are mostly
        different: dates, numbers with decimal commas or identifiers.
    dates : bool, default=False
        Replace ISO 8601 dates and times, such as 2024-05-31 or 2024-05-31T08:15, by the days since
        1970. Otherwise such a column is an error.
    decimal : {".", ","}, default="."
        What separates the fraction of a number in CSV files. With a comma, fields are separated by
        semicolons or tabs, and a number that has a point is refused.
    header : bool, default=None
        Whether a CSV file begins with the names of its columns. Default: it does if its first line
        has no number, and if either the next lines have some, or no name occurs twice.
    n_features : int, default=None
        Number of features. If an SVMlight file has fewer, columns of zeros are added; more are an
        error.
        Needed for more than 2^24. In the other formats it is compared with what the file has,
        unless ``features`` are chosen.
    max_bytes : int, default=8 GiB
        Maximum number of bytes to read, counted after decompression.
    progress : bool, default=False
        Show a bar on the error stream when reading takes more than a second.

    Returns
    -------
    Bunch
        ``data`` (n, d), an array, or ``csr_array`` where less than a third of the entries is
        stored; ``target`` (n,), numbers or strings; ``classes``, the labels in ascending order
        (None where the target is continuous), and ``target_names``, the same as strings;
        ``feature_names`` (None for more than 2^20 features that have none); ``target_name``;
        ``date_names``, the features that were dates; ``words``, the words of each column that was
        one-hot encoded; ``first_index``, 0 or 1, where features are numbered (SVMlight, or npz
        without names), else None; ``name``, that of the file; ``DESCR``.

    Raises
    ------
    ValueError
        The file is damaged, has missing or infinite values, one class only, or is not what the
        parameters say. The message names the file, and the line or row where there is one.
    ImportError
        The file needs pyarrow.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from antithetic.datasets import read_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "flowers.csv")
    ...     _ = path.write_text("length,width,class\n5.1,3.5,setosa\n7.0,3.2,versicolor\n")
    ...     flowers = read_file(path)
    >>> flowers.data.shape, flowers.feature_names, flowers.target.tolist()
    ((2, 2), ['length', 'width'], ['setosa', 'versicolor'])
    """
    path = Path(path)
    where = str(path)
    reading = Reading(
        target, features, leave_out, one_hot, dates, decimal, header, max_bytes, progress
    )
    n_features = None if n_features is None else check_count(n_features, "n_features", 1)
    form = _form(path, max_bytes)
    about: dict[str, Any] = {"target_name": "y", "date_names": [], "words": {}, "first_index": None}
    if form in ("svmlight", "npz"):
        _refuse_columns(reading, where)
        X, y, names, about["first_index"] = _read_pair(
            path, form, n_features, reading, named=features is not None
        )
        if features is not None and names is not None:
            chosen = find_columns(features, names, where)
            X, names = X[:, chosen], [names[column] for column in chosen]
            about["first_index"] = None
    else:
        table, choice = read_table(path, form, reading)
        if one_hot:
            warn_of_words(table, choice.features, where)
        X, y, names = rows_and_labels(table, choice, one_hot, where)
        about["target_name"] = table.names[choice.target]
        about["date_names"] = [table.names[column] for column in sorted(table.dates)]
        about["words"] = {
            table.names[column]: sorted(table.words[column])
            for column in choice.features
            if column in table.words
        }
    X = check_rows(X, where)
    if n_features is not None and features is None and X.shape[1] != n_features:
        raise ValueError(f"{path} has {X.shape[1]} features, not n_features={n_features}")
    return _bunch(path, X, y, feature_names=names, **about)


def read_table(path: Path, form: str, reading: Reading) -> tuple[NamedColumns, ColumnChoice]:
    """Read a file whose columns have names."""
    if form == "npy":
        table = read_npy(path, reading.max_bytes, reading.progress)
        return table, choose(table.names, reading, str(path))
    return read_text_table(path, reading) if form == "text" else read_arrow(path, form, reading)


def _refuse_columns(reading: Reading, where: str) -> None:
    if reading.target is not None:
        raise ValueError(
            f"{where} defines its own labels, so target={reading.target!r} cannot be chosen"
        )
    if reading.leave_out:
        raise ValueError(
            f"{where} has no columns that leave_out= could name; give it CSV, Parquet, Arrow or npy"
        )


def _form(path: Path, max_bytes: int) -> str:
    """Format by the first bytes, and by the ending where these leave a doubt."""
    first = beginning(path, str(path))
    form = next((form for magic, form in _MAGIC.items() if first.startswith(magic)), None)
    if form is not None:
        return form
    ending = next(
        (suffix for suffix in reversed(path.suffixes) if suffix.lower() not in _PACKED), ""
    ).lower()
    if _ENDINGS.get(ending, "text") != "text":
        raise ValueError(
            f"{path} ends in {ending}, but does not begin as such a file does: it is damaged, or"
            " another format"
        )
    with open_stream(path, max_bytes) as stream:
        sample = list(islice(Lines(stream, str(path)), 100))
    if not sample:
        raise ValueError(f"{path} is empty")
    if any(b"\x00" in line for line in sample):
        raise ValueError(
            f"{path} is not text, and not in any of the formats that can be read: SVMlight,"
            " CSV, TSV, Parquet, Arrow, npy, npz"
        )
    return "svmlight" if ending in _SVMLIGHT_ENDINGS or looks_like_svmlight(sample) else "text"


def _read_pair(
    path: Path, form: str, n_features: int | None, reading: Reading, named: bool
) -> tuple[Any, NDArray[Any], list[str] | None, int | None]:
    """Rows, labels, the names of features, and the number of the first one if they are numbered.

    Names are those in the file, else numbers; None if there are very many and none is asked for.
    """
    where = str(path)
    first, names = 1, None
    if form == "svmlight":
        with open_stream(path, reading.max_bytes, progress=reading.progress) as stream:
            X, y, first = read_svmlight(stream, where, n_features)
        X = dense_if_full(X)
    else:
        X, y, names = read_npz(path, reading.max_bytes)
    d = X.shape[1]
    if n_features is None and d > MOST_FEATURES:
        raise ValueError(
            f"{where} has {d} features, above {MOST_FEATURES}; if this is intended, pass"
            f" n_features={d}"
        )
    if names is None:
        return (
            X,
            y,
            (
                [f"x{number}" for number in range(first, first + d)]
                if named or d <= _MOST_NAMES
                else None
            ),
            first,
        )
    if len(names) != d:
        raise ValueError(f"{where} has {len(names)} feature_names for {d} features")
    check_names(names, where)
    return X, y, names, None


def _bunch(path: Path, X: Any, y: NDArray[Any], target_name: str, **about: Any) -> Any:
    try:
        classes = _classes(y, X.shape[0])
    except ValueError as error:
        raise ValueError(
            f"{path}: the labels in {target_name!r} cannot be used: {error}"
        ) from error
    from sklearn.utils import Bunch

    kind = "continuous target" if classes is None else f"{len(classes)} classes"
    return Bunch(
        data=X,
        target=y,
        classes=classes,
        target_names=(
            None
            if classes is None
            else [
                f"{label:g}" if isinstance(label, float) else str(label)
                for label in classes.tolist()
            ]
        ),
        target_name=target_name,
        **about,
        name=path.name,
        DESCR=f"{path.name}: {X.shape[0]} rows, {X.shape[1]} features, {kind}.",
    )


def _classes(y: NDArray[Any], n: int) -> NDArray[Any] | None:
    """Labels in ascending order.

    None for numbers that are not whole, of which there are more than two.
    """
    if y.shape == (n,) and y.dtype.kind == "f":
        check_column(y, n, "y")
        distinct = np.unique(y)
        if len(distinct) > 2 and (distinct != np.floor(distinct)).any():
            return None
    return check_classes(y, n)[1]
