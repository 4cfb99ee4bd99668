"""The balanced order: it follows the plain rule, visits each row once, and keeps sums small."""

from __future__ import annotations

import numpy as np
import pytest
from drive import balanced_draws, draws_of, drive
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import balanced_order, balanced_sgd_steps, split
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from strategies import integer_rows, matchings

import antithetic
from antithetic import AntitheticTable, SGDClassifier, SGDRegressor, datasets, minimize
from antithetic._core.schedules import step_size
from antithetic.orders import Balanced, Pairs, Shuffle, Uniform, variance
from antithetic.orders.units import cut
from antithetic.orders.variance import largest_partial_sum, order_variance
from antithetic.problem import Problem
from antithetic.steps import PA1, PA2, Constant, InverseTime
from antithetic.stochastic.sgd import make_sgd

pytestmark = pytest.mark.kernel

FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
PENALTIES = [(0.1, 0.0), (0.0, 0.05), (6.0, 0.01)]  # the last shrinks weights to zero at first
D = 7


def make_problem(n, form=np.asarray, *, loss="log_loss", weighted=True, intercept=True, **penalty):
    """Rows without symmetries, so that no product is near zero but those that are zero."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.5)
    X[n // 3] = 0.0  # a row without entries
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    weight = rng.uniform(0.5, 1.5, n) if weighted else None
    return Problem.build(
        form(X), y, loss=loss, sample_weight=weight, fit_intercept=intercept, **penalty
    )


def schedule_for(problem, steps=None):
    steps = InverseTime(0.3, decay=0.1) if steps is None else steps
    return steps.schedule(problem.loss, problem.penalty)


def kernel_and_twin(problem, size, unit, *, average=False, epochs=3):
    """Solution and following order of the kernel and of the twin."""
    solver, schedule = make_sgd(problem, average), schedule_for(problem)
    first = np.random.default_rng(1).permutation(problem.n)
    *_, after = drive(solver, balanced_draws(first, size, unit), schedule, epochs=epochs)
    last, mean, order = balanced_sgd_steps(
        problem,
        first,
        size,
        unit,
        epochs,
        lambda steps, samples: step_size(*schedule, steps, samples),
        coef=np.zeros(problem.d),
        average_from=solver.average_from,
        linear=solver.linear,
    )
    found = solver.solution(after.state, after.own), after.order
    return found, (mean if average else last, order)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(
        found[0][0], expected[0][0], rtol=0, atol=1e-10 * max(np.abs(expected[0][0]).max(), 1e-2)
    )
    assert found[0][1] == pytest.approx(expected[0][1], abs=1e-10)


# ---- the kernels against the plain rule


def test_the_rule_by_hand():
    """Gradients 1 3 | 2 0 | 4: s = -2 with 0 first and 1 last.

    Then d = 2 opposes it, so 2 is second and 3 before 1; 4 has no other.
    """
    gradients = np.array([[1.0], [3.0], [2.0], [0.0], [4.0]])
    np.testing.assert_array_equal(balanced_order(np.arange(5), gradients, 1), [0, 2, 4, 3, 1])
    gradients[2] = -2.0  # d = -2 goes along: the other way round
    np.testing.assert_array_equal(balanced_order(np.arange(5), gradients, 1), [0, 3, 4, 2, 1])
    # Units stay whole.
    np.testing.assert_array_equal(
        balanced_order(np.arange(9), np.ones((9, 1)), 2), [0, 1, 4, 5, 6, 7, 2, 3, 8]
    )


@FORMS
@pytest.mark.parametrize("n", [1, 7, 16, 22, 27])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("unit", [1, 2, 4])
def test_the_kernel_equals_its_twin(form, n, size, unit):
    """Weights after three epochs, and the next order, equal those of the plain twin.

    Two units lie in one batch or in several, or a unit has no second one.
    """
    if n == 1:
        size = 1
    problem = (
        Problem.build(form([[2.0]]), [1.0], loss="squared_error")
        if n == 1
        else make_problem(n, form, l2=0.01)
    )
    assert_same(*kernel_and_twin(problem, size, unit))


@FORMS
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("l2", "l1"), PENALTIES)
@pytest.mark.parametrize("average", [False, 30, "linear"])
def test_the_kernel_equals_its_twin_with_penalties_and_averages(form, size, l2, l1, average):
    """Gradients are taken at the weights that the steps continue from, averaged or not."""
    assert_same(*kernel_and_twin(make_problem(23, form, l2=l2, l1=l1), size, 1, average=average))


@FORMS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_the_kernel_equals_its_twin_with_and_without_weights_and_intercept(
    form, weighted, intercept, size
):
    """The intercept's part of a gradient counts, and only where there is an intercept."""
    found, expected = kernel_and_twin(
        make_problem(40, form, weighted=weighted, intercept=intercept), size, 2
    )
    assert_same(found, expected)
    other = kernel_and_twin(
        make_problem(40, form, weighted=weighted, intercept=not intercept), size, 2
    )[0]
    assert not np.array_equal(found[1], other[1])


