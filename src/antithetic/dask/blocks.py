"""Blocks: rows, labels and weights of one piece of the data, read by one task at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.threads import limit_blas
from antithetic._util.validation import check_column, check_rows
from antithetic.dask.recipes import Graph, read_part


class Expected(NamedTuple):
    """What all blocks have: column labels, if they are data frames, and labels and weights.

    Columns of data frames are matched by their labels.
    """

    columns: list[Any] | None = None
    has_labels: bool = True
    has_weights: bool = True


class Block(NamedTuple):
    """Checked rows, labels as given, and weights of the rows, None where all are 1."""

    X: Any
    y: NDArray[Any] | None
    weight: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Parts of the data in order, each a recipe.

    A block has rows, and labels and weights where these were given.

    Attributes
    ----------
    X, y, weight : list of Recipe
        ``y`` and ``weight`` may be None.
    graph : dict
        What the recipes need: tasks that each round runs, and futures of data on the cluster, which
        keep these data there.
    names : ndarray of str or None
        Names of the features.
    columns : list or None
        Labels of the columns of frames, names or numbers, in the order of the first block.
    """

    X: list[Any]
    y: list[Any] | None = None
    weight: list[Any] | None = None
    graph: Graph = field(default_factory=dict)
    names: NDArray[Any] | None = None
    columns: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def parts(self, number: int) -> list[Any]:
        """Rows, labels and weights of a block, None if not given, for :func:`open_block`.

        The last entry is :attr:`expected`.
        """
        given = (self.X, self.y, self.weight)
        return [*(None if column is None else column[number] for column in given), self.expected]

    @property
    def expected(self) -> Expected:
        """What tasks can expect of a block."""
        return Expected(self.columns, self.y is not None, self.weight is not None)


def open_block(number: int, parts: Sequence[Any], *, finite: bool = True) -> Block:
    """Read and check a block in the task that needs it; errors name the block.

    After the first look, rows need not be checked for being ``finite`` again.
    """
    expected = (
        parts[3] if len(parts) > 3 else Expected(None, *(part is not None for part in parts[1:]))
    )
    name = f"block {number} of X"
    X = read_part(parts[0], name)
    y = read_part(parts[1], f"block {number} of y") if expected.has_labels else None
    weight = (
        read_part(parts[2], f"block {number} of sample_weight") if expected.has_weights else None
    )
    if hasattr(X, "to_numpy"):
        X = _in_order(X, expected.columns, name)
    if not hasattr(X, "shape"):
        raise ValueError(f"{name} must be an array, CSR matrix or data frame; got {type(X)}")
    n = X.shape[0]
    try:
        rows = check_rows(X, name, finite=finite) if n else _no_rows(X)
        labels = None if y is None else _labels(y, n)
        weights = None if weight is None else _weights(weight, n)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if name in message else f"block {number}: {message}") from error
    except TypeError as error:
        raise ValueError(f"{name} holds values that are not numbers: {error}") from error
    return Block(rows, labels, weights)


def open_labels(number: int, part: Any) -> NDArray[Any]:
    """Read and check the labels of a block, without its rows."""
    values = read_part(part, f"block {number} of y")
    try:
        return _labels(values, len(values))
    except ValueError as error:
        raise ValueError(f"block {number}: {error}") from error


def _in_order(frame: Any, columns: list[Any] | None, name: str) -> Any:
    """Return the columns of a frame in the order of the first block's."""
    own = list(getattr(frame, "columns", ()))
    if columns is None or own == columns:
        return frame
    if len(set(own)) < len(own) or set(own) != set(columns):
        raise ValueError(
            f"{name} has the columns {_shown(own)}, and the first block has {_shown(columns)}; all"
            " blocks need the same columns"
        )
    return frame[columns]


def _shown(columns: list[Any]) -> str:
    return f"[{', '.join(map(repr, columns[:10]))}{', ...' if len(columns) > 10 else ''}]"


def _no_rows(X: Any) -> Any:
    if not sparse.issparse(X):
        X = np.asarray(X)
    real = np.float32 if X.dtype in (np.float32, np.float16) else np.float64
    return sparse.csr_array(X.shape, dtype=real) if sparse.issparse(X) else np.empty(X.shape, real)


def _labels(y: Any, n: int) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape == (n, 1):
        labels = labels.ravel()
    if labels.shape != (n,):
        raise ValueError(
            f"X has {n} rows and y has shape {labels.shape}; divide both into the same blocks"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            "y has NaN or infinity, first in row"
            f" {int(np.argmin(np.isfinite(labels)))} of the block"
        )
    if labels.dtype.kind == "O":
        return _of_one_kind(labels)
    return labels


def _of_one_kind(labels: NDArray[Any]) -> NDArray[Any]:
    """Convert labels of object type to text, numbers or bools, so that blocks can be compared."""
    kinds = set(map(type, labels.tolist()))
    if not kinds <= {str, int, bool}:  # which are never missing
        missing = np.frompyfunc(_is_missing, 1, 1)(labels).astype(bool)
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(f"y has a missing label, first in row {row} of the block")
    plain = np.array(labels.tolist())
    if plain.dtype.kind == "O" or (len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds)):
        raise ValueError(
            "y mixes labels that cannot be compared, for example numbers and strings; use one kind"
        )
    return plain


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or a missing value of pandas, which equals nothing."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _weights(weight: Any, n: int) -> NDArray[np.float64]:
    weights = check_column(weight, n, "sample_weight")
    if (weights < 0.0).any():
        row = int(np.argmax(weights < 0.0))
        raise ValueError(
            f"sample_weight must be at least 0; row {row} of the block has {weights[row]}"
        )
    return weights


def join_classes(found: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the labels of all blocks, in order."""
    if len({"text" if labels.dtype.kind in "US" else "number" for labels in found}) > 1:
        raise ValueError("y has strings in some blocks and numbers in others; use one kind")
    return np.unique(np.concatenate(found))


def one_thread() -> AbstractContextManager[None]:
    """Compute matrix products in one thread, so that sums do not depend on the machine.

    Several tasks of one process may be inside at the same time.
    """
    return limit_blas(1)
