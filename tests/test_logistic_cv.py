"""LogisticRegressionCV: scikit-learn's scores and choices."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from test_logistic import WEIGHT, Y, make_data
from test_logistic import X as UNSCALED

from antithetic import LogisticRegression, LogisticRegressionCV
from antithetic.exact import path as solver

X = StandardScaler().fit_transform(UNSCALED)
NEW = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
CS = [1.0, 1e-3, 1e-1]  # not in order


def assert_alike(own, other, atol=1e-5):
    """Attributes of a model are those of scikit-learn's, forms included."""
    for name in ("Cs_", "l1_ratios_", "C_", "l1_ratio_", "coef_", "intercept_"):
        np.testing.assert_allclose(getattr(own, name), getattr(other, name), atol=atol)
    for name in ("scores_", "coefs_paths_"):
        ours, given = getattr(own, name), getattr(other, name)
        if isinstance(given, dict):
            assert list(ours) == list(given)
            ours, given = list(ours.values()), list(given.values())
        np.testing.assert_allclose(ours, given, atol=atol)
    assert own.n_iter_.shape == other.n_iter_.shape


def test_the_signature_is_scikit_learns_with_its_new_defaults():
    own, other = (
        inspect.signature(kind.__init__).parameters
        for kind in (LogisticRegressionCV, theirs.LogisticRegressionCV)
    )
    assert {name: one.default for name, one in own.items()} == {
        name: NEW.get(name, one.default) for name, one in other.items()
    } | {"rule": "best"}  # of cv="loo", which is ours
    for method in ("fit", "score"):
        own, other = (
            list(inspect.signature(getattr(kind, method)).parameters)
            for kind in (LogisticRegressionCV, theirs.LogisticRegressionCV)
        )
        assert own == other


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"scoring": "accuracy"},
        {"scoring": None, "class_weight": "balanced"},
        {"scoring": "roc_auc", "fit_intercept": False},
        {"scoring": "neg_brier_score"},
        {"refit": False},
        {"cv": KFold(3), "class_weight": {"yes": 2.0}},
        {"use_legacy_attributes": True},
    ],
    ids=str,
)
def test_it_chooses_as_scikit_learn_does(more, weight):
    given = {**NEW, "Cs": CS, "cv": 4, **more}
    own = LogisticRegressionCV(tol=1e-12, **given).fit(X, Y, sample_weight=weight)
    other = theirs.LogisticRegressionCV(solver="newton-cholesky", tol=1e-11, **given)
    other.fit(X, Y, sample_weight=weight)
    assert_alike(own, other)
    if given["scoring"] != "neg_brier_score":  # which is not told what label is positive
        assert own.score(X, Y) == pytest.approx(other.score(X, Y), abs=1e-5)


@pytest.mark.parametrize("legacy", [True, False])
def test_shares_of_l1_are_chosen_as_in_scikit_learn(legacy):
    # stronger penalties leave the intercept alone, of which SAGA is not sure
    given = {**NEW, "Cs": [1.0, 0.05, 0.2], "cv": 3, "l1_ratios": [0.0, 0.5, 1.0]}
    given["use_legacy_attributes"] = legacy
    own = LogisticRegressionCV(**given).fit(X, Y)
    other = theirs.LogisticRegressionCV(solver="saga", tol=1e-10, max_iter=100_000, **given)
    assert_alike(own, other.fit(X, Y), atol=1e-4)


def test_the_best_is_fitted_again_on_all_rows():
    own = LogisticRegressionCV(Cs=CS).fit(X, Y)
    alone = LogisticRegression(C=own.C_).fit(X, Y)
    np.testing.assert_allclose(own.coef_, alone.coef_, atol=1e-6)
    assert own.gap_ <= 1e-4
    assert own.gap_certified_


def test_weak_penalties_and_separated_folds_score_as_in_scikit_learn():
    """The least probability that scikit-learn's score knows bounds ours too."""
    rows, y = X[:40], np.where(X[:40, 0] > 0.0, 1, 0)
    given = {**NEW, "Cs": [1.0, 1e8], "cv": 3}
    own = LogisticRegressionCV(**given).fit(rows, y)
    scorer, expected = get_scorer("neg_log_loss"), []
    for fold, (_, test) in enumerate(sklearn.model_selection.StratifiedKFold(3).split(rows, y)):
        model = LogisticRegression().fit(rows, y)
        model.coef_ = own.coefs_paths_[fold, 0, 1, :, :-1]
        model.intercept_ = own.coefs_paths_[fold, 0, 1, :, -1]
        expected.append(scorer(model, rows[test], y[test]))
    np.testing.assert_allclose(own.scores_[:, 0, 1], expected, rtol=1e-6)


