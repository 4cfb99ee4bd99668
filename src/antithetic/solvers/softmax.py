"""Mini-batch SGD on the softmax loss: one row of weights per class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import default_threads
from antithetic._util.validation import check_coef, check_count
from antithetic.orders.shuffle import ShuffledRows
from antithetic.problem import SoftmaxProblem
from antithetic.problem.losses import SOFTMAX
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.divergence import check_finite
from antithetic.solvers.sgd import Averages, EpochArguments, Sgd, make_sgd, points_to_average
from antithetic.solvers.state import After, State

# About the size of the nearest caches. Small batches wait for weights that exceed it, and an epoch
# in batches of 32 then takes 0.8 times as long.
_CACHE_BYTES = 1 << 17
_SKETCH_BYTES = 1 << 14
_SMALL_BATCH, _LARGE_BATCH = 8, 32


def softmax_batch_size(n_weights: int, itemsize: int) -> int:
    """Rows per step for a number of weights: 8, or 32 if the weights do not fit into a cache."""
    return _SMALL_BATCH if n_weights * itemsize <= _CACHE_BYTES else _LARGE_BATCH


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxSgd(Sgd):
    """Stochastic gradient descent on a `SoftmaxProblem` with an L2 penalty.

    As `Sgd`, except that averages over all steps use at most 256 evenly spaced points of an epoch.
    The same seed gives the same bits with any number of threads.
    """

    problem: SoftmaxProblem
    threads: int = 1

    def init(self, coef: Any = None, intercept: Any = 0.0) -> tuple[State, Averages]:
        """State before the first step."""
        problem = self.problem
        flat = None if coef is None else np.asarray(coef, dtype=np.float64).ravel()
        if flat is not None and len(flat) != problem.n_weights:
            raise ValueError(
                f"coef of init must have shape ({problem.n_classes}, {problem.d}), one row of"
                f" weights per class; got {np.shape(coef)}"
            )
        weights = check_coef(flat, problem.n_weights, "coef of init").astype(problem.X.dtype)
        state = State(weights, check_intercepts(intercept, problem.n_classes))
        return state, self.nothing if self.average_from else Averages()

    def _zero_intercept(self) -> NDArray[np.float64]:
        return np.zeros(self.problem.n_classes)

    def _most_points(self) -> int:
        return points_to_average(self.problem)

    def _take_steps(
        self, state: State, own: Averages, given: EpochArguments
    ) -> tuple[NDArray[Any], Any, Averages, float]:
        problem, coef, intercept = self.problem, state.coef.copy(), state.intercept.copy()
        average = np.empty(0) if own.coef is None else own.coef.copy()
        constants = np.empty(0) if own.coef is None else own.intercept.copy()
        weight, met = problem.rows.softmax_epoch(
            problem.class_targets,
            given.batches,
            given.rule,
            given.averaging,
            coef,
            intercept,
            average,
            constants,
            own.weight,
            given.unit,
            _SKETCH_BYTES if given.sketched else 0,
            given.following,
            self.threads,
            self.units,
        )
        if own.coef is not None:
            own = own._replace(coef=average, intercept=constants, weight=weight)
        return coef, intercept, own, met


def check_intercepts(intercept: Any, n_classes: int) -> NDArray[np.float64]:
    """Return finite intercepts, one per class; a single number stands for all of them."""
    given = np.asarray(intercept, dtype=np.float64)
    if given.shape not in ((), (n_classes,)):
        raise ValueError(
            f"intercept of init must be a number, or have shape ({n_classes},), one per class; got"
            f" {given.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError("intercept of init has NaN or infinity")
    return np.full(n_classes, given)


def make_softmax_sgd(
    problem: SoftmaxProblem,
    average: bool | int | str,
    *,
    watch: bool = False,
    threads: int | None = None,
) -> SoftmaxSgd:
    """Return SGD on a softmax problem; None means as many threads as BLAS would use."""
    plain = make_sgd(problem, average, watch=watch)
    settings = (plain.average_from, plain.linear, plain.steepest, watch, plain.by_epoch)
    threads = default_threads() if threads is None else threads
    return SoftmaxSgd(problem, *settings, threads=threads)


def softmax_sgd(
    X: Any,
    codes: NDArray[np.intp],
    n_classes: int,
    *,
    l2: float,
    fit_intercept: bool = False,
    sample_weight: NDArray[np.float64] | None = None,
    epochs: int = 1,
    seed: int = 0,
    threads: int | None = None,
    coef: NDArray[Any] | None = None,
    intercept: NDArray[np.float64] | None = None,
    must_gain: bool = False,
) -> tuple[NDArray[Any], NDArray[np.float64]] | None:
    """Return weights and intercepts after some reshuffled epochs: the mean over the last one.

    Finding the steps takes less than half an epoch.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Checked rows, float32 or float64.
    codes : ndarray of shape (n,)
        Class of each row, from 0.
    n_classes : int
    l2 : float
        Strength of the penalty ``l2 / 2 |W|^2``.
    fit_intercept : bool, default=False
        Whether there are intercepts, which are not penalised.
    sample_weight : ndarray of shape (n,) or None
    epochs : int, default=1
    seed : int, default=0
    threads : int or None
        None means as many as BLAS would use. The result does not depend on it.
    coef, intercept : ndarray of shapes (n_classes, d) and (n_classes,), or None
        Initial weights; None means zero.
    must_gain : bool, default=False
        Whether to return None if short passes with all the step sizes tried gain nothing on other
        rows.

    Returns
    -------
    tuple of ndarrays of shapes (n_classes, d) and (n_classes,), or None
        Weights, in the rows' float type, and intercepts.
    """
    from antithetic.solvers.softmax_steps import try_softmax_steps

    y, n = codes.astype(np.float64), X.shape[0]
    penalty = ElasticNet(l2=l2)
    problem = SoftmaxProblem(X, y, SOFTMAX, penalty, sample_weight, fit_intercept, None, n_classes)
    size = min(softmax_batch_size(problem.n_weights, X.dtype.itemsize), n)
    solver = make_softmax_sgd(problem, "epoch", threads=threads)
    after = After(*solver.init(coef, 0.0 if intercept is None else intercept))
    tried = try_softmax_steps(
        problem, size, seed, after.state, threads=solver.threads, must_gain=must_gain
    )
    if must_gain and not tried.gain > 0.0:
        return None
    schedule = tried.steps.schedule(problem.loss, penalty)
    order = ShuffledRows(n, size, seed)
    # only the last epoch is averaged
    for epoch in range(check_count(epochs, "epochs", least=1)):
        used = solver if epoch == epochs - 1 else replace(solver, average_from=0, by_epoch=False)
        state, own = used.take_up(after.state, after.own)
        after = used.epoch(state, own, order.batches(epoch), schedule)
        check_finite(problem, after.state, schedule)
    weights, constants = solver.solution(after.state, after.own)
    return weights.reshape(n_classes, X.shape[1]), constants
