"""The two estimators: scikit-learn's where that is asked for, and what they promise beyond it.

Data forms: test_sgd_estimators_data.py.
"""

from __future__ import annotations

import copy
import inspect
import signal
import sys
import threading
import time

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state

import antithetic
from antithetic import DivergenceError, SGDClassifier, SGDRegressor, minimize
from antithetic.orders import Balanced, Shuffle, Uniform
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant
from antithetic.problem.losses import LOSSES
from antithetic.steps import Auto, Constant, InverseTime, InvScaling
from antithetic.stochastic import sgd

# Few rows and a weak penalty: that a fit says so is tested in test_units.py.
pytestmark = pytest.mark.filterwarnings("ignore:tol=")

NUMERIC = [name for name, loss in LOSSES.items() if not loss.classification]
BOTH = pytest.mark.parametrize(
    "kind", [SGDClassifier, SGDRegressor], ids=["classifier", "regressor"]
)
# One row per step in the given order, as in scikit-learn.
PLAIN = {"order": "shuffle", "batch_size": 1, "shuffle": False}
FEW = {"learning_rate": "constant", "eta0": 0.01, "max_iter": 5, "tol": None}


def make_data(n=60, d=4, seed=0):
    """Rows, two classes that overlap, three classes, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    two = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0.2).astype(int)
    three = np.argmax(X[:, :3] + 0.3 * rng.normal(size=(n, 3)), axis=1)
    return X, two, three, X @ np.linspace(-1.0, 2.0, d) + 1.0 + 0.1 * rng.normal(size=n)


X, TWO, THREE, NUMBERS = make_data()
WEIGHTS = np.random.default_rng(5).uniform(0.5, 2.0, size=60)


def target_of(kind):
    return TWO if kind is SGDClassifier else NUMBERS


def objective(model, X, y, sample_weight=None):
    """Mean loss + penalty at the model's weights, and at zero: by the one formula, Problem's."""
    y = np.where(y == model.classes_[1], 1.0, -1.0) if hasattr(model, "classes_") else y
    l2 = 0.0 if model.penalty is None else model.alpha
    problem = Problem.build(
        X,
        y,
        loss=LOSSES[model.loss],
        l2=l2,
        sample_weight=sample_weight,
        fit_intercept=model.fit_intercept,
    )
    return problem.objective(np.ravel(model.coef_), float(model.intercept_[0])), problem.objective(
        np.zeros(X.shape[1])
    )


def state_of(model):
    return copy.deepcopy(vars(model))


# ---- scikit-learn's class


@BOTH
def test_every_parameter_of_scikit_learn_is_there(kind):
    """Parameters have scikit-learn's defaults, except learning_rate and average.

    Beyond them, there are only these six.
    """
    own, other = (
        inspect.signature(each.__init__).parameters
        for each in (kind, getattr(theirs, kind.__name__))
    )
    assert {name: own[name].default for name in other} == {
        name: other[name].default for name in other
    } | {
        "self": inspect.Parameter.empty,
        "learning_rate": "auto",
        "average": "auto",
    }
    extra = ["order", "solver", "batch_size", "decay", "stopping", "trace"]
    assert [name for name in own if name not in other] == extra
    for method in ("fit", "partial_fit"):
        own, other = (
            inspect.signature(getattr(each, method)).parameters
            for each in (kind, getattr(theirs, kind.__name__))
        )
        assert list(own)[: len(other)] == list(other)


@BOTH
def test_every_public_attribute_of_scikit_learn_is_there(kind):
    """After fit, all attributes and methods of scikit-learn's class exist, and the new ones."""
    own, other = (
        kind(loss="huber").fit(X, target_of(kind)),
        getattr(theirs, kind.__name__)(loss="huber", tol=1e-2).fit(X, target_of(kind)),
    )
    assert {name for name in dir(other) if name[0] != "_"} <= set(dir(own))
    assert {"history_", "plan_", "eta0_", "decay_"} <= set(vars(own))
    for name in ("coef_", "intercept_"):
        assert getattr(own, name).shape == getattr(other, name).shape
        assert getattr(own, name).dtype == getattr(other, name).dtype


def assert_equals_scikit_learn(kind, X, y, sample_weight=None, samples=None, **given):
    """``samples`` is what t_ should count where scikit-learn's does not."""
    own = kind(**(PLAIN | given)).fit(X, y, sample_weight=sample_weight)
    other = getattr(theirs, kind.__name__)(shuffle=False, **given).fit(
        X, y, sample_weight=sample_weight
    )
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(own.intercept_, other.intercept_, rtol=1e-10, atol=1e-10)
    assert own.n_iter_ == other.n_iter_
    assert own.t_ == (other.t_ if samples is None else 1 + samples * own.n_iter_)


