"""The estimators in context: data formats, tables, callbacks, serialisation, scikit-learn tools."""

from __future__ import annotations

import pickle
import tracemalloc

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import sklearn.linear_model as theirs
import skops.io
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from test_sgd_estimators import BOTH, FEW, NUMBERS, THREE, TWO, WEIGHTS, X, target_of

from antithetic import AntitheticTable, SGDClassifier, SGDRegressor, pair
from antithetic.orders import Balanced, Shuffle, Uniform
from antithetic.problem.losses import LOSSES
from antithetic.stochastic import sgd

# Few rows and a weak penalty: that a fit says so is tested in test_units.py.
pytestmark = pytest.mark.filterwarnings("ignore:tol=")

FEW = FEW | {"random_state": 0}
# The weights stay near zero.
TRACED = FEW | {
    "loss": "squared_error",
    "order": "uniform",
    "trace": "variance_ratio",
    "eta0": 1e-6,
}
THIN = np.where(np.random.default_rng(2).random(X.shape) < 0.5, X, 0.0)
TARGETS = pytest.mark.parametrize("y", [TWO, THREE, NUMBERS], ids=["two", "three", "numbers"])


def kind_for(y):
    return SGDRegressor if y is NUMBERS else SGDClassifier


def wide_indices(X):
    rows = sparse.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return rows


def unsorted_and_repeated(X):
    """Each entry as two halves, the columns from right to left."""
    n, d = X.shape
    halves = np.repeat(X[:, ::-1] / 2.0, 2, axis=1)
    return sparse.csr_array(
        (
            halves.ravel(),
            np.tile(np.repeat(np.arange(d)[::-1], 2), n),
            np.arange(0, 2 * n * d + 1, 2 * d),
        ),
        shape=(n, d),
    )


# ---- forms of rows


