"""The kernels of second order agree with their NumPy twins, whatever the rows and threads."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import KINDS, SHAPES, draw, make_rows, weights_of

from antithetic._core import kernels
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

SMOOTH = [name for name, loss in LOSSES.items() if loss.is_smooth]


def targets_of(loss, rng, n, weight):
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if loss.classification else rng.normal(size=n)
    return y, kernels.Targets(y, np.empty(0) if weight is None else weight)


def evaluate(rows, targets, loss, coef, intercept, n, threads=1):
    slopes, curvatures, predictions = np.empty(n), np.empty(n), np.empty(n)
    gradient = np.empty(len(coef))
    totals = rows.evaluate(
        targets,
        loss.code,
        loss.epsilon,
        coef,
        intercept,
        slopes,
        curvatures,
        predictions,
        gradient,
        threads,
    )
    return totals, slopes, curvatures, predictions, gradient


def agree(ours, twin):
    """All parts agree, to rounding of sums of about a thousand numbers."""
    for found, expected in zip(ours, twin, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_visit_to_all_rows_is_that_of_its_twin(kind, shape, weighted):
    """Sums, slopes, curvatures, predictions and gradient, for every loss and shape."""
    (n, d), (dtype, index) = shape, kind
    for name in SMOOTH:
        X, rng = draw(n, d, dtype)
        loss, weight = LOSSES[name], weights_of(rng, n) if weighted else None
        y, targets = targets_of(loss, rng, n, weight)
        coef = rng.normal(size=d)
        rows, twin = make_rows(X, index), reference.evaluate(X, y, weight, loss, coef, 0.3)
        agree(evaluate(rows, targets, loss, coef, 0.3, n), twin)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_rows_are_those_of_their_twins(kind, shape):
    """Combinations, products with a Gram matrix, weighted squares and the matrix itself."""
    (n, d), (dtype, index) = shape, kind
    X, rng = draw(n, d, dtype)
    wide, rows = X.astype(float), make_rows(X, index)
    factors, vector, weight = rng.normal(size=n), rng.normal(size=d), weights_of(rng, n)
    total = np.empty(d)
    rows.combine(factors, total, 1)
    agree([total], [wide.T @ factors])
    scores = weight * (wide @ vector + 0.7)
    assert rows.gram_product(weight, vector, 0.7, total, 1) == pytest.approx(
        scores.sum(), rel=1e-11, abs=1e-11
    )
    agree([total], [wide.T @ scores])
    total = np.zeros(d)
    rows.weighted_squares(weight, total)
    agree([total], [weight @ wide**2])
    gram = np.zeros((d, d))
    if index is None:
        with pytest.raises(ValueError, match="dense rows"):
            rows.gram(weight, gram)
    else:
        rows.gram(weight, gram)
        agree([np.tril(gram) + np.tril(gram, -1).T], [wide.T @ (weight[:, None] * wide)])


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_columns_are_those_of_their_twins(kind, shape, has_weights):
    """Of shifted entries and their squares, and the ends; entries that are not stored are zeros."""
    (n, d), (dtype, index) = shape, kind
    X, rng = draw(n, d, dtype)
    X[:, ::2] += 9.0  # columns without zeros, whose least is above zero
    weight = weights_of(rng, n) if has_weights else np.ones(n)
    counted, shift = X[weight > 0.0].astype(float), rng.normal(size=d)
    shift[::3] = 0.0
    apart, shares = counted - shift, weight[weight > 0.0]
    ends = (counted.min(axis=0, initial=np.inf), counted.max(axis=0, initial=-np.inf))
    found = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    given_weight = weight if has_weights else np.empty(0)
    make_rows(X, index).column_sums(given_weight, shift, *found)
    agree(found[:2], [shares @ apart, shares @ apart**2])
    np.testing.assert_array_equal(found[2:], ends)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("out", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_weighed_rows_are_those_of_their_twin(kind, out, threads):
    """Roots times rows less a centre, from any row on, and the roots as a last column."""
    dtype, index = kind
    X, rng = draw(50, 7, dtype)
    rows, roots, centre = make_rows(X, index), rng.random(50), rng.normal(size=7)
    plain, centred = np.full((20, 7), np.nan, out), np.full((20, 8), np.nan, out)
    rows.weigh_rows(roots, np.empty(0), 30, plain, threads)
    rows.weigh_rows(roots, centre, 10, centred, threads)
    some = {"rtol": 4.0 * np.finfo(out).eps, "atol": 1e-30}
    np.testing.assert_allclose(plain, roots[30:, None] * X[30:].astype(float), **some)
    twin = roots[10:30, None] * np.column_stack([X[10:30].astype(float) - centre, np.ones(20)])
    np.testing.assert_allclose(centred, twin, **some)


@pytest.mark.parametrize(
    ("roots", "centre", "start", "shape", "message"),
    [
        (49, 0, 0, (5, 7), "one per row"),
        (50, 6, 0, (5, 7), "centre"),
        (50, 0, 46, (5, 7), "range exceeds the rows"),
        (50, 0, -1, (5, 7), "range exceeds the rows"),
        (50, 0, 0, (5, 9), "columns"),
    ],
)
def test_weighed_rows_of_other_shapes_are_refused(roots, centre, start, shape, message):
    """Nothing is read or written beyond the arrays."""
    X, _ = draw(50, 7, np.float64)
    with pytest.raises(ValueError, match=message):
        make_rows(X, None).weigh_rows(np.ones(roots), np.ones(centre), start, np.empty(shape), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_agree_to_rounding_and_repeat_to_the_bit(kind):
    """Any number of threads, more than there are blocks of rows too; twice the same bits."""
    n, d = 3001, 13
    X, rng = draw(n, d, kind[0])
    loss, rows, coef = LOSSES["log_loss"], make_rows(X, kind[1]), rng.normal(size=d)
    _, targets = targets_of(loss, rng, n, weights_of(rng, n))
    one = evaluate(rows, targets, loss, coef, 0.1, n)
    for threads in (3, 1000):
        first = evaluate(rows, targets, loss, coef, 0.1, n, threads)
        agree(first, one)
        for found, again in zip(
            first, evaluate(rows, targets, loss, coef, 0.1, n, threads), strict=True
        ):
            np.testing.assert_array_equal(found, again)
    factors, sums = rng.normal(size=n), [np.empty(d), np.empty(d)]
    rows.combine(factors, sums[0], 1)
    rows.combine(factors, sums[1], 3)
    agree([sums[1]], [sums[0]])
    totals = [rows.gram_product(np.abs(factors), coef, 0.2, total, k) for total, k in
              zip(sums, (1, 3), strict=True)]  # fmt: skip
    agree([totals[1], sums[1]], [totals[0], sums[0]])


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("scale", [1e3, 1e100, 1e200])
def test_huge_predictions_give_no_nan(name, scale):
    """Slopes and curvatures stay finite or are infinite; none is NaN, and neither is the loss."""
    X = np.array([[1.0], [-1.0], [1e-3], [0.0]]) * scale
    loss, y = LOSSES[name], np.array([1.0, 1.0, -1.0, -1.0])
    for weight in (None, np.array([1.0, 0.0, 2.0, 1.0])):
        targets = kernels.Targets(y, np.empty(0) if weight is None else weight)
        totals, slopes, curvatures, *_ = evaluate(
            make_rows(X, None), targets, loss, np.array([1e3]), 0.0, 4
        )
        assert not np.isnan(totals).any()
        assert not np.isnan(slopes).any()
        assert np.isfinite(curvatures).all()


@given(st.floats(-800.0, 800.0), st.sampled_from([-1.0, 1.0]))
def test_the_logistic_loss_keeps_its_digits(p, y):
    """Vectorised exponentials and logarithms agree with NumPy's to a few units of rounding."""
    loss, margin = LOSSES["log_loss"], y * p
    totals, slopes, curvatures, *_ = evaluate(
        make_rows(np.ones((1, 1)), None),
        kernels.Targets(np.array([y]), np.empty(0)),
        loss,
        np.array([p]),
        0.0,
        1,
    )
    tail = np.exp(-abs(margin))
    assert totals[0] == pytest.approx(np.log1p(tail) + max(0.0, -margin), rel=4e-15, abs=1e-300)
    slope = -y * (tail if margin >= 0.0 else 1.0) / (1.0 + tail)
    assert slopes[0] == pytest.approx(slope, rel=4e-15, abs=1e-300)
    assert curvatures[0] == pytest.approx(tail / (1.0 + tail) ** 2, rel=4e-15, abs=1e-300)


