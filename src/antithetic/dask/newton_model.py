"""Newton's method for the SGD estimators: stopping rules and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic.dask.common import Common
from antithetic.dask.learner import BlockData, BlockLearner
from antithetic.dask.newton import HISTORY, NewtonRounds, Standings
from antithetic.dask.newton_fit import NewtonFit
from antithetic.dask.refusals import traced
from antithetic.dask.scan import census_of
from antithetic.estimators.fitted import FittedLinearModel
from antithetic.estimators.logistic_fit import seed_of
from antithetic.orders.in_order import InOrder
from antithetic.solvers.newton.iterate import Iterate
from antithetic.training.automatic import Plan
from antithetic.training.stopping import Stalled

_NEWTON = "Newton's method on sums over all blocks, since loss and penalty are smooth"
_LEAST_TOL = 1e-16  # smaller gaps cannot be resolved
_SHARE_OF_TOL = 1e-3  # of tol: if the objective can fall by no more than this, stop


class NewtonModel(BlockLearner, FittedLinearModel):
    """A linear model that may be fitted by Newton's method."""

    def _common(self, seen: BlockData, seeds: tuple[int, ...]) -> Common:
        """Return what all blocks have in common."""
        raise NotImplementedError

    def _mark(self, seen: BlockData, starts: list[NDArray[np.float64]]) -> dict[str, Any]:
        """Identity of this fit, for checkpoints."""
        raise NotImplementedError

    def _train_newton(
        self, client: Any, seen: BlockData, coef_init: Any, intercept_init: Any
    ) -> None:
        """Iterate over all rows and keep the result; on errors, the last complete iteration."""
        firsts = self._first_weights(coef_init, intercept_init, self.n_features_in_)
        starts = [np.append(coef, intercept) for coef, intercept in firsts]
        stop, tol = self._stop(), _LEAST_TOL
        if stop is not None:
            tol = _SHARE_OF_TOL * stop.tol if isinstance(stop, Stalled) else 0.0
        common = self._common(seen, (0,) * len(starts))
        classes = getattr(self, "classes_", None)
        rounds = NewtonRounds(
            client,
            seen.blocks,
            common,
            census_of(seen.glances, classes, common.loss),
            tol,
            stop,
            int(self.max_iter),
            self._after_loss(),
        )
        if self.verbose:
            print(
                f"{type(self).__name__}: {len(seen.blocks)} blocks of {common.rows} rows in all;"
                f" {_NEWTON}"
            )
        NewtonFit(
            rounds,
            [(start[:-1], float(start[-1])) if start.any() else None for start in starts],
            seed_of(self.random_state),
            self.random_state is not None and not hasattr(self.random_state, "randint"),
            self._mark(seen, starts),
            self.checkpoint,
            bool(self.verbose),
            bounds=False,
        ).run(lambda reached, ends: self._adopt(self._fitted_by(rounds, reached, ends, seen)))

    def _fitted_by(
        self, rounds: NewtonRounds, standings: Standings, ends: list[Iterate], seen: BlockData
    ) -> dict[str, Any]:
        """Attributes of a model after some iterations of Newton's method."""
        solutions = []
        for iterate in ends:
            coef, intercept = rounds.weights(iterate)
            solutions.append((coef.astype(seen.real), intercept))
        names = {"objective", "rounds", "seconds", *traced(self)}
        histories = []
        for one in standings.reached:
            table = np.array(one.history).reshape(-1, len(HISTORY))
            columns = {name: table[:, place] for place, name in enumerate(HISTORY) if name in names}
            histories.append({"epoch": np.arange(1, len(table) + 1), **columns})
        iterations = max(iterate.iterations for iterate in ends)
        return {
            **self._weights_of(solutions),
            "n_iter_": iterations,
            "t_": 1 + max(1, iterations) * rounds.common.rows,
            "plan_": Plan(InOrder(), int(self.batch_size), False, _NEWTON),
            "history_": histories if len(histories) > 1 else histories[0],
            "_converged": all(one.is_over for one in standings.reached),
        }

    def _is_unfinished(self) -> bool:
        if self._solver_used == "newton":
            return not self._converged
        return super()._is_unfinished()
