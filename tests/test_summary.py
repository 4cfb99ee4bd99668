"""Standard errors: equal to statsmodels', or to plain formulas where statsmodels has none."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import antithetic
from antithetic import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from antithetic.inference import summary

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import statsmodels.api as sm

TOL = 1e-6
FREE = {"C": np.inf}
ERRORS = {
    "classical": {},
    "HC0": {"cov_type": "HC0"},
    "clustered": {"cov_type": "cluster"},
}
LOG = sm.families.links.Log
GLMS = {
    "poisson": (PoissonRegressor(alpha=0), sm.families.Poisson()),
    "gamma": (GammaRegressor(alpha=0), sm.families.Gamma(LOG())),
    "tweedie": (TweedieRegressor(power=1.5, alpha=0), sm.families.Tweedie(LOG(), 1.5)),
    "normal": (Ridge(alpha=0), sm.families.Gaussian()),
}


def rows_of(name, columns=8):
    """Some columns of an embedded set, and its labels from 0."""
    X, y = antithetic.datasets.load(name, return_X_y=True)
    X = X.toarray() if sparse.issparse(X) else X
    return np.ascontiguousarray(X[:, :columns], dtype=np.float64), (y > y.min()).astype(int)


def counted(seed=0, n=300, d=4):
    """Random rows at unequal places and scales, positive targets of a log link, and groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 100.0, 1e-3, 1.0] + [0.0, 1e4, 5.0, -3.0]
    mean = np.exp(0.5 * X[:, 0] + 0.003 * (X[:, 1] - 1e4) + 0.5)
    return X, rng.gamma(2.0, mean / 2.0), rng.integers(0, 25, n), rng


def theirs(result, errors, groups):
    """Fit a model of statsmodels to the last digit."""
    given = dict(ERRORS[errors])
    if errors == "clustered":
        given["cov_kwds"] = {"groups": groups}
    return lambda **more: result.fit(tol=1e-14, maxiter=200, **given, **more)


def ours(model, X, y, errors, groups, **given):
    return summary(
        model, X, y, covariance=errors, groups=groups if errors == "clustered" else None, **given
    )


def check(found, result, *, transposed=False):
    """Weights, errors, tests, intervals and covariance equal statsmodels'."""
    shape = np.transpose if transposed else np.asarray
    errors = shape(result.bse).ravel()
    assert_allclose(found.std_err, errors, rtol=TOL)
    assert_allclose(found.coef, shape(result.params).ravel(), rtol=TOL, atol=TOL * errors.min())
    scale = np.outer(errors, errors)
    assert np.abs(found.covariance - np.asarray(result.cov_params())).max() <= TOL * scale.max()


# ---- equal to statsmodels


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("name", ["breast-cancer", "diabetes_scale", "sonar_scale", "splice"])
def test_two_classes_equal_logit(name, errors):
    """Classical, HC0 and clustered errors, tests and likelihood are those of statsmodels' Logit."""
    X, y = rows_of(name)
    groups = np.arange(len(y)) % 40
    found = ours(LogisticRegression(**FREE).fit(X, y), X, y, errors, groups)
    result = theirs(sm.Logit(y, sm.add_constant(X)), errors, groups)(method="newton", disp=0)
    check(found, result)
    assert_allclose(found.statistic, result.tvalues, rtol=1e-5)
    assert_allclose(found.p_value, result.pvalues, rtol=1e-4, atol=1e-300)
    assert_allclose(np.stack([found.lower, found.upper], 1), result.conf_int(), rtol=1e-5)
    assert_allclose(found.log_likelihood, result.llf, rtol=1e-10)
    assert_allclose(found.null_deviance, -2.0 * result.llnull, rtol=1e-9)
    assert_allclose(found.aic, result.aic, rtol=1e-10)
    assert found.df_test == np.inf
    assert (found.df_residual, found.df_null) == (result.df_resid, len(y) - 1)