@pytest.mark.parametrize("rate", ["constant", "optimal", "invscaling", "adaptive"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_plain_classifier_is_scikit_learns(loss, rate):
    """A plain classifier equals scikit-learn's to 1e-10, for all losses and schedules.

    Penalised or not, averaged or not, weighted or not, with two classes and three.
    """
    # "optimal" begins with steps that a square loss answers with huge weights, where rounding
    # grows: small rows and a large alpha do not
    given = {"loss": loss, "learning_rate": rate, "alpha": 1.0, "max_iter": 4, "tol": None}
    for y, penalty, average, sample_weight in (
        (TWO, "l2", False, None),
        (TWO, None, True, WEIGHTS),
        (THREE, "l2", 37, WEIGHTS),
        (THREE, None, False, None),
    ):
        assert_equals_scikit_learn(
            SGDClassifier, 0.3 * X, y, sample_weight, penalty=penalty, average=average, **given
        )


@pytest.mark.parametrize("rate", ["constant", "optimal", "invscaling", "adaptive"])
@pytest.mark.parametrize("loss", NUMERIC)
def test_a_plain_regressor_is_scikit_learns(loss, rate):
    """A plain regressor equals scikit-learn's."""
    given = {"loss": loss, "learning_rate": rate, "alpha": 0.1, "max_iter": 4, "tol": None}
    for fit_intercept, average, sample_weight in (
        (True, False, None),
        (False, True, WEIGHTS),
        (True, 37, WEIGHTS),
    ):
        assert_equals_scikit_learn(
            SGDRegressor,
            0.3 * X,
            NUMBERS,
            sample_weight,
            fit_intercept=fit_intercept,
            average=average,
            **given,
        )


@pytest.mark.parametrize("rate", ["pa1", "pa2"])
def test_passive_aggressive_steps_are_scikit_learns(rate):
    """Both kinds take scikit-learn's steps, with weights, with and without a penalty."""
    given = {"learning_rate": rate, "eta0": 0.5, "max_iter": 4, "tol": None}
    for penalty in ("l2", None):
        assert_equals_scikit_learn(SGDClassifier, X, THREE, WEIGHTS, penalty=penalty, **given)
        assert_equals_scikit_learn(
            SGDRegressor, X, NUMBERS, None, loss="epsilon_insensitive", penalty=penalty, **given
        )


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 2.0, 2: 0.7}])
def test_class_weights_are_scikit_learns(class_weight):
    """Class weights multiply the sample weights, as in scikit-learn."""
    for y in (TWO, THREE):
        weight = (
            {k: v for k, v in class_weight.items() if k in y}
            if isinstance(class_weight, dict)
            else class_weight
        )
        assert_equals_scikit_learn(
            SGDClassifier, X, y, WEIGHTS, loss="log_loss", class_weight=weight, **FEW
        )


@pytest.mark.parametrize("rate", ["constant", "adaptive", "invscaling"])
def test_tol_ends_a_run_where_scikit_learn_does(rate):
    """tol ends a run where scikit-learn does, by the loss met on the way."""
    given = {"penalty": None, "learning_rate": rate, "tol": 1e-2, "n_iter_no_change": 3}
    assert_equals_scikit_learn(SGDClassifier, X, TWO, loss="log_loss", **given)
    assert_equals_scikit_learn(SGDRegressor, X, NUMBERS, **given)


def test_early_stopping_holds_back_and_stops_as_scikit_learn_does():
    """Rows held back, scores and the end of the fit are those of scikit-learn.

    ``t_`` counts the rows that were used, whereas scikit-learn's counts all.
    """
    given = {
        "early_stopping": True,
        "random_state": 3,
        "learning_rate": "constant",
        "validation_fraction": 0.2,
    }
    for y in (TWO, THREE):
        # scikit-learn's "log_loss" score takes the label 0 for -1.
        assert_equals_scikit_learn(SGDClassifier, X, y, WEIGHTS, samples=48, **given)
    assert_equals_scikit_learn(SGDRegressor, X, NUMBERS, WEIGHTS, samples=48, **given)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_l1_penalties_come_near_scikit_learn(penalty):
    """A proximal step instead of a cumulative one: near, and with exact zeros."""
    rows = np.column_stack([X, np.random.default_rng(1).normal(size=(60, 3))])
    given = {
        "loss": "log_loss",
        "penalty": penalty,
        "alpha": 0.1,
        "l1_ratio": 0.9,
        "learning_rate": "constant",
        "max_iter": 200,
    }
    own, other = (
        SGDClassifier(tol=None, **PLAIN, **given).fit(rows, TWO),
        theirs.SGDClassifier(shuffle=False, tol=None, **given).fit(rows, TWO),
    )
    np.testing.assert_allclose(own.coef_, other.coef_, atol=0.02)
    assert (own.coef_ == 0.0).any()


