"""SGD kernels: equal to the plain twin, dense and CSR alike, and without bias.

float32 is near float64, zeros are exact, and short batches add no bias.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from drive import draws_of, drive
from hypothesis import given
from hypothesis import strategies as st
from reference import cumulative_threshold, passive_aggressive, sgd_steps, split
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

from antithetic import datasets, minimize
from antithetic._core.schedules import step_size
from antithetic.orders.units import cut
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.steps import PA1, PA2, Adaptive, Constant, InverseTime, InvScaling, Optimal
from antithetic.stochastic import State
from antithetic.stochastic.corrected import Remembered
from antithetic.stochastic.sgd import make_sgd

pytestmark = pytest.mark.kernel

N, D = 23, 7
# The last one shrinks weights to zero at first.
PENALTIES = [(0.0, 0.0), (0.1, 0.0), (0.0, 0.05), (0.02, 0.02), (6.0, 0.01)]
AVERAGES = [False, True, 30, "linear"]
PASSIVE_LOSSES = ["hinge", "epsilon_insensitive"]


def make_problem(
    loss="log_loss", dtype=np.float64, form=np.asarray, weighted=True, intercept=True, **penalty
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)
    X[3] = 0.0  # a row without entries
    target = X @ rng.normal(size=D) + 0.2 * rng.normal(size=N)
    y = np.sign(target + 1e-3) if LOSSES[loss].classification else target
    weight = rng.uniform(0.5, 1.5, N) if weighted else None
    return Problem.build(
        form(X.astype(dtype)),
        y,
        loss=loss,
        sample_weight=weight,
        fit_intercept=intercept,
        **penalty,
    )


def steps_of(name, eta0):
    return {
        "inverse_time": InverseTime(eta0, decay=0.1),
        "constant": Constant(eta0),
        "optimal": Optimal(alpha=0.01),
        "invscaling": InvScaling(eta0, power=0.5),
        "adaptive": Adaptive(eta0),
        "pa1": PA1(eta0),
        "pa2": PA2(eta0),
    }[name]


def schedule_for(problem, name="inverse_time", eta0=0.3):
    return steps_of(name, eta0).schedule(problem.loss, problem.penalty)


def kernel_and_twin(problem, *, size=2, average=False, name="inverse_time", epochs=3, eta0=0.3):
    """Solution of the kernel and of the twin after some epochs on the same batches."""
    solver, schedule = make_sgd(problem, average), schedule_for(problem, name, eta0)
    sampler = draws_of("shuffle", problem.n, size, seed=1)
    *_, after = drive(solver, sampler, schedule, epochs=epochs)
    batches = [rows for epoch in range(epochs) for rows in split(sampler.batches(epoch))]
    last, mean, _ = sgd_steps(
        problem,
        batches,
        size,
        lambda steps, samples: step_size(*schedule, steps, samples),
        coef=np.zeros(problem.d),
        average_from=solver.average_from,
        linear=solver.linear,
        row_eta=partial(passive_aggressive, name, eta0) if name in ("pa1", "pa2") else None,
    )
    return solver.solution(after.state, after.own), (mean if average else last)


def assert_same(found, expected, tolerance):
    scale = float(max(np.abs(expected[0]).max(), 1e-2))
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=tolerance * scale)
    assert found[1] == pytest.approx(expected[1], abs=tolerance * scale)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("l2", "l1"), PENALTIES)
@pytest.mark.parametrize("average", AVERAGES)
def test_the_kernel_equals_its_twin(form, l2, l1, average):
    """Equality holds for every penalty and averaging, with weights, intercept and a short batch."""
    assert_same(
        *kernel_and_twin(make_problem(form=form, l2=l2, l1=l1), average=average), tolerance=1e-10
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "perceptron"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_kernel_equals_its_twin_for_every_loss_and_batch(form, loss, size):
    """Rows go two at a time, so odd batches walk another path."""
    problem = make_problem(loss, form=form, weighted=False, l2=0.01)
    assert_same(*kernel_and_twin(problem, size=size, eta0=0.05), tolerance=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["constant", "optimal", "invscaling", "adaptive"])
def test_the_kernel_equals_its_twin_for_every_schedule(form, name):
    """Steps and samples are counted from the first epoch on."""
    assert_same(
        *kernel_and_twin(make_problem(form=form, l2=0.01), name=name, eta0=0.05), tolerance=1e-10
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", PASSIVE_LOSSES)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("l2", "l1"), PENALTIES)
def test_passive_aggressive_steps_equal_their_twin(form, name, loss, size, l2, l1):
    """Passive-aggressive steps use each row's own loss and norm, and equal the twin's.

    In full and short batches, with weights, and with one row without entries.
    """
    assert_same(
        *kernel_and_twin(make_problem(loss, form=form, l2=l2, l1=l1), size=size, name=name),
        tolerance=1e-10,
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", PASSIVE_LOSSES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_passive_aggressive_steps_in_float32(form, name, loss, size):
    """Passive-aggressive steps in float32 and float64 agree to about the precision of float32."""
    single, double = (
        kernel_and_twin(
            make_problem(loss, dtype=dtype, form=form, l2=0.01, l1=0.01), size=size, name=name
        )[0]
        for dtype in (np.float32, np.float64)
    )
    assert single[0].dtype == np.float32
    assert_same(single, double, tolerance=1e-5)


@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize("loss", PASSIVE_LOSSES)
@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("epochs", [1, 3])
def test_passive_aggressive_steps_are_those_of_scikit_learn(name, loss, l2, epochs):
    """Row by row in the given order, with weights and intercept.

    Only under l2 is the row without entries left out: PA-I of scikit-learn does not shrink the
    weights at such a row.
    """
    full = make_problem(loss, l2=l2)
    kept = full.X.any(axis=1) | (l2 == 0.0)
    X, y, weight = full.X[kept], full.y[kept], full.weight[kept]
    problem = Problem.build(X, y, loss=loss, l2=l2, sample_weight=weight, fit_intercept=True)
    solver = make_sgd(problem, False)
    in_order = SimpleNamespace(batches=lambda *_: cut(np.arange(problem.n), 1))
    *_, after = drive(solver, in_order, schedule_for(problem, name), epochs=epochs)
    given = {
        "penalty": "l2" if l2 else None,
        "alpha": l2,
        "learning_rate": name,
        "eta0": 0.3,
        "max_iter": epochs,
        "tol": None,
    }
    peer = (SGDClassifier if problem.loss.classification else SGDRegressor)(
        loss=loss, shuffle=False, **given
    )
    peer.fit(X, y, sample_weight=weight)
    found = after.state.coef, after.state.intercept
    assert_same(found, (peer.coef_.ravel(), peer.intercept_[0]), tolerance=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", ["pa1", "pa2"])
@pytest.mark.parametrize("entry", [1e-25, 3e19])
def test_a_squared_norm_beyond_float32(form, name, entry):
    """float32 rows whose squared norm underflows or overflows still take their steps."""
    problem = Problem.build(
        form(np.diag([entry, entry]).astype(np.float32)), [-1.0, 1.0], loss="hinge"
    )
    solver = make_sgd(problem, False)
    after = solver.epoch(*solver.init(), cut(np.arange(2), 1), schedule_for(problem, name))
    length = passive_aggressive(name, 0.3, np.ones(1), np.array([entry**2]))
    np.testing.assert_allclose(after.state.coef, problem.y * length * entry, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("l2", "l1"), PENALTIES)
@pytest.mark.parametrize("average", AVERAGES)
def test_dense_equals_csr(dtype, l2, l1, average):
    """Dense and CSR agree to rounding, in both float types."""
    dense, csr = (
        kernel_and_twin(make_problem(dtype=dtype, form=form, l2=l2, l1=l1), average=average)[0]
        for form in (np.asarray, sparse.csr_array)
    )
    assert dense[0].dtype == csr[0].dtype == dtype
    assert_same(csr, dense, tolerance=1e-10 if dtype == np.float64 else 2e-4)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_float32_is_near_float64(form):
    """The weights agree to about the precision of float32."""
    single, double = (
        kernel_and_twin(make_problem(dtype=dtype, form=form, l2=0.01, l1=0.01))[0]
        for dtype in (np.float32, np.float64)
    )
    assert_same(single, double, tolerance=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_the_l1_penalty_gives_exact_zeros(form):
    """The same features are exactly zero in the kernel and in the twin, and there are some."""
    found, expected = kernel_and_twin(make_problem(form=form, l1=0.05), epochs=10)
    np.testing.assert_array_equal(found[0] == 0.0, expected[0] == 0.0)
    assert 0 < np.count_nonzero(found[0] == 0.0) < D


def collect(weight, received, charged):
    """A weight after what it owes was collected, and what it has received."""
    left = cumulative_threshold(weight, received, charged)
    return left, received + left - weight


@given(
    weight=st.floats(-2.0, 2.0),
    received=st.floats(-1.0, 1.0),
    charges=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5),
)
def test_charges_may_be_collected_together(weight, received, charges):
    """Penalties for a feature that no row has may be applied together later."""
    left, owing, charged = weight, received, 1.0
    for charge in charges:
        charged += charge
        left, owing = collect(left, owing, charged)
    np.testing.assert_allclose(
        (left, owing), collect(weight, received, charged), rtol=0, atol=1e-12
    )


def test_a_weight_leaves_zero_when_its_gradients_outweigh_the_penalty():
    """Noise of both signs keeps it there, however large; a small push that stays does not.

    NaN is left for the divergence check.
    """
    noisy, steady = (0.0, 0.0), (0.0, 0.0)
    for step in range(40):
        charged = 0.5 * (step + 1)
        noisy = collect(noisy[0] + (2.0 if step % 2 else -2.0), noisy[1], 2.0 + charged)
        steady = collect(steady[0] + 0.6, steady[1], charged)
    assert noisy[0] == 0.0
    assert steady[0] == pytest.approx(40 * 0.1)
    assert np.isnan(cumulative_threshold(np.nan, 0.0, 1.0))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_small_charges_are_not_lost_in_float32(form):
    """A charge below the precision of a weight is owed until it can be paid."""
    problem = Problem.build(form(np.full((2, 1), 1e-20, np.float32)), [0, 1], l1=1e-3)
    solver = make_sgd(problem, False)
    schedule = schedule_for(problem, "constant", 1e-5)
    *_, after = drive(solver, draws_of("shuffle", 2, 2), schedule, ([1.0],), epochs=1000)
    assert after.state.coef[0] == pytest.approx(1.0 - 1000 * 1e-8, abs=1e-7)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_noisy_rows_leave_the_right_weights_at_zero(form):
    """Those that are zero at the optimum, where the usual proximal step would leave hardly any."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    found = minimize(form(X), y, l1=0.01, order="shuffle", epochs=20)
    lasso = LogisticRegression(
        l1_ratio=1.0, C=1 / (0.01 * len(y)), solver="liblinear", fit_intercept=False, tol=1e-8
    ).fit(X, y)
    np.testing.assert_array_equal(found.coef == 0.0, lasso.coef_[0] == 0.0)
    assert 0 < np.count_nonzero(found.coef) < X.shape[1]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_met_on_the_way(form, weighted):
    """The loss met is the mean of each row's loss just before its step, recorded on request."""
    problem = make_problem(form=form, weighted=weighted, l2=0.01)
    sampler, schedule = draws_of("shuffle", problem.n, 2, seed=1), schedule_for(problem)
    watching, blind = (make_sgd(problem, False, watch=watch) for watch in (True, False))
    (seen,) = drive(watching, sampler, schedule, epochs=1)
    met = sgd_steps(
        problem,
        split(sampler.batches(0)),
        2,
        lambda t, n: step_size(*schedule, t, n),
        coef=np.zeros(D),
    )[2]
    assert seen.loss == pytest.approx(met, rel=1e-12)
    (unseen,) = drive(blind, sampler, schedule, epochs=1)
    assert np.isnan(unseen.loss)
    np.testing.assert_array_equal(unseen.state.coef, seen.state.coef)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_slopes_are_cut_off_where_asked(form):
    """A squared error of a prediction that is off by more moves the weights only so far."""
    problem = Problem.build(form(np.array([[1.0], [1.0]])), [1e6, 1e6], loss="squared_error")
    solver = make_sgd(problem, False, steepest=10.0)
    schedule = schedule_for(problem, "constant", 0.5)
    after = solver.epoch(*solver.init(), cut(np.arange(2), 1), schedule)
    assert after.state.coef[0] == 10.0