@pytest.mark.parametrize("errors", ERRORS)
def test_many_classes_equal_mnlogit(errors):
    """Differences from the first class have the errors of statsmodels' MNLogit."""
    X, _ = rows_of("diabetes_scale")
    rng = np.random.default_rng(0)
    y = np.argmax(X[:, :4] + rng.gumbel(size=(len(X), 4)), axis=1)
    groups = np.arange(len(y)) % 50
    found = ours(LogisticRegression(**FREE).fit(X, y), X, y, errors, groups)
    result = theirs(sm.MNLogit(y, sm.add_constant(X)), errors, groups)(method="newton", disp=0)
    check(found, result, transposed=True)
    assert found.of_class == [k for k in (1, 2, 3) for _ in range(9)]
    assert_allclose(found.deviance, -2.0 * result.llf, rtol=1e-9)
    assert_allclose(found.null_deviance, -2.0 * result.llnull, rtol=1e-9)
    assert_allclose(found.aic, result.aic, rtol=1e-10)
    assert (found.df_null, found.df_residual) == (3 * (len(y) - 1), 3 * (len(y) - 9))


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("name", GLMS)
def test_regressions_equal_glm(name, errors):
    """Errors, deviances and dispersion are those of statsmodels' GLM, for columns of any scale."""
    X, y, groups, _ = counted()
    y = np.round(y) if name == "poisson" else y
    model, family = GLMS[name]
    found = ours(model.fit(X, y), X, y, errors, groups)
    # statsmodels inverts without scaling: the same model in columns that it can invert
    centred = (X - [0.0, 1e4, 5.0, -3.0]) / [1.0, 100.0, 1e-3, 1.0]
    result = theirs(sm.GLM(y, sm.add_constant(centred), family=family), errors, groups)()
    scale = np.array([1.0, 100.0, 1e-3, 1.0])
    assert_allclose(found.std_err[1:], result.bse[1:] / scale, rtol=TOL)
    assert_allclose(found.coef[1:], result.params[1:] / scale, rtol=TOL)
    assert_allclose(found.deviance, result.deviance, rtol=1e-9)
    assert_allclose(found.null_deviance, result.null_deviance, rtol=1e-8)
    assert_allclose(found.dispersion, result.scale, rtol=1e-9)
    assert found.df_residual == result.df_resid
    if name in ("poisson", "normal"):
        assert_allclose(found.log_likelihood, result.llf, rtol=1e-9)
    back = np.eye(5)
    back[0, 1:] = -np.array([0.0, 1e4, 5.0, -3.0]) / scale
    intercept = np.sqrt(back[0] @ result.cov_params() @ back[0])
    assert_allclose(found.std_err[0], intercept, rtol=TOL)


@pytest.mark.parametrize("errors", ["classical", "HC0", "HC1", "HC2", "HC3", "clustered"])
@pytest.mark.parametrize("name", ["breast-cancer_scale", "diabetes_scale"])
def test_least_squares_equal_ols(name, errors):
    """All errors are those of statsmodels' OLS."""
    X, _ = rows_of(name)
    target, X = X[:, 0], X[:, 1:]
    groups = np.arange(len(target)) % 30
    given = {"cov_kwds": {"groups": groups}} if errors == "clustered" else {}
    kind = {"classical": "nonrobust", "clustered": "cluster"}.get(errors, errors)
    result = sm.OLS(target, sm.add_constant(X)).fit(cov_type=kind, **given)
    found = ours(Ridge(alpha=0).fit(X, target), X, target, errors, groups)
    check(found, result)
    assert_allclose(found.log_likelihood, result.llf, rtol=1e-10)
    assert found.df_test == (29 if errors == "clustered" else len(target) - 8)
    if errors == "classical":
        assert_allclose(found.p_value, result.pvalues, rtol=1e-4, atol=1e-300)
        assert_allclose(np.stack([found.lower, found.upper], 1), result.conf_int(), rtol=1e-5)


def test_an_offset_equals_that_of_statsmodels():
    """The result of solve(offset=) has the errors of statsmodels' GLM with the same offset."""
    X, y, _, rng = counted()
    X, offset = (X - X.mean(axis=0)) / X.std(axis=0), rng.normal(size=len(y))
    for loss, family in (("poisson", sm.families.Poisson()), ("gamma", sm.families.Gamma(LOG()))):
        target = np.round(y) if loss == "poisson" else y
        fit = antithetic.solve(X, target, loss=loss, offset=offset, tol=1e-8)
        found = summary(fit, X, target, offset=offset)
        result = sm.GLM(target, sm.add_constant(X), family=family, offset=offset).fit(tol=1e-14)
        check(found, result)
        assert_allclose(found.null_deviance, result.null_deviance, rtol=1e-8)


def test_without_an_intercept():
    """A model without an intercept has the errors of statsmodels without a constant."""
    X, y = rows_of("diabetes_scale")
    found = summary(LogisticRegression(**FREE, fit_intercept=False).fit(X, y), X, y)
    check(found, sm.Logit(y, X).fit(tol=1e-14, disp=0))
    assert found.names == [f"x{k}" for k in range(8)]
    assert found.df_null == len(y)
    assert_allclose(found.null_deviance, 2.0 * len(y) * np.log(2.0))