def order_after(problem, order, size, unit, steps):
    """Order that one epoch leaves behind for the next."""
    solver, sampler = make_sgd(problem, False), balanced_draws(order, size, unit)
    [after] = drive(solver, sampler, schedule_for(problem, steps), epochs=1)
    return after.order


@given(
    X=integer_rows(min_rows=2, max_rows=14),
    size=st.integers(1, 5),
    unit=st.sampled_from([1, 2]),
    eta0=st.sampled_from([0.25, 0.3, 1e-3]),
    intercept=st.booleans(),
    weighted=st.booleans(),
)
def test_one_order_for_dense_csr_float32_and_float64_on_whole_numbers(
    X, size, unit, eta0, intercept, weighted
):
    """Dense, CSR, float32 and float64 rows of whole numbers have the same balanced order.

    The steps leave the slopes of the hinge at 1, so all products are whole and ties are exact.
    """
    n = len(X)
    y, weight = np.where(np.arange(n) % 3, 1.0, -1.0), np.arange(n) % 4 + 1.0 if weighted else None
    orders = []
    for dtype in (np.float64, np.float32):
        for form in (np.asarray, sparse.csr_array):
            problem = Problem.build(
                form(X.astype(dtype)),
                y,
                loss="hinge",
                fit_intercept=intercept,
                sample_weight=weight,
            )
            steps = Constant(eta0 * 2.0**-12)
            orders.append(order_after(problem, np.arange(n), min(size, n), unit, steps))
    gradients = (
        -(np.ones(n) if weight is None else weight)[:, None]
        * y[:, None]
        * np.hstack([X, np.full((n, 1), float(intercept))])
    )
    for order in orders:
        np.testing.assert_array_equal(order, balanced_order(np.arange(n), gradients, unit))


