"""What both estimators share: from parameters and blocks to rounds, and from these to attributes.

Predictions block by block.
"""

from __future__ import annotations

import copy
import math
import os
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from antithetic.dask import checkpoint
from antithetic.dask._pair import BlockTable, tables_of
from antithetic.dask.blocks import Blocks, feature_names, read_blocks
from antithetic.dask.checkpoint import Progress
from antithetic.dask.cluster import ClusterLostError, client_of, compute
from antithetic.dask.fit import Rounds
from antithetic.dask.predict import Weights, check_names, is_distributed, lazily, score_blocks
from antithetic.dask.refusals import check_supported
from antithetic.dask.rounds import Common
from antithetic.dask.scan import Glance, constant_steps, first_steps, look
from antithetic.dask.search import Standing
from antithetic.estimators.base import _LARGEST_SEED, LinearSGD
from antithetic.solvers import Patience, Steps, Target
from antithetic.training.tables import check_nest
from antithetic.training.tasks import Plan

_NOT_OF_THE_PROBLEM = (
    "client",
    "checkpoint",
    "verbose",
    "max_iter",
    "n_jobs",
    "random_state",
    "trace",
)


class Distributed(LinearSGD):
    """Fit and predict on Dask collections.

    The classes that inherit from it say how labels are read.
    """

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
        check_supported(self)
        if y is None and table is None:
            raise ValueError(f"{type(self).__name__} needs labels: y is None")
        with self._unchanged_on_errors(), client_of(self.client) as client:
            if table is not None and not isinstance(table, BlockTable):
                raise ValueError(
                    f"table= must be what antithetic.dask.pair returns; got {type(table).__name__}"
                )
            if table is not None:
                table.check_for(X, y, sample_weight)
            blocks = (
                table.blocks
                if table is not None and table.dealt
                else read_blocks(X, y, sample_weight, client=client)
            )
            seed = (
                int(check_random_state(self.random_state).randint(_LARGEST_SEED))
                if self.random_state is not None
                else 0
            )
            glances = compute(client, look(blocks, self._loss(), bool(self.fit_intercept), seed))
            self._learn(blocks, glances)
            self._train(client, blocks, glances, coef_init, intercept_init, table)
        self._warn_after_fit()

    def _learn(self, blocks: Blocks, glances: list[Glance]) -> None:
        """Take over what the blocks say about features and labels, once it is known that they agree."""
        widths = {one.width for one in glances}
        if len(widths) > 1:
            raise ValueError(
                f"the blocks of X differ in their number of features: {sorted(widths)}"
            )
        if widths == {0} or not widths:
            raise ValueError("X has no features")
        if not any(one.rows for one in glances):
            raise ValueError("X has no rows: all its blocks are empty")
        if len({one.kind for one in glances if one.rows}) > 1:
            raise ValueError(
                "the blocks of X differ in float type, or in being sparse:"
                f" {sorted({one.kind for one in glances})}"
            )
        if not any(one.weighted > 0.0 for one in glances):
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        self._learn_labels(glances)
        self.n_features_in_ = widths.pop()
        self.__dict__.pop("feature_names_in_", None)
        if blocks.names is not None:
            self.feature_names_in_ = blocks.names

    def _common(
        self, glances: list[Glance], seeds: tuple[int, ...], table: BlockTable | None
    ) -> Common:
        weights = getattr(self, "_class_weights", None)
        return Common(
            self._loss(),
            self._penalty(self.n_features_in_),
            bool(self.fit_intercept),
            getattr(self, "classes_", None),
            None if weights is None or (weights == 1.0).all() else weights,
            sum(one.rows for one in glances),
            int(self.batch_size),
            (
                "in order"
                if not self.shuffle
                else "shuffle"
                if self.sampling == "auto"
                else self.sampling
            ),
            None if table is not None or isinstance(self.nest, str) else check_nest(self.nest),
            seeds,
        )

    def _train(
        self,
        client: Any,
        blocks: Blocks,
        glances: list[Glance],
        coef_init: Any,
        intercept_init: Any,
        table: BlockTable | None,
    ) -> None:
        starts = [
            np.append(coef, intercept)
            for coef, intercept in self._first_weights(
                coef_init, intercept_init, self.n_features_in_
            )
        ]
        seeds = tuple(
            check_random_state(self.random_state).randint(_LARGEST_SEED, size=len(starts)).tolist()
        )
        progress = Progress(tuple(Standing.at(start) for start in starts), seeds=seeds)
        settings, mark = (
            self._settings() | ({} if table is None else {"table": table.origin}),
            _mark(glances, starts),
        )
        progress = self._resumed(progress, settings, mark)
        common = self._common(glances, progress.seeds, table)
        if not progress.steps:
            progress = Progress(
                progress.standings, seeds=progress.seeds, steps=self._first_steps(glances, common)
            )
        plan = self._plan_of(common, table)
        if self.verbose:
            print(
                f"{type(self).__name__}: {len(blocks)} blocks of {common.rows} rows in all;"
                f" {plan.why}"
            )
        tables = (
            tables_of(client, blocks, common, self.pairing, table)
            if plan.pairing is not None
            else ()
        )
        rounds = self._rounds(client, blocks, tables, common, glances, progress)
        try:
            for reached in rounds.run(progress, int(self.max_iter)):
                progress = reached
                if self.checkpoint is not None:
                    checkpoint.save(self.checkpoint, _join(settings, mark), progress)
                if self.verbose:
                    _say(progress)
        except (KeyboardInterrupt, ClusterLostError):
            if progress.rounds:
                self._adopt(self._fitted_from(progress, plan, common, glances))
            raise
        self._adopt(self._fitted_from(progress, plan, common, glances))

    def _rounds(
        self,
        client: Any,
        blocks: Blocks,
        tables: Any,
        common: Common,
        glances: list[Glance],
        progress: Progress,
    ) -> Rounds:
        corrects, automatic = self.solver == "svrg", self.learning_rate == "auto"
        heaviest = 1.0 if common.class_weights is None else float(common.class_weights.max())
        together = (
            1
            if not len(tables)
            else (
                common.nest
                if isinstance(common.nest, int) and not isinstance(common.nest, bool)
                else 2
            )
        )
        units = max(1, common.batch_size // together)
        steps = (
            constant_steps(glances, units, common.penalty.l2, heaviest)
            if corrects and automatic
            else None
        )
        found = np.array(progress.steps).reshape(-1, 2)
        patience: Patience | Target | None = None
        if self.tol is not None:
            objective = self.stopping == "objective"
            patience = (
                Patience(float(self.tol), int(self.n_iter_no_change))
                if objective
                else Target(float(self.tol))
            )
        saved = (
            f" fit again: it goes on from {os.fspath(self.checkpoint)!r}"
            if self.checkpoint is not None
            else ""
        )
        return Rounds(
            client,
            blocks,
            tables,
            common,
            tuple(self._schedule(Steps(*pair)) for pair in found.tolist()),
            steps,
            corrects,
            bool(self._trace()) or self.tol is not None,
            patience,
            saved.strip()
            or "fit again; with checkpoint='fit.npz', say, it would go on from the last round",
        )

    def _first_steps(self, glances: list[Glance], common: Common) -> tuple[float, ...]:
        if self.learning_rate != "auto":
            return (1.0, 0.0) * common.n_problems
        return tuple(
            number
            for problem in range(common.n_problems)
            for number in first_steps(glances, common, problem)
        )

    def _resumed(self, begin: Progress, settings: dict[str, str], mark: str) -> Progress:
        """Return the progress that a checkpoint holds, if there is one.

        It must be of the same fit.
        """
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return begin
        written, progress = checkpoint.load(self.checkpoint)
        name = os.fspath(self.checkpoint)
        advice = "delete the file to begin anew, or name another"
        before, data = written["settings"], written["data"]
        changed = [key for key in before | settings if before.get(key) != settings.get(key)]
        if changed:
            raise ValueError(
                f"checkpoint {name!r} is of a fit with other parameters"
                f" ({', '.join(sorted(changed))}); {advice}"
            )
        sizes = [[len(one.weights) for one in reached.standings] for reached in (progress, begin)]
        if data != mark or sizes[0] != sizes[1]:
            raise ValueError(
                f"checkpoint {name!r} is of other data, other blocks of them, or other first"
                f" weights; {advice}"
            )
        if (
            self.random_state is not None
            and progress.seeds != begin.seeds
            and not hasattr(self.random_state, "randint")
        ):
            raise ValueError(f"checkpoint {name!r} is of a fit with another random_state; {advice}")
        return progress

    def _settings(self) -> dict[str, str]:
        """Parameters that a fit depends on, as text."""
        kept = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_OF_THE_PROBLEM
        }
        return {
            name: value if isinstance(value, str) else _text(value) for name, value in kept.items()
        }

    def _plan_of(self, common: Common, table: BlockTable | None) -> Plan:
        corrected = (
            "epochs of corrected steps, the best of a few points along their mean"
            if self.solver == "svrg"
            else "epochs are averaged"
        )
        pairing: str | None = None
        if table is not None:
            pairing = table.method
        elif isinstance(self.pairing, str) and self.pairing != "auto":
            pairing = self.pairing
        elif callable(self.pairing):
            pairing = getattr(self.pairing, "__name__", type(self.pairing).__name__)
        return Plan(
            pairing,
            common.sampling,
            common.nest,
            None,
            common.batch_size,
            f"{corrected}; each block has an order of its own",
        )

    def _fitted_from(
        self, progress: Progress, plan: Plan, common: Common, glances: list[Glance]
    ) -> dict[str, Any]:
        real = np.dtype(next(one.kind for one in glances if one.rows).split()[0])
        solutions = [
            (one.weights[:-1].astype(real), float(one.weights[-1])) for one in progress.standings
        ]
        found = np.array(progress.steps).reshape(-1, 2)
        schedules = [self._schedule(Steps(*pair)) for pair in found.tolist()]
        histories = _histories(progress, self._trace())
        return {
            **self._weights_of(solutions),
            "n_iter_": progress.rounds,
            "t_": 1 + progress.rounds * common.rows,
            "plan_": plan,
            "history_": histories if len(histories) > 1 else histories[0],
            "_converged": all(one.stopped for one in progress.standings),
            **self._steps_of(schedules, plan.noise),
        }

    # ---- using the model

    def to_local(self) -> Any:
        """Return the model as the estimator of one machine, :class:`antithetic.SGDClassifier` or :class:`antithetic.SGDRegressor`."""
        check_is_fitted(self)
        kind = self._local_class
        names = set(kind().get_params(deep=False))
        given = {
            name: value for name, value in self.get_params(deep=False).items() if name in names
        }
        local = kind(**given)
        for name in (
            "coef_",
            "intercept_",
            "classes_",
            "n_features_in_",
            "feature_names_in_",
            "n_iter_",
            "t_",
            "_class_weights",
        ):
            if hasattr(self, name):
                setattr(local, name, copy.copy(getattr(self, name)))
        return local

    def _apply(self, method: str, X: Any, columns: int | None, dtype: Any) -> Any:
        """Result of a method of the local model: an array, or lazily one of Dask's for a collection of Dask's."""
        check_is_fitted(self)
        local = self.to_local()
        if not is_distributed(X):
            return getattr(local, method)(X)
        check_names(getattr(self, "feature_names_in_", None), feature_names(X))
        return lazily(local, method, X, columns, dtype)

    def predict(self, X: Any) -> Any:
        """Predict a label or number for each row: lazily for Dask's collections, at once for arrays.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        Dask array or ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._apply(
            "predict",
            X,
            None,
            self.classes_.dtype if hasattr(self, "classes_") else self.coef_.dtype,
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or for regression the coefficient of determination, block by block: no block leaves its worker.

        Parameters
        ----------
        X : Dask array or data frame, array-like or sparse matrix of shape (n_samples, n_features)
        y : of the same kind and shape (n_samples,)
        sample_weight : of the same kind and shape (n_samples,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if not is_distributed(X):
            return float(self.to_local().score(X, y, sample_weight))
        check_names(getattr(self, "feature_names_in_", None), feature_names(X))
        weights = Weights(self.coef_, self.intercept_, getattr(self, "classes_", None))
        with client_of(self.client) as client:
            return score_blocks(client, weights, read_blocks(X, y, sample_weight, client=client))

    # ---- a client is no value

    def __sklearn_clone__(self) -> Any:
        given = self.get_params(deep=False)
        client = given.pop("client")
        made = type(self)(
            **{name: clone(value, safe=False) for name, value in given.items()}, client=client
        )
        if hasattr(self, "_metadata_request"):
            made._metadata_request = copy.deepcopy(self._metadata_request)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "client": None} if not isinstance(state.get("client"), str) else state


def _mark(glances: list[Glance], starts: list[NDArray[np.float64]]) -> str:
    mark = blake2b(digest_size=16)
    for one in glances:
        mark.update(f"{one.rows} {one.width} {one.kind} {one.mark};".encode())
    for start in starts:
        mark.update(start.tobytes())
    return mark.hexdigest()


def _join(settings: dict[str, str], mark: str) -> dict[str, Any]:
    return {"settings": settings, "data": mark}


def _text(value: Any) -> str:
    """A parameter as text.

    An object of the user's by its type and attributes, since its address says nothing.
    """
    if value is None or isinstance(value, (bool, int, float, np.generic)):
        return repr(value)
    if isinstance(value, (list, tuple, dict, np.ndarray)):
        return blake2b(
            repr(
                np.asarray(value, dtype=object).tolist() if not isinstance(value, dict) else value
            ).encode(),
            digest_size=8,
        ).hexdigest()
    return f"{type(value).__qualname__} {getattr(value, '__name__', '')} {sorted(getattr(value, '__dict__', {}).items())!r}"[
        :200
    ]


def _histories(progress: Progress, trace: tuple[str, ...]) -> list[dict[str, NDArray[Any]]]:
    table = np.array(progress.history).reshape(progress.rounds, -1)
    histories = []
    for k in range(len(progress.standings)):
        columns = {"epoch": np.arange(1, progress.rounds + 1), "seconds": table[:, 0]}
        columns |= {
            name: table[:, 1 + 2 * k + place]
            for place, name in enumerate(("objective", "gradient"))
            if name in trace
        }
        histories.append(columns)
    return histories


def _say(progress: Progress) -> None:
    seconds, *numbers = progress.history[-1]
    objective = float(np.mean(numbers[::2]))
    known = f", objective {objective:.6g}" if math.isfinite(objective) else ""
    print(f"round {progress.rounds}: {seconds:.2f} s{known}", flush=True)
