"""One fit, or one chunk, of an SGD estimator: planned, trained, and turned into attributes.

`plan_fit` and `plan_chunk` decide what a setting leaves open, `train_all` trains the problems, one
job each, and `SgdResult` turns what they reached into attributes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.progress import progress_bar
from antithetic._util.settings import fields_of
from antithetic._util.threads import threads_of
from antithetic._util.warnings import warn
from antithetic.estimators.data import LARGEST_SEED, TrainingData
from antithetic.estimators.one_vs_rest import AllClasses, OneVsRest
from antithetic.estimators.sgd_setting import SgdSetting
from antithetic.estimators.used_columns import (
    Narrowed,
    UsedColumns,
    has_rare_columns,
    is_ours,
    widen_all,
)
from antithetic.orders import Order
from antithetic.orders.order import InOrder
from antithetic.orders.pairs import reduction_of
from antithetic.pairing import AntitheticTable
from antithetic.pairing.table import check_table
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.columns import moments_of
from antithetic.problem.losses import LOSSES, SOFTMAX, Loss
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Moments, find_preconditioner, with_spread
from antithetic.stochastic import State, exact_name
from antithetic.stochastic.gap import NO_GAP, Gap, bound_of, start_of, start_of_problem
from antithetic.stochastic.loop import (
    Run,
    begin,
    present_schedule,
    settled,
    train,
    warn_if_worse,
    with_gap,
)
from antithetic.stochastic.plan import (
    Plan,
    automatic_batch_size,
    is_worth_averaging,
    noise_left,
    plan_order,
)
from antithetic.stochastic.sgd import Averages, Sgd
from antithetic.stochastic.solver import Solution
from antithetic.stochastic.spec import Spec, make_spec
from antithetic.stochastic.step_search import pays
from antithetic.stochastic.steps import Adaptive, Auto, Constant, Schedule
from antithetic.stochastic.stopping import Stalled
from antithetic.stochastic.trace import Measure, Score, check_measures

_STEEPEST = 1e12  # where slopes are cut off, as in scikit-learn: long first steps need not overflow
_NO_PAIRS = "; no pairs, since a table costs as much as tens of epochs of a linear model"


class Problems(NamedTuple):
    """The linear problems of a fit: what parameters mean, how targets are split, and the rows."""

    setting: SgdSetting
    parts: OneVsRest
    data: TrainingData

    def targets(self, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Targets of a problem, and weights of the rows times those of their classes."""
        target = self.parts.target(self.data.y, number)
        return target, self.parts.weigh(target, self.data.weight, number)

    def at(self, number: int) -> Problem:
        """Return the problem of a class, or the only one."""
        setting, parts, X = self.setting, self.parts, self.data.X
        target, weight = self.targets(number)
        penalty, intercept = setting.penalty_on(X.shape[1]), setting.fit_intercept
        if isinstance(parts, AllClasses):
            given = (X, target, SOFTMAX, penalty, weight, intercept, None)
            return SoftmaxProblem(*given, parts.n_classes)
        return Problem(X, target, setting.loss, penalty, weight, intercept, None)


# ---- what a fit starts from


class FitOptions(NamedTuple):
    """What ``fit`` was given besides rows, targets and weights."""

    coef: Any = None
    intercept: Any = None
    table: AntitheticTable | None = None
    strata: Any = None
    validation: TrainingData | None = None


class Earlier(NamedTuple):
    """What a model holds of its earlier fits: public attributes, and what `SgdResult` kept."""

    coef: NDArray[Any]
    intercept: NDArray[Any]
    eta0: Any
    decay: Any
    kept: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Earlier | None:
        """Read the attributes; None before the first fit."""
        if getattr(model, "coef_", None) is None:
            return None
        eta0, decay = getattr(model, "eta0_", None), getattr(model, "decay_", None)
        return cls(model._dense_coef(), model.intercept_, eta0, decay, getattr(model, "_kept", {}))

    def starts(self, parts: OneVsRest, d: int, owner: str) -> list[StartPoint]:
        """Return what partial_fit continues from.

        Public weights, which the user may have changed, replace no average.
        """
        coef = np.atleast_2d(self.coef)
        if coef.shape[1] != d:
            raise ValueError(
                f"X has {d} features, but {owner} is expecting {coef.shape[1]} features as input."
            )
        public = starts_at(parts, coef, np.ravel(self.intercept))
        if "states" not in self.kept:  # the weights were set by hand
            return public
        pairs = zip(public, self.kept["states"], strict=True)
        return [start if held is None else start.continuing(held) for start, held in pairs]

    def steps(
        self, problems: Problems, noise: float, moments: Moments | None
    ) -> list[Schedule] | None:
        """Steps that "auto" found on an earlier call, if they are to be kept.

        Their decay is that of orders which leave this much noise.
        """
        setting, preconditioned = problems.setting, moments is not None
        if self.eta0 is None or (self.kept.get("moments") is not None) != preconditioned:
            return None
        if not setting.is_auto or np.size(self.eta0) != problems.parts.n_problems:
            return None
        if self.kept.get("solver", setting.solver) != setting.solver:
            return None  # those of another are of no use
        assert isinstance(setting.steps, Auto)
        more = 1.0 if preconditioned else noise / self.kept.get("noise", noise)
        l2, given = setting.penalty_on(self.coef.shape[-1]).l2, setting.steps.decay
        known = []
        for eta0, decay in zip(np.ravel(self.eta0), np.ravel(self.decay), strict=True):
            rate = max(more * decay, min(decay, l2)) if given is None else given
            known.append(Schedule(INVERSE_TIME, float(eta0), float(rate)))
        return known


