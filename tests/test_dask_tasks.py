"""Tasks on a block: orders visit each row once, steps are unbiased, and sums are exact."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("dask")
pytest.importorskip("distributed")
from dask_cases import labelled

import antithetic
from antithetic.dask.anchored import Anchored
from antithetic.dask.blocks import Block
from antithetic.dask.common import Common
from antithetic.dask.mapping import add_up
from antithetic.dask.search import Standing, points_along
from antithetic.dask.tasks import Points, Start, epoch_block, measure_block
from antithetic.estimators.one_vs_rest import OneVsRest
from antithetic.orders import Shuffle, Uniform
from antithetic.orders.batches import cut
from antithetic.orders.in_order import InOrder
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.steps import Constant, InverseTime

X, Y = labelled(90)
L2 = 0.1
STEPS = Constant(0.05)
SCHEDULE = STEPS.schedule(LOSSES["log_loss"], ElasticNet(L2))


def common(**changes):
    plain = Common(
        LOSSES["log_loss"],
        ElasticNet(L2),
        True,
        OneVsRest(np.array([0, 1])),
        90,
        2,
        Shuffle(),
        (7,),
    )
    return replace(plain, **changes)


def start(weights, gradient, **changes):
    plain = Start(common(), 0, (0,), weights[None], gradient[None], (STEPS,), (True,), (0,), None)
    return replace(plain, **changes)


def whole(l2=L2):
    return Problem.build(X, Y, l2=l2, fit_intercept=True)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("weight", [None, np.linspace(0.0, 2.0, 90)], ids=["equal", "weighted"])
def test_sums_over_blocks_are_objective_and_gradient_of_all_rows(form, weight):
    """Sums over any blocks, even empty ones, equal those of one machine exactly."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(1, 3, 6))
    parts = [(0, 20), (20, 20), (20, 90)]
    sums = [
        measure_block(
            k,
            [form(X[a:e]), Y[a:e], None if weight is None else weight[a:e]],
            Points(common(), (0,), points),
        )
        for k, (a, e) in enumerate(parts)
    ]
    losses, gradients = add_up(*sums)
    problem = Problem.build(X, Y, fit_intercept=True, sample_weight=weight)
    for point, loss, gradient in zip(points[0], losses[0], gradients[0], strict=True):
        assert loss == pytest.approx(problem.objective(point[:-1], point[-1]), rel=1e-12)
        data, constant = problem.gradient(point[:-1], point[-1])
        np.testing.assert_allclose(gradient, np.append(data, constant), rtol=0, atol=1e-13)


def test_one_block_is_the_problem_of_one_machine():
    """Objective and gradient of a single block are those of `antithetic.minimize`'s problem."""
    result = antithetic.minimize(
        X, Y, l2=L2, fit_intercept=True, steps=0.1, epochs=3, trace="objective"
    )
    point = np.append(result.coef, result.intercept)
    losses, _ = measure_block(0, [X, Y, None], Points(common(), (0,), point[None, None]))
    assert losses[0, 0] + common().penalty.value(result.coef) == pytest.approx(
        result.trace["objective"][-1], rel=1e-13
    )


@pytest.mark.parametrize("order", [Shuffle(), InOrder()], ids=repr)
def test_an_epoch_visits_each_row_of_its_block_once(order, monkeypatch):
    """Each block and round has its own order, which is the same whenever it is computed."""
    seen = []
    original = Anchored.epoch

    def watch(self, state, own, batches, schedule):
        seen.append(batches.rows.copy())
        return original(self, state, own, batches, schedule)

    monkeypatch.setattr(Anchored, "epoch", watch)
    for block, number in itertools.product((0, 1), (0, 1)):
        for _ in range(2):
            epoch_block(
                block,
                [X, Y, None],
                (),
                start(np.ones(6), np.zeros(6), common=common(order=order), round=number),
            )
    assert all(sorted(rows.tolist()) == list(range(90)) for rows in seen)
    assert all(np.array_equal(a, b) for a, b in zip(seen[::2], seen[1::2], strict=True))
    if order == Shuffle():
        assert len({rows.tobytes() for rows in seen}) == 4


