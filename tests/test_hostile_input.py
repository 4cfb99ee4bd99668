"""Input that NumPy would accept silently, or that fails deep inside, raises a clear error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from antithetic import (
    LogisticRegression,
    LogisticRegressionCV,
    SGDClassifier,
    SGDRegressor,
    gradient_variance,
    minimize,
    pair,
    pair_rows,
    solve,
)
from antithetic.estimators.linear import predicting
from antithetic.estimators.model_file import LinearModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0.0).astype(int)
DATES = np.arange(180).reshape(60, 3).astype("datetime64[D]")


def fit(rows, labels, **more):
    SGDClassifier("log_loss", max_iter=2, tol=None).fit(rows, labels, **more)


def fit_regression(rows, labels, **more):
    SGDRegressor(max_iter=2, tol=None).fit(rows, labels, **more)


def fit_partly(rows, labels, **more):
    SGDClassifier("log_loss").partial_fit(rows, labels, classes=[0, 1], **more)


def predict(rows, _labels):
    SGDClassifier("log_loss", max_iter=2, tol=None).fit(X, Y).predict(rows)


def predict_number(rows, _labels):
    SGDRegressor(max_iter=2, tol=None).fit(X, Y).predict(rows)


def descend(rows, labels, **more):
    minimize(rows, labels, epochs=1, **more)


def fit_logistic(X, y, **given):
    return LogisticRegression().fit(X, y, **given)


def predict_logistic(rows, _y):
    return LogisticRegression().fit(X, Y).predict(rows)


CALLS = [fit, fit_regression, fit_partly, fit_logistic, descend, pair]
PREDICTIONS = [predict, predict_number, predict_logistic]


@pytest.mark.parametrize("call", [*CALLS, *PREDICTIONS])
@pytest.mark.parametrize("rows", [DATES, DATES - DATES[0]], ids=["dates", "durations"])
def test_dates_are_refused_by_all(call, rows):
    """What fit refuses, predict refuses too."""
    with pytest.raises(ValueError, match="X holds dates or durations"):
        call(rows, Y)


@pytest.mark.parametrize("call", [*CALLS, *PREDICTIONS])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_column_of_dates_is_named(call, zone):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "seen": pd.date_range("2020", periods=60, tz=zone)})
    with pytest.raises(ValueError, match="dates or durations in column 'seen'"):
        call(frame, Y)


@pytest.mark.parametrize("call", [*CALLS, *PREDICTIONS])
def test_masked_rows_are_refused(call):
    """A mask says that values are missing: using what lies under it would be silently wrong."""
    mask = np.zeros(X.shape, bool)
    mask[7, 1] = True
    with pytest.raises(ValueError, match="X has masked entries, first in row 7"):
        call(np.ma.masked_array(X, mask), Y)
    call(np.ma.masked_array(X), Y)  # nothing is missing


@pytest.mark.parametrize("call", CALLS)
def test_masked_labels_and_weights_are_refused(call):
    masked = np.arange(60) == 5
    with pytest.raises(ValueError, match="y has masked entries, first in row 5"):
        call(X, np.ma.masked_array(Y, masked))
    with pytest.raises(ValueError, match="sample_weight has masked entries, first in row 5"):
        call(X, Y, sample_weight=np.ma.masked_array(np.ones(60), masked))


@pytest.mark.parametrize("call", [fit, fit_partly, fit_logistic, descend, pair])
@pytest.mark.parametrize(
    "labels",
    [[1, "a"] * 30, [None, "a"] * 30, np.array([1, "a"] * 30, dtype=object), (0.5, "a") * 30],
)
def test_labels_that_mix_words_and_numbers_are_refused(call, labels):
    """NumPy makes words of the numbers in a list, and cannot sort objects."""
    with pytest.raises(ValueError, match="y mixes labels that cannot be compared"):
        call(X, labels)


@pytest.mark.parametrize("average", [2**63, 2**70])
@pytest.mark.parametrize(
    "call",
    [
        lambda average: SGDClassifier("log_loss", average=average).fit(X, Y),
        lambda average: minimize(X, Y, average=average),
    ],
)
def test_averages_that_would_never_begin_are_refused(call, average):
    with pytest.raises(ValueError, match=f"average must be .* at most {2**63 - 1}; got {average}"):
        call(average)


@pytest.mark.parametrize("size", [1e150, 1e300, 1e307])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", ["optimal", "greedy", "tree"])
def test_rows_of_any_size_are_paired_alike(method, make, size):
    """Rows whose squares overflow get the pairs of the same rows in another unit."""
    power = 2.0 ** np.floor(np.log2(size))  # which changes no digit
    small, large = (pair(make(X * unit), Y, method) for unit in (1.0, power))
    assert small.partner.tolist() == large.partner.tolist()
    quality = large.quality(make(X * power), Y)
    assert quality.variance_ratio == pytest.approx(small.variance_ratio(make(X), Y))
    assert quality.mean_product < 0.0


def validate(rows, y):
    return SGDClassifier(early_stopping=True).fit(X, y, X_val=rows, y_val=y)


COMPRESSED = [*CALLS, *PREDICTIONS, validate, lambda rows, _y: pair_rows(rows)]


@pytest.mark.parametrize("call", COMPRESSED)
@pytest.mark.parametrize("index", [3, 10**9, -1])
def test_a_csr_matrix_with_an_index_outside_is_refused(call, index):
    """No foreign memory is read, in fits or in predictions."""
    rows = sparse.csr_array(X)
    rows.indices[5] = index
    with pytest.raises(ValueError, match="outside its"):
        call(rows, Y)


@pytest.mark.parametrize("call", COMPRESSED)
@pytest.mark.parametrize(("row", "end"), [(7, 10**9), (60, 10**9), (7, 0), (0, -1)])
def test_a_csr_matrix_with_rows_outside_of_its_entries_is_refused(call, row, end):
    rows = sparse.csr_array(X)
    rows.indptr[row] = end
    with pytest.raises(ValueError, match="has rows outside its 180 entries"):
        call(rows, Y)


@pytest.mark.parametrize(("name", "value"), [("coef", [[1e308, 0.0, 0.0]]), ("intercept", [1e305])])
def test_a_model_whose_predictions_would_overflow_is_refused(tmp_path, name, value):
    model, path = SGDClassifier("log_loss", max_iter=2, tol=None).fit(X, Y), tmp_path / "model.json"
    LinearModel.of(model).save(path)
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {name: value}))
    with pytest.raises(ValueError, match=rf"{name} has 1e\+30\d, with which predictions"):
        LinearModel.load(path)


def test_the_command_names_the_row_that_has_no_finite_prediction(tmp_path):
    pytest.importorskip("typer")
    from test_cli import run

    model, path = SGDClassifier("log_loss", max_iter=2, tol=None).fit(X, Y), tmp_path / "model.json"
    model.coef_ = np.full((1, 3), 1e200)
    LinearModel.of(model).save(path)
    np.savez(tmp_path / "rows.npz", X=np.array([[1.0, 0, 0], [1e200, 0, 0]]), y=[0, 1])
    _, error = run("predict", path, tmp_path / "rows.npz", code=1)
    assert "row 1 has no finite prediction" in " ".join(error.split())


@pytest.mark.parametrize("call", [descend, pair, lambda rows, _y: pair_rows(rows)])
@pytest.mark.parametrize(
    "entry",
    ["a", b"x", 1j, {}, [1.0]],
    ids=["word", "bytes", "complex", "dict", "list"],
)
def test_an_entry_that_is_not_a_number_is_named(call, entry):
    rows = X.astype(object)
    rows[4, 2] = entry
    with pytest.raises(ValueError, match=r"must be real numbers; row 4 has .* in column 2"):
        call(rows, Y)


def test_words_as_targets_are_numbers_or_refused():
    """A column of a text file may hold its numbers as words."""
    model = SGDRegressor("poisson", max_iter=2, tol=None, random_state=0)
    words = model.fit(X, (Y + 1.0).astype(str)).coef_
    np.testing.assert_array_equal(words, model.fit(X, Y + 1.0).coef_)
    with pytest.raises(ValueError, match="y must be real numbers"):
        model.fit(X, np.where(Y > 0, "many", "few"))


def test_labels_of_another_kind_than_the_classes_are_refused():
    with pytest.raises(ValueError, match="labels of a different type than the classes"):
        SGDClassifier().partial_fit(X, np.where(Y > 0, "a", "b").astype(object), classes=[0, 1])


@pytest.mark.parametrize("labels", [Y, np.arange(60) % 3], ids=["two classes", "three"])
@pytest.mark.parametrize("make", [LogisticRegression, lambda: LogisticRegressionCV(Cs=[1.0], cv=2)])
def test_one_weight_may_stand_for_all_rows(make, labels):
    """A number as the sample weight is that of every row."""
    one, all_rows = make(), make()
    one.fit(X, labels, sample_weight=2.0)
    all_rows.fit(X, labels, sample_weight=np.full(60, 2.0))
    np.testing.assert_array_equal(one.coef_, all_rows.coef_)


def test_weights_that_leave_a_class_or_a_fold_with_nothing_are_refused():
    with pytest.raises(ValueError, match=r"with a positive weight; class .*0.* has none"):
        LogisticRegression(class_weight="balanced").fit(X, Y, sample_weight=Y.astype(float))
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(60), np.arange(30))]
    weight = (np.arange(60) < 30).astype(float)
    with pytest.raises(ValueError, match="zero for all 30 rows of a fold"):
        LogisticRegressionCV(Cs=[1.0], cv=folds).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("labels", [Y, np.arange(60) % 3], ids=["two classes", "three"])
@pytest.mark.parametrize("method", ["optimal", "greedy", "tree"])
def test_weights_beyond_float32_pair_its_rows(method, labels):
    """Weights count by their ratios, so that those of 1e125 pair rows like those of 1."""
    weight = RNG.random(60)
    rows = X.astype(np.float32)
    small = pair(rows, labels, method, sample_weight=weight)
    large = pair(rows, labels, method, sample_weight=weight * 2.0**415)
    assert small.partner.tolist() == large.partner.tolist()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("order", ["uniform", "shuffle", "importance", "stratified"])
def test_a_variance_that_overflows_is_refused(order, make):
    """No infinite or undefined variance is returned, and no warning of NumPy is seen."""
    with pytest.raises(ValueError, match="the variance overflows"):
        gradient_variance(make(X), Y, [1e200] * 3, loss="squared_error", order=order)


def test_gradients_that_overflow_are_not_paired():
    with pytest.raises(ValueError, match="the gradient of row 0 overflows"):
        pair(X, Y + 1.0, loss="poisson", coef=[1e5, 0.0, 0.0], intercept=1e5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fitted", [SGDClassifier, LogisticRegression, SGDRegressor])
def test_rows_whose_sum_overflows_are_predicted(fitted):
    """Without a warning of NumPy: each entry is finite."""
    predictions = (
        fitted(max_iter=100).fit(X, Y).predict([[1e308, -1e308, 1e308], [-1e308, -1e308, 1e308]])
    )
    assert predictions.shape == (2,)


def test_a_prediction_that_is_undefined_is_refused():
    """Infinity less infinity has no sign: no class may be read from it."""
    with predicting(X) as checked:
        assert checked(np.array([1.0, np.inf])).tolist() == [1.0, np.inf]
        with pytest.raises(ValueError, match="the prediction of row 1 overflows"):
            checked(np.array([[1.0, 2.0], [1.0, np.nan]]))


def test_whole_numbers_are_strengths_of_a_penalty():
    whole, broken = (
        solve(X, Y, loss="log_loss", l1=l1, l2=l2).coef for l1, l2 in ((1, 2), (1.0, 2.0))
    )
    np.testing.assert_array_equal(whole, broken)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_counts_that_are_all_zero_are_fitted(loss):
    """If all counts are zero, as in a fold of rare events, predictions fall towards zero."""
    model = SGDRegressor(loss, max_iter=20, tol=None, random_state=0).fit(X, np.zeros(60))
    assert (model.predict(X) < 0.5).all()


@pytest.mark.parametrize("loss", ["squared_error", "squared_epsilon_insensitive"])
def test_weights_whose_gradients_overflow_are_refused(loss):
    weight = np.where(np.arange(60) == 2, 1e308, 1.0)
    with pytest.raises(ValueError, match=r"(weights|features) are too large"):
        SGDRegressor(loss).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("train", [SGDRegressor.fit, SGDRegressor.partial_fit])
def test_an_intercept_beyond_the_rows_float_type_is_refused(train):
    """Targets of 1e200 do not end as an infinite intercept of float32 rows."""
    targets, given = np.full(60, 1e200), {"learning_rate": "constant", "eta0": 0.1, "tol": None}
    with pytest.raises(ValueError, match=r"1e.200, is too large for float32.*pass X as float64"):
        train(SGDRegressor("quantile", **given), X.astype(np.float32), targets)
    assert np.isfinite(SGDRegressor("quantile", **given).fit(X, targets).intercept_).all()


@pytest.mark.parametrize("loss", ["quantile", "huber"])
def test_weights_too_small_to_be_multiplied_cause_no_division_by_zero(loss):
    """Denormal sample weights times a flat loss are a curvature of zero; the fit stays finite."""
    targets, weights = X[:, 0] * 1e150, np.full(60, 5e-324)
    model = SGDRegressor(loss, max_iter=3, tol=None).fit(X, targets, sample_weight=weights)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()


@pytest.mark.filterwarnings("ignore:X has feature names")  # models here are fitted on arrays
@pytest.mark.parametrize("call", [*CALLS[:4], *PREDICTIONS])
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("Rome", "row 7 has 'Rome' in column 'seen'; turn words into numbers"),
        (np.nan, "row 7 has nan in column 'seen'; remove such rows, or fill in"),
        (np.inf, "row 7 has inf in column 'seen'; remove such rows"),
    ],
)
def test_the_column_of_a_word_or_missing_value_is_named(call, entry, said):
    """The message of scikit-learn stays, and the place and the remedy follow it."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "seen": X[:, 1], "b": X[:, 2]}, dtype=object)
    frame.loc[7, "seen"] = entry
    with pytest.raises(ValueError, match=f"(string to float|Input X contains)[^$]*{said}"):
        call(frame, Y)


