"""Try the bound from self-concordance on random problems whose optima are known to 18 digits.

A quarter of the problems each is nearly separated, has a column at an offset of 1e6, a Hessian of
condition 1e10, or rare columns and heavy weights; losses, penalties and float types vary. Each is
fitted, and the bound is also tried on points up to two standard errors from the optimum, some of
them along the row of the largest leverage, where it is sharp. Counted are *violations*, of the gap
and of the weights, proofs of optima that do not exist, and the share of fits with an optimum that
end with a bound. With 0.7 times the true constant of self-concordance, violations are expected:
they show that the problems try the bound.

Run ``python benchmarks/proof_bounds.py``, four minutes; ``--quick`` tries a tenth.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from antithetic.exact.certificate import prove
from antithetic.exact.many_classes import class_sums_of, solve_classes
from antithetic.exact.path import Effort, Solved, solve_problem, sums_of
from antithetic.problem import Problem
from antithetic.problem.loss import Loss
from antithetic.problem.losses import ALL_LOSSES, SOFTMAX, Tweedie
from antithetic.problem.penalties import ElasticNet

KINDS = ("nearly separated", "offset 1e6", "condition 1e10", "rare columns, heavy weights")
LOSSES = ("log_loss", "softmax", "poisson", "gamma", "tweedie", "squared_error")
CLASSES = 3
Long = np.longdouble
ROUNDING = 1e-9  # of a bound, that a comparison with it may lose


# ---- problems


class Case(NamedTuple):
    """A random problem."""

    kind: str
    loss: Loss
    X: Any
    y: Any  # signs, numbers, or codes of classes
    weight: Any
    penalty: ElasticNet
    fit_intercept: bool


def draw(number: int, kind: str) -> Case:
    """Draw a problem of a kind."""
    rng = np.random.default_rng((number, KINDS.index(kind)))
    n, d = int(rng.integers(25, 250)), int(rng.integers(1, 6))
    name = str(rng.choice(LOSSES, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.15]))
    X, weight = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=d), None
    if kind == KINDS[1]:
        X[:, 0] = rng.normal(size=n) + 1e6
    elif kind == KINDS[2]:
        sizes = np.geomspace(1.0, 1e-5, d) if d > 1 else np.ones(1)
        X = rng.normal(size=(n, d)) * sizes @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    elif kind == KINDS[3]:
        for j in range(d):
            X[:, j] = np.where(rng.permutation(n) < rng.integers(3, 12), 1.0, 0.0)
        weight = np.exp(rng.normal(size=n) * rng.uniform(0.5, 3.0))
    if weight is None and rng.random() < 0.3:
        weight = rng.uniform(size=n) * (rng.random(n) < 0.9)
    scores = (X - X.mean(axis=0)) @ (rng.normal(size=d) / (X.std(axis=0) + 1e-9))
    loss = {"softmax": SOFTMAX, "tweedie": Tweedie(float(rng.uniform(1.05, 1.95)))}.get(
        name, ALL_LOSSES.get(name, SOFTMAX)
    )
    scores *= 1.0 if name in ("log_loss", "softmax", "squared_error") else 0.4
    y = targets(name, scores, rng, is_steep=kind == KINDS[0])
    l2, l1 = 0.0, 0.0
    if (chance := rng.random()) < 0.3 and name != "softmax":
        l2 = 10.0 ** rng.uniform(-5, -1)
        l1 = 10.0 ** rng.uniform(-4, -2) if chance < 0.1 else 0.0
    if rng.random() < 0.15 and kind != KINDS[1]:
        X = X.astype(np.float32)
    return Case(kind, loss, X, y, weight, ElasticNet(l2, l1), bool(rng.random() < 0.7))


def targets(name: str, scores: Any, rng: np.random.Generator, *, is_steep: bool) -> Any:
    """Draw targets; if they are steep, a few rows alone keep an optimum from infinity."""
    n, noise = len(scores), 1.0
    if is_steep:
        noise = 10.0 ** rng.uniform(-2.0, -0.5)
    if name == "log_loss":
        return np.where(scores + noise * rng.logistic(size=n) > 0.0, 1.0, -1.0)
    if name == "softmax":
        thresholds = np.quantile(scores, [0.3, 0.7])
        return np.digitize(scores + noise * rng.logistic(size=n), thresholds).astype(np.intp)
    means = np.exp(np.clip(scores - (3.0 if is_steep else 0.0), -8.0, 8.0))
    if name == "poisson":
        return rng.poisson(means).astype(float)
    if name == "gamma":
        return means * rng.gamma(2.0, 0.5, size=n) + 1e-3
    if name == "tweedie":
        return means * rng.gamma(1.0, 1.0, size=n) * (rng.random(n) < 0.7)
    return scores + noise * rng.normal(size=n)


# ---- the optimum, to the last digit


@dataclass
class Exact:
    """The objective, in sums over the rows, and its optimum in extended precision.

    Weights are those of columns that are centred and of one unit, an intercept is the last of a
    class, and the last of many classes has no weights.
    """

    case: Case
    rows: Any = field(init=False)
    centre: Any = field(init=False)
    unit: Any = field(init=False)
    weight: Any = field(init=False)
    l2: Any = field(init=False)
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        case = self.case
        X = case.X.astype(Long)
        n, d = X.shape
        self.weight = np.ones(n, Long) if case.weight is None else case.weight.astype(Long)
        self.centre = X[self.weight > 0].mean(axis=0) if case.fit_intercept else np.zeros(d, Long)
        self.unit = np.maximum(np.abs(X - self.centre).max(axis=0), Long(1e-12))
        rows = (X - self.centre) / self.unit
        self.rows = np.hstack([rows, np.ones((n, 1), Long)]) if case.fit_intercept else rows
        ridge = np.append(n * case.penalty.l2 / self.unit**2, Long(0))
        self.l2 = ridge[: self.rows.shape[1]]
        self.classes = CLASSES - 1 if case.loss == SOFTMAX else 1

    def scores(self, theta: Any) -> Any:
        """Scores of one class, or of all but the last."""
        return self.rows @ theta.T

    def inner(self, coef: Any, intercept: Any) -> Any:
        """Weights of the user in the form of ``theta``, shape (classes, columns)."""
        coef, intercept = np.atleast_2d(coef).astype(Long), np.atleast_1d(intercept).astype(Long)
        if self.case.loss == SOFTMAX:
            coef, intercept = (coef - coef[-1])[:-1], (intercept - intercept[-1])[:-1]
        theta = coef * self.unit
        if not self.case.fit_intercept:
            return theta
        return np.hstack([theta, (intercept + coef @ self.centre)[:, None]])

    def terms(self, e: Any) -> tuple[Any, Any, Any]:
        """Losses, slopes and curvatures of the rows; of many classes, their probabilities."""
        y, loss = self.case.y, self.case.loss
        if loss == SOFTMAX:
            full = np.hstack([e, np.zeros((len(e), 1), Long)])
            top = full.max(axis=1, keepdims=True)
            logs = full - top - np.log(np.exp(full - top).sum(axis=1, keepdims=True))
            chances = np.exp(logs)
            own = np.zeros_like(full)
            own[np.arange(len(e)), y] = 1
            return -(logs * own).sum(axis=1), (chances - own)[:, :-1], chances[:, :-1]
        e, y = e[:, 0], y.astype(Long)
        if loss.name == "log_loss":
            m = y * e
            small = np.exp(-np.abs(m))
            chance = np.where(m > 0, small, 1) / (1 + small)
            return np.log1p(small) + np.maximum(-m, 0), -y * chance, chance * (1 - chance)
        if loss.name == "squared_error":
            return (e - y) ** 2 / 2, e - y, np.ones_like(e)
        p = Long(loss.epsilon)
        a, b = np.exp((2 - p) * e), y * np.exp((1 - p) * e)
        value = (e if p == 2 else a / (2 - p)) - (y * e if p == 1 else b / (1 - p))
        return value, a - b, (2 - p) * a - (1 - p) * b

    def derivatives(self, theta: Any) -> tuple[Any, Any]:
        """Gradient, without an L1 part, and Hessian."""
        _, slopes, bent = self.terms(self.scores(theta))
        if self.case.loss != SOFTMAX:
            slopes, bent = slopes[:, None], bent[:, None]
        k, width = theta.shape
        gradient = (self.weight[:, None] * slopes).T @ self.rows + self.l2 * theta
        hessian = np.zeros((k, width, k, width), Long)
        for one in range(k):
            for other in range(k):
                share = bent[:, one]
                if self.case.loss == SOFTMAX:
                    share = share * ((one == other) - bent[:, other])
                part = (self.rows * (self.weight * share)[:, None]).T @ self.rows
                hessian[one, :, other] = part + (np.diag(self.l2) if one == other else 0)
        return gradient.ravel(), hessian.reshape(k * width, k * width)

    def objective_rise(self, theta: Any, least: Any) -> Any:
        """Difference of the objectives at two points, row by row, less what rounding can add."""
        one, other = (self.terms(self.scores(at))[0] for at in (theta, least))
        rise = (self.weight * (one - other)).sum()
        rise -= 1e-18 * (self.weight * (np.abs(one) + np.abs(other))).sum()
        rise += (self.l2 * (theta - least) * (theta + least)).sum() / 2
        return rise + (self.l1() * (np.abs(theta) - np.abs(least))).sum()

    def l1(self) -> Any:
        """Strength of the L1 penalty of each weight."""
        strength = len(self.rows) * self.case.penalty.l1 / self.unit
        return np.append(strength, Long(0))[: self.rows.shape[1]]

    def distance(self, theta: Any, least: Any) -> Any:
        """Distance of the weights in the norm of the Hessian at the first."""
        apart = theta - least
        moved, bent = self.scores(apart), self.terms(self.scores(theta))[2]
        if self.case.loss == SOFTMAX:
            mean = (bent * moved).sum(axis=1)
            squares = (bent * moved**2).sum(axis=1) - mean**2
        else:
            squares = bent * moved[:, 0] ** 2
        return np.sqrt((self.weight * squares).sum() + (self.l2 * apart**2).sum())

    def dispersion(self, theta: Any) -> Any:
        """Pearson's estimate of the dispersion."""
        loss = self.case.loss
        if loss.has_known_dispersion:
            return Long(1)
        e = self.scores(theta)
        squares = self.terms(e)[1] ** 2
        if loss.has_log_link:
            squares = squares * np.exp((Long(loss.epsilon) - 2) * e[:, 0])
        return (self.weight * squares).sum() / (len(e) - self.rows.shape[1])

    def optimum(self, theta: Any) -> Any:
        """Polish weights by Newton's method; None if there is no optimum, or none so near.

        Weights that are zero under an L1 penalty stay zero, and others keep their signs.
        """
        l1 = self.l1()
        support = (theta != 0) | (l1 == 0) if self.case.penalty.l1 else np.ones(theta.shape, bool)
        signs, free, polished = np.sign(theta) * l1, support.ravel(), 0
        for _ in range(150):
            gradient, hessian = self.derivatives(theta)
            gradient = gradient + signs.ravel()
            step = solve_long(hessian[np.ix_(free, free)], gradient[free])
            if step is None:
                return None
            decrement = gradient[free] @ step
            length = Long(1)
            whole = np.zeros(theta.size, Long)
            whole[free] = step
            while length > 1e-6:
                after = theta - length * whole.reshape(theta.shape)
                with np.errstate(all="ignore"):
                    rise = self.objective_rise(after, theta)
                if rise <= 0 or (decrement < 1e-20 and rise < 1e-15):
                    break
                length /= 2
            # without an optimum, each step adds about one to the scores that grow for ever
            polished += decrement < 1e-24 and np.abs(self.scores(after - theta)).max() < 1e-3
            theta = after
            if np.abs(self.scores(theta)).max() > 5000:
                return None
            if polished == 3:
                return theta if self._is_optimal(theta, support, signs) else None
        return None

    def _is_optimal(self, theta: Any, support: Any, signs: Any) -> bool:
        gradient = self.derivatives(theta)[0].reshape(theta.shape)
        kept = (np.sign(theta) * self.l1() == signs) | ~support
        return bool(
            kept.all()
            and (
                np.abs(gradient)[~support] <= np.broadcast_to(self.l1(), theta.shape)[~support]
            ).all()
        )