def test_steps_go_along_the_gradient_of_all_rows():
    """From the anchor, the first step of any batch is that of full gradient descent, exactly."""
    problem = Problem.build(X[:30], Y[:30], l2=L2, fit_intercept=True)
    weights = np.linspace(-1.0, 1.0, 6)
    data, constant = Problem.build(X, Y, fit_intercept=True).gradient(weights[:-1], weights[-1])
    solver = Anchored(problem, "svrg", anchor=np.append(data, constant))
    state, own = solver.init(weights[:-1], weights[-1])
    for batch in itertools.combinations(range(4), 2):
        after = solver.epoch(state, own, cut(np.array(batch), 2), SCHEDULE).state
        np.testing.assert_allclose(
            after.coef, weights[:-1] - 0.05 * (data + L2 * weights[:-1]), rtol=0, atol=1e-14
        )
        assert after.intercept == pytest.approx(weights[-1] - 0.05 * constant, abs=1e-14)


def test_steps_are_unbiased_away_from_the_anchor():
    """The mean step over all batches of a block follows its corrected gradient.

    That is the block's gradient less its gradient at the anchor plus that of all rows.
    """
    own = Problem.build(X[:7], Y[:7], l2=L2, fit_intercept=True)
    anchor, here = np.linspace(-1.0, 1.0, 6), np.linspace(0.5, -0.2, 6)
    full = np.random.default_rng(0).normal(size=6)

    class FromElsewhere(Anchored):
        def _remember(self, state, own):
            there = state._replace(coef=anchor[:-1], intercept=anchor[-1])
            return Anchored._remember(self, there, own)

    solver = FromElsewhere(own, "svrg", anchor=full)
    state, own_state = solver.init(here[:-1], here[-1])
    moves = []
    for batch in itertools.permutations(range(7), 2):
        after = solver.epoch(state, own_state, cut(np.array(batch), 2), SCHEDULE).state
        moves.append(np.append(after.coef, after.intercept) - here)
    plain = replace(own, penalty=ElasticNet())
    expected = (
        np.append(*plain.gradient(here[:-1], here[-1]))
        - np.append(*plain.gradient(anchor[:-1], anchor[-1]))
        + full
    )
    expected[:-1] += L2 * here[:-1]
    np.testing.assert_allclose(np.mean(moves, axis=0), -0.05 * expected, rtol=0, atol=1e-14)


def test_a_model_at_the_optimum_stays_there():
    """Corrected moves vanish at the optimum of all rows and nowhere else, even on one class."""
    order = np.argsort(Y, kind="stable")
    problem, weights = whole(), np.zeros(6)
    for _ in range(4000):
        data, constant = problem.gradient(weights[:-1], weights[-1])
        weights = weights - np.append(data, constant)
    anchor = np.append(*Problem.build(X, Y, fit_intercept=True).gradient(weights[:-1], weights[-1]))
    for k, rows in enumerate((order[:30], order[30:])):
        moves, _ = epoch_block(k, [X[rows], Y[rows], None], (), start(weights, anchor))
        np.testing.assert_allclose(moves, 0.0, rtol=0, atol=1e-12)


def test_an_empty_block_moves_nothing():
    """An empty block moves nothing and does not affect the sums."""
    moves, zeros = epoch_block(0, [X[:0], Y[:0], None], (), start(np.ones(6), np.zeros(6)))
    assert not moves.any()
    assert not zeros.any()


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_blocks_keep_their_float_type(real):
    """float32 rows are trained in float32, and common weights are kept in float64."""
    moves, _ = epoch_block(
        0, [X.astype(real), Y, None], (), start(np.zeros(6), np.zeros(6), corrected=(False,))
    )
    assert moves.dtype == np.float64
    assert moves.any()


