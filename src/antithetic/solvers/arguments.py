"""Arguments that the kernels of all solvers with steps share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from antithetic._core.kernels import StepRule
from antithetic.problem import Problem
from antithetic.solvers.steps import Schedule


def step_rule(problem: Problem, steepest: float, watch: bool) -> Callable[[Schedule], StepRule]:
    """Return how steps of given sizes are made: all that stays the same while a run lasts."""
    return partial(
        StepRule,
        problem.loss.code,
        problem.loss.epsilon,
        float(problem.penalty.l2),
        float(problem.penalty.l1),
        fit_intercept=problem.fit_intercept,
        steepest=steepest,
        watch=watch,
    )
