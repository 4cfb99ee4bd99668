"""One epoch of SDCA on sparse rows: a visit costs only the stored entries of its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._jit import jit, prefetch
from antithetic._loss_kernels import dual_step, value
from antithetic.solvers.sdca import DualRows, DualRule, Entries

_ONE, _TWO, _THREE, _FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
_ENTRIES_AHEAD, _STARTS_AHEAD = np.uintp(4), np.uintp(16)  # rows ahead whose entries, and whose place, are prefetched
_CACHE_LINE = 64


@jit
def csr_dual_epoch(entries: Entries, rows: DualRows, rule: DualRule, coef: NDArray[Any], duals: NDArray[np.float64]) -> float:
    """Maximise the dual over one row's variable after the other; return the sum of the losses met. The same visits as on dense rows."""
    data, indices, indptr = entries
    order, y, weight, squares = rows
    real, n, line = data.dtype.type, np.uintp(len(order)), np.uintp(_CACHE_LINE // data.itemsize)
    met = 0.0
    for k in range(n):
        if k + _STARTS_AHEAD < n:
            coming = order[k + _STARTS_AHEAD]
            prefetch(indptr, coming)
            prefetch(y, coming)
            prefetch(duals, coming)
            prefetch(squares, coming)
            coming = order[k + _ENTRIES_AHEAD]
            for place in range(indptr[coming], indptr[coming + _ONE], line):
                prefetch(data, place)
                prefetch(indices, place)
        i = order[k]
        heft = weight[i] if len(weight) > 0 else 1.0
        if heft == 0.0:
            continue
        # four sums, since one would wait for itself (and a vectorised one would gather coef, which is slower still)
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
        if after == before:
            continue
        duals[i] = after
        move = real((after - before) * rule.share)
        for place in range(begin, end):
            coef[indices[place]] += move * data[place]
    return met
