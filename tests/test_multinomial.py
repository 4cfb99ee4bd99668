"""LogisticRegression with many classes: scikit-learn's solutions, and a true bound on the gap.

The sums over rows: test_class_sums.py. Two classes: test_logistic.py.
"""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference_classes as twin
import sklearn.linear_model as theirs
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from antithetic import LinearModel, LogisticRegression, LogisticRegressionCV
from antithetic.exact import many_classes, path
from antithetic.exact.class_sums import ClassSums
from antithetic.problem.penalties import ElasticNet

EPS = np.finfo(np.float64).eps
NAMES = np.array(["ant", "bee", "cat", "dog"])


def make_data(n=300, d=5, seed=0, noise=1.0, classes=4):
    """Rows of which column 0 is far from zero and column 1 on a larger scale, and some classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = 2.0 * X @ rng.normal(size=(d, classes)) + noise * rng.gumbel(size=(n, classes))
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)
    X[:, 0] += 20.0
    X[:, 1] *= 50.0
    return X, NAMES[y] if classes == 4 else y


X, Y = make_data()
WEIGHT = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 4.0], size=len(Y))


def objective(model, X, y, weight=None):
    strength = 0.0 if np.isinf(model.C) else 1.0 / (model.C * len(y))
    rows = X.toarray() if sparse.issparse(X) else X
    labels = np.searchsorted(model.classes_, y)
    return twin.objective(
        rows.astype(np.float64),
        labels,
        model.coef_.astype(np.float64),
        model.intercept_.astype(np.float64),
        l2=(1.0 - model.l1_ratio) * strength,
        l1=model.l1_ratio * strength,
        weight=weight,
    )


# ---- scikit-learn's solutions


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, np.inf])
@pytest.mark.parametrize(
    "more", [{}, {"class_weight": "balanced"}, {"class_weight": {"bee": 3.0}}], ids=str
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_solution_is_scikit_learns(make, weight, more, C, fit_intercept):
    given = {"C": C, "fit_intercept": fit_intercept, **more}
    own = LogisticRegression(**given).fit(make(X), Y, sample_weight=weight)
    other = theirs.LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ill-conditioned matrices
        other.fit(X, Y, sample_weight=weight)
    for name in ("coef_", "intercept_", "n_iter_", "classes_"):
        assert getattr(own, name).shape == getattr(other, name).shape
        assert getattr(own, name).dtype == getattr(other, name).dtype
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(own.predict_proba(X), other.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(own.predict(X), other.predict(X))
    np.testing.assert_allclose(own.intercept_.sum(), 0.0, atol=1e-9)
    np.testing.assert_allclose(own.coef_.sum(axis=0), 0.0, atol=1e-9)
    assert own.gap_certified_ is not np.isinf(C)
    assert own.gap_ <= 1e-4


@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_solution_with_an_l1_penalty_is_scikit_learns(make, l1_ratio, fit_intercept):
    """Probabilities agree with scikit-learn's, the objective is no worse, and there are zeros."""
    scaled = StandardScaler().fit_transform(X)
    given = {"C": 0.05, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    own = LogisticRegression(**given).fit(make(scaled), Y)
    other = theirs.LogisticRegression(solver="saga", tol=1e-9, max_iter=100_000, **given)
    other.fit(scaled, Y)
    np.testing.assert_allclose(own.predict_proba(scaled), other.predict_proba(scaled), atol=1e-5)
    assert objective(own, scaled, Y) <= objective(other, scaled, Y) + 1e-8
    assert (own.coef_ == 0.0).any()
    assert own.gap_ <= 1e-4
    if l1_ratio < 1.0:  # else the same number added to a weight of all classes may cost nothing
        np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-5)
        assert ((own.coef_ == 0.0) == (other.coef_ == 0.0)).all()
    else:
        assert (own.coef_ == 0.0).sum() >= (other.coef_ == 0.0).sum()


