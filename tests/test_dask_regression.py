"""Ridge and generalised linear models on Dask: scikit-learn's optima, from any blocks."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

pytest.importorskip("dask")
pytest.importorskip("distributed")
from dask_cases import cluster, in_blocks

from antithetic.dask import GammaRegressor, PoissonRegressor, Ridge, TweedieRegressor
from antithetic.estimators.model_file import LinearModel
from antithetic.problem.losses import ALL_LOSSES, Tweedie

N, D = 2000, 4
BLOCKS = [600, 0, 500, 900]
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
ORDER = np.argsort(Y["poisson"], kind="stable")  # blocks differ
X, WEIGHT = X[ORDER], WEIGHT[ORDER]
Y = {name: y[ORDER] for name, y in Y.items()}
CASES = {
    "ridge": (Ridge, linear_model.Ridge, {"alpha": 30.0}),
    "poisson": (PoissonRegressor, linear_model.PoissonRegressor, {"alpha": 0.1}),
    "gamma": (GammaRegressor, linear_model.GammaRegressor, {"alpha": 0.1}),
    "tweedie": (TweedieRegressor, linear_model.TweedieRegressor, {"alpha": 0.1, "power": 1.5}),
    "tweedie 0": (TweedieRegressor, linear_model.TweedieRegressor, {"alpha": 0.1, "power": 0.0}),
}


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def targets(name):
    return Y.get(name, Y["ridge"])


def reference(kind, given, y, weight=None):
    """scikit-learn's optimum, as accurately as its solvers find it."""
    own = {"solver": "cholesky"} if kind is linear_model.Ridge else {"solver": "newton-cholesky"}
    accurate = {} if kind is linear_model.Ridge else {"tol": 1e-12, "max_iter": 1000}
    return kind(**given, **own, **accurate).fit(X, y, weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", list(CASES))
def test_the_optimum_is_that_of_scikit_learn(client, name, fit_intercept, weighted):
    """Weights agree to six digits on sorted blocks, one of them empty, with and without weights."""
    ours, theirs, given = CASES[name]
    given = given | {"fit_intercept": fit_intercept}
    y, weight = targets(name), WEIGHT if weighted else None
    model = ours(**given, tol=1e-12, client=client)
    model.fit(*in_blocks(X, y, BLOCKS), sample_weight=weight)
    one = reference(theirs, given, y, weight)
    size = max(1.0, np.abs(one.coef_).max())
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-6 * size)
    assert model.intercept_ == pytest.approx(one.intercept_, abs=1e-6)
    assert model.gap_ <= 1e-11  # rounding may hide smaller ones
    assert model.gap_certified_
    data = in_blocks(X, y, BLOCKS)
    np.testing.assert_allclose(model.predict(data[0]).compute(), one.predict(X), atol=1e-5)
    assert model.score(*data, sample_weight=weight) == pytest.approx(one.score(X, y, weight))
    assert model.score(X, y, weight) == pytest.approx(one.score(X, y, weight))


@pytest.mark.parametrize("name", list(CASES))
def test_the_optimum_is_that_of_brute_force(client, name):
    """A general minimiser of the documented objective finds the same weights, and none better."""
    ours, _, given = CASES[name]
    y, alpha = targets(name).astype(float), given["alpha"]
    weight = WEIGHT / WEIGHT.sum()

    def objective(w):
        p = X @ w[:-1] + w[-1]
        if name == "ridge":
            return (WEIGHT @ (y - p) ** 2 + alpha * w[:-1] @ w[:-1]) / N
        power = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}.get(name)
        if power is None:
            half = 0.5 * (y - p) ** 2
        elif power == 2.0:
            half = p + y * np.exp(-p)
        else:
            half = np.exp((2.0 - power) * p) / (2.0 - power)
            half -= y * (p if power == 1.0 else np.exp((1.0 - power) * p) / (1.0 - power))
        return weight @ half + 0.5 * alpha * w[:-1] @ w[:-1]

    model = ours(**given, tol=1e-10, client=client)
    model.fit(*in_blocks(X, targets(name), BLOCKS), sample_weight=WEIGHT)
    own = np.append(model.coef_, model.intercept_)
    found = minimize(objective, np.zeros(D + 1), method="BFGS", options={"gtol": 1e-8})
    assert objective(own) <= found.fun + 1e-10 * abs(found.fun)
    np.testing.assert_allclose(own, found.x, atol=2e-5)


@pytest.mark.parametrize("name", list(CASES))
def test_the_gap_is_a_bound(client, name):
    """After any number of iterations, ``gap_`` is at least the distance from the optimum."""
    ours, theirs, given = CASES[name]
    y, best = targets(name).astype(float), reference(theirs, given, targets(name))
    model = ours(**given, tol=1e-10, max_iter=0, client=client)
    loss = model._loss()
    l2 = given["alpha"] / N if name == "ridge" else given["alpha"]

    def objective(coef, intercept):
        return loss.mean(y, X @ coef + intercept, None) + 0.5 * l2 * coef @ coef

    least = objective(best.coef_, best.intercept_)
    unit = objective(np.zeros(D), loss.best_constant(y, None)) - least
    for many in range(3):
        model.set_params(max_iter=many)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*in_blocks(X, targets(name), BLOCKS))
        if many == 0:
            assert model.gap_ > 1e-2
        distance = objective(model.coef_, model.intercept_) - least
        assert distance <= model.gap_ * unit * (1.0 + 1e-9) + 1e-13
        assert model.n_iter_ <= many


