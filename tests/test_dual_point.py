"""The kernels that follow a step of Newton's method, and the bound on the gap that they give.

A bound that is too small is no bound, so costs of dual points are compared with their twins in long
double, digit by digit where the loss allows it.
"""

from __future__ import annotations

import numpy as np
import pytest
import reference_dual as reference
from hypothesis import given
from hypothesis import strategies as st

from antithetic._core import kernels
from antithetic._core.losses import LOG_LOSS, SQUARED_EPSILON_INSENSITIVE, TWEEDIE
from antithetic.losses import Tweedie
from antithetic.problem.losses import LOSSES

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

EPS = float(np.finfo(float).eps)
NONE = np.empty(0)
SMOOTH = {name: loss for name, loss in LOSSES.items() if loss.is_smooth}
SMOOTH |= {loss.name: loss for loss in map(Tweedie, (1.0, 1.3, 2.0))}
ANY = pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH)
WITH_FACTOR = ("log_loss", "poisson", "gamma")  # slopes of the others are scaled by their sign
SIZES = pytest.mark.parametrize("n", [1, 7, 8, 9, 255, 256, 257, 700])


def targets_of(loss, rng, n):
    if loss.classification:
        return np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if loss.code != TWEEDIE:
        return rng.normal(size=n)
    return rng.gamma(1.0, size=n) * (1.0 if loss.epsilon == 2.0 else rng.random(n) < 0.7)


def weights_of(rng, n, *, weighted):
    return rng.uniform(0.5, 2.0, size=n) * (rng.random(n) < 0.7) if weighted else None


def bound(y, weight):
    return kernels.Targets(y, NONE if weight is None else weight)


def cost_of(loss, y, p, after, weight=None, **how):
    """What a restored point costs, and its slopes; the same without slopes being asked for."""
    given = bound(y, weight), loss.code, loss.epsilon, p, after, kernels.Restoration(**how)
    slopes = np.full(len(y), np.nan)
    cost = kernels.dual_cost(*given, slopes)
    assert cost == kernels.dual_cost(*given, NONE)
    return cost, slopes


def restorations(loss):
    """Ways to restore a constraint: those that the loss has, with small and large factors."""
    yield {}
    for kept in (1.0, 1.0 - 1e-6, 0.3, 0.0):
        if loss.name not in WITH_FACTOR:
            yield {"up": 0.7, "kept": kept}
            yield {"down": 0.999, "kept": kept}
            yield {"up": 0.0, "down": 1.0, "kept": kept}
        for factor in (0.999999, 0.6, 0.0) if loss.name in WITH_FACTOR else ():
            yield {"factor": factor, "side": 1, "kept": kept}
            yield {"factor": factor, "side": -1, "kept": kept}
    if loss.name in ("poisson", "gamma"):
        yield {"factor": 1.4}
    for shift in (1e-3, -0.2):
        yield {"shift": shift}
        yield {"shift": shift, "kept": 0.5}


def agree(found, known, terms, what, *, is_exact):
    """Costs are those in long double, to some digits, or else to rounding of their terms."""
    rounding = (4.0 * float(np.finfo(reference.LONG).eps)) if is_exact else 16.0 * EPS
    with np.errstate(invalid="ignore"):
        off = np.abs(np.asarray(found, dtype=reference.LONG) - known)
        is_wrong = ~((off <= 1e-13 * known + rounding * terms + 1e-297) | (found == known))
    wrong = np.flatnonzero(is_wrong)
    assert not wrong.size, (what, wrong, *(np.atleast_1d(x)[wrong] for x in (found, known, terms)))


def row_costs(loss, y, p, after, **how):
    """The cost and slope of each row alone."""
    rows = [cost_of(loss, y[[i]], p[[i]], after[[i]], **how) for i in range(len(y))]
    return np.array([cost for cost, _ in rows]), np.array([slope[0] for _, slope in rows])


def is_exact(loss):
    """Whether no terms cancel, so that costs have all digits however small they are."""
    return loss.code not in (TWEEDIE, SQUARED_EPSILON_INSENSITIVE) or loss.name in WITH_FACTOR


def check_rows(loss, y, p, after):
    """Costs and slopes of single rows are those of their twins, however they are restored."""
    for how in restorations(loss):
        cost, slopes = row_costs(loss, y, p, after, **how)
        v, known, terms = reference.dual_costs(loss, y, p, after, **how)
        known = np.maximum(known, 0).astype(float).astype(reference.LONG)  # may overflow
        agree(cost, known, terms, (loss.name, how), is_exact=is_exact(loss))
        low, high = reference.allowed(loss, y)
        seen = cost < np.inf
        slack = 4.0 * EPS * (np.abs(y) + 1.0)
        assert ((low - slack <= slopes) & (slopes <= high + slack))[seen].all(), (loss.name, how)
        size = (1.0 + np.abs(p)) * (1.0 + np.abs(y) + np.abs(v))
        some = seen & (size < 1e300)
        assert (np.abs(slopes - v) <= 1e-15 * size)[some].all(), (loss.name, how, slopes, v)


@pytest.mark.parametrize("name", WITH_FACTOR)
def test_the_twins_without_cancellation_are_sums_of_terms(name):
    """As far as long double shows it, for predictions and slopes of any size."""
    rng, loss = np.random.default_rng(5), SMOOTH[name]
    y, p = targets_of(loss, rng, 500), 5.0 * rng.normal(size=500)
    after = p + 3.0 * rng.normal(size=500)
    for how in restorations(loss):
        v, known, _ = reference.dual_costs(loss, y, p, after, **how)
        terms = reference.sum_of_terms(loss, *reference.long(y, p), v)
        rounding = 100.0 * np.finfo(reference.LONG).eps * (1.0 + np.abs(terms).sum(axis=0))
        seen = known < np.inf
        assert (np.abs(terms.sum(axis=0) - known) <= rounding)[seen].all(), how