def test_an_l1_penalty_of_very_many_weights():
    """With more than a thousand weights, each step uses a working set of them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 300))
    y = (rows[:, :4] + 0.3 * rng.gumbel(size=(120, 4))).argmax(axis=1)
    model = LogisticRegression(C=0.1, l1_ratio=1.0).fit(rows, y)
    assert model.plan_.method == "working set"
    assert model.gap_ <= 1e-4
    assert (model.coef_ == 0.0).mean() > 0.9


def test_a_weight_of_two_is_a_row_given_twice():
    counts = np.random.default_rng(0).integers(0, 3, size=len(Y))
    given = {"class_weight": "balanced", "C": 0.1}
    weighted = LogisticRegression(**given).fit(X, Y, sample_weight=counts)
    repeated = LogisticRegression(**given).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_digits_are_known_as_well_as_by_scikit_learn():
    """Five-fold accuracy at the defaults, within 0.3 points."""
    rows, y = load_digits(return_X_y=True)
    own = cross_val_score(LogisticRegression(), rows, y, cv=5).mean()
    other = theirs.LogisticRegression(max_iter=1000, tol=1e-3)
    assert own >= cross_val_score(other, rows, y, cv=5).mean() - 0.003


# ---- tol and gap_


@st.composite
def random_problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    classes = draw(st.integers(3, 8))
    n, d = draw(st.integers(classes, 2500)), draw(st.integers(1, 50))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3.0, 3.0, size=d)
    if draw(st.booleans()):
        X[rng.random((n, d)) < 0.7] = 0.0
    if draw(st.booleans()):
        X += 10.0 * rng.normal(size=d) * X.std(axis=0)
    spread = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    scores = (X / spread) @ rng.normal(size=(d, classes)) / np.sqrt(d)
    noise = draw(st.sampled_from([0.1, 1.0]))
    y = (2.0 * scores + noise * rng.gumbel(size=(n, classes))).argmax(axis=1)
    y[:classes] = np.arange(classes)
    weight = rng.choice([0.0, 1.0, 3.0], size=n) if draw(st.booleans()) else None
    if weight is not None:
        weight[:classes] = 1.0
    rows = sparse.csr_array(X) if draw(st.booleans()) else X
    given = {
        "C": 1.0 / (n * 10.0 ** draw(st.floats(-6.0, 0.0))),
        "tol": 10.0 ** -draw(st.floats(2.0, 8.0)),
        "fit_intercept": draw(st.booleans()),
        "max_iter": 2000,
    }
    return rows, y, weight, given


@settings(max_examples=25, deadline=None)
@given(random_problems())
def test_the_gap_is_a_bound_and_at_most_tol(case):
    """Weights that a longer run finds are never better by more than gap_ says."""
    X, y, weight, given = case
    model = LogisticRegression(**given).fit(X, y, sample_weight=weight)
    assert model.gap_certified_
    assert model.gap_ <= model.tol
    better = LogisticRegression(**{**given, "tol": 0.0, "warm_start": True, "max_iter": 100})
    better.coef_, better.intercept_ = model.coef_, model.intercept_
    better.classes_ = model.classes_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it goes as far as rounding lets it
        better.fit(X, y, sample_weight=weight)
    least = objective(better, X, y, weight)
    weights = np.ones(len(y)) if weight is None else weight
    shares = np.bincount(y, weights)
    constant = -(shares @ np.log(shares / shares.sum())) / len(y)
    if not model.fit_intercept:
        constant = np.log(len(shares)) * weights.mean()
    tol = min(model.tol, 1e-10) if len(y) < 1500 and model.tol <= 1e-3 else model.tol
    unit = max(constant - least, 1e-12 * constant / tol)
    found = objective(model, X, y, weight) - least
    assert found <= model.gap_ * unit + 64 * EPS * constant


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_many_rows_end_at_tol(fit_intercept, dtype):
    rows, y = make_data(n=6000, d=80)
    rows = StandardScaler().fit_transform(rows).astype(dtype)
    given = {"fit_intercept": fit_intercept, "max_iter": 1000}
    coarse, fine = (LogisticRegression(tol=tol, **given).fit(rows, y) for tol in (1e-1, 1e-5))
    assert coarse.gap_ <= 1e-1
    assert fine.gap_ <= 1e-5
    assert coarse.n_iter_[0] < fine.n_iter_[0]
    assert coarse.coef_.dtype == coarse.intercept_.dtype == dtype
    assert coarse.predict_proba(rows[:3]).dtype == dtype
    best = LogisticRegression(tol=1e-9, **given).fit(rows.astype(np.float64), y)
    first, second, least = (objective(model, rows, y) for model in (coarse, fine, best))
    assert least - 1e-8 <= second < first
    assert second - least <= 1e-4 * least


def test_wide_problems_begin_with_sgd_and_few_weights_with_samples():
    many, y = make_data(n=6000, d=5)
    few = LogisticRegression().fit(many, y)
    assert few.plan_.method == "newton"
    assert few.plan_.samples
    rows, labels = make_data(n=12000, d=120)
    wide = LogisticRegression(max_iter=1000).fit(StandardScaler().fit_transform(rows), labels)
    assert wide.plan_.method in ("newton", "whitened L-BFGS")
    assert wide.plan_.samples == ()
    assert "stochastic gradient descent" in wide.plan_.why


def test_without_a_penalty_the_gap_of_very_many_weights_is_an_estimate():
    """With very many weights no Hessian is formed: conjugate gradients estimate the gap."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 210))
    y = (rows[:, :10] + 2.0 * rng.gumbel(size=(6000, 10))).argmax(axis=1)
    model = LogisticRegression(C=np.inf, max_iter=1000).fit(rows, y)
    assert model.gap_certified_ is False
    assert model.gap_ <= 1e-4
    assert model.plan_.method == "whitened L-BFGS"
    best = LogisticRegression(C=np.inf, tol=1e-7, max_iter=1000).fit(rows, y)
    gain = np.log(10.0) - objective(best, rows, y)
    assert objective(model, rows, y) - objective(best, rows, y) <= 2e-4 * gain


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_separated_classes_without_a_penalty_have_no_optimum(fit_intercept):
    rows = np.random.default_rng(0).normal(size=(150, 3))
    y = (rows @ np.random.default_rng(1).normal(size=(3, 4))).argmax(axis=1)
    with pytest.warns(ConvergenceWarning, match="no optimum exists") as caught:
        model = LogisticRegression(C=np.inf, fit_intercept=fit_intercept).fit(rows, y)
    assert len(caught) == 1
    assert model.score(rows, y) == 1.0
    assert LogisticRegression(C=1e4, fit_intercept=fit_intercept).fit(rows, y).gap_ <= 1e-4