def test_columns_far_from_zero_lose_no_digits():
    """A condition number of 1e7 leaves six digits, since no product of the rows is inverted."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(500, 3))
    X = np.column_stack([base, base.sum(axis=1) + 1e-7 * rng.normal(size=500)])
    y = base @ [1.0, 2.0, 3.0] + rng.normal(size=500)
    found = summary(Ridge(alpha=0, tol=1e-12).fit(X, y), X, y)
    Z = np.column_stack([np.ones(500), X]).astype(np.longdouble)
    for column in range(5):  # orthogonal columns, in digits to spare
        for _ in range(2):
            for before in range(column):
                Z[:, column] -= Z[:, before] * (Z[:, before] @ Z[:, column])
            Z[:, column] /= np.sqrt(Z[:, column] @ Z[:, column])
    inverse = np.linalg.inv((Z.T @ np.column_stack([np.ones(500), X])).astype(float))
    variance = np.sum((y - Z @ (Z.T @ y)) ** 2) / 495
    expected = np.sqrt((inverse**2).sum(axis=1) * float(variance))
    assert_allclose(found.std_err, expected, rtol=TOL)


# ---- plain formulas


def plain(X, y, kind, family, fit):
    """Return the robust covariance of a fit by its formula, with inverses of whole matrices."""
    Z = np.column_stack([np.ones(len(X)), X])
    eta = Z @ fit.coef
    mu = 1.0 / (1.0 + np.exp(-eta)) if family == "logit" else np.exp(eta)
    power = {"logit": None, "poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}[family]
    if power is None:
        slope, curvature = mu - y, mu * (1.0 - mu)
    else:
        slope = mu ** (2.0 - power) - y * mu ** (1.0 - power)
        curvature = (2.0 - power) * mu ** (2.0 - power) + (power - 1.0) * y * mu ** (1.0 - power)
    inverse = np.linalg.inv(Z.T @ (curvature[:, None] * Z))
    leverage = curvature * np.einsum("ij,jk,ik->i", Z, inverse, Z)
    n, k = Z.shape
    square = {
        "HC1": slope**2 * n / (n - k),
        "HC2": slope**2 / (1.0 - leverage),
        "HC3": slope**2 / (1.0 - leverage) ** 2,
    }[kind]
    return inverse @ (Z.T @ (square[:, None] * Z)) @ inverse


@pytest.mark.parametrize("kind", ["HC1", "HC2", "HC3"])
@pytest.mark.parametrize("family", ["logit", "poisson", "gamma", "tweedie"])
def test_hc1_to_hc3_follow_their_formulas(family, kind):
    """HC1 to HC3 are the formulas with the Hessian and the leverages of all rows."""
    X, y, *_ = counted()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(**FREE) if family == "logit" else GLMS[family][0]
    target = {"logit": y > np.median(y), "poisson": np.round(y)}.get(family, y)
    found = summary(model.fit(X, target), X, target, covariance=kind)
    assert_allclose(found.covariance, plain(X, target, kind, family, found), rtol=1e-8, atol=1e-12)
    assert (found.kind, found.information) == (kind, "observed")


def test_hc1_of_many_classes():
    """HC1 of many classes is HC0 times n / (n - k)."""
    X, _ = rows_of("diabetes_scale", 4)
    y = np.arange(len(X)) % 3
    model = LogisticRegression(**FREE).fit(X, y)
    zero, one = (summary(model, X, y, covariance=kind) for kind in ("HC0", "HC1"))
    assert_allclose(one.covariance, zero.covariance * len(y) / (len(y) - 10), rtol=1e-12)
    with pytest.raises(ValueError, match="HC3 is not supported for more than two classes"):
        summary(model, X, y, covariance="HC3")


def test_clusters_of_one_row_are_hc1_with_another_factor():
    """With a group per row, clustered errors are HC0 times n / (n - 1) (n - 1) / (n - k)."""
    X, y = rows_of("diabetes_scale")
    model = LogisticRegression(**FREE).fit(X, y)
    one = summary(model, X, y, covariance="HC1")
    rows = np.random.default_rng(0).permutation(len(y))
    each = summary(model, X, y, groups=[f"row {k}" for k in rows])
    assert_allclose(each.covariance, one.covariance, rtol=1e-10)


# ---- weights


def repeated(kind):
    """Rows, targets and whole weights, and the same with rows repeated."""
    X, y, groups, rng = counted(n=120)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = {"logit": (y > np.median(y)).astype(int), "poisson": np.round(y)}.get(kind, y)
    weight = rng.integers(0, 4, len(y))
    return X, y, weight, groups, np.repeat(np.arange(len(y)), weight)


@pytest.mark.parametrize("errors", ["classical", "HC0", "HC1", "HC2", "HC3", "clustered"])
@pytest.mark.parametrize("kind", ["logit", *GLMS])
def test_frequencies_equal_repeated_rows(kind, errors):
    """A weight of 3 is three rows: in errors, dispersion, deviances and likelihood."""
    X, y, weight, groups, times = repeated(kind)
    model = LogisticRegression(**FREE) if kind == "logit" else GLMS[kind][0]
    few = ours(model.fit(X, y, sample_weight=weight), X, y, errors, groups, sample_weight=weight)
    X, y = X[times], y[times]
    many = ours(model.fit(X, y), X, y, errors, groups[times])
    for name in ("coef", "std_err", "statistic", "lower", "upper"):
        assert_allclose(getattr(few, name), getattr(many, name), rtol=1e-7)
    assert_allclose(few.p_value, many.p_value, rtol=1e-5)
    names = ("dispersion", "deviance", "null_deviance", "log_likelihood", "aic", "n_observations")
    for name in (*names, "df_residual", "df_null", "df_test"):
        assert_allclose(getattr(few, name), getattr(many, name), rtol=1e-9)


@pytest.mark.parametrize("name", GLMS)
def test_variance_weights_equal_those_of_glm(name):
    """Weights of variances are statsmodels' var_weights: degrees of freedom count rows."""
    X, y, _, rng = counted()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y, weight = np.round(y) if name == "poisson" else y, rng.uniform(0.5, 2.0, len(y))
    model, family = GLMS[name]
    model.fit(X, y, sample_weight=weight)
    theirs = sm.GLM(y, sm.add_constant(X), family=family, var_weights=weight).fit(tol=1e-14)
    found = summary(model, X, y, sample_weight=weight, weights="variance")
    check(found, theirs)
    assert_allclose(found.dispersion, theirs.scale, rtol=1e-9)
    assert np.isnan(found.log_likelihood)
    assert found.df_residual == len(y) - 5
    robust = summary(model, X, y, sample_weight=weight, weights="variance", covariance="HC0")
    sampled = summary(model, X, y, sample_weight=weight, weights="sampling")
    assert sampled.kind == "HC0"
    assert_allclose(sampled.covariance, robust.covariance)  # both have s^2 u^2
    counts = summary(model, X, y, sample_weight=weight, covariance="HC0")
    assert np.abs(counts.std_err / robust.std_err - 1.0).max() > 0.01  # s u^2
    assert "has fractions" in repr(counts)
    assert "has fractions" not in repr(robust)


