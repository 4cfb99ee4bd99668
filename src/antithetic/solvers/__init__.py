"""How the gradient is used: solvers see a problem and batches, never a pairing."""

from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.corrected import Corrected, check_shrinking, safe_step
from antithetic.solvers.run import (
    Care,
    DivergenceError,
    Patience,
    Solver,
    Target,
    advice,
    lower,
    run,
)
from antithetic.solvers.sdca import Sdca, make_sdca
from antithetic.solvers.sgd import Sgd, SgdState, make_sgd
from antithetic.solvers.step_search import NOISE_OF_A_MEAN, Steps, find_steps, noise_of_balanced

__all__ = [
    "NOISE_OF_A_MEAN",
    "SOLVERS",
    "Care",
    "Corrected",
    "DivergenceError",
    "Patience",
    "Sdca",
    "Sgd",
    "SgdState",
    "Solver",
    "Steps",
    "Target",
    "advice",
    "check_shrinking",
    "find_steps",
    "lower",
    "make_sdca",
    "make_sgd",
    "make_solver",
    "noise_of_balanced",
    "run",
    "safe_step",
]

SOLVERS = ("sgd", "svrg", "saga", "sdca")


def make_solver(
    name: str,
    problem: Problem,
    average: bool | int | str,
    *,
    steepest: float = float("inf"),
    watch: bool = False,
) -> Solver:
    """Return a solver by name.

    Where SGD's own kernels do not know the penalty, plain proximal steps.
    """
    if name == "sdca":
        return make_sdca(problem, watch=watch)
    if name == "sgd" and isinstance(problem.penalty, ElasticNet):
        return make_sgd(problem, average, steepest=steepest, watch=watch)
    if name not in SOLVERS:
        raise ValueError(f"solver {name!r} is not known; use one of {', '.join(SOLVERS)}")
    return Corrected(problem, name, steepest, watch)
