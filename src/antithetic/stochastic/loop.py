"""The training loop: epochs, what is checked and recorded after each, and when it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.warnings import warn
from antithetic.orders.order import Draws
from antithetic.orders.pairs import reduction_of
from antithetic.orders.units import Table, cut
from antithetic.pairing import AntitheticTable
from antithetic.problem import SoftmaxProblem
from antithetic.problem.smoothness import row_squares
from antithetic.stochastic import SOLVERS
from antithetic.stochastic.corrected import check_shrinking, safe_step
from antithetic.stochastic.gap import Gap, Marks, estimate_gap, is_surely_wide, should_go_on
from antithetic.stochastic.sgd import MEAN, Averages, Sgd
from antithetic.stochastic.solver import (
    After,
    Solution,
    State,
    advice,
    are_finite,
    check_finite,
    finite_objective,
)
from antithetic.stochastic.spec import FEW_ROWS, Spec
from antithetic.stochastic.step_search import find_preconditioned_steps, find_steps
from antithetic.stochastic.steps import LOWERING, Auto, Schedule, can_be_lowered
from antithetic.stochastic.stopping import Stalled
from antithetic.stochastic.trace import measure

if TYPE_CHECKING:
    from antithetic.orders.units import Batches

MOST_LOWERINGS, _MOST_EASINGS = 30, 60
# cosine between the ways of two epochs, and how often in a row
_SAME_WAY, _EPOCHS_THE_SAME_WAY = 0.7, 3
_LEAST_WAIT, _WAIT = 2, 0.1  # epochs without a better mean until the decay is doubled; of all
FIRST_COMPARED = 4  # epochs before which noise is what is left, and the mean is better


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """What a run currently draws from.

    Attributes
    ----------
    table : AntitheticTable, GroupTable or None
    draws : Draws or None
        The order, applied to it; None if the data are not kept.
    worth : float
        By how much the table lowered the variance when it was made.
    """

    table: Table | None
    draws: Draws | None
    worth: float = 1.0

    def on(self, spec: Spec) -> Drawing:
        """Draw from the same table with the data of a spec."""
        return replace(self, draws=spec.draws(self.table))

    def without_data(self) -> Drawing:
        """What a resumed run needs of it."""
        return replace(self, draws=None)


def first_drawing(spec: Spec, table: Table | None = None) -> Drawing:
    """Start with a known table, with the one given, or with a new one."""
    pairs = spec.order.pairs
    if table is None and pairs is not None:
        table = pairs.first_table(spec.problem, spec.y, once=spec.order.once, seed=spec.seed)
    return Drawing(table, spec.draws(table))


def renewed(spec: Spec, run: Run) -> Run:
    """Rebuild the table if it is due; the order that the last epoch left is then discarded."""
    pairs, table = spec.order.pairs, run.drawing.table
    if pairs is None or table is None:
        return run

    def reduction() -> float:
        return reduction_of(table, spec.problem, _opposed(spec, run.state, run.own))

    if not pairs.is_due(run.state.epochs, reduction, run.drawing.worth):
        return run
    slopes = _opposed(spec, run.state, run.own)
    # gradients that are not corrected have changed little
    polish = run.state.epochs > 1 and spec.solver_name == "sgd"
    made = pairs.table_at(
        spec.problem,
        spec.y,
        slopes,
        once=spec.order.once,
        seed=spec.seed,
        polish=table if polish and isinstance(table, AntitheticTable) else None,
    )
    worth = reduction_of(made, spec.problem, slopes) if pairs.refresh == "auto" else 1.0
    return run._replace(drawing=Drawing(made, spec.draws(made), worth), order=None)


def _opposed(spec: Spec, state: State, own: Any) -> NDArray[np.float64]:
    """Slopes of the gradients that partners should oppose.

    Those that are stepped along, unless all of them are zero.
    """
    followed = spec.solver.followed(state, own)
    if followed.any():
        return followed
    return spec.problem.slopes(state.coef, state.intercept)


def automatic_step(spec: Spec, drawing: Drawing) -> float:
    """Constant step size of SVRG and SAGA.

    Members of a pair or group may lie on one line: their gradients cancel, but their curvatures add
    up. So a unit counts as one row.
    """
    table = drawing.table
    together = 1 if table is None else 2 if isinstance(table, AntitheticTable) else table.size
    assert drawing.draws is not None
    squares = drawing.draws.drawn_squares(row_squares(spec.problem))
    n_units = max(1, spec.batch_size // together)
    return safe_step(spec.problem, n_units, squares, spec.solver_name)


def step_by_step(
    spec: Spec, run: Run, batches: Batches, schedule: Schedule
) -> tuple[After, Drawing]:
    """Algorithm 2 to the letter: each step has a table made from the current gradients.

    The first row of each pair in the given batches is kept, and its partner is looked up again.
    """
    pairs, after, table = spec.order.pairs, After(run.state, run.own), run.drawing.table
    assert pairs is not None
    for rows in np.split(batches.rows, batches.starts[1:-1]):
        slopes = _opposed(spec, after.state, after.own)
        table = pairs.table_at(spec.problem, spec.y, slopes, once=False, seed=spec.seed)
        assert isinstance(table, AntitheticTable)
        drawn = rows.copy()
        drawn[1::2] = table.partner[drawn[: len(rows) // 2 * 2 : 2]]
        after = spec.solver.epoch(after.state, after.own, cut(drawn, batches.size), schedule)
    state = after.state._replace(epochs=run.state.epochs + 1)
    return after._replace(state=state), Drawing(table, spec.draws(table))


class Easing(NamedTuple):
    """Where the last epoch went, how many went the same way, and how often decay was halved.

    If means are compared, ``aligned`` is the number of epochs without a better one.
    """

    moved: NDArray[np.float64] | None = None
    aligned: int = 0
    eased: int = 0


def ease(before: State, after: State, easing: Easing) -> Easing:
    """Halve the decay after some epochs that all went the same way.

    Their steps were too short to arrive.
    """
    d, aligned = len(after.coef), 0
    moved = np.empty(d + (1 if isinstance(after.intercept, float) else len(after.intercept)))
    np.subtract(after.coef, before.coef, out=moved[:d])
    moved[d:] = after.intercept - before.intercept
    if easing.moved is not None:
        together = float(moved.dot(easing.moved))
        lengths = math.sqrt(float(moved.dot(moved)) * float(easing.moved.dot(easing.moved)))
        if together > _SAME_WAY * lengths:
            aligned = easing.aligned + 1
    if aligned == _EPOCHS_THE_SAME_WAY:
        return Easing(moved, 0, min(easing.eased + 1, _MOST_EASINGS))
    return Easing(moved, aligned, easing.eased)


def balance(easing: Easing, mean: float, last: float, best: float, epochs: int) -> Easing:
    """Halve the decay if steps are too short, and double it if they only make noise.

    An epoch that ends better than its mean and all before is still on its way: its noise is less
    than what it gained. If nothing better is found for a tenth of all epochs, noise hides gains.
    """
    if last < min(mean, best):
        return Easing(None, 0, min(easing.eased + 1, _MOST_EASINGS))
    if mean < best:
        return easing._replace(aligned=0)
    if easing.aligned + 1 < max(_LEAST_WAIT, _WAIT * epochs):
        return easing._replace(aligned=easing.aligned + 1)
    return Easing(None, 0, max(easing.eased - 1, -_MOST_EASINGS))


def eased_rate(rate: float, least: float, easing: Easing) -> float:
    """Decay after it was halved or doubled as needed, but not below the smallest."""
    return max(min(rate, least), math.ldexp(rate, -easing.eased))


def unless_wrong(spec: Spec, run: Run, after: After, known: float = np.nan) -> float:
    """Objective after an epoch; infinite if it went wrong.

    That is, it ended worse than it started and than zero weights, or it overflowed. The check costs
    one or two passes over the data. With many rows it is skipped if the losses during the epoch
    were at most those of zero weights, except after the first epoch with unbounded slopes. After
    the first epoch, only losses that may overshoot are checked, or few rows in units of their own.
    NaN means that nothing but overflow was checked. ``known`` is the objective of the mean, if it
    was computed.

    It looks at the mean of an epoch if there is one, and otherwise at the last weights: an average
    over all epochs would hide for a long time how the last one ended.
    """
    problem, solver, later = spec.problem, spec.solver, run.state.epochs > 0
    last = after.state.coef, after.state.intercept
    looked_at = after.mean or last
    if not are_finite(last, looked_at):
        return np.inf
    reached = known
    if math.isnan(known):
        if later and not spec.is_always_checked:
            return np.nan
        may_skip = later or (problem.loss.is_bounded and solver.watch)
        if may_skip and after.loss <= spec.loss_at_zero and len(problem.y) > FEW_ROWS:
            return np.nan
        with np.errstate(all="ignore"):
            reached = problem.objective_of(*looked_at)
    if not math.isfinite(reached):
        return np.inf
    if not reached > spec.loss_at_zero > 0.0:
        return reached
    # Short steps stay where the last weights are, which may be worse than the mean of an epoch.
    began = finite_objective(problem, run.state.coef, run.state.intercept)
    if solver.by_epoch:  # it makes no difference whether mean and last weights have been compared
        mean = solver.solution(run.state, run.own._replace(settled=0))
        began = max(began, finite_objective(problem, *mean))
    return np.inf if reached > began else reached


def is_open(spec: Spec, run: Run, epochs: int) -> bool:
    """Whether a mean has not been compared with the last weights, ``epochs`` after a beginning.

    A chunk of partial_fit is a beginning: it says little about other rows.
    """
    many = min(epochs, run.state.epochs) >= FIRST_COMPARED
    return many and spec.solver.by_epoch and bool(run.own.weight) and not run.own.settled


def settled(spec: Spec, run: Run, epochs: int) -> Run:
    """The run with its solution decided: one pass over the rows, unless that was done before."""
    if not is_open(spec, run, epochs):
        return run
    assert isinstance(spec.solver, Sgd)
    own, objective = spec.solver.settled(run.state, run.own)
    return run._replace(own=own, objective=objective)


def best_so_far(
    spec: Spec, run: Run, after: After, mean: float, last: float
) -> tuple[Averages, float, Easing]:
    """Return the best solution so far, its objective, and the balance of noise and steps.

    ``after`` is the epoch that was just done, ``mean`` and ``last`` are objectives of its mean and
    of its last weights. The weights that a run starts with are a solution as well.
    """
    best, own = run.objective, run.own
    if math.isnan(best):
        first = spec.solver.solution(run.state, run.own)
        best, own = finite_objective(spec.problem, *first), _showing(after.own, *first)
    easing = balance(run.easing, mean, last, best, after.state.epochs)
    if min(last, mean) >= best:
        if own.received is not None:
            own = own._replace(received=after.own.received)
    elif last < mean or after.mean is None:
        own, best = _showing(after.own, after.state.coef, after.state.intercept), last
    else:
        own, best = after.own._replace(settled=MEAN), mean
    return own, best, easing


def _showing(own: Averages, coef: NDArray[Any], intercept: Any) -> Averages:
    """What SGD keeps, with a solution that was found to be better than its mean."""
    coef = coef.astype(np.float64)
    return own._replace(coef=coef, intercept=intercept, weight=1.0, settled=MEAN)


def with_mark(spec: Spec, run: Run) -> Run:
    """Remember the objective, from which the gap of a problem without Newton steps is estimated."""
    epochs = len(run.running)
    run = settled(spec, run, epochs)
    objective = run.objective
    if np.isnan(objective):
        with np.errstate(all="ignore"):
            objective = spec.problem.objective(*spec.solver.solution(run.state, run.own))
    if run.marks:
        objective = min(objective, run.marks[-1][1])
    return run._replace(marks=(*run.marks, (epochs, objective)))


def with_gap(spec: Spec, run: Run) -> Run:
    """The run with its solution decided and its distance from the optimum estimated."""
    if run.gap is not None:
        return run
    epochs = len(run.running)
    run = settled(spec, run, epochs)
    solution = spec.solver.solution(run.state, run.own)
    units = spec.solver.preconditioner if isinstance(spec.solver, Sgd) else None
    columns = None if units is None else units.columns
    known = {"start": spec.loss_of_a_constant, "reached": run.objective}
    gap = estimate_gap(spec.problem, solution, epochs, run.marks, columns, **known)
    return run._replace(gap=gap)


class Patience(NamedTuple):
    """How long a run has not improved.

    ``best`` is the least verdict, ``waited`` the epochs without a better one, and ``stopped`` says
    whether the run has ended by itself.
    """

    best: float = np.inf
    waited: int = 0
    stopped: bool = False

    def after(self, verdict: float, stop: Stalled) -> Patience:
        """Count epochs in which the verdict did not fall; after ``epochs`` of them, stop."""
        # the best minus tol may round to the best itself, which an idle epoch reaches too
        has_fallen = self.best - verdict >= stop.tol  # NaN does not count
        waited = 0 if has_fallen else self.waited + 1
        return Patience(min(self.best, verdict), waited, waited >= stop.epochs)


class Run(NamedTuple):
    """A run after some epochs. It is replaced as a whole, so other threads may read it.

    Attributes
    ----------
    state : State
    own : object
        The solver's private state.
    schedule : Schedule
        Steps as given or found, neither lowered nor eased.
    drawing : Drawing
    order : ndarray or None
        What a balanced epoch left behind for the next.
    objective : float
        That of the solution, if it was computed; otherwise NaN.
    running : tuple of float
        Running objective of each epoch: the mean loss of the rows, each before its step, plus the
        penalty of the last weights. NaN if the solver does not record losses.
    moments : tuple of float
        When each epoch ended, by ``time.perf_counter``.
    entries : tuple of dict
        What was measured after each epoch; `minimize` also measures before the first one.
    lowered : int
        How often the steps were lowered.
    patience : Patience
    easing : Easing
    marks : tuple
        The smallest objective after some epochs, where the gap is estimated from them.
    gap : Gap or None
        Estimate after the last epoch, if one was needed.
    """

    state: State
    own: Any
    schedule: Schedule
    drawing: Drawing
    order: NDArray[np.intp] | None = None
    objective: float = np.nan
    running: tuple[float, ...] = ()
    moments: tuple[float, ...] = ()
    entries: tuple[dict[str, float], ...] = ()
    lowered: int = 0
    patience: Patience = Patience()
    easing: Easing = Easing()
    marks: Marks = ()
    gap: Gap | None = None

    @property
    def stopped(self) -> bool:
        """Whether the run has ended by itself."""
        return self.patience.stopped


def begin(
    spec: Spec,
    start: tuple[Any, Any] | None = None,
    *,
    earlier: tuple[State, Any] | None = None,
    schedule: Schedule | None = None,
    table: Table | None = None,
) -> Run:
    """Return a run before its first epoch.

    Parameters
    ----------
    spec : Spec
    start : tuple of array-like and float, default=None
        Initial weights and intercept; None means zero.
    earlier : tuple of State and object, default=None
        State of an earlier run to continue from, and what its solver kept, instead.
    schedule : Schedule, default=None
        Steps that are known already; None means those of the spec.
    table : AntitheticTable or GroupTable, default=None
        A table that is known already.
    """
    solver = spec.solver
    state, own = solver.init(*(start or ())) if earlier is None else solver.take_up(*earlier)
    drawing = first_drawing(spec, table)
    if schedule is None:
        schedule = find_schedule(spec, drawing, state)
    if spec.solver_name in ("svrg", "saga"):
        check_shrinking(spec.problem, schedule, spec.solver_name)
    return Run(state, own, schedule, drawing)


def find_schedule(spec: Spec, drawing: Drawing, state: State) -> Schedule:
    """Return the steps of a spec as numbers; automatic ones are found from the data."""
    problem, steps = spec.problem, spec.steps
    if not isinstance(steps, Auto):
        return steps.schedule(problem.loss, problem.penalty)
    if not SOLVERS[spec.solver_name].has_steps:
        return Schedule(INVERSE_TIME, 1.0)  # not used
    if spec.solver_name != "sgd":
        return Schedule(INVERSE_TIME, automatic_step(spec, drawing), steps.decay or 0.0)
    if isinstance(problem, SoftmaxProblem):
        from antithetic.stochastic.softmax import SoftmaxSgd, find_softmax_steps

        assert isinstance(spec.solver, SoftmaxSgd)
        found = find_softmax_steps(
            problem,
            spec.batch_size,
            spec.seed,
            state,
            averaged=spec.solver.average_from > 0,
            threads=spec.solver.threads,
            preconditioner=spec.solver.preconditioner,
        )
        given = found if steps.decay is None else found.but(decay=steps.decay)
        return given.schedule(problem.loss, problem.penalty)
    where = spec.batch_size, spec.seed, state.coef, state.intercept
    if isinstance(spec.solver, Sgd) and spec.solver.preconditioner is not None:
        found = find_preconditioned_steps(problem, spec.solver.preconditioner, *where)
    else:
        found = find_steps(problem, *where, noise=spec.noise)
    given = found if steps.decay is None else found.but(decay=steps.decay)
    return given.schedule(problem.loss, problem.penalty)


def train(spec: Spec, run: Run, epochs: int) -> Iterator[Run]:
    """Yield the run after each epoch until ``epochs`` are done in all.

    With few rows, an epoch takes the kernels some microseconds, so each call of Python counts: what
    stays the same while a run lasts is found out before it, or when it changes.
    """
    solver, penalty = spec.solver, spec.problem.penalty
    averages_epochs = solver.averages_epochs
    asked = -1  # the epoch whose table was looked after: one that is done again keeps it
    schedule, shortened = run.schedule, None  # steps of the next epoch, and what they depend on
    while run.state.epochs < epochs and not run.patience.stopped:
        if spec.order.pairs is not None and asked < run.state.epochs:
            run = renewed(spec, run)
            asked = run.state.epochs
        if (run.lowered, run.easing.eased) != shortened:
            schedule, shortened = present_schedule(spec, run), (run.lowered, run.easing.eased)
        draws, drawing = run.drawing.draws, run.drawing
        assert draws is not None
        followed = solver.followed(run.state, run.own) if draws.follows else None
        batches = draws.batches(run.state.epochs, run.order, followed)
        if spec.is_step_by_step:
            after, drawing = step_by_step(spec, run, batches, schedule)
        else:
            after = solver.epoch(run.state, run.own, batches, schedule)
        objective, easing, mean, last = after.objective, run.easing, np.nan, np.nan
        if spec.is_compared:
            ended = after.state.coef, after.state.intercept
            with np.errstate(all="ignore"):
                mean, last = spec.problem.objectives_of(after.mean or ended, ended)
        if spec.is_watched_over and run.lowered < MOST_LOWERINGS:
            if mean <= spec.loss_at_zero and last < np.inf:  # as a rule, and nothing can be wrong
                reached = mean
            else:
                reached = unless_wrong(spec, run, after, mean)
            if reached == np.inf:
                run = run._replace(lowered=run.lowered + 1)
                continue
            if not averages_epochs:  # which is not what was looked at
                objective = reached
        else:
            check_finite(spec.problem, after.state, run.schedule)
        own, marks = after.own, run.marks
        if spec.is_compared:
            own, objective, easing = best_so_far(spec, run, after, mean, last)
            lowest = min(mean, last, marks[-1][1] if marks else np.inf)
            marks = (*marks, (len(run.running) + 1, lowest))
        elif spec.is_watched_over:
            easing = ease(run.state, after.state, easing)
        running = after.loss + penalty.value(after.state.coef) if solver.watch else np.nan
        run = run._replace(
            state=after.state,
            own=own,
            drawing=drawing,
            order=after.order,
            objective=objective,
            running=(*run.running, running),
            moments=(*run.moments, time.perf_counter()),
            easing=easing,
            marks=marks,
            gap=None,
        )
        if spec.trace:
            run = settled(spec, run, len(run.running))
            run = run._replace(entries=(*run.entries, measure(spec, run)))
        if spec.is_extrapolated and not spec.is_compared and len(run.running).bit_count() == 1:
            run = with_mark(spec, run)
        if isinstance(spec.stop, Stalled):
            by_loss = spec.stop.of == "objective"
            verdict = running if by_loss else _traced_verdict(run, spec.stop.of)
            run = run._replace(patience=run.patience.after(verdict, spec.stop))
            if run.patience.stopped:
                run = _if_it_pays(spec, run, spec.stop)
        elif spec.stop is not None:
            is_there = run.entries[-1][spec.stop.of] <= spec.stop.tol
            run = run._replace(patience=run.patience._replace(stopped=is_there))
        yield run


def _traced_verdict(run: Run, of: str) -> float:
    """Return the last value of a trace, with the sign that makes smaller values better."""
    return run.entries[-1][of] * (-1.0 if of.endswith("score") else 1.0)


def _if_it_pays(spec: Spec, run: Run, stop: Stalled) -> Run:
    """Let a run that stalled go on if it is far from the optimum, or with a lower step."""
    patience = run.patience
    if stop.of == "objective" and isinstance(spec.steps, Auto) and spec.estimates_gap:
        last = list(run.running[-1 - stop.epochs :])
        if run.entries and "objective" in run.entries[-1]:
            last = [entry["objective"] for entry in run.entries[-1 - stop.epochs :]]
        if is_surely_wide(spec.problem, last):
            return run._replace(patience=Patience(patience.best, stop.epochs - 1))
        epochs, run = len(run.running), with_gap(spec, run)
        assert run.gap is not None
        if should_go_on(spec.problem, run.gap, last, epochs):
            # a Newton step costs more than epochs of few rows: the next is due after a fifth more
            waited = 0 if spec.is_extrapolated else -(epochs // 5)
            patience = Patience(patience.best, stop.epochs - 1 if spec.is_compared else waited)
    if patience.stopped and spec.steps.adapts and can_be_lowered(present_schedule(spec, run)):
        return run._replace(patience=Patience(patience.best), lowered=run.lowered + 1)
    return run._replace(patience=patience)


def present_schedule(spec: Spec, run: Run) -> Schedule:
    """Steps of the next epoch: lowered and eased as often as that was found to be needed."""
    code, eta0, rate, start = run.schedule
    if spec.is_watched_over and isinstance(spec.steps, Auto):
        given, easing = spec.steps.decay, run.easing
        if given is not None:  # a decay of one's own is not doubled
            easing = easing._replace(eased=max(0, easing.eased))
        rate = eased_rate(rate, spec.problem.penalty.l2 if given is None else given, easing)
    return Schedule(code, eta0 / LOWERING**run.lowered, rate, start)


def warn_if_worse(spec: Spec, first: Solution, run: Run) -> None:
    """Warn if the objective ended above its initial value.

    Some solvers have no steps, and automatic steps are checked during the run.
    """
    if not SOLVERS[spec.solver_name].has_steps or spec.is_watched_over:
        return
    problem = spec.problem
    before = problem.objective(*first)
    after = problem.objective(*spec.solver.solution(run.state, run.own))
    if after > 1.1 * before > 0.0:
        # takes a second to import, and is not needed for a good run
        from sklearn.exceptions import ConvergenceWarning

        warn(
            f"the objective rose from {before:.4g} to {after:.4g}: the steps are too long."
            f" {advice(problem, run.schedule)}",
            ConvergenceWarning,
        )
