"""Solvers, draws and penalties by name, from `minimize` and the two estimators: where they lead, and what is refused."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from antithetic import DivergenceError, Interrupted, SGDClassifier, SGDRegressor, _minimize, minimize, pair
from antithetic.optimality import gradient_mapping_norm
from antithetic.problem import Problem
from antithetic.solvers import SOLVERS

BOTH = pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor], ids=["classifier", "regressor"])
CORRECTED = pytest.mark.parametrize("solver", ["svrg", "saga"])
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
ALPHA = 0.05
EXACT = {"alpha": ALPHA, "stopping": "gradient", "tol": 1e-9, "max_iter": 3000, "random_state": 0}
FEW = {"alpha": ALPHA, "max_iter": 4, "tol": None, "random_state": 0}
RUN = {"l2": ALPHA, "batch_size": 8}


def make_data(n=60, d=5, seed=0):
    """Rows, two classes that overlap, three classes, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d)
    two = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0.2).astype(int)
    three = np.argmax(X[:, :3] + 0.5 * rng.normal(size=(n, 3)), axis=1)
    return X, two, three, X @ np.linspace(-1.0, 2.0, d) + 1.0 + 0.1 * rng.normal(size=n)


X, TWO, THREE, NUMBERS = make_data()
WEIGHTS = np.random.default_rng(5).uniform(0.5, 2.0, size=60)
C = 1.0 / (60 * ALPHA)  # scikit-learn adds up losses, and we take their mean


def target_of(kind):
    return TWO if kind is SGDClassifier else NUMBERS


def steps_of(solver):
    """What minimize needs besides: SGD has no step of its own."""
    return {"eta0": 0.1} if solver == "sgd" else {}


def without_intercept(solver):
    return {"fit_intercept": False} if solver == "sdca" else {}


def assert_same_model(own, other, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.ravel(own.coef_), np.ravel(other.coef_), rtol=rtol, atol=atol)
    np.testing.assert_allclose(np.ravel(own.intercept_), np.ravel(other.intercept_), rtol=rtol, atol=atol)


# --------------------------------------------------------------------------------------------------- scikit-learn's solutions


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_logistic_regression(solver, form, fit_intercept, weight):
    """The solution of LogisticRegression, with and without intercept and weights, from dense and sparse rows."""
    own = SGDClassifier("log_loss", solver=solver, fit_intercept=fit_intercept, **EXACT).fit(form(X), TWO, sample_weight=weight)
    other = theirs.LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=5000).fit(X, TWO, sample_weight=weight)
    assert_same_model(own, other)
    np.testing.assert_allclose(own.predict_proba(form(X)), other.predict_proba(X), atol=1e-5)


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_ridge(solver, form, fit_intercept, weight):
    """The solution of Ridge."""
    own = SGDRegressor(solver=solver, fit_intercept=fit_intercept, **EXACT).fit(form(X), NUMBERS, sample_weight=weight)
    assert_same_model(own, theirs.Ridge(60 * ALPHA, fit_intercept=fit_intercept).fit(X, NUMBERS, sample_weight=weight))


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("penalty", "other"),
    [("l1", theirs.Lasso(0.5, tol=1e-12)), ("elasticnet", theirs.ElasticNet(0.5, l1_ratio=0.7, tol=1e-12))],
    ids=["l1", "elasticnet"],
)
def test_lasso_and_elastic_net(solver, form, fit_intercept, penalty, other):
    """The solutions of Lasso and ElasticNet, with the same exact zeros."""
    given = EXACT | {"alpha": 0.5}
    own = SGDRegressor(penalty=penalty, l1_ratio=0.7, solver=solver, fit_intercept=fit_intercept, **given).fit(form(X), NUMBERS)
    other = clone(other).set_params(fit_intercept=fit_intercept).fit(X, NUMBERS)
    assert_same_model(own, other)
    np.testing.assert_array_equal(own.coef_ == 0.0, other.coef_ == 0.0)
    assert (own.coef_ == 0.0).any()


@CORRECTED
@FORMS
def test_a_linear_svm_with_squared_hinge(solver, form):
    """The solution of LinearSVC, whose intercept would be penalised."""
    own = SGDClassifier("squared_hinge", solver=solver, fit_intercept=False, **EXACT).fit(form(X), TWO)
    other = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000).fit(X, TWO)
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-4, atol=1e-5)


