"""A complete fit by Newton's method, with checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from antithetic.dask import newton_file
from antithetic.dask.cluster import ClusterLostError
from antithetic.dask.newton import First, NewtonRounds, Standings
from antithetic.solvers.newton.iterate import Iterate

Adopt = Callable[[Standings, list[Iterate]], None]


@dataclass(frozen=True, slots=True, eq=False)
class NewtonFit:
    """A fit that resumes from a checkpoint if there is one.

    Attributes
    ----------
    rounds : NewtonRounds
    starts : list of tuple or None
        Initial weights and intercepts of each problem; None means to start from samples.
    seed : int
        Seed of the samples.
    seeded : bool
        Whether a checkpoint must have the same seed.
    mark : dict
        What the fit belongs to.
    checkpoint : path or None
    verbose : bool
    bounds : bool
        Whether the gap is bounded at the end if the iterations have not done so, which may cost a
        round.
    """

    rounds: NewtonRounds
    starts: Sequence[First | None]
    seed: int
    seeded: bool
    mark: dict[str, Any]
    checkpoint: str | os.PathLike[str] | None
    verbose: bool
    bounds: bool

    def run(self, adopt: Adopt) -> None:
        """Iterate to the end and pass on the result; on errors, that of the last iteration."""
        begin = Standings(seed=self.seed, rounds=1)  # the first look
        standings = newton_file.resume(
            self.checkpoint, self.mark, self.rounds, begin, seeded=self.seeded
        )
        try:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # for rows that are very large, rounding ends the fit
                for reached in self.rounds.run(standings, self.starts):
                    standings = reached
                    self._tell(standings)
                ends = [one.iterate for one in standings.reached]
                if self.bounds:
                    standings, ends = self.rounds.close(standings)
        except (KeyboardInterrupt, ClusterLostError):
            # with several problems, weights are of no use until each problem has some
            if len(standings.reached) == len(self.starts):
                adopt(standings, [one.iterate for one in standings.reached])
            raise
        adopt(standings, ends)

    def _tell(self, standings: Standings) -> None:
        if self.checkpoint is not None:
            newton_file.save(self.checkpoint, self.mark, standings)
        if self.verbose:
            point = standings.reached[-1].iterate.point
            print(
                f"round {standings.rounds}: {standings.seconds:.2f} s,"
                f" objective {point.objective:.10g}",
                flush=True,
            )
