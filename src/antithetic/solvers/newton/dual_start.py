"""Weights to begin with where columns are many and rows few: ascent on the dual."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.losses import DUAL_STEPS
from antithetic.exact.optimality import dual_objective
from antithetic.problem import Problem
from antithetic.solvers.sdca import Sdca, make_sdca

_EPOCHS, _MOST_EPOCHS = 10, 100
_WORTH = 10  # epochs to come: where more are expected, Newton's steps cost less
_SHARE = 0.25  # of the gap that is allowed: how far the dual may be from its own optimum


class DualStart(NamedTuple):
    """Weights of dual variables, and the lower bound on the minimum that the dual gives."""

    coef: NDArray[np.float64]
    least: float
    epochs: int


def dual_start(
    problem: Problem, seed: int, max_iter: int, allowed: Callable[[float], float]
) -> DualStart | None:
    """Weights after some epochs of dual ascent, without an intercept.

    On most texts the gap is small enough after a few epochs, and nothing is left to do. Where the
    ascent is slow, it ends after ten. With an intercept the dual gives no bound: ``least`` is then
    minus infinity. None where the ascent does not apply: rows must be sparse and fewer than
    columns, the penalty L2, and the loss one with a dual step.

    Parameters
    ----------
    problem : Problem
    seed : int
        Of the orders of the rows.
    max_iter : int
        Most epochs.
    allowed : callable
        Gives the gap at which a run ends, from the objective.
    """
    penalty = problem.penalty
    is_wide = sparse.issparse(problem.X) and problem.d > problem.n
    if max_iter < 1 or not is_wide:
        return None
    if penalty.l2 <= 0.0 or penalty.l1 > 0.0 or problem.loss.code not in DUAL_STEPS:
        return None
    try:
        solver = make_sdca(problem)
    except ValueError:  # squares overflow
        return None
    start = _ascend(solver, seed, max_iter, allowed)
    return start._replace(least=-np.inf) if problem.fit_intercept else start


def _ascend(solver: Sdca, seed: int, max_iter: int, allowed: Callable[[float], float]) -> DualStart:
    """Epochs until the gap is small enough, or for as long as that can be expected."""
    problem, rng = solver.problem, np.random.default_rng(seed)
    coef, duals = np.zeros(problem.d, problem.X.dtype), np.zeros(problem.n)
    values, next_look = [dual_objective(problem, duals, coef)], 0.0
    most = min(max_iter, _EPOCHS if problem.fit_intercept else _MOST_EPOCHS)
    for epoch in range(1, most + 1):
        solver.visit(rng.permutation(problem.n), coef, duals)
        value = dual_objective(problem, duals, coef)
        values.append(value)
        ratio, left = _outlook(np.diff(values))
        enough = allowed(value)
        there = max(epoch + _epochs_between(left, _SHARE * enough, ratio), next_look)
        if there <= epoch:
            gap = problem.objective(coef, 0.0) - value
            if gap <= enough or left == 0.0:
                break
            next_look = there = epoch + _epochs_between(gap, enough, ratio)
        if epoch >= _EPOCHS and there > epoch + _WORTH:
            break
    if problem.X.dtype != np.float64:  # the sum has lost digits on the way
        coef = solver.weights_of(duals)
        value = dual_objective(problem, duals, coef)
    return DualStart(coef.astype(np.float64), value, epoch)


def _outlook(gains: NDArray[np.float64]) -> tuple[float, float]:
    """By what factor gains fall per epoch, and what is left to gain if they go on like that.

    Examples
    --------
    >>> _outlook(np.array([1.0, 0.5])), _outlook(np.array([1.0, -1e-18, 1e-3, 1e-4]))
    ((0.5, 0.5), (0.0, 0.0))
    """
    last, past = float(gains[-1]), len(gains) // 2  # epochs that the rate is taken from
    before = float(gains[-1 - past])
    if last <= 0.0 or before <= 0.0:  # rounding
        return 0.0, 0.0
    ratio = (last / before) ** (1.0 / past) if past else 1.0
    return (ratio, last * ratio / (1.0 - ratio)) if 0.0 < ratio < 1.0 else (1.0, np.inf)


def _epochs_between(now: float, then: float, ratio: float) -> float:
    """Epochs until a number has fallen, by the same ratio in each.

    Examples
    --------
    >>> _epochs_between(1.0, 0.1, 0.5), _epochs_between(1.0, 2.0, 0.5)
    (4.0, 0.0)
    """
    if now <= then:
        return 0.0
    return float(np.ceil(np.log(then / now) / np.log(ratio))) if 0.0 < ratio < 1.0 else np.inf
