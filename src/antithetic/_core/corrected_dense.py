"""One epoch of corrected proximal steps on dense rows: plain ones, SVRG's and SAGA's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import schedules
from antithetic._core.arguments import DenseRows, Epoch, Groups, Memory, Model, Rule
from antithetic._core.jit import jit, jit_sums, prefetch
from antithetic._core.loss_kernels import slope, value
from antithetic._core.weights import rescale, shrink_group

step_size = jit(schedules.step_size)

_ONE, _TWO = np.uintp(1), np.uintp(2)
_AHEAD = np.uintp(10)  # rows between the one that is used and the one that is prefetched
_CACHE_LINE = 64
_SMALLEST_SCALE = (
    1e-6  # below it the scale is multiplied into the weights, so that neither overflows
)


@jit_sums
def corrected_dense_epoch(
    rows: DenseRows,
    epoch: Epoch,
    rule: Rule,
    model: Model,
    memory: Memory,
    groups: Groups,
    pulls: NDArray[np.float64],
) -> None:
    """Take one corrected step per batch, then the proximal step.

    A step goes along the batch's mean gradient, minus the remembered one, plus the mean of all
    remembered ones.

    As in SGD's kernel, the weights are scale * coef, the loops over rows stand in one function, and
    a batch of m rows takes m / size of a step, unless it has factors. ``pulls``, of one entry per
    row of the epoch or none, receives what each gradient is a multiple of.
    """
    X, y, weight = rows
    order, starts, size, factors, steps, samples = epoch
    coef, intercept, mean = model.coef, model.intercept[0], memory.mean
    corrects = len(memory.slopes) > 0
    real, zero = X.dtype.type, X.dtype.type(0.0)
    flat, d, n = X.reshape(X.size), np.uintp(X.shape[1]), np.uintp(len(order))
    line = np.uintp(_CACHE_LINE // X.itemsize)
    shares, renewals = np.empty(size, X.dtype), np.empty(size, X.dtype)
    slopes = np.empty(size)
    if len(factors) > 0:  # whose batches may have more rows than the size says
        longest = np.intp((starts[1:] - starts[:-1]).max())
        shares, renewals, slopes = (
            np.empty(longest, X.dtype),
            np.empty(longest, X.dtype),
            np.empty(longest),
        )
    scale, met = 1.0, 0.0
    for batch in range(np.uintp(len(starts) - 1)):
        first, last = starts[batch], starts[batch + _ONE]
        for k in range(first + _AHEAD, min(last + _AHEAD, n)):
            prefetch(y, order[k])
            for place in range(order[k] * d, order[k] * d + d, line):
                prefetch(flat, place)
            prefetch(flat, order[k] * d + d - _ONE)

        for k in range(first, last, _TWO):  # the last of an odd number together with itself
            i, j = order[k], order[min(k + _ONE, last - _ONE)]
            p, q = zero, zero
            for c in range(d):
                p += X[i, c] * coef[c]
                q += X[j, c] * coef[c]
            slopes[min(k + _ONE, last - _ONE) - first] = q
            slopes[k - first] = p

        eta = step_size(rule.schedule, rule.eta0, rule.rate, rule.start, steps, samples)
        part = (last - first) / size if len(factors) == 0 else 1.0
        predicted, total, renewed = scale, 0.0, 0.0
        scale *= max(0.0, 1.0 - eta * part * rule.l2)
        if scale < _SMALLEST_SCALE:
            rescale(model, scale)
            scale = 1.0
        for k in range(first, last):
            label, prediction = float(y[order[k]]), predicted * slopes[k - first] + intercept
            steepness = slope(rule.loss, rule.epsilon, label, prediction)
            if abs(steepness) > rule.steepest:
                steepness = rule.steepest if steepness > 0.0 else -rule.steepest
            if len(weight) > 0:
                steepness *= weight[order[k]]
            factor = factors[k] if len(factors) > 0 else 1.0
            if rule.watch and (len(weight) == 0 or weight[order[k]] > 0.0):
                counted = (weight[order[k]] if len(weight) > 0 else real(1.0)) * factor
                met += value(rule.loss, rule.epsilon, label, prediction) * counted
            slopes[k - first] = steepness
            move = (
                factor * (steepness - memory.slopes[order[k]]) if corrects else factor * steepness
            )
            total += move
            if len(pulls) > 0:
                pulls[k] = move
            shares[k - first] = real(-eta / size * move / scale)
        if memory.keeps:
            # After all moves: a row that comes twice has changed only once.
            for k in range(first, last):
                change = (slopes[k - first] - memory.slopes[order[k]]) / len(y)
                memory.slopes[order[k]] = slopes[k - first]
                renewals[k - first] = real(change)
                renewed += change

        drift = real(eta * part / scale) if corrects else zero
        for k in range(first, last, _TWO):
            i, j = order[k], order[min(k + _ONE, last - _ONE)]
            two = k + _ONE < last
            a, b = shares[k - first], shares[k + _ONE - first] if two else zero
            if memory.keeps:
                e, f = renewals[k - first], renewals[k + _ONE - first] if two else zero
                for c in range(d):
                    remembered = mean[c]
                    coef[c] += a * X[i, c] + b * X[j, c] - drift * remembered
                    mean[c] = remembered + e * X[i, c] + f * X[j, c]
            else:
                for c in range(d):
                    coef[c] += a * X[i, c] + b * X[j, c] - drift * mean[c]
            drift = zero  # the first two rows have taken it along
        if rule.fit_intercept:
            intercept -= eta / size * total
            if corrects:
                intercept -= eta * part * mean[d]
                mean[d] += real(renewed)
        if len(groups.starts) > 0:
            for group in range(len(groups.starts) - 1):
                shrink_group(coef, groups, group, eta * part * rule.l1 / scale)
        elif rule.l1 > 0.0:
            _soften(coef, real(eta * part * rule.l1 / scale))
        steps += 1
        # int() would stay unsigned in numba
        samples += np.intp(last - first)  # type: ignore[assignment]
    rescale(model, scale)
    model.intercept[0] = intercept
    model.met[0] += met


@jit
def _soften(coef: NDArray[Any], threshold: Any) -> None:
    for c in range(len(coef)):
        # In this form, NaN stays NaN for the divergence check.
        coef[c] -= min(max(coef[c], -threshold), threshold)