def test_rows_of_weight_zero_do_not_count():
    """Rows without weight change nothing, whatever their group."""
    X, y = rows_of("diabetes_scale")
    weight = (np.arange(len(y)) >= 100).astype(float)
    groups = np.where(weight > 0.0, np.arange(len(y)) % 20, 99)
    for kind in ("variance", "frequency"):
        model = LogisticRegression(**FREE).fit(X, y, sample_weight=weight)
        found = summary(model, X, y, sample_weight=weight, weights=kind, groups=groups)
        model = LogisticRegression(**FREE).fit(X[100:], y[100:])
        rest = summary(model, X[100:], y[100:], groups=groups[100:])
        assert_allclose(found.std_err, rest.std_err, rtol=1e-9)
        assert (found.n_observations, found.notes) == (len(y) - 100, ("20 groups",))


def test_class_weights_have_robust_errors_only():
    """With class_weight, classical errors are refused; HC0 is that of variance weights."""
    X, y = rows_of("diabetes_scale")
    model = LogisticRegression(**FREE, class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    with pytest.raises(ValueError, match='use covariance="HC0"'):
        summary(model, X, y)
    found = summary(model, X, y, covariance="HC0")
    weight = np.where(y == 1, 3.0, 1.0)
    plain = LogisticRegression(**FREE).fit(X, y, sample_weight=weight)
    same = summary(plain, X, y, sample_weight=weight, weights="variance", covariance="HC0")
    assert_allclose(found.covariance, same.covariance, rtol=1e-8)
    assert np.isnan(found.aic)
    assert "class_weight was used" in repr(found)


# ---- penalties


@pytest.mark.parametrize("kind", ["logit", "poisson", "gamma", "normal"])
def test_a_penalty_gives_deviations_of_the_posterior(kind):
    """With a penalty: the inverse Hessian, intervals, no tests, and a first line that says so."""
    X, y, *_ = counted()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if kind == "logit":
        y = (y > np.median(y)).astype(int)
        model, l2 = LogisticRegression(C=0.1).fit(X, y), 10.0
    elif kind == "normal":
        model, l2 = Ridge(alpha=7.0).fit(X, y), 7.0
    else:
        y = np.round(y) if kind == "poisson" else y
        model = type(GLMS[kind][0])(alpha=0.1).fit(X, y)
        l2 = 0.1 * len(y)
    found = summary(model, X, y)
    Z = np.column_stack([np.ones(len(y)), X])
    eta = Z @ found.coef
    mu = 1.0 / (1.0 + np.exp(-eta))
    curvature = {
        "logit": mu * (1.0 - mu),
        "poisson": np.exp(eta),
        "gamma": y * np.exp(-eta),
        "normal": np.ones(len(y)),
    }[kind]
    data = Z.T @ (curvature[:, None] * Z)
    inverse = np.linalg.inv(data + np.diag([0.0, l2, l2, l2, l2]))
    effective = np.trace(inverse @ data)
    assert_allclose(found.df_residual, len(y) - effective, rtol=1e-10)
    assert_allclose(found.covariance, inverse * found.dispersion, rtol=1e-8, atol=1e-14)
    if kind in ("gamma", "normal"):
        mean, power = (np.exp(eta), 2.0) if kind == "gamma" else (eta, 0.0)
        pearson = ((y - mean) ** 2 / mean**power).sum() / (len(y) - effective)
        assert_allclose(found.dispersion, pearson, rtol=1e-9)
    assert np.isnan(found.statistic).all()
    assert np.isnan(found.p_value).all()
    assert np.isnan(found.aic)
    lines = repr(found).splitlines()
    without = "C=inf" if kind == "logit" else "alpha=0"
    assert lines[0] == f"Penalised weights are biased towards 0; for tests, fit with {without}"
    assert "value" not in repr(found)
    assert "Signif" not in repr(found)
    assert list(found.to_frame())[:4] == ["coef", "std_err", "lower", "upper"]
    robust = summary(model, X, y, covariance="HC0")
    assert "HC0 errors ignore the bias" in repr(robust)
    assert np.isnan(robust.p_value).all()


def test_a_penalty_of_many_classes():
    """With a penalty, differences of classes have the deviations of the inverse Hessian."""
    X, _ = rows_of("diabetes_scale", 3)
    y = np.arange(len(X)) % 3
    model = LogisticRegression(C=0.5).fit(X, y)
    found = summary(model, X, y)
    Z = np.column_stack([np.ones(len(y)), X])
    theta = np.column_stack([model.intercept_, model.coef_])
    p = np.exp(Z @ theta.T)
    p /= p.sum(axis=1, keepdims=True)
    each = np.einsum("ik,kl->ikl", p, np.eye(3)) - np.einsum("ik,il->ikl", p, p)
    H = np.einsum("ia,ikl,ib->kalb", Z, each, Z).reshape(12, 12)
    data = H.copy()
    H += np.diag(np.tile([0.0, 2.0, 2.0, 2.0], 3))
    C = np.kron([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]], np.eye(4))
    inverse = np.linalg.pinv(H)
    assert_allclose(found.covariance, C @ inverse @ C.T, rtol=1e-6, atol=1e-9)
    assert_allclose(2 * len(y) - found.df_residual, np.trace(inverse @ data), rtol=1e-8)


