"""Which sampling helps on given data, by how much and at what cost, measured by training with each (`compare_samplings`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.pairing import AntitheticTable, GroupTable, pair
from antithetic.problem import Problem
from antithetic.problem.losses import get_loss
from antithetic.solvers import DivergenceError, find_steps
from antithetic.training.advise import Advice, advise
from antithetic.training.minimize import Result, minimize

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], object]
BATCH_SIZE = 2
# times sooner than reshuffling, for another way to be recommended: times vary by some percent
CLEARLY = 1.2
_GREEDY_ROWS = 30_000  # O(n^2 d): beyond, minutes
_FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)  # of the first step that "auto" finds
_LONG_RUN = 100  # epochs, at least, of the runs that look for the least objective
_REPEATS = 3  # of what is timed


class Way(NamedTuple):
    """How rows are paired and drawn."""

    pairing: str | None
    sampling: str
    nest: bool | None = None


WAYS = {
    "reshuffled": Way(None, "shuffle"),
    "balanced": Way(None, "balanced"),
    "i.i.d. (SGD)": Way(None, "uniform"),
    "SGD-as, greedy": Way("greedy", "uniform"),
    "SGD-as, tree": Way("tree", "uniform"),
    "nested order": Way("tree", "shuffle", True),
}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One way of sampling on the data.

    Attributes
    ----------
    name : str
    way : Way
    eta0, decay : float
        The steps that served it best of four.
    objective : ndarray of shape (seeds, epochs + 1)
        Infinite where the steps diverged.
    ratio : ndarray of shape (epochs + 1,)
        Exact variance of a batch's gradient divided by that of independent rows, along the first
        run.
    table_seconds, run_seconds : float
        To make the table, and to train for all epochs; the least of several repeats in this
        process.
    """

    name: str
    way: Way
    eta0: float
    decay: float
    objective: Array
    ratio: Array
    table_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What :func:`compare_samplings` found.

    Attributes
    ----------
    loss : str
    alpha : float
    n, d : int
    measured : tuple of Measured
    at_zero, least : float
        Objective at zero weights, and the least that any run found.
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
        """The way that is soonest where reshuffling ends, its table included.

        In doubt reshuffling, which needs nothing.
        """
        baseline = self.measured[0]
        goal = float(self.gap(baseline)[:, -1].mean())
        if not np.isfinite(goal):
            return baseline
        best = min(self.measured, key=lambda one: self.seconds_to(one, goal))
        return (
            best
            if self.seconds_to(baseline, goal) >= CLEARLY * self.seconds_to(best, goal)
            else baseline
        )

    def gap(self, one: Measured) -> Array:
        """``(f - least) / (f(0) - least)``: the share of the way that is still to go, shape (seeds, epochs + 1)."""
        span = self.at_zero - self.least
        return (one.objective - self.least) / span if span > 0.0 else np.zeros_like(one.objective)

    def seconds_to(self, one: Measured, gap: float) -> float:
        """Seconds until the mean gap is at most this, the table included.

        Infinite if it never is.
        """
        reached = np.flatnonzero(self.gap(one).mean(axis=0) <= gap)
        epochs = one.objective.shape[1] - 1
        return (
            one.table_seconds + one.run_seconds * float(reached[0]) / epochs
            if len(reached)
            else np.inf
        )


