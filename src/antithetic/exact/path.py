"""Minimise an objective with each of several penalties: samples first, then all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.exact.certificate import error_of_squares, quick_gap
from antithetic.exact.epoch import epoch_start
from antithetic.exact.goal import FEW_ROWS, Goal
from antithetic.exact.l1 import Lasso
from antithetic.exact.models import MOST_COLUMNS, ConjugateGradients, Model, QuasiNewton
from antithetic.exact.newton import (
    ROUNDING,
    NewtonState,
    closed,
    init,
    judged,
    settle,
    step,
    value,
    with_bound_at,
)
from antithetic.exact.row_sums import RowSums
from antithetic.exact.samples import SamplePlan, plan_samples
from antithetic.exact.sums import Evaluation, Sample, Sums, Vector
from antithetic.problem import Problem
from antithetic.problem.columns import columns_of
from antithetic.problem.penalties import Penalty

LEAST_TOL = 1e-16  # no smaller gap is known in float64
GIVEN = "all rows from the start, because the fit began with given weights"
ONE_MATRIX = "all rows from the start, because one matrix leads to the minimum"
_DUAL = "coordinate ascent on the dual, because there are fewer rows than features"
_MOST_ROUNDED = 5  # steps more, to bound the gap of weights that were rounded to float32


class Solved(NamedTuple):
    """Weights that minimise the objective, and how near to the optimum they are.

    Attributes
    ----------
    coef : ndarray of shape (1, d) or (classes, d)
    intercept : ndarray of shape (1,) or (classes,)
    gap : float
        Bound on the objective's distance from its optimum, in units of that of the best constant
        prediction.
    certified : bool
        Whether the gap is a bound. Without a penalty it then also proves that there is an optimum.
    iterations : int
        Iterations over all rows; epochs, if dual ascent converged.
    ended : str
        "gap" if it is small enough, "rounding" if no better weights were found, "max_iter".
    samples : tuple of int
        Rows of the samples that came first.
    method : str
        How steps were found: "newton", "conjugate gradients", "dual ascent" or, with an L1 penalty
        and very many columns, "working set".
    why : tuple of str
        What was chosen, and for what reason.
    coef_error : float, default=nan
        Bound on the error of each weight, in units of its standard error; NaN if there is none.
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    gap: float
    certified: bool
    iterations: int
    ended: str
    samples: tuple[int, ...]
    method: str
    why: tuple[str, ...] = ()
    coef_error: float = np.nan

    def is_short_of(self, tol: float) -> bool:
        """Return whether the run ended before its gap was small enough."""
        return self.ended in ("max_iter", "rounding") and not self.gap <= max(tol, LEAST_TOL)


Watch = Callable[[Callable[[], Solved]], object]


class Effort(NamedTuple):
    """How far a fit goes.

    Attributes
    ----------
    tol : float
        The run ends when the objective is this close to its optimum, in units of the distance of
        the best constant prediction from it.
    max_iter : int
        Most iterations over all rows; with 0, the weights are those of the start, else zero.
    seed : int, default=0
        Of the samples.
    watch : callable, default=None
        Called before the first and after each iteration over all rows, with a function that gives
        the solution so far.
    """

    tol: float
    max_iter: int
    seed: int = 0
    watch: Watch | None = None


class Start(NamedTuple):
    """Where a run begins on all rows.

    Attributes
    ----------
    theta : ndarray or None
        None for the best constant.
    model : Model
    samples : tuple of int
        Rows of the samples that were solved.
    why : tuple of str
    least : float, default=-inf
        Lower bound on the minimum, if one is known.
    epochs : int, default=0
        Of ascent on the dual.
    sample : Sample or None, default=None
        Rows whose slopes are changed to prove more.
    """

    theta: Vector | None
    model: Model
    samples: tuple[int, ...]
    why: tuple[str, ...]
    least: float = -np.inf
    epochs: int = 0
    sample: Sample | None = None


Begin = Callable[[Any, Goal, Effort, bool], Start]


def sums_of(
    problem: Problem, threads: int = 1, check: Callable[[], object] | None = None
) -> RowSums:
    """Visit the rows of a problem once, and return the sums over them, of centred columns.

    ``check`` raises an error for entries that are not finite: it is called if the visit has met
    one. A row of weight zero is not visited.
    """
    seen = columns_of(problem)
    if check is not None and not seen.are_finite:
        check()
    return RowSums(problem, seen.centre if problem.fit_intercept else None, threads, seen)


