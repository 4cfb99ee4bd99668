"""From parameters and data to jobs: which order, which steps, and one run per problem."""

from __future__ import annotations

import time
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from antithetic._util.threads import threads_of
from antithetic._util.warnings import warn
from antithetic.estimators.data import TrainingData
from antithetic.estimators.fitted import FittedLinearModel
from antithetic.estimators.jobs import Job, seeds_of
from antithetic.estimators.linear import passed_once
from antithetic.estimators.one_vs_rest import AllClasses
from antithetic.estimators.order_data import filled
from antithetic.orders import Order
from antithetic.orders.order import InOrder
from antithetic.orders.pairs import reduction_of
from antithetic.pairing import AntitheticTable
from antithetic.pairing.table import check_table
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.columns import moments_of
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Moments, find_preconditioner, with_spread
from antithetic.stochastic import EXACT, SOLVERS, State
from antithetic.stochastic.gap import start_of_problem
from antithetic.stochastic.loop import Run, begin
from antithetic.stochastic.plan import (
    Plan,
    automatic_batch_size,
    is_worth_averaging,
    noise_left,
    plan_order,
)
from antithetic.stochastic.sgd import Averages, Sgd
from antithetic.stochastic.spec import Spec, make_spec
from antithetic.stochastic.step_search import pays
from antithetic.stochastic.steps import Adaptive, Auto, Constant, Schedule
from antithetic.stochastic.stopping import TARGETS
from antithetic.stochastic.trace import (
    Measure,
    Score,
    check_measures,
    measures_of,
)

_STEEPEST = 1e12  # where slopes are cut off, as in scikit-learn: long first steps need not overflow
_NO_PAIRS = "; no pairs, since a table costs as much as tens of epochs of a linear model"


