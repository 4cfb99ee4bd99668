"""Newton's method with many classes: true bounds, and steps of every kind that reach the optimum.

LogisticRegression: test_multinomial.py. The sums over rows: test_class_sums.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import reference_classes as twin
from scipy import sparse

from antithetic.exact import many_classes
from antithetic.exact.certificate import certified_gap, gap_of_start
from antithetic.exact.class_sums import ClassSample
from antithetic.exact.many_classes import Truncated, Whitened, class_sums_of, solve_classes
from antithetic.exact.models import QuasiNewton
from antithetic.exact.newton import value
from antithetic.exact.path import Effort
from antithetic.problem.penalties import ElasticNet

EPS = float(np.finfo(np.float64).eps)


def draw(n=400, d=5, classes=4, seed=0, scale=1.0, offset=0.0):
    """Rows, some entries zero, and labels that depend on them; a class may be rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    scores = scale * X @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))
    scores[:, -1] -= 2.0
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X + offset, y, rng


def exact_optimum(X, y, classes, l2, weight, *, fit_intercept):
    """Least objective by Newton's method in long double, with damping along the gauge."""
    real = np.longdouble
    rows = np.column_stack([X, np.ones(len(X))]).astype(real) if fit_intercept else X.astype(real)
    n, d = rows.shape
    counted = np.ones(n, real) if weight is None else weight.astype(real)
    strength = np.full(d, l2, real)
    if fit_intercept:
        strength[-1] = 0.0
        rows[:, :-1] -= rows[:, :-1].mean(axis=0)  # which changes no optimum
    W, chosen = np.zeros((classes, d), real), np.eye(classes, dtype=real)[y]

    def value(W):
        scores = rows @ W.T
        top = scores.max(axis=1, keepdims=True)
        logs = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
        return counted @ (logs - (scores * chosen).sum(axis=1)) / n + (strength * W * W).sum() / 2

    least = value(W)
    for _ in range(200):
        scores = rows @ W.T
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = (counted[:, None] * (p - chosen)).T @ rows / n + strength * W
        curved = np.zeros((classes, d, classes, d))
        for k in range(classes):
            for j in range(classes):
                share = counted * (p[:, k] * (float(k == j) - p[:, j]))
                curved[k, :, j] = ((share[:, None] * rows).T @ rows / n).astype(float)
        whole = curved.reshape(classes * d, -1)
        whole += np.diag(np.tile(strength.astype(float), classes))
        whole += (
            np.kron(np.ones((classes, classes)), np.eye(d)) * 0.1 * np.trace(whole) / len(whole)
        )
        step = -np.linalg.lstsq(whole, gradient.ravel().astype(float), rcond=1e-15)[0]
        step, length = step.reshape(classes, d), real(1.0)
        while length > 1e-12 and not value(W + length * step) < least:
            length /= 2
        if length <= 1e-12:
            break
        W = W + length * step
        least = value(W)
    return float(least), value


