"""One problem of the paper: its sets and steps, and runs of all methods on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic import datasets
from antithetic._core.schedules import step_size
from antithetic._util.threads import default_threads, in_shares
from antithetic.orders import Balanced, Order, Pairs, Shuffle, Uniform
from antithetic.orders.order import Draws, Pool
from antithetic.orders.units import Batches
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.problem import Problem
from antithetic.stochastic import After, DivergenceError, Solver
from antithetic.stochastic.loop import begin, train
from antithetic.stochastic.sgd import make_sgd
from antithetic.stochastic.solver import finite_objective
from antithetic.stochastic.spec import make_spec
from antithetic.stochastic.steps import InverseTime, Schedule, Steps

Array = NDArray[np.float64]

LAMBDAS = {
    "sonar_scale": 1e-2,
    "breast-cancer_scale": 1e-2,
    "splice_scale": 1e-3,
    "ijcnn1.tr": 1e-4,
    "fourclass_scale": 1e-2,
    "diabetes_scale": 1e-2,
}
"""The paper's Table 1."""
LOSSES = ("log_loss", "hinge")
BATCH_SIZE = 2
METHODS: dict[str, Order] = {
    "SGD": Uniform(),
    "SGD-as": Uniform(pairs="greedy"),
    "reshuffled": Shuffle(),
    "reshuffled pairs": Shuffle(pairs="greedy"),
    "nested order": Shuffle(pairs=Pairs("tree", nest=True)),
    "balanced": Balanced(),
}
"""The paper's two methods, then others. Tables come from the signed rows, once."""
PAPER = ("SGD", "SGD-as")
STEP_RULE = (
    "step eta0 / (1 + eta0 lambda t); eta0 = 4^k / L, k = -6..4, L = mean |x|^2 / 4 (hinge: mean"
    " |x|^2): the one with the least mean gap of plain SGD after the run, over the same seeds; all"
    " methods share it"
)
SHEET_METHODS, SHEET_EPOCHS = (*PAPER, "reshuffled"), 10
"""Runs that are recorded inside epochs, for the paper's Figures 2 and 3, and how far: in the first
epochs the variance falls, and after ten most sets show the level where noise holds them."""
POINTS = 8  # of a curve in each epoch
_ROWS_FOR_THREADS = 10_000  # with fewer, epochs are so short that threads wait for Python's lock


def load(name: str) -> tuple[Any, Any]:
    """Rows and labels of a set, without a download; OSError if it is not on this computer."""
    X, y = datasets.load(name, return_X_y=True, download=False)
    return X, y


def curvature(problem: Problem) -> float:
    """Return L of the grids; the slope of the hinge loss has a jump of 1, which counts as 1."""
    squares = float((problem.X * problem.X).sum()) / problem.n
    return squares / 4.0 if problem.loss.name == "log_loss" else squares


def first_steps(scale: float) -> Array:
    """Candidates for eta0, given L: a factor of 4 apart."""
    return np.asarray(4.0 ** np.arange(-6, 5) / scale)


def constant_steps(scale: float) -> Array:
    """Constant steps to try, given L: a factor of the square root of 2 apart."""
    return np.asarray(2.0 ** (np.arange(-16, 15) / 2.0) / scale)


