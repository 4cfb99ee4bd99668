"""Several epochs in one call, where nothing between them needs Python.

That is, for few rows in a balanced order, if nothing is recorded but the running objective and the
seconds. The result is that of single epochs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scipy import sparse

from antithetic.orders import Balanced
from antithetic.problem.gap import has_newton_decrement
from antithetic.solvers.several import Course, Several, take_several
from antithetic.solvers.sgd import Sgd
from antithetic.solvers.steps import Schedule
from antithetic.training.care import after_some, is_cheap
from antithetic.training.spec import Spec
from antithetic.training.stopping import Stalled
from antithetic.training.trace import Met, Seconds

if TYPE_CHECKING:
    from antithetic.training.loop import Run

_MOST_VISITS = 1 << 21  # of entries, rows and columns in one call: some milliseconds, for which
# Ctrl-C waits


def can_be_several(spec: Spec) -> bool:
    """Whether epochs of this spec can be taken in one call."""
    if not (type(spec.order) is Balanced and spec.order.pairs is None):
        return False
    if type(spec.solver) is not Sgd or not spec.solver.watch:
        return False
    stop = spec.stop
    if not (stop is None or (isinstance(stop, Stalled) and stop.of == "objective")):
        return False
    if not all(type(measure) in (Met, Seconds) for measure in spec.trace):
        return False
    return not spec.is_watched_over or is_cheap(spec) or not spec.problem.loss.may_overshoot


def at_once(spec: Spec, run: Run, end: int) -> int:
    """How many epochs should be taken in the next call; ``end`` are wanted in all."""
    if spec.is_watched_over and run.state.epochs == 0 and not is_cheap(spec):
        return 1  # which is looked at
    X = spec.problem.X
    # an epoch visits its rows and columns too, however few entries they have
    visits = int(X.nnz if sparse.issparse(X) else X.size) + int(sum(X.shape))
    most = min(end - run.state.epochs, _MOST_VISITS // visits)
    if spec.estimates_gap and not has_newton_decrement(spec.problem):
        recorded = len(run.entries)  # the objective is computed after 1, 2, 4, 8, ... epochs
        most = min(most, (1 << recorded.bit_length()) - recorded)
    return most


def several(spec: Spec, run: Run, schedule: Schedule, epochs: int) -> tuple[Run, bool]:
    """Take some epochs in one call; True if the next one has to be looked at."""
    draws, solver = run.drawing.draws, spec.solver
    assert draws is not None
    assert isinstance(solver, Sgd)
    began = time.perf_counter()
    batches = draws.sampler().batches(run.state.epochs, run.order)
    found = take_several(solver, run.state, run.own, batches, schedule, _course(spec, run, epochs))
    if not len(found.running):
        return run, True
    return _taken_over(spec, run, found, began), found.is_wrong


def _course(spec: Spec, run: Run, epochs: int) -> Course:
    patience, stop, easing = run.patience, spec.stop, run.easing
    rule = (patience.best, 0.0, patience.waited, 0)
    if isinstance(stop, Stalled):
        rule = (patience.best, stop.tol, patience.waited, stop.epochs)
    watched = spec.is_watched_over
    checks = watched and is_cheap(spec)
    at_zero = spec.problem.loss_at_zero() if checks else 0.0
    return Course(epochs, checks, at_zero, watched, easing.moved, easing.aligned, rule)


def _taken_over(spec: Spec, run: Run, found: Several, began: float) -> Run:
    """The run after some epochs, recorded; whether it should stop is not yet judged."""
    state, first = found.after.state, run.state.epochs + 1
    columns = {
        measure.name: (
            found.seconds + (began - measure.began)
            if isinstance(measure, Seconds)
            else found.running
        ).tolist()
        for measure in spec.trace
    }
    epochs = range(first, state.epochs + 1)
    entries = [
        {"epoch": float(epoch)} | dict(zip(columns, values, strict=True))
        for epoch, *values in zip(epochs, *columns.values(), strict=True)
    ]
    patience = run.patience
    if isinstance(spec.stop, Stalled):
        for verdict in found.running[:-1].tolist():
            patience = patience.after(verdict, spec.stop)
    objective = found.after.objective
    if not (spec.solver.by_epoch or not spec.solver.is_averaged(found.after.own)):
        objective = float("nan")  # an average over all epochs is not what was looked at
    return run._replace(
        state=state,
        own=found.after.own,
        order=found.after.order,
        loss=float(found.running[-1]) - spec.problem.penalty.value(state.coef),
        objective=objective,
        entries=(*run.entries, *entries),
        patience=patience,
        easing=after_some(found.moved, found.aligned, run.easing)
        if spec.is_watched_over
        else run.easing,
        gap=None,
    )