class StartPoint(NamedTuple):
    """Where a problem starts: at public weights, or at the state of an earlier run behind them."""

    coef: NDArray[Any]
    intercept: Any
    earlier: tuple[State, Averages] | None = None

    def continuing(self, held: dict[str, Any]) -> StartPoint:
        """Start at a state that was kept, see `_keep`."""
        state = State(**{name: value for name, value in held.items() if name != "own"})
        own = Averages(**held["own"])
        if own.coef is None:
            state = state._replace(coef=self.coef, intercept=self.intercept)
        return self._replace(earlier=(state, own))

    @property
    def last_coef(self) -> NDArray[Any]:
        """Weights that the next step begins with: not the average, if there is one."""
        return self.coef if self.earlier is None else self.earlier[0].coef

    def at(self, coef: NDArray[Any]) -> StartPoint:
        """Start at other weights."""
        if self.earlier is None:
            return self._replace(coef=coef)
        state, own = self.earlier
        return self._replace(coef=coef, earlier=(state._replace(coef=coef), own))


def starts_at(parts: OneVsRest, coef: NDArray[Any], intercept: NDArray[Any]) -> list[StartPoint]:
    """Weights and intercept of each problem, from the rows of the attributes."""
    if isinstance(parts, AllClasses):
        constants = parts.private(intercept.astype(np.float64))
        return [StartPoint(np.ascontiguousarray(parts.private(coef)).ravel(), constants)]
    return [StartPoint(*pair) for pair in zip(coef, intercept.tolist(), strict=True)]


def _first_weights(
    parts: OneVsRest, given: FitOptions, earlier: Earlier | None, d: int
) -> list[StartPoint]:
    """Check the weights that a fit starts with; with warm_start, those of the fit before."""
    first, constant = given.coef, given.intercept
    if earlier is not None:
        first = earlier.coef if first is None else first
        constant = earlier.intercept if constant is None else constant
    k = parts.n_rows
    coef = np.zeros((k, d)) if first is None else np.asarray(first, dtype=np.float64)
    intercept = np.zeros(k) if constant is None else np.asarray(constant, dtype=np.float64)
    if coef.shape != (k, d) and not (k == 1 and coef.shape == (d,)):
        raise ValueError(
            "Provided coef_init does not match dataset: it has shape"
            f" {coef.shape} and should have {(k, d)}."
        )
    if intercept.shape != (k,) and not (k == 1 and intercept.shape == ()):
        raise ValueError(
            "Provided intercept_init does not match dataset: it has shape"
            f" {intercept.shape} and should have {(k,)}."
        )
    return starts_at(parts, coef.reshape(k, d), intercept.reshape(k))


def _first_intercepts(
    problems: Problems, starts: list[StartPoint], *, whole: bool
) -> list[StartPoint]:
    """Start with the best constant if these are all rows, otherwise as the loss asks for."""
    setting, _, data = problems
    loss = setting.loss
    if not setting.fit_intercept:
        return starts
    if whole and setting.is_auto and setting.has_steps:
        if loss.has_classes:
            return [StartPoint(starts[0].coef, start_of_problem(problems.at(0)))]
        found = []
        for number, start in enumerate(starts):
            target, weight = problems.targets(number)
            loss.check_targets(target)
            found.append(StartPoint(start.coef, start_of(loss, target, weight)))
        return found
    if loss.classification:
        return starts
    loss.check_targets(data.y)
    first = loss.first_intercept(data.y, data.weight)
    return [StartPoint(start.coef, first) for start in starts]


# ---- what is decided before the first step