def test_an_earlier_state_is_made_to_fit():
    """Averages appear and go with what is asked for, and weights take the type of the rows."""
    double, single = make_problem(l1=0.1), make_problem(dtype=np.float32)
    plain, averaged = make_sgd(single, False), make_sgd(double, True)
    state, own = averaged.take_up(*plain.init(np.ones(D)))
    assert state.coef.dtype == np.float64
    np.testing.assert_array_equal(own.coef, 0.0)
    np.testing.assert_array_equal(own.received, np.zeros(D + 1))
    back, left = plain.take_up(state, own._replace(weight=3.0))
    assert back.coef.dtype == np.float32
    assert left.coef is None
    assert left.received is None
    np.testing.assert_array_equal(plain.solution(back, left)[0], 1.0)
    assert averaged.take_up(back, left)[1].weight == 0.0


def test_what_another_solver_kept_is_not_an_average():
    """SGD continues from another solver's weights, with new averages and no L1 carried forward."""
    solver = make_sgd(make_problem(l1=0.1), True)
    state, own = solver.take_up(State(np.ones(D), 0.5, 7, 14, 1), Remembered(np.ones(N)))
    assert (state.steps, state.samples, state.epochs) == (7, 14, 1)
    assert (own.weight, own.settled) == (0.0, 0)
    np.testing.assert_array_equal(own.coef, np.zeros(D))
    np.testing.assert_array_equal(own.received, np.zeros(D + 1))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_penalty_that_kills_all_weights(form):
    """eta l2 above 1 sets the weights to zero, never past it, and a large l1 keeps them there."""
    problem = make_problem(form=form, l2=50.0, l1=50.0, intercept=False)
    found, expected = kernel_and_twin(problem)
    np.testing.assert_array_equal(found[0], 0.0)
    np.testing.assert_array_equal(expected[0], 0.0)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_index_types_make_no_difference(indices):
    """int32 and int64 indices give the same bits."""
    X = sparse.csr_array(make_problem().X)
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    problem = Problem.build(X, make_problem().y, l2=0.01)
    usual = Problem.build(sparse.csr_array(make_problem().X), make_problem().y, l2=0.01)
    np.testing.assert_array_equal(kernel_and_twin(problem)[0][0], kernel_and_twin(usual)[0][0])


