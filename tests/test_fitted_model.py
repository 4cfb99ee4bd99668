"""A fitted model read with its rows: its objective, derivatives and factor, and what is refused."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import linear_model
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import antithetic
from antithetic import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from antithetic.exact import linear_algebra
from antithetic.exact.linear_algebra import NotDefiniteError, Root
from antithetic.inference import fitted as module
from antithetic.inference.fitted import read_fitted
from antithetic.inference.left_out import Expansion

N, D = 150, 4
SHIFT = np.array([0.0, 100.0, -3.0, 0.5])


def rows(seed=0):
    return np.random.default_rng(seed).normal(size=(N, D)) + SHIFT


def targets(kind, X):
    rng = np.random.default_rng(1)
    score = (X - SHIFT) @ [0.5, -0.4, 0.3, 0.0]
    if kind == "log_loss":
        return np.array(["no", "yes"])[(score + rng.logistic(size=N) > 0).astype(int)]
    if kind == "softmax":
        return np.argmax(X[:, :3] - SHIFT[:3] + rng.gumbel(size=(N, 3)), axis=1) * 10
    if kind == "squared_error":
        return score + rng.normal(size=N)
    if kind == "gamma":
        return rng.gamma(2.0, np.exp(score) / 2.0)
    return rng.poisson(np.exp(score)).astype(float)


MODELS = {
    "log_loss": LogisticRegression(C=0.5),
    "softmax": LogisticRegression(C=0.5),
    "squared_error": Ridge(alpha=2.0),
    "poisson": PoissonRegressor(alpha=0.1),
    "gamma": GammaRegressor(alpha=0.1),
    "tweedie": TweedieRegressor(power=1.3, alpha=0.1),
}


def fit(kind, **given):
    """A fitted model, and what it was fitted on."""
    X, weight = rows(), np.random.default_rng(2).uniform(0.5, 2.0, N)
    y, model = targets(kind, X), MODELS[kind]
    model = type(model)(**(model.get_params() | given)).fit(X, y, sample_weight=weight)
    return model, X, y, weight


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_derivatives_are_those_of_the_objective(kind, intercept):
    """Gradient and Hessian are those of F, by finite differences, and vanish at the optimum."""
    model, X, y, weight = fit(kind, fit_intercept=intercept, tol=1e-10)
    fitted = read_fitted(model, X, y, sample_weight=weight)
    shape, size = fitted.theta.shape, fitted.theta.size
    steps = np.eye(size) * 1e-5

    def at(theta):
        return fitted.at(theta.reshape(shape))

    middle = fitted.theta.ravel() + 0.01 * np.random.default_rng(0).normal(size=size)
    slopes = [(at(middle + h).objective() - at(middle - h).objective()) / 2e-5 for h in steps]
    assert_allclose(at(middle).gradient().ravel(), slopes, rtol=1e-5, atol=1e-5)
    bends = [(at(middle + h).gradient() - at(middle - h).gradient()).ravel() / 2e-5 for h in steps]
    hessian = at(middle).hessian()
    if kind == "softmax" and intercept:  # along the flat direction it is raised
        flat = np.zeros((3, D + 1, 3, D + 1))
        flat[:, D, :, D] = 1.0
        flat = flat.reshape(size, size)
        raised = hessian - bends
        assert_allclose(raised, raised[D, D] * flat, rtol=1e-4, atol=1e-5)
        assert raised[D, D] > 1.0
    else:
        assert_allclose(hessian, bends, rtol=1e-5, atol=1e-5)
    assert Root(fitted.hessian()).norm(fitted.gradient().ravel()) < 1e-3


def test_the_objective_is_the_sum():
    """F is that of scikit-learn's classes, in units of the sum over rows."""
    model, X, y, weight = fit("log_loss")
    fitted = read_fitted(model, X, y, sample_weight=weight)
    signs = np.where(y == "yes", 1.0, -1.0)
    losses = np.log1p(np.exp(-signs * model.decision_function(X)))
    assert_allclose(fitted.objective(), weight @ losses + (model.coef_**2).sum() / (2 * 0.5))
    assert_allclose(fitted.scores, model.decision_function(X), rtol=1e-10)
    assert (fitted.penalty_share, fitted.penalty.tolist()) == (None, [2.0] * D + [0.0])
    model, X, y, weight = fit("squared_error")
    fitted = read_fitted(model, X, y, sample_weight=weight)
    squares = weight @ (y - model.predict(X)) ** 2 + 2.0 * (model.coef_**2).sum()
    assert_allclose(fitted.objective(), squares / 2.0)
    assert fitted.penalty_share is None
    model, X, y, weight = fit("poisson")
    fitted = read_fitted(model, X, y, sample_weight=weight)
    assert_allclose(fitted.penalty, [0.1 * weight.sum()] * D + [0.0])
    assert_allclose(fitted.penalty_share, weight / weight.sum())
    result = antithetic.solve(X, y, loss="poisson", l2=0.1, sample_weight=weight)
    fitted = read_fitted(result, X, y, sample_weight=weight)
    assert_allclose(fitted.penalty, [0.1 * N] * D + [0.0])
    assert_allclose(fitted.penalty_share, np.full(N, 1.0 / N))
    assert read_fitted(PoissonRegressor(alpha=0).fit(X, y), X, y).penalty_share is None


