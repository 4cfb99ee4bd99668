r"""Weights to begin with: one epoch of stochastic gradient descent.

It visits every row, so no rare column is missed. Steps are those of
:mod:`antithetic.problem.preconditioner`, :math:`\eta_t = 1 / (L + \mu t)`, with no search.

With one score per row it costs about three visits, and is for sparse rows: their Hessian, which is
cheap, does the rest. With many classes it costs about two, and leads further than ten steps of
L-BFGS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.schedules import INVERSE_TIME
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Vector
from antithetic.problem.preconditioner import find_preconditioner, with_spread

_LEAST_ROWS = 1500  # of which an epoch leads somewhere
_DECAY = 3e-3  # mu, in units in which the loss is about as curved along all columns
_BATCH, _POINTS = 2, 256  # rows of a step; points of the epoch whose mean is returned
_SMALL_BATCH, _LARGE_BATCH = 8, 32  # of many classes: if weights fit into a cache, and if not
_CACHE_BYTES = 1 << 17
_LENGTH = 2.0  # of the first step with many classes, in units of the longest safe one of a batch
_MOST_SKIPPED = 10_000  # rows on the way to where the optimum is


def epoch_start(sums: RowSums, seed: int) -> tuple[NDArray[np.float64], float] | None:
    """Return weights and an intercept after an epoch; None if it does not apply or leads nowhere.

    Rows must be sparse enough for the Hessian to be cheap, the loss one of two classes with bounded
    slopes, and the penalty L2 or none.
    """
    problem, loss, n, d = sums.problem, sums.loss, sums.n, sums.d
    if not sparse.issparse(problem.X) or n < _LEAST_ROWS or sums.penalty.l1 > 0.0:
        return None
    assert sums.seen is not None
    if not (loss.classification and loss.is_bounded and sums.has_few_pairs):
        return None
    metric = find_preconditioner(problem, with_spread(sums.seen.moments))
    if not 0.0 < metric.curvature < np.inf:
        return None
    order, starts = np.random.default_rng(seed).permutation(n), np.arange(0, n + _BATCH, _BATCH)
    starts[-1] = n
    schedule = (INVERSE_TIME, 1.0 / metric.curvature, _DECAY, 0.0)
    rule = kernels.StepRule(
        loss.code, loss.epsilon, sums.penalty.l2, 0.0, schedule, sums.fit_intercept, np.inf, False
    )
    coef, mean, nothing = np.zeros(d, problem.X.dtype), np.zeros(d), np.empty(0)
    every = -(-(len(starts) - 1) // min(max(n // d, 64), _POINTS))
    averaging = kernels.Averaging(1 + min(n // 4, _MOST_SKIPPED), False, every)
    intercept, mean_intercept, weight, *_ = problem.rows.sgd_epoch(
        problem.targets,
        kernels.Batches(order, starts, _BATCH, nothing, 0, 0),
        rule,
        averaging,
        coef,
        0.0,
        mean,
        0.0,
        0.0,
        nothing,
        0.0,
        0,
        np.empty(0, np.intp),
        metric.kernel(),
    )
    if weight > 0.0:
        coef, intercept = mean, mean_intercept
    if not (np.isfinite(coef).all() and np.isfinite(intercept)):
        return None
    return coef.astype(np.float64), float(intercept)


def class_epoch_start(sums: ClassSums, seed: int) -> Vector | None:
    """Return a point of many classes after an epoch; None if it does not apply or leads nowhere."""
    problem, n, d = sums.problem, sums.n, sums.d
    if n < _LEAST_ROWS or sums.penalty.l1 > 0.0:
        return None
    metric = find_preconditioner(problem, with_spread(sums.seen.moments))
    if not 0.0 < metric.curvature < np.inf:
        return None
    batch = _SMALL_BATCH if d * problem.X.dtype.itemsize <= _CACHE_BYTES else _LARGE_BATCH
    order, starts = np.random.default_rng(seed).permutation(n), np.append(np.arange(0, n, batch), n)
    schedule = (INVERSE_TIME, _LENGTH * batch / metric.curvature, _DECAY, 0.0)
    loss, nothing = problem.loss, np.empty(0)
    rule = kernels.StepRule(
        loss.code, loss.epsilon, sums.penalty.l2, 0.0, schedule, sums.fit_intercept, np.inf, False
    )
    coef, mean = np.zeros(d, problem.X.dtype), np.zeros(d)
    constants, mean_constants = np.zeros(sums.classes), np.zeros(sums.classes)
    problem.rows.softmax_epoch(
        problem.class_targets,
        kernels.Batches(order, starts, batch, nothing, 0, 0),
        rule,
        kernels.Averaging(1 + min(n // 4, _MOST_SKIPPED), False, -(-(len(starts) - 1) // _POINTS)),
        coef,
        constants,
        mean,
        mean_constants,
        0.0,
        0,
        0,
        np.empty(0, np.intp),
        sums.threads,
        metric.kernel(),
    )
    theta = sums.in_gauge(sums.join(mean.reshape(sums.classes, -1), mean_constants))
    return theta if np.isfinite(theta).all() else None
