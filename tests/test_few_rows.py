"""Few rows: several epochs in one call, and Newton's steps on a table."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import reference
from scipy import sparse

from antithetic import SGDClassifier, SGDRegressor
from antithetic._core import kernels
from antithetic.estimators import jobs
from antithetic.problem import Problem
from antithetic.problem import gap as gaps
from antithetic.training import care, loop, several
from antithetic.training.loop import train

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 3.0] + 0.5
Y = np.where(X[:, 0] + X[:, 2] + RNG.normal(size=150) > 0.5, 1, -1)
WEIGHT = RNG.random(150)


def recorded_calls(monkeypatch):
    """Let take_several run as before; return a list of what it returns from now on."""
    calls, taken = [], several.take_several
    monkeypatch.setattr(several, "take_several", lambda *a: calls.append(taken(*a)) or calls[-1])
    return calls


def both(monkeypatch, make, *data, **more):
    """Fit with several epochs per call and with single ones; also return the calls of several."""
    with monkeypatch.context() as patch:
        calls = recorded_calls(patch)
        together = make().fit(*data, **more)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "train", lambda spec, run, end, **_: train(spec, run, end))
        apart = make().fit(*data, **more)
    return together, apart, calls


def agree(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert (one.n_iter_, one.t_) == (other.n_iter_, other.t_)
    assert list(one.history_) == list(other.history_)
    np.testing.assert_allclose(
        one.history_["objective"], other.history_["objective"], rtol=1e-12, atol=0.0
    )
    assert one.gap_ == pytest.approx(other.gap_, rel=1e-6, nan_ok=True)
    assert (np.diff(one.history_["seconds"]) >= 0.0).all()


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("average", ["auto", "epoch", True, "linear", False])
@pytest.mark.parametrize("tol", [None, 1e-3])
def test_several_epochs_at_once_are_single_epochs(monkeypatch, kind, average, tol):
    """Weights have the same bits for every kind of average and stopping rule."""
    rows = X.astype(np.float32) if kind == "float32" else X
    rows = sparse.csr_array(np.where(X > 0.0, X, 0.0)) if kind == "sparse" else rows

    def make():
        given = {"max_iter": 40, "tol": tol, "average": average, "random_state": 0}
        return SGDClassifier("log_loss", **given)

    one, other, calls = both(monkeypatch, make, rows, Y, sample_weight=WEIGHT)
    agree(one, other)
    assert calls


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "modified_huber", "squared_hinge", "perceptron"])
def test_other_losses_and_penalties(monkeypatch, loss, penalty):
    """The fits agree; where the gap is extrapolated, no call goes beyond 1, 2, 4, 8, ... epochs."""

    def make():
        given = {"penalty": penalty, "max_iter": 30, "random_state": 1, "alpha": 1e-3}
        return SGDClassifier(loss, **given)

    one, other, calls = both(monkeypatch, make, X, Y)
    agree(one, other)
    assert calls
    if loss in ("hinge", "perceptron") or penalty != "l2":
        for call in calls:
            last = call.after.state.epochs
            first = last - len(call.running) + 1
            assert first.bit_length() == (last - 1).bit_length() or first == last


def test_given_steps_and_regression(monkeypatch):
    """Given steps are neither checked nor eased: all epochs are taken in one call."""

    def make():
        given = {"learning_rate": "constant", "eta0": 1e-4, "max_iter": 25, "tol": None}
        return SGDRegressor(**given, order="balanced", random_state=0)

    one, other, calls = both(monkeypatch, make, X, X @ np.arange(6.0))
    agree(one, other)
    assert calls[0].after.state.epochs == 25


def test_an_epoch_that_goes_wrong_is_taken_back(monkeypatch):
    """Steps that are far too long are shortened as they are after single epochs."""
    found = loop.find_preconditioned_steps
    monkeypatch.setattr(
        loop, "find_preconditioned_steps", lambda *a: found(*a).but(eta0=1e3, decay=1e-9)
    )

    def make():
        return SGDClassifier("log_loss", max_iter=12, tol=None, random_state=0)

    one, other, calls = both(monkeypatch, make, X, Y)
    agree(one, other)
    assert calls[0].is_wrong
    assert one.eta0_ < 1e3


def test_ctrl_c_leaves_the_epochs_of_whole_calls(monkeypatch):
    """A call is never interrupted in the middle: the model is that of the last complete call."""
    given = {"loss": "log_loss", "tol": None, "random_state": 0}
    expected = SGDClassifier(**given, max_iter=6).fit(X, Y)
    monkeypatch.setattr(several, "_MOST_VISITS", 3 * (X.size + sum(X.shape)))
    taken, calls = several.take_several, []

    def interrupted(*arguments):
        calls.append(arguments[-1].epochs)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return taken(*arguments)

    monkeypatch.setattr(several, "take_several", interrupted)
    model = SGDClassifier(**given, max_iter=20)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert (calls, model.n_iter_) == ([3, 3, 3], 6)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


class CountingCallback:
    """Counts the epochs that it is shown."""

    max_propagation_depth = None

    def __init__(self):
        self.epochs = 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, **_):  # noqa: ARG002 - scikit-learn's signature
        self.epochs += context.task_name == "epoch"


FIVE = {"loss": "log_loss", "max_iter": 5, "tol": None, "random_state": 0}


def test_a_plain_fit_takes_several_epochs_in_one_call(monkeypatch):
    """The control of the tests below: nothing is watched, so one call takes all epochs."""
    calls = recorded_calls(monkeypatch)
    SGDClassifier(**FIVE).fit(X, Y)
    assert [len(call.running) for call in calls] == [5]


@pytest.mark.parametrize("more", [{"trace": "objective"}, {"trace": "variance"}])
def test_a_trace_sees_every_epoch(monkeypatch, more):
    """With a trace, epochs are taken one by one, and each has an entry."""
    calls = recorded_calls(monkeypatch)
    model = SGDClassifier(**FIVE, **more).fit(X, Y)
    assert not calls
    assert len(model.history_[more["trace"]]) == 5


def test_a_validation_set_is_scored_after_every_epoch(monkeypatch):
    """With a validation set, epochs are taken one by one, and each has a score."""
    calls = recorded_calls(monkeypatch)
    model = SGDClassifier(**FIVE).fit(X, Y, X_val=X[:20], y_val=Y[:20])
    assert not calls
    assert len(model.history_["validation_score"]) == 5


def test_a_progress_bar_sees_every_epoch(monkeypatch):
    """With verbose=1, epochs are taken one by one, and the bar advances after each."""
    calls, seen = recorded_calls(monkeypatch), []

    @contextmanager
    def bar(description, total, show):
        assert (description, total, show) == ("epochs", 5, True)
        yield seen.append

    monkeypatch.setattr(jobs, "progress_bar", bar)
    SGDClassifier(**FIVE, verbose=1).fit(X, Y)
    assert not calls
    assert seen[:5] == [1, 2, 3, 4, 5]


def test_a_callback_sees_every_epoch(monkeypatch):
    """With a callback, epochs are taken one by one, and each is reported."""
    calls, callback = recorded_calls(monkeypatch), CountingCallback()
    SGDClassifier(**FIVE).set_callbacks(callback).fit(X, Y)
    assert not calls
    assert callback.epochs == 5


def test_epochs_of_many_rows_are_taken_one_by_one(monkeypatch):
    """A call of two such epochs would make Ctrl-C wait for long."""
    calls = recorded_calls(monkeypatch)
    model = SGDClassifier(**FIVE).fit(np.tile(X, (1000, 1)), np.tile(Y, 1000))
    assert not calls
    assert model.n_iter_ == 5


def test_constants_of_the_kernel_are_those_of_python():
    """``several.hpp`` repeats constants of the Python code, because both decide alike."""
    header = Path(__file__).parents[1] / "src/antithetic/_core/cpp/several.hpp"
    found = dict(re.findall(r"^constexpr \w+ (\w+) = ([\d.]+);", header.read_text(), re.MULTILINE))
    assert {name: float(value) for name, value in found.items()} == {
        "same_way": care._SAME_WAY,
        "epochs_the_same_way": care._EPOCHS_THE_SAME_WAY,
    }


LOSSES = ["log_loss", "squared_error", "huber", "modified_huber", "poisson"]


def table_problem(loss, weighted):
    y = Y.astype(float) if loss in ("log_loss", "modified_huber") else np.abs(X[:, 0]) + 0.1
    return Problem.build(
        X, y, loss=loss, l2=0.1, sample_weight=WEIGHT if weighted else None, fit_intercept=True
    )


@pytest.mark.kernel
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_newton_on_a_table_equals_its_twin(loss, weighted):
    """The point and the Hessian are those of the twin."""
    problem = table_problem(loss, weighted)
    offset, ridge, start = 0.1 * RNG.normal(size=150), np.full(6, 1e-3), 0.3 * RNG.normal(size=6)
    for steps in (0, 1, 5):
        point, hessian = start.copy(), np.empty((6, 6))
        rule = (steps, 1e-4, 1e-10)
        kind = (problem.loss.code, problem.loss.epsilon)
        kernels.newton_on_table(X, problem.targets, *kind, offset, ridge, *rule, point, hessian)
        twin = reference.newton_on_table(
            X, problem, offset, ridge, start, steps=steps, enough=1e-4, least_ridge=1e-10
        )
        np.testing.assert_allclose(point, twin[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(hessian, twin[1], rtol=1e-7, atol=1e-10)


@pytest.mark.kernel
def test_newton_on_a_table_halves_steps_that_are_too_long():
    """Where a full step raises the objective, a shorter one is taken, as by the twin."""
    problem, ridge, offset = table_problem("log_loss", True), np.full(6, 1e-3), np.zeros(150)
    start = np.array([-3.0, 0.3, -3.0, 3.0, -1.5, -0.9])
    rule = {"enough": 1e-4, "least_ridge": 1e-10}
    twin, _ = reference.newton_on_table(X, problem, offset, ridge, start, steps=5, **rule)
    slopes = WEIGHT * problem.loss.slope(problem.y, X @ start)
    curvatures = WEIGHT * problem.loss.curvature(problem.y, X @ start)
    matrix = (X * curvatures[:, None]).T @ X / 150 + np.diag(ridge)
    full = start - np.linalg.solve(matrix, slopes @ X / 150 + ridge * start)
    assert problem.objective(full) > problem.objective(start) > problem.objective(twin)
    point, kind = start.copy(), (problem.loss.code, problem.loss.epsilon)
    matrix = np.empty((6, 6))
    kernels.newton_on_table(
        X, problem.targets, *kind, offset, ridge, 5, *rule.values(), point, matrix
    )
    np.testing.assert_allclose(point, twin, rtol=1e-8, atol=1e-10)


@pytest.mark.kernel
@pytest.mark.parametrize("size", [1, 2, 5, 33, 129])
@pytest.mark.parametrize("kind", ["full", "diagonal", "low rank", "large", "zero"])
def test_components_along_axes(size, kind):
    """Eigenvalues are those of NumPy's eigh, and so are squared components if values differ."""
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(3 if kind == "low rank" else 2 * size, size))
    matrix = rows.T @ rows
    if kind == "diagonal":
        matrix = np.diag(np.diag(matrix))
    matrix *= {"large": 1e200, "zero": 0.0}.get(kind, 1.0)
    vector = rng.normal(size=size)
    values, components = np.empty(size), vector.copy()
    assert kernels.along_axes(matrix, values, components)
    expected, axes = np.linalg.eigh(matrix)
    scale = np.abs(expected).max()
    order = np.argsort(values)
    np.testing.assert_allclose(values[order], expected, rtol=1e-10, atol=1e-12 * scale)
    # of equal values only the sum of the squares is known
    squares, known = components[order] ** 2, (axes.T @ vector) ** 2
    assert (values * components**2).sum() == pytest.approx(vector @ matrix @ vector, rel=1e-10)
    if kind in ("full", "large"):
        np.testing.assert_allclose(squares, known, atol=1e-8)