@pytest.mark.parametrize("rate", ["invscaling", "adaptive"])
def test_partial_fit_is_scikit_learns(rate):
    """Chunks in a row, averaged and not: weights, t_ and n_iter_."""
    for average in (False, True, 37):  # scikit-learn forgets the intercept that is not averaged
        given = {
            "loss": "log_loss",
            "learning_rate": rate,
            "average": average,
            "fit_intercept": not average,
        }
        own, other = SGDClassifier(**PLAIN, **given), theirs.SGDClassifier(shuffle=False, **given)
        for start in (0, 20, 40):
            for model in (own, other):
                model.partial_fit(
                    X[start : start + 20], THREE[start : start + 20], classes=[0, 1, 2]
                )
        np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-10)
        np.testing.assert_allclose(own.intercept_, other.intercept_, rtol=1e-10)
        assert (own.t_, own.n_iter_) == (other.t_, other.n_iter_) == (61, 1)


# ---- batches and seeds


LOG_ODDS = best_constant(LOSSES["log_loss"], 2.0 * TWO - 1.0, None)[0]  # where a fit begins
AS_MINIMIZE = [  # of the estimator, and of minimize
    ({"batch_size": 1}, {}),
    ({"batch_size": 7, "learning_rate": "invscaling"}, {"steps": InvScaling(0.05)}),
    ({"batch_size": 1000}, {}),
    ({"order": "uniform", "batch_size": 4}, {}),
    ({"order": Shuffle(pairs="greedy"), "average": "linear"}, {}),
    ({"order": Uniform(pairs="tree")}, {}),
    ({"order": Balanced(pairs="greedy"), "batch_size": 4}, {}),
    (
        {"learning_rate": "auto", "average": "epoch"},
        {"steps": Auto(precondition=True), "init": (np.zeros(4), LOG_ODDS)},
    ),
    ({"learning_rate": "inverse_time", "decay": 0.3}, {"steps": InverseTime(0.05, 0.3)}),
]


@pytest.mark.parametrize(("given", "steps"), AS_MINIMIZE, ids=str)
def test_a_fit_is_a_run_of_minimize(given, steps):
    """The same bits, from the seed that random_state draws."""
    rate = {"learning_rate": "constant", "eta0": 0.05}
    shared = {"order": "shuffle", "average": False} | given
    model = SGDClassifier(
        "log_loss",
        alpha=0.01,
        max_iter=3,
        tol=None,
        random_state=3,
        trace="objective",
        **(rate | shared),
    ).fit(X, TWO)
    seed = int(check_random_state(3).randint(2**31 - 1, size=1)[0])
    shared = {name: shared[name] for name in ("order", "average", "batch_size") if name in shared}
    run = minimize(
        X,
        TWO,
        l2=0.01,
        epochs=3,
        seed=seed,
        fit_intercept=True,
        trace="objective",
        **({"steps": Constant(0.05)} | shared | steps),
    )
    np.testing.assert_array_equal(model.coef_[0], run.coef)
    assert model.intercept_[0] == run.intercept
    np.testing.assert_array_equal(model.history_["objective"], run.trace["objective"][1:])


def test_batches_without_shuffling_take_the_rows_in_order():
    """Batches of 7, the last one of 4 with a shorter step: the algorithm written out."""
    model = SGDRegressor(shuffle=False, batch_size=7, penalty=None, **(FEW | {"max_iter": 1})).fit(
        X, NUMBERS
    )
    w, b = np.zeros(4), 0.0
    for start in range(0, 60, 7):
        rows = slice(start, start + 7)
        slope = X[rows] @ w + b - NUMBERS[rows]
        w, b = w - 0.01 * slope @ X[rows] / 7, b - 0.01 * slope.sum() / 7
    np.testing.assert_allclose(model.coef_, w, rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, b, rtol=1e-10)


@BOTH
@pytest.mark.parametrize(
    "order",
    [
        "uniform",
        "balanced",
        Shuffle(pairs="greedy"),
        Shuffle(pairs=antithetic.AntitheticTable(np.arange(60))),
    ],
    ids=str,
)
def test_rows_in_the_order_given_have_neither_draws_nor_pairs(kind, order):
    """shuffle=False with draws or pairs is refused, and so are tables and strata for fit."""
    message = "shuffle=False uses the rows in the given order"
    with pytest.raises(ValueError, match=message):
        kind(shuffle=False, order=order).fit(X, target_of(kind))
    table = antithetic.AntitheticTable(np.arange(60))
    for given in ({"table": table}, {"strata": THREE}):
        with pytest.raises(ValueError, match=message):
            kind(shuffle=False).fit(X, target_of(kind), **given)


def test_a_seed_gives_the_same_bits():
    """A seed gives the same bits in two fits, with one thread and two; another seed differs."""
    given = {"loss": "log_loss", "order": Balanced(pairs="greedy")}
    models = [
        SGDClassifier(random_state=seed, n_jobs=jobs, **given).fit(X, THREE)
        for seed, jobs in ((1, 1), (1, None), (1, 2), (2, 1))
    ]
    for other in models[1:3]:
        np.testing.assert_array_equal(models[0].coef_, other.coef_)
        np.testing.assert_array_equal(models[0].intercept_, other.intercept_)
        np.testing.assert_array_equal(models[0].eta0_, other.eta0_)
    assert not np.array_equal(models[0].coef_, models[3].coef_)


# ---- learning_rate="auto"


