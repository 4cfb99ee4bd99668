"""What both scikit-learn estimators share: from parameters and checked data to training tasks, and from these to attributes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import SparseCoefMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from antithetic._advise import choose_sampling
from antithetic._callbacks import CallbackSupportMixin, fit_context, watch_epochs
from antithetic._measure import TRACES
from antithetic._minimize import warn_if_worse
from antithetic._tables import Tables, check_nest, check_refresh
from antithetic._train import Plan, Record, Task, epochs_bar, train_all
from antithetic._validate import canonical_csr, check_weights
from antithetic.losses import Loss, get_loss
from antithetic.pairing.table import AntitheticTable, check_table, pair_ratio
from antithetic.penalties import ElasticNet
from antithetic.problem import Problem
from antithetic.sampling import SAMPLINGS
from antithetic.schedules import make_schedule
from antithetic.solvers import Care, Patience, SgdState, Steps, find_steps, lower, make_sgd

_LARGEST_SEED = np.iinfo(np.int32).max
_STEEPEST = 1e12  # where slopes are cut off, as in scikit-learn: a first step that is far too long then need not overflow
_PAIRINGS = {"auto", "greedy", "optimal", "tree", "random"}


class Rows(NamedTuple):
    """Checked data: rows, targets as given, and weights of the rows (None where all are 1)."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    def shown(self) -> dict[str, Any]:
        """What callbacks get to see."""
        return {"X": self.X, "y": self.y, "metadata": None if self.weight is None else {"sample_weight": self.weight}}


