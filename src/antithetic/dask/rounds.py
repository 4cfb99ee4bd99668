"""Rounds of a fit: an epoch of every block, then the best of a few points that are measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.blocks import Blocks
from antithetic.dask.checkpoint import Progress
from antithetic.dask.common import Common
from antithetic.dask.mapping import sum_over_blocks
from antithetic.dask.search import Standing, points_along
from antithetic.dask.tasks import Points, Start, epoch_block, measure_block
from antithetic.problem.penalties import ElasticNet, Penalty
from antithetic.solvers import DivergenceError
from antithetic.solvers.divergence import overflow_message
from antithetic.solvers.steps import Steps
from antithetic.training.loop import Patience
from antithetic.training.stopping import Stop, Target

_MOST = 0.5  # share of the rows whose blocks must have a weight at zero for it to be zero


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Everything that the rounds of a fit need.

    Attributes
    ----------
    client : Client
    blocks : Blocks
    tables : sequence
        One list of tables per block, or empty.
    common : Common
    steps : tuple of Steps
        Plain steps of each problem; also corrected steps, if the loss has a kink or the user gave
        steps.
    constants : ndarray or None
        Constant steps of the blocks' corrected epochs.
    corrects : bool
        Whether epochs are corrected and points searched; otherwise plain epochs are averaged.
    measures : bool
        Whether the objective is measured if no points are searched.
    stop : Stalled, Target or None
    after_loss : str
        What to do if the cluster is lost.
    """

    client: Any
    blocks: Blocks
    tables: Sequence[Any]
    common: Common
    steps: tuple[Steps, ...]
    constants: NDArray[np.float64] | None
    corrects: bool
    measures: bool
    stop: Stop
    after_loss: str

    def run(self, progress: Progress, rounds: int) -> Iterator[Progress]:
        """Yield the progress after each round, until the last one or until all problems stop."""
        began = time.perf_counter() - (progress.history[-1][0] if progress.history else 0.0)
        while progress.rounds < rounds and not all(one.stopped for one in progress.standings):
            standings = self._round(list(progress.standings), progress.rounds)
            entry = [time.perf_counter() - began]
            for one in standings:
                entry += [one.value, self._gradient_norm(one)]
            progress = replace(
                progress,
                standings=tuple(standings),
                rounds=progress.rounds + 1,
                history=(*progress.history, tuple(entry)),
            )
            yield progress

    def _round(self, standings: list[Standing], number: int) -> list[Standing]:
        active = tuple(k for k, one in enumerate(standings) if not one.stopped)
        # plain steps first: as an anchor, the gradient at zero is not worth an epoch
        corrected = tuple(
            self.corrects and (number > 0 or bool(standings[k].weights.any())) for k in active
        )
        unmeasured = tuple(
            k
            for k, is_corrected in zip(active, corrected, strict=True)
            if is_corrected and not standings[k].measured
        )
        if unmeasured:
            self._go_to_best(
                standings, unmeasured, [standings[k].weights[None] for k in unmeasured]
            )
        start = Start(
            self.common,
            number,
            active,
            np.stack([standings[k].weights for k in active]),
            np.stack([standings[k].gradient for k in active]),
            tuple(self.steps[k] for k in active),
            corrected,
            tuple(standings[k].lowered for k in active),
            self.constants,
        )
        tables = self.tables or [()] * len(self.blocks)
        moves, zeros = self._sum(epoch_block, "epoch", start, own=[tables])
        self._check_finite(moves, number)
        if not self.corrects:
            return self._averaged(standings, active, moves, zeros)
        points = []
        for place, k in enumerate(active):
            if corrected[place] and np.isfinite(moves[place]).all():
                standings[k] = standings[k].after_move(moves[place])
            points.append(points_along(standings[k], moves[place], self._zero(zeros[place])))
        self._go_to_best(standings, active, points)
        return [self._judged(one) if k in active else one for k, one in enumerate(standings)]

    def _averaged(
        self, standings: list[Standing], active: tuple[int, ...], moves: Any, zeros: Any
    ) -> list[Standing]:
        points = []
        for place, k in enumerate(active):
            point = standings[k].weights + moves[place]
            zero = self._zero(zeros[place])
            if zero is not None:
                point[zero] = 0.0
            points.append(point)
            standings[k] = replace(standings[k], weights=point, value=np.inf)
        if self.measures:
            self._go_to_best(standings, active, [point[None] for point in points])
        return [self._judged(one) if k in active else one for k, one in enumerate(standings)]

    def _zero(self, zeros: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """Weights that are zero in most blocks; never the intercept."""
        if not _has_zeros(self.common.penalty):
            return None
        zero: NDArray[np.bool_] = zeros > _MOST
        zero[-1] = False
        return zero

    def _go_to_best(
        self,
        standings: list[Standing],
        problems: tuple[int, ...],
        points: list[NDArray[np.float64]],
    ) -> None:
        """Measure points of some problems on all blocks, and move to the best of each problem."""
        for k, some in zip(problems, points, strict=True):
            if not len(some):  # steps diverged: no point is finite
                standings[k] = standings[k].staying()
        problems = tuple(k for k, some in zip(problems, points, strict=True) if len(some))
        points = [some for some in points if len(some)]
        if not problems:
            return
        most = max(len(some) for some in points)
        padded = np.stack(
            [
                np.concatenate([some, np.repeat(some[:1], most - len(some), axis=0)])
                for some in points
            ]
        )
        points_of_all = Points(self.common, problems, padded)
        losses, gradients = self._sum(measure_block, "measure", points_of_all)
        for place, k in enumerate(problems):
            many = len(points[place])
            penalties = np.array([self.common.penalty.value(point[:-1]) for point in points[place]])
            standings[k] = standings[k].taking(
                points[place], losses[place, :many] + penalties, gradients[place, :many]
            )

    def _judged(self, standing: Standing) -> Standing:
        """Whether a problem is done: its objective no longer falls, or its gradient is small."""
        stop = self.stop
        if stop is None:
            return standing
        if isinstance(stop, Target):
            return replace(standing, stopped=self._gradient_norm(standing) <= stop.tol)
        best, waited, stopped = Patience(standing.best, standing.waited).after(standing.value, stop)
        return replace(standing, best=best, waited=waited, stopped=stopped)

    def _gradient_norm(self, standing: Standing) -> float:
        full = standing.gradient.copy()
        full[:-1] += self.common.penalty.smooth_gradient(standing.weights[:-1])
        return float(np.linalg.norm(full)) if standing.measured else np.nan

    def _check_finite(self, moves: NDArray[np.float64], number: int) -> None:
        if not (self.corrects or np.isfinite(moves).all()):
            reason = "the steps diverged. Try a smaller eta0, or learning_rate='auto'. "
            raise DivergenceError(overflow_message(number + 1, reason))

    def _sum(self, *asked: Any, own: Sequence[Any] = ()) -> Any:
        function, name, start = asked
        return sum_over_blocks(
            self.client, function, name, self.blocks, start, own=own, after_loss=self.after_loss
        )


def _has_zeros(penalty: Penalty) -> bool:
    """Whether a penalty makes weights exactly zero."""
    return not isinstance(penalty, ElasticNet) or penalty.l1 > 0.0