@pytest.mark.parametrize("name", SMOOTH)
def test_curvatures_are_those_of_their_twins(name):
    """The second derivative is the slope of the slope."""
    loss = LOSSES[name]
    y, p = np.ones(9), np.array([-3.0, -1.0, -0.5, 0.0, 0.9, 1.0, 1.05, 1.1, 4.0])
    found = np.empty(9)
    kernels.curvatures(loss.code, loss.epsilon, y, p, found)
    np.testing.assert_allclose(found, reference.curvature(loss, y, p), rtol=1e-12)
    inside = np.array([-3.1, -0.6, 0.1, 0.8, 1.04, 4.1])
    step = 1e-6
    slopes = [loss.slope(np.ones(6), inside + side) for side in (-step, step)]
    kernels.curvatures(loss.code, loss.epsilon, np.ones(6), inside, found[:6])
    np.testing.assert_allclose(found[:6], (slopes[1] - slopes[0]) / (2.0 * step), atol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 7, 20])
def test_coordinate_descent_is_that_of_its_twin(d):
    """Steps and slopes agree, weights are exactly zero, and the optimum's conditions hold."""
    rng = np.random.default_rng(d)
    root = rng.normal(size=(2 * d, d))
    hessian, gradient = root.T @ root, 5.0 * rng.normal(size=d)
    l1, start = np.full(d, 3.0), rng.normal(size=d) * (rng.random(d) < 0.5)
    l1[-1] = 0.0
    slopes, step = gradient.copy(), np.zeros(d)
    kernels.descend(hessian, l1, start, slopes, step, 1e-20, 3000)
    twin = reference.descend(hessian, l1, start, gradient, 3000)
    np.testing.assert_allclose(step, twin[0], atol=1e-9)
    np.testing.assert_allclose(slopes, gradient + hessian @ step, atol=1e-9)
    at = start + step
    assert np.all(np.abs(slopes[at == 0.0]) <= l1[at == 0.0] + 1e-9)
    np.testing.assert_allclose((slopes + l1 * np.sign(at))[at != 0.0], 0.0, atol=1e-8)


