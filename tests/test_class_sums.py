"""Sums over rows of many classes equal their NumPy twins, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest
import reference_classes as twin
from scipy import sparse

from antithetic._core import kernels
from antithetic.exact import class_sums
from antithetic.exact.certificate import certified_gap
from antithetic.exact.class_sums import (
    ClassSums,
    best_constants,
    best_shift,
    move_chances,
    thinned,
)
from antithetic.exact.many_classes import ClassFactors, SharedFactor, solve_classes
from antithetic.exact.path import Effort
from antithetic.problem.penalties import ElasticNet

RNG = np.random.default_rng(0)
N, D, K = 60, 4, 5
X = RNG.normal(size=(N, D)) + np.array([3.0, 0.0, -1.0, 0.0])
X[RNG.random((N, D)) < 0.3] = 0.0
LABELS = RNG.integers(0, K, size=N)
WEIGHT = RNG.choice([0.0, 0.5, 2.0], size=N)
CENTRE = X.mean(axis=0) + 0.1
COEF, INTERCEPTS = RNG.normal(size=(K, D)), RNG.normal(size=K)
PENALTY = ElasticNet(0.03, 0.0)


def sums_of(make=np.asarray, *, weight=WEIGHT, centre=CENTRE, penalty=PENALTY, dtype=np.float64):
    return ClassSums(make(X.astype(dtype)), LABELS, K, penalty, weight, centre)


def user_gradient(sums, gradient):
    """Gradient in the user's weights and intercepts, from that of centred columns."""
    along = gradient[: K * D].reshape(K, D)
    if not sums.fit_intercept:
        return along, np.zeros(K)
    constants = gradient[K * D :]
    return along + np.outer(constants, CENTRE), constants


# ---- kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [1, 2, 3, 7, 8, 9, 40])
def test_slopes_of_scores(dtype, classes):
    rng = np.random.default_rng(classes)
    scores = (5.0 * rng.normal(size=(30, classes))).astype(dtype)
    labels, weight = rng.integers(0, classes, size=30), rng.choice([0.0, 1.0, 3.0], size=30)
    chances = twin.chances_of(scores.astype(np.float64), np.eye(classes), 0.0)
    slopes = weight[:, None] * (chances - twin.one_hot(labels, classes))
    loss = -(weight @ np.log(chances[np.arange(30), labels]))
    sums, out = np.zeros(classes), scores.copy()
    found = kernels.softmax_slopes(out, labels, weight, sums)
    np.testing.assert_allclose(out, slopes, atol=4 * np.finfo(dtype).eps * 3.0)
    np.testing.assert_allclose(sums, slopes.sum(axis=0), atol=1e-12)
    curvature = weight @ (chances * (1.0 - chances)).sum(axis=1)
    np.testing.assert_allclose(found, (loss, (slopes**2).sum(), curvature), rtol=1e-10, atol=1e-12)
    curvatures = np.empty_like(scores)
    kernels.softmax_chances(scores, curvatures)
    np.testing.assert_allclose(scores, chances, atol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(curvatures, chances * (1 - chances), atol=4 * np.finfo(dtype).eps)


def test_scores_that_overflow_exp_have_the_right_loss():
    scores = np.array([[1e4, 0.0, -1e4], [1e4, 0.0, -1e4], [-50.0, 0.0, -60.0]])
    sums, out = np.zeros(3), scores.copy()
    loss, _, _ = kernels.softmax_slopes(out, np.array([0, 2, 1]), np.empty(0), sums)
    small = np.exp(-50.0) + np.exp(-60.0)
    np.testing.assert_allclose(loss, 2e4 + np.log1p(small), rtol=1e-15)
    np.testing.assert_allclose(out[1], [1.0, 0.0, -1.0], atol=1e-300)
    np.testing.assert_allclose(out[2, 1], -small, rtol=1e-13)  # 1 - p keeps its digits


def test_a_row_of_weight_zero_beats_an_infinite_loss():
    scores, sums = np.array([[np.inf, 0.0, np.nan], [0.0, 0.0, 0.0]]), np.zeros(3)
    loss, _, _ = kernels.softmax_slopes(scores, np.array([1, 0]), np.array([0.0, 1.0]), sums)
    assert loss == pytest.approx(np.log(3.0))
    assert (scores[0] == 0.0).all()
    scores = np.array([[np.inf, 0.0, 1.0]])
    assert np.isnan(kernels.softmax_slopes(scores, np.array([1]), np.empty(0), sums)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.1, 5.0], ids=["inside", "cut"])
