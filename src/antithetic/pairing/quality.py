"""How good a table is, and how much better any table could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic.pairing.optimal import optimal_table
from antithetic.pairing.rows import Rows, mean_square, rows_ratio
from antithetic.problem import ratio

EXACT_ROWS = 2000  # up to here the best table is found, in about 2 s
_DUAL_ROWS = 600  # rows of the subset that the dual values come from
# Up to the first number of rows, all are summed; beyond, a sample of the second number.
_SUMMED_ROWS, _SAMPLED_ROWS = (20_000, 2000)
_BLOCK_PRODUCTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Quality:
    """The result of :meth:`AntitheticTable.quality`.

    Products are those of the vectors that were paired: without ``coef``, the signed rows.

    Attributes
    ----------
    variance_ratio : float
        Exact variance of a pair's gradient, divided by that of two independent rows.
    mean_product : float
        Mean inner product of partners.
    negative_share : float
        Share of rows whose product with their partner is negative: the paper's eq. 15.
    opposite_share : float or None
        Share of rows whose partner has another label; None for regression.
    best_ratio : float
        No table has a smaller ratio than this.
    best_by : str
        How it was found: ``"assignment"``, exact, up to 2000 rows; ``"dual"``, a guaranteed bound
        from the dual of the assignment problem; or ``"sampled dual"``, beyond 20000 rows, in which
        a mean over all rows is estimated by that of 2000 random ones minus three standard errors.
    """

    variance_ratio: float
    mean_product: float
    negative_share: float
    opposite_share: float | None
    best_ratio: float
    best_by: str


def measure_quality(
    rows: Rows,
    partner: NDArray[np.intp],
    found: float,
    labels: NDArray[Any] | None,
    random_state: int,
) -> Quality:
    """Quality of a table whose variance ratio is known."""
    products = rows.products(partner)
    with np.errstate(divide="ignore", over="ignore"):  # infinite, of rows beyond 1e154
        mean_product = float(products.mean() / rows.unit / rows.unit)
    if len(rows) <= EXACT_ROWS:
        best, best_by = rows_ratio(rows, optimal_table(rows)), "assignment"
    else:
        best, best_by = dual_bound(rows, np.random.default_rng(random_state))
    if found < best <= found * (1.0 + 1e-9):
        best = found  # the best table was found: the two differ only by rounding
    return Quality(
        found,
        mean_product,
        float((products < 0.0).mean()),
        None if labels is None else float((labels != labels[partner]).mean()),
        best,
        best_by,
    )


def dual_bound(rows: Rows, rng: np.random.Generator) -> tuple[float, str]:
    r"""Lower bound on the ratio of all tables, and how it was found.

    For any numbers :math:`v_j` the sum of products of a permutation is at least :math:`\sum_j v_j +
    \sum_i \min_j (\langle z_i, z_j \rangle - v_j)`. Good ones come from a random subset of the
    rows: its assignment problem is solved exactly, and the dual values of its rows are carried over
    to all columns, :math:`v_j = \min_i (\langle z_i, z_j \rangle - u_i)`. The second sum is taken
    over all rows, or over a sample.
    """
    n = len(rows)
    subset = rng.choice(n, min(n, _DUAL_ROWS), replace=False)
    column_values = _smallest(rows, subset, -_row_duals(rows, subset), of_all=True)
    sampled = n > _SUMMED_ROWS
    summed = rng.choice(n, _SAMPLED_ROWS, replace=False) if sampled else np.arange(n)
    row_values = _smallest(rows, summed, -column_values, of_all=False)
    least = float(column_values.mean() + row_values.mean())
    if sampled:
        least -= 3.0 * float(row_values.std()) / len(summed) ** 0.5
    square, centre = float(rows.products(np.arange(n)).mean()), mean_square(rows)
    bound = ratio(max(0.0, 0.5 * (square + least) - centre), max(0.0, 0.5 * (square - centre)))
    return bound, "sampled dual" if sampled else "dual"


def _row_duals(rows: Rows, subset: NDArray[np.intp]) -> NDArray[np.float64]:
    """Dual values of the rows of a subset's assignment problem."""
    duals: NDArray[np.float64] = kernels.assign(_products(rows, subset, subset))[1]
    return duals


def _smallest(
    rows: Rows, some: NDArray[np.intp], addend: NDArray[np.float64], *, of_all: bool
) -> NDArray[np.float64]:
    """Smallest product plus addend.

    Of every row with the given ones (``of_all``), or of the given ones with every row.
    """
    n = len(rows)
    out = np.full(n if of_all else len(some), np.inf)
    block = max(1, _BLOCK_PRODUCTS // len(some))
    for start in range(0, n, block):
        part = np.arange(start, min(start + block, n))
        products = _products(rows, part, some)
        if of_all:
            out[part] = (products + addend).min(axis=1)
        else:
            np.minimum(out, (products + addend[part, None]).min(axis=0), out=out)
    return out


def _products(rows: Rows, index: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.float64]:
    products = rows.take(index).astype(np.float64) @ rows.take(other).astype(np.float64).T
    weighed: NDArray[np.float64] = products.toarray() if sparse.issparse(products) else products
    if rows.codes is not None:
        weighed *= rows.agreement(index[:, None], other[None, :])
    return weighed
