r"""What a second-order solver asks of the rows, wherever they are: sums over all of them.

A point is one vector: the weights and, with an intercept, the intercept of *centred* columns,
:math:`b' = b + \langle\mu, w\rangle`. Predictions are the same, but columns far from zero no longer
tie the intercept to every weight.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from antithetic.problem.losses import Loss
from antithetic.problem.penalties import Penalty

Vector = NDArray[np.float64]


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
        Mean squared slope divided by mean curvature: what a sample's optimum differs by.
    slopes, curvatures : ndarray of shape (n,) or None
        Of each row, weighted; None where the rows are elsewhere.
    predictions : ndarray of shape (n,) or None
        None where the slopes say as much.
    """

    theta: Vector
    objective: float
    gradient: Vector
    noise: float
    slopes: Vector | None = None
    curvatures: Vector | None = None
    predictions: Vector | None = None


class Dual(NamedTuple):
    """Dual variables of the rows, as far as a bound on the gap needs them.

    Attributes
    ----------
    gradient : ndarray of shape (d,)
        Mean of the rows, times slopes that are allowed.
    cost : float
        Mean of what these slopes lack: zero for the slopes of the point itself.
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
    d: int
    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    is_single: bool  # whether the rows are float32

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

    def rare_columns(self, point: Evaluation) -> NDArray[np.bool_]:
        """Columns of which a sample knows too little, as a mask of shape (d,)."""

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`: one pass over the rows."""

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector: one pass over the rows."""

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss: one pass over the rows."""

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column, in curvature."""

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""

    def sample(self, size: int, seed: int) -> Sums | None:
        """Rows drawn at random; None where too few of a class are among them."""

    def dual(self, point: Evaluation) -> Dual:
        """Slopes that sum to zero where there is an intercept, near those of the point."""

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """What it costs to scale the slopes above and below zero by so much."""
