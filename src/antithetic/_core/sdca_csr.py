"""One epoch of SDCA on sparse rows: a visit costs only the stored entries of its row."""

from __future__ import annotations

import math

import numpy as np

from antithetic._core import dual_arguments
from antithetic._core.dual_arguments import FURTHER, QUEUE, DualModel, DualRows, DualRule, Entries
from antithetic._core.jit import jit, prefetch
from antithetic._core.loss_kernels import dual_step, value

rest_limit = jit(dual_arguments.rest_limit)

_ONE, _TWO, _THREE, _FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
# Rows ahead whose entries, and whose place, are prefetched.
_ENTRIES_AHEAD, _STARTS_AHEAD = (np.uintp(4), np.uintp(16))
_CACHE_LINE = 64


@jit
def csr_dual_epoch(
    entries: Entries, rows: DualRows, rule: DualRule, model: DualModel
) -> tuple[float, int, int]:
    """Maximise the dual over one row's variable after the other.

    The same visits as on dense rows, and what is returned.
    """
    data, indices, indptr = entries
    order, y, weight, squares = rows
    coef, duals, signed, limits = model
    real, n, line = data.dtype.type, np.uintp(len(order)), np.uintp(_CACHE_LINE // data.itemsize)
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
            if k + _STARTS_AHEAD < m:
                coming = queue[k + _STARTS_AHEAD]
                prefetch(indptr, coming)
                prefetch(y, coming)
                prefetch(duals, coming)
                prefetch(squares, coming)
            if k + _ENTRIES_AHEAD < m:
                coming = queue[k + _ENTRIES_AHEAD]
                for place in range(indptr[coming], indptr[coming + _ONE], line):
                    prefetch(data, place)
                    prefetch(indices, place)
            i = queue[k]
            heft = weight[i] if len(weight) > 0 else 1.0
            if heft == 0.0:
                continue
            # four sums, since one would wait for itself (and a vectorised one would gather coef,
            # which is slower still)
            begin, end = indptr[i], indptr[i + _ONE]
            fours = end - (end - begin) % _FOUR
            a, b, c, d = real(0.0), real(0.0), real(0.0), real(0.0)
            for place in range(begin, fours, _FOUR):
                a += coef[indices[place]] * data[place]
                b += coef[indices[place + _ONE]] * data[place + _ONE]
                c += coef[indices[place + _TWO]] * data[place + _TWO]
                d += coef[indices[place + _THREE]] * data[place + _THREE]
            for place in range(fours, end):
                a += coef[indices[place]] * data[place]
            prediction, before = np.float64((a + b) + (c + d)), duals[i]
            if rule.watch:
                met += heft * value(rule.loss, 0.0, y[i], prediction)
            after = dual_step(rule.loss, y[i], heft, before, prediction, squares[i] * rule.share)
            seen += 1
            if after == before:
                continue
            duals[i] = after
            moved += 1
            move = real((after - before) * rule.share)
            for place in range(begin, end):
                coef[indices[place]] += move * data[place]
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
