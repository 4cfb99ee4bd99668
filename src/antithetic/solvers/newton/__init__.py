"""Newton's method on growing samples: any accuracy, no step size, columns of any scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import LOG_LOSS
from antithetic.exact.row_sums import RowSums
from antithetic.problem import Problem
from antithetic.problem.centre import centre_of
from antithetic.problem.penalties import Penalty
from antithetic.solvers.newton.epoch_start import epoch_start
from antithetic.solvers.newton.few_rows import are_few_rows, as_given_back, solve_few_rows
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.iterations import Newton
from antithetic.solvers.newton.path import PathEffort, follow_path
from antithetic.solvers.newton.rounded import rounded_to

__all__ = ["Solved", "solve_at_once", "solve_path", "solve_problem", "sums_of"]


class Solved(NamedTuple):
    """Weights that minimise the objective, and how near to the optimum they are.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    intercept : float
    gap : float
        Bound on the objective's distance from its optimum, in units of that of the best constant
        prediction.
    certified : bool
        Whether the gap is a bound; without a penalty it is an estimate.
    iterations : int
        Iterations over all rows; epochs, if dual ascent was enough.
    ended : str
        "gap" where it is small enough, "rounding" where no better weights were found, "max_iter".
    sizes : tuple of int
        Rows of the samples that came first.
    method : str
        How steps were found: "newton", "L-BFGS" (without a Hessian), "conjugate gradients", "dual
        ascent" or, with an L1 penalty and very many columns, "working set".
    has_epoch : bool
        Whether an epoch of stochastic gradient descent came first.
    """

    coef: NDArray[np.float64]
    intercept: float
    gap: float
    certified: bool
    iterations: int
    ended: str
    sizes: tuple[int, ...]
    method: str
    has_epoch: bool = False


def solve_problem(
    problem: Problem,
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], float] | None = None,
    seed: int = 0,
    threads: int = 1,
    watch: Callable[[Callable[[], Solved]], object] | None = None,
) -> Solved:
    """Minimise the objective of a problem whose loss is smooth.

    Parameters
    ----------
    problem : Problem
    tol : float
        The run ends when the objective is this close to its optimum, in units of the distance of
        the best constant prediction from it.
    max_iter : int
        Most iterations over all rows; with 0, the weights are those of ``start``, else zero.
    start : tuple of ndarray and float, default=None
        Weights and intercept to begin with, instead of samples.
    seed : int, default=0
        Of the samples.
    threads : int, default=1
        For sums over the rows, matrix products among them.
    watch : callable, default=None
        Called before the first and after each iteration over all rows, with a function that gives
        the solution so far.

    Examples
    --------
    >>> from antithetic.problem import Problem
    >>> problem = Problem.build([[1.0], [-2.0], [0.5]], [1, -1, -1], l2=0.1)
    >>> solved = solve_problem(problem, tol=1e-6, max_iter=100)
    >>> solved.ended, solved.gap <= 1e-6
    ('gap', True)
    """
    return solve_path(
        problem,
        [problem.penalty],
        tol=tol,
        max_iter=max_iter,
        start=start,
        seed=seed,
        threads=threads,
        watch=watch,
    )[0]


def solve_path(
    problem: Problem,
    penalties: Sequence[Penalty],
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], float] | None = None,
    seed: int = 0,
    threads: int = 1,
    watch: Callable[[Callable[[], Solved]], object] | None = None,
    check: Callable[[], object] | None = None,
) -> list[Solved]:
    """Minimise with each of several penalties, strong ones first, in place of the problem's own.

    Each begins where the one before ended: with its weights, its pass over the rows and its
    Hessian. Parameters are those of :func:`solve_problem`. Without ``watch``, few rows are solved
    in one call. If the entries of the rows have not been checked yet, ``check`` raises an error
    if some are not finite: it is called if the first pass suggests it. Such rows must have no
    weights, as a weight of zero may hide an entry.
    """
    if watch is None and check is None:
        solved = solve_at_once(problem, penalties, tol, max_iter, start)
        if solved is not None:
            return solved
    begun: list[NDArray[np.float64]] = []
    ascents: list[tuple[Newton, int]] = []

    def first(sums: RowSums, newton: Newton) -> NDArray[np.float64] | None:
        if newton.method == "conjugate gradients":
            from antithetic.solvers.newton.dual_start import dual_start

            penalised = replace(problem, penalty=sums.penalty)
            ascended = dual_start(penalised, seed, max_iter, newton.allowed)
            if ascended is None:
                return None
            newton.raise_lower_bound(ascended.least)
            ascents.append((newton, ascended.epochs))
            return sums.join(ascended.coef, float(newton.constant))
        weights = epoch_start(sums, seed)
        if weights is not None:
            begun.append(sums.join(*weights))
        return begun[0] if begun else None

    def found(sums: RowSums, newton: Newton, iterate: Iterate) -> Solved:
        solved = _solved(sums, newton, iterate, has_epoch=bool(begun))
        for of, epochs in ascents:
            was_enough = iterate.ended == "gap" and iterate.iterations == 0
            if of is newton and was_enough:
                solved = solved._replace(method="dual ascent", iterations=epochs)
        return solved

    effort = PathEffort(tol, max_iter, seed, check)
    sums = sums_of(problem, threads)
    given = None if start is None else sums.join(*start)
    return follow_path(sums, penalties, effort, given, first, found, watch)


def solve_at_once(
    problem: Problem,
    penalties: Sequence[Penalty],
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], float] | None,
) -> list[Solved] | None:
    """Minimise with each of several penalties, in one call each; None if rows are too many.

    Parameters are those of :func:`solve_problem`; None also where one call has too little care,
    and with ``max_iter=0``.
    """
    if problem.loss.code != LOG_LOSS or not are_few_rows(problem.X, penalties) or max_iter == 0:
        return None
    sums = sums_of(problem)
    minima = solve_few_rows(
        sums, penalties, tol, max_iter, None if start is None else sums.join(*start)
    )
    if minima is None:
        return None
    return [
        Solved(*sums.split(theta), gap, True, iterations, "gap", (), "newton")
        for theta, gap, iterations in minima
    ]


def _solved(sums: RowSums, newton: Newton, iterate: Iterate, *, has_epoch: bool) -> Solved:
    if sums.is_single:
        iterate = rounded_to(newton, iterate, as_given_back(sums, iterate.point.theta))
    coef, intercept = sums.split(iterate.point.theta)
    return Solved(
        np.array(coef),
        intercept,
        iterate.gap,
        iterate.certified,
        iterate.iterations,
        iterate.ended or "max_iter",
        newton.sizes,
        newton.method,
        has_epoch,
    )


def sums_of(problem: Problem, threads: int = 1) -> RowSums:
    """Sums over the rows of a problem, of centred columns if there is an intercept."""
    centre = centre_of(problem.X, problem.weight) if problem.fit_intercept else None
    return RowSums(problem, centre, threads)
