"""Mini-batch SGD on the softmax loss: one row of weights per class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import default_threads
from antithetic._util.validation import check_coef, check_count
from antithetic.orders.shuffle import shuffled_rows
from antithetic.problem import SoftmaxProblem
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Preconditioner
from antithetic.stochastic.sgd import Averages, EpochArguments, Sgd, make_sgd, points_to_average
from antithetic.stochastic.solver import (
    After,
    DivergenceError,
    State,
    check_finite,
    finite_objective,
    overflow_message,
)
from antithetic.stochastic.steps import InverseTime

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
# About the size of the nearest caches. Small batches wait for weights that exceed it, and an epoch
# in batches of 32 then takes 0.8 times as long.
_CACHE_BYTES = 1 << 17
_SKETCH_BYTES = 1 << 14
_SMALL_BATCH, _LARGE_BATCH = 8, 32


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
    batches = shuffled_rows(trained.n, size, seed, _OWN_EPOCHS)
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


def softmax_batch_size(n_weights: int, itemsize: int) -> int:
    """Rows per step for a number of weights: 8, or 32 if the weights do not fit into a cache."""
    return _SMALL_BATCH if n_weights * itemsize <= _CACHE_BYTES else _LARGE_BATCH


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxSgd(Sgd):
    """Stochastic gradient descent on a `SoftmaxProblem` with an L2 penalty.

    As `Sgd`, except that averages over all steps use at most 256 evenly spaced points of an epoch.
    The same seed gives the same bits with any number of threads.
    """

    problem: SoftmaxProblem
    threads: int = 1

    def init(self, coef: Any = None, intercept: Any = 0.0) -> tuple[State, Averages]:
        """State before the first step."""
        problem = self.problem
        flat = None if coef is None else np.asarray(coef, dtype=np.float64).ravel()
        if flat is not None and len(flat) != problem.n_weights:
            raise ValueError(
                f"coef of init must have shape ({problem.n_classes}, {problem.d}), one row of"
                f" weights per class; got {np.shape(coef)}"
            )
        weights = check_coef(flat, problem.n_weights, "coef of init").astype(problem.X.dtype)
        state = State(weights, check_intercepts(intercept, problem.n_classes))
        return state, self.nothing if self.average_from else Averages()

    def _zero_intercept(self) -> NDArray[np.float64]:
        return np.zeros(self.problem.n_classes)

    def _most_points(self) -> int:
        return points_to_average(self.problem)

    def _take_steps(
        self, state: State, own: Averages, given: EpochArguments
    ) -> tuple[NDArray[Any], Any, Averages, float]:
        problem, coef, intercept = self.problem, state.coef.copy(), state.intercept.copy()
        average = np.empty(0) if own.coef is None else own.coef.copy()
        constants = np.empty(0) if own.coef is None else own.intercept.copy()
        weight, met = problem.rows.softmax_epoch(
            problem.class_targets,
            given.batches,
            given.rule,
            given.averaging,
            coef,
            intercept,
            average,
            constants,
            own.weight,
            given.unit,
            _SKETCH_BYTES if given.sketched else 0,
            given.following,
            self.threads,
            self.units,
        )
        if own.coef is not None:
            own = own._replace(coef=average, intercept=constants, weight=weight)
        return coef, intercept, own, met


def check_intercepts(intercept: Any, n_classes: int) -> NDArray[np.float64]:
    """Return finite intercepts, one per class; a single number stands for all of them."""
    given = np.asarray(intercept, dtype=np.float64)
    if given.shape not in ((), (n_classes,)):
        raise ValueError(
            f"intercept of init must be a number, or have shape ({n_classes},), one per class; got"
            f" {given.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError("intercept of init has NaN or infinity")
    return np.full(n_classes, given)


def make_softmax_sgd(
    problem: SoftmaxProblem,
    average: bool | int | str,
    *,
    watch: bool = False,
    threads: int | None = None,
) -> SoftmaxSgd:
    """Return SGD on a softmax problem; None means as many threads as BLAS would use."""
    plain = make_sgd(problem, average, watch=watch)
    settings = (plain.average_from, plain.linear, plain.steepest, watch, plain.by_epoch)
    threads = default_threads() if threads is None else threads
    return SoftmaxSgd(problem, *settings, threads=threads)


def softmax_sgd(
    X: Any,
    codes: NDArray[np.intp],
    n_classes: int,
    *,
    l2: float,
    fit_intercept: bool = False,
    sample_weight: NDArray[np.float64] | None = None,
    epochs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    coef: NDArray[Any] | None = None,
    intercept: NDArray[np.float64] | None = None,
    must_gain: bool = False,
) -> tuple[NDArray[Any], NDArray[np.float64]] | None:
    """Return weights and intercepts after some reshuffled epochs: the mean over the last one.

    Finding the steps takes less than half an epoch.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Checked rows, float32 or float64.
    codes : ndarray of shape (n,)
        Class of each row, from 0.
    n_classes : int
    l2 : float
        Strength of the penalty ``l2 / 2 |W|^2``.
    fit_intercept : bool, default=False
        Whether there are intercepts, which are not penalised.
    sample_weight : ndarray of shape (n,) or None
    epochs : int, default=1
    seed : int, default=0
    threads : int or None
        None means as many as BLAS would use. The result does not depend on it.
    coef, intercept : ndarray of shapes (n_classes, d) and (n_classes,), or None
        Initial weights; None means zero.
    must_gain : bool, default=False
        Whether to return None if short passes with all the step sizes tried gain nothing on other
        rows.

    Returns
    -------
    tuple of ndarrays of shapes (n_classes, d) and (n_classes,), or None
        Weights, in the rows' float type, and intercepts.
    """
    y, n = codes.astype(np.float64), X.shape[0]
    penalty = ElasticNet(l2=l2)
    problem = SoftmaxProblem(X, y, SOFTMAX, penalty, sample_weight, fit_intercept, None, n_classes)
    size = min(softmax_batch_size(problem.n_weights, X.dtype.itemsize), n)
    solver = make_softmax_sgd(problem, "epoch", threads=threads)
    after = After(*solver.init(coef, 0.0 if intercept is None else intercept))
    tried = try_softmax_steps(
        problem, size, seed, after.state, threads=solver.threads, must_gain=must_gain
    )
    if must_gain and not tried.gain > 0.0:
        return None
    schedule = tried.steps.schedule(problem.loss, penalty)
    # only the last epoch is averaged
    for epoch in range(check_count(epochs, "epochs", least=1)):
        used = solver if epoch == epochs - 1 else replace(solver, average_from=0, by_epoch=False)
        state, own = used.take_up(after.state, after.own)
        after = used.epoch(state, own, shuffled_rows(n, size, seed, epoch), schedule)
        check_finite(problem, after.state, schedule)
    weights, constants = solver.solution(after.state, after.own)
    return weights.reshape(n_classes, X.shape[1]), constants