def test_the_constant_is_the_best_one():
    """The best constant has no lower objective beside it, offsets and classes included."""
    _, X, y, weight = fit("poisson")
    offset = np.random.default_rng(0).normal(size=N)
    for loss in ("poisson", "squared_error"):
        result = antithetic.solve(X, y, loss=loss, sample_weight=weight, offset=offset)
        fitted = read_fitted(result, X, y, sample_weight=weight, offset=offset)
        constants = np.linspace(-3.0, 3.0, 2001)
        values = [weight @ fitted.loss.value(y, constant + offset) for constant in constants]
        assert fitted.constant_objective() <= min(values) + 1e-9
        assert_allclose(fitted.constant_objective(), min(values), rtol=1e-4)
    model, X, y, weight = fit("softmax")
    share = np.array([weight[y == label].sum() for label in (0, 10, 20)])
    found = read_fitted(model, X, y, sample_weight=weight).constant_objective()
    assert_allclose(found, -share @ np.log(share / share.sum()))


@pytest.mark.parametrize("kind", ["log_loss", "softmax", "gamma"])
def test_leverages_are_products_with_the_inverse(kind, monkeypatch):
    """Leverages, solutions and the inverse root are those of the inverse Hessian.

    So they are with each factor: of the Hessian, lowered or not, and of the rows.
    """
    model, X, y, weight = fit(kind)
    fitted = read_fitted(model, X, y, sample_weight=weight)
    hessian = fitted.hessian()
    inverse, k = np.linalg.inv(hessian), fitted.n_classes
    Z = np.column_stack([X - fitted.centre, np.ones(N)])
    expected = np.einsum("ia,kalb,ib->ikl", Z, inverse.reshape(k, D + 1, k, D + 1), Z)
    of_products = fitted.root()
    monkeypatch.setattr(linear_algebra, "_FEW_DIGITS", 2.0)  # as if all were ill-conditioned
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 40)
    for root in (Root(hessian), Root(hessian, fitted.lowered()), of_products, fitted.root()):
        found = fitted.leverages(root)
        assert_allclose(found.reshape(N, k, k), expected, rtol=1e-9, atol=1e-12)
        assert_allclose(root.inverse(), inverse, rtol=1e-8, atol=1e-12)
        vector = np.arange(float(len(hessian)))
        assert_allclose(root.solve(vector), inverse @ vector, rtol=1e-8, atol=1e-12)
        assert_allclose(root.norm(vector) ** 2, vector @ inverse @ vector)