def test_rows_of_any_form_give_the_same():
    dense = LogisticRegressionCV(Cs=CS, cv=3).fit(X, Y)
    for rows in (sparse.csr_array(X), sparse.csc_matrix(X), pd.DataFrame(X), X.tolist()):
        other = LogisticRegressionCV(Cs=CS, cv=3).fit(rows, Y)
        np.testing.assert_allclose(other.scores_, dense.scores_, atol=1e-7)
        assert other.C_ == dense.C_


def test_threads_change_nothing_but_rounding():
    one, two = (LogisticRegressionCV(Cs=4, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2))
    np.testing.assert_allclose(one.scores_, two.scores_, rtol=1e-9)
    assert one.C_ == two.C_


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"penalty": "l2"}, {}),
        ({"penalty": "l1"}, {"l1_ratios": (1.0,)}),
        ({"penalty": "elasticnet", "l1_ratios": [0.5]}, {"l1_ratios": [0.5]}),
        ({"l1_ratios": None}, {}),
    ],
    ids=str,
)
def test_older_parameters_are_translated(older, newer):
    own, other = (LogisticRegressionCV(Cs=CS, cv=3, **given).fit(X, Y) for given in (older, newer))
    np.testing.assert_array_equal(own.coef_, other.coef_)
    assert own.l1_ratio_ == other.l1_ratio_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Cs": []}, "Cs must be"),
        ({"Cs": [1.0, -1.0]}, "Cs must be"),
        ({"l1_ratios": [2.0]}, "between 0 and 1"),
        ({"l1_ratios": ["a"]}, "between 0 and 1"),
        ({"l1_ratios": ()}, "between 0 and 1"),
        ({"penalty": "elasticnet", "l1_ratios": None}, "between 0 and 1"),
        ({"class_weight": {"maybe": 1.0}}, "maybe"),
        ({"cv": 1000}, "n_splits"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(given, message):
    model = LogisticRegressionCV(**given)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "classes_")


def test_unknown_words_are_refused():
    for given in ({"Cs": 0}, {"scoring": "best"}, {"solver": "newton"}, {"refit": "yes"}):
        with pytest.raises(InvalidParameterError, match=next(iter(given))):
            LogisticRegressionCV(**given).fit(X, Y)


@pytest.mark.parametrize("rows", [60, 2000])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("Cs", [[1e-20, 1e20], [1e-300, 1e6], [np.inf, 1e-20]])
def test_a_path_may_begin_with_no_weights_at_all(Cs, classes, rows):
    """A penalty that allows no weights ends where it begins, and the next one finds its own way."""
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(rows, 4)), rng.integers(0, classes, rows)
    search = LogisticRegressionCV(Cs=Cs, cv=KFold(3), fit_intercept=False).fit(data, labels)
    assert min(Cs) == search.C_  # the labels are random
    for fold, (train, _) in enumerate(KFold(3).split(data)):
        alone = LogisticRegression(C=max(Cs), fit_intercept=False).fit(data[train], labels[train])
        path = dict(zip(search.Cs_, search.coefs_paths_[fold, 0], strict=True))
        assert np.abs(path[min(Cs)]).max() < 1e-15
        np.testing.assert_allclose(path[max(Cs)], alone.coef_, rtol=1e-3, atol=1e-6)


def test_fits_that_end_early_give_one_warning():
    rows, y = make_data(n=3000)
    model = LogisticRegressionCV(Cs=[1e4], max_iter=1, tol=1e-10, cv=3, refit=False)
    with pytest.warns(ConvergenceWarning, match="3 fits.*C=10000 in fold 0.*max_iter=1") as caught:
        model.fit(rows, y)
    assert len(caught) == 1


