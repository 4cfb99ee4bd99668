"""The losses compiled: the scalar functions, for other kernels, and whole arrays at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from antithetic._core import losses
from antithetic._core.jit import jit, jit_sums

value = jit(losses.value)
slope = jit(losses.slope)
conjugate = jit(losses.conjugate)
dual_step = jit(losses.dual_step)


@jit
def values(
    code: int, epsilon: float, y: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = value(code, epsilon, y[i], p[i])
    return out


@jit
def slopes(
    code: int, epsilon: float, y: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = slope(code, epsilon, y[i], p[i])
    return out


@jit
def conjugates(
    code: int, epsilon: float, y: NDArray[np.float64], u: NDArray[np.float64]
) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = conjugate(code, epsilon, y[i], u[i])
    return out


_AT_ONCE = 512  # factors of at most 2, whose product is far from overflowing
# The last two add up to log(2).
_LOG2_E, _LOG_2, _LOG_2_REST = (1.4426950408889634, 0.693145751953125, 1.4286068203094172e-6)
_LEAST = -708.0  # where exp is about to leave the normal numbers
# The position of a float64's exponent, and the bits of the exponent of 1.
_EXPONENT, _BIAS = (np.int64(52), np.int64(1023 << 52))


@jit_sums
def _exp(x: float) -> float:
    """Exponential of a number that is not positive, to a relative error of 1e-13.

    It uses only operations that vectorise over rows.
    """
    x = _LEAST if x < _LEAST else x  # NaN stays
    k = np.floor(x * _LOG2_E + 0.5)
    # At most log(2) / 2: thirteen terms of the series are enough.
    r = (x - k * _LOG_2) - k * _LOG_2_REST
    p = r / 6227020800.0 + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # The bits of 2^k; NaN is not an integer.
    power = np.int64((np.int64(np.int32(k if k <= 0.0 else 0.0)) << _EXPONENT) + _BIAS)
    return p * power.view(np.float64)  # type: ignore[no-any-return]


@jit_sums
def _sum_of_log_losses(y: NDArray[np.float64], p: NDArray[np.float64]) -> float:
    """Sum of the logistic losses, by one logarithm of a product instead of many logarithms."""
    total = 0.0
    for start in range(0, len(y), _AT_ONCE):
        labels, predictions, product = y[start : start + _AT_ONCE], p[start : start + _AT_ONCE], 1.0
        for i in range(len(labels)):
            margin = labels[i] * predictions[i]
            total += max(0.0, -margin)
            product *= 1.0 + _exp(-abs(margin))
        total += math.log(product)
    return total


@jit
def mean_value(
    code: int,
    epsilon: float,
    y: NDArray[np.float64],
    p: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> float:
    """Weighted mean of the losses.

    No weights have length 0, and weight 0 beats an infinite loss.
    """
    if code == losses.LOG_LOSS and len(weight) == 0:
        return _sum_of_log_losses(y, p) / len(y)
    total = 0.0
    for i in range(len(y)):
        if len(weight) == 0:
            total += value(code, epsilon, y[i], p[i])
        elif weight[i] > 0.0:
            total += weight[i] * value(code, epsilon, y[i], p[i])
    return total / len(y)