@FORMS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_ties_do_not_depend_on_the_length_of_the_steps(form, dtype, weighted):
    """The slopes of the hinge are balanced as they are, not after multiplication by a step size."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 20))
        X, y = rng.integers(-3, 4, size=(n, 1)).astype(float), np.where(np.arange(n) % 3, 1.0, -1.0)
        weight = rng.integers(1, 6, n).astype(float) if weighted else np.ones(n)
        problem = Problem.build(form(X.astype(dtype)), y, loss="hinge", sample_weight=weight)
        steps = InverseTime(rng.uniform(1, 2) * 2.0**-14, decay=1e3)
        np.testing.assert_array_equal(
            order_after(problem, np.arange(n), 2, 1, steps),
            balanced_order(np.arange(n), -(weight * y)[:, None] * X, 1),
            err_msg=f"seed {seed}",
        )


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("steps", [PA1(0.25), PA2(0.25)], ids=str)
def test_dense_and_csr_agree_on_passive_aggressive_steps(size, steps):
    """Dense and CSR rows are balanced alike by what each row moves the weights by."""
    dense, csr = (make_problem(30, form, loss="hinge") for form in (np.asarray, sparse.csr_array))
    first = np.arange(30)
    np.testing.assert_array_equal(
        order_after(dense, first, size, 1, steps), order_after(csr, first, size, 1, steps)
    )


@FORMS
@pytest.mark.parametrize("n", [22, 23])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("unit", [1, 2, 4])
@pytest.mark.parametrize(("l2", "l1"), [(0.1, 0.0), (0.02, 0.02)])
def test_balancing_does_not_change_the_epoch_itself(form, n, size, unit, l2, l1):
    """Balancing leaves the weights of the epoch unchanged, bit for bit.

    In odd batches of dense rows, which are visited one at a time, they agree to rounding.
    """
    problem = make_problem(n, form, l2=l2, l1=l1)
    solver, order = make_sgd(problem, True), np.random.default_rng(2).permutation(n)
    plain, balanced = (
        solver.epoch(*solver.init(), batches, schedule_for(problem))
        for batches in (cut(order, size), cut(order, size)._replace(unit=unit))
    )
    assert plain.order is None
    tolerance = 1e-13 if form is np.asarray and size in (3, 5) else 0.0
    for part in ("state", "own"):
        for name in ("coef", "intercept"):
            np.testing.assert_allclose(
                getattr(getattr(balanced, part), name),
                getattr(getattr(plain, part), name),
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"{part}.{name}",
            )


# ---- the order


@st.composite
def orders_and_units(draw):
    n = draw(st.integers(1, 40))
    unit = draw(st.sampled_from([1, 2, 4]))
    return n, draw(st.integers(1, min(n, 7))), unit, draw(st.integers(0, 2**31))


@settings(max_examples=40)
@given(orders_and_units())
def test_each_row_once_and_units_stay_together(case):
    """Each row is in one batch, only the last batch is short, and units keep their rows."""
    n, size, unit, seed = case
    rng = np.random.default_rng(seed)
    problem = Problem.build(rng.normal(size=(n, 3)), rng.normal(size=n), loss="squared_error")
    first = rng.permutation(n)
    solver, sampler = make_sgd(problem, False), balanced_draws(first, size, unit)
    units = {tuple(part) for part in first[: n // unit * unit].reshape(-1, unit)}
    schedule = schedule_for(problem, InverseTime(0.01, decay=0.1))
    for after in drive(solver, sampler, schedule, epochs=3):
        batches = sampler.batches(after.state.epochs, after.order)
        np.testing.assert_array_equal(np.sort(batches.rows), np.arange(n))
        assert batches.rows.dtype == np.intp
        lengths = np.diff(batches.starts)
        assert (lengths[:-1] == size).all()
        assert 0 < lengths[-1] <= size == batches.size
        assert {tuple(part) for part in batches.rows[: n // unit * unit].reshape(-1, unit)} == units
        # Rows that form no whole unit stay last.
        np.testing.assert_array_equal(batches.rows[n // unit * unit :], first[n // unit * unit :])


def test_the_row_without_another_is_not_the_same_every_time():
    """In an odd number of rows, a different row is last and alone in its batch each epoch."""
    problem = Problem.build(np.random.default_rng(0).normal(size=(31, 3)), np.arange(31) % 2)
    solver, sampler = make_sgd(problem, False), balanced_draws(np.arange(31), 2)
    schedule = schedule_for(problem, InverseTime(0.1, decay=0.1))
    runs = drive(solver, sampler, schedule, epochs=12)
    assert len({int(after.order[-1]) for after in runs}) > 3


@settings(max_examples=30)
@given(st.data(), st.integers(2, 24), st.sampled_from([1, 2, 3, 4, 6]))
def test_partners_are_neighbours_in_every_epoch(data, n, size):
    """Partners are neighbours, share a batch where batches are even, and the single row is last."""
    table = AntitheticTable(data.draw(matchings(n)))
    rng = np.random.default_rng(n)
    problem = Problem.build(rng.normal(size=(n, 3)), np.arange(n) % 2)
    solver, sampler = make_sgd(problem, False), draws_of("balanced", n, min(size, n), 3, table)
    for after in drive(solver, sampler, schedule_for(problem), epochs=4):
        batches = sampler.batches(after.state.epochs, after.order)
        pairs = batches.rows[: n // 2 * 2].reshape(-1, 2)
        np.testing.assert_array_equal(table.partner[pairs[:, 0]], pairs[:, 1])
        if n % 2:
            assert batches.rows[-1] == table.single
        if batches.size % 2 == 0:
            assert all(table.partner[row] in batch for batch in split(batches) for row in batch)


def test_the_first_order_depends_on_the_seed_and_the_others_on_the_one_before():
    """An order does not depend on the epoch's number or on earlier requests.

    Each seed has its own first order.
    """
    sampler, again = (draws_of("balanced", 25, 3, 5) for _ in range(2))
    np.testing.assert_array_equal(sampler.batches(0).rows, again.batches(7).rows)
    assert not np.array_equal(
        sampler.batches(0).rows, draws_of("balanced", 25, 3, 6).batches(0).rows
    )
    assert not np.array_equal(sampler.batches(0).rows, np.arange(25))
    left = np.arange(25)[::-1].copy()
    np.testing.assert_array_equal(sampler.batches(3, left).rows, left)
    table = antithetic.pair_rows(np.arange(24.0)[:, None] - 11.5, "random", random_state=1)
    firsts = [draws_of("balanced", 24, 2, seed, table).batches(0).rows for seed in (5, 5, 6)]
    np.testing.assert_array_equal(firsts[0], firsts[1])
    assert not np.array_equal(firsts[0], firsts[2])


# ---- partial sums and variances


@FORMS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("entries", [1, 4 * D, 1 << 20])
def test_the_measures_of_an_order_by_brute_force(form, weighted, intercept, entries, monkeypatch):
    """Both measures of an order equal their plain definitions.

    They are the largest partial sum in blocks of any length, and the mean over full batches of the
    squared distance to the gradient.
    """
    monkeypatch.setattr(variance, "BLOCK_ENTRIES", entries)
    problem = make_problem(23, form, weighted=weighted, intercept=intercept)
    rng = np.random.default_rng(3)
    order, slopes = rng.permutation(23), problem.slopes(rng.normal(size=D), 0.3)
    X = problem.X if form is np.asarray else problem.X.toarray()
    gradients = slopes[:, None] * np.hstack([X, np.full((23, 1), float(intercept))])
    centred = gradients - gradients.mean(axis=0)
    expected = max(np.linalg.norm(centred[order[:k]].sum(axis=0)) for k in range(1, 24))
    assert largest_partial_sum(problem, slopes, order) == pytest.approx(expected, rel=1e-12)
    batches = cut(order, 4)
    full = [np.sum(centred[batch].mean(axis=0) ** 2) for batch in split(batches) if len(batch) == 4]
    assert len(full) == 5
    assert order_variance(problem, slopes, batches) == pytest.approx(np.mean(full), rel=1e-12)
    assert order_variance(problem, slopes, cut(order[:3], 4)) == 0.0  # no full batch


@FORMS
@pytest.mark.parametrize("unit", [1, 2])
def test_balancing_fixed_gradients_makes_partial_sums_small(form, unit):
    """After ten epochs the largest partial sum is a fraction of a random order's.

    The steps are too short to move the weights, so the gradients are fixed.
    """
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    problem = Problem.build(form(X), y, fit_intercept=True)
    solver, rng = make_sgd(problem, False), np.random.default_rng(0)
    coef = rng.normal(size=problem.d)
    slopes = problem.slopes(coef)
    sampler = balanced_draws(rng.permutation(problem.n), 2, unit)
    schedule = schedule_for(problem, Constant(1e-9))
    *_, after = drive(solver, sampler, schedule, (coef,), epochs=10)
    np.testing.assert_allclose(after.state.coef, coef, atol=1e-6)
    random = [largest_partial_sum(problem, slopes, rng.permutation(problem.n)) for _ in range(20)]
    assert largest_partial_sum(problem, slopes, after.order) < min(
        0.4 * np.median(random), 0.6 * np.min(random)
    )


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("breast-cancer_scale", None), ("diabetes_scale", None), ("diabetes_scale", "random")],
)
def test_the_trace_shows_small_partial_sums(name, pairs):
    """Partial sums become small along a run, from those of a random order at first."""
    X, y = datasets.load(name, return_X_y=True)
    given = {
        "l2": 1e-2,
        "steps": 0.1,
        "epochs": 10,
        "trace": ["partial_sum", "variance", "variance_ratio"],
    }
    balanced, shuffled = (
        minimize(X, y, order=order, **given).trace
        for order in (Balanced(pairs=pairs), Shuffle(pairs=pairs))
    )
    assert balanced["partial_sum"][0] > 0.5
    assert (balanced["partial_sum"][8:] < 0.5).all()
    assert (shuffled["partial_sum"] > 0.5).all()
    assert (balanced["variance"] > 0.0).all()


def test_the_traced_variance_is_that_of_the_batches_to_come():
    """The traced variance equals one recomputed from the state at the end of the run."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    result = minimize(
        X,
        y,
        order="balanced",
        steps=0.1,
        batch_size=4,
        epochs=3,
        trace=["variance", "partial_sum"],
    )
    problem = Problem.build(X, y)
    slopes = problem.slopes(result.coef)
    assert result.trace["variance"][-1] == order_variance(problem, slopes, cut(result.run.order, 4))
    random = np.random.default_rng((0, 3)).permutation(problem.n)
    expected = largest_partial_sum(problem, slopes, result.run.order) / largest_partial_sum(
        problem, slopes, random
    )
    assert result.trace["partial_sum"][-1] == expected


