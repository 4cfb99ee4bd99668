"""Run everything on one set with one loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import thread_map
from antithetic.paper import extensions, measures
from antithetic.paper.optimum import Optimum, find_optimum
from antithetic.paper.parts import Array, Part, relative_gap
from antithetic.paper.runs import Bench, jitter, mean_steps, objectives
from antithetic.paper.settings import (
    METHODS,
    PAPER,
    comparison_runs,
    curvature,
    first_steps,
    load,
    part_settings,
)
from antithetic.problem import Problem
from antithetic.solvers.steps import InverseTime

Progress = Callable[[str, int, int], object]
"""Called with the current task, the finished stages and the number of all stages."""
STAGES = 5 + len(METHODS)


def run_part(
    name: str, loss: str, *, seeds: int = 5, epochs: int = 20, progress: Progress | None = None
) -> Part:
    """Run all methods on a set of the paper, and measure.

    Parameters
    ----------
    name : str
        One of ``LAMBDAS``.
    loss : {"log_loss", "hinge"}
    seeds : int, default=5
        Runs of each method, with seeds from 0.
    epochs : int, default=20
    progress : callable, default=None
        Called with ``(what, done, total)`` before each stage.

    Returns
    -------
    Part

    Raises
    ------
    OSError
        Where the set is not in the package and not in the folder ``ANTITHETIC_DATA``.
    """
    settings = part_settings(name, loss, seeds, epochs)
    X, y = load(name)
    problem = Problem.build(X, y, loss=loss, l2=settings["lambda"])
    # With thousands of small products on a busy machine, BLAS threads that wait for each other made
    # it 4 times slower.
    with thread_map(1):
        return measure_part(problem, y, settings, progress)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Runs of all methods with each first step of a grid.

    Attributes
    ----------
    grid : ndarray of shape (k,)
    gap : dict of str -> ndarray of shape (k, seeds)
        Relative gap after the run, by method.
    weights : dict of str -> list of k ndarrays of shape (seeds, epochs + 1, d)
    """

    grid: Array
    gap: dict[str, Array]
    weights: dict[str, list[Array]]

    def best(self, method: str) -> int:
        """Place in the grid of the method's own best step."""
        return int(np.argmin(self.gap[method].mean(axis=1)))


