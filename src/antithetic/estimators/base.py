"""What both scikit-learn estimators share: from parameters and checked data to training tasks, and from these to attributes."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import SparseCoefMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import validate_data

from antithetic._util.validation import canonical_csr, check_weights
from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context, watch_epochs
from antithetic.orders import ALLOCATIONS, SAMPLINGS, Draws
from antithetic.orders.importance import IMPORTANCES
from antithetic.pairing.table import AntitheticTable, check_table, pair_ratio
from antithetic.problem import Problem
from antithetic.problem.losses import Loss, get_loss
from antithetic.problem.penalties import ElasticNet, GroupLasso, OwnPenalty, Penalty, read_groups
from antithetic.solvers import (
    NOISE_OF_A_MEAN,
    SOLVERS,
    Care,
    Patience,
    SgdState,
    Steps,
    Target,
    check_shrinking,
    find_steps,
    make_solver,
    noise_of_balanced,
)
from antithetic.solvers.steps import Schedule, make_schedule
from antithetic.training.advise import choose_sampling, is_worth_averaging
from antithetic.training.combinations import STOPPINGS, check_combination
from antithetic.training.tables import Tables, check_nest, check_refresh, refuse_nested_table
from antithetic.training.tasks import Plan, Record, Task, epochs_bar, train, train_all
from antithetic.training.trace import TRACES, check_trace

_LARGEST_SEED = np.iinfo(np.int32).max
# where slopes are cut off, as in scikit-learn: a first step that is far too long then need not
# overflow
_STEEPEST = 1e12
_PAIRINGS = {"auto", "greedy", "optimal", "tree", "random"}


class Rows(NamedTuple):
    """Checked data: rows, targets as given, weights of the rows (None where all are 1), and labels of strata, if there are such."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    strata: NDArray[Any] | None = None

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        weight, strata = (
            None if column is None else column[rows] for column in (self.weight, self.strata)
        )
        return Rows(self.X[rows], self.y[rows], weight, strata)

    def shown(self) -> dict[str, Any]:
        """What callbacks get to see."""
        return {
            "X": self.X,
            "y": self.y,
            "metadata": None if self.weight is None else {"sample_weight": self.weight},
        }