def test_a_choice_by_cross_validation_is_said():
    """With LogisticRegressionCV, the errors ignore that C was chosen, and say so."""
    X, y = rows_of("diabetes_scale")
    model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    plain = LogisticRegression(C=model.C_).fit(X, y)
    found = summary(model, X, y)
    assert_allclose(found.std_err, summary(plain, X, y).std_err, rtol=1e-6)
    assert f"C={model.C_:g} was chosen from the data" in repr(found)


# ---- reference classes, dropped columns, unconverged models


def test_references():
    """Other references give the same model: differences of classes, or deviations from the mean."""
    X, _ = rows_of("diabetes_scale", 4)
    y = np.array(list("bac"))[np.arange(len(X)) % 3]
    model = LogisticRegression(**FREE).fit(X, y)
    first, second, mean = (summary(model, X, y, reference=k) for k in (0, 1, None))
    assert first.of_class == ["b"] * 5 + ["c"] * 5
    assert second.of_class == ["a"] * 5 + ["c"] * 5
    assert_allclose(second.coef[:5], -first.coef[:5], rtol=1e-9)
    assert_allclose(second.std_err[:5], first.std_err[:5], rtol=1e-9)
    assert_allclose(second.coef[5:], first.coef[5:] - first.coef[:5], rtol=1e-8, atol=1e-12)
    assert mean.of_class == ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    assert_allclose(mean.coef.reshape(3, 5).sum(axis=0), 0.0, atol=1e-12)
    assert_allclose(mean.coef[5:10] - mean.coef[:5], first.coef[:5], rtol=1e-9)
    pair = np.zeros((5, 15))
    pair[:, :5], pair[:, 5:10] = -np.eye(5), np.eye(5)
    assert_allclose(pair @ mean.covariance @ pair.T, first.covariance[:5, :5], rtol=1e-8)
    with pytest.raises(ValueError, match="no ratios"):
        mean.ratios  # noqa: B018
    binary = LogisticRegression(**FREE).fit(X, y == "a")
    ahead, behind = (summary(binary, X, y == "a", reference=k) for k in (0, 1))
    assert_allclose(ahead.coef, -behind.coef)
    assert "class True against False" in repr(ahead)
    assert "class False against True" in repr(behind)


