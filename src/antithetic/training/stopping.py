"""When a run ends before its last epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from antithetic._util.settings import Settings
from antithetic._util.validation import check_count

TARGETS = ("gradient", "gap")


@dataclass(frozen=True, eq=False, repr=False)
class Stalled(Settings):
    """End when the objective no longer falls.

    It is the objective met on the way, as in scikit-learn: each row's loss just before the step
    that it takes part in, plus the penalty. With ``Adaptive`` steps, these are lowered instead.

    Parameters
    ----------
    tol : float
        By how much it has to fall below the best before.
    epochs : int, default=5
        After so many epochs in a row without that, the run ends.
    of : str, default="objective"
        What has to fall: the objective, or something in the trace, of which larger is better if its
        name ends with "score".
    """

    tol: float
    epochs: int = 5
    of: str = "objective"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", _check_tol(self.tol, "Stalled"))
        object.__setattr__(self, "epochs", check_count(self.epochs, "epochs of Stalled", least=1))
        of: Any = self.of
        if not isinstance(of, str):
            raise ValueError(
                f'of of Stalled must be "objective", or a name in the trace; got {of!r}'
            )


@dataclass(frozen=True, eq=False, repr=False)
class Target(Settings):
    """End once an optimality measure is small enough; it is in the trace.

    Parameters
    ----------
    of : {"gradient", "gap"}
        The norm of the gradient mapping (the gradient, where the penalty is smooth), or the
        duality gap, which needs an L2 penalty, beside which L1 is allowed, and no intercept.
    tol : float
        The run ends when the measure is at most this.
    """

    of: str
    tol: float

    def __post_init__(self) -> None:
        if self.of not in TARGETS:
            raise ValueError(f"Target {self.of!r} is not known; use one of {', '.join(TARGETS)}")
        object.__setattr__(self, "tol", _check_tol(self.tol, "Target"))


Stop = Stalled | Target | None


def check_stop(stop: Any) -> Stop:
    """Return a rule for the end of a run."""
    if stop is None or isinstance(stop, (Stalled, Target)):
        return stop
    raise ValueError(
        f"stop must be None, Stalled(tol) or Target({' | '.join(TARGETS)}, tol); got"
        f" {type(stop).__name__}"
    )


def _check_tol(tol: Any, owner: str) -> float:
    if isinstance(tol, bool) or not isinstance(tol, Real) or math.isnan(tol):
        raise ValueError(f"tol of {owner} must be a number; got {tol!r}")
    return float(tol)