@dataclass(slots=True, eq=False)
class Workbench:
    """A problem, its labels, and its tables, which are made on first use for all seeds."""

    problem: Problem
    y: Any
    tables: dict[str, AntitheticTable | GroupTable | None] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, loss: str) -> Workbench:
        """Take a set of the paper with its lambda."""
        X, y = load(name)
        return cls(Problem.build(X, y, loss=loss, l2=LAMBDAS[name]), y)

    def table(self, method: str) -> AntitheticTable | GroupTable | None:
        """Table of a method, made from the signed rows; a matching if each row is visited once."""
        if method not in self.tables:
            order, paper = METHODS[method], METHODS["SGD-as"]
            pairs = order.pairs
            if order != paper and pairs == paper.pairs:
                pairs = Pairs(self.paper_table())  # made once for all methods
            self.tables[method] = (
                None
                if pairs is None
                else pairs.first_table(self.problem, self.y, once=order.once, seed=0)
            )
        return self.tables[method]

    def paper_table(self) -> AntitheticTable:
        """Table of Algorithm 1."""
        found = self.table("SGD-as")
        assert isinstance(found, AntitheticTable)
        return found

    def draws(self, method: str, seed: int, batch_size: int = BATCH_SIZE) -> Draws:
        """Draws of a method."""
        pool = Pool(self.problem, self.table(method), batch_size, seed)
        return METHODS[method].draw_from(pool)

    def weights(
        self,
        method: str,
        steps: Steps,
        *,
        seeds: int,
        epochs: int,
        batch_size: int = BATCH_SIZE,
        problem: Problem | None = None,
    ) -> Array:
        """Weights before the first step and after each epoch, shape (seeds, epochs + 1, d).

        NaN from where the steps diverged.
        """
        problem = self.problem if problem is None else problem
        found = np.full((seeds, epochs + 1, problem.d), np.nan)
        found[:, 0] = 0.0
        table = self.table(method)

        def run_seeds(share: Sequence[int]) -> None:
            for seed in share:
                spec = make_spec(
                    problem,
                    self.y,
                    order=METHODS[method],
                    solver="sgd",
                    steps=steps,
                    batch_size=batch_size,
                    seed=seed,
                )
                try:
                    for run in train(spec, begin(spec, table=table), epochs):
                        found[seed, run.state.epochs] = run.state.coef
                except DivergenceError:
                    continue

        in_shares(run_seeds, range(seeds), threads_for(self.problem))
        return found

    def inside(self, method: str, steps: Steps, *, seeds: int, epochs: int) -> Array:
        """Weights before the first step and at ``POINTS`` equally spaced places of each epoch.

        The shape is (seeds, epochs * POINTS + 1, d); :func:`iterations_inside` says after how many
        steps. For orders only that do not look at gradients, whose epochs can be cut.
        """
        problem, solver = self.problem, make_sgd(self.problem, average=False)
        schedule = steps.schedule(problem.loss, problem.penalty)
        found = np.zeros((seeds, epochs * POINTS + 1, problem.d))
        self.table(method)  # made once, before the threads ask for it

        def run_seeds(share: Sequence[int]) -> None:
            for seed in share:
                draws, after = self.draws(method, seed), After(*solver.init())
                for epoch in range(epochs):
                    pieces = _in_pieces(solver, after, draws.batches(epoch), schedule)
                    for point, after in enumerate(pieces, epoch * POINTS + 1):
                        found[seed, point] = after.state.coef

        in_shares(run_seeds, range(seeds), threads_for(self.problem))
        return found


def _in_pieces(
    solver: Solver, after: After, batches: Batches, schedule: Schedule
) -> Iterator[After]:
    """Take the steps of an epoch in ``POINTS`` pieces; yield what each piece leads to."""
    for first, last in pairwise(_ends_of_pieces(len(batches.starts) - 1)):
        if first < last:
            starts = batches.starts[first : last + 1]
            rows = batches.rows[starts[0] : starts[-1]]
            piece = batches._replace(rows=rows, starts=starts - starts[0])
            after = solver.epoch(after.state, after.own, piece, schedule)
        yield after


def _ends_of_pieces(steps: int) -> list[int]:
    """Steps before each of the ``POINTS`` pieces of an epoch, and after the last."""
    return [0, *accumulate(map(len, np.array_split(np.arange(steps), POINTS)))]


def iterations_inside(n: int, epochs: int) -> NDArray[np.intp]:
    """Steps before each point of :meth:`Workbench.inside`, for n rows; (epochs * POINTS + 1,)."""
    in_epoch = -(-n // BATCH_SIZE)
    ends = np.array(_ends_of_pieces(in_epoch)[1:])
    return np.concatenate([[0], (in_epoch * np.arange(epochs)[:, None] + ends).ravel()])


def mean_steps(problem: Problem, steps: InverseTime, epochs: int) -> Array:
    """Mean step size of each epoch."""
    schedule, in_epoch = steps.schedule(problem.loss, problem.penalty), -(-problem.n // BATCH_SIZE)
    sizes = [step_size(*schedule, t, t * BATCH_SIZE) for t in range(in_epoch * epochs)]
    return np.asarray(np.reshape(sizes, (epochs, in_epoch)).mean(axis=1))


def objectives(problem: Problem, weights: Array) -> Array:
    """Objectives at weights of shape (..., d); infinite if these are not finite or it overflows."""
    return at_each(problem, weights, lambda coef: finite_objective(problem, coef, 0.0))


def at_each(problem: Problem, weights: Array, measure: Callable[[Array], float]) -> Array:
    """Measure at each of the weights (..., d); infinite where they are not finite."""

    def measure_share(share: Sequence[Array]) -> list[float]:
        return [measure(coef) if np.isfinite(coef).all() else np.inf for coef in share]

    shares = in_shares(measure_share, list(weights.reshape(-1, problem.d)), threads_for(problem))
    return np.reshape([*chain.from_iterable(shares)], weights.shape[:-1])


def threads_for(problem: Problem) -> int:
    """Return the number of threads that share runs or measurements; results do not depend on it."""
    return default_threads() if problem.n >= _ROWS_FOR_THREADS else 1


def jitter(inside: Array) -> Array:
    """Mean absolute change of objectives between neighbouring points of an epoch, (seeds, epochs).

    The mean change of the epoch is subtracted first: a curve that falls evenly has no jitter.
    """
    with np.errstate(invalid="ignore"):
        changes = np.diff(inside, axis=1).reshape(len(inside), -1, POINTS)
        shaken = np.abs(changes - changes.mean(axis=2, keepdims=True)).mean(axis=2)
    return np.where(np.isnan(shaken), np.inf, shaken)
