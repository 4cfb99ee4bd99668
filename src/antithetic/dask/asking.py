"""Blocks that are asked for sums, each a round of the cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from distributed.system import MEMORY_LIMIT

from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import gather
from antithetic.dask.common import Common
from antithetic.dask.mapping import map_blocks, sum_over_blocks
from antithetic.dask.moments import Census
from antithetic.dask.questions import (
    Question,
    SomeRows,
    Wanted,
    answer_block,
    draw_rows,
    join_rows,
    leverage_of_block,
)
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.linear_algebra import Factor, Inverse, conjugate_gradients
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Evaluation, Leverage, Vector, Visit, line_of
from antithetic.problem.penalties import Penalty

_SAMPLED_BYTES = float(1 << 30)
_SHARE_OF_MEMORY = 0.25
_LARGEST_SAMPLE = 1.5  # times the size that was asked for
_MOST_PRODUCTS, _LEFT_OVER = 200, 1e-4  # of a Hessian with a vector; of the squared residual
ALL_ROWS = 1e300  # size of a sample that has every row of a positive weight


class More(NamedTuple):
    """What a visit to all blocks brings beside the end of a step.

    Attributes
    ----------
    points : dict of float to Evaluation
        Points along the step, by its length.
    losses : dict of float to tuple of float
        Mean loss and slope of these.
    above : float
        Curvature along the step of a function above the mean loss.
    shift, cost : float
        Of the intercept, and what the point of the dual problem that it makes costs; infinite if it
        was not asked for.
    curved : ndarray or None
        As in :class:`antithetic.exact.sums.Evaluation`, at the start of the step.
    upward : ndarray or None
        As ``expected`` of the visit, with the slopes above zero alone.
    """

    points: dict[float, Evaluation]
    losses: dict[float, tuple[float, float]]
    above: float
    shift: float = 0.0
    cost: float = np.inf
    curved: Vector | None = None
    upward: Vector | None = None


class Asking:
    """Blocks that are asked for sums.

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
        Tells the user what to do if the cluster is lost.

    Attributes
    ----------
    seen : Columns
        What the first look has seen of the columns.
    """

    lengths: tuple[float, ...]  # of a step, at which the rows are visited; the first is 1
    short_lengths: tuple[float, ...]  # the same, if none of the others is of use
    d: int  # weights that are penalised: the first of a point
    penalty: Penalty
    is_wide: bool  # whether weights are too many for a matrix of second derivatives

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
        self._asked = [0]  # shared by all copies
        self.seen = census.columns_of(common, problem)
        self.n, self.is_single = census.rows, census.is_single
        self.size = census.effective_rows(common, problem)
        self.kind: Any = None  # float type of products; None lets blocks choose
        self._last: tuple[Any, float] = None, 0.0  # step, and curvature above along it
        memory = min(_SAMPLED_BYTES, _SHARE_OF_MEMORY * MEMORY_LIMIT)
        self.most_sampled = memory / max(1.0, census.row_bytes) / _LARGEST_SAMPLE

    @property
    def rounds(self) -> int:
        """Passes over all blocks so far."""
        return self._asked[0]

    def with_penalty(self, penalty: Penalty) -> Self:
        """Return the same rows with another penalty."""
        other = copy.copy(self)
        other.penalty = penalty
        return other

    def _centre(self) -> Vector | None:
        return self.seen.centre if self._common.fit_intercept else None

    def _ask(
        self, theta: Vector, what: str, *arguments: Any, sum_bytes: int = 0, **options: Any
    ) -> Any:
        """Sums over all rows: one pass over all blocks."""
        asked = Question(
            self._common,
            self._problem,
            self._centre(),
            theta,
            what,
            arguments,
            options,
            self.kind,
        )
        name = {"at": "gradient"}.get(what, what.replace("_", "-"))
        self._asked[0] += 1
        return sum_over_blocks(
            self._client,
            answer_block,
            name,
            self._blocks,
            asked,
            numbers=self._filled,
            sum_bytes=sum_bytes,
            after_loss=self._after_loss,
        )

    def largest_leverage(self, point: Evaluation, root: Vector) -> Leverage:
        """Visit the rows in float64, with a lower triangle whose square is near an inverse."""
        asked = Question(
            self._common, self._problem, self._centre(), point.theta, "largest_leverage", (root,)
        )
        self._asked[0] += 1
        futures = map_blocks(
            self._client,
            leverage_of_block,
            "leverage",
            self._blocks,
            asked,
            numbers=self._filled,
            after_loss=self._after_loss,
        )
        parts = gather(self._client, futures, after_loss=self._after_loss)
        lengths = self._census.counts.sum(axis=1)[self._filled]
        return Leverage.join(parts, (lengths / self.n).tolist())

    # ---- visits

    def visit(self, point: Evaluation, step: Vector, lengths: tuple[float, ...]) -> Visit:
        """Visit the rows at some lengths of a step: one round."""
        raise NotImplementedError

    def after(self, point: Evaluation, step: Vector) -> Visit:
        """Objective and gradient along a step, and what its model expected at its end.

        If none of the lengths leads downwards, a second round tries much shorter ones.
        """
        visit = self.visit(point, step, self.lengths)
        self._last = step, visit.more.above
        rounding = 4.0 * float(np.finfo(self.kind or np.float64).eps)
        coef = point.theta[: self.d]
        before = point.objective + self.penalty.l1 * float(np.abs(coef).sum())
        line = self.line(point, visit)
        if any(line(one)[0] <= before + rounding * abs(before) for one in visit.lengths):
            return visit
        more = self.visit(point, step, self.short_lengths).more
        more = visit.more._replace(
            points=visit.more.points | more.points, losses=visit.more.losses | more.losses
        )
        return visit._replace(lengths=tuple(more.points), more=more)

    def line(self, point: Evaluation, visit: Visit) -> Callable[[float], tuple[float, float]]:
        """Return what gives the objective and its slope at the lengths that are known."""
        return line_of(self.d, self.penalty, point, visit, visit.more.losses.__getitem__)

    def between(
        self,
        point: Evaluation,  # noqa: ARG002 - sums over rows start from it
        visit: Visit,
        length: float,
    ) -> Evaluation:
        """Objective and gradient some way along a step, which the visit has brought."""
        found: Evaluation = visit.more.points[length]
        return found

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss; known along the last step."""
        step, above = self._last
        if step is vector:
            return above
        return float(self._ask(point.theta, "curvature_above", vector)[0][0])

    # ---- samples

    def samples(self, sizes: Sequence[float], seed: int) -> list[BlockSample]:
        """Draw samples by importance, each of which is a part of the next: one round."""
        sizes = tuple(sizes)
        if not sizes:
            return []
        lengths = self._census.counts.sum(axis=1)
        firsts = (np.cumsum(lengths) - lengths)[self._filled].tolist()
        self._asked[0] += 1
        futures = map_blocks(
            self._client,
            draw_rows,
            "sample",
            self._blocks,
            Wanted(self.seen, sizes, seed, self._problem),
            self._common,
            own=[firsts],
            numbers=self._filled,
            after_loss=self._after_loss,
        )
        rows = join_rows(gather(self._client, futures, after_loss=self._after_loss))
        return [
            BlockSample(self, size, seed, self._sums_of(rows, number, size))
            for number, size in enumerate(sizes)
        ]

    def _sums_of(self, rows: SomeRows, number: int, size: float) -> RowSums | ClassSums:
        """Return sums over a sample, whose means are those of all rows."""
        chosen = rows.are_in[number]
        X, y, weight, share = rows[:4]
        if not chosen.all():
            X, y, share = X[chosen], y[chosen], share[chosen]
            weight = None if weight is None else weight[chosen]
        factors = (max(1, len(y)) / self.n) / np.minimum(1.0, size * share)
        counted = factors if weight is None else factors * weight
        sums = self._common.sums(X, y, counted, self._centre(), self.kind)
        return sums.with_penalty(self.penalty)


