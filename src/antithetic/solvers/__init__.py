"""How gradients become weights: solvers see a problem and batches, never a pairing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers import corrected, newton, sdca, sgd
from antithetic.solvers.choice import Choice, SolverKind
from antithetic.solvers.corrected import Corrected
from antithetic.solvers.divergence import DivergenceError
from antithetic.solvers.sdca import make_sdca
from antithetic.solvers.sgd import make_sgd
from antithetic.solvers.softmax import make_softmax_sgd
from antithetic.solvers.state import After, Solver, State

__all__ = ["SOLVERS", "After", "DivergenceError", "Solver", "State", "check_solver", "make_solver"]


def _make_sgd(
    problem: Problem, average: Any, steepest: float, watch: bool, threads: int | None
) -> Solver:
    """SGD's own kernels if they support the penalty, otherwise plain proximal steps."""
    if isinstance(problem, SoftmaxProblem):  # whose slopes are at most 1
        return make_softmax_sgd(problem, average, watch=watch, threads=threads)
    if isinstance(problem.penalty, ElasticNet):
        return make_sgd(problem, average, steepest=steepest, watch=watch)
    return Corrected(problem, "sgd", steepest, watch)


def _make_corrected(
    kind: str, problem: Problem, _average: Any, steepest: float, watch: bool, _threads: int | None
) -> Solver:
    return Corrected(problem, kind, steepest, watch)


def _make_sdca(
    problem: Problem, _average: Any, _steepest: float, watch: bool, _threads: int | None
) -> Solver:
    return make_sdca(problem, watch=watch)


def _make_newton(
    problem: Problem, _average: Any, _steepest: float, watch: bool, _threads: int | None
) -> Solver:
    return newton.make_newton(problem, watch=watch)


def _of_one_score(refuses: Callable[[Choice], str | None]) -> Callable[[Choice], str | None]:
    """Refuse a loss with several scores per row in a solver that supports only one."""

    def refuses_classes(choice: Choice) -> str | None:
        if choice.loss.has_classes:
            return (
                f'loss="softmax" is not supported with solver={choice.solver!r}; use solver="sgd",'
                " or LogisticRegression for a solution of high accuracy"
            )
        return refuses(choice)

    return refuses_classes


_corrected = _of_one_score(corrected.refuses)
SOLVERS = {
    "sgd": SolverKind(_make_sgd, sgd.refuses),
    "svrg": SolverKind(partial(_make_corrected, "svrg"), _corrected),
    "saga": SolverKind(partial(_make_corrected, "saga"), _corrected),
    "sdca": SolverKind(_make_sdca, _of_one_score(sdca.refuses), has_steps=False),
    "newton": SolverKind(_make_newton, _of_one_score(newton.refuses), has_steps=False),
}


def check_solver(name: Any) -> str:
    """Return the name of a solver, or raise ValueError if it is not known."""
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
    threads: int | None = None,
) -> Solver:
    """Return a solver by name; ``threads=None`` means as many as BLAS would use."""
    return SOLVERS[check_solver(name)].make(problem, average, steepest, watch, threads)