def automatic_data():
    """Raw features, rescaled features, and four rows 1000 times larger than the other 11996.

    The steps are found on 1000 rows; a random such sample holds none of the four large ones with
    probability 0.7.
    """
    for name in ("breast-cancer", "diabetes", "splice"):
        rows, y = antithetic.datasets.load(name, return_X_y=True)
        yield name, rows, y, np.asarray(y, dtype=float)
    yield "large features", 1e6 * X, TWO, NUMBERS
    yield "small features", 1e-6 * X, TWO, NUMBERS
    rows, two, _, numbers = make_data(12000)
    rows[[7, 4001, 8002, 11990]] *= 1000.0
    yield "large rows", rows, two, numbers


AUTOMATIC = {name: data for name, *data in automatic_data()}


@pytest.mark.parametrize("name", AUTOMATIC)
@pytest.mark.parametrize(
    ("kind", "loss"),
    [(SGDClassifier, loss) for loss in LOSSES] + [(SGDRegressor, loss) for loss in NUMERIC],
)
def test_automatic_steps_never_diverge(name, kind, loss):
    """On features of any scale, all losses and seeds end finite and below their start."""
    rows, y, numbers = AUTOMATIC[name]
    y = y if kind is SGDClassifier else numbers
    for seed in range(3):
        model = kind(loss, max_iter=20, tol=None, random_state=seed).fit(rows, y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
        assert model.eta0_ > 0.0
        assert model.decay_ > 0.0
        reached, at_zero = objective(model, rows, y)
        if loss == "perceptron":  # which loses nothing at zero: the weights must not shrink to it
            assert model.coef_.any()
        elif name == "small features":
            # With an intercept and this alpha nothing can be learnt, but nothing may get worse.
            assert reached < at_zero * (1.0 + 1e-14)
        else:
            assert reached < at_zero


def test_automatic_steps_learn_without_tuning():
    """All losses of classification, the perceptron's among them."""
    rows, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    for loss in sorted(set(LOSSES) - set(NUMERIC)):
        assert SGDClassifier(loss, random_state=0).fit(rows, y).score(rows, y) > 0.95


@BOTH
def test_steps_are_kept_by_partial_fit_and_warm_start_and_found_again_by_fit(kind):
    """partial_fit and warm starts keep the steps on rows of another scale; fit finds new ones.

    With an intercept, the first step would follow the moments of the columns.
    """
    given = {"fit_intercept": False, "random_state": 0}
    model = kind(warm_start=True, **given).fit(X, target_of(kind))
    found = (model.eta0_, model.decay_)
    assert kind(**given).fit(X, target_of(kind)).eta0_ == found[0]
    model.partial_fit(0.1 * X, target_of(kind))
    assert model.eta0_ == found[0]
    # Rows are reshuffled here, but balanced in fit.
    assert model.decay_ == pytest.approx(found[1] * np.sqrt(60 / 4))
    once = model.decay_
    assert (model.partial_fit(0.1 * X, target_of(kind)).eta0_, model.decay_) == (found[0], once)
    model.fit(0.1 * X, target_of(kind))
    assert model.eta0_ == found[0]
    model.set_params(warm_start=False).fit(0.1 * X, target_of(kind))
    assert model.eta0_ != found[0]
    model.set_params(learning_rate="constant").fit(X, target_of(kind))
    assert not hasattr(model, "eta0_")


def test_each_class_has_steps_of_its_own():
    """eta0_ and decay_ are arrays, and partial_fit keeps the decay."""
    model = SGDClassifier(random_state=0).fit(X, THREE)
    assert model.eta0_.shape == model.decay_.shape == (3,)
    found = model.decay_
    np.testing.assert_array_equal(model.partial_fit(10.0 * X, THREE).decay_, found)


# ---- history and validation


@BOTH
@pytest.mark.parametrize("average", [False, True])
def test_the_history_records_what_it_says(kind, average):
    """One entry per epoch; the last objective and variance are those at the model's weights."""
    y = target_of(kind)
    given = {
        "trace": ["objective", "variance", "variance_ratio"],
        "order": Uniform(pairs="greedy"),
        "random_state": 0,
    }
    model = kind("huber", alpha=0.01, average=average, **given).fit(X, y, sample_weight=WEIGHTS)
    assert set(model.history_) == {"epoch", "seconds", "objective", "variance", "variance_ratio"}
    assert {column.shape for column in model.history_.values()} == {(model.n_iter_,)}
    np.testing.assert_array_equal(model.history_["epoch"], np.arange(1, model.n_iter_ + 1))
    assert (np.diff(model.history_["seconds"]) >= 0.0).all()
    assert model.history_["objective"][-1] == pytest.approx(
        objective(model, X, y, WEIGHTS)[0], rel=1e-12
    )
    assert (model.history_["variance_ratio"] > 0.0).all()
    if not average:
        signs = 2.0 * y - 1.0 if kind is SGDClassifier else y
        at = {
            "loss": "huber",
            "fit_intercept": True,
            "sample_weight": WEIGHTS,
            "intercept": float(model.intercept_[0]),
        }
        table = antithetic.pair(
            X, signs, "greedy", loss="huber", fit_intercept=True, sample_weight=WEIGHTS
        )
        expected = table.variance_ratio(X, signs, coef=np.ravel(model.coef_), **at)
        assert model.history_["variance_ratio"][-1] == pytest.approx(expected, rel=1e-9)


def test_each_class_has_a_history_of_its_own():
    """A list of dicts, the longest as long as n_iter_."""
    model = SGDClassifier(random_state=0).fit(X, THREE)
    assert [set(history) for history in model.history_] == [{"epoch", "objective", "seconds"}] * 3
    assert max(len(history["epoch"]) for history in model.history_) == model.n_iter_


@BOTH
def test_a_validation_set_is_scored_after_each_epoch(kind):
    """Without early_stopping the validation set is only recorded; the last entry is score().

    The weights are those of a fit without it.
    """
    y = target_of(kind)
    plain, watched = (
        kind(random_state=0, **FEW).fit(X[:40], y[:40], **given)
        for given in ({}, {"X_val": X[40:], "y_val": y[40:]})
    )
    np.testing.assert_array_equal(plain.coef_, watched.coef_)
    assert "validation_score" not in plain.history_
    assert len(watched.history_["validation_score"]) == 5
    assert watched.history_["validation_score"][-1] == pytest.approx(
        watched.score(X[40:], y[40:]), rel=1e-12
    )


@BOTH
def test_early_stopping_looks_at_the_given_validation_set(kind):
    """It trains on all rows and stops after n_iter_no_change epochs without a gain of tol."""
    y, tol, patience = target_of(kind), 0.01, 3
    model = kind(
        early_stopping=True,
        random_state=0,
        learning_rate="constant",
        tol=tol,
        n_iter_no_change=patience,
    )
    model.fit(X[:40], y[:40], X_val=X[40:], y_val=y[40:])
    scores = model.history_["validation_score"]
    assert model.t_ == 1 + 40 * model.n_iter_
    best = np.maximum.accumulate(scores)
    improved = np.append(True, scores[1:] >= best[:-1] + tol)
    waits = [int(np.argmax(improved[: k + 1][::-1])) for k in range(len(scores))]
    assert waits.index(patience) == len(scores) - 1


@BOTH
def test_rows_held_back_are_scored_with_their_weights(kind):
    """The last score is score() on the rows that scikit-learn's splitters hold back.

    The weights of the rows are very unequal.
    """
    y, weight = target_of(kind), np.where(np.arange(60) % 3, 1.0, 50.0)
    model = kind(early_stopping=True, random_state=3, validation_fraction=0.2, **FEW).fit(
        X, y, sample_weight=weight
    )
    splitter = (StratifiedShuffleSplit if kind is SGDClassifier else ShuffleSplit)(
        test_size=0.2, random_state=3
    )
    held = next(splitter.split(X, y))[1]
    assert model.history_["validation_score"][-1] == pytest.approx(
        model.score(X[held], y[held], weight[held]), rel=1e-12
    )
    assert model.score(X[held], y[held], weight[held]) != pytest.approx(
        model.score(X[held], y[held]), rel=1e-4
    )


@BOTH
def test_a_validation_set_is_checked(kind):
    """It needs both halves and the same features, and of a classifier known labels."""
    y = target_of(kind)
    for given in ({"X_val": X}, {"y_val": y}):
        with pytest.raises(ValueError, match="X_val and y_val belong together"):
            kind().fit(X, y, **given)
    with pytest.raises(ValueError, match="3 features"):
        kind().fit(X, y, X_val=X[:, :3], y_val=y)
    with pytest.raises(ValueError, match="not among the classes"):
        SGDClassifier().fit(X, TWO, X_val=X, y_val=THREE)


# ---- partial_fit, warm starts


@BOTH
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"batch_size": 7},
        {"average": True},
        {"penalty": "l1", "alpha": 0.01},
        {"learning_rate": "invscaling"},
    ],
)
def test_two_partial_fits_are_two_epochs(kind, given):
    """Two calls of partial_fit equal two epochs, bit for bit, where the order is given."""
    y, given = target_of(kind), FEW | {"shuffle": False} | given
    classes = {"classes": [0, 1]} if kind is SGDClassifier else {}
    whole, parts = (
        kind(**(given | {"max_iter": 2})).fit(X, y),
        kind(**given).partial_fit(X, y, **classes).partial_fit(X, y),
    )
    np.testing.assert_array_equal(whole.coef_, parts.coef_)
    np.testing.assert_array_equal(whole.intercept_, parts.intercept_)
    assert (whole.t_, parts.t_, parts.n_iter_) == (121, 121, 1)


