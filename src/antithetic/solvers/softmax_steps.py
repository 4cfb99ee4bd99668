"""Automatic steps for classes together: a first step, judged by rows that were not trained on.

A step size is tried for one pass over some of the rows, and the mean of that pass is judged by its
objective on other rows: on its own rows a pass looks better the longer its steps are. From the step
at which a batch half overshoots on its own rows, the search goes up, and else down, by factors of
four while that gains; but not below the step that is safe for single rows, unless that does harm:
where labels follow no rule, no step would be short enough for other rows. Then it tries half and
twice the step. A whole epoch has more noise to average out than a short pass, so twice the step
must gain much.

The decay is the L2 penalty: the noise of long steps is taken out by the mean of an epoch. With the
first steps found, faster decays were worse on the four sets tried; with longer ones some were not.
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
from antithetic.solvers.divergence import DivergenceError, finite_objective, overflow_message
from antithetic.solvers.softmax import SoftmaxSgd
from antithetic.solvers.state import State
from antithetic.solvers.steps import InverseTime

_SHARE_OF_ROWS = 16  # one row of so many is trained on
_LEAST_ROWS, _LEAST_ROWS_PER_CLASS = 1000, 4
_MOST_JUDGES = 1000  # rows that judge: steps four times as long differ by more than their noise
_RATIO, _LAST_RATIO = 4.0, 2.0
_MUCH = 0.05  # of what a pass gains
_MOST_TRIALS = 40
_HARM = 1.1  # times the objective before, on the rows that judge
_OWN_EPOCHS = 1 << 31  # orders that no epoch of the run will have


class TriedSteps(NamedTuple):
    """Steps, and how far a short pass with them brought down the objective of other rows."""

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
) -> InverseTime:
    """Choose the first step of a run that begins at the given weights.

    It is a pure function of its arguments but the threads, and costs a third of an epoch or so.
    What is judged is the mean of a pass where the run takes means, else the last weights.
    """
    return try_softmax_steps(
        problem, batch_size, seed, state, averaged=averaged, threads=threads
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
) -> TriedSteps:
    """Choose the first step, and say what it gained on the rows that judge.

    If it must gain, the search ends when neither of two steps does.
    """
    trained, judges = split_rows(problem, seed)
    size = min(batch_size, trained.n)
    solver = SoftmaxSgd(trained, int(averaged), False, by_epoch=averaged, threads=threads)
    batches = ShuffledRows(trained.n, size, seed).batches(_OWN_EPOCHS)
    start = state._replace(steps=0, samples=0, epochs=0)

    @cache
    def judge(eta0: float) -> float:
        schedule = InverseTime(eta0, problem.penalty.l2).schedule(problem.loss, problem.penalty)
        after = solver.epoch(*solver.take_up(start, None), batches, schedule)
        return finite_objective(judges, *solver.solution(after.state, after.own))

    longest = _overshooting_step(trained, problem, batch_size)
    before = finite_objective(judges, start.coef, start.intercept)
    harm = _HARM * max(before, judges.loss_at_zero())
    safe = longest / (2.0 * batch_size)
    if must_gain and min(judge(0.5 * longest), judge(0.5 * longest / _RATIO)) >= before:
        return TriedSteps(InverseTime(0.5 * longest, problem.penalty.l2), 0.0)
    found, verdict = _search(judge, 0.5 * longest, safe, harm)
    found = _refine(judge, found, verdict, before, safe)
    return TriedSteps(InverseTime(found, problem.penalty.l2), before - judge(found))


def _search(
    judge: Callable[[float], float], first: float, safe: float, harm: float
) -> tuple[float, float]:
    """Step of the least verdict, and that verdict: first up, and else down, while that gains.

    Steps are shorter than the safe one only if the verdict is harm.
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
        # most often the first step is the best, which half of it shows as well as a quarter
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
    """Half the step if that is better, else twice the step if that is much better."""
    gained = before - best
    if not 0.0 < gained < np.inf:  # nothing is learnt from other rows
        return eta0
    if eta0 / _LAST_RATIO >= safe and judge(eta0 / _LAST_RATIO) < best:
        return eta0 / _LAST_RATIO
    is_much_better = judge(eta0 * _LAST_RATIO) < best - _MUCH * gained
    return eta0 * _LAST_RATIO if is_much_better else eta0


def split_rows(problem: SoftmaxProblem, seed: int) -> tuple[SoftmaxProblem, SoftmaxProblem]:
    """Rows to train on, one of sixteen but not too few, and others to judge by."""
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


def _overshooting_step(trained: SoftmaxProblem, problem: SoftmaxProblem, batch_size: int) -> float:
    """Step at which a batch just overshoots on its own rows."""
    curvature = trained.row_curvature()
    if not curvature > 0.0:  # rows of zeros, or of no weight: perhaps others are not
        curvature = problem.row_curvature()
    if not np.isfinite(curvature):
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    # rows of zeros: no step moves anything
    return 2.0 * batch_size / curvature if curvature > 0.0 else 1.0