def test_a_visit_after_a_step(dtype, size):
    """Slopes after the step, and those that its quadratic model expects."""
    rng = np.random.default_rng(4)
    before = (2.0 * rng.normal(size=(50, 5))).astype(dtype)
    after = (before + size * rng.normal(size=(50, 5))).astype(dtype)
    labels, weight = rng.integers(0, 5, size=50), rng.choice([0.0, 1.0, 3.0], size=50)
    both, sums = np.empty((50, 10), dtype), np.zeros(10)
    loss, slope_square, curvature, square = kernels.softmax_step(
        before, after, labels, weight, both, sums
    )
    slopes, of_classes = after.copy(), np.zeros(5)
    totals = kernels.softmax_slopes(slopes, labels, weight, of_classes)
    assert (loss, slope_square, curvature) == totals
    np.testing.assert_array_equal(both[:, :5], slopes)
    old, new = before.astype(np.float64), after.astype(np.float64)
    expected = twin.expected_chances(old, new)
    assert (expected == 0.0).any() == (size > 1.0)
    expected = weight[:, None] * (expected - twin.one_hot(labels, 5))
    digits = 8 * np.finfo(dtype).eps * 3.0
    np.testing.assert_allclose(both[:, 5:], expected, atol=digits)
    found = np.concatenate([of_classes, expected.sum(axis=0)])
    np.testing.assert_allclose(sums, found, atol=1e-12)
    chances = twin.chances_of(old, np.eye(5), 0.0)
    mean = (chances * (new - old)).sum(axis=1)
    spread = (chances * (new - old) ** 2).sum(axis=1) - mean**2
    assert square == pytest.approx(weight @ spread, rel=1e-10)


