r"""One epoch of SGD on sparse rows: a step costs only the stored entries of its batch.

The weights are kept as :math:`w = s v`. Shrinking by the L2 penalty changes ``s`` alone. In terms
of ``v`` the charges of the L1 penalty just add up, :math:`U = \sum_t \tau_t / s_t`, and a feature
pays what it owes when it is next met. Its share of the average since then is a sum of :math:`q_t
s_t v_t`, with :math:`v_t` falling linearly in :math:`U_t` until it reaches zero: it comes from
running sums of :math:`q s` and :math:`q s U`, with the step where zero is reached found by
bisection. All this begins anew each epoch. Where only the weights after every so many steps are
averaged, all features are brought up to date there instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import schedules
from antithetic._core.arguments import Balance, CsrRows, Epoch, Model, Rule
from antithetic._core.jit import jit, prefetch
from antithetic._core.loss_kernels import slope, value
from antithetic._core.weights import collect_one, move_towards, rescale

step_size = jit(schedules.step_size)
row_step_size = jit(schedules.row_step_size)

_ONE, _TWO, _THREE, _FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
# Rows ahead whose entries, and whose place, are prefetched.
_ENTRIES_AHEAD, _STARTS_AHEAD = (np.uintp(4), np.uintp(16))
_CACHE_LINE = 64
_SMALLEST_SCALE = 1e-6  # below it s is multiplied into v, so that neither overflows


class _Lazy(NamedTuple):
    """What each feature has missed of the average.

    ``seen_step`` says up to where a feature is up to date; ``charges``, ``scales`` and ``products``
    are the sums U, q s and q s U after each step (entry 0 before the first); ``sums`` collects the
    average. Arrays that a rule does not need are empty.
    """

    seen_step: NDArray[np.intp]
    charges: NDArray[np.float64]
    scales: NDArray[np.float64]
    products: NDArray[np.float64]
    sums: NDArray[np.float64]


@jit
def _make_lazy(d: int, n_batches: int, charges: bool, averages: bool) -> Any:
    features, steps = (d, n_batches + 1) if averages else (0, 0)
    both = steps if charges else 0
    return _Lazy(
        np.zeros(features, np.intp),
        np.zeros(both),
        np.zeros(steps),
        np.zeros(both),
        np.zeros(features),
    )


@jit
def csr_epoch(rows: CsrRows, epoch: Epoch, rule: Rule, model: Model, balance: Balance) -> None:
    """Take one step per batch, and balance the order; the same steps and order as on dense rows."""
    data, indices, indptr, y, weight = rows
    order, starts, size, factors, steps, samples = epoch
    v, intercept = model.coef, model.intercept[0]
    real, n, line = data.dtype.type, np.uintp(len(order)), np.uintp(_CACHE_LINE // data.itemsize)
    averaged = rule.average_from > 0 and rule.average_every == 1
    behind = averaged or rule.l1 > 0.0  # features fall behind while no row of a batch has them
    lazy = _make_lazy(len(v), len(starts) - 1, rule.l1 > 0.0, averaged)
    features = np.arange(len(v) if behind else 0).astype(indices.dtype)
    shares = np.empty(size, data.dtype)
    passive = rule.schedule >= schedules.PA1  # each row has its own step size
    unit, following, signed = np.uintp(balance.unit), balance.following, balance.signed
    # Slopes of the rows of two units, the second's negated.
    pulls = np.empty(2 * balance.unit, data.dtype)
    front, back, lean = np.uintp(0), n, 0.0
    if unit > 0:
        back = n - n % unit
        following[back:] = order[back:]  # rows that are not a whole unit stay last
    twosome = unit == 1 and size == 2  # the gradients of one step are the two to be balanced
    scale, gained, met = 1.0, 0.0, 0.0
    for batch in range(np.uintp(len(starts) - 1)):
        first, last = starts[batch], starts[batch + _ONE]
        for k in range(first, last):
            if k + _STARTS_AHEAD < n:
                prefetch(indptr, order[k + _STARTS_AHEAD])
                prefetch(y, order[k + _STARTS_AHEAD])
                row = order[k + _ENTRIES_AHEAD]
                for place in range(indptr[row], indptr[row + _ONE], line):
                    prefetch(data, place)
                    prefetch(indices, place)

        eta = step_size(rule.schedule, rule.eta0, rule.rate, rule.start, steps, samples)
        rate, total = (1.0 if passive else eta) / size, 0.0
        for k in range(first, last):
            i = order[k]
            if behind:
                _catch_up(lazy, model, indices, indptr[i], indptr[i + _ONE], batch)
            # four sums, since one would wait for itself (and a vectorised one would gather v, which
            # is slower still)
            begin, end = indptr[i], indptr[i + _ONE]
            fours = end - (end - begin) % _FOUR
            a, b, c, d = real(0.0), real(0.0), real(0.0), real(0.0)
            e, f, g, h = (
                signed[len(v)] if unit > 0 and rule.fit_intercept else real(0.0),
                real(0.0),
                real(0.0),
                real(0.0),
            )
            if unit > 0:
                for place in range(begin, fours, _FOUR):
                    a += v[indices[place]] * data[place]
                    b += v[indices[place + _ONE]] * data[place + _ONE]
                    c += v[indices[place + _TWO]] * data[place + _TWO]
                    d += v[indices[place + _THREE]] * data[place + _THREE]
                    e += signed[indices[place]] * data[place]
                    f += signed[indices[place + _ONE]] * data[place + _ONE]
                    g += signed[indices[place + _TWO]] * data[place + _TWO]
                    h += signed[indices[place + _THREE]] * data[place + _THREE]
                for place in range(fours, end):
                    a += v[indices[place]] * data[place]
                    e += signed[indices[place]] * data[place]
            else:
                for place in range(begin, fours, _FOUR):
                    a += v[indices[place]] * data[place]
                    b += v[indices[place + _ONE]] * data[place + _ONE]
                    c += v[indices[place + _TWO]] * data[place + _TWO]
                    d += v[indices[place + _THREE]] * data[place + _THREE]
                for place in range(fours, end):
                    a += v[indices[place]] * data[place]
            product = (a + b) + (c + d)
            label, prediction = float(y[i]), scale * product + intercept
            steepness = slope(rule.loss, rule.epsilon, label, prediction)
            if abs(steepness) > rule.steepest:
                steepness = rule.steepest if steepness > 0.0 else -rule.steepest
            if passive:
                # in float64, as that of a float32 row may be beyond float32; float() would stay
                # float32 in numba
                square = 0.0
                for place in range(begin, end):
                    square += np.float64(data[place]) * np.float64(data[place])
                short = value(rule.loss, rule.epsilon, label, prediction)
                steepness *= row_step_size(rule.schedule, rule.eta0, short, square)
            if len(weight) > 0:
                steepness *= weight[i]
            if len(factors) > 0:
                steepness *= factors[k]
            if rule.watch and (len(weight) == 0 or weight[i] > 0.0):
                counted = (weight[i] if len(weight) > 0 else real(1.0)) * (
                    factors[k] if len(factors) > 0 else 1.0
                )
                met += value(rule.loss, rule.epsilon, label, prediction) * counted
            shares[k - first] = real(-rate * steepness)
            total += rate * steepness
            if unit == 0:
                continue
            position = k % (_TWO * unit)
            pulls[position] = real(steepness if position < unit else -steepness)
            lean += pulls[position] * ((e + f) + (g + h))
            if position + _ONE == _TWO * unit:  # two units are over
                sign, start = real(1.0 if lean <= 0.0 else -1.0), k - position
                lean = 0.0
                for row in range(_TWO * unit):
                    pull = sign * pulls[row]
                    pulls[row] = pull
                    if twosome:  # the entries of these rows are met below
                        signed[len(v)] += pull
                        continue
                    for place in range(
                        indptr[order[start + row]], indptr[order[start + row] + _ONE]
                    ):
                        signed[indices[place]] += pull * data[place]
                    signed[len(v)] += pull
                back -= unit
                for row in range(unit):
                    following[(front if sign > 0.0 else back) + row] = order[start + row]
                    following[(back if sign > 0.0 else front) + row] = order[start + unit + row]
                front += unit

        part = (last - first) / size if len(factors) == 0 else 1.0
        shrink = max(0.0, 1.0 - eta * part * rule.l2)
        scale *= shrink
        if scale < _SMALLEST_SCALE:
            if behind:
                _catch_up(lazy, model, features, np.uintp(0), np.uintp(len(v)), batch)
            rescale(model, scale)
            scale = 1.0
        for k in range(first, last):
            i = order[k]
            share = real(shares[k - first] / scale)
            if twosome and last - first == _TWO:
                pull = pulls[k - first]
                for place in range(indptr[i], indptr[i + _ONE]):
                    v[indices[place]] += share * data[place]
                    signed[indices[place]] += pull * data[place]
                continue
            for place in range(indptr[i], indptr[i + _ONE]):
                v[indices[place]] += share * data[place]

        if rule.fit_intercept:
            intercept -= total
        if rule.l1 > 0.0:
            model.charged[0] += eta * part * rule.l1 / scale
        steps += 1
        # int() would stay unsigned in numba
        samples += np.intp(last - first)  # type: ignore[assignment]
        if averaged:
            gain = 0.0 if samples < rule.average_from else float(steps) if rule.linear else 1.0
            gained += gain
            _record(lazy, batch, gain * scale, model.charged[0])
            if gain > 0.0:
                share_of_step = gain / (model.average_weight[0] + gained)
                model.average_intercept[0] += share_of_step * (
                    intercept - model.average_intercept[0]
                )
        elif (
            rule.average_from > 0
            and samples >= rule.average_from
            and steps % rule.average_every == 0
        ):
            if behind:
                _catch_up(lazy, model, features, np.uintp(0), np.uintp(len(v)), batch)
            gain = float(steps) if rule.linear else 1.0
            model.average_weight[0] += gain
            share_of_step = gain / model.average_weight[0]
            model.average_intercept[0] += share_of_step * (intercept - model.average_intercept[0])
            move_towards(model.average, v, scale, share_of_step)
    if behind:
        _catch_up(lazy, model, features, np.uintp(0), np.uintp(len(v)), np.uintp(len(starts) - 1))
    # A unit without another comes between front and back.
    for k in range(front, back if unit > 0 else front):
        following[k] = order[n - n % unit - back + k]
    rescale(model, scale)
    model.intercept[0] = intercept
    model.met[0] += met
    if gained > 0.0:
        _add_average(model, lazy.sums, gained)


@jit
def _catch_up(
    lazy: Any, model: Model, indices: NDArray[Any], begin: Any, end: Any, step: Any
) -> None:
    """Bring the features ``indices[begin:end]`` up to date before a step.

    They receive the penalty not yet applied, and their share of the average.
    """
    now, v = np.intp(step), model.coef
    for place in range(begin, end):
        feature = indices[place]
        if len(model.received) == 0:
            lazy.sums[feature] += v[feature] * (
                lazy.scales[now] - lazy.scales[lazy.seen_step[feature]]
            )
            lazy.seen_step[feature] = now
            continue
        if len(lazy.sums) > 0:
            since, sign = lazy.seen_step[feature], 1.0 if v[feature] > 0.0 else -1.0
            # The charge at which the weight reaches zero.
            zero = sign * (v[feature] - model.received[feature])
            until = (
                now
                if zero > model.charged[0]
                else _last_before_zero(lazy.charges, since, now, zero)
            )
            weights = lazy.scales[until] - lazy.scales[since]
            lazy.sums[feature] += sign * (
                zero * weights - (lazy.products[until] - lazy.products[since])
            )
            lazy.seen_step[feature] = now
        collect_one(model, feature)


@jit
def _last_before_zero(charges: NDArray[np.float64], since: Any, now: Any, zero: float) -> Any:
    """Last step after which the charges have added up to less than ``zero``, by bisection."""
    low, high = since, now
    while low < high:
        middle = (low + high + 1) // 2
        if charges[middle] < zero:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def _record(lazy: Any, step: Any, scale: float, charged: float) -> None:
    now = np.intp(step)
    lazy.scales[now + 1] = lazy.scales[now] + scale
    if len(lazy.charges) > 0:
        lazy.charges[now + 1] = charged
        lazy.products[now + 1] = lazy.products[now] + scale * charged


@jit
def _add_average(model: Model, sums: NDArray[np.float64], gained: float) -> None:
    model.average_weight[0] += gained
    kept = 1.0 - gained / model.average_weight[0]
    for c in range(len(sums)):
        model.average[c] = kept * model.average[c] + sums[c] / model.average_weight[0]
