"""What both SGD estimators share: training, and setting the attributes from its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.warnings import warn
from antithetic.estimators.callbacks import CallbackSupportMixin, fit_context, watch_epochs
from antithetic.estimators.data import TrainingData
from antithetic.estimators.jobs import (
    Job,
    Seen,
    do,
    do_all,
    epochs_bar,
    keep,
    kept,
    no_history,
    showing,
)
from antithetic.estimators.order_data import cut_to
from antithetic.estimators.planned import PlannedFit
from antithetic.estimators.used_columns import (
    Narrowed,
    UsedColumns,
    from_weights,
    has_rare_columns,
    is_ours,
)
from antithetic.orders import Order
from antithetic.pairing import AntitheticTable
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Moments
from antithetic.stochastic import SOLVERS, State, exact_name
from antithetic.stochastic.gap import start_of, start_of_problem
from antithetic.stochastic.plan import Plan
from antithetic.stochastic.steps import Schedule
from antithetic.stochastic.trace import check_measures


class LinearSGD(CallbackSupportMixin, PlannedFit):  # type: ignore[misc]  # scikit-learn is untyped
    """What the classifier and the regressor share."""

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
        goes_on = self.warm_start and getattr(self, "coef_", None) is not None
        if coef_init is None and intercept_init is None and not goes_on:
            starts = self._first_intercepts(data, starts, whole=True)
        wide, narrowed = data, self._narrowed(data, order, starts)
        if narrowed is not None:
            data = data._replace(X=narrowed.columns.narrow(data.X))
            starts = [(narrowed.start(), intercept) for _, intercept in starts]
            if validation is not None:
                validation = validation._replace(X=validation.X[:, narrowed.columns.used])
        plan = self._plan(data, order, table, epochs=self.max_iter, whole=True)
        if self.verbose:
            print(f"{type(self).__name__}: {plan.order!r}, {plan.batch_size} a batch ({plan.why})")
        self._check_data(data, plan)
        n = self._n_problems()
        with fit_context(self, wide.shown(), n if n > 1 else self.max_iter, sequential=n == 1):
            moments = self._moments(data, plan, whole=not has_rare_columns(data.X))
            known = None
            if self.warm_start:
                known = self._known_steps(plan.noise, preconditioned=moments is not None)
            jobs = self._jobs(
                data,
                starts,
                plan,
                epochs=self.max_iter,
                known=known,
                validation=validation,
                moments=moments,
            )
            self._solve(jobs, wide, plan, narrowed)
            self._keep_moments(moments)
        self._warn_after_fit()
        self._warn_of_gaps(jobs)

    def _keep_moments(self, moments: Moments | None) -> None:
        """Keep what partial_fit continues from, as plain values."""
        self._column_moments = None if moments is None else moments._asdict()
        if hasattr(self, "eta0_"):
            self._steps_are_preconditioned = moments is not None

    def _first_intercepts(
        self, data: TrainingData, starts: list[Any], *, whole: bool = False
    ) -> list[Any]:
        """Start with the best constant if these are all rows, otherwise as the loss asks for."""
        loss = self._loss()
        if not self.fit_intercept:
            return starts
        if whole and self.learning_rate == "auto" and SOLVERS[self.solver].has_steps:
            if loss.has_classes:
                return [(coef, start_of_problem(self._problem(data, 0))) for coef, _ in starts]
            parts, found = self._one_vs_rest(), []
            for number, (coef, _) in enumerate(starts):
                target = parts.target(data.y, number)
                weight = parts.weigh(target, data.weight, number)
                loss.check_targets(target)
                found.append((coef, start_of(loss, target, weight)))
            return found
        if loss.classification:
            return starts
        loss.check_targets(data.y)
        first = loss.first_intercept(data.y, data.weight)
        return [(coef, first) for coef, _ in starts]

    def _narrowed(
        self, data: TrainingData, order: Order | None, starts: list[Any]
    ) -> Narrowed | None:
        """Say how to leave out columns without entries; None if all must take part.

        Tables, and orders and measures of the user's own, may look at all columns.
        """
        if not (self.penalty is None or isinstance(self.penalty, (str, ElasticNet))):
            return None
        if self._loss().has_classes:
            return None
        if order is not None and (order.pairs is not None or not is_ours(order)):
            return None
        if not all(is_ours(measure) and measure.name != "distance" for measure in self._measures()):
            return None
        columns = UsedColumns.of(data.X)
        if columns is None or any(coef.any() for coef, _ in starts):
            return None
        return Narrowed(columns)

    def _check_data(self, data: TrainingData, plan: Plan) -> None:
        """Refuse what these data do not allow, before the first problem is started."""
        measures = self._measures()
        names = {one.name for one in measures}
        needs_problem = self._loss().has_classes or bool({"gradient", "gap"} & names)
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

    def _solve(
        self, jobs: list[Job], data: TrainingData, plan: Plan, narrowed: Narrowed | None
    ) -> None:
        """Train, and take over the result; on Ctrl-C, that of the last complete epochs."""
        widened = [narrowed] * len(jobs)
        ended = watch_epochs(
            self,
            jobs,
            data.shown(),
            lambda: self._fitted([job.copy() for job in jobs], plan, widened),
        )
        try:
            with epochs_bar(sum(job.most_epochs for job in jobs), bool(self.verbose)) as advance:

                def watch(job: Job) -> bool:
                    advance()
                    return ended is not None and ended(job)

                watched = bool(self.verbose) or ended is not None
                do_all(jobs, watch if watched else None, getattr(self, "n_jobs", None))
        except KeyboardInterrupt:
            so_far = [job.copy() for job in jobs]
            if any(job.epochs for job in so_far):
                self._adopt(self._fitted(so_far, plan, widened))
            raise
        self._adopt(self._fitted(jobs, plan, widened))

    def _partial_fit(self, data: TrainingData, first: bool) -> None:
        if not SOLVERS[self.solver].has_steps:
            raise ValueError(
                f"solver={self.solver!r} needs all rows at once; use fit, or solver='sgd'"
            )
        d, k = data.X.shape[1], self._n_rows()
        starts = self._starts(np.zeros((k, d)), np.zeros(k)) if first else self._later_states(d)
        if data.weight is not None and not data.weight.any():  # nothing was seen
            if first:
                solutions = [(coef.astype(data.X.dtype), intercept) for coef, intercept in starts]
                self._adopt({**self._weights_of(solutions), "t_": 1, "n_iter_": 0})
            return
        if first:
            starts = self._first_intercepts(data, starts)
        order = self._given_order(data, None, None)
        narrowed = self._narrowed_chunk(data, order, starts)
        if narrowed[0] is not None:
            data = data._replace(X=narrowed[0].columns.narrow(data.X, extra=1))
            starts = [
                start if one is None else one.narrow_start(start)
                for one, start in zip(narrowed, starts, strict=True)
            ]
        plan = self._plan(data, order, epochs=1, whole=False)
        kept_moments = None if first else getattr(self, "_column_moments", None)
        before = None if kept_moments is None else Moments(**kept_moments)
        chunk = self._moments(data, plan)
        moments, outside = chunk, False
        if before is not None and chunk is not None:
            moments, outside = before.without_outliers(chunk)
        known = self._known_steps(plan.noise, preconditioned=moments is not None)
        jobs = self._jobs(
            data,
            starts,
            plan,
            epochs=1,
            known=known,
            quiet=True,
            moments=moments,
            before=before,
        )
        parts = self._one_vs_rest()
        for number, (job, start) in enumerate(zip(jobs, starts, strict=True)):
            weight = parts.weigh(parts.target(data.y, number), data.weight, number)
            if weight is None or weight.any():
                do(job, None)
            elif isinstance(start[0], State):  # this class saw nothing, and stays where it was
                state, own = start
                job.reached = Seen(showing(job.first), state, own, None, no_history(), False)
        fitted = self._fitted(jobs, plan, narrowed)
        del fitted["history_"], fitted["gap_"]
        if known:  # a chunk may need shorter steps, but those after it need not
            seen = [job.seen for job in jobs]
            pairs = zip(seen, known, strict=True)
            steps = [old if one is None else one.given or old for one, old in pairs]
            steps = list(known) if outside else steps
            fitted |= self._steps_of(list(steps), plan.noise)
        self._adopt(fitted)
        self._keep_moments(moments if any(job.seen for job in jobs) else before)

    def _narrowed_chunk(
        self, data: TrainingData, order: Order | None, starts: list[Any]
    ) -> list[Narrowed | None]:
        """Say for each problem how to leave out columns without entries; None for all columns."""
        as_they_are: list[Narrowed | None] = [None] * len(starts)
        plain = self.solver == "sgd" and self.average in ("auto", False)
        penalty = self.penalty is None or self.penalty == "l2"
        plain = plain and not self._loss().has_classes
        if not (plain and penalty and (order is None or is_ours(order))):
            return as_they_are
        columns = UsedColumns.of(data.X)
        coefs = [first.coef if isinstance(first, State) else first for first, _ in starts]
        if columns is None or any(coef is None or len(coef) != columns.width for coef in coefs):
            return as_they_are
        return [from_weights(columns, coef) for coef in coefs]

    def _warn_of_gaps(self, jobs: list[Job]) -> None:
        """Warn if tol ended a fit far from the optimum."""
        wide = [job.gap.share for job in jobs if job.gap.is_wide]
        given = self.learning_rate != "auto" or self.stopping != "objective" or self.early_stopping
        if not wide or self.tol is None or given or self.n_iter_ == self.max_iter:
            return  # the last epoch has a warning of its own
        of = f" in {len(wide)} of {len(jobs)} one-vs-rest problems" if len(jobs) > 1 else ""
        other = ""
        if self._loss().is_smooth and self.penalty == "l2":
            other = f", or use antithetic.{exact_name(self._loss().name)}, which needs neither"
        warn(
            f"tol={self.tol:g} stopped the fit after {self.n_iter_} epochs, but about"
            f" {100.0 * max(wide):.3g} % of the way from a constant prediction to the minimum is"
            f" still to go{of} (see gap_). Columns may be nearly collinear, or the penalty weak."
            f" Increase max_iter and decrease tol{other}.",
            ConvergenceWarning,
        )

    # ---- from jobs to attributes, and back

    def _fitted(
        self, jobs: list[Job], plan: Plan, narrowed: Sequence[Narrowed | None]
    ) -> dict[str, Any]:
        """Attributes of the model, from the current state of the jobs."""
        seen, histories = [job.seen for job in jobs], [job.history() for job in jobs]
        averages, gaps = plan.average != "epoch", [job.gap.left for job in jobs]
        return {
            **self._weights_of([job.solution for job in jobs], narrowed),
            "n_iter_": max(job.epochs for job in jobs),
            "t_": 1 + max(0 if one is None else one.state.samples for one in seen),
            "plan_": plan,
            "history_": histories if len(jobs) > 1 else histories[0],
            "gap_": gaps[0] if len(jobs) == 1 else np.array(gaps),
            "_converged": all(one is not None and one.stopped for one in seen),
            "_states": [
                _kept_wide(one, averages, columns)
                for one, columns in zip(seen, narrowed, strict=True)
            ],
            **self._steps_of([None if one is None else one.schedule for one in seen], plan.noise),
        }

    def _later_states(self, d: int) -> list[Any]:
        """Return what partial_fit continues from: the public weights, which may have changed."""
        coef = np.atleast_2d(self._dense_coef())
        if coef.shape[1] != d:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {coef.shape[1]}"
                " features as input."
            )
        public = self._starts(coef, np.ravel(self.intercept_))
        if not hasattr(self, "_states"):  # the weights were set by hand
            return public
        pairs = zip(self._states, public, strict=True)
        return [weights if held is None else kept(held, *weights) for held, weights in pairs]

    def _known_steps(self, noise: float, *, preconditioned: bool) -> list[Schedule] | None:
        """Steps that "auto" found on an earlier call, if they are to be kept.

        Their decay is that of orders which leave this much noise.
        """
        if getattr(self, "_steps_are_preconditioned", False) != preconditioned:
            return None
        found = getattr(self, "eta0_", None)
        if self.learning_rate != "auto" or found is None or np.size(found) != self._n_problems():
            return None
        if getattr(self, "_steps_of_solver", self.solver) != self.solver:
            return None  # those of another are of no use
        more = 1.0 if preconditioned else noise / getattr(self, "_noise_of_steps", noise)
        l2 = self._penalty(self.coef_.shape[-1]).l2
        known = []
        for eta0, decay in zip(np.ravel(found), np.ravel(self.decay_), strict=True):
            rate = max(more * decay, min(decay, l2)) if self.decay is None else self.decay
            known.append(Schedule(INVERSE_TIME, float(eta0), float(rate)))
        return known


def _kept_wide(
    seen: Seen | None, averages: bool, narrowed: Narrowed | None
) -> dict[str, Any] | None:
    """State of a run, with the weights of all columns."""
    if seen is None:
        return None
    kept_state = keep(seen, averages=averages)
    return kept_state if narrowed is None else narrowed.widen_state(kept_state)
