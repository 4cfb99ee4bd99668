"""Centred rows: epochs and moments of the kernels equal their twins, at every width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference import balanced_order, preconditioned_sgd, split
from scipy import sparse

from antithetic.orders import Balanced, Shuffle
from antithetic.orders.order import Pool
from antithetic.problem import Problem
from antithetic.problem.columns import moments_of
from antithetic.problem.preconditioner import find_preconditioner, with_spread
from antithetic.stochastic.sgd import make_sgd
from antithetic.stochastic.steps import InverseTime

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(61, 21)) * 10.0 ** RNG.uniform(-2, 2, 21) + RNG.normal(size=21)
Y = np.where(X[:, :3].sum(axis=1) + RNG.normal(size=61) > 0.0, 1, -1)
WEIGHT = RNG.uniform(0.0, 2.0, 61)
WEIGHT[::7] = 0.0


def moments(problem):
    return with_spread(moments_of(problem.X, problem.weight))


def an_epoch(problem, order, size, eta0=0.3, decay=0.1):
    found = find_preconditioner(problem, moments(problem))
    solver = replace(make_sgd(problem, False), preconditioner=found)
    full = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    start = RNG.normal(size=problem.d) / np.maximum(1e-3, np.abs(full).max(axis=0)), 0.5
    batches = order.draw_from(Pool(problem, None, size, 3)).batches(0)
    schedule = InverseTime(eta0, decay).schedule(problem.loss, problem.penalty)
    after = solver.epoch(*solver.init(*start), batches, schedule)
    expected = preconditioned_sgd(
        problem,
        split(batches),
        size,
        lambda steps: eta0 / (1.0 + eta0 * decay * (steps + 1.0)),
        found.centre,
        found.metric,
        coef=start[0],
        intercept=start[1],
    )
    return after, expected, batches, found


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("order", [Shuffle(), Balanced()], ids=["shuffle", "balanced"])
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.1}, {"l2": 0.05, "l1": 0.05}], ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_dense_kernels_equal_their_twin(size, order, penalty, weight):
    """One epoch in centred columns equals the NumPy twin."""
    problem = Problem.build(X, Y, fit_intercept=True, sample_weight=weight, **penalty)
    after, (coef, intercept), _, _ = an_epoch(problem, order, size)
    np.testing.assert_allclose(after.state.coef, coef, rtol=1e-9, atol=1e-12)
    assert after.state.intercept == pytest.approx(intercept, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 65])
@pytest.mark.parametrize("n", [2, 3, 20])
@pytest.mark.parametrize("order", [Shuffle(), Balanced()], ids=["shuffle", "balanced"])
def test_rows_of_every_width_equal_their_twin(n, d, order):
    """No entry of another row counts, nor what follows the last one, which is NaN here.

    float32 agrees with float64.
    """
    rng = np.random.default_rng((n, d))
    numbers, labels = rng.normal(size=(n, d)) + 1.0, np.resize([1, -1], n)

    def surrounded(kind):
        rows = np.full(n * d + 64, np.nan, kind)[: n * d].reshape(n, d)
        rows[:] = numbers
        return rows

    rows = surrounded(np.float64)
    problem = Problem.build(rows, labels, fit_intercept=True, l2=0.1)
    assert np.shares_memory(problem.X, rows)
    after, (coef, intercept), _, _ = an_epoch(problem, order, 2)
    np.testing.assert_allclose(after.state.coef, coef, rtol=1e-9, atol=1e-12)
    assert after.state.intercept == pytest.approx(intercept, rel=1e-9)
    single = Problem.build(surrounded(np.float32), labels, fit_intercept=True, l2=0.1)
    after, (coef, _), _, _ = an_epoch(single, order, 2)
    np.testing.assert_allclose(after.state.coef, coef, rtol=1e-4, atol=1e-4 * abs(coef).max())


@pytest.mark.parametrize("d", [1, 3, 4, 8, 9, 16, 23, 40])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_moments_of_every_width(d, kind):
    """Columns in whole registers and those left over have the same kind of sums."""
    rows = np.random.default_rng(d).normal(size=(70, d)).astype(kind)  # more than are met at once
    found = moments(Problem.build(rows, np.resize([1, -1], 70)))
    np.testing.assert_allclose(found.mean, rows.mean(axis=0, dtype=float), atol=1e-12)
    np.testing.assert_allclose(found.variance, rows.var(axis=0, dtype=float), rtol=1e-9)
    np.testing.assert_array_equal(found.least, rows.min(axis=0))
    np.testing.assert_array_equal(found.greatest, rows.max(axis=0))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("order", [Shuffle(), Balanced()], ids=["shuffle", "balanced"])
def test_sparse_kernels_equal_their_twin_without_filling_rows(size, order):
    """Centred sparse rows give the weights of centred dense ones."""
    thin = sparse.csr_array(np.where(RNG.uniform(size=X.shape) < 0.3, X, 0.0))
    problem = Problem.build(thin, Y, fit_intercept=True)
    after, (coef, intercept), _, _ = an_epoch(problem, order, size)
    np.testing.assert_allclose(after.state.coef, coef, rtol=1e-8, atol=1e-11)
    assert after.state.intercept == pytest.approx(intercept, rel=1e-8)
    shrunk = Problem.build(thin, Y, fit_intercept=True, l2=1e-4)
    after, (coef, _), _, _ = an_epoch(shrunk, order, size)
    # shrunk now and then, not in each step
    np.testing.assert_allclose(after.state.coef, coef, rtol=0.05, atol=0.01 * np.abs(coef).max())


def test_the_balanced_order_balances_in_the_same_metric():
    """The next order is that of gradients in scaled, centred columns."""
    problem = Problem.build(X, Y, fit_intercept=True)
    found = find_preconditioner(problem, moments(problem))
    solver = replace(make_sgd(problem, False), preconditioner=found)
    batches = Balanced().draw_from(Pool(problem, None, 2, 3)).batches(0)
    schedule = InverseTime(1e-12, 0.0).schedule(problem.loss, problem.penalty)
    after = solver.epoch(*solver.init(), batches, schedule)
    gradients = problem.slopes()[:, None] * found.rows(problem.X)
    np.testing.assert_array_equal(after.order, balanced_order(batches.rows, gradients, 1))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_moments_are_those_of_the_rows_that_count(form, weight, kind):
    """Means, variances and ranges, of rows with a positive weight."""
    problem = Problem.build(form(X.astype(kind)), Y, sample_weight=weight)
    found, rows = moments(problem), X.astype(kind).astype(float)
    shares = np.ones(61) if weight is None else weight
    mean = np.average(rows, axis=0, weights=shares)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9, atol=1e-9)
    variance = np.average((rows - mean) ** 2, axis=0, weights=shares)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-6)
    np.testing.assert_array_equal(found.least, rows[shares > 0.0].min(axis=0))
    np.testing.assert_array_equal(found.greatest, rows[shares > 0.0].max(axis=0))
