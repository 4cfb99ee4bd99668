"""`solve`: the optimum of any convex problem with a smooth loss, without an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._util.threads import default_threads, limit_blas
from antithetic._util.validation import check_column, check_rows, check_weights
from antithetic._util.warnings import warn
from antithetic.exact.certificate import error_of_squares
from antithetic.exact.path import LEAST_TOL, Solved, Watch, solve_problem, sums_of
from antithetic.exact.separation import separation_of
from antithetic.exact.squares import least_squares
from antithetic.problem import Problem
from antithetic.problem.losses import SOFTMAX, Loss, get_loss
from antithetic.problem.result import Result

_MAX_ITER = 1000
_LEAST_UNIT = 1e-12  # of the constant's objective: smaller differences are not known


def solve(
    X: Any,
    y: Any,
    *,
    loss: str | Loss,
    l2: float = 0.0,
    l1: float = 0.0,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    offset: Any = None,
    tol: float = 1e-4,
) -> Result:
    r"""Minimise the mean of a smooth convex loss plus a penalty, to any accuracy.

    The objective is that of :func:`antithetic.minimize`, :math:`\frac1n \sum_i s_i \phi(y_i,
    \langle w, x_i\rangle + b + o_i) + \frac{l_2}{2}|w|^2 + l_1 |w|_1`. There is no step size, no
    seed and no solver to choose: Newton's method with second derivatives of a sample needs a few
    passes over all rows, and says how close it came. Columns need not be scaled.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n, d)
        Rows. float32 and float64 are kept; C-contiguous arrays and CSR matrices are not copied.
    y : array-like of shape (n,)
        Labels of any two values for a classification loss, numbers for regression.
    loss : str or Loss
        A loss without a kink: ``"log_loss"``, ``"squared_hinge"``, ``"modified_huber"``; for
        regression ``"squared_error"``, ``"huber"``, ``"squared_epsilon_insensitive"``,
        ``"poisson"``, ``"gamma"``, ``"tweedie"``; or an object of :mod:`antithetic.losses`.
    l2, l1 : float, default=0.0
        Strengths of the penalties. With ``l1``, some weights are exactly zero.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalised.
    sample_weight : array-like of shape (n,), default=None
        Weight of each row's loss.
    offset : array-like of shape (n,), default=None
        Known part of each linear prediction, such as the logarithm of an exposure. Only for
        regression losses.
    tol : float, default=1e-4
        The run ends when the objective is at most ``tol * (f_0 - f*)`` above its optimum ``f*``,
        where ``f_0`` is the objective of the best constant prediction (of zero weights, without an
        intercept), as for :class:`antithetic.LogisticRegression`.

    Returns
    -------
    Result
        ``coef``, ``intercept``, ``gap``, ``gap_certified`` and ``coef_error``; ``epochs`` are
        iterations over all rows.

    Examples
    --------
    >>> import antithetic
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [1.0, 3.0, 50.0, 7.0, 9.0]
    >>> result = antithetic.solve(X, y, loss="huber", tol=1e-8)  # one target is an outlier
    >>> result.coef.round(2).tolist(), result.gap <= 1e-8
    ([2.0], True)
    """
    found = _smooth(loss)
    if not (isinstance(tol, (int, float, np.number)) and tol >= 0.0):
        raise ValueError(f"tol must be a number of at least 0; got {tol!r}")
    if offset is not None:
        X = check_rows(X)
        n = X.shape[0]
        y, sample_weight = found.without_offset(
            check_column(y, n, "y"),
            check_weights(sample_weight, n),
            check_column(offset, n, "offset"),
        )
    problem = Problem.build(
        X, y, loss=found, l2=l2, l1=l1, sample_weight=sample_weight, fit_intercept=fit_intercept
    )
    check_mean(found, float(np.average(problem.y, weights=problem.weight)), fit_intercept, "solve")
    tol = max(float(tol), LEAST_TOL)
    with limit_blas(1):  # whose own threads would wait on the cores that sums over the rows need
        solved = solve_exactly(problem, tol=tol, max_iter=_MAX_ITER, threads=default_threads())
    problems = _shortcomings(problem, solved, tol)
    if problems:
        from sklearn.exceptions import ConvergenceWarning  # takes a second to import

        warn(problems, ConvergenceWarning)
    return Result(
        solved.coef[0],
        float(solved.intercept[0]),
        problem.classes,
        solved.iterations,
        solved.ended == "gap" or solved.gap <= tol,
        gap=float(solved.gap),
        gap_certified=bool(solved.certified),
        coef_error=float(solved.coef_error),
        settings={"loss": found, "l2": float(l2), "l1": float(l1), "fit_intercept": fit_intercept},
    )


def _shortcomings(problem: Problem, solved: Solved, tol: float) -> str:
    """Say what is wrong with a solution, and what helps; empty if nothing is."""
    is_free = problem.penalty.l2 == problem.penalty.l1 == 0.0 and not solved.certified
    if problem.loss.name == "log_loss" and is_free:
        sums = sums_of(problem)
        theta = sums.join(solved.coef[0].astype(np.float64), float(solved.intercept[0]))
        with np.errstate(over="ignore", invalid="ignore"):
            found = separation_of(sums, theta)
        if found is not None:
            who = "the classes are" if found.is_complete else "some rows are"
            columns = ", ".join(map(str, found.columns))
            return (
                f"{who} perfectly separated and there is no penalty, so no optimum exists: larger"
                f" weights of column{'s' * (len(found.columns) > 1)} {columns} always lower the"
                " loss. Set l2 above 0."
            )
    if solved.gap <= tol or solved.ended == "gap":
        return ""
    by = f"{_MAX_ITER} iterations" if solved.ended == "max_iter" else "rounding"
    return (
        f"{by} ended the run: the gap to the optimum is {solved.gap:.1e}, above tol={tol:g}."
        " Increase l2 or tol, or scale columns that are far from zero or very large."
    )


def _smooth(loss: Any) -> Loss:
    """Return a loss by name; ValueError unless it has one score per row and no kink."""
    if loss == SOFTMAX.name or loss == SOFTMAX:
        raise ValueError(
            'loss "softmax" has one score per class, which solve does not support; use'
            " LogisticRegression(C=1 / (l2 * n_samples)), which fits all classes together"
        )
    found = get_loss(loss)
    if not found.is_smooth:
        raise ValueError(
            f'solve needs a loss without a kink; got "{found.name}"; use minimize, for'
            ' "hinge" with solver="sdca"'
        )
    return found


def check_mean(loss: Loss, mean: float, fit_intercept: bool, who: str) -> None:
    """Raise ValueError if the best intercept is the logarithm of zero."""
    if loss.has_log_link and fit_intercept and mean == 0.0:
        raise ValueError(
            f"y is 0 in every row that counts, so {who} has no optimum: the intercept would be"
            " minus infinity"
        )


def solve_exactly(
    problem: Problem,
    *,
    tol: float,
    max_iter: int,
    start: tuple[NDArray[np.float64], float] | None = None,
    seed: int = 0,
    threads: int = 1,
    watch: Watch | None = None,
    at_once: bool = True,
) -> Solved:
    """Minimise the objective of a problem whose loss is smooth.

    Least squares of dense rows take a single visit, because the product X'X is exact. Everything
    else is Newton's method, and with ``at_once=False`` least squares too. The other parameters are
    those of `solve_problem`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # rows that large end by rounding
        if max_iter > 0 and at_once:
            found = least_squares(problem, threads)
            if found is not None:
                unit = max(
                    found.zero_objective - found.objective, _LEAST_UNIT * found.zero_objective
                )
                gap = found.distance / unit if found.distance > 0.0 else 0.0
                columns = problem.d + problem.fit_intercept
                loss = found.objective - problem.penalty.value(found.coef)
                error = error_of_squares(problem.loss, problem.n, columns, loss, found.distance)
                why = (
                    "one visit to all rows, because the products of their columns have the minimum"
                )
                return Solved(
                    found.coef[None, :],
                    np.array([found.intercept]),
                    gap,
                    True,
                    1,
                    "gap",
                    (),
                    "least squares",
                    (why,),
                    error,
                )
        return solve_problem(
            problem,
            tol=tol,
            max_iter=max_iter,
            start=start,
            seed=seed,
            threads=threads,
            watch=watch,
        )
