"""Model files: every bit comes back, and nothing but a model gets in."""

from __future__ import annotations

import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from solver_cases import Box

import antithetic
from antithetic.estimators import model_file
from antithetic.estimators.model_columns import feature_keys
from antithetic.estimators.model_file import FORMAT, LinearModel, is_model_file
from antithetic.orders import Balanced, Given, Importance, Pairs, Shuffle, Stratified, Uniform
from antithetic.penalties import GroupLasso

pytestmark = pytest.mark.lowest

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)
WEIGHTS = st.floats(-1e300, 1e300, width=64)


def binary(**changed):
    return LinearModel(
        **{
            "kind": "classifier",
            "loss": "log_loss",
            "coef": [[0.1, -2.5]],
            "intercept": [0.3],
            "classes": ["ill", "well"],
            "feature_names": ["a", "b"],
            **changed,
        }
    )


@given(hnp.arrays(np.float64, (1, 3), elements=WEIGHTS), WEIGHTS)
def test_every_bit_of_a_weight_comes_back(tmp_path_factory, coef, intercept):
    path = tmp_path_factory.mktemp("model") / "model.json"
    LinearModel("regressor", "squared_error", coef, [intercept], None, None).save(path)
    again = LinearModel.load(path)
    assert again.coef.tobytes() == coef.tobytes()
    assert again.intercept.tobytes() == np.array([intercept]).tobytes()


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "modified_huber"])
@pytest.mark.parametrize("labels", [[-1.0, 1.0], ["a", "b"], ["a", "b", "c"], [0.0, 1.0, 2.0, 5.0]])
def test_predictions_are_those_of_the_estimator(tmp_path, loss, labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.array(labels)[np.arange(60) % len(labels)]
    estimator = antithetic.SGDClassifier(loss=loss, max_iter=3, tol=None, random_state=0).fit(X, y)
    LinearModel.of(estimator).save(tmp_path / "model.json")
    again = LinearModel.load(tmp_path / "model.json").estimator()
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(again.decision_function(X), estimator.decision_function(X))
    assert hasattr(again, "predict_proba") == hasattr(estimator, "predict_proba")
    if loss != "hinge":
        np.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))


TABLE = antithetic.AntitheticTable([1, 0, 3, 2], method="greedy")
ORDERS = [
    "shuffle",
    Balanced(),
    Uniform(pairs="greedy"),
    Shuffle(pairs=Pairs("tree", nest=8, refresh=[1, 2])),
    Shuffle(pairs=TABLE),
    Balanced(pairs=antithetic.GroupTable([3, 1, 0, 2], 2)),
    Importance(by=[0.5, 1.0, 2.0, 4.0]),
    Stratified(strata=["a", "b", "a", "b"], allocation="optimal"),
]


@pytest.mark.parametrize("order", ORDERS, ids=repr)
def test_orders_are_restored_from_a_file(tmp_path, order):
    """An estimator that was saved has the order that it was made with, tables included."""
    model = antithetic.SGDClassifier(order=order)
    model.coef_, model.intercept_ = np.array([[1.0, 2.0]]), np.array([0.5])
    model.classes_ = np.array(["a", "b"])
    LinearModel.of(model).save(tmp_path / "model.json")
    again = LinearModel.load(tmp_path / "model.json").estimator()
    assert again.order == order
    assert again.get_params() == model.get_params()


