"""Fits of few rows in one call: the same minimum as by many calls, with the same proof."""

import numpy as np
import pytest
import reference
from scipy import sparse

from antithetic import LogisticRegression, LogisticRegressionCV
from antithetic._core import kernels
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers import newton
from antithetic.solvers.newton import few_rows, solve_at_once, solve_path, solve_problem

pytestmark = pytest.mark.sanitized

SHAPES = [(3, 1), (40, 8), (150, 9), (208, 60), (300, 17), (60, 128), (1499, 4)]


def draw(n, d, seed=0):
    """Rows, signs of a noisy direction, and weights, of which some are zero."""
    rng = np.random.default_rng((n, d, seed))
    X = rng.normal(size=(n, d)) + 0.3
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n)
    weight[:2] = 1.0
    return X, y, weight


def minimise(table, y, weight, l2, *, has_intercept, gap=1e-10, steps=50, start=None):
    """Call the kernel; return the point and what it says."""
    point = np.zeros(table.shape[1]) if start is None else start.copy()
    targets = kernels.Targets(y, weight)
    goal = (np.log(2.0) * weight.mean(), gap, 1e-300, 1e-14)
    return point, kernels.minimise_table(table, targets, l2, has_intercept, *goal, steps, point)


@pytest.mark.kernel
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_kernel_finds_the_minimum_of_its_twin(n, d, has_intercept):
    """Its point is the twin's, and so are the objective and the bound at that point."""
    X, y, weight = draw(n, d)
    table = np.column_stack([X, np.ones(n)]) if has_intercept else X
    point, (objective, distance, steps, is_reached) = minimise(
        table, y, weight, 0.05, has_intercept=has_intercept
    )
    assert is_reached
    assert 0 < steps <= 50
    twin = reference.minimum_of_table(table, y, weight, 0.05, has_intercept=has_intercept)
    np.testing.assert_allclose(point, twin, atol=1e-4)
    given = {"has_intercept": has_intercept}
    expected = reference.bound_of_table(table, y, weight, 0.05, point, **given)
    assert objective == pytest.approx(expected[0], rel=1e-12)
    assert distance == pytest.approx(expected[1], rel=1e-5, abs=1e-16)
    least = reference.bound_of_table(table, y, weight, 0.05, twin, **given)[0]
    assert objective - least <= distance + 1e-15


@pytest.mark.kernel
@pytest.mark.parametrize("has_intercept", [False, True])
def test_the_bound_holds_after_each_step(has_intercept):
    """Whenever a run says that it reached its goal, the minimum is not further away than that."""
    X, y, weight = draw(200, 5)
    X *= np.geomspace(1e-3, 1e3, 5)
    table = np.column_stack([X, np.ones(200)]) if has_intercept else X
    given = {"has_intercept": has_intercept}
    twin = reference.minimum_of_table(table, y, weight, 1e-3, **given)
    least = reference.bound_of_table(table, y, weight, 1e-3, twin, **given)[0]
    for steps in range(8):
        _, found = minimise(table, y, weight, 1e-3, steps=steps, gap=1e-12, **given)
        assert found[2] <= steps
        if found[3]:
            assert found[0] - least <= found[1] + 1e-14
        assert found[3] == (
            found[1] <= max(1e-12 * (np.log(2.0) * weight.mean() - found[0]), 1e-14)
        )


@pytest.mark.kernel
def test_steps_that_are_too_long_are_shortened():
    """From far away a full step would raise the objective; the minimum is found all the same."""
    X, y, weight = draw(150, 6)
    start = np.array([-8.0, 6.0, -8.0, 8.0, -5.0, 4.0])
    point, found = minimise(X, y, weight, 1e-3, has_intercept=False, start=start)
    assert found[3]
    twin = reference.minimum_of_table(X, y, weight, 1e-3, has_intercept=False)
    np.testing.assert_allclose(point, twin, atol=1e-4)


@pytest.mark.kernel
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_cannot_be_solved_is_not_called_solved(wrong):
    """Such a run ends, and says that it did not reach its goal."""
    X, y, weight = draw(50, 3)
    X[0, 1] = wrong
    assert not minimise(X, y, weight, 0.1, has_intercept=False)[1][3]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_call_agrees_with_many(monkeypatch, kind, weighted, fit_intercept):
    """The estimator has the same weights either way, whatever the rows are stored as."""
    X, y, weight = draw(400, 12)
    X[:, 0] += 50.0
    rows = {"float64": X, "float32": X.astype(np.float32), "csr": sparse.csr_array(X)}[kind]
    given = {"sample_weight": weight if weighted else None}
    model, found = LogisticRegression(fit_intercept=fit_intercept), []

    def watched(*arguments):
        found.append(few_rows.solve_few_rows(*arguments))
        return found[-1]

    monkeypatch.setattr(newton, "solve_few_rows", watched)
    once = model.fit(rows, y, **given)
    assert len(found) == 1
    assert found[0] is not None
    coef, intercept, gap = once.coef_.copy(), once.intercept_.copy(), once.gap_
    assert once.plan_.method == "newton"
    assert once.gap_certified_
    monkeypatch.setattr(newton, "solve_few_rows", lambda *_: None)
    many = model.fit(rows, y, **given)
    tolerance = 1e-3 if kind == "float32" else 1e-5
    np.testing.assert_allclose(coef, many.coef_, atol=tolerance)
    np.testing.assert_allclose(intercept, many.intercept_, atol=50.0 * tolerance)
    assert gap <= (1e-10 if kind != "float32" else 1e-2)


