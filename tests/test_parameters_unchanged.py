"""fit and partial_fit write no constructor parameter: each stays the object that it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from solver_cases import NUMBERS, THREE, TWO, WEIGHTS, Box, X

from antithetic import (
    AntitheticTable,
    Distance,
    SGDClassifier,
    SGDRegressor,
    orders,
)
from antithetic.orders import Balanced, Given, Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.penalties import GroupLasso

pytestmark = pytest.mark.lowest

TABLE = AntitheticTable(np.arange(60)[::-1])
FEW = {"max_iter": 3, "tol": None}

# parameters for both estimators, none at its default
SHARED = {
    "words": {
        "penalty": "elasticnet",
        "alpha": 0.01,
        "l1_ratio": 0.5,
        "fit_intercept": False,
        "epsilon": 0.3,
        "random_state": np.random.RandomState(3),
        "learning_rate": "invscaling",
        "eta0": 0.02,
        "power_t": 0.25,
        "n_iter_no_change": 3,
        "warm_start": True,
        "average": 10,
        "order": "uniform",
        "batch_size": 1000,
        "decay": 0.5,
        "trace": "variance",
        **FEW,
    },
    "uniform": {"order": Uniform(pairs="greedy"), "trace": ["objective", "gradient"], **FEW},
    "shuffle": {"order": Shuffle(pairs=Pairs("tree", nest=4, refresh=2)), "batch_size": 4, **FEW},
    "balanced": {"order": Balanced(pairs=TABLE), "average": "epoch", **FEW},
    "balanced, one epoch": {"order": Balanced(pairs="greedy"), "max_iter": 1, "tol": None},
    "importance": {"order": Importance("gradients"), "solver": "saga", **FEW},
    "importance by numbers": {"order": Importance(np.linspace(1.0, 2.0, 60)), **FEW},
    "stratified": {"order": Stratified(3, "optimal"), "batch_size": 8, "solver": "svrg", **FEW},
    "given": {"order": Given(lambda epoch: np.roll(np.arange(60), epoch)), **FEW},
    "shuffle=False": {"shuffle": False, "learning_rate": "constant", "batch_size": 7, **FEW},
    "adaptive": {"learning_rate": "adaptive", "eta0": 0.05, "tol": 1e-2},
    "group lasso": {"penalty": GroupLasso([0, 0, 1, 1, 2]), "solver": "saga", **FEW},
    "own penalty": {"penalty": Box(-0.5, 0.5), **FEW},
    "distance": {"trace": [Distance(np.zeros(5)), "variance_ratio"], **FEW},
    "no seed": {"random_state": np.random.RandomState(0), "batch_size": np.int64(4), **FEW},
}
CLASSIFIER = {
    "class weights": {"class_weight": {0: 3.0, 1: 0.5}, "loss": "log_loss", **FEW},
    "balanced classes": {"class_weight": "balanced", "loss": "modified_huber", **FEW},
    "threads": {"n_jobs": 2, "loss": "squared_hinge", **FEW},
    "sdca": {
        "solver": "sdca",
        "alpha": 0.05,
        "fit_intercept": False,
        "stopping": "gap",
        "tol": 1e-2,
    },
    "early stopping": {"early_stopping": True, "validation_fraction": 0.3, "tol": 0.1},
}
# whose default loss has a kink, which these solvers and traces do not take
SMOOTH = {"uniform", "importance", "stratified", "group lasso"}

CASES = [
    pytest.param(
        kind,
        given | ({"loss": "log_loss"} if kind is SGDClassifier and name in SMOOTH else {}),
        id=f"{kind.__name__}, {name}",
    )
    for kind in (SGDClassifier, SGDRegressor)
    for name, given in (SHARED | (CLASSIFIER if kind is SGDClassifier else {})).items()
]
EVERY = pytest.mark.parametrize(("kind", "given"), CASES)


def target_of(kind):
    return TWO if kind is SGDClassifier else NUMBERS


class Unchanged:
    """Check at the end that parameters are the same objects with the same content."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.before = self.model.get_params(deep=False)
        self.content = {
            name: copy.deepcopy(value)
            for name, value in self.before.items()
            if name != "random_state"  # a generator is drawn from
        }

    def __exit__(self, *_):
        after = self.model.get_params(deep=False)
        assert after.keys() == self.before.keys()
        for name, value in self.before.items():
            assert getattr(self.model, name) is after[name] is value, name
        for name, value in self.content.items():
            if isinstance(value, Box):
                assert vars(value) == vars(after[name])
            else:
                assert value == after[name], name


