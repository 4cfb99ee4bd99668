"""The softmax kernel equals its twin, from dense and sparse rows, in float32 and float64."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_softmax import balanced_order, softmax_sgd
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.schedules import INVERSE_TIME
from antithetic.orders.units import cut
from antithetic.problem import SoftmaxProblem
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.stochastic.softmax import SoftmaxSgd, make_softmax_sgd
from antithetic.stochastic.solver import State
from antithetic.stochastic.steps import Schedule

pytestmark = [pytest.mark.kernel, pytest.mark.sanitized]

# classes that fill tiles of 2, 3 and 4, columns that fill registers or not, batches of all kinds
SHAPES = [(41, 7, 3, 8), (50, 33, 10, 8), (37, 130, 5, 32), (30, 16, 17, 4), (23, 1, 2, 1)]
SCHEDULE = Schedule(INVERSE_TIME, 0.7, 0.05)


def eta(steps):
    return SCHEDULE.eta0 / (1.0 + SCHEDULE.eta0 * SCHEDULE.rate * (steps + 1))


def make_problem(n, d, n_classes, *, weighted=True, dtype=np.float64, form=np.asarray, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(dtype)
    y = rng.integers(0, n_classes, n).astype(np.float64)
    weight = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9) if weighted else None
    penalty = ElasticNet(l2=0.1)
    return SoftmaxProblem(form(X), y, SOFTMAX, penalty, weight, True, None, n_classes)


def start_of(problem, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(problem.n_classes, problem.d)), rng.normal(size=problem.n_classes)


def one_epoch(problem, size, *, threads=1, average=False, watch=True, sketched=False, unit=0):
    coef, intercept = start_of(problem)
    rows = np.random.default_rng(2).permutation(problem.n)
    solver = make_softmax_sgd(problem, average, watch=watch, threads=threads)
    batches = cut(rows, size)._replace(unit=unit, sketched=sketched)
    after = solver.epoch(*solver.init(coef, intercept), batches, SCHEDULE)
    twin = softmax_sgd(
        problem,
        np.split(rows, range(size, len(rows), size)),
        size,
        eta,
        coef=coef,
        intercept=intercept,
        every=1 if average else 0,
        linear=average == "linear",
    )
    return after, twin, rows


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-13), (np.float32, 2e-5)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_epoch_is_that_of_its_twin(shape, dtype, atol, form):
    """Weights, intercepts and the loss met on the way, with weights of the rows, some zero."""
    *shape, size = shape
    after, twin, _ = one_epoch(make_problem(*shape, dtype=dtype, form=form), size)
    np.testing.assert_allclose(after.state.coef, twin.coef.ravel(), atol=atol)
    np.testing.assert_allclose(after.state.intercept, twin.intercept, atol=atol)
    assert after.loss == pytest.approx(twin.met, rel=1e-13 if dtype == np.float64 else 1e-5)
    assert after.state.coef.dtype == dtype


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("average", [True, "linear"])
def test_averages_are_those_of_the_twin(average, form):
    after, twin, _ = one_epoch(make_problem(41, 7, 3, form=form), 8, average=average)
    np.testing.assert_allclose(after.own.coef, twin.averages[0].ravel(), atol=1e-13)
    np.testing.assert_allclose(after.own.intercept, twin.averages[1], atol=1e-13)


def test_the_mean_of_an_epoch_is_of_evenly_spaced_points():
    """At most 256 of them; of the first epoch, those after its first quarter."""
    problem = make_problem(1200, 3, 4, weighted=False)
    after, _, rows = one_epoch(problem, 2, average="epoch")
    coef, intercept = start_of(problem)
    twin = softmax_sgd(
        problem,
        np.split(rows, range(2, 1200, 2)),
        2,
        eta,
        coef=coef,
        intercept=intercept,
        every=3,  # 600 steps, at most 256 points
        start=301,
    )
    np.testing.assert_allclose(after.own.coef, twin.averages[0].ravel(), atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("unit", [1, 2, 3])
@pytest.mark.parametrize("sketched", [False, True], ids=["whole", "sketch"])
def test_the_next_order_is_balanced(sketched, unit, form):
    """Whole gradients are balanced, intercepts included; a large sketch is a whole gradient."""
    after, twin, rows = one_epoch(
        make_problem(41, 7, 3, form=form), 4, unit=unit, sketched=sketched
    )
    X = make_problem(41, 7, 3).X[rows]
    extended = np.column_stack([X, np.ones(len(X))])
    gradients = twin.slopes[:, :, None] * extended[:, None, :]
    np.testing.assert_array_equal(after.order, balanced_order(gradients, rows, unit))


def test_sketches_of_large_gradients_balance_them():
    """Sketches of 16 KB do what whole gradients of 120 KB do: partial sums stay small."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 3)) @ rng.normal(size=(3, 300))).astype(np.float32)
    y = rng.integers(0, 3, 400).astype(np.float64)  # most classes have no rows
    problem = SoftmaxProblem(X, y, SOFTMAX, ElasticNet(), None, False, None, 100)
    gradients = (problem.slopes()[:, :, None] * X[:, None, :]).reshape(400, -1)
    gradients = gradients @ rng.normal(size=(gradients.shape[1], 20))
    gradients -= gradients.mean(axis=0)

    def largest_sum(order):
        return float(np.linalg.norm(np.cumsum(gradients[order], axis=0), axis=1).max())

    solver, random = make_softmax_sgd(problem, False, threads=1), rng.permutation(400)
    state, own = solver.init()
    for sketched in (False, True):
        order = random
        for _ in range(8):
            batches = cut(order, 8)._replace(unit=1, sketched=sketched)
            order = solver.epoch(state, own, batches, Schedule(INVERSE_TIME, 1e-12)).order
        assert largest_sum(order) < 0.5 * largest_sum(random)
        assert np.array_equal(np.sort(order), np.arange(400))


