"""SVMlight text: a label, then ``index:value`` pairs in ascending order, one row a line."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.datasets._stream import Lines

DENSE_FROM = 1 / 3  # share of stored entries from which rows are given dense
# More are taken for a mistake unless asked for: solvers hold several vectors of that length.
MOST_FEATURES = 1 << 24
_LONGEST_MESSAGE = 200
_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"  # one way to match: no backtracking
_ROW = re.compile(rb"\s*" + _NUMBER + rb"(?:\s+qid:\d+)?(?P<entries>(?:\s+\d+:\S+)*)\s*(?:#.*)?$")


def looks_like_svmlight(lines: list[bytes]) -> bool:
    """Whether every row among the lines has the form of SVMlight, and one at least has an entry."""
    rows = [_ROW.match(line) for line in lines if line.split(b"#")[0].strip()]
    return all(rows) and any(row["entries"] for row in rows if row)


def read_svmlight(
    stream: io.BufferedReader,
    where: str,
    n_features: int | None = None,
    *,
    first: int | None = None,
) -> tuple[sparse.csr_array, NDArray[np.float64], int]:
    """Read rows and labels.

    Parameters
    ----------
    stream : binary stream
        Decompressed.
    where : str
        Path or address, for error messages.
    n_features : int, default=None
        Number of features; None takes the largest index, if it is not above ``MOST_FEATURES``.
    first : {0, 1}, default=None
        Index of the first feature. None: 0 where an index 0 occurs, else 1, as scikit-learn's
        ``zero_based="auto"``.

    Returns
    -------
    X : csr_array of shape (n, d)
        With the entries that are in the file, zeros among them too.
    y : ndarray of shape (n,)
        Labels.
    first : int
        Index that the first feature has in the file.
    """
    from sklearn.datasets import load_svmlight_file  # a slow import that few need

    lines = Lines(stream, where)
    try:
        X, y = load_svmlight_file(lines, zero_based=True)
    except (ValueError, OverflowError) as error:
        if str(error).startswith(where):  # of the stream, which says all there is to say
            raise
        raise ValueError(
            f"{where}, line {lines.number} is not SVMlight text: {_why(error)}"
        ) from error
    if not X.nnz:
        raise ValueError(f"{where} has no entries of the form index:value")
    lowest = int(X.indices.min())
    if first is None:
        first = min(lowest, 1)
    if lowest < first:
        raise ValueError(
            f"{where} has an index {lowest}, and the first feature of this file is number {first}"
        )
    d = X.shape[1] - first
    if n_features is None and d > MOST_FEATURES:
        raise ValueError(
            f"{where} has an index {d - 1 + first}, which is above {MOST_FEATURES}; if this is"
            f" intended, pass n_features={d} or more"
        )
    if n_features is not None and d > n_features:
        raise ValueError(f"{where} has {d} features, more than n_features={n_features}")
    return _csr(X, first, n_features or d), y, first


def _csr(X: Any, first: int, d: int) -> sparse.csr_array:
    kind = np.int32 if max(X.nnz, d) < np.iinfo(np.int32).max else np.int64
    return sparse.csr_array(
        (X.data, (X.indices - first).astype(kind), X.indptr.astype(kind)), shape=(X.shape[0], d)
    )


def _why(error: Exception) -> str:
    message = str(error)
    if isinstance(error, OverflowError) or "integer string conversion" in message:
        message = "an index is too large"
    elif "unpack" in message:
        message = "an entry has no colon"
    elif "sorted and unique" in message:
        message = "indices must ascend within a row"
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."


def dense_if_full(X: sparse.csr_array) -> Any:
    """Rows as an array where a third of the entries or more is stored."""
    return X.toarray() if X.nnz >= DENSE_FROM * X.shape[0] * X.shape[1] else X