@BOTH
@pytest.mark.parametrize("given", [{}, {"average": True}, FEW])
def test_rows_of_weight_zero_change_nothing(kind, given):
    """partial_fit with weights of zero changes nothing.

    As the first call, it leaves no trace in the second.
    """
    y, none = target_of(kind), np.zeros(60)
    classes = {"classes": [0, 1]} if kind is SGDClassifier else {}
    model = kind(random_state=0, **given).fit(X, y)
    before = state_of(model)
    np.testing.assert_equal(vars(model.partial_fit(X, y, sample_weight=none)), before)
    fresh, later = (
        kind(random_state=0, **given),
        kind(random_state=0, **given).partial_fit(X, y, sample_weight=none, **classes),
    )
    assert not later.predict(X).any()
    np.testing.assert_equal(vars(later.partial_fit(X, y)), vars(fresh.partial_fit(X, y, **classes)))


@BOTH
def test_partial_fit_continues_from_weights_changed_by_hand(kind):
    """partial_fit continues from weights that were replaced, changed in place or made sparse."""
    y, given = target_of(kind), FEW | {"shuffle": False}
    model = kind(**given).fit(X, y)
    dense, halved = copy.deepcopy(model), copy.deepcopy(model)
    np.testing.assert_array_equal(
        model.sparsify().partial_fit(X, y).coef_, dense.partial_fit(X, y).coef_
    )
    halved.coef_ /= 2.0
    halved.intercept_ = np.array([7.0])
    start = {"coef_init": halved.coef_.copy(), "intercept_init": [7.0]}
    halved.partial_fit(X, y)
    expected = kind(**(given | {"max_iter": 1})).fit(X, y, **start)
    np.testing.assert_array_equal(halved.coef_, expected.coef_)
    np.testing.assert_array_equal(halved.intercept_, expected.intercept_)


