"""Mini-batch SGD: `init` and one transition, `epoch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core.arguments import Balance, CsrRows, DenseRows, Epoch, Model, Rule
from antithetic._util.validation import check_coef, check_count, check_number
from antithetic.orders.batches import Batches
from antithetic.problem import Problem
from antithetic.solvers.steps import Schedule

_LEAST_POINTS, _MOST_POINTS = 64, 256  # of an epoch that are averaged
GIVEN_UP = 2  # times in a row that last weights were better than a mean
_FIRST_COMPARED = 4  # epochs after which a mean is first compared with the last weights
_MOST_SKIPPED = 10_000  # rows of the first epoch on the way to where the optimum is


class SgdState(NamedTuple):
    """Where a run stands after some epochs; arrays are never changed once they are here.

    ``average``, in float64 whatever the rows are, is None where nothing is averaged. ``received``
    (d + 1,), of an L1 penalty, is what the weights have received of it and, last, what each was
    charged with (see :mod:`antithetic._core.threshold`). ``loss`` is the mean loss that was met
    in the last epoch, each row's before the step that it took part in; NaN where nobody watches.

    To :class:`~antithetic.solvers.run.Patience` belong ``best``, the least objective, ``waited``,
    the epochs without a better one, ``lowered``, how often the step was lowered, and ``stopped``,
    whether the run has ended by itself. To :class:`~antithetic.solvers.run.Care` belong ``moved``,
    where the last epoch went, ``aligned``, how many went the same way, and ``eased``, how often the
    decay was halved, and ``objective``, that of the solution if it was looked at, else NaN.
    ``order`` is what a balanced epoch left behind for the next. ``memory`` (n,) is what a solver
    remembers of each row: SVRG and SAGA its slope, SDCA its dual variable; ``mean`` (d + 1,) is the
    mean gradient of the remembered slopes, the intercept's last. ``settled`` counts how often in a
    row the last weights were found better than the mean of their epoch; from ``GIVEN_UP`` on they
    are what is taken.
    """

    coef: NDArray[Any]
    intercept: float
    average: NDArray[Any] | None
    average_intercept: float
    average_weight: float
    epochs: int
    steps: int
    samples: int
    received: NDArray[np.float64] | None = None
    loss: float = np.nan
    best: float = np.inf
    waited: int = 0
    lowered: int = 0
    stopped: bool = False
    moved: NDArray[np.float64] | None = None
    aligned: int = 0
    eased: int = 0
    order: NDArray[np.intp] | None = None
    memory: NDArray[np.float64] | None = None
    mean: NDArray[np.float64] | None = None
    objective: float = np.nan
    settled: int = 0

    @property
    def is_dual(self) -> bool:
        """Whether ``memory`` holds dual variables, which have no mean gradient beside them."""
        return self.memory is not None and self.mean is None

    @property
    def solution(self) -> tuple[NDArray[Any], float]:
        """Weights and intercept to be used: the averaged ones where there are such."""
        if self.average is None or not self.average_weight:
            return self.coef, self.intercept
        return self.average.astype(self.coef.dtype), self.average_intercept


@dataclass(frozen=True, slots=True, eq=False)
class Sgd:
    r"""Stochastic gradient descent with a proximal step.

    One step is :math:`w \leftarrow \mathrm{soft}\big((1 - \eta l_2) w - \eta\,\bar g,\ \eta
    l_1\big)` with the mean data gradient of the batch, and a threshold that is not forgiven to
    weights at zero (:mod:`antithetic._core.threshold`); a batch of m rows instead of b takes
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
        Whether to record the mean loss that an epoch meets.
    by_epoch : bool, default=False
        Whether the average begins anew with each epoch, in the first one after a quarter of it (at
        most 10,000 rows), and is of at most 256 points on the way, evenly spaced: they take the
        noise out as well as all would, at a small part of the cost. After epochs 4, 5, 8, 9, 16, 17
        and so on it is compared with the last weights, and given up for good once these were better
        twice in a row: a path on which each row is met once ends with little noise, and when its
        steps have become short, what is in its middle is no longer forgotten.
    """

    problem: Problem
    average_from: int
    linear: bool
    steepest: float = np.inf
    watch: bool = False
    by_epoch: bool = False

    def init(self, coef: Any = None, intercept: float = 0.0) -> SgdState:
        """State before the first step."""
        real = self.problem.X.dtype
        weights = check_coef(coef, self.problem.d, "coef_init").astype(real)
        average = np.zeros(self.problem.d) if self.average_from else None
        return SgdState(
            weights,
            check_number(intercept, "intercept_init"),
            average,
            0.0,
            0.0,
            0,
            0,
            0,
            received=self._received(),
        )

    def _received(self) -> NDArray[np.float64] | None:
        return np.zeros(self.problem.d + 1) if self.problem.penalty.l1 > 0.0 else None

    def take_up(self, state: SgdState) -> SgdState:
        """State of an earlier run, made to fit this one: of the rows' float type, and with an average exactly where one is asked for."""
        average = state.average if self.average_from else None
        if self.average_from and average is None:
            state, average = (
                state._replace(average_intercept=0.0, average_weight=0.0),
                np.zeros(self.problem.d),
            )
        received = (
            self._received()
            if state.received is None or self.problem.penalty.l1 == 0.0
            else state.received
        )
        return state._replace(
            coef=state.coef.astype(self.problem.X.dtype), average=average, received=received
        )

    def epoch(self, state: SgdState, batches: Batches, schedule: Schedule) -> SgdState:
        """State after the batches of one more epoch."""
        problem = self.problem
        average_from, average_every = self.average_from, 1
        if self.by_epoch:
            state = _without_average(state)
            skipped = min(len(batches.rows) // 4, _MOST_SKIPPED) if state.epochs == 0 else 0
            average_from = 0 if state.settled == GIVEN_UP else 1 + state.samples + skipped
            average_every = -(-(len(batches.starts) - 1) // _points_to_average(problem))
        received = np.zeros(1) if state.received is None else state.received.copy()
        model = Model(
            state.coef.copy(),
            np.array([state.intercept]),
            np.empty(0) if state.average is None else state.average.copy(),
            np.array([state.average_intercept]),
            np.array([state.average_weight]),
            np.zeros(1),
            received[:-1],
            received[-1:],
        )
        rule = Rule(
            problem.loss.code,
            problem.loss.epsilon,
            float(problem.penalty.l2),
            float(problem.penalty.l1),
            *schedule,
            problem.fit_intercept,
            average_from,
            self.linear,
            average_every,
            self.steepest,
            self.watch,
        )
        order = _run_kernel(problem, batches, rule, model, state.steps, state.samples)
        after = state._replace(
            coef=model.coef,
            intercept=float(model.intercept[0]),
            average=None if state.average is None else model.average,
            average_intercept=float(model.average_intercept[0]),
            average_weight=float(model.average_weight[0]),
            epochs=state.epochs + 1,
            steps=state.steps + len(batches.starts) - 1,
            samples=state.samples + len(batches.rows),
            received=None if state.received is None else received,
            loss=float(model.met[0]) / batches.counted if self.watch else np.nan,
            order=order,
        )
        judged = self.by_epoch and after.settled < GIVEN_UP and _is_compared(after.epochs)
        return self._settle(after) if judged else after

    def _settle(self, state: SgdState) -> SgdState:
        """Compare the mean of an epoch with the last weights.

        Give it up if these were better before.
        """
        with np.errstate(all="ignore"):
            mean, last = (
                self.problem.objective(*state.solution),
                self.problem.objective(state.coef, state.intercept),
            )
        state = state._replace(settled=state.settled + 1 if last < mean else 0, objective=mean)
        return (
            _without_average(state)._replace(objective=last) if state.settled == GIVEN_UP else state
        )


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
        check_count(int(average) if isinstance(average, bool) else average, "average", least=0),
        False,
        steepest,
        watch,
    )


def _is_compared(epochs: int) -> bool:
    return epochs >= _FIRST_COMPARED and (epochs.bit_count() == 1 or (epochs - 1).bit_count() == 1)


def _without_average(state: SgdState) -> SgdState:
    return state._replace(
        average=np.zeros(len(state.coef)), average_intercept=0.0, average_weight=0.0
    )


def _points_to_average(problem: Problem) -> int:
    """Most points of an epoch: as many as rows per feature, which is one entry more per row, but at least some."""
    return min(max(problem.n // problem.d, _LEAST_POINTS), _MOST_POINTS)


def _run_kernel(
    problem: Problem, batches: Batches, rule: Rule, model: Model, steps: int, samples: int
) -> NDArray[np.intp] | None:
    """Run an epoch; return the order that the next one should have, if it is to be balanced."""
    from antithetic._core.jit import read_only, unsigned

    real = problem.X.dtype
    factors = read_only(np.empty(0) if batches.factors is None else batches.factors)
    epoch = Epoch(
        unsigned(batches.rows), unsigned(batches.starts), batches.size, factors, steps, samples
    )
    labels = read_only(problem.y.astype(real, copy=False))
    weights = read_only(
        np.empty(0, real) if problem.weight is None else problem.weight.astype(real, copy=False)
    )
    following = np.empty(len(batches.rows) if batches.unit else 0, np.intp)
    balance = Balance(
        batches.unit, unsigned(following), np.zeros(problem.d + 1 if batches.unit else 0, real)
    )
    if sparse.issparse(problem.X):
        from antithetic._core.sgd_csr import csr_epoch

        X = problem.X
        rows = CsrRows(
            read_only(X.data),
            unsigned(read_only(X.indices)),
            unsigned(read_only(X.indptr)),
            labels,
            weights,
        )
        csr_epoch(rows, epoch, rule, model, balance)
    else:
        from antithetic._core.sgd_dense import dense_epoch

        dense_epoch(DenseRows(read_only(problem.X), labels, weights), epoch, rule, model, balance)
    return following if batches.unit else None
