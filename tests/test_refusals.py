"""Choices that cannot be combined are refused before the first step, with an alternative."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from solver_cases import ALPHA, GROUPS, THREE, TWO, Box, X, steps_of

from antithetic import DivergenceError, SGDClassifier, SGDRegressor, minimize
from antithetic.orders import Importance, Pairs, Stratified, Uniform
from antithetic.penalties import ElasticNet, GroupLasso
from antithetic.steps import PA1, PA2, Auto, Constant
from antithetic.stochastic import loop

NESTED = Pairs("tree", nest=True)
REFUSED = [
    ({"solver": "adam"}, "sgd, svrg, saga, sdca"),
    ({"order": "sorted"}, "uniform, shuffle, balanced, importance, stratified"),
    ({"order": 3}, "order of type int is not known; use one of auto, uniform, .* or an object of"),
    ({"order": Uniform}, r"pass an object, Uniform\(\)"),
    ({"penalty": "l2"}, "GroupLasso"),
    ({"penalty": "group_lasso", "l1": 0.1}, r"GroupLasso\(groups\)"),
    ({"penalty": GroupLasso(GROUPS)}, "takes its strength from l1=; set l1= above 0"),
    ({"penalty": ElasticNet(0.1)}, r"given twice: ElasticNet\(l2, l1\) sets them"),
    ({"penalty": Box(), "l1": 0.1}, "make it part of the penalty"),
    ({"penalty": Box}, r"pass an object, Box\(\)"),
    ({"penalty": 3.0}, r"needs value\(w\), prox\(w, step\) and separable"),
    ({"stop": "gradient"}, r"None, Stalled\(tol\), Target\("),
    ({"solver": "saga", "average": True}, "leave it out"),
    ({"penalty": Box(), "average": True}, "a penalty of your own; leave it out"),
    (
        {"penalty": GroupLasso(GROUPS), "l1": 0.1, "average": True},
        r"penalty=GroupLasso\(...\); leave it out",
    ),
    ({"solver": "svrg", "loss": "hinge", "steps": PA1(1.0)}, "use automatic steps"),
    ({"penalty": Box(), "loss": "hinge", "steps": PA2(1.0)}, "use automatic steps"),
    ({"steps": PA1(1.0)}, "only works with loss 'hinge'"),
    ({"solver": "saga", "loss": "hinge"}, 'or solver="sgd"'),
    (
        {"solver": "sdca", "fit_intercept": True},
        'use fit_intercept=False, or add a column of ones, or solver="saga"',
    ),
    ({"solver": "sdca", "steps": Constant(0.1)}, "no step size"),
    ({"solver": "sdca", "steps": Auto(decay=0.1)}, "no step size; leave the decay out"),
    ({"solver": "sdca", "l2": 0.0}, 'above 0; use penalty="l2"'),
    ({"solver": "sdca", "loss": "modified_huber"}, 'use solver="saga"'),
    ({"solver": "sdca", "loss": "perceptron"}, 'use solver="sgd"'),
    ({"solver": "sdca", "init": (None, 1.0)}, "intercept of init must be 0"),
    ({"solver": "sdca", "trace": "variance"}, 'use trace="gap"'),
    ({"solver": "sdca", "order": "balanced"}, 'use order="shuffle"'),
    ({"solver": "saga", "order": "balanced"}, 'or solver="svrg"'),
    ({"order": Uniform(pairs=NESTED)}, 'use order="shuffle"'),
    ({"order": Stratified(THREE[1:])}, r"\(60,\)"),
    ({"order": Stratified(THREE)}, "batch_size of at least 3"),
    ({"order": "stratified", "batch_size": 1}, "batch_size of at least 2"),
    ({"order": "importance", "trace": "partial_sum"}, 'use trace="variance"'),
    ({"order": Importance(np.eye(60)[0])}, "give it a larger number"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=str)
def test_what_does_not_go_together_is_refused_before_the_first_step(monkeypatch, given, message):
    """The error comes before the first step and says what to use instead."""
    given = {"l2": ALPHA, **steps_of(given.get("solver", "sgd"))} | given
    monkeypatch.setattr(loop, "present_schedule", lambda *_: pytest.fail("a run began"))
    with pytest.raises(ValueError, match=message):
        minimize(X, TWO, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "adam"}, "'svrg'"),
        ({"order": "sorted"}, "'importance'"),
        ({"order": Uniform}, "'order' parameter of SGDClassifier must be"),
        ({"penalty": "ridge"}, "GroupLasso"),
        ({"penalty": SimpleNamespace()}, "'value' and 'prox'|implementing 'value'"),
        ({"stopping": "time"}, "'gap'"),
        ({"penalty": "group_lasso"}, "GroupLasso"),
        ({"penalty": GroupLasso([0, 1])}, "each of the 5 features"),
        ({"solver": "saga"}, 'or solver="sgd"'),  # the default loss has a kink
        ({"solver": "sdca"}, "use fit_intercept=False"),
        ({"solver": "sdca", "fit_intercept": False, "penalty": "l1"}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "penalty": None}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "penalty": Box()}, 'or solver="sgd"'),
        ({"solver": "sdca", "fit_intercept": False, "learning_rate": "optimal"}, "no step size"),
        ({"solver": "sdca", "fit_intercept": False, "loss": "huber"}, 'use solver="saga"'),
        ({"solver": "saga", "average": True}, "leave it out"),
        ({"solver": "svrg", "learning_rate": "pa1"}, "use automatic steps"),
        ({"solver": "saga", "order": "balanced"}, 'or solver="svrg"'),
        ({"order": Stratified(3)}, "batch_size of at least 3"),
        ({"order": Importance(pairs=NESTED)}, 'use order="shuffle"'),
        ({"shuffle": False, "order": "importance"}, "use order='auto'"),
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
        ({}, THREE, "needs order='stratified'; got order='auto'"),
        ({"order": "shuffle"}, THREE, r"needs order='stratified'; got order=Shuffle\(\)"),
        ({"order": "stratified"}, THREE[1:], r"\(60,\), one label per row of X; got \(59,\)"),
        ({"order": "stratified"}, THREE, "batch_size of at least 3, or fewer strata"),
        ({"order": Stratified(2)}, THREE, "strata= is given twice"),
    ],
    ids=str,
)
def test_strata_that_do_not_fit_are_refused(given, strata, message):
    """Strata that do not fit are refused, and the error says what is allowed."""
    with pytest.raises(ValueError, match=message):
        SGDClassifier(**given).fit(X, TWO, strata=strata)


def test_features_that_are_too_large_are_named():
    """Squares that overflow are refused with the advice that SGD gives."""
    with pytest.raises(DivergenceError, match="StandardScaler"):
        SGDClassifier("log_loss", solver="saga").fit(1e200 * X, TWO)


# ---- every fit reads its parameters again


def test_a_combination_that_passed_is_checked_again_once_it_changes():
    """Values that are equal but of other types, and values set later, are other combinations."""
    X, y = np.eye(4), np.array([0.0, 1.0, 0.0, 1.0])
    model = SGDClassifier(solver="sdca", fit_intercept=False, batch_size=1).fit(X, y)
    model.set_params(fit_intercept=True)
    for _ in range(2):  # an error is not kept
        with pytest.raises(ValueError, match="intercept"):
            model.fit(X, y)
    model.set_params(fit_intercept=False, average=True)
    with pytest.raises(ValueError, match="average"):
        model.fit(X, y)
    model.set_params(average=False).fit(X, y)


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_newtons_method_is_found_in_other_classes(kind):
    """The message for the solver that SGD does not have names the classes that do."""
    for run in (
        lambda: kind(solver="newton").fit(X, TWO),
        lambda: minimize(X, TWO, solver="newton"),
    ):
        with pytest.raises(ValueError, match=r"'newton'.*LogisticRegression.*Ridge.*solve"):
            run()
