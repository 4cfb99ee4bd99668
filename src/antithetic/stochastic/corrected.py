r"""Proximal steps along corrected gradients: SVRG and SAGA.

Plain steps too, for penalties that SGD's kernels do not know.

The gradient of a row is one number times the row, so a correction needs one number per row: its
stored slope :math:`m_i`. A step goes along

.. math:: \frac1b \sum_{k \in B} f_k (c_k - m_k)\, x_k + \frac1n \sum_i m_i x_i

with the current slopes c and the factors f of the draw. Any draw of rows, pairs or groups that
makes the mean gradient of a batch unbiased makes this unbiased too, and its variance goes to zero
with the distance from the weights at which the slopes were stored. SVRG stores the slopes at the
beginning of each epoch, at the price of one more pass; SAGA those of each row's last visit. A first
epoch from zero weights starts with stored slopes of zero, so its steps are plain ones: corrected
steps would all go along the gradient at zero, which is not worth an epoch (measured: two epochs,
and a pass, are saved).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic._core.schedules import step_size
from antithetic._util.validation import check_coef, check_number
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.penalties import GroupNorms, OwnPenalty
from antithetic.problem.smoothness import batch_smoothness
from antithetic.stochastic.solver import (
    After,
    Choice,
    DivergenceError,
    Solution,
    State,
    overflow_message,
    step_rule,
)
from antithetic.stochastic.steps import Schedule

# measured: a third is slower on ill-conditioned rows, one on noisy ones
_STEPS_PER_SMOOTHNESS = 0.5
# Along a direction that only one row has, a step goes eta L_i / b = 0.5 / share of the way. SAGA,
# whose slopes are up to two epochs old, leaves the solution beyond 0.68 (simulated), SVRG beyond 2.
_LEAST_SHARES = {"saga": 0.8, "svrg": 0.5}
_ROUNDING = 1e4  # what a slope may lose, in units of the last place


class Memory(NamedTuple):
    """What corrects a step: slopes (n,), none where nothing is corrected, and their mean gradient.

    The mean gradient (d + 1,) is of the rows' float type, the intercept's last. With ``keeps`` a
    step renews what it has used (SAGA).
    """

    slopes: NDArray[np.float64]
    mean: NDArray[Any]
    keeps: bool


class Remembered(NamedTuple):
    """What is stored for each row.

    Attributes
    ----------
    slopes : ndarray of shape (n,) or None
        Its slope; None before anything is stored.
    mean : ndarray of shape (d + 1,) or None
        Mean gradient of these slopes, the intercept's last.
    """

    slopes: NDArray[np.float64] | None = None
    mean: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Corrected:
    """Proximal steps, corrected by the stored slopes of the rows.

    Attributes
    ----------
    problem : Problem
    kind : {"sgd", "svrg", "saga"}
        ``"sgd"`` corrects nothing.
    steepest : float, default=inf
        Slopes beyond it are cut off.
    watch : bool, default=False
        Whether to record the mean loss during an epoch.
    """

    problem: Problem
    kind: str
    steepest: float = np.inf
    watch: bool = False

    by_epoch = averages_epochs = False  # nothing is averaged

    def init(self, coef: Any = None, intercept: float = 0.0) -> tuple[State, Remembered]:
        """State before the first step.

        Weights that the user's penalty does not allow are replaced by the nearest that it allows.
        """
        real, penalty = self.problem.X.dtype, self.problem.penalty
        weights = check_coef(coef, self.problem.d, "coef of init").astype(real)
        if isinstance(penalty, OwnPenalty) and penalty.value(weights) == np.inf:
            weights = penalty.nonsmooth_prox(weights, 1.0).astype(real)
        return State(weights, check_number(intercept, "intercept of init")), Remembered()

    def take_up(self, state: State, own: Any) -> tuple[State, Remembered]:
        """State of an earlier run; slopes stored for other rows are dropped."""
        kept = isinstance(own, Remembered) and own.slopes is not None
        kept = kept and len(own.slopes) == self.problem.n
        coef = state.coef.astype(self.problem.X.dtype)
        return state._replace(coef=coef), own if kept else Remembered()

    def solution(self, state: State, own: Remembered) -> Solution:  # noqa: ARG002
        """Weights and intercept to be used: the last ones."""
        return state.coef, state.intercept

    def gap(self, state: State, own: Remembered) -> None:
        """None: there are no dual variables."""

    def followed(self, state: State, own: Remembered) -> NDArray[np.float64]:
        """Slopes of the gradients that are stepped along: minus the stored ones."""
        slopes = self.problem.slopes(state.coef, state.intercept)
        return slopes if own.slopes is None else slopes - own.slopes

    def epoch(self, state: State, own: Remembered, batches: Batches, schedule: Schedule) -> After:
        """Take the steps of one more epoch."""
        problem, memory = self.problem, self._remember(state, own)
        rule = step_rule(problem, self.steepest, self.watch)(schedule)
        kernel = _Kernel(problem, batches, memory, state, rule)
        if isinstance(problem.penalty, OwnPenalty):
            self._step_by_step(kernel, state, schedule, problem.penalty)
        else:
            kernel.run(batches, state)
        corrects = self.kind != "sgd"
        return After(
            State(
                kernel.coef,
                kernel.intercept,
                state.steps + len(batches.starts) - 1,
                state.samples + len(batches.rows),
                state.epochs + 1,
            ),
            Remembered(memory.slopes, memory.mean.astype(np.float64)) if corrects else Remembered(),
            kernel.met / kernel.counted if self.watch else np.nan,
            kernel.balance() if batches.unit else None,
        )

    @staticmethod
    def _step_by_step(
        kernel: _Kernel, state: State, schedule: Schedule, penalty: OwnPenalty
    ) -> None:
        """Take one step at a time, and after each the proximal step of the user's penalty."""
        batches = kernel.batches
        for batch in range(len(batches.starts) - 1):
            begin, end = batches.starts[batch : batch + 2].tolist()
            steps, samples = state.steps + batch, state.samples + begin
            kernel.run(
                batches._replace(
                    rows=batches.rows[begin:end],
                    starts=np.array([0, end - begin]),
                    factors=batches.factors[begin:end],
                ),
                state._replace(steps=steps, samples=samples),
                begin,
            )
            part = 1.0 if len(batches.factors) else (end - begin) / batches.size
            eta = step_size(*schedule, steps, samples)
            kernel.coef[:] = penalty.nonsmooth_prox(kernel.coef, eta * part)

    def _remember(self, state: State, own: Remembered) -> Memory:
        """Slopes to correct by.

        Those at the present weights, or those of an earlier epoch of SAGA, which are copied; zeros
        before anything has moved.
        """
        problem, real = self.problem, self.problem.X.dtype
        if self.kind == "sgd":
            return Memory(np.empty(0), np.zeros(problem.d + 1, real), False)
        keeps, kept = self.kind == "saga", own.slopes
        if state.epochs == 0 and kept is None and not (state.coef.any() or state.intercept):
            return Memory(np.zeros(problem.n), np.zeros(problem.d + 1, real), keeps)
        if not keeps or kept is None:
            slopes = problem.slopes(state.coef, state.intercept)
            if np.isfinite(self.steepest):  # as in the kernels, before the weights
                most = self.steepest if problem.weight is None else self.steepest * problem.weight
                slopes = np.clip(slopes, -most, most)
        else:
            slopes = kept.copy()
        if keeps and kept is not None and own.mean is not None and real == np.float64:
            return Memory(slopes, own.mean.copy(), True)
        # in float32 the sums of many steps are too coarse to continue from
        data, constant = problem.data_gradient(slopes)
        return Memory(slopes, np.append(data, constant).astype(real), keeps)