def test_threads_do_not_change_a_bit():
    """Classes are shared between threads where there is work enough."""
    problem = make_problem(96, 1100, 150, dtype=np.float32)
    one, many = (one_epoch(problem, 32, threads=threads)[0] for threads in (1, 3))
    np.testing.assert_array_equal(one.state.coef, many.state.coef)


def test_weights_shrink_to_zero_and_move_again():
    """A step times the penalty of 1 or more leaves nothing of the weights before it."""
    problem = make_problem(24, 5, 3)
    heavy = SoftmaxProblem(problem.X, problem.y, SOFTMAX, ElasticNet(l2=50.0), None, True, None, 3)
    after, twin, _ = one_epoch(heavy, 8)
    np.testing.assert_allclose(after.state.coef, twin.coef.ravel(), atol=1e-12)


def test_every_batch_follows_the_gradient_on_average():
    """Over all orders of a few rows, each step is along the gradient: unbiased (shuffle)."""
    from itertools import permutations

    problem = make_problem(4, 2, 3, weighted=True)
    coef, intercept = start_of(problem)
    solver = SoftmaxSgd(problem, 0, False)
    data, constants = problem.data_gradient(problem.slopes(coef, intercept))
    moves = []
    for order in permutations(range(4)):
        state, own = solver.init(coef, intercept)
        first = cut(np.array(order[:2]), 2)
        moved = solver.epoch(state, own, first, Schedule(0, 0.3)).state
        shrunk = (1.0 - 0.3 * problem.penalty.l2) * state.coef
        moves.append(np.append(moved.coef - shrunk, moved.intercept - state.intercept))
    np.testing.assert_allclose(
        np.mean(moves, axis=0), -0.3 * np.append(data, constants), atol=1e-12
    )


def test_single_rows_follow_the_gradient_on_average():
    """Averaged over all draws of one row, the data step is along the gradient: unbiased."""
    problem = make_problem(9, 3, 4)
    coef, intercept = start_of(problem)
    solver, moves = SoftmaxSgd(problem, 0, False), []
    for row in range(9):
        state, own = solver.init(coef, intercept)
        moved = solver.epoch(state, own, cut(np.array([row]), 1), Schedule(0, 0.2)).state
        shrunk = (1.0 - 0.2 * problem.penalty.l2) * state.coef
        moves.append(np.append(moved.coef - shrunk, moved.intercept - state.intercept))
    gradient = np.concatenate(problem.data_gradient(problem.slopes(coef, intercept)))
    np.testing.assert_allclose(np.mean(moves, axis=0), -0.2 * gradient, atol=1e-12)


def test_probabilities_are_exact_where_scores_are_large():
    """Scores of a thousand neither overflow nor lose the row's own class."""
    X = np.array([[1000.0], [-1000.0]])
    problem = SoftmaxProblem(X, np.array([0.0, 1.0]), SOFTMAX, ElasticNet(), None, False, None, 2)
    solver = SoftmaxSgd(problem, 0, False, watch=True)
    for sign in (1.0, -1.0):
        state, own = solver.init([[sign], [-sign]])
        after = solver.epoch(state, own, cut(np.arange(2), 2), Schedule(0, 1e-9))
        assert after.loss == (0.0 if sign > 0 else 2000.0)