def test_the_variance_of_a_balanced_order_is_refused():
    """A balanced order is not random; the message says what to use instead."""
    with pytest.raises(ValueError, match=r"Balanced\(\) are not drawn at random.*trace"):
        antithetic.gradient_variance([[1.0], [2.0]], [0, 1], order="balanced")


# ---- runs


@FORMS
@pytest.mark.parametrize("pairs", [None, "greedy"])
@pytest.mark.parametrize(
    "more",
    [{"steps": 0.1}, {"steps": "auto"}, {"steps": 0.1, "l1": 0.01, "average": True}],
    ids=str,
)
def test_a_resumed_run_is_the_unbroken_one(form, pairs, more):
    """A resumed run equals the unbroken one bit for bit, including order and trace.

    The same seed gives the same bits, another one others.
    """
    problem = make_problem(41, form)
    given = {
        "order": Balanced(pairs=pairs),
        "l2": 0.01,
        "fit_intercept": True,
        "batch_size": 3,
        "trace": "partial_sum",
        **more,
    }

    def solve(epochs, seed=4, resume=None):
        return minimize(problem.X, problem.y, epochs=epochs, seed=seed, resume=resume, **given)

    whole, again, resumed = solve(6), solve(6), solve(6, resume=solve(3, resume=solve(2)))
    for other in (again, resumed):
        np.testing.assert_array_equal(other.coef, whole.coef)
        np.testing.assert_array_equal(other.run.order, whole.run.order)
        np.testing.assert_array_equal(other.trace["partial_sum"], whole.trace["partial_sum"])
        assert other.intercept == whole.intercept
    assert not np.array_equal(solve(6, seed=5).coef, whole.coef)


