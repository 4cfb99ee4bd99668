"""Ridge and generalised linear models: scikit-learn's parameters and optima, with a bound."""

from __future__ import annotations

import pickle
import re
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context, linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from antithetic import GammaRegressor, LinearModel, PoissonRegressor, Ridge, TweedieRegressor

N, D = 600, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) + 0.5
MEANS = np.exp(X @ np.array([0.5, -0.3, 0.2, 0.1]) - 0.4)
WEIGHT = RNG.integers(0, 4, N).astype(float)
Y = {
    "ridge": X @ np.array([1.0, -2.0, 0.0, 3.0]) + 7.0 + RNG.normal(size=N),
    "poisson": RNG.poisson(MEANS),
    "gamma": RNG.gamma(2.0, MEANS / 2.0) + 1e-9,
    "tweedie": np.where(RNG.random(N) < 0.3, 0.0, RNG.gamma(2.0, MEANS / 1.4)),
}
CASES = {
    "ridge": (Ridge, linear_model.Ridge, {"alpha": 30.0}),
    "poisson": (PoissonRegressor, linear_model.PoissonRegressor, {"alpha": 0.1}),
    "gamma": (GammaRegressor, linear_model.GammaRegressor, {"alpha": 0.1}),
    "tweedie": (TweedieRegressor, linear_model.TweedieRegressor, {"alpha": 0.1, "power": 1.5}),
    "tweedie 0": (TweedieRegressor, linear_model.TweedieRegressor, {"alpha": 0.1, "power": 0.0}),
}
EACH = pytest.mark.parametrize("name", list(CASES))


def targets(name):
    return Y.get(name, Y["ridge"])


def reference(kind, given, y, weight=None):
    """scikit-learn's optimum, as accurately as its solvers find it."""
    own = {"solver": "cholesky"} if kind is linear_model.Ridge else {"solver": "newton-cholesky"}
    accurate = {} if kind is linear_model.Ridge else {"tol": 1e-12, "max_iter": 1000}
    return kind(**given, **own, **accurate).fit(X, y, weight)


