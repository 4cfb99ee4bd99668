"""The losses compiled: the two scalar functions, for other kernels, and whole arrays at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antithetic import losses
from antithetic._jit import jit

value = jit(losses.value)
slope = jit(losses.slope)


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
