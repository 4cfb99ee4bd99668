"""Conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from antithetic.exact.sums import Vector


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
) -> RoughSolution:
    """Solve a linear system by preconditioned conjugate gradients, roughly.

    Parameters
    ----------
    times, precondition : callable
        Product of a vector with the matrix, and with a matrix near its inverse.
    given : ndarray of shape (d,)
    most_products : int
    left_over : float, default=0.0
        Of the first squared residual: where it ends.

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
        along = scaled + (squares[-1] / squares[-2]) * along
    return RoughSolution(step, squares)