def test_columns_that_depend_on_earlier_ones_are_dropped_and_named():
    """Constants, copies and sums are dropped, the later column first, as in R."""
    X, y = rows_of("diabetes_scale", 4)
    wide = pd.DataFrame(
        {
            "constant": np.full(len(y), 3.0),
            "a": X[:, 0],
            "again": 2.0 * X[:, 0] + 1e5,
            "b": X[:, 1],
            "c": X[:, 2],
            "sum": X[:, :3].sum(axis=1),
            "d": X[:, 3],
        }
    )
    fewer = wide[["a", "b", "c", "d"]]
    found = summary(LogisticRegression(**FREE).fit(wide, y), wide, y)
    assert found.dropped == ["constant", "again", "sum"]
    assert found.names == ["(Intercept)", "a", "b", "c", "d"]
    assert "Dropped, because they depend on earlier columns: constant, again, sum" in repr(found)
    same = summary(LogisticRegression(**FREE).fit(fewer, y), fewer, y)
    assert_allclose(found.coef, same.coef, rtol=1e-7)
    assert_allclose(found.std_err, same.std_err, rtol=1e-7)
    assert found.df_residual == same.df_residual
    labels = np.arange(len(y)) % 3
    found = summary(LogisticRegression(**FREE).fit(wide, labels), wide, labels)
    same = summary(LogisticRegression(**FREE).fit(fewer, labels), fewer, labels)
    assert_allclose(found.std_err, same.std_err, rtol=1e-6)
    penalised = summary(LogisticRegression().fit(wide, y), wide, y)
    assert len(penalised.coef) == 8  # a penalty determines all of them


def test_a_model_is_not_changed_and_unconverged_weights_are_polished():
    """A rough fit has the errors of the optimum, and keeps its own weights."""
    X, y = rows_of("breast-cancer")
    rough = LogisticRegression(**FREE, tol=0.05).fit(X, y)
    before = {name: np.copy(value) for name, value in vars(rough).items() if name.endswith("_")}
    exact = LogisticRegression(**FREE, tol=1e-12).fit(X, y)
    assert np.abs(rough.coef_ / exact.coef_ - 1.0).max() > 1e-6
    found, same = summary(rough, X, y), summary(exact, X, y)
    assert_allclose(found.coef, same.coef, rtol=1e-8)
    assert_allclose(found.std_err, same.std_err, rtol=1e-8)
    for name, value in before.items():
        assert np.array_equal(value, getattr(rough, name)) or name == "plan_"


@pytest.mark.parametrize("form", ["float32", "sparse", "fortran", "list", "polars"])
def test_forms_of_rows(form):
    """Rows in float32, sparse rows, frames and lists have the same errors."""
    import polars as pl

    X, y = rows_of("diabetes_scale")
    X = X.astype(np.float32).astype(np.float64)
    same = summary(LogisticRegression(**FREE).fit(X, y), X, y)
    given = {
        "float32": X.astype(np.float32),
        "sparse": sparse.csc_matrix(X),
        "fortran": np.asfortranarray(X),
        "list": X.tolist(),
        "polars": pl.DataFrame(X, schema=[f"x{k}" for k in range(8)]),
    }[form]
    found = summary(LogisticRegression(**FREE).fit(given, y), given, y)
    assert_allclose(found.std_err, same.std_err, rtol=1e-8)
    assert found.names == same.names


# ---- what is shown


def test_the_table_is_printed():
    """The text has the columns of R's summary, marks, deviances and AIC."""
    X, y = rows_of("breast-cancer", 4)
    frame = pd.DataFrame(X[:, 1:], columns=["clump", "size", "shape"])
    found = summary(LogisticRegression(**FREE).fit(frame, y), frame, y)
    assert repr(found).splitlines() == [
        "Logistic regression: class 1 against 0",
        "683 observations; classical errors (expected information)",
        "",
        "             Estimate  Std. error  z value  Pr(>|z|)   2.5 %  97.5 %",
        "(Intercept)   -7.7210      0.6969  -11.079    <2e-16  -9.087  -6.355  ***",
        "clump         0.59185      0.1030    5.746  9.15e-09  0.3900  0.7937  ***",
        "size          0.63902      0.1704    3.751  0.000176  0.3051  0.9730  ***",
        "shape         0.72403      0.1661    4.358  1.31e-05  0.3984   1.050  ***",
        "---",
        "Signif. codes: 0 *** 0.001 ** 0.01 * 0.05 . 0.1",
        "",
        "Dispersion taken to be 1",
        "Null deviance: 884.35 on 682 degrees of freedom",
        "Residual deviance: 176.50 on 679 degrees of freedom",
        "Log-likelihood: -88.248, AIC: 184.50",
    ]


def test_the_table_of_the_documentation_is_what_is_printed():
    """The page shows the table of the model that it fits."""
    page = Path(__file__).parents[1] / "docs" / "how-sure.md"
    text = page.read_text(encoding="utf-8")
    names = re.search(r'names = "([^"]*)"', text)[1].split()
    rows, label = antithetic.datasets.load("breast-cancer", return_X_y=True)
    X = pd.DataFrame(rows[:, 1:], columns=names)
    y = np.where(label == 4, "malignant", "benign")
    found = summary(LogisticRegression(C=np.inf).fit(X, y), X, y)
    assert f"```text\n{found!r}\n```" in text


