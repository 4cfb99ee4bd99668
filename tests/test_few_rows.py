"""Few rows: several epochs in one call, and Newton's steps on a table."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from scipy import sparse

from antithetic import SGDClassifier, SGDRegressor
from antithetic._core import kernels
from antithetic.estimators import jobs
from antithetic.problem import Problem
from antithetic.problem import gap as gaps
from antithetic.training import loop, several
from antithetic.training.loop import train

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 3.0] + 0.5
Y = np.where(X[:, 0] + X[:, 2] + RNG.normal(size=150) > 0.5, 1, -1)
WEIGHT = RNG.random(150)


def both(monkeypatch, make, *data, **more):
    """Fit with several epochs at once and with single ones; also how many calls took several."""
    calls = []
    taken = several.take_several
    with monkeypatch.context() as patch:
        patch.setattr(several, "take_several", lambda *a: calls.append(taken(*a)) or calls[-1])
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
    """Weights have the same bits, whatever is averaged and whenever the fit stops."""
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
    """Losses whose gap is extrapolated are looked at after 1, 2, 4, 8, ... epochs, as before."""

    def make():
        given = {"penalty": penalty, "max_iter": 30, "random_state": 1, "alpha": 1e-3}
        return SGDClassifier(loss, **given)

    one, other, calls = both(monkeypatch, make, X, Y)
    agree(one, other)
    assert calls


def test_given_steps_and_regression(monkeypatch):
    """Steps of one's own are neither checked nor eased."""

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
    """No call is interrupted in its middle: the model is that of the last epoch of the last one."""
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


def test_what_is_watched_sees_every_epoch(monkeypatch):
    """With a trace, a progress bar or many rows, epochs are taken one by one."""

    def make():
        return SGDClassifier("log_loss", max_iter=5, tol=None, random_state=0, trace="objective")

    _, _, calls = both(monkeypatch, make, X, Y)
    assert not calls


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
    """The same point and the same Hessian, halved steps included."""
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
@pytest.mark.parametrize("size", [1, 2, 5, 33, 129])
@pytest.mark.parametrize("kind", ["full", "diagonal", "low rank", "large", "zero"])
def test_components_along_axes(size, kind):
    """Eigenvalues and squared components are those of NumPy's eigh."""
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
    """One call for a table gives what sums over the rows give."""
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