def test_too_few_iterations_are_named():
    rows, y = make_data(n=3000, d=100)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ended the fit.*Increase max_iter"):
        model = LogisticRegression(tol=1e-10, max_iter=1).fit(rows, y)
    assert model.n_iter_.tolist() == [1]


# ---- awkward data


def test_awkward_columns_need_no_warning():
    """Constant, repeated and empty columns, offsets, and scales from 1e-6 to 1e6."""
    rows, y = make_data()
    rows = rows * 10.0 ** np.linspace(-6, 6, 5)
    rows = np.column_stack([rows, rows[:, 0], np.zeros(len(y)), np.full(len(y), 7.0)])
    for make in (np.asarray, sparse.csr_array):
        for fit_intercept in (True, False):
            model = LogisticRegression(fit_intercept=fit_intercept).fit(make(rows), y)
            assert model.gap_ <= 1e-4


def test_scales_and_offsets_of_many_columns():
    """Whitening removes scales and offsets that an epoch of SGD could not cope with."""
    rows, y = make_data(n=2000, d=100, noise=4.0)
    model = LogisticRegression(max_iter=300, C=1e-2).fit(StandardScaler().fit_transform(rows), y)
    scaled = rows * 10.0 ** np.linspace(-3, 3, 100) + 100.0 * 10.0 ** np.linspace(-3, 3, 100)
    other = LogisticRegression(max_iter=300, C=1e4).fit(scaled, y)
    assert other.gap_ <= 1e-4
    assert abs(model.score(StandardScaler().fit_transform(rows), y) - other.score(scaled, y)) < 0.05


def test_more_classes_than_features_and_as_many_as_rows():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    model = LogisticRegression().fit(rows, np.arange(30))
    assert model.coef_.shape == (30, 2)
    assert model.gap_ <= 1e-4
    wide = np.random.default_rng(0).normal(size=(20, 600))
    model = LogisticRegression().fit(wide, np.arange(20) % 5)
    assert model.gap_ <= 1e-4
    assert model.score(wide, np.arange(20) % 5) == 1.0


def test_a_class_whose_rows_weigh_nothing():
    weight = np.where(Y == "cat", 0.0, 1.0)
    model = LogisticRegression().fit(X, Y, sample_weight=weight)
    assert model.gap_ <= 1e-4
    assert model.predict_proba(X)[:, 2].max() < 1e-6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("factor", [1e-200, 1e30, 1e150])
