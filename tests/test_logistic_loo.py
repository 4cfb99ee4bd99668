"""`LogisticRegressionCV(cv="loo")`: scores of each row in a fit without it, and what they prove."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.utils._param_validation import InvalidParameterError

from antithetic import LogisticRegression, LogisticRegressionCV

RNG = np.random.default_rng(0)
N = 80
X = RNG.normal(size=(N, 4))
LINEAR = X @ [1.0, -0.7, 0.0, 0.0] + 0.2
Y = np.where(LINEAR + RNG.logistic(size=N) > 0.0, "b", "a")
THREE = np.digitize(LINEAR + RNG.logistic(size=N), [-0.8, 0.9])
WEIGHT = RNG.uniform(0.3, 2.0, N)
GROUPS = RNG.permutation(np.arange(N) // 4)
CS = [0.01, 0.1, 1.0, 10.0, 100.0]
BEST = 0.1


def losses(y, C, splits, weight=None, **given):
    """Log losses of the rows in fits without their fold."""
    found = np.empty(len(y))
    for kept, left_out in splits:
        some = None if weight is None else weight[kept]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # ends when nothing falls any more
            model = LogisticRegression(C=C, tol=0.0, **given).fit(X[kept], y[kept], some)
        chances = model.predict_log_proba(X[left_out])
        found[left_out] = -chances[
            np.arange(len(left_out)), np.searchsorted(model.classes_, y[left_out])
        ]
    return found


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_scores_are_those_of_fits_without_the_row(y, weight):
    model = LogisticRegressionCV(Cs=CS, cv="loo").fit(X, y, sample_weight=weight)
    table = np.array([losses(y, C, LeaveOneOut().split(X), weight) for C in CS])
    means = np.average(table, axis=1, weights=weight)
    assert model.scores_.shape == (N, 1, len(CS))
    assert model.scores_bounds_.shape == (2, N, 1, len(CS))
    low, high = model.scores_bounds_[:, :, 0, :]
    assert (low <= -table.T + 1e-6).all()
    assert (high >= -table.T - 1e-6).all()
    assert ((low <= model.scores_[:, 0]) & (model.scores_[:, 0] <= high)).all()
    choice = model.choice_
    assert (choice.log_loss_bounds[:, 0] <= means + 1e-7).all()
    assert (means - 1e-7 <= choice.log_loss_bounds[:, 1]).all()
    assert choice.best == model.C_
    assert CS.index(model.C_) == means.argmin()
    assert choice.proved
    assert len(choice.overlapping) == 0
    assert not hasattr(model, "coefs_paths_")
    alone = LogisticRegression(C=model.C_).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)
    assert model.n_iter_.shape == (1, 1, len(CS))
    assert (model.l1_ratio_, model.Cs_.tolist()) == (0.0, CS)


def test_groups_are_left_out_together():
    model = LogisticRegressionCV(Cs=CS, cv="loo").fit(X, Y, sample_weight=WEIGHT, groups=GROUPS)
    splits = list(LeaveOneGroupOut().split(X, Y, GROUPS))
    table = np.array([losses(Y, C, splits, WEIGHT) for C in CS])
    means = np.average(table, axis=1, weights=WEIGHT)
    bounds = model.choice_.log_loss_bounds
    assert (bounds[:, 0] <= means + 1e-7).all()
    assert (means - 1e-7 <= bounds[:, 1]).all()
    assert CS.index(model.C_) == means.argmin()
    first = splits[0][1]
    of_first = -np.average(table[:, first], axis=1, weights=WEIGHT[first])
    low, high = model.scores_bounds_[:, 0, 0, :]
    assert model.scores_.shape == (20, 1, len(CS))
    assert ((low <= of_first + 1e-6) & (of_first - 1e-6 <= high)).all()


def test_one_standard_error_takes_a_stronger_penalty():
    """The smallest C whose loss is above the best by at most the paired standard error."""
    Cs = np.logspace(-3, 2, 21)
    best, other = (LogisticRegressionCV(Cs=Cs, cv="loo", rule=rule).fit(X, Y) for rule in
                   ("best", "1se"))  # fmt: skip
    choice = other.choice_
    assert choice.best == best.C_ > other.C_
    scores = -other.scores_[:, 0]
    apart = scores - scores[:, [int(np.flatnonzero(Cs == choice.best)[0])]]
    np.testing.assert_allclose(choice.difference, apart.mean(axis=0), atol=1e-12)
    errors = apart.std(axis=0, ddof=1) / np.sqrt(N)
    np.testing.assert_allclose(choice.standard_error, errors, atol=1e-12)
    good = apart.mean(axis=0) <= errors
    assert Cs[good].min() == other.C_
    assert "rule '1se'" in repr(choice)


def test_balanced_weights_are_those_of_all_rows():
    y = np.where(LINEAR > 1.0, "b", "a")
    counts = dict(zip(*np.unique(y, return_counts=True), strict=True))
    fixed = {name: N / 2.0 / count for name, count in counts.items()}
    own, other = (
        LogisticRegressionCV(Cs=CS, cv="loo", class_weight=weight).fit(X, y)
        for weight in ("balanced", fixed)
    )
    np.testing.assert_allclose(own.scores_, other.scores_, atol=1e-12)
    truth = losses(y, 1.0, LeaveOneOut().split(X), class_weight=fixed)
    low, high = own.scores_bounds_[:, :, 0, CS.index(1.0)]
    assert ((low <= -truth + 1e-6) & (-truth - 1e-6 <= high)).all()


def test_equal_values_are_not_told_apart():
    """What the bounds do not prove is said."""
    model = LogisticRegressionCV(Cs=[0.001, BEST, BEST * (1.0 + 1e-13), 100.0], cv="loo").fit(X, Y)
    assert not model.choice_.proved
    assert len(model.choice_.overlapping) == 1
    assert f"not proved against C={BEST:g}" in repr(model.choice_)


def test_sparse_rows_have_the_scores_of_dense_ones():
    rows = X * (np.abs(X) > 0.5)
    dense, other = (
        LogisticRegressionCV(Cs=CS, cv="loo").fit(some, Y)
        for some in (rows, sparse.csr_array(rows))
    )
    np.testing.assert_allclose(dense.scores_, other.scores_, atol=1e-4)
    assert dense.C_ == other.C_


def test_rows_of_weight_zero_do_not_count():
    weight = np.where(np.arange(N) % 4 == 0, 0.0, 1.0)
    kept = weight > 0.0
    own = LogisticRegressionCV(Cs=CS, cv="loo").fit(X, Y, sample_weight=weight)
    other = LogisticRegressionCV(Cs=CS, cv="loo").fit(X[kept], Y[kept])
    np.testing.assert_allclose(own.choice_.log_loss, other.choice_.log_loss, rtol=1e-3)
    np.testing.assert_allclose(own.choice_.standard_error, other.choice_.standard_error, rtol=1e-2)


def test_an_infinite_c_may_have_no_optimum():
    """With separated classes its losses are unbounded, and another C is chosen."""
    y = np.where(X[:, 0] > 0.0, 1, 0)
    model = LogisticRegressionCV(Cs=[0.1, 1.0, 10.0, 100.0, np.inf], cv="loo")
    model.fit(X, y)
    assert np.isfinite(model.C_)
    assert np.isneginf(model.scores_[:, 0, -1]).all()


def test_a_choice_at_the_edge_is_said():
    y = np.where(X[:, 0] > 0.0, 1, 0)
    with pytest.warns(UserWarning, match="the best C, 0.1, is the greatest of Cs: add larger"):
        LogisticRegressionCV(Cs=[0.001, 0.01, 0.1], cv="loo").fit(X, y)


def test_it_can_be_cloned_and_fitted_again():
    model = LogisticRegressionCV(Cs=CS, cv="loo", rule="1se")
    assert clone(model).get_params() == model.get_params()
    model.set_params(cv=3, rule="best").fit(X, Y)
    assert hasattr(model, "coefs_paths_")
    model.set_params(cv="loo").fit(X, Y)
    assert not hasattr(model, "coefs_paths_")
    model.set_params(cv=3).fit(X, Y)
    assert not hasattr(model, "choice_")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l1_ratios": (0.0, 0.5)}, "l1_ratios"),
        ({"penalty": "l1"}, "l1_ratios"),
        ({"scoring": "accuracy"}, "scoring"),
        ({"scoring": None}, "scoring"),
        ({"refit": False}, "refit=False"),
        ({"use_legacy_attributes": True}, "use_legacy_attributes"),
        ({"cv": 3, "rule": "1se"}, 'needs cv="loo"'),
    ],
)
def test_what_has_no_bounds_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegressionCV(**{"Cs": CS, "cv": "loo", **given}).fit(X, Y)


def test_wrong_words_are_refused():
    for given in ({"cv": "all"}, {"cv": "loo", "rule": "2se"}):
        with pytest.raises(InvalidParameterError, match=next(reversed(given))):
            LogisticRegressionCV(**given).fit(X, Y)


def test_a_class_of_one_row_is_named():
    y = np.where(np.arange(N) == 11, "rare", Y)
    model = LogisticRegressionCV(Cs=CS, cv="loo")
    with pytest.raises(ValueError, match="class 'rare' has one row only, row 11"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="one label per row"):
        model.fit(X, Y, groups=[1, 2])
