"""Linear systems with a matrix that is positive definite up to rounding."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from antithetic.exact.sums import Vector, diagonal_of
from antithetic.solvers.divergence import DivergenceError, overflow_message

_FIRST_SHIFT = 1e-12  # of the diagonal of a matrix that rounding made indefinite
_LARGEST_SHIFT = 1e12  # which makes any matrix definite whose entries are finite


class Inverse(Protocol):
    """Solves linear systems with a matrix."""

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system."""


class Factor:
    """Cholesky factor of a matrix whose columns may be of any scale."""

    def __init__(self, matrix: Vector) -> None:
        diagonal = matrix.diagonal()
        if diagonal.min(initial=np.inf) > 0.0:
            ones: Vector | float = 1.0
            self._scale = 1.0 / np.sqrt(diagonal)
        else:
            ones = np.where(diagonal > 0.0, 1.0, _FIRST_SHIFT)
            self._scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        shift, added = 0.0, _FIRST_SHIFT
        while shift < _LARGEST_SHIFT:
            scaled = matrix * self._scale
            scaled *= self._scale[:, None]
            diagonal_of(scaled)[:] = ones + shift
            self._factor, failed = dpotrf(scaled.T, lower=1, clean=0, overwrite_a=1)
            if failed == 0:
                return
            shift += added
            added = 99.0 * shift
        raise DivergenceError(overflow_message(0, "the curvature of the objective overflows. "))

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system, or of several, one for each column."""
        scale = self._scale if vector.ndim == 1 else self._scale[:, None]
        solution: Vector = dpotrs(self._factor, vector * scale, lower=1)[0]
        solution *= scale
        return solution

    def inverse_root(self) -> Vector:
        """Lower triangle T such that the inverse of the matrix is the product of T' and T."""
        root: Vector = np.tril(dtrtri(self._factor, lower=1)[0])
        root *= self._scale
        return root
