"""LogisticRegression: scikit-learn's solutions, a true bound on the gap, and clear words.

Cross-validation: test_logistic_cv.py.
"""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import sklearn.linear_model as theirs
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

import antithetic
from antithetic import LinearModel, LogisticRegression
from antithetic._util.threads import default_threads
from antithetic.exact import path as solver
from antithetic.problem import Problem

EPS = np.finfo(np.float64).eps


def make_data(n=300, d=6, seed=0, noise=1.0):
    """Rows of which column 0 is far from zero and column 1 on a larger scale, and two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] - X[:, 1] + noise * rng.normal(size=n) > 0.3, "yes", "no")
    X[:, 0] += 20.0
    X[:, 1] *= 50.0
    return X, y


X, Y = make_data()
WEIGHT = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 4.0], size=len(Y))


def problem_of(model, X, y, weight=None, C=None, l1_ratio=None):
    """The objective that a model minimises."""
    C = model.C if C is None else C
    l1_ratio = model.l1_ratio if l1_ratio is None else l1_ratio
    strength = 1.0 / (C * len(y))
    return Problem.build(
        X,
        np.where(y == model.classes_[1], 1, -1),
        l2=(1.0 - l1_ratio) * strength,
        l1=l1_ratio * strength,
        sample_weight=weight,
        fit_intercept=model.fit_intercept,
    )


def objective(model, problem):
    return problem.objective(model.coef_[0].astype(np.float64), float(model.intercept_[0]))


# ---- scikit-learn's class


def test_the_signature_is_scikit_learns():
    """Names, order and defaults of all parameters, and of those of fit."""
    own, other = (
        inspect.signature(kind.__init__).parameters
        for kind in (LogisticRegression, theirs.LogisticRegression)
    )
    assert {name: one.default for name, one in own.items()} == {
        name: one.default for name, one in other.items()
    }
    assert list(own) == list(other)
    own, other = (
        list(inspect.signature(kind.fit).parameters)
        for kind in (LogisticRegression, theirs.LogisticRegression)
    )
    assert own == other


def test_every_public_attribute_of_scikit_learn_is_there():
    own, other = LogisticRegression().fit(X, Y), theirs.LogisticRegression(max_iter=9999).fit(X, Y)
    assert {name for name in dir(other) if name[0] != "_"} <= set(dir(own))
    for name in ("coef_", "intercept_", "n_iter_", "classes_"):
        assert getattr(own, name).shape == getattr(other, name).shape
        assert getattr(own, name).dtype == getattr(other, name).dtype
    assert type(own.gap_) is float
    assert own.gap_certified_ is True


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.01, 1.0, np.inf])
@pytest.mark.parametrize(
    "more", [{}, {"class_weight": "balanced"}, {"class_weight": {"yes": 3.0}}], ids=str
)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_the_solution_is_scikit_learns(make, weight, more, C, fit_intercept):
    given = {"C": C, "fit_intercept": fit_intercept, **more}
    own = LogisticRegression(**given).fit(make(X), Y, sample_weight=weight)
    other = theirs.LogisticRegression(solver="newton-cholesky", tol=1e-12, **given)
    other.fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(own.predict_proba(X), other.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(own.decision_function(X), other.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_solution_with_an_l1_penalty_is_scikit_learns(l1_ratio, fit_intercept):
    """Weights and zeros agree with scikit-learn's."""
    scaled = StandardScaler().fit_transform(X)
    given = {"C": 0.03, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    own = LogisticRegression(**given).fit(scaled, Y)
    other = theirs.LogisticRegression(solver="saga", tol=1e-10, max_iter=100_000, **given)
    other.fit(scaled, Y)
    np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-5)
    assert ((own.coef_ == 0.0) == (other.coef_ == 0.0)).all()
    assert (own.coef_ == 0.0).any()


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"penalty": "l2"}, {}),
        ({"penalty": "l1"}, {"l1_ratio": 1.0}),
        ({"penalty": "elasticnet", "l1_ratio": 0.5}, {"l1_ratio": 0.5}),
        ({"penalty": None}, {"C": np.inf}),
        ({"l1_ratio": None}, {}),
        ({"solver": "sag", "dual": True, "intercept_scaling": 7.0}, {}),
    ],
    ids=str,
)
def test_older_parameters_are_translated(older, newer):
    """No warning comes, as warnings are errors here."""
    own, other = (LogisticRegression(**given).fit(X, Y) for given in (older, newer))
    np.testing.assert_array_equal(own.coef_, other.coef_)
    assert (own.gap_, own.gap_certified_) == (other.gap_, other.gap_certified_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"penalty": "l2", "l1_ratio": 0.5}, "Inconsistent values: penalty=l2 with l1_ratio=0.5"),
        ({"penalty": None, "C": 2.0}, "Setting penalty=None will ignore the C .*got C=2.0"),
        ({"solver": "liblinear"}, "penalises the intercept"),
    ],
)
def test_parameters_that_are_ignored_give_a_warning(given, message):
    with pytest.warns(UserWarning, match=message) as caught:
        LogisticRegression(**given).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_without_an_intercept_liblinear_means_the_same():
    LogisticRegression(solver="liblinear", fit_intercept=False).fit(X, Y)


