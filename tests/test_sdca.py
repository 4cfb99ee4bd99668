"""SDCA: kernels equal the plain twin, each visit raises the dual, the optimum is scikit-learn's."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import kernel_losses as losses
import numpy as np
import pytest
from drive import draws_of, drive
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_sdca import best_dual, dual_objective, sdca
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from strategies import weights

from antithetic import minimize
from antithetic.exact.dual import Duals
from antithetic.exact.optimality import duality_gap
from antithetic.orders import Balanced, Shuffle
from antithetic.orders.units import Batches, cut
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet
from antithetic.steps import Auto, Constant
from antithetic.stochastic import After
from antithetic.stochastic.corrected import Remembered
from antithetic.stochastic.loop import begin, train
from antithetic.stochastic.sdca import make_sdca
from antithetic.stochastic.solver import Choice
from antithetic.stochastic.spec import check_choice, make_spec
from antithetic.stopping import Stalled

pytestmark = pytest.mark.kernel

N, D = 23, 5
NAMES = ["log_loss", "hinge", "squared_hinge", "squared_error"]
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
WITH_LOSS = pytest.mark.parametrize("loss", NAMES)
SCHEDULE = Constant(1.0).schedule(LOSSES["hinge"], ElasticNet())  # which nobody looks at


def make_problem(loss="hinge", dtype=np.float64, form=np.asarray, weight=None, l2=0.05, n=N, d=D):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[3] = 0.0  # a row without entries
    target = X @ rng.normal(size=d) + 0.5 * rng.normal(size=n)
    y = np.sign(target + 1e-3) if LOSSES[loss].classification else target
    return Problem.build(form(X.astype(dtype)), y, loss=loss, l2=l2, sample_weight=weight)


def some_weights(n=N):
    weight = np.random.default_rng(1).uniform(0.2, 2.0, n)
    weight[[2, 7]] = 0.0
    return weight


def shuffled(n, epochs, seed=0):
    sampler = draws_of("shuffle", n, 2, seed=seed)
    return [sampler.batches(epoch) for epoch in range(epochs)]


def assert_same_bits(one, other):
    """Weights and dual variables are equal to the bit."""
    assert one.state.coef.tobytes() == other.state.coef.tobytes()
    assert one.own.values.tobytes() == other.own.values.tobytes()


def solve(problem, epochs, seed=0, watch=False, coef=None):
    solver, sampler = make_sdca(problem, watch=watch), draws_of("shuffle", problem.n, 2, seed)
    *_, after = drive(solver, sampler, SCHEDULE, (coef,), epochs=epochs)
    return after


@FORMS
@WITH_LOSS
@pytest.mark.parametrize("weight", [None, some_weights()], ids=["plain", "weighted"])
@pytest.mark.parametrize("l2", [0.3, 1e-3])
def test_the_kernel_equals_its_twin(form, loss, weight, l2):
    """Weights, dual variables and mean loss equal the twin's, with rows repeated and left out."""
    problem = make_problem(loss, form=form, weight=weight, l2=l2)
    solver, rng = make_sdca(problem, watch=True), np.random.default_rng(5)
    after, duals = After(*solver.init()), np.zeros(problem.n)
    for _ in range(3):
        rows = rng.integers(0, problem.n, 2 * problem.n)
        after = solver.epoch(after.state, after.own, cut(rows, 3), SCHEDULE)
        w, duals, met = sdca(problem, rows, duals)
        np.testing.assert_allclose(after.state.coef, w, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(after.own.values, duals, rtol=1e-9, atol=1e-9)
        assert after.loss == pytest.approx(met, rel=1e-9)
    state = after.state
    assert (state.epochs, state.steps, state.samples) == (3, 6 * N, 6 * N)
    assert state.coef.dtype == after.own.values.dtype == np.float64


@FORMS
@WITH_LOSS
def test_where_batches_end_does_not_matter(form, loss):
    """An epoch is an order: neither where its batches end nor their factors matter."""
    problem = make_problem(loss, form=form)
    solver, rows = make_sdca(problem), np.random.default_rng(0).permutation(problem.n)
    one = solver.epoch(*solver.init(), cut(rows, 1), SCHEDULE)
    factors = Batches(rows, np.array([0, 4, N]), 4, factors=np.full(N, 2.0))
    other = solver.epoch(*solver.init(), factors, SCHEDULE)
    assert_same_bits(one, other)
    assert math.isnan(one.loss)


@FORMS
@WITH_LOSS
@pytest.mark.parametrize("weight", [None, some_weights()], ids=["plain", "weighted"])
def test_the_gap_closes(form, loss, weight):
    """The gap falls below 1e-10, dual variables are minus the slopes, and 0 for zero weights."""
    problem = make_problem(loss, form=form, weight=weight)
    after = solve(problem, 300)
    coef, duals = after.state.coef, after.own.values
    assert duality_gap(problem, coef, dual=duals) < 1e-10
    if loss != "hinge":
        np.testing.assert_allclose(duals, -problem.slopes(coef), atol=1e-6)
    if weight is not None:
        assert (duals[weight == 0.0] == 0.0).all()


@pytest.mark.parametrize("weight", [None, some_weights()], ids=["plain", "weighted"])
def test_the_optimum_is_that_of_scikit_learn(weight):
    """The optimum is that of LinearSVC for both hinges, LogisticRegression and Ridge."""
    weight_sum = {"sample_weight": weight}
    for loss in NAMES:
        problem = make_problem(loss, weight=weight)
        C = 1.0 / (problem.penalty.l2 * problem.n)
        peer = {
            "log_loss": LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000),
            "hinge": LinearSVC(
                loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=100_000, random_state=0
            ),
            "squared_hinge": LinearSVC(
                loss="squared_hinge",
                dual=True,
                C=C,
                fit_intercept=False,
                tol=1e-8,
                max_iter=100_000,
                random_state=0,
            ),
            "squared_error": Ridge(alpha=1.0 / C, fit_intercept=False, tol=1e-12),
        }[loss]
        expected = peer.fit(problem.X, problem.y, **weight_sum).coef_.ravel()
        np.testing.assert_allclose(
            solve(problem, 300).state.coef, expected, rtol=1e-5, atol=1e-6, err_msg=loss
        )


