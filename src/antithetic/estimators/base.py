"""What both SGD estimators share: from checked data to trained weights and attributes."""

from __future__ import annotations

import time
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import validate_data

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.validation import canonical_csr, check_weights
from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context, watch_epochs
from antithetic.estimators.data import TrainingData, cut_to, filled, is_checked
from antithetic.estimators.fitted import LARGEST_SEED, FittedLinearModel
from antithetic.estimators.jobs import Job, Seen, do, do_all, epochs_bar, keep, kept
from antithetic.orders import Order
from antithetic.orders.in_order import InOrder
from antithetic.pairing import AntitheticTable
from antithetic.pairing.table import check_table, pair_ratio
from antithetic.problem import Problem
from antithetic.solvers import SOLVERS, State
from antithetic.solvers.steps import Auto, Schedule
from antithetic.training.automatic import Plan, is_worth_averaging, noise_left, plan_order
from antithetic.training.loop import Run, begin
from antithetic.training.spec import Spec, make_spec
from antithetic.training.stopping import TARGETS
from antithetic.training.trace import (
    Measure,
    Met,
    Score,
    Seconds,
    check_measures,
    measures_of,
)

_STEEPEST = 1e12  # where slopes are cut off, as in scikit-learn: long first steps need not overflow
_NO_PAIRS = "; no pairs, since a table costs a linear model tens of epochs"