def test_a_weight_of_two_is_a_row_given_twice():
    counts = np.random.default_rng(0).integers(0, 3, size=len(Y))
    given = {"class_weight": "balanced", "C": 0.1}
    weighted = LogisticRegression(**given).fit(X, Y, sample_weight=counts)
    repeated = LogisticRegression(**given).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


# ---- tol and gap_


@st.composite
def random_problems(draw):
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    n, d = draw(st.integers(2, 2500)), draw(st.integers(1, 60))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3.0, 3.0, size=d)
    if draw(st.booleans()):
        X[rng.random((n, d)) < 0.7] = 0.0
    if draw(st.booleans()):
        X[:, rng.integers(d)] = X[:, 0]
    spread = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    score = (X / spread) @ rng.normal(size=d) / np.sqrt(d)
    y = np.where(score + draw(st.sampled_from([0.1, 1.0])) * rng.normal(size=n) > 0.0, 1, 0)
    y[:2] = 0, 1
    weight = rng.choice([0.0, 1.0, 3.0], size=n) if draw(st.booleans()) else None
    if weight is not None:
        weight[:2] = 1.0
    rows = sparse.csr_array(X) if draw(st.booleans()) else X
    l2 = 10.0 ** draw(st.floats(-6.0, 0.0))
    given = {
        "C": 1.0 / (n * l2),
        "l1_ratio": draw(st.sampled_from([0.0, 0.0, 0.0, 0.4])),
        "tol": 10.0 ** -draw(st.floats(2.0, 8.0)),
        "fit_intercept": draw(st.booleans()),
        "max_iter": 1000,
    }
    return rows, y, weight, given


@settings(max_examples=60, deadline=None)
@given(random_problems())
def test_the_gap_is_a_bound_and_at_most_tol(case):
    """Weights that another solver finds are never better by more than gap_ says."""
    X, y, weight, given = case
    model = LogisticRegression(**given).fit(X, y, sample_weight=weight)
    assert model.gap_certified_
    assert model.gap_ <= model.tol
    problem = problem_of(model, X, y, weight)
    better = LogisticRegression(**{**given, "tol": 0.0, "warm_start": True})
    better.coef_, better.intercept_ = model.coef_, model.intercept_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it goes as far as rounding lets it
        better.fit(X, y, sample_weight=weight)
    least = objective(better, problem)
    constant = constant_objective(problem)
    tol = min(model.tol, 1e-10) if len(y) < 1500 and model.tol <= 1e-3 else model.tol
    unit = max(constant - least, 1e-12 * constant / tol)
    assert objective(model, problem) - least <= model.gap_ * unit + 64 * EPS * constant


def constant_objective(problem):
    if not problem.fit_intercept:
        return problem.objective(np.zeros(problem.d))
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    share = weight[problem.y > 0].sum() / weight.sum()
    return problem.objective(np.zeros(problem.d), np.log(share / (1.0 - share)))


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-8, 0.0])
def test_few_rows_are_solved_to_ten_digits(tol):
    assert LogisticRegression(tol=tol).fit(X, Y).gap_ <= 1e-10