def test_names_are_escaped_in_notebooks():
    """Names of columns and labels cannot put anything into a page."""
    X, _ = rows_of("diabetes_scale", 2)
    frame = pd.DataFrame(X, columns=["<script>alert(1)</script>", "a & b"])
    y = np.array(["<b>0</b>", '"1"', "<i>2</i>"])[np.arange(len(X)) % 3]
    frame["same"] = frame["a & b"]
    shown = summary(LogisticRegression(**FREE).fit(frame, y), frame, y)._repr_html_()
    tags = set(re.findall(r"<[^>]*>", shown))
    assert {re.sub(r"[</ >].*", "", tag[1:].lstrip("/")) for tag in tags} == {
        "p", "br", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "a &amp; b" in shown
    assert "Class &lt;b&gt;0&lt;/b&gt;" in shown


def test_the_frame_has_ratios():
    """to_frame has a row per weight, and exponentials named for what they are."""
    X, y = rows_of("diabetes_scale", 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    found = summary(LogisticRegression(**FREE).fit(frame, y), frame, y, level=0.9)
    table = found.to_frame()
    assert list(table.index) == ["(Intercept)", "a", "b", "c"]
    assert list(table) == [
        "coef", "std_err", "statistic", "p_value", "lower", "upper",
        "odds_ratio", "odds_ratio_lower", "odds_ratio_upper",
    ]  # fmt: skip
    assert_allclose(table["odds_ratio_upper"], np.exp(found.upper))
    assert_allclose(found.upper - found.coef, stats.norm.ppf(0.95) * found.std_err)
    for model, name in (
        (PoissonRegressor(alpha=0), "rate_ratio"),
        (GammaRegressor(alpha=0), "mean_ratio"),
        (Ridge(alpha=0), None),
    ):
        assert summary(model.fit(frame, y + 1.0), frame, y + 1.0).ratio_name == name
    many = summary(LogisticRegression(**FREE).fit(frame, np.arange(len(y)) % 3), frame,
                   np.arange(len(y)) % 3)  # fmt: skip
    assert many.to_frame().loc[(2, "b"), "coef"] == many.coef[6]


def test_a_long_table_is_cut():
    """Of more than 60 weights, the first are printed, and to_frame has all."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 80)), rng.normal(size=300)
    found = summary(Ridge(alpha=0).fit(X, y), X, y)
    assert "21 more weights: see to_frame()" in repr(found)
    assert "x58" in repr(found)
    assert "x59" not in repr(found)
    assert len(found.to_frame()) == 81


def test_likelihoods_of_gamma_and_of_targets_that_are_no_counts():
    """The gamma likelihood is that at the deviance's dispersion; rates have no Poisson one."""
    X, y, *_ = counted()
    found = summary(GammaRegressor(alpha=0).fit(X, y), X, y)
    mean = np.exp(found.coef[0] + X @ found.coef[1:])
    scale = found.deviance / len(y)
    expected = stats.gamma.logpdf(y, 1.0 / scale, scale=mean * scale).sum()
    assert_allclose(found.log_likelihood, expected, rtol=1e-8)
    assert_allclose(found.aic, -2.0 * expected + 2.0 * 6, rtol=1e-8)
    assert np.isnan(summary(PoissonRegressor(alpha=0).fit(X, y), X, y).aic)
    assert "Log-likelihood" not in repr(summary(GLMS["tweedie"][0].fit(X, y), X, y))


# ---- refusals


def test_pipelines_are_refused_with_the_line_that_works():
    """The error names a call, and that call works."""
    X, y = rows_of("diabetes_scale")
    pipe = make_pipeline(StandardScaler(), LogisticRegression(**FREE)).fit(X, y)
    with pytest.raises(TypeError, match="a pipeline is not supported") as error:
        summary(pipe, X, y)
    line = str(error.value).split("use ")[-1]
    assert line == "summary(pipe[-1], pipe[:-1].transform(X), y)"
    found = eval(line, {"summary": summary, "pipe": pipe, "X": X, "y": y})
    assert len(found.coef) == 9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"covariance": "HC4"}, "covariance must be one of .* did you mean"),
        ({"weights": "freq"}, "weights must be one of .* did you mean 'frequency'"),
        ({"covariance": "clustered"}, "needs groups="),
        ({"covariance": "HC1", "groups": "all"}, "groups= is for clustered errors"),
        ({"groups": "one"}, "one group only"),
        ({"groups": "short"}, r"groups must have shape \(768,\)"),
        ({"groups": "nan"}, "groups has NaN, first in row 7"),
        ({"groups": "mixed"}, "groups mixes labels"),
        ({"groups": "missing"}, "groups mixes labels .* or has missing values"),
        ({"level": 95}, "level must be a number between 0 and 1; got 95"),
        ({"level": 1.0}, "level must be a number between 0 and 1"),
        ({"reference": 2}, "reference must be 0 or 1 for two classes; got 2"),
        ({"reference": None}, "reference must be 0 or 1"),
        ({"reference": True}, "reference must be 0 or 1"),
    ],
)
def test_wrong_options_are_refused(given, message):
    """Each option says what is allowed."""
    X, y = rows_of("diabetes_scale")
    groups = {
        "all": np.arange(len(y)),
        "one": np.zeros(len(y)),
        "short": [1, 2],
        "nan": np.where(np.arange(len(y)) == 7, np.nan, 1.0),
        "missing": np.array([pd.NA, *([2] * (len(y) - 1))], dtype=object),
        "mixed": np.array([1, "a", *([2] * (len(y) - 2))], dtype=object),
    }
    if "groups" in given:
        given = given | {"groups": groups[given["groups"]]}
    model = LogisticRegression(**FREE).fit(X, y)
    with pytest.raises(ValueError, match=message):
        summary(model, X, y, **given)


