"""The exact variance of the gradient of a drawn batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import BLOCK_ENTRIES, check_count
from antithetic.orders.batches import Batches
from antithetic.orders.draws import Draws
from antithetic.orders.importance import factors_of, unit_probabilities
from antithetic.orders.strata import allocate, make_strata, stratum_variances
from antithetic.orders.units import Table, Units, drawable
from antithetic.pairing.groups import GroupTable
from antithetic.pairing.table import AntitheticTable, check_table, matched
from antithetic.problem import Problem
from antithetic.problem.losses import Loss


def gradient_variance(
    X: Any,
    y: Any,
    coef: Any = None,
    *,
    intercept: float = 0.0,
    loss: str | Loss = "log_loss",
    table: AntitheticTable | GroupTable | None = None,
    sampling: str = "uniform",
    batch_size: int = 2,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    importance: Any = "bounds",
    strata: Any = None,
    n_strata: int | None = None,
    allocation: str = "proportional",
    seed: int = 0,
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
    table : AntitheticTable or GroupTable, default=None
        Draw antithetic pairs, or groups (with replacement only); None draws rows.
    sampling : {"uniform", "shuffle", "importance", "stratified"}, default="uniform"
        With replacement, or a full batch of a shuffled epoch. For the latter a table is cut into a
        matching if need be, and the single row of an odd number is left out.
    batch_size : int, default=2
        At most n is used.
    fit_intercept : bool, default=False
    sample_weight : array-like of shape (n,), default=None
    importance : {"bounds", "gradients"} or array-like of shape (units,), default="bounds"
        Probabilities of ``sampling="importance"``: by bounds of the gradients, by the gradients at
        ``coef``, or one's own; one per row, per pair (i, S[i]), or per group and one for the rows
        left over.
    strata : array-like of shape (n,), default=None
        Labels of the rows for ``sampling="stratified"``; a pair has that of its first row.
    n_strata : int, default=None
        Or so many cells of the units; with neither, as many as a batch has units.
    allocation : {"proportional", "optimal"}, default="proportional"
        Units of a batch per stratum: by its share of the rows, or also by its standard deviation at
        ``coef``.
    seed : int, default=0
        Of what the cells are found from.

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
    problem = Problem.build(
        X, y, loss=loss, sample_weight=sample_weight, fit_intercept=fit_intercept
    )
    if isinstance(table, GroupTable):
        check_groups(table, problem, y)
    elif table is not None:
        check_table(table).check(problem.X, y)
        if sampling == "shuffle":
            table = matched(
                table,
                problem,
                None if coef is None and intercept == 0.0 else problem.slopes(coef, intercept),
            )
    Draws(importance, strata, n_strata, allocation).check(sampling)
    batch_size = min(check_count(batch_size, "batch_size", least=1), problem.n)
    slopes, given = problem.slopes(coef, intercept), dict[str, Any]()
    if sampling == "importance":
        given["probabilities"] = unit_probabilities(problem, table, importance, slopes)
    elif sampling == "stratified":
        given["strata"] = make_strata(
            problem, table, strata, n_strata, None, seed, batch_size=batch_size
        )
        n_units = Units.of_table(problem.n, table).in_batch(batch_size)
        given["counts"] = allocate(problem, table, given["strata"], n_units, allocation, slopes)
    return batch_variance(problem, slopes, table, sampling, batch_size, **given)


def check_groups(table: GroupTable, problem: Problem, y: Any) -> None:
    """Raise ValueError for groups of other data."""
    if len(table) != problem.n:
        raise ValueError(
            f"the groups have {len(table)} rows and X has {problem.n}; make them for these data"
            " with antithetic.pair"
        )
    table.fingerprint.check(problem.X, y)


def batch_variance(
    problem: Problem,
    slopes: NDArray[np.float64],
    table: Table | None,
    sampling: str,
    batch_size: int,
    *,
    probabilities: NDArray[np.float64] | None = None,
    strata: NDArray[np.intp] | None = None,
    counts: NDArray[np.intp] | None = None,
) -> float:
    """Variance of a batch's mean gradient, given the slopes of all rows and what :func:`~antithetic.orders.make_sampler` is given."""
    if sampling == "balanced":
        raise ValueError(
            'a balanced order has no draw and so no variance; minimize(trace="variance") measures'
            " it along a run"
        )
    if sampling not in ("uniform", "shuffle", "importance", "stratified"):
        raise ValueError(
            f'sampling {sampling!r} is not known here; use "uniform", "shuffle", "importance" or'
            ' "stratified"'
        )
    if sampling in ("importance", "stratified") or (
        sampling == "uniform" and isinstance(table, GroupTable)
    ):
        return _unit_variance(
            problem,
            slopes,
            Units.of_table(problem.n, table),
            batch_size,
            probabilities,
            strata,
            counts,
        )
    if isinstance(table, GroupTable):
        raise ValueError(
            "shuffled groups are an order, which has no draw and so no variance; use"
            ' sampling="uniform"'
        )
    if sampling == "shuffle" and batch_size >= problem.n:
        return 0.0  # the batch is all there is
    if table is None or batch_size == 1:
        return (
            problem.group_variance(slopes)
            / batch_size
            * (_finite(problem.n, batch_size) if sampling == "shuffle" else 1.0)
        )
    k = batch_size // 2  # pairs of a batch
    odd = batch_size % 2
    if sampling == "uniform":
        pair = problem.group_variance(
            slopes, np.column_stack([np.arange(problem.n), table.partner])
        )
        row = problem.group_variance(slopes) if odd else 0.0
        return (4.0 * k * pair + row) / batch_size**2
    pairs = table.pairs
    K = len(pairs)
    pair = problem.group_variance(slopes, pairs)
    if not odd:
        return pair / k * _finite(K, k)
    # k pairs and one member of another: 2 sum(u_p) + u_q + (half the difference inside q, either
    # sign)
    between = 4.0 * k * _finite(K, k) + 1.0 - (4.0 * k / (K - 1) if K > 1 else 0.0)
    return (between * pair + problem.group_variance(slopes, pairs, halves=True)) / batch_size**2


