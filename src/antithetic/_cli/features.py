"""Rows to predict: the columns that a model was trained on, from a file that need not have labels."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from antithetic.datasets._arrow import _open as open_arrow
from antithetic.datasets._arrow import read_arrow
from antithetic.datasets._numpy_file import read_npy
from antithetic.datasets._read_file import _form, _read_pair
from antithetic.datasets._stream import Lines, open_stream
from antithetic.datasets._table import Choice, Table, rows_and_labels
from antithetic.datasets._text_table import _SAMPLED_LINES, _layout, read_text_table
from antithetic.model_file import LinearModel

_MAX_BYTES = 8 << 30


def read_features(path: Path, model: LinearModel) -> tuple[Any, list[str]]:
    """Read the features of a model, in its order, and what there is to say about them.

    Raises
    ------
    ValueError
        The file is damaged, or lacks features; the message names them.
    """
    form = _form(path, _MAX_BYTES)
    d = model.coef.shape[1]
    if form in ("svmlight", "npz"):
        X, _, names = _read_pair(path, form, d if form == "svmlight" else None, _MAX_BYTES, named=False)
        if form == "svmlight" or names is None or model.feature_names is None:
            return _same_width(X, d, path), []
        return _take(X, names, model, path)
    if model.feature_names is None:
        raise ValueError(f"the model has no names of features, and {path} is a table; give it SVMlight or npz rows")
    table = _read_table(path, form, model)
    X, _, names = rows_and_labels(table, Choice(0, list(range(len(table.names)))), model.one_hot, str(path))
    return _take(X, names, model, path)


def _read_table(path: Path, form: str, model: LinearModel) -> Table:
    """Read the columns of a table that the model knows."""
    if form == "npy":
        return read_npy(path, _MAX_BYTES)
    columns = _columns(path, form)
    known = set(model.feature_names or ())
    words = {name.partition("=")[0] for name in known} if model.one_hot else set()
    used = [name for name in columns if name in known or name in words]
    if not used:
        raise ValueError(_lacking(path, model.feature_names or [], columns))
    if len(columns) < 2:
        raise ValueError(f"{path} has one column only; add a second one, of anything, for it to be read as a table")
    # the reader wants a target, which is only read, never judged: one of the columns will do
    target = used[-1] if len(used) > 1 else next(name for name in columns if name != used[0])
    features = [name for name in used if name != target]
    if form == "text":
        table, _ = read_text_table(path, _MAX_BYTES, target, features, model.one_hot, None)
    else:
        table, _ = read_arrow(path, form, _MAX_BYTES, target, features)
    kept = [place for place, name in enumerate(table.names) if name in used]
    words_of = {kept.index(place): held for place, held in table.words.items() if place in kept}
    return Table([table.names[place] for place in kept], table.values[:, kept], words_of)


def _columns(path: Path, form: str) -> list[str]:
    """Names of all columns of a file."""
    if form == "text":
        with open_stream(path, _MAX_BYTES) as stream:
            sample = list(islice(Lines(stream, str(path)).text(), _SAMPLED_LINES))
        return _layout(path, _MAX_BYTES, sample, None)[0].names
    try:
        pyarrow = import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install 'antithetic[tables]'") from error
    try:
        with open_arrow(pyarrow, path, form) as reader:
            return list((reader.schema_arrow if form == "parquet" else reader.schema).names)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged, or no {form} file: {error}") from error


def _take(X: Any, names: list[str], model: LinearModel, path: Path) -> tuple[Any, list[str]]:
    """Columns in the order of the model; a word that does not occur is a column of zeros."""
    wanted = model.feature_names or []
    place = {name: number for number, name in enumerate(names)}
    bases = {name.partition("=")[0] for name in names if "=" in name} if model.one_hot else set()
    missing = [name for name in wanted if name not in place and not ("=" in name and name.partition("=")[0] in bases)]
    if missing:
        raise ValueError(_lacking(path, missing, names))
    known, own = set(wanted), {name.partition("=")[0] for name in wanted if "=" in name}
    strange = [name for name in names if model.one_hot and name not in known and "=" in name and name.partition("=")[0] in own]
    notes = [f"{name} was not seen in training and counts as none of the known words" for name in strange[:5]]
    columns = [place.get(name, len(names)) for name in wanted]  # the last one is that of zeros
    if sparse.issparse(X):
        return sparse.hstack([X, sparse.csr_array((X.shape[0], 1))], format="csc")[:, columns].tocsr(), notes
    return np.ascontiguousarray(np.column_stack([X, np.zeros(len(X))])[:, columns]), notes


def _same_width(X: Any, d: int, path: Path) -> Any:
    if X.shape[1] != d:
        raise ValueError(f"{path} has {X.shape[1]} features, and the model was trained on {d}")
    return X


def _lacking(path: Path, missing: list[str], names: list[str]) -> str:
    shown = ", ".join(map(repr, missing[:10])) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
    has = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    return f"{path} lacks feature{'s' if len(missing) > 1 else ''} that the model was trained on: {shown}; it has {has}"
