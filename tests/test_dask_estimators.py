"""What estimators on Dask share: lazy predictions, clear refusals, clones and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da
from dask_cases import cluster, in_blocks, labelled

import antithetic
from antithetic.dask import LogisticRegression, Ridge

X, Y = labelled(600)


@pytest.fixture(scope="module")
def client():
    with cluster(processes=False) as one:
        yield one


def test_predictions_are_lazy_on_collections_and_arrays_on_arrays(client):
    """Predictions are lazy for collections and arrays for arrays, with equal values."""
    rows, labels = in_blocks(X, Y, [300] * 2)
    model = LogisticRegression(client=client).fit(rows, labels)
    local = model.to_local()
    assert type(local) is antithetic.LogisticRegression
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        lazy = getattr(model, method)(rows)
        assert isinstance(lazy, da.Array)
        computed = lazy.compute(scheduler="sync")
        assert (lazy.shape, lazy.dtype) == (computed.shape, computed.dtype)
        np.testing.assert_array_equal(computed, getattr(local, method)(X))
        np.testing.assert_array_equal(getattr(model, method)(X), computed)
    weight = np.linspace(0.0, 1.0, 600)
    assert model.score(rows, labels, da.from_array(weight, chunks=300)) == pytest.approx(
        local.score(X, Y, weight)
    )


def test_a_failed_fit_leaves_the_model_as_it_was(client):
    """A failed fit leaves the model unchanged and names the block."""
    data = in_blocks(X, Y, [150] * 4)
    model = LogisticRegression(client=client).fit(*data)
    before = model.coef_.copy()
    rows = X.copy()
    rows[200, 0] = np.nan
    with pytest.raises(ValueError, match="block 1 of X has NaN or infinity, first in row 50"):
        model.fit(*in_blocks(rows, Y, [150] * 4))
    np.testing.assert_array_equal(model.coef_, before)


REFUSED = {
    "client": ({"client": 3}, "client must be"),
    "C": ({"C": -1.0}, "'C' parameter of LogisticRegression must be"),
    "solver": ({"solver": "sgd"}, "'solver' parameter of LogisticRegression must be"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=list(REFUSED))
def test_bad_parameters_are_refused(client, change, message):
    with pytest.raises(ValueError, match=message):
        LogisticRegression(**{"client": client} | change).fit(*in_blocks(X, Y, [300, 300]))


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (X, np.zeros(600), "number of classes has to be greater than one"),
        (X[:0], Y[:0], "all its blocks are empty"),
        (X, X[:, 0], "Unknown label type"),
    ],
    ids=["one class", "no rows", "continuous"],
)
def test_bad_data_are_refused(client, rows, labels, message):
    """Bad data are refused in a sentence."""
    with pytest.raises(ValueError, match=message):
        LogisticRegression(client=client).fit(*in_blocks(rows, labels, [len(rows)]))


def test_features_must_agree(client):
    """All blocks must have the same features."""
    import dask

    rows = [dask.delayed(X[:300]), dask.delayed(X[300:, :4])]
    with pytest.raises(ValueError, match="features: block 0 has 5, and block 1 has 4"):
        LogisticRegression(client=client).fit(rows, [dask.delayed(Y[:300]), dask.delayed(Y[300:])])
    with pytest.raises(ValueError, match="weight"):
        LogisticRegression(client=client).fit(*in_blocks(X, Y, [600]), sample_weight=np.zeros(600))


def test_they_are_estimators(client):
    """A client is neither copied nor written; a model without a fit does not predict."""
    model = LogisticRegression(C=2.0, client=client)
    again = clone(model)
    assert again.client is client
    assert again.get_params() == model.get_params()
    assert "C=2.0" in repr(model)
    assert isinstance(model, ClassifierMixin)
    assert is_classifier(model)
    assert isinstance(Ridge(), RegressorMixin)
    assert is_regressor(Ridge())
    assert model.__sklearn_tags__().input_tags.sparse
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(*in_blocks(X, Y, [300, 300]))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_import_antithetic_is_free_of_dask():
    """antithetic does not import Dask, and antithetic.dask does not import scikit-learn."""
    from test_package import run_python

    asked = "[name for name in ('dask', 'sklearn', 'pandas') if name in sys.modules]"
    code = (
        f"import sys, antithetic; print({asked}); import antithetic.dask.questions,"
        f" antithetic.dask.scan, antithetic.dask.predict; print({asked})"
    )
    assert run_python(code, PYTHONWARNINGS="").split("\n")[:2] == ["[]", "['dask']"]


def test_the_user_is_warned_of_workers_that_cannot_work(client, monkeypatch):
    """If all workers have paused, a warning says what to do."""
    from distributed.core import Status

    from antithetic.dask import cluster as where

    def become(status):
        def change(dask_worker):
            dask_worker.status = status

        return change

    monkeypatch.setattr(where, "_SECONDS_BETWEEN_QUESTIONS", 0.05)
    monkeypatch.setattr(where, "_SECONDS_OF_SILENCE", 0.1)
    client.run(become(Status.paused))
    try:
        with pytest.raises(
            RuntimeWarning, match="all workers have paused because their memory is full"
        ):
            LogisticRegression(client=client).fit(*in_blocks(X, Y, [300] * 2))
    finally:
        client.run(become(Status.running))
    assert LogisticRegression(client=client).fit(*in_blocks(X, Y, [300] * 2)).gap_certified_


def test_columns_must_be_those_of_the_fit(client):
    """Columns must be in the order of the fit, which is checked before computing."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(
        pd.DataFrame(X, columns=list("abcde")).assign(label=Y, weight=1.0 + Y), npartitions=2
    )
    rows, labels = frame[list("abcde")], frame["label"]
    model = LogisticRegression(client=client).fit(rows, labels, sample_weight=frame["weight"])
    array = LogisticRegression(client=client).fit(
        *in_blocks(X, Y, [300] * 2), sample_weight=1.0 + Y
    )
    np.testing.assert_array_equal(model.coef_, array.coef_)
    for use in (model.predict, model.predict_proba, lambda given: model.score(given, labels)):
        with pytest.raises(ValueError, match="in this order"):
            use(frame[list("edcba")])
    with pytest.raises(
        ValueError, match=r"block \d of X has 4 features, and the model was fitted on 5"
    ):
        model.score(da.from_array(X[:, :4], chunks=(300, -1)), Y)


def test_fit_changes_no_parameter(client):
    """After a fit, and after one that fails, parameters are the objects that were given."""
    spoilt = X.copy()
    spoilt[3, 0] = np.nan
    balanced = "".join(["bal", "anced"])  # equal to the word, but another object
    state = np.random.RandomState(0)
    models = [
        LogisticRegression(class_weight=chosen, random_state=state, client=client)
        for chosen in (balanced, {0: 1.0, 1: 2.0}, None)
    ]
    for model in (*models, Ridge(random_state=state, client=client)):
        before = model.get_params(deep=False)
        model.fit(*in_blocks(X, Y, [300] * 2))
        with pytest.raises(ValueError, match="NaN"):
            model.fit(*in_blocks(spoilt, Y, [300] * 2))
        after = model.get_params(deep=False)
        assert set(after) == set(before)
        assert all(after[name] is before[name] for name in before)
