"""Exact variances of gradients of drawn groups, in sums that lose no digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix, block_rows, power_of_two_near
from antithetic.problem.objective import Problem

_may_overflow = np.errstate(over="ignore", invalid="ignore")


@_may_overflow
def centred_gradient(
    problem: Problem, slopes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Mean gradient of the rows, corrected for rounding.

    Rows that are all equal do not deviate from it.
    """
    centre, constant = problem.data_gradient(slopes)
    left, block = np.zeros(problem.d), block_rows(problem.X)
    everyone = np.arange(problem.n)[:, None]
    for start in range(0, problem.n, block):
        part = slice(start, start + block)
        left += deviations(_group_gradients(problem, slopes[part, None], everyone[part]), centre)[1]
    return centre + left / problem.n, constant


@_may_overflow
def group_variance(
    problem: Problem,
    slopes: NDArray[np.float64],
    groups: NDArray[np.intp] | None = None,
    *,
    halves: bool = False,
) -> float:
    r"""Exact variance of the mean gradient of a group that is drawn uniformly.

    This is :math:`\frac1K \sum_k |u_k - \bar u|^2` with the mean gradient :math:`u_k` of group
    k.

    Parameters
    ----------
    slopes : ndarray of shape (n,)
        See :meth:`Problem.slopes`.
    groups : ndarray of shape (K, m) or None
        Rows of each group; None means that each row is its own.
    halves : bool, default=False
        For groups of two: the mean square of half the difference of the two gradients instead,
        the variance inside the groups.

    Notes
    -----
    O(n d) time (stored entries for CSR) and one bounded block of memory. Rows are added
    first and centred next, so that gradients which cancel lose no digits. A variance below what
    rounding alone can make of equal groups is given as 0.
    """
    if groups is None:
        groups = np.arange(problem.n)[:, None]
    if halves:
        return group_spread(
            problem, slopes, groups, (np.zeros(problem.d), 0.0), signs=np.array([1.0, -1.0])
        )
    drawn = np.bincount(groups.ravel(), minlength=problem.n) * (problem.n / groups.size)
    return group_spread(
        problem, slopes, groups, problem.data_gradient(slopes * drawn), is_mean=True
    )


