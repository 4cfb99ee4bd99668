"""Newton's method on blocks: the iterations of one machine, with sums computed by the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from antithetic.dask.blocks import Blocks
from antithetic.dask.class_sums import ClassBlockSums
from antithetic.dask.common import Common
from antithetic.dask.moments import Census
from antithetic.dask.sums import BlockSums
from antithetic.exact.sums import Vector
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.path import begin
from antithetic.solvers.newton.rounded import as_float32, rounded_to
from antithetic.solvers.newton.search import value
from antithetic.training.loop import Patience
from antithetic.training.stopping import Stop, Target

First = tuple[Vector, Any]  # weights and intercepts, of one class or of all
HISTORY = ("seconds", "rounds", "objective", "gradient")


class Reached(NamedTuple):
    """The state of one problem.

    Attributes
    ----------
    newton : Newton
        Without rows.
    iterate : Iterate
    history : tuple of tuple of float
        For each iteration, the values that :data:`HISTORY` names.
    patience : Patience
        Counts iterations without a lower objective.
    """

    newton: Newton
    iterate: Iterate
    history: tuple[tuple[float, ...], ...] = ()
    patience: Patience = Patience()

    @property
    def is_over(self) -> bool:
        """Whether the iterations have ended, other than by ``max_iter``."""
        return bool(self.iterate.ended) or self.patience.stopped


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """The state of a fit.

    Attributes
    ----------
    reached : tuple of Reached
        States of the problems begun so far; problems are solved one after the other.
    seed : int
        Seed of the samples.
    rounds : int
        Passes over all blocks.
    seconds : float
        Since the fit began.
    """

    reached: tuple[Reached, ...] = ()
    seed: int = 0
    rounds: int = 0
    seconds: float = 0.0

    def after(self, problem: int, reached: Reached, rounds: int, began: float) -> Standings:
        """Return the state of the fit after a problem's state has changed, in further rounds."""
        return replace(
            self,
            reached=(*self.reached[:problem], reached),
            rounds=self.rounds + rounds,
            seconds=time.perf_counter() - began,
        )


@dataclass(frozen=True, slots=True, eq=False)
class NewtonRounds:
    """Everything that the iterations of a fit need.

    Attributes
    ----------
    client : Client
    blocks : Blocks
    common : Common
    census : Census
    tol : float
        The iterations end when the gap is at most this, as on one machine.
    stop : Stalled, Target or None
        The user's stopping rule.
    max_iter : int
        Maximum number of iterations over all rows.
    after_loss : str
        Tells the user what to do if the cluster is lost.
    """

    client: Any
    blocks: Blocks
    common: Common
    census: Census
    tol: float
    stop: Stop
    max_iter: int
    after_loss: str = ""

    def sums(self, problem: int, seed: int = 0) -> BlockSums | ClassBlockSums:
        """Sums over the rows of one problem; ``seed`` is the seed of the samples."""
        kind = ClassBlockSums if self.common.is_classed else BlockSums
        about = (problem, self.after_loss, seed)
        return kind(self.client, self.blocks, self.common, self.census, *about)

    def run(self, standings: Standings, starts: Sequence[First | None]) -> Iterator[Standings]:
        """Yield the state of the fit after the first pass and after each iteration.

        ``starts`` are initial weights and intercepts of each problem; None means to start from
        samples.
        """
        began = time.perf_counter() - standings.seconds
        for problem, start in enumerate(starts):
            sums, before = self.sums(problem, standings.seed), standings
            if problem < len(before.reached):
                reached = before.reached[problem]
            else:
                newton = Newton(sums, self.tol, before.seed)
                given = None if start is None else _joined(sums, start)
                first = partial(_first, sums, newton, before.seed)
                iterate = begin(newton, given, first, self.max_iter)
                reached = Reached(newton.on(None), iterate)
                standings = before.after(problem, reached, sums.rounds, began)
                yield standings
            newton = reached.newton.on(sums)
            while not reached.is_over and reached.iterate.iterations < self.max_iter:
                iterate = newton.step(reached.iterate)
                standings = before.after(problem, reached, sums.rounds, began)
                entry = self._entry(sums, iterate, standings)
                reached = self._judged(newton, iterate, reached, entry)
                standings = replace(standings, reached=(*before.reached[:problem], reached))
                yield standings

    def _entry(
        self, sums: BlockSums | ClassBlockSums, iterate: Iterate, standings: Standings
    ) -> tuple[float, ...]:
        norm = float(np.linalg.norm(self._gradient(sums, iterate)))
        return standings.seconds, standings.rounds, value(sums, iterate.point), norm

    def _gradient(self, sums: BlockSums | ClassBlockSums, iterate: Iterate) -> Vector:
        """Gradient in the user's weights, whose intercept is that of uncentred columns."""
        gradient = iterate.point.gradient.copy()
        if sums.centre is not None:
            gradient[: sums.d] += np.outer(gradient[sums.d :], sums.centre).ravel()
        return gradient

    def _judged(
        self, newton: Newton, iterate: Iterate, before: Reached, entry: tuple[float, ...]
    ) -> Reached:
        """State of a problem after an iteration, with the user's stopping rule applied."""
        history, patience = before.history, before.patience
        if iterate.iterations > before.iterate.iterations:
            history = (*history, entry)
            objective, norm = entry[2:]
            if isinstance(self.stop, Target):
                patience = patience._replace(stopped=norm <= self.stop.tol)
            elif self.stop is not None:
                patience = patience.after(objective, self.stop)
        return Reached(newton.on(None), iterate, history, patience)

    def close(self, standings: Standings) -> tuple[Standings, list[Iterate]]:
        """Bound the gap of each problem whose iterations have not done so.

        For float32 rows it is the gap of the rounded weights that the user gets: one more round.
        """
        ends, rounds = [], standings.rounds
        for problem, reached in enumerate(standings.reached):
            iterate, sums = reached.iterate, self.sums(problem, standings.seed)
            newton = reached.newton.on(sums)
            if not iterate.ended:
                iterate = newton.close(iterate)
            if sums.is_single:
                given_back: Any = [as_float32(part) for part in self.weights(iterate)]
                rounded = rounded_to(newton, iterate, sums.join(*given_back))
                iterate = rounded._replace(point=iterate.point)
            rounds += sums.rounds
            ends.append(iterate)
        return replace(standings, rounds=rounds), ends

    def weights(self, iterate: Iterate) -> tuple[Vector, Any]:
        """Weights and the user's intercepts; with many classes, one row and one number each."""
        sums, theta = self.sums(0), iterate.point.theta
        if not isinstance(sums, ClassBlockSums):
            return sums.split(theta)
        coef, intercepts = sums.split(sums.in_gauge(theta))
        return coef, intercepts - intercepts.mean()


def _joined(sums: BlockSums | ClassBlockSums, start: First) -> Vector:
    """Point of given weights and intercepts."""
    theta = sums.join(*start)
    return sums.in_gauge(theta) if isinstance(sums, ClassBlockSums) else theta


def _first(sums: BlockSums | ClassBlockSums, newton: Newton, seed: int) -> Vector | None:
    """Initial weights; None if Newton's method starts from samples."""
    if isinstance(sums, ClassBlockSums):
        begins = not newton.takes_samples and sums.penalty.l1 == 0.0
    else:
        begins = newton.method == "sampled newton"
    return sums.first_weights(seed) if begins else None
