"""Points of many classes: one vector that holds the weights and the intercepts of all of them."""

from __future__ import annotations

import numpy as np

from antithetic.exact.sums import Vector
from antithetic.problem.penalties import Penalty


class ClassPoints:
    """The meaning of a point with many classes, independent of where the rows are.

    A point is one vector: the weights of the first class, those of the second and so on, and then,
    with intercepts, the intercepts of *centred* columns.

    Parameters
    ----------
    classes, features : int
    penalty : Penalty
    centre : ndarray of shape (features,) or None
        What is subtracted from each column; None without intercepts.
    """

    def __init__(
        self, classes: int, features: int, penalty: Penalty, centre: Vector | None
    ) -> None:
        self.classes, self.features, self.penalty, self.centre = classes, features, penalty, centre
        self.d = classes * features
        self.fit_intercept = centre is not None
        self.hessian_passes = 1.0 + self.d / 8.0

    @property
    def columns(self) -> int:
        """Length of a point."""
        return self.d + self.classes * int(self.fit_intercept)

    def _centred(self, theta: Vector) -> tuple[Vector, Vector]:
        """Weights, shape (classes, features), and intercepts of centred columns."""
        coef = theta[: self.d].reshape(self.classes, self.features)
        return coef, theta[self.d :] if self.fit_intercept else np.zeros(self.classes)

    def split(self, theta: Vector) -> tuple[Vector, Vector]:
        """Weights, shape (classes, features), and the user's intercepts."""
        coef, intercepts = self._centred(theta)
        return coef, intercepts if self.centre is None else intercepts - coef @ self.centre

    def join(self, coef: Vector, intercepts: Vector) -> Vector:
        """Point of some weights and the user's intercepts."""
        if self.centre is None:
            return np.array(coef, dtype=np.float64).ravel()
        return np.concatenate([np.ravel(coef), intercepts + coef @ self.centre])

    def in_gauge(self, theta: Vector) -> Vector:
        """The same predictions, by numbers that sum to zero over classes.

        These are the intercepts and, where that makes no penalty larger, the weights.
        """
        coef, intercepts = self._centred(theta)
        if self.penalty.l1 == 0.0:
            coef = coef - coef.mean(axis=0)
        parts = [coef.ravel(), intercepts - intercepts.mean()]
        return np.concatenate(parts[: 1 + self.fit_intercept])
