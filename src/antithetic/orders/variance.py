"""The exact variance of the gradient of a drawn batch, and how an order's partial sums grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import BLOCK_ENTRIES, check_count
from antithetic.orders.order import Order, Pool, read_order
from antithetic.orders.units import Batches, Table, Units, drawable, factors_of, members
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.problem.variance import (
    centred_gradient,
    group_spread,
    group_variance,
    unit_variance,
)

Slopes = NDArray[np.float64]


def uniform_variance(
    problem: Problem, slopes: Slopes, table: Table | None, batch_size: int
) -> float:
    """Variance of a batch's mean gradient where rows, pairs or groups are drawn uniformly."""
    if isinstance(table, GroupTable):
        units = Units.of_table(problem.n, table)
        return weighted_variance(problem, slopes, units, batch_size, units.prior)
    if table is None or batch_size == 1:
        return group_variance(problem, slopes) / batch_size
    k, odd = divmod(batch_size, 2)  # pairs of a batch, and whether one row comes alone
    pairs = np.column_stack([np.arange(problem.n), table.partner])
    row = group_variance(problem, slopes) if odd else 0.0
    return (4.0 * k * group_variance(problem, slopes, pairs) + row) / batch_size**2


def shuffle_variance(
    problem: Problem, slopes: Slopes, table: AntitheticTable | None, batch_size: int
) -> float:
    """Variance of the mean gradient of a full batch of a shuffled epoch of rows or pairs.

    The single row of an odd number of rows in pairs is left out.
    """
    if batch_size >= problem.n:
        return 0.0  # the batch holds all rows
    if table is None or batch_size == 1:
        drawn = group_variance(problem, slopes) / batch_size
        return drawn * _finite(problem.n, batch_size)
    pairs = table.pairs
    K, (k, odd) = len(pairs), divmod(batch_size, 2)
    pair = group_variance(problem, slopes, pairs)
    if not odd:
        return pair / k * _finite(K, k)
    # k pairs and one member of another: 2 sum(u_p) + u_q + (half the difference inside q, either
    # sign)
    between = 4.0 * k * _finite(K, k) + 1.0 - (4.0 * k / (K - 1) if K > 1 else 0.0)
    return (between * pair + group_variance(problem, slopes, pairs, halves=True)) / batch_size**2


def weighted_variance(
    problem: Problem, slopes: Slopes, units: Units, batch_size: int, probabilities: Slopes
) -> float:
    """Variance of the mean gradient of a batch of units drawn by probabilities."""
    chances = drawable(probabilities)
    factors = factors_of(units, chances)
    if units.paired and batch_size == 1:
        # one member after the other: the mean over the two kinds of step
        member, starts = units.rows.reshape(-1, 2), np.arange(problem.n + 1)
        return 0.5 * sum(
            unit_variance(problem, slopes, rows, starts, chances, factors) for rows in member.T
        )
    drawn = unit_variance(problem, slopes, units.rows, units.starts, chances, factors)
    return _with_lone_row(problem, slopes, units, batch_size, drawn / units.in_batch(batch_size))


def stratified_variance(
    problem: Problem,
    slopes: Slopes,
    units: Units,
    batch_size: int,
    strata: NDArray[np.intp],
    counts: NDArray[np.intp],
) -> float:
    """Variance of the mean gradient of a batch with given numbers of units of each stratum."""
    if len(counts) == 1:  # one stratum means no strata
        return weighted_variance(problem, slopes, units, batch_size, units.prior)
    share = np.bincount(strata, weights=units.prior)
    drawn = float((share**2 / counts) @ stratum_variances(problem, slopes, units, strata))
    return _with_lone_row(problem, slopes, units, batch_size, drawn)


def _with_lone_row(
    problem: Problem, slopes: Slopes, units: Units, batch_size: int, drawn: float
) -> float:
    """Variance of a batch from that of its units: in odd batches of pairs a row comes alone."""
    if not (units.paired and batch_size % 2):
        return drawn
    return ((batch_size - 1) ** 2 * drawn + group_variance(problem, slopes)) / batch_size**2


