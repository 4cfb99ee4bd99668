r"""Step sizes: how long the step is, as a function of the steps and samples before it.

=================  ==========================================================================================
``inverse_time``   the paper's :math:`\eta_0 / (1 + \eta_0 \cdot \mathrm{decay} \cdot t)`, with t in
steps, 1 at the first ``constant``       :math:`\eta_0` ``optimal``        scikit-learn's :math:`1 /
(\alpha (t_0 + t))`, with t in samples and Bottou's choice of :math:`t_0` ``invscaling``
scikit-learn's :math:`\eta_0 / t^{\mathrm{power\_t}}`, with t in samples, 1 at the first
``adaptive``       :math:`\eta_0`, divided by 5 whenever the objective no longer falls by ``tol``
``pa1``            passive-aggressive: each row x with loss l takes its own :math:`\min(\eta_0, l /
|x|^2)`, the penalty :math:`\eta_0` ``pa2``            likewise with :math:`l / (|x|^2 + 1 / (2
\eta_0))`
=================  ==========================================================================================

The passive-aggressive ones need ``"hinge"`` or ``"epsilon_insensitive"``, of which the slope is -1,
0 or 1: a row then moves its own prediction to where its loss is zero, as far as :math:`\eta_0`
allows (Crammer et al., 2006). A batch takes the mean of its rows' steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from antithetic._core.schedules import (
    CONSTANT,
    INVERSE_TIME,
    INVSCALING,
    OPTIMAL,
    PA1,
    PA2,
    step_size,
)
from antithetic.problem.losses import EPSILON_INSENSITIVE, HINGE, Loss

_CODES = {
    "inverse_time": INVERSE_TIME,
    "constant": CONSTANT,
    "optimal": OPTIMAL,
    "invscaling": INVSCALING,
    "adaptive": CONSTANT,
    "pa1": PA1,
    "pa2": PA2,
}
_SMALLEST_ADAPTIVE_STEP = 1e-6
LOWERING = 5.0  # what an adaptive step is divided by


class Schedule(NamedTuple):
    """A rule for step sizes as numbers only, so that kernels can take it.

    ``rate`` is the decay of inverse_time, the alpha of optimal, the power of invscaling; ``start``
    is the t0 of optimal.
    """

    code: int
    eta0: float
    rate: float
    start: float


def make_schedule(
    name: str, *, eta0: float | None, decay: float, alpha: float, power_t: float, loss: Loss
) -> Schedule:
    """Check a schedule's parameters and turn them into numbers.

    Parameters
    ----------
    name : str
        One of the schedules above.
    eta0 : float or None
        First step size; needed by all but ``"optimal"``.
    decay : float
        Decay of ``"inverse_time"``.
    alpha : float
        Strength of the penalty, l2 + l1.
    power_t : float
        Exponent of ``"invscaling"``.
    loss : Loss
        ``"optimal"`` takes its first step size from the loss; ``"pa1"`` and ``"pa2"`` work with two
        losses only.
    """
    if name not in _CODES:
        raise ValueError(f"learning_rate {name!r} is not known; use one of {', '.join(_CODES)}")
    code = _CODES[name]
    if code == OPTIMAL:
        if alpha <= 0.0:
            raise ValueError(
                'learning_rate="optimal" needs l2 or l1 above 0; use "inverse_time" or "constant"'
                " without a penalty"
            )
        return Schedule(code, 0.0, alpha, _bottou_start(alpha, loss))
    if eta0 is None or not (math.isfinite(eta0) and eta0 > 0.0):
        raise ValueError(
            f"learning_rate={name!r} needs eta0, a finite number above 0; got {eta0!r}"
        )
    if code in (PA1, PA2) and loss.code not in (HINGE, EPSILON_INSENSITIVE):
        raise ValueError(
            f"Learning rate {name!r} only works with loss 'hinge' (or 'epsilon_insensitive' for"
            f" regression); got loss {loss.name!r}"
        )
    if code == INVERSE_TIME:
        rate = decay
    else:
        rate = power_t if code == INVSCALING else 0.0
    if code == INVERSE_TIME and not (math.isfinite(rate) and rate >= 0.0):
        raise ValueError(f"decay must be a finite number, at least 0; got {rate!r}")
    if code == INVSCALING and not math.isfinite(rate):
        raise ValueError(f"power_t must be a finite number; got {rate!r}")
    return Schedule(code, float(eta0), float(rate), 0.0)


def _bottou_start(alpha: float, loss: Loss) -> float:
    """Choose t0 so that the first step moves a typical weight by about its own size, as scikit-learn does."""
    typical_weight = math.sqrt(1.0 / math.sqrt(alpha))
    first_step = typical_weight / max(1.0, loss.slope(1.0, -typical_weight).item())
    return 1.0 / (first_step * alpha)


def can_be_lowered(schedule: Schedule) -> bool:
    """Whether an adaptive schedule's step may still be divided by ``LOWERING``."""
    return schedule.eta0 > _SMALLEST_ADAPTIVE_STEP
