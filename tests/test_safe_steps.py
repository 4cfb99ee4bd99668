"""Automatic steps of SVRG and SAGA reach the solution, also on rows made to break them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from antithetic import SGDClassifier, minimize
from antithetic.orders import Pairs, Shuffle, Stratified, Uniform
from antithetic.problem import Problem
from antithetic.problem.smoothness import (
    row_squares,
    smoothness,
    squared_norms,
    typical_square,
)
from antithetic.steps import Constant
from antithetic.stochastic.corrected import safe_step

BOTH = pytest.mark.parametrize("solver", ["saga", "svrg"])


def ends_at_the_solution(X, y, **given):
    found = minimize(X, y, loss="squared_error", trace="gradient", **given)
    assert found.trace["gradient"][-1] < 1e-10


@BOTH
@pytest.mark.parametrize("order", ["shuffle", "uniform"])
@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_one_long_row_with_a_direction_of_its_own(solver, order, batch_size):
    """Nothing but its own visits moves the weights along it."""
    X = np.zeros((100, 3))
    X[:, 0], X[0] = 1.0, [0.0, 10.0, 0.0]
    y = X @ np.ones(3) + 0.1 * np.random.default_rng(0).standard_normal(100)
    ends_at_the_solution(
        X, y, l2=1e-3, solver=solver, order=order, batch_size=batch_size, epochs=300
    )


@BOTH
@pytest.mark.parametrize("order", [Shuffle, Uniform])
@pytest.mark.parametrize(
    ("pairs", "batch_size"),
    [
        (Pairs("optimal"), 2),
        (Pairs("greedy"), 2),
        (Pairs("tree", nest=4), 4),
        (Pairs("tree", nest=8), 8),
    ],
    ids=repr,
)
def test_partners_on_one_line(solver, order, pairs, batch_size):
    """Their gradients cancel, their curvatures add up."""
    directions, rng = np.tile(np.arange(30), 8), np.random.default_rng(0)
    X = np.zeros((240, 30))
    X[np.arange(240), directions] = np.where(np.arange(240) // 30 % 2 == 0, 1.0, -1.0) * np.where(
        directions < 3, 2.0**0.5, 1.0
    )
    y = X @ rng.standard_normal(30) + 0.1 * rng.standard_normal(240)
    ends_at_the_solution(
        X,
        y,
        solver=solver,
        order=order(pairs=pairs),
        batch_size=batch_size,
        epochs=200,
    )


@pytest.mark.parametrize("allocation", ["proportional", "optimal"])
def test_strata_with_large_factors(allocation):
    """Steps converge where one large stratum gives a tenth of the batch and counts ten times."""
    X, rng = np.kron(np.ones((40, 1)), np.eye(50)), np.random.default_rng(0)
    y, labels = X @ rng.standard_normal(50) + 0.1 * rng.standard_normal(2000), np.zeros(2000, int)
    labels[:9] = np.arange(1, 10)
    ends_at_the_solution(
        X,
        y,
        solver="svrg",
        order=Stratified(labels, allocation),
        batch_size=10,
        epochs=100,
    )


@BOTH
def test_steps_that_shrink_beyond_zero_are_refused(solver):
    """A constant step with eta0 * l2 of 1 or more has a fixed point that is not the solution."""
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"use a step below 0\.5"):
        minimize(X, y, l2=2.0, solver=solver, steps=Constant(0.5))
    with pytest.raises(ValueError, match=r"use a step below 0\.5"):
        SGDClassifier("log_loss", alpha=2.0, solver=solver, learning_rate="constant", eta0=0.5).fit(
            X, y
        )


def test_the_smoothness_bounds_the_largest_eigenvalue():
    """The smoothness bounds the largest eigenvalue; it is infinite for a loss with a kink.

    Dense rows with weights, an intercept and a penalty.
    """
    rng = np.random.default_rng(1)
    X, weight = rng.standard_normal((60, 5)) * [3.0, 1.0, 1.0, 0.5, 0.1], rng.uniform(0.5, 2.0, 60)
    problem = Problem.build(X, np.arange(60) % 2, l2=0.1, sample_weight=weight, fit_intercept=True)
    full = np.hstack([X, np.ones((60, 1))])
    largest = 0.25 * np.linalg.eigvalsh((full.T * weight) @ full / 60)[-1]
    assert largest <= smoothness(problem) - 0.1 <= 1.25 * largest
    assert smoothness(Problem.build(X, np.arange(60) % 2, loss="hinge")) == np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("empty", [[0], [3, 4], [8, 9], range(10), []])
def test_squared_norms_of_sparse_rows(dtype, empty):
    """Also where rows without entries come first, together, last, or are all there are."""
    X = np.random.default_rng(2).standard_normal((10, 4)).astype(dtype)
    X[list(empty)] = 0.0
    dense, rows = (
        Problem.build(given, np.ones(10), loss="squared_error", fit_intercept=True)
        for given in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(squared_norms(rows), squared_norms(dense), rtol=1e-6)


def test_the_typical_square():
    """That of all rows if they are equal; no less than a share of the largest.

    Weights and the intercept are in the squares.
    """
    assert typical_square(np.full(7, 3.0), 0.5) == pytest.approx(3.0)
    assert typical_square(np.append(np.ones(1000), 100.0), 0.5) == pytest.approx(50.0)
    assert typical_square(np.zeros(3), 0.5) == 0.0
    problem = Problem.build(
        np.array([[3.0], [0.0]]),
        [1.0, 2.0],
        loss="squared_error",
        sample_weight=[2.0, 4.0],
        fit_intercept=True,
    )
    np.testing.assert_array_equal(row_squares(problem), [20.0, 4.0])


@BOTH
def test_a_loss_with_a_kink_has_no_safe_step(solver):
    """No smoothness, no step: the error says what to use instead."""
    problem = Problem.build(np.eye(2), [0, 1], loss="hinge")
    with pytest.raises(ValueError, match=r"has a kink, so no step size follows"):
        safe_step(problem, 1, row_squares(problem), solver)
    with pytest.raises(ValueError, match=r'give a constant step, .* or solver="sgd"'):
        minimize(np.eye(2), [0, 1], loss="hinge", solver=solver)


@pytest.mark.parametrize("seed", [33, 66])
def test_later_epochs_of_modified_huber_are_watched(seed):
    """An epoch that ends worse than it began, and than zero, is done again with shorter steps."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 20))
    X = rng.normal(size=(60, d)) * rng.lognormal(size=d)
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0.0).astype(int)
    model = SGDClassifier(
        "modified_huber", random_state=seed, trace="objective", tol=None, max_iter=60
    ).fit(X, y)
    assert max(model.history_["objective"]) <= 1.0  # that of zero weights