class LinearSGD(CallbackSupportMixin, FittedLinearModel):  # type: ignore[misc]  # untyped
    """What the classifier and the regressor share."""

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

    # ---- from parameters to a plan

    def _check_parameters(self, for_partial_fit: bool = False) -> None:
        """Check what depends on more than one parameter, before the first step."""
        if self.early_stopping and for_partial_fit:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.early_stopping and self.stopping != "objective":
            raise ValueError(
                "early_stopping watches the validation score; with"
                f" stopping={self.stopping!r} leave it out"
            )
        self._check_together(average=self.average != "auto" and self.average)
        check_measures(self._measures(), self.solver, self._order())

    def _measures(self, seconds: Seconds | None = None) -> tuple[Measure, ...]:
        """What is recorded: the objective met on the way, unless that of all rows is asked for.

        SDCA leaves rows out that would not change, so it does not meet all losses.
        """
        found = measures_of(() if self.trace is None else self.trace, self._stop())
        if "objective" not in {measure.name for measure in found}:
            own = measures_of("objective") if self.solver == "sdca" else (Met(),)
            found = (*own, *found)
        return found if seconds is None else (*found, seconds)

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
        batch_size = min(int(self.batch_size), n)
        if self.shuffle:
            found, why = plan_order(
                order, n, d, batch_size=batch_size, epochs=epochs, solver=self.solver
            )
            if order is None and table is None:
                why += _NO_PAIRS
            elif order is None:
                found, why = found.but(pairs=table), f"table= was given to fit; {why}"
        else:
            found, why = InOrder(), "shuffle=False: the rows are taken in the order given"
        average = self.average
        if average == "auto":
            automatic = whole and self.learning_rate == "auto" and self.solver == "sgd"
            worth = automatic and is_worth_averaging(n, d, self._loss(), self._penalty(d))
            average = "epoch" if worth else False
        single = whole and epochs == 1
        noise = noise_left(found, average, n, d, single_epoch=single)
        return Plan(found, batch_size, average, why, noise)

    # ---- from data to jobs

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> TrainingData:
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=reset,
            y_numeric=self._y_numeric,
            skip_check_array=is_checked(X, y),
        )
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, X.shape[0], all_zero=True)
        return TrainingData(canonical_csr(X) if sparse.issparse(X) else X, y, weight)

    def _given_order(
        self, data: TrainingData, table: AntitheticTable | None, strata: Any
    ) -> Order | None:
        """Return the order of the parameters with what fit was given; None if it is automatic."""
        order = self._order()
        if table is not None:
            check_table(table).check(data.X, data.y)
        if not self.shuffle and not (table is None and strata is None):
            raise ValueError(
                "shuffle=False takes the rows in the order given, without table= or strata=; use"
                " shuffle=True"
            )
        if order is None:
            if strata is not None:
                raise ValueError("strata= belongs to order='stratified'; got order='auto'")
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
        return Problem(data.X, target, self._loss(), penalty, weight, intercept, None)

    def _order_of(self, problem: Problem, order: Order, number: int) -> Order:
        """Order of one problem: without pairs, where these would do harm or nothing."""
        if order.pairs is None:
            return order
        if not self._y_numeric and (problem.y == problem.y[0]).all():
            return order.but(pairs=None)  # some rows of one class: nothing opposes anything
        given = order.pairs.given
        if isinstance(given, AntitheticTable) and self._n_problems() > 1:
            gain = pair_ratio(problem, problem.slopes(), given.partner)
            if gain >= 1.0:
                warn(
                    f"the table is set aside for class {self._one_vs_rest().label(number)!r}"
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
    ) -> Spec:
        """Put one problem's run together; without measures it is neither recorded nor stopped."""
        steps = self._steps()
        return make_spec(
            problem,
            problem.y,
            order=self._order_of(problem, plan.order, number),
            solver=self.solver,
            steps=steps,
            batch_size=plan.batch_size,
            average=plan.average,
            stop=None if measures is None else self._stop(),
            trace=measures or (),
            seed=seed,
            steepest=np.inf if isinstance(steps, Auto) else _STEEPEST,
            noise=plan.noise,
        )

    def _begin(self, spec: Spec, start: Any, known: Schedule | None) -> Run:
        """Begin at weights and intercept, or at a state and what was kept of an earlier run."""
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
    ) -> list[Job]:
        """One job per problem, which is made when its turn comes."""
        rng = check_random_state(self.random_state)
        seeds = rng.randint(LARGEST_SEED, size=len(starts)).tolist()
        measures, parts = self._measures(Seconds(time.perf_counter())), self._one_vs_rest()

        def make(number: int) -> tuple[Spec, Run]:
            recorded = None if quiet else measures
            if recorded is not None and validation is not None:
                target = parts.target(validation.y, number)
                recorded = (*recorded, Score(partial(self._score, validation, target)))
            problem = self._problem(data, number)
            spec = self._spec(problem, plan, number, seeds[number], recorded)
            return spec, self._begin(spec, starts[number], known[number] if known else None)

        firsts = [(s[0].coef, s[0].intercept) if isinstance(s[0], State) else s for s in starts]
        return [
            Job(partial(make, number), (coef.astype(data.X.dtype), intercept), epochs)
            for number, (coef, intercept) in enumerate(firsts)
        ]

    # ---- training

    def _fit(
        self,
        data: TrainingData,
        coef_init: Any,
        intercept_init: Any,
        table: AntitheticTable | None,
        strata: Any,
        X_val: Any,
        y_val: Any,
    ) -> None:
        order = self._given_order(data, table, strata)
        starts = self._first_weights(coef_init, intercept_init, data.X.shape[1])
        rows, validation = self._split(data, X_val, y_val)
        if rows is not None:
            data = data.take(rows)
            order = None if order is None else cut_to(order, rows)
            table = None if table is None else table[rows]
        if data.weight is not None and not data.weight.any():
            raise ValueError("sample_weight is zero for every row; at least one must be positive")
        plan = self._plan(data, order, table, epochs=self.max_iter, whole=True)
        if self.verbose:
            print(f"{type(self).__name__}: {plan.order!r}, {plan.batch_size} a batch ({plan.why})")
        self._check_data(data, plan)
        with fit_context(self, data.shown(), self._n_problems()):
            known = self._known_steps(plan.noise) if self.warm_start else None
            jobs = self._jobs(
                data, starts, plan, epochs=self.max_iter, known=known, validation=validation
            )
            self._solve(jobs, data, plan)
        self._warn_after_fit()

    def _check_data(self, data: TrainingData, plan: Plan) -> None:
        """Refuse what these data do not allow, before the first problem is begun."""
        measures = self._measures()
        needs_problem = bool({"gradient", "gap"} & {one.name for one in measures})
        problem = self._problem(data, 0) if needs_problem else None
        check_measures(measures, self.solver, plan.order, problem)
        parts = self._one_vs_rest()
        for number in range(parts.n_problems if parts.weights is not None else 0):
            weight = parts.weigh(parts.target(data.y, number), data.weight, number)
            if weight is not None and not weight.any():
                raise ValueError(
                    "sample_weight times class_weight is zero for every row; at least one must be"
                    " positive"
                )

    def _solve(self, jobs: list[Job], data: TrainingData, plan: Plan) -> None:
        """Train, and take over the result; on Ctrl-C, that of the last whole epochs."""
        ended = watch_epochs(
            self, jobs, data.shown(), lambda: self._fitted([job.copy() for job in jobs], plan)
        )
        try:
            with epochs_bar(sum(job.most_epochs for job in jobs), bool(self.verbose)) as advance:

                def watch(job: Job) -> bool:
                    advance()
                    return ended(job)

                do_all(jobs, watch, getattr(self, "n_jobs", None))
        except KeyboardInterrupt:
            so_far = [job.copy() for job in jobs]
            if any(job.epochs for job in so_far):
                self._adopt(self._fitted(so_far, plan))
            raise
        self._adopt(self._fitted(jobs, plan))

    def _partial_fit(self, data: TrainingData, first: bool) -> None:
        if self.solver == "sdca":
            raise ValueError(
                "solver='sdca' has a dual variable for each row, so it needs all rows at once; use"
                " fit, or solver='sgd'"
            )
        d, k = data.X.shape[1], self._n_problems()
        starts = [(np.zeros(d), 0.0)] * k if first else self._later_states(d)
        if data.weight is not None and not data.weight.any():  # nothing was seen
            if first:
                zeros = self._weights_of([(np.zeros(d, data.X.dtype), 0.0)] * k)
                self._adopt({**zeros, "t_": 1, "n_iter_": 0})
            return
        plan = self._plan(data, self._given_order(data, None, None), epochs=1, whole=False)
        known = self._known_steps(plan.noise)
        jobs = self._jobs(data, starts, plan, epochs=1, known=known, quiet=True)
        parts = self._one_vs_rest()
        for number, (job, start) in enumerate(zip(jobs, starts, strict=True)):
            weight = parts.weigh(parts.target(data.y, number), data.weight, number)
            if weight is None or weight.any():
                do(job, lambda _job: False)
            elif isinstance(start[0], State):  # this class saw nothing, and stays where it was
                job.seen = Seen(job.first, *start, Schedule(INVERSE_TIME, 1.0), (), False)
        fitted = self._fitted(jobs, plan)
        del fitted["history_"]
        if known:  # a chunk may need shorter steps, but those after it need not
            fitted |= self._steps_of(list(known), plan.noise)
        self._adopt(fitted)

    # ---- from jobs to attributes, and back

    def _fitted(self, jobs: list[Job], plan: Plan) -> dict[str, Any]:
        """Attributes of a model that is made of the jobs as they stand."""
        seen, histories = [job.seen for job in jobs], [job.history() for job in jobs]
        averages = plan.average != "epoch"
        return {
            **self._weights_of([job.solution for job in jobs]),
            "n_iter_": max(job.epochs for job in jobs),
            "t_": 1 + max(0 if one is None else one.state.samples for one in seen),
            "plan_": plan,
            "history_": histories if len(jobs) > 1 else histories[0],
            "_converged": all(one is not None and one.stopped for one in seen),
            "_states": [None if one is None else keep(one, averages=averages) for one in seen],
            **self._steps_of([None if one is None else one.schedule for one in seen], plan.noise),
        }

    def _later_states(self, d: int) -> list[Any]:
        """Return what partial_fit goes on from: the public weights, which may have been changed."""
        coef = np.atleast_2d(self._dense_coef())
        if coef.shape[1] != d:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {coef.shape[1]}"
                " features as input."
            )
        public = list(zip(coef, np.ravel(self.intercept_).tolist(), strict=True))
        if not hasattr(self, "_states"):  # the weights were set by hand
            return public
        pairs = zip(self._states, public, strict=True)
        return [weights if held is None else kept(held, *weights) for held, weights in pairs]

    def _known_steps(self, noise: float) -> list[Schedule] | None:
        """Steps that "auto" found on an earlier call, if they are to be kept.

        Their decay is that of orders which leave so much noise.
        """
        found = getattr(self, "eta0_", None)
        if self.learning_rate != "auto" or found is None or np.size(found) != self._n_problems():
            return None
        if getattr(self, "_steps_of_solver", self.solver) != self.solver:
            return None  # those of another are of no use
        more = noise / getattr(self, "_noise_of_steps", noise)
        l2 = self._penalty(self.coef_.shape[-1]).l2
        known = []
        for eta0, decay in zip(np.ravel(found), np.ravel(self.decay_), strict=True):
            rate = max(more * decay, min(decay, l2)) if self.decay is None else self.decay
            known.append(Schedule(INVERSE_TIME, float(eta0), float(rate)))
        return known