def test_read_only_rows_give_the_same_bits_and_are_never_written():
    """Kernels only read the rows, so a read-only memory map works like an array."""
    problem = make_problem(l2=0.01)
    before = problem.X.copy()
    problem.X.flags.writeable = False
    writeable = make_problem(l2=0.01)
    np.testing.assert_array_equal(kernel_and_twin(problem)[0][0], kernel_and_twin(writeable)[0][0])
    np.testing.assert_array_equal(problem.X, before)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize(("l2", "l1"), [(0.1, 0.0), (0.05, 0.05)])
def test_short_batches_leave_no_bias(size, l2, l1):
    """With a small constant step the mean of the epochs is the optimum, for any last batch.

    A short batch that took a full step would pull towards its rows (or shrink too much) in every
    epoch, by some 1e-2 here.
    """
    problem = make_problem("squared_error", weighted=False, intercept=False, l2=l2, l1=l1)
    best = _optimum(problem)
    solver, schedule = make_sgd(problem, False), schedule_for(problem, "constant", 0.002)
    sampler = draws_of("shuffle", problem.n, size, seed=0)
    epochs = list(drive(solver, sampler, schedule, (best,), epochs=60 if l1 == 0.0 else 80))
    mean = np.mean([after.state.coef for after in epochs], axis=0)
    assert np.abs(mean - best).max() < 2e-3


