"""Tasks of local steps: an epoch of a block from common weights, and measuring points.

Each is a pure function of the block, its number and what all blocks have in common, so it does not
matter which worker runs it, or how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.threads import limit_blas
from antithetic._util.validation import block_rows
from antithetic.dask.anchored import Anchored
from antithetic.dask.blocks import open_block
from antithetic.dask.common import Common
from antithetic.dask.mapping import Sums
from antithetic.orders.units import Table
from antithetic.problem import Problem
from antithetic.solvers import DivergenceError, State
from antithetic.solvers.corrected import Corrected
from antithetic.solvers.steps import Constant, Schedule, Steps
from antithetic.training.loop import Run, begin, train
from antithetic.training.spec import Spec

_LOWERING = 4.0  # by which steps are shortened when no point was better


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where the blocks start a round, with one entry per problem that is not solved yet.

    Attributes
    ----------
    common : Common
    round : int
        Number of rounds before this one.
    problems : tuple of int
    weights, gradients : ndarray of shape (len(problems), d + 1)
        Common weights, and the data gradient of all rows there; the intercept comes last.
    steps : tuple of Steps
    corrected : tuple of bool
        Whether steps are corrected by that gradient.
    lowered : tuple of int
        How often they were made a quarter as long.
    constants : ndarray of shape (n_blocks,) or None
        Constant step sizes of the blocks, for corrected steps of a loss without a kink.
    """

    common: Common
    round: int
    problems: tuple[int, ...]
    weights: NDArray[np.float64]
    gradients: NDArray[np.float64]
    steps: tuple[Steps, ...]
    corrected: tuple[bool, ...]
    lowered: tuple[int, ...]
    constants: NDArray[np.float64] | None

    def steps_of(self, place: int, block: int) -> Steps:
        """Steps of a block, before they are shortened."""
        if self.corrected[place] and self.constants is not None:
            return Constant(float(self.constants[block]))
        return self.steps[place]

    def schedule(self, place: int, steps: Steps) -> Schedule:
        """Steps as numbers, shortened as often as was necessary."""
        schedule = steps.schedule(self.common.loss, self.common.penalty)
        return schedule._replace(eta0=schedule.eta0 * _LOWERING ** -self.lowered[place])


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points to be measured, shape (problems, points, d + 1), and the numbers of the problems."""

    common: Common
    problems: tuple[int, ...]
    points: NDArray[np.float64]


def epoch_block(number: int, parts: Sequence[Any], tables: Sequence[Any], start: Start) -> Sums:
    """Moves of a block's epoch, and which weights it left at zero.

    Both are multiplied by the block's share of the rows.
    """
    with one_thread():
        block = open_block(number, parts)
        share = block.X.shape[0] / start.common.rows
        moves = np.zeros_like(start.weights)
        zeros = np.zeros_like(start.weights)
        if not block.X.shape[0]:
            return moves, zeros
        for place, problem in enumerate(start.problems):
            table = tables[problem] if tables else None
            after = _epoch(start.common.problem(block, problem), number, place, table, start)
            moves[place] = share * (after - start.weights[place])
            zeros[place] = share * (after == 0.0)
        return moves, zeros


def _epoch(
    problem: Problem, number: int, place: int, table: Table | None, start: Start
) -> NDArray[np.float64]:
    """Weights after an epoch of a block; NaN if its steps diverged."""
    common, weights = start.common, start.weights[place]
    solver = Corrected(problem, "sgd")
    if start.corrected[place]:
        solver = Anchored(problem, "svrg", anchor=start.gradients[place])
    steps = start.steps_of(place, number)
    spec = common.spec(solver, steps, table, common.seed(start.problems[place], number))
    run = _begun(spec, weights, start.round, start.schedule(place, steps), table)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            *_, run = train(spec, run, start.round + 1)
    except DivergenceError:
        return np.full(len(weights), np.nan)
    return np.append(run.state.coef.astype(np.float64), run.state.intercept)


def _begun(
    spec: Spec,
    weights: NDArray[np.float64],
    rounds: int,
    schedule: Schedule,
    table: Table | None,
) -> Run:
    """Return the run of a block as if it had made all earlier rounds."""
    state = State(weights[:-1], float(weights[-1]), 0, rounds * spec.problem.n, rounds)
    run = begin(spec, earlier=(state, None), schedule=schedule, table=table)
    if not rounds or schedule.code != INVERSE_TIME:
        return run  # only these steps depend on how many there were before
    assert run.drawing.draws is not None
    batches = run.drawing.draws.sampler().batches(rounds)
    return run._replace(state=run.state._replace(steps=rounds * (len(batches.starts) - 1)))


def measure_block(number: int, parts: Sequence[Any], points: Points) -> Sums:
    """Mean losses of a block and its mean gradients at some points.

    Both are multiplied by the block's share of the rows.
    """
    with one_thread():
        block = open_block(number, parts)
        k, m, d = points.points.shape
        losses, gradients = np.zeros((k, m)), np.zeros((k, m, d))
        n = block.X.shape[0]
        if not n:
            return losses, gradients
        problems = [points.common.problem(block, problem) for problem in points.problems]
        step = max(
            1, block_rows(block.X) // (k * m) if sparse.issparse(block.X) else block_rows(block.X)
        )
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, n, step):
                _measure(
                    problems, slice(first, min(n, first + step)), points.points, losses, gradients
                )
        return losses / points.common.rows, gradients / points.common.rows


def _measure(
    problems: list[Problem], rows: slice, points: NDArray[np.float64], losses: Any, gradients: Any
) -> None:
    """Add losses and gradients of some rows to the sums."""
    X = problems[0].X[rows]
    k, m, d = points.shape
    weights = points[:, :, :-1].reshape(k * m, d - 1).astype(X.dtype, copy=False)
    products = np.ascontiguousarray((X @ weights.T).T) if sparse.issparse(X) else weights @ X.T
    predictions = products.astype(np.float64, copy=False).reshape(k, m, -1) + points[:, :, -1:]
    slopes = np.empty_like(predictions)
    for place, problem in enumerate(problems):
        y, weight = problem.y[rows], None if problem.weight is None else problem.weight[rows]
        for point, column in enumerate(predictions[place]):
            losses[place, point] += problem.loss.mean(y, column, weight) * len(y)
            slope = problem.loss.slope(y, column)
            # with weight 0, even an infinite loss does not count
            slopes[place, point] = (
                slope
                if weight is None
                else np.multiply(slope, weight, out=np.zeros(len(y)), where=weight > 0.0)
            )
    flat = slopes.reshape(k * m, -1).astype(X.dtype, copy=False)
    sums = (X.T @ flat.T).T if sparse.issparse(X) else flat @ X
    gradients[:, :, :-1] += sums.astype(np.float64, copy=False).reshape(k, m, d - 1)
    if problems[0].fit_intercept:
        gradients[:, :, -1] += slopes.sum(axis=2)


def one_thread() -> AbstractContextManager[None]:
    """Compute matrix products in one thread, so that sums do not depend on the machine.

    Several tasks of one process may be inside at the same time.
    """
    return limit_blas(1)
