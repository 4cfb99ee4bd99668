"""Linear systems with matrices that are positive definite up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs, dtrtri

from antithetic.exact.sums import Vector, diagonal_of
from antithetic.problem.overflow import DivergenceError, overflow_message

_FIRST_SHIFT = 1e-12  # of the diagonal of a matrix that rounding made indefinite
_LARGEST_SHIFT = 1e12  # which makes any matrix definite whose entries are finite
_FEW_DIGITS = 1e-8  # reciprocal condition of a scaled matrix whose factor has half of the digits


class Inverse(Protocol):
    """Solves linear systems with a matrix."""

    def solve(self, vector: Vector) -> Vector:
        """Solve the linear system."""


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
        """Solve the linear system, or several, one for each column."""
        scale = self._scale if vector.ndim == 1 else self._scale[:, None]
        solution: Vector = dpotrs(self._factor, vector * scale, lower=1)[0]
        solution *= scale
        return solution

    def inverse_root(self) -> Vector:
        """Return the lower triangle T for which T' T is the inverse of the matrix."""
        root: Vector = np.tril(dtrtri(self._factor, lower=1)[0])
        root *= self._scale
        return root


class NotDefiniteError(ValueError):
    """The matrix is not positive definite, or not for sure."""


class Root:
    """Cholesky factor of a positive definite matrix H, whose columns may have any scale.

    Unlike :class:`Factor`, it never makes H larger: what it says of the inverse is a bound.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
    lowered : float or ndarray of shape (p,), default=0.0
        Share of its diagonal that is subtracted first, so that rounding cannot make H larger.

    Raises
    ------
    NotDefiniteError
        If what is left is not positive definite.
    """

    def __init__(self, matrix: Vector, lowered: Vector | float = 0.0) -> None:
        diagonal = matrix.diagonal()
        if not (diagonal > 0.0).all():
            raise NotDefiniteError("the Hessian is not positive definite")
        self._scale = 1.0 / np.sqrt(diagonal)
        scaled = matrix * self._scale * self._scale[:, None]
        diagonal_of(scaled)[:] = 1.0 - lowered
        self._size = float(np.abs(scaled).sum(axis=0).max())
        self._lower, failed = dpotrf(scaled.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise NotDefiniteError("the Hessian is not positive definite")

    @classmethod
    def of_triangle(cls, upper: Vector) -> Root:
        """Return the factor of ``R'R`` for an upper triangle R, without forming that product."""
        if not (upper.diagonal() != 0.0).all():
            raise NotDefiniteError("the Hessian is not positive definite")
        root = cls.__new__(cls)
        root._scale, root._lower = np.ones(len(upper)), np.asfortranarray(upper.T)
        root._size = np.nan
        return root

    @property
    def loses_digits(self) -> bool:
        """Whether the matrix, scaled, is so ill-conditioned that half of the digits may be lost."""
        return not dpocon(self._lower, self._size, uplo="L")[0] > _FEW_DIGITS

    def halves(self, rows: Vector) -> Vector:
        """Return rows z for which ``z_i @ z_j`` is ``x_i' H^-1 x_j``, shape (m, p)."""
        scaled = np.ascontiguousarray(rows * self._scale)
        solved: Vector = dtrsm(1.0, self._lower, scaled.T, lower=1, overwrite_b=1)
        return solved.T

    def backward(self, halves: Vector) -> Vector:
        """Return ``H^-1 x`` for each row of :meth:`halves`, shape (m, p)."""
        given = np.ascontiguousarray(halves)
        solved: Vector = dtrsm(1.0, self._lower, given.T, lower=1, trans_a=1)
        return solved.T * self._scale

    def solve(self, vector: Vector) -> Vector:
        """Return ``H^-1 v`` for a vector, or for each row of a matrix."""
        return self.backward(self.halves(np.atleast_2d(vector))).reshape(np.shape(vector))

    def norm(self, vector: Vector) -> float:
        """Return the norm of a vector with respect to ``H^-1``."""
        return float(np.linalg.norm(self.halves(vector[None, :])))

    def inverse_root(self) -> Vector:
        """Lower triangle T for which ``T' T`` is the inverse of H, shape (p, p)."""
        return self.halves(np.eye(len(self._scale))).T

    def inverse(self) -> Vector:
        """Return the inverse of H, shape (p, p)."""
        root = self.inverse_root()
        return root.T @ root


def dependent_columns(matrix: Vector, least: float) -> tuple[NDArray[np.intp], Vector]:
    """Return columns that do not depend on those before them, and how the others do.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        Products of the columns.
    least : float
        Share of a column's square that must be its own.

    Returns
    -------
    kept : ndarray of intp
    combinations : ndarray of shape (p, p)
        Row j is zero except for each other column: 1 there, and minus its share of those before it,
        over the root of its square.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]])
    >>> kept, combinations = dependent_columns(rows.T @ rows, 1e-9)
    >>> kept.tolist(), bool(np.abs(rows @ combinations.T).max() < 1e-12)
    ([0, 2], True)
    """
    size = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
    left = matrix / size / size[:, None]
    scaled, kept = left.copy(), []
    for j in range(len(left)):
        if left[j, j] > least:
            kept.append(j)
            share = left[j + 1 :, j] / np.sqrt(left[j, j])
            left[j + 1 :, j + 1 :] -= np.outer(share, share)
    chosen, combinations = np.array(kept, dtype=np.intp), np.zeros_like(left)
    others = np.setdiff1d(np.arange(len(left)), chosen)
    own = scaled[np.ix_(chosen, chosen)]
    for j in others:
        before = int(np.searchsorted(chosen, j))
        shares = np.linalg.solve(own[:before, :before], scaled[chosen[:before], j])
        combinations[j, j] = 1.0 / size[j]
        combinations[j, chosen[:before]] = -shares / size[chosen[:before]]
    return chosen, combinations


class RoughSolution(NamedTuple):
    """An approximate solution of a linear system.

    Attributes
    ----------
    step : ndarray of shape (d,)
    squares : list of float
        Squared residuals, in the units of the preconditioner, before and after each product.
    """

    step: Vector
    squares: list[float]


def conjugate_gradients(
    times: Callable[[Vector], Vector],
    precondition: Callable[[Vector], Vector],
    given: Vector,
    most_products: int,
    left_over: float = 0.0,
    is_enough: Callable[[float, Vector], bool] | None = None,
) -> RoughSolution:
    """Solve a linear system by preconditioned conjugate gradients, roughly.

    Parameters
    ----------
    times, precondition : callable
        Product of a vector with the matrix, and with a matrix near its inverse.
    given : ndarray of shape (d,)
    most_products : int
    left_over : float, default=0.0
        Share of the first squared residual at which it ends.
    is_enough : callable, default=None
        Called after each product with what it has gained on the parabola, and with the residual;
        it ends if the answer is true.

    Examples
    --------
    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> solved = conjugate_gradients(matrix.dot, lambda v: v / 2.0, np.array([3.0, 3.0]), 5)
    >>> solved.step.tolist()
    [1.0, 1.0]
    """
    step, rest = np.zeros(len(given)), given.copy()
    scaled = precondition(rest)
    along, squares = scaled.copy(), [float(rest @ scaled)]
    for _ in range(most_products):
        if not squares[-1] > left_over * squares[0]:
            break
        product = times(along)
        curvature = float(along @ product)
        if not curvature > 0.0:
            break
        length = squares[-1] / curvature
        step += length * along
        rest -= length * product
        scaled = precondition(rest)
        squares.append(float(rest @ scaled))
        if is_enough is not None and is_enough(0.5 * length * squares[-2], rest):
            break
        along = scaled + (squares[-1] / squares[-2]) * along
    return RoughSolution(step, squares)