@FORMS
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_sdca_is_the_svm_and_logistic_regression(form, weight):
    """LinearSVC with the hinge loss, and LogisticRegression, both without an intercept."""
    given = {"solver": "sdca", "fit_intercept": False, "stopping": "gap", "tol": 1e-10} | {k: EXACT[k] for k in ("alpha", "random_state")}
    svm = SGDClassifier("hinge", max_iter=5000, **given).fit(form(X), TWO, sample_weight=weight)
    other = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0).fit(X, TWO, sample_weight=weight)
    np.testing.assert_allclose(svm.coef_, other.coef_, atol=2e-4)
    logistic = SGDClassifier("log_loss", max_iter=5000, **given).fit(form(X), TWO, sample_weight=weight)
    other = theirs.LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, TWO, sample_weight=weight)
    np.testing.assert_allclose(logistic.coef_, other.coef_, atol=2e-4)


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
@pytest.mark.parametrize("class_weight", [{0: 3.0, 1: 0.5}, "balanced"], ids=str)
def test_class_weights(solver, class_weight):
    """Two classes: LogisticRegression's, and of those given by number, multiplied with the weights of the rows."""
    weight = None if class_weight == "balanced" else WEIGHTS  # whose sum scikit-learn balances
    given = EXACT | {"class_weight": class_weight, "fit_intercept": solver != "sdca"}
    own = SGDClassifier("log_loss", solver=solver, **given).fit(X, TWO, sample_weight=weight)
    other = theirs.LogisticRegression(C=C, class_weight=class_weight, fit_intercept=given["fit_intercept"], tol=1e-10, max_iter=5000).fit(
        X, TWO, sample_weight=weight
    )
    assert_same_model(own, other)


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_more_than_two_classes(solver, n_jobs):
    """Each class against the rest is LogisticRegression's."""
    own = SGDClassifier("log_loss", solver=solver, n_jobs=n_jobs, fit_intercept=solver != "sdca", **EXACT).fit(X, THREE)
    for number in range(3):
        other = theirs.LogisticRegression(C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000).fit(X, number == THREE)
        np.testing.assert_allclose(own.coef_[number], other.coef_[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(own.intercept_[number], other.intercept_, rtol=1e-5, atol=1e-6)


@FORMS
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_float32_is_kept_and_near(form, solver):
    """The weights are float32, and those of float64 but for rounding."""
    given = RUN | {"solver": solver, "sampling": "shuffle", "epochs": 150}
    single, double = minimize(form(X.astype(np.float32)), TWO, **given), minimize(form(X), TWO, **given)
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-5)
    model = SGDClassifier("log_loss", solver=solver, **FEW, **without_intercept(solver)).fit(form(X.astype(np.float32)), TWO)
    assert model.coef_.dtype == np.float32


# --------------------------------------------------------------------------------------------------- draws

DRAWS = [
    {"sampling": "importance"},
    {"sampling": "importance", "importance": "gradients"},
    {"sampling": "stratified"},
    {"sampling": "stratified", "n_strata": 2, "allocation": "optimal"},
    {"sampling": "uniform"},
]


@pytest.mark.parametrize("draws", DRAWS, ids=str)
@pytest.mark.parametrize("pairing", [None, "greedy"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_draw_leads_to_the_solution(solver, pairing, draws):
    """An unbiased gradient: corrected ones to the last digits, SGD's near it, with rows and with pairs."""
    given = {"batch_size": 8, "pairing": pairing, "solver": solver, "fit_intercept": solver != "sdca"} | draws
    exact = solver != "sgd"
    model = SGDClassifier("log_loss", **(EXACT if exact else EXACT | {"stopping": "objective", "tol": None, "max_iter": 150}), **given)
    model.fit(X, TWO)
    other = theirs.LogisticRegression(C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000).fit(X, TWO)
    assert_same_model(model, other, **({} if exact else {"rtol": 0.0, "atol": 0.1}))
    assert model.plan_.sampling == draws["sampling"]
    assert model.plan_.pairing == pairing


@pytest.mark.parametrize("labels", [THREE, np.array(["a", "b", "c"])[THREE]], ids=["numbers", "words"])
@pytest.mark.parametrize("pairing", [None, "greedy"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_strata_of_ones_own_are_those_of_minimize(solver, pairing, labels):
    """fit(strata=) is minimize(strata=), bit for bit, with numbers and words for labels."""
    given = {"sampling": "stratified", "pairing": pairing, "solver": solver, "batch_size": 8, "allocation": "optimal"}
    step = {"learning_rate": "constant", "eta0": 0.1} if solver in ("sgd", "svrg", "saga") else {}
    start = {"coef_init": np.zeros(5)} if solver == "sdca" else {}
    model = SGDClassifier("log_loss", fit_intercept=False, **FEW, **given, **step).fit(X, TWO, strata=labels)
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    run = minimize(X, TWO, strata=labels, l2=ALPHA, epochs=4, seed=seed, **given, **step, **start)
    np.testing.assert_array_equal(model.coef_[0], run.coef)
    other = SGDClassifier("log_loss", fit_intercept=False, **FEW, **given, **step).fit(X, TWO, strata=TWO)
    assert not np.array_equal(model.coef_, other.coef_)


def test_strata_are_cut_for_early_stopping_and_serve_every_class():
    """Held-back rows take their labels with them; each one-vs-rest problem has the same strata."""
    given = {"sampling": "stratified", "batch_size": 6, "solver": "saga", "random_state": 0}
    model = SGDClassifier("log_loss", early_stopping=True, validation_fraction=0.2, **given).fit(X, TWO, strata=THREE)
    assert "validation_score" in model.history_
    assert SGDClassifier("log_loss", **given).fit(X, THREE, strata=TWO).score(X, THREE) > 0.6


@BOTH
@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_cuts_strata_to_each_fold(kind, routing):
    """With and without metadata routing: a label per row would not fit a fold otherwise."""
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    with sklearn.config_context(enable_metadata_routing=routing):
        model = kind(sampling="stratified", solver="svrg", batch_size=6, **FEW, **loss)
        model = model.set_fit_request(strata=True) if routing else model
        found = cross_validate(model, X, target_of(kind), cv=3, params={"strata": THREE}, return_estimator=True, error_score="raise")
        assert [fitted.t_ for fitted in found["estimator"]] == [1 + 4 * 42] * 3  # 7 batches of 6 draw for 40 rows
        GridSearchCV(model, {"allocation": ["proportional", "optimal"]}, cv=3, error_score="raise").fit(X, target_of(kind), strata=THREE)


@FORMS
@pytest.mark.parametrize("pairing", [None, "tree"])
def test_balanced_orders_with_svrg(form, pairing):
    """They lead to the solution, and differ from shuffled ones on the way."""
    given = {"solver": "svrg", "pairing": pairing}
    other = theirs.LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(X, TWO)
    assert_same_model(SGDClassifier("log_loss", sampling="balanced", **EXACT, **given).fit(form(X), TWO), other)
    balanced, shuffled = (SGDClassifier("log_loss", sampling=name, **FEW, **given).fit(form(X), TWO) for name in ("balanced", "shuffle"))
    assert not np.array_equal(balanced.coef_, shuffled.coef_)
    assert balanced.plan_.sampling == "balanced"


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_groups_and_refreshed_tables(solver):
    """Nested groups and tables made anew lead to the same solution."""
    given = {"solver": solver, "fit_intercept": solver != "sdca", "batch_size": 8, "pairing": "tree"}
    other = theirs.LogisticRegression(C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000).fit(X, TWO)
    for extra in ({"nest": 4}, {"nest": True}, {"refresh": 3}, {"nest": 4, "sampling": "importance"}):
        assert_same_model(SGDClassifier("log_loss", **EXACT, **given, **extra).fit(X, TWO), other)


# --------------------------------------------------------------------------------------------------- group lasso

GROUPS = ((0, 3), (1, 2), (4,))


def assert_group_optimal(coef, gradient, alpha, within=1e-6):
    """Zero groups have a gradient that the penalty holds, the others one that it balances."""
    for group in map(list, GROUPS):
        part, most = coef[group], alpha * np.sqrt(len(group))
        if part.any():
            np.testing.assert_allclose(gradient[group], -most * part / np.linalg.norm(part), atol=within)
        else:
            assert np.linalg.norm(gradient[group]) <= most + within


@FORMS
@pytest.mark.parametrize("draws", [{}, {"sampling": "importance"}, {"pairing": "greedy", "sampling": "shuffle"}], ids=str)
@CORRECTED
def test_group_lasso_meets_its_conditions(solver, form, draws):
    """Optimality group by group, and groups that are zero are exactly zero, all of them."""
    given = EXACT | {"alpha": 0.6}
    model = SGDRegressor(penalty="group_lasso", groups=["a", "b", "b", "a", "c"], solver=solver, **given, **draws).fit(form(X), NUMBERS)
    problem = Problem.build(X, NUMBERS, loss="squared_error", fit_intercept=True)
    gradient, constant = problem.data_gradient(problem.slopes(model.coef_, float(model.intercept_[0])))
    assert_group_optimal(model.coef_, gradient, 0.6)
    assert abs(constant) < 1e-6
    zero = [not model.coef_[list(group)].any() for group in GROUPS]
    assert True in zero
    assert False in zero


def test_groups_are_labels_or_lists():
    """Both say the same, in any order and of any kind; what is in no group is not penalised."""
    given = {"penalty": "group_lasso", "solver": "saga"} | FEW
    forms = (["a", "b", "b", "a", "c"], np.array([7, -1, -1, 7, 3]), [[0, 3], [1, 2], [4]], (np.array([0, 3]), range(1, 3), [4]))
    first, *others = (SGDRegressor(groups=groups, **given).fit(X, NUMBERS).coef_ for groups in forms)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)
    free = SGDRegressor(**(given | EXACT), groups=[[0, 1, 2]]).set_params(alpha=50.0).fit(X, NUMBERS)
    expected = theirs.LinearRegression().fit(X[:, 3:], NUMBERS)
    np.testing.assert_array_equal(free.coef_[:3], 0.0)
    np.testing.assert_allclose(free.coef_[3:], expected.coef_, rtol=1e-5)


def test_group_lasso_with_l2_and_one_feature_each():
    """Groups of one feature are the elastic net's L1 part."""
    given = {"l2": 0.1, "l1": 0.2, "loss": "squared_error", "solver": "saga", "sampling": "shuffle", "epochs": 300}
    grouped, plain = minimize(X, NUMBERS, penalty="group_lasso", groups=range(5), **given), minimize(X, NUMBERS, **given)
    np.testing.assert_allclose(grouped.coef, plain.coef, atol=1e-10)
    assert grouped.trace.keys() == plain.trace.keys()


def test_sgd_comes_near_the_group_lasso():
    """Plain proximal steps for a penalty that SGD's kernels do not know, with zeros too."""
    given = {"penalty": "group_lasso", "groups": GROUPS, "random_state": 0, "alpha": 0.25, "batch_size": 4}
    near = SGDRegressor(max_iter=300, tol=None, **given).fit(X, NUMBERS)
    exact = SGDRegressor(solver="saga", stopping="gradient", tol=1e-9, **given).fit(X, NUMBERS)
    np.testing.assert_allclose(near.coef_, exact.coef_, atol=0.02)


def test_partial_fit_and_classes_with_groups():
    """Chunks, and three classes, each with the same groups."""
    model = SGDClassifier("log_loss", penalty="group_lasso", groups=GROUPS, solver="saga", random_state=0, alpha=0.01)
    for _ in range(20):
        for rows in np.split(np.arange(60), 3):
            model.partial_fit(X[rows], THREE[rows], classes=[0, 1, 2])
    assert model.score(X, THREE) > 0.6
    assert clone(model).set_params(alpha=10.0).fit(X, THREE).coef_.any() == False  # noqa: E712 - numpy's


# --------------------------------------------------------------------------------------------------- a penalty of one's own


class Box:
    """Weights between two bounds: nothing inside, infinite outside."""

    separable = True

    def __repr__(self):  # for names of tests, which an address would change
        return "Box()"

    def __init__(self, low=0.0, high=np.inf):
        self.low, self.high = low, high

    def value(self, w):
        """0 or infinite."""
        return 0.0 if ((w >= self.low) & (w <= self.high)).all() else np.inf

    def prox(self, w, step):  # noqa: ARG002 - the step does not matter
        """Nearest point of the box, whatever the step."""
        return np.clip(w, self.low, self.high)


@FORMS
@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga"])
def test_weights_that_must_not_be_negative(solver, form):
    """Ridge(positive=True), by a penalty of three lines; no weight is negative at any time."""
    given = {"loss": "squared_error", "solver": solver, "l2": ALPHA, "batch_size": 8, "sampling": "shuffle", "epochs": 300}
    run = minimize(form(X), NUMBERS, penalty=Box(), learning_rate="auto", trace="objective", **given)
    expected = theirs.Ridge(60 * ALPHA, positive=True, fit_intercept=False, tol=1e-10).fit(X, NUMBERS).coef_
    np.testing.assert_allclose(run.coef, expected, atol=1e-5 if solver != "sgd" else 0.05)
    assert (run.coef >= 0.0).all()
    assert (run.coef == 0.0).any()
    assert np.isfinite(run.trace["objective"]).all()


@CORRECTED
def test_weights_in_a_box(solver):
    """The gradient points outwards at the bounds and vanishes inside; zero need not be in the box."""
    model = SGDRegressor(penalty=Box(0.2, 1.0), solver=solver, **EXACT).fit(X, NUMBERS)
    problem = Problem.build(X, NUMBERS, loss="squared_error", fit_intercept=True)
    gradient, _ = problem.data_gradient(problem.slopes(model.coef_, float(model.intercept_[0])))
    for weight, slope in zip(model.coef_, gradient, strict=True):
        assert (slope > -1e-6 if weight == 0.2 else slope < 1e-6) if weight in (0.2, 1.0) else abs(slope) < 1e-6
    assert {0.2, 1.0} <= set(model.coef_.tolist())


def test_sgd_finds_steps_where_zero_is_not_allowed():
    """A box without zero in it, with the steps that "auto" finds."""
    model = SGDRegressor(penalty=Box(0.2, 1.0), random_state=0, batch_size=8).fit(X, NUMBERS)
    assert ((model.coef_ >= 0.2) & (model.coef_ <= 1.0)).all()


def test_an_own_penalty_has_the_life_of_any_parameter():
    """clone, pickle, get_params, a search over penalties, and three classes."""
    model = SGDClassifier("log_loss", penalty=Box(-0.5, 0.5), solver="saga", **FEW).fit(X, THREE)
    assert np.abs(model.coef_).max() == 0.5
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(clone(model).fit(X, THREE).coef_, model.coef_)
    search = GridSearchCV(model, {"penalty": [Box(-1e-3, 1e-3), Box(-5.0, 5.0), "l2"]}, cv=2, error_score="raise").fit(X, THREE)
    assert search.best_params_["penalty"] == "l2" or search.best_params_["penalty"].high == 5.0


def test_an_own_penalty_equals_the_built_in_one():
    """The lasso as an object: the same weights in each solver that takes both by proximal steps."""

    class Lasso:
        separable = True

        def value(self, w):
            return 0.2 * np.abs(w).sum()

        def prox(self, w, step):
            return np.sign(w) * np.maximum(np.abs(w) - 0.2 * step, 0.0)

    given = {"loss": "squared_error", "l2": 0.1, "batch_size": 4, "epochs": 5, "fit_intercept": True}
    for solver in ("svrg", "saga"):
        for sampling in ("shuffle", "importance", "stratified"):
            own, built_in = (
                minimize(X, NUMBERS, solver=solver, sampling=sampling, **given, **p) for p in ({"penalty": Lasso()}, {"l1": 0.2})
            )
            np.testing.assert_allclose(own.coef, built_in.coef, atol=1e-12)


# --------------------------------------------------------------------------------------------------- what a fit tells


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_tells_what_it_did(solver):
    """plan_, history_, eta0_, decay_, n_iter_ and t_."""
    model = SGDClassifier("log_loss", solver=solver, sampling="shuffle", **FEW, **without_intercept(solver)).fit(X, TWO)
    assert (model.plan_.sampling, model.plan_.pairing, model.plan_.batch_size) == ("shuffle", None, 2)
    assert (model.n_iter_, model.t_) == (4, 241)
    np.testing.assert_array_equal(model.history_["epoch"], [1, 2, 3, 4])
    problem = Problem.build(X, TWO, l2=ALPHA, fit_intercept=solver != "sdca")
    assert model.history_["objective"][-1] == pytest.approx(problem.objective(model.coef_[0], float(model.intercept_[0])), rel=1e-12)
    assert hasattr(model, "eta0_") == hasattr(model, "decay_") == (solver != "sdca")
    assert solver == "sdca" or model.eta0_ > 0.0
    if solver in ("svrg", "saga"):
        assert model.decay_ == 0.0  # a constant step


@pytest.mark.parametrize("solver", ["saga", "sdca"])
def test_auto_reshuffles_where_balanced_orders_do_harm(solver):
    """And says why."""
    model = SGDClassifier("log_loss", solver=solver, **FEW, **without_intercept(solver)).fit(X, TWO)
    assert model.plan_.sampling == "shuffle"
    assert "balanced" in model.plan_.why


@CORRECTED
def test_a_corrected_gradient_has_less_and_less_variance(solver):
    """The exact variance in the trace goes to zero, which SGD's does not."""
    given = {"l2": ALPHA, "sampling": "shuffle", "epochs": 60, "trace": ["variance", "variance_ratio"]}
    corrected, plain = minimize(X, TWO, solver=solver, **given), minimize(X, TWO, eta0=0.1, **given)
    assert corrected.trace["variance"][-1] < 1e-12 < 1e-3 < plain.trace["variance"][-1]
    assert corrected.trace["variance_ratio"][-1] < 1e-10


SAME_AS_MINIMIZE = [
    {"solver": "svrg"},
    {"solver": "saga", "batch_size": 7},
    {"solver": "svrg", "sampling": "balanced"},
    {"solver": "saga", "sampling": "importance", "importance": "gradients", "pairing": "greedy"},
    {"solver": "sgd", "sampling": "importance"},
    {"solver": "svrg", "sampling": "stratified", "batch_size": 8, "allocation": "optimal", "n_strata": 3},
    {"solver": "sdca", "fit_intercept": False},
]


@pytest.mark.parametrize("given", SAME_AS_MINIMIZE, ids=str)
def test_a_fit_is_a_run_of_minimize(given):
    """The same bits, from the seed that random_state draws, with the steps that each finds."""
    given = {"fit_intercept": True, "sampling": "shuffle", "learning_rate": "auto"} | given
    model = SGDClassifier("log_loss", **FEW, **given).fit(X, TWO)
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    run = minimize(X, TWO, l2=ALPHA, epochs=4, seed=seed, **given)
    np.testing.assert_array_equal(model.coef_[0], run.coef)


@CORRECTED
def test_decay_means_the_same_in_both(solver):
    """A step from the smoothness is constant, or decays, in minimize and in the estimators alike."""
    given = {"solver": solver, "sampling": "shuffle", "learning_rate": "auto", "decay": 5.0, "fit_intercept": True}
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    run = minimize(X, TWO, l2=ALPHA, epochs=4, seed=seed, **given)
    np.testing.assert_array_equal(SGDClassifier("log_loss", **FEW, **given).fit(X, TWO).coef_[0], run.coef)


def test_a_schedule_that_needs_no_first_step_takes_a_loss_with_a_kink():
    """Schedule "optimal" with the hinge loss, as the estimators do."""
    given = {"loss": "hinge", "solver": "saga", "sampling": "shuffle", "learning_rate": "optimal"}
    assert SGDClassifier(**FEW, **given).fit(X, TWO).score(X, TWO) > 0.8
    assert np.isfinite(minimize(X, TWO, l2=ALPHA, epochs=4, **given).coef).all()


@pytest.mark.parametrize("given", [{"solver": solver} | draws for solver in SOLVERS for draws in DRAWS], ids=str)
def test_the_same_seed_gives_the_same_bits(given):
    """And another seed gives others."""
    models = [
        SGDClassifier("log_loss", batch_size=4, **(FEW | {"random_state": seed}), **given, **without_intercept(given["solver"])).fit(X, TWO)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not np.array_equal(models[0].coef_, models[2].coef_)


# --------------------------------------------------------------------------------------------------- fits that go on


@CORRECTED
@BOTH
def test_warm_starts_go_on_from_the_solution(solver, kind):
    """A second fit leaves a solution where it is, with the steps of the first."""
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    model = kind(solver=solver, warm_start=True, **EXACT, **loss).fit(X, target_of(kind))
    coef, eta0 = model.coef_.copy(), model.eta0_
    model.fit(X, target_of(kind))
    assert model.n_iter_ == 1
    assert model.eta0_ == eta0
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8)


def test_a_warm_start_of_sdca_begins_near_its_solution():
    """The dual variables of the last weights: at a solution, those of the solution."""
    model = SGDClassifier("log_loss", solver="sdca", fit_intercept=False, warm_start=True, **EXACT).fit(X, TWO)
    coef = model.coef_.copy()
    np.testing.assert_allclose(model.fit(X, TWO).coef_, coef, atol=1e-6)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("first", ["sgd", "sdca"])
def test_another_solver_finds_steps_of_its_own(first):
    """Changing the solver of a warm start, the steps are those of a fresh fit."""
    given = {"loss": "log_loss", "fit_intercept": False, "random_state": 0, "alpha": ALPHA}
    model = SGDClassifier(solver=first, warm_start=True, **given).fit(30.0 * X, TWO)
    changed, fresh = model.set_params(solver="saga").fit(30.0 * X, TWO), SGDClassifier(solver="saga", **given).fit(30.0 * X, TWO)
    assert (changed.eta0_, changed.decay_) == (fresh.eta0_, fresh.decay_)


@CORRECTED
@BOTH
def test_chunks_are_learnt_one_after_the_other(solver, kind):
    """What is remembered is of a chunk's rows only: chunks of different sizes may follow each other, and lead near the solution."""
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    y, classes = target_of(kind), {"classes": [0, 1]} if kind is SGDClassifier else {}
    model, whole = kind(solver=solver, random_state=0, alpha=ALPHA, **loss), kind(solver=solver, **EXACT, **loss).fit(X, y)
    for _ in range(30):
        for rows in np.split(np.arange(60), [10, 35]):
            model.partial_fit(X[rows], y[rows], **classes)
    assert model.t_ == 1 + 30 * 60
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.15)
    assert model.score(X, y) == pytest.approx(whole.score(X, y), abs=0.05)


@CORRECTED
def test_a_chunk_does_not_remember_the_rows_before_it(solver):
    """A chunk of as many rows as the fit had gives the bits of a model that knows the weights and steps only."""
    given = {"loss": "log_loss", "solver": solver, "shuffle": False, "random_state": 0}
    model, knows_weights = SGDClassifier(**given).fit(X[:30], TWO[:30]), SGDClassifier(**given)
    for name in ("classes_", "coef_", "intercept_", "eta0_", "decay_", "n_features_in_"):
        setattr(knows_weights, name, getattr(model, name))
    expected = knows_weights.partial_fit(X[30:], TWO[30:]).coef_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).partial_fit(X[30:], TWO[30:]).coef_, expected)
    np.testing.assert_array_equal(model.partial_fit(X[30:], TWO[30:]).coef_, expected)


@BOTH
def test_chunks_are_refused_by_sdca(kind):
    """It has a dual variable for each row; the model stays what it was."""
    model = kind(solver="sdca", fit_intercept=False)
    with pytest.raises(ValueError, match=r"all rows at once; use fit, or solver='sgd'"):
        model.partial_fit(X, target_of(kind), **({"classes": [0, 1]} if kind is SGDClassifier else {}))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("first", SOLVERS)
@pytest.mark.parametrize("then", ["sgd", "svrg", "saga"])
def test_chunks_may_follow_a_fit_of_another_solver(first, then):
    """With a step size given, whatever the fit remembered."""
    step = {} if first == "sdca" else {"learning_rate": "constant", "eta0": 0.05}
    model = SGDClassifier("log_loss", solver=first, fit_intercept=False, **FEW, **step).fit(X, TWO)
    model.set_params(solver=then, learning_rate="constant", eta0=0.05).partial_fit(X, TWO).partial_fit(X[:7], TWO[:7])
    assert model.score(X, TWO) > 0.8


@pytest.mark.parametrize(
    "given",
    [
        {"solver": "svrg"},
        {"solver": "saga", "sampling": "importance"},
        {"solver": "sdca", "fit_intercept": False},
        {"sampling": "stratified"},
    ],
    ids=str,
)
def test_fitted_models_are_pickled_and_cloned(given):
    """With the same predictions, and with parameters that come back."""
    model = SGDClassifier("log_loss", batch_size=4, **FEW, **given).fit(X, THREE)
    again, unfitted = pickle.loads(pickle.dumps(model)), clone(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert unfitted.get_params() == model.get_params()
    assert not hasattr(unfitted, "coef_")
    assert SGDClassifier().set_params(**model.get_params()).fit(X, THREE).coef_.tobytes() == model.coef_.tobytes()


def test_a_search_over_solvers_and_draws():
    """GridSearchCV takes every combination that is allowed."""
    grid = [
        {
            "solver": ["sgd", "svrg"],
            "sampling": ["shuffle", "uniform", "balanced", "importance", "stratified"],
            "pairing": [None, "greedy"],
        },
        {"solver": ["saga", "sdca"], "sampling": ["auto", "importance", "stratified"], "importance": ["bounds", "gradients"]},
    ]
    search = GridSearchCV(SGDClassifier("log_loss", fit_intercept=False, batch_size=4, **FEW), grid, cv=2, error_score="raise")
    assert search.fit(X, TWO).best_score_ > 0.8
    assert len(search.cv_results_["params"]) == 32


# --------------------------------------------------------------------------------------------------- resuming and interrupting

RESUMED = [
    *({"solver": solver} | draws for solver in SOLVERS for draws in DRAWS),
    {"solver": "saga", "sampling": "shuffle", "fit_intercept": True, "l1": 0.01},
    {"solver": "svrg", "sampling": "balanced", "fit_intercept": True},
    {"solver": "saga", "sampling": "shuffle", "penalty": "group_lasso", "groups": GROUPS, "l1": 0.05},
    {"solver": "sdca", "sampling": "shuffle", "loss": "hinge"},
    {"solver": "saga", "sampling": "importance", "importance": "gradients", "pairing": "greedy"},
    {"solver": "svrg", "sampling": "stratified", "strata": THREE, "allocation": "optimal", "pairing": "greedy"},
    {"solver": "saga", "sampling": "shuffle", "pairing": "greedy", "refresh": [1, 3]},
    {"solver": "sgd", "sampling": "importance", "importance": np.linspace(1.0, 2.0, 60)},
]


@pytest.mark.parametrize("given", RESUMED, ids=str)
def test_a_resumed_run_equals_an_uninterrupted_one(given):
    """2 epochs and 3 more are 5, bit for bit, trace included, also from a result that was pickled."""
    given = RUN | steps_of(given["solver"]) | {"trace": "objective"} | given
    whole = minimize(X, TWO, epochs=5, **given)
    earlier = pickle.loads(pickle.dumps(minimize(X, TWO, epochs=2, **given)))
    resumed = minimize(X, TWO, epochs=5, resume=earlier, **given)
    np.testing.assert_array_equal(whole.coef, resumed.coef)
    np.testing.assert_array_equal(whole.trace["objective"], resumed.trace["objective"])


@FORMS
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_float32_runs_are_resumed_too(form, solver):
    """Where sums that many steps have added up are coarse."""
    given = RUN | {"solver": solver, "sampling": "shuffle"}
    rows = form(X.astype(np.float32))
    resumed = minimize(rows, TWO, epochs=5, resume=minimize(rows, TWO, epochs=2, **given), **given)
    np.testing.assert_array_equal(minimize(rows, TWO, epochs=5, **given).coef, resumed.coef)


@pytest.mark.parametrize("solver", SOLVERS)
def test_strata_of_a_refreshed_table_are_resumed(solver):
    """Clusters that were made from gradients, in a run that is resumed after that."""
    given = RUN | steps_of(solver) | {"solver": solver, "sampling": "stratified", "pairing": "greedy", "refresh": [1]}
    resumed = minimize(X, TWO, epochs=6, resume=minimize(X, TWO, epochs=3, **given), **given)
    np.testing.assert_array_equal(minimize(X, TWO, epochs=6, **given).coef, resumed.coef)


@CORRECTED
def test_the_step_of_a_refreshed_table_is_resumed(solver):
    """Importance by bounds of pairs, which the step depends on, in a run that is resumed after a new table."""
    given = RUN | {"solver": solver, "sampling": "importance", "pairing": "greedy", "refresh": [1]}
    resumed = minimize(X, TWO, epochs=6, resume=minimize(X, TWO, epochs=3, **given), **given)
    np.testing.assert_array_equal(minimize(X, TWO, epochs=6, **given).coef, resumed.coef)


@pytest.mark.parametrize("start", [None, np.linspace(-3.0, 3.0, 5)], ids=["zero", "given"])
def test_a_trace_does_not_change_the_run(start):
    """Measuring the variance leaves the draws as they are."""
    given = RUN | {"sampling": "stratified", "n_strata": 4, "eta0": 0.1, "epochs": 3, "coef_init": start}
    np.testing.assert_array_equal(minimize(X, TWO, **given).coef, minimize(X, TWO, trace="variance", **given).coef)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"solver": "svrg"}, "solver"),
        ({"sampling": "uniform"}, "sampling"),
        ({"importance": "gradients"}, "importance"),
        ({"allocation": "optimal"}, "allocation"),
        ({"l1": 0.1}, "penalty"),
        ({"penalty": "group_lasso", "groups": GROUPS, "l1": 0.1}, "penalty"),
        ({"eta0": 0.1}, "steps"),
        ({"tol": 1e-3, "stopping": "gradient"}, "trace"),
    ],
    ids=str,
)
def test_resume_refuses_another_run(changed, named):
    """By name."""
    given = RUN | {"solver": "saga", "sampling": "importance"}
    with pytest.raises(ValueError, match=f"resume= was made with another {named}"):
        minimize(X, TWO, resume=minimize(X, TWO, epochs=1, **given), **(given | changed))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"sampling": "stratified", "strata": TWO}, {"sampling": "stratified", "strata": THREE}),
        (*({"sampling": "importance", "importance": chances} for chances in (np.ones(60), np.arange(1.0, 61.0))),),
    ],
    ids=["strata", "importance"],
)
def test_resume_refuses_other_chances(earlier, later):
    """Strata and probabilities of one's own are part of a run."""
    given = RUN | {"eta0": 0.1}
    with pytest.raises(ValueError, match="resume"):
        minimize(X, TWO, resume=minimize(X, TWO, epochs=1, **given, **earlier), **given, **later)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("draws", [{"sampling": "shuffle"}, {"sampling": "importance", "importance": "gradients"}], ids=str)