@EVERY
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
def test_fit_leaves_every_parameter_alone(kind, given, weight):
    """Two fits in a row, so that warm starts and found steps are included."""
    model = kind(**given)
    with Unchanged(model):
        model.fit(X, target_of(kind), sample_weight=weight)
        model.fit(X, target_of(kind), sample_weight=weight)


@pytest.mark.parametrize("name", CLASSIFIER)
def test_fits_of_more_classes_leave_every_parameter_alone(name):
    """No parameter changes, even with one problem and its own class weights per class."""
    given = CLASSIFIER[name]
    if isinstance(given.get("class_weight"), dict):
        given = given | {"class_weight": {0: 3.0, 1: 0.5, 2: 2.0}}
    model = SGDClassifier(**given)
    with Unchanged(model):
        model.fit(X, THREE)


@EVERY
def test_partial_fit_leaves_every_parameter_alone(kind, given):
    """The first call, later ones, and calls that are refused."""
    model = kind(**given)
    classes = {"classes": [0, 1]} if kind is SGDClassifier else {}
    refused = (
        given.get("class_weight") == "balanced"
        or given.get("solver") == "sdca"
        or given.get("early_stopping", False)
    )
    with Unchanged(model):
        if refused:
            with pytest.raises(ValueError, match=r"partial_fit|all rows at once"):
                model.partial_fit(X, target_of(kind), **classes)
        else:
            model.partial_fit(X, target_of(kind), **classes)
            model.partial_fit(X, target_of(kind))


@EVERY
@pytest.mark.parametrize("what", ["rows", "targets", "weights", "validation"])
def test_a_fit_that_fails_leaves_every_parameter_alone(kind, given, what):
    """This holds whether bad data are found at the start or later."""
    y = target_of(kind)
    bad = {
        "rows": {"X": np.where(X > 2.0, np.nan, X)},
        "targets": {"y": y[1:]},
        "weights": {"sample_weight": np.zeros(60)},
        "validation": {"X_val": X[:, :2], "y_val": y},
    }[what]
    model = kind(**given)
    with Unchanged(model), pytest.raises(ValueError, match=r"\w"):
        model.fit(**({"X": X, "y": y} | bad))


@EVERY
def test_a_fit_that_diverges_leaves_every_parameter_alone(kind, given):
    """An error in the middle of training, of a model that was fitted before."""
    model = kind(**given).fit(X, target_of(kind))
    coef = model.coef_
    with Unchanged(model), pytest.raises(ValueError, match=r"overflow|too large"):
        model.fit(1e300 * X, target_of(kind))
    assert model.coef_ is coef


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize("order", ["auto", "balanced", Shuffle(), Uniform()], ids=repr)
def test_a_table_for_fit_is_not_written_into_the_order(kind, order):
    """fit(table=) fills the order of this fit only."""
    model = kind(order=order, **FEW)
    with Unchanged(model):
        model.fit(X, target_of(kind), table=TABLE)
    assert model.plan_.order.pairs == Pairs(TABLE)
    assert model.fit(X, target_of(kind)).plan_.order.pairs is None


def test_strata_for_fit_are_not_written_into_the_order():
    """fit(strata=) fills the order of this fit only."""
    order = Stratified()
    model = SGDClassifier(order=order, batch_size=8, **FEW)
    with Unchanged(model):
        model.fit(X, TWO, strata=THREE)
    assert model.plan_.order == Stratified(THREE)
    assert model.order is order
    assert order.strata is None


def test_settings_that_contradict_each_other_stay_as_they_are():
    """A refusal before the first step leaves them for the user to change."""
    model = SGDClassifier(order=Balanced(), solver="saga", average=True)
    with Unchanged(model), pytest.raises(ValueError, match='order="balanced"'):
        model.fit(X, TWO)


def test_every_public_order_is_tried():
    """The cases above have each kind of order."""
    tried = {type(given.get("order")).__name__ for given in SHARED.values()}
    assert set(orders.__all__) - {"Order", "Pairs"} <= tried