@FORMS
@WITH_LOSS
def test_float32_is_near_float64(form, loss):
    """The weights agree to about the precision of float32.

    Dual variables are float64 all the same.
    """
    single, double = (
        solve(make_problem(loss, dtype, form, some_weights()), 5)
        for dtype in (np.float32, np.float64)
    )
    assert (single.state.coef.dtype, single.own.values.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single.state.coef, double.state.coef, rtol=1e-4, atol=1e-4)


@FORMS
@WITH_LOSS
@pytest.mark.parametrize("weight", [None, some_weights()], ids=["plain", "weighted"])
def test_no_visit_lowers_the_dual(form, loss, weight):
    """Visited one at a time, each row raises the dual objective, or leaves it."""
    problem = make_problem(loss, form=form, weight=weight)
    solver = make_sdca(problem)
    after, reached = After(*solver.init()), 0.0 if LOSSES[loss].classification else -np.inf
    for row in np.random.default_rng(2).integers(0, problem.n, 60):
        after = solver.epoch(after.state, after.own, cut(np.array([row]), 1), SCHEDULE)
        now = dual_objective(problem, after.own.values)
        assert now >= reached - 1e-14 * abs(now)
        reached = now


@FORMS
@WITH_LOSS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_resting_rows_do_not_change_a_bit(form, loss, dtype):
    """A state that knows which rows rest leads to the bits of one that visits them all.

    Rows do rest with the hinge loss.
    """
    problem = make_problem(loss, dtype, form, n=300, l2=0.01)
    solver, rested = make_sdca(problem), 0
    knowing, plain = After(*solver.init()), After(*solver.init())
    for batches in shuffled(problem.n, 12):
        knowing = solver.epoch(knowing.state, knowing.own, batches, SCHEDULE)
        plain = solver.epoch(plain.state, Duals(plain.own.values), batches, SCHEDULE)
        assert_same_bits(knowing, plain)
        if knowing.own.resting is not None:
            rested += int((knowing.own.resting.limits > 0.0).sum())
    assert rested > 0 or loss != "hinge"


@FORMS
def test_resting_rows_are_only_those_that_would_stay(form):
    """Over many epochs with weights, the state is the one reached by visiting all.

    An older state may be gone on from.
    """
    problem = make_problem("hinge", form=form, weight=some_weights(200), n=200, l2=1e-3)
    solver, orders = make_sdca(problem), shuffled(problem.n, 40)
    path = [After(*solver.init())]
    for batches in orders:
        path.append(solver.epoch(path[-1].state, path[-1].own, batches, SCHEDULE))
    again = solver.epoch(path[-2].state, path[-2].own, orders[-1], SCHEDULE)
    assert_same_bits(again, path[-1])
    assert sdca(problem, orders[-1].rows, path[-2].own.values)[1] == pytest.approx(
        path[-1].own.values, abs=1e-9
    )