def _unit_variance(
    problem: Problem,
    slopes: NDArray[np.float64],
    units: Units,
    batch_size: int,
    probabilities: NDArray[np.float64] | None,
    strata: NDArray[np.intp] | None,
    counts: NDArray[np.intp] | None,
) -> float:
    """Variance of a batch of units drawn by probabilities (the priors without any), or by strata."""
    if strata is not None and counts is not None and len(counts) > 1:
        share = np.bincount(strata, weights=units.prior)
        drawn = float((share**2 / counts) @ stratum_variances(problem, slopes, units, strata))
    else:  # one stratum is none
        probabilities = units.prior if probabilities is None else drawable(probabilities)
        factors = factors_of(units, probabilities)
        if (
            units.paired and batch_size == 1
        ):  # one member after the other; mean over the two kinds of step
            member, starts = units.rows.reshape(-1, 2), np.arange(problem.n + 1)
            return 0.5 * sum(
                problem.unit_variance(slopes, rows, starts, probabilities, factors)
                for rows in member.T
            )
        drawn = problem.unit_variance(
            slopes, units.rows, units.starts, probabilities, factors
        ) / units.in_batch(batch_size)
    if not (units.paired and batch_size % 2):
        return drawn
    return ((batch_size - 1) ** 2 * drawn + problem.group_variance(slopes)) / batch_size**2


def _finite(population: int, drawn: int) -> float:
    """Factor by which drawing without replacement lowers a variance."""
    return (population - drawn) / (population - 1) if population > 1 else 0.0


def order_variance(problem: Problem, slopes: NDArray[np.float64], batches: Batches) -> float:
    r"""Mean of :math:`|g_B - g|^2` over the full batches of an epoch, g the gradient of all rows.

    An order without a draw has this for a variance.
    """
    full = np.flatnonzero(np.diff(batches.starts) == batches.size)
    groups = batches.rows[batches.starts[full][:, None] + np.arange(batches.size)]
    return (
        problem.group_spread(slopes, groups, problem.centred_gradient(slopes)) if len(full) else 0.0
    )


def largest_partial_sum(
    problem: Problem, slopes: NDArray[np.float64], rows: NDArray[np.intp]
) -> float:
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
