"""Fits without a warning are near the optimum, and fits that are far from it warn.

The optima are not found by SGD: that of the hinge loss is the certified dual of scikit-learn's
``SVC``, the others are those of ``solve``, proved to 1e-10.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from antithetic import SGDClassifier, SGDRegressor, solve
from antithetic.problem import Problem
from antithetic.stochastic.gap import WIDE, bound_of, still_to_fall
from antithetic.stochastic.loop import Easing, balance

ALPHA = 1e-4
rng = np.random.default_rng(0)


def tails(n, d):
    """Rows with heavy tails."""
    return rng.standard_t(3.0, size=(n, d))


def rare(n, d):
    """Columns of zeros and ones, some of them rare."""
    return (rng.random((n, d)) < np.geomspace(0.01, 0.5, d)).astype(float)


def collinear(n, d):
    """Columns that are nearly the same."""
    return rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, d))


ROWS = {
    "independent": rng.normal(size=(400, 5)),
    "few rows": rng.normal(size=(60, 10)),
    "tails": tails(500, 6),
    "rare": rare(600, 12),
    "collinear": collinear(300, 4),
    "wide": rng.normal(size=(50, 100)),
}


def targets(X, seed, noise=0.5):
    """Labels that depend on all columns."""
    rng = np.random.default_rng(seed)
    scores = (X - X.mean(axis=0)) @ rng.normal(size=X.shape[1])
    return (scores / scores.std() + noise * rng.logistic(size=len(X)) > 0.0).astype(int)


def made():
    """Made problems and real ones, as they are and standardised."""
    for name, X in ROWS.items():
        yield name, X, targets(X, len(name))
    for load in (load_breast_cancer, load_wine, load_iris):
        X, y = load(return_X_y=True)
        yield load.__name__, StandardScaler().fit_transform(X), (y == 1).astype(int)


CASES = {name: (X, y) for name, X, y in made()}
ALL = pytest.mark.parametrize(("X", "y"), CASES.values(), ids=CASES)


def fitted(model, X, y):
    """Return a model and whether it warned."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    return model, any(issubclass(one.category, ConvergenceWarning) for one in said)


def least_hinge(X, y):
    """Lower bound on the minimum of the hinge objective, from the dual variables of SVC."""
    n = len(y)
    C = 1.0 / (ALPHA * n)
    svc = SVC(C=C, kernel="linear", tol=1e-5).fit(X, y)
    signed = svc.dual_coef_[0] / C  # of the support vectors, y a with a from 0 to 1
    combined = signed @ X[svc.support_]
    return np.abs(signed).sum() / n - 0.5 * combined @ combined / (ALPHA * n**2)


@ALL
def test_silent_hinge_fits_are_near_the_optimum(X, y):
    """Default fits on ordinary data do not warn, and are within 5 % of the optimum."""
    model, warned = fitted(SGDClassifier(random_state=0), X, y)
    z = np.where(y > 0, 1.0, -1.0)
    reached = np.maximum(0.0, 1.0 - z * (X @ model.coef_[0] + model.intercept_[0])).mean()
    reached += 0.5 * ALPHA * model.coef_[0] @ model.coef_[0]
    first = 2.0 * min(np.mean(z > 0.0), np.mean(z < 0.0))
    assert reached <= first  # never worse than a constant
    assert not warned
    assert (reached - least_hinge(X, y)) / (first - reached) <= 0.05


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
@ALL
def test_the_estimate_of_a_smooth_loss_is_that_of_the_exact_road(X, y, loss):
    """gap_ is (f - f*) / (f_0 - f*) within a factor of three, and says whether to warn."""
    kind = SGDClassifier if loss == "log_loss" else SGDRegressor
    model, warned = fitted(kind(loss, random_state=0), X, y)
    given = {"loss": loss, "l2": ALPHA, "fit_intercept": True}
    problem = Problem.build(X, y, **given)
    best = solve(X, y, **given, tol=1e-10)
    least = problem.objective(best.coef, best.intercept)
    constant = solve(np.zeros((len(y), 1)), y, **given)
    first = problem.objective(np.zeros(X.shape[1]), constant.intercept)
    coef, intercept = np.ravel(model.coef_), np.ravel(model.intercept_)[0]
    gap = (problem.objective(coef, intercept) - least) / (first - least)
    assert gap / 3.0 - 1e-9 <= model.gap_ <= 3.0 * gap + 1e-9
    assert warned == (model.gap_ > WIDE)


def test_max_iter_warns_if_it_ends_a_fit_too_early():
    """The message says how far the minimum is; a fit that is near enough is silent."""
    X, y = CASES["load_breast_cancer"]
    with pytest.warns(ConvergenceWarning, match=r"max_iter=3 ended the fit, .* % above its min"):
        model = SGDClassifier(max_iter=3, random_state=0).fit(X, y)
    assert model.gap_ > WIDE
    easy = ROWS["independent"]
    model, warned = fitted(SGDRegressor(max_iter=7, random_state=0), easy, easy.sum(axis=1))
    assert model.n_iter_ == 7
    assert not warned


def test_extrapolation_is_exact_for_powers_of_the_epochs():
    """A fall as 1/k and as 1/sqrt(k), from values after each epoch; noise above does not matter."""
    for power in (1.0, 0.5):
        marks = [(0, 2.0), *((k, k**-power) for k in range(1, 65))]
        assert still_to_fall(marks) == pytest.approx(64.0**-power)
    assert still_to_fall([(0, 1.0), (1, 1.0), (8, 1.0)]) == 0.0


def test_the_decay_follows_noise():
    """It is halved if steps are too short, and doubled if the mean does not become better."""
    start = Easing()
    assert balance(start, 1.0, 0.9, 2.0, 5).eased == 1
    assert balance(start, 1.0, 1.1, 2.0, 5) == start
    waiting = balance(start, 1.0, 1.1, 1.0, 5)
    assert (waiting.eased, waiting.aligned) == (0, 1)
    assert balance(waiting, 1.0, 1.1, 1.0, 5).eased == -1
    assert balance(waiting, 1.0, 1.1, 1.0, 50).eased == 0  # late, a better mean takes longer


def test_a_bound_is_a_share_of_what_a_constant_lacks():
    """left / (f_0 - f + left), which is infinite if the constant is better."""
    X = ROWS["few rows"]
    problem = Problem.build(X, targets(X, 0), l2=0.1)
    at_zero = problem.loss_at_zero()
    assert bound_of(problem, at_zero - 0.3, 0.1).share == pytest.approx(0.25)
    assert bound_of(problem, at_zero, 0.1).share == 1.0
    assert bound_of(problem, at_zero + 0.1, 0.1).share == np.inf


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_constant_labels_of_noise_are_not_made_worse(loss):
    """Where a constant is the optimum, or nearly, the model is no worse than that."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(2000, 5)), (rng.random(2000) < 0.02).astype(int)
    model, warned = fitted(SGDClassifier(loss, random_state=0), X, y)
    problem = Problem.build(X, y, loss=loss, l2=ALPHA, fit_intercept=True)
    share = y.mean()
    constant = -1.0 if loss == "hinge" else np.log(share / (1.0 - share))
    reached = problem.objective(model.coef_[0], model.intercept_[0])
    assert reached <= problem.objective(np.zeros(5), constant) * (1.0 + 1e-9)
    assert not warned