def test_a_path_begins_where_the_one_before_ended(monkeypatch):
    """Solutions of several penalties are those of each alone, in fewer steps."""
    X, y, _ = draw(300, 20)
    problem = Problem.build(X, y, l2=1.0, fit_intercept=True)
    penalties = [ElasticNet(l2, 0.0) for l2 in (1.0, 0.5, 0.25, 0.12)]
    path = solve_path(problem, penalties, tol=1e-8, max_iter=100)
    alone = [solve_path(problem, [one], tol=1e-8, max_iter=100)[0] for one in penalties]
    for one, other in zip(path, alone, strict=True):
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-6)
    assert sum(one.iterations for one in path) < sum(one.iterations for one in alone)
    scores = LogisticRegressionCV(Cs=4, cv=3).fit(X, y).scores_
    monkeypatch.setattr(newton, "solve_few_rows", lambda *_: None)
    again = LogisticRegressionCV(Cs=4, cv=3).fit(X, y).scores_
    np.testing.assert_allclose(scores, again, atol=0.02)


@pytest.mark.parametrize(
    ("given", "loss"),
    [({"l1": 0.1}, "log_loss"), ({}, "log_loss"), ({"l2": 0.1}, "squared_error")],
)
def test_other_problems_are_left_to_many_calls(given, loss):
    """An L1 penalty, none at all, and other losses take more care."""
    X, y, _ = draw(100, 5)
    problem = Problem.build(X, y, loss=loss, **given)
    assert solve_at_once(problem, [problem.penalty], 1e-6, 100, None) is None
    assert solve_problem(problem, tol=1e-6, max_iter=100).ended == "gap"


@pytest.mark.parametrize(("n", "d"), [(1500, 4), (300, 129)])
def test_more_rows_or_columns_are_left_to_many_calls(n, d):
    X, y, _ = draw(n, d)
    problem = Problem.build(X, y, l2=0.1)
    assert not few_rows.are_few_rows(X, [problem.penalty])


def test_too_few_steps_are_left_to_many_calls():
    """These end with a bound that is not small enough, and say so."""
    X, y, _ = draw(300, 10)
    solved = solve_problem(Problem.build(X, y, l2=1e-4), tol=1e-8, max_iter=1)
    assert solved.ended == "max_iter"
    assert 1e-8 < solved.gap < np.inf


def test_a_warm_start_at_the_optimum_takes_no_step():
    X, y, _ = draw(300, 10)
    model = LogisticRegression(warm_start=True, tol=1e-6).fit(X, y)
    assert model.n_iter_[0] > 0
    assert model.fit(X, y).n_iter_[0] == 0


@pytest.mark.parametrize(
    ("mean", "dtype"),
    [(0.0, np.float32), (2e3, np.float32), (0.0, np.float64), (2e3, np.float64), (1e9, np.float64)],
)
def test_the_gap_is_that_of_the_weights_as_given_back(mean, dtype):
    """Intercepts of columns far from zero are rounded, and weights of float32 rows are float32."""
    rng = np.random.default_rng(1)
    X = np.column_stack([mean + 4.0 * rng.normal(size=300), rng.normal(size=300)]).astype(dtype)
    y = np.where((X[:, 0] - mean) / 4.0 + rng.normal(size=300) > 0.0, 1.0, -1.0)
    model = LogisticRegression(tol=1e-3).fit(X, y)
    table = np.column_stack([X.astype(np.float64) - [mean, 0.0], np.ones(300)])
    given, weight = {"has_intercept": True}, np.ones(300)
    least = reference.bound_of_table(
        table, y, weight, 1.0 / 300.0, _minimum(table, y, weight), **given
    )[0]
    coef, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
    point = np.append(coef, intercept + mean * coef[0])
    true = reference.bound_of_table(table, y, weight, 1.0 / 300.0, point, **given)[0] - least
    zero = reference.bound_of_table(table, y, weight, 1.0 / 300.0, np.zeros(3), **given)[0]
    assert true <= model.gap_ * (zero - least) + (1e-8 if dtype is np.float32 else 1e-13)


def _minimum(table, y, weight):
    return reference.minimum_of_table(table, y, weight, 1.0 / 300.0, has_intercept=True)


def test_a_generator_of_random_numbers_is_drawn_from_once():
    """Rows that one call is not for see the same numbers as if there were none."""
    X, y, _ = draw(300, 5)
    generator, other = np.random.RandomState(0), np.random.RandomState(0)
    LogisticRegression(l1_ratio=0.5, random_state=generator).fit(X, y)
    other.randint(2**31 - 1)
    assert generator.randint(1000) == other.randint(1000)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_that_overflow_do_not_warn_of_their_sums():
    X, y, _ = draw(300, 3)
    X[:, 1] = np.where(X[:, 1] > 0.0, 1e308, -1.7e308)
    LogisticRegression().fit(X, y)