@FORMS
def test_float32_agrees_with_float64(form):
    """float32 and float64 agree to the precision of float32 on rows without near-ties."""
    problem = make_problem(30)
    single, double = (
        minimize(
            form(problem.X.astype(dtype)),
            problem.y,
            order="balanced",
            l2=0.01,
            steps=0.1,
            epochs=5,
        )
        for dtype in (np.float32, np.float64)
    )
    assert single.coef.dtype == np.float32
    np.testing.assert_array_equal(single.run.order, double.run.order)
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-5)


@pytest.mark.parametrize("name", ["breast-cancer_scale", "diabetes_scale"])
@pytest.mark.optimum
def test_a_balanced_order_beats_a_random_one(name):
    """After 20 epochs with automatic steps, the mean gap of three seeds is at most a tenth."""
    X, y = datasets.load(name, return_X_y=True)
    problem = Problem.build(X, y, l2=1e-2)
    best = scipy_minimize(
        problem.objective,
        np.zeros(problem.d),
        jac=lambda w: problem.gradient(w)[0],
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10},
    ).fun
    balanced, shuffled = (
        np.mean(
            [
                problem.objective(minimize(X, y, l2=1e-2, order=order, seed=seed).coef) - best
                for seed in range(3)
            ]
        )
        for order in ("balanced", "shuffle")
    )
    assert -1e-12 < balanced <= 0.1 * shuffled


