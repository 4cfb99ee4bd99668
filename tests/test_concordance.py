"""The bound from self-concordance: of the gap, of the weights, and whether there is an optimum."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from antithetic import LogisticRegression, PoissonRegressor, Ridge, solve
from antithetic.exact import models
from antithetic.exact.certificate import prove, reach
from antithetic.exact.linear_algebra import NotDefiniteError, Root
from antithetic.exact.path import sums_of
from antithetic.losses import Tweedie
from antithetic.problem import Problem
from antithetic.problem.losses import ALL_LOSSES, SOFTMAX

PROBLEMS = 240


@pytest.fixture(scope="module")
def trials():
    """The trials of the benchmarks, whose optima are known to 18 digits."""
    folder = Path(__file__).parents[1] / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("proof_bounds")
    finally:
        sys.path.remove(str(folder))


def test_no_bound_is_violated(trials):
    """Gap and weights of fits and of points near the optimum, where problems are awkward."""
    for kind, tally in trials.bounds(PROBLEMS).items():
        assert tally.violations == 0, kind
        assert tally.false_proofs == 0, kind
        assert tally.checks > PROBLEMS / 2, kind
        assert tally.proved >= 0.95 * tally.fits > 0, kind
        assert np.median(tally.tightness) < 1.2, kind


def test_a_smaller_constant_is_violated(trials):
    """With 0.7 of it there are violations, and proofs of optima that do not exist."""
    tallies = trials.bounds(PROBLEMS, 0.7).values()
    assert sum(tally.violations for tally in tallies) >= 10
    assert sum(tally.false_proofs for tally in tallies) >= 3


@pytest.mark.parametrize("loss", ["log_loss", "poisson", "gamma", Tweedie(1.2), Tweedie(1.8)])
def test_the_constant_bounds_the_third_derivative(loss):
    """It is the least that does, up to 1 %."""
    loss = ALL_LOSSES.get(loss, loss)
    p, step = np.linspace(-12.0, 12.0, 4001), 1e-4
    worst = 0.0
    for y in (-1.0, 1.0) if loss.classification else (1e-6, 1.0, 1e6):
        y = np.full(len(p), y)
        third = (loss.curvature(y, p + step) - loss.curvature(y, p - step)) / (2.0 * step)
        worst = max(worst, float(np.max(np.abs(third) / loss.curvature(y, p))))
    assert 0.99 * loss.concordance <= worst <= loss.concordance + 1e-6


def test_losses_without_a_constant_say_so():
    for name in ("squared_hinge", "modified_huber", "huber", "hinge", "quantile"):
        assert ALL_LOSSES[name].concordance == np.inf
    assert SOFTMAX.concordance == 1.0
    assert ALL_LOSSES["squared_error"].concordance == 0.0


def test_the_formulas_agree_where_one_takes_over_from_the_other():
    """Series and closed form, at q = 1e-3; and nothing is proved from q = 0.999 on."""
    below, above = reach(0.5, 2e-3 * (1.0 - 1e-9)), reach(0.5, 2e-3 * (1.0 + 1e-9))
    np.testing.assert_allclose(below, above, rtol=1e-8)
    assert reach(1.0, 0.9991) is None
    assert reach(np.nan, 1.0) is None
    assert reach(0.1, np.inf) is None


def test_a_root_never_makes_a_matrix_larger():
    """What is subtracted from the diagonal makes the inverse larger, or is refused."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0]
    matrix = rows.T @ rows
    for lowered in (0.0, 1e-6, np.array([0.0, 0.1, 0.0, 0.0])):
        root = Root(matrix, lowered).inverse_root()
        own = np.linalg.inv(matrix - np.diag(matrix.diagonal() * lowered))
        np.testing.assert_allclose(root.T @ root, own, rtol=1e-6)
    with pytest.raises(NotDefiniteError):
        Root(np.ones((2, 2)), 1e-12)
    with pytest.raises(NotDefiniteError):
        Root(np.zeros((2, 2)))


def draw(n=2000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.logistic(size=n) > 0.5).astype(int), rng


