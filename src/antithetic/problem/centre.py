"""What is subtracted from each column where there is an intercept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix


def centre_of(
    X: Matrix, weight: NDArray[np.float64] | None = None, *, most: int = 1000
) -> NDArray[np.float64]:
    """Return roughly the weighted mean of each column, from about ``most`` evenly spaced rows.

    Any point among the rows that count keeps digits from cancelling. A row of weight zero does not
    count: it may hold anything, such as 1e20 for an entry that is missing.
    """
    step, shares = max(1, X.shape[0] // most), None
    places = np.arange(0, X.shape[0], step)
    if weight is not None and weight.any():
        counted = np.flatnonzero(weight)
        places = counted[:: max(1, len(counted) // most)]
        shares = (weight[places] / weight[places].max()).astype(X.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            starts, lengths = X.indptr[places], X.indptr[places + 1] - X.indptr[places]
            # entries of these rows: one row's end to the next one's beginning is skipped
            entries = np.arange(lengths.sum()) + np.repeat(
                starts - np.cumsum(lengths) + lengths, lengths
            )
            data = X.data[entries]
            if shares is not None:
                data = data * np.repeat(shares, lengths)
            centre = np.bincount(X.indices[entries], data, minlength=X.shape[1]) / len(places)
        elif shares is None:
            centre = X[::step].mean(axis=0, dtype=np.float64)
        else:
            centre = (X[places] * shares[:, None]).mean(axis=0, dtype=np.float64)
        if shares is not None:
            centre /= float(shares.mean())
    return np.where(np.isfinite(centre), centre, 0.0)  # a mean that overflows centres nothing