@pytest.mark.parametrize("penalty", [{}, {"l1_ratio": 0.5}])  # in one kernel call, and in several
def test_few_rows_are_solved_quickly_on_request(penalty):
    """A tolerance above every default ends a fit of few rows before it has all digits."""
    quick, usual = (LogisticRegression(tol=tol, **penalty).fit(X, Y) for tol in (1e-1, 1e-3))
    assert 1e-10 < quick.gap_ <= 1e-1
    assert quick.n_iter_ < usual.n_iter_


def test_many_rows_end_at_tol():
    many, y = make_data(n=20_000)
    coarse, fine = (LogisticRegression(tol=tol).fit(many, y) for tol in (1e-2, 1e-8))
    assert coarse.gap_ <= 1e-2
    assert fine.gap_ <= 1e-8
    assert coarse.n_iter_[0] < fine.n_iter_[0]
    problem = problem_of(fine, many, y)
    assert objective(fine, problem) < objective(coarse, problem)


def test_without_a_penalty_the_gap_is_a_bound():
    model = LogisticRegression(C=np.inf).fit(X, Y)
    assert model.gap_certified_ is True
    assert model.gap_ <= 1e-4
    assert model.coef_error_ <= 0.01
    assert np.isnan(LogisticRegression().fit(X, Y).coef_error_)


# ---- warnings