def solve_long(matrix: Any, vector: Any) -> Any:
    """Solve a linear system in extended precision; None unless the matrix is positive definite."""
    scale = np.sqrt(np.diagonal(matrix))
    if not (scale > 0).all():
        return None
    lower, size = matrix / scale / scale[:, None], len(vector)
    for j in range(size):
        pivot = lower[j, j] - (lower[j, :j] ** 2).sum()
        if not pivot > 1e-17:
            return None
        lower[j, j] = np.sqrt(pivot)
        lower[j + 1 :, j] -= lower[j + 1 :, :j] @ lower[j, :j]
        lower[j + 1 :, j] /= lower[j, j]
    found = vector / scale
    for j in range(size):
        found[j] = (found[j] - lower[j, :j] @ found[:j]) / lower[j, j]
    for j in reversed(range(size)):
        found[j] = (found[j] - lower[j + 1 :, j] @ found[j + 1 :]) / lower[j, j]
    return found / scale


# ---- trials


@dataclass
class Tally:
    """What was counted of one kind of problems."""

    fits: int = 0  # with an optimum
    proved: int = 0  # of these, to the end
    checks: int = 0
    violations: int = 0
    worst: float = 0.0  # error divided by its bound
    without_optimum: int = 0
    false_proofs: int = 0
    tightness: list[float] = field(default_factory=list)  # bound divided by gap

    def check(self, error: Any, bound: float, *, is_gap: bool = False) -> None:
        """Compare an error with its bound."""
        self.checks += 1
        ratio = float(error / Long(bound)) if bound > 0.0 else float(np.inf if error > 0 else 0.0)
        self.violations += ratio > 1.0 + ROUNDING
        self.worst = max(self.worst, ratio)
        if is_gap and ratio > 0.0:
            self.tightness.append(1.0 / ratio)


