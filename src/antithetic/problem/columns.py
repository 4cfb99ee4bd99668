"""Moments and ranges of the columns, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix
from antithetic.problem.objective import Problem, kernel_rows

_CONSTANT = 1e-12  # of its mean square: a column whose variance is smaller is constant
_ROWS_OF_THE_SHIFT = 64  # whose mean is near enough to the columns' that no digits cancel

_Vector = NDArray[np.float64]


class ColumnMoments(NamedTuple):
    """Moments of the columns of some rows; rows count by their weights.

    Attributes
    ----------
    weight : float
        Of all rows.
    mean : ndarray of shape (d,)
    variance : ndarray of shape (d,)
        About the mean; 0 if it is rounding alone.
    least, greatest : ndarray of shape (d,)
        Range of the rows whose weight is not zero.
    """

    weight: float
    mean: _Vector
    variance: _Vector
    least: _Vector
    greatest: _Vector


class Columns(NamedTuple):
    """What one pass tells of the columns; rows count by their weights, those of weight zero do not.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Weighted means; zeros without an intercept.
    scale : ndarray of shape (d,)
        Inverse of the weighted variance about the centre; 0 for constant columns.
    furthest : float
        Largest squared distance of an entry from its centre, in units of the variance.
    weight : float
        Of all rows.
    counts : ndarray of shape (classes,)
        Weights of the classes; empty for regression.
    are_finite : bool
        Whether all sums are finite, and so all entries of rows that count.
    moments : ColumnMoments
    """

    centre: _Vector
    scale: _Vector
    furthest: float
    weight: float
    counts: _Vector
    are_finite: bool
    moments: ColumnMoments


def columns_of(problem: Problem) -> Columns:
    """Visit all rows once.

    Examples
    --------
    >>> problem = Problem.build([[1.0], [3.0]], [-1, 1], fit_intercept=True)
    >>> columns_of(problem).centre.tolist(), columns_of(problem).scale.tolist()
    ([2.0], [1.0])
    """
    seen = moments_of(problem.X, problem.weight)
    counts = np.empty(0)
    if problem.loss.classification:
        counts = np.bincount(problem.codes, problem.weight).astype(np.float64)
    return columns_from(seen, counts, fit_intercept=problem.fit_intercept)


def moments_of(X: Matrix, weight: _Vector | None) -> ColumnMoments:
    """Visit some rows once; zeros if none of them counts."""
    n, d = X.shape
    # near the middle of each column no digits cancel; sums of sparse rows are those of the entries
    shift = np.zeros(d) if sparse.issparse(X) else centre_of(X, weight, most=_ROWS_OF_THE_SHIFT)
    total, square = np.zeros(d), np.zeros(d)
    least, greatest = np.full(d, np.inf), np.full(d, -np.inf)
    weights = np.empty(0) if weight is None else np.ascontiguousarray(weight)
    kernel_rows(X).column_sums(weights, shift, total, square, least, greatest)
    size = float(n) if weight is None else float(weight.sum())
    if not size > 0.0:
        return ColumnMoments(0.0, *(np.zeros(d) for _ in range(4)))
    with np.errstate(over="ignore", invalid="ignore"):
        mean, square = total / size, square / size
        variance = square - mean * mean
        is_one = (least == greatest) & np.isfinite(total)  # ends of a range skip a NaN
        variance[is_one | (variance <= _CONSTANT * square)] = 0.0
        mean = np.where(is_one, least, shift + mean)
    return ColumnMoments(size, mean, variance, least, greatest)


def joined(parts: Sequence[ColumnMoments]) -> ColumnMoments:
    """Join the moments of several sets of rows, without digits that cancel.

    Examples
    --------
    >>> parts = [moments_of(np.array([[number]]), None) for number in (1.0, 3.0)]
    >>> joined(parts).mean.tolist(), joined(parts).variance.tolist()
    ([2.0], [1.0])
    """
    counted = [part for part in parts if part.weight > 0.0] or list(parts[:1])
    if len(counted) == 1:
        return counted[0]
    total, mean = 0.0, np.zeros(len(counted[0].mean))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in counted:
            total += part.weight
            mean = mean + (part.mean - mean) * (part.weight / total)
        least = np.min([part.least for part in counted], axis=0)
        greatest = np.max([part.greatest for part in counted], axis=0)
        variance = np.zeros(len(mean))
        for part in counted:
            apart = part.mean - mean
            variance += (part.weight / total) * (part.variance + apart * apart)
        is_one = (least == greatest) & np.isfinite(mean)
        mean = np.where(is_one, least, mean)
        variance[is_one] = 0.0
    return ColumnMoments(total, mean, variance, least, greatest)


def columns_from(seen: ColumnMoments, counts: _Vector, *, fit_intercept: bool) -> Columns:
    """Describe columns by their moments; see :class:`Columns` for the weights of the classes."""
    mean, variance = seen.mean, seen.variance
    with np.errstate(over="ignore", invalid="ignore"):
        if not fit_intercept:
            mean, variance = np.zeros(len(mean)), variance + mean * mean
        varies = variance > 0.0
        scale = np.divide(1.0, variance, out=np.zeros(len(mean)), where=varies)
        apart = np.maximum(seen.greatest - mean, mean - seen.least)
        furthest = float((apart * apart * scale).max(initial=0.0, where=varies))
    are_finite = bool(np.isfinite(seen.mean).all() and np.isfinite(seen.variance).all())
    return Columns(mean, scale, furthest, seen.weight, counts, are_finite, seen)


def centre_of(
    X: Matrix, weight: NDArray[np.float64] | None = None, *, most: int = 1000
) -> NDArray[np.float64]:
    """Return roughly the weighted mean of each column, from about ``most`` evenly spaced rows.

    Any point among the rows that count keeps digits from cancelling. A row of weight zero does not
    count: it may hold anything, such as 1e20 for an entry that is missing.
    """
    step, shares = max(1, X.shape[0] // most), None
    places = np.arange(0, X.shape[0], step)
    if weight is not None and weight.any():
        counted = np.flatnonzero(weight)
        places = counted[:: max(1, len(counted) // most)]
        shares = (weight[places] / weight[places].max()).astype(X.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            starts, lengths = X.indptr[places], X.indptr[places + 1] - X.indptr[places]
            # entries of these rows: one row's end to the next one's beginning is skipped
            entries = np.arange(lengths.sum()) + np.repeat(
                starts - np.cumsum(lengths) + lengths, lengths
            )
            data = X.data[entries]
            if shares is not None:
                data = data * np.repeat(shares, lengths)
            centre = np.bincount(X.indices[entries], data, minlength=X.shape[1]) / len(places)
        elif shares is None:
            centre = X[::step].mean(axis=0, dtype=np.float64)
        else:
            centre = (X[places] * shares[:, None]).mean(axis=0, dtype=np.float64)
        if shares is not None:
            centre /= float(shares.mean())
    return np.where(np.isfinite(centre), centre, 0.0)  # a mean that overflows centres nothing
