"""Which order helps on given data, by how much and at what cost (`compare_orders`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import block_rows
from antithetic.exact.certificate import certified_gap
from antithetic.exact.path import solve_problem, sums_of
from antithetic.orders import Balanced, Order, Pairs, Shuffle, Uniform
from antithetic.paper.advise import Advice, advise
from antithetic.problem import Problem
from antithetic.problem.result import Result
from antithetic.stochastic import DivergenceError
from antithetic.stochastic.minimize import minimize
from antithetic.stochastic.step_search import find_steps, noise_of_balanced
from antithetic.stochastic.steps import InverseTime

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], object]
BATCH_SIZE = 2
# times sooner than reshuffling, for another order to be recommended: times vary by some percent
CLEARLY = 1.2
_GREEDY_ROWS = 30_000  # O(n^2 d): beyond, minutes
_FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)  # of the first step that "auto" finds
_REPEATS = 3  # of what is timed
_NEGLIGIBLE, _LEAST_GAP = 0.01, 1e-9  # of a gap, and in all, that the minimum may be in error
_FAR = 0.1  # of the way to the minimum
_COSTS = 1.5  # times the gap on one scale, from which on scales cost something
_SLOW = 1.0  # seconds from which on making a table is not timed twice
_TOL, _MOST_ITERATIONS = 1e-10, 300  # of the search for the minimum
_LONG_RUN = 100  # epochs, at least, of the runs that look for the minimum of a loss with a kink
# Curvatures are squares of scales. Where they differ by a factor of 10,000, a step that is safe for
# the largest column leaves the smallest where it is for thousands of epochs.
VERY_DIFFERENT = 100.0


COMPARED: dict[str, Order] = {
    "reshuffled": Shuffle(),
    "balanced": Balanced(),
    "i.i.d. (SGD)": Uniform(),
    "SGD-as, greedy": Uniform(pairs="greedy"),
    "SGD-as, tree": Uniform(pairs="tree"),
    "nested order": Shuffle(pairs=Pairs("tree", nest=True)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One order on the data.

    Attributes
    ----------
    name : str
    order : Order
    steps : InverseTime
        The best of four for it.
    objective : ndarray of shape (seeds, epochs + 1)
        Infinite where the steps diverged.
    ratio : ndarray of shape (epochs + 1,)
        Exact variance of a batch's gradient divided by that of independent rows, along the first
        run.
    table_seconds, run_seconds : float
        To make the table, and to train for all epochs; the shortest of several repeats in this
        process. The latter is NaN where all steps diverged.
    """

    name: str
    order: Order
    steps: InverseTime
    objective: Array
    ratio: Array
    table_seconds: float
    run_seconds: float


