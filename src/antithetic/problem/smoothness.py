r"""How fast the gradient can change: the constants from which safe step sizes follow.

The loss of row i has curvature at most :math:`L_i = c\, s_i |x_i|^2` with c the bound of
:class:`~antithetic.problem.losses.Loss`, and the mean loss at most :math:`L = c\,
\lambda_{\max}\big(\frac1n \sum_i s_i x_i x_i^T\big)`, far less where the rows point in many
directions. A batch of b independent rows lies between the two: its expected smoothness is at most
:math:`\frac1b \max_i L_i + \frac{b - 1}{b} L` (Gazagnadou et al. 2019, Gower et al. 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.problem import Problem

_POWERS = 10  # of the power iteration, which then underestimates by a few per cent
_MARGIN = 1.1


def squared_norms(problem: Problem) -> NDArray[np.float64]:
    """Squared norms of the rows, with the intercept's 1 if there is one, shape (n,).

    Infinite where they overflow.
    """
    X = problem.X
    with np.errstate(over="ignore"):
        if sparse.issparse(X):
            starts = X.indptr[:-1]
            stored = starts < X.indptr[1:]  # of rows without entries, reduceat makes no zeros
            squares: NDArray[np.float64] = np.zeros(problem.n)
            squares[stored] = np.add.reduceat(np.square(X.data, dtype=np.float64), starts[stored])
        else:
            squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return squares + float(problem.fit_intercept)


def row_squares(problem: Problem) -> NDArray[np.float64]:
    """Squared norms of the rows, see :func:`squared_norms`, times their weights."""
    squares = squared_norms(problem)
    if problem.weight is None:
        return squares
    with np.errstate(invalid="ignore"):
        return np.where(problem.weight > 0.0, squares * problem.weight, 0.0)


def smoothness(problem: Problem) -> float:
    """Bound on the curvature of the mean loss plus that of the L2 penalty.

    It comes from power iteration with a margin.

    Infinite for a loss with a kink.
    """
    if not np.isfinite(problem.loss.largest_curvature):
        return np.inf
    trace = float(row_squares(problem).mean())
    if not np.isfinite(trace):
        return np.inf
    vector = np.random.default_rng(0).standard_normal(problem.d).astype(problem.X.dtype)
    constant, largest = float(problem.fit_intercept), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_POWERS):
            length = _norm(vector, constant)
            if not 0.0 < length < np.inf:
                break
            vector, constant = (vector / length).astype(problem.X.dtype), constant / length
            images = problem.X @ vector + constant
            images = images if problem.weight is None else images * problem.weight
            vector = problem.X.T @ (images / problem.n).astype(problem.X.dtype)
            constant = float(images.mean()) if problem.fit_intercept else 0.0
            largest = _norm(vector, constant)
    # The trace is a bound as well.
    bound = min(_MARGIN * _rounded(largest), trace) if np.isfinite(largest) else trace
    return problem.loss.largest_curvature * bound + problem.penalty.l2


def batch_smoothness(
    problem: Problem, n_units: int, squares: NDArray[np.float64], least_share: float
) -> float:
    """Expected smoothness of a batch gradient of independent units, with the L2 penalty's.

    ``squares`` are those of :func:`row_squares`, or of the units drawn; their
    :func:`typical_square` is used.
    """
    worst = problem.loss.largest_curvature * typical_square(squares, least_share)
    mean = smoothness(problem) - problem.penalty.l2
    return (worst + (n_units - 1) * min(mean, worst)) / n_units + problem.penalty.l2


def typical_square(squares: NDArray[np.float64], least_share: float) -> float:
    """Squared norm of a typical row, as it matters for the noise.

    This is the mean weighted by the squares themselves, but at least a share of the largest.
    """
    total = float(squares.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(squares @ squares) / total if total > 0.0 else 0.0
    return max(mean if np.isfinite(mean) else np.inf, least_share * float(squares.max()))


def _rounded(number: float) -> float:
    """Round to three digits: the others depend on the number of threads."""
    return float(f"{number:.3g}")


def _norm(vector: NDArray[Any], constant: float) -> float:
    return float(np.hypot(np.linalg.norm(vector.astype(np.float64, copy=False)), constant))
