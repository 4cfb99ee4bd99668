"""Sums over the rows of many classes in all blocks, each a round of the cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.asking import Asking, More
from antithetic.exact.class_sums import (
    ClassPoints,
    are_far,
    hessian_passes,
    penalised,
)
from antithetic.exact.sums import Evaluation, Restored, Vector, Visit, Whitening
from antithetic.problem.columns import joined

FEW_WEIGHTS = 160  # whose matrix of second derivatives costs less than products with it
_BYTES_OF_SCORES = 8.0  # and of slopes: that a row of a sample takes for each class


class ClassBlockSums(Asking, ClassPoints):
    """Sums over the rows of many classes in all blocks; each sum is one pass over the blocks.

    On one machine, :class:`antithetic.exact.class_sums.ClassSums` does the same. The parameters
    are those of :class:`Asking`.
    """

    is_quadratic = False
    lengths = (1.0, 1.0 / 4.0, 1.0 / 30.0)
    short_lengths = (1.0, 1e-3, 1e-5)

    def __init__(self, *given: Any) -> None:
        Asking.__init__(self, *given)
        census, common = self._census, self._common
        classes = census.counts.shape[1]
        ClassPoints.__init__(self, classes, census.d, common.penalty, self._centre())
        moments = joined([one for _, one in census.columns])
        is_single = self.is_single and not are_far(moments.mean, np.sqrt(moments.variance))
        self.kind = np.float32 if is_single else np.float64
        self.hessian_visits = hessian_passes(self.d, self.n)
        self.is_wide = self.d > FEW_WEIGHTS
        row_bytes = max(1.0, census.row_bytes)
        self.most_sampled *= row_bytes / (row_bytes + 2.0 * _BYTES_OF_SCORES * classes)
        self._means: list[Vector] = []  # of the classes, once they are known; shared by all copies

    def refined(self) -> Self | None:
        """Return the same rows with products of float64; None if they are so already."""
        if self.kind == np.float64:
            return None
        other = copy.copy(self)
        other.kind = np.float64
        return other

    # ---- visits

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights; the first time, also the means of the classes."""
        asks = not self._means and self.fit_intercept
        means, gradient, *others = self._ask(theta, "at", asks, sum_bytes=16 * len(theta))
        if asks:
            self._means.append(others[0])
        return self._evaluation(theta, means, gradient)

    def _evaluation(self, theta: Vector, means: Vector, gradient: Vector) -> Evaluation:
        loss, square, curvature = means.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        gradient = gradient.copy()
        gradient[: self.d] += l2 * coef
        objective = loss + 0.5 * l2 * float(coef @ coef)
        noise = square / curvature if curvature > 0.0 else 0.0
        return Evaluation(theta, objective, gradient, noise, totals=(curvature,))

    def visit(self, point: Evaluation, step: Vector, lengths: tuple[float, ...]) -> Visit:
        """Visit the rows at some lengths of a step: one round."""
        size = 8 * (len(lengths) + 1) * len(step)
        means, gradients, expected, (square, above) = self._ask(
            point.theta, "after", step, lengths, sum_bytes=size
        )
        points = {
            length: self._evaluation(point.theta + length * step, means[k], gradients[k])
            for k, length in enumerate(lengths)
        }
        losses = {
            length: (float(means[k, 0]), float(gradients[k] @ step))
            for k, length in enumerate(lengths)
        }
        return Visit(
            points[1.0], step, expected, float(square), lengths, More(points, losses, float(above))
        )

    # ---- second derivatives

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``."""
        return self.hessian_of(point, np.arange(self.d), exact=exact, damping=damping)

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        damping: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some weights, and the intercepts."""
        size = len(columns) + self.columns - self.d
        (found,) = self._ask(
            point.theta,
            "data_hessian",
            columns,
            exact=exact,
            damping=damping,
            sum_bytes=8 * size**2,
        )
        return penalised(self, found, columns)

    def rounded_diagonal(self, hessian: Vector) -> Vector:
        """Diagonal of the sums of products that an exact Hessian was rounded in: its own."""
        return hessian.diagonal()

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the matrix of second derivatives with a vector."""
        return self.products(point.theta)(vector)

    def products(self, theta: Vector, damping: float = 0.0) -> Callable[[Vector], Vector]:
        """Products of the Hessian with vectors, each a round."""

        def times(vector: Vector) -> Vector:
            product: Vector = self._ask(theta, "product", vector, damping)[0]
            product[: self.d] += self.penalty.l2 * vector[: self.d]
            return product

        return times

    def whitening(self, point: Evaluation, *, damping: float = 0.0) -> Whitening:
        """What the second derivatives of all classes have in common, from a sample: a round."""
        (sample,) = self.samples([min(self.n, self.most_sampled)], 0)
        found: Whitening = sample.sums.whitening(point, damping=damping)
        return found

    # ---- the dual problem

    def shares(self) -> Vector:
        """Weight of each class, as a share of n."""
        return self.seen.counts / self.n

    def class_means(self) -> Vector:
        """Mean of the rows of each class, of centred columns, as a share of all rows."""
        return self._means[0].reshape(self.classes, self.features)

    def restored_cost(
        self, point: Evaluation, visit: Visit, restored: Restored, kept: float = 1.0
    ) -> float:
        """Mean cost of a dual point, and of all of its slopes times a factor: a round."""
        asked = self._ask(point.theta, "restored_cost", visit.step, restored.how, kept)
        return float(asked[0][0])
