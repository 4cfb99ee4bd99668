"""Many classes: the same method on sums of many classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._util.validation import Matrix
from antithetic.exact.class_hessians import MOST_SQUARE
from antithetic.exact.class_rows import ROWS_PER_COLUMN
from antithetic.exact.class_sums import ClassSums
from antithetic.exact.row_sums import RowSums
from antithetic.exact.sums import Vector
from antithetic.problem.centre import centre_of
from antithetic.problem.penalties import Penalty
from antithetic.solvers.divergence import DivergenceError
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.levels import accuracy
from antithetic.solvers.newton.path import PathEffort, follow_path
from antithetic.solvers.newton.rounded import as_float32, rounded_to
from antithetic.solvers.newton.whitened import FEW_WEIGHTS, SharedFactor
from antithetic.solvers.softmax import softmax_sgd

_LEAST_ROWS = 1500  # of which an epoch leads somewhere
_LEAST_WORK = 4e6  # entries of all rows times classes: below, its overhead is that of many passes
_LEAST_TOL, _MOST_STEPS = 1e-16, 50  # on a sample, whose noise is the limit
_MOST_RATIO = 1e3  # of the scales of columns that one step size suits
_CHEAP = 0.1  # of an epoch
_ROWS_THAT_JUDGE = 1000


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
    has_means : bool
        Whether a step from the means of the classes came first, or before that epoch.
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
    has_means: bool


def solve_classes(
    sums: ClassSums,
    penalties: Sequence[Penalty],
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    seed: int = 0,
    watch: Callable[[Callable[[], SolvedClasses]], object] | None = None,
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
    begun: list[FirstWeights] = []

    def first(sums: ClassSums, newton: Newton) -> Vector | None:  # noqa: ARG001
        begun.append(first_weights(sums, seed))
        return begun[0].theta

    def found(sums: ClassSums, newton: Newton, iterate: Iterate) -> SolvedClasses:
        return _solved(sums, newton, iterate, begun[0] if begun else FirstWeights(None))

    effort = PathEffort(tol, max_iter, seed)
    given = None if start is None else sums.in_gauge(sums.join(*start))
    return follow_path(sums, penalties, effort, given, first, found, watch)


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
    centre = centre_of(X, weight) if fit_intercept else None
    return ClassSums(X, labels, classes, penalty, weight, centre, threads)


def _solved(
    sums: ClassSums, newton: Newton, iterate: Iterate, begun: FirstWeights
) -> SolvedClasses:
    coef, intercepts = sums.split(sums.in_gauge(iterate.point.theta))
    coef, intercepts = np.array(coef), intercepts - intercepts.mean()
    if sums.is_single:
        coef, intercepts = as_float32(coef), as_float32(intercepts)
        iterate = rounded_to(newton, iterate, sums.join(coef, intercepts))
    return SolvedClasses(
        coef,
        intercepts,
        iterate.gap,
        iterate.certified,
        iterate.iterations,
        iterate.ended or "max_iter",
        newton.sizes,
        newton.method,
        begun.has_epoch,
        begun.has_means,
    )


def solve_sample(sums: RowSums | ClassSums, seed: int) -> Vector:
    """Weights of some of many rows, as near to their optimum as their noise allows."""
    newton = Newton(sums, _LEAST_TOL, seed)
    progress = newton.start(
        first_weights(sums, seed).theta if isinstance(sums, ClassSums) else None
    )
    for _ in range(_MOST_STEPS):
        if progress.ended:
            break
        enough = accuracy(sums, progress.point)
        progress = newton.step(progress)
        if newton.last_decrement <= enough:
            break
    return progress.point.theta


class FirstWeights(NamedTuple):
    """Weights to begin with, None if there are no better ones than zero, and how they were made."""

    theta: Vector | None
    has_epoch: bool = False
    has_means: bool = False


def first_weights(sums: ClassSums, seed: int) -> FirstWeights:
    """Weights after an epoch of stochastic gradient descent, where that is worth it.

    An epoch costs about as much as a pass, and leads further than ten steps that visit all rows. It
    is not worth it with few rows or where a pass is little work, with so few weights that their
    Hessian is cheap, or with an L1 penalty, and of no use where columns are on very different
    scales. With many classes it begins at what their means tell, and is left out if it gains
    nothing from there.
    """
    if sums.penalty.l1 > 0.0 or sums.d <= FEW_WEIGHTS or sums.n < _LEAST_ROWS:
        return FirstWeights(None)
    start = weights_from_means(sums, seed)
    without_epoch = FirstWeights(start, has_means=start is not None)
    if float(sums.n) * sums.d < _LEAST_WORK or sums.scale_ratio() > _MOST_RATIO:
        return without_epoch
    coef, intercepts = (None, None) if start is None else sums.split(start)
    try:
        found = softmax_sgd(
            sums.X,
            sums.labels,
            sums.classes,
            l2=sums.penalty.l2,
            fit_intercept=sums.fit_intercept,
            sample_weight=sums.weight,
            epochs=1,
            seed=seed,
            threads=sums.threads,
            coef=coef,
            intercept=intercepts,
            must_gain=start is not None,
        )
    except DivergenceError:
        return without_epoch
    if found is None:
        return without_epoch
    coef, intercepts = found
    theta = sums.in_gauge(sums.join(coef.astype(np.float64), intercepts))
    return without_epoch._replace(theta=theta, has_epoch=True)


def weights_from_means(sums: ClassSums, seed: int) -> Vector | None:
    """One step of Newton's method from the best constant, with a matrix that all classes share.

    The gradient there is made of the means of the classes, and needs no scores. So the step is
    cheap if the matrix is, as with few columns and many classes. None where it costs more than it
    may, or does not gain.
    """
    d, l2 = sums.features, sums.penalty.l2
    sample = min(sums.n, ROWS_PER_COLUMN * d)
    if d > MOST_SQUARE or sample * d > _CHEAP * 4.0 * sums.n * sums.classes:
        return None
    point = sums.at_constant()
    shared = SharedFactor(sums.whitening(point, seed), l2, fit_intercept=sums.fit_intercept)
    theta = point.theta - shared.solve(point.gradient)
    some = sums.some_rows(_ROWS_THAT_JUDGE, seed)
    gains = np.isfinite(theta).all() and some.at(theta).objective < some.at(point.theta).objective
    return theta if gains else None
