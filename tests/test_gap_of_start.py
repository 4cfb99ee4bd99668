"""What a step tells of the gap at its start is a bound, whatever the step."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import reference_dual as reference

from antithetic._core.losses import TWEEDIE
from antithetic.exact.certificate import certified_gap, gap_of_start
from antithetic.exact.newton import value
from antithetic.exact.path import sums_of
from antithetic.exact.row_sums import RowSample, RowSums
from antithetic.exact.sums import Restored
from antithetic.losses import Huber, Tweedie
from antithetic.problem import Problem
from antithetic.problem.columns import columns_of
from antithetic.problem.losses import LOSSES
from antithetic.problem.penalties import ElasticNet

pytestmark = [pytest.mark.kernel, pytest.mark.optimum]

SOME = [LOSSES[name] for name in ("log_loss", "squared_error", "squared_hinge", "modified_huber",
                                  "squared_epsilon_insensitive")]  # fmt: skip
SOME += [Huber(0.7), Tweedie(1.0), Tweedie(1.4), Tweedie(2.0)]
LOSS = pytest.mark.parametrize("loss", SOME, ids=lambda loss: loss.name)
LONG = reference.LONG


class Case(NamedTuple):
    """A problem with its objective and Hessian in long double, and the best point found."""

    sums: RowSums
    objective: object
    hessian: object
    best: np.ndarray


def random_sums(rng, loss, penalty, *, intercept, weighted):
    """Few rows, of any offset and size, and targets that fit them more or less."""
    n, d = int(rng.integers(3, 30)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-0.5, 0.5, d) + rng.integers(3)
    score = (X - X.mean(axis=0)) @ rng.normal(size=d) + rng.normal(size=n)
    if loss.classification:
        y = np.where(score > np.quantile(score, rng.uniform(0.1, 0.9)), 1.0, -1.0)
        y[:2] = -1.0, 1.0
    elif loss.code == TWEEDIE:
        y = np.exp(0.5 * score) * rng.gamma(1.0, size=n) + 1e-3
        y = y if loss.epsilon == 2.0 else np.floor(y) if loss.epsilon == 1.0 else y * (y > 0.5)
        y[0] += 1.0
    else:
        y = score + 3.0
    weight = rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.8) if weighted else None
    if weighted:
        weight[:2] = 1.0
    problem = Problem(X, y, loss, ElasticNet(*penalty), weight, intercept, None)
    seen = columns_of(problem)
    return RowSums(problem, seen.centre if intercept else None, 1, seen)


def solved(sums):
    """The case of these sums: Newton's method in long double, by coordinates and with short steps.

    Any point's objective is above the minimum, so the differences are never more than gaps.
    """
    problem, n, d = sums.problem, sums.n, sums.d
    loss, (l2, l1) = problem.loss, (LONG(problem.penalty.l2), LONG(problem.penalty.l1))
    weight = reference.long(np.ones(n) if problem.weight is None else problem.weight) / n
    A = reference.long(problem.X)
    if problem.fit_intercept:
        A = np.column_stack([A - reference.long(sums.centre), np.ones(n, LONG)])
    is_weight = np.arange(A.shape[1]) < d

    def judged(theta):
        return reference.judge(loss, problem.y, A @ theta)

    def objective(theta):
        theta = reference.long(theta)
        w = theta[:d]
        with np.errstate(over="ignore"):
            return weight @ judged(theta).value + l2 * (w @ w) / 2 + l1 * np.abs(w).sum()

    def hessian(theta):
        bent = weight * judged(theta).curvature
        return (A.T * bent) @ A + np.diag(l2 * is_weight)

    theta = np.zeros(A.shape[1], LONG)
    now = objective(theta)
    for _ in range(100):
        H = hessian(theta) + 1e-12 * np.eye(len(theta))
        slopes = A.T @ (weight * judged(theta).slope) + l2 * is_weight * theta
        step = minimum_of_model(H, slopes, theta, l1 * is_weight)
        for length in 0.5 ** np.arange(40):
            if objective(theta + length * step) < now:
                break
        else:
            break
        theta = theta + length * step
        now = objective(theta)
    return Case(sums, objective, hessian, theta)


def minimum_of_model(H, slopes, start, l1):
    """Step to the minimum of a quadratic model with an L1 penalty, by coordinates."""
    at, slopes = start.copy(), slopes.copy()
    for _ in range(300):
        for j in range(len(at)):
            wanted = H[j, j] * at[j] - slopes[j]
            after = np.sign(wanted) * max(LONG(0), abs(wanted) - l1[j]) / H[j, j]
            slopes += H[j] * (after - at[j])
            at[j] = after
    return at - start


def steps_from(rng, case, theta):
    """Newton's step, that of another Hessian, and others that lead anywhere."""
    gradient = case.sums.at(theta).gradient
    hessian = case.hessian(reference.long(theta)).astype(float) + 1e-6 * np.eye(len(theta))
    newton = -np.linalg.solve(hessian, gradient)
    yield newton
    yield newton * rng.uniform(0.5, 1.5, len(theta))
    yield 0.3 * newton
    yield rng.normal(size=len(theta))
    yield np.zeros(len(theta))


