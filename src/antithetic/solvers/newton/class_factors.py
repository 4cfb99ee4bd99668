"""A first matrix of L-BFGS with one block for each class."""

from __future__ import annotations

import numpy as np

from antithetic.exact.sums import Vector, diagonal_of
from antithetic.solvers.newton.factor import Factor


class ClassFactors:
    """Inverse of a matrix that has one block for each class, and nothing between them.

    The result has no part along which all classes change alike, as gradients have none.

    Parameters
    ----------
    blocks : ndarray of shape (classes, features, features) or (classes, features + 1, features + 1)
        Second derivatives of the mean loss by the weights of each class and, with intercepts, by
        its intercept.
    features : int
    l2 : float
    """

    def __init__(self, blocks: Vector, features: int, l2: float) -> None:
        self._features, self._size = features, blocks.shape[1]
        # of each block a root of its inverse: products with it are faster than to solve systems
        self._roots = np.empty_like(blocks)
        for root, block in zip(self._roots, blocks, strict=True):
            matrix = block.copy()
            diagonal_of(matrix)[:features] += l2
            root[:] = Factor(matrix).inverse_root()
        self.unit = 1.0

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system, of a point's length."""
        rows = self._by_class(vector)
        rows = rows - rows.mean(axis=0)
        half = np.matmul(self._roots, rows[:, :, None])
        solved = np.matmul(half.transpose(0, 2, 1), self._roots)[:, 0]
        solved *= self.unit
        solved -= solved.mean(axis=0)
        f = self._features
        if self._size == f:
            return np.ravel(solved)
        return np.concatenate([np.ravel(solved[:, :f]), solved[:, f]])

    def _by_class(self, vector: Vector) -> Vector:
        """Weights of each class, followed by its intercept if there are intercepts."""
        classes, f = len(self._roots), self._features
        rows = vector[: classes * f].reshape(classes, f)
        return rows if self._size == f else np.column_stack([rows, vector[classes * f :]])