class CostOfScales(NamedTuple):
    """What columns of very different scales cost.

    Attributes
    ----------
    scales : Scales
    gap_rescaled : float
        Mean gap with which reshuffling ends where all columns have one scale, to the minimum there.
    """

    scales: Scales
    gap_rescaled: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What :func:`compare_orders` found.

    Attributes
    ----------
    loss : str
    alpha : float
    n, d : int
    measured : tuple of Measured
    at_zero : float
        Objective at zero weights.
    minimum : Minimum
        The smallest objective that was found, and how well it is known.
    advice : Advice
    seconds : float
        All in all.
    scales : CostOfScales or None
        Where columns are of very different scales.
    """

    loss: str
    alpha: float
    n: int
    d: int
    measured: tuple[Measured, ...]
    at_zero: float
    minimum: Minimum
    advice: Advice
    seconds: float
    scales: CostOfScales | None = None

    @property
    def certified(self) -> bool:
        """Whether the minimum is known well enough for all gaps that are shown."""
        smallest = self.nearest[1]
        return self.minimum.error <= max(_NEGLIGIBLE * smallest, _LEAST_GAP) * self._span

    @property
    def _span(self) -> float:
        return self.at_zero - self.minimum.value

    @property
    def nearest(self) -> tuple[Measured, float]:
        """The order that came nearest to the minimum, and its mean gap after the last epoch."""
        gaps = [float(self.gap(one)[:, -1].mean()) for one in self.measured]
        place = int(np.argmin(gaps))
        return self.measured[place], gaps[place]

    @property
    def is_far(self) -> bool:
        """Whether no order came near the minimum, which leaves nothing to recommend."""
        return not self.nearest[1] <= _FAR

    @property
    def scales_cost(self) -> bool:
        """Whether columns of one scale would bring reshuffling nearer to the minimum."""
        if self.scales is None:
            return False
        return not float(self.gap(self.measured[0])[:, -1].mean()) <= (
            _COSTS * self.scales.gap_rescaled
        )

    @property
    def recommended(self) -> Measured:
        """The order that reaches reshuffling's last gap first, its table included.

        Reshuffling itself, unless another order is clearly faster.
        """
        baseline = self.measured[0]
        goal = float(self.gap(baseline)[:, -1].mean())
        if not np.isfinite(goal):
            return baseline
        best = min(self.measured, key=lambda one: self.seconds_to(one, goal))
        clearly = self.seconds_to(baseline, goal) >= CLEARLY * self.seconds_to(best, goal)
        return best if clearly else baseline

    def gap(self, one: Measured) -> Array:
        """``(f - f*) / (f(0) - f*)``, shape (seeds, epochs + 1): what is still to go."""
        above, span = one.objective - self.minimum.value, self._span
        return above / span if span > 0.0 else np.zeros_like(above)

    def seconds_to(self, one: Measured, gap: float) -> float:
        """Seconds until the mean gap is at most this, the table included.

        Infinite if it never is.
        """
        reached = np.flatnonzero(self.gap(one).mean(axis=0) <= gap)
        if not len(reached):
            return float("inf")
        share: float = reached[0] / (one.objective.shape[1] - 1)
        return one.table_seconds + share * one.run_seconds


def compare_orders(
    X: Any,
    y: Any,
    *,
    loss: str,
    alpha: float,
    epochs: int = 20,
    seeds: int = 3,
    progress: Progress | None = None,
) -> Comparison:
    """Train with each order, batches of 2 and an intercept, and measure.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
    y : array-like of shape (n,)
        Labels of two classes, or numbers for a regression loss.
    loss : str
    alpha : float
        Strength of the L2 penalty.
    epochs, seeds : int
        Length and number of the runs.
    progress : callable, default=None
        Called with ``(what, done, total)``.

    Returns
    -------
    Comparison
    """
    began = time.perf_counter()
    problem = Problem.build(X, y, loss=loss, l2=alpha, fit_intercept=True)
    fixed = {"loss": loss, "l2": alpha, "fit_intercept": True, "batch_size": BATCH_SIZE}
    orders = {
        name: order
        for name, order in COMPARED.items()
        if order.pairs != Pairs("greedy") or problem.n <= _GREEDY_ROWS
    }
    tell = progress or (lambda _what, _done, _total: None)
    scales = column_scales(problem.X)
    stages = len(orders) + 2 + scales.differ
    measured = []
    for place, (name, order) in enumerate(orders.items()):
        tell(name, place, stages)
        runs = _Runs(problem, X, y, order, fixed, epochs, seeds)
        measured.append(runs.measure(name))
    tell("minimum", len(orders), stages)
    minimum = find_minimum(problem, y, epochs)
    minimum = minimum.lowered_to(min(float(one.objective.min()) for one in measured))
    cost = None
    if scales.differ:
        tell("one scale", len(orders) + 1, stages)
        cost = CostOfScales(scales, _gap_rescaled(problem, y, scales, fixed, epochs, seeds))
    tell("advice", stages - 1, stages)
    advice = advise(X, y, loss=loss, l2=alpha, fit_intercept=True, epochs=epochs)
    tell("done", stages, stages)
    return Comparison(
        loss,
        alpha,
        problem.n,
        problem.d,
        tuple(measured),
        problem.loss_at_zero(),
        minimum,
        advice,
        time.perf_counter() - began,
        cost,
    )


def _gap_rescaled(
    problem: Problem, y: Any, scales: Scales, fixed: dict[str, Any], epochs: int, seeds: int
) -> float:
    """Mean gap after all epochs of reshuffling, where columns have one scale."""
    X = rescale(problem.X, scales).X
    same = Problem.build(
        X, y, loss=fixed["loss"], l2=fixed["l2"], fit_intercept=fixed["fit_intercept"]
    )
    _, objective = _Runs(same, X, y, Shuffle(), fixed, epochs, seeds).best_steps(Shuffle())
    least = find_minimum(same, y, epochs).lowered_to(float(objective.min())).value
    span = same.loss_at_zero() - least
    return float((objective[:, -1] - least).mean() / span) if span > 0.0 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Runs with one order, of so many epochs and seeds; ``fixed`` is what all orders share."""

    problem: Problem
    X: Any
    y: Any
    order: Order
    fixed: dict[str, Any]
    epochs: int
    seeds: int

    def measure(self, name: str) -> Measured:
        """Find the best of four steps, then the variance ratio and the time of a run with them."""
        order, table_seconds = _with_table(self.problem, self.y, self.order)
        best, objective = self.best_steps(order)
        ratio, seconds = np.full(self.epochs + 1, np.nan), np.nan
        if np.isfinite(objective[:, -1].mean()):
            ratio = self._run(order, best, 0, "variance_ratio").trace["variance_ratio"]
            seconds = min(_timed(lambda: self._run(order, best, 0, ())) for _ in range(_REPEATS))
        return Measured(name, self.order, best, objective, ratio, table_seconds, seconds)

    def best_steps(self, order: Order) -> tuple[InverseTime, Array]:
        """Find the best of four steps, and the objectives with it; infinite if all diverge."""
        problem, given = self.problem, self.order
        orders_all = given.balances or (given.pairs is not None and given.pairs.nest is True)
        noise = noise_of_balanced(problem.n, problem.d) if orders_all else 1.0
        found = find_steps(problem, BATCH_SIZE, 0, noise=noise)
        best, objective = found, np.full((self.seeds, self.epochs + 1), np.inf)
        for eta0 in found.eta0 * np.array(_FACTORS):
            steps = found.but(eta0=float(eta0))
            ours = np.array([self._objective(order, steps, seed) for seed in range(self.seeds)])
            if ours[:, -1].mean() < objective[:, -1].mean():
                best, objective = steps, ours
        return best, objective

    def _run(self, order: Order, steps: InverseTime, seed: int, trace: Any) -> Result:
        given = {"epochs": self.epochs, "seed": seed, "trace": trace, **self.fixed}
        return minimize(self.X, self.y, order=order, steps=steps, **given)

    def _objective(self, order: Order, steps: InverseTime, seed: int) -> Array:
        try:
            return np.asarray(self._run(order, steps, seed, "objective").trace["objective"])
        except DivergenceError:
            return np.full(self.epochs + 1, np.inf)