def test_the_lowered_factor_is_of_a_smaller_matrix():
    """What is proved uses H less the rounding of its entries, which no rounding makes larger."""
    model, X, y, _ = fit("log_loss")
    fitted = read_fitted(model, X, y, sample_weight=fit("log_loss")[3])
    eta = fitted.lowered()
    unit = np.finfo(float).eps / 2.0
    assert eta >= fitted.p * (N * unit / (1.0 - N * unit) + fitted.p * unit)
    hessian = fitted.hessian()
    share = 1e-3  # large enough to be seen
    lowered = np.linalg.inv(hessian - share * np.diag(np.diag(hessian)))
    assert_allclose(Root(hessian, share).inverse(), lowered, rtol=1e-9)


@pytest.mark.parametrize("legacy", [True, False])
def test_the_chosen_penalty_is_read_in_either_form(legacy):
    """Legacy attributes have an entry for each class, all of them the same."""
    X, y = rows(), np.arange(N) % 3
    model = LogisticRegressionCV(Cs=[0.1, 1.0], use_legacy_attributes=legacy).fit(X, y)
    fitted = read_fitted(model, X, y)
    assert_allclose(fitted.penalty[:D], 1.0 / np.max(model.C_))
    assert np.shape(model.C_) == ((3,) if legacy else ())


def optimum(model, X, y):
    fitted = read_fitted(model, X, y)
    return fitted.optimum(fitted.root())[0]


def test_certain_classes_lose_no_digits():
    """Slopes and curvatures of rows far from the boundary are right to their last digits.

    There, one minus the probability of the own class has few of them.
    """
    X, y = np.arange(1.0, 7.0)[:, None], np.arange(6) % 3
    fitted = read_fitted(LogisticRegression(C=1e-3, fit_intercept=False).fit(X, y), X, y)
    tail = 2.0 * np.exp(-9.0 * X[:, 0])  # odds of the other classes
    for sure in range(3):
        there = fitted.at(9.0 * np.eye(3)[sure][:, None])
        own = np.flatnonzero(y == sure)
        assert_allclose(there.slopes[own, sure], -(tail / (1.0 + tail))[own], rtol=1e-13)
        bend = float((tail / (1.0 + tail) ** 2) @ X[:, 0] ** 2)
        assert_allclose(there.hessian(data_only=True)[sure, sure], bend, rtol=1e-13)
        bends = Expansion.at(there, polish=False).group(np.arange(6)[:, None]).C
        squares = np.einsum("nkl,nkl->nk", bends, bends)[:, sure]
        assert_allclose(squares, tail / (1.0 + tail) ** 2, rtol=1e-13)


@pytest.mark.parametrize("kind", MODELS)
def test_the_form_of_the_rows_does_not_matter(kind, monkeypatch):
    """Sparse rows, float32 rows and blocks of a few rows have the same sums, in float64."""
    model, X, y, weight = fit(kind)
    X = X.astype(np.float32).astype(np.float64)
    plain = read_fitted(model, X, y, sample_weight=weight)
    root = plain.root()
    expected = plain.gradient(), plain.hessian(), plain.leverages(root), root.inverse()
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 40)
    for given in (X, X.astype(np.float32), sparse.csr_array(X)):
        fitted = read_fitted(model, given, y, sample_weight=weight)
        assert max(len(block) for _, block in fitted.blocks()) == 8
        found = fitted.gradient(), fitted.hessian(), fitted.leverages(root), fitted.root().inverse()
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_nothing_is_copied_or_changed():
    """The object is frozen, holds the rows that were given, and leaves the model as it was."""
    X, y = rows(), targets("log_loss", rows())
    model = LogisticRegression().fit(X, y)
    kept = X.copy(), model.coef_.copy(), model.intercept_.copy()
    fitted = read_fitted(model, X, y)
    assert np.shares_memory(fitted.rows, X)
    fitted.optimum(fitted.root())
    with pytest.raises(FrozenInstanceError):
        fitted.gap = 0.0
    assert all(
        np.array_equal(one, other)
        for one, other in zip(kept, (X, model.coef_, model.intercept_), strict=True)
    )