@TARGETS
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"average": True},
        {"penalty": "l1", "alpha": 0.01},
        {"order": Balanced(pairs="greedy")},
        {"early_stopping": True},
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        sparse.csr_matrix,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
        wide_indices,
        unsorted_and_repeated,
    ],
)
def test_sparse_rows_give_the_model_of_dense_ones(y, given, form):
    """Sparse rows give the model of dense ones to 1e-10, and the input is not written to.

    That is with given steps: automatic ones need not be the same on sparse rows.
    """
    given = {"learning_rate": "inverse_time", "eta0": 0.05} | given
    dense = kind_for(y)(random_state=0, **given).fit(THIN, y, sample_weight=WEIGHTS)
    rows = form(THIN)
    before = rows.copy()
    model = kind_for(y)(random_state=0, **given).fit(rows, y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, dense.intercept_, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(rows.data, before.data)
    if hasattr(rows, "indices"):
        np.testing.assert_array_equal(rows.indices, before.indices)
        assert rows.indices.dtype == before.indices.dtype
    np.testing.assert_allclose(model.predict(form(THIN)), dense.predict(THIN), rtol=1e-9)


@TARGETS
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("average", [False, True])
def test_single_precision_stays_and_agrees_with_double(y, form, average):
    """coef_ and intercept_ are float32, near those of float64; integers are float64."""
    kind = kind_for(y)
    double, single, whole = (
        kind(average=average, **FEW).fit(form(THIN.astype(dtype)), y)
        for dtype in (np.float64, np.float32, np.int64)
    )
    assert {array.dtype for array in (single.coef_, single.intercept_)} == {np.dtype(np.float32)}
    assert {array.dtype for array in (whole.coef_, whole.intercept_)} == {np.dtype(np.float64)}
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(single.intercept_, double.intercept_, rtol=1e-4, atol=1e-6)


def sealed(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def sealed_csr(X):
    rows = sparse.csr_array(X)
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    return rows


@TARGETS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_reach_the_solver_uncopied(y, dtype, tmp_path, monkeypatch):
    """Plain, read-only, memory-mapped and CSR rows.

    Mapped ones come from a file opened for reading only.
    """
    np.save(tmp_path / "rows.npy", THIN.astype(dtype))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    kernel, seen = sgd.Sgd.epoch, []
    monkeypatch.setattr(
        sgd.Sgd,
        "epoch",
        lambda solver, *rest: (seen.append(solver.problem.X), kernel(solver, *rest))[1],
    )
    for rows in (
        THIN.astype(dtype),
        sealed(THIN.astype(dtype)),
        mapped,
        sealed_csr(THIN.astype(dtype)),
    ):
        seen.clear()
        kind_for(y)(max_iter=2, tol=None, trace="objective").fit(rows, y)  # epoch by epoch
        assert len(seen) >= 2
        for reached in seen[-2:]:  # before them, sparse rows are tried out on some rows
            for mine, given in (
                ((reached.data, rows.data), (reached.indices, rows.indices))
                if sparse.issparse(rows)
                else ((reached, rows),)
            ):
                assert np.shares_memory(mine, given)


@pytest.mark.parametrize("form", [sealed, sealed_csr])
def test_a_fit_needs_less_memory_than_the_rows(form):
    """Only columns, and a sample for the steps."""
    rows = np.random.default_rng(0).normal(size=(20000, 40))
    y = (rows[:, 0] > 0.0).astype(int)
    rows = form(rows)
    model = SGDClassifier("log_loss", max_iter=2, tol=None).fit(rows[:100], y[:100])  # warm up
    tracemalloc.start()
    model.fit(rows, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 20000 * 40 * 8


@BOTH
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_have_names_that_must_match_later(kind, frame):
    """feature_names_in_, the model of the plain rows, and a refusal of others."""
    y = target_of(kind)
    right, wrong = (
        frame({name: X[:, k] for k, name in enumerate(names)}) for names in ("abcd", "abdc")
    )
    model = kind(**FEW).fit(right, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(model.coef_, kind(**FEW).fit(X, y).coef_)
    for call in (
        model.predict,
        lambda rows: model.partial_fit(rows, y),
        lambda rows: model.fit(right, y, X_val=rows, y_val=y),
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            call(wrong)


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-7.0, 2.0], [2**40, 2**41]])
def test_labels_of_any_two_values(labels):
    """The model of 0 and 1, and predictions in the labels' own type."""
    y = np.array(labels)[TWO]
    model = SGDClassifier(**FEW).fit(X, y)
    np.testing.assert_array_equal(model.coef_, SGDClassifier(**FEW).fit(X, TWO).coef_)
    assert model.classes_.tolist() == labels
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.8


def test_three_classes_are_three_problems_of_one_against_the_rest():
    """The rows of coef_ are the binary fits with the seeds that random_state draws.

    OneVsRestClassifier runs too.
    """
    model = SGDClassifier("log_loss", shuffle=False, **FEW).fit(X, THREE)
    for k in range(3):
        np.testing.assert_array_equal(
            model.coef_[k],
            SGDClassifier("log_loss", shuffle=False, **FEW).fit(X, np.equal(THREE, k)).coef_[0],
        )
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
    wrapped = OneVsRestClassifier(SGDClassifier("log_loss", shuffle=False, **FEW)).fit(X, THREE)
    np.testing.assert_array_equal(wrapped.predict(X), model.predict(X))


# ---- predictions


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
@pytest.mark.parametrize("intercept", [-0.4, -5.0])
def test_probabilities_are_the_formulas(loss, y, intercept):
    """Sigmoid or clipped line of the margin, one-vs-rest ones divided by their sum.

    Equal where all are zero. As in scikit-learn.
    """
    model, other = (
        kind(loss, random_state=0).fit(X, y) for kind in (SGDClassifier, theirs.SGDClassifier)
    )
    model.coef_ /= 2.0 * np.abs(X @ model.coef_.T).max()
    model.intercept_[:] = intercept
    other.coef_, other.intercept_ = model.coef_, model.intercept_
    scores = model.decision_function(X)
    own = expit(scores) if loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
    if scores.ndim == 1:
        expected = np.column_stack([1.0 - own, own])
    else:
        expected = (
            own / own.sum(axis=1, keepdims=True) if own.any() else np.full((60, 3), 1.0 / 3.0)
        )
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found, other.predict_proba(X), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    if found.all():
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(found), rtol=1e-12)


@pytest.mark.parametrize("loss", sorted(set(LOSSES) - {"log_loss", "modified_huber"}))
def test_other_losses_have_no_probabilities(loss):
    """They do not have the methods either, and the error explains why."""
    for method in ("predict_proba", "predict_log_proba"):
        assert not hasattr(SGDClassifier(loss), method)
        with pytest.raises(AttributeError, match=method) as caught:
            getattr(SGDClassifier(loss), method)
        assert "'log_loss', 'modified_huber' or 'softmax'" in str(caught.value.__cause__)


# ---- tables


def assert_gains(model, gains=True):
    ratios = model.history_["variance_ratio"]
    assert (ratios < 0.95).all() if gains else (ratios == 1.0).all()


@BOTH
@pytest.mark.parametrize(
    "pairs",
    ["greedy", "tree", "optimal", "random", lambda rows: np.roll(np.arange(len(rows)), 1)],
)
def test_pairs_are_made_by_name_or_by_a_function(kind, pairs):
    """The plan says so; the chosen ones lower the variance, no pairs leave it as it is."""
    order = Uniform(pairs=pairs)
    model = kind(**TRACED | {"order": order}).fit(X, target_of(kind))
    assert model.plan_.order == order
    assert model.plan_.order.pairs.name == (pairs if isinstance(pairs, str) else "<lambda>")
    if pairs in ("greedy", "tree", "optimal"):
        assert_gains(model)
    for none in ("uniform", Uniform(), Uniform(pairs=None)):
        assert_gains(kind(**TRACED | {"order": none}).fit(X, target_of(kind)), gains=False)


@BOTH
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_table_is_given_to_fit_or_in_the_order(kind, form):
    """Given to fit or as pairs, it is used; given twice, or made for other data, it is refused."""
    y = target_of(kind)
    table = pair(
        X,
        y,
        "optimal",
        loss="squared_error" if kind is SGDRegressor else "log_loss",
        fit_intercept=True,
    )
    inside = Uniform(pairs=table)
    model = kind(**TRACED).fit(form(X), y, table=table)
    assert_gains(model)
    assert model.plan_.order == inside
    assert model.order == "uniform"
    other = kind(**TRACED | {"order": inside}).fit(form(X), y)
    np.testing.assert_array_equal(other.coef_, model.coef_)
    for twice in (inside, Uniform(pairs="random")):
        with pytest.raises(ValueError, match="table= is given twice: to fit, and in order="):
            kind(**TRACED | {"order": twice}).fit(form(X), y, table=table)
    changed = X.copy()
    changed[7, 3] += 1.0
    for bad, message in (
        ((changed, y), "other values"),
        ((X, np.roll(y, 1)), "other"),
        ((X[1:], y[1:]), "60 rows and X has 59"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(order="uniform", **FEW).fit(form(bad[0]), bad[1], table=table)
        with pytest.raises(ValueError, match=message):
            kind(order=inside, **FEW).fit(form(bad[0]), bad[1])
    with pytest.raises(ValueError, match="must be an AntitheticTable"):
        kind().fit(X, y, table=np.arange(60))


@BOTH
def test_an_automatic_order_uses_the_table_that_fit_was_given(kind):
    """The order is chosen as without it, and the plan says where the pairs are from."""
    y = target_of(kind)
    loss = "squared_error" if kind is SGDRegressor else "log_loss"
    table = pair(X, y, "optimal", loss=loss, fit_intercept=True)
    model = kind(**FEW).fit(X, y, table=table)
    assert model.plan_.order == Balanced(pairs=table)
    assert "table= was given to fit" in model.plan_.why
    assert kind(**FEW).fit(X, y).plan_.order == Balanced()
    np.testing.assert_array_equal(
        kind(order=Balanced(pairs=table), **FEW).fit(X, y).coef_, model.coef_
    )


@BOTH
def test_partial_fit_pairs_its_own_rows(kind):
    """A method pairs each chunk; a given table must be made for the chunk."""
    y, table = target_of(kind), AntitheticTable(np.arange(60)[::-1])
    classes = {"classes": [0, 1]} if kind is SGDClassifier else {}
    model = kind(order=Balanced(pairs="greedy"), **FEW).partial_fit(X, y, **classes)
    model.partial_fit(X[:21], y[:21])
    assert np.isfinite(model.coef_).all()
    model = kind(order=Balanced(pairs=table), **FEW).partial_fit(X, y, **classes)
    with pytest.raises(ValueError, match="60 rows and X has 20"):
        model.partial_fit(X[:20], y[:20])


@BOTH
def test_early_stopping_cuts_the_table_to_the_training_rows(kind):
    """48 of 60 rows are trained on, in pairs."""
    y = target_of(kind)
    table = pair(
        X,
        y,
        "optimal",
        loss="squared_error" if kind is SGDRegressor else "log_loss",
        fit_intercept=True,
    )
    model = kind(early_stopping=True, validation_fraction=0.2, **TRACED).fit(X, y, table=table)
    assert_gains(model)
    assert model.t_ == 1 + 48 * model.n_iter_


@BOTH
@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_cuts_the_table_to_each_fold(kind, routing):
    """Each fold gets its part of the table, with and without metadata routing."""
    y = target_of(kind)
    table = pair(
        X,
        y,
        "optimal",
        loss="squared_error" if kind is SGDRegressor else "log_loss",
        fit_intercept=True,
    )
    with sklearn.config_context(enable_metadata_routing=routing):
        model = kind(**TRACED)
        model = model.set_fit_request(table=True) if routing else model
        found = cross_validate(
            model, X, y, cv=3, params={"table": table}, return_estimator=True, error_score="raise"
        )
        for fitted in found["estimator"]:
            assert_gains(fitted)
            assert fitted.plan_.order.pairs.name == "optimal"
            assert fitted.t_ == 1 + 40 * fitted.n_iter_
        search = GridSearchCV(model, {"alpha": [1e-4, 1e-2]}, cv=3, error_score="raise").fit(
            X, y, table=table
        )
        assert_gains(search.best_estimator_)


def test_a_table_is_set_aside_where_it_does_harm():
    """One made for class 0 harms class 2, as a warning says; the others use it."""
    table = AntitheticTable(pair(X, THREE == 0, "optimal", fit_intercept=True).partner)
    ratios = [table.variance_ratio(X, np.equal(THREE, k), fit_intercept=True) for k in range(3)]
    assert max(ratios[:2]) < 1.0 < ratios[2]
    with pytest.warns(
        UserWarning, match=r"not used for class 2 against the rest, .*\(1\.10 times"
    ) as caught:
        model = SGDClassifier(**(TRACED | {"loss": "log_loss"})).fit(X, THREE, table=table)
    assert len(caught) == 1
    found = [history["variance_ratio"][0] for history in model.history_]
    np.testing.assert_allclose(found, [*ratios[:2], 1.0], rtol=1e-3)


# ---- metadata routing


@BOTH
def test_a_validation_set_is_routed_through_searches_and_pipelines(kind):
    """set_fit_request routes X_val and y_val; a pipeline transforms X_val if asked to."""
    y, given = target_of(kind), {"X_val": X[50:], "y_val": target_of(kind)[50:]}
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(**FEW).set_fit_request(X_val=True, y_val=True, table=True, sample_weight=True)
        search = GridSearchCV(model, {"alpha": [1e-4, 1e-2]}, cv=2, error_score="raise").fit(
            X[:50], y[:50], **given
        )
        assert len(search.best_estimator_.history_["validation_score"]) == 5
        assert search.best_estimator_.history_["validation_score"][-1] == pytest.approx(
            search.score(X[50:], y[50:])
        )
        scaled = Pipeline([("scale", StandardScaler()), ("fit", model)], transform_input=["X_val"])
        scaled.fit(100.0 * X[:50], y[:50], **(given | {"X_val": 100.0 * X[50:]}))
        assert scaled[-1].history_["validation_score"][-1] == pytest.approx(
            scaled.score(100.0 * X[50:], y[50:])
        )
        with pytest.raises(TypeError, match="X_val"):
            GridSearchCV(
                kind(**FEW).set_fit_request(X_val=False, y_val=True), {"alpha": [1.0]}, cv=2
            ).fit(X[:50], y[:50], **given)


# ---- callbacks


class Recorder:
    """Notes every hook; may ask for the end after some epochs, or interrupt."""

    max_propagation_depth = None

    def __init__(self, end_after=None, interrupt_at=None):
        self.end_after, self.interrupt_at = end_after, interrupt_at
        self.hooks, self.models, self.shown = [], [], []

    def setup(self, estimator, context):  # noqa: ARG002 - scikit-learn's signature
        self.hooks.append("setup")

    def teardown(self, estimator, context):  # noqa: ARG002
        self.hooks.append("teardown")

    def on_fit_task_begin(self, estimator, context):  # noqa: ARG002
        self.hooks.append(f"begin {context.task_name} {context.task_id}")
        if context.task_name == "epoch" and context.task_id == self.interrupt_at:
            raise KeyboardInterrupt

    def on_fit_task_end(
        self,
        estimator,  # noqa: ARG002
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        self.hooks.append(f"end {context.task_name} {context.task_id}")
        if context.task_name != "epoch":
            return False
        assert context.max_subtasks == 0
        self.models.append(fitted_estimator)
        self.shown.append((X, y, metadata))
        return context.task_id + 1 == self.end_after


@BOTH
def test_a_callback_sees_each_epoch_with_the_model_of_that_moment(kind):
    """One leaf per epoch; its fitted_estimator predicts as a model that was stopped there."""
    y, recorder = target_of(kind), Recorder()
    model = kind(**FEW).set_callbacks(recorder).fit(X, y, sample_weight=WEIGHTS)
    epochs = [f"{hook} epoch {k}" for k in range(5) for hook in ("begin", "end")]
    assert recorder.hooks == ["setup", "begin fit 0", *epochs, "end fit 0", "teardown"]
    for k, moment in enumerate(recorder.models):
        stopped = kind(**(FEW | {"max_iter": k + 1})).fit(X, y, sample_weight=WEIGHTS)
        np.testing.assert_array_equal(moment.predict(X), stopped.predict(X))
        assert (moment.n_iter_, moment.t_) == (stopped.n_iter_, stopped.t_)
    rows, labels, metadata = recorder.shown[0]
    assert np.shares_memory(rows, X)
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(metadata["sample_weight"], WEIGHTS)
    np.testing.assert_array_equal(model.coef_, kind(**FEW).fit(X, y, sample_weight=WEIGHTS).coef_)


@TARGETS
def test_a_callback_may_end_the_run(y):
    """A callback that returns True ends the run with that epoch's model, for each class."""
    kind, recorder = kind_for(y), Recorder(end_after=3)
    model = kind(**(FEW | {"max_iter": 50, "tol": 1e-9})).set_callbacks(recorder).fit(X, y)
    assert model.n_iter_ == 3
    np.testing.assert_array_equal(model.coef_, kind(**(FEW | {"max_iter": 3})).fit(X, y).coef_)
    assert recorder.hooks[-1] == "teardown"


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_each_class_is_a_task(n_jobs):
    """Each class is a task with its epochs as leaves."""
    recorder = Recorder()
    SGDClassifier(n_jobs=n_jobs, **FEW).set_callbacks(recorder).fit(X, THREE)
    for hook in ("begin", "end"):
        assert sum(name.startswith(f"{hook} class") for name in recorder.hooks) == 3
        assert sum(name.startswith(f"{hook} epoch") for name in recorder.hooks) == 15
    assert all(model.predict(X).shape == (60,) for model in recorder.models)


def test_a_fit_that_stops_by_itself_closes_what_it_opened():
    """Every task that began has ended, with patience and found steps too."""
    for y in (TWO, THREE):
        recorder = Recorder()
        model = SGDClassifier(random_state=0).set_callbacks(recorder).fit(X, y)
        opened, closed = (
            sorted(name.split(" ", 1)[1] for name in recorder.hooks if name.startswith(hook))
            for hook in ("begin", "end")
        )
        assert opened == closed
        assert model.n_iter_ < 1000


@BOTH
def test_ctrl_c_in_a_callback_leaves_the_last_whole_epoch(kind):
    """Ctrl-C in the third epoch's callback leaves the model of the second."""
    recorder = Recorder(interrupt_at=2)
    model = kind(**FEW).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, target_of(kind))
    assert model.n_iter_ == 2
    np.testing.assert_array_equal(
        model.coef_, kind(**(FEW | {"max_iter": 2})).fit(X, target_of(kind)).coef_
    )
    assert recorder.hooks[-1] == "teardown"


@TARGETS
def test_scikit_learns_own_callbacks_run(y, capsys):
    """A progress bar, and scores after each epoch that end where score() is."""
    monitor = ScoringMonitor(scoring="r2" if y is NUMBERS else "accuracy")
    model = kind_for(y)(**FEW).set_callbacks(monitor, ProgressBar()).fit(X, y)
    scores = [entry for entry in monitor.get_logs().data if entry["task_name"] == "epoch"]
    assert len(scores) == (15 if y is THREE else 5)
    assert scores[-1]["r2" if y is NUMBERS else "accuracy"] == pytest.approx(model.score(X, y))
    assert "fit" in capsys.readouterr().out


def test_a_search_passes_callbacks_on():
    """GridSearchCV passes callbacks to each fit: 2 candidates on 2 folds and 1 refit, 5 epochs."""
    recorder = Recorder()
    GridSearchCV(SGDClassifier(**FEW), {"alpha": [1e-4, 1e-2]}, cv=2).set_callbacks(recorder).fit(
        X, TWO
    )
    assert sum(name.startswith("end epoch") for name in recorder.hooks) == 25
    assert (recorder.hooks.count("setup"), recorder.hooks.count("teardown")) == (1, 1)


# ---- among other estimators


def through_skops(model):
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


def through_joblib(model, path):
    joblib.dump(model, path)
    return joblib.load(path)


@TARGETS
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"average": True, "order": Balanced(pairs="greedy")},
        {"penalty": "l1", "class_weight": "balanced"},
    ],
    ids=str,
)
def test_a_model_outlives_its_process(y, given, tmp_path):
    """Pickle, joblib and skops keep the predictions, and the weights after partial_fit."""
    kind = kind_for(y)
    if kind is SGDRegressor:
        given = {name: value for name, value in given.items() if name != "class_weight"}
    model = kind(random_state=0, **given).fit(X, y)
    model.set_params(**({"class_weight": None} if kind is SGDClassifier else {}))
    copies = [
        pickle.loads(pickle.dumps(model)),
        through_joblib(model, tmp_path / "model"),
        through_skops(model),
    ]
    predicted, coef = model.predict(X), model.partial_fit(X, y).coef_
    for other in copies:
        np.testing.assert_array_equal(other.predict(X), predicted)
        np.testing.assert_equal(other.history_, model.history_)
        np.testing.assert_array_equal(other.partial_fit(X, y).coef_, coef)
        assert other.plan_ == model.plan_


