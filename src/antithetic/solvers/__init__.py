"""How gradients become weights: solvers see a problem and batches, never a pairing."""

from __future__ import annotations

from functools import partial
from typing import Any

from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers import corrected, newton, sdca, sgd
from antithetic.solvers.choice import SolverKind
from antithetic.solvers.corrected import Corrected
from antithetic.solvers.divergence import DivergenceError
from antithetic.solvers.sdca import make_sdca
from antithetic.solvers.sgd import make_sgd
from antithetic.solvers.state import After, Solver, State

__all__ = ["SOLVERS", "After", "DivergenceError", "Solver", "State", "check_solver", "make_solver"]


def _make_sgd(problem: Problem, average: Any, steepest: float, watch: bool) -> Solver:
    """SGD's own kernels where they know the penalty, else plain proximal steps."""
    if isinstance(problem.penalty, ElasticNet):
        return make_sgd(problem, average, steepest=steepest, watch=watch)
    return Corrected(problem, "sgd", steepest, watch)


def _make_corrected(
    kind: str, problem: Problem, _average: Any, steepest: float, watch: bool
) -> Solver:
    return Corrected(problem, kind, steepest, watch)


def _make_sdca(problem: Problem, _average: Any, _steepest: float, watch: bool) -> Solver:
    return make_sdca(problem, watch=watch)


def _make_newton(problem: Problem, _average: Any, _steepest: float, watch: bool) -> Solver:
    return newton.make_newton(problem, watch=watch)


SOLVERS = {
    "sgd": SolverKind(_make_sgd, sgd.refuses),
    "svrg": SolverKind(partial(_make_corrected, "svrg"), corrected.refuses),
    "saga": SolverKind(partial(_make_corrected, "saga"), corrected.refuses),
    "sdca": SolverKind(_make_sdca, sdca.refuses, has_steps=False),
    "newton": SolverKind(_make_newton, newton.refuses, has_steps=False),
}


def check_solver(name: Any) -> str:
    """Return the name of a solver that there is."""
    if not isinstance(name, str) or name not in SOLVERS:
        raise ValueError(f"solver {name!r} is not known; use one of {', '.join(SOLVERS)}")
    return name


def make_solver(
    name: str,
    problem: Problem,
    average: bool | int | str = False,
    *,
    steepest: float = float("inf"),
    watch: bool = False,
) -> Solver:
    """Return a solver by name."""
    return SOLVERS[check_solver(name)].make(problem, average, steepest, watch)
