"""The training loop: epochs, what is checked and recorded after each, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.warnings import warn
from antithetic.orders.units import Table
from antithetic.problem import SoftmaxProblem
from antithetic.problem.gap import has_newton_decrement
from antithetic.solvers import SOLVERS
from antithetic.solvers.corrected import check_shrinking
from antithetic.solvers.divergence import advice, check_finite
from antithetic.solvers.preconditioned_steps import find_preconditioned_steps
from antithetic.solvers.sgd import Sgd
from antithetic.solvers.state import After, Solution, State
from antithetic.solvers.step_search import find_steps
from antithetic.solvers.steps import LOWERING, Auto, Schedule, can_be_lowered
from antithetic.training.care import MOST_LOWERINGS, Easing, ease, eased_rate, unless_wrong
from antithetic.training.gap import Gap, Marks, is_marked, is_surely_wide, mark_of, should_go_on
from antithetic.training.several import at_once, can_be_several, several
from antithetic.training.solution import is_traced, settled, with_gap
from antithetic.training.spec import Spec
from antithetic.training.stopping import Stalled
from antithetic.training.tables import (
    Drawing,
    automatic_step,
    first_drawing,
    renewed,
    step_by_step,
)
from antithetic.training.trace import measure


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
    loss : float
        Mean loss during the last epoch; NaN if it is not recorded.
    objective : float
        That of the solution, if it was computed; otherwise NaN.
    entries : tuple of dict
        What was measured, after each epoch.
    lowered : int
        How often the steps were lowered.
    patience : Patience
    easing : Easing
    marks : tuple
        Objectives of some epochs, where the gap is estimated from them.
    gap : Gap or None
        Estimate after the last epoch, if one was needed.
    """

    state: State
    own: Any
    schedule: Schedule
    drawing: Drawing
    order: NDArray[np.intp] | None = None
    loss: float = np.nan
    objective: float = np.nan
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
        from antithetic.solvers.softmax import SoftmaxSgd
        from antithetic.solvers.softmax_steps import find_softmax_steps

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


def train(spec: Spec, run: Run, epochs: int, *, each: bool = True) -> Iterator[Run]:
    """Yield the run after each epoch until ``epochs`` are done in all.

    Without ``each``, it is not yielded after epochs that are taken in one call.
    """
    asked = -1  # the epoch whose table was looked after: one that is done again keeps it
    together = not each and can_be_several(spec)
    while run.state.epochs < epochs and not run.stopped:
        if asked < run.state.epochs:
            run = renewed(spec, run)
            asked = run.state.epochs
        schedule = present_schedule(spec, run)
        many = at_once(spec, run, epochs) if together and run.lowered < MOST_LOWERINGS else 1
        if many > 1:
            before = run.state.epochs
            run, is_wrong = several(spec, run, schedule, many)
            together = not is_wrong
            if run.state.epochs > before:
                run = _judged_by_rule(spec, run)
                yield run
            continue
        after, drawing = _epoch(spec, run, schedule)
        if spec.is_watched_over and run.lowered < MOST_LOWERINGS:
            reached = unless_wrong(spec, run, after)
            if reached == np.inf:
                run = run._replace(lowered=run.lowered + 1)
                continue
            # an average over all epochs is not what was looked at
            if not np.isnan(reached) and (
                spec.solver.by_epoch or not spec.solver.is_averaged(after.own)
            ):
                after = after._replace(objective=reached)
        check_finite(spec.problem, after.state, run.schedule)
        run = _moved(spec, run, after, drawing)
        yield run


def _epoch(spec: Spec, run: Run, schedule: Schedule) -> tuple[After, Drawing]:
    """Take the steps of an epoch; return also what the next one draws from."""
    draws = run.drawing.draws
    assert draws is not None
    slopes = spec.solver.followed(run.state, run.own) if draws.follows else None
    batches = draws.sampler(slopes).batches(run.state.epochs, run.order)
    if spec.is_step_by_step:
        return step_by_step(spec, run, batches, schedule)
    return spec.solver.epoch(run.state, run.own, batches, schedule), run.drawing


def _moved(spec: Spec, run: Run, after: After, drawing: Drawing) -> Run:
    """Take over the result of an epoch, measure it, and decide whether to continue."""
    easing = ease(run.state, after.state, run.easing) if spec.is_watched_over else run.easing
    run = Run(
        after.state,
        after.own,
        run.schedule,
        drawing,
        after.order,
        after.loss,
        after.objective,
        run.entries,
        run.lowered,
        run.patience,
        easing,
        run.marks,
    )
    if is_traced(spec):
        run = settled(spec, run, len(run.entries) + 1)
    return _judged_by_rule(spec, run._replace(entries=(*run.entries, measure(spec, run))))


def _judged_by_rule(spec: Spec, run: Run) -> Run:
    """Look at a run whose last epoch was measured, and decide whether to continue."""
    epochs = len(run.entries)
    if spec.estimates_gap and is_marked(spec.problem, epochs):
        run = settled(spec, run, epochs)
        solution = spec.solver.solution(run.state, run.own)
        mark = mark_of(spec.problem, epochs, run.objective, solution)
        run = run._replace(marks=(*run.marks, mark))
    if spec.stop is None:
        return run
    if isinstance(spec.stop, Stalled):
        return _judged(spec, run, spec.stop)
    reached = run.entries[-1][spec.stop.of] <= spec.stop.tol
    return run._replace(patience=run.patience._replace(stopped=reached))


def _judged(spec: Spec, run: Run, stop: Stalled) -> Run:
    """Judge an epoch; if the verdict has not fallen for long, lower the step or stop."""
    if stop.of == "objective":
        verdict = run.loss + spec.problem.penalty.value(run.state.coef)
    else:
        verdict = run.entries[-1][stop.of] * (-1.0 if stop.of.endswith("score") else 1.0)
    patience = run.patience.after(verdict, stop)
    decides = stop.of == "objective" and isinstance(spec.steps, Auto)
    if patience.stopped and decides and spec.estimates_gap:
        last = [entry["objective"] for entry in run.entries[-1 - stop.epochs :]]
        if is_surely_wide(spec.problem, last):
            return run._replace(patience=Patience(patience.best, stop.epochs - 1))
        epochs, run = len(run.entries), with_gap(spec, run)
        assert run.gap is not None
        if should_go_on(spec.problem, run.gap, last, epochs):
            # estimates cost more than epochs of few rows: the next one is due after a fifth more
            smooth = has_newton_decrement(spec.problem)
            patience = Patience(patience.best, -(epochs // 5) if smooth else 0)
    if patience.stopped and spec.steps.adapts and can_be_lowered(present_schedule(spec, run)):
        patience = Patience(patience.best)
        return run._replace(patience=patience, lowered=run.lowered + 1)
    return run._replace(patience=patience)


def present_schedule(spec: Spec, run: Run) -> Schedule:
    """Steps of the next epoch: lowered and eased as often as that was found to be needed."""
    code, eta0, rate, start = run.schedule
    if spec.is_watched_over:
        assert isinstance(spec.steps, Auto)
        least = spec.problem.penalty.l2 if spec.steps.decay is None else spec.steps.decay
        rate = eased_rate(rate, least, run.easing)
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
