"""Rows to predict, read from other files by the model itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from antithetic import LinearModel, LogisticRegression, SGDClassifier
from antithetic.datasets import read_file

TRAINING = """city,age,bought
Berlin,31,yes
Paris,45,no
Berlin,62,yes
Rome,28,no
Paris,39,yes
Rome,51,no
"""


def trained(folder, text=TRAINING, **options):
    """A model of a file, saved and loaded again, and the data that it was fitted to."""
    path = folder / "training.csv"
    path.write_text(text)
    data = read_file(path, **options)
    model = LogisticRegression().fit(data.data, data.target)
    LinearModel.of(model, data).save(folder / "model.json")
    return LinearModel.load(folder / "model.json"), data


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def test_columns_are_found_by_name_in_any_order_and_without_labels(tmp_path):
    model, data = trained(tmp_path, one_hot=True)
    (tmp_path / "new.csv").write_text("note,age,city\nx,62,Berlin\ny,28,Rome\n")
    np.testing.assert_array_equal(dense(model.read(tmp_path / "new.csv")), dense(data.data)[[2, 3]])
    np.testing.assert_array_equal(dense(model.read(tmp_path / "training.csv")), dense(data.data))
    assert model.target_name == "bought"


def test_words_keep_the_features_of_the_training(tmp_path):
    """Other words than those of the training do not shift the columns."""
    model, data = trained(tmp_path, one_hot=True)
    (tmp_path / "new.csv").write_text("city,age\nZagreb,62\nRome,28\n")
    with pytest.warns(UserWarning, match="new.csv: city=Zagreb was not seen in training"):
        X = dense(model.read(tmp_path / "new.csv"))
    places = [data.feature_names.index(f"city={name}") for name in ("Berlin", "Paris", "Rome")]
    np.testing.assert_array_equal(X[:, places], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def test_columns_and_words_may_hold_equals_signs(tmp_path):
    model, data = trained(
        tmp_path, TRAINING.replace("city", "a=b").replace("Rome", "c=d"), one_hot=True
    )
    assert data.words == {"a=b": ["Berlin", "Paris", "c=d"]}
    assert model.words == data.words
    np.testing.assert_array_equal(dense(model.read(tmp_path / "training.csv")), dense(data.data))


def test_dates_and_decimal_commas_are_read_as_in_training(tmp_path):
    text = "day;size;y\n1970-01-02;1,5;0\n1970-01-03;2,5;1\n1970-01-05;0,5;1\n"
    model, data = trained(tmp_path, text, dates=True, decimal=",")
    assert model.dates == ["day"]
    (tmp_path / "new.csv").write_text("size;day\n2,5;1970-01-03\n")
    X = model.read(tmp_path / "new.csv", decimal=",")
    np.testing.assert_array_equal(dense(X), dense(data.data)[[1]])
    with pytest.raises(ValueError, match="pass decimal=',' if they are numbers"):
        model.read(tmp_path / "new.csv")


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_features_begin_where_those_of_the_training_do(tmp_path, first):
    lines = [f"{y} {first}:{y + 0.5} {first + 1}:2.5 {first + 2}:{0.5 - y}" for y in (0, 1, 0, 1)]
    path = tmp_path / "rows.svm"
    path.write_text("\n".join(lines) + "\n")
    data = read_file(path)
    assert data.first_index == first
    model = LinearModel.of(LogisticRegression().fit(data.data, data.target), data)
    (tmp_path / "new.svm").write_text("0 1:7\n")
    expected = np.zeros((1, 3))
    expected[0, 1 - first] = 7.0
    np.testing.assert_array_equal(dense(model.read(tmp_path / "new.svm")), expected)


def test_a_missing_column_is_named_next_to_those_of_the_file(tmp_path):
    model, _ = trained(tmp_path, one_hot=True)
    (tmp_path / "new.csv").write_text("city,size\nRome,1\nParis,2\n")
    with pytest.raises(ValueError, match=r"lacks a feature .* on: 'age'; it has 'city', 'size'$"):
        model.read(tmp_path / "new.csv")
    (tmp_path / "new.csv").write_text("size,weight\n1,2\n")
    with pytest.raises(
        ValueError, match=r"lacks features .* 'city=Berlin', .* 'age'; it has 'size'"
    ):
        model.read(tmp_path / "new.csv")


def test_names_of_words_alone_lead_to_the_data(tmp_path):
    """A model that knows its features, but not that they come from words, says how to save it."""
    _, data = trained(tmp_path, one_hot=True)
    fitted = LogisticRegression().fit(data.data, data.target)
    model = LinearModel.of(fitted, feature_names=data.feature_names)
    with pytest.raises(ValueError, match=r"save the model with LinearModel.of\(model, data\)"):
        model.read(tmp_path / "training.csv")
    with pytest.raises(ValueError, match=r"without the names .* LinearModel.of\(model, data\)"):
        LinearModel.of(fitted).read(tmp_path / "training.csv")


@pytest.mark.parametrize("data", [np.zeros((6, 2)), {"data": 1}, "training.csv"])
def test_only_what_was_read_from_a_file_describes_columns(data):
    fitted = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"data must be what antithetic\.datasets\.read_file"):
        LinearModel.of(fitted, data)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), SGDClassifier("log_loss", alpha=0.1, random_state=0)]
)
def test_columns_of_a_data_frame_are_still_checked_after_loading(tmp_path, estimator):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(50, 2)), columns=["age", "income"])
    fitted = clone(estimator).fit(frame, frame["age"] > frame["income"])
    LinearModel.of(fitted).save(tmp_path / "model.json")
    again = LinearModel.load(tmp_path / "model.json").estimator()
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))  # without a warning
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[["income", "age"]])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = LinearModel.load(tmp_path / "model.json")
    rows = model.read(tmp_path / "rows.csv")
    np.testing.assert_allclose(rows, frame.to_numpy())
    found = model.estimator(check_names=False).predict(rows)  # without a warning too
    np.testing.assert_array_equal(found, fitted.predict(frame))


def test_names_that_are_given_replace_those_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0.0, 1.0], [1.0, 0.0]], columns=["a", "b"])
    fitted = LogisticRegression().fit(frame, [0, 1])
    for names in (None, ["c", "d"]):
        model = LinearModel.of(fitted, feature_names=names)
        assert model.feature_names == names
        assert not hasattr(model.estimator(), "feature_names_in_")


def test_data_must_have_the_features_of_the_model(tmp_path):
    """Otherwise other columns would be read later on."""
    _, data = trained(tmp_path, one_hot=True)
    fitted = LogisticRegression().fit(data.data[:, 1:], data.target)
    with pytest.raises(ValueError, match="data has 4 features, but the model was fitted on 3"):
        LinearModel.of(fitted, data)


def test_a_header_of_numbers_is_read_as_in_training(tmp_path):
    model, data = trained(tmp_path, "2019,2020,y\n1,5,0\n2,3,1\n4,1,1\n", header=True)
    np.testing.assert_array_equal(model.read(tmp_path / "training.csv", header=True), data.data)


def test_names_given_for_arrays_are_not_checked():
    """An estimator that was fitted on arrays predicts arrays without a warning."""
    fitted = LogisticRegression().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    again = LinearModel.of(fitted, feature_names=["a", "b"]).estimator()
    assert not hasattr(again, "feature_names_in_")
    assert again.predict([[0.0, 1.0]]).tolist() == [0]


@pytest.mark.parametrize("changed", [{"checks_names": 1}, {"checks_names": True}])
def test_checks_of_names_need_names(changed):
    with pytest.raises(ValueError, match="checks_names"):
        LinearModel("regressor", "squared_error", [[1.0]], [0.0], None, None, **changed)
