"""The losses in plain Python: the twins of the formulas in ``_core/cpp/losses.hpp``."""

from __future__ import annotations

import math

from antithetic._core.losses import (
    EPSILON_INSENSITIVE,
    HINGE,
    HUBER,
    LOG_LOSS,
    MODIFIED_HUBER,
    PERCEPTRON,
    QUANTILE,
    SQUARED_EPSILON_INSENSITIVE,
    SQUARED_ERROR,
    SQUARED_HINGE,
    TWEEDIE,
)


def value(code: int, epsilon: float, y: float, p: float) -> float:
    """Loss of the prediction ``p`` for ``y``: infinite only where the true value is, never NaN."""
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
    if code == QUANTILE:
        return epsilon * (y - p) if p < y else (1.0 - epsilon) * (p - y)
    if code == TWEEDIE:
        return _tweedie_deviance(epsilon, y, p) / 2.0
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
    if code == QUANTILE:
        return -epsilon if p < y else 1.0 - epsilon if p > y else 0.0
    if code == TWEEDIE:
        mean = math.exp(p)
        return mean ** (2.0 - epsilon) - y * mean ** (1.0 - epsilon)
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


def _tweedie_deviance(power: float, y: float, p: float) -> float:
    """Unit deviance of the mean exp(p), as it is written in textbooks."""
    mean = math.exp(p)
    if power == 1.0:
        return 2.0 * ((y * math.log(y / mean) if y > 0.0 else 0.0) - y + mean)
    if power == 2.0:
        return 2.0 * (math.log(mean / y) + y / mean - 1.0)
    a, b = 1.0 - power, 2.0 - power
    return 2.0 * (y**b / (a * b) - y * mean**a / a + mean**b / b)


def curvature(code: int, epsilon: float, y: float, p: float) -> float:
    """Second derivative of a smooth loss in ``p``."""
    margin, error = y * p, abs(y - p)
    if code == LOG_LOSS:
        share = 1.0 / (1.0 + math.exp(-abs(margin)))
        return share * (1.0 - share)
    if code == SQUARED_HINGE:
        return 2.0 if margin < 1.0 else 0.0
    if code == MODIFIED_HUBER:
        return 2.0 if -1.0 <= margin < 1.0 else 0.0
    if code == HUBER:
        return 1.0 if error <= epsilon else 0.0
    if code == SQUARED_EPSILON_INSENSITIVE:
        return 2.0 if error > epsilon else 0.0
    if code == TWEEDIE:
        mean, a, b = math.exp(p), 2.0 - epsilon, epsilon - 1.0
        return a * mean**a + b * y * mean**-b
    return 1.0  # SQUARED_ERROR


def conjugate(code: int, epsilon: float, y: float, u: float) -> float:
    r"""Convex conjugate: infinite where the loss never has the slope ``u``, never NaN."""
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
_LAST_STEP = 1e-8  # convergence is quadratic: the error is below rounding after such a step


def dual_step(code: int, y: float, weight: float, a: float, p: float, q: float) -> float:
    r"""Best dual variable b of one row, all others kept: b = -s phi'(y, p + q (b - a)).

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