def test_too_few_iterations_are_named():
    many, y = make_data(n=5000)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ended the fit.*Increase max_iter"):
        model = LogisticRegression(tol=1e-10, max_iter=1, C=1e4).fit(many, y)
    assert model.gap_ > 1e-10
    assert model.n_iter_.tolist() == [1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("penalty", [{}, {"C": np.inf}, {"l1_ratio": 0.5}], ids=str)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n", [300, 4000])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_iterations_weights_and_intercepts_stay_as_they_are(n_classes, n, make, penalty):
    """They are zero, or with warm_start those of the last fit, even if a constant is better."""
    rows, y = make_data(n=n)
    if n_classes == 3:
        y = np.digitize(rows[:, 2], [-0.5, 1.5])
    model = LogisticRegression(max_iter=0, **penalty).fit(make(rows), y)
    assert not model.coef_.any()
    assert not model.intercept_.any()
    assert model.n_iter_ == 0
    assert model.gap_ >= 1.0 or not model.gap_certified_
    given = np.outer([1.0, 0.0, -1.0][: len(model.coef_)], rows[0])
    model.set_params(warm_start=True).coef_ = given
    model.fit(make(rows), y)
    np.testing.assert_allclose(model.coef_, given, rtol=1e-14)
    np.testing.assert_allclose(model.intercept_, 0.0, atol=1e-10)


@pytest.mark.parametrize(
    ("factor", "offset", "word"),
    [
        (1e7, 0.0, "much larger scale"),
        (1.0, 1e6, "far from zero"),
        (1e200, 0.0, "values up to"),
    ],
)
def test_the_column_that_is_the_cause_is_named(factor, offset, word):
    frame = pd.DataFrame(make_data(n=5000)[0], columns=list("abcdef"))
    frame["d"] = frame["d"] * factor + offset
    with pytest.warns(ConvergenceWarning, match=f"column 'd'.*{word}.*StandardScaler"):
        LogisticRegression(tol=1e-10, max_iter=1, C=1e4).fit(frame, make_data(n=5000)[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("factor", [1e-200, 1e150, 1e200])
def test_rows_of_any_size_show_no_overflow(factor):
    """Warnings of overflow would be errors here."""
    model = LogisticRegression().fit(X * factor, Y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_log_proba(X * factor)).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_separated_classes_without_a_penalty_have_no_optimum(make, fit_intercept):
    rows, y = make_data(noise=0.0, n=200)
    rows = rows - [20.0, 0, 0, 0, 0, 0]
    y = np.where(rows[:, 0] - rows[:, 1] / 50.0 > 0.0, "yes", "no")
    with pytest.warns(ConvergenceWarning, match="no optimum exists") as caught:
        model = LogisticRegression(C=np.inf, fit_intercept=fit_intercept).fit(make(rows), y)
    assert len(caught) == 1
    assert model.score(rows, y) == 1.0
    LogisticRegression(C=1e4, fit_intercept=fit_intercept).fit(rows, y)


@pytest.mark.parametrize("n", [200, 4000])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_partly_separated_classes_without_a_penalty_have_no_optimum(n, fit_intercept):
    """A category whose rows have one label is named as a cause; with both labels there is none."""
    rng = np.random.default_rng(0)
    category, x = rng.integers(4, size=n), rng.normal(size=n)
    X = np.column_stack([np.eye(4)[category], x])
    y = (x + rng.logistic(size=n) > 0.0).astype(int)
    model = LogisticRegression(C=np.inf, fit_intercept=fit_intercept)
    model.fit(X, y)
    y[category == 2] = 1
    with pytest.warns(ConvergenceWarning, match="some rows are perfectly separated.* column 2 "):
        model.fit(X, y)
    y[category == 1] = 0
    with pytest.warns(ConvergenceWarning, match="columns (1, 2|2, 1) always lower the loss"):
        model.fit(X, y)
    assert not model.gap_certified_
    assert np.isnan(model.coef_error_)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("together", [False, True])
def test_columns_that_separate_the_classes_are_named(classes, together, make):
    """One column that separates alone, or two that do so only together; never a third."""
    X = np.random.default_rng(0).normal(size=(300, 6)) * np.geomspace(1e-3, 1e3, 6) + 5.0
    score = (X[:, 3] - 5.0) / X[:, 3].std() + together * (X[:, 1] - 5.0) / X[:, 1].std()
    y = np.digitize(score, [0.1] if classes == 2 else [-0.5, 0.5])
    named = "columns (1, 3|3, 1) always" if together else "column 3 always"
    with pytest.warns(ConvergenceWarning, match=f"the classes are perfectly separated.*{named}"):
        LogisticRegression(C=np.inf).fit(make(X), y)


def test_columns_with_names_are_named_by_them():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"age": np.tile([1.0, 2.0, 3.0], 20), "leak": np.arange(60.0)})
    with pytest.warns(ConvergenceWarning, match="larger weights of column 'leak' always lower"):
        LogisticRegression(C=np.inf).fit(X, np.arange(60) > 30)


def test_a_constant_column_is_not_a_cause():
    """A column of one large value is not said to be far from zero."""
    X = np.column_stack([np.full(50, 1e6), np.arange(50.0)])
    with pytest.warns(ConvergenceWarning, match="Increase max_iter.$"):
        LogisticRegression(max_iter=1).fit(X, np.arange(50) % 3 == 0)


def test_awkward_columns_need_no_warning():
    """Constant, repeated and empty columns, and scales from 1e-6 to 1e6."""
    rows, y = make_data()
    rows = rows * 10.0 ** np.linspace(-6, 6, 6)
    rows = np.column_stack([rows, rows[:, 0], np.zeros(len(y)), np.full(len(y), 7.0)])
    for make in (np.asarray, sparse.csr_array):
        assert LogisticRegression().fit(make(rows), y).gap_ <= 1e-4


def test_two_rows_and_more_columns_than_rows():
    model = LogisticRegression().fit([[0.0], [2.0]], [0, 1])
    assert model.predict([[0.0], [2.0]]).tolist() == [0, 1]
    wide = np.random.default_rng(0).normal(size=(20, 500))
    assert LogisticRegression().fit(wide, np.arange(20) % 2).gap_ <= 1e-4


# ---- bad input


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"C": -1.0}, "C"),
        ({"l1_ratio": 1.5}, "l1_ratio"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": -1}, "max_iter"),
        ({"solver": "newton"}, "lbfgs.*liblinear.*newton-cg.*newton-cholesky.*sag.*saga|saga"),
        ({"penalty": "l3"}, "elasticnet"),
        ({"class_weight": "even"}, "balanced"),
        ({"n_jobs": "two"}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        LogisticRegression(**given).fit(X, Y)


@pytest.mark.parametrize(
    ("rows", "y", "weight", "message"),
    [
        (X, np.full(len(Y), "yes"), None, "1 class"),
        (X, np.linspace(0.0, 1.0, len(Y)), None, "continuous"),
        (X[:-1], Y, None, "inconsistent"),
        (np.where(X[3, 2] == X, np.nan, X), Y, None, "NaN"),
        (np.where(X[3, 2] == X, np.inf, X), Y, None, "infinity"),
        (X, Y, np.full(len(Y), -1.0), "at least 0; row 0"),
        (X, Y, np.zeros(len(Y)), "zero for every row"),
        (X, Y, np.ones(3), "shape"),
        (X[:0], Y[:0], None, "0 sample"),
    ],
)
def test_bad_data_are_named(rows, y, weight, message):
    model = LogisticRegression()
    with pytest.raises(ValueError, match=message):
        model.fit(rows, y, sample_weight=weight)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [600, 3000])
def test_what_a_row_of_weight_zero_holds_changes_nothing(n, classes, dtype):
    """A number that stands for a missing one may be as large as it likes."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(n, 5)).astype(dtype), np.ones(n)
    y = (X[:, :classes] + rng.gumbel(size=(n, classes))).argmax(axis=1)
    weight[3] = 0.0
    known = LogisticRegression(tol=1e-6).fit(X, y, sample_weight=weight).coef_
    X[3] = 1e18
    for rows in (X, sparse.csr_array(X)):
        found = LogisticRegression(tol=1e-6).fit(rows, y, sample_weight=weight)
        assert found.gap_ <= 1e-6
        np.testing.assert_allclose(found.coef_, known, atol=0.02)


MANY = np.random.default_rng(5).normal(size=(14_000, 20))
OF_MANY = np.where(MANY[:, 0] + np.random.default_rng(6).normal(size=len(MANY)) > 0.0, 1, 0)


def _spread_out(rows):
    """Sparse rows with each entry in one of five columns, so that few pairs of columns meet."""
    n, d = rows.shape
    columns = 5 * np.arange(d) + np.arange(n)[:, None] % 5
    places = np.arange(0, n * d + 1, d)
    return sparse.csr_array((rows.ravel(), columns.ravel(), places), shape=(n, 5 * d))


FORMS = [np.asarray, sparse.csr_array, _spread_out]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("number", "message"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")]
)
@pytest.mark.parametrize("row", [0, 7_001, 13_999])
def test_one_entry_of_many_that_is_not_finite_is_named(form, dtype, number, message, row):
    """A fit of many rows finds it itself, wherever it is, and whatever the fit begins with."""
    rows = MANY.astype(dtype)
    rows[row, 11] = number
    rows = form(rows)
    fitted = LogisticRegression(warm_start=True).fit(form(MANY.astype(dtype)), OF_MANY)
    before = fitted.coef_.copy()
    weight = np.ones(len(MANY))
    weight[row] = 0.0  # which must not hide it
    fits = [
        (LogisticRegression(), OF_MANY, None),
        (LogisticRegression(fit_intercept=False, tol=0.1), OF_MANY, None),
        (LogisticRegression(l1_ratio=0.5), OF_MANY, None),
        (LogisticRegression(C=np.inf), OF_MANY, None),
        (LogisticRegression(), OF_MANY, weight),
        (LogisticRegression(class_weight={int(OF_MANY[row]): 0.0}), OF_MANY, None),
        (LogisticRegression(), np.arange(len(MANY)) % 3, None),
        (fitted, OF_MANY, None),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, y, weight in fits:
            with pytest.raises(ValueError, match=f"Input X contains {message}"):
                model.fit(rows, y, sample_weight=weight)
    assert not hasattr(fits[0][0], "classes_")
    assert (fitted.coef_ == before).all()


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_fit_of_many_are_not_checked_in_a_pass_of_their_own(form, monkeypatch):
    """Nor are they checked afterwards: the first pass has shown that all entries are finite."""
    monkeypatch.setattr("antithetic.estimators.linear.is_checked", None)
    monkeypatch.setattr("antithetic.estimators.linear.validate_data", None)
    assert LogisticRegression().fit(form(MANY), OF_MANY).gap_ <= 1e-4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"penalty": "elasticnet", "l1_ratio": None}, "l1_ratio must be a number"),
        ({"C": 1e-320}, "so small"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_parameters_that_no_fit_can_use_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**given).fit(X, Y)


def test_predictions_need_a_fit():
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(LogisticRegression(), method)(X)


def test_overflow_in_exp_never_shows():
    """Probabilities of scores that exp cannot hold; their logarithms stay finite."""
    model = LogisticRegression().fit(X, Y)
    model.coef_ = model.coef_ * 1e6
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert (model.predict_log_proba(X) < -1e5).any()


# ---- conventions


def test_fits_repeat():
    """The same bits, also on many rows, of which samples are drawn."""
    many, y = make_data(n=20_000)
    first, second, other = (
        LogisticRegression(random_state=seed).fit(many, y) for seed in (None, None, 7)
    )
    assert first.plan_.samples
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert (first.coef_ != other.coef_).any()
    state = LogisticRegression(random_state=np.random.RandomState(0)).fit(many, y)
    assert state.gap_ <= 1e-4


def test_threads_change_nothing_but_rounding():
    many, y = make_data(n=60_000)
    one, two = (LogisticRegression(n_jobs=n_jobs, tol=1e-8).fit(many, y) for n_jobs in (1, 2))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-3, atol=1e-6)
    assert (one.plan_.threads, two.plan_.threads) == (1, 2)


def test_threads_are_those_of_blas_unless_they_are_given(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert default_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert default_threads() >= 1
    many, labels = make_data(n=1600)
    assert LogisticRegression(n_jobs=-1).fit(many, labels).plan_.threads == default_threads()
    assert LogisticRegression(n_jobs=-99).fit(many, labels).plan_.threads == 1


def test_the_plan_says_what_was_chosen():
    few, many = LogisticRegression().fit(X, Y), LogisticRegression().fit(*make_data(n=20_000))
    assert few.plan_.samples == ()
    assert "all rows from the start" in few.plan_.why
    assert list(many.plan_.samples) == sorted(many.plan_.samples)
    assert "samples first" in many.plan_.why
    assert many.plan_.method == "newton"
    with pytest.raises(AttributeError):
        few.plan_.method = "other"


def test_the_plan_says_that_text_begins_with_the_dual():
    """Sparse rows that are fewer than columns; dense ones and warm starts do not.

    Without an intercept the dual alone is enough.
    """
    X = sparse.random_array((60, 900), density=0.05, format="csr", rng=np.random.default_rng(0))
    y = np.arange(60) % 2
    model = LogisticRegression(warm_start=True).fit(X, y)
    assert model.plan_.method == "conjugate gradients"
    assert "first coordinate ascent on the dual" in model.plan_.why
    assert "given weights" in model.fit(X, y).plan_.why
    assert "dual" not in LogisticRegression().fit(X.toarray(), y).plan_.why
    alone = LogisticRegression(fit_intercept=False).fit(X, y)
    assert alone.plan_.method == "dual ascent"
    assert "it converged" in alone.plan_.why
    assert alone.n_iter_[0] > 0


def test_a_warm_start_begins_with_the_last_weights():
    many, y = make_data(n=20_000)
    model = LogisticRegression(warm_start=True, tol=1e-8).fit(many, y)
    iterations = model.n_iter_[0]
    model.fit(many, y)
    assert model.n_iter_[0] < iterations
    assert "given weights" in model.plan_.why
    with pytest.raises(ValueError, match=r"warm_start=True.*\(1, 6\).*\(1, 3\)"):
        model.fit(many[:, :3], y)
    assert model.predict(many[:5]).shape == (5,)  # as it was


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("n", [600, 4000])
def test_the_gap_of_float32_rows_is_that_of_the_weights_given_back(n, classes, offset):
    """It bounds the true gap for any ``tol``, and reaches ``tol`` unless intercepts lose digits.

    The intercept of a column far from zero has few digits left in float32.
    """
    rng = np.random.default_rng(1)
    rows, true = rng.normal(size=(n, 8)), rng.normal(size=(classes, 8))
    y = (rows @ true.T + rng.gumbel(size=(n, classes))).argmax(axis=1)
    X = (rows + offset).astype(np.float32)
    rows = X.astype(np.float64) - offset  # exact, and with an intercept the same problem

    def mean_objective(model, offset):
        coef, intercept = (part.astype(np.float64) for part in (model.coef_, model.intercept_))
        scores = rows @ coef.T + (intercept + offset * coef.sum(axis=1))
        if classes == 2:
            scores = np.hstack([np.zeros((n, 1)), scores])
        loss = (logsumexp(scores, axis=1) - scores[np.arange(n), y]).mean()
        return loss + 0.5 / n * np.square(coef).sum()

    best = mean_objective(LogisticRegression(tol=1e-12).fit(rows, y), 0.0)
    shares = np.bincount(y) / n
    constant = -float(shares @ np.log(shares))
    for tol in (1e-4, 1e-8, 1e-10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(tol=tol).fit(X, y)
        gap = (mean_objective(model, offset) - best) / (constant - best)
        assert gap <= 1.001 * model.gap_ + 1e-12
        assert model.gap_certified_
        if offset <= 1e2:
            assert model.gap_ <= max(tol, 1e-9 if offset else 0.0)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_gap_of_float32_weights_whose_products_cancel(classes, fit_intercept):
    """Large weights of near copies of columns, or of columns far from zero, lose digits too."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 4))
    y = (rows[:, :classes] + rng.gumbel(size=(2000, classes))).argmax(axis=1)
    X = np.hstack([rows, rows + 1e-3 * rng.normal(size=rows.shape)])
    X = (X if fit_intercept else X + 1e4).astype(np.float32)
    settings = {"C": 1e8 if fit_intercept else 1.0, "fit_intercept": fit_intercept}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(tol=1e-10, **settings).fit(X, y)
        exact = LogisticRegression(tol=1e-14, **settings).fit(X.astype(np.float64), y)

    def mean_objective(model):
        coef, intercept = (part.astype(np.float64) for part in (model.coef_, model.intercept_))
        scores = X.astype(np.float64) @ coef.T + intercept
        if classes == 2:
            scores = np.hstack([np.zeros((len(y), 1)), scores])
        loss = (logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]).mean()
        return loss + 0.5 / (settings["C"] * len(y)) * np.square(coef).sum()

    best, shares = mean_objective(exact), np.bincount(y) / len(y)
    constant = -float(shares @ np.log(shares)) if fit_intercept else np.log(classes)
    gap = (mean_objective(model) - best) / (constant - best)
    assert gap <= 1.001 * model.gap_ + 1e-12


