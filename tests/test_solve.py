"""`solve`: any convex problem with a smooth loss, to any accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize as search

import antithetic
from antithetic import Result, minimize, solve
from antithetic.losses import LOSSES, Huber, SquaredEpsilonInsensitive, Tweedie
from antithetic.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) + 0.3
W = np.array([0.5, -1.0, 0.0, 0.3])
WEIGHT = RNG.integers(0, 3, 300).astype(float)
OFFSET = 0.5 * RNG.normal(size=300)
REGRESSION = [
    "squared_error",
    "huber",
    "squared_epsilon_insensitive",
    "poisson",
    "gamma",
    "tweedie",
    Huber(1.5),
    SquaredEpsilonInsensitive(0.5),
    Tweedie(1.2),
]
CLASSES = ["log_loss", "squared_hinge", "modified_huber"]
PENALTIES = {"l2": {"l2": 0.1}, "l1": {"l1": 0.02}, "elastic net": {"l1": 0.02, "l2": 0.1}}


def targets(loss):
    if isinstance(loss, str) and loss in CLASSES:
        return np.where(X @ W + RNG.logistic(size=300) > 0.0, "yes", "no")
    return np.exp(0.5 * X @ W + 0.1 * RNG.normal(size=300))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [*CLASSES, *REGRESSION], ids=str)
def test_no_other_weights_are_better(loss, fit_intercept, penalty):
    """A general minimiser that begins at the result finds nothing better, and the gap says so."""
    y, given = targets(loss), PENALTIES[penalty] | {"fit_intercept": fit_intercept}
    result = solve(X, y, loss=loss, sample_weight=WEIGHT, tol=1e-10, **given)
    problem = Problem.build(X, y, loss=loss, sample_weight=WEIGHT, **given)
    own = problem.objective(result.coef, result.intercept)

    def objective(theta):
        return problem.objective(theta[:4], theta[4] if fit_intercept else 0.0)

    start = np.append(result.coef, result.intercept)
    found = min(search(objective, start + 1e-3 * RNG.normal(size=5), method="Nelder-Mead").fun, own)
    assert own - found <= 1e-9 * abs(own)
    assert isinstance(result, Result)
    assert result.converged
    assert result.gap <= 1e-10
    assert result.gap_certified
    assert (result.classes is None) == (problem.classes is None)


@pytest.mark.parametrize("form", [sparse.csr_array, np.float32])
def test_rows_of_any_kind_have_the_same_optimum(form):
    rows = X.astype(np.float32) if form is np.float32 else form(X)
    y = targets("huber")
    one, other = (solve(of, y, loss="huber", l2=0.1, tol=1e-10) for of in (X, rows))
    np.testing.assert_allclose(other.coef, one.coef, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", REGRESSION, ids=str)
def test_an_offset_is_part_of_each_prediction(loss, fit_intercept, weighted):
    """The gradient of the loss of predictions with their offsets vanishes at the result."""
    y, weight = targets(loss), WEIGHT if weighted else None
    result = solve(
        X,
        y,
        loss=loss,
        l2=0.1,
        fit_intercept=fit_intercept,
        sample_weight=weight,
        offset=OFFSET,
        tol=1e-12,
    )
    of = Problem.build(X, y, loss=loss).loss
    slopes = of.slope(y, X @ result.coef + result.intercept + OFFSET)
    slopes = slopes if weight is None else slopes * weight
    np.testing.assert_allclose(X.T @ slopes / 300 + 0.1 * result.coef, 0.0, atol=1e-6)
    if fit_intercept:
        assert slopes.mean() == pytest.approx(0.0, abs=1e-6)


def test_an_exposure_is_the_logarithm_of_its_offset():
    """Rows with twice the exposure have twice the mean: the rates are found."""
    exposure = RNG.uniform(0.5, 4.0, 300)
    counts = RNG.poisson(exposure * np.exp(X @ W)).astype(float)
    rates = solve(X, counts / exposure, loss="poisson", l2=0.1, sample_weight=exposure, tol=1e-12)
    found = solve(X, counts, loss="poisson", l2=0.1, offset=np.log(exposure), tol=1e-12)
    np.testing.assert_allclose(found.coef, rates.coef, atol=1e-8)


def test_it_agrees_with_minimize():
    """Both roads lead to the same optimum, with the same result."""
    y = targets("log_loss")
    exact = solve(X, y, loss="log_loss", l2=0.1, fit_intercept=False, tol=1e-10)
    run = minimize(X, y, loss="log_loss", l2=0.1, solver="sdca", epochs=300, seed=0)
    np.testing.assert_allclose(run.coef, exact.coef, atol=1e-6)
    assert type(run) is type(exact)
    assert np.isnan(run.gap)
    assert exact.classes.tolist() == run.classes.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="made with other data"):
        minimize(X, y, l2=0.1, resume=exact)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "hinge"}, "solve needs a loss without a kink"),
        ({"loss": "quantile"}, "solve needs a loss without a kink"),
        ({"loss": "softmax"}, "LogisticRegression"),
        ({"loss": "nothing"}, "is not known"),
        ({"loss": "log_loss", "offset": OFFSET}, "regression losses only"),
        ({"loss": "huber", "offset": OFFSET[:7]}, "offset must have shape"),
        ({"loss": "huber", "tol": -1.0}, "tol must be a number of at least 0"),
        ({"loss": "huber", "tol": "fine"}, "tol must be a number of at least 0"),
        ({"loss": "huber", "l2": -1.0}, "l2"),
        ({"loss": "poisson", "offset": np.full(300, 800.0)}, "must be finite"),
        ({"loss": "poisson", "y": np.zeros(300)}, "has no optimum"),
    ],
)
def test_what_cannot_be_solved_is_refused(given, message):
    """The message says what to use instead."""
    y = (X[:, 0] > 0.0).astype(float)
    with pytest.raises(ValueError, match=message):
        solve(X, **({"y": y} | given))


def test_rounding_that_ends_a_run_is_told():
    """A tolerance of zero is more than float64 has."""
    from sklearn.exceptions import ConvergenceWarning

    noise = np.random.default_rng(1).normal(size=(300, 3))
    with pytest.warns(ConvergenceWarning, match="ended the run: the gap"):
        solve(noise + 1e9, noise @ [1.0, 2.0, 3.0] + 1e6, loss="huber", l2=1e-12, tol=0.0)


def test_separated_classes_have_no_optimum():
    """Without a penalty the weights of a logistic loss grow for ever, which is told."""
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="perfectly separated.*Set l2 above 0"):
        solve(X, X[:, 0] > 0.0, loss="log_loss")
    solve(X, X[:, 0] > 0.0, loss="log_loss", l2=1e-6)
    solve(X, X[:, 0] > 0.0, loss="squared_hinge")


def test_every_smooth_loss_is_solved():
    """A loss that is added to the package is solved, or has a kink."""
    y = {True: np.sign(X[:, 0]), False: np.abs(X[:, 0]) + 0.1}
    for loss in antithetic.losses.ALL_LOSSES.values():
        if loss.is_smooth:
            assert solve(X, y[loss.classification], loss=loss, l2=0.1).gap <= 1e-4
    assert LOSSES["log_loss"].is_smooth
