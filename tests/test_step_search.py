"""Steps found from the data: their values, where they work, and how a run monitors them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drive import draws_of
from scipy import sparse

from antithetic import DivergenceError, datasets, minimize
from antithetic.orders import Shuffle
from antithetic.orders.order import InOrder
from antithetic.penalties import GroupLasso
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.steps import Auto, InverseTime
from antithetic.stochastic.loop import begin, present_schedule, train
from antithetic.stochastic.spec import make_spec
from antithetic.stochastic.step_search import find_steps, noise_of_balanced

RAW = ["breast-cancer", "diabetes", "splice"]


def load(name, **options):
    return Problem.build(*datasets.load(name, return_X_y=True), **options)


def spec_of(problem, steps, order=None):
    """SGD on batches of two rows, shuffled unless an order is given."""
    order = Shuffle() if order is None else order
    return make_spec(problem, problem.y, order=order, solver="sgd", steps=steps, batch_size=2)


def watched_over(problem, given, least, order=None):
    """A spec whose steps are watched over, with decay not below the least, and steps to begin."""
    return spec_of(problem, Auto(decay=least), order), given.schedule(problem.loss, problem.penalty)


def objectives(problem, steps, epochs):
    spec, schedule = watched_over(problem, steps, problem.penalty.l2)
    runs = train(spec, begin(spec, schedule=schedule), epochs)
    return [problem.objective(run.state.coef, run.state.intercept) for run in runs]


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
    found = find_steps(problem, 2, seed=0)
    scaled = find_steps(replace(problem, X=problem.X * factor), 2, seed=0)
    assert scaled.eta0 == pytest.approx(found.eta0 / factor**2, rel=1e-6)
    assert scaled.decay == pytest.approx(found.decay * factor**2, rel=1e-3)


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
    np.testing.assert_allclose((dense.eta0, dense.decay), (csr.eta0, csr.decay), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_they_are_finite_and_positive_for_every_loss(loss):
    """Steps are finite and positive even for rows of zeros, a single row, or zero targets."""
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(50, 3)), np.zeros((4, 2)), rng.normal(size=(1, 3))):
        y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
        problem = Problem(X, y, LOSSES[loss], ElasticNet(), None, False, None)
        for target in (y, np.zeros_like(y)):
            steps = find_steps(replace(problem, y=target), 2, seed=0)
            assert np.isfinite([steps.eta0, steps.decay]).all()
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


def test_orders_that_leave_less_noise_have_a_slower_decay():
    """The decay is in proportion to the noise, never below l2, and the first step is the same."""
    problem = load("diabetes_scale")
    found, quiet = (find_steps(problem, 2, seed=0, noise=noise) for noise in (1.0, 0.25))
    assert quiet.eta0 == found.eta0
    assert quiet.decay == pytest.approx(0.25 * found.decay, rel=1e-12)
    strong = load("diabetes_scale", l2=100.0)
    assert find_steps(strong, 2, seed=0, noise=0.25).decay == 100.0


@pytest.mark.parametrize(
    ("n", "d", "noise"), [(400, 4, 0.12), (400, 16, 0.2), (10, 10, 1.0), (10, 40, 1.0)]
)
def test_the_noise_of_a_balanced_order(n, d, noise):
    """It is sqrt(d / n), at least 0.12 and at most 1."""
    assert noise_of_balanced(n, d) == pytest.approx(noise)


def test_squares_that_overflow_are_reported():
    """No step is short enough for features of 1e300."""
    problem = Problem.build(
        1e300 * np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    )
    with pytest.raises(
        DivergenceError, match=r"overflow occurred at epoch #0: the squares.*StandardScaler"
    ):
        find_steps(problem, 2, seed=0)


SEPARABLE = np.array([[4.0, 1.0], [3.0, -2.0], [-4.0, 1.0], [-2.0, -1.0]])


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error", "quantile"])
@pytest.mark.parametrize(
    "given",
    [{"l1": 10.0}, {"l1": 10.0, "l2": 10.0}, {"l1": 10.0, "penalty": GroupLasso([0, 0])}],
    ids=["l1", "elastic net", "group lasso"],
)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_penalty_may_hold_all_weights_at_zero(given, loss, as_rows, dtype, fit_intercept):
    """No step moves them then, and zero weights are the right answer."""
    rows, y = as_rows(SEPARABLE.astype(dtype)), np.array([1, 1, -1, -1])
    run = minimize(rows, y, loss=loss, fit_intercept=fit_intercept, epochs=3, **given)
    np.testing.assert_array_equal(run.coef, np.zeros(2))


def test_weights_without_slopes_may_stay_where_they_are():
    """All rows are beyond the hinge at the initial weights, so no step moves them."""
    start = np.array([1.0, 0.0])
    run = minimize(SEPARABLE, [1, 1, -1, -1], loss="hinge", init=(start, 0.0), epochs=3)
    np.testing.assert_array_equal(run.coef, start)


@pytest.mark.parametrize("l1", [0.0, 1e-3])
def test_steps_below_what_the_type_of_the_rows_can_hold_are_refused(l1):
    """Rows of 1e25 in float32 need steps of 1e-50: nothing moves, with or without a penalty."""
    problem = Problem.build(
        (1e25 * SEPARABLE).astype(np.float32), [1, 1, -1, -1], loss="log_loss", l1=l1
    )
    with pytest.raises(DivergenceError, match="below what float32 can hold"):
        find_steps(problem, 2, seed=0)


def test_a_first_epoch_that_fails_is_done_again_with_shorter_steps():
    """Steps that were fit for a sample may be too long for rows outside of it.

    Without care the run would diverge.
    """
    X = np.random.default_rng(0).normal(size=(200, 3))
    problem = Problem.build(X, X @ [1.0, 2.0, 3.0], loss="squared_error")
    steps = InverseTime(50.0, decay=0.0)
    alone = spec_of(problem, steps)
    with pytest.raises(
        DivergenceError, match=r"overflow occurred at epoch #\d: the steps diverged"
    ):
        list(train(alone, begin(alone), 9))
    spec, schedule = watched_over(problem, steps, 0.0)
    *_, run = train(spec, begin(spec, schedule=schedule), 3)
    assert run.state.epochs == 3
    assert run.lowered > 0
    assert problem.objective(run.state.coef) < 1e-3 * problem.objective(np.zeros(3))
    assert run.schedule == schedule
    assert present_schedule(spec, run).eta0 == pytest.approx(50.0 / 5.0**run.lowered)


def test_any_epoch_that_overflows_is_done_again_with_shorter_steps():
    """Also a later one of many rows, whose objective is not looked at."""
    X = np.random.default_rng(0).normal(size=(1500, 3)).astype(np.float32)
    problem = Problem.build(X, np.where(X[:, 0] > 0.0, 1, -1))
    spec, schedule = watched_over(problem, InverseTime(0.1, decay=0.0), 0.0)
    assert not spec.is_always_checked
    (run,) = train(spec, begin(spec, schedule=schedule), 1)
    (run,) = train(spec, run._replace(schedule=schedule._replace(eta0=1e25)), 2)
    assert run.lowered > 0
    assert np.isfinite(np.vdot(run.state.coef, run.state.coef))


def test_a_decay_that_freezes_the_run_is_eased():
    """Epochs that keep going the same way halve it, down to the least.

    Without care the weights never arrive.
    """
    X = np.ones((40, 1))
    problem = Problem.build(X, 5.0 * X[:, 0], loss="squared_error")
    steps = InverseTime(1.0, decay=200.0)

    def last(spec, schedule=None):
        *_, run = train(spec, begin(spec, schedule=schedule), 60)
        return run

    assert abs(last(spec_of(problem, steps, InOrder())).state.coef[0] - 5.0) > 4.0
    assert abs(last(*watched_over(problem, steps, 0.1, InOrder())).state.coef[0] - 5.0) < 0.1
    spec, schedule = watched_over(problem, steps, 150.0, InOrder())
    floor = last(spec, schedule)
    assert floor.easing.eased > 1
    assert present_schedule(spec, floor).rate == 150.0


def test_minimize_finds_its_steps_and_resumes():
    """Automatic steps are the default; a resumed run is the same as an unbroken one."""
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    options = {"l2": 1e-2, "order": "shuffle", "trace": "objective"}
    whole = minimize(X, y, epochs=6, **options)
    assert whole.trace["objective"][-1] < 0.1425
    resumed = minimize(X, y, epochs=6, resume=minimize(X, y, epochs=2, **options), **options)
    np.testing.assert_array_equal(resumed.coef, whole.coef)


def test_rows_in_order():
    """The same batches in every epoch, the last one short."""
    batches = draws_of(InOrder(), 5, 2).batches(7)
    np.testing.assert_array_equal(batches.rows, np.arange(5))
    np.testing.assert_array_equal(batches.starts, [0, 2, 4, 5])