@contextmanager
def concordance_times(share: float) -> Iterator[None]:
    """Let losses say another constant than their own."""
    own = Loss.concordance
    try:
        Loss.concordance = property(lambda loss: share * own.fget(loss))  # type: ignore
        yield
    finally:
        Loss.concordance = own  # type: ignore[method-assign]


def sums_for(case: Case) -> Any:
    """Sums over the rows of a problem."""
    if case.loss == SOFTMAX:
        given = (case.X, case.y, CLASSES, case.penalty, case.weight)
        return class_sums_of(*given, fit_intercept=case.fit_intercept)
    return sums_of(problem_of(case))


def problem_of(case: Case) -> Problem:
    """The objective of a problem of one score for each row."""
    given = (case.X, case.y, case.loss, case.penalty, case.weight, case.fit_intercept, None)
    return Problem(*given)


def fit(case: Case) -> Solved:
    """Fit a problem as the estimators do."""
    if case.loss == SOFTMAX:
        return solve_classes(sums_for(case), [case.penalty], Effort(1e-4, 100))[0]
    return solve_problem(problem_of(case), tol=1e-4, max_iter=100)


def try_case(number: int, kind: str, tally: Tally, share: float = 1.0) -> None:
    """Fit one problem, and try its bounds and those of points near the optimum."""
    case = draw(number, kind)
    exact, rng = Exact(case), np.random.default_rng(number)
    with concordance_times(share):
        solved = fit(case)
    start = exact.inner(solved.coef, solved.intercept)
    least = exact.optimum(start)
    is_free = not (case.penalty.l2 or case.penalty.l1)
    if least is None:
        tally.without_optimum += 1
        tally.false_proofs += is_free and solved.certified
        return
    if is_free:
        tally.fits += 1
        tally.proved += solved.certified
        if solved.certified:
            constant = np.atleast_1d(sums_for(case).constant()[0])
            nothing = np.zeros((len(solved.coef), case.X.shape[1]))
            if not case.fit_intercept:
                constant = np.zeros(len(nothing))
            unit = exact.objective_rise(exact.inner(nothing, constant), least)
            tally.check(exact.objective_rise(start, least), float(solved.gap * unit))
            of_weights = exact.distance(start, least) / np.sqrt(exact.dispersion(start))
            tally.check(of_weights, solved.coef_error)
    with concordance_times(share):
        for _ in range(3):
            try_point(exact, least, rng, tally)


