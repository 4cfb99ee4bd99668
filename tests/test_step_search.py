"""Steps found from the data: their values, where they work, and how a run monitors them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from antithetic import DivergenceError, datasets, minimize
from antithetic.orders import make_sampler
from antithetic.orders.in_order import InOrder
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers import Care, find_steps, lower, make_sgd, run
from antithetic.solvers.steps import make_schedule

RAW = ["breast-cancer", "diabetes", "splice"]


def load(name, **options):
    return Problem.build(*datasets.load(name, return_X_y=True), **options)


def schedule_of(eta0, decay, problem):
    return make_schedule(
        "inverse_time", eta0=eta0, decay=decay, alpha=0.0, power_t=0.5, loss=problem.loss
    )


def objectives(problem, steps, epochs, seed=0):
    solver = make_sgd(problem, False)
    care = Care(problem.penalty.l2)
    states = run(
        solver,
        make_sampler("shuffle", problem.n, 2, seed),
        schedule_of(*steps, problem),
        solver.init(),
        epochs=epochs,
        care=care,
    )
    return [problem.objective(state.coef, state.intercept) for state in states]


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge", "modified_huber"])
@pytest.mark.parametrize("name", RAW)
def test_they_do_not_diverge_on_unscaled_features(name, loss):
    """Every epoch ends below the loss of zero weights, even if a feature reaches 1.3e7."""
    problem = load(name, loss=loss, l2=1e-4, fit_intercept=True)
    found = objectives(problem, find_steps(problem, 2, seed=0), epochs=5)
    assert max(found) < problem.objective(np.zeros(problem.d))


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_they_follow_the_scale_of_the_features(factor):
    """Without a penalty, rows longer by a factor get steps shorter by its square."""
    problem = load("diabetes_scale")
    eta0, decay = find_steps(problem, 2, seed=0)
    scaled = find_steps(replace(problem, X=problem.X * factor), 2, seed=0)
    assert scaled.eta0 == pytest.approx(eta0 / factor**2, rel=1e-6)
    assert scaled.decay == pytest.approx(decay * factor**2, rel=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_they_are_a_pure_function(form):
    """The same rows and seed give the same steps, to the bit, and the rows are not touched."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    problem = Problem.build(form(np.asarray(X)), y, l2=1e-3)
    assert find_steps(problem, 2, seed=3) == find_steps(problem, 2, seed=3)


def test_dense_and_sparse_rows_have_the_same_steps():
    """Dense and sparse rows have the same steps, up to rounding."""
    X, y = datasets.load("splice_scale", return_X_y=True)
    dense, csr = (
        find_steps(Problem.build(form(X), y, l2=1e-3), 2, seed=0)
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(dense, csr, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_they_are_finite_and_positive_for_every_loss(loss):
    """Steps are finite and positive even for rows of zeros, a single row, or zero targets."""
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(50, 3)), np.zeros((4, 2)), rng.normal(size=(1, 3))):
        y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
        problem = Problem(X, y, LOSSES[loss], ElasticNet(), None, False, None)
        for target in (y, np.zeros_like(y)):
            steps = find_steps(replace(problem, y=target), 2, seed=0)
            assert np.isfinite(steps).all()
            assert steps.eta0 > 0.0
            assert steps.decay >= 0.0


def test_decay_is_not_below_the_penalty_and_follows_the_curvature():
    """For the squared error, decay is half the curvature plus half of l2, and at least l2."""
    rng = np.random.default_rng(0)
    X = rng.choice([-2.0, 2.0], size=(400, 1))
    problem = Problem.build(X, 3.0 * X[:, 0], loss="squared_error", l2=0.5)
    assert find_steps(problem, 2, seed=0).decay == pytest.approx(0.5 * (4.0 + 0.5), rel=1e-6)
    strong = Problem.build(X, 3.0 * X[:, 0], loss="squared_error", l2=100.0)
    assert find_steps(strong, 2, seed=0).decay == 100.0


def test_squares_that_overflow_are_reported():
    """No step is short enough for features of 1e300."""
    problem = Problem.build(
        1e300 * np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    )
    with pytest.raises(
        DivergenceError, match=r"overflow occurred at epoch #0: the squares.*StandardScaler"
    ):
        find_steps(problem, 2, seed=0)


def test_a_first_epoch_that_fails_is_done_again_with_shorter_steps():
    """Steps that were fit for a sample may be too long for rows outside of it.

    Without care the run would diverge.
    """
    X = np.random.default_rng(0).normal(size=(200, 3))
    problem = Problem.build(X, X @ [1.0, 2.0, 3.0], loss="squared_error")
    solver = make_sgd(problem, False)
    sampler, schedule = make_sampler("shuffle", problem.n, 2, 0), schedule_of(50.0, 0.0, problem)
    with pytest.raises(
        DivergenceError, match=r"overflow occurred at epoch #\d: the steps diverged"
    ):
        list(run(solver, sampler, schedule, solver.init(), epochs=9))
    *_, state = run(solver, sampler, schedule, solver.init(), epochs=3, care=Care(0.0))
    assert state.epochs == 3
    assert state.lowered > 0
    assert problem.objective(state.coef) < 1e-3 * problem.objective(np.zeros(3))
    assert lower(schedule, state, Care(0.0)).eta0 == pytest.approx(50.0 / 5.0**state.lowered)


def test_a_decay_that_freezes_the_run_is_eased():
    """Epochs that keep going the same way halve it, down to the least.

    Without care the weights never arrive.
    """
    X = np.ones((40, 1))
    problem = Problem.build(X, 5.0 * X[:, 0], loss="squared_error")
    solver, sampler, schedule = (
        make_sgd(problem, False),
        InOrder(40, 2),
        schedule_of(1.0, 200.0, problem),
    )
    *_, frozen = run(solver, sampler, schedule, solver.init(), epochs=60)
    *_, eased = run(solver, sampler, schedule, solver.init(), epochs=60, care=Care(0.1))
    assert abs(frozen.coef[0] - 5.0) > 4.0
    assert abs(eased.coef[0] - 5.0) < 0.1
    *_, floor = run(solver, sampler, schedule, solver.init(), epochs=60, care=Care(150.0))
    assert floor.eased > 1
    assert lower(schedule, floor, Care(150.0)).rate == 150.0


def test_minimize_finds_its_steps_and_resumes():
    """learning_rate="auto" needs no eta0; a resumed run is the same as an unbroken one."""
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    options = {"l2": 1e-2, "sampling": "shuffle", "learning_rate": "auto", "trace": "objective"}
    whole = minimize(X, y, epochs=6, **options)
    assert whole.trace["objective"][-1] < 0.1425
    resumed = minimize(X, y, epochs=6, resume=minimize(X, y, epochs=2, **options), **options)
    np.testing.assert_array_equal(resumed.coef, whole.coef)


def test_rows_in_order():
    """The same batches in every epoch, the last one short."""
    batches = InOrder(5, 2).batches(7)
    np.testing.assert_array_equal(batches.rows, np.arange(5))
    np.testing.assert_array_equal(batches.starts, [0, 2, 4, 5])