@pytest.mark.parametrize("form", ["sparse", "float32", "data frame", "delayed", "memory"])
def test_collections_of_every_kind(client, form):
    """Arrays, frames and delayed values lead to scikit-learn's optimum."""
    rows, y = in_blocks(X, Y["poisson"], BLOCKS)
    if form == "sparse":
        rows = rows.map_blocks(sparse.csr_matrix)
    elif form == "float32":
        rows = rows.astype(np.float32)
    elif form == "data frame":
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = pd.DataFrame(X, columns=list("abcd")).assign(y=Y["poisson"])
        parts = dd.from_pandas(frame, npartitions=3)
        rows, y = parts[list("abcd")], parts["y"]
    elif form == "delayed":
        rows, y = rows.to_delayed().ravel().tolist(), y.to_delayed().ravel().tolist()
    elif form == "memory":
        rows, y = X, Y["poisson"]
    model = PoissonRegressor(alpha=0.1, tol=1e-8, client=client).fit(rows, y)
    one = reference(linear_model.PoissonRegressor, {"alpha": 0.1}, Y["poisson"])
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-4)
    assert model.coef_.dtype == (np.float32 if form == "float32" else np.float64)
    found = model.predict(rows)
    found = found if form == "memory" else found.compute(scheduler="sync")
    np.testing.assert_allclose(found, one.predict(X), rtol=1e-3)
    if form == "data frame":
        assert model.feature_names_in_.tolist() == list("abcd")


def test_the_best_constant_needs_no_round(client):
    """Blocks whose targets are all 0, or weigh nothing, do not spoil its deviance."""
    y = np.where(np.arange(N) < BLOCKS[0], 0, Y["poisson"])
    weight = np.where(np.arange(N) >= N - BLOCKS[-1], 0.0, 1.0)
    model = PoissonRegressor(alpha=0.1, tol=1e-10, client=client)
    model.fit(*in_blocks(X, y, BLOCKS), sample_weight=weight)
    one = reference(linear_model.PoissonRegressor, {"alpha": 0.1}, y, weight)
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-6)
    assert model.n_rounds_ <= 12


def test_warm_start_and_no_penalty(client):
    """A warm start needs fewer rounds; without a penalty, the gap is a bound nevertheless."""
    data = in_blocks(X, Y["gamma"], BLOCKS)
    model = GammaRegressor(alpha=0.0, warm_start=True, tol=1e-8, client=client).fit(*data)
    before = model.n_rounds_
    assert model.gap_certified_
    assert model.coef_error_ <= 0.01
    assert model.fit(*data).n_rounds_ <= before
    assert model.plan_.samples == ()
    one = reference(linear_model.GammaRegressor, {"alpha": 0.0}, Y["gamma"])
    np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-4)


@pytest.mark.parametrize("name", list(CASES))
def test_they_are_estimators(client, name):
    """Parameters are scikit-learn's, and clones, pickles and model files predict the same."""
    ours, theirs, given = CASES[name]
    model = ours(**given, client=client)
    assert clone(model).client is client
    extra = {"client", "checkpoint"} | ({"verbose"} if ours is Ridge else set())
    assert set(model.get_params()) == set(theirs().get_params()) | extra
    defaults = theirs().get_params()
    assert {key: value for key, value in ours().get_params().items() if key in defaults} == defaults
    model.fit(*in_blocks(X, targets(name), BLOCKS))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    local = LinearModel.of(model, feature_names=None).estimator()
    np.testing.assert_array_equal(local.predict(X), model.predict(X))
    assert type(local) is ours._local_class
    assert local.get_params() == model.to_local().get_params()


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (PoissonRegressor(), -1.0, "block 2: loss 'poisson' needs targets at least 0; y has -1.0"),
        (GammaRegressor(), 0.0, "block 2: loss 'gamma' needs targets above 0; y has 0.0 in row 50"),
        (TweedieRegressor(power=3), 1.0, "power=3 is not supported; use 0 or a number from 1 to 2"),
        (TweedieRegressor(power=1.5, link="identity"), 1.0, "link='identity' is not supported"),
        (TweedieRegressor(link="log"), 1.0, "with power=0.0; use 'identity' or 'auto'"),
        (Ridge(positive=True), 1.0, "positive=True is not supported"),
        (Ridge(alpha=-1.0), 1.0, "'alpha' parameter of Ridge must be a float in the range"),
        (Ridge(alpha=[1.0, 2.0]), 1.0, "'alpha' parameter of Ridge must be a float in the range"),
        (PoissonRegressor(), None, "PoissonRegressor has no optimum"),
    ],
)
def test_bad_input_is_refused(client, model, y, message):
    """Targets outside the range are named by block and row; other options by what helps."""
    given = np.zeros(N) if y is None else np.ones(N)
    given[650] = 0.0 if y is None else y
    with pytest.raises(ValueError, match=re.escape(message)):
        clone(model).set_params(client=client).fit(*in_blocks(X, given, BLOCKS))


def test_words_are_refused(client):
    with pytest.raises(ValueError, match=r"block \d: y must be numbers"):
        Ridge(client=client).fit(*in_blocks(X, np.full(N, "no"), BLOCKS))


def test_losses_of_a_local_model_have_names():
    """Powers 1 and 2 have names of their own, which a model file shows."""
    assert ALL_LOSSES["poisson"] == Tweedie(1.0)
    assert TweedieRegressor(power=2.0)._loss() == ALL_LOSSES["gamma"]