class PlannedFit(NamedTuple):
    """The problems of a fit or of a chunk, and everything that was decided about them.

    Attributes
    ----------
    problems : Problems
        Without the columns that have no entries, if ``narrowed`` says so.
    shown : TrainingData
        The data with all columns, which callbacks receive.
    plan : Plan
    starts : list of StartPoint
    moments : Moments or None
        Of the columns, which all problems share; None for steps in the original columns.
    known : list of Schedule or None
        Steps that are known from earlier calls.
    before : Moments or None
        What known steps were made for.
    narrowed : list of Narrowed or None
        How weights of all columns are made; None if all columns take part.
    validation : TrainingData or None
    is_chunk : bool
        Whether this is one pass, which is not recorded, rather than a fit.
    has_outliers : bool
        Whether rows of the chunk are far outside those before it.
    """

    problems: Problems
    shown: TrainingData
    plan: Plan
    starts: list[StartPoint]
    moments: Moments | None
    known: list[Schedule] | None
    before: Moments | None = None
    narrowed: list[Narrowed] | None = None
    validation: TrainingData | None = None
    is_chunk: bool = False
    has_outliers: bool = False

    def jobs(self) -> list[Job]:
        """Return one job per problem."""
        setting, began = self.problems.setting, time.perf_counter()
        epochs = 1 if self.is_chunk else setting.max_iter
        seeds = _seeds_of(setting.random_state, len(self.starts))
        return [Job(self, number, seed, epochs, began) for number, seed in enumerate(seeds)]

    def measures(self, number: int) -> tuple[Measure, ...]:
        """Return what is recorded of a problem."""
        setting, parts, _ = self.problems
        if self.is_chunk:
            return ()
        if self.validation is None:
            return setting.measures
        target = parts.target(self.validation.y, number)
        score = partial(_score, setting.loss, parts, self.validation, target)
        return (*setting.measures, Score(score))


def plan_fit(problems: Problems, given: FitOptions, earlier: Earlier | None) -> PlannedFit:
    """Decide what a fit of all rows leaves open; ``earlier`` is what a warm start begins with."""
    setting, parts, data = problems
    table, validation = given.table, given.validation
    order = _order_given(problems, table, given.strata)
    starts = _first_weights(parts, given, earlier, data.X.shape[1])
    if setting.early_stopping and validation is None:
        rows, validation = _split(problems)
        data = data.take(rows)
        order = None if order is None else _cut_to(order, rows)
        table = None if table is None else table[rows]
    if data.weight is not None and not data.weight.any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive")
    shown, problems = data, problems._replace(data=data)
    if given.coef is None and given.intercept is None and earlier is None:
        starts = _first_intercepts(problems, starts, whole=True)
    problems, starts, narrowed = _narrow(problems, order, starts, whole=True)
    if narrowed is not None and validation is not None:
        validation = validation._replace(X=validation.X[:, narrowed[0].columns.used])
    plan = _make_plan(problems, order, table, epochs=setting.max_iter, whole=True)
    _check_data(problems, plan.order)
    moments = _moments(problems, plan, whole=True)
    known = None if earlier is None else earlier.steps(problems, plan.noise, moments)
    return PlannedFit(problems, shown, plan, starts, moments, known, None, narrowed, validation)


def plan_chunk(problems: Problems, earlier: Earlier | None, owner: str) -> PlannedFit:
    """Decide what one pass over some rows leaves open; ``earlier`` is None on the first call."""
    _, parts, data = problems
    d = data.X.shape[1]
    if earlier is None:
        starts = starts_at(parts, np.zeros((parts.n_rows, d)), np.zeros(parts.n_rows))
        starts = _first_intercepts(problems, starts, whole=False)
    else:
        starts = earlier.starts(parts, d, owner)
    order = _order_given(problems, None, None)
    problems, starts, narrowed = _narrow(problems, order, starts, whole=False)
    plan = _make_plan(problems, order, None, epochs=1, whole=False)
    moments, before, outliers = _moments(problems, plan, whole=False), None, False
    if earlier is not None and earlier.kept.get("moments") is not None:
        before = Moments(**earlier.kept["moments"])
        if moments is not None:
            moments, outliers = before.without_outliers(moments)
    known = None if earlier is None else earlier.steps(problems, plan.noise, moments)
    about = (problems, data, plan, starts, moments, known, before, narrowed)
    return PlannedFit(*about, is_chunk=True, has_outliers=outliers)


def _narrow(
    problems: Problems, order: Order | None, starts: list[StartPoint], *, whole: bool
) -> tuple[Problems, list[StartPoint], list[Narrowed] | None]:
    """Leave out columns without entries, and say how to make weights of all columns again.

    A fit can do so if it begins with zeros, a chunk if it takes plain steps with an L2 penalty.
    Tables, and orders and measures of the user's own, may look at all columns.
    """
    (setting, _, data), every = problems, (problems, starts, None)
    penalty, loss = setting.penalty, setting.loss
    if not (sparse.issparse(data.X) and isinstance(penalty, ElasticNet)) or loss.has_classes:
        return every
    if whole:
        ours = all(is_ours(one) and one.name != "distance" for one in setting.measures)
        can = ours and (order is None or order.pairs is None)
    else:
        plain = setting.solver == "sgd" and setting.average in ("auto", False)
        can = plain and penalty.l1 == 0.0
    columns = UsedColumns.of(data.X) if can and (order is None or is_ours(order)) else None
    if columns is None or (whole and any(start.coef.any() for start in starts)):
        return every
    if whole:
        narrowed = [Narrowed(columns)] * len(starts)
    else:
        narrowed = [Narrowed.around(columns, start.last_coef) for start in starts]
    starts = [start.at(one.start()) for start, one in zip(starts, narrowed, strict=True)]
    data = data._replace(X=columns.narrow(data.X, extra=0 if whole else 1))
    return problems._replace(data=data), starts, narrowed