@pytest.mark.parametrize("fit", [SGDClassifier().fit, LogisticRegression().fit])
def test_the_column_of_a_missing_value_of_pandas_is_named(fit):
    """Columns of its nullable types hold a value that cannot be converted to a float."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "seen": pd.array(X[:, 1], dtype="Float64")})
    frame.loc[7, "seen"] = pd.NA
    with pytest.raises(ValueError, match=r"Input X contains NaN[^$]*row 7 has '<NA>' in .*'seen'"):
        fit(frame, Y)


def test_a_word_among_the_targets_is_not_looked_for_in_the_rows():
    targets = X[:, 0].astype(object)
    targets[7] = "Rome"
    with pytest.raises(ValueError, match=r"could not convert string to float: 'Rome'$"):
        SGDRegressor().fit(X, targets)


def test_a_misspelt_loss_is_met_with_the_right_name():
    """The name that earlier versions of scikit-learn used leads to the one that it has now."""
    for call in (lambda: SGDClassifier("log").fit(X, Y), lambda: minimize(X, Y, loss="log")):
        with pytest.raises(ValueError, match="did you mean 'log_loss'"):
            call()
    with pytest.raises(ValueError, match=r"among \{[^?]*\}\. Got 'nothing like it' instead\.$"):
        SGDClassifier("nothing like it").fit(X, Y)


@pytest.mark.parametrize("name", ["alpha", "epsilon", "eta0"])
def test_a_parameter_beyond_float64_is_refused(name):
    """Whole numbers of Python may be larger than any float."""
    with pytest.raises(ValueError, match=f"'{name}' parameter .*at most 1.8e\\+308"):
        SGDRegressor(**{name: 10**400}).fit(X, X[:, 0])