class PlannedFit(FittedLinearModel):
    """What an SGD estimator plans before it trains."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's name and form
        **FittedLinearModel._parameter_constraints,
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
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "average": [
            Interval(Integral, 0, None, closed="neither"),
            "boolean",
            StrOptions({"auto", "epoch", "linear"}),
        ],
        "solver": [StrOptions(set(SOLVERS))],
        "stopping": [StrOptions({"objective", *TARGETS})],
        "trace": [str, tuple, list, HasMethods(["of"]), None],
    }

    _advice: ClassVar[dict[tuple[str, Any], str]] = {("solver", "newton"): EXACT}

    # ---- from parameters to a plan

    @passed_once
    def _check_parameters(self, for_partial_fit: bool = False) -> None:
        """Check what depends on more than one parameter, before the first step."""
        if self.early_stopping and for_partial_fit:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.early_stopping and self.stopping != "objective":
            raise ValueError(
                "early_stopping watches the validation score, so it cannot be combined with"
                f" stopping={self.stopping!r}; leave one of them out"
            )
        self._check_together(average=self.average != "auto" and self.average)
        check_measures(self._measures(), self.solver, self._order())

    def _measures(self) -> tuple[Measure, ...]:
        """What is recorded besides the running objective.

        SDCA skips rows that would not change, so it does not see all losses; the objective of all
        rows is recorded instead.
        """
        found = measures_of(() if self.trace is None else self.trace, self._stop())
        if self.solver == "sdca" and "objective" not in {measure.name for measure in found}:
            found = (*measures_of("objective"), *found)
        return found

    def _plan(
        self,
        data: TrainingData,
        order: Order | None,
        table: AntitheticTable | None = None,
        *,
        epochs: int,
        whole: bool,
    ) -> Plan:
        """Decide what the parameters leave open, and say why.

        ``table`` is one that fit was given for an order which is chosen here; ``whole`` says
        whether these are all rows that there will be.
        """
        n, d = data.X.shape
        batch_size, loss = min(self._batch_size(data), n), self._loss()
        if self.shuffle:
            found, why = plan_order(
                order,
                n,
                d,
                batch_size=batch_size,
                epochs=epochs,
                solver=self.solver,
                classes=loss.has_classes,
            )
            if order is None and table is None:
                why += _NO_PAIRS
            elif order is None:
                found = found.but(pairs=table)
            if table is not None:
                why = f"table= was given to fit; {why}"
        else:
            found, why = InOrder(), "shuffle=False: the rows are taken in the order given"
        if epochs == 1 and found.pairs is not None and found.pairs.refresh not in (None, "step"):
            # each call makes a table of its rows, which a single epoch leaves as it is
            found = found.but(pairs=found.pairs.but(refresh=None))
        average = self.average
        if average == "auto":
            automatic = whole and self.learning_rate == "auto" and self.solver == "sgd"
            worth = automatic and is_worth_averaging(n, d, loss, self._penalty(d))
            average = "epoch" if worth else False
        single = whole and epochs == 1
        noise = noise_left(found, average, n, d, single_epoch=single)
        return Plan(found, batch_size, average, why, noise)

    def _batch_size(self, data: TrainingData) -> int:
        if not isinstance(self.batch_size, str):
            return int(self.batch_size)
        parts = self._one_vs_rest()
        rows = parts.n_classes if isinstance(parts, AllClasses) else 1
        n_weights = rows * data.X.shape[1]
        return automatic_batch_size(self._loss(), n_weights, data.X.dtype.itemsize)

    # ---- from data to jobs

    def _given_order(
        self, data: TrainingData, table: AntitheticTable | None, strata: Any
    ) -> Order | None:
        """Return the order of the parameters with what fit was given; None if it is automatic."""
        order = self._order()
        if table is not None:
            check_table(table).check(data.X, data.y)
        if not self.shuffle and not (table is None and strata is None):
            raise ValueError(
                "shuffle=False uses the rows in the given order, so it cannot be combined with"
                " table= or strata=; use shuffle=True"
            )
        if order is None:
            if strata is not None:
                raise ValueError("strata= needs order='stratified'; got order='auto'")
            return None
        if order.pairs is not None and order.pairs.given is not None:
            order.pairs.check(self._problem(data, 0), data.y)
        return filled(order, table, strata, data.X.shape[0])

    def _split(
        self, data: TrainingData, X_val: Any, y_val: Any
    ) -> tuple[NDArray[np.intp] | None, TrainingData | None]:
        """Rows to train on, None for all of them, and data to validate on, if any."""
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together; give both or neither")
        if X_val is not None:
            validation = self._read(X_val, y_val, None, reset=False)
            self._check_targets(validation.y)
            return None, validation
        if not self.early_stopping:
            return None, None
        split = self._splitter(test_size=self.validation_fraction, random_state=self.random_state)
        rows = next(split.split(np.zeros((len(data.y), 1)), data.y))
        train, held = (np.sort(part) for part in rows)
        validation = data.take(held)
        if validation.weight is not None and not validation.weight.any():
            raise ValueError(
                "The sample weights for validation set are all zero, consider using a different"
                " random state."
            )
        return train, validation

    def _problem(self, data: TrainingData, number: int) -> Problem:
        parts = self._one_vs_rest()
        target = parts.target(data.y, number)
        weight = parts.weigh(target, data.weight, number)
        penalty, intercept = self._penalty(data.X.shape[1]), bool(self.fit_intercept)
        if isinstance(parts, AllClasses):
            given = (data.X, target, SOFTMAX, penalty, weight, intercept, None)
            return SoftmaxProblem(*given, parts.n_classes)
        return Problem(data.X, target, self._loss(), penalty, weight, intercept, None)

    def _order_of(self, problem: Problem, order: Order, number: int) -> Order:
        """Order of one problem: without pairs if these would do harm or nothing."""
        if order.pairs is None:
            return order
        if not self._y_numeric and (problem.y == problem.y[0]).all():
            return order.but(pairs=None)  # some rows of one class: nothing opposes anything
        given = order.pairs.given
        if given is not None and self._n_problems() > 1:
            gain = 1.0 - reduction_of(given, problem, problem.slopes())
            if gain >= 1.0:
                warn(
                    f"the table is not used for class {self._one_vs_rest().label(number)!r}"
                    f" against the rest, where it would raise the variance ({gain:.2f} times that"
                    " of independent rows); pairs='greedy', 'tree' or 'optimal' makes a table for"
                    " each class",
                    UserWarning,
                )
                return order.but(pairs=None)
        return order

    def _spec(
        self,
        problem: Problem,
        plan: Plan,
        number: int,
        seed: int,
        measures: tuple[Measure, ...] | None,
        moments: Moments | None,
    ) -> Spec:
        """Put one problem's run together; without measures it is neither recorded nor stopped."""
        steps, stop = self._steps(), None if measures is None else self._stop()
        preconditioner = None
        if isinstance(steps, Auto) and moments is not None:
            steps = steps.but(precondition=True)
            preconditioner = find_preconditioner(problem, moments)
        if isinstance(steps, Adaptive) and stop is None:
            steps = Constant(steps.eta0)  # nothing is watched that could lower them
        return make_spec(
            problem,
            problem.y,
            order=self._order_of(problem, plan.order, number),
            solver=self.solver,
            steps=steps,
            batch_size=plan.batch_size,
            average=plan.average,
            stop=stop,
            trace=measures or (),
            watch=measures is not None and self.solver != "sdca",
            seed=seed,
            steepest=np.inf if isinstance(steps, Auto) else _STEEPEST,
            noise=plan.noise,
            threads=self._threads(),
            preconditioner=preconditioner,
            estimates_gap=measures is not None and self._estimates_gap(),
        )

    def _estimates_gap(self) -> bool:
        """Whether fit estimates its distance from the optimum; other solvers know it themselves."""
        # with many classes this takes several epochs: only where it decides when tol ends the fit
        decides = self.tol is not None and self.learning_rate == "auto"
        return SOLVERS[self.solver].has_steps and (decides or not self._loss().has_classes)

    def _moments(self, data: TrainingData, plan: Plan, *, whole: bool = False) -> Moments | None:
        """Moments of the columns; None for steps in the original columns.

        Sparse rows are centred if these are all rows, and a trial on some of them shows that it
        pays.
        """
        penalty = self._penalty(data.X.shape[1])
        if not self._needs_moments() or not isinstance(penalty, ElasticNet):
            return None
        is_sparse = sparse.issparse(data.X)
        if is_sparse and not (whole and penalty.l1 == 0.0 and plan.average in (False, "epoch")):
            return None
        parts, weight = self._one_vs_rest(), data.weight
        if data.columns is not None and parts.weights is None:
            return data.columns
        if parts.n_problems == 1:  # class weights are those of one problem, and so say the same
            weight = parts.weigh(parts.target(data.y, 0), weight, 0)
        found = with_spread(moments_of(data.X, weight))
        if is_sparse:
            problem = self._problem(data, 0)
            centred = find_preconditioner(problem, found, products=False)
            if not pays(problem, centred, plan.batch_size, 0, start_of_problem(problem)):
                return None
        return found

    def _needs_moments(self) -> bool:
        automatic = self.learning_rate == "auto" and self.solver == "sgd" and self.fit_intercept
        return bool(automatic)

    def _threads(self) -> int | None:
        """Threads of one problem, if its solver has any; None if the user did not set them.

        Problems that are solved at the same time share the threads that the user set.
        """
        n_jobs = getattr(self, "n_jobs", None)
        if n_jobs is None or not self._loss().has_classes:
            return None
        threads = threads_of(n_jobs)
        return max(1, threads // min(threads, self._n_problems()))

    def _begin(self, spec: Spec, start: Any, known: Schedule | None, before: Moments | None) -> Run:
        """Start at weights and intercept, or at a state and what was kept from an earlier run.

        ``before`` are the moments that known steps were made for.
        """
        if known is not None and before is not None and isinstance(spec.solver, Sgd):
            known, start = _follow(spec.problem, spec.solver, known, start, before)
        earlier = start if isinstance(start[0], State) else None
        corrected = self.solver in ("svrg", "saga")
        run = begin(
            spec,
            None if earlier else start,
            earlier=earlier,
            schedule=None if corrected else known,
        )
        if known is None or not corrected:
            return run
        # a later chunk may have longer rows
        return run._replace(schedule=known._replace(eta0=min(known.eta0, run.schedule.eta0)))

    def _jobs(
        self,
        data: TrainingData,
        starts: list[Any],
        plan: Plan,
        *,
        epochs: int,
        known: list[Schedule] | None = None,
        validation: TrainingData | None = None,
        quiet: bool = False,
        moments: Moments | None = None,
        before: Moments | None = None,
    ) -> list[Job]:
        """One job per problem, which is made when its turn comes.

        All of them share the moments of the columns.
        """
        seeds = seeds_of(self.random_state, len(starts))
        measures, parts = self._measures(), self._one_vs_rest()
        began = time.perf_counter()

        def make(number: int) -> tuple[Spec, Run]:
            recorded = None if quiet else measures
            if recorded is not None and validation is not None:
                target = parts.target(validation.y, number)
                recorded = (*recorded, Score(partial(self._score, validation, target)))
            problem = self._problem(data, number)
            spec = self._spec(problem, plan, number, seeds[number], recorded, moments)
            steps = known[number] if known else None
            return spec, self._begin(spec, starts[number], steps, before)

        firsts = [(s[0].coef, s[0].intercept) if isinstance(s[0], State) else s for s in starts]
        return [
            Job(partial(make, number), (coef.astype(data.X.dtype), intercept), epochs, began)
            for number, (coef, intercept) in enumerate(firsts)
        ]


def _follow(
    problem: Problem, solver: Sgd, known: Schedule, start: Any, before: Moments
) -> tuple[Schedule, Any]:
    """Steps and state of earlier rows, in the units that these rows have led to.

    The first step follows the curvature; the L1 penalty carried forward follows the metric.
    """
    now, then = solver.preconditioner, find_preconditioner(problem, before)
    if now is None or not np.isfinite(now.curvature):
        return known, start
    known = known._replace(eta0=known.eta0 * then.curvature / now.curvature)
    state, own = start
    if isinstance(own, Averages) and own.received is not None:
        ratio = np.ones(len(own.received))
        np.divide(now.metric, then.metric, out=ratio[:-1], where=then.metric > 0.0)
        start = state, own._replace(received=own.received * ratio)
    return known, start