def _order_given(problems: Problems, table: AntitheticTable | None, strata: Any) -> Order | None:
    """Return the order of the parameters with what fit was given; None if it is automatic."""
    setting, _, data = problems
    order = setting.order
    if table is not None:
        check_table(table).check(data.X, data.y)
    if not setting.shuffle and not (table is None and strata is None):
        raise ValueError(
            "shuffle=False uses the rows in the given order, so it cannot be combined with"
            " table= or strata=; use shuffle=True"
        )
    if order is None:
        if strata is not None:
            raise ValueError("strata= needs order='stratified'; got order='auto'")
        return None
    if order.pairs is not None and order.pairs.given is not None:
        order.pairs.check(problems.at(0), data.y)
    n = data.X.shape[0]
    if strata is not None:
        order = _with_strata(order, strata, n)
    order.check_length(n)
    return order if table is None else _with_table(order, table)


def _with_strata(order: Order, strata: Any, n: int) -> Order:
    from antithetic.orders import Stratified

    if not isinstance(order, Stratified):
        raise ValueError(f"strata= needs order='stratified'; got order={order!r}")
    if order.strata is not None:
        raise ValueError(f"strata= is given twice: to fit, and in order={order!r}")
    labels = np.asarray(strata)
    if labels.shape != (n,):
        raise ValueError(
            f"strata must have shape ({n},), one label per row of X; got {labels.shape}"
        )
    return order.but(strata=labels)


def _with_table(order: Order, table: AntitheticTable) -> Order:
    pairs = order.pairs
    if pairs is not None:
        if pairs.method != "auto" or pairs.nest is not None:  # refresh= may be set
            raise ValueError(f"table= is given twice: to fit, and in order={order!r}")
        return order.but(pairs=pairs.but(method=table))
    if "pairs" not in {field.name for field in fields_of(order)}:
        raise ValueError(
            f"order={order!r} takes no pairs, so it cannot use a table; leave table= out, or use"
            " order='shuffle'"
        )
    return order.but(pairs=table)


def _cut_to(order: Order, rows: NDArray[np.intp]) -> Order:
    """Cut what an order holds for each row to some of the rows."""
    pairs = order.pairs
    if pairs is not None and pairs.given is not None:
        if not isinstance(pairs.given, AntitheticTable):
            raise ValueError(
                "early_stopping holds back some rows, and a GroupTable cannot be cut to the rest;"
                " pass X_val and y_val to fit instead"
            )
        order = order.but(pairs=pairs.but(method=pairs.given[rows]))
    return order.take(rows)


def _split(problems: Problems) -> tuple[NDArray[np.intp], TrainingData]:
    """Return the rows to train on, and those held back to validate on."""
    setting, parts, data = problems
    kind = ShuffleSplit if parts.classes is None else StratifiedShuffleSplit
    split = kind(test_size=setting.validation_fraction, random_state=setting.random_state)
    rows = next(split.split(np.zeros((len(data.y), 1)), data.y))
    train, held = (np.sort(part) for part in rows)
    validation = data.take(held)
    if validation.weight is not None and not validation.weight.any():
        raise ValueError(
            "The sample weights for validation set are all zero, consider using a different"
            " random state."
        )
    return train, validation


