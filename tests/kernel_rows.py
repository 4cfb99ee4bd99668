"""Rows of every kind and shape, as the tests of kernels draw them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from antithetic._core import kernels

KINDS = [
    pytest.param((dtype, index), id=f"{dtype.__name__}-{getattr(index, '__name__', 'dense')}")
    for dtype in (np.float64, np.float32)
    for index in (None, np.int32, np.int64)
]
SHAPES = [
    *((n, d) for n in range(1, 10) for d in (1, 3, 8, 9)),
    *((n, 7) for n in (15, 16, 17, 63, 64, 65, 255, 256, 257, 1027)),
    *((37, d) for d in (2, 4, 15, 16, 17, 31, 512, 2048, 2049)),
    (3, 0),
]


def make_rows(X, index):
    """Rows as the kernels have them, each dense array one that ends where its memory ends."""
    if index is None:
        return kernels.Rows.dense(np.array(X))
    S = sparse.csr_array(X)
    return kernels.Rows.csr(S.data, S.indices.astype(index), S.indptr.astype(index), X.shape[1])


def draw(n, d, dtype, seed=0):
    """Return rows with zeros among their entries, whose products with weights are about one."""
    rng = np.random.default_rng((n, d, seed))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) / max(1, d) ** 0.5
    return X.astype(dtype), rng


def weights_of(rng, n):
    """Return weights of n rows, zero for a third of them."""
    return rng.uniform(0.5, 2.0, size=n) * (rng.random(n) < 0.7)