def _optimum(problem):
    """Solution for a squared loss: w = p - m with p and m at least 0 makes the L1 norm linear."""

    def target(both):
        w = both[:D] - both[D:]
        gradient = problem.gradient(w)[0]
        value = (
            problem.objective(w)
            - problem.penalty.l1 * np.abs(w).sum()
            + problem.penalty.l1 * both.sum()
        )
        return value, np.concatenate([gradient, -gradient]) + problem.penalty.l1

    both = scipy_minimize(
        target,
        np.zeros(2 * D),
        jac=True,
        bounds=[(0, None)] * 2 * D,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    ).x
    return both[:D] - both[D:]


def test_the_state_of_an_epoch_is_not_changed_by_the_next():
    """The next epoch does not change a state, so an interruption leaves the last state whole."""
    problem = make_problem(l2=0.01)
    solver, sampler = make_sgd(problem, True), draws_of("shuffle", N, 2)
    first = solver.epoch(*solver.init(), sampler.batches(0), schedule_for(problem))
    coef, average = first.state.coef.copy(), first.own.coef.copy()
    solver.epoch(first.state, first.own, sampler.batches(1), schedule_for(problem))
    np.testing.assert_array_equal(first.state.coef, coef)
    np.testing.assert_array_equal(first.own.coef, average)


@pytest.mark.parametrize("average", ["quadratic", -1, 1.5])
def test_unknown_averages_are_refused(average):
    """Unknown averages are refused, and the error says what is allowed."""
    with pytest.raises(ValueError, match="average"):
        make_sgd(make_problem(), average)