def _make_plan(
    problems: Problems,
    order: Order | None,
    table: AntitheticTable | None,
    *,
    epochs: int,
    whole: bool,
) -> Plan:
    """Decide what the parameters leave open, and say why.

    ``table`` is one that fit was given for an order which is chosen here; ``whole`` says whether
    these are all rows that there will be.
    """
    setting, parts, data = problems
    (n, d), loss, batch_size = data.X.shape, setting.loss, setting.batch_size
    if batch_size is None:
        n_weights = parts.n_classes * d if isinstance(parts, AllClasses) else d
        batch_size = automatic_batch_size(loss, n_weights, data.X.dtype.itemsize)
    batch_size = min(batch_size, n)
    if setting.shuffle:
        found, why = plan_order(
            order,
            n,
            d,
            batch_size=batch_size,
            epochs=epochs,
            solver=setting.solver,
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
    average = setting.average
    if average == "auto":
        automatic = whole and setting.is_auto and setting.solver == "sgd"
        worth = automatic and is_worth_averaging(n, d, loss, setting.penalty_on(d))
        average = "epoch" if worth else False
    noise = noise_left(found, average, n, d, single_epoch=whole and epochs == 1)
    return Plan(found, batch_size, average, why, noise)


def _check_data(problems: Problems, order: Order) -> None:
    """Refuse what these data do not allow, before the first problem is started."""
    setting, parts, _ = problems
    measures = setting.measures
    if measures:
        names = {one.name for one in measures}
        needs_problem = setting.loss.has_classes or bool({"gradient", "gap"} & names)
        problem = problems.at(0) if needs_problem else None
        check_measures(measures, setting.solver, order, problem)
    for number in range(parts.n_problems if parts.weights is not None else 0):
        _, weight = problems.targets(number)
        if weight is not None and not weight.any():
            raise ValueError(
                "sample_weight times class_weight is zero for every row; at least one must be"
                " positive"
            )


def _moments(problems: Problems, plan: Plan, *, whole: bool) -> Moments | None:
    """Moments of the columns; None for steps in the original columns.

    Sparse rows are centred if these are all rows, and a trial on some of them shows that it pays.
    """
    setting, parts, data = problems
    penalty = setting.penalty
    if not setting.centres_columns or not isinstance(penalty, ElasticNet):
        return None
    is_sparse = sparse.issparse(data.X)
    if is_sparse and not (whole and penalty.l1 == 0.0 and plan.average in (False, "epoch")):
        return None
    if is_sparse and has_rare_columns(data.X):
        return None
    if data.columns is not None and parts.weights is None:
        return data.columns
    weight = data.weight
    if parts.n_problems == 1:  # class weights are those of one problem, and so say the same
        _, weight = problems.targets(0)
    found = with_spread(moments_of(data.X, weight))
    if is_sparse:
        problem = problems.at(0)
        centred = find_preconditioner(problem, found, products=False)
        if not pays(problem, centred, plan.batch_size, 0, start_of_problem(problem)):
            return None
    return found


# ---- one problem


def _order_of_problem(order: Order, parts: OneVsRest, problem: Problem, number: int) -> Order:
    """Order of one problem: without pairs if these would do harm or nothing."""
    if order.pairs is None:
        return order
    if parts.classes is not None and (problem.y == problem.y[0]).all():
        return order.but(pairs=None)  # some rows of one class: nothing opposes anything
    given = order.pairs.given
    if given is not None and parts.n_problems > 1:
        gain = 1.0 - reduction_of(given, problem, problem.slopes())
        if gain >= 1.0:
            warn(
                f"the table is not used for class {parts.label(number)!r} against the rest, where"
                f" it would raise the variance ({gain:.2f} times that of independent rows);"
                " pairs='greedy', 'tree' or 'optimal' makes a table for each class",
                UserWarning,
            )
            return order.but(pairs=None)
    return order


def _score(
    loss: Loss,
    parts: OneVsRest,
    data: TrainingData,
    target: NDArray[np.float64],
    coef: NDArray[Any],
    intercept: Any,
) -> float:
    """Accuracy, or for regression R2 or the D2 of losses that scikit-learn's class lacks."""
    if isinstance(parts, AllClasses):
        scores = data.X @ coef.reshape(len(intercept), -1).T + intercept
        return float(np.average(scores.argmax(axis=1) == target, weights=data.weight))
    linear = data.X @ coef + intercept
    if parts.classes is not None:
        return float(np.average((linear > 0.0) == (target > 0.0), weights=data.weight))
    if loss.name in LOSSES:
        return float(r2_score(target, linear, sample_weight=data.weight))
    return loss.deviance_share(target, linear.astype(np.float64), data.weight)


def _begin(spec: Spec, start: StartPoint, known: Schedule | None, before: Moments | None) -> Run:
    """Begin a run; ``before`` are the moments that known steps were made for."""
    if known is not None and before is not None and isinstance(spec.solver, Sgd):
        known, start = _follow(spec.problem, spec.solver, known, start, before)
    corrected = spec.solver_name in ("svrg", "saga")
    run = begin(
        spec,
        None if start.earlier is not None else (start.coef, start.intercept),
        earlier=start.earlier,
        schedule=None if corrected else known,
    )
    if known is None or not corrected:
        return run
    # a later chunk may have longer rows
    return run._replace(schedule=known._replace(eta0=min(known.eta0, run.schedule.eta0)))


def _follow(
    problem: Problem, solver: Sgd, known: Schedule, start: StartPoint, before: Moments
) -> tuple[Schedule, StartPoint]:
    """Steps and state of earlier rows, in the units that these rows have led to.

    The first step follows the curvature; the L1 penalty carried forward follows the metric.
    """
    now, then = solver.preconditioner, find_preconditioner(problem, before)
    if now is None or not np.isfinite(now.curvature):
        return known, start
    known = known._replace(eta0=known.eta0 * then.curvature / now.curvature)
    state, own = start.earlier or (None, Averages())
    if state is not None and own.received is not None:
        ratio = np.ones(len(own.received))
        np.divide(now.metric, then.metric, out=ratio[:-1], where=then.metric > 0.0)
        start = start._replace(earlier=(state, own._replace(received=own.received * ratio)))
    return known, start


def _seeds_of(random_state: Any, many: int) -> list[int]:
    """Return a seed for each problem."""
    if type(random_state) is int:
        return list(_seeds_of_number(random_state, many))
    seeds: list[int] = check_random_state(random_state).randint(LARGEST_SEED, size=many).tolist()
    return seeds


# setting up a generator takes as long as two epochs of few rows
_seeds_of_number = lru_cache(maxsize=64)(lambda number, many: _seeds_of(RandomState(number), many))


# ---- training, in threads


@dataclass(frozen=True, slots=True, eq=False)
class TrainedProblem:
    """What is left of a problem without its data: nothing but its start before the first epoch.

    ``schedule`` holds the steps of the next epoch, and ``given`` those that were found or known,
    before any of them had to be shortened; None if no step was taken. ``history`` has one array per
    measure, one entry per epoch.
    """

    solution: Solution
    state: State | None
    own: Any
    history: dict[str, NDArray[Any]]
    schedule: Schedule | None = None
    given: Schedule | None = None
    stopped: bool = False
    gap: Gap = NO_GAP

    @property
    def epochs(self) -> int:
        """Epochs that were done."""
        return len(self.history["epoch"])

    @classmethod
    def before(cls, start: StartPoint, kind: np.dtype[Any]) -> TrainedProblem:
        """Return a problem that is still where it started."""
        state, own = start.earlier or (None, None)
        history = {"epoch": np.arange(0), "seconds": np.empty(0)}
        return cls((start.coef.astype(kind), start.intercept), state, own, history)

    @classmethod
    def of(cls, spec: Spec, run: Run, began: float, gap: Gap = NO_GAP) -> TrainedProblem:
        """Keep what a run reached; seconds count from ``began``, by ``time.perf_counter``.

        The history has the running objectives, unless those of all rows are traced.
        """
        run = settled(spec, run, len(run.running))
        history = {
            "epoch": np.arange(1, len(run.running) + 1),
            "objective": np.array(run.running),
            **{one.name: np.array([e[one.name] for e in run.entries]) for one in spec.trace},
            "seconds": np.array(run.moments) - began,
        }
        solution, schedule = spec.solver.solution(run.state, run.own), present_schedule(spec, run)
        # a decay that was raised to end a fit without noise is not that of other rows
        schedule = schedule._replace(rate=min(schedule.rate, run.schedule.rate))
        return cls(solution, run.state, run.own, history, schedule, run.schedule, run.stopped, gap)


@dataclass(slots=True, eq=False)
class Job:
    """One linear problem: a class against the rest, or the only problem.

    Another thread may look at any time; ``reached`` is replaced as a whole.

    Attributes
    ----------
    planned : PlannedFit
    number, seed, most_epochs : int
    began : float
        When the fit began, by ``time.perf_counter``.
    reached : tuple of Spec and Run, TrainedProblem or None
        The run after the last complete epoch, and what is left of it when the job is done; None
        before the first epoch.
    """

    planned: PlannedFit
    number: int
    seed: int
    most_epochs: int
    began: float
    reached: tuple[Spec, Run] | TrainedProblem | None = None

    def begin(self) -> tuple[Spec, Run]:
        """Return the problem's run; its labels, weights and tables are dropped when it is done."""
        planned, number = self.planned, self.number
        plan, setting, problem = planned.plan, planned.problems.setting, planned.problems.at(number)
        steps, preconditioner = setting.steps, None
        if isinstance(steps, Auto) and planned.moments is not None:
            steps = Auto(steps.decay, precondition=True)
            preconditioner = find_preconditioner(problem, planned.moments)
        if isinstance(steps, Adaptive) and planned.is_chunk:
            steps = Constant(steps.eta0)  # nothing is watched that could lower them
        has_threads = setting.n_jobs is not None and setting.loss.has_classes
        spec = make_spec(
            problem,
            problem.y,
            order=_order_of_problem(plan.order, planned.problems.parts, problem, number),
            solver=setting.solver,
            steps=steps,
            batch_size=plan.batch_size,
            average=plan.average,
            stop=None if planned.is_chunk else setting.stop,
            trace=planned.measures(number),
            watch=not planned.is_chunk and setting.solver != "sdca",
            seed=self.seed,
            steepest=np.inf if setting.is_auto else _STEEPEST,
            noise=plan.noise,
            threads=threads_of(setting.n_jobs) if has_threads else None,
            preconditioner=preconditioner,
            estimates_gap=not planned.is_chunk and setting.estimates_gap,
            is_checked=True,
        )
        known = planned.known[number] if planned.known else None
        return spec, _begin(spec, planned.starts[number], known, planned.before)

    @property
    def is_over(self) -> bool:
        """Whether no epoch will follow by itself; asked after an epoch."""
        assert isinstance(self.reached, tuple)
        run = self.reached[1]
        return len(run.running) == self.most_epochs or run.stopped

    def trained(self) -> TrainedProblem:
        """Return what it has reached, while it and others go on."""
        reached = self.reached
        if reached is None:
            start, X = self.planned.starts[self.number], self.planned.problems.data.X
            return TrainedProblem.before(start, X.dtype)
        if isinstance(reached, TrainedProblem):
            return reached
        return TrainedProblem.of(*reached, self.began)


Watch = Callable[[Job], bool] | None  # None: not watched


def train_job(job: Job, watch: Watch = None) -> None:
    """Train one problem; ``watch`` is called after each epoch and may end it by returning True."""
    spec, run = job.begin()
    first, end = spec.solver.solution(run.state, run.own), run.state.epochs + job.most_epochs
    for run in train(spec, run, end):  # noqa: B020 - the run goes on
        job.reached = spec, run
        if watch is not None and watch(job):
            break
    if run.running:
        run = with_gap(spec, run) if spec.estimates_gap else settled(spec, run, len(run.running))
        job.reached = TrainedProblem.of(spec, run, job.began, run.gap or _known_gap(spec, run))
    warn_if_worse(spec, first, run)


def _known_gap(spec: Spec, run: Run) -> Gap:
    """Return the bound of a solver that has dual variables; NaN for others, and if it is infinite.

    It costs at most three passes over the rows.
    """
    known = spec.solver.gap(run.state, run.own)
    if known is None or known == np.inf:
        return NO_GAP
    reached = spec.problem.objective(*spec.solver.solution(run.state, run.own))
    return bound_of(spec.problem, reached, known)


def train_all(jobs: list[Job], watch: Watch, n_jobs: int | None, *, verbose: bool) -> None:
    """Train all problems, with a bar that counts their epochs if ``verbose``."""
    if not verbose:
        return _train_in_threads(jobs, watch, n_jobs)
    total, done, lock = sum(job.most_epochs for job in jobs), 0, threading.Lock()
    with progress_bar("epochs", total, True) as update:

        def advance(job: Job) -> bool:
            nonlocal done
            with lock:
                done += 1
                update(done)
            return watch is not None and watch(job)

        _train_in_threads(jobs, advance, n_jobs)
        update(total)  # a run that ended early is done as well
    return None


def _train_in_threads(jobs: list[Job], watch: Watch, n_jobs: int | None) -> None:
    """Train several problems at a time: the kernels run outside the interpreter's lock.

    After Ctrl-C or an error, the others end at their next epoch, and are waited for: a thread that
    is in a kernel when Python exits ends the process with a crash.
    """
    if len(jobs) == 1:
        return train_job(jobs[0], watch)
    from sklearn.utils.parallel import Parallel, delayed

    stopped = threading.Event()
    running = [threading.Lock() for _ in jobs]

    def look(job: Job) -> bool:
        if stopped.is_set():
            raise _Stopped
        return watch is not None and watch(job)

    def train_one(job: Job, lock: threading.Lock) -> None:
        with lock, suppress(_Stopped):
            if not stopped.is_set():
                train_job(job, look)

    pairs = zip(jobs, running, strict=True)
    try:
        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(train_one)(*pair) for pair in pairs)
    except BaseException:
        stopped.set()
        for lock in running:
            with lock:
                pass
        raise
    return None