def try_point(exact: Exact, least: Any, rng: np.random.Generator, tally: Tally) -> None:
    """Try the bound at a point some way from the optimum."""
    case = exact.case
    sums = sums_for(case)
    _, hessian = exact.derivatives(least)
    along = rng.normal(size=least.size).astype(Long)
    if rng.random() < 0.7:  # toward the row that changes most
        leverage = (exact.rows * solve_rows(hessian, exact)).sum(axis=1)
        heavy = int(np.argmax(leverage * (exact.weight > 0)))
        of_class = np.zeros((exact.classes, exact.rows.shape[1]), Long)
        of_class[int(rng.integers(exact.classes))] = exact.rows[heavy]
        along = of_class.ravel() * rng.choice([-1, 1])
    step = solve_long(hessian, along)
    if step is None:
        return
    step /= np.sqrt(step @ hessian @ step)
    length = 10.0 ** rng.uniform(-5.0, 0.3)
    if rng.random() < 0.5:  # as far as curvatures change by a factor of about e
        moved = np.abs(exact.scores(step.reshape(least.shape)))[exact.weight > 0].max()
        length = float(rng.uniform(0.1, 2.0) / moved)
    theta = least + Long(length) * step.reshape(least.shape)
    coef = (theta[:, : len(exact.unit)] / exact.unit).astype(float)
    constant = np.zeros(len(coef))
    if case.fit_intercept:
        constant = (theta[:, -1] - coef @ exact.centre).astype(float)
    if case.loss == SOFTMAX:
        coef, constant = np.vstack([coef, 0 * coef[:1]]), np.append(constant, 0.0)
    else:
        coef, constant = coef[0], float(constant[0])
    if case.X.dtype == np.float32:
        coef, constant = np.float32(coef).astype(float), np.float32(constant).astype(float)
    point = sums.at(sums.join(coef, constant))
    near = prove(sums, point, sums.hessian(point, exact=True), np.nan)
    if not near.certified:
        return
    theta = exact.inner(coef, constant)
    tally.check(exact.objective_rise(theta, least), near.distance * sums.n, is_gap=True)
    if near.coef_error == near.coef_error:
        of_weights = exact.distance(theta, least) / np.sqrt(exact.dispersion(theta))
        tally.check(of_weights, near.coef_error)


