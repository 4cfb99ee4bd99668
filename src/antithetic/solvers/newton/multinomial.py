"""Many classes: the same method on sums of many classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix
from antithetic.problem.class_sums import ClassSums
from antithetic.problem.curvature import RowSums
from antithetic.problem.penalties import Penalty
from antithetic.problem.sums import Vector
from antithetic.solvers.divergence import DivergenceError
from antithetic.solvers.newton.centre import centre_of
from antithetic.solvers.newton.iterations import Iterate, Newton
from antithetic.solvers.newton.levels import accuracy
from antithetic.solvers.newton.path import PathEffort, follow_path
from antithetic.solvers.newton.whitened import FEW_WEIGHTS
from antithetic.solvers.softmax import softmax_sgd

_LEAST_ROWS = 1500  # of which an epoch leads somewhere
_LEAST_TOL, _MOST_STEPS = 1e-16, 50  # on a sample, whose noise is the limit
_MOST_RATIO = 1e3  # of the scales of columns that one step size suits


class SolvedClasses(NamedTuple):
    """Weights of many classes; the other entries are those of one solution.

    Attributes
    ----------
    coef : ndarray of shape (classes, features)
    intercept : ndarray of shape (classes,)
    gap, certified, iterations, ended, sizes, method
        See :class:`antithetic.solvers.newton.Solved`.
    has_epoch : bool
        Whether an epoch of stochastic gradient descent came first.
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    gap: float
    certified: bool
    iterations: int
    ended: str
    sizes: tuple[int, ...]
    method: str
    has_epoch: bool


def solve_classes(
    sums: ClassSums,
    penalties: Sequence[Penalty],
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    seed: int = 0,
    watch: Callable[[SolvedClasses], object] | None = None,
) -> list[SolvedClasses]:
    """Minimise the cross-entropy of many classes with each of several penalties.

    Parameters
    ----------
    sums : ClassSums
    penalties : sequence of Penalty
        Strong ones first: each begins where the one before ended.
    tol, max_iter, seed, watch
        See :func:`antithetic.solvers.newton.solve_problem`.
    start : tuple of ndarrays of shape (classes, features) and (classes,), default=None
        Weights and intercepts to begin with.
    """
    begun: list[Vector] = []

    def first(sums: ClassSums, newton: Newton) -> Vector | None:  # noqa: ARG001
        if start is not None:
            return sums.in_gauge(sums.join(*start))
        weights = first_weights(sums, seed)
        if weights is not None:
            begun.append(weights)
        return weights

    def found(sums: ClassSums, newton: Newton, iterate: Iterate) -> SolvedClasses:
        return _solved(sums, newton, iterate, has_epoch=bool(begun))

    return follow_path(sums, penalties, PathEffort(tol, max_iter, seed), first, found, watch)


def class_sums_of(
    X: Matrix,
    labels: NDArray[np.intp],
    classes: int,
    penalty: Penalty,
    weight: NDArray[np.float64] | None,
    *,
    fit_intercept: bool,
    threads: int = 1,
) -> ClassSums:
    """Sums over rows of many classes, of centred columns if there are intercepts."""
    centre = centre_of(X) if fit_intercept else None
    return ClassSums(X, labels, classes, penalty, weight, centre, threads)


def _solved(sums: ClassSums, newton: Newton, iterate: Iterate, *, has_epoch: bool) -> SolvedClasses:
    coef, intercepts = sums.split(iterate.point.theta)
    return SolvedClasses(
        np.array(coef),
        intercepts - intercepts.mean(),
        iterate.gap,
        iterate.certified,
        iterate.iterations,
        iterate.ended or "max_iter",
        newton.sizes,
        newton.method,
        has_epoch,
    )


def solve_sample(sums: RowSums | ClassSums, seed: int) -> Vector:
    """Weights of some of many rows, as near to their optimum as their noise allows."""
    newton = Newton(sums, _LEAST_TOL, seed)
    progress = newton.start(first_weights(sums, seed) if isinstance(sums, ClassSums) else None)
    for _ in range(_MOST_STEPS):
        if progress.ended:
            break
        enough = accuracy(sums, progress.point)
        progress = newton.step(progress)
        if newton.last_decrement <= enough:
            break
    return progress.point.theta


def first_weights(sums: ClassSums, seed: int) -> Vector | None:
    """Weights after an epoch of stochastic gradient descent, where that is worth it.

    An epoch costs about as much as a pass, and leads further than ten steps that visit all rows. It
    is not worth it with few rows, with so few weights that their Hessian is cheap, or with an L1
    penalty, and of no use where columns are on very different scales.
    """
    if sums.penalty.l1 > 0.0 or sums.d <= FEW_WEIGHTS or sums.n < _LEAST_ROWS:
        return None
    if sums.scale_ratio() > _MOST_RATIO:
        return None
    try:
        coef, intercepts = softmax_sgd(
            sums.X,
            sums.labels,
            sums.classes,
            l2=sums.penalty.l2,
            fit_intercept=sums.fit_intercept,
            sample_weight=sums.weight,
            epochs=1,
            seed=seed,
            threads=sums.threads,
        )
    except DivergenceError:
        return None
    return sums.in_gauge(sums.join(coef.astype(np.float64), intercepts))
