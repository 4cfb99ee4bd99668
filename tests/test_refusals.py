"""What does not go together is refused before the first step, in words that name what does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from solver_cases import ALPHA, GROUPS, THREE, TWO, Box, X, steps_of

from antithetic import DivergenceError, SGDClassifier, minimize
from antithetic.training import minimize as _minimize

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
    (
        {"penalty": "group_lasso", "groups": GROUPS, "average": True},
        'penalty="group_lasso"; leave it out',
    ),
    (
        {"solver": "svrg", "loss": "hinge", "learning_rate": "pa1", "eta0": 1.0},
        'use learning_rate="auto"',
    ),
    ({"penalty": Box(), "loss": "hinge", "learning_rate": "pa2"}, 'use learning_rate="auto"'),
    ({"solver": "saga", "loss": "hinge"}, 'or solver="sgd"'),
    (
        {"solver": "sdca", "fit_intercept": True},
        'use fit_intercept=False, or add a column of ones, or solver="saga"',
    ),
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
    """The error comes before the first step and says what to use instead."""
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
    """Estimators refuse what minimize refuses, and stay unchanged."""
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
    """Strata that do not fit are refused, and the error says what is allowed."""
    with pytest.raises(ValueError, match=message):
        SGDClassifier(**given).fit(X, TWO, strata=strata)


def test_features_that_are_too_large_are_named():
    """Squares that overflow: the same advice as SGD gives."""
    with pytest.raises(DivergenceError, match="StandardScaler"):
        SGDClassifier("log_loss", solver="saga").fit(1e200 * X, TWO)
