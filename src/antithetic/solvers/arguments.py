"""Arguments that the kernels of all solvers with steps share."""

from __future__ import annotations

import numpy as np

from antithetic._core import kernels
from antithetic.orders.batches import Batches
from antithetic.problem import Problem
from antithetic.solvers.state import State
from antithetic.solvers.steps import Schedule


def kernel_batches(batches: Batches, state: State) -> kernels.Batches:
    """Batches of an epoch, and the steps and samples before it."""
    return kernels.Batches(
        np.ascontiguousarray(batches.rows),
        np.ascontiguousarray(batches.starts),
        batches.size,
        np.empty(0) if batches.factors is None else batches.factors,
        state.steps,
        state.samples,
    )


def step_rule(
    problem: Problem, schedule: Schedule, steepest: float, watch: bool
) -> kernels.StepRule:
    """How a step is made: loss, penalty and schedule."""
    return kernels.StepRule(
        problem.loss.code,
        problem.loss.epsilon,
        float(problem.penalty.l2),
        float(problem.penalty.l1),
        (schedule.code, schedule.eta0, schedule.rate, schedule.start),
        problem.fit_intercept,
        steepest,
        watch,
    )