ARGUMENTS = {
    "targets": lambda: kernels.ClassTargets(np.arange(12) % 3, np.empty(0), 3),
    "batches": lambda: kernels.Batches(np.arange(12), np.arange(0, 13, 4), 4, np.empty(0), 0, 0),
    "rule": lambda: kernels.StepRule(-1, 0.0, 0.01, 0.0, (1, 0.1, 0.01, 0.0), True, np.inf, True),
    "averaging": lambda: kernels.Averaging(1, False, 1),
    "coef": lambda: np.zeros(15),
    "intercept": lambda: np.zeros(3),
    "average": lambda: np.zeros(15),
    "average_intercept": lambda: np.zeros(3),
    "average_weight": lambda: 0.0,
    "unit": lambda: 1,
    "sketch_bytes": lambda: 64,
    "following": lambda: np.empty(12, np.intp),
    "threads": lambda: 2,
}
X_FEW = np.random.default_rng(0).normal(size=(12, 5))


def call(form=np.asarray, **changes):
    X = form(X_FEW)
    rows = (
        kernels.Rows.csr(X.data, X.indices, X.indptr, 5)
        if sparse.issparse(X)
        else kernels.Rows.dense(X)
    )
    return rows.softmax_epoch(**{name: make() for name, make in ARGUMENTS.items()} | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": (np.full(12, 3), np.empty(0), 3)}, "code"),
        ({"targets": (np.full(12, -1), np.empty(0), 3)}, "code"),
        ({"targets": (np.zeros(11, np.intp), np.empty(0), 3)}, "codes"),
        ({"targets": (np.zeros(12, np.intp), np.ones(11), 3)}, "weights"),
        ({"targets": (np.zeros(12, np.intp), np.empty(0), 1)}, "two classes"),
        ({"targets": (np.zeros(12, np.intp), np.empty(0), 2**62)}, "coef"),
        ({"coef": np.zeros(14)}, "coef"),
        ({"coef": np.zeros(16)}, "coef"),
        ({"coef": np.zeros(15, np.float32)}, "float type"),
        ({"intercept": np.zeros(2)}, "intercept"),
        ({"average": np.zeros(14)}, "average"),
        ({"average_intercept": np.zeros(4)}, "average"),
        ({"following": np.empty(11, np.intp)}, "following"),
        ({"unit": -1}, "negative"),
        ({"sketch_bytes": -1}, "negative"),
        ({"averaging": (1, False, 0)}, "every"),
        ({"rule": (-1, 0.0, 0.0, 0.1, (1, 0.1, 0.0, 0.0), True, 1.0, True)}, "L1"),
        ({"rule": (-1, 0.0, 0.0, 0.0, (4, 0.1, 0.0, 0.0), True, 1.0, True)}, "passive"),
        ({"rule": (-1, 0.0, 0.0, 0.0, (9, 0.1, 0.0, 0.0), True, 1.0, True)}, "schedule"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_arguments_that_do_not_fit_are_refused(form, changes, message):
    kinds = {
        "targets": kernels.ClassTargets,
        "averaging": kernels.Averaging,
        "rule": kernels.StepRule,
    }
    made = {
        name: kinds[name](*value) if name in kinds else value for name, value in changes.items()
    }
    with pytest.raises(ValueError, match=message):
        call(form, **made)


@given(
    rows=st.lists(st.integers(-2, 14), max_size=20),
    starts=st.lists(st.integers(-2, 20), max_size=6),
    size=st.integers(-1, 6),
    unit=st.integers(0, 4),
    sketch=st.sampled_from([0, 1, 8, 1 << 14]),
    threads=st.integers(-1, 3),
)
def test_no_batch_reads_out_of_bounds(rows, starts, size, unit, sketch, threads):
    """Batches that do not fit are refused; all others are taken."""
    batches = kernels.Batches(
        np.array(rows, np.intp), np.array(starts, np.intp), size, np.empty(0), 0, 0
    )
    whole = 0 <= min(rows, default=0) <= max(rows, default=0) < 12
    ends = starts[:1] == [0] and starts[-1:] == [len(rows)] and starts == sorted(starts)
    fits = whole and ends and size >= 1 and max(np.diff(starts), default=0) <= size
    changes = {"batches": batches, "unit": unit, "sketch_bytes": sketch, "threads": threads}
    changes["following"] = np.empty(len(rows), np.intp)
    for form in (np.asarray, sparse.csr_array):
        if fits:
            call(form, **changes)
            continue
        with pytest.raises(ValueError, match=r"batch|row|size|begin"):
            call(form, **changes)


def test_an_epoch_can_be_interrupted():
    """Ctrl-C ends an epoch within a second, however long it is."""
    problem = make_problem(2000, 50, 20, weighted=False)
    rows = np.resize(np.arange(2000), 40_000_000)
    state, solver = State(np.zeros(1000), np.zeros(20)), SoftmaxSgd(problem, 0, False, threads=2)
    own, pressed = solver.init()[1], []

    def press():
        time.sleep(0.3)
        pressed.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            solver.epoch(state, own, cut(rows, 8), SCHEDULE)
        assert time.perf_counter() - pressed[0] < 1.0
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
