"""The solution of a run: the mean of its last epoch's weights or the last weights.

They are compared only when the solution is needed, since that takes a pass over the rows. The
epochs that follow do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from antithetic.solvers.sgd import Sgd
from antithetic.training.gap import estimate_gap
from antithetic.training.spec import Spec

if TYPE_CHECKING:
    from antithetic.training.loop import Run

FIRST_COMPARED = 4  # epochs before which noise is what is left, and the mean is better


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


def with_mark(spec: Spec, run: Run) -> Run:
    """Remember the objective, from which the gap of a problem without Newton steps is estimated."""
    epochs = len(run.running)
    run = settled(spec, run, epochs)
    objective = run.objective
    if np.isnan(objective):
        with np.errstate(all="ignore"):
            objective = spec.problem.objective(*spec.solver.solution(run.state, run.own))
    return run._replace(marks=(*run.marks, (epochs, objective)))


def with_gap(spec: Spec, run: Run) -> Run:
    """The run with its solution decided and its distance from the optimum estimated."""
    if run.gap is not None:
        return run
    epochs = len(run.running)
    run = settled(spec, run, epochs)
    solution = spec.solver.solution(run.state, run.own)
    units = spec.solver.preconditioner if isinstance(spec.solver, Sgd) else None
    centre = None if units is None else units.centre
    return run._replace(gap=estimate_gap(spec.problem, solution, epochs, run.marks, centre))
