"""What both SGD estimators share: from parameters and blocks to rounds and attributes."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from antithetic.dask import checkpoint
from antithetic.dask.block_table import BlockTable
from antithetic.dask.checkpoint import Progress
from antithetic.dask.cluster import ClusterLostError, client_of
from antithetic.dask.common import Common
from antithetic.dask.learner import BlockData
from antithetic.dask.mark import mark_data
from antithetic.dask.newton_model import NewtonModel
from antithetic.dask.reading import read_blocks
from antithetic.dask.refusals import BATCH_SIZE, WORDS, check_supported, check_words, traced
from antithetic.dask.rounds import Rounds
from antithetic.dask.scan import Look, constant_steps, first_steps, look
from antithetic.dask.search import Standing
from antithetic.dask.tables import tables_of
from antithetic.estimators.data import LARGEST_SEED
from antithetic.estimators.fitted import FittedLinearModel
from antithetic.orders import Order, Shuffle, Uniform
from antithetic.orders.in_order import InOrder
from antithetic.solvers.choice import Choice
from antithetic.solvers.newton.solver import refuses
from antithetic.solvers.steps import InverseTime, Steps
from antithetic.training.automatic import Plan


class BlockModel(NewtonModel):
    """Fit a linear model to blocks; the classes that inherit from it say how labels are read."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **FittedLinearModel._parameter_constraints,
        **{name: [StrOptions(set(words))] for name, words in WORDS.items()},
        "order": [StrOptions(set(WORDS["order"])), Shuffle, Uniform],
        "trace": [str, tuple, list, None],
        "client": [object],
        "checkpoint": [str, os.PathLike, None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: BlockTable | None = None,
    ) -> Self:
        """Fit the model in rounds over all blocks.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed blocks, or array-like
            Rows, of shape (n_samples, n_features); blocks dense or CSR. Blocks are read again in
            each round unless they were persisted.
        y : Dask array or series, list of delayed blocks, or array-like
            Labels of at least two classes, or numbers, of shape (n_samples,), in the same blocks as
            X or in blocks of known lengths.
        coef_init, intercept_init : array-like, default=None
            Weights to start from.
        sample_weight : like y, default=None
            Weights of the rows.
        table : BlockTable, default=None
            Tables of these collections, from :func:`antithetic.dask.pair`, for an ``order`` without
            ``pairs``. If rows were exchanged between blocks, the new blocks are used.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C, or if the cluster was lost, it holds the last
            complete round.

        Raises
        ------
        ClusterLostError
            If the scheduler was lost. With ``checkpoint=``, fitting again resumes after the last
            complete round.
        """
        self._fit_blocks(X, y, sample_weight, coef_init, intercept_init, table)
        return self

    def partial_fit(self, X: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        """Refuse, since a round needs all blocks.

        Parameters
        ----------
        X, y, *args, **kwargs
            Ignored.
        """
        raise NotImplementedError(
            "a round needs all blocks; use fit, with warm_start=True to continue, or"
            " to_local().partial_fit for one chunk"
        )

    # ---- from parameters to a plan

    def _validate_params(self) -> None:
        check_words(self)  # with advice, before scikit-learn lists the allowed values
        super()._validate_params()

    def _choice(self, average: bool | int | str) -> Choice:
        # blocks make plain steps if the loss has a kink, and the search rejects bad ones
        solver = "newton" if self.solver == "newton" else "sgd"
        return super()._choice(average)._replace(solver=solver)

    def _solver_name(self) -> str:
        """Name of the solver that a fit uses."""
        return str(self._solver_used)

    def _choose_solver(self, table: BlockTable | None) -> str:
        """Newton's method if it supports all parameters given, otherwise corrected steps."""
        if self.solver != "auto":
            return str(self.solver)
        choice = super()._choice(False)._replace(solver="newton")
        is_smooth = refuses(choice) is None and choice.penalty.l1 == 0.0
        has_units = table is not None or self.batch_size != BATCH_SIZE or not self.shuffle
        return "newton" if is_smooth and not has_units else "svrg"

    def _planned_order(self, table: BlockTable | None) -> Order:
        """Return the order of each block, with the pairs of the table if one is given."""
        order = (self._order() or Shuffle()) if self.shuffle else InOrder()
        if table is None:
            return order
        if not self.shuffle:
            raise ValueError(
                "shuffle=False uses the rows in the given order, without table=; use shuffle=True"
            )
        if order.pairs is not None:
            raise ValueError(f"table= is given twice: to fit, and in order={order!r}")
        return order.but(pairs=table.pairs)

    def _plan(self, common: Common) -> Plan:
        corrected = (
            "epochs of corrected steps, then the best of a few points along their mean"
            if self._solver_name() != "sgd"
            else "epochs are averaged"
        )
        why = f"{corrected}; each block has an order of its own"
        return Plan(common.order, common.batch_size, False, why)

    # ---- fitting

    def _fit_blocks(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        coef_init: Any,
        intercept_init: Any,
        table: BlockTable | None,
    ) -> None:
        self._check_together()
        check_supported(self)
        if y is None and table is None:
            raise ValueError(f"{type(self).__name__} needs labels: y is None")
        if table is not None and self.solver == "newton":
            raise ValueError(
                "solver='newton' visits all rows in each iteration, so it cannot be combined with"
                " table=; leave it out, or use solver='svrg'"
            )
        if table is not None and not isinstance(table, BlockTable):
            raise ValueError(
                f"table= must be a table from antithetic.dask.pair; got {type(table).__name__}"
            )
        with self._unchanged_on_errors(), client_of(self.client) as client:
            if table is not None:
                table.check_for(X, y, sample_weight)
            if table is not None and table.dealt:
                blocks = table.blocks
            else:
                blocks = read_blocks(X, y, sample_weight, client=client)
            seed = 0
            if self.random_state is not None:
                seed = int(check_random_state(self.random_state).randint(LARGEST_SEED))
            self._solver_used = self._choose_solver(table)
            is_newton = self._solver_used == "newton"
            aim = Look(
                self._loss(),
                bool(self.fit_intercept),
                seed,
                for_newton=is_newton,
                marks=self.checkpoint is not None,
            )
            glances = look(client, blocks, aim, after_loss=self._after_loss())
            self._learn(blocks, glances)
            train = self._train_newton if is_newton else self._train_locally
            train(client, BlockData(blocks, glances, table), coef_init, intercept_init)
        self._warn_after_fit()

    def _train_locally(
        self, client: Any, seen: BlockData, coef_init: Any, intercept_init: Any
    ) -> None:
        """Run rounds of local steps and keep the result; on errors, the last complete round."""
        firsts = self._first_weights(coef_init, intercept_init, self.n_features_in_)
        starts = [np.append(coef, intercept) for coef, intercept in firsts]
        rng = check_random_state(self.random_state)
        seeds = tuple(rng.randint(LARGEST_SEED, size=len(starts)).tolist())
        begin = Progress(tuple(Standing.at(start) for start in starts), seeds=seeds)
        mark = self._mark(seen, starts)
        seeded = self.random_state is not None and not hasattr(self.random_state, "randint")
        progress = checkpoint.resume(self.checkpoint, mark, begin, seeded=seeded)
        common = self._common(seen, progress.seeds)
        if not progress.steps:
            progress = replace(progress, steps=self._first_steps(seen, common))
        if self.verbose:
            print(
                f"{type(self).__name__}: {len(seen.blocks)} blocks of {common.rows} rows in all;"
                f" {self._plan(common).why}"
            )
        rounds = self._rounds(client, seen, common, progress)
        try:
            for reached in rounds.run(progress, int(self.max_iter)):
                progress = reached
                if self.checkpoint is not None:
                    checkpoint.save(self.checkpoint, mark, progress)
                if self.verbose:
                    _print_round(progress)
        except (KeyboardInterrupt, ClusterLostError):
            if progress.rounds:
                self._adopt(self._fitted_from(progress, rounds, seen))
            raise
        self._adopt(self._fitted_from(progress, rounds, seen))

    def _mark(self, seen: BlockData, starts: list[NDArray[np.float64]]) -> dict[str, Any]:
        """Identity of this fit, for checkpoints."""
        changes: dict[str, Any] = {"order": self._planned_order(seen.table)}
        if seen.table is not None:
            changes["table"] = seen.table.origin
        return {
            "settings": self._settings(**changes),
            "data": mark_data(seen.glances, starts),
        }

    def _common(self, seen: BlockData, seeds: tuple[int, ...]) -> Common:
        return Common(
            self._loss(),
            self._penalty(self.n_features_in_),
            bool(self.fit_intercept),
            self._one_vs_rest(),
            seen.rows,
            int(self.batch_size),
            self._planned_order(seen.table),
            seeds,
        )

    def _first_steps(self, seen: BlockData, common: Common) -> tuple[float, ...]:
        """First step and decay of each problem, unless they were given."""
        numbers: list[float] = []
        for problem in range(common.n_problems):
            found = InverseTime(1.0, 0.0)
            if self.learning_rate == "auto":
                found = first_steps(seen.glances, common, problem)
            numbers += [found.eta0, found.decay or 0.0]
        return tuple(numbers)

    def _steps_from(self, progress: Progress) -> tuple[Steps, ...]:
        """Steps of each problem, found or given."""
        found = np.array(progress.steps).reshape(-1, 2).tolist()
        if self.learning_rate != "auto":
            return (self._steps(),) * len(found)
        return tuple(
            InverseTime(eta0, decay if self.decay is None else self.decay) for eta0, decay in found
        )

    def _rounds(self, client: Any, seen: BlockData, common: Common, progress: Progress) -> Rounds:
        corrects, pairs = self._solver_name() != "sgd", common.order.pairs
        tables = () if pairs is None else tables_of(client, seen.blocks, common, seen.table)
        constants = None
        if corrects and self.learning_rate == "auto":
            together = 1 if pairs is None else 2
            if pairs is not None and pairs.nest is not None and pairs.nest is not True:
                together = pairs.nest
            units = max(1, common.batch_size // together)
            constants = constant_steps(seen.glances, units, common.penalty.l2, common.heaviest)
        return Rounds(
            client,
            seen.blocks,
            tables,
            common,
            self._steps_from(progress),
            constants,
            corrects,
            bool(traced(self)) or self.tol is not None,
            self._stop(),
            self._after_loss(),
        )

    # ---- from rounds to attributes

    def _fitted_from(self, progress: Progress, rounds: Rounds, seen: BlockData) -> dict[str, Any]:
        """Attributes of a model after some rounds."""
        common, plan = rounds.common, self._plan(rounds.common)
        solutions = [
            (one.weights[:-1].astype(seen.real), float(one.weights[-1]))
            for one in progress.standings
        ]
        names = set(traced(self))
        if rounds.corrects or rounds.measures:
            names.add("objective")  # which the rounds compute anyway
        histories = _histories(progress, names)
        schedules = [steps.schedule(common.loss, common.penalty) for steps in rounds.steps]
        return {
            **self._weights_of(solutions),
            "n_iter_": progress.rounds,
            "t_": 1 + progress.rounds * common.rows,
            "plan_": plan,
            "history_": histories if len(histories) > 1 else histories[0],
            "_converged": all(one.stopped for one in progress.standings),
            **self._steps_of([*schedules], plan.noise),
        }


def _histories(progress: Progress, names: set[str]) -> list[dict[str, NDArray[Any]]]:
    """One dict per problem, with what was measured in each round."""
    table = np.array(progress.history).reshape(progress.rounds, -1)
    histories = []
    for k in range(len(progress.standings)):
        columns = {"epoch": np.arange(1, progress.rounds + 1), "seconds": table[:, 0]}
        for place, name in enumerate(("objective", "gradient")):
            if name in names:
                columns[name] = table[:, 1 + 2 * k + place]
        histories.append(columns)
    return histories


def _print_round(progress: Progress) -> None:
    seconds, *numbers = progress.history[-1]
    objective = float(np.mean(numbers[::2]))
    known = f", objective {objective:.6g}" if math.isfinite(objective) else ""
    print(f"round {progress.rounds}: {seconds:.2f} s{known}", flush=True)
