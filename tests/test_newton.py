"""Newton's method finds the optimum of every smooth loss, whatever the data look like."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import antithetic
from antithetic.exact import l1, newton, path
from antithetic.exact.l1 import Lasso
from antithetic.exact.linear_algebra import Factor, conjugate_gradients
from antithetic.exact.newton import best_length
from antithetic.exact.path import Effort, sums_of
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.constant import best_constant
from antithetic.problem.losses import LOSSES
from antithetic.problem.overflow import DivergenceError
from antithetic.problem.penalties import ElasticNet

SMOOTH = [name for name, loss in LOSSES.items() if loss.is_smooth]
PENALTIES = {
    "none": {},
    "l2": {"l2": 0.01},
    "l1": {"l1": 0.01},
    "elastic net": {"l2": 0.01, "l1": 0.01},
}


def load_benchmark(name):
    """A script of the benchmarks as a module."""
    folder = Path(__file__).parents[1] / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


CERTIFICATES, PROOF = load_benchmark("certificates"), load_benchmark("proof_gaps")


def plain(solved):
    """A result of two classes with weights of shape (d,) and one number for the intercept."""
    return solved._replace(coef=solved.coef[0], intercept=float(solved.intercept[0]))


def solve_problem(problem, **given):
    return plain(path.solve_problem(problem, **given))


def solve_path(problem, penalties, **given):
    return [plain(solved) for solved in path.solve_path(problem, penalties, Effort(**given))]


def draw(n, d, seed=0, loss="log_loss"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    scores = X @ rng.normal(size=d) + 2.0 * rng.logistic(size=n)
    y = np.where(scores > 0.5, 1.0, -1.0) if LOSSES[loss].classification else scores
    return X, y, rng


def optimum(problem):
    """Objective of the optimum by L-BFGS-B, the parts of each weight above and below zero apart."""
    d, l1 = problem.d, problem.penalty.l1

    def both(theta):
        coef = theta[:d] - theta[d : 2 * d]
        intercept = float(theta[-1]) if problem.fit_intercept else 0.0
        gradient, constant = problem.gradient(coef, intercept)
        smooth = problem.objective(coef, intercept) - l1 * np.abs(coef).sum()
        slopes = [gradient + l1, -gradient + l1, [constant] if problem.fit_intercept else []]
        return smooth + l1 * theta[: 2 * d].sum(), np.concatenate(slopes)

    size = 2 * d + problem.fit_intercept
    bounds = [(0.0, None)] * (2 * d) + [(None, None)] * problem.fit_intercept
    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10}
    return scipy_minimize(
        both, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).fun


@pytest.mark.parametrize("n", [60, 2000])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_optimum_is_that_of_scipy(loss, penalty, intercept, form, n):
    """Every smooth loss and penalty, with weights of which some are zero."""
    X, y, rng = draw(n, 5, loss=loss)
    problem = Problem.build(
        form(X),
        y,
        loss=loss,
        fit_intercept=intercept,
        sample_weight=rng.uniform(0.5, 2.0, size=n) * (rng.random(n) < 0.8),
        **PENALTIES[penalty],
    )
    solved = solve_problem(problem, tol=1e-9, max_iter=100)
    found, least = problem.objective(solved.coef, solved.intercept), optimum(problem)
    assert solved.ended == "gap"
    assert solved.gap <= 1e-9
    assert solved.certified == (penalty != "none" or LOSSES[loss].concordance < np.inf)
    assert found <= least + 1e-9 * abs(least)
    assert found >= least - 1e-6 * abs(least)  # SciPy's own accuracy


def test_l1_weights_are_exactly_zero():
    """A strong L1 penalty keeps few weights, and those that it drops are zero to the bit."""
    X, y, _ = draw(500, 30)
    solved = solve_problem(Problem.build(X, y, l1=0.05), tol=1e-9, max_iter=100)
    assert 0 < np.count_nonzero(solved.coef) < 20
    strong = solve_problem(Problem.build(X, y, l1=10.0), tol=1e-9, max_iter=100)
    assert not strong.coef.any()


@pytest.mark.parametrize("n", [300, 3000])
def test_columns_of_any_scale_and_place(n):
    """Scales from 1e-6 to 1e6, and offsets of 1000 standard deviations, cost no accuracy."""
    X, y, rng = draw(n, 12)
    scales = 10 ** rng.uniform(-6.0, 6.0, size=12)
    moved = (X + 1000.0 * rng.normal(size=12)) * scales
    plain = solve_problem(Problem.build(X, y, fit_intercept=True), tol=1e-8, max_iter=100)
    other = solve_problem(Problem.build(moved, y, fit_intercept=True), tol=1e-8, max_iter=100)
    assert other.ended == plain.ended == "gap"
    assert other.iterations <= plain.iterations + 10
    np.testing.assert_allclose(other.coef * scales, plain.coef, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic net", "none"])
@pytest.mark.parametrize("n", [200, 2500])
def test_columns_that_say_nothing_do_no_harm(n, penalty):
    """Constant, duplicated and zero columns: the objective is that of the other columns."""
    X, y, _ = draw(n, 4)
    useless = np.column_stack([X, np.zeros(n), np.full(n, 3.0), X[:, 0], np.zeros(n)])
    given = {"fit_intercept": True, **PENALTIES[penalty]}
    found = []
    for rows in (X, useless):
        problem = Problem.build(rows, y, **given)
        solved = solve_problem(problem, tol=1e-9, max_iter=100)
        assert solved.ended == "gap"
        assert np.isfinite(solved.coef).all()
        found.append(problem.objective(solved.coef, solved.intercept))
    if penalty in ("l1", "none"):  # with L2, two columns share one weight and pay less for it
        assert found[1] == pytest.approx(found[0], rel=1e-8)
    assert found[1] <= found[0] * (1.0 + 1e-9)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic net"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 1), (2, 7), (3, 2), (20, 100), (50, 700)])
@pytest.mark.parametrize("intercept", [False, True])
def test_few_rows_are_enough(shape, penalty, intercept):
    """One row, two rows, and fewer rows than columns."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=shape)
    y = np.resize([1.0, -1.0], shape[0])
    loss = "squared_error" if shape[0] == 1 else "log_loss"
    problem = Problem.build(X, y, loss=loss, fit_intercept=intercept, **PENALTIES[penalty])
    solved = solve_problem(problem, tol=1e-8, max_iter=100)
    assert solved.ended == "gap"
    assert problem.objective(solved.coef, solved.intercept) <= optimum(problem) + 1e-9


