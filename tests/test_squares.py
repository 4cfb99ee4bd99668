"""Squared errors with an L2 penalty: the minimum from one visit to the rows."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from scipy import sparse

from antithetic import Ridge
from antithetic._core import kernels
from antithetic.estimators import regression
from antithetic.exact import squares
from antithetic.exact.solve import solve_exactly
from antithetic.exact.squares import least_squares, sum_squares
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet

solve = sys.modules["antithetic.exact.solve"]
pytestmark = pytest.mark.sanitized

RNG = np.random.default_rng(0)
NONE = np.empty(0)


def problem_of(X, y, weight, l2, intercept):
    """A problem whose entries are not checked."""
    return Problem(X, y, LOSSES["squared_error"], ElasticNet(l2), weight, intercept, None)


# ---- the kernel


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 7), (127, 8), (129, 15), (300, 33), (700, 50)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.kernel
def test_products_equal_their_twin(n, d, kind, intercept):
    """Sums of products agree with NumPy's for all shapes, weights, centres and threads."""
    X, y = (RNG.normal(size=(n, d)) + 3.0).astype(kind), RNG.normal(size=n)
    weight, centre = RNG.random(n), RNG.normal(size=d)
    weight[::3] = 0.0
    rows, columns = kernels.Rows.dense(X), d + intercept + 1
    for given in (NONE, weight):
        known = reference.squares(X, y, given, centre, 0.3, intercept) / n
        size = np.sqrt(known.diagonal())
        for threads in (1, 3):
            found = np.zeros((columns, columns))
            assert rows.squares(y, given, centre, 0.3, intercept, False, found, threads)
            assert (np.abs(found - known) <= 1e-14 * np.outer(size, size)).all()
            np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(3, 0), (1, 1), (5, 7), (129, 16), (300, 33), (700, 50)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.kernel
def test_products_without_targets_equal_their_twin(n, d, kind, intercept):
    """A Hessian has no column of targets, and products of float32 have its digits."""
    X, weight, centre = (RNG.normal(size=(n, d)) + 3.0).astype(kind), RNG.random(n), np.full(d, 2.5)
    weight[::3] = 0.0
    rows, columns = kernels.Rows.dense(X), d + intercept
    known = reference.squares(X, np.zeros(n), weight, centre, 0.0, intercept)
    known = known[:columns, :columns] / n
    size = np.sqrt(known.diagonal())
    for is_single, threads in ((False, 1), (False, 3), (True, 1), (True, 3)):
        found, unit = np.zeros((columns, columns)), 2e-6 if is_single else 1e-14
        given = NONE, weight, centre, 0.0, intercept, is_single
        assert rows.squares(*given, found, threads)
        assert (np.abs(found - known) <= unit * np.outer(size, size)).all()
        np.testing.assert_array_equal(found, found.T)
        if is_single and columns and n > 1:
            assert (found != known).any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (130, 3), (-1, -1)])
@pytest.mark.kernel
def test_sums_are_finite_only_if_all_entries_are(wrong, place):
    """Sums that overflow, or are of entries that are not finite, are not used."""
    X, y = RNG.normal(size=(200, 17)), RNG.normal(size=200)
    X[place] = wrong
    assert sum_squares(problem_of(X, y, None, 1.0, False), 1) is None
    y[place[0]], X[place] = wrong, 0.0
    assert sum_squares(problem_of(X, y, None, 1.0, True), 1) is None


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 33, 127])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.kernel
def test_the_minimum_of_products_equals_its_twin(d, intercept):
    """One call finds the minimum, the objectives, the gap and the size of columns of any scale."""
    X = (RNG.normal(size=(300, d)) + 0.3) * np.geomspace(1e-3, 1e3, d)
    y = (X / np.geomspace(1e-3, 1e3, d)).sum(axis=1) + RNG.normal(size=300)
    products = reference.squares(X, y, NONE, np.zeros(d), 0.0, intercept) / 300
    theta = np.empty(d + intercept)
    rounding = 1e-9  # so large that no other matters to the gap
    found = kernels.minimise_products(products, 1e-2, intercept, rounding, theta)
    known, numbers = reference.minimum_of_products(products, 1e-2, intercept, rounding)
    np.testing.assert_allclose(theta, known, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, numbers, rtol=1e-6)


