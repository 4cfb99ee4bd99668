"""The exact variance of the gradient of a drawn batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._validate import BLOCK_ENTRIES, check_count
from antithetic.losses import Loss
from antithetic.pairing.table import AntitheticTable, check_table, matched
from antithetic.problem import Problem
from antithetic.sampling.batches import Batches


def gradient_variance(
    X: Any,
    y: Any,
    coef: Any = None,
    *,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    table: AntitheticTable | None = None,
    sampling: str = "uniform",
    batch_size: int = 2,
    fit_intercept: bool = False,
    sample_weight: Any = None,
) -> float:
    r"""Exact :math:`\mathrm{Var}(g_t) = E |g_t - E g_t|^2` of the mean gradient of a batch, by enumeration in O(n d).

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    y : array-like of shape (n,)
    coef : array-like of shape (d,), default=None
        Where the gradients are taken; None means at zero.
    intercept : float, default=0.0
    loss : str or Loss, default="log_loss"
    table : AntitheticTable, default=None
        Draw antithetic pairs; None draws rows.
    sampling : {"uniform", "shuffle"}, default="uniform"
        With replacement, or a full batch of a shuffled epoch. For the latter a table is cut into a matching if need be, and the single
        row of an odd number is left out.
    batch_size : int, default=2
        At most n is used.
    fit_intercept : bool, default=False
    sample_weight : array-like of shape (n,), default=None

    Returns
    -------
    float

    Examples
    --------
    >>> import antithetic
    >>> X, y = [[1.0], [2.0], [3.0], [2.0]], [1, 1, 0, 0]
    >>> antithetic.gradient_variance(X, y)
    0.53125
    >>> antithetic.gradient_variance(X, y, table=antithetic.pair(X, y))
    0.0
    """
    problem = Problem.build(X, y, loss=loss, sample_weight=sample_weight, fit_intercept=fit_intercept)
    if table is not None:
        check_table(table).check(problem.X, y)
        if sampling == "shuffle":
            table = matched(table, problem, coef, intercept)
    batch_size = min(check_count(batch_size, "batch_size", least=1), problem.n)
    return batch_variance(problem, problem.slopes(coef, intercept), table, sampling, batch_size)


def batch_variance(problem: Problem, slopes: NDArray[np.float64], table: AntitheticTable | None, sampling: str, batch_size: int) -> float:
    """Variance of a batch's mean gradient, given the slopes of all rows."""
    if sampling == "balanced":
        raise ValueError('a balanced order has no draw and so no variance; minimize(trace="variance") measures it along a run')
    if sampling not in ("uniform", "shuffle"):
        raise ValueError(f'sampling {sampling!r} is not known here; use "uniform" or "shuffle"')
    if sampling == "shuffle" and batch_size >= problem.n:
        return 0.0  # the batch is all there is
    if table is None or batch_size == 1:
        return problem.group_variance(slopes) / batch_size * (_finite(problem.n, batch_size) if sampling == "shuffle" else 1.0)
    k = batch_size // 2  # pairs of a batch
    odd = batch_size % 2
    if sampling == "uniform":
        pair = problem.group_variance(slopes, np.column_stack([np.arange(problem.n), table.partner]))
        row = problem.group_variance(slopes) if odd else 0.0
        return (4.0 * k * pair + row) / batch_size**2
    pairs = table.pairs
    K = len(pairs)
    pair = problem.group_variance(slopes, pairs)
    if not odd:
        return pair / k * _finite(K, k)
    # k pairs and one member of another: 2 sum(u_p) + u_q + (half the difference inside q, either sign)
    between = 4.0 * k * _finite(K, k) + 1.0 - (4.0 * k / (K - 1) if K > 1 else 0.0)
    return (between * pair + problem.group_variance(slopes, pairs, halves=True)) / batch_size**2


def _finite(population: int, drawn: int) -> float:
    """Factor by which drawing without replacement lowers a variance."""
    return (population - drawn) / (population - 1) if population > 1 else 0.0


def order_variance(problem: Problem, slopes: NDArray[np.float64], batches: Batches) -> float:
    r"""Mean of :math:`|g_B - g|^2` over the full batches of an epoch, g the gradient of all rows.

    An order without a draw has this for a variance.
    """
    full = np.flatnonzero(np.diff(batches.starts) == batches.size)
    groups = batches.rows[batches.starts[full][:, None] + np.arange(batches.size)]
    return problem.group_spread(slopes, groups, problem.centred_gradient(slopes)) if len(full) else 0.0


def largest_partial_sum(problem: Problem, slopes: NDArray[np.float64], rows: NDArray[np.intp]) -> float:
    r"""Largest norm of :math:`\sum_{i \le k} (g_i - g)` over the first k rows of an order, in O(n d) and bounded memory."""
    centre, constant = problem.data_gradient(slopes)
    block, largest = max(1, BLOCK_ENTRIES // problem.d), 0.0
    so_far, so_far_constant = np.zeros(problem.d), 0.0
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        taken = problem.X[part]
        dense = taken.toarray() if sparse.issparse(taken) else taken
        sums = np.cumsum(slopes[part, None] * dense - centre, axis=0, dtype=np.float64) + so_far
        squares = np.einsum("ij,ij->i", sums, sums)
        so_far = sums[-1]
        if problem.fit_intercept:
            constants = np.cumsum(slopes[part] - constant) + so_far_constant
            squares += constants**2
            so_far_constant = float(constants[-1])
        largest = max(largest, float(squares.max()))
    return float(np.sqrt(largest))
