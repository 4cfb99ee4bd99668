"""Rows to predict: the columns that a model was trained on, from a file that may lack labels."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from antithetic.datasets._arrow import _open as open_arrow
from antithetic.datasets._numpy_file import read_npy
from antithetic.datasets._read_file import _form, _read_pair, read_table
from antithetic.datasets._reading import Reading, has_decimal_comma
from antithetic.datasets._stream import open_stream
from antithetic.datasets._svmlight import dense_if_full, read_svmlight
from antithetic.datasets._table import ColumnChoice, NamedColumns, rows_and_labels
from antithetic.datasets._text_table import sampled_layout
from antithetic.estimators.model_columns import feature_keys
from antithetic.estimators.model_file import LinearModel

Key: TypeAlias = tuple[str, str | None]


def read_features(path: Path, model: LinearModel, reading: Reading) -> tuple[Any, list[str]]:
    """Read the features of a model, in its order, and what there is to say about them.

    The columns in ``reading`` are replaced by those of the model.

    Raises
    ------
    ValueError
        The file is damaged, or lacks features; the message names them.
    """
    form = _form(path, reading.max_bytes)
    if form == "svmlight":
        return _read_svmlight(path, model, reading), []
    if form == "npz":
        X, _, names, _ = _read_pair(path, form, None, reading, named=False)
        if names is None or model.feature_names is None:
            return _same_width(X, model.coef.shape[1], path), []
        return _take(
            X,
            [(name, None) for name in names],
            [(name, None) for name in model.feature_names],
            path,
            names,
        )
    if model.feature_names is None:
        raise ValueError(
            f"the model was saved without the names of its features, so {path} cannot be matched"
            " with it; train with `antithetic train`, or save it with LinearModel.of(model, data),"
            " where data is what datasets.read_file returned"
        )
    table, columns = _read_table(path, form, model, reading)
    _refuse_words(table, feature_keys(model), path)
    X, _, _ = rows_and_labels(
        table, ColumnChoice(0, list(range(len(table.names)))), model.one_hot, str(path)
    )
    return _take(X, _table_keys(table), feature_keys(model), path, columns)


def _refuse_words(table: NamedColumns, wanted: list[Key], path: Path) -> None:
    """Raise ValueError for words where the model was trained on numbers."""
    numbers = {column for column, word in wanted if word is None}
    for place, words in table.words.items():
        if table.names[place] in numbers:
            comma = has_decimal_comma(words[0])
            raise ValueError(
                f"{path}: column {table.names[place]!r} holds words such as {words[0][:100]!r}, and"
                " the model was trained on numbers there; "
                + ("pass decimal=',' if they are numbers" if comma else "correct the file")
            )


def _first_of(names: list[str]) -> int | None:
    """0 or 1 where names are those that numbered features get, else None."""
    first = {"x0": 0, "x1": 1}.get(names[0])
    return (
        first
        if first is not None
        and all(name == f"x{number}" for number, name in enumerate(names, first))
        else None
    )


def _read_svmlight(path: Path, model: LinearModel, reading: Reading) -> Any:
    """Rows of numbered features.

    The number of the first one is the model's, since a file need not hold it.
    """
    first, names = model.first_index, model.feature_names
    if names is not None:
        first = _first_of(names)
        if first is None:
            shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
            raise ValueError(
                f"{path} is SVMlight text, whose features are numbered, but the model was"
                f" trained on named ones: {shown}"
            )
    if first is None:
        raise ValueError(
            f"the model does not say whether features are numbered from 0 or from 1, which"
            f" is needed to read {path}; convert the file to npz"
        )
    with open_stream(path, reading.max_bytes, progress=reading.progress) as stream:
        X, _, _ = read_svmlight(stream, str(path), model.coef.shape[1], first=first)
    return dense_if_full(X)


def _table_keys(table: NamedColumns) -> list[Key]:
    """Column and word of each feature that `rows_and_labels` makes of a table."""
    keys: list[Key] = []
    for place, name in enumerate(table.names):
        keys += (
            [(name, word) for word in sorted(table.words[place])]
            if place in table.words
            else [(name, None)]
        )
    return keys


def _read_table(
    path: Path, form: str, model: LinearModel, reading: Reading
) -> tuple[NamedColumns, list[str]]:
    """Read the columns of a table that the model knows; also return the names of all columns."""
    if form == "npy":
        whole = read_npy(path, reading.max_bytes, reading.progress)
        return whole, whole.names
    columns = _columns(path, form, reading)
    known = {column for column, _ in feature_keys(model)}
    used = [name for name in columns if name in known]
    if not used:
        raise ValueError(_lacking(path, feature_keys(model), columns))
    if len(columns) < 2:
        raise ValueError(
            f"{path} has only one column; add a second one with any content, so that it can be"
            " read as a table"
        )
    dates = set(model.dates or ())
    # The reader wants a target, which is only read, never judged: one of the columns will do, but
    # not one of dates, which would stay words.
    target = next(
        (name for name in (*reversed(used), *columns) if [name] != used and name not in dates), None
    )
    if target is None:
        raise ValueError(f"{path} holds only dates; add a column with any other content")
    features = [name for name in used if name != target]
    # Words are read in any case, so that `_refuse_words` can say what is wrong with them.
    reading = replace(reading, target=target, features=features, one_hot=True, dates=bool(dates))
    table, _ = read_table(path, form, reading)
    kept = [place for place, name in enumerate(table.names) if name in used]
    found = {table.names[place] for place in table.dates}
    if wrong := [table.names[place] for place in kept if table.names[place] in dates - found]:
        raise ValueError(
            f"{path}: column {wrong[0]!r} holds no dates, but the model was trained on dates there"
        )
    words_of = {kept.index(place): held for place, held in table.words.items() if place in kept}
    names = [table.names[place] for place in kept]
    return NamedColumns(names, table.values[:, kept], words_of), columns


def _columns(path: Path, form: str, reading: Reading) -> list[str]:
    """Names of all columns of a file."""
    if form == "text":
        return sampled_layout(path, reading)[0].names
    try:
        pyarrow = import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"{path} needs pyarrow: pip install 'antithetic[tables]'") from error
    try:
        with open_arrow(pyarrow, path, form) as reader:
            return list((reader.schema_arrow if form == "parquet" else reader.schema).names)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged, or not a {form} file: {error}") from error


def _take(
    X: Any, keys: list[Key], wanted: list[Key], path: Path, columns: list[str]
) -> tuple[Any, list[str]]:
    """Columns in the order of the model; a word that does not occur is a column of zeros.

    ``columns`` are the names of all columns of the file.
    """
    place = {key: number for number, key in enumerate(keys)}
    of_words = {column for column, word in keys if word is not None}
    missing = [
        key
        for key in wanted
        if key not in place and not (key[1] is not None and key[0] in of_words)
    ]
    if missing:
        raise ValueError(_lacking(path, missing, columns))
    known, own = set(wanted), {column for column, word in wanted if word is not None}
    strange = [
        _name(key) for key in keys if key[1] is not None and key not in known and key[0] in own
    ]
    notes = [
        f"{name} was not seen in training and counts as none of the known words"
        for name in strange[:5]
    ]
    taken = [place.get(key, len(keys)) for key in wanted]  # the last one is that of zeros
    if sparse.issparse(X):
        return (
            sparse.hstack([X, sparse.csr_array((X.shape[0], 1))], format="csc")[:, taken].tocsr(),
            notes,
        )
    return np.ascontiguousarray(np.column_stack([X, np.zeros(len(X))])[:, taken]), notes


def _name(key: Key) -> str:
    return key[0] if key[1] is None else f"{key[0]}={key[1]}"


def _same_width(X: Any, d: int, path: Path) -> Any:
    if X.shape[1] != d:
        raise ValueError(f"{path} has {X.shape[1]} features, and the model was trained on {d}")
    return X


def _lacking(path: Path, missing: list[Key], columns: list[str]) -> str:
    shown = ", ".join(repr(_name(key)) for key in missing[:10]) + (
        f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    )
    has = ", ".join(map(repr, columns[:10])) + (", ..." if len(columns) > 10 else "")
    message = (
        f"{path} lacks {'features' if len(missing) > 1 else 'a feature'} that the model was trained"
        f" on: {shown}; it has {has}"
    )
    if any(word is None and name.partition("=")[0] in columns for name, word in missing):
        message += (
            ". If these features were made from words, save the model with LinearModel.of(model,"
            " data), where data is what datasets.read_file(..., one_hot=True) returned"
        )
    return message
