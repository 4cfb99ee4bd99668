"""What a task does with a block: look at it, make an epoch of steps from common weights, or measure some points. Nothing else is shipped.

Each is a pure function of the block, its number and what is common to all: which worker runs it,
and how often, makes no difference.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.arguments import Memory
from antithetic._util.threads import _blas
from antithetic._util.validation import block_rows
from antithetic.dask.blocks import Block, Blocks, open_block
from antithetic.problem import Problem
from antithetic.problem.losses import Loss
from antithetic.problem.penalties import ElasticNet, Penalty
from antithetic.solvers import SgdState
from antithetic.solvers.corrected import Corrected
from antithetic.solvers.steps import CONSTANT, Schedule
from antithetic.training.tables import Tables

_FAN_IN = 16  # sums that one task adds up
_LOWERING = 4.0
_STRIDE = 0x9E3779B1  # between the seeds of two blocks


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """What all blocks of a fit have in common.

    Attributes
    ----------
    loss, penalty, fit_intercept
    classes : ndarray or None
        Labels in order; None for regression.
    class_weights : ndarray or None
        Weights of the classes; None where all are 1.
    rows : int
        Rows of all blocks.
    batch_size, sampling, nest
    seeds : tuple of int
        One per problem: of more than two classes each is one.
    """

    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    classes: NDArray[Any] | None
    class_weights: NDArray[np.float64] | None
    rows: int
    batch_size: int
    sampling: str
    nest: int | bool | None
    seeds: tuple[int, ...]

    @property
    def n_problems(self) -> int:
        """One, or as many as there are classes if these are more than two."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    def target(self, y: NDArray[Any], number: int) -> NDArray[np.float64]:
        """Labels of a problem: -1 and +1, or the numbers themselves."""
        if self.classes is None:
            return y.astype(np.float64, copy=False)
        return np.where(y == self.classes[self._positive(number)], 1.0, -1.0)

    def problem(self, block: Block, number: int) -> Problem:
        """Problem of a block's rows."""
        assert block.y is not None
        target = self.target(block.y, number)
        return Problem(
            block.X,
            target,
            self.loss,
            self.penalty,
            self._weights(block, target, number),
            self.fit_intercept,
            None,
        )

    def seed(self, problem: int, block: int) -> int:
        """Seed of a block; that of the first is the problem's own."""
        return (self.seeds[problem] + block * _STRIDE) % (1 << 31)

    def _positive(self, number: int) -> int:
        return 1 if self.n_problems == 1 else number

    def _weights(
        self, block: Block, target: NDArray[np.float64], number: int
    ) -> NDArray[np.float64] | None:
        if self.class_weights is None:
            return block.weight
        own = self.class_weights[self._positive(number)]
        other = self.class_weights[0] if self.n_problems == 1 else 1.0
        if own == other == 1.0:
            return block.weight
        weight = np.where(target > 0.0, own, other)
        return weight if block.weight is None else weight * block.weight


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where the blocks begin a round, one entry per problem that goes on.

    Attributes
    ----------
    common : Common
    round : int
        Rounds before it.
    problems : tuple of int
    weights, gradients : ndarray of shape (len(problems), d + 1)
        Common weights, and the data gradient of all rows there; the intercept's last.
    schedules : tuple of Schedule
    corrected : tuple of bool
        Whether steps are corrected by that gradient.
    lowered : tuple of int
        How often they were made a quarter as long.
    steps : ndarray of shape (n_blocks,) or None
        Constant step sizes of the blocks, for corrected steps without a kink.
    """

    common: Common
    round: int
    problems: tuple[int, ...]
    weights: NDArray[np.float64]
    gradients: NDArray[np.float64]
    schedules: tuple[Schedule, ...]
    corrected: tuple[bool, ...]
    lowered: tuple[int, ...]
    steps: NDArray[np.float64] | None

    def schedule(self, place: int, block: int) -> Schedule:
        """Steps of a block."""
        shorter = _LOWERING ** -self.lowered[place]
        if self.corrected[place] and self.steps is not None:
            return Schedule(CONSTANT, float(self.steps[block]) * shorter, 0.0, 0.0)
        return self.schedules[place]._replace(eta0=self.schedules[place].eta0 * shorter)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points to be measured, shape (problems, points, d + 1), for the problems of these numbers."""

    common: Common
    problems: tuple[int, ...]
    points: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Anchored(Corrected):
    """Corrected steps whose mean gradient is that of all blocks: SVRG with an anchor that no block could have computed alone."""

    anchor: Any = None

    def _remember(self, state: SgdState) -> Memory:
        return Memory(
            self.problem.slopes(state.coef, state.intercept),
            self.anchor.astype(self.problem.X.dtype),
            False,
        )


