"""`gradient_variance`: the exact variance of an order's batches on given data."""

from __future__ import annotations

from typing import Any

import numpy as np

from antithetic._util.validation import check_count
from antithetic.orders.order import Order
from antithetic.orders.pool import Pool
from antithetic.orders.words import read_order
from antithetic.problem import Problem
from antithetic.problem.losses import Loss


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
