"""How far a run is from the optimum, and whether it may end: no fit fails silently."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.losses import PERCEPTRON
from antithetic.exact.class_sums import best_constants
from antithetic.exact.gap import (
    aitken_gap,
    has_newton_decrement,
    needs_products,
    newton_decrement,
)
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.columns import ColumnMoments
from antithetic.problem.constant import best_constant, constant_of
from antithetic.problem.losses import Loss
from antithetic.stochastic.solver import Solution

Marks = tuple[tuple[int, float], ...]
MOST_OF_THE_WAY = 0.005  # what may be left of the way from the best constant
_STILL_FALLING = 0.1  # share of the gap that an epoch takes away
_FEW_ENTRIES = 5e6  # visited in all epochs together: about ten milliseconds
_NOTHING_TO_GAIN = 1e-8  # of the constant's objective: where a constant is the optimum
_LEAST_WAY = 0.25  # of the constant's objective: what estimates by noisy epochs are compared with
_MOST_EPOCHS = 500  # that are added to a fit of little data
_ROWS_OF_A_START = 20_000


class Gap(NamedTuple):
    """What is left of an objective, and of the way from the best constant prediction.

    Attributes
    ----------
    left : float
        Estimate of the objective minus its optimum; NaN for the perceptron, which has none.
    share : float
        The same, divided by the distance of the best constant prediction (zero weights, without an
        intercept) from the optimum.
    """

    left: float
    share: float

    @property
    def is_wide(self) -> bool:
        """Whether enough is left that the user should know."""
        return self.share > MOST_OF_THE_WAY


NO_GAP = Gap(np.nan, np.nan)


def start_of_problem(problem: Problem) -> Any:
    """Best constant prediction, or one per class: what a fit with an intercept begins with.

    A class without rows counts as half a row, which keeps its constant finite.
    """
    if not isinstance(problem, SoftmaxProblem):
        return start_of(problem.loss, problem.y, problem.weight)
    shares = _class_shares(problem)
    return best_constants(np.where(shares > 0.0, shares, 0.5 * shares.sum() / problem.n))[0]


def _class_shares(problem: SoftmaxProblem) -> NDArray[np.float64]:
    totals = np.bincount(problem.y.astype(np.intp), problem.weight, problem.n_classes)
    shares: NDArray[np.float64] = totals / problem.n
    return shares


def start_of(loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> float:
    """Best constant of one score, from a sample if there are many rows; 0 for perceptrons."""
    if loss.code == PERCEPTRON:
        return 0.0
    if not (loss.classification or loss.name == "squared_error" or loss.has_log_link):
        every = -(-len(y) // _ROWS_OF_A_START)
        y, weight = y[::every], None if weight is None else weight[::every]
    constant = constant_of(loss, y, weight)
    return constant if np.isfinite(constant) else 0.0


def estimate_gap(
    problem: Problem,
    solution: Solution,
    epochs: int,
    marks: Marks,
    columns: ColumnMoments | None = None,
) -> Gap:
    """Estimate what is left: by a Newton step, or from the objectives of the epochs.

    ``columns`` are moments of the columns, if they are known.
    """
    if problem.loss.code == PERCEPTRON:
        return NO_GAP
    start = _loss_of_a_constant(problem)
    with np.errstate(all="ignore"):
        if has_newton_decrement(problem):
            reached, left = newton_decrement(problem, *solution, columns)
            least_way = _NOTHING_TO_GAIN * start
        else:
            reached = problem.objective(*solution)
            known = [mark for mark in marks if mark[0] < epochs]
            left = aitken_gap([(0, start), *known, (epochs, reached)])
            least_way = _LEAST_WAY * start
        left = max(left, reached - start)
        way = max(max(start - reached, 0.0) + left, least_way)
    if left == np.inf:  # nothing is known of the optimum, which should be said
        return Gap(left, 1.0)
    return Gap(left, left / way if way > 0.0 else 0.0)


def _loss_of_a_constant(problem: Problem) -> float:
    """Mean loss of the best constant prediction, of zero without an intercept."""
    if not problem.fit_intercept:
        return problem.loss_at_zero()
    if isinstance(problem, SoftmaxProblem):
        return best_constants(_class_shares(problem))[1]
    if problem.loss.classification:
        return best_constant(problem.loss, problem.y, problem.weight)[1]
    constant = start_of(problem.loss, problem.y, problem.weight)
    return problem.mean_loss(np.full(problem.n, constant))


def is_surely_wide(problem: Problem, objectives: list[float]) -> bool:
    """Whether an epoch still gains more than may be left, so that no estimate need say so.

    With many columns, an estimate by a Newton step costs as much as several epochs. The fall is the
    mean of the last two; all falls together are no more than the way, so this ends.
    """
    if len(objectives) < 3 or not needs_products(problem):
        return False
    fall = 0.5 * (objectives[-3] - objectives[-1])
    return fall > MOST_OF_THE_WAY * max(0.0, _loss_of_a_constant(problem) - objectives[-1])


def should_go_on(problem: Problem, gap: Gap, objectives: list[float], epochs: int) -> bool:
    """Whether a run that seems to stall is far from the optimum and should continue.

    That is, while each of its last epochs lowered the running objective by a tenth of what is left,
    or while there is so little data that all epochs together cost next to nothing, if the loss is
    smooth: with a kink the estimate is too noisy for this decision.
    """
    if len(objectives) < 2 or not gap.is_wide:
        return False
    entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
    if isinstance(problem, SoftmaxProblem):
        entries *= problem.n_classes
    is_cheap = epochs <= _MOST_EPOCHS and epochs * entries <= _FEW_ENTRIES
    if is_cheap and has_newton_decrement(problem):
        return True
    fall = (objectives[0] - objectives[-1]) / (len(objectives) - 1)
    return fall >= _STILL_FALLING * gap.left
