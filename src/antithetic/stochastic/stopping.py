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
    """End a run when the objective no longer falls.

    As in scikit-learn, the objective is measured during the epoch: each row's loss just before the
    step, plus the penalty. ``Adaptive`` steps are lowered instead of ending
    the run.

    Parameters
    ----------
    tol : float
        By how much the objective must fall below the best value so far.
    epochs : int, default=5
        The run ends after this many epochs in a row without such a fall.
    of : str, default="objective"
        What has to fall: the objective, or a name in the trace. If the name ends with "score",
        larger is better.
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
                f'of= of Stalled must be "objective" or a name in the trace; got {of!r}'
            )


@dataclass(frozen=True, eq=False, repr=False)
class Target(Settings):
    """End a run once an optimality measure is small enough; the measure is added to the trace.

    Parameters
    ----------
    of : {"gradient", "gap"}
        The norm of the gradient mapping (the gradient, where the penalty is smooth), or a bound on
        (f - f*) / (f(0) - f*) from the duality gap, which needs an L2 penalty (L1 may be added to
        it) and no intercept. It is infinite while zero weights are better.
    tol : float
        The run ends when the measure is at most this.
    """

    of: str
    tol: float

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or self.of not in TARGETS:
            raise ValueError(f"of= of Target must be one of {', '.join(TARGETS)}; got {self.of!r}")
        object.__setattr__(self, "tol", _check_tol(self.tol, "Target"))


Stop = Stalled | Target | None


def check_stop(stop: Any) -> Stop:
    """Return a stopping rule."""
    if stop is None or isinstance(stop, (Stalled, Target)):
        return stop
    raise ValueError(
        'stop must be None, Stalled(tol), Target("gradient", tol) or Target("gap", tol); got'
        f" {stop!r}"
    )


def _check_tol(tol: Any, owner: str) -> float:
    if isinstance(tol, bool) or not isinstance(tol, Real) or math.isnan(tol):
        raise ValueError(f"tol of {owner} must be a number; got {tol!r}")
    return float(tol)