class _Kernel:
    """The state within an epoch: weights, and the losses of the rows so far."""

    def __init__(
        self,
        problem: Problem,
        batches: Batches,
        memory: Memory,
        state: State,
        rule: kernels.StepRule,
    ) -> None:
        self.problem, self.batches, self.memory, self.rule = problem, batches, memory, rule
        self.groups = _layout(problem)
        self.coef, self.intercept, self.met = state.coef.copy(), state.intercept, 0.0
        self.counted = 0
        self.multiples = np.empty(len(batches.rows) if batches.unit else 0)

    def run(self, batches: Batches, state: State, begin: int = 0) -> None:
        """Take the steps of some batches, whose rows begin at a place of the epoch."""
        given = kernels.Batches(
            batches.rows,
            batches.starts,
            batches.size,
            batches.factors,
            state.steps,
            state.samples,
        )
        self.intercept, met = self.problem.rows.corrected_epoch(
            self.problem.targets,
            given,
            self.rule,
            self.coef,
            self.intercept,
            self.memory.slopes,
            self.memory.mean,
            self.memory.keeps,
            *self.groups,
            self.multiples[begin : begin + len(batches.rows)],
        )
        self.met += met
        self.counted += given.counted

    def balance(self) -> NDArray[np.intp]:
        """Order of the next epoch, from the gradients that the last one stepped along."""
        batches, slopes = self.batches, self.memory.slopes
        if len(slopes):
            # an unchanged slope still differs by rounding, which must not decide
            rounding = _ROUNDING * np.finfo(self.coef.dtype).eps
            same = np.abs(self.multiples) <= rounding * np.abs(slopes[batches.rows])
            self.multiples[same] = 0.0
        following = np.empty(len(batches.rows), np.intp)
        intercept, unit = self.problem.fit_intercept, batches.unit
        self.problem.rows.balance(batches.rows, self.multiples, intercept, unit, following)
        return following


