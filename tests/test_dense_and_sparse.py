"""Dense and sparse rows give the same model: exact ones always, SGD with given steps."""

import numpy as np
import pytest
from scipy import sparse

from antithetic import (
    LogisticRegression,
    LogisticRegressionCV,
    SGDClassifier,
    SGDRegressor,
    minimize,
    pair,
)
from antithetic.orders import Balanced, Importance, Shuffle, Stratified, Uniform
from antithetic.steps import InverseTime

FORMS = [sparse.csr_array, sparse.csc_array]
PENALTIES = [(np.inf, 0.0), (1.0, 0.0), (0.01, 0.0), (1.0, 1.0), (0.05, 0.5)]
SCHEDULES = {
    "constant": {"learning_rate": "constant", "eta0": 0.02},
    "inverse_time": {"learning_rate": "inverse_time", "eta0": 0.05},
    "invscaling": {"learning_rate": "invscaling", "eta0": 0.05},
    "adaptive": {"learning_rate": "adaptive", "eta0": 0.05},
    "optimal": {"learning_rate": "optimal"},
}


def draw(n, d, classes=2, seed=0):
    """Rows of which two thirds of the entries are zero, on different scales, and noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.35) * np.exp(0.5 * rng.normal(size=d))
    scores = X @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))
    return X, np.argmax(scores, axis=1), rng.exponential(size=n)


def distance(model, other):
    """Largest difference of weights and intercepts, in units of the largest weight."""
    pairs = ((model.coef_, other.coef_), (model.intercept_, other.intercept_))
    return max(np.abs(a - b).max() for a, b in pairs) / np.abs(model.coef_).max()


# ---- exact models


@pytest.mark.parametrize("n", [400, 2500])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("C", "l1_ratio"), PENALTIES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exact_models_agree(n, classes, C, l1_ratio, weighted, dtype):
    """To 1e-6 below 1500 rows, and as well as an objective within 1e-12 of the minimum allows."""
    X, y, weight = draw(n, 6, classes)
    tol = 1e-8 if l1_ratio == 1.0 else 1e-12  # zeros of L1 need fewer digits, and classes less
    enough = 1e-6 if n < 1500 else 3e-6
    settings = {"C": C, "l1_ratio": l1_ratio, "tol": tol}
    given = {"sample_weight": weight if weighted else None}
    dense = LogisticRegression(**settings).fit(X.astype(dtype), y, **given)
    for form in FORMS:
        other = LogisticRegression(**settings).fit(form(X.astype(dtype)), y, **given)
        chances = other.predict_proba(form(X)) - dense.predict_proba(X)
        assert np.abs(chances).max() <= enough
        if classes == 2 or l1_ratio < 1.0:  # else several weights may be equally good
            assert distance(dense, other) <= enough


@pytest.mark.parametrize("n", [2500, 10_000])
def test_weights_of_many_classes_sum_to_zero_without_a_penalty(n):
    """The same number added to a weight of every class changes nothing, so it is left out."""
    X, y, _ = draw(n, 6, 4, seed=1)
    for form in (np.asarray, *FORMS):
        model = LogisticRegression(C=np.inf).fit(form(X), y)
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(model.intercept_.sum(), 0.0, atol=1e-12)


def test_cross_validation_agrees():
    """Folds, scores and the last fit."""
    X, y, weight = draw(1800, 6)
    dense, sparse_rows = (
        LogisticRegressionCV(Cs=[0.01, 1.0], cv=3, tol=1e-12).fit(rows, y, sample_weight=weight)
        for rows in (X, sparse.csr_array(X))
    )
    assert dense.C_ == sparse_rows.C_
    np.testing.assert_allclose(dense.scores_, sparse_rows.scores_, rtol=1e-6)
    assert distance(dense, sparse_rows) <= 1e-6


# ---- stochastic gradient descent, with steps that are given: any learning_rate but "auto"


@pytest.mark.parametrize("steps", SCHEDULES)
@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "log_loss", "modified_huber"])
def test_given_steps_give_the_same_classifier(steps, penalty, loss):
    """All weights agree, and so do all labels."""
    X, y, weight = draw(500, 5)
    settings = SCHEDULES[steps] | {"penalty": penalty, "loss": loss, "random_state": 0}
    settings["alpha"] = 0.01
    dense = SGDClassifier(**settings).fit(X, y, sample_weight=weight)
    for form in FORMS:
        other = SGDClassifier(**settings).fit(form(X), y, sample_weight=weight)
        assert distance(dense, other) <= 1e-9
        assert (dense.predict(X) == other.predict(form(X))).all()


@pytest.mark.parametrize(
    "more",
    [
        {"order": Shuffle()},
        {"order": Balanced()},
        {"order": Uniform()},
        {"order": Importance()},
        {"order": Stratified(2), "batch_size": 4},
        {"average": True},
        {"average": "epoch"},
        {"batch_size": 1},
        {"fit_intercept": False},
        {"early_stopping": True},
        {"loss": "log_loss", "solver": "svrg"},
        {"loss": "log_loss", "solver": "saga"},
        {"loss": "softmax"},
    ],
    ids=str,
)
def test_given_steps_are_the_one_condition(more):
    """Orders, batches, averages, solvers and losses are the same for dense and sparse rows."""
    classes = 3 if more.get("loss") == "softmax" else 2
    X, y, _ = draw(600, 20, classes)
    settings = SCHEDULES["constant"] | {"random_state": 0} | more
    dense = SGDClassifier(**settings).fit(X, y)
    other = SGDClassifier(**settings).fit(sparse.csr_array(X), y)
    assert dense.n_iter_ == other.n_iter_
    assert distance(dense, other) <= 1e-9


def test_pairs_need_the_same_table():
    """Between rows that are alike, another rounding may choose another partner."""
    X, y, _ = draw(400, 5)
    table = pair(X, y)
    settings = SCHEDULES["constant"] | {"order": Shuffle(), "random_state": 0}
    dense = SGDClassifier(**settings).fit(X, y, table=table)
    other = SGDClassifier(**settings).fit(sparse.csr_array(X), y, table=table)
    assert distance(dense, other) <= 1e-9


@pytest.mark.parametrize("loss", ["squared_error", "huber", "epsilon_insensitive"])
def test_given_steps_give_the_same_regressor(loss):
    X, _, weight = draw(500, 8)
    y = X.sum(axis=1) + np.random.default_rng(1).normal(size=500)
    settings = SCHEDULES["inverse_time"] | {"loss": loss, "random_state": 0}
    dense = SGDRegressor(**settings).fit(X, y, sample_weight=weight)
    other = SGDRegressor(**settings).fit(sparse.csr_array(X), y, sample_weight=weight)
    assert distance(dense, other) <= 1e-9


def test_given_steps_give_the_same_result_of_minimize():
    X, y, _ = draw(500, 8)
    given = {"l2": 1e-3, "epochs": 5, "steps": InverseTime(0.1, 1e-3), "seed": 0}
    dense, other = (minimize(rows, y, **given) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.coef, other.coef, rtol=1e-9, atol=1e-12)
