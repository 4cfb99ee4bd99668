"""Mini-batch SGD: `init` and one transition, `epoch`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._util.validation import check_coef, check_count, check_number
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Preconditioner
from antithetic.stochastic.solver import After, Choice, Solution, State, step_rule
from antithetic.stochastic.steps import Schedule

_LEAST_POINTS, _MOST_POINTS = 64, 256  # points of an epoch that are averaged
MEAN, LAST = 1, 2  # which weights were found to be better, where both were looked at
MOST_SAMPLES = int(np.iinfo(np.int64).max)  # the largest number that the kernels count to
_MOST_SKIPPED = 10_000  # rows of the first epoch on the way to where the optimum is


class Averages(NamedTuple):
    """What SGD keeps besides the weights.

    Attributes
    ----------
    coef : ndarray of shape (d,) or None
        Averaged weights, in float64 even for float32 rows; None if nothing is averaged.
    intercept : float or ndarray of shape (n_classes,)
        The averaged intercept, or those of all classes.
    weight : float
        Sum of the weights of what was averaged.
    received : ndarray of shape (d + 1,) or None
        For an L1 penalty: the penalty applied to each weight and, last, the penalty that each
        should have received (see ``_core/cpp/steps.hpp``).
    settled : int
        Whether the mean of the epoch (``MEAN``) or its last weights (``LAST``) were found to be
        better; 0 where they were not compared, and the mean is the solution.
    """

    coef: NDArray[np.float64] | None = None
    intercept: Any = 0.0
    weight: float = 0.0
    received: NDArray[np.float64] | None = None
    settled: int = 0


class EpochArguments(NamedTuple):
    """An epoch as the kernels see it; ``following`` receives the order of the next one."""

    batches: kernels.Batches
    rule: kernels.StepRule
    averaging: kernels.Averaging
    unit: int
    sketched: bool
    following: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Sgd:
    r"""Stochastic gradient descent with a proximal step.

    One step is :math:`w \leftarrow \mathrm{soft}\big((1 - \eta l_2) w - \eta\,\bar g,\ \eta
    l_1\big)` with the mean data gradient of the batch, and a threshold that is carried forward for
    weights at zero; a batch of m rows instead of b takes
    :math:`\eta m / b`. The factor of the L2 penalty is kept at 0 or more.

    Attributes
    ----------
    problem : Problem
    average_from : int
        Samples after which averaging begins; 0 means none.
    linear : bool
        Whether step t has weight t in the average, rather than each the same.
    steepest : float, default=inf
        Slopes beyond it are cut off.
    watch : bool, default=False
        Whether to record the mean loss during an epoch.
    by_epoch : bool, default=False
        Whether the average starts again with each epoch, in the first one after a quarter of it (at
        most 10,000 rows), and is taken over at most 256 evenly spaced points: they remove as much
        noise as all steps would, at a small part of the cost. :meth:`settled` compares it with the
        last weights: an epoch that visits each row once ends with little noise, and once steps are
        short, the noise of its middle makes the mean worse.
    preconditioner : Preconditioner or None, default=None
        Centre and metric that steps are taken in, see :mod:`antithetic.problem.preconditioner`.
    """

    problem: Problem
    average_from: int
    linear: bool
    steepest: float = np.inf
    watch: bool = False
    by_epoch: bool = False
    preconditioner: Preconditioner | None = None
    # the same for every epoch: preconditioner and steps as the kernels see them, averages of
    # nothing, and how many points of an epoch are averaged
    units: kernels.Preconditioner | None = field(init=False, repr=False)
    rule: Callable[[Schedule], kernels.StepRule] = field(init=False, repr=False)
    nothing: Averages = field(init=False, repr=False)
    most_points: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        units = None if self.preconditioner is None else self.preconditioner.kernel()
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "rule", step_rule(self.problem, self.steepest, self.watch))
        nothing = Averages(np.zeros(self.problem.n_weights), self._zero_intercept())
        object.__setattr__(self, "nothing", nothing)
        object.__setattr__(self, "most_points", self._most_points())

    def _most_points(self) -> int:
        return points_to_average(self.problem) if self.by_epoch else MOST_SAMPLES

    @property
    def averages_epochs(self) -> bool:
        """Whether an average over all epochs is the solution."""
        return self.average_from > 0 and not self.by_epoch

    def init(self, coef: Any = None, intercept: float = 0.0) -> tuple[State, Averages]:
        """State before the first step."""
        weights = check_coef(coef, self.problem.d, "coef of init").astype(self.problem.X.dtype)
        own = self.nothing if self.average_from else Averages()
        state = State(weights, check_number(intercept, "intercept of init"))
        return state, own._replace(received=self._received())

    def _zero_intercept(self) -> Any:
        return 0.0

    def _received(self) -> NDArray[np.float64] | None:
        return np.zeros(self.problem.d + 1) if self.problem.penalty.l1 > 0.0 else None

    def take_up(self, state: State, own: Any) -> tuple[State, Averages]:
        """State of an earlier run: of the rows' float type, averaged where that is asked for."""
        own = own if isinstance(own, Averages) else Averages()
        if not self.average_from:
            own = own._replace(coef=None, intercept=self._zero_intercept(), weight=0.0)
        elif own.coef is None:
            own = self.nothing._replace(received=own.received)
        if own.received is None or self.problem.penalty.l1 == 0.0:
            own = own._replace(received=self._received())
        return state._replace(coef=state.coef.astype(self.problem.X.dtype)), own

    def solution(self, state: State, own: Averages) -> Solution:
        """Weights and intercept to be used: the averaged ones, unless the last were better."""
        if own.coef is None or not own.weight or own.settled == LAST:
            return state.coef, state.intercept
        return own.coef.astype(state.coef.dtype), own.intercept

    def settled(self, state: State, own: Averages) -> tuple[Averages, float]:
        """Compare the mean of an epoch with the last weights; also return the objective."""
        ended = state.coef, state.intercept
        with np.errstate(all="ignore"):
            mean, last = self.problem.objectives_of(self.solution(state, own), ended)
        return own._replace(settled=LAST if last < mean else MEAN), last if last < mean else mean

    def gap(self, state: State, own: Averages) -> None:
        """None: there are no dual variables."""

    def followed(self, state: State, own: Averages) -> NDArray[np.float64]:  # noqa: ARG002
        """Slopes of the gradients that are stepped along."""
        return self.problem.slopes(state.coef, state.intercept)

    def epoch(self, state: State, own: Averages, batches: Batches, schedule: Schedule) -> After:
        """Take the steps of one more epoch."""
        steps, start = len(batches.starts) - 1, self.average_from
        if self.by_epoch:
            own = self.nothing._replace(received=own.received)
            skipped = min(len(batches.rows) // 4, _MOST_SKIPPED) if state.epochs == 0 else 0
            start = 1 + state.samples + skipped
        given = EpochArguments(
            kernels.Batches(
                batches.rows,
                batches.starts,
                batches.size,
                batches.factors,
                state.steps,
                state.samples,
            ),
            self.rule(schedule),
            kernels.Averaging(start, self.linear, -(-steps // self.most_points)),
            batches.unit,
            batches.sketched,
            np.empty(len(batches.rows) if batches.unit else 0, np.intp),
        )
        coef, intercept, own, met = self._take_steps(state, own, given)
        mean = None
        if self.by_epoch and own.coef is not None and own.weight:
            mean = own.coef.astype(coef.dtype, copy=False), own.intercept
        samples, epochs = state.samples + len(batches.rows), state.epochs + 1
        return After(
            State(coef, intercept, state.steps + steps, samples, epochs),
            own,
            met / given.batches.counted if self.watch else np.nan,
            given.following if batches.unit else None,
            mean=mean,
        )

    def _take_steps(
        self, state: State, own: Averages, given: EpochArguments
    ) -> tuple[NDArray[Any], Any, Averages, float]:
        """Return weights, intercept and averages after the steps, and the sum of the losses met."""
        problem, coef = self.problem, state.coef.copy()
        average = np.empty(0) if own.coef is None else own.coef.copy()
        received = np.zeros(1) if own.received is None else own.received.copy()
        *found, received[-1], met = problem.rows.sgd_epoch(
            problem.targets,
            given.batches,
            given.rule,
            given.averaging,
            coef,
            state.intercept,
            average,
            own.intercept,
            own.weight,
            received[:-1],
            received[-1],
            given.unit,
            given.following,
            self.units,
        )
        intercept, average_intercept, average_weight = found
        averages = Averages(
            None if own.coef is None else average,
            average_intercept,
            average_weight,
            None if own.received is None else received,
        )
        return coef, intercept, averages, met


def make_sgd(
    problem: Problem, average: bool | int | str, *, steepest: float = np.inf, watch: bool = False
) -> Sgd:
    """Return SGD on a problem.

    ``average`` is a bool, a number of samples before it begins, ``"linear"`` or ``"epoch"``.
    """
    if average in ("linear", "epoch"):
        return Sgd(problem, 1, average == "linear", steepest, watch, average == "epoch")
    if isinstance(average, str):
        raise ValueError(
            'average must be True, False, a number of samples, "linear" or "epoch"; got'
            f" {average!r}"
        )
    return Sgd(
        problem,
        check_count(
            int(average) if isinstance(average, bool) else average, "average", 0, MOST_SAMPLES
        ),
        False,
        steepest,
        watch,
    )


def points_to_average(problem: Problem) -> int:
    """Most points of an epoch: rows per feature, which cost one entry per row, within bounds."""
    n, d = problem.X.shape
    return min(max(int(n // d), _LEAST_POINTS), _MOST_POINTS)


def refuses(choice: Choice) -> str | None:
    """Only SGD's own kernels average, and they support L2 and L1 penalties."""
    if choice.loss.has_classes:
        return _refuses_classes(choice)
    return None if isinstance(choice.penalty, ElasticNet) else choice.refuses_average()


def _refuses_classes(choice: Choice) -> str | None:
    """Softmax supports an L2 penalty, and orders of single rows without probabilities."""
    if choice.penalty_name not in ("none", "l2"):
        return (
            f'loss="softmax" supports only an L2 penalty; got {choice.penalty_name}. Use loss='
            '"log_loss", one problem per class, for other penalties'
        )
    from antithetic.orders import Importance, Stratified

    order = choice.order
    if order is not None and (
        order.pairs is not None or isinstance(order, Importance | Stratified)
    ):
        return (
            f'loss="softmax" supports neither pairs, importance nor strata; got {order!r}. Use'
            ' Shuffle(), Balanced(sketch="auto") or Uniform()'
        )
    return None
