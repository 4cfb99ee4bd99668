"""One epoch of SGD on dense rows."""

from __future__ import annotations

import numpy as np

from antithetic._core import schedules
from antithetic._core.arguments import Balance, DenseRows, Epoch, Model, Rule
from antithetic._core.jit import jit, jit_sums, prefetch
from antithetic._core.loss_kernels import slope, value
from antithetic._core.weights import collect_one, move_towards, rescale

# The loops over rows stand in one function: an array handed on to a helper is counted as a
# reference, which costs more than a short row.

step_size = jit(schedules.step_size)
row_step_size = jit(schedules.row_step_size)

_ONE, _TWO = np.uintp(1), np.uintp(2)
_AHEAD = np.uintp(10)  # rows between the one that is used and the one that is prefetched
_CACHE_LINE = 64
_SMALLEST_SCALE = (
    1e-6  # below it the scale is multiplied into the weights, so that neither overflows
)


@jit_sums
def dense_epoch(rows: DenseRows, epoch: Epoch, rule: Rule, model: Model, balance: Balance) -> None:
    """Take one step per batch.

    A step shrinks by the L2 penalty, moves along the mean gradient, thresholds by the L1 penalty,
    and updates the average.

    With a ``balance``, also write the order of the next epoch: of every two units, the one whose
    gradient, less that of the other, does not point along the signed sum of such differences goes
    to the front and the other to the back.
    """
    X, y, weight = rows
    order, starts, size, factors, steps, samples = epoch
    coef, intercept = model.coef, model.intercept[0]
    real, zero = X.dtype.type, X.dtype.type(0.0)
    flat, d, n = X.reshape(X.size), np.uintp(X.shape[1]), np.uintp(len(order))
    line = np.uintp(_CACHE_LINE // X.itemsize)
    shares = np.empty(size, X.dtype)
    passive = rule.schedule >= schedules.PA1
    lengths = np.empty(size if passive else 0)  # each row's own step size
    unit, following, signed = np.uintp(balance.unit), balance.following, balance.signed
    pulls = np.empty(size if unit > 0 else 0, X.dtype)  # slopes of the batch
    # The first unit's gradient minus the second's, as far as they are seen.
    held = np.zeros(len(signed), X.dtype)
    front, back, lean = np.uintp(0), n, 0.0
    if unit > 0:
        back = n - n % unit
        following[back:] = order[back:]  # rows that are not a whole unit stay last
    # In odd batches, two rows may belong to different units.
    stride = _TWO if unit == 0 or size % 2 == 0 else _ONE
    twosome = unit == 1 and size == 2  # the gradients of one step are the two to be balanced
    leans = np.zeros(2, X.dtype)
    scale, met = 1.0, 0.0  # the weights are scale * coef: in float32 a factor near 1 would be lost
    for batch in range(np.uintp(len(starts) - 1)):
        first, last = starts[batch], starts[batch + _ONE]
        for k in range(first + _AHEAD, min(last + _AHEAD, n)):
            prefetch(y, order[k])
            for place in range(order[k] * d, order[k] * d + d, line):
                prefetch(flat, place)
            prefetch(flat, order[k] * d + d - _ONE)

        # predictions, two rows at a time; the last of an odd number together with itself
        for k in range(first, last, _TWO):
            i, j = order[k], order[min(k + _ONE, last - _ONE)]
            p, q = zero, zero
            for c in range(d):
                p += X[i, c] * coef[c]
                q += X[j, c] * coef[c]
            # In a loop of its own, so that predictions have the same bits as without it.
            if twosome:
                r, s = zero, zero
                for c in range(d):
                    r += X[i, c] * signed[c]
                    s += X[j, c] * signed[c]
                leans[0], leans[1] = r, s
            shares[min(k + _ONE, last - _ONE) - first] = q
            shares[k - first] = p

        eta = step_size(rule.schedule, rule.eta0, rule.rate, rule.start, steps, samples)
        rate, total = (1.0 if passive else eta) / size, 0.0
        if passive:  # in a loop of its own, to keep the next one, which all schedules use, short
            for k in range(first, last):
                # in float64, as that of a float32 row may be beyond float32; float() would stay
                # float32 in numba
                square = 0.0
                for c in range(d):
                    square += np.float64(X[order[k], c]) * np.float64(X[order[k], c])
                short = value(
                    rule.loss,
                    rule.epsilon,
                    float(y[order[k]]),
                    scale * shares[k - first] + intercept,
                )
                lengths[k - first] = row_step_size(rule.schedule, rule.eta0, short, square)
        for k in range(first, last):
            label, prediction = float(y[order[k]]), scale * shares[k - first] + intercept
            steepness = slope(rule.loss, rule.epsilon, label, prediction)
            if abs(steepness) > rule.steepest:
                steepness = rule.steepest if steepness > 0.0 else -rule.steepest
            if passive:
                steepness *= lengths[k - first]
            if len(weight) > 0:
                steepness *= weight[order[k]]
            if len(factors) > 0:
                steepness *= factors[k]
            if rule.watch and (len(weight) == 0 or weight[order[k]] > 0.0):
                counted = (weight[order[k]] if len(weight) > 0 else real(1.0)) * (
                    factors[k] if len(factors) > 0 else 1.0
                )
                met += value(rule.loss, rule.epsilon, label, prediction) * counted
            total += rate * steepness
            shares[k - first] = real(-rate * steepness)
            if unit > 0:
                pulls[k - first] = real(steepness)

        # a short batch takes a short step, for data and penalty alike; one with factors has been
        # made up for
        part = (last - first) / size if len(factors) == 0 else 1.0
        scale *= max(0.0, 1.0 - eta * part * rule.l2)
        if scale < _SMALLEST_SCALE:
            rescale(model, scale)
            scale = 1.0
        for k in range(first, last, stride):
            i, j = order[k], order[min(k + stride - _ONE, last - _ONE)]
            two = stride == _TWO and k + _ONE < last
            a, b = (
                real(shares[k - first] / scale),
                (real(shares[k + _ONE - first] / scale) if two else zero),
            )
            if unit == 0:
                for c in range(d):
                    coef[c] += a * X[i, c] + b * X[j, c]
                continue
            if twosome and two:
                e, f = pulls[0], -pulls[1]
                constant = e + f if rule.fit_intercept else zero
                sign = real(
                    1.0 if e * leans[0] + f * leans[1] + signed[d] * constant <= 0.0 else -1.0
                )
                e, f = sign * e, sign * f
                for c in range(d):
                    coef[c] += a * X[i, c] + b * X[j, c]
                    signed[c] += e * X[i, c] + f * X[j, c]
                signed[d] += sign * constant
                back -= _ONE
                following[front if sign > 0.0 else back] = i
                following[back if sign > 0.0 else front] = j
                front += _ONE
                continue
            # unsigned here, unlike in the loops above
            place = k % (_TWO * unit)  # type: ignore[assignment]
            e = pulls[k - first] if place < unit else -pulls[k - first]
            f = zero
            if two:
                f = pulls[k + _ONE - first] if place + _ONE < unit else -pulls[k + _ONE - first]
            along = zero
            for c in range(d):
                apart = e * X[i, c] + f * X[j, c]
                coef[c] += a * X[i, c] + b * X[j, c]
                along += signed[c] * apart
                held[c] += apart
            if rule.fit_intercept:
                along += signed[d] * (e + f)
                held[d] += e + f
            lean += along
            if place + stride == _TWO * unit and k + stride <= last:  # two units are over
                sign = real(1.0 if lean <= 0.0 else -1.0)
                for c in range(len(signed)):
                    signed[c] += sign * held[c]
                    held[c] = zero
                start, lean = k + stride - _TWO * unit, 0.0
                back -= unit
                for c in range(unit):
                    following[(front if sign > 0.0 else back) + c] = order[start + c]
                    following[(back if sign > 0.0 else front) + c] = order[start + unit + c]
                front += unit

        if rule.fit_intercept:
            intercept -= total
        if rule.l1 > 0.0:
            model.charged[0] += eta * part * rule.l1 / scale
            _collect(model)
        steps += 1
        # int() would stay unsigned in numba
        samples += np.intp(last - first)  # type: ignore[assignment]
        if (
            rule.average_from > 0
            and samples >= rule.average_from
            and steps % rule.average_every == 0
        ):
            gain = float(steps) if rule.linear else 1.0
            model.average_weight[0] += gain
            share = gain / model.average_weight[0]
            model.average_intercept[0] += share * (intercept - model.average_intercept[0])
            move_towards(model.average, coef, scale, share)
    # A unit without another comes between front and back.
    for k in range(front, back if unit > 0 else front):
        following[k] = order[n - n % unit - back + k]
    rescale(model, scale)
    model.intercept[0] = intercept
    model.met[0] += met


@jit
def _collect(model: Model) -> None:
    for c in range(len(model.coef)):
        collect_one(model, c)
