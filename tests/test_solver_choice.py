"""Solvers and draws by name, from `minimize` and both estimators: results and reports."""

from __future__ import annotations

import warnings

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
from solver_cases import (
    ALPHA,
    BOTH,
    CORRECTED,
    DRAWS,
    EXACT,
    FEW,
    FORMS,
    NUMBERS,
    PENALTIES,
    RUN,
    THREE,
    TWO,
    WEIGHTS,
    C,
    X,
    assert_same_model,
    target_of,
    without_intercept,
)

from antithetic import DivergenceError, SGDClassifier, SGDRegressor, minimize, pair
from antithetic.exact.optimality import gradient_mapping_norm
from antithetic.orders import Balanced, Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.orders.order import read_order
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.steps import Auto, Constant
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.gap import start_of
from antithetic.stopping import Target

# ---- scikit-learn's solutions


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_logistic_regression(solver, form, fit_intercept, weight):
    """The solution is LogisticRegression's, with and without intercept and weights.

    From dense and sparse rows.
    """
    own = SGDClassifier("log_loss", solver=solver, fit_intercept=fit_intercept, **EXACT).fit(
        form(X), TWO, sample_weight=weight
    )
    other = theirs.LogisticRegression(
        C=C, fit_intercept=fit_intercept, tol=1e-10, max_iter=5000
    ).fit(X, TWO, sample_weight=weight)
    assert_same_model(own, other)
    np.testing.assert_allclose(own.predict_proba(form(X)), other.predict_proba(X), atol=1e-5)


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_ridge(solver, form, fit_intercept, weight):
    """Every solver finds the solution of Ridge."""
    own = SGDRegressor(solver=solver, fit_intercept=fit_intercept, **EXACT).fit(
        form(X), NUMBERS, sample_weight=weight
    )
    assert_same_model(
        own,
        theirs.Ridge(60 * ALPHA, fit_intercept=fit_intercept).fit(X, NUMBERS, sample_weight=weight),
    )


@CORRECTED
@FORMS
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    ("penalty", "other"),
    [
        ("l1", theirs.Lasso(0.5, tol=1e-12)),
        ("elasticnet", theirs.ElasticNet(0.5, l1_ratio=0.7, tol=1e-12)),
    ],
    ids=["l1", "elasticnet"],
)
def test_lasso_and_elastic_net(solver, form, fit_intercept, penalty, other):
    """The solutions of Lasso and ElasticNet, with the same exact zeros."""
    given = EXACT | {"alpha": 0.5}
    own = SGDRegressor(
        penalty=penalty, l1_ratio=0.7, solver=solver, fit_intercept=fit_intercept, **given
    ).fit(form(X), NUMBERS)
    other = clone(other).set_params(fit_intercept=fit_intercept).fit(X, NUMBERS)
    assert_same_model(own, other)
    np.testing.assert_array_equal(own.coef_ == 0.0, other.coef_ == 0.0)
    assert (own.coef_ == 0.0).any()


@CORRECTED
@FORMS
def test_a_linear_svm_with_squared_hinge(solver, form):
    """The solution of LinearSVC, whose intercept would be penalised."""
    own = SGDClassifier("squared_hinge", solver=solver, fit_intercept=False, **EXACT).fit(
        form(X), TWO
    )
    other = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000).fit(X, TWO)
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-4, atol=1e-5)