def test_rows_of_any_size_show_no_overflow(factor):
    """Warnings of overflow would be errors here."""
    for rows in (X, np.tile(X, 20)):  # with a Hessian, and with whitened weights
        model = LogisticRegression().fit(rows * factor, Y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.predict_log_proba(rows * factor)).all()


@pytest.mark.parametrize(
    "labels",
    [np.arange(4) * 10 - 7, NAMES, NAMES.astype(object), np.array([0.0, 1.0, 2.0, 5.0])],
    ids=["int", "str", "object", "float"],
)
def test_labels_of_any_type(labels):
    y = labels[np.searchsorted(NAMES, Y)]
    model = LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.score(X, y) > 0.5
    assert model.predict(X).dtype == labels.dtype


def test_very_many_columns():
    """Text: the matrix that classes share is a diagonal."""
    rng = np.random.default_rng(0)
    rows = sparse.random_array((200, 4000), density=0.01, format="csr", rng=rng)
    rows = sparse.csr_array(rows)
    y = rng.integers(0, 5, size=200)
    model = LogisticRegression(C=10.0).fit(rows, y)
    assert model.gap_ <= 1e-4
    assert model.plan_.method == "whitened L-BFGS"


# ---- conventions


def test_fits_repeat():
    """The same bits, also where an epoch of SGD comes first."""
    rows, y = make_data(n=3000, d=90)
    rows = StandardScaler().fit_transform(rows)
    first, second, other = (
        LogisticRegression(random_state=seed).fit(rows, y) for seed in (None, 0, 7)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert (first.coef_ != other.coef_).any()


def test_a_warm_start_begins_with_the_last_weights():
    rows, y = make_data(n=3000, d=90)
    rows = StandardScaler().fit_transform(rows)
    model = LogisticRegression(warm_start=True, tol=1e-6, max_iter=1000).fit(rows, y)
    iterations = model.n_iter_[0]
    model.fit(rows, y)
    assert model.n_iter_[0] < iterations
    assert "given weights" in model.plan_.why
    with pytest.raises(ValueError, match=r"warm_start=True.*\(4, 90\).*\(4, 3\)"):
        model.fit(rows[:, :3], y)


def test_threads_change_nothing_but_rounding():
    rows, y = make_data(n=1600, d=70)
    rows = StandardScaler().fit_transform(rows)
    one, two = (LogisticRegression(n_jobs=jobs, tol=1e-5).fit(rows, y) for jobs in (1, 2))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names(kind):
    frame = kind({f"column {j}": X[:, j] for j in range(X.shape[1])})
    model = LogisticRegression().fit(frame, Y)
    assert model.feature_names_in_.tolist() == [f"column {j}" for j in range(X.shape[1])]
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, Y).coef_)


def test_saved_models_predict_the_same(tmp_path):
    """Models saved by pickle, by skops and as JSON predict the same."""
    for model in (
        LogisticRegression(C=2.0, class_weight={"bee": 2.0}).fit(X, Y),
        LogisticRegressionCV(Cs=[0.1, 10.0], cv=3).fit(X, Y),
    ):
        data = skops.io.dumps(model)
        LinearModel.of(model).save(tmp_path / "model.json")
        for again in (
            pickle.loads(pickle.dumps(model)),
            skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data)),
            LinearModel.load(tmp_path / "model.json").estimator(),
        ):
            assert type(again) is type(model)
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_interrupted_fit_keeps_its_last_weights(monkeypatch):
    step, calls = path.step, []

    def interrupted(sums, goal, state):
        calls.append(state)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(sums, goal, state)

    monkeypatch.setattr(path, "step", interrupted)
    model = LogisticRegression()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.n_iter_.tolist() == [2]
    assert model.score(X, Y) > 0.5


# ---- cross-validation


def test_cross_validation_is_scikit_learns():
    rows, y = load_iris(return_X_y=True)
    given = {"Cs": [0.01, 1.0, 100.0], "cv": 3, "scoring": "neg_log_loss"}
    own = LogisticRegressionCV(**given).fit(rows, y)
    other = theirs.LogisticRegressionCV(
        **given, l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=10_000, tol=1e-8
    ).fit(rows, y)
    assert own.C_ == other.C_
    np.testing.assert_allclose(own.scores_, other.scores_, atol=1e-4)
    np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-2)
    assert own.coefs_paths_.shape == other.coefs_paths_.shape == (3, 1, 3, 3, 5)
    assert own.gap_ <= 1e-4
    legacy = LogisticRegressionCV(**given, use_legacy_attributes=True).fit(rows, y)
    assert sorted(legacy.scores_) == [0, 1, 2]
    assert legacy.C_.shape == (3,)


