"""What the estimators do in rare and bad cases: rare classes, long runs, odd chunks, good first weights, interruptions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression

from antithetic import SGDClassifier, SGDRegressor
from antithetic.solvers import step_search

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
    """The decay is eased no further once it is at its least."""
    model = SGDClassifier("log_loss", penalty=None, max_iter=4000, tol=None, random_state=0)
    model.fit([[1.0, 2.0], [-1.0, -2.0], [2.0, 1.0], [-2.0, -1.0]], [1, 0, 1, 0])
    assert model.n_iter_ == 4000


def test_one_bad_chunk_does_not_spoil_the_stream():
    """Its steps are shortened, those after it are not; and many small chunks do not change the decay."""
    model = SGDRegressor(random_state=0).partial_fit(X, NUMBERS)
    steps = model.eta0_, model.decay_
    model.partial_fit(1e6 * X[:1], [1.0])
    for row in range(100):
        model.partial_fit(X[row : row + 1], NUMBERS[row : row + 1])
    assert (model.eta0_, model.decay_) == steps
    for _ in range(20):
        model.partial_fit(X, NUMBERS)
    assert model.score(X, NUMBERS) > 0.99


def test_good_first_weights_do_not_make_the_steps_short():
    """At the optimum no step improves anything; they are found as if from zero, and fit to follow a change."""
    y = NUMBERS + 0.1 * np.random.default_rng(3).normal(size=300)
    best = LinearRegression().fit(X, y)
    cold = SGDRegressor(penalty=None, **FEW).fit(X, y)
    warm = SGDRegressor(penalty=None, **FEW).fit(X, y, coef_init=best.coef_, intercept_init=best.intercept_)
    assert warm.eta0_ > 0.1 * cold.eta0_
    np.testing.assert_allclose(warm.coef_, best.coef_, atol=0.05)
    for _ in range(20):
        warm.partial_fit(X, -y)
    assert warm.score(X, -y) > 0.9


@pytest.mark.parametrize("pairing", ["greedy", "tree"])
def test_a_chunk_of_one_class_needs_no_pairs(pairing):
    """With two classes or three, on the first call or later."""
    three = np.digitize(NUMBERS, [-2.0, 2.0])
    for y in (TWO, three):
        one = np.flatnonzero(y == y[0])[:5]
        model = SGDClassifier(pairing=pairing, random_state=0).partial_fit(X[one], y[one], classes=np.unique(y))
        model.partial_fit(X, y).partial_fit(X[one], y[one])
        assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("factor", [1e16, 1e20, 1e100])
def test_targets_of_any_size_are_fitted(factor):
    """Slopes are not cut off where the steps are found from the data."""
    assert SGDRegressor(**{**FEW, "max_iter": 50}).fit(X, factor * NUMBERS).score(X, factor * NUMBERS) > 0.99


def test_features_too_large_for_float32_are_reported():
    """Rather than left at zero."""
    with pytest.raises(ValueError, match="below what float32 can hold"):
        SGDClassifier("log_loss", **FEW).fit((1e18 * X).astype(np.float32) * np.float32(1e12), TWO)


@pytest.mark.parametrize("where", ["search", "after"])
def test_an_interruption_leaves_a_whole_model(monkeypatch, where):
    """Before the first epoch the old one, after it the new one; a warning that is an error comes after the fit as well."""
    model = SGDClassifier(random_state=0).fit(X, np.digitize(NUMBERS, [-2.0, 2.0]))
    if where == "search":

        def interrupted(*_arguments, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr(step_search, "_search", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :2], TWO)
        assert model.predict(X).shape == (300,)
    else:
        with pytest.raises(ConvergenceWarning):
            model.set_params(max_iter=1).fit(X[:, :2], TWO)
        assert model.predict(X[:, :2]).shape == (300,)


def test_warnings_point_at_the_line_that_called():
    """Past scikit-learn's wrappers and our own frames, so that each place is warned of once."""
    for model in (SGDClassifier(max_iter=1), SGDRegressor(max_iter=3, tol=None, learning_rate="constant", eta0=0.9)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, TWO)
        assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("weights", [{0: np.nan, 1: 1.0}, {0: np.inf, 1: 1.0}, {0: 0.0, 1: 0.0}, {0: -1.0, 1: 1.0}])
def test_bad_class_weights_are_refused(weights):
    """They must be finite, at least 0, and not all of them 0."""
    with pytest.raises(ValueError, match="class_weight"):
        SGDClassifier(class_weight=weights).fit(X, TWO)


def test_a_score_that_is_no_number_is_no_improvement():
    """R^2 of a single row: the run ends after its patience."""
    model = SGDRegressor(early_stopping=True, validation_fraction=0.1, max_iter=200, random_state=0)
    with pytest.warns(match="R\\^2"):
        model.fit(X[:8], NUMBERS[:8])
    assert model.n_iter_ < 20


def test_a_chunk_that_weighs_nothing_leaves_steps_and_weights_alone():
    """Where a class weight of zero leaves nothing of a chunk, steps are found on a later one."""
    clean, mixed = (SGDClassifier("log_loss", class_weight={0: 0.5, 1: 1.0}, random_state=0) for _ in range(2))
    mixed.set_params(class_weight={0: 0.0, 1: 1.0}).partial_fit(X[TWO == 0], TWO[TWO == 0], classes=[0, 1])
    assert not mixed.coef_.any()
    assert not hasattr(mixed, "eta0_")
    mixed.set_params(class_weight={0: 0.5, 1: 1.0})
    for model in (clean, mixed):
        model.partial_fit(X, TWO, classes=[0, 1])
    assert mixed.eta0_ == clean.eta0_


def test_many_classes_are_no_reason_to_warn():
    """More than twenty of them, each with many rows."""
    rows = np.tile(X, (3, 1))
    for labels in (np.arange(900) % 26, (np.arange(900) % 26).astype(float)):
        assert SGDClassifier(**FEW).fit(rows, labels).coef_.shape == (26, 4)