@BOTH
def test_it_is_an_estimator_of_its_kind(kind):
    """Tags, clone without what was learnt, a short repr, and a link to its page."""
    model = kind(alpha=0.5, **FEW).fit(X, target_of(kind))
    assert (is_classifier(model), is_regressor(model)) == (
        kind is SGDClassifier,
        kind is SGDRegressor,
    )
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")
    assert repr(kind(alpha=0.5, batch_size=4)) == f"{kind.__name__}(alpha=0.5, batch_size=4)"
    assert (
        f"https://antithetic.readthedocs.io/en/stable/generated/antithetic.{kind.__name__}.html"
        in model._repr_html_()
    )
    assert kind().__sklearn_tags__().input_tags.sparse


@BOTH
def test_a_fit_writes_no_parameter(kind):
    """The plan is in plan_, the steps in eta0_ and decay_."""
    model = kind(batch_size=1000)
    before = dict(model.get_params())
    model.fit(X, target_of(kind))
    assert model.get_params() == before
    assert (model.plan_.batch_size, model.plan_.order) == (60, Shuffle())
    assert model.plan_.why


def test_it_works_with_tools_of_scikit_learn():
    """Calibration, cross-validation, pipelines, searches."""
    calibrated = CalibratedClassifierCV(SGDClassifier(random_state=0), cv=3).fit(X, THREE)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    found = cross_validate(
        make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
        1e3 * X + 5.0,
        THREE,
        error_score="raise",
    )
    assert found["test_score"].mean() > 0.5
    search = GridSearchCV(
        SGDRegressor(random_state=0), {"alpha": [1e-4, 10.0], "batch_size": [1, 8]}
    ).fit(X, NUMBERS)
    assert search.best_params_["alpha"] == 1e-4
    assert search.best_score_ > 0.95