def solve_rows(hessian: Any, exact: Exact) -> Any:
    """Rows times the inverse of the first class's part of the Hessian, roughly."""
    width = exact.rows.shape[1]
    part = hessian[:width, :width].astype(float)
    scale = 1.0 / np.sqrt(part.diagonal())
    inverse = np.linalg.pinv(part * scale * scale[:, None]) * scale * scale[:, None]
    return exact.rows @ inverse


def bounds(problems: int = 4000, share: float = 1.0) -> dict[str, Tally]:
    """Try so many problems, a quarter of each kind."""
    found = {kind: Tally() for kind in KINDS}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(problems // len(KINDS)):
            for kind, tally in found.items():
                try_case(number, kind, tally, share)
    return found


def report(found: dict[str, Tally], title: str) -> None:
    """Print what was counted."""
    print(title)
    for kind, one in found.items():
        print(
            f"  {kind:28s} bound at the end of {one.proved} of {one.fits} fits"
            f" ({one.proved / max(1, one.fits):.1%}), {one.violations} violations in {one.checks}"
            f" checks, worst error / bound {one.worst:.9f}, median bound / gap"
            f" {np.median(one.tightness or [np.nan]):.2f}, {one.false_proofs} false proofs in"
            f" {one.without_optimum} without optimum"
        )


def main() -> None:
    """Try the bound with the true constant, and with less."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the problems")
    many = 400 if parser.parse_args().quick else 4000
    report(bounds(many), f"{many} problems, the constant of each loss")
    report(bounds(many // 4, 0.7), f"{many // 4} problems, 0.7 times that: violations show")


if __name__ == "__main__":
    main()
