"""Sums over all blocks, each a round of the cluster, and samples of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from distributed import Future
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks
from antithetic.dask.cluster import gather, starting
from antithetic.dask.common import Common
from antithetic.dask.mapping import map_blocks, new_token, sum_over_blocks
from antithetic.dask.moments import Census
from antithetic.dask.questions import (
    Draw,
    Question,
    answer_block,
    draw_block,
    join_drawn,
    solve_drawn,
)
from antithetic.exact.sums import Evaluation, Outcome, Vector
from antithetic.problem.penalties import Penalty

_ROWS_PER_COLUMN = 200.0  # of a sample, which one worker holds
# A sample takes the time of some 16 passes over its rows, on one worker while the others wait.
# With this share of all rows, that is as long as half a round of eight workers.
_SHARE_OF_ROWS = 1.0 / 256.0
_SAMPLED_BYTES = 1 << 27
_SHARE_OF_GROUP = 0.1  # of an even share of a sample: the least that a rare class gets


class Asking:
    """Blocks that are asked for sums and for samples of rows.

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
    seed : int, default=0
        Seed of the sample that is kept.
    """

    d: int  # weights that are penalised: the first of a point
    penalty: Penalty

    def __init__(
        self,
        client: Any,
        blocks: Blocks,
        common: Common,
        census: Census,
        problem: int = 0,
        after_loss: str = "",
        seed: int = 0,
    ) -> None:
        self._seed = seed
        self._client, self._blocks, self._common = client, blocks, common
        self._census, self._problem, self._after_loss = census, problem, after_loss
        self._filled = np.flatnonzero(census.counts.sum(axis=1)).tolist()
        self._asked, self._held = [0], dict[str, Any]()  # shared by all copies
        self.n, self.is_single = census.rows, census.is_single
        self.size = census.effective_rows(common, problem)
        self.most_sampled = min(
            max(_ROWS_PER_COLUMN * census.d, _SHARE_OF_ROWS * census.rows),
            _SAMPLED_BYTES / max(1.0, census.row_bytes),
        )
        self.kind: Any = None  # float type of products; None lets blocks choose

    @property
    def rounds(self) -> int:
        """Passes over all blocks so far."""
        return self._asked[0]

    def _centre(self) -> Vector | None:
        return self._census.centre if self._common.fit_intercept else None

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

    def at(self, theta: Vector) -> Evaluation:
        """Objective and gradient at some weights."""
        numbers, gradient = self._ask(theta, "at")
        loss, square, curvature, *others = numbers.tolist()
        coef, l2 = theta[: self.d], self.penalty.l2
        gradient[: self.d] += l2 * coef
        return Evaluation(
            theta,
            loss + 0.5 * l2 * float(coef @ coef),
            gradient,
            square / curvature if curvature > 0.0 else 0.0,
            totals=(curvature, *others),
        )

    def diagonal(self, point: Evaluation, *, care: float = 0.0) -> Vector:
        """Diagonal of the matrix of second derivatives."""
        diagonal: Vector = self._ask(point.theta, "diagonal", care=care)[0]
        diagonal[: self.d] += self.penalty.l2
        return diagonal

    def times(self, point: Evaluation, vector: Vector) -> Vector:
        """Product of the matrix of second derivatives with a vector."""
        product: Vector = self._ask(point.theta, "times", vector)[0]
        product[: self.d] += self.penalty.l2 * vector[: self.d]
        return product

    def curvature_above(self, point: Evaluation, vector: Vector) -> float:
        """Curvature along a vector of a function above the mean loss."""
        return float(self._ask(point.theta, "curvature_above", vector)[0][0])

    def near_samples(
        self, solve: Callable[[Any], Outcome | None], size: int, seed: int
    ) -> Outcome | None:
        """Call a function on one worker with rows drawn from all blocks: one pass over them."""
        return self._solve_near(self._draw(size, seed), solve)

    def _solve_near(self, drawn: Any, solve: Callable[[Any], Outcome | None]) -> Outcome | None:
        """Call a function on the worker that holds a sample."""
        given = (drawn, self._common, self._centre(), self.kind, solve)
        with starting(self._client, self._after_loss):
            future = self._client.submit(
                solve_drawn, *given, key=f"antithetic-solve-{new_token()}", pure=False
            )
        found: Outcome | None = gather(self._client, [future], after_loss=self._after_loss)[0]
        return found

    def _draw(self, size: int, seed: int) -> Future:
        """Draw rows from all blocks and collect them on one worker: one pass over the blocks."""
        by_block = self._census.by_group(self._common, self._problem)
        ends = np.cumsum(by_block, axis=0)
        present = np.flatnonzero(ends[-1])
        before = np.vstack([np.zeros((1, len(present)), np.intp), ends[:, present]])
        drawn, factors = _draw_places(before[-1], size, seed)
        pairs = zip(drawn, before.T, strict=True)
        cuts = np.stack([np.searchsorted(places, own) for places, own in pairs], axis=1)
        counts = None if factors is None else np.zeros(by_block.shape[1])
        if counts is not None:
            counts[present] = factors
        draws = {}
        for block in self._filled:
            mine = np.flatnonzero(cuts[block + 1] > cuts[block]).tolist()
            places = {
                int(present[k]): drawn[k][cuts[block, k] : cuts[block + 1, k]] - before[block, k]
                for k in mine
            }
            if places:
                draws[block] = Draw(places, counts, self._problem)
        self._asked[0] += 1
        rows = map_blocks(
            self._client,
            draw_block,
            "sample",
            self._blocks,
            self._common,
            own=[list(draws.values())],
            numbers=list(draws),
            after_loss=self._after_loss,
        )
        with starting(self._client, self._after_loss):
            return self._client.submit(
                join_drawn, *rows, key=f"antithetic-sample-join-{new_token()}", pure=False
            )


def _draw_places(
    lengths: NDArray[np.intp], size: int, seed: int
) -> tuple[list[NDArray[np.intp]], Vector | None]:
    """Positions among the rows of each group, spread evenly, and the weight of each group's rows.

    Each group gets its share of ``size``. A rare group gets more rows than that, and these have
    smaller weights; None means that all weights are 1.
    """
    rng, n = np.random.default_rng(seed), int(lengths.sum())
    shares = np.maximum(1, np.rint(size * (lengths / n))).astype(np.intp)
    least = int(_SHARE_OF_GROUP * size / len(lengths))
    many = np.minimum(lengths, np.maximum(shares, max(1, least)))
    drawn = []
    for length, taken in zip(lengths.tolist(), many.tolist(), strict=True):
        cells = (np.arange(taken) + rng.random(taken)) * (length / taken)
        drawn.append(np.minimum(cells.astype(np.intp), length - 1))
    if (many == np.minimum(lengths, shares)).all():
        return drawn, None
    return drawn, (lengths / n) * (many.sum() / many)