def test_without_iterations_all_weights_are_zero():
    with pytest.warns(ConvergenceWarning, match="max_iter=0 ended the fit"):
        model = LogisticRegressionCV(Cs=CS, cv=3, max_iter=0).fit(X, Y)
    assert not model.coefs_paths_.any()
    assert not model.coef_.any()
    assert not model.intercept_.any()


@pytest.mark.filterwarnings("ignore:'l1_ratios=None' was deprecated")
@pytest.mark.parametrize("l1_ratios", [None, [0.0]])
@pytest.mark.parametrize("y", [Y, np.digitize(X[:, 2], [-0.5, 0.5])], ids=["two", "three"])
def test_older_attributes_have_the_shapes_of_scikit_learn(y, l1_ratios):
    """Without l1_ratios, arrays have no axis for them."""
    given = {**NEW, "use_legacy_attributes": True, "l1_ratios": l1_ratios, "Cs": CS, "cv": 3}
    own = LogisticRegressionCV(**given).fit(X, y)
    other = theirs.LogisticRegressionCV(solver="newton-cholesky", **given).fit(X, y)
    assert own.n_iter_.shape == other.n_iter_.shape
    for name in ("coefs_paths_", "scores_"):
        ours, expected = getattr(own, name), getattr(other, name)
        assert {key: ours[key].shape for key in ours} == {
            key: expected[key].shape for key in expected
        }


def test_callbacks_do_not_observe_a_cross_validation():
    """In scikit-learn they do not either; the fit is as without them."""
    pytest.importorskip("sklearn.callback")

    class Silent:
        def setup(self, *args):
            raise AssertionError(args)

        teardown = on_fit_task_begin = on_fit_task_end = setup

    model = LogisticRegressionCV(Cs=CS, cv=3).set_callbacks(Silent()).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, LogisticRegressionCV(Cs=CS, cv=3).fit(X, Y).coef_)


def test_weights_that_the_scorer_does_not_request_are_refused():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("accuracy").set_score_request(sample_weight=False)
        model = LogisticRegressionCV(Cs=CS, cv=3, scoring=scorer).fit(X, Y)
        with pytest.raises(TypeError, match=r"unexpected argument.*sample_weight"):
            model.score(X, Y, sample_weight=WEIGHT)


def test_groups_and_weights_are_routed():
    groups = np.arange(len(Y)) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        model = LogisticRegressionCV(
            Cs=CS, cv=GroupKFold(3).set_split_request(groups=True), scoring=scorer
        ).set_fit_request(sample_weight=True)
        model.fit(X, Y, sample_weight=WEIGHT, groups=groups)
    folds = list(GroupKFold(3).split(X, Y, groups))
    other = LogisticRegressionCV(Cs=CS, cv=folds).fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_allclose(model.scores_, other.scores_, rtol=1e-9)
    with pytest.raises(ValueError, match="groups"):
        LogisticRegressionCV(cv=GroupKFold(3)).fit(X, Y, groups=groups)


@pytest.mark.skipif(sys.platform == "win32", reason="there a signal cannot be sent to a thread")
@pytest.mark.parametrize("cv", [3, "loo"])
def test_parameters_are_refused_before_data_are_read(cv):
    with pytest.raises(ValueError, match="n_jobs must be"):
        LogisticRegressionCV(cv=cv, n_jobs=0).fit(None, None)


def test_ctrl_c_ends_the_folds_of_all_threads(monkeypatch):
    """Folds that have begun end at their next iteration; before, they were fitted to the end."""
    rows = np.random.default_rng(0).normal(size=(4500, 3))
    step, steps, pressed, sent = solver.step, [], threading.Event(), threading.Lock()

    def press(*_):
        pressed.set()
        raise KeyboardInterrupt

    def slowly(sums, goal, state):
        steps.append(threading.current_thread())
        if sent.acquire(blocking=False):  # the first of two threads
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        pressed.wait(10.0)
        time.sleep(0.01)
        return step(sums, goal, state)

    monkeypatch.setattr(solver, "step", slowly)
    before = signal.signal(signal.SIGINT, press)
    try:
        with pytest.raises(KeyboardInterrupt):
            LogisticRegressionCV(cv=3, n_jobs=2).fit(rows, rows[:, 0] > 0.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert threading.main_thread() not in steps
    assert 1 <= len(steps) < 10  # of about 50 in each fold
