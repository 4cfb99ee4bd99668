"""How far a run is from the optimum, and whether it may end: no fit fails silently."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.losses import PERCEPTRON
from antithetic.exact.class_sums import best_constants
from antithetic.exact.gap import has_newton_decrement, needs_products, newton_decrement
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.columns import ColumnMoments
from antithetic.problem.constant import best_constant, constant_of
from antithetic.problem.losses import Loss
from antithetic.stochastic.solver import Solution

Marks = tuple[tuple[int, float], ...]
WIDE = 0.01  # gap above which a run continues, and the user is warned
_STILL_FALLING = 0.25  # share of the gap that as many epochs again would take away
_FEW_ENTRIES = 5e6  # visited in all epochs together: about ten milliseconds
_NOTHING_TO_GAIN = 1e-8  # of the constant's objective: where a constant is the optimum
_LEAST_WAY = 1e-3  # the same where the gap is extrapolated
_NEAR = 1e-2  # of the constant's objective: epochs that end farther above the start say nothing
_FASTEST, _SLOWEST = 0.5, 0.75  # factor between the falls of two doublings of the epochs
_MOST_EPOCHS = 500  # that are added to a fit of little data
_ROWS_OF_A_START = 20_000


class Gap(NamedTuple):
    """How far a run is from the optimum.

    Attributes
    ----------
    left : float
        Objective minus its minimum; NaN for the perceptron, whose minimum is zero weights.
    share : float
        The same, divided by that of the best constant prediction (zero weights, without an
        intercept): ``gap_`` of all estimators.
    """

    left: float
    share: float

    @property
    def is_wide(self) -> bool:
        """Whether enough is left that the user should know."""
        return self.share > WIDE


NO_GAP = Gap(np.nan, np.nan)


def bound_of(problem: Problem, objective: float, left: float) -> Gap:
    """Return the gap of an objective of which at most ``left`` is left.

    It is infinite if a constant is better, since constants may then be as good as any model.
    """
    gained = loss_of_a_constant(problem) - objective
    if left == 0.0:
        return Gap(0.0, 0.0)
    return Gap(left, left / (gained + left) if gained >= 0.0 and left < np.inf else np.inf)


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
    *,
    start: float | None = None,
    reached: float = np.nan,
) -> Gap:
    """Estimate what is left: by a Newton step, or from the objectives of the epochs.

    ``columns`` are moments of the columns, ``start`` is the objective of the best constant and
    ``reached`` that of the solution, if they are known.
    """
    if problem.loss.code == PERCEPTRON:
        return NO_GAP
    start = loss_of_a_constant(problem) if start is None else start
    with np.errstate(all="ignore"):
        if has_newton_decrement(problem):
            reached, left = newton_decrement(problem, *solution, columns)
            least_way = _NOTHING_TO_GAIN * start
        else:
            if math.isnan(reached):
                reached = problem.objective(*solution)
            known = marks if marks and marks[-1][0] == epochs else (*marks, (epochs, reached))
            worse = known[-1][1] - reached  # of epochs, where none was as good as the start
            left = still_to_fall(((0, start), *known)) - worse
            left = np.inf if worse > _NEAR * start else max(0.0, left)
            least_way = _LEAST_WAY * start
        left = max(left, reached - start)
        way = max(max(start - reached, 0.0) + left, least_way)
    if left == np.inf:  # nothing is known of the optimum, which should be said
        return Gap(left, 1.0)
    return Gap(left, left / way if way > 0.0 else 0.0)


def still_to_fall(marks: Marks) -> float:
    """Extrapolate how far a falling sequence will still fall.

    It compares the falls of the last two doublings of the epochs. If falls shrink by a factor r
    from one doubling to the next, r / (1 - r) times the last one is left, which is exact for a
    sequence that falls as a power of the epochs. The factor is at least 0.5, as for 1/k, and at
    most 0.75, since a single fall may be chance, and the last fall counts as at least a quarter of
    the one before.

    Parameters
    ----------
    marks : sequence of tuple of int and float
        Epochs and the smallest value until then; the first is before the first epoch.

    Examples
    --------
    >>> still_to_fall([(0, 1.5), (1, 1.0), (2, 0.5), (4, 0.25)])
    0.25
    """
    last, value = marks[-1]
    (_, first), (middle, second) = (
        marks[max(0, bisect_right(marks, (last / part, np.inf)) - 1)] for part in (4, 2)
    )
    doublings = max(1.0, math.log2(last / middle)) if middle else 1.0
    before, after = max(0.0, first - second), max(0.0, second - value) / doublings
    ratio = min(max(after / before, _FASTEST), _SLOWEST) if before > 0.0 else _SLOWEST
    return float(max(after, 0.25 * before) * ratio / (1.0 - ratio))


def loss_of_a_constant(problem: Problem) -> float:
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
    return fall > WIDE * max(0.0, loss_of_a_constant(problem) - objectives[-1])


def should_go_on(problem: Problem, gap: Gap, objectives: list[float], epochs: int) -> bool:
    """Whether a run that seems to stall is far from the optimum and still gains.

    An extrapolated gap is itself what further epochs should gain. Otherwise, as many epochs again,
    each with the fall of the last ones, have to take away a quarter of the gap; or there is so
    little data that all epochs together cost next to nothing.
    """
    if len(objectives) < 2 or not gap.is_wide:
        return False
    if not has_newton_decrement(problem):
        return True
    entries = problem.X.nnz if sparse.issparse(problem.X) else problem.X.size
    if isinstance(problem, SoftmaxProblem):
        entries *= problem.n_classes
    if epochs <= _MOST_EPOCHS and epochs * entries <= _FEW_ENTRIES:
        return True
    fall = (objectives[0] - objectives[-1]) / (len(objectives) - 1)
    return epochs * fall >= _STILL_FALLING * gap.left
