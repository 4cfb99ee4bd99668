r"""The losses: value and slope of one prediction, conjugate and dual step for solvers of the dual, and a dict of them by name.

A loss is :math:`\phi(y, p)` with the prediction ``p`` first multiplied by the sign ``y`` of a
binary label (margin losses) or compared with a number ``y`` (regression). Its slope is the
derivative in ``p``; at a kink, the one that scikit-learn takes.

``value``, ``slope``, ``conjugate`` and ``dual_step`` are plain scalar functions of an integer code,
because a compiled function passed as an argument would be compiled anew in every process. Kernels
compile them; everybody else uses :class:`Loss`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG_LOSS, HINGE, SQUARED_HINGE, MODIFIED_HUBER, PERCEPTRON = range(5)
SQUARED_ERROR, HUBER, EPSILON_INSENSITIVE, SQUARED_EPSILON_INSENSITIVE = range(5, 9)


def value(code: int, epsilon: float, y: float, p: float) -> float:
    """Loss of the prediction ``p`` for the label ``y``: infinite only where the true value exceeds the type, never NaN."""
    if code < SQUARED_ERROR:
        margin = y * p
        short = max(0.0, 1.0 - margin)
        if code == LOG_LOSS:
            return math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)
        if code == HINGE:
            return short
        if code == SQUARED_HINGE:
            return short * short
        if code == MODIFIED_HUBER:
            return short * short if margin >= -1.0 else -4.0 * margin
        return max(0.0, -margin)  # PERCEPTRON
    # half of |y - p| cannot overflow as the whole can; it is doubled last, so that only a true
    # value too large is infinite
    half = abs(0.5 * y - 0.5 * p)
    if code == SQUARED_ERROR or (code == HUBER and half <= 0.5 * epsilon):
        return 2.0 * half * half
    if code == HUBER:
        return 2.0 * (epsilon * (half - 0.25 * epsilon))
    excess = max(0.0, half - 0.5 * epsilon)
    return 2.0 * excess if code == EPSILON_INSENSITIVE else 4.0 * excess * excess


def slope(code: int, epsilon: float, y: float, p: float) -> float:
    """Derivative of the loss in ``p``."""
    if code < SQUARED_ERROR:
        margin = y * p
        if code == LOG_LOSS:
            tail = math.exp(-abs(margin))
            return -y * (tail if margin >= 0.0 else 1.0) / (1.0 + tail)
        if code == HINGE:
            return -y if margin <= 1.0 else 0.0
        if code == PERCEPTRON:
            return -y if margin <= 0.0 else 0.0
        if code == MODIFIED_HUBER and margin < -1.0:
            return -4.0 * y
        return -2.0 * y * max(0.0, 1.0 - margin)
    half = 0.5 * p - 0.5 * y
    if code == SQUARED_ERROR or (code == HUBER and abs(half) <= 0.5 * epsilon):
        return 2.0 * half
    sign = 1.0 if half > 0.0 else -1.0
    if code == HUBER:
        return sign * epsilon
    excess = max(0.0, abs(half) - 0.5 * epsilon)
    if code == EPSILON_INSENSITIVE:
        return sign if excess > 0.0 else 0.0
    return sign * 4.0 * excess


def conjugate(code: int, epsilon: float, y: float, u: float) -> float:
    r"""Convex conjugate :math:`\phi^*(u) = \sup_p\, p u - \phi(y, p)`: infinite where the loss never has the slope ``u``, never NaN."""
    if u == 0.0:
        return 0.0  # no loss is ever negative, and each is zero somewhere or tends to it
    if code < SQUARED_ERROR:
        push = -y * u
        most = 1.0
        if code == SQUARED_HINGE:
            most = math.inf
        elif code == MODIFIED_HUBER:
            most = 4.0
        if push < 0.0 or push > most:
            return math.inf
        if code == LOG_LOSS:
            return push * math.log(push) + (1.0 - push) * math.log1p(-push) if push < 1.0 else 0.0
        if code == PERCEPTRON:
            return 0.0
        return -push if code == HINGE else push * (0.25 * push - 1.0)
    size = abs(u)
    if (code == HUBER and size > epsilon) or (code == EPSILON_INSENSITIVE and size > 1.0):
        return math.inf
    # quarters cannot overflow as the sum of the wholes can
    centre = 0.25 * y if u > 0.0 else -0.25 * y
    if code <= HUBER:
        return 4.0 * (size * (centre + 0.125 * size))
    centre += 0.25 * epsilon
    return 4.0 * (size * (centre if code == EPSILON_INSENSITIVE else centre + 0.0625 * size))


def has_dual_step(code: int) -> bool:
    """Whether :func:`dual_step` knows the loss."""
    return code in (LOG_LOSS, HINGE, SQUARED_HINGE, SQUARED_ERROR)


_NEWTON_STEPS = 50  # never reached: it takes fewer than ten
_LAST_STEP = (
    1e-8  # convergence is quadratic: after a step as short as this, the error is below rounding
)


def dual_step(code: int, y: float, weight: float, a: float, p: float, q: float) -> float:
    r"""Best dual variable of one row, all others kept: the ``b`` with :math:`b = -s\,\phi'(y, p + q (b - a))`.

    Parameters
    ----------
    code : int
        Of a loss for which :func:`has_dual_step`.
    y, weight : float
        Label and weight s of the row, s > 0.
    a, p : float
        Its dual variable, and the prediction that goes with it.
    q : float
        By how much the prediction grows with the dual variable, at least 0.
    """
    if code == SQUARED_ERROR:
        return a + (weight * (y - p) - a) / (1.0 + weight * q)
    push, margin = y * a, y * p
    if code == HINGE:
        short = 1.0 - margin
        if short >= (weight - push) * q:  # compared before it is divided by: q may be 0
            return y * weight if short > 0.0 or q > 0.0 else a
        if -short >= push * q:
            return 0.0
        return y * min(max(push + short / q, 0.0), weight)
    if code == SQUARED_HINGE:
        return y * max(
            0.0, push + (2.0 * weight * (1.0 - margin) - push) / (1.0 + 2.0 * weight * q)
        )
    # LOG_LOSS: the new margin z solves z - low = reach / (1 + exp(z)). Mirrored where that is
    # negative, so that z >= 0: the right side less the left is convex there, and Newton's steps
    # that come from below never pass the root
    reach = weight * q
    low, high = margin - push * q, margin + (weight - push) * q
    mirrored = low + high <= 0.0
    if mirrored:
        low, margin = -high, -margin
    least = max(0.0, low)
    if reach > 4.0:  # a bound near the root, which may be log(reach) away from 0
        far = 1.0 + math.log(reach) + max(0.0, -low)
        if reach > 2.0 * far:
            least = max(least, math.log(0.5 * reach / far))
    z = max(least, margin)
    for _ in range(_NEWTON_STEPS):
        tail = math.exp(-z)
        share = tail / (1.0 + tail)
        before = z
        z = max(least, z - (z - low - reach * share) / (1.0 + reach * share / (1.0 + tail)))
        if abs(z - before) <= _LAST_STEP:
            break
    tail = math.exp(-z)
    return y * weight * ((1.0 if mirrored else tail) / (1.0 + tail))


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss by name, with its parameter.

    Parameters
    ----------
    name : str
        Its scikit-learn name.
    code : int
        What the kernels know it by.
    classification : bool
        Whether labels are two classes (mapped to -1 and +1) or numbers.
    curvature : float
        Bound on the second derivative in ``p``; infinite where the loss has a kink.
    epsilon : float, default=0.1
        Where ``"huber"`` turns from square to straight, and the insensitive zone of the epsilon
        losses; others ignore it.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from antithetic.losses import LOSSES
    >>> wide = replace(LOSSES["huber"], epsilon=2.0)
    >>> wide.value([1.0, 0.0], [0.0, 5.0])
    array([0.5, 8. ])
    """

    name: str
    code: int
    classification: bool
    curvature: float
    epsilon: float = 0.1

    @property
    def is_bounded(self) -> bool:
        """Whether its slopes are bounded, so that no step can be longer than eta times a row."""
        return self.code not in (SQUARED_HINGE, SQUARED_ERROR, SQUARED_EPSILON_INSENSITIVE)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise ValueError(f"epsilon must be a finite number, at least 0; got {self.epsilon!r}")

    def value(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Loss of each prediction, shape (n,)."""
        from antithetic._loss_kernels import values

        return values(self.code, self.epsilon, *_columns(y, p))

    def slope(self, y: Any, p: Any) -> NDArray[np.float64]:
        """Derivative of each loss in its prediction, shape (n,)."""
        from antithetic._loss_kernels import slopes

        return slopes(self.code, self.epsilon, *_columns(y, p))

    def conjugate(self, y: Any, u: Any) -> NDArray[np.float64]:
        """Convex conjugate in the prediction at each ``u``, shape (n,): infinite where the loss never has the slope ``u``."""
        from antithetic._loss_kernels import conjugates

        return conjugates(self.code, self.epsilon, *_columns(y, u))

    def mean(
        self, y: NDArray[np.float64], p: NDArray[np.float64], weight: NDArray[np.float64] | None
    ) -> float:
        """Mean of the weighted losses, each row counting as one.

        Float64 columns of one length, None for weights of 1.
        """
        from antithetic._jit import read_only
        from antithetic._loss_kernels import mean_value

        weights = np.empty(0) if weight is None else weight
        return mean_value(
            self.code,
            self.epsilon,
            read_only(np.ascontiguousarray(y)),
            read_only(p),
            read_only(weights),
        )


def _columns(y: Any, p: Any) -> list[NDArray[np.float64]]:
    """Labels and predictions as columns of one length, which kernels cannot write to."""
    from antithetic._jit import read_only

    given = [np.atleast_1d(np.asarray(column, dtype=np.float64)) for column in (y, p)]
    shape = np.broadcast_shapes(*(column.shape for column in given))
    return [
        read_only(np.ascontiguousarray(column) if column.shape == shape else np.full(shape, column))
        for column in given
    ]


LOSSES = {
    loss.name: loss
    for loss in (
        Loss("log_loss", LOG_LOSS, classification=True, curvature=0.25),
        Loss("hinge", HINGE, classification=True, curvature=math.inf),
        Loss("squared_hinge", SQUARED_HINGE, classification=True, curvature=2.0),
        Loss("modified_huber", MODIFIED_HUBER, classification=True, curvature=2.0),
        Loss("perceptron", PERCEPTRON, classification=True, curvature=math.inf),
        Loss("squared_error", SQUARED_ERROR, classification=False, curvature=1.0),
        Loss("huber", HUBER, classification=False, curvature=1.0),
        Loss("epsilon_insensitive", EPSILON_INSENSITIVE, classification=False, curvature=math.inf),
        Loss(
            "squared_epsilon_insensitive",
            SQUARED_EPSILON_INSENSITIVE,
            classification=False,
            curvature=2.0,
        ),
    )
}


def get_loss(loss: str | Loss) -> Loss:
    """Return a loss by name; a :class:`Loss` is returned as it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"loss {loss!r} is not known; use one of {', '.join(LOSSES)}")
    return LOSSES[loss]
