"""Compare rules that combine the models of blocks: gaps after ten rounds on eight blocks.

A gap is ``(f - f*) / (f(0) - f*)``, f the objective of all rows, f* its least value, by Newton's
method; logistic loss, batches of 2, steps found automatically. Each round every block makes one
epoch on its own rows. All runs here, in one process, with the kernels and the search of
``antithetic.dask``. Rules:

- mean: plain epochs, models averaged by rows ("equal": each block alike);
- drift: the difference between the gradient of all rows and that of the block, at the round's
  start, is added to each step;
- anchors: each step is corrected by its rows' gradients at the round's start and by that of all
  rows (SVRG with a common anchor);
- late anchors: the same with the gradient of all rows one round late, which saves a pass;
- search: the objective is measured at a few points along the mean move, and the best is taken; what
  ``antithetic.dask`` does.

The first round has plain steps. Run ``python benchmarks/combination.py``, some five minutes, or
only some sets of it: ``python benchmarks/combination.py ijcnn1.tr a9a``. The exit status is 1 if
the search misses its bar on the made set: the larger of 1e-5 and 3 times the gap of one machine.
Other sets need the environment variable ANTITHETIC_DATA.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from antithetic._core.arguments import Memory
from common import load, machine
from scipy import sparse
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

import antithetic
from antithetic.dask.anchored import Anchored
from antithetic.dask.search import Standing, points_along
from antithetic.orders import Balanced, Order, Shuffle
from antithetic.orders.pool import Pool
from antithetic.problem import Problem
from antithetic.problem.smoothness import row_squares
from antithetic.solvers import State
from antithetic.solvers.corrected import Corrected, Remembered, safe_step
from antithetic.solvers.step_search import find_steps, noise_of_balanced
from antithetic.steps import Constant

N_BLOCKS, ROUNDS, BATCH, SHOWN = 8, 10, 2, (0, 1, 4, 9)
SHARES = np.array([1, 1, 2, 3, 5, 8, 13, 30])
MADE = "made"
SHUFFLED = Shuffle()


@dataclass(frozen=True)
class Rule:
    """How the models of the blocks become one."""

    name: str
    correction: str = "anchors"  # "", "drift", "anchors", "late"
    points: str = "all"  # "", "lengths", "all"
    order: Order = SHUFFLED
    equal: bool = False


RULES = (
    Rule("mean, equal", "", "", equal=True),
    Rule("mean", "", ""),
    Rule("mean, balanced orders", "", "", Balanced()),
    Rule("drift", "drift", ""),
    Rule("late anchors", "late", ""),
    Rule("anchors", "anchors", ""),
    Rule("anchors, balanced orders", "anchors", "", Balanced()),
    Rule("anchors, search of lengths", "anchors", "lengths"),
    Rule("anchors, search (the default)"),
    Rule("anchors, search, balanced", order=Balanced()),
)


@dataclass(frozen=True, slots=True, eq=False)
class Drifting(Corrected):
    """Plain steps with a constant vector added to each."""

    drift: object = None

    def _remember(self, state: State, own: Remembered) -> Memory:  # noqa: ARG002 - always the same
        return Memory(np.zeros(self.problem.n), self.drift, False)


@cache
def rows_of(name: str) -> tuple | None:
    if name != MADE:
        return load(name)
    X, y = make_classification(1_000_000, 54, n_informative=20, flip_y=0.1, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def blocks_of(name: str, kind: str, intercept: bool) -> tuple[Problem, list[Problem]] | None:
    data = rows_of(name)
    if data is None:
        return None
    X, y = data
    order = (
        np.argsort(y, kind="stable")
        if kind == "sorted"
        else np.random.default_rng(1).permutation(len(y))
    )
    whole = Problem.build(
        X[order], y[order], l2=1e-5 if name == MADE else 1e-4, fit_intercept=intercept
    )
    shares = SHARES if kind == "unequal" else np.ones(N_BLOCKS, int)
    cuts = np.cumsum([0, *shares]) * whole.n // shares.sum()
    return whole, [replace(whole, X=whole.X[a:e], y=whole.y[a:e]) for a, e in pairwise(cuts)]


def least(problem: Problem) -> float:
    """Least objective, by Newton's method."""
    k, w = problem.d + problem.fit_intercept, np.zeros(problem.d + 1)
    for _ in range(60):
        gradient = np.append(*problem.gradient(w[:-1], w[-1]))[:k]
        share = 1.0 / (1.0 + np.exp(-problem.predictions(w[:-1], w[-1])))
        curvature = share * (1.0 - share) / problem.n
        weighted = (
            problem.X.multiply(curvature[:, None]).tocsr()
            if sparse.issparse(problem.X)
            else problem.X * curvature[:, None]
        )
        product = problem.X.T @ weighted
        hessian = np.zeros((k, k))
        hessian[: problem.d, : problem.d] = (
            product.toarray() if sparse.issparse(product) else product
        )
        hessian[range(problem.d), range(problem.d)] += problem.penalty.l2
        if problem.fit_intercept:
            hessian[-1, :-1] = hessian[:-1, -1] = np.asarray(weighted.sum(axis=0)).ravel()
            hessian[-1, -1] = curvature.sum()
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-14)[0]
        w[:k] -= step
        if np.abs(step).max() < 1e-13 * max(1.0, np.abs(w).max()):
            break
    return problem.objective(w[:-1], w[-1])


