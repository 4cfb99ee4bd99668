"""Twins of the kernels that follow a step of Newton's method: slow, plain, and in long double."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antithetic._core.losses import (
    HUBER,
    LOG_LOSS,
    MODIFIED_HUBER,
    SQUARED_EPSILON_INSENSITIVE,
    SQUARED_ERROR,
    SQUARED_HINGE,
    TWEEDIE,
)

LONG = np.longdouble


class Judged(NamedTuple):
    """A loss at some predictions, in long double, each of shape (n,)."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


def long(*numbers):
    """The same numbers in long double."""
    found = tuple(np.asarray(given, dtype=LONG) for given in numbers)
    return found if len(found) > 1 else found[0]


def judge(loss, y, p):
    """Value, slope and curvature of a smooth loss, from their definitions."""
    y, p, e = *long(y, p), LONG(loss.epsilon)
    zero, margin = np.zeros(len(y), LONG), y * p
    short, apart = np.maximum(zero, 1 - margin), p - y
    if loss.code == LOG_LOSS:
        wrong = wrong_probability(margin)
        return Judged(np.logaddexp(zero, -margin), -y * wrong, wrong * wrong_probability(-margin))
    if loss.code == SQUARED_HINGE:
        return Judged(short**2, -2 * y * short, 2 * (margin < 1))
    if loss.code == MODIFIED_HUBER:
        is_bent = margin >= -1
        return Judged(
            np.where(is_bent, short**2, -4 * margin),
            -y * np.where(is_bent, 2 * short, 4),
            2 * (is_bent & (margin < 1)),
        )
    if loss.code == SQUARED_ERROR:
        return Judged(apart**2 / 2, apart, zero + 1)
    if loss.code == HUBER:
        size = np.abs(apart)
        straight = e * size - e * e / 2
        return Judged(np.where(size <= e, apart**2 / 2, straight), apart.clip(-e, e), size <= e)
    if loss.code == SQUARED_EPSILON_INSENSITIVE:
        beyond = np.maximum(zero, np.abs(apart) - e)
        return Judged(beyond**2, 2 * np.sign(apart) * beyond, 2 * (np.abs(apart) > e))
    assert loss.code == TWEEDIE, f"no formulas for {loss.name}: add them here"
    a, b = 2 - e, e - 1
    up, down = np.exp(a * p), y * np.exp(-b * p)
    return Judged(tweedie_value(e, y, p), up - down, a * up + b * down)


def wrong_probability(margin):
    """Probability of the other class, to all digits."""
    return np.exp(-np.logaddexp(np.zeros(len(margin), LONG), margin))


def tweedie_value(power, y, p):
    """Half the Tweedie deviance of a mean exp(p)."""
    a, b, mean = 2 - power, power - 1, np.exp(p)
    some = np.where(y > 0, y, 1)
    if b == 0:
        return np.where(y > 0, y * (np.log(some) - p), 0) - y + mean
    if a == 0:
        return y / mean + p - np.log(some) - 1
    constant = np.where(y > 0, some**a, 0) / (a * b)
    return mean**a / a + y * mean**-b / b - constant


def conjugate(loss, y, u):
    """Convex conjugate, and infinity where it has no value; all losses but the logistic one."""
    y, u, e = *long(y, u), LONG(loss.epsilon)
    if loss.code in (SQUARED_HINGE, MODIFIED_HUBER):
        against, most = -y * u, 4 if loss.code == MODIFIED_HUBER else np.inf
        return np.where((against < 0) | (against > most), np.inf, against**2 / 4 - against)
    if loss.code == SQUARED_ERROR:
        return u * y + u * u / 2
    if loss.code == HUBER:
        return np.where(np.abs(u) > e, np.inf, u * y + u * u / 2)
    if loss.code == SQUARED_EPSILON_INSENSITIVE:
        return u * y + e * np.abs(u) + u * u / 4
    return np.array([tweedie_conjugate(e, *pair) for pair in zip(y, u, strict=True)], dtype=LONG)


