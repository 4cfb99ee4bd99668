"""The choices of a run, as far as they are known before data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from antithetic.problem.penalties import ElasticNet, GroupNorms, Penalty

if TYPE_CHECKING:
    from antithetic.orders import Order
    from antithetic.problem.losses import Loss
    from antithetic.solvers.state import Solver
    from antithetic.solvers.steps import Steps


class Choice(NamedTuple):
    """One choice on each axis; an ``order`` of None works with everything."""

    solver: str
    order: Order | None
    penalty: Penalty
    loss: Loss
    steps: Steps
    average: bool | int | str = False
    fit_intercept: bool = False

    @property
    def has_kink(self) -> bool:
        """Whether the slope of the loss jumps."""
        return not math.isfinite(self.loss.largest_curvature)

    @property
    def penalty_name(self) -> str:
        """Name of the penalty's kind: none, l2, l1, elastic net, group lasso or own."""
        return name_penalty(self.penalty)

    def refuses_average(self) -> str | None:
        """Refuse averaging, if it was asked for."""
        if not self.average:
            return None
        names = {"group lasso": "penalty=GroupLasso(...)", "own": "a penalty of your own"}
        with_what = f'solver="{self.solver}"'
        if self.solver == "sgd":
            with_what = names[self.penalty_name]
        return f"average= is not supported with {with_what}; leave it out"


@dataclass(frozen=True, slots=True)
class SolverKind:
    """How a solver is made for a problem, and what it refuses.

    Attributes
    ----------
    make : callable
        ``make(problem, average, steepest, watch, threads) -> Solver``
    refuses : callable
        From a :class:`Choice` to why it is not supported and what to use instead, or None.
    has_steps : bool, default=True
        Whether it steps along gradients of batches, by a step size.
    """

    make: Callable[..., Solver]
    refuses: Callable[[Choice], str | None]
    has_steps: bool = True


def name_penalty(penalty: Penalty) -> str:
    """Name of a penalty's kind."""
    if isinstance(penalty, ElasticNet):
        names = {(0, 0): "none", (1, 0): "l2", (0, 1): "l1", (1, 1): "elastic net"}
        return names[int(penalty.l2 > 0.0), int(penalty.l1 > 0.0)]
    return "group lasso" if isinstance(penalty, GroupNorms) else "own"
