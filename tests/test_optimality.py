"""Gradient mapping and duality gap: zero at the optimum, bounds elsewhere, accurate digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from strategies import problems, weights

from antithetic.exact.optimality import dual_objective, duality_gap, gradient_mapping_norm
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import OwnPenalty

pytestmark = pytest.mark.kernel

SMOOTH = [name for name, loss in LOSSES.items() if math.isfinite(loss.largest_curvature)]
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
N, D = 30, 4


def make_problem(loss, form=np.asarray, dtype=np.float64, weighted=False, l2=0.1, l1=0.0, **given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    target = X @ rng.normal(size=D) + 0.5 * rng.normal(size=N)
    weight = np.append(rng.uniform(0.5, 2.0, N - 2), [0.0, 0.0]) if weighted else None
    y = np.sign(target) if LOSSES[loss].classification else target
    return Problem.build(
        form(X.astype(dtype)), y, loss=loss, l2=l2, l1=l1, sample_weight=weight, **given
    )


def proximal_gradient(problem, steps=4000):
    """Weights and intercept near the optimum, by plain proximal gradient steps."""
    w, b, step = np.zeros(problem.d), 0.0, 1.0 / problem.row_curvature()
    for _ in range(steps):
        gradient, constant = problem.gradient(w, b)
        w, b = problem.penalty.nonsmooth_prox(w - step * gradient, step), b - step * constant
    return w, b


@FORMS
@pytest.mark.parametrize("loss", SMOOTH)
def test_without_a_kink_it_is_the_norm_of_the_gradient(form, loss):
    """Without a kink it is the norm of the gradient, with intercept and weights."""
    problem = make_problem(loss, form, weighted=True, fit_intercept=True)
    coef = np.linspace(-1.0, 1.0, D)
    gradient, constant = problem.gradient(coef, 0.3)
    assert gradient_mapping_norm(problem, coef, 0.3) == pytest.approx(
        math.hypot(np.linalg.norm(gradient), constant), rel=1e-12
    )


@FORMS
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("l1", [0.0, 0.05, 10.0])
@pytest.mark.optimum
def test_the_mapping_vanishes_at_the_optimum_only(form, loss, l1):
    """The mapping vanishes at the optimum, even where L1 holds weights at zero.

    The gradient itself does not vanish there.
    """
    problem = make_problem(loss, form, l1=l1, fit_intercept=True)
    w, b = proximal_gradient(problem)
    assert gradient_mapping_norm(problem, w, b) < 1e-10
    assert gradient_mapping_norm(problem, w + 0.01, b) > 1e-4
    assert gradient_mapping_norm(problem, w, b + 0.5) > 1e-6


def test_a_custom_penalty_is_used_through_its_prox():
    """The mapping is that of the elastic net with the same prox."""
    problem = make_problem("log_loss", l1=0.05)

    class Lasso:
        separable = True

        def value(self, w):
            return 0.05 * float(np.abs(w).sum())

        def prox(self, w, step):
            return np.sign(w) * np.maximum(np.abs(w) - 0.05 * step, 0.0)

    own = Problem(problem.X, problem.y, problem.loss, OwnPenalty(Lasso(), 0.1), None, False, None)
    coef = np.linspace(-1.0, 1.0, D)
    assert gradient_mapping_norm(own, coef) == pytest.approx(
        gradient_mapping_norm(problem, coef), rel=1e-12
    )
    with pytest.raises(ValueError, match="L2 and L1 penalties only; got OwnPenalty"):
        duality_gap(own, coef)


def test_flat_problems_have_a_mapping():
    """Rows of zeros and no L2 penalty: there is no curvature, and nothing to divide by."""
    problem = Problem.build(np.zeros((2, 2)), [-1, 1], l1=0.5)
    assert gradient_mapping_norm(problem, [0.0, 0.0]) == 0.0
    assert gradient_mapping_norm(problem, [2.0, 0.0]) == pytest.approx(0.5)


@pytest.mark.parametrize("loss", [name for name in LOSSES if name not in SMOOTH])
def test_a_loss_with_a_kink_has_no_gradient_to_stop_at(loss):
    """A loss with a kink is refused, and the error names the alternatives."""
    with pytest.raises(ValueError, match=r'has a kink.*use the "gap".*the "objective"'):
        gradient_mapping_norm(make_problem(loss), np.zeros(D))


def plain_gap(problem, coef, dual):
    """P(w) - D(a) as it is written."""
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    counted = weight > 0.0
    # Shrink, so that rounding does not leave the domain of the conjugate.
    u = -dual[counted] / weight[counted] * (1.0 - 1e-15)
    v = problem.X.T @ np.where(counted, dual, 0.0) / problem.n
    left = np.sign(v) * np.maximum(0.0, np.abs(v) - problem.penalty.l1)
    conjugates = weight[counted] * problem.loss.conjugate(problem.y[counted], u)
    return (
        problem.objective(coef)
        + conjugates.sum() / problem.n
        + left @ left / (2.0 * problem.penalty.l2)
    )


@FORMS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_is_primal_less_dual(form, loss, l1, weighted):
    """It holds at given dual variables, and at minus the slopes if none are given."""
    problem = make_problem(loss, form, weighted=weighted, l1=l1)
    coef = np.linspace(-1.0, 1.0, D)
    dual = -problem.slopes(coef)
    assert duality_gap(problem, coef) == pytest.approx(plain_gap(problem, coef, dual), rel=1e-10)
    assert duality_gap(problem, coef, dual=dual) == pytest.approx(
        plain_gap(problem, coef, dual), rel=1e-10
    )
    assert duality_gap(problem, coef, dual=0.5 * dual) == pytest.approx(
        plain_gap(problem, coef, 0.5 * dual), rel=1e-10
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_dual_objective_is_the_objective_less_the_gap(loss, weighted):
    """It needs the weights of the dual variables, and no rows."""
    problem = make_problem(loss, weighted=weighted)
    dual = -problem.slopes(np.linspace(-1.0, 1.0, D))
    own = problem.X.T @ dual / (problem.n * problem.penalty.l2)
    lower = problem.objective(own) - duality_gap(problem, own, dual=dual)
    assert dual_objective(problem, dual, own) == pytest.approx(lower, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.optimum
def test_the_gap_bounds_the_distance_from_the_optimum(loss, l1):
    """The gap bounds the distance from the optimum, and closes far below rounding of objectives."""
    problem = make_problem(loss, l1=l1)
    optimum, _ = proximal_gradient(problem)
    least = problem.objective(optimum)
    assert 0.0 <= duality_gap(problem, optimum) < 1e-15
    for off in (1.0, 1e-2, 1e-4):
        coef = optimum + off
        assert (
            duality_gap(problem, coef) >= (problem.objective(coef) - least) * (1.0 - 1e-6) - 1e-15
        )


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_the_gap_keeps_its_digits(loss):
    """It is quadratic in the distance from the optimum, down to 1e-14 of the objective."""
    problem = make_problem(loss)
    optimum, _ = proximal_gradient(problem)
    wide, near = (duality_gap(problem, optimum + off) for off in (1e-3, 1e-7))
    assert near == pytest.approx(1e-8 * wide, rel=1e-2)


@pytest.mark.parametrize("loss", ["hinge", "perceptron", "epsilon_insensitive"])
@pytest.mark.optimum
def test_the_gap_closes_for_losses_with_a_kink(loss):
    """For losses with a kink the gap closes at the best dual variables, found here by scipy."""
    problem = make_problem(loss, l2=0.3)
    sign = problem.y if LOSSES[loss].classification else np.ones(N)
    bounds = [(0.0, 1.0) if LOSSES[loss].classification else (-1.0, 1.0)] * N

    def negative_dual(push):
        v = problem.X.T @ (sign * push) / N
        return float(np.mean(problem.loss.conjugate(problem.y, -sign * push)) + v @ v / 0.6)

    best = scipy_minimize(
        negative_dual,
        np.full(N, 0.5),
        bounds=bounds,
        options={"maxiter": 2000, "maxfun": 10**6, "ftol": 1e-15},
    )
    dual = sign * best.x
    coef = problem.X.T @ dual / (0.3 * N)
    assert 0.0 <= duality_gap(problem, coef, dual=dual) < 1e-4


@given(
    problem=problems(),
    loss=st.sampled_from(list(LOSSES)),
    l1=st.sampled_from([0.0, 0.5]),
    data=st.data(),
)
def test_the_gap_is_never_negative(problem, loss, l1, data):
    """The gap is never negative, for any rows, weights and coefficients."""
    X, y = problem
    given = Problem.build(X, y, loss=loss, l2=0.1, l1=l1, sample_weight=data.draw(weights(len(X))))
    coef = data.draw(st.lists(st.floats(-1e3, 1e3), min_size=X.shape[1], max_size=X.shape[1]))
    assert 0.0 <= duality_gap(given, coef) < math.inf


@FORMS
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_rows_of_float32_are_measured_in_float64(form, loss):
    """Gradient mapping and gap of float32 rows agree with those of the same rows in float64."""
    single = make_problem(loss, form, np.float32, weighted=True, l1=0.05)
    wide = single.X.astype(np.float64)
    double = Problem.build(wide, single.y, loss=loss, l2=0.1, l1=0.05, sample_weight=single.weight)
    coef, _ = proximal_gradient(double)
    coef = coef + 1e-6
    assert duality_gap(single, coef) == pytest.approx(duality_gap(double, coef), rel=1e-3)
    assert gradient_mapping_norm(single, coef) == pytest.approx(
        gradient_mapping_norm(double, coef), rel=1e-6
    )


def test_rows_of_weight_zero_do_not_count():
    """Rows of weight zero do not count, for any labels, losses and dual variables."""
    problem = Problem.build(
        [[1.0], [1e200], [-1.0]],
        [1.0, -1e200, 2.0],
        loss="squared_error",
        l2=1.0,
        sample_weight=[1.0, 0.0, 1.0],
    )
    kept = Problem.build(
        [[1.0], [0.0], [-1.0]],
        [1.0, 0.0, 2.0],
        loss="squared_error",
        l2=1.0,
        sample_weight=[1.0, 0.0, 1.0],
    )
    assert duality_gap(problem, [0.5], dual=[0.1, 7.0, 0.2]) == duality_gap(
        kept, [0.5], dual=[0.1, 0.0, 0.2]
    )


def test_a_dual_variable_that_no_slope_can_be_has_an_infinite_gap():
    """The slope of a hinge is at most 1, and has one sign."""
    problem = make_problem("hinge")
    assert duality_gap(problem, np.zeros(D), dual=2.0 * problem.y) == math.inf
    assert duality_gap(problem, np.zeros(D), dual=-problem.y) == math.inf
    assert duality_gap(problem, np.zeros(D), dual=problem.y) < math.inf


def test_losses_that_overflow_have_an_infinite_gap():
    """Losses that overflow have an infinite gap, not NaN."""
    problem = Problem.build([[1e200], [-1e200]], [1.0, 2.0], loss="squared_error", l2=1.0)
    assert duality_gap(problem, [1.0]) == math.inf


@pytest.mark.parametrize(
    ("changes", "intercept", "message"),
    [
        (
            {"fit_intercept": True},
            0.0,
            (
                r'use fit_intercept=False, or add a column of ones, or the "gradient" or'
                r' the "objective"'
            ),
        ),
        ({}, 0.5, "infinite with an intercept"),
        (
            {"l2": 0.0},
            0.0,
            (
                r'needs an L2 penalty above 0, alone or with L1; use the "gradient" or'
                r' the "objective"'
            ),
        ),
        (
            {"l2": 0.0, "loss": "hinge"},
            0.0,
            r'needs an L2 penalty above 0, alone or with L1; use the "objective"',
        ),
    ],
)
def test_what_has_no_gap_is_refused(changes, intercept, message):
    """Where there is no gap, the error names what to stop by instead."""
    with pytest.raises(ValueError, match=message):
        duality_gap(make_problem(**({"loss": "log_loss"} | changes)), np.zeros(D), intercept)