class LinearSGD(CallbackSupportMixin, SparseCoefMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What the classifier and the regressor share: from checked data to trained weights."""

    _doc_link_module = "antithetic"
    _doc_link_template = (
        "https://antithetic.readthedocs.io/en/stable/generated/antithetic.{estimator_name}.html"
    )

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"estimator_name": type(self).__name__}

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        "penalty": [
            StrOptions({"l2", "l1", "elasticnet", "group_lasso"}),
            HasMethods(["value", "prox"]),
            None,
        ],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "shuffle": ["boolean"],
        "verbose": ["verbose"],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "learning_rate": [
            StrOptions(
                {
                    "auto",
                    "inverse_time",
                    "constant",
                    "optimal",
                    "invscaling",
                    "adaptive",
                    "pa1",
                    "pa2",
                }
            )
        ],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, None, None, closed="neither")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "average": [
            Interval(Integral, 0, None, closed="neither"),
            "boolean",
            StrOptions({"auto", "epoch", "linear"}),
        ],
        "pairing": [StrOptions(_PAIRINGS), callable, AntitheticTable, None],
        "sampling": [StrOptions({"auto", *SAMPLINGS})],
        "solver": [StrOptions(set(SOLVERS))],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "nest": [StrOptions({"auto"}), "boolean", Interval(Integral, 2, None, closed="left"), None],
        "refresh": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            "array-like",
            None,
        ],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "stopping": [StrOptions(set(STOPPINGS))],
        "groups": ["array-like", None],
        "importance": [StrOptions(set(IMPORTANCES))],
        "n_strata": [Interval(Integral, 1, None, closed="left"), None],
        "allocation": [StrOptions(set(ALLOCATIONS))],
        "trace": [StrOptions(set(TRACES) - {"distance"}), tuple, list, None],
    }

    # ---- from parameters to what the solvers take

    def _validate_params(self) -> None:
        """Check each parameter by itself, as in scikit-learn, but no default twice: that takes longer than an epoch of few rows."""
        allowed = _allowed_defaults(type(self))  # type: ignore[arg-type]  # mypy looks at the hash of instances
        given = {name: getattr(self, name) for name in allowed}
        changed = {name: value for name, value in given.items() if value is not allowed[name]}
        validate_parameter_constraints(
            self._parameter_constraints, changed, caller_name=type(self).__name__
        )

    def _check_parameters(self, for_partial_fit: bool = False) -> None:
        """Check what depends on more than one parameter, before the first step."""
        if self.early_stopping and for_partial_fit:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")
        if not self.shuffle and self.sampling not in ("auto", "shuffle"):
            raise ValueError(
                "shuffle=False takes the rows in the order given, without"
                f" sampling={self.sampling!r}; use sampling='auto'"
            )
        if not self.shuffle and self.pairing not in (None, "auto"):
            raise ValueError(
                "shuffle=False takes the rows in the order given, without pairs; use shuffle=True"
                " or pairing=None"
            )
        self._schedule(Steps(1.0, 0.0))
        nest = None if isinstance(self.nest, str) else check_nest(self.nest)
        # which penalty it is does not depend on the number of features
        penalty = (
            self._penalty(1)
            if self.penalty != "group_lasso"
            else GroupLasso(((0,),), float(self.alpha))
        )
        if self.penalty == "group_lasso" and self.groups is None:
            raise ValueError(
                "penalty='group_lasso' needs groups, a label for each feature or a list of lists of"
                " features"
            )
        if self.penalty != "group_lasso" and self.groups is not None:
            raise ValueError(
                "groups belongs to penalty='group_lasso'; leave it out, or name that penalty"
            )
        sampling = "shuffle" if self.sampling == "auto" else self.sampling
        pairing = None if isinstance(self.pairing, str) and self.pairing == "auto" else self.pairing
        check_combination(
            pairing,
            nest,
            sampling,
            self.solver,
            penalty,
            self._loss(),
            average=self.average != "auto" and self.average,
            learning_rate=self.learning_rate,
            intercept=self.fit_intercept,
        )
        if self.solver == "sdca" and self.decay is not None:
            raise ValueError("solver='sdca' has no step size; leave decay out")
        Draws(self.importance, None, self.n_strata, self.allocation).check(self.sampling)
        if self.stopping != "objective":
            self._check_stopping()
        if nest is not None:
            refuse_nested_table(self.nest, self.pairing)
            if self.pairing is None or self.pairing == "auto":
                raise ValueError(
                    "nest= refines a pairing, and 'auto' makes none; name one, say pairing='tree'"
                )
        if not isinstance(self.refresh, str):
            check_refresh(self.refresh)
        for name in self._trace():
            if name not in TRACES or name == "distance":
                raise ValueError(
                    f"trace {name!r} is not known; use some of"
                    f" {', '.join(sorted(set(TRACES) - {'distance'}))}"
                )
        check_trace(self._trace(), self.solver, self.sampling)

    def _check_stopping(self) -> None:
        if self.learning_rate == "adaptive":
            raise ValueError(
                f"learning_rate='adaptive' watches the objective; with stopping={self.stopping!r}"
                " use another, say 'auto'"
            )
        if self.early_stopping:
            raise ValueError(
                f"early_stopping watches the validation score; with stopping={self.stopping!r}"
                " leave it out"
            )
        if self.tol is None:
            raise ValueError(
                f"stopping={self.stopping!r} ends a run once that is at most tol, so it needs tol,"
                " say 1e-6"
            )

    def _trace(self) -> tuple[str, ...]:
        names = (
            ()
            if self.trace is None
            else (self.trace,)
            if isinstance(self.trace, str)
            else tuple(self.trace)
        )
        return (
            names
            if self.stopping == "objective" or self.stopping in names
            else (*names, self.stopping)
        )

    def _loss(self) -> Loss:
        return replace(get_loss(self.loss), epsilon=float(self.epsilon))

    def _penalty(self, d: int) -> Penalty:
        """Penalty of so many weights."""
        if self.penalty == "group_lasso":
            return GroupLasso(read_groups(self.groups, d), float(self.alpha))
        if not (self.penalty is None or isinstance(self.penalty, str)):
            return OwnPenalty(self.penalty)
        l1_ratio = (
            {None: 0.0, "l2": 0.0, "l1": 1.0}[self.penalty]
            if self.penalty != "elasticnet"
            else float(self.l1_ratio)
        )
        alpha = 0.0 if self.penalty is None else float(self.alpha)
        return ElasticNet((1.0 - l1_ratio) * alpha, l1_ratio * alpha)

    def _schedule(self, steps: Steps) -> Any:
        """Return the schedule of the parameters; ``steps`` is what "auto" found."""
        decay = steps.decay if self.learning_rate == "auto" else float(self.alpha)
        if self.decay is not None:
            decay = float(self.decay)
        if self.learning_rate == "optimal" and self.alpha == 0:
            raise ValueError(
                "alpha must be > 0 since learning_rate is 'optimal': the step size is computed from"
                " it; use 'auto' instead"
            )
        return make_schedule(
            "inverse_time" if self.learning_rate == "auto" else self.learning_rate,
            eta0=steps.eta0 if self.learning_rate == "auto" else float(self.eta0),
            decay=decay,
            alpha=float(self.alpha),
            power_t=float(self.power_t),
            loss=self._loss(),
        )

    def _plan(self, rows: Rows, table: AntitheticTable | None, *, epochs: int, whole: bool) -> Plan:
        """Decide what the parameters leave open, and say why.

        ``whole`` if these are all rows that there will be.
        """
        plan = self._plan_order(rows, table, epochs=epochs)
        n, d = rows.X.shape
        average = self.average
        if average == "auto":
            automatic = whole and self.learning_rate == "auto" and self.solver == "sgd"
            average = (
                "epoch"
                if automatic and is_worth_averaging(n, d, self._loss(), self._penalty(d))
                else False
            )
        noise = noise_of_balanced(n, d) if plan.sampling == "balanced" else 1.0
        if average == "epoch" and whole and epochs == 1:
            noise = NOISE_OF_A_MEAN
        return replace(plan, average=average, noise=noise)

    def _plan_order(self, rows: Rows, table: AntitheticTable | None, *, epochs: int) -> Plan:
        n, d = rows.X.shape
        batch_size = min(int(self.batch_size), n)
        if not self.shuffle:
            return Plan(
                None,
                "in order",
                None,
                None,
                batch_size,
                "shuffle=False: the rows are taken in the order given",
            )
        nest = None if isinstance(self.nest, str) else check_nest(self.nest)
        refresh = (
            None if isinstance(self.refresh, str) or epochs == 1 else check_refresh(self.refresh)
        )
        sampling, why = self.sampling, f"sampling={self.sampling!r} was asked for"
        if sampling == "auto" and self.solver in ("saga", "sdca"):
            sampling, why = (
                "shuffle",
                "reshuffled, since balanced orders are for solvers 'sgd' and 'svrg'",
            )
        elif sampling == "auto" or (
            sampling == "balanced" and epochs == 1
        ):  # which has no order to follow, and draws one
            sampling, why = choose_sampling(n, d, batch_size=batch_size, epochs=epochs)
        if table is not None:
            given = "pairing= is a table" if table is self.pairing else "table= was given to fit"
            return Plan(table.method, sampling, None, refresh, batch_size, f"{given}; {why}")
        if self.pairing is None or self.pairing == "auto":
            no_table = (
                ""
                if self.pairing is None
                else "; no table, which costs a linear model tens of epochs"
            )
            return Plan(None, sampling, None, None, batch_size, why + no_table)
        name = (
            self.pairing
            if isinstance(self.pairing, str)
            else getattr(self.pairing, "__name__", type(self.pairing).__name__)
        )
        return Plan(
            name, sampling, nest, refresh, batch_size, f"pairing={name!r} was asked for; {why}"
        )

    # ---- from data to tasks

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool, strata: Any = None) -> Rows:
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=reset,
            y_numeric=self._y_numeric,
            skip_check_array=_is_checked(X, y),
        )
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, X.shape[0], all_zero=True)
        labels = None if strata is None else self._check_strata(strata, X.shape[0])
        return Rows(canonical_csr(X) if sparse.issparse(X) else X, y, weight, labels)

    def _check_strata(self, strata: Any, n: int) -> NDArray[Any]:
        if self.sampling != "stratified":
            raise ValueError(
                f"strata= belongs to sampling='stratified'; got sampling={self.sampling!r}"
            )
        labels = np.asarray(strata)
        if labels.shape != (n,):
            raise ValueError(
                f"strata must have shape ({n},), one label per row of X; got {labels.shape}"
            )
        return labels

    def _split(
        self, rows: Rows, table: AntitheticTable | None, X_val: Any, y_val: Any
    ) -> tuple[Rows, AntitheticTable | None, Rows | None]:
        """Rows to train on, their table, and rows to validate on, if any."""
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together; give both or neither")
        if X_val is not None:
            validation = self._read(X_val, y_val, None, reset=False)
            self._check_targets(validation.y)
            return rows, table, validation
        if not self.early_stopping:
            return rows, table, None
        split = self._splitter(test_size=self.validation_fraction, random_state=self.random_state)
        train, held = (
            np.sort(part) for part in next(split.split(np.zeros((len(rows.y), 1)), rows.y))
        )
        validation = rows.take(held)
        if validation.weight is not None and not validation.weight.any():
            raise ValueError(
                "The sample weights for validation set are all zero, consider using a different"
                " random state."
            )
        return rows.take(train), None if table is None else table[train], validation

    def _records(
        self,
        rows: Rows,
        starts: list[Any],
        plan: Plan,
        *,
        epochs: int,
        known: list[Steps] | None = None,
        table: AntitheticTable | None = None,
        validation: Rows | None = None,
    ) -> list[Record]:
        """One record per task, which is made when its turn comes."""
        seeds = check_random_state(self.random_state).randint(_LARGEST_SEED, size=len(starts))

        def make(number: int) -> Task:
            problem = self._problem(rows, number)
            tables = self._tables(problem, plan, table, int(seeds[number]), number, rows.strata)
            score = (
                None
                if validation is None
                else partial(self._score, validation, self._target(validation.y, number))
            )
            return self._task(
                problem,
                tables,
                starts[number],
                known[number] if known else None,
                epochs,
                score,
                plan,
            )

        real = rows.X.dtype
        firsts = [
            (start.coef, start.intercept) if isinstance(start, SgdState) else start
            for start in starts
        ]
        return [
            Record(partial(make, number), (coef.astype(real), intercept), epochs)
            for number, (coef, intercept) in enumerate(firsts)
        ]

    def _problem(self, rows: Rows, number: int) -> Problem:
        weight = self._weights(rows, number)
        penalty = self._penalty(rows.X.shape[1])
        return Problem(
            rows.X,
            self._target(rows.y, number),
            self._loss(),
            penalty,
            weight,
            bool(self.fit_intercept),
            None,
        )

    def _task(
        self,
        problem: Problem,
        tables: Tables,
        start: Any,
        steps: Steps | None,
        epochs: int,
        score: Any,
        plan: Plan,
    ) -> Task:
        automatic, partial_fit = self.learning_rate == "auto", isinstance(start, SgdState)
        by_loss = self.tol is not None and not self.early_stopping and self.stopping == "objective"
        solver = make_solver(
            self.solver,
            problem,
            plan.average,
            steepest=np.inf if automatic else _STEEPEST,
            watch=by_loss or (automatic and not problem.loss.is_bounded),
        )
        state = solver.take_up(start) if partial_fit else solver.init(*start)
        if automatic and (steps is None or self.solver in ("svrg", "saga")):
            found = self._find_steps(problem, tables, state, plan.noise)
            steps = (
                found if steps is None else steps._replace(eta0=min(steps.eta0, found.eta0))
            )  # a later chunk may have longer rows
        patience: Patience | Target | None = None
        if self.tol is not None:
            objective = self.stopping == "objective"
            patience = (
                Patience(float(self.tol), int(self.n_iter_no_change))
                if objective
                else Target(float(self.tol))
            )
        schedule = self._schedule(steps or Steps(1.0, 0.0))
        check_shrinking(problem, schedule, self.solver)
        return Task(
            solver,
            tables,
            schedule,
            state,
            epochs,
            patience=patience,
            adaptive=self.learning_rate == "adaptive",
            care=(
                Care(problem.penalty.l2 if self.decay is None else float(self.decay))
                if automatic and self.solver == "sgd"
                else None
            ),
            trace=self._trace(),
            score=score,
            judged_by="validation_score" if self.early_stopping else self.stopping,
        )

    def _find_steps(self, problem: Problem, tables: Tables, state: SgdState, noise: float) -> Steps:
        """Steps of ``learning_rate="auto"``."""
        if self.solver == "sdca":
            return Steps(1.0, 0.0)  # which nobody looks at
        if self.solver != "sgd":
            return Steps(tables.safe_step(self.solver), 0.0)
        return find_steps(
            problem, tables.batch_size, tables.seed, state.coef, state.intercept, noise=noise
        )

    def _tables(
        self,
        problem: Problem,
        plan: Plan,
        table: AntitheticTable | None,
        seed: int,
        number: int,
        strata: NDArray[Any] | None,
    ) -> Tables:
        """Find the table of one task: the one given to fit, unless it does harm there, or one made for it."""
        pairing = None if plan.pairing is None else self.pairing if table is None else table
        if (
            self._y_numeric is False and (problem.y == problem.y[0]).all()
        ):  # some rows of one class: nothing opposes anything
            pairing = None
        if isinstance(pairing, AntitheticTable) and self._n_tasks() > 1:
            gain = pair_ratio(problem, problem.slopes(), pairing.partner)
            if gain >= 1.0:
                warn(
                    f"table= is set aside for class {self._name(number)!r} against the rest, where"
                    f" it would raise the variance ({gain:.2f} times that of independent rows); a"
                    " table for each class is made by pairing='greedy', 'tree' or 'optimal'",
                    UserWarning,
                )
                pairing = None
        draws = Draws(
            self.importance, strata, self.n_strata, self.allocation, corrected=self.solver != "sgd"
        )
        return Tables(
            problem,
            problem.y,
            pairing,
            plan.sampling,
            plan.batch_size,
            seed,
            plan.nest,
            plan.refresh,
            draws=draws,
        )

    # ---- training

    def _solve(self, records: list[Record], rows: Rows, plan: Plan) -> None:
        """Train, and take over what comes out; on Ctrl-C, what has come out so far."""
        ended = watch_epochs(
            self,
            records,
            rows.shown(),
            lambda: self._fitted([record.copy() for record in records], plan),
        )
        try:
            with epochs_bar(
                sum(record.most_epochs for record in records), bool(self.verbose)
            ) as advance:

                def watch(record: Record) -> bool:
                    advance()
                    return ended(record)

                train_all(records, time.perf_counter(), watch, getattr(self, "n_jobs", None))
        except KeyboardInterrupt:
            so_far = [record.copy() for record in records]
            if any(record.epochs for record in so_far):
                self._adopt(self._fitted(so_far, plan))
            raise
        self._adopt(self._fitted(records, plan))

    def _fitted(self, records: list[Record], plan: Plan) -> dict[str, Any]:
        """Attributes of a model that is made of the records as they stand."""
        solutions, histories = (
            [record.solution for record in records],
            [record.history() for record in records],
        )
        return {
            **self._weights_of(solutions),
            "n_iter_": max(record.epochs for record in records),
            "t_": (
                1 + max(0 if record.state is None else record.state.samples for record in records)
            ),
            "plan_": plan,
            "history_": histories if len(records) > 1 else histories[0],
            "_converged": all(
                record.state is not None and record.state.stopped for record in records
            ),
            "_states": [
                (
                    None
                    if record.state is None
                    else _kept(record.state, averages=plan.average != "epoch")
                )
                for record in records
            ],
            **self._steps_of([record.held[2] for record in records], plan.noise),
        }

    def _weights_of(self, solutions: list[tuple[NDArray[Any], float]]) -> dict[str, NDArray[Any]]:
        coef = np.stack([coef for coef, _ in solutions])
        return {
            "coef_": self._shape(coef),
            "intercept_": np.array([intercept for _, intercept in solutions], dtype=coef.dtype),
        }

    def _steps_of(self, schedules: list[Schedule | None], noise: float) -> dict[str, Any]:
        if self.learning_rate != "auto" or self.solver == "sdca" or None in schedules:
            return {}
        return {
            "_steps_of_solver": self.solver,
            "_noise_of_steps": noise,
            "eta0_": _one_or_all([schedule.eta0 for schedule in schedules if schedule]),
            "decay_": _one_or_all([schedule.rate for schedule in schedules if schedule]),
        }

    def _adopt(self, fitted: dict[str, Any]) -> None:
        for name in ("eta0_", "decay_", "_steps_of_solver", "_noise_of_steps"):
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)

    # ---- where a fit begins

    def _first_weights(
        self, coef_init: Any, intercept_init: Any, d: int
    ) -> list[tuple[Any, float]]:
        """Check the weights that a fit begins with, one pair per task.

        Those of the fit before with warm_start.
        """
        if self.warm_start and getattr(self, "coef_", None) is not None:
            coef_init = self._dense_coef() if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        k = self._n_tasks()
        coef = np.zeros((k, d)) if coef_init is None else np.asarray(coef_init, dtype=np.float64)
        intercept = (
            np.zeros(k) if intercept_init is None else np.asarray(intercept_init, dtype=np.float64)
        )
        if coef.shape != (k, d) and not (k == 1 and coef.shape == (d,)):
            raise ValueError(
                f"Provided coef_init does not match dataset: it has shape {coef.shape} and should"
                f" have {(k, d)}."
            )
        if intercept.shape != (k,) and not (k == 1 and intercept.shape == ()):
            raise ValueError(
                f"Provided intercept_init does not match dataset: it has shape {intercept.shape}"
                f" and should have {(k,)}."
            )
        return list(zip(coef.reshape(k, d), intercept.reshape(k).tolist(), strict=True))

    def _later_states(self, d: int) -> list[Any]:
        """States to go on from in partial_fit: the public weights, which the user may have changed (unless they are averages)."""
        coef = np.atleast_2d(self._dense_coef())
        if coef.shape[1] != d:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {coef.shape[1]}"
                " features as input."
            )
        if not hasattr(self, "_states"):  # the weights were set by hand
            return list(zip(coef, np.ravel(self.intercept_).tolist(), strict=True))
        return [
            (
                (weights, float(intercept))
                if state is None
                else (
                    SgdState(**state)
                    if state["average"] is not None
                    else SgdState(**{**state, "coef": weights, "intercept": float(intercept)})
                )
            )
            for state, weights, intercept in zip(
                self._states, coef, np.ravel(self.intercept_), strict=True
            )
        ]

    def _known_steps(self, noise: float) -> list[Steps] | None:
        """Steps that "auto" found on an earlier call, if they are to be kept.

        Their decay is that of orders which leave so much noise.
        """
        if (
            self.learning_rate != "auto"
            or not hasattr(self, "eta0_")
            or np.size(self.eta0_) != self._n_tasks()
        ):
            return None
        if (
            getattr(self, "_steps_of_solver", self.solver) != self.solver
        ):  # those of another are of no use
            return None
        more, l2 = (
            noise / getattr(self, "_noise_of_steps", noise),
            self._penalty(self.coef_.shape[-1]).l2,
        )
        found = zip(np.ravel(self.eta0_), np.ravel(self.decay_), strict=True)
        return [
            Steps(float(eta0), float(max(more * decay, min(decay, l2)))) for eta0, decay in found
        ]

    def _dense_coef(self) -> NDArray[Any]:
        return self.coef_.toarray() if sparse.issparse(self.coef_) else np.asarray(self.coef_)

    # ---- what both kinds of fit do

    def _fit(
        self,
        rows: Rows,
        coef_init: Any,
        intercept_init: Any,
        table: AntitheticTable | None,
        X_val: Any,
        y_val: Any,
    ) -> None:
        table = self._given_table(rows, table)
        starts = self._first_weights(coef_init, intercept_init, rows.X.shape[1])
        rows, table, validation = self._split(rows, table, X_val, y_val)
        if rows.weight is not None and not rows.weight.any():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        plan = self._plan(rows, table, epochs=self.max_iter, whole=True)
        if self.verbose:
            print(
                f"{type(self).__name__}: {plan.sampling}, pairing {plan.pairing}, batches of"
                f" {plan.batch_size} ({plan.why})"
            )
        needs_problem = bool({"gradient", "gap"} & set(self._trace()))
        check_trace(
            self._trace(),
            self.solver,
            plan.sampling,
            self._problem(rows, 0) if needs_problem else None,
        )
        for number in range(self._n_tasks()):
            weight = self._weights(rows, number)
            if weight is not None and not weight.any():
                raise ValueError(
                    "sample_weight times class_weight is zero for every row; at least one must be"
                    " positive"
                )
        with fit_context(self, rows.shown(), self._n_tasks()):
            known = self._known_steps(plan.noise) if self.warm_start else None
            records = self._records(
                rows,
                starts,
                plan,
                epochs=self.max_iter,
                known=known,
                table=table,
                validation=validation,
            )
            self._solve(records, rows, plan)
        self._warn_after_fit()

    def _given_table(self, rows: Rows, table: AntitheticTable | None) -> AntitheticTable | None:
        """Return the table that fit or the constructor was given, once it is known to belong to the rows."""
        if table is None and isinstance(self.pairing, AntitheticTable):
            table = self.pairing
        if table is not None:
            refuse_nested_table(
                None if isinstance(self.nest, str) else check_nest(self.nest), table
            )
            if not self.shuffle:
                raise ValueError(
                    "shuffle=False takes the rows in the order given, without table=; use"
                    " shuffle=True"
                )
            check_table(table).check(rows.X, rows.y)
        return table

    @contextmanager
    def _unchanged_on_errors(self) -> Iterator[None]:
        """Leave a model that could not be fitted anew what it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            if self.__dict__.get("coef_") is not before.get(
                "coef_"
            ):  # it was fitted; a warning or an interruption came after that
                raise
            for name in set(self.__dict__) - set(before):
                if not name.startswith(
                    ("_skl", "_callback")
                ):  # which scikit-learn takes away itself
                    del self.__dict__[name]
            self.__dict__.update(before)
            raise

    def _partial_fit(self, rows: Rows, first: bool) -> None:
        if self.solver == "sdca":
            raise ValueError(
                "solver='sdca' has a dual variable for each row, so it needs all rows at once; use"
                " fit, or solver='sgd'"
            )
        d = rows.X.shape[1]
        states = [(np.zeros(d), 0.0)] * self._n_tasks() if first else self._later_states(d)
        if rows.weight is not None and not rows.weight.any():  # nothing was seen
            if first:
                self._adopt(
                    {
                        **self._weights_of([(np.zeros(d, rows.X.dtype), 0.0)] * self._n_tasks()),
                        "t_": 1,
                        "n_iter_": 0,
                    }
                )
            return
        table = self._given_table(rows, None)
        plan = self._plan(rows, table, epochs=1, whole=False)
        known = self._known_steps(plan.noise)
        records = self._records(rows, states, plan, epochs=1, known=known, table=table)
        for number, (record, state) in enumerate(zip(records, states, strict=True)):
            weight = self._weights(rows, number)
            if weight is None or weight.any():
                train(_quiet(record), time.perf_counter(), _never)
            elif isinstance(state, SgdState):  # this class saw nothing, and stays where it was
                record.held = (state, 0, None)
        fitted = self._fitted(records, plan)
        del fitted["history_"]
        if known:  # a chunk may need shorter steps, but those after it need not
            fitted |= self._steps_of([self._schedule(steps) for steps in known], plan.noise)
        self._adopt(fitted)

    def _warn_after_fit(self) -> None:
        # by the objective, the last epoch counts as one too few, as in scikit-learn
        if (
            self.tol is not None
            and self.n_iter_ == self.max_iter
            and (self.stopping == "objective" or not self._converged)
        ):
            warn(
                "Maximum number of iteration reached before convergence. Consider increasing"
                " max_iter to improve the fit.",
                ConvergenceWarning,
            )
        if self.power_t < 0:
            warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an"
                " error in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@cache
def _allowed_defaults(estimator: type[LinearSGD]) -> dict[str, Any]:
    """Parameters of a class, each with its default if its constraints allow that.

    Else with something that no value is.
    """
    parameters = inspect.signature(estimator.__init__).parameters
    found = {}
    for name in estimator._get_param_names():
        found[name] = parameters[name].default
        try:
            validate_parameter_constraints(
                estimator._parameter_constraints,
                {name: found[name]},
                caller_name=estimator.__name__,
            )
        except ValueError:
            found[name] = object()
    return found


def _is_checked(X: Any, y: Any) -> bool:
    """Whether scikit-learn's checks would leave rows and targets as they are; in doubt not.

    They take longer than an epoch of few rows.
    """
    is_csr = sparse.issparse(X) and X.format == "csr"
    if (
        not (is_csr or (type(X) is np.ndarray and X.flags.c_contiguous))
        or type(y) is not np.ndarray
    ):
        return False
    if (
        X.ndim != 2
        or 0 in X.shape
        or y.shape != X.shape[:1]
        or X.dtype not in (np.float64, np.float32)
        or y.dtype.kind not in "biuf"
    ):
        return False
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # a sum is finite unless an entry is not, or it overflows
        return bool(np.isfinite((X.data if is_csr else X).sum()) and np.isfinite(y.sum()))


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.array(values)


def _never(_record: Record) -> bool:
    return False


def _quiet(record: Record) -> Record:
    """Have a record's task run without patience and without measuring anything, for partial_fit."""
    make = record.make
    record.make = lambda: replace(make(), patience=None, trace=(), score=None)
    return record


def _kept(state: SgdState, *, averages: bool) -> dict[str, Any]:
    """A state as plain values, which any serialiser can write, for partial_fit to go on from.

    Left out are weights that `coef_` holds already, what `eta0_` and `decay_` say, and how the last
    fit came to its end. Without ``averages``, `coef_` is gone on from whatever it is: a mean that
    begins anew with each epoch has nothing to carry over.
    """
    if not averages:
        state = state._replace(average=None, average_intercept=0.0, average_weight=0.0)
    kept = state._replace(
        lowered=0,
        eased=0,
        moved=None,
        aligned=0,
        best=np.inf,
        waited=0,
        stopped=False,
        order=None,
        objective=np.nan,
        settled=0,
    )
    values = kept._replace(
        memory=None, mean=None
    )._asdict()  # what is remembered is of the rows of that fit
    if state.average is None:
        values["coef"] = None
    return values