@FORMS
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_sdca_is_the_svm_and_logistic_regression(form, weight):
    """LinearSVC with the hinge loss, and LogisticRegression, both without an intercept."""
    given = {"solver": "sdca", "fit_intercept": False, "stopping": "gap", "tol": 1e-10} | {
        k: EXACT[k] for k in ("alpha", "random_state")
    }
    svm = SGDClassifier("hinge", max_iter=5000, **given).fit(form(X), TWO, sample_weight=weight)
    other = LinearSVC(
        C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(X, TWO, sample_weight=weight)
    np.testing.assert_allclose(svm.coef_, other.coef_, atol=2e-4)
    logistic = SGDClassifier("log_loss", max_iter=5000, **given).fit(
        form(X), TWO, sample_weight=weight
    )
    other = theirs.LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=5000).fit(
        X, TWO, sample_weight=weight
    )
    np.testing.assert_allclose(logistic.coef_, other.coef_, atol=2e-4)


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
@pytest.mark.parametrize("class_weight", [{0: 3.0, 1: 0.5}, "balanced"], ids=str)
def test_class_weights(solver, class_weight):
    """Class weights give LogisticRegression's solution, and multiply the sample weights."""
    weight = None if class_weight == "balanced" else WEIGHTS  # whose sum scikit-learn balances
    given = EXACT | {"class_weight": class_weight, "fit_intercept": solver != "sdca"}
    own = SGDClassifier("log_loss", solver=solver, **given).fit(X, TWO, sample_weight=weight)
    other = theirs.LogisticRegression(
        C=C,
        class_weight=class_weight,
        fit_intercept=given["fit_intercept"],
        tol=1e-10,
        max_iter=5000,
    ).fit(X, TWO, sample_weight=weight)
    assert_same_model(own, other)


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_more_than_two_classes(solver, n_jobs):
    """Each class against the rest is LogisticRegression's."""
    own = SGDClassifier(
        "log_loss", solver=solver, n_jobs=n_jobs, fit_intercept=solver != "sdca", **EXACT
    ).fit(X, THREE)
    for number in range(3):
        other = theirs.LogisticRegression(
            C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000
        ).fit(X, number == THREE)
        np.testing.assert_allclose(own.coef_[number], other.coef_[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(own.intercept_[number], other.intercept_, rtol=1e-5, atol=1e-6)


@FORMS
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_float32_is_kept_and_near(form, solver):
    """The weights are float32, and equal those of float64 up to rounding."""
    given = RUN | {"solver": solver, "order": "shuffle", "epochs": 150}
    single, double = (
        minimize(form(X.astype(np.float32)), TWO, **given),
        minimize(form(X), TWO, **given),
    )
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-5)
    model = SGDClassifier("log_loss", solver=solver, **FEW, **without_intercept(solver)).fit(
        form(X.astype(np.float32)), TWO
    )
    assert model.coef_.dtype == np.float32


# ---- draws


@pytest.mark.parametrize("draws", DRAWS, ids=str)
@pytest.mark.parametrize("pairs", [None, "greedy"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_draw_leads_to_the_solution(solver, pairs, draws):
    """Every draw is unbiased: corrected solvers reach the solution exactly, SGD comes near.

    With rows and with pairs.
    """
    order = read_order(draws["order"]).but(pairs=pairs)
    given = {
        "batch_size": 8,
        "order": order,
        "solver": solver,
        "fit_intercept": solver != "sdca",
    }
    exact = solver != "sgd"
    model = SGDClassifier(
        "log_loss",
        **(EXACT if exact else EXACT | {"stopping": "objective", "tol": None, "max_iter": 150}),
        **given,
    )
    model.fit(X, TWO)
    other = theirs.LogisticRegression(
        C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000
    ).fit(X, TWO)
    assert_same_model(model, other, **({} if exact else {"rtol": 0.0, "atol": 0.1}))
    assert model.plan_.order == order
    assert model.plan_.order.pairs == (None if pairs is None else Pairs(pairs))


@pytest.mark.parametrize(
    "labels", [THREE, np.array(["a", "b", "c"])[THREE]], ids=["numbers", "words"]
)
@pytest.mark.parametrize("pairs", [None, "greedy"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_given_strata_are_those_of_minimize(solver, pairs, labels):
    """fit(strata=) is Stratified(strata), bit for bit, with numbers and words for labels."""
    order = Stratified(allocation="optimal", pairs=pairs)
    given = {"solver": solver, "batch_size": 8}
    rate = {} if solver == "sdca" else {"learning_rate": "constant", "eta0": 0.1}
    model, other = (
        SGDClassifier(
            "log_loss", fit_intercept=False, order=order, average=False, **FEW, **given, **rate
        ).fit(X, TWO, strata=strata)
        for strata in (labels, TWO)
    )
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    steps = "auto" if solver == "sdca" else Constant(0.1)
    inside = order.but(strata=labels)
    run = minimize(X, TWO, order=inside, l2=ALPHA, epochs=4, seed=seed, steps=steps, **given)
    np.testing.assert_array_equal(model.coef_[0], run.coef)
    assert model.plan_.order == inside
    assert not np.array_equal(model.coef_, other.coef_)


def test_strata_are_given_once():
    """Given to fit and in the order, or for an order without strata, they are refused."""
    for order in (Stratified(THREE), Stratified(4)):
        with pytest.raises(ValueError, match="strata= is given twice: to fit, and in order="):
            SGDClassifier(order=order, batch_size=8, **FEW).fit(X, TWO, strata=THREE)
    for order in ("auto", "shuffle", Uniform(pairs="greedy")):
        with pytest.raises(ValueError, match="strata= needs order='stratified'; got order="):
            SGDClassifier(order=order, **FEW).fit(X, TWO, strata=THREE)


def test_strata_are_cut_for_early_stopping_and_used_for_every_class():
    """Held-back rows take their labels with them; each one-vs-rest problem has the same strata."""
    given = {"order": "stratified", "batch_size": 6, "solver": "saga", "random_state": 0}
    model = SGDClassifier("log_loss", early_stopping=True, validation_fraction=0.2, **given).fit(
        X, TWO, strata=THREE
    )
    assert "validation_score" in model.history_
    assert SGDClassifier("log_loss", **given).fit(X, THREE, strata=TWO).score(X, THREE) > 0.6


@BOTH
@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_cuts_strata_to_each_fold(kind, routing):
    """Each fold gets its part of the strata, with and without metadata routing."""
    loss = {"loss": "log_loss"} if kind is SGDClassifier else {}
    with sklearn.config_context(enable_metadata_routing=routing):
        model = kind(order="stratified", solver="svrg", batch_size=6, **FEW, **loss)
        model = model.set_fit_request(strata=True) if routing else model
        found = cross_validate(
            model,
            X,
            target_of(kind),
            cv=3,
            params={"strata": THREE},
            return_estimator=True,
            error_score="raise",
        )
        assert [fitted.t_ for fitted in found["estimator"]] == [
            1 + 4 * 42
        ] * 3  # 7 batches of 6 draw for 40 rows
        grid = {"order": [Stratified(), Stratified(allocation="optimal")]}
        GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, target_of(kind), strata=THREE)


@FORMS
@pytest.mark.parametrize("pairs", [None, "tree"])
def test_balanced_orders_with_svrg(form, pairs):
    """Balanced orders lead SVRG to the solution, by other steps than shuffled ones."""
    given = {"loss": "log_loss", "solver": "svrg"}
    other = theirs.LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(X, TWO)
    order = Balanced(pairs=pairs)
    assert_same_model(SGDClassifier(order=order, **EXACT, **given).fit(form(X), TWO), other)
    balanced, shuffled = (
        SGDClassifier(order=order, **FEW, **given).fit(form(X), TWO)
        for order in (Balanced(pairs=pairs), Shuffle(pairs=pairs))
    )
    assert not np.array_equal(balanced.coef_, shuffled.coef_)
    assert balanced.plan_.order == order


@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_groups_and_refreshed_tables(solver):
    """Nested groups and refreshed tables lead to the same solution."""
    given = {"solver": solver, "fit_intercept": solver != "sdca", "batch_size": 8}
    other = theirs.LogisticRegression(
        C=C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000
    ).fit(X, TWO)
    first = Balanced if solver == "svrg" else Shuffle
    for order in (
        first(pairs=Pairs("tree", nest=4)),
        first(pairs=Pairs("tree", nest=True)),
        first(pairs=Pairs("tree", refresh=3)),
        Importance(pairs=Pairs("tree", nest=4)),
    ):
        model = SGDClassifier("log_loss", order=order, **EXACT, **given).fit(X, TWO)
        assert_same_model(model, other)


# ---- what a fit tells


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_tells_what_it_did(solver):
    """plan_, history_, eta0_, decay_, n_iter_ and t_."""
    given = FEW | {"order": "shuffle", "trace": "objective"} | without_intercept(solver)
    model = SGDClassifier("log_loss", solver=solver, **given).fit(X, TWO)
    assert (model.plan_.order, model.plan_.batch_size) == (Shuffle(), 2)
    assert (model.n_iter_, model.t_) == (4, 241)
    np.testing.assert_array_equal(model.history_["epoch"], [1, 2, 3, 4])
    problem = Problem.build(X, TWO, l2=ALPHA, fit_intercept=solver != "sdca")
    assert model.history_["objective"][-1] == pytest.approx(
        problem.objective(model.coef_[0], float(model.intercept_[0])), rel=1e-12
    )
    assert hasattr(model, "eta0_") == hasattr(model, "decay_") == (solver != "sdca")
    assert solver == "sdca" or model.eta0_ > 0.0
    if solver in ("svrg", "saga"):
        assert model.decay_ == 0.0  # a constant step


@pytest.mark.parametrize("solver", ["saga", "sdca"])
def test_auto_reshuffles_where_balanced_orders_do_harm(solver):
    """ "auto" reshuffles where balanced orders do harm, and says why."""
    model = SGDClassifier("log_loss", solver=solver, **FEW, **without_intercept(solver)).fit(X, TWO)
    assert model.plan_.order == Shuffle()
    assert "balanced" in model.plan_.why


@CORRECTED
def test_a_corrected_gradient_has_less_and_less_variance(solver):
    """The exact variance in the trace goes to zero, which SGD's does not."""
    given = {
        "l2": ALPHA,
        "order": "shuffle",
        "epochs": 60,
        "trace": ["variance", "variance_ratio"],
    }
    corrected = minimize(X, TWO, solver=solver, **given)
    plain = minimize(X, TWO, steps=0.1, **given)
    assert corrected.trace["variance"][-1] < 1e-12 < 1e-3 < plain.trace["variance"][-1]
    assert corrected.trace["variance_ratio"][-1] < 1e-10


SAME_AS_MINIMIZE = [
    {"solver": "svrg"},
    {"solver": "saga", "batch_size": 7},
    {"solver": "svrg", "order": "balanced"},
    {"solver": "saga", "order": Importance("gradients", pairs="greedy")},
    {"solver": "sgd", "order": "importance", "average": "epoch"},
    {"solver": "svrg", "order": Stratified(3, "optimal"), "batch_size": 8},
    {"solver": "sdca", "fit_intercept": False},
]


def start():
    """Weights and intercept that fit begins with: those of the best constant prediction."""
    signs = np.where(TWO.max() == TWO, 1.0, -1.0)
    return np.zeros(X.shape[1]), start_of(LOSSES["log_loss"], signs, None)


@pytest.mark.parametrize("given", SAME_AS_MINIMIZE, ids=str)
def test_a_fit_is_a_run_of_minimize(given):
    """The same bits, from the seed that random_state draws and the best constant prediction."""
    given = {"fit_intercept": True, "order": "shuffle"} | given
    model = SGDClassifier("log_loss", **FEW, **given).fit(X, TWO)
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    init = start() if given["fit_intercept"] else None
    steps = Auto(precondition=given["solver"] == "sgd")
    run = minimize(X, TWO, l2=ALPHA, epochs=4, seed=seed, init=init, steps=steps, **given)
    np.testing.assert_array_equal(model.coef_[0], run.coef)


@CORRECTED
def test_decay_means_the_same_in_both(solver):
    """``decay`` gives the same weights in minimize and in the estimators, bit for bit."""
    given = {"solver": solver, "order": "shuffle", "fit_intercept": True}
    seed = int(check_random_state(0).randint(2**31 - 1, size=1)[0])
    steps = Auto(decay=5.0)
    run = minimize(X, TWO, l2=ALPHA, epochs=4, seed=seed, steps=steps, init=start(), **given)
    model = SGDClassifier("log_loss", decay=5.0, **FEW, **given).fit(X, TWO)
    np.testing.assert_array_equal(model.coef_[0], run.coef)


def test_a_schedule_that_needs_no_first_step_takes_a_loss_with_a_kink():
    """Schedule "optimal" with the hinge loss, as the estimators do."""
    given = {"loss": "hinge", "solver": "saga", "order": "shuffle"}
    model = SGDClassifier(learning_rate="optimal", **FEW, **given).fit(X, TWO)
    assert model.score(X, TWO) > 0.8
    run = minimize(X, TWO, l2=ALPHA, epochs=4, steps="optimal", **given)
    assert np.isfinite(run.coef).all()


@pytest.mark.parametrize(
    "given", [{"solver": solver} | draws for solver in SOLVERS for draws in DRAWS], ids=str
)
def test_the_same_seed_gives_the_same_bits(given):
    """The same seed gives the same bits, and another seed gives others."""
    models = [
        SGDClassifier(
            "log_loss",
            batch_size=4,
            **(FEW | {"random_state": seed}),
            **given,
            **without_intercept(given["solver"]),
        ).fit(X, TWO)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert not np.array_equal(models[0].coef_, models[2].coef_)


# ---- odd data

ODD = {
    "two rows": (np.array([[1.0, 2.0], [-1.0, 0.5]]), [0, 1]),
    "one feature": (np.arange(6.0)[:, None] - 2.2, [0, 0, 1, 0, 1, 1]),
    "rows of zeros": (np.vstack([np.zeros((3, 2)), np.eye(2)]), [0, 1, 0, 1, 0]),
    "nothing but zeros": (np.zeros((4, 2)), [0, 1, 0, 1]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("solver", SOLVERS)
def test_odd_data(name, solver):
    """Every draw copes with tiny data: finite weights, no worse than zero weights.

    Two rows, one feature, rows of zeros, and batches larger than the data.
    """
    rows, y = ODD[name]
    for form, sizes in ((np.asarray, (2, 100)), (sparse.csr_array, (3,))):
        for draws in (*DRAWS, {"order": "shuffle"}, {"order": Importance(pairs="greedy")}):
            for size in sizes:
                given = {
                    "batch_size": size,
                    "trace": "objective",
                    "solver": solver,
                    "alpha": 0.1,
                    "max_iter": 10,
                    "tol": None,
                    "random_state": 0,
                } | draws
                model = SGDClassifier("log_loss", **given, **without_intercept(solver)).fit(
                    form(rows), y
                )
                assert np.isfinite(model.coef_).all()
                assert model.history_["objective"][-1] <= np.log(2.0) + 0.05


@pytest.mark.parametrize("draws", [*DRAWS, {"order": "shuffle"}], ids=str)
@pytest.mark.parametrize("solver", ["svrg", "saga", "sdca"])
def test_rows_of_weight_zero_do_not_count(solver, draws):
    """The solution is that of the others, alpha being per row."""
    weight = np.where(np.arange(60) < 20, 0.0, 1.5)
    given = {"solver": solver, "batch_size": 8, "fit_intercept": solver != "sdca"} | draws
    own = SGDClassifier("log_loss", **EXACT, **given).fit(X, TWO, sample_weight=weight)
    other = theirs.LogisticRegression(
        C=1.5 * C, fit_intercept=solver != "sdca", tol=1e-10, max_iter=5000
    ).fit(X[20:], TWO[20:])
    assert_same_model(own, other)


def test_a_given_table_with_every_solver():
    """One table serves them all, in fit and as a parameter."""
    table = pair(X, TWO, "optimal")
    for solver in SOLVERS:
        given = {"solver": solver, "fit_intercept": False} | FEW
        fitted = SGDClassifier("log_loss", **given).fit(X, TWO, table=table)
        order = fitted.plan_.order
        assert order == (Balanced if solver in ("sgd", "svrg") else Shuffle)(pairs=table)
        np.testing.assert_array_equal(
            SGDClassifier("log_loss", order=order, **given).fit(X, TWO).coef_, fitted.coef_
        )


def test_a_longer_step_than_the_smoothness_allows_is_reported():
    """A given step is used as it is: it diverges with advice, or a rising objective warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises((DivergenceError, ConvergenceWarning), match=r"try .* or less"):
            minimize(X, NUMBERS, loss="squared_error", solver="saga", steps=Constant(10.0))


def test_the_mapping_vanishes_for_every_penalty():
    """The mapping shows convergence for every kind of penalty."""
    for given in PENALTIES.values():
        run = minimize(
            X,
            TWO,
            solver="saga",
            order="shuffle",
            fit_intercept=True,
            epochs=3000,
            stop=Target("gradient", 1e-8),
            **given,
        )
        problem = Problem.build(X, TWO, fit_intercept=True, **given)
        assert gradient_mapping_norm(problem, run.coef, run.intercept) <= 1e-8
