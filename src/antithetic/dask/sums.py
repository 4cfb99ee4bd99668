"""Sums over the rows of all blocks, each a round of the cluster, for Newton's method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import SQUARED_ERROR
from antithetic.dask.asking import Asking, More
from antithetic.exact.models import MOST_COLUMNS
from antithetic.exact.row_sums import numbers_in_slopes, scaled_numbers, uncentred_diagonal
from antithetic.exact.sums import Evaluation, Restored, Vector, Visit, hessian_visits, no_step

_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


class BlockSums(Asking):
    """Sums over the rows of one problem in all blocks; each sum is one pass over the blocks.

    On one machine, :class:`antithetic.exact.row_sums.RowSums` does the same. Predictions of rows
    stay in the tasks that need them, and are computed again for each sum. The parameters are those
    of :class:`Asking`.
    """

    lengths = (1.0, 1.0 / 2.0, 1.0 / 4.0, 1.0 / 10.0, 1.0 / 30.0, 1.0 / 100.0)
    short_lengths = (1.0, 1e-3, 1e-4, 1e-5, 1e-6)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        common, census = self._common, self._census
        self.d, self.loss, self.penalty = census.d, common.loss, common.penalty
        self.fit_intercept, self.centre = common.fit_intercept, self._centre()
        self.hessian_visits = hessian_visits(census.d)
        self.is_wide = census.d > MOST_COLUMNS
        self.is_quadratic = common.loss.code == SQUARED_ERROR
        self._of_targets: list[Vector] = []  # once they are known; shared by all copies

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

    def given_back(self, theta: Vector) -> Vector:
        """Weights as the user gets them: of the float type of the rows."""
        coef, intercept = self.split(theta)
        kind = np.float32 if self.is_single else np.float64
        return self.join(coef.astype(kind), float(kind(intercept)))

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""
        return self._census.constant(self._common, self._problem)

    def regauged(self, point: Evaluation) -> Evaluation:
        """Return the point itself: no other one has the same predictions."""
        return point

    def refined(self) -> None:
        """Return None: products are those of float64."""

    def rounding(self, point: Evaluation) -> float:
        """Estimate the rounding error of the objective, generously."""
        coef, intercept = self.split(point.theta)
        offset = abs(intercept)
        if self.centre is not None:
            offset += float(np.abs(coef) @ np.abs(self.centre))
        _, up, down = point.totals
        return _ROUNDING * (abs(point.objective) + (up + down) * offset)

    # ---- visits

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights; the first time, also sums over the targets."""
        asks = not self._of_targets
        means, gradient, (curved, *others) = self._ask(theta, "at", asks, sum_bytes=24 * len(theta))
        if asks:
            self._of_targets.append(others[0])
        return self._evaluation(theta, means, gradient, curved)

    def _evaluation(
        self, theta: Vector, means: Vector, gradient: Vector, curved: Vector | None
    ) -> Evaluation:
        loss, square, curvature, up, down = means.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        gradient = gradient.copy()
        gradient[: self.d] += l2 * coef
        objective = loss + 0.5 * l2 * float(coef @ coef)
        noise = square / curvature if curvature > 0.0 else 0.0
        return Evaluation(
            theta, objective, gradient, noise, totals=(curvature, up, down), curved=curved
        )

    def visit(self, point: Evaluation, step: Vector, lengths: tuple[float, ...]) -> Visit:
        """Visit the rows at some lengths of a step: one round.

        If the intercept's gradient is expected not to be zero at the end, it also finds the cost of
        the slopes that make up for it: that of a point of the dual problem.
        """
        shift: float | None = None if self.fit_intercept else 0.0
        curved = point.curved
        if self.fit_intercept and curved is not None and curved[-1] > 0.0:
            shift = -float(point.gradient[-1] + curved @ step) / float(curved[-1])
        is_wanted = self.fit_intercept and curved is None
        means, gradients, expected, (square, above, cost), others = self._ask(
            point.theta,
            "after",
            step,
            lengths,
            shift,
            is_wanted,
            sum_bytes=8 * (len(lengths) + 4) * len(step),
        )
        others = list(others)
        at_end = others.pop(0)
        points, losses = {}, {}
        for number, length in enumerate(lengths):
            points[length] = self._evaluation(
                point.theta + length * step,
                means[number],
                gradients[number],
                at_end if length == 1.0 else None,
            )
            losses[length] = float(means[number, 0]), float(gradients[number] @ step)
        curved = others.pop(0) if is_wanted else curved
        upward = others.pop(0) if others else None
        more = More(points, losses, float(above), shift or 0.0, float(cost), curved, upward)
        return Visit(points[1.0], step, expected, float(square), lengths, more)

    def stay(self, point: Evaluation) -> Visit:
        """Return the visit of a step of length zero: a round, if there is an intercept."""
        if self.fit_intercept:
            return self.visit(point, np.zeros(len(point.theta)), (1.0,))
        visit = no_step(self.d, self.penalty, point)
        return visit._replace(more=More({}, {}, 0.0, cost=0.0))

    # ---- second derivatives

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``."""
        (hessian,) = self._ask(
            point.theta,
            "hessian",
            exact=exact,
            damping=damping,
            sum_bytes=8 * len(point.theta) ** 2,
        )
        return self._penalised(hessian, self.d)

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        damping: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some columns, and the intercept."""
        size = 8 * (len(columns) + self.fit_intercept) ** 2
        (hessian,) = self._ask(
            point.theta, "hessian_of", columns, exact=exact, damping=damping, sum_bytes=size
        )
        return self._penalised(hessian, len(columns))

    def rounded_diagonal(self, hessian: Vector) -> Vector:
        """Diagonal of the sums of products that an exact Hessian was rounded in."""
        return uncentred_diagonal(self, hessian, is_sparse=self._census.is_sparse)

    def _penalised(self, hessian: Vector, d: int) -> Vector:
        places = np.arange(d)
        hessian[places, places] += self.penalty.l2
        return hessian

    # ---- the dual problem

    def dual_points(self, point: Evaluation, visit: Visit) -> Iterator[Restored]:  # noqa: ARG002
        """Yield slopes near those that a step expects, the best first.

        They sum to zero if there is an intercept. The first may have an infinite cost.
        """
        assert visit.expected is not None
        gradient, more = visit.expected[: self.d], visit.more
        if not self.fit_intercept:
            yield Restored(gradient, {"shift": 0.0})
            return
        surplus, curved = float(visit.expected[-1]), more.curved
        if curved[-1] > 0.0:
            # if no slope had to be cut, the surplus was known before the visit
            shift = more.shift if more.cost < np.inf else -surplus / float(curved[-1])
            yield Restored(gradient + shift * curved[: self.d], {"shift": shift})
        sided = numbers_in_slopes(self, 1 if surplus > 0.0 else -1)
        if sided is not None:
            yield from scaled_numbers(gradient, surplus, *sided)
            return
        up = float(more.upward[-1])
        down = up - surplus
        smaller = min(up, down)
        scales = smaller / up if up > 0.0 else 1.0, smaller / down if down > 0.0 else 1.0
        upward = more.upward[: self.d]
        moved = scales[0] * upward + scales[1] * (gradient - upward)
        yield Restored(moved, {"up": scales[0], "down": scales[1]})

    def restored_cost(
        self, point: Evaluation, visit: Visit, restored: Restored, kept: float = 1.0
    ) -> float:
        """Mean cost of a dual point, and of all of its slopes times a factor.

        It takes a round of its own, unless the visit has brought it.
        """
        more = visit.more
        if kept == 1.0 and restored.how == {"shift": more.shift} and more.cost < np.inf:
            cost: float = more.cost
            return cost
        return float(self._ask(point.theta, "restored_cost", visit.step, restored.how, kept)[0][0])

    @property
    def shares(self) -> tuple[float, float]:
        """Means of the weights, and of these times targets above zero."""
        return self.seen.weight / self.n, float(self._of_targets[0][-1])

    @property
    def of_positive(self) -> Vector:
        """Mean of centred rows, times their target if it is positive."""
        return self._of_targets[0][: self.d]

    @property
    def of_all(self) -> Vector:
        """Mean of the rows, of centred columns: zero."""
        return np.zeros(self.d)
