"""Newton's method on random problems: it reaches the gap it was asked for, and its bound holds.

Each problem is solved again in long double, which gives the true gap. Fails when a run misses its
tolerance, by more than rounding hides, without saying that rounding ended it, when rounding ends
one that asked for no more than 1e-8 of a well-posed problem, or when a bound is below the true gap
by more than 64 units of rounding. Run with ``python benchmarks/certificates.py --problems 1000``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np
from common import Figure, close, machine, report
from scipy import sparse

from antithetic.exact.path import Solved, solve_problem, sums_of
from antithetic.problem import Problem
from antithetic.problem.losses import LOSSES

MOST_ITERATIONS, FEWER_ITERATIONS = 1000, 200
SMOOTH = [name for name, loss in LOSSES.items() if loss.is_smooth]
ROUNDING = 64.0 * np.finfo(np.float64).eps  # of the constant's objective
STEPS = 60  # of the solution in long double, which needs far fewer


class Case(NamedTuple):
    """A random problem, and how near to its optimum the solver is to come."""

    problem: Problem
    tol: float
    is_well_posed: bool  # so that rounding is no excuse

    @property
    def hidden(self) -> float:
        """Distance from the optimum that rounding may hide, of the constant's objective."""
        return 1e-6 if self.problem.X.dtype == np.float32 else 1e-12

    @classmethod
    def draw(cls, seed: int, *, only_logistic: bool = False) -> Case:
        """Draw one, of any shape."""
        rng = np.random.default_rng(seed)
        n, d = round(10 ** rng.uniform(0.31, 3.69)), round(10 ** rng.uniform(0.0, 2.47))
        if is_wide := seed % 10 == 9:  # like text, for ascent on the dual
            n, d = round(10 ** rng.uniform(0.5, 2.1)), int(rng.integers(301, 400))
        X, is_tame = _rows(rng, n, d)
        loss = "log_loss" if only_logistic or rng.random() < 0.7 else str(rng.choice(SMOOTH))
        y = _labels(rng, X, is_regression=not LOSSES[loss].classification)
        strength, l1_ratio = 10 ** rng.uniform(-8.0, 1.0), rng.choice([0.0, 0.0, 0.0, 0.5, 1.0])
        tol = 10 ** -rng.uniform(3.0, 10.0)
        if rng.random() < 0.15:
            X = X.astype(np.float32)
        problem = Problem.build(
            sparse.csr_array(X) if is_wide or rng.random() < 0.4 else X,
            y,
            loss=loss,
            l2=strength * (1.0 - l1_ratio),
            l1=strength * l1_ratio,
            sample_weight=_weights(rng, n),
            fit_intercept=not is_wide and bool(rng.random() < 0.6),
        )
        return cls(problem, tol, is_tame and tol >= 1e-8 and problem.penalty.l2 >= 1e-6)


def _rows(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, bool]:
    """Rows, and whether the scales of their columns lie between 1e-3 and 1e3."""
    X = rng.normal(size=(n, d))
    kind = rng.choice(["plain", "correlated", "binary", "heavy", "few"])
    if kind == "correlated":
        X = X @ (rng.normal(size=(d, d)) * 0.5 ** rng.uniform(0.0, 20.0, size=d)[:, None])
    elif kind == "binary":
        X = (rng.random((n, d)) < 10 ** rng.uniform(-3.0, -0.3, size=d)).astype(float)
    elif kind == "heavy":
        X = rng.standard_t(2.0, size=(n, d))
    elif kind == "few":
        X = X * (rng.random((n, d)) < rng.uniform(0.01, 0.5))
    if rng.random() < 0.3:  # columns that say nothing, or nothing new
        X[:, rng.integers(d)] = rng.choice([0.0, 1.0])
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    widest = rng.choice([0.0, 3.0, 3.0, 6.0])
    X = X * 10 ** rng.uniform(-widest, widest, size=d)
    far = rng.random() < 0.2
    if far:
        X = X + X.std(axis=0) * rng.normal(size=d) * 10 ** rng.uniform(0.0, 3.0)
    if rng.random() < 0.2:
        X = X[np.argsort(X[:, 0])]
    return X, bool(widest <= 3.0 and not far and kind not in ("correlated", "heavy"))


