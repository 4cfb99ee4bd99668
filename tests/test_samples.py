"""Samples by importance stand for all rows, whatever their order, scale and rare values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from antithetic.exact.path import solve_problem, sums_of
from antithetic.exact.row_sums import RowSample
from antithetic.exact.samples import plan_samples
from antithetic.problem import Problem
from antithetic.problem.columns import columns_of
from antithetic.problem.sampling import importance_of


def problem_of(n=4000, d=5, seed=0, form=np.asarray, weighted=False, **given):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = np.where(X[:, 0] + rng.logistic(size=n) > 2.0, 1.0, -1.0)
    weight = rng.choice([0.0, 0.5, 3.0], n) if weighted else None
    return Problem.build(form(X), y, sample_weight=weight, **given)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_means_over_a_sample_are_those_of_all_rows_in_the_mean(form, weighted, intercept):
    """Each row counts as the inverse of its probability, so the sum of both over all rows is 1.

    That is so for every row that may be drawn, and rows of weight zero are the only others.
    """
    problem = problem_of(form=form, weighted=weighted, fit_intercept=intercept, l2=1e-3)
    sums = sums_of(problem)
    importance, size = sums.importance(0), 700.0
    probability = np.minimum(1.0, size * importance.share)
    counted = np.ones(problem.n) if problem.weight is None else problem.weight
    assert ((probability > 0.0) == (counted > 0.0)).all()
    sample = RowSample(sums, size, 0)
    rows, drawn_with = importance.draw(size)
    np.testing.assert_array_equal(drawn_with, probability[rows])
    given_weight = sample.sums.problem.weight * problem.n / sample.n
    np.testing.assert_allclose(given_weight * probability[rows], counted[rows], rtol=1e-12)


@given(st.integers(0, 10**6), st.booleans())
def test_a_sample_has_about_as_many_rows_as_asked_for(seed, intercept):
    """Probabilities add up to at least half the size, and to at most one and a half times it."""
    problem = problem_of(n=500, seed=seed, fit_intercept=intercept)
    share = importance_of(problem, columns_of(problem), 0).share
    assert 0.5 - 1e-12 <= share.sum() <= 1.5 + 1e-12


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_that_matter_are_in_every_sample(form):
    """A value that three rows of 6000 have, an outlier, and the rows of a rare class."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 4))
    X[:, 1] = 0.0
    rare = rng.choice(6000, 3, replace=False)
    X[rare, 1] = 1.0
    X[17, 2] = 1e9
    y = np.full(6000, -1.0)
    few = rng.choice(6000, 40, replace=False)
    y[few] = 1.0
    for standardised in (False, True):
        table = (X - X.mean(axis=0)) / X.std(axis=0) if standardised else X
        problem = Problem.build(form(table), y, fit_intercept=True)
        rows, _ = importance_of(problem, columns_of(problem), 0).draw(2000.0)
        assert {*rare, 17, *few} <= set(rows.tolist())


@pytest.mark.parametrize("weighted", [False, True])
def test_dense_and_sparse_rows_have_the_same_samples(weighted):
    """An entry that is not stored is a zero, also in a column that most rows have."""
    dense = problem_of(weighted=weighted, fit_intercept=True)
    full = np.ones((dense.n, 1))
    full[5] = 0.0  # the zero is what is rare here
    both = [
        Problem.build(
            kind(np.hstack([dense.X, full])),
            dense.y,
            sample_weight=dense.weight,
            fit_intercept=True,
        )
        for kind in (np.asarray, sparse.csr_array)
    ]
    shares = [importance_of(one, columns_of(one), 0).share for one in both]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-9)
    assert shares[0][5] > 10.0 * np.median(shares[0])


def test_a_sample_is_part_of_each_larger_one():
    """So is the sample of the rows whose Hessian turned out to be poor."""
    sums = sums_of(problem_of(n=20_000, fit_intercept=True))
    small = RowSample(sums, 1000.0, 3)
    large = small.larger()
    assert set(small.rows.tolist()) < set(large.rows.tolist())
    assert RowSample(sums, 5000.0, 3).larger() is None  # all rows cost little more


def test_the_hessian_of_a_sample_is_near_that_of_all_rows():
    """Eigenvalues between 0.6 and 1.5 with 400 rows per column, rare values included."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60_000, 6)), rng.random((60_000, 3)) < 2e-4])
    y = np.where(X[:, 0] + rng.logistic(size=60_000) > 3.0, 1.0, -1.0)
    sums = sums_of(Problem.build(X, y, l2=1e-6, fit_intercept=True))
    point = sums.at(np.append(0.3 * rng.normal(size=9), -2.0))
    whole, some = sums.hessian(point, exact=True), RowSample(sums, 3600.0, 0).hessian(point)
    ratios = np.linalg.eigvals(np.linalg.solve(some, whole)).real
    assert 0.6 < ratios.min() <= ratios.max() < 1.5


@pytest.mark.parametrize("order", ["mixed", "by class", "by column"])
def test_the_order_of_the_rows_does_no_harm(order):
    """Sorted files need as many iterations as mixed ones."""
    problem = problem_of(n=30_000, d=20, fit_intercept=True)
    rows = {
        "mixed": np.arange(problem.n),
        "by class": np.argsort(problem.y, kind="stable"),
        "by column": np.argsort(problem.X[:, 0]),
    }[order]
    sorted_rows = Problem.build(problem.X[rows], problem.y[rows], l2=1e-5, fit_intercept=True)
    solved = solve_problem(sorted_rows, tol=1e-8, max_iter=100)
    assert solved.ended == "gap"
    assert solved.samples
    assert solved.iterations <= 6


def test_few_rows_have_no_sample_and_many_rows_lend_its_hessian():
    """With fewer than 2400 rows per column, and with few columns, all rows give the Hessians."""
    assert plan_samples(1400, 3).sizes == ()
    assert plan_samples(10_000, 6000).sizes == ()
    assert not plan_samples(20_000, 50).gives_hessians
    assert plan_samples(20_000, 50).sizes
    assert not plan_samples(100_000, 50).gives_hessians
    assert plan_samples(200_000, 50).gives_hessians
    assert not plan_samples(200_000, 50, has_l1=True).gives_hessians
    assert not plan_samples(100_000, 5).gives_hessians