@pytest.mark.parametrize("order", [Shuffle(), Uniform(), InOrder()], ids=repr)
def test_plain_rounds_of_one_block_are_a_run_of_one_machine(order):
    """Rounds of plain steps on one block are the epochs of `antithetic.minimize`."""
    steps, weights = InverseTime(0.1, 0.02), np.zeros(6)
    for number in range(3):
        begin = start(
            weights, np.zeros(6), common=common(order=order), round=number, corrected=(False,)
        )
        moves, _ = epoch_block(0, [X, Y, None], (), replace(begin, steps=(steps,)))
        weights = weights + moves[0]
    own = antithetic.minimize(
        X, Y, l2=L2, fit_intercept=True, order=order, steps=steps, epochs=3, seed=7
    )
    np.testing.assert_allclose(weights, np.append(own.coef, own.intercept), rtol=0, atol=1e-14)


def test_steps_that_diverge_move_nowhere():
    """A block whose steps overflow says so by NaN, and the search does not go there."""
    wild = start(np.ones(6), np.zeros(6), steps=(Constant(1e300),))
    moves, _ = epoch_block(0, [1e10 * X, Y, None], (), wild)
    assert np.isnan(moves).all()
    standing = replace(Standing.at(np.ones(6)), value=1.0)
    assert len(points_along(standing, moves[0])) == 0


def test_the_search_never_goes_up():
    """If no point is better, the search stays where it is and steps become shorter."""
    standing = replace(Standing.at(np.zeros(3)), value=1.0)
    points = points_along(standing, np.ones(3))
    stayed = standing.taking(points, np.full(len(points), 2.0), np.zeros_like(points))
    assert (stayed.value, stayed.lowered) == (1.0, 1)
    hopeless = standing.taking(points, np.full(len(points), np.nan), np.zeros_like(points))
    assert hopeless.value == 1.0
    values = np.arange(len(points), 0.0, -1.0) / 10.0
    gone = standing.taking(points, values, points)
    assert gone.value == values.min()
    np.testing.assert_array_equal(gone.weights, points[np.argmin(values)])


def test_the_search_finds_where_a_linear_move_vanishes():
    """After d + 1 linear moves, one of the search's points is the root of the moves.

    Each move alone would lead away from it.
    """
    rng = np.random.default_rng(0)
    matrix, root = 5.0 * rng.normal(size=(3, 3)), np.array([1.0, -2.0, 0.5])
    standing = replace(Standing.at(np.zeros(3)), value=np.inf)
    for _ in range(5):
        standing = replace(standing, weights=standing.weights, value=1.0).after_move(
            matrix @ (root - standing.weights)
        )
        points = points_along(standing, standing.moves[-1])
        standing = replace(
            standing,
            weights=(
                points[0]
                if len(standing.points) < 4
                else points[np.argmin(np.abs(points - root).sum(axis=1))]
            ),
        )
    np.testing.assert_allclose(standing.weights, root, atol=1e-8)


def test_weights_that_most_blocks_leave_at_zero_are_zero():
    """At every point that goes the whole way: an average of few zeros would have none."""
    standing = replace(Standing.at(np.array([1.0, 1.0, 0.0])), value=1.0)
    points = points_along(standing, np.array([-0.9, 0.5, 0.1]), np.array([True, False, False]))
    assert points[0].tolist() == [0.0, 1.5, 0.1]


def test_common_problems_of_classes_are_those_of_one_machine():
    """One against the rest, with weights of the classes."""
    X3, y3 = labelled(60, classes=3)
    parts = OneVsRest(np.arange(3), np.array([1.0, 2.0, 3.0]))
    several = common(parts=parts, seeds=(1, 2, 3))
    block = Block(X3, y3, None)
    assert several.n_problems == 3
    for number in range(3):
        problem = several.problem(block, number)
        np.testing.assert_array_equal(problem.y, np.where(y3 == number, 1.0, -1.0))
        expected = np.where(y3 == number, number + 1.0, 1.0)
        np.testing.assert_array_equal(
            np.ones(60) if problem.weight is None else problem.weight, expected
        )
