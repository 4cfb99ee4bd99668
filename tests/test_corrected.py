"""Proximal steps, SVRG and SAGA: equal to the plain twin, and linearly convergent.

Dense and CSR rows give the same steps; the solutions are known from other solvers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drive import balanced_draws, draws_of, drive
from reference import balanced_order, corrected_steps
from scipy import sparse

from antithetic._core.schedules import step_size
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet, GroupNorms, OwnPenalty
from antithetic.problem.smoothness import row_squares
from antithetic.steps import Constant, InverseTime, InvScaling, Optimal
from antithetic.stochastic import After
from antithetic.stochastic.corrected import Corrected, Remembered, safe_step
from antithetic.stochastic.sgd import Averages

pytestmark = pytest.mark.kernel

N, D = 23, 7
FORMS = [pytest.param(np.asarray, id="dense"), pytest.param(sparse.csr_array, id="csr")]
GROUPS = ((0, 3), (1, 5, 6))  # features 2 and 4 are in none


class Ridge:
    """A user's penalty: 0.3 |w|^2 / 2, by its proximal step."""

    separable = True

    def value(self, w):
        return 0.15 * float(w @ w)

    def prox(self, w, step):
        return w / (1.0 + 0.3 * step)


PENALTIES = {
    "none": ElasticNet(),
    "l2": ElasticNet(l2=0.1),
    "l1": ElasticNet(l1=0.05),
    "both": ElasticNet(l2=0.02, l1=0.02),
    "overshooting": ElasticNet(l2=6.0, l1=0.01),  # shrinks weights to zero at first
    "groups": GroupNorms(GROUPS, l1=0.05, l2=0.02),
    "own": OwnPenalty(Ridge(), l2=0.1),
}


def make_problem(
    penalty="l2", loss="log_loss", dtype=np.float64, form=np.asarray, weighted=True, intercept=True
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.4)
    X[3] = 0.0  # a row without entries
    X[:, 4] = 0.0
    X[5, 4] = 2.0  # a feature that is seldom met
    target = X @ rng.normal(size=D) + 0.2 * rng.normal(size=N)
    y = np.sign(target + 1e-3) if LOSSES[loss].classification else target
    weight = rng.uniform(0.5, 1.5, N) if weighted else None
    problem = Problem.build(
        form(X.astype(dtype)), y, loss=loss, sample_weight=weight, fit_intercept=intercept
    )
    return replace(problem, penalty=PENALTIES[penalty])


def some_batches(kind, epoch, size):
    """Batches of an epoch: shuffled with a short end, or draws with repeated rows and factors.

    The draws have unequal lengths.
    """
    if kind == "once":
        return draws_of("shuffle", N, size, seed=1).batches(epoch)
    rng = np.random.default_rng((7, epoch))
    lengths = rng.integers(1, size + 2, size=9)
    rows = rng.integers(N, size=int(lengths.sum()))
    rows[1] = rows[0]  # twice in one batch, if that has two
    return Batches(
        rows, np.append(0, np.cumsum(lengths)), size, factors=rng.uniform(0.2, 2.0, len(rows))
    )


class Draws:
    """A sampler of `some_batches`."""

    def __init__(self, kind, size):
        self.kind, self.size = kind, size

    def batches(self, epoch, order=None):  # noqa: ARG002 - a sampler's signature
        return some_batches(self.kind, epoch, self.size)


def lists_of(batches):
    cuts = batches.starts[1:-1]
    factors = np.split(batches.factors, cuts) if len(batches.factors) else [None] * (len(cuts) + 1)
    return list(zip(np.split(batches.rows, cuts), factors, strict=True))


def steps_of(name, eta0):
    return {
        "constant": Constant(eta0),
        "inverse_time": InverseTime(eta0, decay=0.1),
        "optimal": Optimal(alpha=0.01),
        "invscaling": InvScaling(eta0, power=0.5),
    }[name]


def constant(problem, eta0):
    return Constant(eta0).schedule(problem.loss, problem.penalty)


def safe(problem, kind):
    """A constant schedule of the step that follows from the smoothness, for batches of two."""
    return constant(problem, safe_step(problem, 2, row_squares(problem), kind))


def kernel_and_twin(
    problem,
    kind,
    *,
    draws="once",
    size=2,
    epochs=3,
    name="constant",
    eta0=0.3,
    coef=None,
    intercept=0.0,
):
    solver = Corrected(problem, kind)
    schedule = steps_of(name, eta0).schedule(problem.loss, problem.penalty)
    *_, after = drive(solver, Draws(draws, size), schedule, (coef, intercept), epochs=epochs)
    expected, memory = corrected_steps(
        problem,
        [lists_of(some_batches(draws, epoch, size)) for epoch in range(epochs)],
        size,
        lambda steps, samples: step_size(*schedule, steps, samples),
        kind,
        coef=np.zeros(problem.d) if coef is None else coef,
        intercept=intercept,
    )
    return after, expected, memory