def test_ctrl_c_leaves_a_run_that_can_be_resumed(monkeypatch, solver, draws):
    """An interruption while something is measured: the last whole epoch is there, and goes on to the same bits."""
    given = RUN | steps_of(solver) | draws | {"solver": solver, "epochs": 5, "trace": "objective"}
    whole, measure = minimize(X, TWO, **given), _minimize.measure_state

    def interrupted(names, tables, state, w_star=None):
        if state.epochs == 3:
            raise KeyboardInterrupt
        return measure(names, tables, state, w_star=w_star)

    monkeypatch.setattr(_minimize, "measure_state", interrupted)
    with pytest.raises(Interrupted, match="after 2 epochs") as caught:
        minimize(X, TWO, **given)
    monkeypatch.undo()
    assert caught.value.result.state.epochs == len(caught.value.result.trace["objective"]) - 1 == 2
    np.testing.assert_array_equal(minimize(X, TWO, resume=caught.value.result, **given).coef, whole.coef)


# --------------------------------------------------------------------------------------------------- refusals

PENALTIES = {
    "none": {},
    "l2": {"l2": 0.1},
    "l1": {"l1": 0.1},
    "elastic net": {"l1": 0.1, "l2": 0.1},
    "group lasso": {"penalty": "group_lasso", "groups": GROUPS, "l1": 0.1},
    "own": {"penalty": Box()},
}
PAIRINGS = {
    "rows": {},
    "pairs": {"pairing": "random"},
    "groups": {"pairing": "tree", "nest": 2},
    "nested order": {"pairing": "tree", "nest": True},
}