def test_sorted_rows_do_no_harm():
    """Samples are drawn from all over the data: classes in turn, or one after the other."""
    X, y, rng = draw(6000, 10)
    order = np.lexsort([X[:, 0], y])
    mixed, in_order = (
        solve_problem(Problem.build(X[rows], y[rows], l2=1e-4), tol=1e-6, max_iter=100)
        for rows in (rng.permutation(6000), order)
    )
    assert in_order.samples
    assert in_order.iterations <= mixed.iterations + 3
    np.testing.assert_allclose(in_order.coef, mixed.coef, atol=1e-2)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [4, 100, 3000])
def test_separable_classes_without_a_penalty_end(n, intercept):
    """No optimum exists; the run ends with finite weights that separate, and no certificate."""
    X = np.linspace(-1.0, 1.0, n)[:, None] * np.array([[1.0, 0.5]])
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    solved = solve_problem(Problem.build(X, y, fit_intercept=intercept), tol=1e-6, max_iter=200)
    assert np.isfinite(solved.coef).all()
    assert np.isfinite(solved.intercept)
    assert not solved.certified
    assert (y * (X @ solved.coef + solved.intercept) > 0.0).all()


def test_a_class_without_weight_ends():
    """Weights of zero leave one class alone: nothing is learnt, and nothing overflows."""
    X, y, _ = draw(100, 3)
    weight = np.where(y > 0.0, 1.0, 0.0)
    for intercept in (False, True):
        problem = Problem.build(X, y, l2=0.1, sample_weight=weight, fit_intercept=intercept)
        solved = solve_problem(problem, tol=1e-6, max_iter=100)
        assert np.isfinite(solved.coef).all()
        assert solved.ended in ("gap", "rounding")


def test_rare_columns_are_found():
    """A sample sees nothing of a column with three entries; all rows do."""
    X, y, rng = draw(5000, 6)
    rare = np.zeros((5000, 3))
    for column in range(3):
        rare[rng.choice(5000, size=3, replace=False), column] = 100.0
    problem = Problem.build(np.column_stack([X, rare]), y, l2=1e-8, fit_intercept=True)
    solved = solve_problem(problem, tol=1e-8, max_iter=60)
    assert solved.ended == "gap"
    assert solved.coef[6:].all()