def assert_same(after, expected, tolerance):
    state, scale = after.state, float(max(np.abs(expected[0]).max(), 1e-2))
    np.testing.assert_allclose(state.coef, expected[0], rtol=0, atol=tolerance * scale)
    assert state.intercept == pytest.approx(expected[1], abs=tolerance * scale)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["sgd", "svrg", "saga"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("draws", ["once", "with factors"])
def test_the_kernel_equals_its_twin(form, kind, penalty, draws):
    """For every penalty, with weights and intercept, short batches, repeated rows and factors."""
    after, expected, memory = kernel_and_twin(make_problem(penalty, form=form), kind, draws=draws)
    assert_same(after, expected, tolerance=1e-10)
    if kind == "sgd":
        assert after.own == Remembered()
    else:
        np.testing.assert_allclose(after.own.slopes, memory, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["svrg", "saga"])
@pytest.mark.parametrize(
    "start", [(np.linspace(-1.0, 1.0, D), 0.5), (None, 0.5)], ids=["weights", "intercept"]
)
def test_a_first_epoch_from_given_weights_is_corrected(form, kind, start):
    """What is remembered is taken at the weights to begin with, unless these are zero."""
    problem = make_problem("both", form=form)
    after, expected, memory = kernel_and_twin(
        problem, kind, epochs=1, coef=start[0], intercept=start[1]
    )
    assert_same(after, expected, tolerance=1e-10)
    np.testing.assert_allclose(after.own.slopes, memory, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["svrg", "saga"])
@pytest.mark.parametrize("size", [1, 3, 5, N])
def test_batches_of_any_size_equal_the_twin(form, kind, size):
    """One row, odd numbers, and all rows at once."""
    after, expected, _ = kernel_and_twin(make_problem("both", form=form), kind, size=size)
    assert_same(after, expected, tolerance=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["inverse_time", "optimal", "invscaling"])
@pytest.mark.parametrize("penalty", ["both", "groups", "own"])
def test_every_schedule_equals_the_twin(form, name, penalty):
    """The lines along which features are brought up to date hold for steps of any length."""
    after, expected, _ = kernel_and_twin(
        make_problem(penalty, form=form), "saga", name=name, epochs=4
    )
    assert_same(after, expected, tolerance=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_equals_the_twin(form, loss):
    """Every loss equals the twin, including losses with a kink if steps are given."""
    after, expected, _ = kernel_and_twin(make_problem("both", loss, form=form), "svrg", eta0=0.05)
    assert_same(after, expected, tolerance=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["sgd", "svrg", "saga"])
@pytest.mark.parametrize("penalty", ["l2", "both", "groups"])
def test_float32_is_near_float64(form, kind, penalty):
    """The same run in single precision, up to its rounding."""
    found, _, _ = kernel_and_twin(make_problem(penalty, dtype=np.float32, form=form), kind)
    expected, _, _ = kernel_and_twin(make_problem(penalty, form=form), kind)
    assert found.state.coef.dtype == np.float32
    assert_same(found, (expected.state.coef, expected.state.intercept), tolerance=2e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["svrg", "saga"])
@pytest.mark.parametrize("penalty", ["l2", "both", "groups", "own"])
@pytest.mark.optimum
def test_it_converges_to_where_the_proximal_gradient_vanishes(form, kind, penalty):
    """With the step from the smoothness, it ends at a fixed point of the full proximal step."""
    problem = make_problem(penalty, form=form)
    solver = Corrected(problem, kind)
    *_, after = drive(solver, draws_of("shuffle", N, 2), safe(problem, kind), epochs=600)
    state = after.state
    gradient, constant = problem.gradient(state.coef, state.intercept)
    moved = problem.penalty.nonsmooth_prox(state.coef - 0.1 * gradient, 0.1)
    np.testing.assert_allclose(moved, state.coef, rtol=0, atol=1e-9)
    assert abs(constant) < 1e-8


@pytest.mark.parametrize("form", FORMS)
def test_a_strong_penalty_leaves_exact_zeros(form):
    """Weights, and whole groups, that belong at zero are there, not near it."""
    problem = replace(make_problem(form=form, intercept=False), penalty=ElasticNet(l1=0.15))
    grouped = replace(problem, penalty=GroupNorms(GROUPS, l1=0.1))
    for case in (problem, grouped):
        solver = Corrected(case, "saga")
        *_, after = drive(solver, draws_of("shuffle", N, 2), safe(case, "saga"), epochs=300)
        zeros = after.state.coef == 0.0
        assert 0 < zeros.sum() < D
        if case is grouped:
            assert {len(set(zeros[list(group)].tolist())) for group in GROUPS} == {1}


def test_epochs_do_not_change_earlier_states():
    """A run can continue twice from one state, with the same bits."""
    problem = make_problem("both")
    solver = Corrected(problem, "saga")
    schedule = constant(problem, 0.1)
    first = solver.epoch(*solver.init(), some_batches("once", 0, 2), schedule)
    kept = first.own.slopes.copy()
    again = [
        solver.epoch(first.state, first.own, some_batches("once", 1, 2), schedule) for _ in range(2)
    ]
    np.testing.assert_array_equal(first.own.slopes, kept)
    np.testing.assert_array_equal(again[0].state.coef, again[1].state.coef)


def test_what_belongs_to_other_rows_is_forgotten():
    """Slopes are kept for the rows they were met on, and never for a problem of another size."""
    problem = make_problem("both", dtype=np.float32)
    solver, schedule = Corrected(problem, "saga"), constant(problem, 0.1)
    after = solver.epoch(*solver.init(), some_batches("once", 0, 2), schedule)
    assert solver.take_up(after.state, after.own)[1] is after.own
    shorter = replace(problem, X=problem.X[1:], y=problem.y[1:], weight=problem.weight[1:])
    for other in (after.own, Averages(), None):
        state, own = Corrected(shorter, "saga").take_up(after.state, other)
        assert own == Remembered()
        assert state.epochs == 1
    double = make_problem("both")
    assert Corrected(double, "saga").take_up(after.state, after.own)[0].coef.dtype == np.float64


def test_watching_records_the_mean_loss_met():
    """Before any weight has moved, the loss met by a single step is that of zero weights."""
    problem = make_problem(weighted=False)
    solver = Corrected(problem, "saga", watch=True)
    schedule = constant(problem, 0.1)
    after = solver.epoch(*solver.init(), draws_of("shuffle", N, N).batches(0), schedule)
    assert after.loss == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["sgd", "svrg"])
@pytest.mark.parametrize("unit", [1, 2, 4])
@pytest.mark.parametrize("penalty", ["l2", "groups"])
def test_a_balanced_order_follows_the_corrected_gradients(form, kind, unit, penalty):
    """The order an epoch leaves is the rule's, applied to the gradients its steps followed."""
    problem = make_problem(penalty, form=form)
    solver = Corrected(problem, kind)
    schedule = constant(problem, 0.1)
    first = np.random.default_rng(3).permutation(N)
    # One batch: all slopes are those at the first weights.
    batches = balanced_draws(first, N, unit).batches(0)
    after = solver.epoch(*solver.init(np.linspace(-1.0, 1.0, D)), batches, schedule)
    X = np.hstack([problem.X if form is np.asarray else problem.X.toarray(), np.ones((N, 1))])
    slopes = problem.slopes(np.linspace(-1.0, 1.0, D))
    if kind == "svrg":
        # Remembered at the same weights, so nothing is left to balance; ties keep the first of two
        # in front.
        slopes = np.zeros(N)
    np.testing.assert_array_equal(after.order, balanced_order(first, slopes[:, None] * X, unit))
    batches = balanced_draws(first, 2, unit).batches(1, after.order)
    later = solver.epoch(after.state, after.own, batches, schedule)
    assert sorted(later.order) == list(range(N))


@pytest.mark.parametrize("form", FORMS)
def test_balanced_svrg_equals_its_twin(form):
    """Orders and weights over several epochs, with the intercept's part in both."""
    problem = make_problem("both", form=form)
    solver, order = Corrected(problem, "svrg"), np.random.default_rng(3).permutation(N)
    schedule = constant(problem, 0.2)
    X = np.hstack([problem.X if form is np.asarray else problem.X.toarray(), np.ones((N, 1))])
    sampler, after = balanced_draws(order, 2), After(*solver.init())
    for epoch in range(4):
        pulls, w, b = np.zeros(N), after.state.coef, after.state.intercept
        memory = problem.slopes(w, b) if epoch else np.zeros(N)
        for rows in np.split(order, range(2, N, 2)):
            pulls[rows] = problem.slopes(w, b)[rows] - memory[rows]
            (w, b), _ = corrected_steps(
                problem,
                [[(rows, None)]],
                2,
                lambda *_: 0.2,
                "given",
                coef=w,
                intercept=b,
                memory=memory,
            )
        batches = sampler.batches(epoch, after.order)
        after = solver.epoch(after.state, after.own, batches, schedule)
        order = balanced_order(order, pulls[:, None] * X, 1)
        np.testing.assert_array_equal(after.order, order)
        assert_same(after, (w, b), tolerance=1e-10)
