"""What is recorded of a run: objective, optimality, exact variance of its batches, how well its order balances, distance to a solution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import check_coef
from antithetic.orders import ONCE_PER_EPOCH, batch_variance, largest_partial_sum, order_variance
from antithetic.pairing import GroupTable
from antithetic.problem import Problem, ratio
from antithetic.problem.optimality import (
    check_gap,
    check_gradient,
    duality_gap,
    gradient_mapping_norm,
)
from antithetic.solvers import SgdState
from antithetic.training.tables import Tables

TRACES = ("objective", "gradient", "gap", "variance", "variance_ratio", "partial_sum", "distance")


def check_trace(
    names: tuple[str, ...], solver: str, sampling: Any, problem: Problem | None = None
) -> None:
    """Raise ValueError for names that are not known, or mean nothing with a solver, a sampling or, if one is given, a problem."""
    for name in names:
        if name not in TRACES:
            raise ValueError(f"trace {name!r} is not known; use some of {', '.join(TRACES)}")
    if solver == "sdca" and {"variance", "variance_ratio"} & set(names):
        raise ValueError('solver="sdca" steps along no gradient that could vary; use trace="gap"')
    if sampling in ("importance", "stratified") and "partial_sum" in names:
        raise ValueError(
            f'trace="partial_sum" is of orders, and sampling={sampling!r} has none; use'
            ' trace="variance"'
        )
    if problem is not None and "gradient" in names:
        check_gradient(problem)
    if problem is not None and "gap" in names:
        check_gap(problem)


def measure_state(
    names: tuple[str, ...], tables: Tables, state: SgdState, w_star: Any = None
) -> dict[str, float]:
    """Measure a state.

    What concerns batches is that of the epoch to come, at the present weights, if the present table
    is kept for it.
    """
    problem, measured = tables.problem, {"epoch": float(state.epochs)}
    if "objective" in names:
        known = not np.isnan(state.objective)
        measured["objective"] = state.objective if known else problem.objective(*state.solution)
    if "gradient" in names:
        measured["gradient"] = gradient_mapping_norm(problem, *state.solution)
    if "gap" in names:
        measured["gap"] = duality_gap(
            problem, *state.solution, dual=state.memory if state.is_dual else None
        )
    if {"variance", "variance_ratio", "partial_sum"} & set(names):
        slopes = problem.slopes(state.coef, state.intercept)
        measured |= _measure_batches(names, tables, state, slopes)
    if "distance" in names:
        measured["distance"] = float(
            np.linalg.norm(state.solution[0] - check_coef(w_star, problem.d, "w_star"))
        )
    return measured


def _measure_batches(
    names: tuple[str, ...], tables: Tables, state: SgdState, slopes: NDArray[np.float64]
) -> dict[str, float]:
    problem, measured = tables.problem, {}
    if "variance" in names or "variance_ratio" in names:
        once = isinstance(tables.table, GroupTable) and tables.sampling in ONCE_PER_EPOCH
        if (
            callable(tables.sampling) or tables.sampling in ("balanced", "in order") or once
        ):  # an order, not a draw
            own = order_variance(
                problem, tables.followed(state), tables.sampler().batches(state.epochs, state.order)
            )
        else:
            followed = tables.followed(state)
            chances = tables.chances(followed)
            own = batch_variance(
                problem, followed, tables.table, tables.sampling, tables.batch_size, **chances
            )
        measured["variance"] = own
        measured["variance_ratio"] = ratio(
            own, batch_variance(problem, slopes, None, "uniform", tables.batch_size)
        )
    if "partial_sum" in names:
        rows = tables.sampler().batches(state.epochs, state.order).rows
        random = np.random.default_rng((tables.seed, state.epochs)).permutation(problem.n)
        measured["partial_sum"] = ratio(
            largest_partial_sum(problem, slopes, rows), largest_partial_sum(problem, slopes, random)
        )
    return {name: value for name, value in measured.items() if name in names}
