"""Sums over the rows of all blocks, each a round of the cluster, for Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.kept_sample import KeptSample
from antithetic.exact.sums import Dual, Evaluation, Vector


class BlockSums(KeptSample):
    """Sums over the rows of one problem in all blocks; each sum is one pass over the blocks.

    On one machine, :class:`antithetic.exact.row_sums.RowSums` does the same. Slopes and
    curvatures of rows stay in the tasks that need them, and are computed again for each sum. The
    parameters are those of :class:`Asking`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        common = self._common
        self.d, self.loss, self.penalty = self._census.d, common.loss, common.penalty
        self.fit_intercept, self.centre = common.fit_intercept, self._centre()

    @property
    def columns(self) -> int:
        """Length of a point."""
        return self.d + int(self.fit_intercept)

    def split(self, theta: Vector) -> tuple[Vector, float]:
        """Weights and the user's intercept."""
        if self.centre is None:
            return theta, 0.0
        return theta[:-1], float(theta[-1] - self.centre @ theta[:-1])

    def join(self, coef: Vector, intercept: float) -> Vector:
        """Weights and the user's intercept as one vector."""
        if self.centre is None:
            return np.array(coef, dtype=np.float64)
        return np.append(coef, intercept + self.centre @ coef)

    # ---- rounds

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``."""
        (hessian,) = self._ask(
            point.theta, "hessian", exact=exact, care=care, sum_bytes=8 * len(point.theta) ** 2
        )
        return self._penalised(hessian, self.d)

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some columns, and the intercept."""
        size = 8 * (len(columns) + self.fit_intercept) ** 2
        (hessian,) = self._ask(
            point.theta, "hessian_of", columns, exact=exact, care=care, sum_bytes=size
        )
        return self._penalised(hessian, len(columns))

    def _penalised(self, hessian: Vector, d: int) -> Vector:
        places = np.arange(d)
        hessian[places, places] += self.penalty.l2
        return hessian

    def dual(self, point: Evaluation) -> Dual:
        """Slopes that sum to zero where there is an intercept, near those of the point."""
        if not self.fit_intercept:
            return Dual(point.gradient - self.penalty.l2 * point.theta, 0.0)
        _, up, down = point.totals
        smaller = min(up, down)
        scales = (smaller / up if up > 0.0 else 1.0, smaller / down if down > 0.0 else 1.0)
        gradient, cost = self._ask(point.theta, "scaled_dual", *scales)
        return Dual(gradient, float(cost[0]), *scales)

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """Cost of scaling the slopes above and below zero by given factors."""
        return float(self._ask(point.theta, "dual_cost", up, down)[0][0])

    # ---- without a round, or from some rows

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column, in curvature: the mean square of its nonzero entries."""
        census, curvature = self._census, point.totals[0]
        scales = np.full(len(point.theta), curvature)
        squares = census.spreads / np.where(census.filled > 0.0, census.filled, 1.0)
        if self.centre is not None and (census.filled == 1.0).all():
            squares = np.maximum(squares - self.centre**2, 1e-6 * squares)
        scales[: self.d] = curvature * squares + self.penalty.l2
        return scales

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""
        return self._census.constant(self._common, self._problem)
