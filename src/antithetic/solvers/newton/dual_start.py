"""Weights to begin with where columns are many and rows few: a few epochs on the dual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.losses import DUAL_STEPS
from antithetic.problem import Problem
from antithetic.solvers.sdca import make_sdca

_EPOCHS = 10


def dual_start(problem: Problem, seed: int) -> NDArray[np.float64] | None:
    """Weights after ten epochs of dual ascent, without an intercept.

    None where it does not apply: rows must be sparse and fewer than columns, the penalty L2, and
    the loss one with a dual step.
    """
    penalty = problem.penalty
    is_wide = sparse.issparse(problem.X) and problem.d > problem.n
    if not is_wide or penalty.l2 <= 0.0 or penalty.l1 > 0.0 or problem.loss.code not in DUAL_STEPS:
        return None
    try:
        solver = make_sdca(problem)
    except ValueError:  # squares overflow
        return None
    rng = np.random.default_rng(seed)
    coef, duals = np.zeros(problem.d, problem.X.dtype), np.zeros(problem.n)
    for _ in range(_EPOCHS):
        solver.visit(rng.permutation(problem.n), coef, duals)
    return coef.astype(np.float64)
