"""The losses compiled: the scalar functions, for other kernels, and whole arrays at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from antithetic import losses
from antithetic._jit import jit

value = jit(losses.value)
slope = jit(losses.slope)
conjugate = jit(losses.conjugate)
dual_step = jit(losses.dual_step)


@jit
def values(code: int, epsilon: float, y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = value(code, epsilon, y[i], p[i])
    return out


@jit
def slopes(code: int, epsilon: float, y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = slope(code, epsilon, y[i], p[i])
    return out


@jit
def conjugates(code: int, epsilon: float, y: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = conjugate(code, epsilon, y[i], u[i])
    return out


_AT_ONCE = 512  # factors of at most 2, whose product is far from overflowing


@jit
def mean_value(code: int, epsilon: float, y: NDArray[np.float64], p: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Weighted mean of the losses; no weights have length 0, and weight 0 beats an infinite loss."""
    total = 0.0
    if code == losses.LOG_LOSS and len(weight) == 0:  # one logarithm of a product instead of many logarithms
        for start in range(0, len(y), _AT_ONCE):
            product = 1.0
            for i in range(start, min(start + _AT_ONCE, len(y))):
                margin = y[i] * p[i]
                total += max(0.0, -margin)
                product *= 1.0 + math.exp(-abs(margin))
            total += math.log(product)
        return total / len(y)
    for i in range(len(y)):
        if len(weight) == 0:
            total += value(code, epsilon, y[i], p[i])
        elif weight[i] > 0.0:
            total += weight[i] * value(code, epsilon, y[i], p[i])
    return total / len(y)
