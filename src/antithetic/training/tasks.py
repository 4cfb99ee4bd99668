"""The linear problems of one estimator, each trained from its first step to its last, with what is recorded after each epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.progress import progress_bar
from antithetic.solvers import Care, Patience, Sdca, SgdState, Solver, Target, lower, run
from antithetic.solvers.steps import Schedule
from antithetic.training.minimize import warn_if_worse
from antithetic.training.tables import Tables
from antithetic.training.trace import measure_state

Score = Callable[[NDArray[Any], float], float]
Watch = Callable[["Record"], bool]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fit used where the user left it open, and why.

    Attributes
    ----------
    pairing : str or None
        How rows were paired; None if they were not.
    sampling : str
        How rows or pairs were drawn.
    nest, refresh
        Nested groups, and when tables are made anew; None where not.
    batch_size : int
        Rows of a step.
    why : str
        The reason in a sentence.
    average : bool, int or str
        Which weights were averaged.
    noise : float
        What the order and the average leave of the noise of a random order; automatic steps fall
        more slowly by it.
    """

    pairing: str | None
    sampling: str
    nest: Any
    refresh: Any
    batch_size: int
    why: str
    average: bool | int | str = False
    noise: float = field(default=1.0, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One linear problem, ready to be trained: one class against the rest, or all there is.

    Attributes
    ----------
    solver, schedule, start, epochs, adaptive, care
        See :func:`antithetic.solvers.run.run`.
    tables : Tables
        What batches are drawn from, and when that is made anew.
    patience : Patience, Target or None
        None runs all epochs.
    trace : tuple of str
        What to record after each epoch, besides the validation score.
    score : callable or None
        Weights and intercept to a validation score.
    judged_by : str
        What patience looks at: ``"objective"`` (that which was met on the way), or something that
        is measured.
    """

    solver: Solver
    tables: Tables
    schedule: Schedule
    start: SgdState
    epochs: int
    patience: Patience | Target | None
    adaptive: bool
    care: Care | None
    trace: tuple[str, ...]
    score: Score | None
    judged_by: str

    def measure(self, state: SgdState) -> dict[str, float]:
        """What is recorded of a state."""
        measured = measure_state(self.trace, self.tables, state)
        if self.score is not None:
            measured["validation_score"] = self.score(*state.solution)
        return measured


@dataclass(slots=True, eq=False)
class Record:
    """A task as far as it has come: the state after the last whole epoch and what was measured after each.

    Another thread may read it at any time, so what belongs together is replaced together.

    Attributes
    ----------
    make : callable
        Makes the task when its turn comes; its labels, weights and tables are dropped when it is
        done.
    first : tuple of ndarray and float
        Weights and intercept before it.
    most_epochs : int
    held : tuple of SgdState or None, int, Schedule or None
        State, epochs done, and steps in use, None before the first epoch.
    entries : list of dict
        What was measured, in which epochs that are not whole yet may be one ahead.
    """

    make: Callable[[], Task]
    first: tuple[NDArray[Any], float]
    most_epochs: int
    held: tuple[SgdState | None, int, Schedule | None] = (None, 0, None)
    entries: list[dict[str, float]] = field(default_factory=list)

    @property
    def state(self) -> SgdState | None:
        """State after the last whole epoch; None before the first."""
        return self.held[0]

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return self.held[1]

    @property
    def is_over(self) -> bool:
        """Whether no epoch will follow by itself."""
        return self.epochs == self.most_epochs or (self.state is not None and self.state.stopped)

    @property
    def solution(self) -> tuple[NDArray[Any], float]:
        """Weights and intercept as they stand."""
        return self.first if self.state is None else self.state.solution

    def copy(self) -> Record:
        """The record as it stands, whatever other threads go on to do."""
        return Record(self.make, self.first, self.most_epochs, self.held, self.entries)

    def history(self) -> dict[str, NDArray[Any]]:
        """One array per measured thing, one entry per epoch."""
        entries = self.entries[: self.epochs]
        columns = {
            name: np.array([entry[name] for entry in entries])
            for name in (entries[0] if entries else ("epoch", "seconds"))
        }
        return {**columns, "epoch": np.arange(1, len(entries) + 1)}


def train(record: Record, began: float, watch: Watch) -> None:
    """Train one task, keeping its record up to date.

    ``watch`` is called after each epoch and may end it by returning True.
    """
    task = record.make()
    problem = task.solver.problem

    def judge(state: SgdState) -> float:
        record.entries.append({**task.measure(state), "seconds": time.perf_counter() - began})
        if task.patience is None:
            return 0.0
        if task.judged_by == "objective":
            return state.loss + problem.penalty.value(state.coef)
        verdict = record.entries[-1][task.judged_by]
        return -verdict if task.judged_by == "validation_score" else verdict

    states = run(
        task.solver,
        task.tables.sampler(),
        task.schedule,
        task.start,
        epochs=task.start.epochs + task.epochs,
        patience=task.patience
        or Patience(-np.inf),  # without a tolerance everything is an improvement
        adaptive=task.adaptive,
        care=task.care,
        judge=judge,
        renew=task.tables.renew,
    )
    for state in states:
        record.held = (state, len(record.entries), lower(task.schedule, state, task.care))
        if watch(record):
            break
    # steps that are watched over cannot have been too long, and SDCA has none
    if task.care is None and record.state is not None and not isinstance(task.solver, Sdca):
        warn_if_worse(problem, task.start, record.state, task.schedule)


def train_all(records: list[Record], began: float, watch: Watch, n_jobs: int | None) -> None:
    """Train all tasks, several at a time in threads (the kernels run outside the interpreter's lock)."""
    if len(records) == 1:
        return train(records[0], began, watch)
    from sklearn.utils.parallel import Parallel, delayed

    Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(train)(record, began, watch) for record in records
    )
    return None


@contextmanager
def epochs_bar(total: int, show: bool) -> Iterator[Callable[[], None]]:
    """Give a function that is called, from any thread, once for each epoch that was done."""
    done, lock = 0, threading.Lock()
    with progress_bar("epochs", total, show) as update:

        def advance() -> None:
            nonlocal done
            with lock:
                done += 1
                update(done)

        yield advance
        update(total)  # a run that ended early is done as well
