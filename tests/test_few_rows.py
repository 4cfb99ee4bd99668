"""Few rows: what Python does in an epoch, and Newton's steps on a table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from scipy import sparse

import antithetic
from antithetic import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from antithetic._core import kernels
from antithetic.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 3.0] + 0.5
Y = np.where(X[:, 0] + X[:, 2] + RNG.normal(size=150) > 0.5, 1, -1)
WEIGHT = RNG.random(150)


def calls_of_python(model, rows, targets):
    """Count the calls of Python functions of the package in a fit."""
    home, calls = str(Path(antithetic.__file__).parent), 0

    def watch(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(home)

    sys.setprofile(watch)
    try:
        model.fit(rows, targets)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("model", "copies", "most"),
    [
        (LogisticRegression(), 1, 520),
        (LogisticRegression(), 100, 650),
        (LogisticRegression(l1_ratio=1.0), 1, 1000),
        (Ridge(), 100, 150),
        (PoissonRegressor(), 1, 800),
    ],
    ids=repr,
)
def test_an_exact_fit_makes_few_calls_of_python(model, copies, most):
    """The work is in the kernels: what Python does around it hardly depends on the rows."""
    rows, y = np.tile(X, (copies, 1)), np.tile(Y, copies)
    assert calls_of_python(model, rows, y + 2 if isinstance(model, PoissonRegressor) else y) <= most


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("many", [1, 10], ids=["150 rows", "1500 rows"])
@pytest.mark.parametrize(
    "model",
    [
        SGDClassifier(),
        SGDClassifier("log_loss"),
        SGDClassifier("modified_huber"),
        SGDClassifier(penalty="elasticnet"),
        SGDRegressor(),
        SGDRegressor("huber"),
    ],
    ids=repr,
)
def test_an_epoch_makes_at_most_twelve_calls_of_python(model, many, as_rows):
    """Fits of 60 and of 20 epochs show what an epoch adds, estimates of the gap included."""
    rows, y = as_rows(np.tile(X, (many, 1))), np.tile(Y, many)
    # tol is looked at after each epoch, but ends no fit
    given = {"random_state": 0, "tol": 1e-9, "n_iter_no_change": 1000}
    counts = [
        calls_of_python(model.set_params(max_iter=epochs, **given), rows, y)
        for epochs in (20, 60, 20, 60)  # the first two check parameters, which are remembered
    ]
    assert model.n_iter_ == 60
    assert 40 * 5 < counts[3] - counts[2] <= 40 * 12


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