def solve_problem(
    problem: Problem,
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], float] | None = None,
    seed: int = 0,
    threads: int = 1,
    watch: Watch | None = None,
) -> Solved:
    """Minimise the objective of a problem whose loss is smooth.

    Parameters
    ----------
    problem : Problem
    tol, max_iter, seed, watch
        See :class:`Effort`.
    start : tuple of ndarray and float, default=None
        Weights and intercept to begin with, instead of samples.
    threads : int, default=1
        For sums over the rows, matrix products among them.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0], [0.5]], [1, -1, -1], l2=0.1)
    >>> solved = solve_problem(problem, tol=1e-6, max_iter=100)
    >>> solved.ended, solved.gap <= 1e-6
    ('gap', True)
    """
    effort = Effort(tol, max_iter, seed, watch)
    return solve_path(problem, [problem.penalty], effort, start=start, threads=threads)[0]


def solve_path(
    problem: Problem,
    penalties: Sequence[Penalty],
    effort: Effort,
    *,
    start: tuple[NDArray[np.float64], float] | None = None,
    threads: int = 1,
    check: Callable[[], object] | None = None,
) -> list[Solved]:
    """Minimise with each of several penalties, strong ones first, in place of the problem's own.

    Each begins where the one before ended: with its weights, its visit to the rows and its Hessian.
    Parameters are those of :func:`solve_problem`; see :func:`sums_of` for ``check``.
    """
    sums = sums_of(problem, threads, check)
    given = None if start is None else sums.join(*start)
    return follow(sums, penalties, effort, given, begin)


def follow(
    sums: Any,
    penalties: Sequence[Penalty],
    effort: Effort,
    given: Vector | None,
    begin: Begin,
) -> list[Solved]:
    """Minimise with each penalty in turn.

    Parameters
    ----------
    sums : Sums
    penalties : sequence of Penalty
    effort : Effort
    given : ndarray or None
        Point to begin with.
    begin : callable
        Chooses where to begin and how to find steps, from the sums, the goal, the effort and
        whether a point is given.
    """
    results: list[Solved] = []
    state: NewtonState | None = None
    for penalty in penalties:
        before, sums = sums.penalty, sums.with_penalty(penalty)
        goal = Goal.of(sums, effort.tol, sums.constant()[1])
        if state is None or effort.max_iter == 0:
            state, begun = opened(sums, goal, effort, given, begin)
        else:
            point = with_penalty(sums, state.point, before)
            sample = None if state.sample is None else state.sample.with_penalty(penalty)
            state = init(sums, goal, point, state.model.with_penalty(sums), sample=sample)
        sums, state = _run(sums, goal, effort, state, begun)
        results.append(_solved(sums, goal, state, begun))
    return results


def opened(
    sums: Any, goal: Goal, effort: Effort, given: Vector | None, begin: Begin
) -> tuple[NewtonState, Start]:
    """Return the state before the first iteration, and where it comes from; see :func:`follow`."""
    constant, zero_objective = sums.constant()
    zero = np.concatenate(
        [np.zeros(sums.d), np.atleast_1d(constant)[: sums.fit_intercept * np.size(constant)]]
    )
    if effort.max_iter == 0:
        point = sums.at(np.zeros(len(zero)) if given is None else given)
        begun = Start(None, QuasiNewton(), (), ("no iteration, because max_iter=0",))
        return NewtonState(point, begun.model), begun
    begun = begin(sums, goal, effort, given is not None)
    theta = begun.theta if given is None else given
    point = sums.at(zero if theta is None else theta)
    if theta is not None and not value(sums, point) <= zero_objective:
        point = sums.at(zero)
    return init(sums, goal, point, begun.model, begun.least, begun.sample), begun


def _run(
    sums: Any, goal: Goal, effort: Effort, state: NewtonState, begun: Start
) -> tuple[Any, NewtonState]:
    """Iterate until the gap is small enough, and at most so often; return also the last sums."""

    def show(sums: Any, now: NewtonState) -> None:
        if effort.watch is not None:
            effort.watch(lambda: _solved(sums, goal, judged(sums, goal, now), begun))

    sums, state = _with_digits(sums, goal, state)
    show(sums, state)
    last = sums, state
    for found in iterates(sums, goal, state, effort.max_iter):
        before, last = last[1], found
        if last[1].iterations > before.iterations:
            show(*last)
    return last