@pytest.mark.parametrize("n", [200, 5000])
@pytest.mark.parametrize("make", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_fits_without_a_penalty_are_proved(classes, make, n):
    """Dense, sparse and float32 rows, samples or not, two classes or many."""
    X, y, rng = draw(n)
    if classes == 3:
        y = np.argmax(X[:, :3] + rng.gumbel(size=(n, 3)), axis=1)
    model = LogisticRegression(C=np.inf).fit(make(X), y)
    assert model.gap_certified_
    assert model.coef_error_ <= 0.01
    assert model.gap_ <= 1e-4


def test_a_proof_takes_one_visit_more_than_an_estimate(monkeypatch):
    """The Hessian of all rows is taken once, the leverage is found once, at the end."""
    X, y, _ = draw(20_000)
    asked = []
    prove = models.prove
    monkeypatch.setattr(models, "prove", lambda *given: asked.append(1) or prove(*given))
    assert LogisticRegression(C=np.inf).fit(X, y).gap_certified_
    assert len(asked) == 1
    LogisticRegression(C=1.0).fit(X, y)
    assert len(asked) == 1


def test_a_fit_goes_on_until_the_weights_are_known():
    """A quick fit ends with its gap alone; the error of its weights is given nevertheless."""
    X, y, _ = draw(20_000)
    quick, usual = (LogisticRegression(C=np.inf, tol=tol).fit(X, y) for tol in (1e-1, 1e-3))
    assert quick.gap_certified_
    assert quick.n_iter_[0] < usual.n_iter_[0]
    assert usual.coef_error_ <= 0.01 < quick.coef_error_


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_errors_are_in_standard_errors_whatever_the_unit_of_y(scale):
    """Least squares and gamma regressions know their dispersion; penalised least squares, too."""
    X, _, rng = draw()
    y = scale * (X @ np.arange(5.0) + rng.normal(size=len(X)))
    for alpha in (0.0, 1.0):
        model = Ridge(alpha=alpha).fit(X, y)
        assert model.coef_error_ <= 1e-3
        exact = Ridge(alpha=alpha).fit(X - X.mean(axis=0), y)
        sigma = scale / np.sqrt(len(X))
        assert np.abs(model.coef_ - exact.coef_).max() <= 2.1 * model.coef_error_ * sigma + 1e-12
    given = solve(X, np.exp(y / scale) * scale, loss="gamma", tol=1e-4)
    assert given.gap_certified
    assert given.coef_error <= 0.01


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_that_depend_on_others_are_left_out_of_the_proof(classes, make):
    """All categories beside an intercept, and a column that is there twice."""
    X, y, rng = draw()
    if classes == 3:
        y = np.argmax(X[:, :3] + rng.gumbel(size=(len(X), 3)), axis=1)
    of_row = np.eye(4)[rng.integers(4, size=len(X))]
    wide = np.hstack([X, of_row, X[:, :1]])
    model, plain = (LogisticRegression(C=np.inf).fit(make(rows), y) for rows in (wide, X))
    assert model.gap_certified_
    assert model.coef_error_ <= 0.01
    least = LogisticRegression(C=np.inf).fit(np.hstack([X, of_row[:, 1:]]), y)
    np.testing.assert_allclose(
        model.predict_log_proba(make(wide)),
        least.predict_log_proba(np.hstack([X, of_row[:, 1:]])),
        atol=1e-2,
    )
    assert plain.gap_certified_


@pytest.mark.parametrize("apart", [1e-7, 1e-3])
def test_columns_that_nearly_depend_on_others_are_not_left_out(apart):
    """One row in which they differ may matter: there is a proof with them, or there is none."""
    X, y, _ = draw(300)
    twice = X[:, :1].copy()
    twice[7] += apart
    problem = Problem.build(np.hstack([X, twice]), y, fit_intercept=True)
    sums = sums_of(problem)
    point = sums.at(np.zeros(7))
    near = prove(sums, point, sums.hessian(point, exact=True), np.nan)
    assert not near.certified  # weights are far from theirs: one row's loss can become zero


def test_counts_that_are_zero_in_a_category_have_no_optimum():
    """Nothing is proved, though losses fall by next to nothing."""
    X, _, rng = draw()
    X[:, 4] = rng.random(len(X)) < 0.1
    y = rng.poisson(np.where(X[:, 4] > 0.0, 0.0, np.exp(0.3 * X[:, 0]))).astype(float)
    model = PoissonRegressor(alpha=0.0).fit(X, y)
    assert not model.gap_certified_
    assert np.isnan(model.coef_error_)


def test_rows_of_weight_zero_count_for_nothing():
    """However far out: they are no part of the objective."""
    X, y, _ = draw()
    far = np.vstack([X, np.full((1, 5), 1e8)])
    weight = np.append(np.ones(len(X)), 0.0)
    one = sums_of(Problem.build(X, y, fit_intercept=True))
    other = sums_of(Problem.build(far, np.append(y, 1), sample_weight=weight, fit_intercept=True))
    theta = np.linspace(-1.0, 1.0, 6)
    root = np.eye(6)
    found = [sums.largest_leverage(sums.at(theta), root) for sums in (one, other)]
    assert found[0].largest == pytest.approx(found[1].largest, rel=1e-9)
    assert found[0].of_scores == pytest.approx(found[1].of_scores, rel=1e-3)


def test_an_offset_column_of_sparse_rows_is_allowed_for():
    """Its products are rounded before they are centred: the diagonal is lowered by more."""
    X, y, _ = draw(400)
    X[:, 0] += 1e4
    near = sums_of(Problem.build(X, y, fit_intercept=True))
    far = sums_of(Problem.build(sparse.csr_array(X), y, fit_intercept=True))
    theta = np.zeros(6)
    hessian = near.hessian(near.at(theta), exact=True)
    np.testing.assert_array_equal(near.rounded_diagonal(hessian), hessian.diagonal())
    raw = far.rounded_diagonal(hessian)[0]
    assert raw == pytest.approx(0.25 * np.square(X[:, 0]).mean(), rel=1e-6)
    problem = replace(near.problem, weight=np.ones(400))
    assert sums_of(problem).rounded_diagonal(hessian)[0] == hessian[0, 0]