def starts_near(rng, best):
    """Points close to the optimum and far from it, and one of which one coordinate is off."""
    for spread in (1e-4, 1e-2, 0.3):
        yield best + spread * rng.normal(size=len(best))
    yield best + 0.3 * (np.arange(len(best)) == len(best) - 1)
    yield np.zeros(len(best))
    yield rng.normal(size=len(best))


def bounds_and_gaps(loss, penalty, *, intercept, weighted, cases=3):
    """Bounds at points near the optimum and far from it; and distances to the best point known."""
    rng = np.random.default_rng(0)
    for _ in range(cases):
        case = solved(random_sums(rng, loss, penalty, intercept=intercept, weighted=weighted))
        smallest, best = case.objective(case.best), case.best.astype(float)
        for theta in starts_near(rng, best):
            point, gap = case.sums.at(theta), float(case.objective(theta) - smallest)
            for step in steps_from(rng, case, theta):
                with np.errstate(over="ignore", invalid="ignore"):  # the step may lead far away
                    visit = case.sums.after(point, step)
                    bound, _ = gap_of_start(case.sums, point, visit, np.inf)
                yield bound, gap, 1e-13 * (1.0 + abs(value(case.sums, point)))


@LOSS
@pytest.mark.parametrize("penalty", [(0.1, 0.0), (1e-3, 0.0), (0.0, 0.05), (0.01, 0.03)], ids=str)
def test_the_bound_is_never_below_the_gap(loss, penalty):
    """With and without intercepts and weights, after steps that are exact, inexact or senseless.

    It is nearly always finite, and without an L1 part it is about the gap itself near the optimum,
    after a step of Newton's method.
    """
    for intercept, weighted in product((False, True), repeat=2):
        given = {"intercept": intercept, "weighted": weighted}
        found = np.array(list(bounds_and_gaps(loss, penalty, **given)))
        bound, gap, rounding = found.T
        assert (bound >= gap - rounding).all()
        assert np.mean(bound < np.inf) >= 0.95
        if penalty[1] == 0.0:
            assert np.median((bound / gap)[:: 6 * 5]) <= 1.01  # a kink may be near


@LOSS
@pytest.mark.parametrize("penalty", [(0.1, 0.0), (1e-3, 0.0), (0.0, 0.05), (0.01, 0.03)], ids=str)
def test_a_sample_proves_no_more_than_is_true(loss, penalty):
    """Slopes of some rows may be changed at will, with weights of the rows and without."""
    rng = np.random.default_rng(1)
    for intercept, weighted in product((False, True), repeat=2):
        case = solved(random_sums(rng, loss, penalty, intercept=intercept, weighted=weighted))
        smallest, best = case.objective(case.best), case.best.astype(float)
        sample = RowSample(case.sums, 0.5 * case.sums.n, 0)
        for theta in starts_near(rng, best):
            point, gap = case.sums.at(theta), float(case.objective(theta) - smallest)
            bound = certified_gap(case.sums, point, sample, 0.0)
            assert bound >= gap - 1e-13 * (1.0 + abs(value(case.sums, point)))
            assert bound < np.inf


@pytest.mark.parametrize("l2", [1e-4, 1e-6])
@pytest.mark.parametrize("loss", [LOSSES["log_loss"], Tweedie(1.0), Tweedie(2.0)], ids=str)
def test_a_sample_proves_nearly_the_gap_whatever_the_penalty(loss, l2):
    """A third of the rows leaves a factor of about three, where the penalty alone leaves 100s."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 5)) * [0.1, 1.0, 1.0, 3.0, 10.0]
    score = X @ (rng.normal(size=5) / [0.1, 1.0, 1.0, 3.0, 10.0]) / 3.0
    y = np.sign(score + rng.logistic(size=len(X)))
    if not loss.classification:
        y = rng.poisson(np.exp(score)) + (0.1 if loss.epsilon == 2.0 else 0.0)
    problem = Problem(X, y, loss, ElasticNet(l2, 0.0), None, True, None)
    case = solved(sums_of(problem))
    theta = case.best.astype(float) + 1e-3 * rng.normal(size=6) / np.append(X.std(axis=0), 1.0)
    point, gap = case.sums.at(theta), float(case.objective(theta) - case.objective(case.best))
    sample = RowSample(case.sums, 1000.0, 0)
    assert gap <= certified_gap(case.sums, point, sample, 0.0) <= 5.0 * gap
    assert certified_gap(case.sums, point) > 100.0 * gap


def slopes_as_they_are(sums, _point, visit):
    """Slopes that a step expects, whose sum over the rows need not be zero."""
    yield Restored(visit.expected[: sums.d], {})


@LOSS
def test_without_a_restored_sum_there_is_no_bound(loss, monkeypatch):
    """With an intercept, slopes that do not sum to zero give numbers below the gap."""
    given = loss, (1.0, 0.0)
    monkeypatch.setattr(RowSums, "dual_points", slopes_as_they_are)
    for intercept in (False, True):
        found = bounds_and_gaps(*given, intercept=intercept, weighted=False)
        wrong = [bound < gap - rounding for bound, gap, rounding in found]
        assert any(wrong) == intercept