class _Stopped(Exception):  # noqa: N818 - no error
    """Ends a problem because another one failed or was interrupted."""


def unseen(problems: Problems) -> dict[str, Any]:
    """Attributes of a model whose first rows all have weight zero."""
    _, parts, data = problems
    coef = np.zeros((parts.n_rows, data.X.shape[1]), data.X.dtype)
    starts = starts_at(parts, coef, np.zeros(parts.n_rows))
    solutions = [(start.coef, start.intercept) for start in starts]
    return {**weights_of(parts, solutions), "t_": 1, "n_iter_": 0}


def train_chunk(planned: PlannedFit) -> SgdResult:
    """Make one pass; a class whose rows all have weight zero saw nothing, and stays as it was."""
    jobs = planned.jobs()
    for job in jobs:
        _, weight = planned.problems.targets(job.number)
        if weight is None or weight.any():
            train_job(job)
    return SgdResult(planned, [job.trained() for job in jobs])


# ---- from results to attributes


class SgdResult(NamedTuple):
    """What the problems of a fit have reached."""

    planned: PlannedFit
    trained: list[TrainedProblem]

    def attributes(self) -> dict[str, Any]:
        """Attributes of the model, public ones and what later calls continue from."""
        planned, trained = self.planned, self.trained
        found = {
            **weights_of(
                planned.problems.parts, [one.solution for one in trained], planned.narrowed
            ),
            "n_iter_": max(one.epochs for one in trained),
            "t_": 1 + max(0 if one.state is None else one.state.samples for one in trained),
            "plan_": planned.plan,
            **self._steps(),
            "_kept": self._kept(),
        }
        if not planned.is_chunk:
            histories, gaps = [one.history for one in trained], [one.gap.share for one in trained]
            found["history_"] = histories if len(trained) > 1 else histories[0]
            found["gap_"] = np.array(gaps) if len(trained) > 1 else gaps[0]
        return found

    def _steps(self) -> dict[str, Any]:
        """The steps that "auto" found."""
        planned = self.planned
        schedules = [one.schedule for one in self.trained]
        if planned.is_chunk and planned.known:
            # a chunk may need shorter steps, but those after it need not
            pairs = zip(self.trained, planned.known, strict=True)
            schedules = [old if planned.has_outliers else one.given or old for one, old in pairs]
        found = [one for one in schedules if one is not None]
        if not (planned.problems.setting.is_auto and planned.problems.setting.has_steps) or len(
            found
        ) < len(schedules):
            return {}
        return {
            "eta0_": _one_or_all([one.eta0 for one in found]),
            "decay_": _one_or_all([one.rate for one in found]),
        }

    def _kept(self) -> dict[str, Any]:
        """Plain values that partial_fit and warm_start continue from; any serialiser writes them.

        Those are the state of each problem, the moments of the columns, and the solver and the
        noise that ``eta0_`` and ``decay_`` are for.
        """
        planned, averages = self.planned, self.planned.plan.average != "epoch"
        columns: list[Any] = list(planned.narrowed or (None for _ in self.trained))
        pairs = zip(self.trained, columns, strict=True)
        has_seen = any(one.state is not None for one in self.trained)
        moments = planned.moments if has_seen else planned.before
        return {
            "states": [_keep(one, narrowed, averages=averages) for one, narrowed in pairs],
            "moments": None if moments is None else moments._asdict(),
            "solver": str(planned.problems.setting.solver),
            "noise": planned.plan.noise,
        }

    def warn(self) -> None:
        """Warn if a fit ended too early: far from the optimum, or without a gap at max_iter."""
        setting, trained = self.planned.problems.setting, self.trained
        n_iter, by_loss = max(one.epochs for one in trained), isinstance(setting.stop, Stalled)
        if setting.stop is None:
            return
        gaps = [one.gap for one in trained]
        decides = setting.is_auto and setting.has_steps and by_loss and not setting.early_stopping
        if not (decides and all(gap.share >= 0.0 for gap in gaps)):
            # by the objective, the last epoch counts as one too few, as in scikit-learn
            if n_iter == setting.max_iter and (by_loss or not all(one.stopped for one in trained)):
                warn(
                    "Maximum number of iteration reached before convergence. Consider increasing"
                    " max_iter to improve the fit.",
                    ConvergenceWarning,
                )
            return
        wide = [gap.share for gap in gaps if gap.is_wide]
        if not wide:
            return
        ended, advice = f"further epochs gain little after {n_iter}", "Decrease tol"
        if any(one.gap.is_wide and one.epochs == setting.max_iter for one in trained):
            ended = f"max_iter={setting.max_iter} ended the fit"
            # scikit-learn's words, which its users look for
            advice = (
                "Maximum number of iteration reached before convergence. Consider increasing"
                " max_iter to improve the fit"
            )
        of = f" in {len(wide)} of {len(trained)} one-vs-rest problems" if len(trained) > 1 else ""
        other, loss, penalty = "", setting.loss, setting.penalty
        is_l2 = isinstance(penalty, ElasticNet) and penalty.l2 > 0.0 == penalty.l1
        if loss.is_smooth and is_l2:
            other = f", or use antithetic.{exact_name(loss.name)}, which reaches any accuracy"
        warn(
            f"{ended}, but the objective is still about {100.0 * max(wide):.3g} % above its"
            f" minimum, relative to a constant model (see gap_){of}. Columns may be nearly"
            f" collinear, or the penalty weak. {advice}{other}.",
            ConvergenceWarning,
        )