REFUSED = [
    ({"solver": "adam"}, "sgd, svrg, saga, sdca"),
    ({"sampling": "sorted"}, "uniform, shuffle, balanced, importance, stratified"),
    ({"sampling": "importance", "importance": "slopes"}, "bounds, gradients"),
    ({"sampling": "stratified", "allocation": "equal"}, "proportional, optimal"),
    ({"penalty": "l2"}, "group_lasso"),
    ({"penalty": "group_lasso", "l1": 0.1}, "needs groups="),
    ({"groups": GROUPS}, "groups= belongs to"),
    ({"penalty": Box(), "l1": 0.1}, "put it into the penalty"),
    ({"penalty": Box(), "groups": GROUPS}, "knows its groups itself"),
    ({"penalty": 3.0}, r"needs value\(w\), prox\(w, step\) and separable"),
    ({"stopping": "time", "tol": 1e-3}, "objective, gradient, gap"),
    ({"solver": "saga", "average": True}, "leave it out"),
    ({"penalty": Box(), "average": True}, "a penalty of your own; leave it out"),
    ({"penalty": "group_lasso", "groups": GROUPS, "average": True}, 'penalty="group_lasso"; leave it out'),
    ({"solver": "svrg", "loss": "hinge", "learning_rate": "pa1", "eta0": 1.0}, 'use learning_rate="auto"'),
    ({"penalty": Box(), "loss": "hinge", "learning_rate": "pa2"}, 'use learning_rate="auto"'),
    ({"solver": "saga", "loss": "hinge"}, 'or solver="sgd"'),
    ({"solver": "sdca", "fit_intercept": True}, 'use fit_intercept=False, or add a column of ones, or solver="saga"'),
    ({"solver": "sdca", "learning_rate": "constant"}, "no step size"),
    ({"solver": "sdca", "l2": 0.0}, 'above 0; use penalty="l2"'),
    ({"solver": "sdca", "loss": "modified_huber"}, 'use solver="saga"'),
    ({"solver": "sdca", "loss": "perceptron"}, 'use solver="sgd"'),
    ({"solver": "sdca", "intercept_init": 1.0}, "intercept_init must be 0"),
    ({"solver": "sdca", "trace": "variance"}, 'use trace="gap"'),
    ({"solver": "sdca", "sampling": "balanced"}, 'use sampling="shuffle"'),
    ({"solver": "saga", "sampling": "balanced"}, 'or solver="svrg"'),
    ({"sampling": "uniform", "pairing": "tree", "nest": True}, 'use sampling="shuffle"'),
    ({"sampling": "stratified", "strata": THREE, "n_strata": 2}, "got both"),
    ({"sampling": "stratified", "strata": THREE[1:]}, r"\(60,\)"),
    ({"sampling": "stratified", "strata": THREE}, "batch_size of at least 3"),
    ({"sampling": "stratified", "batch_size": 1}, "batch_size of at least 2"),
    ({"sampling": "importance", "importance": np.zeros(60)}, "at least one must be positive"),
    ({"sampling": "importance", "importance": np.eye(60)[0]}, "give it a positive number"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused_before_the_first_step(monkeypatch, given, message):
    """In a sentence that says what to use instead, or what there is."""
    given = {"l2": ALPHA, **steps_of(given.get("solver", "sgd"))} | given
    monkeypatch.setattr(_minimize, "run", lambda *_, **__: pytest.fail("a step was taken"))
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "adam"}, "'svrg'"),
        ({"sampling": "sorted"}, "'importance'"),
        ({"penalty": "ridge"}, "'group_lasso'"),
        ({"penalty": SimpleNamespace()}, "'value' and 'prox'|implementing 'value'"),
        ({"importance": "slopes"}, "'gradients'"),
        ({"allocation": "equal"}, "'optimal'"),
        ({"stopping": "time"}, "'gap'"),
        ({"n_strata": 0}, "n_strata"),
        ({"penalty": "group_lasso"}, "needs groups"),
        ({"groups": GROUPS}, "groups belongs to"),
        ({"penalty": "group_lasso", "groups": [0, 1]}, "each of the 5 features"),
        ({"solver": "saga"}, 'or solver="sgd"'),  # the default loss has a kink
        ({"solver": "sdca"}, "use fit_intercept=False"),
        ({"solver": "sdca", "fit_intercept": False, "penalty": "l1"}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "penalty": None}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "penalty": Box()}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "learning_rate": "optimal"}, "no step size"),
        ({"solver": "sdca", "fit_intercept": False, "loss": "huber"}, 'use solver="saga"'),
        ({"solver": "saga", "average": True}, "leave it out"),
        ({"solver": "svrg", "learning_rate": "pa1"}, 'use learning_rate="auto"'),
        ({"solver": "saga", "sampling": "balanced"}, 'or solver="svrg"'),
        ({"sampling": "stratified", "n_strata": 3}, "batch_size of at least 3"),
        ({"sampling": "importance", "pairing": "tree", "nest": True}, 'use sampling="shuffle"'),
        ({"shuffle": False, "sampling": "importance"}, "use sampling='auto'"),
        ({"solver": "sdca", "fit_intercept": False, "trace": "variance"}, 'use trace="gap"'),
    ],
    ids=str,
)
def test_estimators_refuse_before_the_first_step(given, message):
    """Whatever minimize would refuse; the estimator is what it was."""
    model = SGDClassifier(**given)
    with pytest.raises(ValueError, match=message):
        model.fit(X, TWO)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize(
    ("given", "strata", "message"),
    [
        ({}, THREE, "belongs to sampling='stratified'; got sampling='auto'"),
        ({"sampling": "stratified"}, THREE[1:], r"\(60,\), one label per row of X; got \(59,\)"),
        ({"sampling": "stratified"}, THREE, "batch_size of at least 3, or fewer strata"),
        ({"sampling": "stratified", "n_strata": 2}, THREE, "got both"),
    ],
    ids=str,
)
def test_strata_that_do_not_fit_are_refused(given, strata, message):
    """By what is allowed."""
    with pytest.raises(ValueError, match=message):
        SGDClassifier(**given).fit(X, TWO, strata=strata)


