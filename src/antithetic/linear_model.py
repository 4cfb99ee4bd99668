"""scikit-learn estimators: wiring only. The algorithms are in `solvers`, `pairing` and `sampling`."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from antithetic._minimize import TRACES, find_table
from antithetic._train import Plan, Record, Task, Watch, epochs_bar, train_all
from antithetic._validate import canonical_csr, check_weights
from antithetic.losses import LOSSES, Loss
from antithetic.pairing.table import AntitheticTable, check_table, pair_ratio
from antithetic.penalties import ElasticNet
from antithetic.problem import Problem
from antithetic.sampling import make_sampler
from antithetic.sampling.in_order import InOrder
from antithetic.schedules import make_schedule
from antithetic.solvers import Patience, SgdState, Steps, find_steps, lower, make_sgd

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


_LARGEST_SEED = np.iinfo(np.int32).max
_PAIRINGS = {"auto", "greedy", "optimal", "tree", "random"}


class _Rows(NamedTuple):
    """Checked data: rows, targets as given, and weights of the rows (None where all are 1)."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None

    def take(self, rows: NDArray[np.intp]) -> _Rows:
        return _Rows(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows])


class _SGD(CallbackSupportMixin, SparseCoefMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What the classifier and the regressor share: from checked data to trained weights."""

    _doc_link_module = "antithetic"
    _doc_link_template = "https://antithetic.readthedocs.io/en/stable/generated/antithetic.{estimator_name}.html"
    _doc_link_url_param_generator = staticmethod(lambda estimator: {"estimator_name": type(estimator).__name__})

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
        "sampling": [StrOptions({"auto", "uniform", "shuffle"})],
        "solver": [StrOptions({"sgd"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "nest": [StrOptions({"auto"}), None],
        "refresh": [StrOptions({"auto"}), None],
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
        for name in self._trace():
            if name not in TRACES or name == "distance":
                raise ValueError(f"trace {name!r} is not known; use some of objective, variance, variance_ratio")

    def _trace(self) -> tuple[str, ...]:
        if self.trace is None:
            return ()
        return (self.trace,) if isinstance(self.trace, str) else tuple(self.trace)

    def _loss(self) -> Loss:
        return replace(LOSSES[self.loss], epsilon=float(self.epsilon))

    def _penalty(self) -> ElasticNet:
        l1_ratio = {None: 0.0, "l2": 0.0, "l1": 1.0}.get(self.penalty, self.l1_ratio)
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

    def _plan(self, n: int, table: AntitheticTable | None) -> Plan:
        batch_size = min(int(self.batch_size), n)
        if not self.shuffle:
            return Plan(None, "in order", None, None, batch_size, "shuffle=False: the rows are taken in the order given")
        sampling = "shuffle" if self.sampling == "auto" else self.sampling
        if table is not None:
            return Plan(table.method, sampling, None, None, batch_size, "table= was given to fit")
        if self.pairing is None or self.pairing == "auto":
            why = (
                "pairing=None" if self.pairing is None else 'pairing="auto": each row once per epoch in random order is as cheap as can be'
            )
            return Plan(None, sampling, None, None, batch_size, why)
        name = self.pairing if isinstance(self.pairing, str) else getattr(self.pairing, "method", "own")
        return Plan(name, sampling, None, None, batch_size, f"pairing={name!r} was asked for")

    # ---- from data to tasks

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> _Rows:
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset, y_numeric=self._y_numeric
        )
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, X.shape[0], all_zero=True)
        return _Rows(canonical_csr(X) if sparse.issparse(X) else X, y, weight)

    def _split(
        self, rows: _Rows, table: AntitheticTable | None, X_val: Any, y_val: Any
    ) -> tuple[_Rows, AntitheticTable | None, _Rows | None]:
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
        rows: _Rows,
        starts: list[Any],
        plan: Plan,
        *,
        epochs: int,
        known: list[Steps] | None = None,
        table: AntitheticTable | None = None,
        validation: _Rows | None = None,
    ) -> list[Task]:
        seeds = check_random_state(self.random_state).randint(_LARGEST_SEED, size=len(starts))
        return [
            self._task(number, rows, start, int(seed), plan, epochs, known, table, validation)
            for number, (start, seed) in enumerate(zip(starts, seeds, strict=True))
        ]

    def _task(
        self,
        number: int,
        rows: _Rows,
        start: Any,
        seed: int,
        plan: Plan,
        epochs: int,
        known: list[Steps] | None,
        table: AntitheticTable | None,
        validation: _Rows | None,
    ) -> Task:
        problem = Problem(
            rows.X, self._target(rows.y, number), self._loss(), self._penalty(), self._weights(rows, number), bool(self.fit_intercept), None
        )
        solver = make_sgd(problem, self.average)
        state = solver.take_up(start) if isinstance(start, SgdState) else solver.init(*start)
        steps = known[number] if known else Steps(1.0, 0.0)
        if self.learning_rate == "auto" and not known:
            steps = find_steps(problem, plan.batch_size, seed, state.coef, state.intercept)
        partners = self._table(problem, plan, table, seed, number)
        if plan.sampling == "in order":
            sampler: Any = InOrder(problem.n, plan.batch_size)
        else:
            sampler = make_sampler(plan.sampling, problem.n, plan.batch_size, seed, partners)
        return Task(
            solver,
            sampler,
            self._schedule(steps),
            state,
            epochs,
            patience=None if self.tol is None else Patience(float(self.tol), int(self.n_iter_no_change)),
            adaptive=self.learning_rate == "adaptive",
            careful=self.learning_rate == "auto",
            trace=self._trace(),
            table=partners,
            sampling="shuffle" if plan.sampling == "in order" else plan.sampling,
            batch_size=plan.batch_size,
            score=None if validation is None else partial(self._score, validation, self._target(validation.y, number)),
            early_stopping=bool(self.early_stopping),
        )

    def _table(self, problem: Problem, plan: Plan, table: AntitheticTable | None, seed: int, number: int) -> AntitheticTable | None:
        """Find the table of one task: the one given to fit, unless it does harm there, or one made for it."""
        if plan.pairing is None:
            return None
        if table is None:
            return find_table(problem, problem.y, self.pairing, plan.sampling, seed)
        found = find_table(problem, problem.y, table, plan.sampling, seed)
        if self._n_tasks() == 1 or found is None:
            return found
        gain = pair_ratio(problem, problem.slopes(), found.partner)
        if gain < 1.0:
            return found
        warnings.warn(
            f"table= is set aside for class {self._name(number)!r} against the rest, where it would raise the variance ({gain:.2f} times "
            "that of independent rows); a table for each class is made by pairing='greedy', 'tree' or 'optimal'",
            UserWarning,
            stacklevel=2,
        )
        return None

    # ---- training

    def _solve(self, tasks: list[Task], rows: _Rows, plan: Plan, *, with_history: bool) -> None:
        """Train the tasks and take over what came out; on Ctrl-C, what has come out so far."""
        records, began = [Record(task) for task in tasks], time.perf_counter()
        total = sum(task.epochs for task in tasks)
        with epochs_bar(total, bool(self.verbose) and with_history) as advance:
            watch = self._watch(records, rows, advance, with_history)
            try:
                train_all(records, began, watch, getattr(self, "n_jobs", None))
            except KeyboardInterrupt:
                if any(record.epochs for record in records):
                    self._adopt(records, plan, with_history)
                raise
        self._adopt(records, plan, with_history)

    def _watch(self, records: list[Record], rows: _Rows, advance: Any, with_history: bool) -> Watch:
        """Return what is called after each epoch: it moves the progress bar and runs the callbacks, which may end the task."""
        if not (with_history and getattr(self, "_skl_callbacks", None)):

            def count(_record: Record) -> bool:
                advance()
                return False

            return count
        contexts = self._epoch_contexts(records, rows)

        def call(record: Record) -> bool:
            advance()
            return contexts(record)

        return call

    def _epoch_contexts(self, records: list[Record], rows: _Rows) -> Any:
        """Open scikit-learn's callback contexts: the fit, for more than two classes each class in it, and in that each epoch."""
        metadata = None if rows.weight is None else {"sample_weight": rows.weight}
        seen = {"estimator": self, "X": rows.X, "y": rows.y, "metadata": metadata}
        root = self._callback_fit_ctx
        parents = {}
        for number, record in enumerate(records):
            parent = root
            if len(records) > 1:
                parent = root.subcontext(task_name="class", task_id=number, max_subtasks=record.task.epochs)
                parent.call_on_fit_task_begin(**seen)
            parents[id(record)] = parent
        epochs = {id(record): self._begin_epoch(parents[id(record)], seen) for record in records}

        def end_epoch(record: Record) -> bool:
            finished = epochs[id(record)].call_on_fit_task_end(**seen, reconstruction_attributes=lambda: self._fitted(records))
            over = finished or record.state.stopped or record.epochs == record.task.epochs
            if not over:
                epochs[id(record)] = self._begin_epoch(parents[id(record)], seen)
            elif parents[id(record)] is not root:
                parents[id(record)].call_on_fit_task_end(**seen, reconstruction_attributes=lambda: self._fitted(records))
            return bool(finished)

        return end_epoch

    @staticmethod
    def _begin_epoch(parent: Any, seen: dict[str, Any]) -> Any:
        context = parent.subcontext(task_name="epoch")
        context.call_on_fit_task_begin(**seen)
        return context

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
        vars(self).update(self._fitted(records))
        self.plan_ = plan
        self._states = [_without_doubles(record.state) for record in records]
        if with_history:
            histories = [record.history() for record in records]
            self.history_ = histories if len(records) > 1 else histories[0]
        vars(self).pop("eta0_", None), vars(self).pop("decay_", None)
        if self.learning_rate == "auto":
            schedules = [lower(record.task.schedule, record.state) for record in records]
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

    def _fit(self, rows: _Rows, coef_init: Any, intercept_init: Any, table: AntitheticTable | None, X_val: Any, y_val: Any) -> None:
        if table is None and isinstance(self.pairing, AntitheticTable):
            table = self.pairing
        if table is not None:
            check_table(table).check(rows.X, rows.y)
        starts = self._first_weights(coef_init, intercept_init, rows.X.shape[1])
        known = self._known_steps() if self.warm_start else None
        rows, table, validation = self._split(rows, table, X_val, y_val)
        if rows.weight is not None and not rows.weight.any():
            raise ValueError("sample_weight is 0 for every row; at least one must be positive")
        plan = self._plan(rows.X.shape[0], table)
        if hasattr(self, "_init_callback_context"):
            several = self._n_tasks() > 1
            root = self._init_callback_context(max_subtasks=self._n_tasks() if several else self.max_iter, sequential_subtasks=not several)
            root.call_on_fit_task_begin(estimator=self, X=rows.X, y=rows.y)
        if self.verbose:
            print(f"{type(self).__name__}: {plan.sampling}, pairing {plan.pairing}, batches of {plan.batch_size} ({plan.why})")
        tasks = self._tasks(rows, starts, plan, epochs=self.max_iter, known=known, table=table, validation=validation)
        self._solve(tasks, rows, plan, with_history=True)
        if hasattr(self, "_init_callback_context"):
            root.call_on_fit_task_end(estimator=self, X=rows.X, y=rows.y, reconstruction_attributes={})
        self._warn_after_fit()

    def _partial_fit(self, rows: _Rows, first: bool) -> None:
        d = rows.X.shape[1]
        states = [(np.zeros(d), 0.0)] * self._n_tasks() if first else self._later_states(d)
        if rows.weight is not None and not rows.weight.any():  # nothing was seen
            if first:
                self.coef_ = self._shape(np.zeros((self._n_tasks(), d), dtype=rows.X.dtype))
                self.intercept_ = np.zeros(self._n_tasks(), dtype=rows.X.dtype)
                self.t_, self.n_iter_ = 1, 0
            return
        plan = self._plan(rows.X.shape[0], None)
        tasks = self._tasks(rows, states, plan, epochs=1, known=self._known_steps())
        self._solve([replace(task, patience=None, trace=()) for task in tasks], rows, plan, with_history=False)

    def _warn_after_fit(self) -> None:
        if self.tol is not None and self.n_iter_ == self.max_iter:
            warnings.warn(
                "Maximum number of iteration reached before convergence. Consider increasing max_iter to improve the fit.",
                ConvergenceWarning,
                stacklevel=4,
            )
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


def _without_doubles(state: SgdState) -> dict[str, Any]:
    """A state as plain values, which any serialiser can write; weights that `coef_` holds already are left out."""
    kept = state._asdict()
    if state.average is None:
        kept["coef"] = None
    return kept


_BALANCED = (
    "class_weight 'balanced' is not supported for partial_fit. In order to use 'balanced' weights, use "
    "compute_class_weight('balanced', classes=classes, y=y). In place of y you can use a large enough sample of the full training set "
    "target to properly estimate the class frequency distributions. Pass the resulting weights as the class_weight parameter."
)


def _refuse_strata(strata: Any) -> None:
    if strata is not None:
        raise ValueError('strata= belongs to sampling="stratified", which is not there yet; use sampling="shuffle" and leave strata out')


def _has_probabilities(estimator: SGDClassifier) -> bool:
    if estimator.loss in ("log_loss", "modified_huber"):
        return True
    raise AttributeError(f"probability estimates are not available for loss={estimator.loss!r}; use 'log_loss' or 'modified_huber'")


class SGDClassifier(LinearClassifierMixin, ClassifierMixin, _SGD):  # type: ignore[misc]
    """Linear classifier fitted by SGD that chooses its steps and its batches: scikit-learn's ``SGDClassifier`` and more.

    It minimises the mean loss plus a penalty, with everything that scikit-learn's class of the same name offers, and besides: a step
    size found from the data, true mini-batches, antithetic pairs, a validation set of one's own, a record of the run, callbacks, and the
    same model from dense and sparse rows. More than two classes are split into one problem per class against the rest.

    Parameters
    ----------
    loss : str, default="hinge"
        ``"hinge"`` is a linear SVM, ``"log_loss"`` logistic regression; also ``"squared_hinge"``, ``"modified_huber"``,
        ``"perceptron"``, and on labels -1 and +1 the losses of :class:`SGDRegressor`.
    penalty : {"l2", "l1", "elasticnet"} or None, default="l2"
        Penalty of the weights: ``alpha / 2 |w|^2``, ``alpha |w|_1``, or both mixed by ``l1_ratio``. The L1 part is a proximal step,
        which gives exact zeros.
    alpha : float, default=0.0001
        Strength of the penalty; also the decay of ``"inverse_time"`` and the rate of ``"optimal"``.
    l1_ratio : float or None, default=0.15
        Share of the L1 part in ``"elasticnet"``, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    max_iter : int, default=1000
        Most passes over the data (epochs) of ``fit``.
    tol : float or None, default=1e-3
        Stop when the objective (with ``early_stopping`` the validation score) has not become better by ``tol`` for
        ``n_iter_no_change`` epochs in a row. The objective is the exact one after each epoch. None runs ``max_iter`` epochs.
    shuffle : bool, default=True
        Whether each epoch has an order of its own. False takes the rows in the order given.
    verbose : int, default=0
        1 or more prints the plan and shows a progress bar (needs rich; a line now and then without it).
    epsilon : float, default=0.1
        Where ``"huber"`` turns from square to straight; the insensitive zone of the epsilon losses.
    n_jobs : int or None, default=None
        Threads for the one-vs-rest problems of more than two classes.
    random_state : int, RandomState instance or None, default=None
        Seed of the orders. The same number gives the same bits.
    learning_rate : str, default="auto"
        How the step size falls:

        - ``"auto"``: ``"inverse_time"`` with ``eta0``, and ``decay`` where it is None, found from the data by a few passes over at most
          1000 rows; kept by ``partial_fit`` and ``warm_start``. It needs no tuning, and does not diverge on unscaled features;
        - ``"inverse_time"``: ``eta0 / (1 + eta0 * decay * t)``, t in steps;
        - ``"optimal"``: ``1 / (alpha * (t0 + t))``, t in samples, t0 chosen by a rule of Bottou;
        - ``"invscaling"``: ``eta0 / t ** power_t``, t in samples;
        - ``"constant"``: ``eta0``;
        - ``"adaptive"``: ``eta0``, divided by 5 whenever ``tol`` would have ended the run;
        - ``"pa1"``, ``"pa2"``: passive-aggressive steps with ``"hinge"``: each row takes ``min(eta0, loss / |x|^2)`` or
          ``loss / (|x|^2 + 1 / (2 eta0))``, a batch the mean of these.
    eta0 : float, default=0.01
        First step size of the schedules that do not choose their own.
    power_t : float, default=0.5
        Exponent of ``"invscaling"``.
    early_stopping : bool, default=False
        Stop by the score on a validation set: the one given to ``fit``, or else a share of the rows that is held back.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=5
        Epochs without improvement before training ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``. "balanced" is ``n_samples / (n_classes * count)``.
    warm_start : bool, default=False
        Whether ``fit`` begins with the weights of the last call.
    average : bool, int or "linear", default=False
        Whether ``coef_`` is the mean of the weights after each step: of all, from a number of samples on, or with weight 2/(t+1) for
        step t ("linear": later ones count more).
    pairing : {"auto", "greedy", "optimal", "tree", "random"}, callable, AntitheticTable or None, default="auto"
        Which rows travel together, see :func:`antithetic.pair`; None: none. "auto" makes no table at present.
    sampling : {"auto", "shuffle", "uniform"}, default="auto"
        Visit each row once per epoch in random order ("auto", "shuffle"), or draw with replacement.
    solver : {"sgd"}, default="sgd"
        How the gradient is used.
    batch_size : int, default=2
        Rows of a step: it follows their mean gradient. At most the rows there are.
    nest, refresh : "auto" or None, default="auto"
        Reserved for nested groups and for tables that follow the gradient.
    decay : float or None, default=None
        Decay of ``"inverse_time"`` and ``"auto"``; None means ``alpha``, or what "auto" finds.
    stopping : {"objective"}, default="objective"
        What ``tol`` is compared with.
    groups, n_strata : None
    allocation : {"proportional"}, default="proportional"
        Reserved for group penalties and stratified sampling.
    trace : str, sequence of str or None, default="objective"
        What ``history_`` holds besides the seconds and validation scores: ``"objective"``, ``"variance"`` (exact, of the gradient of a
        batch) and ``"variance_ratio"`` (that, divided by the variance of independent rows). Each costs about one pass over the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    n_iter_ : int
        Epochs of the last call, of one-vs-rest problems the most.
    t_ : int
        One more than the number of samples that were used.
    history_ : dict of str to ndarray of shape (n_iter_,), or a list of dicts, one per class
        One entry per epoch of ``fit``: ``"epoch"``, ``"seconds"`` since it began, ``"validation_score"`` where there is a validation
        set, and what ``trace`` asks for.
    eta0_, decay_ : float or ndarray of shape (n_classes,)
        The steps found by ``learning_rate="auto"``.
    plan_ : Plan
        What was used where the parameters say "auto", and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where the columns of X have such.

    See Also
    --------
    SGDRegressor : The same for numbers.
    minimize : The same algorithms without an estimator.

    Examples
    --------
    >>> import antithetic
    >>> X, y = antithetic.datasets.load("breast-cancer_scale", return_X_y=True)
    >>> model = antithetic.SGDClassifier(loss="log_loss", alpha=0.01, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.97
    >>> model.history_["objective"][:2].round(2).tolist()
    [0.14, 0.14]
    """

    loss_functions = {name: (loss.name, loss.epsilon) for name, loss in LOSSES.items()}  # noqa: RUF012 - scikit-learn's name and form
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_SGD._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "n_jobs": [Integral, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }
    _splitter = StratifiedShuffleSplit
    _y_numeric = False

    def __init__(
        self,
        loss: str = "hinge",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        average: bool | int | str = False,
        pairing: Any = "auto",
        sampling: str = "auto",
        solver: str = "sgd",
        batch_size: int = 2,
        nest: str | None = "auto",
        refresh: str | None = "auto",
        decay: float | None = None,
        stopping: str = "objective",
        groups: None = None,
        n_strata: None = None,
        allocation: str = "proportional",
        trace: Any = "objective",
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.average = average
        self.pairing = pairing
        self.sampling = sampling
        self.solver = solver
        self.batch_size = batch_size
        self.nest = nest
        self.refresh = refresh
        self.decay = decay
        self.stopping = stopping
        self.groups = groups
        self.n_strata = n_strata
        self.allocation = allocation
        self.trace = trace

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: AntitheticTable | None = None,
        strata: None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> SGDClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 and CSR matrices of these are not copied, memory maps among them.
        y : array-like of shape (n_samples,)
            Labels, of at least two classes.
        coef_init : array-like of shape (1, n_features) or (n_classes, n_features), default=None
            Weights to begin with.
        intercept_init : array-like of shape (1,) or (n_classes,), default=None
            Intercepts to begin with.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, multiplied with ``class_weight``.
        table : AntitheticTable, default=None
            A table made for these rows by :func:`antithetic.pair`; it takes the place of ``pairing``. Cross-validation cuts it to each
            fold's rows. With more than two classes it serves those where it lowers the variance.
        strata : None
            Reserved for stratified sampling.
        X_val : {array-like, sparse matrix} of shape (n_val, n_features), default=None
            Rows to validate on; their score after each epoch is in ``history_``, and ``early_stopping`` looks at it.
        y_val : array-like of shape (n_val,), default=None
            Their labels.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the last whole epoch.

        Raises
        ------
        DivergenceError
            When the weights overflow. The estimator then is what it was before.
        """
        self._check_parameters()
        _refuse_strata(strata)
        rows = self._read(X, y, sample_weight, reset=True)
        check_classification_targets(rows.y)
        self._set_classes(np.unique(rows.y), rows.y)
        self._fit(rows, coef_init, intercept_init, table, X_val, y_val)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SGDClassifier:
        """Go through the given rows once, from where the model stands.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed on the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Where all are zero, nothing changes.

        Returns
        -------
        self : object
        """
        first = not hasattr(self, "classes_")
        if first:
            self._check_parameters(for_partial_fit=True)
            if self.class_weight == "balanced":
                raise ValueError(_BALANCED)
        rows = self._read(X, y, sample_weight, reset=first)
        check_classification_targets(rows.y)
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if not first and classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}")
        self._set_classes(np.unique(classes) if first else self.classes_, rows.y)
        self._check_targets(rows.y)
        self._partial_fit(rows, first or getattr(self, "coef_", None) is None)
        return self

    def _set_classes(self, classes: NDArray[Any], y: NDArray[Any]) -> None:
        if len(classes) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
        self._class_weights = compute_class_weight(self.class_weight, classes=classes, y=y)
        self.classes_ = classes

    def _check_targets(self, y: NDArray[Any]) -> None:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not among the classes {self.classes_.tolist()}: {unknown.tolist()[:5]}")

    def _n_tasks(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _positive(self, number: int) -> int:
        """Place in classes_ of the class that is +1 in a task."""
        return 1 if self._n_tasks() == 1 else number

    def _name(self, number: int) -> Any:
        return self.classes_[self._positive(number)].item()

    def _target(self, y: NDArray[Any], number: int) -> NDArray[np.float64]:
        return np.where(y == self.classes_[self._positive(number)], 1.0, -1.0)

    def _weights(self, rows: _Rows, number: int) -> NDArray[np.float64] | None:
        own = self._class_weights[self._positive(number)]
        other = self._class_weights[0] if self._n_tasks() == 1 else 1.0
        if own == other == 1.0:
            return rows.weight
        weight = np.where(self._target(rows.y, number) > 0.0, own, other)
        return weight if rows.weight is None else weight * rows.weight

    def _score(self, rows: _Rows, target: NDArray[np.float64], coef: NDArray[Any], intercept: float) -> float:
        """Accuracy on one task."""
        right = (rows.X @ coef + intercept > 0.0) == (target > 0.0)
        return float(np.average(right, weights=rows.weight))

    def _shape(self, coef: NDArray[Any]) -> NDArray[Any]:
        return coef

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probability of each class, for the losses ``"log_loss"`` and ``"modified_huber"``.

        With more than two classes, the one-vs-rest probabilities are divided by their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        scores = self.decision_function(X)
        own = expit(scores) if self.loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
        if own.ndim == 1:
            return np.column_stack([1.0 - own, own])
        total = own.sum(axis=1, keepdims=True)
        return np.divide(own, total, out=np.full_like(own, 1.0 / own.shape[1]), where=total > 0.0)  # 0 everywhere: all the same

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithm of the probability of each class, for the losses ``"log_loss"`` and ``"modified_huber"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return np.log(self.predict_proba(X))


class SGDRegressor(RegressorMixin, _SGD):  # type: ignore[misc]
    """Linear regression fitted by SGD that chooses its steps and its batches: scikit-learn's ``SGDRegressor`` and more.

    It minimises the mean loss plus a penalty, with everything that scikit-learn's class of the same name offers, and besides: a step
    size found from the data, true mini-batches, antithetic pairs, a validation set of one's own, a record of the run, callbacks, and the
    same model from dense and sparse rows.

    Parameters
    ----------
    loss : str, default="squared_error"
        ``"squared_error"``, ``"huber"``, ``"epsilon_insensitive"`` or ``"squared_epsilon_insensitive"``.
    penalty : {"l2", "l1", "elasticnet"} or None, default="l2"
        Penalty of the weights: ``alpha / 2 |w|^2``, ``alpha |w|_1``, or both mixed by ``l1_ratio``. The L1 part is a proximal step,
        which gives exact zeros.
    alpha : float, default=0.0001
        Strength of the penalty; also the decay of ``"inverse_time"`` and the rate of ``"optimal"``.
    l1_ratio : float or None, default=0.15
        Share of the L1 part in ``"elasticnet"``, from 0 to 1.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    max_iter : int, default=1000
        Most passes over the data (epochs) of ``fit``.
    tol : float or None, default=1e-3
        Stop when the objective (with ``early_stopping`` the validation score) has not become better by ``tol`` for
        ``n_iter_no_change`` epochs in a row. The objective is the exact one after each epoch. None runs ``max_iter`` epochs.
    shuffle : bool, default=True
        Whether each epoch has an order of its own. False takes the rows in the order given.
    verbose : int, default=0
        1 or more prints the plan and shows a progress bar (needs rich; a line now and then without it).
    epsilon : float, default=0.1
        Where ``"huber"`` turns from square to straight; the insensitive zone of the epsilon losses.
    random_state : int, RandomState instance or None, default=None
        Seed of the orders. The same number gives the same bits.
    learning_rate : str, default="auto"
        How the step size falls:

        - ``"auto"``: ``"inverse_time"`` with ``eta0``, and ``decay`` where it is None, found from the data by a few passes over at most
          1000 rows; kept by ``partial_fit`` and ``warm_start``. It needs no tuning, and does not diverge on unscaled features;
        - ``"inverse_time"``: ``eta0 / (1 + eta0 * decay * t)``, t in steps;
        - ``"optimal"``: ``1 / (alpha * (t0 + t))``, t in samples, t0 chosen by a rule of Bottou;
        - ``"invscaling"``: ``eta0 / t ** power_t``, t in samples;
        - ``"constant"``: ``eta0``;
        - ``"adaptive"``: ``eta0``, divided by 5 whenever ``tol`` would have ended the run;
        - ``"pa1"``, ``"pa2"``: passive-aggressive steps with ``"epsilon_insensitive"``: each row takes ``min(eta0, loss / |x|^2)`` or
          ``loss / (|x|^2 + 1 / (2 eta0))``, a batch the mean of these.
    eta0 : float, default=0.01
        First step size of the schedules that do not choose their own.
    power_t : float, default=0.25
        Exponent of ``"invscaling"``.
    early_stopping : bool, default=False
        Stop by the score on a validation set: the one given to ``fit``, or else a share of the rows that is held back.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=5
        Epochs without improvement before training ends.
    warm_start : bool, default=False
        Whether ``fit`` begins with the weights of the last call.
    average : bool, int or "linear", default=False
        Whether ``coef_`` is the mean of the weights after each step: of all, from a number of samples on, or with weight 2/(t+1) for
        step t ("linear": later ones count more).
    pairing : {"auto", "greedy", "optimal", "tree", "random"}, callable, AntitheticTable or None, default="auto"
        Which rows travel together, see :func:`antithetic.pair`; None: none. "auto" makes no table at present.
    sampling : {"auto", "shuffle", "uniform"}, default="auto"
        Visit each row once per epoch in random order ("auto", "shuffle"), or draw with replacement.
    solver : {"sgd"}, default="sgd"
        How the gradient is used.
    batch_size : int, default=2
        Rows of a step: it follows their mean gradient. At most the rows there are.
    nest, refresh : "auto" or None, default="auto"
        Reserved for nested groups and for tables that follow the gradient.
    decay : float or None, default=None
        Decay of ``"inverse_time"`` and ``"auto"``; None means ``alpha``, or what "auto" finds.
    stopping : {"objective"}, default="objective"
        What ``tol`` is compared with.
    groups, n_strata : None
    allocation : {"proportional"}, default="proportional"
        Reserved for group penalties and stratified sampling.
    trace : str, sequence of str or None, default="objective"
        What ``history_`` holds besides the seconds and validation scores: ``"objective"``, ``"variance"`` (exact, of the gradient of a
        batch) and ``"variance_ratio"`` (that, divided by the variance of independent rows). Each costs about one pass over the data.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        The intercept.
    n_iter_ : int
        Epochs of the last call, of one-vs-rest problems the most.
    t_ : int
        One more than the number of samples that were used.
    history_ : dict of str to ndarray of shape (n_iter_,)
        One entry per epoch of ``fit``: ``"epoch"``, ``"seconds"`` since it began, ``"validation_score"`` where there is a validation
        set, and what ``trace`` asks for.
    eta0_, decay_ : float
        The steps found by ``learning_rate="auto"``.
    plan_ : Plan
        What was used where the parameters say "auto", and why.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where the columns of X have such.

    See Also
    --------
    SGDClassifier : The same for classes.
    minimize : The same algorithms without an estimator.

    Examples
    --------
    >>> import numpy as np
    >>> import antithetic
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> y = X @ [1.0, -2.0, 3.0] + 4.0
    >>> model = antithetic.SGDRegressor(alpha=1e-6, tol=1e-6, random_state=0).fit(X, y)
    >>> model.coef_.round(2).tolist(), model.intercept_.round(2).tolist()
    ([1.0, -2.0, 3.0], [4.0])
    """

    loss_functions = {name: (loss.name, loss.epsilon) for name, loss in LOSSES.items() if not loss.classification}  # noqa: RUF012
    _parameter_constraints: dict[str, list[Any]] = {**_SGD._parameter_constraints, "loss": [StrOptions(set(loss_functions))]}  # noqa: RUF012
    _splitter = ShuffleSplit
    _y_numeric = True

    def __init__(
        self,
        loss: str = "squared_error",
        *,
        penalty: Any = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        random_state: Any = None,
        learning_rate: str = "auto",
        eta0: float = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int | str = False,
        pairing: Any = "auto",
        sampling: str = "auto",
        solver: str = "sgd",
        batch_size: int = 2,
        nest: str | None = "auto",
        refresh: str | None = "auto",
        decay: float | None = None,
        stopping: str = "objective",
        groups: None = None,
        n_strata: None = None,
        allocation: str = "proportional",
        trace: Any = "objective",
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.epsilon = epsilon
        self.random_state = random_state
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.pairing = pairing
        self.sampling = sampling
        self.solver = solver
        self.batch_size = batch_size
        self.nest = nest
        self.refresh = refresh
        self.decay = decay
        self.stopping = stopping
        self.groups = groups
        self.n_strata = n_strata
        self.allocation = allocation
        self.trace = trace

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
        *,
        table: AntitheticTable | None = None,
        strata: None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> SGDRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. C-contiguous float64 and float32 and CSR matrices of these are not copied, memory maps among them.
        y : array-like of shape (n_samples,)
            Numbers.
        coef_init : array-like of shape (n_features,), default=None
            Weights to begin with.
        intercept_init : array-like of shape (1,), default=None
            Intercepts to begin with.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        table : AntitheticTable, default=None
            A table made for these rows by :func:`antithetic.pair`; it takes the place of ``pairing``. Cross-validation cuts it to each
            fold's rows.
        strata : None
            Reserved for stratified sampling.
        X_val : {array-like, sparse matrix} of shape (n_val, n_features), default=None
            Rows to validate on; their score after each epoch is in ``history_``, and ``early_stopping`` looks at it.
        y_val : array-like of shape (n_val,), default=None
            Their numbers.

        Returns
        -------
        self : object
            The fitted estimator. After Ctrl-C it holds the last whole epoch.

        Raises
        ------
        DivergenceError
            When the weights overflow. The estimator then is what it was before.
        """
        self._check_parameters()
        _refuse_strata(strata)
        self._fit(self._read(X, y, sample_weight, reset=True), coef_init, intercept_init, table, X_val, y_val)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDRegressor:
        """Go through the given rows once, from where the model stands.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Some rows.
        y : array-like of shape (n_samples,)
            Their numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. Where all are zero, nothing changes.

        Returns
        -------
        self : object
        """
        first = getattr(self, "coef_", None) is None
        if first:
            self._check_parameters(for_partial_fit=True)
        self._partial_fit(self._read(X, y, sample_weight, reset=first), first)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict a number for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        predictions: NDArray[Any] = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return predictions.ravel()

    def _n_tasks(self) -> int:
        return 1

    def _name(self, _number: int) -> Any:
        return None

    def _check_targets(self, y: NDArray[Any]) -> None:
        """Any number will do."""

    def _target(self, y: NDArray[Any], _number: int) -> NDArray[np.float64]:
        return y.astype(np.float64, copy=False)

    def _weights(self, rows: _Rows, _number: int) -> NDArray[np.float64] | None:
        return rows.weight

    def _score(self, rows: _Rows, target: NDArray[np.float64], coef: NDArray[Any], intercept: float) -> float:
        """Coefficient of determination."""
        return float(r2_score(target, rows.X @ coef + intercept, sample_weight=rows.weight))

    def _shape(self, coef: NDArray[Any]) -> NDArray[Any]:
        return coef[0]