def test_a_path_of_wide_problems_is_that_of_single_fits():
    """Each fit begins with the matrix and the steps of the one before."""
    rows, y = make_data(n=1600, d=80)
    rows = StandardScaler().fit_transform(rows)
    Cs = [1e-7, 1e-3, 1e-2, 1e-1]  # the first is solved before any matrix is made
    model = LogisticRegressionCV(
        Cs=Cs, cv=[(np.arange(1600), np.arange(100))], tol=1e-6, max_iter=999
    )
    model.fit(rows, y)
    for place, C in enumerate(Cs):
        single = LogisticRegression(C=C, tol=1e-6, max_iter=999).fit(rows, y)
        found = model.coefs_paths_[0, 0, place]
        np.testing.assert_allclose(found[:, :-1], single.coef_, atol=2e-3)


def test_a_fold_may_lack_a_class():
    """A class of one row: sklearn warns of it, and the folds without it are fitted all the same."""
    rows, y = make_data(n=80)
    y = np.where(np.arange(80) == 5, "elk", np.where(Y[:80] == "dog", "cat", y))
    with pytest.warns(UserWarning, match="least populated class"):
        model = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(rows, y)
    assert "elk" in model.classes_
    assert np.isfinite(model.scores_).all()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_the_classes_save_most_passes(monkeypatch, fit_intercept, weighted):
    """L-BFGS takes up a block for each class once it is slow, and reaches the same certificate."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, size=2000)
    factors = 1.5 * rng.normal(size=(8, 6))[y] + rng.normal(size=(2000, 6))
    rows = np.maximum(factors @ rng.normal(size=(6, 50)) + rng.normal(size=(2000, 50)), 0.0) / 10.0
    weight = rng.choice([0.0, 1.0, 2.0], size=2000) if weighted else None
    model = LogisticRegression(C=5.0, tol=1e-9, fit_intercept=fit_intercept, max_iter=1000)
    with_blocks = clone(model).fit(rows, y, weight)
    monkeypatch.setattr(ClassSums, "_block_passes", lambda _: np.inf)
    monkeypatch.setattr(many_classes, "_MOST_IN_HESSIAN", 0)
    monkeypatch.setattr(many_classes, "_MOST_STEPS", 1000)
    without = clone(model).fit(rows, y, weight)
    assert with_blocks.n_iter_[0] < 0.6 * without.n_iter_[0]
    assert with_blocks.gap_certified_
    assert max(with_blocks.gap_, without.gap_) <= 1e-9
    np.testing.assert_allclose(with_blocks.coef_, without.coef_, atol=1e-3)


@pytest.mark.parametrize("seed", [0, 2])
def test_near_copies_of_columns_do_not_end_at_max_iter(seed):
    """With too many weights for a Hessian, products with it find steps that L-BFGS does not."""
    rng = np.random.default_rng(seed)
    own = rng.standard_normal((300, 12))
    copies = own[:, rng.integers(0, 12, 48)] + 1e-4 * rng.standard_normal((300, 48))
    X = np.hstack([own, copies])
    y = (X @ rng.standard_normal((60, 40)) + rng.gumbel(size=(300, 40))).argmax(axis=1)
    model = LogisticRegression(C=1e5).fit(X, y)  # a ConvergenceWarning would be an error
    assert model.gap_ <= model.tol
    assert model.n_iter_[0] < 80


def test_chances_that_count_for_nothing_are_zero():
    """Products of numbers below the normal ones take 35 times as long."""
    labels = np.arange(300) % 3
    X = np.eye(3)[labels] + 0.01 * np.random.default_rng(0).normal(size=(300, 3))
    sums = ClassSums(X, labels, 3, ElasticNet(1e-3, 0.0), None, None)
    for kind, length in ((np.float64, 700.0), (np.float32, 90.0)):
        chances, _ = sums._chances(length * np.eye(3).ravel(), X.astype(kind), kind)
        assert ((chances == 0.0) | (chances >= np.sqrt(np.finfo(kind).tiny))).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-6)