def _with_table(problem: Problem, y: Any, order: Order) -> tuple[Order, float]:
    """Return the order with a table that is made beforehand, and the seconds that this took."""
    if order.pairs is None:
        return order, 0.0
    make = partial(order.pairs.first_table, problem, y, once=False, seed=0)
    seconds = _timed(make)
    if seconds <= _SLOW:  # the first may have been slower by chance
        seconds = min(seconds, _timed(make))
    return order.but(pairs=order.pairs.but(method=make())), seconds


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


# ---- the minimum


class Minimum(NamedTuple):
    """The smallest objective that was found.

    Attributes
    ----------
    value : float
    error : float
        How far it can be above the minimum at most; infinite where that is not known.
    seconds : float
        What finding it took.
    newton : bool
        Whether Newton's method found it, which needs no step size and no scaling.
    """

    value: float
    error: float
    seconds: float
    newton: bool

    def lowered_to(self, value: float) -> Minimum:
        """The smaller of this and another objective; the bound below stays where it is."""
        fall = max(0.0, self.value - value)
        return self._replace(value=self.value - fall, error=max(0.0, self.error - fall))


def find_minimum(problem: Problem, y: Any, epochs: int) -> Minimum:
    """Minimise by Newton's method, with a bound on the error, or by long runs.

    Newton's method needs a loss without a kink, the bound also a penalty.

    Parameters
    ----------
    problem : Problem
        With an L2 penalty or none.
    y : array-like of shape (n,)
        Labels or targets as they were given.
    epochs : int
        Of the runs that the minimum is compared with; long ones have five times as many.
    """
    began = time.perf_counter()
    if not problem.loss.is_smooth:
        return Minimum(_long_runs(problem, y, epochs), np.inf, time.perf_counter() - began, False)
    solved = solve_problem(problem, tol=_TOL, max_iter=_MOST_ITERATIONS)
    seconds = time.perf_counter() - began
    coef, intercept = solved.coef[0], float(solved.intercept[0])
    value, error = problem.objective(coef, intercept), np.inf
    if solved.certified:
        sums = sums_of(problem)
        error = certified_gap(sums, sums.at(sums.join(coef, intercept)))
        # the dual's bound may be the smaller one; gaps are in units of the constant's distance
        error = min(error, solved.gap * max(0.0, sums.constant()[1] - value + error))
    return Minimum(value, error, seconds, True)