@BOTH
@pytest.mark.parametrize("rate", ["auto", "adaptive", "constant"])
def test_partial_fit_continues_after_a_fit_that_had_stopped(kind, rate):
    """The rule that ended the fit does not end the next call."""
    model = kind(learning_rate=rate, random_state=0).fit(X, target_of(kind))
    before, t = model.coef_.copy(), model.t_
    model.partial_fit(X, target_of(kind))
    assert not np.array_equal(model.coef_, before)
    assert model.t_ == t + 60


@BOTH
@pytest.mark.parametrize("average", [False, True])
def test_chunks_may_be_of_another_float_type(kind, average):
    """The weights then are of the type of the last chunk, near those of float64 throughout."""
    y, given = target_of(kind), FEW | {"shuffle": False, "average": average}
    double, mixed = (
        kind(**given).fit(X, y).partial_fit(X.astype(dtype), y)
        for dtype in (np.float64, np.float32)
    )
    assert (double.coef_.dtype, mixed.coef_.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(mixed.coef_, double.coef_, rtol=1e-4)
    assert mixed.partial_fit(X, y).coef_.dtype == np.float64


def test_partial_fit_needs_to_know_the_classes():
    """The first call needs all classes; later calls must have the same ones."""
    model = SGDClassifier(**FEW)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, TWO)
    model.partial_fit(X, TWO, classes=[2, 0, 1]).partial_fit(X, THREE, classes=[0, 1, 2])
    assert model.coef_.shape == (3, 4)
    with pytest.raises(ValueError, match="is not the same as on last call to partial_fit"):
        model.partial_fit(X, TWO, classes=[0, 1])
    with pytest.raises(
        ValueError, match=r"classes should include all valid labels|not among the classes"
    ):
        model.partial_fit(X, TWO + 2)
    with pytest.raises(ValueError, match="4 features"):
        model.partial_fit(X[:, :3], TWO)


@BOTH
def test_a_warm_start_begins_where_the_last_fit_ended(kind):
    """A warm start and coef_init set the start (coef_init wins); a cold start begins at zero."""
    y, given = target_of(kind), FEW | {"shuffle": False}
    cold, warm = kind(**given).fit(X, y), kind(warm_start=True, **given).fit(X, y)
    initial = kind(**given).fit(X, y, coef_init=cold.coef_, intercept_init=cold.intercept_)
    np.testing.assert_array_equal(warm.fit(X, y).coef_, initial.coef_)
    np.testing.assert_array_equal(cold.fit(X, y).coef_, kind(**given).fit(X, y).coef_)
    at_zero = {"coef_init": np.zeros(4), "intercept_init": 0.0}
    np.testing.assert_array_equal(warm.fit(X, y, **at_zero).coef_, cold.coef_)


def test_first_weights_must_have_the_shape_of_the_last():
    """(k, d) and (k,), and for one problem also (d,) and ()."""
    for kind, y in ((SGDClassifier, TWO), (SGDRegressor, NUMBERS)):
        for coef, intercept in ((np.ones(4), 1.0), (np.ones((1, 4)), [1.0])):
            assert kind(**FEW).fit(X, y, coef, intercept).n_iter_ == 5
    SGDClassifier(**FEW).fit(X, THREE, np.ones((3, 4)), np.ones(3))
    for bad in (
        {"coef_init": np.ones((1, 4))},
        {"coef_init": np.ones(5)},
        {"intercept_init": 1.0},
        {"intercept_init": np.ones(2)},
    ):
        with pytest.raises(ValueError, match="does not match dataset"):
            SGDClassifier().fit(X, THREE, **bad)


