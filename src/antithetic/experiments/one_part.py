"""Run everything on one set with one loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import thread_map
from antithetic.experiments import extensions, measures
from antithetic.experiments.optimum import Optimum, find_optimum
from antithetic.experiments.parts import Array, Part, relative_gap
from antithetic.experiments.runs import Bench, inverse_time, jitter, mean_steps, objectives
from antithetic.experiments.settings import (
    METHODS,
    PAPER,
    comparison_runs,
    curvature,
    first_steps,
    load,
    part_settings,
)
from antithetic.problem import Problem

Progress = Callable[[str, int, int], object]
"""Told what is being done, how many stages of how many are behind it."""
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
        Told ``(what, done, total)`` before each stage.

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
    with thread_map(
        1
        # thousands of small products: on a busy machine threads of BLAS that wait for each other made
        # it 4 times slower
    ):
        return measure_part(problem, y, settings, progress)


def measure_part(
    problem: Problem, y: Any, settings: dict[str, Any], progress: Progress | None = None
) -> Part:
    """Run all methods on a problem and measure."""
    start, seeds, epochs = time.perf_counter(), settings["seeds"], settings["epochs"]
    stages = iter(range(STAGES))

    def tell(what: str) -> None:
        done = next(stages)
        if progress is not None:
            progress(what, done, STAGES)

    bench, at_zero = Bench(problem, y), problem.loss_at_zero()
    tell("optimum")
    optimum = find_optimum(problem)
    scale = curvature(problem.loss.name, float((problem.X * problem.X).sum()) / problem.n)
    grid, grid_gap = first_steps(scale), dict[str, Array]()
    ends = dict[str, list[NDArray[np.float64]]]()
    for method in METHODS:
        tell(method)
        ends[method] = [
            bench.weights(method, inverse_time(problem, eta0), seeds=seeds, epochs=epochs)
            for eta0 in grid
        ]
        after = np.array([objectives(problem, weights[:, -1]) for weights in ends[method]])
        grid_gap[method] = relative_gap(after, at_zero, optimum.value)
    bests = {method: int(np.argmin(gaps.mean(axis=1))) for method, gaps in grid_gap.items()}
    best = bests["SGD"]  # the baseline's own choice, whatever it does to the others
    eta0 = float(grid[best])
    weights = {method: found[best] for method, found in ends.items()}
    tell("variances")
    measured = _measure_runs(bench, optimum, weights) | _measure_products(
        bench, weights["SGD-as"][0]
    )
    schedule, runs = inverse_time(problem, eta0), comparison_runs(seeds, problem.n)
    inside = {
        method: bench.inside(method, schedule, seeds=max(seeds, runs // 2), epochs=epochs)
        for method in PAPER
    }
    tell("many runs")
    own = {
        (method, at): _ends(bench, optimum, method, grid[at], runs, epochs)
        for method in METHODS
        for at in {best, bests[method]}
    }
    tell("constant steps")
    constant_steps = extensions.constant_step_runs(bench, scale, seeds=seeds, epochs=epochs)
    tell(
        "larger batches, L1"
    )  # with candidates for eta0 around the best at batch 2; larger batches allow larger steps
    batches = extensions.larger_batches(
        bench,
        grid[max(0, best - 1) : best + 3],
        weights["SGD"][0, -1],
        seeds=seeds,
        runs=runs,
        epochs=epochs,
    )
    non_smooth = extensions.non_smooth_penalty(
        bench, grid[max(0, best - 1) : best + 2], seeds=seeds, runs=runs, epochs=epochs
    )
    return Part(
        name=settings["set"],
        loss=problem.loss.name,
        settings=settings,
        n=problem.n,
        d=problem.d,
        at_zero=at_zero,
        optimum=optimum.value,
        optimum_error=optimum.error,
        w_star=optimum.coef,
        curvature=scale,
        eta0=eta0,
        decay=problem.penalty.l2,
        grid=grid,
        grid_gap=grid_gap,
        ends={method: own[method, best] for method in METHODS},
        own_ends={method: own[method, bests[method]] for method in METHODS},
        jitter={method: jitter(curve) for method, curve in inside.items()},
        steps=mean_steps(schedule, problem.n, epochs),
        labels=measures.label_shares(problem, bench.paper_table()),
        constant_steps=constant_steps,
        batches=batches,
        non_smooth=non_smooth,
        zero_one=extensions.zero_one_labels(bench, eta0),
        seconds=time.perf_counter() - start,
        **measured,
    )


def _measure_runs(
    bench: Bench, optimum: Optimum, weights: dict[str, NDArray[np.float64]]
) -> dict[str, Any]:
    problem, tables = bench.problem, {"SGD": None, "SGD-as": bench.paper_table()}
    squares = {run: measures.squared_gradients(problem, weights[run]) for run in PAPER}
    asked = {
        "SGD": ("SGD",),
        "SGD-as": PAPER,
    }  # independent rows at the weights of SGD-as are not in question
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
    weights = bench.weights(method, inverse_time(bench.problem, eta0), seeds=runs, epochs=epochs)[
        :, -1
    ]
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
