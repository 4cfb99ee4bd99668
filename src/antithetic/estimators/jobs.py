"""The linear problems of one fit, each trained from its first step to its last, in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from antithetic._util.progress import progress_bar
from antithetic.estimators.data import LARGEST_SEED
from antithetic.stochastic.gap import NO_GAP, Gap
from antithetic.stochastic.loop import (
    Run,
    is_open,
    present_schedule,
    settled,
    train,
    warn_if_worse,
    with_gap,
)
from antithetic.stochastic.sgd import Averages
from antithetic.stochastic.solver import Solution, State
from antithetic.stochastic.spec import Spec
from antithetic.stochastic.steps import Schedule

Watch = Callable[["Job"], bool] | None  # None: not watched


class Seen(NamedTuple):
    """A run after an epoch.

    ``schedule`` holds the steps of the next epoch, None if no step was taken, and ``given`` those
    that were found or known, before any of them had to be shortened. ``look`` returns the solution;
    it holds the data only while the mean of the epoch is still to be compared with the last
    weights, and no longer than until the job is done. ``history`` has one array per measure, one
    entry per epoch.
    """

    look: Callable[[], Solution]
    state: State
    own: Any
    schedule: Schedule | None
    history: dict[str, NDArray[Any]]
    stopped: bool
    given: Schedule | None = None

    @classmethod
    def of(cls, spec: Spec, run: Run, began: float) -> Seen:
        """What is kept from a run; seconds count from ``began``, by ``time.perf_counter``."""
        if is_open(spec, run, len(run.running)):
            look: Callable[[], Solution] = cache(partial(_settled_solution, spec, run))
        else:
            look = showing(spec.solver.solution(run.state, run.own))
        schedule, given = present_schedule(spec, run), run.schedule
        history = _history(spec, run, began)
        return cls(look, run.state, run.own, schedule, history, run.stopped, given)


def _history(spec: Spec, run: Run, began: float) -> dict[str, NDArray[Any]]:
    """Epochs, their objectives (the running ones, unless those of all rows are traced), seconds."""
    names = [measure.name for measure in spec.trace]
    measured = {name: np.array([entry[name] for entry in run.entries]) for name in names}
    return {
        "epoch": np.arange(1, len(run.running) + 1),
        "objective": np.array(run.running),
        **measured,
        "seconds": np.array(run.moments) - began,
    }


def no_history() -> dict[str, NDArray[Any]]:
    """Return the history of a run before its first epoch."""
    return {"epoch": np.arange(0), "seconds": np.empty(0)}


def showing(solution: Solution) -> Callable[[], Solution]:
    """Return a function that returns a solution."""
    return lambda: solution


def _settled_solution(spec: Spec, run: Run) -> Solution:
    run = settled(spec, run, len(run.running))
    return spec.solver.solution(run.state, run.own)


@dataclass(slots=True, eq=False)
class Job:
    """One linear problem: a class against the rest, or the only problem.

    Another thread may look at any time; ``reached`` is replaced as a whole.

    Attributes
    ----------
    make : callable
        Makes the spec and the run when its turn comes; its labels, weights and tables are dropped
        when it is done.
    first : tuple of ndarray and float
        Weights and intercept before it.
    most_epochs : int
    began : float
        When the fit began, by ``time.perf_counter``.
    reached : tuple of Spec and Run, Seen or None
        The run after the last complete epoch, and what is kept of it when the job is done; None
        before the first epoch.
    gap : Gap
        What was left in the end, if it is estimated; otherwise NaN.
    """

    make: Callable[[], tuple[Spec, Run]]
    first: Solution
    most_epochs: int
    began: float
    reached: tuple[Spec, Run] | Seen | None = None
    gap: Gap = NO_GAP

    @property
    def seen(self) -> Seen | None:
        """The run after the last complete epoch; None before the first."""
        reached = self.reached
        if reached is None or isinstance(reached, Seen):
            return reached
        return Seen.of(*reached, self.began)

    @property
    def epochs(self) -> int:
        """Epochs of this job that are done."""
        return len(self.history()["epoch"])

    @property
    def is_over(self) -> bool:
        """Whether no epoch will follow by itself."""
        seen = self.seen
        if seen is None:
            return self.most_epochs == 0
        return len(seen.history["epoch"]) == self.most_epochs or seen.stopped

    @property
    def solution(self) -> Solution:
        """Current weights and intercept."""
        seen = self.seen
        return self.first if seen is None else seen.look()

    def copy(self) -> Job:
        """The current state of the job, while other threads continue."""
        return Job(self.make, self.first, self.most_epochs, self.began, self.seen, self.gap)

    def history(self) -> dict[str, NDArray[Any]]:
        """One array per measure, one entry per epoch."""
        seen = self.seen
        return no_history() if seen is None else seen.history


def do(job: Job, watch: Watch) -> None:
    """Train one problem; ``watch`` is called after each epoch and may end it by returning True."""
    spec, run = job.make()
    first, end = spec.solver.solution(run.state, run.own), run.state.epochs + job.most_epochs
    for run in train(spec, run, end):  # noqa: B020 - the run goes on
        job.reached = spec, run
        if watch is not None and watch(job):
            break
    if run.running:
        run = with_gap(spec, run) if spec.estimates_gap else settled(spec, run, len(run.running))
        job.gap = run.gap or _known_gap(spec, run)
        job.reached = Seen.of(spec, run, job.began)
    warn_if_worse(spec, first, run)


def _known_gap(spec: Spec, run: Run) -> Gap:
    """Return the bound of a solver that has dual variables; NaN for others, and if it is infinite.

    It costs at most two passes over the rows.
    """
    known = spec.solver.gap(run.state, run.own)
    return NO_GAP if known is None or known == np.inf else NO_GAP._replace(left=known)


def do_all(jobs: list[Job], watch: Watch, n_jobs: int | None) -> None:
    """Train all problems, several at a time: the kernels run outside the interpreter's lock.

    After Ctrl-C or an error, the others end at their next epoch, and are waited for: a thread that
    is in a kernel when Python exits ends the process with a crash.
    """
    if len(jobs) == 1:
        return do(jobs[0], watch)
    from sklearn.utils.parallel import Parallel, delayed

    stopped = threading.Event()
    running = [threading.Lock() for _ in jobs]

    def look(job: Job) -> bool:
        if stopped.is_set():
            raise _Stopped
        return watch is not None and watch(job)

    def do_one(job: Job, lock: threading.Lock) -> None:
        with lock, suppress(_Stopped):
            if not stopped.is_set():
                do(job, look)

    pairs = zip(jobs, running, strict=True)
    try:
        Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(do_one)(*pair) for pair in pairs)
    except BaseException:
        stopped.set()
        for lock in running:
            with lock:
                pass
        raise
    return None


class _Stopped(Exception):  # noqa: N818 - no error
    """Ends a problem because another one failed or was interrupted."""


def seeds_of(random_state: Any, many: int) -> list[int]:
    """Return a seed for each problem."""
    if type(random_state) is int:
        return list(_seeds_of_number(random_state, many))
    return list(check_random_state(random_state).randint(LARGEST_SEED, size=many).tolist())


@lru_cache(maxsize=64)
def _seeds_of_number(random_state: int, many: int) -> tuple[int, ...]:
    """Seeds of the problems; a generator takes as long to set up as two epochs of few rows."""
    return tuple(check_random_state(random_state).randint(LARGEST_SEED, size=many).tolist())


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


def keep(seen: Seen, *, averages: bool) -> dict[str, Any]:
    """State of a run as plain values, for partial_fit to continue from; any serialiser writes them.

    It leaves out weights that `coef_` already holds, what `eta0_` and `decay_` say, and how the
    last fit ended. Without ``averages``, training continues from `coef_`: a mean that starts again
    with each epoch has nothing to carry over.
    """
    own = (seen.own if isinstance(seen.own, Averages) else Averages())._asdict()
    own["settled"] = 0
    if not averages:
        own |= {"coef": None, "intercept": 0.0, "weight": 0.0}
    state = seen.state._asdict()
    if own["coef"] is None:
        state["coef"] = None
    return state | {"own": own}


def kept(values: dict[str, Any], coef: NDArray[Any], intercept: float) -> tuple[State, Averages]:
    """State that was kept; public weights, which the user may have changed, replace no average."""
    state = State(**{name: value for name, value in values.items() if name != "own"})
    own = Averages(**values["own"])
    return (state._replace(coef=coef, intercept=intercept) if own.coef is None else state), own
