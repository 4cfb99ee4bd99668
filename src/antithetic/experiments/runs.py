"""Runs of all methods on one problem: weights after each epoch, and curves inside epochs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.schedules import step_size
from antithetic.experiments.settings import BATCH_SIZE, METHODS
from antithetic.orders import ONCE_PER_EPOCH, Sampler, make_sampler
from antithetic.orders.batches import cut
from antithetic.pairing import AntitheticTable, GroupTable, pair
from antithetic.pairing.table import matched
from antithetic.problem import Problem
from antithetic.solvers import DivergenceError, make_sgd, run
from antithetic.solvers.steps import Schedule, make_schedule

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
        pairing, sampling, nest = METHODS[method]
        if method not in self.tables and pairing is None:
            self.tables[method] = None
        elif method not in self.tables:
            found = (
                self.paper_table()
                if (pairing, nest) == ("greedy", None) and method != "SGD-as"
                else self._pair(pairing, nest)
            )
            once = isinstance(found, AntitheticTable) and sampling in ONCE_PER_EPOCH
            self.tables[method] = (
                matched(found, self.problem)
                if once and isinstance(found, AntitheticTable)
                else found
            )
        return self.tables[method]

    def paper_table(self) -> AntitheticTable:
        """Table of Algorithm 1."""
        found = self.table("SGD-as")
        assert isinstance(found, AntitheticTable)
        return found

    def _pair(self, pairing: Any, nest: bool | None) -> AntitheticTable | GroupTable:
        return pair(
            self.problem.X, self.y, pairing, loss=self.problem.loss, nest=nest, random_state=0
        )

    def sampler(self, method: str, seed: int, batch_size: int = BATCH_SIZE) -> Sampler:
        """Sampler of a method."""
        return make_sampler(
            METHODS[method].sampling,
            self.problem.n,
            batch_size,
            seed,
            self.table(method),
            to_the_top=bool(METHODS[method].nest),
        )

    def weights(
        self,
        method: str,
        schedule: Schedule,
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
        solver = make_sgd(problem, average=False)
        found = np.full((seeds, epochs + 1, problem.d), np.nan)
        found[:, 0] = 0.0
        for seed in range(seeds):
            try:
                for state in run(
                    solver,
                    self.sampler(method, seed, batch_size),
                    schedule,
                    solver.init(),
                    epochs=epochs,
                ):
                    found[seed, state.epochs] = state.coef
            except DivergenceError:
                continue
        return found

    def inside(
        self, method: str, schedule: Schedule, *, seeds: int, epochs: int
    ) -> NDArray[np.float64]:
        """Objective at ``POINTS`` equally spaced places of each epoch.

        The first value is that before the first step; the shape is (seeds, epochs * POINTS + 1).

        For draws with replacement only, whose epochs can be cut.
        """
        problem, solver = self.problem, make_sgd(self.problem, average=False)
        found = np.full((seeds, epochs * POINTS + 1), problem.loss_at_zero())
        for seed in range(seeds):
            sampler, state = self.sampler(method, seed), solver.init()
            for epoch in range(epochs):
                pairs = sampler.batches(epoch).rows.reshape(-1, BATCH_SIZE)
                for point, piece in enumerate(np.array_split(pairs, POINTS)):
                    if len(piece):
                        state = solver.epoch(state, cut(piece.ravel(), BATCH_SIZE), schedule)
                    found[seed, epoch * POINTS + point + 1] = objective(problem, state.coef)
        return found


def inverse_time(problem: Problem, eta0: float) -> Schedule:
    """Return the paper's steps, with eta = lambda."""
    l2 = problem.penalty.l2
    return make_schedule(
        "inverse_time", eta0=float(eta0), decay=l2, alpha=l2, power_t=0.5, loss=problem.loss
    )


def constant(problem: Problem, eta0: float) -> Schedule:
    """Return a constant step."""
    return make_schedule(
        "constant",
        eta0=float(eta0),
        decay=0.0,
        alpha=problem.penalty.l2,
        power_t=0.5,
        loss=problem.loss,
    )


def mean_steps(schedule: Schedule, n: int, epochs: int) -> NDArray[np.float64]:
    """Mean step size of each epoch."""
    steps = -(-n // BATCH_SIZE)
    sizes = [step_size(*schedule, t, t * BATCH_SIZE) for t in range(steps * epochs)]
    return np.asarray(np.reshape(sizes, (epochs, steps)).mean(axis=1))


def objective(problem: Problem, coef: NDArray[np.float64]) -> float:
    """Objective; infinite, and never an error, where the weights are not finite or it overflows."""
    with np.errstate(all="ignore"):
        if not np.isfinite(coef @ coef):
            return np.inf
        value = problem.objective(coef)
        return value if np.isfinite(value) else np.inf


def objectives(problem: Problem, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Objectives at weights of shape (..., d)."""
    flat = [objective(problem, coef) for coef in weights.reshape(-1, problem.d)]
    return np.reshape(flat, weights.shape[:-1])


def jitter(inside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean absolute change between neighbouring points of an epoch, shape (seeds, epochs).

    The mean change of the epoch is subtracted first.

    Taking the mean change out leaves nothing of a curve that falls evenly: what is left is how much
    it shakes.
    """
    with np.errstate(invalid="ignore"):
        changes = np.diff(inside, axis=1).reshape(len(inside), -1, POINTS)
        shaken = np.abs(changes - changes.mean(axis=2, keepdims=True)).mean(axis=2)
    return np.where(np.isnan(shaken), np.inf, shaken)
