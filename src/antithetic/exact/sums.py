r"""The sums over all rows that a second-order solver needs, wherever the rows are.

A point is one vector: the weights and, with an intercept, the intercept of *centred* columns,
:math:`b' = b + \langle\mu, w\rangle`. Predictions are the same, but columns far from zero no longer
tie the intercept to every weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.penalties import Penalty

Vector = NDArray[np.float64]
Outcome = TypeVar("Outcome")


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
    slopes, curvatures : ndarray of shape (n,) or None
        Of each row, weighted; None where the rows are elsewhere.
    predictions : ndarray of shape (n,) or None
        None if the slopes hold the same information.
    totals : tuple of float
        If the rows are elsewhere or have many classes, the mean curvature, and what else later
        questions need; otherwise empty.
    """

    theta: Vector
    objective: float
    gradient: Vector
    noise: float
    slopes: Vector | None = None
    curvatures: Vector | None = None
    predictions: Vector | None = None
    totals: tuple[float, ...] = ()


def absolute_predictions(point: Evaluation, weight: Vector | None) -> Vector:
    """Absolute predictions of a logistic loss, from slopes and curvatures, without a pass.

    With the probability c of the other class, they are ``|log(1 - c) - log(c)|``; the slope is c,
    and the curvature ``c (1 - c)``. Beyond 700 they are too small, and curvatures above the loss
    too large, which is safe.
    """
    assert point.slopes is not None
    assert point.curvatures is not None
    least = np.finfo(np.float64).tiny
    slopes = np.maximum(np.abs(point.slopes), least)
    right = np.maximum(point.curvatures, least) / slopes  # 1 - c
    wrong = slopes if weight is None else slopes / np.maximum(weight, least)  # c
    return np.asarray(np.abs(np.log(right) - np.log(wrong)))


class Dual(NamedTuple):
    """Dual variables of the rows, as far as a bound on the gap needs them.

    Attributes
    ----------
    gradient : ndarray of shape (d,)
        Mean of the rows, times slopes that are allowed.
    cost : float
        Mean cost of these slopes: zero for the slopes of the point itself.
    up, down : float, default=1.0
        What slopes above and below zero were multiplied by.
    """

    gradient: Vector
    cost: float
    up: float = 1.0
    down: float = 1.0


class Sums(Protocol):
    """Rows that give sums, on this machine or on many."""

    n: int
    size: float  # rows, as many as weights make of them
    d: int  # weights that are penalised: the first of a point
    penalty: Penalty
    fit_intercept: bool
    is_single: bool  # whether the rows are float32
    most_sampled: float  # rows that a sample may have

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights: one pass over the rows."""

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives, the quadratic part of the penalty included.

        ``care`` is a share of the curvatures of parabolas above each row's loss, which rows have at
        least: with 1, the matrix is that of a quadratic function above the objective.
        """

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some columns, and the intercept."""

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: one pass over the rows."""

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector: one pass over the rows."""

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss: one pass over the rows."""

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column, in curvature."""

    def constant(self) -> tuple[float | Vector, float]:
        """Best prediction without weights, one per class if these are many, and its mean loss."""

    def near_samples(
        self, solve: Callable[[Sampled], Outcome | None], size: int, seed: int
    ) -> Outcome | None:
        """Call a function where samples of at most this many rows can be drawn.

        These are all rows if they are here; otherwise some of them are brought to one place. None
        if too few of a class are among them.
        """

    def dual(self, point: Evaluation) -> Dual:
        """Slopes that sum to zero where there is an intercept, near those of the point."""

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """What it costs to scale the slopes above and below zero by given factors."""


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


@runtime_checkable
class ClassedSums(Sums, Protocol):
    """Rows of many classes that give sums.

    A point has the weights of the first class, those of the second and so on, and then, with
    intercepts, the intercepts of centred columns. ``d`` is ``classes * features``.
    """

    classes: int
    features: int
    hessian_passes: float  # what a Hessian costs, in passes over the rows

    def whitening(self, point: Evaluation, seed: int, *, care: float = 0.0) -> Whitening:
        """What the second derivatives of all classes have in common, from a sample of the rows.

        ``care`` is the share of what is above all second derivatives, as in :meth:`hessian`.
        """

    def refined(self) -> ClassedSums | None:
        """The same rows with products of float64; None if they already are."""


class Sampled(Sums, Protocol):
    """Rows in one place, from which samples are drawn."""

    def sample(self, size: int, seed: int) -> Sampled | None:
        """Rows drawn at random; None where too few of a class are among them."""

    def rare_columns(self, point: Evaluation) -> NDArray[np.bool_]:
        """Columns that too few rows of a sample have, as a mask of shape (d,)."""
