"""One epoch of SDCA on dense rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._jit import jit_sums, prefetch
from antithetic._loss_kernels import dual_step, value
from antithetic.solvers.sdca import DualRows, DualRule

_ONE = np.uintp(1)
_AHEAD = np.uintp(10)  # rows between the one that is used and the one that is prefetched
_CACHE_LINE = 64


@jit_sums
def dense_dual_epoch(X: NDArray[Any], rows: DualRows, rule: DualRule, coef: NDArray[Any], duals: NDArray[np.float64]) -> float:
    """Maximise the dual over one row's variable after the other; return the sum of the losses met."""
    order, y, weight, squares = rows
    real, zero = X.dtype.type, X.dtype.type(0.0)
    flat, d, n = X.reshape(X.size), np.uintp(X.shape[1]), np.uintp(len(order))
    line = np.uintp(_CACHE_LINE // X.itemsize)
    met = 0.0
    for k in range(n):
        if k + _AHEAD < n:
            coming = order[k + _AHEAD]
            prefetch(y, coming)
            prefetch(duals, coming)
            prefetch(squares, coming)
            for place in range(coming * d, coming * d + d, line):
                prefetch(flat, place)
            prefetch(flat, coming * d + d - _ONE)
        i = order[k]
        heft = weight[i] if len(weight) > 0 else 1.0
        if heft == 0.0:
            continue
        product = zero
        for c in range(d):
            product += X[i, c] * coef[c]
        prediction, before = np.float64(product), duals[i]
        if rule.watch:
            met += heft * value(rule.loss, 0.0, y[i], prediction)
        after = dual_step(rule.loss, y[i], heft, before, prediction, squares[i] * rule.share)
        if after == before:
            continue
        duals[i] = after
        move = real((after - before) * rule.share)
        for c in range(d):
            coef[c] += move * X[i, c]
    return met
