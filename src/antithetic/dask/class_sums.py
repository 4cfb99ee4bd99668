"""Sums over the rows of many classes in all blocks, each a round of the cluster."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.kept_sample import KeptSample
from antithetic.exact.class_hessians import penalised
from antithetic.exact.class_points import ClassPoints
from antithetic.exact.class_rows import are_far
from antithetic.exact.class_shares import best_constants, move_chances, move_gradient
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.sums import Dual, Evaluation, Vector, Whitening
from antithetic.solvers.newton.choice import is_solved_by_sample
from antithetic.solvers.newton.multinomial import solve_sample
from antithetic.solvers.newton.sampled import MOST_CHANCES

_ROWS_PER_WEIGHT = 7.0  # of the sample that is kept: more would not save rounds


class ClassBlockSums(KeptSample, ClassPoints):
    """Sums over the rows of many classes in all blocks; each sum is one pass over the blocks.

    On one machine, :class:`antithetic.exact.class_sums.ClassSums` does the same. The parameters
    are those of :class:`KeptSample`.
    """

    def __init__(self, *given: Any) -> None:
        KeptSample.__init__(self, *given)
        census, common = self._census, self._common
        classes = census.counts.shape[1]
        ClassPoints.__init__(self, classes, census.d, common.penalty, self._centre())
        spreads = np.sqrt(np.maximum(census.spreads - census.centre**2, 0.0))
        is_single = self.is_single and not are_far(census.centre, spreads)
        self.kind = np.float32 if is_single else np.float64
        self._kept: dict[str, Any] = {}  # results that can be used again

    def refined(self) -> Self | None:
        """The same rows with products of float64; None if they are float64 already."""
        if self.kind == np.float64:
            return None
        other = copy.copy(self)
        other.kind, other._kept = np.float64, {}
        return other

    # ---- rounds

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives, by products of float32 unless ``exact``."""
        return self.hessian_of(point, np.arange(self.d), exact=exact, care=care)

    def hessian_of(
        self,
        point: Evaluation,
        columns: NDArray[np.intp],
        *,
        exact: bool = False,
        care: float = 0.0,
    ) -> Vector:
        """Part of :meth:`hessian` that belongs to some weights, and the intercepts."""
        size = len(columns) + self.columns - self.d
        (found,) = self._ask(
            point.theta, "data_hessian", columns, exact=exact, care=care, sum_bytes=8 * size**2
        )
        return penalised(self, found, columns)

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each weight, in curvature."""
        return self.diagonal(point)

    def dual(self, point: Evaluation) -> Dual:
        """Probabilities near those of the point that sum to the label counts of each class."""
        data = point.gradient[: self.d] - self.penalty.l2 * point.theta[: self.d]
        if not self.fit_intercept:
            return Dual(data, 0.0)
        kept, given = self._moved(point)
        if "means" in self._kept:
            cost = self._cost(point, kept, given, 1.0)
        else:
            self._kept["means"], found = self._ask(point.theta, "moved_dual", kept, given)
            cost = float(found[0])
        return Dual(move_gradient(data, self._kept["means"], kept, given), cost)

    def dual_cost(self, point: Evaluation, up: float, down: float) -> float:
        """Cost of keeping only the smaller share of the way from labels to probabilities."""
        kept, given = np.ones(self.classes), np.zeros(self.classes)
        if self.fit_intercept:
            kept, given = self._moved(point)
        return self._cost(point, kept, given, min(up, down))

    def _cost(self, point: Evaluation, kept: Vector, given: Vector, share: float) -> float:
        if share == 1.0 and (kept == 1.0).all():
            return 0.0
        return float(self._ask(point.theta, "moving_cost", kept, given, share)[0][0])

    def _moved(self, point: Evaluation) -> tuple[Vector, Vector]:
        shares = self._shares()
        return move_chances(shares, shares + point.gradient[self.d :])

    # ---- without a round, or from some rows

    def _shares(self) -> Vector:
        """Weight of each class, as a share of n."""
        return self._census.weights_by_group(self._common, self._problem)[0] / self.n

    def constant(self) -> tuple[Vector, float]:
        """Best intercepts without weights, and their mean loss."""
        shares = self._shares()
        if not self.fit_intercept:
            return np.zeros(0), float(np.log(self.classes) * shares.sum())
        return best_constants(shares)

    def first_weights(self, seed: int) -> Vector | None:
        """Solution of a sample, for models that do not start from samples themselves."""
        found = self._solve_near(self._sample(), partial(_solution, seed=seed))
        if found is None:
            return None
        theta, self._kept["whitening"] = found
        self._kept["theta"] = theta
        return theta

    def whitening(self, point: Evaluation, seed: int, *, care: float = 0.0) -> Whitening:
        """What the second derivatives of all classes have in common, from a sample of the rows."""
        kept = self._kept.pop("whitening", None)
        if kept is not None and care == 0.0 and (point.theta == self._kept["theta"]).all():
            return kept  # type: ignore[no-any-return]
        found = self._solve_near(self._sample(), partial(_whitening, point.theta, seed, care))
        if found is None:  # all rows of the sample have weight 0
            return Whitening(self._census.spreads / self.classes, np.ones(self.classes), 1.0)
        return found

    def _rows_of_system(self) -> float:
        """Rows that the sample should have."""
        rows = _ROWS_PER_WEIGHT * self.d
        return min(rows, MOST_CHANCES / self.classes) if is_solved_by_sample(self) else rows


def _solution(sums: ClassSums, *, seed: int) -> tuple[Vector, Whitening]:
    """Solution of some rows, and what the second derivatives of the classes share there."""
    theta = solve_sample(sums, seed)
    return theta, _whitening(theta, seed, 0.0, sums)


def _whitening(theta: Vector, seed: int, care: float, sums: ClassSums) -> Whitening:
    point = Evaluation(theta, 0.0, np.empty(0), 0.0)
    return sums.whitening(point, seed, care=care)
