r"""Weights to begin with where rows are sparse: one epoch of stochastic gradient descent.

A column that few rows have hardly occurs in a sample, so the sample's solution is far off along it,
and its Hessian too flat. An epoch visits every row. It costs about three passes, and the Hessian of
all rows, which is cheap where these are sparse, does the rest. Steps are those of
:mod:`antithetic.problem.preconditioner`, :math:`\eta_t = 1 / (L + \mu t)`, with no search.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.preconditioner import find_preconditioner, moments_of

_LEAST_ROWS = 1500  # of which an epoch leads somewhere
_DECAY = 3e-3  # mu, in units in which the loss is about as curved along all columns


def epoch_start(sums: RowSums, seed: int) -> tuple[NDArray[np.float64], float] | None:
    """Weights and intercept after an epoch.

    None where it does not apply: rows must be sparse enough for the Hessian to be cheap, the loss
    one of two classes with bounded slopes, and the penalty L2 or none; or where it led nowhere.
    """
    problem, loss = sums.problem, sums.loss
    if not sparse.issparse(problem.X) or problem.n < _LEAST_ROWS or sums.penalty.l1 > 0.0:
        return None
    if not (loss.classification and loss.is_bounded and sums.has_few_pairs):
        return None
    return _epoch(problem, seed)


def _epoch(problem: Problem, seed: int) -> tuple[NDArray[np.float64], float] | None:
    from antithetic.orders.shuffle import ShuffledRows
    from antithetic.solvers.sgd import Sgd
    from antithetic.solvers.steps import InverseTime

    moments = moments_of(problem.X, problem.rows, problem.weight)
    preconditioner = find_preconditioner(problem, moments)
    if not 0.0 < preconditioner.curvature < np.inf:
        return None
    steps = InverseTime(1.0 / preconditioner.curvature, _DECAY)
    solver = Sgd(problem, 1, False, by_epoch=True, preconditioner=preconditioner)
    batches = ShuffledRows(problem.n, 2, seed).batches(0)
    after = solver.epoch(*solver.init(), batches, steps.schedule(problem.loss, problem.penalty))
    coef, intercept = solver.solution(after.state, after.own)
    if not (np.isfinite(coef).all() and np.isfinite(intercept)):
        return None
    return coef.astype(np.float64), float(intercept)
