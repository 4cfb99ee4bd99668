"""Automatic steps for softmax: a first step, scored on rows that it was not trained on.

Each candidate step size makes one pass over some of the rows, and the mean of that pass is scored
by the objective on other rows: on its own rows, a pass looks better the longer its steps are. The
search begins at half the step at which a batch overshoots on its own rows. It goes up by factors of
four while that improves the score; if the first such step does not, it goes down. It does not go
below the step that is safe for single rows unless that step does harm: if labels are random, no
step is short enough for other rows. Finally it tries half the step and twice the step. A whole
epoch averages out more noise than a short pass, so twice the step must gain much. A single row has
no others, and takes the safe step.

The decay is the curvature of the L2 penalty; the mean of an epoch removes the noise of long steps.
With the first steps found, faster decays were worse on the four sets tried. In the data's own units
it is the penalty's curvature along the columns that have little of it, since a faster decay would
freeze them. Columns of large numbers are hardly penalised in these units, so steps are halved after
twenty epochs at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.orders.shuffle import ShuffledRows
from antithetic.problem import SoftmaxProblem
from antithetic.problem.preconditioner import Preconditioner
from antithetic.solvers.divergence import DivergenceError, finite_objective, overflow_message
from antithetic.solvers.softmax import SoftmaxSgd
from antithetic.solvers.state import State
from antithetic.solvers.steps import InverseTime

_SHARE_OF_ROWS = 16  # one row of so many is trained on
_LEAST_ROWS, _LEAST_ROWS_PER_CLASS = 1000, 4
_MOST_JUDGES = 1000  # rows that judge: steps four times as long differ by more than their noise
_RATIO, _LAST_RATIO = 4.0, 2.0
_MUCH = 0.05  # of what a pass gains
_LONGEST_STEP = 1e300  # where rows have next to no weight
_MOST_TRIALS = 40
_EPOCHS_TO_HALVE = 20.0  # steps in the data's own units, at the latest
_HARM = 1.1  # times the objective before, on the rows that judge
_OWN_EPOCHS = 1 << 31  # orders that no epoch of the run will have


class TriedSteps(NamedTuple):
    """Steps, and by how much a short pass with them lowered the objective on other rows."""

    steps: InverseTime
    gain: float


def find_softmax_steps(
    problem: SoftmaxProblem,
    batch_size: int,
    seed: int,
    state: State,
    *,
    averaged: bool = True,
    threads: int = 1,
    preconditioner: Preconditioner | None = None,
) -> InverseTime:
    """Choose the first step of a run that begins at the given weights.

    The result depends on all arguments except the number of threads. The search takes about a third
    of an epoch. It scores the mean of a pass if the run averages, otherwise the last weights.
    """
    return try_softmax_steps(
        problem,
        batch_size,
        seed,
        state,
        averaged=averaged,
        threads=threads,
        preconditioner=preconditioner,
    ).steps


def try_softmax_steps(
    problem: SoftmaxProblem,
    batch_size: int,
    seed: int,
    state: State,
    *,
    averaged: bool = True,
    threads: int = 1,
    must_gain: bool = False,
    preconditioner: Preconditioner | None = None,
) -> TriedSteps:
    """Choose the first step, and return what it gained on the rows that score.

    With ``must_gain``, the search ends if neither of its first two steps gains anything.
    """
    trained, judges = split_rows(problem, seed)
    size = min(batch_size, trained.n)
    solver = SoftmaxSgd(
        trained,
        int(averaged),
        False,
        by_epoch=averaged,
        preconditioner=preconditioner,
        threads=threads,
    )
    batches = ShuffledRows(trained.n, size, seed).batches(_OWN_EPOCHS)
    start = state._replace(steps=0, samples=0, epochs=0)

    decay = _penalty_curvature(problem, preconditioner)

    @cache
    def judge(eta0: float) -> float:
        schedule = InverseTime(eta0, decay).schedule(problem.loss, problem.penalty)
        after = solver.epoch(*solver.take_up(start, None), batches, schedule)
        return finite_objective(judges, *solver.solution(after.state, after.own))

    longest = _overshooting_step(trained, problem, preconditioner, batch_size)
    before = finite_objective(judges, start.coef, start.intercept)
    harm = _HARM * max(before, judges.loss_at_zero())
    safe = longest / (2.0 * batch_size)
    if problem.n == 1:  # there is no other row that could say when a step is too long
        return TriedSteps(InverseTime(safe, decay), 0.0)
    if must_gain and min(judge(0.5 * longest), judge(0.5 * longest / _RATIO)) >= before:
        return TriedSteps(InverseTime(0.5 * longest, decay), 0.0)
    found, verdict = _search(judge, 0.5 * longest, safe, harm)
    found = _refine(judge, found, verdict, before, safe)
    gain = before - judge(found)
    if preconditioner is not None:
        decay = max(decay, batch_size / (_EPOCHS_TO_HALVE * problem.n * found))
    return TriedSteps(InverseTime(found, decay), gain)


def _penalty_curvature(problem: SoftmaxProblem, preconditioner: Preconditioner | None) -> float:
    """Curvature of the L2 penalty in the units of the steps: nine columns of ten have more."""
    if preconditioner is None:
        return problem.penalty.l2
    moving = preconditioner.metric[preconditioner.metric > 0.0]
    return problem.penalty.l2 * float(np.percentile(moving, 10)) if len(moving) else 0.0


def softmax_units_pay(
    problem: SoftmaxProblem,
    preconditioner: Preconditioner,
    batch_size: int,
    seed: int,
    intercepts: NDArray[np.float64],
) -> bool:
    """Whether a short pass in these units gains more on other rows than one in plain columns."""
    start = SoftmaxSgd(problem, 0, False).init(None, intercepts)[0]
    gains = [
        try_softmax_steps(problem, batch_size, seed, start, preconditioner=units).gain
        for units in (None, preconditioner)
    ]
    return gains[1] > gains[0]


def _search(
    judge: Callable[[float], float], first: float, safe: float, harm: float
) -> tuple[float, float]:
    """Return the step with the lowest score, and that score: first go up, otherwise down.

    Steps become shorter than the safe one only if that one does harm.
    """
    eta0, best = first, judge(first)
    for _ in range(_MOST_TRIALS):
        verdict = judge(eta0 * _RATIO)
        if not verdict < best:
            break
        eta0, best = eta0 * _RATIO, verdict
    if eta0 > first:
        return eta0, best
    for _ in range(_MOST_TRIALS):
        # the first step is usually the best, which half of it shows as well as a quarter
        ratio = _LAST_RATIO if eta0 == first and best <= harm else _RATIO
        if eta0 / ratio < safe and best <= harm:
            break
        verdict = judge(eta0 / ratio)
        if verdict >= best and best < np.inf:
            break
        eta0, best = eta0 / ratio, verdict
    return eta0, best


def _refine(
    judge: Callable[[float], float], eta0: float, best: float, before: float, safe: float
) -> float:
    """Return half the step if that is better, or twice the step if that is much better."""
    gained = before - best
    if not 0.0 < gained < np.inf:  # nothing is learnt from other rows
        return eta0
    if eta0 / _LAST_RATIO >= safe and judge(eta0 / _LAST_RATIO) < best:
        return eta0 / _LAST_RATIO
    is_much_better = judge(eta0 * _LAST_RATIO) < best - _MUCH * gained
    return eta0 * _LAST_RATIO if is_much_better else eta0


def split_rows(problem: SoftmaxProblem, seed: int) -> tuple[SoftmaxProblem, SoftmaxProblem]:
    """Rows to train on, one in sixteen but not too few, and other rows to score on."""
    n = problem.n
    least = max(_LEAST_ROWS, _LEAST_ROWS_PER_CLASS * problem.n_classes)
    many = max(1, min(n // 2, max(n // _SHARE_OF_ROWS, least)))
    rows = np.random.default_rng((seed, _OWN_EPOCHS - 1)).permutation(n)
    rows = rows[: many + min(many, _MOST_JUDGES)]
    parts = np.sort(rows[:many]), np.sort(rows[many:] if n > 1 else rows)

    def some(part: NDArray[np.intp]) -> SoftmaxProblem:
        weight = None if problem.weight is None else problem.weight[part]
        return replace(problem, X=problem.X[part], y=problem.y[part], weight=weight)

    return some(parts[0]), some(parts[1])


def _overshooting_step(
    trained: SoftmaxProblem,
    problem: SoftmaxProblem,
    preconditioner: Preconditioner | None,
    batch_size: int,
) -> float:
    """Step at which a batch just overshoots on its own rows."""
    if preconditioner is not None:
        curvature = preconditioner.curvature
    else:
        curvature = trained.row_curvature()
        if not curvature > 0.0:  # rows of zeros, or of no weight: perhaps others are not
            curvature = problem.row_curvature()
    if not np.isfinite(curvature):
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    if not curvature > 0.0:  # rows of zeros: no step moves anything
        return 1.0
    return min(2.0 * batch_size / curvature, _LONGEST_STEP)