@WITH_LOSS
def test_the_same_seed_gives_the_same_bits(loss):
    """Two runs give the same bits, and so does one that another solver continues."""
    problem = make_problem(loss)
    whole = solve(problem, 6)
    assert_same_bits(whole, solve(problem, 6))
    solver, half = make_sdca(problem), solve(problem, 3)
    after = After(*solver.take_up(half.state, half.own))
    for batches in shuffled(problem.n, 6)[3:]:
        after = solver.epoch(after.state, after.own, batches, SCHEDULE)
    assert whole.state.coef.tobytes() == after.state.coef.tobytes()
    np.testing.assert_array_equal(whole.own.values, after.own.values)  # zeros of either sign


def test_the_run_loop_drives_it():
    """The run loop drives SDCA by the solver protocol."""
    problem = make_problem("log_loss")
    given = {"order": Shuffle(), "solver": "sdca", "steps": Auto(), "batch_size": 2}
    spec = make_spec(problem, problem.y, stop=Stalled(-1.0), **given)  # which watches
    *_, run = train(spec, begin(spec), 6)
    assert_same_bits(run, solve(problem, 6))
    assert run.running[-1] - problem.penalty.value(run.state.coef) < math.log(2.0)


@WITH_LOSS
def test_given_initial_weights(loss):
    """The dual variables are minus the slopes there, and the weights those that go with them.

    From the optimum, these are the initial weights.
    """
    problem = make_problem(loss, weight=some_weights())
    coef = np.linspace(-1.0, 1.0, D)
    state, own = make_sdca(problem).init(coef)
    np.testing.assert_array_equal(own.values, -problem.slopes(coef))
    np.testing.assert_allclose(
        state.coef, problem.X.T @ own.values / (problem.penalty.l2 * N), rtol=1e-12
    )
    if loss != "hinge":
        optimum = solve(problem, 400).state.coef
        np.testing.assert_allclose(
            make_sdca(problem).init(optimum)[0].coef, optimum, rtol=1e-5, atol=1e-8
        )


def test_an_intercept_to_start_from_is_refused():
    """SDCA has no intercept, so an initial one is refused."""
    with pytest.raises(ValueError, match=r"the intercept of init must be 0; got 0\.5"):
        make_sdca(make_problem()).init(intercept=0.5)


@WITH_LOSS
def test_a_run_is_taken_up_by_another_problem(loss):
    """Dual variables are clipped to the new range, or made from another solver's weights."""
    before = solve(make_problem(loss, weight=np.full(N, 2.0)), 3)
    problem = make_problem(loss, weight=some_weights(), l2=0.5)
    solver = make_sdca(problem)
    state, own = solver.take_up(before.state, before.own)
    assert np.isfinite(dual_objective(problem, own.values))
    np.testing.assert_allclose(state.coef, problem.X.T @ own.values / (0.5 * N), rtol=1e-12)
    for others in (Remembered(np.ones(N), np.zeros(D + 1)), None, Duals(np.ones(N + 1))):
        state, own = solver.take_up(before.state, others)
        np.testing.assert_array_equal(own.values, -problem.slopes(before.state.coef))
        np.testing.assert_allclose(state.coef, problem.X.T @ own.values / (0.5 * N), rtol=1e-12)
        assert (state.epochs, own.resting) == (3, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": "modified_huber"},
            r'supports the losses "log_loss", .*; got "modified_huber"; use solver="saga"',
        ),
        ({"loss": "perceptron"}, 'got "perceptron"; use solver="sgd"'),
        (
            {"fit_intercept": True},
            "cannot fit an unpenalised intercept; use fit_intercept=False, or add a column of ones",
        ),
        ({"l1": 0.1}, r'supports only an L2 penalty above 0; .*or solver="saga"'),
        ({"l2": 0.0}, r'supports only an L2 penalty above 0; .*or solver="saga"'),
        ({"l2": 0.0, "loss": "hinge"}, r'supports only an L2 penalty .*or solver="sgd"'),
    ],
)
def test_what_sdca_cannot_do_is_refused(changes, message):
    """What SDCA does not support is refused before the first visit, with an alternative."""
    given = {"loss": "log_loss", "l2": 0.1} | changes
    problem = Problem.build(np.eye(2), [-1, 1], **given)
    settings = {"order": Shuffle(), "solver": "sdca", "steps": Auto(), "batch_size": 2}
    with pytest.raises(ValueError, match=message):
        make_spec(problem, problem.y, **settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": Balanced()}, 'order="balanced" balances gradients, .* use order="shuffle"'),
        ({"average": True}, 'average= is not supported with solver="sdca"; leave it out'),
        ({"steps": Constant(0.1)}, 'has no step size: leave steps at "auto"'),
        ({"steps": Auto(decay=0.1)}, "has no step size; leave the decay out"),
    ],
)
def test_choices_that_sdca_does_not_know_are_refused(changes, message):
    """An order of gradients, an average and a step size have no meaning for it."""
    given = {"order": Shuffle(), "steps": Auto()} | changes
    with pytest.raises(ValueError, match=message):
        check_choice(Choice("sdca", penalty=ElasticNet(l2=0.1), loss=LOSSES["log_loss"], **given))


