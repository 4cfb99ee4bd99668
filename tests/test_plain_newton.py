"""L-BFGS without a Hessian is chosen where it is cheaper, and ends where Newton's method does."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from antithetic import LogisticRegression
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.newton import plain, solve_path, solve_problem, sums_of
from antithetic.solvers.newton.conjugate import conjugate_gradients
from antithetic.solvers.newton.plain import Alternative, Diagonal
from antithetic.solvers.newton.sizes import hessian_sizes

N, D = 5000, 200


def draw(n=N, d=D, alike=0.0, scale=1.0, seed=0):
    """Normal columns, of which neighbours have the correlation ``alike``, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = alike * X[:, j - 1] + np.sqrt(1.0 - alike**2) * X[:, j]
    scores = X @ rng.normal(size=d) * (2.0 / np.sqrt(d)) + rng.logistic(size=n)
    return X * scale, np.where(scores > 0.0, 1.0, -1.0)


def without_choice(monkeypatch):
    """Make Newton's method take samples and Hessians in any case."""
    monkeypatch.setattr(Alternative, "is_longer", lambda *_: False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scale", [1.0, np.geomspace(1e-2, 1e2, D)])
def test_independent_columns_need_no_hessian(scale, intercept, dtype, monkeypatch):
    """The bound holds, and the optimum is that of Newton's method."""
    X, y = draw(scale=scale)
    problem = Problem.build(X.astype(dtype), y, l2=1e-4, fit_intercept=intercept)
    tol = 1e-8 if dtype == np.float64 else 1e-4
    found = solve_problem(problem, tol=tol, max_iter=100)
    assert (found.method, found.ended, found.certified) == ("L-BFGS", "gap", True)
    without_choice(monkeypatch)
    other = solve_problem(problem, tol=tol, max_iter=100)
    assert (other.method, other.ended) == ("newton", "gap")
    values = [problem.objective(run.coef, run.intercept) for run in (found, other)]
    unit = sums_of(problem).constant()[1] - min(values)
    assert abs(values[0] - values[1]) <= 1.1 * max(tol, 1e-12) * unit


def test_columns_that_depend_on_each_other_need_a_hessian():
    """The first sample shows that L-BFGS would be slow."""
    X, y = draw(alike=0.9)
    found = solve_problem(Problem.build(X, y, l2=1e-4), tol=1e-4, max_iter=100)
    assert found.method == "newton"
    assert len(found.sizes) > 1


@pytest.mark.parametrize(("n", "d", "solved"), [(6000, 100, 1), (60_000, 20, 2)])
def test_a_first_sample_that_is_hardly_smaller_only_lends_its_hessian(n, d, solved, monkeypatch):
    """It has one Hessian then; one that is solved has another at its solution."""
    rows, hessian = [], RowSums.hessian

    def counted(sums, point, **how):
        rows.append(sums.n)
        return hessian(sums, point, **how)

    monkeypatch.setattr(RowSums, "hessian", counted)
    X, y = draw(n, d)
    found = solve_problem(Problem.build(X, y, l2=1e-4), tol=1e-4, max_iter=100)
    assert (found.ended, len(found.sizes)) == ("gap", 2)
    assert rows.count(found.sizes[0]) == solved
    assert sum(hessian_sizes(found.sizes)) == sum(rows)


def test_few_columns_are_not_tried(monkeypatch):
    """Where a Hessian is cheap, nothing is spent on the question."""
    monkeypatch.setattr(plain, "conjugate_gradients", None)
    X, y = draw(4000, 100)
    assert solve_problem(Problem.build(X, y, l2=1e-4), tol=1e-4, max_iter=100).method == "newton"


@pytest.mark.parametrize("penalty", [{}, {"l1": 1e-3}, {"l2": 1e-4, "l1": 1e-3}])
def test_other_penalties_have_a_hessian(penalty):
    """Without an L2 penalty the Hessian gives the estimate of the gap, with L1 the step."""
    X, y = draw(4000, 150)
    found = solve_problem(Problem.build(X, y, **penalty), tol=1e-3, max_iter=100)
    assert found.method == "newton"


def test_a_path_has_hessians():
    """One Hessian serves the other penalties too."""
    X, y = draw()
    penalties = [ElasticNet(l2, 0.0) for l2 in (1e-2, 1e-4)]
    problem = Problem(X, y, LOSSES["log_loss"], penalties[0], None, False, None)
    found = solve_path(problem, penalties, tol=1e-4, max_iter=100)
    assert [run.method for run in found] == ["newton", "newton"]


def test_slow_steps_end_with_a_hessian(monkeypatch):
    """A choice that was wrong costs passes, never the solution."""
    monkeypatch.setattr(Alternative, "is_longer", lambda *_: True)
    X, y = draw(alike=0.95)
    problem = Problem.build(X, y, l2=1e-5)
    found = solve_problem(problem, tol=1e-8, max_iter=100)
    assert (found.method, found.ended) == ("newton", "gap")
    without_choice(monkeypatch)
    other = solve_problem(problem, tol=1e-8, max_iter=100)
    assert problem.objective(found.coef) == pytest.approx(problem.objective(other.coef), rel=1e-8)


def test_columns_that_few_rows_have_do_no_harm(monkeypatch):
    """Along a column that no row of the sample has, the model is as curved as all rows say."""
    monkeypatch.setattr(Alternative, "is_longer", lambda *_: True)
    X, y = draw(20_000, 150)
    X[:, :5] = 0.0
    X[np.arange(100), np.arange(100) % 5] = 100.0
    found = solve_problem(Problem.build(X, y, l2=1e-3), tol=1e-4, max_iter=20)
    assert found.ended == "gap"


def test_the_unit_follows_the_curvature():
    """A diagonal that is off by a factor takes steps of the right length after the first."""
    X, y = draw(2000, 10)
    sums = sums_of(Problem.build(X, y, l2=1e-2))
    point = sums.at(np.zeros(10))
    assert point.curvatures is not None
    models = [
        Diagonal(c * sums.diagonal(point), c * float(point.curvatures.mean()), 1.0)
        for c in (1.0, 9.0)
    ]
    after = sums.at(-0.1 * point.gradient)
    for model in models:
        model.learn(point, after)
    steps = [model.propose(after).step for model in models]
    np.testing.assert_allclose(steps[0], steps[1])


def test_a_copy_goes_its_own_way():
    """What a copy learns changes its own steps, and not those of the original."""
    X, y = draw(2000, 10)
    sums = sums_of(Problem.build(X, y, l2=1e-2))
    point, after = sums.at(np.zeros(10)), sums.at(np.full(10, 0.1))
    model, twin = (Diagonal(sums.diagonal(point), 1.0, 1.0) for _ in range(2))
    other, step = copy.copy(model), model.propose(after).step
    for learning in (other, twin):
        learning.learn(point, after)
        learning.is_slow(1.0, 0.1)
    np.testing.assert_array_equal(other.propose(after).step, twin.propose(after).step)
    np.testing.assert_array_equal(model.propose(after).step, step)
    assert len(model._distances) == 0


def test_the_plan_says_that_no_hessian_was_needed():
    """`plan_` names the method and the reason."""
    X, y = draw()
    model = LogisticRegression(C=2.0).fit(X, y)
    assert model.plan_.method == "L-BFGS"
    assert model.gap_certified_
    assert model.gap_ <= model.tol
    assert "features hardly depend on each other" in model.plan_.why


def test_the_same_seed_gives_the_same_bits():
    """Fits repeat."""
    X, y = draw()
    first, second = (LogisticRegression(random_state=3).fit(X, y).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("d", [1, 7])
def test_conjugate_gradients_solve_in_as_many_products_as_columns(d):
    """Each product removes one direction."""
    rng = np.random.default_rng(d)
    root = rng.normal(size=(2 * d, d))
    matrix, given = root.T @ root, rng.normal(size=d)
    diagonal = matrix.diagonal()
    solved = conjugate_gradients(matrix.dot, lambda rest: rest / diagonal, given, d)
    np.testing.assert_allclose(matrix @ solved.step, given, rtol=1e-6, atol=1e-9)
    assert len(solved.squares) == d + 1