@dataclass(frozen=True, slots=True, eq=False)
class BlockSample:
    """Rows drawn by importance from all blocks, which are here.

    Attributes
    ----------
    whole : Asking
        Over all rows.
    size : float
    seed : int
    sums : RowSums or ClassSums
        Over these rows, with weights that make its means those of all rows.
    """

    whole: Asking
    size: float
    seed: int
    sums: Any

    @property
    def n(self) -> int:
        """Number of its rows."""
        return int(self.sums.n)

    def with_penalty(self, penalty: Penalty) -> BlockSample:
        """Return the same rows with another penalty."""
        return replace(self, sums=self.sums.with_penalty(penalty))

    def hessian(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Vector:
        """Return its matrix of second derivatives at a point of all rows."""
        here = self.sums.at(point.theta)
        found: Vector = self.sums.hessian(here, exact=exact, damping=damping)
        return found

    def inverse(self, point: Evaluation, *, exact: bool = False, damping: float = 0.0) -> Inverse:
        """Return the inverse of that matrix, which is not formed if it were large."""
        here = self.sums.at(point.theta)
        if not self.whole.is_wide:
            return Factor(self.sums.hessian(here, exact=exact, damping=damping))
        return _ByProducts(self.sums, here, damping, self.sums.diagonal(here, damping=damping))

    def tightened(
        self,
        point: Evaluation,  # noqa: ARG002 - the protocol's
        visit: Visit,  # noqa: ARG002
    ) -> Iterator[Visit]:
        """Yield nothing: the slopes of the rows are elsewhere."""
        yield from ()

    def larger(self) -> BlockSample | None:
        """Return a sample of twice as many rows, or of all of them if these are few.

        If there is no room for it, the same one if its Hessian is not formed, and otherwise None.
        """
        whole, size = self.whole.with_penalty(self.sums.penalty), 2.0 * self.size
        if self.size == ALL_ROWS:
            return self
        if size > whole.n / 3.0 and whole.n <= whole.most_sampled:
            size = ALL_ROWS
        elif size > whole.n / 3.0 or size > whole.most_sampled:
            return self if whole.is_wide else None
        return whole.samples([size], self.seed)[0]


class _ByProducts(NamedTuple):
    """Inverse of a Hessian, of which products with vectors are known."""

    sums: RowSums
    point: Evaluation
    damping: float
    diagonal: Vector

    def solve(self, vector: Vector) -> Vector:
        """Solve a linear system by conjugate gradients, roughly."""
        scales = np.maximum(self.diagonal, np.finfo(np.float64).tiny)
        return conjugate_gradients(
            lambda along: self.sums.times(self.point, along, damping=self.damping),
            lambda rest: rest / scales,
            vector,
            _MOST_PRODUCTS,
            _LEFT_OVER,
        ).step