@_may_overflow
def group_spread(
    problem: Problem,
    slopes: NDArray[np.float64],
    groups: NDArray[np.intp],
    centre: tuple[NDArray[np.float64], float],
    *,
    signs: NDArray[np.float64] | None = None,
    is_mean: bool = False,
) -> float:
    """Mean squared distance of the groups' mean gradients from a centre (coef and intercept).

    Members may be given signs.

    Where the centre is meant to be the mean, what rounding made of it is taken out again.
    """
    shares = slopes[groups] / groups.shape[1]
    if signs is not None:
        shares = shares * signs
    block = max(1, block_rows(problem.X) // groups.shape[1])
    total, left = 0.0, np.zeros(problem.d)
    for start in range(0, len(groups), block):
        part = slice(start, start + block)
        squares, sums = deviations(_group_gradients(problem, shares[part], groups[part]), centre[0])
        total += squares
        left += sums
    if problem.fit_intercept:
        total += float(((shares.sum(axis=1) - centre[1]) ** 2).sum())
    spread = total / len(groups)
    if is_mean:
        spread -= float(left @ left) / len(groups) ** 2  # NaN where both overflow
    # what rounding alone can make of groups that are all equal: less than this is zero
    square = spread + centre[0] @ centre[0] + centre[1] * centre[1]
    rounding = square * (4.0 * np.finfo(problem.X.dtype).eps) ** 2
    return 0.0 if spread <= rounding < np.inf else spread


@_may_overflow
def unit_variance(
    problem: Problem,
    slopes: NDArray[np.float64],
    rows: NDArray[np.intp],
    starts: NDArray[np.intp],
    chances: NDArray[np.float64],
    factors: NDArray[np.float64] | None = None,
) -> float:
    r"""Exact variance of the mean gradient of a drawn unit, times a factor.

    This is :math:`\sum_k p_k |a_k u_k - \sum_l p_l a_l u_l|^2` with the mean gradient
    :math:`u_k` of unit k.

    Parameters
    ----------
    slopes : ndarray of shape (n,)
        See :meth:`Problem.slopes`.
    rows : ndarray of intp
        Rows of all units, one unit after the other.
    starts : ndarray of intp of shape (K + 1,)
        Unit k is ``rows[starts[k]:starts[k + 1]]``; units may have different numbers of rows,
        at least one each.
    chances : ndarray of shape (K,)
        Probability :math:`p_k` that unit k is drawn; they sum to 1.
    factors : ndarray of shape (K,) or None
        What the unit's mean gradient is multiplied by; None means 1.

    Notes
    -----
    O(n d) time in two passes (stored entries for CSR) and one bounded block of memory;
    nothing cancels, as in :func:`group_variance`.
    """
    sizes = np.diff(starts)
    scale = 1.0 / sizes if factors is None else factors / sizes
    shares = slopes[rows] * np.repeat(scale, sizes)
    block = max(1, block_rows(problem.X) // int(sizes.max()))
    parts = [slice(start, min(start + block, len(sizes))) for start in range(0, len(sizes), block)]

    def vectors(part: slice) -> Matrix:
        within = slice(starts[part.start], starts[part.stop])
        return _sums(
            problem,
            shares[within],
            rows[within],
            starts[part.start : part.stop + 1] - starts[part.start],
        )

    centre = sum((vectors(part).T @ chances[part] for part in parts), np.zeros(problem.d))
    total, left, square = 0.0, np.zeros(problem.d), float(centre @ centre)
    for part in parts:
        squares, sums = weighted_deviations(vectors(part), centre, chances[part])
        total += squares
        left += sums
    total -= float(left @ left)  # what rounding made of the centre
    if problem.fit_intercept:
        constants = np.add.reduceat(shares, starts[:-1])
        constant = float(chances @ constants)
        total += float(
            chances @ (constants - constant) ** 2 - (chances @ (constants - constant)) ** 2
        )
        square += constant * constant
    # what rounding alone can make of units that are all equal, factors included: less than this
    # is zero
    rounding = (total + square) * (8.0 * np.finfo(problem.X.dtype).eps) ** 2
    return 0.0 if total <= rounding < np.inf else total


def safe_unit(problem: Problem, slopes: NDArray[np.float64]) -> float:
    """Power of two that scales gradients so that their squares neither overflow nor vanish."""
    values = problem.X.data if sparse.issparse(problem.X) else problem.X
    return power_of_two_near(values, float(problem.fit_intercept)) * power_of_two_near(slopes)


def _group_gradients(
    problem: Problem, shares: NDArray[np.float64], groups: NDArray[np.intp]
) -> Matrix:
    return _sums(
        problem, shares.ravel(), groups.ravel(), np.arange(0, groups.size + 1, groups.shape[1])
    )


def _sums(
    problem: Problem, shares: NDArray[np.float64], rows: NDArray[np.intp], starts: NDArray[np.intp]
) -> Matrix:
    # one sparse row per group; its product with X adds the group's rows without gathering them
    selector = sparse.csr_array(
        (shares.astype(problem.X.dtype, copy=False), rows, starts),
        shape=(len(starts) - 1, problem.n),
    )
    return selector @ problem.X


def deviations(vectors: Matrix, centre: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Sum over the rows of ``|row - centre|^2``, and of ``row - centre``.

    Only terms of one sign are added: no digit cancels.
    """
    if sparse.issparse(vectors):  # the zeros of a column all deviate alike
        stored = vectors.data - centre[vectors.indices]
        zeros = vectors.shape[0] - np.bincount(vectors.indices, minlength=len(centre))
        sums = np.bincount(vectors.indices, weights=stored, minlength=len(centre)) - zeros * centre
        return float(stored @ stored + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("ij,ij->", centred, centred)), centred.sum(axis=0)


def weighted_deviations(
    vectors: Matrix, centre: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """:func:`deviations` with a weight for each row."""
    if sparse.issparse(vectors):
        stored = vectors.data - centre[vectors.indices]
        weighted = np.repeat(weights, np.diff(vectors.indptr)) * stored
        there = np.bincount(vectors.indices, minlength=len(centre))
        weight = np.bincount(
            vectors.indices,
            weights=np.repeat(weights, np.diff(vectors.indptr)),
            minlength=len(centre),
        )
        # a column without zeros has exactly none: the difference of two sums would leave what
        # rounding made of it
        zeros = np.where(there == vectors.shape[0], 0.0, np.maximum(0.0, weights.sum() - weight))
        sums = (
            np.bincount(vectors.indices, weights=weighted, minlength=len(centre)) - zeros * centre
        )
        return float(stored @ weighted + zeros @ (centre * centre)), sums
    centred = vectors - centre
    return float(np.einsum("i,ij,ij->", weights, centred, centred)), weights @ centred