def test_float32_does_not_hide_that_max_iter_ended_a_fit():
    """Only what rounding costs is accepted without a warning."""
    many, y = make_data(n=5000)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ended the fit"):
        LogisticRegression(tol=1e-10, max_iter=1).fit(many.astype(np.float32), y)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_float32_rows_stay_float32(make):
    many, y = make_data(n=5000)
    model = LogisticRegression().fit(make(many.astype(np.float32)), y)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.predict_proba(many[:3].astype(np.float32)).dtype == np.float32
    other = LogisticRegression().fit(many, y)
    np.testing.assert_allclose(model.predict_proba(many), other.predict_proba(many), atol=1e-2)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_give_feature_names(kind):
    frame = kind({f"column {j}": X[:, j] for j in range(X.shape[1])})
    model = LogisticRegression().fit(frame, Y)
    assert model.feature_names_in_.tolist() == [f"column {j}" for j in range(X.shape[1])]
    np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(X, Y).coef_)
    assert model.predict(frame).tolist() == model.predict(frame).tolist()


def test_plain_arrays_skip_the_checks_of_frames(monkeypatch):
    """Arrays of numbers have no names of columns, and forget those of an earlier fit."""
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    model = LogisticRegression().fit(frame, Y)
    monkeypatch.delattr("antithetic.estimators.linear.validate_data")
    model.fit(X, Y == "yes")
    assert model.n_features_in_ == X.shape[1]
    assert not hasattr(model, "feature_names_in_")