def iterates(
    sums: Any, goal: Goal, state: NewtonState, max_iter: int
) -> Iterator[tuple[Any, NewtonState]]:
    """Yield a run after each iteration over all rows and, last, when it has ended.

    With each state come the sums that it is on, whose products may have become those of float64.
    """
    while not state.ended and state.iterations < max_iter:
        before, state = state, step(sums, goal, state)
        sums, state = _with_digits(sums, goal, state)
        if state.iterations > before.iterations:
            yield sums, state
    yield sums, state if state.ended else closed(sums, goal, state, "max_iter")


def _with_digits(sums: Any, goal: Goal, state: NewtonState) -> tuple[Any, NewtonState]:
    """Go on with products of float64 if those of float32 do not resolve the gap that is left.

    What they have shown so far is forgotten.
    """
    finer = sums.refined()
    if finer is None:
        return sums, state
    objective = value(sums, state.point)
    expected = min(state.distance, state.looseness * state.decrement, quick_gap(sums, state.point))
    if not (state.ended == "rounding" or goal.needs_digits(objective, expected)):
        return sums, state
    point = finer.at(state.point.theta)
    state = state._replace(point=point, least=-np.inf, bound=np.inf, ended="", crowding=np.inf)
    return finer, judged(finer, goal, state)


def with_penalty(sums: Sums, point: Evaluation, before: Penalty) -> Evaluation:
    """Evaluate a point with another L2 penalty: the rows need not be visited for it."""
    added, coef = sums.penalty.l2 - before.l2, point.theta[: sums.d]
    gradient = point.gradient.copy()
    gradient[: sums.d] += added * coef
    objective = point.objective + 0.5 * added * float(coef @ coef)
    return point._replace(objective=objective, gradient=gradient)


def _solved(sums: Any, goal: Goal, state: NewtonState, begun: Start) -> Solved:
    if sums.is_single:
        theta, state = rounded(sums, goal, state)
    else:
        theta = sums.given_back(state.point.theta)
    return solved(sums, theta, state, begun)


def solved(sums: Any, theta: Vector, state: NewtonState, begun: Start) -> Solved:
    """Return the result of a run, with these weights."""
    coef, intercept = sums.split(theta)
    iterations, method, why = state.iterations, state.model.name, begun.why
    if begun.epochs and iterations == 0 and state.ended == "gap":
        iterations, method, why = begun.epochs, "dual ascent", (f"{_DUAL}; it converged",)
    coef_error = state.coef_error
    if sums.loss.concordance == 0.0 and state.certified and coef_error != coef_error:
        objective, weights = state.point.objective, state.point.theta[: sums.d]
        loss = objective - 0.5 * sums.penalty.l2 * float(weights @ weights)
        coef_error = error_of_squares(sums.loss, sums.n, len(theta), loss, state.distance)
    return Solved(
        np.atleast_2d(np.array(coef)),
        np.atleast_1d(np.array(intercept, dtype=np.float64)),
        state.gap,
        state.certified,
        iterations,
        state.ended or "max_iter",
        begun.samples,
        method,
        why,
        coef_error,
    )


def rounded(sums: Any, goal: Goal, state: NewtonState) -> tuple[Vector, NewtonState]:
    """Round weights as the user gets them, and bound the gap of these.

    The intercept of columns that are far from zero loses most digits, and so do weights whose
    products with the columns cancel. Steps more make the lower bound tighter if that is what keeps
    the gap large. Gaps that are estimates are left as they are.
    """
    theta = sums.given_back(state.point.theta)
    if not state.certified:
        return theta, state
    point = sums.at(theta)
    reason = "rounding" if state.ended == "gap" else state.ended
    further = state
    for _ in range(_MOST_ROUNDED):
        rounded = state._replace(
            point=point, least=further.least, bound=np.inf, ended="", crowding=np.inf
        )
        moved = closed(sums, goal, rounded, reason)
        if not (sums.penalty.l2 or sums.penalty.l1):
            break
        is_loose = value(sums, point) - value(sums, further.point) < 0.5 * (
            value(sums, point) - further.least
        )
        if moved.gap <= goal.tol or state.ended not in ("gap", "rounding") or not is_loose:
            break
        further = with_bound_at(sums, goal, step(sums, goal, further._replace(ended="", idle=0)))
        if further.ended == "rounding":
            break
    return theta, moved