def test_columns_far_from_zero_keep_their_digits():
    """A shift of a million changes neither leverages nor the curvature of the columns."""
    X, y = rows(), targets("log_loss", rows())
    X = np.round(X * 1024) / 1024  # so that the shift loses no digit
    near = optimum(LogisticRegression(C=np.inf, tol=1e-10).fit(X, y), X, y)
    far_rows = X + 2.0**20
    far = optimum(LogisticRegression(C=np.inf).fit(far_rows, y), far_rows, y)
    assert_allclose(far.leverages(far.root()), near.leverages(near.root()), rtol=1e-8)
    assert_allclose(far.hessian(), near.hessian(), rtol=1e-8, atol=1e-8)


def test_polishing_ends_at_the_optimum():
    """From rough weights, Newton's method reaches the optimum up to rounding."""
    for kind in MODELS:
        model, X, y, weight = fit(kind, tol=0.3)
        fitted = read_fitted(model, X, y, sample_weight=weight)
        there, root = fitted.optimum(fitted.root())
        assert root.norm(there.gradient().ravel()) < 1e-8
        assert there.objective() <= fitted.objective() * (1.0 + 1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["sonar_scale", "breast-cancer", "diabetes", "splice_scale"])
def test_own_fits_are_accepted(name, dtype):
    """Fits of any accuracy, penalty and float type pass the test of their gradient."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    X = np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, dtype=dtype)
    for tol in (0.3, 1e-2, 1e-4, 1e-10):
        models = [LogisticRegression(C=C, tol=tol) for C in (0.01, 1.0, 100.0)]
        models += [LogisticRegression(tol=tol, max_iter=1)]
        for model in models:
            fitted = read_fitted(model.fit(X, y), X, y)
            fitted.check_optimum(fitted.root(), fitted.gradient())
        ridge = Ridge(alpha=0.1, tol=tol).fit(X, y)
        fitted = read_fitted(ridge, X, y)
        fitted.check_optimum(fitted.root(), fitted.gradient())


# ---- refusals


def accepted(model, X, y, **given):
    fitted = read_fitted(model, X, y, **given)
    fitted.check_optimum(fitted.root(), fitted.gradient())
    return fitted


def refused(error, message, model, X, y, **given):
    with pytest.raises(error, match=message):
        accepted(model, X, y, **given)


@pytest.mark.parametrize("kind", MODELS)
def test_other_data_are_refused(kind):
    """A model fitted on other rows, targets, weights or parameters is not an optimum here."""
    message = "the model's weights are not an optimum for these rows"
    model, X, y, weight = fit(kind, tol=1e-8)
    accepted(model, X, y, sample_weight=weight)
    refused(ValueError, message, model, X, y)
    refused(ValueError, message, model, X[1:], y[1:], sample_weight=weight[1:])
    refused(ValueError, message, model, X[::-1], y, sample_weight=weight)
    refused(ValueError, message, model, X * 1.01, y, sample_weight=weight)
    if kind != "softmax":  # to which the same number added to all classes is nothing
        offset = np.linspace(0.0, 1.0, N)
        refused(ValueError, message, model, X, y, sample_weight=weight, offset=offset)
    if kind in ("log_loss", "softmax"):
        model.set_params(C=5.0)
    else:
        model.set_params(alpha=5.0)
    refused(ValueError, message, model, X, y, sample_weight=weight)


def test_other_class_weights_are_refused():
    """Class weights are part of the objective."""
    X, y = rows(), targets("log_loss", rows())
    model = LogisticRegression(class_weight="balanced", tol=1e-8).fit(X, y)
    read = accepted(model, X, y)
    counts = {label: (y == label).sum() for label in ("no", "yes")}
    assert_allclose(read.weight, [N / (2.0 * counts[label]) for label in y])
    model.set_params(class_weight={"no": 1.0, "yes": 2.0})
    refused(ValueError, "not an optimum", model, X, y)


def test_mean_weights_of_folds_are_refused():
    """Without refit, LogisticRegressionCV has the mean of folds, which is no optimum."""
    X, y = rows(), targets("log_loss", rows())
    model = LogisticRegressionCV(Cs=[0.1, 10.0], cv=3, refit=False).fit(X, y)
    refused(ValueError, "not an optimum", model, X, y)
    model = LogisticRegressionCV(Cs=[0.1, 10.0], cv=3).fit(X, y)
    read = read_fitted(model, X, y)
    assert_allclose(read.penalty[0], 1.0 / model.C_)


def test_other_columns_are_refused():
    """Columns have the names and the order of the fit."""
    X, y = rows(), targets("log_loss", rows())
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression().fit(frame, y)
    assert read_fitted(model, frame, y).names == list("abcd")
    assert read_fitted(model, X, y).names == list("abcd")
    refused(ValueError, "the same names in another order.*column 0 is 'b'", model,
            frame[list("bacd")], y)  # fmt: skip
    refused(ValueError, "other names than the fit: column 3 is 'e'", model,
            frame.rename(columns={"d": "e"}), y)  # fmt: skip
    plain = LogisticRegression().fit(X, y)
    assert read_fitted(plain, frame, y).names == list("abcd")
    assert read_fitted(plain, X, y).names == ["x0", "x1", "x2", "x3"]
    refused(ValueError, "4 weights per class, X has 3 columns", plain, X[:, :3], y)


def test_other_labels_are_refused():
    """The classes are those of the fit, all of them and no others."""
    X = rows()
    two, three = targets("log_loss", X), targets("softmax", X)
    model = LogisticRegression().fit(X, two)
    refused(ValueError, "y has the classes 0, 10, 20, the model 'no', 'yes'", model, X, three)
    refused(ValueError, "y has the classes 'NO', 'YES'", model, X, np.char.upper(two))
    model = LogisticRegression().fit(X, three)
    refused(ValueError, "y has the classes 0, 10, the model 0, 10, 20", model, X,
            np.minimum(three, 10))  # fmt: skip
    refused(ValueError, "y has one class only", model, X, np.zeros(N))
    many = LogisticRegression().fit(X, np.arange(N) % 8)
    refused(ValueError, r"0, 1, 2, 3, 4, \.\.\. \(8\)", many, X, three)


def test_bad_numbers_are_refused():
    """NaN and wrong lengths are named."""
    X, y = rows(), targets("poisson", rows())
    model = PoissonRegressor().fit(X, y)
    holed = X.copy()
    holed[3, 2] = np.nan
    refused(ValueError, "X has NaN or infinity, first in row 3, column 2", model, holed, y)
    holed = y.copy()
    holed[5] = np.nan
    refused(ValueError, "y has NaN or infinity, first in row 5", model, X, holed)
    refused(ValueError, r"y must have shape \(150,\)", model, X, y[1:])
    refused(ValueError, r"sample_weight must have shape", model, X, y, sample_weight=y[1:])
    refused(ValueError, "sample_weight must be at least 0", model, X, y, sample_weight=-y - 1.0)
    refused(ValueError, "sample_weight is zero", model, X, y, sample_weight=0.0 * y)
    refused(ValueError, r"offset must have shape", model, X, y, offset=y[1:])
    refused(ValueError, "offset has NaN", model, X, y, offset=holed)
    refused(ValueError, "targets at least 0; y has -1.0 in row 0", model, X, y - y - 1.0)
    model.coef_ = model.coef_ * np.nan
    refused(ValueError, "the model's weights have NaN", model, X, y)


def test_models_without_formulas_are_refused():
    """L1 penalties, other losses and other kinds of models are refused with the reason."""
    X, y = rows(), targets("log_loss", rows())
    refused(ValueError, "L1 penalty, which is not supported.*l1_ratio=0",
            LogisticRegression(l1_ratio=0.5).fit(X, y), X, y)  # fmt: skip
    numbers = targets("squared_error", X)
    solved = antithetic.solve(X, numbers, loss="squared_error", l1=0.01)
    refused(ValueError, "L1 penalty", solved, X, numbers)
    solved = antithetic.solve(X, numbers, loss="huber")
    refused(ValueError, 'loss "huber" is not supported; use one of log_loss', solved, X, numbers)
    run = antithetic.minimize(X, numbers, loss="squared_error", epochs=1)
    refused(TypeError, "use antithetic.solve", run, X, numbers)
    refused(TypeError, "LogisticRegression is not supported; use antithetic's",
            linear_model.LogisticRegression().fit(X, y), X, y)  # fmt: skip
    refused(TypeError, "SGDClassifier is not supported",
            antithetic.SGDClassifier(max_iter=5, tol=None).fit(X, y), X, y)  # fmt: skip
    refused(TypeError, "SGDRegressor is not supported",
            antithetic.SGDRegressor(max_iter=5, tol=None).fit(X, numbers), X, numbers)  # fmt: skip
    refused(NotFittedError, "call fit first", Ridge(), X, numbers)
    pipe = make_pipeline(LogisticRegression()).fit(X, y)
    refused(TypeError, r"use summary\(pipe\[-1\], pipe\[:-1\].transform\(X\), y\)", pipe, X, y)
    refused(TypeError, r"leave_one_out\(pipe\[-1\]", pipe, X, y, caller="leave_one_out")


def test_solved_problems_are_read():
    """The result of solve is read like a model, with its classes, weights and offset."""
    X, y = rows(), targets("log_loss", rows())
    result = antithetic.solve(X, y, loss="log_loss", l2=0.01, fit_intercept=False, tol=1e-10)
    fitted = accepted(result, X, y)
    model = LogisticRegression(C=1 / (0.01 * N), fit_intercept=False).fit(X, y)
    assert_allclose(fitted.objective(), read_fitted(model, X, y).objective())
    refused(ValueError, "y has the classes", result, X, np.char.upper(y))
    numbers, offset = targets("gamma", X), np.linspace(-1.0, 1.0, N)
    result = antithetic.solve(X, numbers, loss="gamma", offset=offset, tol=1e-8)
    fitted = accepted(result, X, numbers, offset=offset)
    refused(ValueError, "not an optimum", result, X, numbers)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_too_few_rows_or_too_many_columns_are_refused():
    """Fewer rows than weights need a penalty; very many weights have no Hessian here."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 30)), rng.normal(size=20)
    model = Ridge(alpha=0).fit(X, y)
    refused(ValueError, "20 rows of positive weight cannot determine 31 weights", model, X, y)
    weight = np.arange(20) % 2
    fewer = X[:, :12]
    model = Ridge(alpha=0).fit(fewer, y, sample_weight=weight)
    refused(ValueError, "10 rows of positive weight", model, fewer, y, sample_weight=weight)
    read_fitted(Ridge(alpha=1.0).fit(X, y), X, y)
    wide = sparse.random_array((30, 6000), density=0.01, rng=rng, format="csr")
    y = rng.normal(size=30)
    refused(ValueError, "6001 weights; at most 5000", Ridge().fit(wide, y), wide, y)


def test_a_hessian_that_is_not_definite_has_no_root():
    """Copies of a column are found, and a factor of them is refused."""
    X, y = rows(), targets("poisson", rows())
    X = np.column_stack([X[:, :2], X[:, 0] - 2.0 * X[:, 1], X[:, 2], np.full(N, 7.0)])
    fitted = read_fitted(PoissonRegressor(alpha=0.0).fit(X, y), X, y)
    assert fitted.dependent_columns() in ([2, 4], [4, 2])
    with pytest.raises(NotDefiniteError):
        Root(fitted.hessian(), fitted.lowered())
    fewer = fitted.without([2, 4])
    assert fewer.names == ["x0", "x1", "x3"]
    assert_allclose(fewer.scores, fitted.scores, rtol=1e-7)
    free = PoissonRegressor(alpha=0.0, fit_intercept=False).fit(X, y)
    assert read_fitted(free, X, y).dependent_columns() == [2]  # 7 stands for the intercept
