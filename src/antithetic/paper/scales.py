"""How different the scales of columns are, which gradient steps depend on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import block_rows

# Curvatures are squares of scales. Where they differ by a factor of 10,000, a step that is safe for
# the largest column leaves the smallest where it is for thousands of epochs.
VERY_DIFFERENT = 100.0


class Scales(NamedTuple):
    """Sizes of the columns.

    Attributes
    ----------
    size : ndarray of shape (d,)
        Mean absolute value of a column's entries that are not zero; 0 for a column of zeros.
    largest, smallest : int
        Columns of the largest size and of the smallest above 0.
    """

    size: NDArray[np.float64]
    largest: int
    smallest: int

    @property
    def ratio(self) -> float:
        """How many times the smallest size the largest is; 1 if all columns are zero."""
        below = float(self.size[self.smallest])
        return float(self.size[self.largest]) / below if below > 0.0 else 1.0

    @property
    def differ(self) -> bool:
        """Whether columns are of very different scales."""
        return self.ratio > VERY_DIFFERENT


def column_scales(X: Any) -> Scales:
    """Measure the columns, in one pass over the rows.

    Examples
    --------
    >>> found = column_scales(np.array([[1.0, 2000.0], [-1.0, 0.0]]))
    >>> found.size.tolist(), found.ratio, found.differ
    ([1.0, 2000.0], 2000.0, True)
    """
    total, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, X.shape[0], block_rows(X)):
        part = abs(X[start : start + block_rows(X)])
        with np.errstate(over="ignore"):  # values near 1e308 are very different from others, too
            total += np.asarray(part.sum(axis=0, dtype=np.float64)).ravel()
        counts += np.asarray((part != 0).sum(axis=0)).ravel()
    size = total / np.maximum(counts, 1.0)
    smallest = int(np.argmin(np.where(size > 0.0, size, np.inf)))
    return Scales(size, int(np.argmax(size)), smallest)


class Rescaled(NamedTuple):
    """Rows whose columns have been brought to one scale: ``(X - shift) * factor``."""

    X: Any
    shift: NDArray[np.float64]
    factor: NDArray[np.float64]

    def undo(self, coef: Any, intercept: float) -> tuple[NDArray[np.float64], float]:
        """Weights and intercept for the rows as they were, with the same predictions."""
        weights = np.asarray(coef, dtype=np.float64) * self.factor
        return weights, float(intercept - weights @ self.shift)


def rescale(X: Any, scales: Scales) -> Rescaled:
    """Bring all columns to one scale.

    Dense ones to mean 0 and variance 1, as scikit-learn's ``StandardScaler`` does; sparse entries
    are divided by their mean absolute value, which keeps zeros.
    """
    d = X.shape[1]
    if sparse.issparse(X):
        factor = np.divide(1.0, scales.size, out=np.ones(d), where=scales.size > 0.0)
        return Rescaled(sparse.csr_matrix(X @ sparse.diags(factor)), np.zeros(d), factor)
    shift, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    factor = np.divide(1.0, spread, out=np.ones(d), where=spread > 0.0)
    return Rescaled((X - shift) * factor, shift, factor)