CASES = {
    "plain": {},
    "no intercepts": {"fit_intercept": False},
    "weights": {"weighted": True},
    "separated": {"scale": 30.0},
    "offsets": {"offset": 1e6},
    "strong": {"l2": 1.0},
    "weak": {"l2": 1e-6},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", ["newton", "whitened", "products"])
def test_gaps_are_bounds_along_whole_runs(monkeypatch, kind, make, case):
    """Against optima of extended precision: after every iteration, and for every kind of steps."""
    given = {"l2": 1e-3, "fit_intercept": True, "weighted": False} | CASES[case]
    X, y, rng = draw(scale=given.get("scale", 1.0), offset=given.get("offset", 0.0))
    weight = rng.choice([0.0, 0.5, 3.0], size=len(y)) if given["weighted"] else None
    models = {"newton": QuasiNewton(), "whitened": Whitened(0), "products": Truncated(0)}
    monkeypatch.setattr(many_classes, "choose_model", lambda *_: (models[kind], ""))
    penalty = ElasticNet(l2=given["l2"])
    fit = given["fit_intercept"]
    sums = class_sums_of(make(X), y, 4, penalty, weight, fit_intercept=fit)
    seen = []
    found = solve_classes(
        sums, [penalty], Effort(1e-9, 300, watch=lambda so_far: seen.append(so_far()))
    )[0]
    least, _ = exact_optimum(X, y, 4, given["l2"], weight, fit_intercept=fit)
    zero = sums.constant()[1]
    for solved in (*seen, found):
        reached = sums.at(sums.join(solved.coef, solved.intercept)).objective
        rounding = 64.0 * EPS * zero * (1.0 + 1e-4 * given.get("offset", 0.0))
        if solved.certified:
            assert solved.gap * (zero - least) >= reached - least - rounding
    assert found.certified
    assert found.gap <= 1e-9
    assert found.ended == "gap"


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("size", [0.01, 0.3, 3.0])
def test_the_bound_of_any_step_holds(size, l1_ratio):
    """Steps need not be Newton's: whatever they expect, once restored, is a point of the dual."""
    X, y, rng = draw(n=120)
    penalty = ElasticNet(0.02 * (1.0 - l1_ratio), 0.02 * l1_ratio)
    sums = class_sums_of(X, y, 4, penalty, None, fit_intercept=True)
    best = solve_classes(sums, [penalty], Effort(1e-12, 500))[0]
    more = {"l2": penalty.l2, "l1": penalty.l1}
    least = twin.objective(X, y, best.coef, best.intercept, **more)
    near = sums.join(best.coef, best.intercept)
    for _ in range(10):
        start = sums.at(near + size * rng.normal(size=len(near)))
        step = (near - start.theta) * rng.uniform(0.0, 1.5) + 0.1 * size * rng.normal(
            size=len(near)
        )
        bound, _ = gap_of_start(sums, start, sums.after(start, step), np.inf)
        coef, intercepts = sums.split(start.theta)
        assert bound >= twin.objective(X, y, coef, intercepts, **more) - least - 1e-12


def test_the_bound_needs_the_restoration(monkeypatch):
    """Slopes whose sums are not zero are no point of the dual: without it bounds are too small."""
    X, y, _ = draw(n=120)
    penalty = ElasticNet(l2=0.1)
    sums = class_sums_of(X, y, 4, penalty, None, fit_intercept=True)
    best = solve_classes(sums, [penalty], Effort(1e-13, 500))[0]
    least = sums.at(sums.join(best.coef, best.intercept)).objective
    theta = sums.join(best.coef, best.intercept)
    theta[sums.d :] += np.array([3.0, -3.0, 0.0, 0.0])  # only intercepts are far off
    start, step = sums.at(theta), np.zeros(len(theta))
    visit = sums.after(start, step)
    assert gap_of_start(sums, start, visit, np.inf)[0] >= start.objective - least
    monkeypatch.setattr(
        "antithetic.exact.class_sums.move_chances", lambda *_: (np.ones(4), np.zeros(4))
    )
    assert gap_of_start(sums, start, visit, np.inf)[0] < start.objective - least


def test_a_newton_step_bounds_the_gap_at_its_start_tightly():
    X, y, rng = draw(n=600)
    penalty = ElasticNet(l2=1e-3)
    sums = class_sums_of(X, y, 4, penalty, None, fit_intercept=True)
    best = solve_classes(sums, [penalty], Effort(1e-13, 500))[0]
    near = sums.join(best.coef, best.intercept)
    least = sums.at(near).objective
    start = sums.at(near + 1e-3 * sums.in_gauge(rng.normal(size=len(near))))
    _, proposal = QuasiNewton(is_exact=True).ready(sums, start, 0.0, np.inf)
    bound, _ = gap_of_start(sums, start, sums.after(start, proposal.step), np.inf)
    assert start.objective - least <= bound <= 1.01 * (start.objective - least)


@pytest.mark.parametrize("l1", [0.0, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_proves_nearly_the_gap_whatever_the_penalty(l1, weighted):
    """A third of the rows leaves a factor of about three; the penalty alone leaves far more."""
    X, y, rng = draw(n=3000)
    weight = rng.uniform(0.2, 3.0, len(X)) if weighted else None
    penalty = ElasticNet(1e-5, l1)
    sums = class_sums_of(X, y, 4, penalty, weight, fit_intercept=True)
    best = solve_classes(sums, [penalty], Effort(1e-14, 500))[0]
    near = sums.join(best.coef, best.intercept)
    least = value(sums, sums.at(near))
    point = sums.at(near + 1e-3 * (near != 0.0) * sums.in_gauge(rng.normal(size=len(near))))
    gap = value(sums, point) - least
    bound = certified_gap(sums, point, ClassSample(sums, 1000.0, 0), 0.0)
    assert gap <= bound <= 6.0 * gap
    assert certified_gap(sums, point) > 2.0 * bound


def test_scores_beyond_the_range_of_exp():
    """Probabilities that underflow make no bound too small."""
    X = np.array([[1.0], [-1.0], [0.5], [0.0]] * 10)
    y = np.array([0, 1, 2, 1] * 10)
    penalty = ElasticNet(l2=1e-3)
    sums = class_sums_of(X, y, 3, penalty, None, fit_intercept=True)
    best = solve_classes(sums, [penalty], Effort(1e-12, 500))[0]
    least = sums.at(sums.join(best.coef, best.intercept)).objective
    start = sums.at(sums.join(np.array([[900.0], [-900.0], [0.0]]), np.zeros(3)))
    for scale in (1e-3, 1.0, 1e3):
        step = -scale * sums.in_gauge(start.theta)
        bound, _ = gap_of_start(sums, start, sums.after(start, step), np.inf)
        assert bound >= start.objective - least


def test_means_of_a_sample_are_those_of_all_rows():
    """Over many seeds: the Hessian of rows drawn by importance is unbiased."""
    X, y, _ = draw(n=500)
    X[0] *= 50.0  # a row that holds much of its columns is always drawn
    sums = class_sums_of(X, y, 4, ElasticNet(l2=1e-3), None, fit_intercept=True)
    point = sums.at(np.zeros(sums.columns))
    whole, found = sums.hessian(point, exact=True), 0.0
    for seed in range(200):
        sums._importance = None
        sample = ClassSample(sums, 100, seed)
        assert sample.n < 200
        assert (X[0] == sample.sums.X).all(axis=1).any()
        found = found + sample.hessian(point, exact=True) / 200
    np.testing.assert_allclose(found, whole, atol=0.15 * np.abs(whole).max())
    assert np.abs(found - whole).mean() < 0.02 * np.abs(whole).max()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_products_with_the_hessian_of_a_sample_reach_the_optimum(monkeypatch, fit_intercept):
    """With very many rows; a sample that is too small is doubled."""
    monkeypatch.setattr(many_classes, "_ROWS_PER_SAMPLED", 1.0)
    monkeypatch.setattr(many_classes, "_FEW_WEIGHTS", 0)
    monkeypatch.setattr(many_classes, "_FEWEST_WEIGHTS", 0)
    X, y, _ = draw(n=9000, d=6)
    penalty = ElasticNet(l2=1e-4)
    sums = class_sums_of(X, y, 4, penalty, None, fit_intercept=fit_intercept)
    found = solve_classes(sums, [penalty], Effort(1e-9, 100))[0]
    assert found.method == "conjugate gradients"
    assert found.samples
    assert found.gap <= 1e-9
    assert found.iterations < 20
    monkeypatch.undo()
    other = solve_classes(sums, [penalty], Effort(1e-9, 100))[0]
    assert other.method == "newton"
    np.testing.assert_allclose(found.coef, other.coef, atol=1e-3)


def test_an_epoch_leads_most_of_the_way():
    from antithetic.exact.epoch import class_epoch_start

    X, y, _ = draw(n=5000, d=30, classes=8)
    X *= np.geomspace(0.01, 100.0, 30)  # whatever the scales of the columns
    penalty = ElasticNet(l2=1e-6)
    sums = class_sums_of(X, y, 8, penalty, None, fit_intercept=True)
    found = solve_classes(sums, [penalty], Effort(1e-6, 200))[0]
    least = sums.at(sums.join(found.coef, found.intercept)).objective
    begun = sums.at(class_epoch_start(sums, 0)).objective
    assert begun - least < 0.15 * (sums.constant()[1] - least)
    assert "an epoch" in found.why[0]