# ---- what goes wrong


@BOTH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "logistic"}, "'squared_error'"),
        ({"penalty": "l3"}, "'elasticnet'"),
        ({"learning_rate": "fast"}, "'inverse_time'"),
        ({"order": "sorted"}, "'balanced'"),
        ({"order": 3}, "'order' parameter"),
        ({"order": Shuffle}, "'order' parameter"),
        ({"solver": "adam"}, "'sgd'"),
        ({"average": "sometimes"}, "'linear'"),
        ({"stopping": "loss"}, "'objective'"),
        ({"trace": "loss"}, "'loss' is not known; use some of objective, gradient, gap"),
        ({"trace": ["loss"]}, "variance, variance_ratio, partial_sum"),
        ({"trace": ["objective", "distance"]}, r"use trace=\[Distance\(w_star\)\]"),
        ({"penalty": "group_lasso"}, "'penalty' parameter"),
        ({"batch_size": 0}, "batch_size"),
        ({"alpha": -1.0}, "alpha"),
        ({"decay": -1.0}, "decay"),
        ({"learning_rate": "optimal", "alpha": 0.0}, "alpha must be > 0"),
        ({"learning_rate": "pa1", "loss": "squared_error"}, "only works with loss 'hinge'"),
        ({"penalty": "elasticnet", "l1_ratio": None}, "l1_ratio must be set"),
    ],
)
def test_bad_parameters_are_refused_by_name(kind, given, message):
    """The message lists what is known, or names the parameter."""
    with pytest.raises(ValueError, match=message):
        kind(**given).fit(X, target_of(kind))


@BOTH
def test_bad_data_are_refused(kind):
    """NaN, infinity, nothing, unequal lengths, weights of no use."""
    y = target_of(kind)
    for value, message in ((np.nan, "NaN"), (np.inf, "infinity")):
        broken = X.copy()
        broken[3, 2] = value
        with pytest.raises(ValueError, match=message):
            kind().fit(broken, y)
        with pytest.raises(ValueError, match=message):
            kind().fit(X, np.where(np.arange(60) == 5, value, y))
        with pytest.raises(ValueError, match="sample_weight has NaN or infinity"):
            kind().fit(X, y, sample_weight=broken[:, 2])
    with pytest.raises(ValueError, match="0 sample"):
        kind().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        kind().fit(X, y[1:])
    with pytest.raises(ValueError, match="zero for every row"):
        kind().fit(X, y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="row 7 has -1"):
        kind().fit(X, y, sample_weight=np.where(np.arange(60) == 7, -1.0, 1.0))
    with pytest.raises(ValueError, match="strata"):
        kind().fit(X, y, strata=y)
    with pytest.raises(ValueError, match="early_stopping should be False with partial_fit"):
        kind(early_stopping=True).partial_fit(X, y)


def test_labels_must_be_two_classes_or_more():
    """One class, numbers, and balanced weights of labels that are still to come."""
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        SGDClassifier().fit(X, np.ones(60))
    with pytest.raises(ValueError, match="continuous"):
        SGDClassifier().fit(X, NUMBERS)
    with pytest.raises(ValueError, match="'balanced' is not supported for partial_fit"):
        SGDClassifier(class_weight="balanced").partial_fit(X, TWO, classes=[0, 1])


OVERFLOW = (
    r"Floating-point under-/overflow occurred at epoch #.* Scaling input data with StandardScaler"
    r" or MinMaxScaler might help"
)


@BOTH
@pytest.mark.parametrize("rate", ["auto", "constant", "invscaling"])
@pytest.mark.parametrize("loss", ["squared_error", "huber"])
def test_features_beyond_any_step_say_so_in_scikit_learns_words(kind, rate, loss):
    """The error is scikit-learn's, and leaves the estimator unchanged, for any classes."""
    y = target_of(kind)
    model = kind(loss, random_state=0).fit(X, y)
    before = state_of(model)
    model.learning_rate = before["learning_rate"] = rate
    with pytest.raises(ValueError, match=OVERFLOW):
        model.fit(1e300 * X, y)
    np.testing.assert_equal(vars(model), before)


@pytest.mark.parametrize(
    "given",
    [{"y": 1e200 * NUMBERS}, {"y": NUMBERS, "coef_init": np.full(4, 1e200)}],
    ids=["targets", "weights"],
)
def test_numbers_whose_squares_overflow_say_so_too(given):
    """Overflowing targets and initial weights are reported too."""
    with pytest.raises(ValueError, match=OVERFLOW):
        SGDRegressor(random_state=0).fit(X, **given)