@ANY
def test_the_cost_of_a_row_is_that_of_its_twin(loss):
    """Predictions of any size, on either side, and changes that leave the domain or hardly any."""
    rng = np.random.default_rng(0)
    n = 60
    y = targets_of(loss, rng, n)
    p = rng.normal(size=n) * np.geomspace(0.1, 5.0, n)
    for size in (1e-4, 0.1, 3.0):
        check_rows(loss, y, p, p + size * rng.normal(size=n))


@ANY
def test_extreme_rows_cost_what_their_twin_says(loss):
    """Predictions up to 1,000, right and wrong, and steps from one end to the other."""
    sizes = (20.0, 29.9, 30.1, 60.0, 300.0, 650.0, 690.7)
    if loss.code == LOG_LOSS:
        sizes += (699.0, 701.0, 708.5, 740.0, 1e3)
    ends = np.array([side * size for size in sizes for side in (-1.0, 1.0)])
    y = np.repeat([-1.0, 1.0] if loss.classification else [1e-3, 1.0, 50.0], len(ends))
    p = np.resize(ends, len(y))
    for after in (p + 1e-3, p - 0.7, p + 40.0, 0.1 * p, -p, 3.0 * p):
        check_rows(loss, y, p, after)


@SIZES
@ANY
@pytest.mark.parametrize("weighted", [False, True])
def test_the_cost_of_all_rows_is_that_of_its_twin(loss, n, weighted):
    """Blocks of any size, and rows that weigh more or nothing."""
    rng = np.random.default_rng(n)
    y, weight = targets_of(loss, rng, n), weights_of(rng, n, weighted=weighted)
    p = rng.normal(size=n)
    after, counted = p + 0.3 * rng.normal(size=n), 1.0 if weight is None else weight
    for how in restorations(loss):
        cost, slopes = cost_of(loss, y, p, after, weight, **how)
        v, costs, terms = reference.dual_costs(loss, y, p, after, **how)
        if weight is not None:
            costs = np.where(weight > 0.0, costs, 0.0)
        sums = (counted * costs).sum(), (counted * terms).sum()
        agree(cost, *sums, (loss.name, how), is_exact=is_exact(loss))
        if cost < np.inf:
            np.testing.assert_allclose(slopes, (counted * v).astype(float), rtol=1e-12, atol=1e-13)


@ANY
def test_costs_are_infinite_where_a_shift_leaves_the_domain(loss):
    """Of one row at a time: if and only if it does, whatever side the row is on."""
    rng = np.random.default_rng(3)
    n = 400
    y, p = targets_of(loss, rng, n), 2.0 * rng.normal(size=n)
    after = p + rng.normal(size=n) * np.geomspace(0.1, 20.0, n)
    for shift in (-3.0, -0.4, 0.4, 3.0):
        cost, _ = row_costs(loss, y, p, after, shift=shift)
        _, known, _ = reference.dual_costs(loss, y, p, after, shift=shift)
        np.testing.assert_array_equal(cost == np.inf, known == np.inf)
        whole, _ = cost_of(loss, y, p, after, shift=shift)
        assert (whole == np.inf) == (known == np.inf).any()


@ANY
def test_a_point_at_the_slopes_themselves_costs_nothing(loss):
    """A step of length zero, whose slopes are kept as they are."""
    rng = np.random.default_rng(4)
    y, p = targets_of(loss, rng, 50), 3.0 * rng.normal(size=50)
    cost, slopes = cost_of(loss, y, p, p)
    _, _, terms = reference.dual_costs(loss, y, p, p)
    assert 0.0 <= cost <= (0.0 if is_exact(loss) else 16.0 * EPS * terms.sum())
    np.testing.assert_allclose(slopes, loss.slope(y, p), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("loss", [SMOOTH[name] for name in (*WITH_FACTOR, "squared_error")])
@given(st.floats(-40.0, 40.0), st.floats(-12.0, 0.0), st.sampled_from([-1.0, 1.0]))
def test_small_changes_cost_half_their_curvature(loss, p, size, sign):
    """No digits cancel: a change D costs h D^2 / 2, to third order, however small it is."""
    y, change = 1.0, sign * 10.0**size * 1e-3
    after = p + change
    change = after - p
    cost, _ = cost_of(loss, np.array([y]), np.array([p]), np.array([after]))
    half = 0.5 * loss.curvature(y, p)[0] * change**2
    assert abs(cost - half) <= (abs(change) + 1e-12) * half


@ANY
def test_predictions_that_are_no_numbers_cost_infinitely_much(loss):
    """Nothing is proved by rows whose change is not known; rows of weight zero do not matter."""
    y = np.array([1.0, 1.0])
    for p, after in ((np.inf, np.inf), (0.0, np.nan), (np.nan, 0.0), (-np.inf, -np.inf)):
        ends = np.array([0.1, p]), np.array([0.2, after])
        for how in ({}, {"shift": 0.01}, {"kept": 0.5}):
            cost, _ = cost_of(loss, y, *ends, **how)
            assert cost == np.inf
            cost, slopes = cost_of(loss, y, *ends, np.array([1.0, 0.0]), **how)
            assert cost == cost_of(loss, y[:1], *(end[:1] for end in ends), **how)[0]
            assert slopes[1] == 0.0