def test_rows_whose_squares_overflow_are_refused():
    """The error says to scale the rows."""
    with pytest.raises(ValueError, match="overflows; scale the rows"):
        make_sdca(Problem.build(np.eye(2) * 1e160, [-1, 1], l2=0.1))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss", "squared_error"])
def test_rows_of_weight_zero_may_hold_anything(form, loss):
    """Entries whose squares overflow change no bit of the result, if the row does not count."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 3)), np.ones(60)
    y, weight[::7] = np.where(X[:, 0] > 0.0, 1, -1), 0.0
    other = np.where(weight[:, None] > 0.0, X, 1e200)
    found, expected = (
        minimize(form(rows), y, loss=loss, solver="sdca", l2=0.1, sample_weight=weight, seed=0)
        for rows in (other, X)
    )
    np.testing.assert_array_equal(found.coef, expected.coef)
    assert expected.coef.any()


@given(weight=weights(4), loss=st.sampled_from(NAMES), scale=st.sampled_from([1.0, 1e-150, 1e140]))
def test_any_weights_and_scales(weight, loss, scale):
    """For any weights and scales, dual variables are feasible and finite, and the gap is a number.

    Rows of weight zero have dual variables of zero.
    """
    X = scale * np.array([[1.0, 2.0], [-1.0, 0.5], [0.0, 0.0], [3.0, -1.0]])
    problem = Problem.build(X, [1, -1, 1, -1], loss=loss, l2=0.1, sample_weight=weight)
    in_order = SimpleNamespace(batches=lambda *_: cut(np.arange(4), 1))
    *_, after = drive(make_sdca(problem), in_order, SCHEDULE, epochs=3)
    duals = after.own.values
    assert np.isfinite(after.state.coef).all()
    assert np.isfinite(duals).all()
    assert (duals[weight == 0.0] == 0.0).all()
    assert np.isfinite(dual_objective(problem, duals))


POSITIVE = st.floats(1e-300, 1e300) | st.floats(1e-3, 1e3)


@given(
    loss=st.sampled_from(NAMES),
    y=st.sampled_from([-1.0, 1.0]),
    s=POSITIVE,
    t=st.floats(0.0, 1.0),
    p=st.floats(-1e6, 1e6),
    q=POSITIVE,
)
def test_a_dual_step_solves_its_equation(loss, y, s, t, p, q):
    """A dual step solves its equation for weights, products and norms of any size.

    The tolerance is the rounding of the terms of the equation.
    """
    assume(4.0 * s * q < 1e305)
    a = y * s * t
    b = losses.dual_step(LOSSES[loss].code, y, s, a, p, q)
    assert math.isfinite(b)
    new = p + q * (b - a)
    size = abs(p) + q * (abs(a) + abs(b)) + 1.0
    if loss == "squared_error":
        assert abs(b - s * (y - new)) <= 1e-14 * (s * size + abs(b))
        return
    push = y * b
    assert push >= 0.0
    if loss == "squared_hinge":
        assert abs(push - 2.0 * s * max(0.0, 1.0 - y * new)) <= 1e-14 * (s * size + push)
    elif loss == "hinge":
        assert push <= s
        assert y * new <= 1.0 + 1e-14 * size or push == 0.0
        assert y * new >= 1.0 - 1e-14 * size or push == s
    else:
        assert push <= s
        doubt = 1e-7 + 1e-14 * size  # of the margin: how far the push may be off
        lower, upper = (
            -s * y * losses.slope(losses.LOG_LOSS, 0.0, y, y * (y * new + off))
            for off in (doubt, -doubt)
        )
        assert lower * (1.0 - 1e-12) <= push <= upper * (1.0 + 1e-12) + 1e-320


@pytest.mark.parametrize("s", [1e-12, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("q", [0.0, 1e-6, 0.7, 30.0, 1e5, 1e12])
@pytest.mark.parametrize("p", [-40.0, -1.0, 0.0, 0.3, 40.0])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.5, 1.0])
def test_the_logistic_step_is_as_good_as_bisection(s, q, p, share):
    """The logistic step is accurate to 1e-9, relative to the weight or to the result.

    From both ends of the range and from inside.
    """
    problem = Problem.build(
        [[1.0], [0.0]], [1, -1], loss="log_loss", l2=0.1, sample_weight=[s, 1.0]
    )
    found = losses.dual_step(losses.LOG_LOSS, 1.0, s, share * s, p, q)
    expected = best_dual(replace(problem), 0, share * s, p, q)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-15 * s * (1.0 + share * 10.0))
