"""Checked data of a fit, and the numbers that seeds are drawn from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic.problem.columns import moments_of
from antithetic.problem.preconditioner import Moments, with_spread

LARGEST_SEED = np.iinfo(np.int32).max
_MANY_ENTRIES = 1 << 18  # whose check takes a noticeable part of a fit
_FEW_COLUMNS = 500  # of sparse rows: with more, samples take long before all rows are passed over


class TrainingData(NamedTuple):
    """Rows, targets as given, and weights of the rows (None where all are 1).

    ``columns`` are the moments of the columns, where reading the rows has found them. ``checked``
    says whether all entries of the rows are known to be finite.
    """

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    columns: Moments | None = None
    checked: bool = True

    def take(self, rows: NDArray[np.intp]) -> TrainingData:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return TrainingData(self.X[rows], self.y[rows], weight)

    def shown(self) -> dict[str, Any]:
        """What callbacks receive."""
        metadata = None if self.weight is None else {"sample_weight": self.weight}
        return {"X": self.X, "y": self.y, "metadata": metadata}


def is_checked(X: Any, y: Any) -> bool:
    """Whether scikit-learn's checks would leave rows and targets unchanged; in doubt, False.

    They take longer than an epoch of few rows.
    """
    if not needs_no_conversion(X, y):
        return False
    return _is_finite(X.data if sparse.issparse(X) else X.ravel()) and _is_finite(y)


def can_be_checked_later(X: Any, y: Any) -> bool:
    """Whether only the entries of X are left to check, and they are so many that this takes long.

    A fit that passes over all rows anyway finds out by itself whether they are finite.
    """
    # the number of entries first: few rows are fitted in the time of a few checks
    is_short = sparse.issparse(X) and X.format == "csr" and X.shape[1] <= _FEW_COLUMNS
    entries = X.data if is_short else X
    is_large = type(entries) is np.ndarray and entries.size >= _MANY_ENTRIES
    return is_large and needs_no_conversion(X, y) and _is_finite(y)


def checked_moments(X: Any, y: Any) -> Moments | None:
    """Moments of the columns of dense rows that `is_checked`, in the same visit to the rows.

    None where they are not.
    """
    if sparse.issparse(X) or not needs_no_conversion(X, y):
        return None
    if not _is_finite(y):
        return None
    seen = moments_of(X, None)
    return with_spread(seen) if np.isfinite(seen.mean).all() else None  # nor where a sum overflows


def _is_finite(column: NDArray[Any]) -> bool:
    """Whether a column of numbers has neither NaN nor infinity."""
    if column.dtype in (np.float64, np.float32) and column.flags.c_contiguous:
        return kernels.are_finite(column)
    return bool(np.isfinite(column).all())


def needs_no_conversion(X: Any, y: Any) -> bool:
    """Whether rows and targets have the types and shapes that kernels take."""
    is_csr = sparse.issparse(X) and X.format == "csr"
    is_dense = type(X) is np.ndarray and X.flags.c_contiguous
    if not (is_csr or is_dense) or type(y) is not np.ndarray:
        return False
    if X.ndim != 2 or 0 in X.shape or y.shape != X.shape[:1]:
        return False
    return X.dtype in (np.float64, np.float32) and y.dtype.kind in "biuf"