def weights_of(
    parts: OneVsRest, solutions: list[Solution], narrowed: list[Narrowed] | None = None
) -> dict[str, NDArray[Any]]:
    """Weights and intercepts of all problems as attributes, of all columns."""
    if isinstance(parts, AllClasses):
        ((flat, constants),) = solutions
        coef = parts.public(flat.reshape(parts.n_classes, -1)).copy()  # the user's to change
        return {"coef_": coef, "intercept_": parts.public(constants).astype(coef.dtype)}
    coefs = [coef for coef, _ in solutions]
    coef = np.array(coefs) if narrowed is None else widen_all(narrowed, coefs)
    if parts.classes is None:
        coef = coef.reshape(-1)
    return {"coef_": coef, "intercept_": _as_type([one for _, one in solutions], coef.dtype)}


def _as_type(intercepts: list[float], kind: np.dtype[Any]) -> NDArray[Any]:
    """Cast intercepts to the type of the rows; raise ValueError if it is too narrow for them."""
    found = np.array(intercepts)
    if found.dtype == kind:
        return found
    with np.errstate(over="ignore"):
        found = found.astype(kind)
    lost = np.isfinite(intercepts) & ~np.isfinite(found)
    if lost.any():
        raise ValueError(
            f"the intercept, {np.array(intercepts)[lost][0]:.3g}, is too large for {kind}, the type"
            " of X; rescale y, or pass X as float64"
        )
    return found


def _one_or_all(values: list[float]) -> Any:
    return values[0] if len(values) == 1 else np.array(values)


def _keep(
    one: TrainedProblem, narrowed: Narrowed | None, *, averages: bool
) -> dict[str, Any] | None:
    """State of a run as plain values, with the weights of all columns.

    It leaves out weights that ``coef_`` already holds, and how the last fit ended. Without
    ``averages``, training continues from ``coef_``: a mean that starts again with each epoch has
    nothing to carry over.
    """
    if one.state is None:
        return None
    own = (one.own if isinstance(one.own, Averages) else Averages())._asdict() | {"settled": 0}
    if not averages:
        own |= {"coef": None, "intercept": 0.0, "weight": 0.0}
    state = one.state._asdict()
    if own["coef"] is None:
        state["coef"] = None
    kept = state | {"own": own}
    return kept if narrowed is None else narrowed.widen_state(kept)