# ---- where to begin, and how to find steps


def begin(sums: RowSums, goal: Goal, effort: Effort, is_given: bool) -> Start:
    """Choose where to begin on rows with one score each, and how to find steps."""
    is_few = sums.n < FEW_ROWS
    model, why = choose_model(sums)
    if isinstance(model, ConjugateGradients):
        if is_given:
            return Start(None, model, (), (GIVEN, why))
        return _begin_with_dual(sums, goal, effort, model, why)
    plan = plan_samples(sums.n, sums.d, has_l1=sums.penalty.l1 > 0.0)
    if is_given:
        return Start(None, _on_sample(sums, model, effort, plan), (), (GIVEN, why))
    if sums.is_quadratic and not sums.penalty.l1:
        return Start(None, model, (), (ONE_MATRIX, why))
    if is_few or not plan.sizes:
        first = f"all rows from the start, because {sums.n} rows are too few to sample for"
        return Start(None, model, (), (f"{first} {sums.d} features", why))
    begun = epoch_start(sums, effort.seed)
    if begun is not None:
        first = "an epoch of stochastic gradient descent first, because rows are sparse"
        return Start(sums.join(*begun), model, (), (first, why))
    samples = sums.samples(plan.sizes, effort.seed)
    theta, drawn = solve_samples(sums, model, samples)
    first = "samples first, because far from the optimum they are accurate enough"
    if plan.gives_hessians:
        model = model.on_sample(samples[-1])
        why = f"{why} of {samples[-1].n} rows, drawn by importance"
    return Start(theta, model, drawn, (first, why), sample=samples[-1])


def choose_model(sums: RowSums) -> tuple[Model, str]:
    """Choose how steps are found on rows with one score each."""
    d = sums.d
    if sums.penalty.l1 > 0.0:
        if d <= MOST_COLUMNS:
            return Lasso(), "newton, because a matrix of second derivatives is small enough"
        return Lasso(is_working_set=True), f"working set, because most of {d} weights are zero"
    if d <= min(MOST_COLUMNS, max(2 * sums.n, 300)):
        is_few = sums.n < FEW_ROWS
        model = QuasiNewton(is_exact=is_few, is_cheap=is_few)
        return model, f"newton, because a matrix of {d} x {d} second derivatives is small enough"
    return ConjugateGradients(), (
        f"conjugate gradients, because a matrix of {d} x {d} second derivatives would cost more"
        " than products with it"
    )


def _on_sample(sums: RowSums, model: Model, effort: Effort, plan: SamplePlan) -> Model:
    if not plan.gives_hessians:
        return model
    return model.on_sample(sums.samples(plan.sizes[-1:], effort.seed)[0])


def solve_samples(sums: Any, model: Any, samples: Sequence[Any]) -> tuple[Vector, tuple[int, ...]]:
    """Solve one sample after the other; return where they lead, and their rows."""
    constant, _ = sums.constant()
    zero = np.append(np.zeros(sums.d), constant) if sums.fit_intercept else np.zeros(sums.d)
    theta, drawn = zero, []
    for sample in samples:
        some = sample.sums
        point = some.at(theta)
        if theta is not zero:
            other = some.at(zero)
            point = point if value(some, point) < value(some, other) else other
        theta = settle(some, point, model)
        drawn.append(sample.n)
    return theta, tuple(drawn)


def _begin_with_dual(sums: RowSums, goal: Goal, effort: Effort, model: Model, why: str) -> Start:
    from antithetic.exact.dual import dual_start

    problem = replace(sums.problem, penalty=sums.penalty)
    found = dual_start(problem, effort.seed, effort.max_iter, lambda at: goal.distance(at, 0))
    if found is None:
        first = f"all rows from the start, because {sums.n} rows are too few to sample for"
        return Start(None, model, (), (f"{first} {sums.d} features", why))
    constant = sums.constant()[0]
    theta = sums.join(found.coef, constant)
    least = found.least - ROUNDING * (abs(found.least) + goal.zero_objective)
    return Start(theta, model, (), (f"first {_DUAL}", why), least, found.epochs)
