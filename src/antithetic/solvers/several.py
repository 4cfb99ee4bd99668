"""Several epochs of SGD in one call: few rows take less time than what Python does in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._core.kernels import Averaging
from antithetic.orders.batches import Batches
from antithetic.solvers.arguments import kernel_batches, step_rule
from antithetic.solvers.sgd import Averages, Sgd, rows_skipped
from antithetic.solvers.state import After, State
from antithetic.solvers.steps import Schedule


class Course(NamedTuple):
    """Settings of several epochs in one call, and the state that they continue from.

    Attributes
    ----------
    epochs : int
        How many at most.
    checks : bool
        Whether objectives are computed after each epoch. An epoch that ends above ``at_zero`` is
        taken back, and ends the call.
    at_zero : float
        Mean loss of zero weights.
    eases : bool
        Whether epochs that go the same way are counted; three of them end the call.
    moved : ndarray of shape (d + 1,) or None
        Where the last epoch went; None before the first.
    aligned : int
        How many epochs went the same way.
    patience : tuple
        Lowest running objective, by how much it must fall, epochs in which it did not, and how many
        of them end the call: 0 if none do.
    """

    epochs: int
    checks: bool
    at_zero: float
    eases: bool
    moved: NDArray[np.float64] | None
    aligned: int
    patience: tuple[float, float, int, int]


class Several(NamedTuple):
    """The result of several epochs.

    Attributes
    ----------
    after : After
        That of the last one.
    running, seconds : ndarray of shape (epochs,)
        Running objectives, and seconds since the call began.
    moved, aligned
        As in `Course`.
    is_wrong : bool
        Whether one more epoch was taken back.
    """

    after: After
    running: NDArray[np.float64]
    seconds: NDArray[np.float64]
    moved: NDArray[np.float64]
    aligned: int
    is_wrong: bool


def take_several(
    solver: Sgd,
    state: State,
    own: Averages,
    batches: Batches,
    schedule: Schedule,
    course: Course,
) -> Several:
    """Take the steps of several epochs with a balanced order, as :meth:`Sgd.epoch` would.

    ``batches`` are those of the first.
    """
    problem, coef = solver.problem, state.coef.copy()
    average = np.empty(0) if own.coef is None else own.coef.copy()
    received = np.zeros(1) if own.received is None else own.received.copy()
    following = np.empty(len(batches.rows), np.intp)
    moved = np.zeros(problem.d + 1) if course.moved is None else course.moved.copy()
    running, seconds = np.empty((2, course.epochs))
    *found, done, aligned, objective, is_wrong = problem.rows.sgd_epochs(
        problem.targets,
        kernel_batches(batches, state),
        step_rule(problem, schedule, solver.steepest, solver.watch),
        Averaging(
            solver.average_from,
            solver.linear,
            solver.between_points(batches) if solver.by_epoch else 1,
        ),
        coef,
        state.intercept,
        average,
        own.intercept,
        own.weight,
        received[:-1],
        received[-1],
        batches.unit,
        following,
        solver.units,
        _kernel_course(solver, state, batches, course),
        moved,
        course.moved is not None,
        running,
        seconds,
    )
    intercept, average_intercept, average_weight, received[-1] = found
    ended = State(
        coef,
        intercept,
        state.steps + done * (len(batches.starts) - 1),
        state.samples + done * len(batches.rows),
        state.epochs + done,
    )
    kept = Averages(
        None if own.coef is None else average,
        average_intercept,
        average_weight,
        None if own.received is None else received,
    )
    after = After(ended, kept, order=following, objective=objective)
    return Several(after, running[:done], seconds[:done], moved, aligned, is_wrong)


def _kernel_course(solver: Sgd, state: State, batches: Batches, course: Course) -> kernels.Course:
    return kernels.Course(
        course.epochs,
        state.epochs,
        solver.by_epoch,
        rows_skipped(batches),
        course.checks,
        course.at_zero,
        course.eases,
        course.aligned,
        *course.patience,
    )