def test_features_that_are_too_large_are_named():
    """Squares that overflow: the same advice as SGD gives."""
    with pytest.raises(DivergenceError, match="StandardScaler"):
        SGDClassifier("log_loss", solver="saga").fit(1e200 * X, TWO)


# --------------------------------------------------------------------------------------------------- odd data

ODD = {
    "two rows": (np.array([[1.0, 2.0], [-1.0, 0.5]]), [0, 1]),
    "one feature": (np.arange(6.0)[:, None] - 2.2, [0, 0, 1, 0, 1, 1]),
    "rows of zeros": (np.vstack([np.zeros((3, 2)), np.eye(2)]), [0, 1, 0, 1, 0]),
    "nothing but zeros": (np.zeros((4, 2)), [0, 1, 0, 1]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("solver", SOLVERS)
def test_odd_data(name, solver):
    """Two rows, one feature, rows of zeros, and batches larger than the data, for every draw: finite, and no worse than zero weights."""
    rows, y = ODD[name]
    for form, sizes in ((np.asarray, (2, 100)), (sparse.csr_array, (3,))):
        for draws in (*DRAWS, {"sampling": "shuffle"}, {"sampling": "importance", "pairing": "greedy"}):
            for size in sizes:
                if draws.get("n_strata", 0) > min(size, len(y)):
                    continue
                given = {"batch_size": size, "solver": solver, "alpha": 0.1, "max_iter": 10, "tol": None, "random_state": 0} | draws
                model = SGDClassifier("log_loss", **given, **without_intercept(solver)).fit(form(rows), y)
                assert np.isfinite(model.coef_).all()
                assert model.history_["objective"][-1] <= np.log(2.0) + 0.05


@pytest.mark.parametrize("draws", [*DRAWS, {"sampling": "shuffle"}], ids=str)
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_rows_of_weight_zero_do_not_count(solver, draws):
    """The solution is that of the others, alpha being per row."""
    weight = np.where(np.arange(60) < 20, 0.0, 1.5)
    given = {"solver": solver, "batch_size": 8, "fit_intercept": solver != "sdca"} | draws
    own = SGDClassifier("log_loss", **EXACT, **given).fit(X, TWO, sample_weight=weight)
    other = theirs.LogisticRegression(C=1.5 * C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000).fit(X[20:], TWO[20:])
    assert_same_model(own, other)


def test_a_given_table_with_every_solver():
    """One table serves them all, in fit and as a parameter."""
    table = pair(X, TWO, "optimal")
    for solver in SOLVERS:
        given = {"solver": solver, "fit_intercept": False} | FEW
        fitted = SGDClassifier("log_loss", **given).fit(X, TWO, table=table)
        assert fitted.plan_.pairing == "optimal"
        np.testing.assert_array_equal(SGDClassifier("log_loss", pairing=table, **given).fit(X, TWO).coef_, fitted.coef_)


def test_a_longer_step_than_the_smoothness_allows_is_reported():
    """A step of one's own is taken as it is: it diverges with advice, or the objective rises with a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises((DivergenceError, ConvergenceWarning), match="eta0="):
            minimize(X, NUMBERS, loss="squared_error", solver="saga", learning_rate="constant", eta0=10.0)


def test_the_mapping_vanishes_for_every_penalty():
    """One number says that each penalty's run has arrived, whatever its kind."""
    for given in PENALTIES.values():
        run = minimize(X, TWO, solver="saga", sampling="shuffle", fit_intercept=True, epochs=3000, stopping="gradient", tol=1e-8, **given)
        problem = Problem.build(X, TWO, fit_intercept=True, **given)
        assert gradient_mapping_norm(problem, run.coef, run.intercept) <= 1e-8