def test_weights_can_be_sparse():
    rows = StandardScaler().fit_transform(X)
    model = LogisticRegression(l1_ratio=1.0, C=0.03).fit(rows, Y)
    scores = model.decision_function(rows)
    assert sparse.issparse(model.sparsify().coef_)
    np.testing.assert_allclose(model.decision_function(rows), scores)
    model.warm_start = True
    model.fit(rows, Y)
    np.testing.assert_allclose(model.densify().decision_function(rows), scores, atol=1e-5)


def test_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [1e-3, 1.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"logisticregression__C": 1.0}
    assert cross_val_score(LogisticRegression(), X, Y, cv=3).min() > 0.6
    copy = clone(LogisticRegression(C=3.0))
    assert copy.C == 3.0
    assert "LogisticRegression" in copy._repr_html_()


def test_weights_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"C": [1.0]}, cv=3).fit(X, Y, sample_weight=WEIGHT)
    expected = LogisticRegression().fit(X, Y, sample_weight=WEIGHT)
    np.testing.assert_array_equal(search.best_estimator_.coef_, expected.coef_)


def test_saved_models_predict_the_same(tmp_path):
    """Pickle, skops and our own file, for both classes and an infinite C."""
    for model in (
        LogisticRegression(C=np.inf, class_weight={"yes": 2.0}).fit(X, Y),
        antithetic.LogisticRegressionCV(Cs=[0.1, np.inf], cv=3).fit(X, Y),
    ):
        data = skops.io.dumps(model)
        LinearModel.of(model).save(tmp_path / "model.json")
        for again in (
            pickle.loads(pickle.dumps(model)),
            skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data)),
            LinearModel.load(tmp_path / "model.json").estimator(),
        ):
            assert type(again) is type(model)
            assert again.get_params() == model.get_params()
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_interrupted_fit_keeps_its_last_weights(monkeypatch):
    step, calls = solver.step, []

    def interrupted(sums, goal, state):
        calls.append(state)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(sums, goal, state)

    monkeypatch.setattr(solver, "step", interrupted)
    rows, labels = make_data(d=150)
    model = LogisticRegression()
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows, labels)
    assert model.n_iter_.tolist() == [2]
    assert model.score(rows, labels) > 0.7


