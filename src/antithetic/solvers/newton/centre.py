"""What is subtracted from each column where there is an intercept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix

_ROWS = 1000


def centre_of(X: Matrix) -> NDArray[np.float64]:
    """Roughly the mean of each column, from evenly spaced rows."""
    some = X[:: max(1, X.shape[0] // _ROWS)]
    centre = np.asarray(some.mean(axis=0), dtype=np.float64).ravel()
    return np.where(np.isfinite(centre), centre, 0.0)  # a mean that overflows centres nothing
