"""What is subtracted from each column where there is an intercept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix

_ROWS = 1000


def centre_of(X: Matrix, weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Roughly the mean of each column, from evenly spaced rows.

    Rows count as their weights say: one of weight zero may hold anything, such as 1e20 for an
    entry that is missing, and columns so far from their own mean would have no digits left.
    """
    step, shares = max(1, X.shape[0] // _ROWS), None
    places = np.arange(0, X.shape[0], step)
    if weight is not None and weight.any():
        counted = np.flatnonzero(weight)
        places = counted[:: max(1, len(counted) // _ROWS)]
        shares = (weight[places] / weight[places].max()).astype(X.dtype)
    if sparse.issparse(X):
        starts, lengths = X.indptr[places], X.indptr[places + 1] - X.indptr[places]
        # entries of these rows: one row's end to the next one's beginning is skipped
        entries = np.arange(lengths.sum()) + np.repeat(
            starts - np.cumsum(lengths) + lengths, lengths
        )
        data = X.data[entries] if shares is None else X.data[entries] * np.repeat(shares, lengths)
        centre = np.bincount(X.indices[entries], data, minlength=X.shape[1]) / len(places)
    elif shares is None:
        centre = np.asarray(X[::step].mean(axis=0), dtype=np.float64).ravel()
    else:
        centre = (X[places] * shares[:, None]).mean(axis=0).astype(np.float64)
    if shares is not None:
        centre /= float(shares.mean())
    return np.where(np.isfinite(centre), centre, 0.0)  # a mean that overflows centres nothing
