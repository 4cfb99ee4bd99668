"""Which order helps on given data, by how much and at what cost (`compare_orders`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.orders import Balanced, Order, Pairs, Shuffle, Uniform
from antithetic.problem import Problem
from antithetic.solvers import DivergenceError
from antithetic.solvers.step_search import find_steps, noise_of_balanced
from antithetic.solvers.steps import InverseTime
from antithetic.training.advise import Advice, advise
from antithetic.training.minimize import Result, minimize

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], object]
BATCH_SIZE = 2
# times sooner than reshuffling, for another order to be recommended: times vary by some percent
CLEARLY = 1.2
_GREEDY_ROWS = 30_000  # O(n^2 d): beyond, minutes
_FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)  # of the first step that "auto" finds
_LONG_RUN = 100  # epochs, at least, of the runs that look for the minimum
_REPEATS = 3  # of what is timed
_SLOW = 1.0  # seconds from which on making a table is not timed twice


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


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What :func:`compare_orders` found.

    Attributes
    ----------
    loss : str
    alpha : float
    n, d : int
    measured : tuple of Measured
    at_zero, least : float
        Objective at zero weights, and the smallest that any run found.
    advice : Advice
    seconds : float
        All in all.
    """

    loss: str
    alpha: float
    n: int
    d: int
    measured: tuple[Measured, ...]
    at_zero: float
    least: float
    advice: Advice
    seconds: float

    @property
    def recommended(self) -> Measured:
        """The order that is soonest where reshuffling ends, its table included.

        In doubt reshuffling, which needs nothing.
        """
        baseline = self.measured[0]
        goal = float(self.gap(baseline)[:, -1].mean())
        if not np.isfinite(goal):
            return baseline
        best = min(self.measured, key=lambda one: self.seconds_to(one, goal))
        clearly = self.seconds_to(baseline, goal) >= CLEARLY * self.seconds_to(best, goal)
        return best if clearly else baseline

    def gap(self, one: Measured) -> Array:
        """``(f - least) / (f(0) - least)``, shape (seeds, epochs + 1): what is still to go."""
        span = self.at_zero - self.least
        return (one.objective - self.least) / span if span > 0.0 else np.zeros_like(one.objective)

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
        Told ``(what, done, total)``.

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
    stages = len(orders) + 2
    measured = []
    for place, (name, order) in enumerate(orders.items()):
        tell(name, place, stages)
        runs = _Runs(problem, X, y, order, fixed, epochs, seeds)
        measured.append(runs.measure(name))
    tell("minimum", stages - 2, stages)
    least = min(_least(X, y, fixed, epochs), *(float(one.objective.min()) for one in measured))
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
        least,
        advice,
        time.perf_counter() - began,
    )


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
        problem, given = self.problem, self.order
        order, table_seconds = _with_table(problem, self.y, given)
        orders_all = given.balances or (given.pairs is not None and given.pairs.nest is True)
        noise = noise_of_balanced(problem.n, problem.d) if orders_all else 1.0
        found = find_steps(problem, BATCH_SIZE, 0, noise=noise)
        best, objective = found, np.full((self.seeds, self.epochs + 1), np.inf)
        for eta0 in found.eta0 * np.array(_FACTORS):
            steps = found.but(eta0=float(eta0))
            ours = np.array([self._objective(order, steps, seed) for seed in range(self.seeds)])
            if ours[:, -1].mean() < objective[:, -1].mean():
                best, objective = steps, ours
        ratio, seconds = np.full(self.epochs + 1, np.nan), np.nan
        if np.isfinite(objective[:, -1].mean()):
            ratio = self._run(order, best, 0, "variance_ratio").trace["variance_ratio"]
            seconds = min(_timed(lambda: self._run(order, best, 0, ())) for _ in range(_REPEATS))
        return Measured(name, given, best, objective, ratio, table_seconds, seconds)

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
    if seconds <= _SLOW:  # the first may have waited for the compiler
        seconds = min(seconds, _timed(make))
    return order.but(pairs=order.pairs.but(method=make())), seconds


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _least(X: Any, y: Any, fixed: dict[str, Any], epochs: int) -> float:
    """Smallest objective of two long runs."""
    found, given = [], {**fixed, "epochs": max(_LONG_RUN, 5 * epochs), "trace": "objective"}
    for solver in ("sgd", "svrg"):
        try:
            run = minimize(X, y, solver=solver, order=Balanced(), **given)
            found.append(float(run.trace["objective"].min()))
        except (DivergenceError, ValueError):  # svrg does not take every loss
            continue
    return min(found, default=np.inf)
