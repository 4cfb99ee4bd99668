"""How gradients become weights: solvers see a problem and batches, never a pairing."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.penalties import ElasticNet
from antithetic.stochastic.solver import After, Choice, DivergenceError, Solver, SolverKind, State

__all__ = [
    "SOLVERS",
    "After",
    "DivergenceError",
    "Solver",
    "State",
    "check_solver",
    "exact_name",
    "make_solver",
]


def _make_sgd(
    problem: Problem, average: Any, steepest: float, watch: bool, threads: int | None
) -> Solver:
    """SGD's own kernels if they support the penalty, otherwise plain proximal steps."""
    if isinstance(problem, SoftmaxProblem):  # whose slopes are at most 1
        from antithetic.stochastic.softmax import make_softmax_sgd

        return make_softmax_sgd(problem, average, watch=watch, threads=threads)
    if isinstance(problem.penalty, ElasticNet):
        from antithetic.stochastic.sgd import make_sgd

        return make_sgd(problem, average, steepest=steepest, watch=watch)
    return _make_corrected("sgd", problem, average, steepest, watch, threads)


def _make_corrected(
    kind: str, problem: Problem, _average: Any, steepest: float, watch: bool, _threads: int | None
) -> Solver:
    from antithetic.stochastic.corrected import Corrected

    return Corrected(problem, kind, steepest, watch)


def _make_sdca(
    problem: Problem, _average: Any, _steepest: float, watch: bool, _threads: int | None
) -> Solver:
    from antithetic.stochastic.sdca import make_sdca

    return make_sdca(problem, watch=watch)


def _refuses(module: str, choice: Choice) -> str | None:
    """What the solver of a module refuses; the module is imported when it is asked."""
    found: str | None = import_module(f"{__name__}.{module}").refuses(choice)
    return found


def _of_one_score(module: str, choice: Choice) -> str | None:
    """The same, and a loss with several scores per row, for a solver that supports only one."""
    if choice.loss.has_classes:
        return (
            f'loss="softmax" is not supported with solver={choice.solver!r}; use solver="sgd",'
            " or LogisticRegression for a solution of high accuracy"
        )
    return _refuses(module, choice)


_corrected = partial(_of_one_score, "corrected")
SOLVERS = {
    "sgd": SolverKind(_make_sgd, partial(_refuses, "sgd")),
    "svrg": SolverKind(partial(_make_corrected, "svrg"), _corrected),
    "saga": SolverKind(partial(_make_corrected, "saga"), _corrected),
    "sdca": SolverKind(_make_sdca, partial(_of_one_score, "sdca"), has_steps=False),
}


_EXACT = {
    "log_loss": "LogisticRegression",
    "softmax": "LogisticRegression",
    "squared_error": "Ridge",
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "tweedie": "TweedieRegressor",
}
EXACT = (
    f"for Newton's method use {', '.join(sorted(set(_EXACT.values())))}, or antithetic.solve for"
    " any smooth loss"
)


def exact_name(loss: str) -> str:
    """Return the name of what minimises a smooth loss without steps or scaling."""
    return _EXACT.get(loss, "solve")


def check_solver(name: Any) -> str:
    """Return the name of a solver, or raise ValueError if it is not known."""
    if not isinstance(name, str) or name not in SOLVERS:
        hint = f"; {EXACT}" if name == "newton" else ""
        raise ValueError(f"solver {name!r} is not known; use one of {', '.join(SOLVERS)}{hint}")
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
