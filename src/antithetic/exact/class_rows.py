"""Rows of many classes, visited in blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._util.validation import Matrix
from antithetic.exact.class_points import ClassPoints
from antithetic.exact.class_shares import best_constants
from antithetic.exact.shared_sums import threads_worth
from antithetic.exact.sums import Vector
from antithetic.problem.penalties import Penalty

_ROWS_AT_ONCE = 1024  # of a dense block
# One thread of BLAS takes products of so many multiplications without copies of its matrices,
# which is twice as fast; blocks of fewer rows than these are not worth it.
_SMALL_PRODUCT, _FEW_ROWS = 1_000_000, 128
_SCORES_AT_ONCE = 1 << 21  # of a block of sparse rows
_ENTRIES_AT_ONCE = 1 << 18  # of a block of rows whose products are added to a Hessian
_FAR = 30.0  # times its spread: a column so far from zero needs float64 for its products
ROWS_PER_COLUMN = 20  # of a sample that second derivatives are taken of
_MOST_IN_BLOCKS = 1 << 24  # entries of a block of the Hessian for each class
_CONSTANT = 1e-6  # of its mean: a column of so small a spread is constant
_ROWS_LOOKED_AT = 1000
_NO_WEIGHT = np.empty(0)


class ClassRows(ClassPoints):
    """Rows of many classes.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, features)
        Rows, float32 or float64.
    labels : ndarray of intp of shape (n,)
        Class of each row, from 0 to ``classes - 1``.
    classes : int
    penalty : Penalty
    weight : ndarray of shape (n,) or None
    centre : ndarray of shape (features,) or None
        What is subtracted from each column; None without intercepts.
    threads : int, default=1
        Threads that sums over the rows are shared between; BLAS uses one in each.
    kind : type or None, default=None
        Float type of the products; None means that of the rows if it is accurate enough.
    """

    def __init__(
        self,
        X: Matrix,
        labels: NDArray[np.intp],
        classes: int,
        penalty: Penalty,
        weight: Vector | None,
        centre: Vector | None,
        threads: int = 1,
        kind: Any = None,
    ) -> None:
        super().__init__(classes, int(X.shape[1]), penalty, centre)
        self.X, self.labels, self.n = X, labels, int(X.shape[0])
        self.weight, self.threads = weight, threads
        self.is_single = X.dtype == np.float32
        if kind is None:
            kind = np.float32 if self.is_single and not self._is_far() else np.float64
        self.kind: Any = kind
        self.most_sampled = np.inf
        self.size = effective_rows(self.n, weight)
        self.hessian_passes = _hessian_passes(self.d, self.n)
        self.block_passes = self._block_passes()
        self._totals: Vector | None = None  # of each class, once they are asked for

    def _block_passes(self) -> float:
        """Passes that a block of the Hessian for each class costs; infinite if it is too large."""
        size = self.features
        if self.classes * size * size > _MOST_IN_BLOCKS:
            return np.inf
        sampled = min(1.0, ROWS_PER_COLUMN * size / max(1, self.n))
        # products of sampled rows, and a factor of each block, however few the rows are
        passes = 3.0 + sampled * (5.0 + size / 30.0) + 0.7 * size**2 / max(1, self.n)
        # sparse rows are made dense for it, and passes over them cost as much less
        return passes * self.n * size / max(1, self.X.nnz) if sparse.issparse(self.X) else passes

    def _means_and_spreads(self) -> tuple[Vector, Vector]:
        """Mean and standard deviation of each column, from evenly spaced rows."""
        some = self.X[:: max(1, self.n // _ROWS_LOOKED_AT)]
        with np.errstate(over="ignore", invalid="ignore"):
            if not sparse.issparse(some):
                return some.mean(axis=0, dtype=np.float64), some.std(axis=0, dtype=np.float64)
            rows = some.astype(np.float64)
            mean = np.ravel(rows.mean(axis=0))
            square = np.ravel(rows.multiply(rows).mean(axis=0))
            return mean, np.sqrt(np.maximum(square - mean * mean, 0.0))

    def _is_far(self) -> bool:
        """Whether a column is so far from zero that products of float32 lose its digits."""
        return are_far(*self._means_and_spreads())

    def scale_ratio(self) -> float:
        """Largest size of a column, divided by a typical one; columns of zeros do not count."""
        sizes = np.hypot(*self._means_and_spreads())
        sizes = sizes[sizes > 0.0]
        return float(sizes.max() / np.median(sizes)) if len(sizes) else 1.0

    # ---- copies, and what the labels say

    def with_penalty(self, penalty: Penalty) -> Self:
        """The same rows with another penalty."""
        other = copy.copy(self)
        other.penalty = penalty
        return other

    def refined(self) -> Self | None:
        """The same rows with products in float64; None if they are so already."""
        if self.kind == np.float64:
            return None
        other = copy.copy(self)
        other.kind = np.float64
        return other

    def constant(self) -> tuple[Vector, float]:
        """Best intercepts without weights, and their mean loss."""
        shares = self.shares()
        if not self.fit_intercept:
            return np.zeros(0), float(np.log(self.classes) * shares.sum())
        return best_constants(shares)

    def shares(self) -> Vector:
        """Weight of each class, as a share of n."""
        found: Vector = np.bincount(self.labels, self.weight, minlength=self.classes) / self.n
        return found

    # ---- blocks of rows

    def _parts(self, at_once: int) -> list[slice]:
        starts = range(0, self.n, at_once)
        return [slice(start, min(self.n, start + at_once)) for start in starts]

    def _parts_of_scores(self) -> list[slice]:
        """Parts of the rows whose scores are found at once."""
        if not sparse.issparse(self.X):
            return self._parts(self._rows_of_small_products() or _ROWS_AT_ONCE)
        # each part costs a product with all weights: one per thread, or more if scores are many
        threads = threads_worth(self.threads, self._work_of_scores(), self._entries_of_scores())
        return self._parts(min(_SCORES_AT_ONCE // self.classes, -(-self.n // threads)) or 1)

    def _dense_parts(self, width: int) -> list[slice]:
        """Parts of the rows that are made dense and centred at once, to be of some width."""
        return self._parts(max(1, min(self.n, _ENTRIES_AT_ONCE // max(1, width))))

    def _work_of_scores(self) -> float:
        """Multiplications of scores and a gradient."""
        entries = self.X.nnz if sparse.issparse(self.X) else self.X.size
        return 2.0 * float(entries) * self.classes

    def _entries_of_scores(self) -> int:
        """Entries that a thread keeps for a gradient: it, a part of it, and the weights."""
        return 3 * self.d

    def _rows_of_small_products(self) -> int:
        """Rows of a block whose products with all weights are small; 0 if they would be too few."""
        most = _SMALL_PRODUCT // max(1, self.d)
        return min(most, _ROWS_AT_ONCE) if most >= _FEW_ROWS else 0

    def _blocks(self, kind: Any, parts: Sequence[slice]) -> Iterator[tuple[slice, Any]]:
        """Rows as given, in the float type of the products."""
        for part in parts:
            yield part, self.X[part].astype(kind, copy=False)

    def _dense_blocks(self, kind: Any, parts: Sequence[slice]) -> Iterator[tuple[slice, Any]]:
        """Centred rows, followed by a one where there are intercepts."""
        f = self.features
        longest = max((part.stop - part.start for part in parts), default=0)
        buffer = np.empty((longest, f + self.fit_intercept), dtype=kind)
        for part in parts:
            block = buffer[: part.stop - part.start]
            rows = self.X[part].toarray() if sparse.issparse(self.X) else self.X[part]
            centre = 0.0 if self.centre is None else self.centre
            np.subtract(rows, centre, out=block[:, :f], casting="same_kind")
            block[:, f:] = 1.0
            yield part, block

    def _weights_of(self, part: slice) -> Vector:
        return _NO_WEIGHT if self.weight is None else self.weight[part]

    def _scores(
        self, theta: Vector, kind: Any, parts: Sequence[slice]
    ) -> Iterator[tuple[slice, Any, Any]]:
        """Blocks of rows and the scores of their classes; these may be overwritten."""
        coef, intercepts = self.split(theta)
        across = np.ascontiguousarray(coef.T, dtype=kind)
        is_small = self._rows_of_small_products() > 0 or self.d >= 1 << 20
        if not is_small and not sparse.issparse(self.X):
            across = np.asarray(coef, dtype=kind).T  # what BLAS reads faster
        added = intercepts.astype(kind)
        for part, block in self._blocks(kind, parts):
            scores = block @ across
            if self.fit_intercept:
                scores += added
            yield part, block, scores


def _hessian_passes(weights: int, rows: int) -> float:
    """What a Hessian and its factor cost, in passes over the rows."""
    hessian = weights / 7.0 * (1.0 + weights / 1500.0)
    return 1.0 + hessian + 0.09 * weights**2 / max(1, rows)


def are_far(mean: Vector, spread: Vector) -> bool:
    """Whether a column is so far from zero that products of float32 lose its digits."""
    return bool((np.abs(mean) > _FAR * spread)[spread > _CONSTANT * np.abs(mean)].any())


def effective_rows(n: int, weight: Vector | None) -> float:
    """Number of rows of equal weight that would carry as much information."""
    if weight is None:
        return float(n)
    largest = float(weight.max(initial=0.0))
    if not largest > 0.0:
        return 1.0
    shares = weight / largest  # whose squares cannot overflow
    return float(shares.sum()) ** 2 / float(shares @ shares)