@pytest.mark.parametrize("rows", ["dense", "sparse", "float32", "sparse float32"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
@EACH
def test_the_optimum_is_that_of_scikit_learn(name, fit_intercept, weighted, rows):
    """Weights, predictions and scores agree, with weights of the rows, of any kind of rows."""
    ours, theirs, given = CASES[name]
    given = given | {"fit_intercept": fit_intercept}
    y, weight = targets(name), WEIGHT if weighted else None
    kind, digits = (np.float32, 3e-6) if "float32" in rows else (np.float64, 1e-7)
    made = sparse.csr_array(X.astype(kind)) if "sparse" in rows else X.astype(kind)
    model = ours(**given, tol=1e-6).fit(made, y, sample_weight=weight)
    one = reference(theirs, given, y, weight)
    size = max(1.0, np.abs(one.coef_).max())
    np.testing.assert_allclose(model.coef_, one.coef_, atol=10.0 * digits * size)
    assert model.intercept_ == pytest.approx(one.intercept_, abs=100.0 * digits)
    assert model.coef_.dtype == kind
    assert isinstance(model.intercept_, float)
    assert model.gap_ <= 1e-6
    assert model.gap_certified_
    np.testing.assert_allclose(model.predict(made), one.predict(X), rtol=1e-4, atol=1e-5)
    assert model.score(made, y, weight) == pytest.approx(one.score(X, y, weight), abs=1e-5)


@EACH
def test_the_gap_is_a_bound(name):
    """After any number of iterations, ``gap_`` is at least the distance from the optimum."""
    ours, theirs, given = CASES[name]
    y, best = targets(name).astype(float), reference(theirs, given, targets(name))
    model = ours(**given, tol=1e-10, max_iter=0)
    loss = model._loss()
    l2 = given["alpha"] / N if name == "ridge" else given["alpha"]

    def objective(coef, intercept):
        return loss.mean(y, X @ coef + intercept, None) + 0.5 * l2 * coef @ coef

    least = objective(best.coef_, best.intercept_)
    unit = objective(np.zeros(D), loss.best_constant(y, None)) - least
    for many in range(3):
        model.set_params(max_iter=many)
        is_short = many == 0 or loss.has_log_link  # least squares take one visit
        with pytest.warns(ConvergenceWarning, match="ended the fit") if is_short else nullcontext():
            model.fit(X, y)
        distance = objective(model.coef_, model.intercept_) - least
        assert distance <= model.gap_ * unit * (1.0 + 1e-9) + 1e-13
        if model.gap_ <= 1e-6:
            break


@EACH
def test_parameters_are_those_of_scikit_learn(name):
    """Changing the import is enough: names, defaults, clones, pickles, searches, model files."""
    ours, theirs, given = CASES[name]
    assert ours().get_params() == theirs().get_params()
    y = targets(name)
    model = clone(ours(**given)).fit(X, y)
    for again in (
        pickle.loads(pickle.dumps(model)),
        LinearModel.of(model).estimator(),
    ):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.get_params() == model.get_params()
    search = GridSearchCV(ours(**given), {"alpha": [0.1, 1e3]}, cv=3).fit(X, y)
    assert search.best_params_ == {"alpha": 0.1}


@EACH
def test_a_model_file_keeps_the_class(name, tmp_path):
    """A saved model is of the same class, with the same loss and parameters."""
    ours, _, given = CASES[name]
    model = ours(**given).fit(X, targets(name))
    LinearModel.of(model).save(tmp_path / "model.json")
    held = LinearModel.load(tmp_path / "model.json")
    assert (held.kind, held.estimator_name) == ("regressor", ours.__name__)
    assert held.loss == {"ridge": "squared_error", "tweedie 0": "squared_error"}.get(name, name)
    again = held.estimator()
    assert isinstance(again, ours)
    assert isinstance(again.intercept_, float)
    assert again.score(X, targets(name)) == model.score(X, targets(name))
    text = (tmp_path / "model.json").read_text()
    for wrong in ("quantile", "hinge"):
        damaged = tmp_path / "damaged.json"
        damaged.write_text(text.replace(f'"loss": "{held.loss}"', f'"loss": "{wrong}"'))
        with pytest.raises(ValueError, match=f"loss '{wrong}' is not a {ours.__name__}"):
            LinearModel.load(damaged)


@pytest.mark.parametrize("kind", [PoissonRegressor, GammaRegressor, TweedieRegressor])
def test_warm_start_begins_at_the_last_weights(kind):
    """A second fit needs fewer iterations; weights of another shape are refused."""
    model = kind(alpha=1e-3, warm_start=True, tol=1e-8).fit(X, Y["gamma"])
    before, weights = model.n_iter_, model.coef_
    model.fit(X, Y["gamma"])
    if kind is not TweedieRegressor:  # least squares take one visit in any case
        assert model.n_iter_ < before
        assert "given weights" in model.plan_.why
    np.testing.assert_allclose(model.coef_, weights, atol=1e-6)
    with pytest.raises(ValueError, match=r"of shape \(4,\); these data need \(3,\)"):
        model.fit(X[:, :3], Y["gamma"])
    assert model.n_features_in_ == D


def test_without_a_penalty_the_gap_is_a_bound():
    """alpha=0 has the same optimum, which is proved to exist, and weights that are near it."""
    for name in ("ridge", "gamma"):
        ours, theirs, _ = CASES[name]
        model = ours(alpha=0.0).fit(X, Y[name])
        assert model.gap_certified_
        assert model.coef_error_ <= 0.01
        one = reference(theirs, {"alpha": 0.0}, Y[name])
        np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-5)


def test_least_squares_of_dense_rows_take_one_visit():
    """The plan says so; sparse rows and very many columns are left to Newton's method."""
    model = Ridge().fit(X, Y["ridge"])
    assert (model.plan_.method, model.n_iter_) == ("least squares", 1)
    assert "one visit to all rows" in model.plan_.why
    assert Ridge().fit(sparse.csr_array(X), Y["ridge"]).plan_.method != "least squares"
    wide = RNG.normal(size=(60, 400))
    assert Ridge().fit(wide, wide[:, 0]).plan_.method != "least squares"


def test_float32_weights_have_their_own_gap():
    """The gap is that of the rounded weights, which is as far as float32 reaches."""
    model = Ridge(alpha=1e-3).fit(X.astype(np.float32), Y["ridge"])
    assert 1e-18 < model.gap_ < 1e-10


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (PoissonRegressor(), -1.0, "loss 'poisson' needs targets at least 0; y has -1.0 in row 50"),
        (GammaRegressor(), 0.0, "loss 'gamma' needs targets above 0; y has 0.0 in row 50"),
        (TweedieRegressor(power=3), 1.0, "power=3 is not supported; use 0 or a number from 1 to 2"),
        (TweedieRegressor(power=1.5, link="identity"), 1.0, "link='identity' is not supported"),
        (TweedieRegressor(link="log"), 1.0, "with power=0.0; use 'identity' or 'auto'"),
        (Ridge(positive=True), 1.0, "positive=True is not supported"),
        (Ridge(alpha=-1.0), 1.0, "'alpha' parameter of Ridge must be a float in the range"),
        (Ridge(alpha=[1.0, 2.0]), 1.0, "'alpha' parameter of Ridge must be a float in the range"),
        (Ridge(solver="best"), 1.0, "'solver' parameter of Ridge must be a str among"),
        (PoissonRegressor(), None, "PoissonRegressor has no optimum"),
        (Ridge(), "words", "y must be real numbers; got <U5"),
    ],
)
def test_bad_input_is_refused(model, y, message):
    """Targets outside the range are named by row; other options by what helps."""
    given = np.full(N, y) if isinstance(y, str) else np.zeros(N) if y is None else np.ones(N)
    if not isinstance(y, str):
        given[50] = 0.0 if y is None else y
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(X, given)
    assert not hasattr(model, "coef_")


