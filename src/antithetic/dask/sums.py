"""Sums over the rows of all blocks, each a round of the cluster, for Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import compute
from antithetic.dask.common import Common
from antithetic.dask.moments import Census
from antithetic.dask.questions import Question, answer_block, draw_block, solve_drawn
from antithetic.dask.tasks import over_blocks
from antithetic.problem.curvature import RowSums, draw_places
from antithetic.problem.sums import Dual, Evaluation, Outcome, Vector

_ROWS_PER_COLUMN = 200.0  # of the rows that one worker holds
_SAMPLED_BYTES = 1 << 27


class BlockSums:
    """The rows of one problem, wherever they are; each sum is one pass over all blocks.

    It is what :class:`antithetic.problem.curvature.RowSums` is on one machine. Slopes and
    curvatures of rows stay with the tasks that need them, and are computed again for each sum.

    Parameters
    ----------
    client : Client
    blocks : Blocks
    common : Common
        Its penalty is an :class:`antithetic.problem.penalties.ElasticNet`.
    census : Census
    problem : int, default=0
        Number of the problem.
    after_loss : str, default=""
        What to do if the cluster is lost.
    """

    def __init__(
        self,
        client: Any,
        blocks: Blocks,
        common: Common,
        census: Census,
        problem: int = 0,
        after_loss: str = "",
    ) -> None:
        self._client, self._blocks, self._common = client, blocks, common
        self._census, self._problem, self._after_loss = census, problem, after_loss
        self._filled = np.flatnonzero(census.counts.sum(axis=1)).tolist()
        self.n, self.d = census.rows, census.d
        self.size = census.effective_rows(common, problem)
        self.loss, self.penalty = common.loss, common.penalty
        self.fit_intercept, self.is_single = common.fit_intercept, census.is_single
        self.centre = census.centre if self.fit_intercept else None
        self.most_sampled = min(
            _ROWS_PER_COLUMN * self.d, _SAMPLED_BYTES / max(1.0, census.row_bytes)
        )
        self.rounds = 0

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

    def _ask(self, theta: Vector, what: str, *arguments: Any, **options: Any) -> Any:
        """Sums over all rows: one pass over all blocks."""
        asked = Question(self._common, self._problem, self.centre, theta, what, arguments, options)
        name = {"at": "gradient"}.get(what, what.replace("_", "-"))
        entries = len(theta) ** 2 if what.startswith("hessian") else 0
        task = over_blocks(
            answer_block,
            name,
            self._blocks,
            asked,
            numbers=self._filled,
            sum_bytes=8 * entries,
        )
        self.rounds += 1
        return compute(self._client, [task], after_loss=self._after_loss)[0]

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights."""
        numbers, gradient = self._ask(theta, "at")
        loss, square, curvature, up, down = numbers.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        gradient[: self.d] += l2 * coef
        return Evaluation(
            theta,
            loss + 0.5 * l2 * float(coef @ coef),
            gradient,
            square / curvature if curvature > 0.0 else 0.0,
            totals=(curvature, up, down),
        )

    def hessian(self, point: Evaluation, *, exact: bool = False, care: float = 0.0) -> Vector:
        """Matrix of second derivatives; products of float32 unless it is to be exact."""
        (hessian,) = self._ask(point.theta, "hessian", exact=exact, care=care)
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
        (hessian,) = self._ask(point.theta, "hessian_of", columns, exact=exact, care=care)
        return self._penalised(hessian, len(columns))

    def _penalised(self, hessian: Vector, d: int) -> Vector:
        places = np.arange(d)
        hessian[places, places] += self.penalty.l2
        return hessian

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of :meth:`hessian`."""
        diagonal: Vector = self._ask(point.theta, "diagonal", care=care)[0]
        diagonal[: self.d] += self.penalty.l2
        return diagonal

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the Hessian with a vector."""
        product: Vector = self._ask(point.theta, "times", vector)[0]
        product[: self.d] += self.penalty.l2 * vector[: self.d]
        return product

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss."""
        return float(self._ask(point.theta, "curvature_above", vector)[0][0])

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
        """What it costs to scale the slopes above and below zero by so much."""
        return float(self._ask(point.theta, "dual_cost", up, down)[0][0])

    # ---- what is known without a round, or of some rows

    def scales(self, point: Evaluation) -> Vector:
        """Squared unit of each column: its mean square where it is not zero, in curvature."""
        census, curvature = self._census, point.totals[0]
        scales = np.full(len(point.theta), curvature)
        squares = census.spreads / np.where(census.filled > 0.0, census.filled, 1.0)
        if self.centre is not None and (census.filled == 1.0).all():
            squares = np.maximum(squares - self.centre**2, 1e-6 * squares)
        scales[: self.d] = curvature * squares + self.penalty.l2
        return scales

    def constant(self) -> tuple[float, float]:
        """Best prediction without weights, and its mean loss."""
        constant, loss = self._census.constant(self._common, self._problem)
        if np.isnan(loss):
            theta = np.zeros(self.d + 1)
            theta[-1] = constant
            loss = self.at(theta).objective
        return constant, loss

    def near_samples(
        self, solve: Callable[[RowSums], Outcome | None], size: int, seed: int
    ) -> Outcome | None:
        """Call a function on one worker, with rows drawn from all blocks: one pass over these."""
        by_block = self._census.by_sign(self._common, self._problem)
        ends = np.cumsum(by_block, axis=0)
        present = np.flatnonzero(ends[-1])
        drawn = draw_places([int(ends[-1, k]) for k in present], size, seed)
        if drawn is None:
            return None
        cuts = [
            np.searchsorted(places, ends[:, k]) for places, k in zip(drawn, present, strict=True)
        ]
        token = dask.base.tokenize(np.random.default_rng().integers(1 << 60).item())
        common = dask.delayed(self._common, traverse=False, name=f"antithetic-sample-start-{token}")
        draw = dask.delayed(draw_block, pure=False, traverse=False)
        rows = []
        for block in self._filled:
            places = []
            for k, own, cut in zip(present, drawn, cuts, strict=True):
                if by_block[block, k]:
                    first = cut[block - 1] if block else 0
                    before = ends[block - 1, k] if block else 0
                    places.append(own[first : cut[block]] - before)
            if sum(map(len, places)):
                rows.append(
                    draw(
                        block,
                        self._blocks.parts(block),
                        places,
                        common,
                        self._problem,
                        dask_key_name=(f"antithetic-sample-{token}", block),
                    )
                )
        task = dask.delayed(solve_drawn, pure=False, traverse=False)(
            rows, common, self.centre, solve, dask_key_name=f"antithetic-solve-{token}"
        )
        self.rounds += 1
        found: Outcome | None = compute(self._client, [task], after_loss=self._after_loss)[0]
        return found
