r"""Step sizes: how long the next step is, as a function of the steps and samples before it.

==============  =================================================================================
`Auto`          `InverseTime` with a first step and a decay found from the data
`InverseTime`   the paper's :math:`\eta_0 / (1 + \eta_0 \cdot \mathrm{decay} \cdot t)`, t in steps
`Constant`      :math:`\eta_0`
`Optimal`       scikit-learn's :math:`1 / (\alpha (t_0 + t))`, t in samples, Bottou's :math:`t_0`
`InvScaling`    scikit-learn's :math:`\eta_0 / t^{\mathrm{power}}`, with t in samples
`Adaptive`      :math:`\eta_0`, divided by 5 whenever the objective no longer falls
`PA1`           passive-aggressive: each row x with loss l takes :math:`\min(\eta_0, l / |x|^2)`
`PA2`           passive-aggressive with :math:`l / (|x|^2 + 1 / (2 \eta_0))`
==============  =================================================================================

The passive-aggressive ones need ``"hinge"`` or ``"epsilon_insensitive"``, whose slope is -1, 0 or
1: a row then moves its own prediction to where its loss is zero, as far as :math:`\eta_0`
allows (Crammer et al., 2006). A batch takes the mean of its rows' steps, the penalty
:math:`\eta_0`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from antithetic._core.losses import EPSILON_INSENSITIVE, HINGE
from antithetic._core.schedules import CONSTANT, INVERSE_TIME, INVSCALING, OPTIMAL
from antithetic._core.schedules import PA1 as PA1_CODE
from antithetic._core.schedules import PA2 as PA2_CODE
from antithetic._util.settings import Settings
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet, Penalty

_SMALLEST_ADAPTIVE_STEP = 1e-6
LOWERING = 5.0  # what an adaptive step is divided by


class Schedule(NamedTuple):
    """A rule for step sizes as plain numbers, for the kernels.

    ``rate`` is the decay of InverseTime, the alpha of Optimal, the power of InvScaling; ``start``
    is the t0 of Optimal.
    """

    code: int
    eta0: float
    rate: float = 0.0
    start: float = 0.0


class Steps(Settings):
    """Base of the step sizes."""

    adapts: ClassVar[bool] = False

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:
        """Return the steps as numbers, for a problem with this loss and penalty."""
        raise NotImplementedError

    def refuses(self, solver: str, loss: Loss, penalty: Penalty) -> str | None:  # noqa: ARG002
        """Why these steps do not work with a solver, a loss or a penalty; None if they do."""
        return None


def _check_positive(name: str, value: Any, owner: str) -> float:
    is_number = not isinstance(value, bool) and isinstance(value, Real)
    if not (is_number and math.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} of {owner} must be a finite number above 0; got {value!r}")
    return float(value)


def _check_decay(value: Any, owner: str) -> float | None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if value is not None and not (is_number and math.isfinite(value) and value >= 0.0):
        raise ValueError(
            f"decay of {owner} must be a finite number, at least 0, or None; got {value!r}"
        )
    return None if value is None else float(value)


@dataclass(frozen=True, eq=False, repr=False)
class Auto(Steps):
    """Steps that are found from the data.

    For SGD these are `InverseTime` steps, found by a few passes over at most 1000 rows and checked
    during the run: an epoch that makes things worse is repeated with shorter steps, and the decay
    is halved if steps have become too short. For SVRG and SAGA it is a constant step from the
    smoothness of the loss.

    Parameters
    ----------
    decay : float or None, default=None
        Decay of the steps; None means the one found (SGD), or 0 (SVRG and SAGA).
    precondition : bool, default=False
        Whether SGD takes its steps in centred columns (with an intercept), each divided by its own
        spread, so that neither the units of the columns nor their offsets matter. The objective and
        its optimum do not change. The first step then follows from the spread of the rows, and one
        pass over some of them checks it; with many classes it is found by a search as before.
    """

    decay: float | None = None
    precondition: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay", _check_decay(self.decay, "Auto"))
        given: Any = self.precondition
        if not isinstance(given, bool):
            raise ValueError(f"precondition of Auto must be True or False; got {given!r}")

    def refuses(self, solver: str, loss: Loss, penalty: Penalty) -> str | None:
        """Why no step can be found; None if one can."""
        if self.precondition and (solver != "sgd" or not isinstance(penalty, ElasticNet)):
            return (
                'Auto(precondition=True) is for solver="sgd" with L2 or L1 penalties; leave'
                " precondition out"
            )
        if solver == "sdca" and self.decay is not None:
            return f'solver="{solver}" has no step size; leave the decay out'
        if solver not in ("svrg", "saga") or math.isfinite(loss.largest_curvature):
            return None
        is_l2 = isinstance(penalty, ElasticNet) and penalty.l2 > 0.0 == penalty.l1
        dual = ', or solver="sdca"' if loss.code == HINGE and is_l2 else ""
        if loss.is_smooth:
            return (
                f"the curvature of loss {loss.name!r} grows exponentially, so no step size for"
                f' solver={solver!r} follows from it; give a constant step, or use solver="sgd"'
            )
        return (
            f"loss {loss.name!r} has a kink, so no step size for solver={solver!r} follows from its"
            " smoothness; give a constant step, or use a loss without a kink, or"
            f' solver="sgd"{dual}'
        )


@dataclass(frozen=True, eq=False, repr=False)
class InverseTime(Steps):
    """The paper's ``eta0 / (1 + eta0 * decay * t)``, with t in steps, 1 at the first.

    Parameters
    ----------
    eta0 : float
        First step size.
    decay : float or None, default=None
        None means the strength of the L2 penalty.
    """

    eta0: float
    decay: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta0", _check_positive("eta0", self.eta0, "InverseTime"))
        object.__setattr__(self, "decay", _check_decay(self.decay, "InverseTime"))

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:  # noqa: ARG002
        """Return the steps as numbers."""
        decay = penalty.l2 if self.decay is None else self.decay
        return Schedule(INVERSE_TIME, self.eta0, float(decay))


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Steps):
    """Steps of one size.

    Parameters
    ----------
    eta0 : float
    """

    eta0: float

    def __post_init__(self) -> None:
        eta0 = _check_positive("eta0", self.eta0, type(self).__name__)
        object.__setattr__(self, "eta0", eta0)

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:  # noqa: ARG002
        """Return the steps as numbers."""
        return Schedule(CONSTANT, self.eta0)


@dataclass(frozen=True, eq=False, repr=False)
class Adaptive(Constant):
    """Steps of one size, divided by 5 whenever the objective no longer falls.

    It needs ``stop=Stalled(tol)``, which decides when that is the case.

    Parameters
    ----------
    eta0 : float
        First step size.
    """

    adapts: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, repr=False)
class Optimal(Steps):
    """scikit-learn's ``1 / (alpha * (t0 + t))``, with t in samples and t0 by a rule of Bottou.

    Parameters
    ----------
    alpha : float or None, default=None
        None means the strength of the penalty, L2 and L1 together.
    """

    alpha: float | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None:
            alpha = _check_positive("alpha", self.alpha, "Optimal")
            object.__setattr__(self, "alpha", alpha)

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:
        """Return the steps as numbers."""
        alpha = penalty.l2 + penalty.l1 if self.alpha is None else self.alpha
        return Schedule(OPTIMAL, 0.0, float(alpha), _bottou_start(alpha, loss))

    def refuses(self, solver: str, loss: Loss, penalty: Penalty) -> str | None:  # noqa: ARG002
        """They need a penalty."""
        if self.alpha is None and penalty.l2 + penalty.l1 <= 0.0:
            return "Optimal() steps need l2 or l1 above 0; use InverseTime or Constant instead"
        return None


@dataclass(frozen=True, eq=False, repr=False)
class InvScaling(Steps):
    """scikit-learn's ``eta0 / t ** power``, with t in samples, 1 at the first.

    Parameters
    ----------
    eta0 : float
        First step size.
    power : float, default=0.5
    """

    eta0: float
    power: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta0", _check_positive("eta0", self.eta0, "InvScaling"))
        power: Any = self.power
        is_number = not isinstance(power, bool) and isinstance(power, Real)
        if not (is_number and math.isfinite(power)):
            raise ValueError(f"power of InvScaling must be a finite number; got {self.power!r}")

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:  # noqa: ARG002
        """Return the steps as numbers."""
        return Schedule(INVSCALING, self.eta0, float(self.power))


@dataclass(frozen=True, eq=False, repr=False)
class PA1(Constant):
    """Passive-aggressive steps: ``min(eta0, l / |x|^2)`` for a row x with loss l.

    Parameters
    ----------
    eta0 : float
        Longest step.
    """

    code: ClassVar[int] = PA1_CODE

    def schedule(self, loss: Loss, penalty: Penalty) -> Schedule:  # noqa: ARG002
        """Return the steps as numbers."""
        return Schedule(self.code, self.eta0)

    def refuses(self, solver: str, loss: Loss, penalty: Penalty) -> str | None:
        """They work with SGD and two losses only."""
        name = type(self).__name__
        if solver != "sgd" or not isinstance(penalty, ElasticNet):
            return f'{name} is a rule for solver="sgd" with L2 or L1 penalties; use automatic steps'
        if loss.code not in (HINGE, EPSILON_INSENSITIVE):
            return (
                f"Learning rate {name.lower()!r} only works with loss 'hinge' (or"
                f" 'epsilon_insensitive' for regression); got loss {loss.name!r}"
            )
        return None


@dataclass(frozen=True, eq=False, repr=False)
class PA2(PA1):
    """Passive-aggressive steps: ``l / (|x|^2 + 1 / (2 eta0))`` for a row x with loss l.

    Parameters
    ----------
    eta0 : float
        The larger it is, the less the steps are damped.
    """

    code: ClassVar[int] = PA2_CODE


def read_steps(steps: Any, solver: str) -> Steps:
    """Return the steps that a word, a number or an object means.

    A number is the first step of `InverseTime`, the paper's rule; for SVRG and SAGA a constant one.

    Examples
    --------
    >>> from antithetic.stochastic.steps import read_steps
    >>> read_steps(0.1, "sgd"), read_steps(0.1, "saga"), read_steps("auto", "sgd")
    (InverseTime(0.1), Constant(0.1), Auto())
    """
    if isinstance(steps, Steps):
        return steps
    words: dict[str, type[Steps]] = {"auto": Auto, "optimal": Optimal}
    if isinstance(steps, str) and steps in words:
        return words[steps]()
    if not isinstance(steps, bool) and isinstance(steps, Real):
        number = float(steps)
        return InverseTime(number) if solver == "sgd" else Constant(number)
    given = repr(steps) if isinstance(steps, (str, type)) else f"of type {type(steps).__name__}"
    raise ValueError(
        f'steps {given} is not known; use "auto", "optimal", a first step size, or an object of'
        " antithetic.steps, say InverseTime(0.1) or Constant(0.1)"
    )


def _bottou_start(alpha: float, loss: Loss) -> float:
    """Choose t0 so that the first step moves a typical weight by about its own size."""
    typical_weight = math.sqrt(1.0 / math.sqrt(alpha))
    steepest = 1.0 if loss.has_classes else loss.slope(1.0, -typical_weight).item()
    first_step = typical_weight / max(1.0, steepest)
    return 1.0 / (first_step * alpha)


def can_be_lowered(schedule: Schedule) -> bool:
    """Whether an adaptive schedule's step may still be divided by ``LOWERING``."""
    return schedule.eta0 > _SMALLEST_ADAPTIVE_STEP
