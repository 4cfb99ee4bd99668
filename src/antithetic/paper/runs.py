"""Runs of all methods on one problem: weights after each epoch, and curves inside epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.schedules import step_size
from antithetic.orders import Order, Pairs
from antithetic.orders.batches import Batches, cut
from antithetic.orders.pool import Pool, Sampler
from antithetic.pairing import AntitheticTable, GroupTable
from antithetic.paper.settings import BATCH_SIZE, METHODS
from antithetic.problem import Problem
from antithetic.solvers import After, DivergenceError, Solver
from antithetic.solvers.divergence import finite_objective
from antithetic.solvers.sgd import make_sgd
from antithetic.solvers.steps import Schedule, Steps
from antithetic.training.loop import begin, train
from antithetic.training.spec import make_spec

POINTS = 8  # of the curve inside an epoch


@dataclass(slots=True, eq=False)
class Bench:
    """A problem, its labels, and its tables, which are made on first use for all seeds."""

    problem: Problem
    y: Any
    tables: dict[str, AntitheticTable | GroupTable | None] = field(default_factory=dict)

    def table(self, method: str) -> AntitheticTable | GroupTable | None:
        """Table of a method, made from the signed rows.

        A matching where each row is visited once.
        """
        if method not in self.tables:
            self.tables[method] = self._make_table(METHODS[method])
        return self.tables[method]

    def paper_table(self) -> AntitheticTable:
        """Table of Algorithm 1."""
        found = self.table("SGD-as")
        assert isinstance(found, AntitheticTable)
        return found

    def _make_table(self, order: Order) -> AntitheticTable | GroupTable | None:
        pairs, paper = order.pairs, METHODS["SGD-as"]
        if pairs is None:
            return None
        if order != paper and pairs == paper.pairs:
            pairs = Pairs(self.paper_table())  # made once for all methods
        return pairs.first_table(self.problem, self.y, once=order.once, seed=0)

    def sampler(self, method: str, seed: int, batch_size: int = BATCH_SIZE) -> Sampler:
        """Sampler of a method."""
        pool = Pool(self.problem, self.table(method), batch_size, seed)
        return METHODS[method].draw_from(pool).sampler()

    def weights(
        self,
        method: str,
        steps: Steps,
        *,
        seeds: int,
        epochs: int,
        batch_size: int = BATCH_SIZE,
        problem: Problem | None = None,
    ) -> NDArray[np.float64]:
        """Weights before the first step and after each epoch, shape (seeds, epochs + 1, d).

        NaN from where the steps diverged.
        """
        problem = self.problem if problem is None else problem
        found = np.full((seeds, epochs + 1, problem.d), np.nan)
        found[:, 0] = 0.0
        for seed in range(seeds):
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
                for run in train(spec, begin(spec, table=self.table(method)), epochs):
                    found[seed, run.state.epochs] = run.state.coef
            except DivergenceError:
                continue
        return found

    def inside(self, method: str, steps: Steps, *, seeds: int, epochs: int) -> NDArray[np.float64]:
        """Objective at ``POINTS`` equally spaced places of each epoch.

        The first value is that before the first step; the shape is (seeds, epochs * POINTS + 1).

        For draws with replacement only, whose epochs can be cut.
        """
        problem, solver = self.problem, make_sgd(self.problem, average=False)
        schedule = steps.schedule(problem.loss, problem.penalty)
        found = np.full((seeds, epochs * POINTS + 1), problem.loss_at_zero())
        for seed in range(seeds):
            sampler, after = self.sampler(method, seed), After(*solver.init())
            for epoch in range(epochs):
                pieces = in_pieces(solver, after, sampler.batches(epoch), schedule)
                for point, after in enumerate(pieces, epoch * POINTS + 1):
                    found[seed, point] = objective(problem, after.state.coef)
        return found


def in_pieces(
    solver: Solver, after: After, batches: Batches, schedule: Schedule
) -> Iterator[After]:
    """Take the steps of an epoch in ``POINTS`` pieces; yield what each piece leads to."""
    for rows in np.array_split(batches.rows.reshape(-1, BATCH_SIZE), POINTS):
        if len(rows):
            piece = cut(rows.ravel(), BATCH_SIZE)
            after = solver.epoch(after.state, after.own, piece, schedule)
        yield after


def mean_steps(problem: Problem, steps: Steps, epochs: int) -> NDArray[np.float64]:
    """Mean step size of each epoch."""
    schedule, in_epoch = steps.schedule(problem.loss, problem.penalty), -(-problem.n // BATCH_SIZE)
    sizes = [step_size(*schedule, t, t * BATCH_SIZE) for t in range(in_epoch * epochs)]
    return np.asarray(np.reshape(sizes, (epochs, in_epoch)).mean(axis=1))


def objective(problem: Problem, coef: NDArray[np.float64]) -> float:
    """Objective; infinite, and never an error, where the weights are not finite or it overflows."""
    return finite_objective(problem, coef, 0.0)


def objectives(problem: Problem, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Objectives at weights of shape (..., d)."""
    flat = [objective(problem, coef) for coef in weights.reshape(-1, problem.d)]
    return np.reshape(flat, weights.shape[:-1])


def jitter(inside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute change between neighbouring points of an epoch, shape (seeds, epochs).

    The mean change of the epoch is subtracted first.

    A curve that falls evenly has no jitter.
    """
    with np.errstate(invalid="ignore"):
        changes = np.diff(inside, axis=1).reshape(len(inside), -1, POINTS)
        shaken = np.abs(changes - changes.mean(axis=2, keepdims=True)).mean(axis=2)
    return np.where(np.isnan(shaken), np.inf, shaken)