def draw_text(n=300, d=6000, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.01, format="csr", rng=rng)
    scores = X @ (rng.normal(size=d) * (rng.random(d) < 0.05))
    return X, np.where(scores + 0.1 * rng.normal(size=n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("intercept", [False, True])
def test_very_many_columns_are_solved_by_conjugate_gradients(intercept):
    """Far more columns than rows: products instead of a Hessian.

    They begin on the dual, which is not enough with an intercept, or with given weights.
    """
    X, y = draw_text()
    problem = Problem.build(X, y, l2=1e-3, fit_intercept=intercept)
    start = None if intercept else (np.full(X.shape[1], 0.1), 0.0)
    solved = solve_problem(problem, tol=1e-8, max_iter=100, start=start)
    assert (solved.method, solved.ended) == ("conjugate gradients", "gap")
    peer = LogisticRegression(
        C=1.0 / (1e-3 * 300), fit_intercept=intercept, solver="newton-cg", tol=1e-10, max_iter=1000
    ).fit(X, y)
    found = problem.objective(solved.coef, solved.intercept)
    theirs = problem.objective(peer.coef_[0], float(np.sum(peer.intercept_)))
    assert found == pytest.approx(theirs, rel=1e-8)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge", "squared_error"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_dual_ascent_alone_finds_the_optimum_of_text(loss, dtype, weighted, monkeypatch):
    """It ends when its own gap is small enough, and that gap bounds the distance."""
    monkeypatch.setattr("antithetic.exact.goal.FEW_ROWS", 0)  # where digits would be free
    X, y = draw_text()
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float) if weighted else None
    X = X.astype(dtype)
    problem = Problem.build(X, y, loss=loss, l2=1e-2, sample_weight=weight)
    exact = solve_problem(replace(problem, X=X.astype(np.float64)), tol=1e-13, max_iter=1000)
    least, zero = problem.objective(exact.coef), problem.objective(np.zeros(problem.d))
    rounding = 1e-6 if dtype is np.float32 else 1e-12
    for tol in (1e-2, 1e-4):
        solved = solve_problem(problem, tol=tol, max_iter=100)
        assert (solved.method, solved.ended, solved.certified) == ("dual ascent", "gap", True)
        true = (problem.objective(solved.coef) - least) / (zero - least)
        assert true <= solved.gap + rounding
        assert solved.gap <= max(tol, rounding / tol)
        assert solved.iterations > 0
    coarse, fine = (solve_problem(problem, tol=tol, max_iter=100) for tol in (1e-2, 1e-4))
    assert coarse.iterations < fine.iterations


def test_dual_ascent_is_that_of_each_penalty():
    """A path does not use a bound that belongs to the problem's own penalty."""
    X, y = draw_text()
    problem = Problem.build(X, y, l2=1.0)
    weak = ElasticNet(1e-2, 0.0)
    solved = solve_path(problem, [weak], tol=1e-6, max_iter=100)[0]
    own = replace(problem, penalty=weak)
    least = own.objective(solve_problem(own, tol=1e-12, max_iter=100).coef)
    assert own.objective(solved.coef) == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_dual_ascent_is_named_only_where_it_was_enough(intercept):
    """Not while a fit goes on, nor with an intercept; its epochs are at most max_iter."""
    X, y = draw_text()
    problem = Problem.build(X, y, l2=1e-3, fit_intercept=intercept)
    methods = []
    solve_problem(problem, tol=1e-8, max_iter=5, watch=lambda now: methods.append(now().method))
    assert "dual ascent" not in methods


@pytest.mark.parametrize("seed", [0, 2, 23])
def test_the_bound_of_dual_ascent_is_charged_with_rounding(seed):
    """The difference of two objectives may round to zero if the gap is not zero."""
    rng = np.random.default_rng(seed)
    X = sparse.random(300, 2000, density=0.02, random_state=seed, format="csr")
    X.data = rng.normal(size=X.nnz) * 10.0 ** rng.uniform(-1.0, 2.0)
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    problem = Problem.build(X, y, l2=1000.0 / 300.0)
    solved = path.solve_problem(problem, tol=1e-16, max_iter=100)
    assert solved.method == "dual ascent"
    long, coef = X.toarray().astype(np.longdouble), solved.coef[0].astype(np.longdouble)
    chance = 1.0 / (1.0 + np.exp(y * (long @ coef)))
    gradient = (problem.penalty.l2 * coef - long.T @ (y * chance) / 300.0).astype(np.float64)
    # no curvature of the objective is above this, and the gap is at least |gradient|^2 / (2 most)
    most = problem.penalty.l2 + np.linalg.norm(X.toarray(), 2) ** 2 / 1200.0
    unit = np.log(2.0) - problem.objective(solved.coef[0])
    assert solved.gap * unit >= 0.5 * float(gradient @ gradient) / most > 0.0
    for most in (0, 1, 2):
        solved = solve_problem(problem, tol=1e-8, max_iter=most)
        assert solved.iterations <= most
        assert solved.ended != "gap" or solved.gap <= 1e-8


def test_dual_ascent_that_is_slow_gives_way_to_newton():
    """Nearly collinear rows and a weak penalty: coordinates creep, Newton's steps do not."""
    X, y = draw_text(200, 2000)
    common = sparse.csr_array(np.full((200, 5), 50.0))
    problem = Problem.build(sparse.hstack([X, common], format="csr"), y, l2=1e-6)
    solved = solve_problem(problem, tol=1e-8, max_iter=500)
    assert (solved.method, solved.ended) == ("conjugate gradients", "gap")


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_very_many_columns_with_l1_are_solved_on_a_working_set(l2):
    """The optimum's conditions hold for all columns, also those that were never in the set."""
    X, y = draw_text()
    problem = Problem.build(X, y, l2=l2, l1=2e-3, fit_intercept=True)
    solved = solve_problem(problem, tol=1e-8, max_iter=100)
    assert (solved.method, solved.ended) == ("working set", "gap")
    gradient = problem.data_gradient(problem.slopes(solved.coef, solved.intercept))[0]
    gradient = gradient + l2 * solved.coef
    assert 0 < np.count_nonzero(solved.coef) < 1000
    assert np.abs(gradient).max() <= 2e-3 * (1.0 + 1e-3)


def test_a_good_start_saves_iterations():
    """From the solution itself nothing is left to do."""
    X, y, _ = draw(4000, 10)
    problem = Problem.build(X, y, l2=1e-4, fit_intercept=True)
    cold = solve_problem(problem, tol=1e-6, max_iter=100)
    warm = solve_problem(problem, tol=1e-6, max_iter=100, start=(cold.coef, cold.intercept))
    assert warm.iterations <= 1  # which finds the bound
    assert not warm.samples
    assert warm.gap <= 1e-6


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_a_path_ends_where_single_runs_do(tol, rare, l1_ratio):
    """Each penalty of a path has its own bound, which holds, and weights of its own optimum."""
    X, y, rng = draw(4000, 6)
    if rare:
        X = np.column_stack([X, rng.random(4000) < 0.002])
    problem = Problem.build(X, y, fit_intercept=True)
    penalties = [
        ElasticNet((1.0 - l1_ratio) * strength, l1_ratio * strength)
        for strength in np.geomspace(1.0, 1e-7, 6)
    ]
    path = solve_path(problem, penalties, tol=tol, max_iter=100)
    for penalty, solved in zip(penalties, path, strict=True):
        alone = replace(problem, penalty=penalty)
        exact = solve_problem(alone, tol=1e-13, max_iter=100)
        constant = best_constant(problem.loss, problem.y, None)[1]
        least = alone.objective(exact.coef, exact.intercept)
        above = alone.objective(solved.coef, solved.intercept) - least
        assert solved.ended == "gap"
        assert solved.gap <= tol
        assert above <= solved.gap * (constant - least) + 1e-12 * constant


def test_a_path_needs_few_iterations():
    """Each penalty begins where the one before ended, with Hessians of the same sample."""
    X, y, _ = draw(20000, 80)
    problem = Problem.build(X, y, fit_intercept=True)
    penalties = [ElasticNet(strength, 0.0) for strength in np.geomspace(1.0, 1e-7, 8)]
    found = solve_path(problem, penalties, tol=1e-4, max_iter=100)
    assert sum(solved.iterations for solved in found) <= 30


def sites(n, count, seed=0):
    """Sites of one of four letters each, as three binary columns, and three classes of rows."""
    rng = np.random.default_rng(seed)
    labels, letters = rng.integers(0, 3, n), rng.integers(0, 4, (n, count))
    for place, letter in ((0, 2), (1, 3), (2, 0)):
        told = (labels < 2) & (rng.random(n) < 0.9)
        letters[told, place + 3 * labels[told]] = letter
    X = np.concatenate([letters == letter for letter in range(3)], axis=1)
    return X.astype(np.float64), labels


def count_products(monkeypatch):
    """Products of each step with an L1 penalty, at most, in units of a sweep over all weights."""
    counts = []

    class Counted(Factor):
        def __init__(self, matrix):
            counts[-1] += len(matrix) ** 3 / 3.0 / size[0] ** 2
            super().__init__(matrix)

    def propose(model, sums, point):
        counts.append(0.0)
        size[0] = len(point.theta)
        efforts.append(model._effort)
        return proposed(model, sums, point)

    def descend(*arguments):
        counts[-1] += arguments[-1]
        return descended(*arguments)

    size, efforts, proposed, descended = [0], [], Lasso._propose, l1.kernels.descend
    monkeypatch.setattr(l1, "Factor", Counted)
    monkeypatch.setattr(Lasso, "_propose", propose)
    monkeypatch.setattr(l1.kernels, "descend", descend)
    return counts, efforts


def most_products(weights, effort):
    """Ten rounds, each of 100 sweeps, of as many in factorisations, and of one that exceeds it."""
    return 10.0 * (100.0 + 100.0 * effort + weights / 3.0)


def test_a_step_with_an_l1_penalty_costs_a_bounded_number_of_products(monkeypatch):
    """Many classes of binary columns: a step is worth some 2000 sweeps, and the fit converges."""
    counts, efforts = count_products(monkeypatch)
    rows, labels = sites(800, 24)
    model = antithetic.LogisticRegression(l1_ratio=1.0, C=100.0).fit(rows, labels > 0)
    assert model.gap_ <= 1e-4
    for count, effort in zip(counts, efforts, strict=True):
        assert count <= most_products(model.coef_.size + 1, effort)


def test_columns_that_rounding_makes_alike_end_within_max_iter_with_advice(monkeypatch):
    """Offsets of 1e6 without an intercept leave too few digits for the L1 penalty."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(3000, 5))
    labels = rng.random(3000) < 1.0 / (1.0 + np.exp(-Z @ np.linspace(1.0, -1.0, 5)))
    counts, efforts = count_products(monkeypatch)
    model = antithetic.LogisticRegression(l1_ratio=1.0, C=100.0, fit_intercept=False)
    with pytest.warns(ConvergenceWarning, match="far from zero.*subtract its mean"):
        model.fit(sparse.csr_array(1e-3 * Z + 1e6), labels)
    assert len(counts) <= 3 * model.max_iter
    for count, effort in zip(counts, efforts, strict=True):
        assert count <= most_products(5, effort)
    assert model.gap_ > model.tol


def test_the_same_seed_gives_the_same_bits():
    """Samples depend on the seed alone; another one leads to the same optimum."""
    X, y, _ = draw(4000, 10)
    problem = Problem.build(X, y, l2=1e-4)
    first, again, other = (
        solve_problem(problem, tol=1e-9, max_iter=100, seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.coef, again.coef)
    assert (first.coef != other.coef).any()
    np.testing.assert_allclose(first.coef, other.coef, atol=1e-4)


def test_threads_agree():
    """Three threads reach the same optimum as one."""
    X, y, _ = draw(60_000, 15)
    problem = Problem.build(X, y, l2=1e-4)
    one, three = (solve_problem(problem, tol=1e-9, max_iter=50, threads=k) for k in (1, 3))
    np.testing.assert_allclose(three.coef, one.coef, atol=1e-6)


def test_a_run_can_be_watched_and_interrupted():
    """What is watched is a solution, better from one iteration to the next; an error ends it."""
    X, y, _ = draw(4000, 10)
    problem, seen = Problem.build(X, y, l2=1e-8), []
    solve_problem(
        problem, tol=1e-9, max_iter=100, watch=lambda so_far: seen.append(plain(so_far()))
    )
    objectives = [problem.objective(one.coef, one.intercept) for one in seen]
    assert [one.iterations for one in seen] == list(range(len(seen)))
    assert all(b <= a * (1.0 + 1e-12) for a, b in pairwise(objectives))

    def stop(so_far):
        if so_far().iterations == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_problem(problem, tol=1e-9, max_iter=100, watch=stop)


@pytest.mark.parametrize("weighted", [False, True])
def test_parabolas_above_need_no_visit_to_the_rows(weighted):
    """Curvatures above the logistic loss, from slopes alone, are those of the predictions."""
    X, y, rng = draw(500, 5)
    weight = rng.choice([0.0, 0.5, 3.0], size=500) if weighted else None
    problem = Problem.build(X, y, sample_weight=weight, fit_intercept=True)
    sums = sums_of(problem)
    for size in (0.0, 1e-8, 1.0, 100.0):
        theta, step = size * rng.normal(size=6), rng.normal(size=6)
        predictions, along = (problem.predictions(*sums.split(one)) for one in (theta, step))
        above = problem.loss.curvatures_above(problem.y, predictions)
        above = above if weight is None else above * weight
        expected = float(above @ along**2) / problem.n
        assert sums.curvature_above(sums.at(theta), step) == pytest.approx(expected, rel=1e-12)


def test_columns_that_are_alike_with_l1():
    """Of columns that explain each other, those that cost the least are found in few iterations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 20)) @ rng.normal(size=(20, 150)) * 10 ** rng.uniform(-3, 3, size=150)
    y = np.where(rng.random(60) < 0.5, 1, -1)
    problem = Problem.build(X, y, l1=1e-4)
    solved = solve_problem(problem, tol=1e-8, max_iter=30)
    assert solved.ended == "gap"
    assert np.count_nonzero(solved.coef) <= 20


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_with_l1_no_step_is_looked_for_along_a_gradient_that_is_not_finite(wrong, monkeypatch):
    """Otherwise it takes seconds until the pass over all rows names the entry that is not."""
    monkeypatch.setattr(Factor, "solve", None)
    hessian, gradient = np.diag(np.arange(1.0, 5.0)), np.array([1.0, -2.0, wrong, 0.5])
    model = l1._Quadratic(hessian, np.full(4, 0.1), np.ones(4), gradient)
    with np.errstate(invalid="ignore"):
        assert model.descend(1.0)[0].decrement == 0.0


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_quadratic_objective_takes_one_hessian_of_all_rows(monkeypatch, fit_intercept, weighted):
    """Samples would only be steps on the way; the result is that of the normal equations."""
    taken, ours = [], RowSums.hessian

    def hessian(self, point, **given):
        taken.append(self.n)
        return ours(self, point, **given)

    monkeypatch.setattr(RowSums, "hessian", hessian)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20)) * np.geomspace(0.1, 10.0, 20) + 3.0
    y = X @ rng.normal(size=20) + rng.normal(size=4000) + 5.0
    weight = rng.choice([0.0, 1.0, 3.0], 4000) if weighted else np.ones(4000)
    problem = Problem.build(
        X, y, loss="squared_error", l2=1e-2, fit_intercept=fit_intercept, sample_weight=weight
    )
    solved = solve_problem(problem, tol=1e-10, max_iter=100)
    assert (solved.ended, solved.samples) == ("gap", ())
    assert len(taken) <= 2  # the second one, for the last digits
    assert set(taken) == {4000}
    table = np.column_stack([X, np.ones(4000)]) if fit_intercept else X
    ridge = np.diag(np.append(np.full(20, 1e-2), np.zeros(int(fit_intercept))))
    normal = (table * weight[:, None]).T @ table / 4000 + ridge
    expected = np.linalg.solve(normal, table.T @ (weight * y) / 4000)
    constant = float(expected[20]) if fit_intercept else 0.0
    least, zero = problem.objective(expected[:20], constant), sums_of(problem).constant()[1]
    assert problem.objective(solved.coef, solved.intercept) - least <= 1e-10 * (zero - least)


