"""How good a table is, and how much better any table could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.pairing.optimal import optimal_table
from antithetic.pairing.rows import Rows, mean_square, rows_ratio
from antithetic.problem import ratio

EXACT_ROWS = 2000  # up to here the best table is found, some 2 s
_SUBSET_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Quality:
    """What :meth:`AntitheticTable.quality` says.

    Attributes
    ----------
    variance_ratio : float
        Exact variance of a pair's gradient, divided by that of two independent rows.
    mean_product : float
        Mean inner product of partners' gradients.
    negative_share : float
        Share of rows whose product with their partner is negative: the paper's eq. 15.
    opposite_share : float or None
        Share of rows whose partner has another label; None for regression.
    best_ratio : float
        No table has a smaller ratio than this.
    best_by : str
        Where that comes from: ``"assignment"``, exact, up to 2000 rows; else ``"axes"``, the sum over principal axes of the best
        pairing along each axis alone, which is below what any table can reach in all of them at once.
    subset_ratio : float or None
        For more than 2000 rows: the exact best ratio of 1000 random rows. More rows have closer opposites, so the best ratio of
        all is probably lower than this: a table that comes near it is good.
    """

    variance_ratio: float
    mean_product: float
    negative_share: float
    opposite_share: float | None
    best_ratio: float
    best_by: str
    subset_ratio: float | None = None


def measure_quality(rows: Rows, partner: NDArray[np.intp], found: float, labels: NDArray[Any] | None, random_state: int) -> Quality:
    """Quality of a table whose variance ratio is known."""
    products = rows.products(partner)
    if len(rows) <= EXACT_ROWS:
        best, best_by, subset = rows_ratio(rows, optimal_table(rows)), "assignment", None
    else:
        some = np.random.default_rng(random_state).choice(len(rows), _SUBSET_ROWS, replace=False)
        few = rows.subset(some)
        best, best_by, subset = axes_bound(rows), "axes", rows_ratio(few, optimal_table(few))
    return Quality(
        found,
        float(products.mean()),
        float((products < 0.0).mean()),
        None if labels is None else float((labels != labels[partner]).mean()),
        min(best, found),  # rounding apart, it is
        best_by,
        subset,
    )


def axes_bound(rows: Rows) -> float:
    r"""Smallest ratio that could be reached if every axis could be paired by itself.

    In an orthonormal basis :math:`\sum_i \langle z_i, z_{S(i)} \rangle` is a sum over axes, and along one axis the best permutation pairs
    the largest with the smallest. With more than 512 features, and with the tensor products of several classes, everything is taken to
    cancel completely.
    """
    n = len(rows)
    square = float(rows.products(np.arange(n)).mean())
    centre = mean_square(rows)
    least = -square if rows.codes is not None or rows.X.shape[1] > 512 else _axes_products(rows)
    return ratio(max(0.0, 0.5 * (square + least) - centre), 0.5 * (square - centre))


def _axes_products(rows: Rows) -> float:
    vectors = rows.take(slice(None))
    square = vectors.T @ vectors
    basis = np.linalg.eigh(square.toarray() if sparse.issparse(square) else square)[1]
    total = 0.0
    for axis in basis.T:
        ordered = np.sort(np.asarray(vectors @ axis, dtype=np.float64).ravel())
        total += float(ordered @ ordered[::-1])
    return total / len(rows)
