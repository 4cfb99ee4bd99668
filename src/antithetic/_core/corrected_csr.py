r"""One epoch of corrected proximal steps on sparse rows, at a cost of the stored entries only.

The weights are :math:`w = s v`, as in SGD's kernel. A step also moves every weight against the mean
remembered gradient and thresholds it. In terms of ``v`` that is a move of :math:`\Delta U = \eta /
s` times the mean gradient, and a threshold of :math:`\Delta U\, l_1`, in which the mean gradient of
a feature stays the same until a row with it comes by. So a feature that was not met for some steps
moves along a straight line in :math:`U = \sum_t \Delta U_t` while it keeps its sign, stays at zero
if the mean gradient is below :math:`l_1` there, and otherwise leaves it along another straight
line: it is brought up to date at once when it is next met, the step in which it reached zero being
found by bisection. Of a group penalty, groups are brought up to date, step by step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import schedules
from antithetic._core.arguments import CsrRows, Epoch, Groups, Memory, Model, Rule
from antithetic._core.jit import jit, prefetch
from antithetic._core.loss_kernels import slope, value
from antithetic._core.weights import rescale, shrink_group

step_size = jit(schedules.step_size)

_ONE, _TWO, _THREE, _FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
# Rows ahead whose entries, and whose place, are prefetched.
_ENTRIES_AHEAD, _STARTS_AHEAD = (np.uintp(4), np.uintp(16))
_CACHE_LINE = 64
_SMALLEST_SCALE = 1e-6  # below it s is multiplied into v, so that neither overflows


@jit
def corrected_csr_epoch(
    rows: CsrRows,
    epoch: Epoch,
    rule: Rule,
    model: Model,
    memory: Memory,
    groups: Groups,
    pulls: NDArray[np.float64],
) -> None:
    """Take one step per batch; the same steps as on dense rows."""
    data, indices, indptr, y, weight = rows
    order, starts, size, factors, steps, samples = epoch
    v, intercept, mean, l1 = model.coef, model.intercept[0], memory.mean, rule.l1
    real, n, line = data.dtype.type, np.uintp(len(order)), np.uintp(_CACHE_LINE // data.itemsize)
    n_batches, corrects, grouped = len(starts) - 1, len(memory.slopes) > 0, len(groups.starts) > 0
    behind = corrects or l1 > 0.0  # features fall behind while no row of a batch has them
    alone = behind and not grouped
    longest = np.intp((starts[1:] - starts[:-1]).max()) if n_batches > 0 else 0
    shares, slopes = np.empty(longest, data.dtype), np.empty(longest)
    line_ends = np.zeros(n_batches + 1)  # U before each step since the last reset, and now
    seen = np.zeros(len(v) if alone else 0)  # U up to which a feature is up to date
    # The same for groups, and last for features without one.
    seen_step = np.zeros(len(groups.starts) if grouped else 0, np.intp)
    reset, here, scale, met = np.intp(0), 0.0, 1.0, 0.0
    for batch in range(np.uintp(n_batches)):
        first, last, now = starts[batch], starts[batch + _ONE], np.intp(batch)
        for k in range(first, last):
            if k + _STARTS_AHEAD < n:
                prefetch(indptr, order[k + _STARTS_AHEAD])
                prefetch(y, order[k + _STARTS_AHEAD])
                row = order[k + _ENTRIES_AHEAD]
                for place in range(indptr[row], indptr[row + _ONE], line):
                    prefetch(data, place)
                    prefetch(indices, place)

        eta = step_size(rule.schedule, rule.eta0, rule.rate, rule.start, steps, samples)
        part = (last - first) / size if len(factors) == 0 else 1.0
        total, renewed = 0.0, 0.0
        for k in range(first, last):
            i = order[k]
            begin, end = indptr[i], indptr[i + _ONE]
            if alone:
                for place in range(begin, end):
                    j = indices[place]
                    if seen[j] == here:
                        continue
                    if l1 == 0.0:
                        v[j] -= real(mean[j] * (here - seen[j]))
                    else:
                        v[j] = real(
                            _on_the_line(
                                float(v[j]),
                                float(mean[j]),
                                l1,
                                seen[j],
                                here,
                                line_ends,
                                reset,
                                now,
                            )
                        )
                    seen[j] = here
            elif grouped:
                for place in range(begin, end):
                    _settle_group(
                        v, mean, groups, groups.owner[indices[place]], l1, line_ends, seen_step, now
                    )
            fours = end - (end - begin) % _FOUR
            a, b, c, d = real(0.0), real(0.0), real(0.0), real(0.0)
            for place in range(begin, fours, _FOUR):
                a += v[indices[place]] * data[place]
                b += v[indices[place + _ONE]] * data[place + _ONE]
                c += v[indices[place + _TWO]] * data[place + _TWO]
                d += v[indices[place + _THREE]] * data[place + _THREE]
            for place in range(fours, end):
                a += v[indices[place]] * data[place]
            label, prediction = float(y[i]), scale * ((a + b) + (c + d)) + intercept
            steepness = slope(rule.loss, rule.epsilon, label, prediction)
            if abs(steepness) > rule.steepest:
                steepness = rule.steepest if steepness > 0.0 else -rule.steepest
            if len(weight) > 0:
                steepness *= weight[i]
            factor = factors[k] if len(factors) > 0 else 1.0
            if rule.watch and (len(weight) == 0 or weight[i] > 0.0):
                counted = (weight[i] if len(weight) > 0 else real(1.0)) * factor
                met += value(rule.loss, rule.epsilon, label, prediction) * counted
            slopes[k - first] = steepness
            move = factor * (steepness - memory.slopes[i]) if corrects else factor * steepness
            total += move
            if len(pulls) > 0:
                pulls[k] = move
            shares[k - first] = real(-eta / size * move)

        scale *= max(0.0, 1.0 - eta * part * rule.l2)
        if scale < _SMALLEST_SCALE:
            if alone:
                for j in range(len(v)):
                    v[j] = real(
                        _on_the_line(
                            float(v[j]), float(mean[j]), l1, seen[j], here, line_ends, reset, now
                        )
                    )
            elif grouped:
                for group in range(len(seen_step)):
                    _settle_group(v, mean, groups, group, l1, line_ends, seen_step, now)
            rescale(model, scale)
            scale, reset, here, line_ends[now] = 1.0, now, 0.0, 0.0
            seen[:] = 0.0
        for k in range(first, last):
            share = real(shares[k - first] / scale)
            for place in range(indptr[order[k]], indptr[order[k] + _ONE]):
                v[indices[place]] += share * data[place]

        if rule.fit_intercept:
            intercept -= eta / size * total
            if corrects:
                intercept -= eta * part * mean[len(v)]
        if behind:
            # the features that were met take the rest of their step now, before what is remembered
            # of them changes
            ahead = eta * part / scale
            there = here + ahead
            line_ends[now + 1] = there
            for k in range(first, last):
                i = order[k]
                renewal = real(0.0)
                if memory.keeps:
                    # For a row that comes twice, the change is zero the second time.
                    change = (slopes[k - first] - memory.slopes[i]) / len(y)
                    memory.slopes[i] = slopes[k - first]
                    renewal = real(change)
                    renewed += change
                for place in range(indptr[i], indptr[i + _ONE]):
                    j = indices[place]
                    if grouped:
                        _settle_group(
                            v, mean, groups, groups.owner[j], l1, line_ends, seen_step, now + 1
                        )
                    elif seen[j] != there:
                        moved = v[j] - real(ahead * mean[j])
                        v[j] = moved - min(max(moved, real(-ahead * l1)), real(ahead * l1))
                        seen[j] = there
                    if memory.keeps:
                        mean[j] += renewal * data[place]
            here = there
            if rule.fit_intercept and memory.keeps:
                mean[len(v)] += real(renewed)
        steps += 1
        # int() would stay unsigned in numba
        samples += np.intp(last - first)  # type: ignore[assignment]
    if alone:
        for j in range(len(v)):
            v[j] = real(
                _on_the_line(
                    float(v[j]), float(mean[j]), l1, seen[j], here, line_ends, reset, n_batches
                )
            )
    elif grouped:
        for group in range(len(seen_step)):
            _settle_group(v, mean, groups, group, l1, line_ends, seen_step, n_batches)
    rescale(model, scale)
    model.intercept[0] = intercept
    model.met[0] += met


@jit
def _on_the_line(
    weight: float,
    drift: float,
    l1: float,
    since: float,
    here: float,
    line_ends: NDArray[np.float64],
    low: Any,
    high: Any,
) -> float:
    """Where a weight has come to when U went from ``since`` to ``here``.

    ``line_ends[low : high + 1]`` are the steps that it went in.
    """
    if weight != 0.0:
        sign = 1.0 if weight > 0.0 else -1.0
        speed = drift + sign * l1
        arrived = weight - (here - since) * speed
        # NaN is left for the divergence check.
        if arrived * sign > 0.0 or l1 == 0.0 or arrived != arrived:
            return arrived
        zero = since + weight / speed  # where it would be zero, between two steps or at one
        high -= 1
        while low < high:  # the last step that began before
            middle = (low + high + 1) // 2
            if line_ends[middle] < zero:
                low = middle
            else:
                high = middle - 1
        began, ended = line_ends[low], line_ends[low + 1]
        moved = weight - (began - since) * speed - (ended - began) * drift
        weight = moved - min(max(moved, -(ended - began) * l1), (ended - began) * l1)
        since = ended
    # at zero or beyond it: the drift that led there, if it is above the penalty, leads away
    if drift > l1:
        return weight - (here - since) * (drift - l1)
    if drift < -l1:
        return weight - (here - since) * (drift + l1)
    return weight


@jit
def _settle_group(
    v: NDArray[Any],
    mean: NDArray[Any],
    groups: Groups,
    group: Any,
    l1: float,
    line_ends: NDArray[np.float64],
    seen: Any,
    now: Any,
) -> None:
    """Bring the weights of one group up to date, step by step.

    At once where nothing drifts, or zero stays zero.
    """
    since, n_groups = seen[group], len(groups.starts) - 1
    if since == now:
        return
    seen[group] = now
    real = v.dtype.type
    begin = groups.starts[group]
    end = groups.starts[group + 1] if group < n_groups else len(groups.members)
    if group == n_groups:  # features without a group: nothing but the drift
        for place in range(begin, end):
            v[groups.members[place]] -= real(
                (line_ends[now] - line_ends[since]) * mean[groups.members[place]]
            )
        return
    square, drift = 0.0, 0.0
    for place in range(begin, end):
        square += float(v[groups.members[place]]) ** 2
        drift += float(mean[groups.members[place]]) ** 2
    if drift == 0.0:
        shrink_group(v, groups, group, (line_ends[now] - line_ends[since]) * l1)
        return
    if square == 0.0 and math.sqrt(drift) <= l1 * math.sqrt(float(end - begin)):
        return
    for step in range(since, now):
        ahead = line_ends[step + 1] - line_ends[step]
        for place in range(begin, end):
            v[groups.members[place]] -= real(ahead * mean[groups.members[place]])
        shrink_group(v, groups, group, ahead * l1)