@pytest.mark.kernel
def test_values_that_are_not_numbers_have_no_axes():
    """The caller is told, and nothing loops forever."""
    for wrong in (np.nan, np.inf):
        assert not kernels.along_axes(np.full((4, 4), wrong), np.empty(4), np.ones(4))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_of_few_rows_is_that_of_many(monkeypatch, loss, is_sparse, fit_intercept):
    """One call for a table gives the same gap as sums over the rows."""
    problem = table_problem(loss, True)
    rows = sparse.csr_array(X) if is_sparse else X
    problem = Problem.build(
        rows,
        problem.y,
        loss=loss,
        l2=0.1,
        sample_weight=WEIGHT,
        fit_intercept=fit_intercept,
    )
    coef = 0.05 * np.arange(6.0)
    short = gaps.newton_decrement(problem, coef, 0.2 * fit_intercept)
    monkeypatch.setattr(gaps, "_ROWS_OF_A_TABLE", 0)
    assert short == pytest.approx(
        gaps.newton_decrement(problem, coef, 0.2 * fit_intercept), rel=1e-8
    )


@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
@pytest.mark.parametrize("before", ["own steps", "sparse rows", "no intercept"])
def test_a_chunk_of_one_row_keeps_the_weights(loss, before):
    """All columns of one row are constant, which says nothing about the others."""
    labels = np.where(X[:, 1] > 5.0, 2, Y) if loss == "softmax" else Y
    model = SGDClassifier(loss, random_state=0, max_iter=30)
    rows = X
    if before == "own steps":
        model.set_params(learning_rate="constant", eta0=0.01)
    elif before == "sparse rows":
        rows = sparse.csr_array(X)
    else:
        model.set_params(fit_intercept=False)
    model.fit(rows, labels)
    model.set_params(learning_rate="auto", fit_intercept=True)
    model.partial_fit(X[:1], labels[:1])
    most = np.unique(labels, return_counts=True)[1].max() / len(labels)  # without any weights
    assert model.score(X, labels) > 1.1 * most


def test_a_first_chunk_of_one_row_takes_a_short_step():
    """No other row could say that the step is too long: scores stay of the order of 1."""
    model = SGDClassifier("softmax", random_state=0)
    model.partial_fit(X[:1], [1], classes=[0, 1, 2])
    assert np.abs(model.decision_function(X[:1])).max() < 5.0