def test_coordinates_without_curvature_stay():
    """A column of zeros has no curvature; its weight does not move, whatever its slope."""
    slopes, step = np.array([1.0, 2.0]), np.zeros(2)
    kernels.descend(np.diag([0.0, 1.0]), np.zeros(2), np.zeros(2), slopes, step, 0.0, 10)
    np.testing.assert_array_equal(step, [0.0, -2.0])


def test_a_quadratic_model_of_other_lengths_is_refused():
    """The matrix is square, and every vector has its length."""
    right = [np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2)]
    for place in range(4):
        wrong = [np.zeros(3) if k == place else column for k, column in enumerate(right)]
        with pytest.raises(ValueError, match="one length"):
            kernels.descend(np.eye(2), *wrong, 0.0, 10)
    with pytest.raises(ValueError, match="one length"):
        kernels.descend(np.ones((2, 3)), *right, 0.0, 10)


@pytest.mark.parametrize(
    ("n", "k"), [(3, 1), (600, 2), (40, 8), (150, 9), (200, 17), (300, 61), (70, 130)]
)
def test_newton_on_a_table_of_any_shape_equals_its_twin(n, k):
    """Several lanes of columns, and more rows than are visited at once."""
    rng = np.random.default_rng((n, k))
    table, y = rng.normal(size=(n, k)) + 0.5, np.resize([1.0, -1.0], n)
    problem = Problem.build(table, y, l2=0.1)
    kind = problem.loss.code, problem.loss.epsilon
    offset, ridge, start = 0.1 * rng.normal(size=n), np.full(k, 1e-2), 0.1 * rng.normal(size=k)
    for steps in (0, 5):
        point, hessian = start.copy(), np.empty((k, k))
        kernels.newton_on_table(
            table, problem.targets, *kind, offset, ridge, steps, 1e-4, 1e-10, point, hessian
        )
        twin = reference.newton_on_table(
            table, problem, offset, ridge, start, steps=steps, enough=1e-4, least_ridge=1e-10
        )
        np.testing.assert_allclose(point, twin[0], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(hessian, twin[1], rtol=1e-7, atol=1e-9)
