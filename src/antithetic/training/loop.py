"""The training loop: epochs, what is checked and recorded after each, and when it ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.schedules import INVERSE_TIME
from antithetic._util.warnings import warn
from antithetic.orders.units import Table
from antithetic.problem import SoftmaxProblem
from antithetic.solvers import SOLVERS
from antithetic.solvers.corrected import check_shrinking
from antithetic.solvers.divergence import advice, check_finite
from antithetic.solvers.preconditioned_steps import find_preconditioned_steps
from antithetic.solvers.sgd import Sgd
from antithetic.solvers.state import Solution, State
from antithetic.solvers.step_search import find_steps
from antithetic.solvers.steps import LOWERING, Auto, Schedule, can_be_lowered
from antithetic.training.care import MOST_LOWERINGS, Easing, ease, eased_rate, unless_wrong
from antithetic.training.gap import Gap, Marks, is_surely_wide, should_go_on
from antithetic.training.solution import settled, with_gap, with_mark
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
        Objectives of some epochs, where the gap is estimated from them.
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
        sampler = draws.fixed
        if sampler is None:
            sampler = draws.sampler(solver.followed(run.state, run.own) if draws.follows else None)
        batches = sampler.batches(run.state.epochs, run.order)
        if spec.is_step_by_step:
            after, drawing = step_by_step(spec, run, batches, schedule)
        else:
            after = solver.epoch(run.state, run.own, batches, schedule)
        objective, easing = after.objective, run.easing
        if spec.is_watched_over and run.lowered < MOST_LOWERINGS:
            reached = unless_wrong(spec, run, after)
            if reached == np.inf:
                run = run._replace(lowered=run.lowered + 1)
                continue
            if not averages_epochs:  # which is not what was looked at
                objective = reached
        else:
            check_finite(spec.problem, after.state, run.schedule)
        if spec.is_watched_over:
            easing = ease(run.state, after.state, easing)
        running = after.loss + penalty.value(after.state.coef) if solver.watch else np.nan
        run = run._replace(
            state=after.state,
            own=after.own,
            drawing=drawing,
            order=after.order,
            objective=objective,
            running=(*run.running, running),
            moments=(*run.moments, time.perf_counter()),
            easing=easing,
            gap=None,
        )
        if spec.trace:
            run = settled(spec, run, len(run.running))
            run = run._replace(entries=(*run.entries, measure(spec, run)))
        if spec.is_extrapolated and len(run.running).bit_count() == 1:
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
            # estimates cost more than epochs of few rows: the next one is due after a fifth more
            patience = Patience(patience.best, 0 if spec.is_extrapolated else -(epochs // 5))
    if patience.stopped and spec.steps.adapts and can_be_lowered(present_schedule(spec, run)):
        return run._replace(patience=Patience(patience.best), lowered=run.lowered + 1)
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