def test_weights_of_zero_are_refused_and_leave_the_model_alone():
    model = Ridge().fit(X, Y["ridge"])
    before = dict(vars(model))
    with pytest.raises(ValueError, match="zero for every row"):
        model.fit(X, Y["ridge"], sample_weight=np.zeros(N))
    assert vars(model) == before


def test_a_fit_that_ends_early_says_what_helps():
    """The warning names max_iter, or the column that is the cause."""
    model = PoissonRegressor(alpha=1e-6, max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ended the fit.*Increase max_iter"):
        model.fit(X, Y["poisson"])


def test_verbose_prints_the_plan(capsys):
    PoissonRegressor(verbose=1).fit(X, Y["poisson"])
    assert "PoissonRegressor: gap" in capsys.readouterr().out


def test_callbacks_observe_every_iteration():
    """As in scikit-learn, a callback sees the weights after each iteration."""
    callback = pytest.importorskip("sklearn.callback")  # from scikit-learn 1.9 on
    for model in (Ridge(), PoissonRegressor(alpha=1e-3)):
        bar = callback.ScoringMonitor(scoring="r2")
        model.set_callbacks(bar)
        model.fit(X, Y["poisson"])
        assert model.plan_.method == "newton"
        assert model.n_iter_ >= 1


def test_ctrl_c_leaves_the_last_iteration(monkeypatch):
    """The model holds the weights before the iteration that was interrupted."""
    from antithetic.estimators import regression

    solve = regression.solve_exactly

    def interrupted(*given, watch, **others):
        calls = []

        def watching(state):
            watch(state)
            calls.append(state)
            if len(calls) == 2:
                raise KeyboardInterrupt

        return solve(*given, watch=watching, **others)

    monkeypatch.setattr(regression, "solve_exactly", interrupted)
    model = PoissonRegressor(alpha=1e-3, tol=1e-10)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y["poisson"])
    assert model.n_iter_ == 1
    assert model.gap_ > 1e-10


def test_weights_are_routed_by_scikit_learn():
    """A search passes sample_weight on to fit and score if they ask for it."""
    with config_context(enable_metadata_routing=True):
        model = PoissonRegressor(alpha=0.1).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"alpha": [0.1]}, cv=3)
        search.fit(X, Y["poisson"], sample_weight=WEIGHT + 1.0)
    alone = PoissonRegressor(alpha=0.1).fit(X, Y["poisson"], WEIGHT + 1.0)
    np.testing.assert_array_equal(search.best_estimator_.coef_, alone.coef_)