def measure_part(
    problem: Problem, y: Any, settings: dict[str, Any], progress: Progress | None = None
) -> Part:
    """Run all methods on a problem and measure."""
    start, seeds, epochs = time.perf_counter(), settings["seeds"], settings["epochs"]
    tell = _teller(progress)
    bench = Bench(problem, y)
    tell("optimum")
    optimum = find_optimum(problem)
    scale = curvature(problem.loss.name, float((problem.X * problem.X).sum()) / problem.n)
    search = _search(bench, optimum, first_steps(scale), settings, tell)
    best = search.best("SGD")  # the baseline's own choice, whatever it does to the others
    eta0 = float(search.grid[best])
    weights = {method: found[best] for method, found in search.weights.items()}
    tell("variances")
    measured = _measure_runs(bench, optimum, weights) | _measure_products(
        bench, weights["SGD-as"][0]
    )
    steps, runs = InverseTime(eta0), comparison_runs(seeds, problem.n)
    inside = {
        method: bench.inside(method, steps, seeds=max(seeds, runs // 2), epochs=epochs)
        for method in PAPER
    }
    tell("many runs")
    measured |= _measure_ends(bench, optimum, search, runs, epochs)
    measured |= _measure_extensions(bench, search, scale, settings, tell)
    return Part(
        name=settings["set"],
        loss=problem.loss.name,
        settings=settings,
        n=problem.n,
        d=problem.d,
        at_zero=problem.loss_at_zero(),
        optimum=optimum.value,
        optimum_error=optimum.error,
        w_star=optimum.coef,
        curvature=scale,
        eta0=eta0,
        decay=problem.penalty.l2,
        grid=search.grid,
        grid_gap=search.gap,
        jitter={method: jitter(curve) for method, curve in inside.items()},
        steps=mean_steps(problem, steps, epochs),
        labels=measures.label_shares(problem, bench.paper_table()),
        seconds=time.perf_counter() - start,
        **measured,
    )


def _teller(progress: Progress | None) -> Callable[[str], None]:
    """Return a function that reports the next stage."""
    stages = iter(range(STAGES))

    def tell(what: str) -> None:
        done = next(stages)
        if progress is not None:
            progress(what, done, STAGES)

    return tell


def _search(
    bench: Bench,
    optimum: Optimum,
    grid: Array,
    settings: dict[str, Any],
    tell: Callable[[str], None],
) -> _Search:
    problem, seeds, epochs = bench.problem, settings["seeds"], settings["epochs"]
    found = _Search(grid, {}, {})
    for method in METHODS:
        tell(method)
        found.weights[method] = [
            bench.weights(method, InverseTime(eta0), seeds=seeds, epochs=epochs) for eta0 in grid
        ]
        after = np.array([objectives(problem, runs[:, -1]) for runs in found.weights[method]])
        found.gap[method] = relative_gap(after, problem.loss_at_zero(), optimum.value)
    return found


def _measure_ends(
    bench: Bench, optimum: Optimum, search: _Search, runs: int, epochs: int
) -> dict[str, Any]:
    """Ends of many runs, with the first step that is best for SGD, and the method's own best."""
    best, own = search.best("SGD"), {method: search.best(method) for method in METHODS}
    found = {
        (method, at): _ends(bench, optimum, method, search.grid[at], runs, epochs)
        for method in METHODS
        for at in {best, own[method]}
    }
    return {
        "ends": {method: found[method, best] for method in METHODS},
        "own_ends": {method: found[method, own[method]] for method in METHODS},
    }


def _measure_extensions(
    bench: Bench,
    search: _Search,
    scale: float,
    settings: dict[str, Any],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Measure what the paper mentions besides its figures.

    Candidates for eta0 lie around the best at batch 2; larger batches allow larger steps.
    """
    seeds, epochs = settings["seeds"], settings["epochs"]
    runs, grid, best = comparison_runs(seeds, bench.problem.n), search.grid, search.best("SGD")
    tell("constant steps")
    constant_steps = extensions.constant_step_runs(bench, scale, seeds=seeds, epochs=epochs)
    tell("larger batches, L1")
    at = search.weights["SGD"][best][0, -1]
    larger, near = grid[max(0, best - 1) : best + 3], grid[max(0, best - 1) : best + 2]
    many = {"seeds": seeds, "runs": runs, "epochs": epochs}
    return {
        "constant_steps": constant_steps,
        "batches": extensions.larger_batches(bench, larger, at, **many),
        "non_smooth": extensions.non_smooth_penalty(bench, near, **many),
        "zero_one": extensions.zero_one_labels(bench, float(grid[best])),
    }


def _measure_runs(
    bench: Bench, optimum: Optimum, weights: dict[str, NDArray[np.float64]]
) -> dict[str, Any]:
    problem, tables = bench.problem, {"SGD": None, "SGD-as": bench.paper_table()}
    squares = {run: measures.squared_gradients(problem, weights[run]) for run in PAPER}
    # Independent rows at the weights of SGD-as are not needed.
    asked = {"SGD": ("SGD",), "SGD-as": PAPER}
    variance = {
        each: {run: measures.variances(problem, tables[each], weights[run]) for run in asked[each]}
        for each in PAPER
    }
    return {
        "objective": {method: objectives(problem, found) for method, found in weights.items()},
        "distance": {method: _distances(found, optimum.coef) for method, found in weights.items()},
        "variance": variance,
        "second_moment": {
            each: {run: variance[each][run] + squares[run] for run in asked[each]} for each in PAPER
        },
    }


def _ends(
    bench: Bench, optimum: Optimum, method: str, eta0: float, runs: int, epochs: int
) -> dict[str, Array]:
    """Objective and distance after many runs."""
    weights = bench.weights(method, InverseTime(eta0), seeds=runs, epochs=epochs)[:, -1]
    return {
        "eta0": np.array([eta0]),
        "objective": objectives(bench.problem, weights),
        "distance": _distances(weights, optimum.coef),
    }


def _distances(weights: NDArray[np.float64], w_star: Array) -> Array:
    found = np.linalg.norm(weights - w_star, axis=-1)
    return np.where(np.isnan(found), np.inf, found)


def _measure_products(bench: Bench, along: NDArray[np.float64]) -> dict[str, Any]:
    """Measure what concerns single pairs at the weights of one run, as far as these are finite."""
    problem, table = bench.problem, bench.paper_table()
    along = along[np.isfinite(along).all(axis=1)]
    return {
        "bias": measures.bias(problem, table, along),
        "products": measures.partner_products(problem, table, along),
        "ranks": measures.rank_correlations(problem, along),
        "ideal": measures.negative_pairs(problem, table, along),
    }
