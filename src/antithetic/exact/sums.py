r"""The sums over all rows that a second-order solver needs, wherever the rows are.

A point is one vector: the weights and, with an intercept, the intercept of *centred* columns,
:math:`b' = b + \langle\mu, w\rangle`. Predictions are the same, but columns far from zero no longer
tie the intercept to every weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.loss import Loss
from antithetic.problem.penalties import Penalty

if TYPE_CHECKING:
    from antithetic.exact.linear_algebra import Inverse

Vector = NDArray[np.float64]
_UNIT = 0.5 * float(np.finfo(np.float64).eps)


def diagonal_of(matrix: Vector) -> Vector:
    """Diagonal of a contiguous matrix, to be changed in place."""
    return matrix.ravel(order="K")[:: len(matrix) + 1]  # a view, by rows or by columns


class Evaluation(NamedTuple):
    """The objective and its derivatives at some weights.

    Attributes
    ----------
    theta : ndarray of shape (d,) or (d + 1,)
        Weights, then the intercept of centred columns if there is one.
    objective : float
        Mean loss and the quadratic part of the penalty.
    gradient : ndarray of the shape of ``theta``
    noise : float
        Mean squared slope divided by mean curvature: how much the optimum of a sample varies.
    scores : ndarray of shape (n,) or (n, classes), or None
        Predictions of the rows; None if these are elsewhere.
    totals : tuple of float
        If the rows are elsewhere or have many classes, the mean curvature, and what else later
        questions need; otherwise empty.
    curved : ndarray of the shape of ``theta``, or None
        If the rows are elsewhere, their mean, of centred columns and followed by 1 if there is an
        intercept, times the curvatures; None if it is not known.
    """

    theta: Vector
    objective: float
    gradient: Vector
    noise: float
    scores: Any = None
    totals: tuple[float, ...] = ()
    curved: Vector | None = None


class Visit(NamedTuple):
    """What a visit to all rows at the end of a step has found.

    Attributes
    ----------
    after : Evaluation
        The end of the step.
    step : ndarray of the shape of ``after.theta``
    expected : ndarray of the same shape, or None if the step was not Newton's
        Mean of the rows, of centred columns and followed by 1 if there is an intercept, times the
        slopes that the quadratic model at the start expects, cut to what the loss allows.
    square : float
        Mean product of curvatures and squared changes of the predictions.
    lengths : tuple of float, default=()
        Of the step, at which the objective is known; empty if it is known at all of them.
    more : object
        What else the visit has brought, if the rows are elsewhere.
    """

    after: Evaluation
    step: Vector
    expected: Any
    square: float
    lengths: tuple[float, ...] = ()
    more: Any = None


class Leverage(NamedTuple):
    """What a pass over the rows in float64 tells of a triangle T with ``T' T`` near an inverse.

    Rows are those of centred columns, followed by 1 if there is an intercept.

    Attributes
    ----------
    largest : float
        Of ``|T x_i|^2`` over the rows that count; of many classes, of the difference of two classes
        in its place.
    gradient : ndarray of the shape of a point
        Of the mean loss.
    rounding : ndarray of the same shape
        What rounding has changed in each entry of the gradient at most.
    of_scores : float
        What rounding has changed in a prediction at most.
    pearson : float
        Mean of the squared residuals in units of the variance function; 0 for many classes.
    """

    largest: float
    gradient: Vector
    rounding: Vector
    of_scores: float
    pearson: float

    @classmethod
    def join(cls, parts: Sequence[Leverage], shares: Sequence[float]) -> Leverage:
        """Return that of all rows from those of parts, which are these shares of the rows."""

        def mean(name: str) -> Any:
            return sum(s * getattr(part, name) for part, s in zip(parts, shares, strict=True))

        return cls(
            max(part.largest for part in parts),
            mean("gradient"),
            (1.0 + rounding_of(len(parts))) * mean("rounding")
            + rounding_of(len(parts)) * sum(np.abs(part.gradient) for part in parts),
            max(part.of_scores for part in parts),
            mean("pearson"),
        )


def rounding_of(many: float) -> float:
    """Bound on the relative rounding error of a sum of so many numbers, or products of two."""
    share = (many + 8.0) * _UNIT  # and of what is added up, a few roundings each
    return share / (1.0 - share) if share < 1.0 else np.inf


def no_step(d: int, penalty: Penalty, point: Evaluation) -> Visit:
    """Return the visit of a step of length zero, which expects the slopes of the point."""
    expected = point.gradient.copy()
    expected[:d] -= penalty.l2 * point.theta[:d]
    return Visit(point, np.zeros(len(expected)), expected, 0.0)


def left_of(
    d: int, penalty: Penalty, theta: Vector, expected: Vector
) -> tuple[Vector, NDArray[np.intp]]:
    """Return what is left of the gradient if slopes are those expected, and columns with a part.

    A weight that is zero has none if its slope is no more than the L1 penalty, nor ever gets one.
    """
    left, coef = expected.copy(), theta[:d]
    is_used = np.ones(len(left), dtype=bool)
    left[:d] += penalty.l2 * coef
    if penalty.l1 > 0.0:
        signs = np.where(coef != 0.0, np.sign(coef), -np.sign(expected[:d]))
        is_used[:d] = (coef != 0.0) | (np.abs(expected[:d]) > penalty.l1)
        left[:d] = np.where(is_used[:d], left[:d] + penalty.l1 * signs, 0.0)
    return left, np.flatnonzero(is_used)


def line_of(
    d: int,
    penalty: Penalty,
    point: Evaluation,
    visit: Visit,
    loss: Callable[[float], tuple[float, float]],
) -> Callable[[float], tuple[float, float]]:
    """Return what gives the objective and its slope some way along a step, without a visit.

    Parameters
    ----------
    d : int
        Weights that are penalised: the first of a point.
    penalty : Penalty
    point : Evaluation
        Start of the step.
    visit : Visit
    loss : callable
        Gives the mean loss and its slope, at a length.
    """
    l1, l2 = penalty.l1, penalty.l2
    coef, along = point.theta[:d], visit.step[:d]

    def at(length: float) -> tuple[float, float]:
        if length == 1.0:
            objective, slope = visit.after.objective, float(visit.after.gradient @ visit.step)
        else:
            objective, slope = loss(length)
            weights = coef + length * along
            objective += 0.5 * l2 * float(weights @ weights)
            slope += l2 * float(weights @ along)
        if l1:
            weights = coef + length * along
            signs = np.where(weights != 0.0, np.sign(weights), np.sign(along))
            objective += l1 * float(np.abs(weights).sum())
            slope += l1 * float(signs @ along)
        return objective, slope

    return at


def hessian_visits(d: int) -> float:
    """Return what a Hessian of d columns costs, in visits to the rows."""
    return 1.0 + d / 80.0


class Restored(NamedTuple):
    """A point of the dual problem near the slopes that a step's model expects.

    Attributes
    ----------
    gradient : ndarray of shape (d,)
        Mean of the rows times these slopes, whose own mean is zero if there is an intercept.
    how : object
        What tells its cost: see ``Sums.restored_cost``.
    """

    gradient: Vector
    how: Any


class Sample(Protocol):
    """Some of the rows, drawn by importance."""

    @property
    def n(self) -> int:
        """Number of its rows."""

    @property
    def sums(self) -> Any:
        """Sums over its rows, with weights that make its means those of all rows."""

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Return its matrix of second derivatives at a point of all rows."""

    def inverse(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Inverse:
        """Return the inverse of that matrix."""

    def with_penalty(self, penalty: Penalty) -> Sample:
        """Return the same rows with another penalty."""

    def larger(self) -> Sample | None:
        """Return a sample of twice as many rows; None if all rows cost little more."""

    def tightened(self, point: Evaluation, visit: Visit) -> Iterator[Visit]:
        """Yield visits whose expected slopes, changed in these rows, prove more and more."""


def effective_rows(n: int, weight: Vector | None) -> float:
    """Number of rows of equal weight that would carry as much information."""
    if weight is None:
        return float(n)
    largest = float(weight.max(initial=0.0))
    if not largest > 0.0:
        return 1.0
    shares = weight / largest  # whose squares cannot overflow
    return float(shares.sum()) ** 2 / float(shares @ shares)


class Sums(Protocol):
    """Rows that give sums, on this machine or on many.

    Sums are means over the rows, with the quadratic part of the penalty where it belongs.
    """

    n: int
    size: float  # rows, as many as weights make of them
    d: int  # weights that are penalised: the first of a point
    penalty: Penalty
    fit_intercept: bool
    is_single: bool  # whether the rows are float32
    loss: Loss

    @property
    def hessian_visits(self) -> float:
        """What a Hessian of all rows costs, in visits to them."""

    def with_penalty(self, penalty: Penalty) -> Any:
        """Return the same rows with another penalty."""

    def split(self, theta: Vector) -> tuple[Vector, Any]:
        """Return weights and the user's intercept, or intercepts if classes are many."""

    def join(self, coef: Vector, intercept: Any) -> Vector:
        """Return a point from weights and the user's intercept."""

    def given_back(self, theta: Vector) -> Vector:
        """Return a point as the user gets it: rounded to the rows' type."""

    def constant(self) -> tuple[Any, float]:
        """Best prediction without weights, one per class if these are many, and its mean loss."""

    def at(self, theta: Vector) -> Evaluation:
        """Visit the rows at a point."""

    def after(self, point: Evaluation, step: Vector) -> Visit:
        """Visit the rows at the end of a step."""

    def stay(self, point: Evaluation) -> Visit:
        """Return the visit of a step of length zero, which expects the slopes of the point."""

    def line(self, point: Evaluation, visit: Visit) -> Callable[[float], tuple[float, float]]:
        """Return what gives the objective and its slope some way along a step, without a visit.

        The L1 part of the penalty is included.
        """

    def between(self, point: Evaluation, visit: Visit, length: float) -> Evaluation:
        """Evaluate a point some way along a step."""

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Matrix of second derivatives; by products of float32 unless it is to be exact.

        ``damping`` is a share of the curvatures of parabolas above each row's loss, which rows have
        at least: with 1, the matrix is that of a quadratic function above the objective.
        """

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        damping: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some columns, and the intercept."""

    def rounded_diagonal(self, hessian: Vector) -> Vector:
        """Diagonal of the sums of products that an exact Hessian was rounded in."""

    def largest_leverage(self, point: Evaluation, root: Vector) -> Leverage:
        """Visit the rows in float64, with a lower triangle whose square is near an inverse."""

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss."""

    def dual_points(self, point: Evaluation, visit: Visit) -> Iterator[Restored]:
        """Yield slopes near those that a step expects, the best first.

        They sum to zero if there is an intercept. The first may have an infinite cost.
        """

    def restored_cost(
        self, point: Evaluation, visit: Visit, restored: Restored, kept: float = 1.0
    ) -> float:
        """Mean cost of such slopes, all of them times a factor."""

    def regauged(self, point: Evaluation) -> Evaluation:
        """Return the point of the least penalty among those with the same predictions."""

    def refined(self) -> Any:
        """Return the same rows with products of float64; None if they are so already."""

    def rounding(self, point: Evaluation) -> float:
        """Estimate the rounding error of the objective, generously."""

    def samples(self, sizes: Sequence[float], seed: int) -> Sequence[Sample]:
        """Draw samples of about these many rows by importance, each a part of the next."""


class SumsHere(Sums, Protocol):
    """Rows that are here, so that products of their Hessian with vectors cost little."""

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector."""

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column, in curvature."""


class Whitening(NamedTuple):
    """What the second derivatives of many classes have in common.

    Attributes
    ----------
    products : ndarray of shape (features, features) or (features,)
        Mean of the products of centred rows, each times the mean of ``p (1 - p)`` over its classes;
        of very many columns the diagonal alone.
    shares : ndarray of shape (classes,)
        Mean of ``p (1 - p)`` of each class, in units of the mean over classes.
    mean : float
        That mean.
    """

    products: Vector
    shares: Vector
    mean: float