@pytest.mark.kernel
def test_an_indefinite_matrix_has_no_minimum():
    """Rounding may leave products that no rows have: another method has to go on."""
    products = np.array([[1.0, 3.0, 1.0], [3.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert kernels.minimise_products(products, 1e-3, False, 1e-14, np.empty(2)) is None


def test_threads_take_no_more_room_than_the_rows(monkeypatch):
    """Each thread has sums of its own, so that many of them need many rows."""
    threads = []

    class Rows:
        def squares(self, *given):
            threads.append(given[-1])

    monkeypatch.setattr(squares, "ENTRIES_PER_THREAD", 1)
    for n in (20, 500, 10_000):
        X, y = np.ones((n, 99)), np.ones(n)
        sum_squares(SimpleNamespace(X=X, y=y, weight=None, fit_intercept=False, rows=Rows()), 64)
    assert threads == [1, 5, 64]


# ---- the minimum, against one of more digits


def exact(X, y, weight, l2, intercept):
    """Minimum and a function that gives the objective, both of extended precision.

    Columns and targets are centred exactly enough, and Gaussian elimination is followed by
    corrections of its own.
    """
    wide = np.longdouble
    X, y = X.astype(wide), y.astype(wide)
    s = np.ones(len(y), wide) if weight is None else weight.astype(wide)
    n = wide(len(y))
    shift = (s @ X) / s.sum() if intercept else np.zeros(X.shape[1], wide)
    level = (s @ y) / s.sum() if intercept else wide(0)
    Z, t = X - shift, y - level
    H = (Z.T * s) @ Z / n + wide(l2) * np.eye(X.shape[1], dtype=wide)
    w = np.zeros(X.shape[1], wide)
    for _ in range(3):
        w = w - eliminate(H, Z.T @ (s * (Z @ w - t)) / n + wide(l2) * w)

    def objective(coef, constant):
        residuals = X @ coef.astype(wide) + wide(constant) - y
        return 0.5 * (s @ residuals**2) / n + 0.5 * wide(l2) * (coef.astype(wide) ** 2).sum()

    best = 0.5 * (s @ (Z @ w - t) ** 2) / n + 0.5 * wide(l2) * (w @ w)
    return w, best, objective, 0.5 * (s @ t**2) / n


def eliminate(H, b):
    """Solution of a linear system, with the number type that it has."""
    H, b = H.copy(), b.copy()
    k = len(b)
    for j in range(k):
        factors = H[j + 1 :, j] / H[j, j]
        H[j + 1 :] -= factors[:, None] * H[j]
        b[j + 1 :] -= factors * b[j]
    for j in reversed(range(k)):
        b[j] = (b[j] - H[j, j + 1 :] @ b[j + 1 :]) / H[j, j]
    return b


def hard_cases():
    """Name, rows, targets, weights and penalty."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 12))
    y = X @ rng.normal(size=12) + rng.normal(size=400)
    weight = rng.random(400) * (rng.random(400) > 0.4)
    twins = np.column_stack([X, X[:, :3] + 1e-9 * rng.normal(size=(400, 3))])
    wide = rng.normal(size=(600, 180)) + 0.7 * rng.normal(size=(600, 1))
    return {
        "plain": (X, y, None, 1e-3),
        "weights of zero": (X, y, weight, 1e-3),
        "weights of any size": (X, y, 10.0 ** rng.uniform(-6, 6, 400), 1e-3),
        "nearly perfect": (X, X @ rng.normal(size=12) + 1e-7 * rng.normal(size=400), None, 1e-12),
        "perfect": (X, X @ np.ones(12), None, 1e-14),
        "offset": (X + 1e6, y, None, 1e-3),
        "offset of targets": (X, y + 1e6, None, 1e-3),
        "collinear": (twins, y, None, 1e-8),
        "collinear, no penalty to speak of": (twins, y, None, 1e-13),
        "tiny penalty": (X, y, None, 1e-15),
        "scales": (X * np.geomspace(1e-6, 1e6, 12), y, None, 1e-4),
        "a constant column": (np.column_stack([X, np.full(400, 7.0)]), y, None, 1e-4),
        "fewer rows than columns": (X[:8], y[:8], None, 1e-3),
        "one row": (X[:1], y[:1], None, 1e-3),
        "a constant target": (X, np.full(400, 3.3), None, 1e-3),
        "zeros": (X, np.zeros(400), None, 1e-3),
        "large": (1e150 * X, 1e150 * y, None, 1e-3),
        "wide": (wide, wide @ rng.normal(size=180) + rng.normal(size=600), None, 1e-4),
        "wide and offset": (wide + 1e3, wide @ rng.normal(size=180), None, 1e-6),
        "wide and large": (1e30 * wide, 1e30 * wide @ rng.normal(size=180), None, 1e-4),
        "wide and fewer rows": (wide[:100], wide[:100, 0], None, 1e-2),
        "heavy": (X, 1e100 * (1.0 + 1e-3 * y), 1e100 * rng.random(400), 1e-3),
        "no noise": (X, X @ np.ones(12), None, 1e-6),
    }


CASES = hard_cases()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hard_cases_end_at_the_minimum(name, intercept):
    """The objective is the least there is, up to rounding of predictions, however hard the rows."""
    X, y, weight, l2 = CASES[name]
    model = Ridge(alpha=l2 * len(X), tol=1e-12, fit_intercept=intercept)
    model.fit(X, y, sample_weight=weight)
    _, best, objective, constant = exact(X, y, weight, l2, intercept)
    reached = objective(model.coef_, model.intercept_)
    # a prediction of float64 is off by this much, whoever computed the weights
    unit = np.finfo(float).eps
    largest = np.abs(X * model.coef_).sum(axis=1).max() + np.abs(y).max()
    shown = (4.0 * unit * largest) ** 2 * (1.0 if weight is None else weight.mean())
    assert reached - best <= 1e-12 * constant + shown


@pytest.mark.parametrize("missing", [1e10, 1e16, 1e20])
@pytest.mark.parametrize("d", [5, 160])
def test_what_a_row_of_weight_zero_holds_changes_nothing(d, missing):
    """A number that stands for a missing one may be as large as it likes, by either method."""
    rng = np.random.default_rng(2)
    X, weight = rng.normal(size=(400, d)), np.ones(400)
    y = X @ rng.normal(size=d) + rng.normal(size=400)
    weight[3] = weight[200] = 0.0
    X[3, 1], y[200] = missing, missing
    _, best, objective, constant = exact(X, y, weight, 1e-3, True)
    problem = problem_of(X, y, weight, 1e-3, True)
    for at_once in (True, False):
        found = solve_exactly(problem, tol=1e-12, max_iter=100, at_once=at_once)
        assert objective(found.coef[0], found.intercept[0]) - best <= 1e-12 * constant


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_what_a_row_of_weight_zero_holds_changes_no_unit(make):
    """Conjugate gradients of few rows of many columns are told nothing of such a row."""
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(100, 700)), np.ones(100)
    y, weight[3] = X[:, :5].sum(axis=1), 0.0
    found = []
    for missing in (1.0, 1e18):
        X[3] = missing
        model = Ridge(alpha=1.0, tol=1e-12).fit(make(X), y, sample_weight=weight)
        found.append(model.coef_)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_gap_is_a_bound(name):
    """The true distance from the minimum is at most the gap that is shown."""
    X, y, weight, l2 = CASES[name]
    for intercept in (False, True):
        _, best, objective, constant = exact(X, y, weight, l2, intercept)
        for tol in (1e-2, 1e-8):
            model = Ridge(alpha=l2 * len(X), tol=tol, fit_intercept=intercept)
            model.fit(X, y, sample_weight=weight)
            left = objective(model.coef_, model.intercept_) - best
            # the last term is the rounding of the rows' own sums
            assert left <= model.gap_ * (constant - best) * (1.0 + 1e-6) + 1e-14 * constant + 1e-40


def any_rows(rng):
    """Rows of any scale, offset and dependence, targets, weights and penalty."""
    n, d = int(10.0 ** rng.uniform(0.0, 2.5)), int(10.0 ** rng.uniform(0.0, 1.4))
    X = rng.normal(size=(n, d)) * 10.0 ** (rng.integers(2) * rng.uniform(-5, 5, d))
    X += rng.integers(2) * 10.0 ** rng.uniform(-2, 6)
    if d > 2:
        X[:, 1] = X[:, 0] + 10.0 ** rng.uniform(-12, 0) * X[:, 1]
    noise = 10.0 ** rng.uniform(-8, 1) * rng.normal(size=n)
    y = 10.0 ** rng.uniform(-6, 1) * (X @ rng.normal(size=d)) + noise
    weight = 10.0 ** rng.uniform(-5, 5, n) * (rng.random(n) < 0.7) + 1e-9
    l2 = 10.0 ** rng.uniform(-14, 2) * (X * X).mean(axis=0).max()
    return X, y, weight if rng.integers(2) else None, l2


def test_random_minima_are_no_further_than_they_say():
    """Whatever the rows are, a minimum that is given has a gap that bounds its distance."""
    given = 0
    for seed in range(60):
        X, y, weight, l2 = any_rows(np.random.default_rng(seed))
        point = least_squares(problem_of(X, y, weight, l2, False))
        if point is None:
            continue
        given += 1
        _, best, objective, constant = exact(X, y, weight, l2, False)
        left = objective(point.coef, 0.0) - best
        # the last term is the rounding of the rows' own gradient
        assert left <= point.distance * (1.0 + 1e-6) + 1e-16 * constant, seed
        assert point.distance <= 1e-14 * constant, seed
    assert given >= 45, f"only {given} of 60 minima were given"


def test_easy_cases_need_one_visit(monkeypatch):
    """If rounding does not matter, nothing visits the rows again."""
    monkeypatch.setattr(solve, "solve_problem", None)
    easy = ["plain", "weights of zero", "a constant column", "fewer rows than columns", "zeros"]
    for name in easy:
        X, y, weight, l2 = CASES[name]
        for intercept in (False, True):
            model = Ridge(alpha=l2 * len(X), fit_intercept=intercept, max_iter=1)
            model.fit(X, y, sample_weight=weight)
            w, *_ = exact(X, y, weight, l2, intercept)
            np.testing.assert_allclose(model.coef_, w.astype(float), rtol=1e-10, atol=1e-12)
            assert model.gap_ <= 1e-12


@pytest.mark.parametrize("name", ["perfect", "tiny penalty", "offset", "large"])
def test_sums_that_say_too_little_are_not_trusted(name):
    """If rounding of the sums matters, they do not decide."""
    X, y, weight, l2 = CASES[name]
    assert least_squares(problem_of(X, y, weight, l2, False)) is None


# ---- as an estimator


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(300, 8), (2500, 30), (900, 160)])
def test_all_attributes_are_those_of_iterations(monkeypatch, kind, shape):
    """Weights and types of attributes agree, up to rounding."""
    X = RNG.normal(size=shape).astype(kind)
    y = X[:, :5].sum(axis=1) + RNG.normal(size=len(X))
    weight = RNG.random(len(X))
    for intercept in (False, True):
        for counted in (None, weight):
            one, other = (Ridge(0.01 * len(X), fit_intercept=intercept, tol=1e-7) for _ in "ab")
            one.fit(X, y, sample_weight=counted)
            with monkeypatch.context() as patch:
                patch.setattr(
                    regression,
                    "solve_exactly",
                    lambda *a, **k: solve_exactly(*a, **(k | {"at_once": False})),
                )
                other.fit(X, y, sample_weight=counted)
            assert [model.plan_.method for model in (one, other)] == ["least squares", "newton"]
            assert {name: type(value) for name, value in vars(one).items()} == {
                name: type(value) for name, value in vars(other).items()
            }
            np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-4, atol=1e-5)
            assert one.intercept_ == pytest.approx(other.intercept_, rel=1e-4, abs=1e-5)
            assert one.coef_.dtype == other.coef_.dtype == kind
            assert 0.0 <= one.gap_ <= 1e-7
            assert 0.0 <= other.gap_ <= 1e-7


def test_sparse_rows_have_the_same_minimum():
    """Dense and sparse rows lead to the same weights."""
    X = np.where(RNG.random((500, 20)) < 0.3, RNG.normal(size=(500, 20)), 0.0)
    y = X.sum(axis=1) + RNG.normal(size=500)
    for intercept in (False, True):
        make = Ridge(alpha=0.5, fit_intercept=intercept)
        dense, spread = make.fit(X, y).coef_, make.fit(sparse.csr_array(X), y).coef_
        np.testing.assert_allclose(dense, spread, rtol=1e-9)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_errors_are_those_of_scikit_learn(wrong):
    """Entries that are not finite are refused, and leave a fitted model as it was."""
    X, y, _, _ = CASES["plain"]
    model = Ridge().fit(X, y)
    before = dict(vars(model))
    bad = X.copy()
    bad[7, 3] = wrong
    with pytest.raises(ValueError, match="Input X contains"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="Input y contains"):
        model.fit(X, np.where(np.arange(400) == 9, wrong, y))
    assert vars(model) == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that sends signals")
def test_the_visit_can_be_interrupted(monkeypatch):
    """Ctrl-C ends the visit to many rows, and leaves the model without weights."""

    def interrupt(*_):
        raise KeyboardInterrupt

    X, y, model = np.ones((40_000, 300)), np.ones(40_000), Ridge()
    monkeypatch.setattr(solve, "solve_problem", None)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert not hasattr(model, "coef_")