def _finite(population: int, drawn: int) -> float:
    """Factor by which drawing without replacement lowers a variance."""
    return (population - drawn) / (population - 1) if population > 1 else 0.0


def order_variance(problem: Problem, slopes: NDArray[np.float64], batches: Batches) -> float:
    r"""Mean of :math:`|g_B - g|^2` over the full batches of an epoch, g the gradient of all rows.

    This is called the variance of an order that is not random.
    """
    full = np.flatnonzero(np.diff(batches.starts) == batches.size)
    groups = batches.rows[batches.starts[full][:, None] + np.arange(batches.size)]
    return (
        group_spread(problem, slopes, groups, centred_gradient(problem, slopes))
        if len(full)
        else 0.0
    )


def largest_partial_sum(
    problem: Problem, slopes: NDArray[np.float64], rows: NDArray[np.intp]
) -> float:
    r"""Largest norm of :math:`\sum_{i \le k} (g_i - g)` over the first k rows of an order.

    O(n d) time and bounded memory.
    """
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


def gradient_variance(
    X: Any,
    y: Any,
    coef: Any = None,
    *,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    order: str | Order = "uniform",
    batch_size: int = 2,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    seed: int = 0,
) -> float:
    r"""Exact :math:`\mathrm{Var}(g_t) = E |g_t - E g_t|^2` of the mean gradient of a batch.

    It is found by enumeration, in O(n d).

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    y : array-like of shape (n,)
    coef : array-like of shape (d,), default=None
        Where the gradients are taken; None means at zero.
    intercept : float, default=0.0
    loss : str or Loss, default="log_loss"
    order : str or Order, default="uniform"
        How batches are drawn, see :mod:`antithetic.orders`: with replacement, or a full batch of a
        shuffled epoch. For the latter a table is turned into a matching if necessary, and the
        single row of an odd number is left out. Balanced and nested orders are not random, so they
        are refused.
    batch_size : int, default=2
        At most n is used.
    fit_intercept : bool, default=False
    sample_weight : array-like of shape (n,), default=None
    seed : int, default=0
        Seed of the table, and of the sample that strata are found from.

    Returns
    -------
    float

    Examples
    --------
    >>> import antithetic
    >>> from antithetic.orders import Uniform
    >>> X, y = [[1.0], [2.0], [3.0], [2.0]], [1, 1, 0, 0]
    >>> antithetic.gradient_variance(X, y)
    0.53125
    >>> antithetic.gradient_variance(X, y, order=Uniform(pairs="auto"))
    0.0
    """
    problem = Problem.build(
        X, y, loss=loss, sample_weight=sample_weight, fit_intercept=fit_intercept
    )
    found = read_order(order)
    if (reason := found.refuses()) is not None:
        raise ValueError(reason)
    batch_size = min(check_count(batch_size, "batch_size", least=1), problem.n)
    slopes, table = problem.slopes(coef, intercept), None
    _refuse_overflow(slopes)
    if found.pairs is not None:
        found.pairs.check(problem, y)
        table = found.pairs.first_table(problem, y, once=found.once, seed=seed)
    draws = found.draw_from(Pool(problem, table, batch_size, seed))
    if not draws.is_draw:
        raise ValueError(
            f"batches of {found!r} are not drawn at random, so they have no variance; use"
            " order='uniform', or minimize(trace=\"variance\"), which measures it during a run"
        )
    variance = draws.variance(slopes, 0, None)
    _refuse_overflow(variance)
    return variance


def _refuse_overflow(numbers: Any) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError(
            "the variance overflows: coef, the features, targets or weights are too large; scale"
            " them, or choose a smaller coef"
        )


def stratum_variances(
    problem: Problem, slopes: NDArray[np.float64], units: Units, strata: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Variance of the mean gradient of a unit of each stratum, shape (strata,), in O(n d)."""
    prior, found = units.prior, []
    for index in members(strata, int(strata.max()) + 1):
        rows, starts = units.take(index)
        found.append(
            unit_variance(problem, slopes, rows, starts, prior[index] / prior[index].sum())
        )
    return np.array(found)
