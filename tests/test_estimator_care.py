"""Estimators in rare cases: rare classes, long runs, odd chunks, warm starts, interruptions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

from antithetic import SGDClassifier, SGDRegressor
from antithetic.orders import Balanced
from antithetic.problem import Problem
from antithetic.stochastic import step_search

# Few rows and a weak penalty: that a fit says so is tested in test_units.py.
pytestmark = [pytest.mark.lowest, pytest.mark.filterwarnings("ignore:tol=")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
NUMBERS = X @ [1.0, 2.0, 3.0, 4.0]
TWO = (NUMBERS > 0.0).astype(int)
FEW = {"max_iter": 5, "tol": None, "random_state": 0}


@pytest.mark.parametrize("rare", [10, 40])
def test_a_rare_class_is_learnt(rare):
    """Steps are found on rows of both classes, however few there are of one."""
    rows = np.random.default_rng(1).normal(size=(50_000, 5))
    y = np.zeros(50_000, int)
    y[:rare] = 1
    rows[:rare] += 4.0
    for seed in range(3):
        model = SGDClassifier(random_state=seed).fit(rows, y)
        assert model.predict(rows[:rare]).mean() > 0.9


def test_rows_without_weight_tell_nothing_about_steps():
    """A few rows count among many that do not: the steps are theirs."""
    rows = np.vstack([X, 1e3 * np.random.default_rng(2).normal(size=(40_000, 4))])
    y = np.append(TWO, np.arange(40_000) % 2)
    weight = np.append(np.ones(300), np.zeros(40_000))
    alone = SGDClassifier("log_loss", **FEW).fit(X, TWO)
    among = SGDClassifier("log_loss", **FEW).fit(rows, y, sample_weight=weight)
    assert 1e-3 < among.eta0_ * 300 / 40_300 / alone.eta0_ < 1e3
    assert among.score(X, TWO) > 0.9


def test_long_runs_do_not_overflow():
    """The decay is not halved below its smallest value."""
    model = SGDClassifier("log_loss", penalty=None, max_iter=4000, tol=None, random_state=0)
    model.fit([[1.0, 2.0], [-1.0, -2.0], [2.0, 1.0], [-2.0, -1.0]], [1, 0, 1, 0])
    assert model.n_iter_ == 4000


def test_one_bad_chunk_does_not_spoil_the_stream():
    """Its steps are shortened, those after it are not.

    And many small chunks do not change the decay.
    """
    model = SGDRegressor(random_state=0).partial_fit(X, NUMBERS)
    steps = model.eta0_, model.decay_
    model.partial_fit(1e6 * X[:1], [1.0])
    for row in range(100):
        model.partial_fit(X[row : row + 1], NUMBERS[row : row + 1])
    # first steps follow the moments of the columns
    assert (model.eta0_, model.decay_) == pytest.approx(steps, rel=0.2)
    for _ in range(20):
        model.partial_fit(X, NUMBERS)
    assert model.score(X, NUMBERS) > 0.99


def test_good_first_weights_do_not_make_the_steps_short():
    """At the optimum no step improves anything.

    They are found as if from zero, and fit to follow a change.
    """
    y = NUMBERS + 0.1 * np.random.default_rng(3).normal(size=300)
    best = LinearRegression().fit(X, y)
    cold = SGDRegressor(penalty=None, **FEW).fit(X, y)
    warm = SGDRegressor(penalty=None, **FEW).fit(
        X, y, coef_init=best.coef_, intercept_init=best.intercept_
    )
    assert warm.eta0_ > 0.1 * cold.eta0_
    np.testing.assert_allclose(warm.coef_, best.coef_, atol=0.05)
    for _ in range(20):
        warm.partial_fit(X, -y)
    assert warm.score(X, -y) > 0.9


@pytest.mark.parametrize("pairs", ["greedy", "tree"])
def test_a_chunk_of_one_class_needs_no_pairs(pairs):
    """A chunk of one class needs no pairs, with two or three classes, on any call."""
    three = np.digitize(NUMBERS, [-2.0, 2.0])
    for y in (TWO, three):
        one = np.flatnonzero(y == y[0])[:5]
        model = SGDClassifier(order=Balanced(pairs=pairs), random_state=0).partial_fit(
            X[one], y[one], classes=np.unique(y)
        )
        model.partial_fit(X, y).partial_fit(X[one], y[one])
        assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("factor", [1e16, 1e20, 1e100])
def test_targets_of_any_size_are_fitted(factor):
    """Slopes are not cut off where the steps are found from the data."""
    assert (
        SGDRegressor(**{**FEW, "max_iter": 50}).fit(X, factor * NUMBERS).score(X, factor * NUMBERS)
        > 0.99
    )


def test_features_too_large_for_float32_are_reported():
    """Features too large for float32 are reported instead of ending at zero weights."""
    with pytest.raises(ValueError, match="squares of the features are too large"):
        SGDClassifier("log_loss", **FEW).fit((1e18 * X).astype(np.float32) * np.float32(1e12), TWO)


@pytest.mark.parametrize("where", ["search", "after"])
def test_an_interruption_leaves_a_whole_model(monkeypatch, where):
    """An interrupted fit leaves the old model before the first epoch, and the new one after it.

    A warning that is an error comes after the fit as well.
    """
    model = SGDClassifier(random_state=0).fit(X, np.digitize(NUMBERS, [-2.0, 2.0]))
    if where == "search":

        def interrupted(*_arguments, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr(step_search, "_way_to_the_optimum", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :2], TWO)
        assert model.predict(X).shape == (300,)
    else:
        with pytest.raises(ConvergenceWarning):
            model.set_params(max_iter=1).fit(X[:, :2], TWO)
        assert model.predict(X[:, :2]).shape == (300,)


def test_warnings_point_at_the_line_that_called():
    """Frames of scikit-learn and of this package are skipped, so each place warns once."""
    for model in (
        SGDClassifier(max_iter=1),
        SGDRegressor(max_iter=3, tol=None, learning_rate="constant", eta0=0.9),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, TWO)
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize(
    "weights", [{0: np.nan, 1: 1.0}, {0: np.inf, 1: 1.0}, {0: 0.0, 1: 0.0}, {0: -1.0, 1: 1.0}]
)
def test_bad_class_weights_are_refused(weights):
    """They must be finite, at least 0, and not all of them 0."""
    with pytest.raises(ValueError, match="class_weight"):
        SGDClassifier(class_weight=weights).fit(X, TWO)


def test_a_score_of_nan_is_not_an_improvement():
    """R^2 of a single row: the run ends after its patience."""
    model = SGDRegressor(early_stopping=True, validation_fraction=0.1, max_iter=200, random_state=0)
    with pytest.warns(match="R\\^2"):
        model.fit(X[:8], NUMBERS[:8])
    assert model.n_iter_ < 20


def test_a_chunk_that_weighs_nothing_leaves_steps_and_weights_alone():
    """If class weights of zero leave nothing of a chunk, steps are found on a later one."""
    clean, mixed = (
        SGDClassifier("log_loss", class_weight={0: 0.5, 1: 1.0}, random_state=0) for _ in range(2)
    )
    mixed.set_params(class_weight={0: 0.0, 1: 1.0}).partial_fit(
        X[TWO == 0], TWO[TWO == 0], classes=[0, 1]
    )
    assert not mixed.coef_.any()
    assert not hasattr(mixed, "eta0_")
    mixed.set_params(class_weight={0: 0.5, 1: 1.0})
    for model in (clean, mixed):
        model.partial_fit(X, TWO, classes=[0, 1])
    assert mixed.eta0_ == clean.eta0_


def test_many_classes_cause_no_warning():
    """More than twenty classes with many rows each cause no warning."""
    rows = np.tile(X, (3, 1))
    for labels in (np.arange(900) % 26, (np.arange(900) % 26).astype(float)):
        assert SGDClassifier(**FEW).fit(rows, labels).coef_.shape == (26, 4)


@pytest.mark.parametrize("estimator", [SGDClassifier, SGDRegressor])
def test_defaults_are_not_checked_again_and_other_values_are(estimator):
    """Defaults are not checked again in each fit.

    Every other value is, also where it is set later.
    """
    model = estimator(**FEW).fit(X, TWO)
    for name, value in {
        "alpha": -1.0,
        "max_iter": 0,
        "order": "no such",
        "average": "no such",
        "trace": 3,
    }.items():
        allowed = getattr(model, name)
        with pytest.raises(
            ValueError, match=f"The '{name}' parameter of {estimator.__name__} must be"
        ):
            model.set_params(**{name: value}).fit(X, TWO)
        model.set_params(**{name: allowed})
    model.fit(X, TWO)


def test_a_default_that_is_not_allowed_is_refused_in_every_fit():
    """A subclass with a default that is not allowed is refused in every fit."""

    class Odd(SGDClassifier):
        def __init__(self, loss="hinge", *, max_iter=0):
            super().__init__(loss, max_iter=max_iter, tol=None)

    for _ in range(2):
        with pytest.raises(ValueError, match="The 'max_iter' parameter of Odd"):
            Odd().fit(X, TWO)
    assert Odd(max_iter=3).set_params(loss="log_loss").fit(X, TWO).n_iter_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_need_no_other_check_are_still_finite(form, bad):
    """The fast way past scikit-learn's checks looks at every entry of X and y.

    Sums that overflow are no error.
    """
    rows = X.copy()
    rows[7, 2] = bad
    with pytest.raises(ValueError, match="Input X contains"):
        SGDClassifier(**FEW).fit(form(rows), TWO)
    with pytest.raises(ValueError, match="Input y contains"):
        SGDRegressor(**FEW).fit(form(X), np.where(np.arange(300) == 5, bad, NUMBERS))
    large = 1e308 * np.linspace(0.5, 1.0, 20)[:, None] * [0.0, 1.0]  # finite, but not their sum
    with pytest.raises(ValueError, match="overflow"):
        SGDClassifier(**FEW).fit(form(large), np.arange(20) % 2)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [-1.0, 1.0], [2.0, 7.0], [-0.0, 3.0]])
def test_whole_numbers_of_any_type_are_classes(labels):
    """Floats that are whole numbers give the model that integers do."""
    floats = np.array(labels)[TWO]
    one, other = (SGDClassifier("log_loss", **FEW).fit(X, y) for y in (floats, floats.astype(int)))
    assert one.classes_.dtype == floats.dtype
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("other", [0.5, 1e300])
def test_floats_that_are_not_classes_are_refused(other):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        SGDClassifier(**FEW).fit(X, np.where(TWO == 1, other, 0.0))


@pytest.mark.parametrize("average", [False, True])
def test_the_recorded_objective_is_that_of_the_weights(average):
    """In the first epoch it has been computed before, to see that nothing went wrong.

    Averages have another.
    """
    given = FEW | {"max_iter": 1, "trace": "objective"}
    model = SGDClassifier("log_loss", average=average, **given).fit(X, TWO)
    problem = Problem.build(X, TWO, loss="log_loss", l2=1e-4, fit_intercept=True)
    np.testing.assert_allclose(
        model.history_["objective"],
        problem.objective(model.coef_[0], model.intercept_[0]),
        rtol=1e-14,
    )
