"""Group lasso and custom penalties, from `minimize` and both estimators: where they lead."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn.linear_model as theirs
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from solver_cases import ALPHA, CORRECTED, EXACT, FEW, FORMS, GROUPS, NUMBERS, THREE, TWO, Box, X

from antithetic import SGDClassifier, SGDRegressor, minimize
from antithetic.orders import Importance, Shuffle
from antithetic.penalties import ElasticNet, GroupLasso
from antithetic.problem import Problem

# ---- group lasso


def assert_group_optimal(coef, gradient, alpha, within=1e-6):
    """Zero groups have a gradient that the penalty holds, the others one that it balances."""
    for group in map(list, GROUPS):
        part, most = coef[group], alpha * np.sqrt(len(group))
        if part.any():
            np.testing.assert_allclose(
                gradient[group], -most * part / np.linalg.norm(part), atol=within
            )
        else:
            assert np.linalg.norm(gradient[group]) <= most + within


@FORMS
@pytest.mark.parametrize("order", ["auto", Importance(), Shuffle(pairs="greedy")], ids=repr)
@CORRECTED
def test_group_lasso_meets_its_conditions(solver, form, order):
    """Optimality group by group, and groups that are zero are exactly zero, all of them."""
    given = EXACT | {"alpha": 0.6}
    penalty = GroupLasso(["a", "b", "b", "a", "c"])
    model = SGDRegressor(penalty=penalty, solver=solver, order=order, **given).fit(form(X), NUMBERS)
    problem = Problem.build(X, NUMBERS, loss="squared_error", fit_intercept=True)
    gradient, constant = problem.data_gradient(
        problem.slopes(model.coef_, float(model.intercept_[0]))
    )
    assert_group_optimal(model.coef_, gradient, 0.6)
    assert abs(constant) < 1e-6
    zero = [not model.coef_[list(group)].any() for group in GROUPS]
    assert True in zero
    assert False in zero


def test_groups_are_labels_or_lists():
    """Both say the same, in any order and of any kind; what is in no group is not penalised."""
    given = {"solver": "saga"} | FEW
    forms = (
        ["a", "b", "b", "a", "c"],
        np.array([7, -1, -1, 7, 3]),
        [[0, 3], [1, 2], [4]],
        (np.array([0, 3]), range(1, 3), [4]),
    )
    first, *others = (
        SGDRegressor(penalty=GroupLasso(groups), **given).fit(X, NUMBERS).coef_ for groups in forms
    )
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)
    given = given | EXACT | {"penalty": GroupLasso([[0, 1, 2]]), "alpha": 50.0}
    free = SGDRegressor(**given).fit(X, NUMBERS)
    expected = theirs.LinearRegression().fit(X[:, 3:], NUMBERS)
    np.testing.assert_array_equal(free.coef_[:3], 0.0)
    np.testing.assert_allclose(free.coef_[3:], expected.coef_, rtol=1e-5)


def test_group_lasso_with_l2_and_one_feature_each():
    """Groups of one feature are the elastic net's L1 part."""
    given = {
        "l2": 0.1,
        "l1": 0.2,
        "loss": "squared_error",
        "solver": "saga",
        "order": "shuffle",
        "epochs": 300,
    }
    grouped, plain = (
        minimize(X, NUMBERS, penalty=GroupLasso(range(5)), **given),
        minimize(X, NUMBERS, **given),
    )
    np.testing.assert_allclose(grouped.coef, plain.coef, atol=1e-10)
    assert grouped.trace.keys() == plain.trace.keys()


def test_sgd_comes_near_the_group_lasso():
    """Plain proximal steps for a penalty that SGD's kernels do not know, with zeros too."""
    given = {
        "penalty": GroupLasso(GROUPS),
        "random_state": 0,
        "alpha": 0.25,
        "batch_size": 4,
    }
    near = SGDRegressor(max_iter=300, tol=None, **given).fit(X, NUMBERS)
    exact = SGDRegressor(solver="saga", stopping="gradient", tol=1e-9, **given).fit(X, NUMBERS)
    np.testing.assert_allclose(near.coef_, exact.coef_, atol=0.02)


def test_partial_fit_and_classes_with_groups():
    """Chunks, and three classes, each with the same groups."""
    model = SGDClassifier(
        "log_loss", penalty=GroupLasso(GROUPS), solver="saga", random_state=0, alpha=0.01
    )
    for _ in range(20):
        for rows in np.split(np.arange(60), 3):
            model.partial_fit(X[rows], THREE[rows], classes=[0, 1, 2])
    assert model.score(X, THREE) > 0.6
    assert not clone(model).set_params(alpha=10.0).fit(X, THREE).coef_.any()