def gradient_of(problem: Problem, w: np.ndarray) -> np.ndarray:
    return np.append(*problem.data_gradient(problem.slopes(w[:-1], w[-1])))


def run(rule: Rule, whole: Problem, blocks: list[Problem]) -> list[float]:
    """Objective after each round."""
    rows = np.array([block.n for block in blocks])
    shares = np.full(len(blocks), 1.0 / len(blocks)) if rule.equal else rows / rows.sum()
    noise = noise_of_balanced(whole.n, whole.d) if rule.order.balances else 1.0
    anchored = Constant(safe_step(whole, BATCH, row_squares(whole), "svrg"))
    plain, constant = (
        steps.schedule(whole.loss, whole.penalty)
        for steps in (find_steps(whole, BATCH, 0, noise=noise), anchored)
    )
    samplers = [
        rule.order.draw_from(Pool(block, None, min(BATCH, block.n), number)).sampler()
        for number, block in enumerate(blocks)
    ]
    orders: list = [None] * len(blocks)
    standing, objectives, before = Standing.at(np.zeros(whole.d + 1)), [], None
    for number in range(ROUNDS):
        w = standing.weights
        own = [gradient_of(block, w) for block in blocks]
        full = sum(share * one for share, one in zip(rows / rows.sum(), own, strict=True))
        move = np.zeros(whole.d + 1)
        for k, block in enumerate(blocks):
            batches = samplers[k].batches(number, orders[k])
            corrects = rule.correction and number > 0
            if not corrects:
                solver: Corrected = Corrected(block, "sgd")
            elif rule.correction == "drift":
                solver = Drifting(block, "svrg", drift=full - own[k])
            else:
                anchor = full if rule.correction == "anchors" else own[k] + before[0] - before[1][k]
                solver = Anchored(block, "svrg", anchor=anchor)
            schedule = constant if corrects and rule.correction != "drift" else plain
            steps = number * (len(batches.starts) - 1)
            state = State(w[:-1].copy(), float(w[-1]), steps, number * block.n, number)
            after = solver.epoch(state, Remembered(), batches, schedule)
            orders[k] = after.order
            move += shares[k] * (np.append(after.state.coef, after.state.intercept) - w)
        before = (full, own)
        standing = _combined(rule, standing, move, whole, number)
        objectives.append(whole.objective(standing.weights[:-1], standing.weights[-1]))
    return objectives


def _combined(
    rule: Rule, standing: Standing, move: np.ndarray, whole: Problem, number: int
) -> Standing:
    if not rule.points:
        return replace(standing, weights=standing.weights + move)
    if number > 0 and rule.points == "all":
        standing = standing.after_move(move)
    points = points_along(standing, move)
    values = np.array([whole.objective(point[:-1], point[-1]) for point in points])
    return standing.taking(points, values, np.zeros_like(points))


def one_machine(problem: Problem) -> np.ndarray:
    model = antithetic.SGDClassifier(
        "log_loss",
        alpha=problem.penalty.l2,
        fit_intercept=problem.fit_intercept,
        max_iter=ROUNDS,
        tol=None,
        trace="objective",
    )
    return model.set_params(random_state=0).fit(problem.X, problem.y).history_["objective"]


def main(names: list[str]) -> int:
    print(machine())
    missed = 0
    for name in names or ["ijcnn1.tr", "a9a", MADE]:
        for kind, intercept in (("shuffled", False), ("unequal", True), ("sorted", True)):
            made = blocks_of(name, kind, intercept)
            if made is None:
                continue
            whole, blocks = made
            best, zero = least(whole), whole.loss_at_zero()
            print(
                f"{name}, {kind}{', intercept' if intercept else ''}: gaps after rounds"
                f" {', '.join(str(k + 1) for k in SHOWN)}"
            )
            alone = (np.array(one_machine(whole)) - best) / (zero - best)
            _print("one machine", alone)
            for rule in RULES:
                gaps = (np.array(run(rule, whole, blocks)) - best) / (zero - best)
                _print(rule.name, gaps)
                if rule == RULES[8] and name == MADE and kind != "sorted":
                    missed += not gaps[-1] <= max(1e-5, 3.0 * alone[-1])
            print(flush=True)
    print(f"{missed} missed" if missed else "all bars met")
    return int(missed > 0)


def _print(name: str, gaps: np.ndarray) -> None:
    print(f"  {name:<32}" + "".join(f"{gaps[k]:>10.1e}" for k in SHOWN), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main(sys.argv[1:]))