# ---- estimators


def rows_and_labels(n, d):
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.normal(size=n) > 0.0


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
@pytest.mark.parametrize(
    ("n", "d", "given", "order", "why"),
    [
        (60, 1, {}, Balanced(), "60 rows of 1 feature are"),
        (60, 3, {}, Balanced(), "60 rows of 3 features"),
        (60, 30, {}, Balanced(), "30 features"),
        (60, 31, {}, Shuffle(), "60 rows of 31 features"),
        (60, 3, {"max_iter": 1}, Shuffle(), "a single epoch"),
        (60, 3, {"batch_size": 60}, Shuffle(), "a batch holds all rows"),
        (60, 3, {"batch_size": 59}, Balanced(), "3 features"),
        (60, 3, {"order": "uniform"}, Uniform(), "was asked for"),
        (60, 31, {"order": "balanced"}, Balanced(), "was asked for"),
    ],
)
def test_the_automatic_order(kind, n, d, given, order, why):
    """Balanced where rows are many and features few; the plan says so, and why."""
    X, y = rows_and_labels(n, d)
    plan = (
        kind(**{"max_iter": 3, "tol": None, "order": "auto", **given}).fit(X, y.astype(float)).plan_
    )
    assert plan.order == order
    assert why in plan.why


def test_a_chunk_is_shuffled():
    """``partial_fit`` is one epoch of rows that do not come back."""
    X, y = rows_and_labels(60, 3)
    model = SGDClassifier(order="auto").partial_fit(X, y, classes=[False, True])
    assert model.plan_.order == Shuffle()
    assert "single epoch" in model.plan_.why


@pytest.mark.parametrize(
    "pairs",
    [None, "tree", Pairs("tree", nest=True), Pairs("greedy", nest=4)],
    ids=str,
)
def test_estimators_fit_in_a_balanced_order(pairs):
    """Estimators fit in a balanced order, with and without pairs and nested groups.

    A good model comes out, and partial sums are recorded and become small.
    """
    X, y = datasets.load("breast-cancer_scale", return_X_y=True)
    model = SGDClassifier(
        "log_loss",
        order=Balanced(pairs=pairs),
        alpha=1e-2,
        max_iter=10,
        tol=None,
        trace=["partial_sum", "variance_ratio"],
        random_state=0,
    ).fit(X, y)
    assert model.plan_.order == Balanced(pairs=pairs)
    assert model.score(X, y) > 0.95
    assert model.history_["partial_sum"].shape == (10,)
    assert model.history_["partial_sum"][-5:].mean() < 0.6


def test_the_estimator_is_minimize():
    """An estimator and minimize give the same bits, given the seed that the estimator draws."""
    X, y = datasets.load("diabetes_scale", return_X_y=True)
    model = SGDClassifier(
        loss="log_loss",
        order="balanced",
        learning_rate="auto",
        alpha=1e-2,
        fit_intercept=False,
        batch_size=2,
        max_iter=5,
        tol=None,
        random_state=0,
    ).fit(X, y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=1)[0])
    result = minimize(
        X,
        y,
        order="balanced",
        l2=1e-2,
        average="epoch",
        epochs=5,
        seed=seed,
    )
    np.testing.assert_array_equal(model.coef_[0], result.coef)