def _long_runs(problem: Problem, y: Any, epochs: int) -> float:
    """Smallest objective of long runs, two on the columns as they are and one on scaled ones.

    Where scales are very different, only the latter comes near the minimum.
    """
    given: dict[str, Any] = {
        "loss": problem.loss,
        "l2": problem.penalty.l2,
        "fit_intercept": problem.fit_intercept,
        "order": Balanced(),
        "epochs": max(_LONG_RUN, 5 * epochs),
    }
    found = []
    for solver in ("sgd", "svrg"):
        with suppress(DivergenceError, ValueError):  # svrg does not take every loss
            run = minimize(problem.X, y, solver=solver, trace="objective", **given)
            found.append(float(run.trace["objective"].min()))
    if problem.fit_intercept:
        scaled = rescale(problem.X, column_scales(problem.X))
        with suppress(DivergenceError, ValueError):
            run = minimize(scaled.X, y, **given)
            found.append(problem.objective(*scaled.undo(run.coef, run.intercept)))
    return min(found, default=np.inf)


# ---- the scales of columns


class Scales(NamedTuple):
    """Sizes of the columns.

    Attributes
    ----------
    size : ndarray of shape (d,)
        Mean absolute value of a column's entries that are not zero; 0 for a column of zeros.
    largest, smallest : int
        Columns of the largest size and of the smallest above 0.
    """

    size: Array
    largest: int
    smallest: int

    @property
    def ratio(self) -> float:
        """How many times the smallest size the largest is; 1 if all columns are zero."""
        below = float(self.size[self.smallest])
        return float(self.size[self.largest]) / below if below > 0.0 else 1.0

    @property
    def differ(self) -> bool:
        """Whether columns are of very different scales."""
        return self.ratio > VERY_DIFFERENT


def column_scales(X: Any) -> Scales:
    """Measure the columns, in one pass over the rows.

    Examples
    --------
    >>> found = column_scales(np.array([[1.0, 2000.0], [-1.0, 0.0]]))
    >>> found.size.tolist(), found.ratio, found.differ
    ([1.0, 2000.0], 2000.0, True)
    """
    total, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, X.shape[0], block_rows(X)):
        part = abs(X[start : start + block_rows(X)])
        with np.errstate(over="ignore"):  # values near 1e308 are very different from others, too
            total += np.asarray(part.sum(axis=0, dtype=np.float64)).ravel()
        counts += np.asarray((part != 0).sum(axis=0)).ravel()
    size = total / np.maximum(counts, 1.0)
    smallest = int(np.argmin(np.where(size > 0.0, size, np.inf)))
    return Scales(size, int(np.argmax(size)), smallest)


class Rescaled(NamedTuple):
    """Rows whose columns have been brought to one scale: ``(X - shift) * factor``."""

    X: Any
    shift: Array
    factor: Array

    def undo(self, coef: Any, intercept: float) -> tuple[Array, float]:
        """Weights and intercept for the rows as they were, with the same predictions."""
        weights = np.asarray(coef, dtype=np.float64) * self.factor
        return weights, float(intercept - weights @ self.shift)


def rescale(X: Any, scales: Scales) -> Rescaled:
    """Bring all columns to one scale.

    Dense ones to mean 0 and variance 1, as scikit-learn's ``StandardScaler`` does; sparse entries
    are divided by their mean absolute value, which keeps zeros.
    """
    d = X.shape[1]
    if sparse.issparse(X):
        factor = np.divide(1.0, scales.size, out=np.ones(d), where=scales.size > 0.0)
        return Rescaled(sparse.csr_matrix(X @ sparse.diags(factor)), np.zeros(d), factor)
    shift, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    factor = np.divide(1.0, spread, out=np.ones(d), where=spread > 0.0)
    return Rescaled((X - shift) * factor, shift, factor)
