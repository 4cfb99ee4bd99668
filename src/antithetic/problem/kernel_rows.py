"""Rows as the kernels see them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from antithetic._core import kernels
from antithetic._util.validation import Matrix


def kernel_rows(X: Matrix) -> kernels.Rows:
    """Rows as the kernels see them; no copy is made of C-contiguous or CSR rows."""
    if not sparse.issparse(X):
        return kernels.Rows.dense(np.ascontiguousarray(X))
    kind = np.result_type(X.indices, X.indptr)
    indices, indptr = (part.astype(kind, copy=False) for part in (X.indices, X.indptr))
    return kernels.Rows.csr(X.data, indices, indptr, X.shape[1])
