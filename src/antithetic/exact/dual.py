"""Coordinate ascent on the dual, and weights to begin with if columns are many and rows few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic._core.losses import DUAL_STEPS, HINGE, SQUARED_ERROR, SQUARED_HINGE
from antithetic.exact.optimality import dual_objective, mean_row
from antithetic.problem import Problem
from antithetic.problem.smoothness import squared_norms

# share of the rows that moved in an epoch, up to which a reference is worth its pass over the data
_FEW = 0.1
_WASTE = 1.0  # visits that changed nothing, per row, after which a new reference is
_ROUNDING = 1e4  # what sums may have lost, in units of the last place
_EPOCHS, _MOST_EPOCHS = 10, 100
_WORTH = 10  # epochs to come: if more are expected, Newton's steps cost less
_SHARE = 0.25  # of the gap that is allowed: how far the dual may be from its own optimum


class Resting(NamedTuple):
    r"""Rows with hinge losses whose dual variable is at a bound and would stay there.

    A margin differs from that at a reference v by at most :math:`|x_i| |w - v|`. So while the
    distance of the weights from v is less than ``limits[i]``, a visit of row i would change
    nothing, and is left out: the result is the same, bit for bit. ``signed`` is the
    margin at v minus 1, divided by :math:`|x_i|`; ``wasted`` counts the visits since the reference
    was taken that changed nothing.
    """

    reference: NDArray[Any]
    signed: NDArray[np.float64]
    limits: NDArray[np.float64]
    wasted: int


class Duals(NamedTuple):
    """The dual variable of each row, and which rows can be skipped for now."""

    values: NDArray[np.float64]
    resting: Resting | None = None


class Ascended(NamedTuple):
    """Weights and dual variables after an epoch, and the sum of the losses that it met."""

    coef: NDArray[Any]
    duals: Duals
    met: float


@dataclass(frozen=True, slots=True, eq=False)
class DualAscent:
    r"""Maximise the dual of a problem with an L2 penalty over one variable at a time.

    Each row has a dual variable :math:`a_i`, and the weights are :math:`w(a) = \frac{1}{l_2 n}
    \sum_i a_i x_i`. A visit replaces :math:`a_i` by the maximiser of :math:`-s_i \phi^*(-a_i /
    s_i) - \frac{l_2 n}{2} |w(a)|^2` over it, and costs as much as a step of SGD.

    Attributes
    ----------
    problem : Problem
    squares : ndarray of shape (n,)
        Squared norms of the rows.
    """

    problem: Problem
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, problem: Problem) -> DualAscent:
        """Return the ascent for a problem.

        Raises
        ------
        ValueError
            If the squares of the rows overflow.
        """
        squares, heaviest = squared_norms(problem), 1.0
        if problem.weight is not None:
            squares = np.where(problem.weight > 0.0, squares, 0.0)  # others may hold anything
            heaviest = max(1.0, float(problem.weight.max()))
        size = problem.penalty.l2 * problem.n
        with np.errstate(over="ignore"):
            longest = float(np.max(squares, initial=0.0)) / size * heaviest * 4.0
        if not np.isfinite(longest):
            raise ValueError(
                'solver="sdca": the squared norm of a row, divided by l2 * n, overflows; scale the'
                " rows, or use a larger l2"
            )
        return cls(problem, squares)

    @property
    def share(self) -> float:
        """What a dual variable of 1 adds to the weights, in units of its row."""
        return 1.0 / (self.problem.penalty.l2 * self.problem.n)

    def epoch(
        self, order: NDArray[np.intp], coef: NDArray[Any], duals: Duals, *, watch: bool = False
    ) -> Ascended:
        """Visit rows in an order; with ``watch``, sum up their losses."""
        code, visits = self.problem.loss.code, len(order)
        after, values, resting = coef.copy(), duals.values.copy(), self._rest(duals, coef)
        gone, least = 0.0, 0.0
        if len(resting.limits):
            apart = coef.astype(np.float64) - resting.reference
            least = _ROUNDING * float(np.finfo(coef.dtype).eps) * float(coef @ coef)
            gone = max(least, float(apart @ apart))
        limits = resting.limits.copy()  # which the kernel changes
        met, seen, moved = self.problem.rows.dual_epoch(
            self.problem.targets,
            order,
            self.squares,
            code,
            self.share,
            watch,
            gone,
            least,
            after,
            values,
            resting.signed,
            limits,
        )
        rests = code in (HINGE, SQUARED_HINGE) and not watch and moved <= _FEW * visits
        kept = resting._replace(limits=limits, wasted=resting.wasted + seen - moved)
        return Ascended(after, Duals(values, kept if rests else None), met)

    def _rest(self, duals: Duals, coef: NDArray[Any]) -> Resting:
        """What is known about the skipped rows, from a new reference if the old one is used up."""
        n, resting, nothing = self.problem.n, duals.resting, np.empty(0)
        if resting is None:
            return Resting(nothing, nothing, nothing, n)
        if resting.wasted <= _WASTE * n:
            return resting
        signed, limits, predictions = np.empty(n), np.empty(n), self.problem.predictions(coef)
        kernels.rest_limits(
            self.problem.loss.code,
            self.problem.targets,
            self.squares,
            duals.values,
            predictions,
            signed,
            limits,
        )
        return Resting(coef.copy(), signed, limits, 0)

    def allowed(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring dual variables back to where the conjugate is finite.

        An earlier run may have had other labels and weights.
        """
        code, y = self.problem.loss.code, self.problem.y
        weight = np.ones(self.problem.n) if self.problem.weight is None else self.problem.weight
        if code == SQUARED_ERROR:
            return np.where(weight > 0.0, duals, 0.0)
        most = np.where(weight > 0.0, np.inf, 0.0) if code == SQUARED_HINGE else weight
        return y * np.clip(y * duals, 0.0, most)

    def weights_of(self, duals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights that belong to dual variables, in float64."""
        return mean_row(self.problem, duals) / self.problem.penalty.l2


class DualStart(NamedTuple):
    """Weights of dual variables, and the lower bound on the minimum that the dual gives."""

    coef: NDArray[np.float64]
    least: float
    epochs: int


def dual_start(
    problem: Problem, seed: int, max_iter: int, allowed: Callable[[float], float]
) -> DualStart | None:
    """Weights after some epochs of dual ascent, without an intercept.

    On most texts the gap is small enough after a few epochs, and nothing is left to do. Where the
    ascent is slow, it ends after ten. With an intercept the dual gives no bound: ``least`` is then
    minus infinity. None where the ascent does not apply: rows must be sparse and fewer than
    columns, the penalty L2, and the loss one with a dual step.

    Parameters
    ----------
    problem : Problem
    seed : int
        Of the orders of the rows.
    max_iter : int
        Most epochs.
    allowed : callable
        Gives the gap at which a run ends, from the objective.
    """
    penalty = problem.penalty
    is_wide = sparse.issparse(problem.X) and problem.d > problem.n
    if max_iter < 1 or not is_wide:
        return None
    if penalty.l2 <= 0.0 or penalty.l1 > 0.0 or problem.loss.code not in DUAL_STEPS:
        return None
    try:
        ascent = DualAscent.of(problem)
    except ValueError:  # squares overflow
        return None
    start = _ascend(ascent, seed, max_iter, allowed)
    return start._replace(least=-np.inf) if problem.fit_intercept else start


def _ascend(
    ascent: DualAscent, seed: int, max_iter: int, allowed: Callable[[float], float]
) -> DualStart:
    """Epochs until the gap is small enough, or for as long as that can be expected."""
    problem, rng = ascent.problem, np.random.default_rng(seed)
    coef, duals = np.zeros(problem.d, problem.X.dtype), Duals(np.zeros(problem.n))
    values, next_look = [dual_objective(problem, duals.values, coef)], 0.0
    most = min(max_iter, _EPOCHS if problem.fit_intercept else _MOST_EPOCHS)
    for epoch in range(1, most + 1):
        coef, duals, _ = ascent.epoch(rng.permutation(problem.n), coef, duals)
        value = dual_objective(problem, duals.values, coef)
        values.append(value)
        ratio, left = _outlook(np.diff(values))
        enough = allowed(value)
        there = max(epoch + _epochs_between(left, _SHARE * enough, ratio), next_look)
        if there <= epoch:
            gap = problem.objective(coef, 0.0) - value
            if gap <= enough or left == 0.0:
                break
            next_look = there = epoch + _epochs_between(gap, enough, ratio)
        if epoch >= _EPOCHS and there > epoch + _WORTH:
            break
    if problem.X.dtype != np.float64:  # the sum has lost digits on the way
        coef = ascent.weights_of(duals.values)
        value = dual_objective(problem, duals.values, coef)
    return DualStart(coef.astype(np.float64), value, epoch)


def _outlook(gains: NDArray[np.float64]) -> tuple[float, float]:
    """By what factor gains fall per epoch, and what is left to gain if they go on like that.

    Examples
    --------
    >>> _outlook(np.array([1.0, 0.5])), _outlook(np.array([1.0, -1e-18, 1e-3, 1e-4]))
    ((0.5, 0.5), (0.0, 0.0))
    """
    last, past = float(gains[-1]), len(gains) // 2  # epochs that the rate is taken from
    before = float(gains[-1 - past])
    if last <= 0.0 or before <= 0.0:  # rounding
        return 0.0, 0.0
    ratio = (last / before) ** (1.0 / past) if past else 1.0
    return (ratio, last * ratio / (1.0 - ratio)) if 0.0 < ratio < 1.0 else (1.0, np.inf)


def _epochs_between(now: float, then: float, ratio: float) -> float:
    """Epochs until a number has fallen, by the same ratio in each.

    Examples
    --------
    >>> _epochs_between(1.0, 0.1, 0.5), _epochs_between(1.0, 2.0, 0.5)
    (4.0, 0.0)
    """
    if now <= then:
        return 0.0
    return float(np.ceil(np.log(then / now) / np.log(ratio))) if 0.0 < ratio < 1.0 else np.inf