def tweedie_conjugate(power, y, u):
    """Conjugate of one row: at the prediction whose slope is u, which bisection finds."""
    a, b = 2 - power, power - 1
    if (b == 0 and u < -y) or (a == 0 and u > 1) or (y == 0 and u < 0):
        return LONG(np.inf)
    if b == 0:
        mean = u + y
        kept = mean * np.log(mean) if mean > 0 else LONG(0)
        return kept - u - (y * np.log(y) if y > 0 else LONG(0))
    if a == 0:
        return u * np.log(y) + u + ((1 - u) * np.log1p(-u) if u < 1 else 0)
    if y == 0:
        return u * (np.log(u) - 1) / a if u > 0 else LONG(0)
    low, high = LONG(-3000), LONG(3000)
    for _ in range(100):
        middle = (low + high) / 2
        is_above = np.exp(a * middle) - y * np.exp(-b * middle) > u
        low, high = (low, middle) if is_above else (middle, high)
    return u * low - tweedie_value(power, y, low)


def allowed(loss, y):
    """Least and largest slope of each row at which the conjugate is finite."""
    y, infinite = long(y), np.full(len(y), np.inf, LONG)
    most = {SQUARED_HINGE: np.inf, MODIFIED_HUBER: 4.0, LOG_LOSS: 1.0}.get(loss.code)
    if most is not None:
        return np.where(y > 0, -most, 0), np.where(y > 0, 0, most)
    if loss.code == HUBER:
        return np.full(len(y), -loss.epsilon), np.full(len(y), loss.epsilon)
    if loss.code != TWEEDIE:
        return -infinite, infinite
    if loss.epsilon == 1.0:
        return -y, infinite
    if loss.epsilon == 2.0:
        return -infinite, np.ones(len(y), LONG)
    return np.where(y > 0, -np.inf, 0), infinite


def expected_slopes(loss, y, p, after):
    """Slopes of the quadratic model around ``p``, cut to those that the loss allows."""
    found = judge(loss, y, p)
    return (found.slope + found.curvature * (long(after) - long(p))).clip(*allowed(loss, y))


def dual_costs(loss, y, p, after, *, factor=1.0, shift=0.0, up=1.0, down=1.0, kept=1.0, side=0):
    """Slope of each row of a restored point; what it costs; and the terms of which that is the sum.

    Infinite where a slope is beyond the allowed ones with a shift, or before.
    """
    y, p, after, factor, shift, kept = long(y, p, after, factor, shift, kept)
    if loss.code == LOG_LOSS:
        return logistic_costs(y, p, after, factor, shift, kept, side)
    if loss.name in ("poisson", "gamma"):
        return mean_costs(loss, y, p, after, factor, shift, kept)
    found, (low, high) = judge(loss, y, p), allowed(loss, y)
    bent = found.slope + found.curvature * (after - p)
    moved = bent + found.curvature * shift
    is_cut = (bent < low) | (bent > high) | (moved < low) | (moved > high)
    u = moved.clip(low, high)
    u = kept * np.where(u > 0, LONG(up), LONG(down)) * u
    terms = sum_of_terms(loss, y, p, u)
    return u, np.where((shift != 0) & is_cut, np.inf, terms.sum(axis=0)), np.abs(terms).sum(axis=0)


def sum_of_terms(loss, y, p, v):
    """What phi(p) + phi*(v) - v p is the sum of, one line for each term."""
    if loss.code == LOG_LOSS:
        against = -y * v
        parts = [
            np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0) for a in (against, 1 - against)
        ]
        return np.array([judge(loss, y, p).value, *parts, -v * p])
    if loss.code != TWEEDIE or loss.name in ("poisson", "gamma"):
        return np.array([judge(loss, y, p).value, conjugate(loss, y, v), -v * p])
    a, b = 2 - LONG(loss.epsilon), LONG(loss.epsilon) - 1
    up, down = np.exp(a * p) / a, y * np.exp(-b * p) / b
    constant = np.where(y > 0, y**a, 0) / (a * b)
    return np.array([up, down, -constant, conjugate(loss, y, v), -v * p])


