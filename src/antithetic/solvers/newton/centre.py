"""What is subtracted from each column where there is an intercept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix

_ROWS = 1000


def centre_of(X: Matrix) -> NDArray[np.float64]:
    """Roughly the mean of each column, from evenly spaced rows."""
    step = max(1, X.shape[0] // _ROWS)
    if sparse.issparse(X):
        places = np.arange(0, X.shape[0], step)
        starts, lengths = X.indptr[places], np.diff(X.indptr)[::step]
        # entries of these rows: one row's end to the next one's beginning is skipped
        entries = np.arange(lengths.sum()) + np.repeat(
            starts - np.cumsum(lengths) + lengths, lengths
        )
        centre = np.bincount(X.indices[entries], X.data[entries], minlength=X.shape[1]) / len(
            places
        )
    else:
        centre = np.asarray(X[::step].mean(axis=0), dtype=np.float64).ravel()
    return np.where(np.isfinite(centre), centre, 0.0)  # a mean that overflows centres nothing