def compare_samplings(
    X: Any,
    y: Any,
    *,
    loss: str,
    alpha: float,
    epochs: int = 20,
    seeds: int = 3,
    progress: Progress | None = None,
) -> Comparison:
    """Train with each way of sampling, batches of 2 and an intercept, and measure.

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
    common: dict[str, Any] = {
        "loss": loss,
        "l2": alpha,
        "fit_intercept": True,
        "batch_size": BATCH_SIZE,
    }
    ways = {
        name: way
        for name, way in WAYS.items()
        if way.pairing != "greedy" or problem.n <= _GREEDY_ROWS
    }
    tell = progress or (lambda _what, _done, _total: None)
    measured = []
    for place, (name, way) in enumerate(ways.items()):
        tell(name, place, len(ways) + 2)
        measured.append(_measure(problem, X, y, name, way, common, epochs=epochs, seeds=seeds))
    tell("least objective", len(ways), len(ways) + 2)
    least = min(_least(X, y, common, epochs), *(float(one.objective.min()) for one in measured))
    tell("advice", len(ways) + 1, len(ways) + 2)
    advice = advise(X, y, loss=loss, l2=alpha, fit_intercept=True, epochs=epochs)
    tell("done", len(ways) + 2, len(ways) + 2)
    seconds = time.perf_counter() - began
    return Comparison(
        loss,
        alpha,
        problem.n,
        problem.d,
        tuple(measured),
        problem.loss_at_zero(),
        least,
        advice,
        seconds,
    )


def _measure(
    problem: Problem,
    X: Any,
    y: Any,
    name: str,
    way: Way,
    common: dict[str, Any],
    *,
    epochs: int,
    seeds: int,
) -> Measured:
    table, table_seconds = _table(X, y, way, str(common["loss"]))
    steps = find_steps(
        problem, BATCH_SIZE, 0, balanced=way.sampling == "balanced" or bool(way.nest)
    )

    def run(eta0: float, seed: int, epochs: int, trace: tuple[str, ...] = ("objective",)) -> Result:
        given = common | {
            "table": table,
            "sampling": way.sampling,
            "nest": way.nest if table is None else None,
        }
        return minimize(
            X,
            y,
            **given,
            learning_rate="inverse_time",
            eta0=eta0,
            decay=steps.decay,
            epochs=epochs,
            seed=seed,
            trace=trace,
        )

    best_eta0, best, mean = steps.eta0, np.full((seeds, epochs + 1), np.inf), np.inf
    for eta0 in steps.eta0 * np.array(_FACTORS):
        found = np.array([_objectives(run, float(eta0), seed, epochs) for seed in range(seeds)])
        if found[:, -1].mean() < mean:
            best_eta0, best, mean = float(eta0), found, float(found[:, -1].mean())
    if mean == np.inf:
        return Measured(
            name,
            way,
            best_eta0,
            steps.decay,
            best,
            np.full(epochs + 1, np.nan),
            table_seconds,
            np.nan,
        )
    ratio = run(best_eta0, 0, epochs, ("variance_ratio",)).trace["variance_ratio"]
    seconds = min(_timed(lambda: run(best_eta0, 0, epochs, ())) for _ in range(_REPEATS))
    return Measured(name, way, best_eta0, steps.decay, best, ratio, table_seconds, seconds)


def _objectives(
    run: Callable[[float, int, int], Result], eta0: float, seed: int, epochs: int
) -> Array:
    try:
        return np.asarray(run(eta0, seed, epochs).trace["objective"])
    except DivergenceError:
        return np.full(epochs + 1, np.inf)


def _table(
    X: Any, y: Any, way: Way, loss: str
) -> tuple[AntitheticTable | GroupTable | None, float]:
    if way.pairing is None:
        return None, 0.0
    held: list[AntitheticTable | GroupTable] = []

    def make() -> None:
        held.append(
            pair(
                X,
                y,
                str(way.pairing),
                loss=get_loss(loss),
                fit_intercept=True,
                nest=way.nest,
                random_state=0,
            )
        )

    first = _timed(make)
    return held[0], (
        first if first > 1.0 else min(first, _timed(make))
    )  # the first may have waited for the compiler


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _least(X: Any, y: Any, common: dict[str, Any], epochs: int) -> float:
    """Least objective of two long runs."""
    found = []
    for solver in ("sgd", "svrg"):
        try:
            given: dict[str, Any] = {
                "solver": solver,
                "sampling": "balanced",
                "learning_rate": "auto",
                "trace": ("objective",),
            }
            found.append(
                float(
                    minimize(X, y, **common, **given, epochs=max(_LONG_RUN, 5 * epochs))
                    .trace["objective"]
                    .min()
                )
            )
        except (DivergenceError, ValueError):  # svrg does not take every loss
            continue
    return min(found, default=np.inf)