class LinearSGD(CallbackSupportMixin, SparseCoefMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What the classifier and the regressor share: from checked data to trained weights."""

    _doc_link_module = "antithetic"
    _doc_link_template = "https://antithetic.readthedocs.io/en/stable/generated/antithetic.{estimator_name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"estimator_name": type(self).__name__}

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        "penalty": [StrOptions({"l2", "l1", "elasticnet"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), None],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "shuffle": ["boolean"],
        "verbose": ["verbose"],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "learning_rate": [StrOptions({"auto", "inverse_time", "constant", "optimal", "invscaling", "adaptive", "pa1", "pa2"})],
        "eta0": [Interval(Real, 0, None, closed="neither")],
        "power_t": [Interval(Real, None, None, closed="neither")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "average": [Interval(Integral, 0, None, closed="neither"), "boolean", StrOptions({"linear"})],
        "pairing": [StrOptions(_PAIRINGS), callable, AntitheticTable, None],
        "sampling": [StrOptions({"auto", *SAMPLINGS})],
        "solver": [StrOptions({"sgd"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "nest": [StrOptions({"auto"}), "boolean", Interval(Integral, 2, None, closed="left"), None],
        "refresh": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like", None],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "stopping": [StrOptions({"objective"})],
        "groups": [None],
        "n_strata": [None],
        "allocation": [StrOptions({"proportional"})],
        "trace": [StrOptions(set(TRACES) - {"distance"}), tuple, list, None],
    }

    # ---- from parameters to what the solvers take

    def _check_parameters(self, for_partial_fit: bool = False) -> None:
        """Check what depends on more than one parameter, before the first step."""
        if self.early_stopping and for_partial_fit:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")
        if not self.shuffle and self.sampling not in ("auto", "shuffle"):
            raise ValueError(f"shuffle=False takes the rows in the order given, without sampling={self.sampling!r}; use sampling='auto'")
        if not self.shuffle and self.pairing not in (None, "auto"):
            raise ValueError("shuffle=False takes the rows in the order given, without pairs; use shuffle=True or pairing=None")
        self._schedule(Steps(1.0, 0.0))
        if self.nest != "auto":
            check_nest(self.nest)
        if not isinstance(self.refresh, str):
            check_refresh(self.refresh, self.max_iter)
        for name in self._trace():
            if name not in TRACES or name == "distance":
                raise ValueError(f"trace {name!r} is not known; use some of objective, variance, variance_ratio, partial_sum")

    def _trace(self) -> tuple[str, ...]:
        if self.trace is None:
            return ()
        return (self.trace,) if isinstance(self.trace, str) else tuple(self.trace)

    def _loss(self) -> Loss:
        return replace(get_loss(self.loss), epsilon=float(self.epsilon))

    def _penalty(self) -> ElasticNet:
        l1_ratio = {None: 0.0, "l2": 0.0, "l1": 1.0}[self.penalty] if self.penalty != "elasticnet" else float(self.l1_ratio)
        alpha = 0.0 if self.penalty is None else float(self.alpha)
        return ElasticNet((1.0 - l1_ratio) * alpha, l1_ratio * alpha)

    def _schedule(self, steps: Steps) -> Any:
        """Return the schedule of the parameters; ``steps`` is what "auto" found."""
        decay = steps.decay if self.learning_rate == "auto" else float(self.alpha)
        if self.decay is not None:
            decay = float(self.decay)
        if self.learning_rate == "optimal" and self.alpha == 0:
            raise ValueError("alpha must be > 0 since learning_rate is 'optimal': the step size is computed from it; use 'auto' instead")
        return make_schedule(
            "inverse_time" if self.learning_rate == "auto" else self.learning_rate,
            eta0=steps.eta0 if self.learning_rate == "auto" else float(self.eta0),
            decay=decay,
            alpha=float(self.alpha),
            power_t=float(self.power_t),
            loss=self._loss(),
        )

    def _plan(self, rows: Rows, table: AntitheticTable | None, *, epochs: int) -> Plan:
        """Decide what the parameters leave open, and say why."""
        n, d = rows.X.shape
        batch_size = min(int(self.batch_size), n)
        if not self.shuffle:
            return Plan(None, "in order", None, None, batch_size, "shuffle=False: the rows are taken in the order given")
        nest, refresh = (None if word == "auto" else word for word in (self.nest, self.refresh))
        sampling, why = self.sampling, f"sampling={self.sampling!r} was asked for"
        if sampling == "auto":
            sampling, why = choose_sampling(n, d, batch_size=batch_size, epochs=epochs)
        if table is not None:
            return Plan(table.method, sampling, None, refresh, batch_size, f"table= was given to fit; {why}")
        if self.pairing is None or self.pairing == "auto":
            no_table = "" if self.pairing is None else "; no table, which costs a linear model tens of epochs"
            return Plan(None, sampling, None, None, batch_size, why + no_table)
        name = self.pairing if isinstance(self.pairing, str) else getattr(self.pairing, "method", "own")
        return Plan(name, sampling, nest, refresh, batch_size, f"pairing={name!r} was asked for; {why}")

    # ---- from data to tasks

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset, y_numeric=self._y_numeric
        )
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, X.shape[0], all_zero=True)
        return Rows(canonical_csr(X) if sparse.issparse(X) else X, y, weight)

    def _split(self, rows: Rows, table: AntitheticTable | None, X_val: Any, y_val: Any) -> tuple[Rows, AntitheticTable | None, Rows | None]:
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
        train, held = (np.sort(part) for part in next(split.split(np.zeros((len(rows.y), 1)), rows.y)))
        validation = rows.take(held)
        if validation.weight is not None and not validation.weight.any():
            raise ValueError("The sample weights for validation set are all zero, consider using a different random state.")
        return rows.take(train), None if table is None else table[train], validation

    def _tasks(
        self,
        rows: Rows,
        starts: list[Any],
        plan: Plan,
        *,
        epochs: int,
        known: list[Steps] | None = None,
        table: AntitheticTable | None = None,
        validation: Rows | None = None,
    ) -> list[Task]:
        seeds = check_random_state(self.random_state).randint(_LARGEST_SEED, size=len(starts))
        return [
            self._task(number, rows, start, int(seed), plan, epochs, known, table, validation)
            for number, (start, seed) in enumerate(zip(starts, seeds, strict=True))
        ]

    def _task(
        self,
        number: int,
        rows: Rows,
        start: Any,
        seed: int,
        plan: Plan,
        epochs: int,
        known: list[Steps] | None,
        table: AntitheticTable | None,
        validation: Rows | None,
    ) -> Task:
        problem = Problem(
            rows.X, self._target(rows.y, number), self._loss(), self._penalty(), self._weights(rows, number), bool(self.fit_intercept), None
        )
        watch = (self.tol is not None and not self.early_stopping) or (self.learning_rate == "auto" and not problem.loss.is_bounded)
        solver = make_sgd(problem, self.average, steepest=_STEEPEST, watch=watch)
        state = solver.take_up(start) if isinstance(start, SgdState) else solver.init(*start)
        steps = known[number] if known else Steps(1.0, 0.0)
        if self.learning_rate == "auto" and not known:
            balanced = plan.sampling == "balanced"
            steps = find_steps(problem, plan.batch_size, seed, state.coef, state.intercept, balanced=balanced)
        return Task(
            solver,
            self._tables(problem, plan, table, seed, number),
            self._schedule(steps),
            state,
            epochs,
            patience=None if self.tol is None else Patience(float(self.tol), int(self.n_iter_no_change)),
            adaptive=self.learning_rate == "adaptive",
            care=Care(problem.penalty.l2 if self.decay is None else float(self.decay)) if self.learning_rate == "auto" else None,
            trace=self._trace(),
            score=None if validation is None else partial(self._score, validation, self._target(validation.y, number)),
            early_stopping=bool(self.early_stopping),
        )

    def _tables(self, problem: Problem, plan: Plan, table: AntitheticTable | None, seed: int, number: int) -> Tables:
        """Find the table of one task: the one given to fit, unless it does harm there, or one made for it."""
        pairing = None if plan.pairing is None else self.pairing if table is None else table
        if isinstance(pairing, AntitheticTable) and self._n_tasks() > 1:
            gain = pair_ratio(problem, problem.slopes(), pairing.partner)
            if gain >= 1.0:
                warnings.warn(
                    f"table= is set aside for class {self._name(number)!r} against the rest, where it would raise the variance "
                    f"({gain:.2f} times that of independent rows); a table for each class is made by pairing='greedy', 'tree' or 'optimal'",
                    UserWarning,
                    stacklevel=2,
                )
                pairing = None
        return Tables(problem, problem.y, pairing, plan.sampling, plan.batch_size, seed, plan.nest, plan.refresh)

    # ---- training

    def _solve(self, tasks: list[Task], rows: Rows, plan: Plan, *, with_history: bool) -> list[Record]:
        """Train the tasks and take over what came out; on Ctrl-C, what has come out so far."""
        records, began = [Record(task) for task in tasks], time.perf_counter()
        total = sum(task.epochs for task in tasks)
        ended = watch_epochs(self, records, rows.shown(), lambda: self._fitted(records)) if with_history else _never
        with epochs_bar(total, bool(self.verbose) and with_history) as advance:

            def watch(record: Record) -> bool:
                advance()
                return ended(record)

            try:
                train_all(records, began, watch, getattr(self, "n_jobs", None))
            except KeyboardInterrupt:
                if any(record.epochs for record in records):
                    self._adopt(records, plan, with_history)
                raise
        self._adopt(records, plan, with_history)
        return records

    def _fitted(self, records: list[Record]) -> dict[str, Any]:
        """Public attributes of a model that is made of the records as they stand."""
        solutions = [record.state.solution for record in records]
        real = records[0].task.solver.problem.X.dtype
        return {
            "coef_": self._shape(np.stack([coef for coef, _ in solutions])),
            "intercept_": np.array([intercept for _, intercept in solutions], dtype=real),
            "n_iter_": max(record.epochs for record in records),
            "t_": 1 + max(record.state.samples for record in records),
        }

    def _adopt(self, records: list[Record], plan: Plan, with_history: bool) -> None:
        self.__dict__.update(self._fitted(records))
        self.plan_ = plan
        self._states = [_kept(record.state) for record in records]
        if with_history:
            histories = [record.history() for record in records]
            self.history_ = histories if len(records) > 1 else histories[0]
        for name in ("eta0_", "decay_"):
            self.__dict__.pop(name, None)
        if self.learning_rate == "auto":
            schedules = [lower(record.task.schedule, record.state, record.task.care) for record in records]
            self.eta0_ = _one_or_all([schedule.eta0 for schedule in schedules])
            self.decay_ = _one_or_all([schedule.rate for schedule in schedules])

    # ---- where a fit begins

    def _first_weights(self, coef_init: Any, intercept_init: Any, d: int) -> list[tuple[Any, float]]:
        """Check the weights that a fit begins with, one pair per task; those of the fit before with warm_start."""
        if self.warm_start and getattr(self, "coef_", None) is not None:
            coef_init = self._dense_coef() if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        k = self._n_tasks()
        coef = np.zeros((k, d)) if coef_init is None else np.asarray(coef_init, dtype=np.float64)
        intercept = np.zeros(k) if intercept_init is None else np.asarray(intercept_init, dtype=np.float64)
        if coef.shape != (k, d) and not (k == 1 and coef.shape == (d,)):
            raise ValueError(f"Provided coef_init does not match dataset: it has shape {coef.shape} and should have {(k, d)}.")
        if intercept.shape != (k,) and not (k == 1 and intercept.shape == ()):
            raise ValueError(f"Provided intercept_init does not match dataset: it has shape {intercept.shape} and should have {(k,)}.")
        return list(zip(coef.reshape(k, d), intercept.reshape(k).tolist(), strict=True))

    def _later_states(self, d: int) -> list[Any]:
        """States to go on from in partial_fit: the public weights, which the user may have changed, with the counts behind them."""
        coef = np.atleast_2d(self._dense_coef())
        if coef.shape[1] != d:
            raise ValueError(f"X has {d} features, but {type(self).__name__} is expecting {coef.shape[1]} features as input.")
        if not hasattr(self, "_states"):  # the weights were set by hand
            return list(zip(coef, np.ravel(self.intercept_).tolist(), strict=True))
        return [
            SgdState(**state)
            if state["average"] is not None
            else SgdState(**{**state, "coef": weights.astype(coef.dtype), "intercept": float(intercept)})
            for state, weights, intercept in zip(self._states, coef, np.ravel(self.intercept_), strict=True)
        ]

    def _known_steps(self) -> list[Steps] | None:
        """Steps that "auto" found on an earlier call, if they are to be kept."""
        if self.learning_rate != "auto" or not hasattr(self, "eta0_") or np.size(self.eta0_) != self._n_tasks():
            return None
        return [Steps(float(eta0), float(decay)) for eta0, decay in zip(np.ravel(self.eta0_), np.ravel(self.decay_), strict=True)]

    def _dense_coef(self) -> NDArray[Any]:
        return self.coef_.toarray() if sparse.issparse(self.coef_) else np.asarray(self.coef_)

    # ---- what both kinds of fit do

    def _fit(self, rows: Rows, coef_init: Any, intercept_init: Any, table: AntitheticTable | None, X_val: Any, y_val: Any) -> None:
        table = self._given_table(rows, table)
        starts = self._first_weights(coef_init, intercept_init, rows.X.shape[1])
        known = self._known_steps() if self.warm_start else None
        rows, table, validation = self._split(rows, table, X_val, y_val)
        if rows.weight is not None and not rows.weight.any():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        plan = self._plan(rows, table, epochs=self.max_iter)
        if self.verbose:
            print(f"{type(self).__name__}: {plan.sampling}, pairing {plan.pairing}, batches of {plan.batch_size} ({plan.why})")
        with fit_context(self, rows.shown(), self._n_tasks()):
            tasks = self._tasks(rows, starts, plan, epochs=self.max_iter, known=known, table=table, validation=validation)
            records = self._solve(tasks, rows, plan, with_history=True)
        self._warn_after_fit(records)

    def _given_table(self, rows: Rows, table: AntitheticTable | None) -> AntitheticTable | None:
        """Return the table that fit or the constructor was given, once it is known to belong to the rows."""
        if table is None and isinstance(self.pairing, AntitheticTable):
            table = self.pairing
        if table is not None:
            if not self.shuffle:
                raise ValueError("shuffle=False takes the rows in the order given, without table=; use shuffle=True")
            check_table(table).check(rows.X, rows.y)
        return table

    @contextmanager
    def _unchanged_on_errors(self) -> Iterator[None]:
        """Leave a model that could not be fitted anew what it was."""
        before = dict(self.__dict__)
        try:
            yield
        except Exception:
            for name in set(self.__dict__) - set(before):
                if not name.startswith(("_skl", "_callback")):  # which scikit-learn takes away itself
                    del self.__dict__[name]
            self.__dict__.update(before)
            raise

    def _partial_fit(self, rows: Rows, first: bool) -> None:
        d = rows.X.shape[1]
        states = [(np.zeros(d), 0.0)] * self._n_tasks() if first else self._later_states(d)
        if rows.weight is not None and not rows.weight.any():  # nothing was seen
            if first:
                self.coef_ = self._shape(np.zeros((self._n_tasks(), d), dtype=rows.X.dtype))
                self.intercept_ = np.zeros(self._n_tasks(), dtype=rows.X.dtype)
                self.t_, self.n_iter_ = 1, 0
            return
        table = self._given_table(rows, None)
        plan = self._plan(rows, table, epochs=1)
        tasks = self._tasks(rows, states, plan, epochs=1, known=self._known_steps(), table=table)
        self._solve([replace(task, patience=None, trace=()) for task in tasks], rows, plan, with_history=False)

    def _warn_after_fit(self, records: list[Record]) -> None:
        if self.tol is not None and self.n_iter_ == self.max_iter:
            warnings.warn(
                "Maximum number of iteration reached before convergence. Consider increasing max_iter to improve the fit.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.learning_rate != "auto":  # which takes care of itself
            for record in records:
                warn_if_worse(record.task.solver.problem, record.task.start, record.state, record.task.schedule)
        if self.power_t < 0:
            warnings.warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an error in 1.10. "
                "Use values in the range [0.0, inf) instead.",
                FutureWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.array(values)


def _never(_record: Record) -> bool:
    return False


def _kept(state: SgdState) -> dict[str, Any]:
    """A state as plain values, which any serialiser can write, for partial_fit to go on from.

    Left out are weights that `coef_` holds already, what `eta0_` and `decay_` say, and how the last fit came to its end.
    """
    kept = state._replace(lowered=0, eased=0, best=np.inf, waited=0, stopped=False, order=None)._asdict()
    if state.average is None:
        kept["coef"] = None
    return kept