def test_references_of_other_models_are_refused():
    """A regression has no reference class; many classes have as many as there are."""
    X, y = rows_of("diabetes_scale")
    with pytest.raises(ValueError, match="reference must be 0 for a regression"):
        summary(Ridge().fit(X, y), X, y, reference=1)
    labels = np.arange(len(y)) % 3
    with pytest.raises(ValueError, match="None, or a number from 0 to 2"):
        summary(LogisticRegression().fit(X, labels), X, labels, reference=3)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_separated_classes_have_no_errors(many, tol):
    """Without an optimum there is nothing to be sure of; columns that separate are named."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    partly = (X[:, 1] + rng.normal(size=200) > 0).astype(int)
    partly[X[:, 2] > 1.5] = 1  # and a column that only those rows have
    wide = np.column_stack([X, X[:, 2] > 1.5])
    if many:
        y, partly = y + (X[:, 0] > 1), np.where(X[:, 2] > 1.5, 2, partly)
    for rows, labels in ((X, y), (wide, partly)):
        model = LogisticRegression(**FREE, tol=tol).fit(rows, labels)
        with pytest.raises(ValueError, match=r"separate the classes") as error:
            summary(model, rows, labels)
    if not many and tol > 1e-8:
        assert "(those of x3)" in str(error.value)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_counts_that_are_zero_wherever_a_column_is_not():
    """A weight of a Poisson regression that would be minus infinity has no error."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), np.arange(300) < 20])
    y = rng.poisson(2.0, 300) * (X[:, 1] == 0.0)
    with pytest.raises(ValueError, match=r"grow without end \(those of x1\)"):
        summary(PoissonRegressor(alpha=0).fit(X, y), X, y)


def test_an_outlier_has_errors():
    """A row whose score is in the thousands does not look like separated classes."""
    X, y = rows_of("diabetes_scale")
    X[:, 0] *= np.where(np.arange(len(y)) == 3, 1e5 * (2 * y[3] - 1) * np.sign(X[3, 0]), 1.0)
    found = summary(LogisticRegression(**FREE, tol=1e-10).fit(X, y), X, y)
    result = sm.Logit(y, sm.add_constant(X)).fit(tol=1e-14, disp=0, maxiter=200)
    assert_allclose(found.std_err, result.bse, rtol=TOL)


def test_a_row_without_weight_changes_nothing():
    """However far off such a row is, it does not look like separated classes."""
    X, y = rows_of("diabetes_scale")
    far, labels = np.vstack([X, 1e15 * np.ones((1, X.shape[1]))]), np.append(y, 1)
    weight = np.append(np.ones(len(y)), 0.0)
    found = summary(
        LogisticRegression(**FREE).fit(far, labels, sample_weight=weight),
        far, labels, sample_weight=weight,
    )  # fmt: skip
    alone = summary(LogisticRegression(**FREE).fit(X, y), X, y)
    assert_allclose(found.std_err, alone.std_err, rtol=TOL)


def test_a_row_that_alone_determines_a_weight_has_no_hc3():
    """A leverage of 1 is refused by HC2 and HC3, which would divide by zero."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=50), np.arange(50) == 17])
    y = rng.normal(size=50)
    model = Ridge(alpha=0).fit(X, y)
    with pytest.raises(ValueError, match="row 17 has leverage 1"):
        summary(model, X, y, covariance="HC3")
    assert np.isfinite(summary(model, X, y, covariance="HC1").std_err).all()


def test_as_many_weights_as_rows_leave_no_dispersion():
    """A saturated model has no degrees of freedom."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 4)), rng.normal(size=5)
    with pytest.raises(ValueError, match="more observations than weights; got 5"):
        summary(Ridge(alpha=0).fit(X, y), X, y)