def _labels(rng: np.random.Generator, X: np.ndarray, *, is_regression: bool) -> np.ndarray:
    scale = X.std(axis=0)
    scores = (X - X.mean(axis=0)) @ (rng.normal(size=X.shape[1]) / np.where(scale > 0, scale, 1.0))
    scores = scores / (scores.std() or 1.0) * rng.choice([0.0, 1.0, 5.0])
    noise = rng.choice([0.0, 1.0]) if scores.any() else 1.0
    scores = scores + noise * rng.logistic(size=len(X)) + rng.choice([0.0, 0.0, 3.0])
    if is_regression:
        return scores * 10 ** rng.uniform(-3.0, 3.0)
    y = np.where(scores > 0.0, 1.0, -1.0)
    y[:2] = [-1.0, 1.0]  # both classes
    return y


def _weights(rng: np.random.Generator, n: int) -> np.ndarray | None:
    kind = rng.choice(["none", "none", "uniform", "zeros", "wild"])
    if kind == "none":
        return None
    weight = rng.uniform(0.1, 2.0, size=n)
    if kind == "zeros":
        weight *= rng.random(n) < 0.7
    elif kind == "wild":
        weight = np.exp(3.0 * rng.normal(size=n))
    weight[:2] = 1.0
    return weight


class Exact:
    """The objective of a problem in long double, and its optimum by Newton's method."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self._l1 = problem, problem.penalty.l1
        X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
        self._rows = np.asarray(X, dtype=np.longdouble)
        if problem.fit_intercept:
            self._rows = np.column_stack([self._rows, np.ones(problem.n, np.longdouble)])
        self._y = problem.y.astype(np.longdouble)
        weight = np.ones(problem.n) if problem.weight is None else problem.weight
        self._weight = weight.astype(np.longdouble)
        self._l2 = np.zeros(self._rows.shape[1], np.longdouble)
        self._l2[: problem.d] = problem.penalty.l2

    def join(self, coef: np.ndarray, intercept: float) -> np.ndarray:
        """Weights and, if there is one, the intercept."""
        theta = np.append(coef, intercept) if self.problem.fit_intercept else coef
        return theta.astype(np.longdouble)

    def objective(self, theta: np.ndarray) -> np.longdouble:
        """Mean loss and penalty."""
        losses = self._losses(self._rows @ theta)[0]
        lengths = np.abs(theta[: self.problem.d]).sum()
        return (
            self._weight @ losses / self.problem.n
            + self._l2 @ (theta * theta) / 2
            + np.longdouble(self._l1) * lengths
        )

    def _losses(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Loss, slope and curvature of each row."""
        name, y = self.problem.loss.name, self._y
        if name == "log_loss":
            tail = np.exp(-np.abs(y * p))
            share = 1 / (1 + tail)
            losses = np.log1p(tail) + np.maximum(0, -y * p)
            return losses, -y * np.where(y * p >= 0, tail, 1) * share, tail * share * share
        if name in ("squared_hinge", "modified_huber"):
            short = np.maximum(0, 1 - y * p)
            losses, slopes, curvatures = short**2, -2 * y * short, 2.0 * (short > 0)
            if name == "modified_huber":
                straight = y * p < -1
                losses = np.where(straight, -4 * y * p, losses)
                slopes = np.where(straight, -4 * y, slopes)
                curvatures = np.where(straight, 0.0, curvatures)
            return losses, slopes, curvatures
        apart, epsilon = p - y, np.longdouble(self.problem.loss.epsilon)
        if name == "squared_error":
            return apart**2 / 2, apart, np.ones(len(p))
        if name == "huber":
            straight = np.abs(apart) > epsilon
            losses = np.where(straight, epsilon * (np.abs(apart) - epsilon / 2), apart**2 / 2)
            return losses, np.clip(apart, -epsilon, epsilon), 1.0 - straight
        beyond = np.maximum(0, np.abs(apart) - epsilon)
        return beyond**2, 2 * np.sign(apart) * beyond, 2.0 * (beyond > 0)

    def least(self, theta: np.ndarray) -> np.longdouble:
        """Objective of the optimum, as far as Newton's method from a point near it finds it.

        With an L1 penalty it moves along the weights that are not zero, and keeps their signs.
        """
        theta, value = theta.copy(), self.objective(theta)
        free = np.ones(len(theta), bool)
        kinks = np.zeros(len(theta), np.longdouble)
        if self._l1:
            free[: self.problem.d] = theta[: self.problem.d] != 0
            kinks[: self.problem.d] = self._l1 * np.sign(theta[: self.problem.d])
        for _ in range(STEPS if free.any() else 0):
            step = self._step(theta, free, kinks)
            length, found = np.longdouble(1), None
            while length > 1e-6:
                tried = self.objective(theta + length * step)
                if tried < value:
                    found = tried
                    break
                length /= 2
            if found is None:
                break
            theta, fall, value = theta + length * step, value - found, found
            if fall <= 1e-19 * value:
                break
        return value

    def _step(self, theta: np.ndarray, free: np.ndarray, kinks: np.ndarray) -> np.ndarray:
        rows = self._rows[:, free]
        _, slopes, curvatures = self._losses(self._rows @ theta)
        gradient = rows.T @ (self._weight * slopes) / self.problem.n
        gradient = gradient + (self._l2 * theta + kinks)[free]
        roots = np.sqrt((self._weight * curvatures / self.problem.n).astype(np.float64))
        scaled = rows.astype(np.float64) * roots[:, None]
        hessian = scaled.T @ scaled + np.diag(self._l2[free].astype(np.float64))
        units = 1.0 / np.sqrt(np.maximum(np.diagonal(hessian), 1e-300))
        hessian = hessian * units * units[:, None] + 1e-14 * np.eye(len(units))
        along = np.linalg.solve(hessian, units * gradient.astype(np.float64))
        step = np.zeros(len(theta), np.longdouble)
        step[free] = -units * along
        return step