def _layout(problem: Problem) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Members, starts and owners of a group penalty; empty without one."""
    if isinstance(problem.penalty, GroupNorms):
        return problem.penalty.layout(problem.d)
    nothing = np.empty(0, np.intp)
    return nothing, nothing, nothing


def safe_step(problem: Problem, n_units: int, squares: NDArray[np.float64], kind: str) -> float:
    """Constant step size of SVRG and SAGA for batches of a number of units.

    ``squares`` are the weighted squares of what is drawn.
    """
    if not np.isfinite(problem.loss.largest_curvature):
        raise ValueError(
            f"loss {problem.loss.name!r} has a kink, so no step size follows from its smoothness;"
            ' give a constant step, or use solver="sgd"'
        )
    largest = batch_smoothness(problem, n_units, squares, _LEAST_SHARES[kind])
    if not np.isfinite(largest):
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    return _STEPS_PER_SMOOTHNESS / largest if largest > 0.0 else 1.0


def check_shrinking(problem: Problem, schedule: Schedule, kind: str) -> None:
    """Refuse steps of SVRG or SAGA so long that the L2 penalty would shrink weights beyond zero.

    A constant step would then settle elsewhere.
    """
    shrunk = step_size(*schedule, 0, 0) * problem.penalty.l2
    if shrunk >= 1.0:
        raise ValueError(
            f"the first step times the L2 penalty is {shrunk:.3g}, with which solver={kind!r} does"
            f" not reach the solution; use a step below {1.0 / problem.penalty.l2:.3g}, or"
            " automatic steps"
        )


def refuses(choice: Choice) -> str | None:
    """SAGA stores slopes of the rows' last visits, which must not be too long ago."""
    if choice.solver == "saga" and choice.order is not None and choice.order.balances:
        # of two rows one goes from the front to the back, so its slope is two epochs old:
        # measured, it loses linear convergence
        return (
            'order="balanced" makes half of SAGA\'s stored slopes outdated; use order="shuffle",'
            ' or solver="svrg" or "sgd"'
        )
    return choice.refuses_average()