def mean_costs(loss, y, p, after, factor, shift, kept):
    """The same of Poisson's and gamma's loss, whose slopes are a - b and b - a.

    A relative change t of a costs a ((1 + t) log(1 + t) - t).
    """
    is_poisson = loss.name == "poisson"
    a, b, sign = (np.exp(p), y, 1) if is_poisson else (y * np.exp(-p), LONG(1), -1)
    ways = [sign * (after - p), sign * (after - p + shift)]
    is_cut = np.minimum(*ways) < -1
    change = factor * ways[1].clip(-1) + (factor - 1)
    v = kept * sign * (a * (1 + change) - b)
    cost = a * excess(kept * change + (1 - kept) * (b / a - 1))
    return v, np.where((shift != 0) & is_cut, np.inf, cost), np.abs(cost)


def logistic_costs(y, p, after, factor, shift, kept, side):
    """The same of the logistic loss, from the probabilities of both classes.

    phi(p) + phi*(v) - v p is the divergence of the new probabilities from those of p. A relative
    change t of a probability c costs c ((1 + t) log(1 + t) - t), since all changes sum to zero.
    """
    mine = -1 if side < 0 else 1
    old, rest = wrong_probability(-mine * p), wrong_probability(mine * p)  # of mine, of the other
    ways = [mine * rest * (after - p), mine * rest * (after - p + shift)]
    full = rest / old  # the relative change up to probability 1
    is_cut = np.any([(way < -1) | (way > full) for way in ways], axis=0)
    change = factor * ways[1].clip(-1, full) + (factor - 1)
    change = kept * change + (1 - kept) * np.where(mine * y > 0, full, -1)
    other = (-change / full).clip(-1)
    v = mine * np.where(mine * y > 0, -rest * (1 + other), old * (1 + change))
    cost = old * excess(change) + rest * excess(other)
    cost = np.where((shift != 0) & is_cut, np.inf, cost)
    return v, cost, np.abs(cost)


def excess(t):
    """(1 + t) log(1 + t) - t, by its series if that is small."""
    some = np.where(np.abs(t) < 0.1, t, 0)
    series = sum((-some) ** k / (k * (k - 1)) for k in range(2, 20))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(t) < 0.1, series, np.where(t > -1, (1 + t) * np.log1p(t), 0) - t)


def visit_after_step(X, y, weight, loss, coef, intercept, before):
    """Totals of all rows at the end of a step, gradient and dual of shape (d,), and predictions.

    The totals are the losses, slopes, squared slopes and curvatures there, the slopes that the
    model expects, and the products of curvatures at the start and squared changes. Rows of weight
    zero count for nothing, whatever they hold.
    """
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    weight = long(np.ones(len(y)) if weight is None else weight)[counted]
    X, y, before = long(X), y[counted], before[counted]
    after = X @ long(coef) + long(intercept)
    found, start = judge(loss, y, after[counted]), judge(loss, y, before)
    slopes, curvatures = weight * found.slope, weight * found.curvature
    expected = weight * expected_slopes(loss, y, before, after[counted])
    square = weight @ (start.curvature * (after[counted] - long(before)) ** 2)
    totals = weight @ found.value, slopes.sum(), slopes @ slopes, curvatures.sum()
    totals = (*totals, expected.sum(), square)
    return totals, slopes @ X[counted], expected @ X[counted], after


def loss_along(y, weight, loss, p, after, step):
    """Sum of the losses some way from one prediction to another of each row, and its derivative."""
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    weight = long(np.ones(len(y)) if weight is None else weight)[counted]
    p, after = long(p)[counted], long(after)[counted]
    found = judge(loss, y[counted], p + LONG(step) * (after - p))
    return weight @ found.value, weight @ (found.slope * (after - p))


def reach(X, centre, scale, *, stored=None):
    """Largest of the squares (x - centre)^2 scale in each row.

    Of sparse rows, zeros that are not ``stored`` count only from 1 on.
    """
    squares = (X.astype(float) - centre) ** 2 * scale
    if stored is not None:
        squares = np.where(stored | (squares > 1.0), squares, 0.0)
    return squares.max(axis=1, initial=0.0)


def draw_by_hash(share, size, seed, first):
    """Rows whose hash is below share * size: outputs of splitmix64, in plain integers."""
    golden, mask, drawn = 0x9E3779B97F4A7C15, 2**64 - 1, []
    for i, own in enumerate(share):
        bits = (first + i + (seed + 1) * golden) * golden & mask
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & mask
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & mask
        bits ^= bits >> 31
        if (bits >> 11) / 2**53 < own * size:
            drawn.append(i)
    return drawn