def test_a_group_lasso_has_the_life_of_any_parameter():
    """clone, pickle, get_params and a search over groups."""
    model = SGDRegressor(penalty=GroupLasso(GROUPS), solver="saga", **FEW).fit(X, NUMBERS)
    assert clone(model).penalty == model.get_params()["penalty"] == GroupLasso(GROUPS)
    again = pickle.loads(pickle.dumps(model))
    assert again.penalty == model.penalty
    np.testing.assert_array_equal(again.coef_, model.coef_)
    grid = {"penalty": [GroupLasso([0, 0, 0, 0, 0]), GroupLasso(GROUPS), "l2"]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, NUMBERS)
    assert search.best_params_["penalty"] in grid["penalty"]


def test_groups_of_other_features_are_refused_by_fit():
    """The error names the features that there are."""
    with pytest.raises(ValueError, match=r"each of the 5 features, .* got shape \(3,\)"):
        SGDRegressor(penalty=GroupLasso([0, 0, 1]), **FEW).fit(X, NUMBERS)
    with pytest.raises(ValueError, match="from 0 to 4; got 0 to 7"):
        SGDRegressor(penalty=GroupLasso([[0, 7]]), **FEW).fit(X, NUMBERS)


def test_an_elastic_net_brings_its_own_strengths():
    """penalty=ElasticNet(l2, l1) is l2= and l1=, bit for bit."""
    given = {"loss": "squared_error", "solver": "saga", "epochs": 5}
    one = minimize(X, NUMBERS, penalty=ElasticNet(l2=0.1, l1=0.2), **given)
    other = minimize(X, NUMBERS, l2=0.1, l1=0.2, **given)
    np.testing.assert_array_equal(one.coef, other.coef)


# ---- a penalty of one's own


@FORMS
@pytest.mark.parametrize("solver", ["sgd", "svrg", "saga"])
def test_weights_that_must_not_be_negative(solver, form):
    """Ridge(positive=True), by a penalty of three lines; no weight is negative at any time."""
    given = {
        "loss": "squared_error",
        "solver": solver,
        "l2": ALPHA,
        "batch_size": 8,
        "order": "shuffle",
        "epochs": 300,
    }
    run = minimize(form(X), NUMBERS, penalty=Box(), trace="objective", **given)
    expected = (
        theirs.Ridge(60 * ALPHA, positive=True, fit_intercept=False, tol=1e-10)
        .fit(X, NUMBERS)
        .coef_
    )
    np.testing.assert_allclose(run.coef, expected, atol=1e-5 if solver != "sgd" else 0.05)
    assert (run.coef >= 0.0).all()
    assert (run.coef == 0.0).any()
    assert np.isfinite(run.trace["objective"]).all()


@CORRECTED
def test_weights_in_a_box(solver):
    """The gradient points outwards at the bounds and vanishes inside.

    Zero need not be in the box.
    """
    model = SGDRegressor(penalty=Box(0.2, 1.0), solver=solver, **EXACT).fit(X, NUMBERS)
    problem = Problem.build(X, NUMBERS, loss="squared_error", fit_intercept=True)
    gradient, _ = problem.data_gradient(problem.slopes(model.coef_, float(model.intercept_[0])))
    for weight, slope in zip(model.coef_, gradient, strict=True):
        assert (
            (slope > -1e-6 if weight == 0.2 else slope < 1e-6)
            if weight in (0.2, 1.0)
            else abs(slope) < 1e-6
        )
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
    search = GridSearchCV(
        model, {"penalty": [Box(-1e-3, 1e-3), Box(-5.0, 5.0), "l2"]}, cv=2, error_score="raise"
    ).fit(X, THREE)
    assert search.best_params_["penalty"] == "l2" or search.best_params_["penalty"].high == 5.0


def test_an_own_penalty_equals_the_built_in_one():
    """The lasso as an object: the same weights in each solver that takes both by proximal steps."""

    class Lasso:
        separable = True

        def value(self, w):
            return 0.2 * np.abs(w).sum()

        def prox(self, w, step):
            return np.sign(w) * np.maximum(np.abs(w) - 0.2 * step, 0.0)

    given = {
        "loss": "squared_error",
        "l2": 0.1,
        "batch_size": 4,
        "epochs": 5,
        "fit_intercept": True,
    }
    for solver in ("svrg", "saga"):
        for order in ("shuffle", "importance", "stratified"):
            own, built_in = (
                minimize(X, NUMBERS, solver=solver, order=order, **given, **p)
                for p in ({"penalty": Lasso()}, {"l1": 0.2})
            )
            np.testing.assert_allclose(own.coef, built_in.coef, atol=1e-12)


@pytest.mark.parametrize("rate", ["optimal", "inverse_time", "auto"])
def test_steps_follow_the_strengths_of_an_elastic_net(rate):
    """ElasticNet(l2=a) as a penalty is alpha=a: its steps do not come from the unused alpha."""
    given = {"learning_rate": rate, "max_iter": 5, "tol": None, "random_state": 0}
    one = SGDClassifier("log_loss", alpha=0.1, **given).fit(X, TWO)
    other = SGDClassifier("log_loss", penalty=ElasticNet(l2=0.1), **given).fit(X, TWO)
    np.testing.assert_array_equal(one.coef_, other.coef_)