def test_a_failing_fit_on_other_classes_leaves_the_model_whole():
    """classes_ still belong to coef_, and predict works."""
    model = SGDClassifier("squared_error", random_state=0, **FEW).fit(X, TWO)
    before, predicted = state_of(model), model.predict(X)
    with pytest.raises(DivergenceError):
        model.fit(1e300 * X[:, :3], THREE)
    np.testing.assert_array_equal(model.predict(X), predicted)
    np.testing.assert_equal(vars(model), before)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_features_whose_squares_overflow_come_with_other_advice(as_rows):
    """No step is short enough for them, so none is advised."""
    with pytest.raises(
        DivergenceError, match=r"squares of the features overflow.*near 1"
    ) as caught:
        SGDRegressor(**FEW).fit(as_rows(1e200 * X), NUMBERS)
    assert "or less" not in str(caught.value)


def test_shorter_steps_are_advised_than_those_that_were_too_long():
    """A step that is safe along a mean row is too long for one that is a thousand times as long."""
    rows, y = np.ones((2000, 1)), np.arange(2000.0)
    rows[7] = 1e3
    with pytest.raises(DivergenceError, match=r"try \S+ or less") as caught:
        minimize(rows, y, loss="squared_error", steps=Constant(1e-4), epochs=200)
    advised = float(str(caught.value).split("try ")[1].split()[0])
    assert advised < 1e-4


@BOTH
def test_steps_that_are_too_long_come_with_advice(kind):
    """A warning where the objective rose, an error where it overflowed.

    The step that is advised does well.
    """
    y, given = target_of(kind), FEW | {"loss": "squared_error", "random_state": 0}
    with pytest.raises(DivergenceError, match=r"The first step was 10; try \S+ or less"):
        kind(**(given | {"eta0": 10.0})).fit(1e150 * X, y)
    with pytest.warns(
        ConvergenceWarning, match=r"rose from .* The first step was 10; try \S+ or less"
    ) as caught:
        kind(**(given | {"eta0": 10.0})).fit(X, y)
    advised = float(str(caught[0].message).split("try ")[1].split()[0])
    model = kind(**(given | {"eta0": advised})).fit(X, y)
    assert np.less(*objective(model, X, y))


@BOTH
def test_running_out_of_epochs_is_a_warning(kind):
    """Running out of epochs with steps of one's own is a warning, as in scikit-learn."""
    with pytest.warns(
        ConvergenceWarning, match="Maximum number of iteration reached before convergence"
    ):
        kind(max_iter=2, tol=1e-9, learning_rate="constant").fit(X, target_of(kind))


@pytest.mark.parametrize("y", [TWO, NUMBERS, THREE], ids=["two", "numbers", "three"])
def test_ctrl_c_leaves_the_last_whole_epoch(y, monkeypatch):
    """An interruption in epoch 3 leaves the model of epoch 2, and goes on to the caller."""
    kind = SGDRegressor if y is NUMBERS else SGDClassifier
    given = FEW | {"random_state": 0}
    expected = kind(**(given | {"max_iter": 2})).fit(X, y)
    kernel, calls = sgd.Sgd.epoch, []

    def interrupted(*arguments):
        calls.append(1)
        order = kernel(*arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return order

    monkeypatch.setattr(sgd.Sgd, "epoch", interrupted)
    model = kind(**given)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    # Of three classes only the first had been trained.
    one = slice(0, 1) if y is THREE else slice(None)
    np.testing.assert_array_equal(model.coef_[one], expected.coef_[one])
    history = model.history_[0] if y is THREE else model.history_
    assert model.n_iter_ == len(history["objective"]) == 2
    assert model.predict(X).shape == y.shape
    model.partial_fit(X, y)


@pytest.mark.skipif(sys.platform == "win32", reason="there a signal cannot be sent to a thread")
@pytest.mark.parametrize("kind", [KeyboardInterrupt, FloatingPointError])
def test_no_thread_goes_on_after_an_interruption_or_an_error(kind, monkeypatch):
    """Problems of the other classes end at their next epoch, and are waited for."""
    kernel, threads, main = sgd.Sgd.epoch, [], threading.main_thread()

    def slowly(*arguments):
        threads.append(threading.current_thread())
        if len(threads) == 3 and kind is KeyboardInterrupt:
            signal.pthread_kill(main.ident, signal.SIGINT)
        elif len(threads) == 3:
            raise kind
        time.sleep(0.02)
        return kernel(*arguments)

    monkeypatch.setattr(sgd.Sgd, "epoch", slowly)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(kind):
            SGDClassifier(n_jobs=2, **(FEW | {"max_iter": 1000})).fit(X, THREE)
    finally:
        signal.signal(signal.SIGINT, before)
    epochs = len(threads)
    time.sleep(0.2)
    assert len(threads) == epochs < 50
    assert main not in threads


def test_verbose_shows_the_plan_and_a_bar(capsys):
    """The bar on the error stream; without verbose there is nothing."""
    SGDClassifier(**FEW).fit(X, TWO)
    assert capsys.readouterr() == ("", "")
    SGDClassifier(verbose=1, order=Balanced(pairs="greedy"), **FEW).fit(X, TWO)
    printed, bar = capsys.readouterr()
    assert "epochs" in bar
    for word in ("SGDClassifier", "Balanced", "greedy", "2 a batch"):
        assert word in printed