class Outcome(NamedTuple):
    """How a run ended, its bound, and the truth; gaps relative to the constant's objective."""

    solved: Solved
    bound: float
    truth: float

    def faults(self, case: Case) -> list[str]:
        """What is wrong with it."""
        solved, found = self.solved, []
        if not (np.isfinite(solved.coef).all() and np.isfinite(solved.intercept)):
            found.append("weights are not finite")
        if not (solved.gap <= case.tol or self.bound <= case.hidden):
            if solved.ended != "rounding":
                found.append(f"missed its tolerance, ended by {solved.ended}")
            elif case.is_well_posed:
                found.append("missed its tolerance by rounding")
        if solved.certified and not self.truth <= self.bound + ROUNDING:
            found.append("the bound is below the true gap")
        return found


def judge(case: Case) -> Outcome:
    """Solve a problem, and its optimum in long double."""
    problem = case.problem
    solved = solve_problem(problem, tol=case.tol, max_iter=MOST_ITERATIONS)
    tight = solve_problem(
        problem, tol=1e-14, max_iter=FEWER_ITERATIONS, start=(solved.coef[0], *solved.intercept)
    )
    exact = Exact(problem)
    here = exact.objective(exact.join(solved.coef[0], *solved.intercept))
    least = min(here, exact.least(exact.join(tight.coef[0], *tight.intercept)))
    zero_objective = sums_of(problem).constant()[1]
    constant = zero_objective or 1.0
    unit = max(zero_objective - float(least), 1e-12 * zero_objective)
    return Outcome(solved, solved.gap * unit / constant, float(here - least) / constant)


def describe(case: Case) -> str:
    """One line on a problem."""
    problem, penalty = case.problem, case.problem.penalty
    return (
        f"{problem.loss.name} {problem.n} x {problem.d} {problem.X.dtype}"
        f"{' csr' if sparse.issparse(problem.X) else ''}"
        f"{' weighted' if problem.weight is not None else ''}"
        f"{' intercept' if problem.fit_intercept else ''}"
        f" l2 {penalty.l2:.1e} l1 {penalty.l1:.1e} tol {case.tol:.1e}"
        f"{' well posed' if case.is_well_posed else ''}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, help="1000 if not given, 100 with --quick")
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--quick", action="store_true", help="fewer problems")
    asked = parser.parse_args()
    problems = asked.problems or (100 if asked.quick else 1000)
    print(machine())
    ended, faults, worst, slowest = Counter(), 0, 0.0, 0
    for seed in range(asked.first, asked.first + problems):
        case = Case.draw(seed)
        try:
            outcome = judge(case)
        except Exception as failure:
            faults += 1
            print(f"{seed}: {describe(case)}: {failure!r}", flush=True)
            continue
        ended[outcome.solved.ended] += 1
        slowest = max(slowest, outcome.solved.iterations)
        if outcome.solved.certified:
            worst = max(worst, outcome.truth - outcome.bound)
        for fault in outcome.faults(case):
            faults += 1
            print(
                f"{seed}: {describe(case)}: {fault}; gap {outcome.solved.gap:.1e}, bound"
                f" {outcome.bound:.2e}, true {outcome.truth:.2e}, {outcome.solved.iterations}"
                " iterations",
                flush=True,
            )
    print(f"ended by {dict(ended)}")
    return close(
        report(
            [
                Figure("problems", problems),
                Figure("faults", faults, most=0),
                Figure("most iterations over all rows", slowest),
                Figure(
                    "true gap less its bound, in units of rounding",
                    worst / np.finfo(np.float64).eps,
                    most=64.0,
                ),
            ]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
