"""The best table: an assignment problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from antithetic._util.threads import interruptibly
from antithetic.pairing.rows import Rows

OPTIMAL_MAX_ROWS = 5000  # 200 MB of float64 products, about 10 s


def optimal_table(rows: Rows) -> NDArray[np.intp]:
    """Return the permutation with the smallest sum of products, in O(n^3) time.

    This is the assignment problem of the paper's equation 13.
    """
    n = len(rows)
    if n > OPTIMAL_MAX_ROWS:
        raise ValueError(
            f'method="optimal" takes at most {OPTIMAL_MAX_ROWS} rows (its time is cubic), got {n};'
            ' use "tree" or "greedy"'
        )
    return interruptibly(lambda: _assign(rows))


def _assign(rows: Rows) -> NDArray[np.intp]:
    vectors = rows.take(slice(None)).astype(np.float64)
    if rows.codes is None and not sparse.issparse(vectors):
        # Subtracting the mean changes no choice, and keeps the digits of rows with a large offset.
        vectors -= vectors.mean(axis=0)
    products = vectors @ vectors.T
    products = products.toarray() if sparse.issparse(products) else products
    if rows.codes is not None:
        everyone = np.arange(len(rows))
        products *= rows.agreement(everyone[:, None], everyone[None, :])
    partner: NDArray[np.intp] = linear_sum_assignment(products)[1]
    return partner