def test_a_table_keeps_its_fingerprint_in_a_file(tmp_path):
    """A table inside an order is still refused for other data after it was saved."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    order = Shuffle(pairs=antithetic.pair(X, y))
    model = antithetic.SGDClassifier(order=order, max_iter=3, tol=None).fit(X, y)
    LinearModel.of(model).save(tmp_path / "model.json")
    again = LinearModel.load(tmp_path / "model.json").estimator()
    again.fit(X, y)
    with pytest.raises(ValueError, match="other values of X"):
        again.fit(2.0 * X, y)


def test_parameters_are_restored_from_a_file(tmp_path):
    """All parameters come back, except a random state that is not a number."""
    given = {
        "alpha": 0.5,
        "penalty": GroupLasso([0, 0, 1]),
        "class_weight": {"a": 2.0, "b": 1.0},
        "trace": ["gradient", antithetic.Distance([0.0, 1.0, 2.0])],
        "tol": None,
        "average": 10,
        "random_state": 3,
    }
    model = antithetic.SGDClassifier("log_loss", **given)
    model.coef_, model.intercept_ = np.array([[1.0, 2.0, 3.0]]), np.array([0.5])
    model.classes_ = np.array(["a", "b"])
    LinearModel.of(model).save(tmp_path / "model.json")
    again = LinearModel.load(tmp_path / "model.json").estimator()
    assert again.get_params() == model.get_params()
    model.random_state = np.random.RandomState(0)
    assert LinearModel.of(model).estimator().random_state is None


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"order": Given(lambda epoch: [epoch])}, r"set_params\(order='auto'\)"),
        ({"order": Shuffle(pairs=lambda rows: rows)}, r"set_params\(order='auto'\)"),
        ({"penalty": Box()}, r"set_params\(penalty='l2'\)"),
    ],
    ids=["Given", "pairs", "penalty"],
)
def test_code_of_the_users_is_not_saved(given, advice):
    """A file holds no functions: the error says what to set before saving."""
    model = antithetic.SGDClassifier(**given)
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.5])
    model.classes_ = np.array(["a", "b"])
    with pytest.raises(ValueError, match=f"your own code.*{advice}"):
        LinearModel.of(model)


def test_a_regressor(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    estimator = antithetic.SGDRegressor(max_iter=3, tol=None, random_state=0).fit(X, y)
    LinearModel.of(estimator).save(tmp_path / "model.json")
    np.testing.assert_array_equal(
        LinearModel.load(tmp_path / "model.json").estimator().predict(X), estimator.predict(X)
    )


def test_everything_besides_the_weights_is_restored(tmp_path):
    binary(target_name="health", one_hot=True, settings={"alpha": 1e-4, "penalty": None}).save(
        tmp_path / "model.json"
    )
    again = LinearModel.load(tmp_path / "model.json")
    assert (again.target_name, again.one_hot, again.feature_names) == ("health", True, ["a", "b"])
    assert again.settings == {"alpha": 1e-4, "penalty": None}
    assert os.stat(tmp_path / "model.json").st_mode & 0o777 == 0o666 & ~umask()


def test_words_and_the_first_index_are_restored(tmp_path):
    binary(feature_names=["a=b=c", "d"], one_hot=True, words={"a=b": ["c"]}, first_index=0).save(
        tmp_path / "model.json"
    )
    again = LinearModel.load(tmp_path / "model.json")
    assert (again.words, again.first_index) == ({"a=b": ["c"]}, 0)
    assert feature_keys(again) == [("a=b", "c"), ("d", None)]
    # The meaning in older files.
    assert feature_keys(binary(feature_names=["a=b=c", "d"], one_hot=True)) == [
        ("a", "b=c"),
        ("d", None),
    ]


def test_it_is_known_what_a_model_file_is(tmp_path):
    binary().save(tmp_path / "model.json")
    (tmp_path / "other.json").write_text("{}")
    assert is_model_file(tmp_path / "model.json")
    assert not is_model_file(tmp_path / "other.json")


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def held(tmp_path):
    binary().save(tmp_path / "good.json")
    return json.loads((tmp_path / "good.json").read_text())


WRONG = [
    ({"format": "something else"}, "format"),
    ({"version": 3}, "install a newer antithetic"),
    ({"version": 1}, "train the model again"),
    ({"version": True}, "version"),
    ({"version": "1"}, "version"),
    ({"kind": "os.system"}, "kind"),
    ({"loss": "__import__"}, "loss"),
    ({"loss": ["log_loss"]}, "loss"),
    ({"coef": [[1.0], [2.0, 3.0]]}, "coef"),
    ({"coef": [[1.0, "2"]]}, "coef"),
    ({"coef": [[True, False]]}, "coef"),
    ({"coef": []}, "coef"),
    ({"coef": [[]]}, "coef"),
    ({"coef": {"a": 1}}, "coef"),
    ({"coef": [[1.0, None]]}, "coef"),
    ({"intercept": [1.0, 2.0]}, "intercept"),
    ({"intercept": 1.0}, "intercept"),
    ({"classes": ["a"]}, "classes"),
    ({"classes": ["b", "a"]}, "classes"),
    ({"classes": ["a", "a"]}, "classes"),
    ({"classes": ["a", 1]}, "classes"),
    ({"classes": ["a", "b", "c"]}, "classes"),
    ({"classes": None}, "classes"),
    ({"feature_names": ["a"]}, "feature_names"),
    ({"feature_names": ["a", "a"]}, "twice"),
    ({"feature_names": [1, 2]}, "feature_names"),
    ({"feature_names": "ab"}, "feature_names"),
    ({"settings": []}, "settings"),
    ({"parameters": []}, "parameters"),
    ({"parameters": {"alpha": -1.0}}, "alpha"),
    ({"parameters": {"epsilon": 10**400}}, "epsilon.*at most 1.8e"),
    ({"parameters": {"penalty": {"class": "os.system"}}}, "os.system"),
    ({"parameters": {"order": {"class": "Given", "function": "print"}}}, "Given"),
    ({"parameters": {"order": {"class": "Shuffle", "pairs": "best"}}}, "best"),
    ({"parameters": {"order": {"class": ["Shuffle"]}}}, "not known"),
    ({"parameters": {"order": {"class": "Shuffle", "size": 2}}}, "size"),
    ({"parameters": {"order": {"class": "array", "kind": "O", "entries": []}}}, "damaged"),
    ({"parameters": {"order": {"class": "dict"}}}, "damaged"),
    ({"parameters": {"window": 3}}, "window"),
    ({"one_hot": 1}, "one_hot"),
    ({"words": []}, "words"),
    ({"words": {"a": "b"}}, "words"),
    ({"words": {"a": []}}, "words"),
    ({"words": {"a": [1]}}, "words"),
    ({"words": {"a": ["not a feature"]}}, "words"),
    ({"first_index": 2}, "first_index"),
    ({"first_index": True}, "first_index"),
    ({"first_index": [0]}, "first_index"),
]


def test_a_pipeline_is_refused_with_advice():
    """Only an estimator can be saved as JSON; the message says what to do with a pipeline."""
    from sklearn.pipeline import make_pipeline

    with pytest.raises(ValueError, match=r"got sklearn\.pipeline\.Pipeline; pass its last step"):
        LinearModel.of(make_pipeline(antithetic.SGDClassifier()))


@pytest.mark.parametrize(("changed", "said"), WRONG)
def test_what_is_not_a_model_is_refused(tmp_path, changed, said):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(held(tmp_path) | changed))
    with pytest.raises(ValueError, match=said) as error:
        LinearModel.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b"not json",
        b"\x80\x04\x95pickle",
        b"[" * 100_000,
        b'{"format": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"format": ' + b"9" * 10_000 + b"}",
        json.dumps({"format": FORMAT, "version": 2}).encode(),
    ],
    ids=str,
)
def test_bytes_of_a_stranger_give_one_sentence(tmp_path, content):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ValueError, match="not a model file, or it is damaged"):
        LinearModel.load(tmp_path / "bad.json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_weights_are_finite(tmp_path, number):
    (tmp_path / "bad.json").write_text(json.dumps(held(tmp_path)).replace("-2.5", number))
    with pytest.raises(ValueError, match="damaged"):
        LinearModel.load(tmp_path / "bad.json")


@pytest.mark.parametrize("ending", [".pkl", ".joblib", ".PICKLE", ".npz"])
def test_a_model_is_not_named_like_a_file_of_another_format(tmp_path, ending):
    """A file called model.pkl that holds JSON would fail in the program that opens it."""
    model = binary()
    with pytest.raises(ValueError, match=r"saved as JSON, not as .*ends in \.json"):
        model.save(tmp_path / f"model{ending}")
    assert not (tmp_path / f"model{ending}").exists()


def test_every_cut_is_noticed(tmp_path):
    content = json.dumps(held(tmp_path)).encode()
    for end in range(0, len(content) - 1, 7):
        (tmp_path / "cut.json").write_bytes(content[:end])
        with pytest.raises(ValueError, match="damaged"):
            LinearModel.load(tmp_path / "cut.json")


def test_a_huge_file_is_not_read(tmp_path):
    binary().save(tmp_path / "model.json")
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        LinearModel.load(tmp_path / "model.json", max_bytes=100)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    binary().save(path)
    before = path.read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        binary(coef=[[5.0, 6.0]]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.json"]