def test_verbose_prints_the_plan(capsys):
    LogisticRegression(verbose=1).fit(X, Y)
    assert "all rows from the start" in capsys.readouterr().out


class Watcher:
    """Keeps the models that it is shown; ends a fit after so many iterations."""

    def __init__(self, most=99):
        self.most, self.begun, self.ended = most, [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator):  # noqa: ARG002
        if context.task_name == "iteration":
            assert context.task_id == len(self.begun)
            self.begun.append(fitted_estimator)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):  # noqa: ARG002
        if context.task_name == "iteration":
            assert context.task_id == len(self.ended)
            self.ended.append(fitted_estimator)
        return len(self.ended) >= self.most


MANY_CLASSES = np.digitize(X[:, 1] + X[:, 2], [-40.0, 0.0, 40.0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # max_iter
@pytest.mark.parametrize("max_iter", [0, 2, 100])
@pytest.mark.parametrize(
    ("rows", "y"),
    [(X, Y), (X, MANY_CLASSES), make_data(n=4000)],
    ids=["few rows", "many classes", "samples first"],
)
def test_callbacks_see_the_model_before_and_after_each_iteration(rows, y, max_iter):
    """As in scikit-learn, an empty task is the last, and fits of so many iterations are alike."""
    pytest.importorskip("sklearn.callback")
    watcher = Watcher()
    model = LogisticRegression(max_iter=max_iter, tol=1e-8).set_callbacks(watcher).fit(rows, y)
    n_iter = model.n_iter_[0]
    assert n_iter == max_iter or 2 < n_iter < max_iter
    assert len(watcher.begun) == len(watcher.ended) == n_iter + 1
    assert watcher.ended[-1] is None
    for i in range(1, n_iter + 1):
        expected = LogisticRegression(max_iter=i, tol=1e-8).fit(rows, y)
        for shown in (watcher.begun[i], watcher.ended[i - 1]):
            np.testing.assert_allclose(shown.coef_, expected.coef_, rtol=1e-7)
            np.testing.assert_allclose(shown.intercept_, expected.intercept_, rtol=1e-7)
            np.testing.assert_array_equal(shown.predict(rows), expected.predict(rows))


def test_callbacks_can_end_the_fit():
    pytest.importorskip("sklearn.callback")
    stopped = LogisticRegression().set_callbacks(Watcher(most=2)).fit(X, Y)
    assert stopped.n_iter_[0] == 2
    assert stopped.score(X, Y) > 0.7