def test_the_loss_along_a_step():
    rng = np.random.default_rng(5)
    before, change = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    labels, weight = rng.integers(0, 3, size=40), rng.choice([0.0, 1.0, 3.0], size=40)
    for length in (0.0, 0.3, 1.0, 4.0):
        slopes, sums = before + length * change, np.zeros(3)
        loss = kernels.softmax_slopes(slopes, labels, weight, sums)[0]
        found = kernels.softmax_along(before, before + change, labels, weight, length)
        np.testing.assert_allclose(found, (loss, (slopes * change).sum()), rtol=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("size", [0.0, 0.1, 5.0], ids=["no step", "inside", "cut"])
def test_the_cost_of_what_a_step_expects(share, size):
    rng = np.random.default_rng(6)
    before = 2.0 * rng.normal(size=(40, 4))
    after = before + size * rng.normal(size=(40, 4))
    labels, weight = rng.integers(0, 4, size=40), rng.choice([0.0, 1.0, 3.0], size=40)
    kept, given = np.array([0.5, 1.0, 0.0, 1.0]), np.array([0.0, 0.3, 0.0, 0.7])
    chances = twin.expected_chances(before, after)
    others = kept * chances + np.outer(chances @ (1.0 - kept), given)
    others = share * others + (1.0 - share) * twin.one_hot(labels, 4)
    found = kernels.softmax_step_cost(before, after, labels, weight, kept, given, share)
    expected = twin.divergence(twin.chances_of(before, np.eye(4), 0.0), others, weight)
    assert found == pytest.approx(expected, rel=1e-10)


def test_the_cost_keeps_its_digits_if_a_probability_underflows():
    """A label whose probability is exp(-900) gets a part of the others: logs must not underflow."""
    before = np.array([[900.0, 0.0, 0.0]])
    kept, given = np.array([0.5, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])
    found = kernels.softmax_step_cost(before, before, np.array([1]), np.empty(0), kept, given, 1.0)
    assert found == pytest.approx(np.log(0.5) + 0.5 * 900.0, rel=1e-13)


@pytest.mark.parametrize(
    "call",
    [
        lambda: kernels.softmax_slopes(np.zeros((2, 3)), np.array([0]), np.empty(0), np.zeros(3)),
        lambda: kernels.softmax_slopes(
            np.zeros((2, 3)), np.array([0, 3]), np.empty(0), np.zeros(3)
        ),
        lambda: kernels.softmax_slopes(
            np.zeros((2, 3)), np.array([0, 1]), np.zeros(3), np.zeros(3)
        ),
        lambda: kernels.softmax_slopes(
            np.zeros((2, 3)), np.array([0, 1]), np.empty(0), np.zeros(2)
        ),
        lambda: kernels.softmax_chances(np.zeros((2, 3)), np.zeros((3, 2))),
        lambda: kernels.softmax_step(
            np.zeros((1, 2)),
            np.zeros((1, 2)),
            np.array([0]),
            np.empty(0),
            np.zeros((1, 2)),
            np.zeros(4),
        ),
        lambda: kernels.softmax_along(
            np.zeros((1, 2)), np.zeros((1, 3)), np.array([0]), np.empty(0), 1.0
        ),
        lambda: kernels.softmax_step_cost(
            np.zeros((1, 2)),
            np.zeros((1, 2)),
            np.array([0]),
            np.empty(0),
            np.ones(3),
            np.ones(2),
            1.0,
        ),
    ],
)
def test_kernels_refuse_shapes_that_do_not_fit(call):
    with pytest.raises(ValueError, match=r"label|class|score"):
        call()


# ---- shares


def test_the_best_constants():
    shares = np.array([0.2, 0.5, 0.3])
    constants, loss = best_constants(shares)
    assert constants.sum() == pytest.approx(0.0, abs=1e-15)
    assert loss == pytest.approx(-(shares @ np.log(shares)))
    constants, loss = best_constants(np.array([0.5, 0.5, 0.0]))
    assert constants[2] == pytest.approx(constants[0] - 30.0)
    assert loss == pytest.approx(0.5 * 2 * np.log(2.0))


def test_moved_chances_have_the_sums_that_are_wanted():
    rng = np.random.default_rng(0)
    for _ in range(20):
        chances = rng.dirichlet(np.ones(6), size=9)
        wanted = 9 * rng.dirichlet(np.ones(6))
        kept, given = move_chances(wanted, chances.sum(axis=0))
        moved = kept * chances + np.outer(chances @ (1.0 - kept), given)
        np.testing.assert_allclose(moved.sum(axis=0), wanted)
        np.testing.assert_allclose(moved.sum(axis=1), 1.0)
        assert (moved >= 0.0).all()


# ---- sums


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("centre", [None, CENTRE], ids=["none", "intercepts"])
def test_the_objective_and_its_derivatives(make, weight, centre):
    sums = sums_of(make, weight=weight, centre=centre)
    intercepts = np.zeros(K) if centre is None else INTERCEPTS
    theta = sums.join(COEF, intercepts)
    np.testing.assert_allclose(sums.split(theta)[1], intercepts, atol=1e-14)
    point = sums.at(theta)
    given = (X, LABELS, COEF, intercepts)
    expected = twin.objective(*given, l2=0.03, weight=weight)
    assert point.objective == pytest.approx(expected, rel=1e-13)
    coef, constants = twin.gradient(*given, l2=0.03, weight=weight)
    found = user_gradient(sums, point.gradient)
    if centre is not None:
        np.testing.assert_allclose(found[1], constants, atol=1e-14)
    np.testing.assert_allclose(found[0], coef, atol=1e-13)
    # in centred columns the same weights have the intercepts b + W mu
    rows, moved = (X, intercepts) if centre is None else (X - centre, intercepts + COEF @ centre)
    second = twin.hessian(
        rows, COEF, moved, l2=0.03, weight=weight, has_intercepts=centre is not None
    )
    diagonal = sums.diagonal(point)
    np.testing.assert_allclose(
        sums.hessian(point, exact=True), _gauged(second, D, centre), atol=1e-12
    )
    np.testing.assert_allclose(sums.hessian(point), _gauged(second, D, centre), atol=1e-5)
    np.testing.assert_allclose(diagonal, second.diagonal(), atol=1e-13)
    vector = np.random.default_rng(2).normal(size=len(theta))
    np.testing.assert_allclose(sums.times(point, vector), second @ vector, atol=1e-12)
    product = sums.products(theta)(vector)
    digits = 1e-12 if sums.kind == np.float64 else 1e-5
    np.testing.assert_allclose(product, second @ vector, atol=digits)
    columns = np.array([0, 5, 6, 13])
    chosen = np.append(columns, np.arange(K * D, len(theta)))
    part = sums.hessian_of(point, columns, exact=True)
    np.testing.assert_allclose(part, _gauged(second, D, centre)[np.ix_(chosen, chosen)], atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("centre", [None, CENTRE], ids=["none", "intercepts"])
def test_means_of_classes_are_those_of_centred_rows(make, weight, centre):
    """Each is the weighted sum of the centred rows of a class, divided by the number of rows."""
    rows, counts = X - (0.0 if centre is None else centre), np.ones(N) if weight is None else weight
    expected = [(counts * (k == LABELS)) @ rows / N for k in range(K)]
    found = sums_of(make, weight=weight, centre=centre).class_means()
    np.testing.assert_allclose(found, expected, atol=1e-14)


def _gauged(second, d, centre):
    """Second derivatives with some curvature where all intercepts change alike."""
    if centre is None:
        return second
    found, tail = second.copy(), slice(K * d, None)
    found[tail, tail] += np.trace(second[tail, tail]) / K / K
    return found


def test_with_full_care_the_hessian_is_above_all_others():
    sums = sums_of()
    above = sums.hessian(sums.at(sums.join(COEF, INTERCEPTS)), exact=True, damping=1.0)
    for factor in (0.0, 0.3, 2.0):
        second = sums.hessian(sums.at(sums.join(factor * COEF, INTERCEPTS)), exact=True)
        tail = slice(K * D, None)
        for matrix in (above, second):
            matrix[tail, tail] -= matrix[tail, tail].mean()  # without the gauge
        assert np.linalg.eigvalsh(above - second).min() > -1e-10
    vector = np.random.default_rng(2).normal(size=sums.columns)
    point = sums.at(sums.join(COEF, INTERCEPTS))
    data = vector @ sums.times(point, vector) - 0.03 * vector[: K * D] @ vector[: K * D]
    assert data <= sums.curvature_above(point, vector)


def test_float32_rows_are_summed_in_float64_when_refined():
    coarse = sums_of(dtype=np.float32)
    assert coarse.kind == np.float32
    fine = coarse.refined()
    theta = fine.join(COEF, INTERCEPTS)
    assert fine.refined() is None
    exact = twin.objective(
        X.astype(np.float32).astype(np.float64), LABELS, COEF, INTERCEPTS, l2=0.03, weight=WEIGHT
    )
    assert fine.at(theta).objective == pytest.approx(exact, rel=1e-13)
    assert coarse.at(theta).objective == pytest.approx(exact, rel=1e-6)


def test_columns_far_from_zero_are_multiplied_in_float64():
    far = X.copy()
    far[:, 0] += 1e4
    sums = ClassSums(far.astype(np.float32), LABELS, K, PENALTY, None, far.mean(axis=0))
    assert sums.kind == np.float64


def test_whitening_is_what_the_blocks_of_the_hessian_have_in_common():
    sums = sums_of()
    point = sums.at(sums.join(COEF, INTERCEPTS))
    second = sums.hessian(point, exact=True)
    blocks = [second[k * D : (k + 1) * D, k * D : (k + 1) * D] for k in range(K)]
    found = sums.whitening(point)
    np.testing.assert_allclose(
        found.products + 0.03 * np.eye(D), np.mean(blocks, axis=0), atol=1e-5
    )
    chances = twin.chances_of(X, COEF, INTERCEPTS)
    of_class = (WEIGHT[:, None] * chances * (1.0 - chances)).mean(axis=0)
    np.testing.assert_allclose(found.mean * found.shares, of_class, rtol=1e-5)
    factor = SharedFactor(found, 0.03, fit_intercept=True)
    solved = factor.solve(point.gradient)
    np.testing.assert_allclose(solved[: K * D].reshape(K, D).sum(axis=0), 0.0, atol=1e-12)
    assert solved @ point.gradient > 0.0


# ---- certificates


@pytest.mark.parametrize("penalty", [(0.03, 0.0), (0.02, 0.01), (0.0, 0.02)], ids=str)
@pytest.mark.parametrize("centre", [None, CENTRE], ids=["none", "intercepts"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_gap_is_never_below_the_true_one(make, centre, penalty):
    """At any weights, not only near the optimum: against the best of many other weights."""
    l2, l1 = penalty
    sums = sums_of(make, centre=centre, penalty=ElasticNet(l2, l1))
    best = solve_classes(sums, [sums.penalty], Effort(1e-13, 500))[0]
    more = {"l2": l2, "l1": l1, "weight": WEIGHT}
    least = twin.objective(X, LABELS, best.coef, best.intercept, **more)
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-6, 1e-3, 0.1, 1.0, 30.0):
        coef = best.coef + size * rng.normal(size=(K, D))
        intercepts = best.intercept + (centre is not None) * size * rng.normal(size=K)
        gap = certified_gap(sums, sums.at(sums.join(coef, intercepts)))
        true = twin.objective(X, LABELS, coef, intercepts, **more) - least
        assert gap >= true - 1e-12
        assert np.isfinite(gap)


# ---- the gauge


@pytest.mark.parametrize(("l1", "l2"), [(1.0, 0.0), (0.0, 0.3), (1.0, 0.3)])
def test_the_best_shift_minimises_the_penalty(l1, l2):
    rng = np.random.default_rng(0)
    for classes in (3, 4, 7):
        coef = rng.normal(size=(classes, 6))
        shift = best_shift(coef, l1, l2)

        def cost(c, coef=coef):
            moved = coef - c
            return (l1 * np.abs(moved) + 0.5 * l2 * moved**2).sum(axis=0)

        for other in rng.normal(size=(200, 6)):
            assert (cost(shift) <= cost(other) + 1e-12).all()


def test_another_gauge_has_the_same_loss_and_gradient():
    sums = sums_of(penalty=ElasticNet(0.03, 0.02))
    point = sums.at(sums.join(COEF + 1.0, INTERCEPTS))
    moved = sums.regauged(point)
    again = sums.at(moved.theta)
    assert moved.objective == pytest.approx(again.objective, rel=1e-13)
    np.testing.assert_allclose(moved.gradient, again.gradient, atol=1e-13)
    assert moved.objective < point.objective


# ---- one block for each class


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("l2", [0.0, 0.03])
@pytest.mark.parametrize("centre", [None, CENTRE])
def test_the_hessian_is_that_of_all_columns(centre, l2, damping):
    sums = sums_of(centre=centre, penalty=ElasticNet(l2, 0.0))
    point = sums.at(sums.join(COEF, INTERCEPTS))
    whole = sums.hessian(point, exact=True, damping=damping)
    of_columns = sums.hessian_of(point, np.arange(sums.d), exact=True, damping=damping)
    np.testing.assert_allclose(whole, of_columns, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("centre", [None, CENTRE])
def test_blocks_of_all_rows_are_those_of_the_hessian(monkeypatch, make, centre):
    monkeypatch.setattr(class_sums, "ROWS_PER_COLUMN", 1e9)
    sums = sums_of(make, centre=centre)
    point = sums.at(sums.join(COEF, INTERCEPTS))
    blocks = sums.class_blocks(point)
    whole = sums.data_hessian(point, np.arange(sums.d), exact=True)
    for k, block in enumerate(blocks):
        mine = np.append(k * D + np.arange(D), K * D + k)[: len(block)]
        np.testing.assert_allclose(block, whole[np.ix_(mine, mine)], rtol=1e-5, atol=1e-6)


def test_a_thinned_sample_keeps_heavy_rows_and_the_sum_of_all():
    weight = np.random.default_rng(0).exponential(size=5000) ** 3
    used, heavier = thinned(weight, 0.2)
    assert 0 < len(used) <= 0.2 * 5000 + 1
    assert np.isin(np.flatnonzero(weight >= weight.mean() / 0.2), used).all()
    assert heavier.sum() == pytest.approx(weight.sum(), rel=5e-3)
    everything, same = thinned(weight, 1e30)
    np.testing.assert_array_equal(everything, np.arange(5000))
    np.testing.assert_allclose(same, weight)
    assert len(thinned(np.zeros(3), 0.2)[0]) == 0


def test_class_blocks_have_rows_however_many_there_are(monkeypatch):
    """Of millions of rows, less than one is drawn from each block of rows that is visited."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(20_000, 10)), rng.integers(0, 3, size=20_000)
    sums = ClassSums(rows, labels, 3, PENALTY, None, None)
    point = sums.at(0.3 * rng.normal(size=30))
    before = np.einsum("kii->k", sums.class_blocks(point))
    monkeypatch.setattr(class_sums, "_ENTRIES_AT_ONCE", 10 * 40)  # 0.4 of 40 rows are drawn
    np.testing.assert_allclose(np.einsum("kii->k", sums.class_blocks(point)), before, rtol=0.3)


@pytest.mark.parametrize("extra", [0, 1])
def test_class_factors_solve_each_block_and_change_no_gauge(extra):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(K, 20, D + extra)) * np.array([1e3, 1.0, 1e-2, 1.0, 1.0])[: D + extra]
    blocks = np.matmul(roots.transpose(0, 2, 1), roots)
    factor = ClassFactors(blocks, D, 0.5)
    vector = rng.normal(size=K * (D + extra))
    rows = np.hstack([vector[: K * D].reshape(K, D), vector[K * D :].reshape(K, extra)])
    ridge = np.diag([0.5] * D + [0.0] * extra)
    rows = rows - rows.mean(axis=0)
    solved = np.array([np.linalg.solve(b + ridge, r) for b, r in zip(blocks, rows, strict=True)])
    solved = solved - solved.mean(axis=0)
    expected = np.concatenate([solved[:, :D].ravel(), solved[:, D:].ravel()])
    np.testing.assert_allclose(factor.solve(vector), expected, rtol=1e-8, atol=1e-12)


def test_blocks_too_large_to_keep_are_never_worth_it():
    few = ClassSums(np.ones((3, 4)), np.arange(3), 3, PENALTY, None, None)
    many = ClassSums(np.ones((3, 3000)), np.arange(3), 3, PENALTY, None, None)
    assert np.isfinite(few.block_passes)
    assert many.block_passes == np.inf


def test_factors_of_blocks_cost_many_passes_over_few_rows():
    """They cost the same whatever the number of rows is, and passes do not."""
    few, many = (
        ClassSums(np.ones((n, 100)), np.arange(n) % 3, 3, PENALTY, None, None) for n in (50, 2000)
    )
    assert few.block_passes > 5.0 * many.block_passes


@pytest.mark.parametrize("spread", [0.0, 1e-9, 0.3, 20.0, 300.0])
@pytest.mark.parametrize("classes", [2, 3, 33])
def test_losses_have_all_their_digits(classes, spread):
    rng = np.random.default_rng(0)
    scores = spread * rng.normal(size=(70, classes))
    labels = scores.argmax(axis=1)
    below = np.sort(scores - scores.max(axis=1, keepdims=True), axis=1)[:, :-1]
    expected = np.log1p(np.exp(below).sum(axis=1)).sum()
    found = kernels.softmax_slopes(scores, labels, np.empty(0), np.zeros(classes))
    assert found[0] == pytest.approx(expected, rel=1e-14)
