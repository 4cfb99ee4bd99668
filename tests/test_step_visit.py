"""Visits to the rows after a step, along it, and for samples: kernels agree with their twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference_dual as reference
from kernel_rows import KINDS, SHAPES, draw, make_rows, weights_of

from antithetic._core import kernels
from antithetic._core.losses import LOG_LOSS, TWEEDIE
from antithetic.losses import Tweedie
from antithetic.problem.losses import LOSSES

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

NONE = np.empty(0)
SMOOTH = {name: loss for name, loss in LOSSES.items() if loss.is_smooth}
SMOOTH |= {loss.name: loss for loss in map(Tweedie, (1.0, 1.3, 2.0))}
ANY = pytest.mark.parametrize("loss", SMOOTH.values(), ids=SMOOTH)


def targets_of(loss, rng, n):
    if loss.classification:
        return np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return rng.normal(size=n) if loss.code != TWEEDIE else rng.gamma(1.0, size=n) + 1e-3


def visit(rows, loss, y, weight, coef, intercept, before, threads=1):
    n, d = rows.shape
    after, sums = np.full(n, np.nan), np.full((2, d), np.nan)
    targets = kernels.Targets(y, NONE if weight is None else weight)
    kind = loss.code, loss.epsilon
    totals = rows.visit_after_step(targets, *kind, coef, intercept, before, after, sums, threads)
    return totals, *sums, after


def agree(ours, twin):
    """All parts agree, to rounding of sums of about a thousand numbers."""
    for found, expected in zip(ours, twin, strict=True):
        expected = np.asarray(expected, dtype=float)
        size = 1.0 + np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * size)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_visit_after_a_step_is_that_of_its_twin(kind, shape, weighted):
    """Sums, gradient, predictions and expected slopes, for every loss, shape and start."""
    (n, d), (dtype, index) = shape, kind
    X, rng = draw(n, d, dtype)
    rows = make_rows(X, index)
    for loss in SMOOTH.values():
        y, weight = targets_of(loss, rng, n), weights_of(rng, n) if weighted else None
        coef, before = rng.normal(size=d), rng.normal(size=n)
        given = loss, y, weight, coef, 0.3, before
        twin = reference.visit_after_step(X, y, weight, loss, *given[3:])
        for threads in (1, 3):
            agree(visit(rows, *given, threads), twin)


@ANY
def test_extreme_rows_are_visited_as_their_twin_says(loss):
    """Predictions up to 1,000 at both ends of the step, right and wrong."""
    ends = np.array([-1e3, -720.0, -300.0, -31.0, 0.0, 29.0, 300.0, 720.0, 1e3])
    if loss.code == TWEEDIE:
        ends = ends[np.abs(ends) <= 300.0]
    for y in ([-1.0], [1.0]) if loss.classification else ([1e-3], [3.0]):
        for before in ends:
            for after in ends:
                given = loss, np.array(y), None, np.array([after]), 0.0, np.array([before])
                found = visit(make_rows(np.ones((1, 1)), None), *given)
                row = np.ones((1, 1)), np.array(y), None, loss, *given[3:]
                slope, curvature = reference.judge(loss, row[1], given[-1])[1:]
                size = float(abs(slope[0]) + curvature[0] * abs(after - before))
                unit = 1e-297 if loss.code == LOG_LOSS else 4.0 * np.finfo(float).eps * size
                for ours, known in zip(found, reference.visit_after_step(*row), strict=True):
                    known = np.asarray(known).astype(float)
                    np.testing.assert_allclose(ours, known, rtol=1e-12, atol=unit)


@ANY
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_hold_anything(loss, kind):
    """Their predictions may overflow: nothing becomes NaN, and no sum changes."""
    X, rng = draw(20, 5, kind[0])
    y, weight, coef = targets_of(loss, rng, 20), weights_of(rng, 20), 10.0 * rng.normal(size=5)
    weight[3] = weight[11] = 0.0
    before, odd = np.where(weight > 0.0, 0.0, np.inf), X.copy()
    odd[3], before[11] = np.finfo(kind[0]).max, -np.inf
    given = loss, y, weight, coef, 0.0
    same = visit(make_rows(X, kind[1]), *given, np.zeros(20))
    agree(visit(make_rows(odd, kind[1]), *given, before)[:3], same[:3])
    after = np.where(weight > 0.0, same[3], np.inf)
    for step in (0.0, 0.5, 1.0):
        found = along(loss, y, weight, before, after, step)
        agree([found], [reference.loss_along(y, weight, loss, before, after, step)])


def along(loss, y, weight, p, after, step):
    targets = kernels.Targets(y, NONE if weight is None else weight)
    return kernels.loss_along(targets, loss.code, loss.epsilon, p, after, step)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 255, 256, 257, 700])
@ANY
def test_bent_predictions_and_losses_along_a_step_are_those_of_their_twins(loss, n, weighted):
    """Slopes, curvatures, and losses at any length, in blocks of any size."""
    rng = np.random.default_rng(n)
    y, weight = targets_of(loss, rng, n), weights_of(rng, n) if weighted else None
    p, after = rng.normal(size=(2, n))
    targets = kernels.Targets(y, NONE if weight is None else weight)
    slopes, curvatures = np.full((2, n), np.nan)
    kernels.bend_predictions(targets, loss.code, loss.epsilon, p, slopes, curvatures)
    found, counted = reference.judge(loss, y, p), 1.0 if weight is None else weight
    agree([slopes, curvatures], [counted * found.slope, counted * found.curvature])
    for step in (0.0, 0.3, 1.0, 2.5):
        found = along(loss, y, weight, p, after, step)
        agree([found], [reference.loss_along(y, weight, loss, p, after, step)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_reach_of_rows_is_that_of_its_twin(kind, shape):
    """The largest square in units of the columns, of which some are constant, by either storage."""
    (n, d), (dtype, index) = shape, kind
    X, rng = draw(n, d, dtype)
    for spread in (0.1, 10.0):
        centre, scale = spread * rng.normal(size=d), rng.gamma(1.0, size=d)
        scale[::4] = 0.0
        out = np.full(n, np.nan)
        make_rows(X, index).reach(centre, scale, out)
        twin = reference.reach(X, centre, scale, stored=None if index is None else X != 0.0)
        np.testing.assert_allclose(out, twin, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_agree_to_rounding_and_repeat_to_the_bit(kind):
    """Any number of threads, more than there are blocks of rows too; twice the same bits."""
    n, d = 3001, 13
    X, rng = draw(n, d, kind[0])
    rows, loss, weight = make_rows(X, kind[1]), LOSSES["log_loss"], weights_of(rng, n)
    y, coef, before = targets_of(loss, rng, n), rng.normal(size=d), rng.normal(size=n)
    given = loss, y, weight, coef, 0.1, before
    one = visit(rows, *given)
    for threads in (3, 1000):
        first = visit(rows, *given, threads)
        agree(first, one)
        for found, repeated in zip(first, visit(rows, *given, threads), strict=True):
            np.testing.assert_array_equal(found, repeated)


# ---- samples by hash


def drawn(share, size, seed, first=0):
    return kernels.draw_by_hash(share, size, seed, first).tolist()


@pytest.mark.parametrize(
    ("seed", "first"),
    [(0, 0), (1, 0), (12345, 7), (2**63, 2**40), (2**64 - 1, 0), (3, 2**64 - 50)],
)
def test_draws_are_those_of_their_twin(seed, first):
    """Every row, for shares from nothing to certain, and numbers that wrap around."""
    share = np.concatenate([[0.0, 1.0, 2.0**-53], np.random.default_rng(0).random(300)]) / 50.0
    for size in (0.0, 1.0, 20.0, 50.0, 1e9):
        assert drawn(share, size, seed, first) == reference.draw_by_hash(share, size, seed, first)
    assert drawn(share[:0], 1.0, seed, first) == []
    assert drawn(np.full(100, 0.01), 100.0, seed, first) == list(range(100))


def test_draws_do_not_depend_on_how_rows_are_cut():
    """Blocks that say which row is their first draw what all rows together draw."""
    share = np.random.default_rng(1).random(1000) / 500.0
    whole = drawn(share, 150.0, 5)
    for cuts in ([500], [1, 2, 999], list(range(0, 1000, 37))):
        blocks = np.split(np.arange(1000), cuts)
        parts = [
            block[0] + i for block in blocks if len(block)
            for i in drawn(share[block], 150.0, 5, int(block[0]))
        ]  # fmt: skip
        assert parts == whole


def test_a_sample_is_part_of_each_larger_one():
    """Whatever the shares, in the order of the rows."""
    share = np.random.default_rng(2).uniform(0.01, 1.0, size=500) / 250.0
    samples = [drawn(share, size, 11) for size in np.geomspace(1.0, 1e5, 30)]
    for small, large in itertools.pairwise(samples):
        assert set(small) <= set(large)
        assert large == sorted(large)
    assert samples[-1] == list(range(500))


def test_draws_are_as_likely_as_they_say_and_independent():
    """Counts over rows and seeds lie within 5 deviations of those of independent draws.

    The seeds are fixed. If hashes were random numbers, one of the 42 counts would lie outside with
    probability 2.4e-5.
    """
    share, size, seeds = np.repeat([0.01, 0.1, 0.35, 0.7], 500), 1.0, 250
    found = np.zeros((seeds, len(share)))
    for seed in range(seeds):
        found[seed, drawn(share, size, seed)] = 1.0
    apart = (found - share) / np.sqrt(share * (1.0 - share))
    for level in range(4):  # all rows of a share; and neighbours, in rows and in seeds
        some = apart[:, 500 * level : 500 * (level + 1)]
        assert abs(some.sum()) <= 5.0 * np.sqrt(some.size)
        for one, other in ((some[:, 1:], some[:, :-1]), (some[1:], some[:-1])):
            assert abs((one * other).sum()) <= 5.0 * np.sqrt(one.size)
    blocks = apart.reshape(seeds, 20, 100).sum(axis=(0, 2)), apart.sum(axis=1)[:10]
    assert (np.abs(blocks[0]) <= 5.0 * np.sqrt(100 * seeds)).all()
    assert (np.abs(blocks[1]) <= 5.0 * np.sqrt(len(share))).all()
