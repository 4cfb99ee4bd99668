"""What is recorded of a run: objective, exact variance of its batches, how well its order balances, distance to a solution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._tables import Tables
from antithetic._validate import check_coef
from antithetic.pairing import GroupTable
from antithetic.problem import ratio
from antithetic.sampling import batch_variance, largest_partial_sum, order_variance
from antithetic.solvers import SgdState

TRACES = ("objective", "variance", "variance_ratio", "partial_sum", "distance")


def measure_state(names: tuple[str, ...], tables: Tables, state: SgdState, w_star: Any = None) -> dict[str, float]:
    """Measure a state; what concerns batches is that of the epoch to come, at the present weights, if the present table is kept for it."""
    problem, measured = tables.problem, {"epoch": float(state.epochs)}
    if "objective" in names:
        measured["objective"] = problem.objective(*state.solution)
    if {"variance", "variance_ratio", "partial_sum"} & set(names):
        slopes = problem.slopes(state.coef, state.intercept)
        measured |= _measure_batches(names, tables, state, slopes)
    if "distance" in names:
        measured["distance"] = float(np.linalg.norm(state.solution[0] - check_coef(w_star, problem.d, "w_star")))
    return measured


def _measure_batches(names: tuple[str, ...], tables: Tables, state: SgdState, slopes: NDArray[np.float64]) -> dict[str, float]:
    problem, measured = tables.problem, {}
    if "variance" in names or "variance_ratio" in names:
        if tables.sampling in ("balanced", "in order") or isinstance(tables.table, GroupTable):  # an order, not a draw
            own = order_variance(problem, slopes, tables.sampler().batches(state.epochs, state.order))
        else:
            own = batch_variance(problem, slopes, tables.table, tables.sampling, tables.batch_size)
        measured["variance"] = own
        measured["variance_ratio"] = ratio(own, batch_variance(problem, slopes, None, "uniform", tables.batch_size))
    if "partial_sum" in names:
        rows = tables.sampler().batches(state.epochs, state.order).rows
        random = np.random.default_rng((tables.seed, state.epochs)).permutation(problem.n)
        measured["partial_sum"] = ratio(largest_partial_sum(problem, slopes, rows), largest_partial_sum(problem, slopes, random))
    return {name: value for name, value in measured.items() if name in names}
