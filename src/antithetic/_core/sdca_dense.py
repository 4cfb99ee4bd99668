"""One epoch of SDCA on dense rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import dual_arguments
from antithetic._core.dual_arguments import FURTHER, QUEUE, DualModel, DualRows, DualRule
from antithetic._core.jit import jit, jit_sums, prefetch
from antithetic._core.loss_kernels import dual_step, value

rest_limit = jit(dual_arguments.rest_limit)

_ONE = np.uintp(1)
_AHEAD = np.uintp(10)  # rows between the one that is used and the one that is prefetched
_CACHE_LINE = 64


@jit_sums
def dense_dual_epoch(
    X: NDArray[Any], rows: DualRows, rule: DualRule, model: DualModel
) -> tuple[float, int, int]:
    """Maximise the dual over one row's variable after the other.

    Return the sum of the losses met, and how many rows were looked at and how many moved.
    """
    order, y, weight, squares = rows
    coef, duals, signed, limits = model
    real, zero = X.dtype.type, X.dtype.type(0.0)
    flat, d, n = X.reshape(X.size), np.uintp(X.shape[1]), np.uintp(len(order))
    line = np.uintp(_CACHE_LINE // X.itemsize)
    resting = len(limits) > 0
    gone, reach, met, seen, moved = rule.gone, math.sqrt(rule.gone), 0.0, 0, 0
    queue, places = np.empty(QUEUE, order.dtype), np.empty(QUEUE, order.dtype)
    start = np.uintp(0)
    while start < n:
        # the coming rows that may move, also when the weights have gone somewhat further: only
        # these are worth a prefetch
        most, m = FURTHER * reach, np.uintp(0)
        while start < n and m < QUEUE:
            queue[m], places[m] = order[start], start
            m += np.uintp(limits[order[start]] <= most) if resting else _ONE
            start += _ONE
        for k in range(m):
            if k + _AHEAD < m:
                coming = queue[k + _AHEAD]
                prefetch(y, coming)
                prefetch(duals, coming)
                prefetch(squares, coming)
                for place in range(coming * d, coming * d + d, line):
                    prefetch(flat, place)
                prefetch(flat, coming * d + d - _ONE)
            i = queue[k]
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
            seen += 1
            if after == before:
                continue
            duals[i] = after
            moved += 1
            move = real((after - before) * rule.share)
            for c in range(d):
                coef[c] += move * X[i, c]
            if resting:
                gone += move * (
                    2.0 * (prediction - y[i] * (1.0 + signed[i] * math.sqrt(squares[i])))
                    + move * squares[i]
                )
                reach = math.sqrt(max(gone, rule.gone_at_least))
                limits[i] = rest_limit(rule.loss, y[i], heft, after, signed[i])
                if reach > most:  # rows that were passed over may move
                    start = places[k] + _ONE
                    break
    return met, seen, moved


@jit
def rest_limits(
    loss: int, rows: DualRows, duals: NDArray[np.float64], predictions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both arrays of :class:`_Resting`, from the predictions at the reference.

    The same for dense and sparse rows.
    """
    signed, limits = np.empty(len(duals)), np.empty(len(duals))
    for i in range(len(duals)):
        heft, short = (
            rows.weight[i] if len(rows.weight) > 0 else 1.0,
            rows.y[i] * predictions[i] - 1.0,
        )
        signed[i] = (
            short / math.sqrt(rows.squares[i])
            if rows.squares[i] > 0.0
            else math.copysign(math.inf, short)
        )
        limits[i] = rest_limit(loss, rows.y[i], heft, duals[i], signed[i])
    return signed, limits