Sums = tuple[NDArray[np.float64], ...]


def epoch_block(number: int, parts: Sequence[Any], tables: Sequence[Any], start: Start) -> Sums:
    """Moves of a block's epoch, and which weights it left at zero, both times its share of the rows."""
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
    problem: Problem, number: int, place: int, table: Any, start: Start
) -> NDArray[np.float64]:
    common, weights = start.common, start.weights[place]
    schedule = start.schedule(place, number)
    size = min(common.batch_size, problem.n)
    seed = common.seed(start.problems[place], number)
    tables = Tables(problem, None, None, common.sampling, size, seed, common.nest, table=table)
    batches = tables.sampler().batches(start.round)
    steps = start.round * (len(batches.starts) - 1)
    coef, real = weights[:-1], problem.X.dtype
    solver = (
        Anchored(problem, "svrg", anchor=start.gradients[place])
        if start.corrected[place]
        else Corrected(problem, "sgd")
    )
    state = SgdState(
        coef.astype(real),
        float(weights[-1]),
        None,
        0.0,
        0.0,
        start.round,
        steps,
        start.round * problem.n,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        after = solver.epoch(state, batches, schedule)
    return np.append(after.coef.astype(np.float64), after.intercept)


def measure_block(number: int, parts: Sequence[Any], points: Points) -> Sums:
    """Mean losses of a block and its mean gradients at some points, both times its share of the rows."""
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
            # weight 0 beats an infinite loss
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


def add_up(sums: list[Sums]) -> Sums:
    """Sums of sums, in the order given."""
    first, *others = sums
    total = tuple(part.copy() for part in first)
    for other in others:
        for part, addend in zip(total, other, strict=True):
            part += addend
    return total


def over_blocks(
    function: Any, name: str, blocks: Blocks, *arguments: Any, tables: Sequence[Any] = ()
) -> Any:
    """Lay out a graph in which each block is a task, and their sums are added in the order of the blocks, a few at a time.

    The shape of that tree depends on the number of blocks alone.
    """
    token = dask.base.tokenize(
        name, id(arguments), np.random.default_rng().integers(1 << 60).item()
    )
    shared = [
        dask.delayed(argument, traverse=False, name=f"antithetic-{name}-start-{token}-{k}")
        for k, argument in enumerate(arguments)
    ]
    task = dask.delayed(function, pure=False, traverse=False)
    level = [
        task(
            number,
            blocks.parts(number),
            *([tables[number]] if tables else []),
            *shared,
            dask_key_name=(f"antithetic-{name}-{token}", number),
        )
        for number in range(len(blocks))
    ]
    add, depth = dask.delayed(add_up, pure=False, traverse=False), 0
    while len(level) > 1:
        groups = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
        level = [
            add(group, dask_key_name=(f"antithetic-{name}-sum-{token}", depth, place))
            for place, group in enumerate(groups)
        ]
        depth += 1
    return level[0]


_lock, _inside, _limit = threading.Lock(), 0, None


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep matrix products to one thread: sums must not depend on the machine.

    Several tasks of one process may be inside at once.
    """
    global _inside, _limit
    with _lock:
        _inside += 1
        if _inside == 1:
            _limit = _blas().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


def has_zeros(penalty: Penalty) -> bool:
    """Whether a penalty makes weights exactly zero."""
    return not isinstance(penalty, ElasticNet) or penalty.l1 > 0.0