def test_too_few_iterations_say_so():
    """A run that is cut short is not at its gap, and has a bound all the same."""
    X, y, _ = draw(4000, 10)
    solved = solve_problem(Problem.build(X, y, l2=1e-6), tol=1e-12, max_iter=0)
    assert solved.ended == "max_iter"
    assert 1e-12 < solved.gap < np.inf


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_the_bound_holds_on_random_problems(seed):
    """The gap that was asked for is reached, and the true one is never above the bound."""
    case = CERTIFICATES.Case.draw(seed, only_logistic=True)
    outcome = CERTIFICATES.judge(case)
    assert not outcome.faults(case), CERTIFICATES.describe(case)


def rare_words(n, seed=0, scale=1.0):
    """Sparse rows of 60 columns, half of which few rows have, and labels."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, 61) ** 1.5
    X = (rng.random((n, 60)) < np.maximum(0.5 * share, 3.0 / n)) * rng.uniform(0.5, 2.0, (n, 60))
    scores = X @ rng.normal(size=60) + rng.logistic(size=n)
    return sparse.csr_array(X * scale), np.where(scores > scores.mean(), 1.0, -1.0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_reach_the_optimum_of_dense_ones(intercept, kind, weighted):
    """They begin with an epoch, which sees rare columns, and dense ones with samples."""
    X, y = rare_words(4000)
    X = X.astype(kind)
    weight = np.random.default_rng(1).uniform(0.0, 2.0, len(y)) if weighted else None
    settings = {"l2": 1e-4, "fit_intercept": intercept, "sample_weight": weight}
    problems = [Problem.build(rows, y, **settings) for rows in (X, X.toarray())]
    sparse_rows, dense_rows = (solve_problem(one, tol=1e-7, max_iter=50) for one in problems)
    assert not sparse_rows.samples
    assert "epoch" in sparse_rows.why[0]
    assert dense_rows.samples
    assert sparse_rows.gap <= 1e-7
    found = [problems[1].objective(one.coef, one.intercept) for one in (sparse_rows, dense_rows)]
    accuracy = 1e-6 if kind == np.float32 else 1e-7
    assert found[0] == pytest.approx(found[1], rel=accuracy)


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1e6, 1e200])
def test_sparse_rows_of_any_scale_do_no_harm(scale):
    """Columns of any scale, and one row that is a million times as large as the others."""
    X, y = rare_words(3000, scale=scale)
    X.data[X.indptr[7] : X.indptr[8]] *= 1e6 if scale < 1e6 else 1.0
    l2 = 1e-3 * scale * scale if 1e-100 < scale < 1e100 else 1e-3
    with np.errstate(all="ignore"):
        solved = solve_problem(Problem.build(X, y, l2=l2), tol=1e-6, max_iter=100)
    assert np.isfinite(solved.coef).all()
    assert solved.gap <= 1e-6 or (scale == 1e200 and solved.ended == "rounding")


def test_a_given_start_that_is_worse_than_a_constant_is_left_out():
    X, y = rare_words(2000)
    problem = Problem.build(X, y, l2=1e-3)
    seen = []
    far = (np.full(60, 1e3), 0.0)
    solve_problem(
        problem, tol=1e-6, max_iter=50, start=far, watch=lambda so_far: seen.append(plain(so_far()))
    )
    assert not seen[0].coef.any()


@pytest.mark.parametrize("max_iter", [0, 1, 2])
@pytest.mark.parametrize("l2", [0.0, 1e-300, 1e-6])
def test_no_gap_is_above_one(max_iter, l2):
    """gap_ is a share of what a constant prediction lacks, at most 1, however loose the bound."""
    X, y, _ = draw(400, 8)
    solved = solve_problem(Problem.build(X, y, l2=l2), tol=1e-12, max_iter=max_iter)
    assert 0.0 < solved.gap <= 1.0


def test_a_matrix_that_is_not_finite_is_refused():
    """No diagonal makes it definite, and the search for one ends."""
    with pytest.raises(DivergenceError, match="curvature of the objective overflows"):
        Factor(np.array([[1.0, np.inf], [np.inf, 1.0]]))


def test_a_matrix_that_rounding_made_indefinite_has_a_factor():
    """Its solutions are those of a matrix with a slightly larger diagonal."""
    matrix = np.ones((3, 3))
    matrix[2, 2] -= 1e-15
    right = matrix @ np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(matrix @ Factor(matrix).solve(right), right, rtol=1e-6)


def test_the_length_of_a_step_is_about_the_best():
    """One steep row halfway along says nothing of the way there: 5 % of the step is too little."""
    X = np.array([[1000.0, -1.0]] + 99 * [[1.0, 0.0]])
    sums = sums_of(Problem.build(X, np.array([-1.0] + 99 * [1.0]), l2=1e-9), 1)
    start, step = sums.at(np.array([0.0, 500.0])), np.array([1.0, 0.0])
    slope = float(start.gradient @ step)
    moved = newton.move(sums, start, newton.Proposal(step, slope, -0.5 * slope))
    assert 0.3 < moved.length <= 0.5


@pytest.mark.parametrize("scale", [1e-3, 0.1, 1.0, 7.0, 1e3])
def test_the_best_length_is_found_whatever_the_step(scale):
    """Steps that are too long or too short by a factor of 1000 end where the slope is small."""

    def along(length):
        at = scale * length
        value = float(np.logaddexp(0.0, -4.0 * at) + 0.5 * at * at)
        return value, float(scale * (at - 4.0 * expit(-4.0 * at)))

    length = best_length(along, along(0.0), 0.0)
    best = min(along(length)[0] for length in np.geomspace(1e-4, 1e4, 4001) / scale)
    start = along(0.0)[0]
    assert start - along(length)[0] >= 0.5 * (start - best)


def test_known_lengths_alone_are_looked_at():
    """On Dask, a round brings the objective at a few lengths."""
    asked = []

    def along(length):
        asked.append(length)
        return (length - 0.3) ** 2, 2.0 * (length - 0.3)

    assert best_length(along, (0.09, -0.6), 0.0, (1.0, 0.5, 0.25)) == 0.25
    assert set(asked) <= {1.0, 0.5, 0.25}


@pytest.mark.parametrize("d", [1, 5, 20])
def test_conjugate_gradients_solve_in_as_many_products_as_columns(d):
    """With exact arithmetic; the diagonal removes the scales of the columns."""
    rng = np.random.default_rng(d)
    factor = rng.normal(size=(2 * d, d)) * np.geomspace(1e-3, 1e3, d)
    matrix, right = factor.T @ factor, rng.normal(size=d)
    diagonal, products = matrix.diagonal(), []

    def times(vector):
        products.append(vector)
        return matrix @ vector

    solved = conjugate_gradients(times, lambda rest: rest / diagonal, right, 3 * d, 1e-24)
    np.testing.assert_allclose(matrix @ solved.step, right, rtol=1e-6, atol=1e-9)
    assert len(products) <= 3 * d


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_of_columns_on_any_scale(seed):
    """Conjugate gradients do not get there; a Hessian does, once they have cost as much."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 350)) * (rng.random((60, 350)) < 0.2)
    X *= 10.0 ** rng.uniform(-6.0, 6.0, size=350)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    problem = Problem.build(sparse.csr_array(X), y, l2=0.1)
    solved = solve_problem(problem, tol=1e-8, max_iter=100)
    assert solved.certified
    assert solved.gap <= 1e-8


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize(("tol", "most"), [(1e-4, 100), (1e-6, 1)])
def test_the_gap_is_that_of_weights_in_float32(offset, tol, most):
    """Weights of float32 rows are given back as float32, which costs most far from zero.

    That is so whether the tolerance or the number of iterations ends a fit.
    """
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 8)) + offset).astype(np.float32)
    y = np.where((X - np.float32(offset)) @ rng.normal(size=8) + rng.logistic(size=5000) > 0, 1, -1)
    given = {"l2": 2e-4, "fit_intercept": True}
    problem = Problem.build(X, y, **given)
    solved = solve_problem(problem, tol=tol, max_iter=most)
    exact = Problem.build(X.astype(np.float64), y, **given)
    best = solve_problem(exact, tol=1e-10, max_iter=100)
    coef, intercept = solved.coef.astype(np.float32), float(np.float32(solved.intercept))
    least = exact.objective(best.coef, best.intercept)
    apart = exact.objective(coef.astype(np.float64), intercept) - least
    assert solved.certified
    assert apart <= solved.gap * (sums_of(exact).constant()[1] - least)
    lost = "rounding" if most == 100 else "max_iter"
    assert solved.ended == ("gap" if solved.gap <= tol else lost)


@pytest.mark.parametrize("kind", PROOF.KINDS)
def test_no_bound_is_below_the_gap_on_hard_problems(kind):
    """Of a step or with a sample, at every iterate; each bound is finite."""
    for seed in range(60):
        found = PROOF.checked(PROOF.hard_problem(kind, seed), seed)
        assert (found.bounds >= found.gaps).all(), seed
        assert np.isfinite(found.bounds).all(), seed
