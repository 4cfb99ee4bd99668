r"""L-BFGS without a Hessian, for many columns that hardly depend on each other.

The Hessian of the last sample costs as much as several passes over all rows, more the more columns
there are. In units in which all columns are equally curved, L-BFGS may need fewer passes than that.
Whether it does is found out on the first sample, by a few products of its Hessian with vectors:
conjugate gradients and L-BFGS converge at about the same rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from antithetic.exact.sums import Evaluation, Sums, Vector
from antithetic.solvers.newton.conjugate import conjugate_gradients
from antithetic.solvers.newton.models import QuasiNewton, factor_passes, hessian_passes
from antithetic.solvers.newton.renewal import is_worth_renewing
from antithetic.solvers.newton.sizes import hessian_sizes

_FEW_COLUMNS = 128  # whose Hessian is cheap
_FIRST = 2  # products or steps that say little: they go where columns have most in common
_PRODUCTS = 5  # of the Hessian with a vector
_STEPS_SEEN = 6  # that tell how fast L-BFGS is
_GAIN, _MOST_GAIN = 2.8, 2.0  # logarithms of what a step gains at best: with a Hessian, and without
_STEPS = 10.0  # passes over a sample that it takes to draw it and to solve it, without Hessians


class DiagonalInverse(NamedTuple):
    """The inverse of a diagonal matrix, by the numbers on its own diagonal."""

    inverse: Vector

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system."""
        return vector * self.inverse


class Diagonal(QuasiNewton):
    """L-BFGS whose first matrix is the diagonal of a Hessian, in a unit that follows the steps.

    Parameters
    ----------
    diagonal : ndarray of shape (d,) or (d + 1,)
    curvature : float
        Mean curvature of the rows that it comes from.
    passes : float
        What a Hessian would cost.
    """

    def __init__(self, diagonal: Vector, curvature: float, passes: float) -> None:
        super().__init__()
        self._curvature, self.passes = curvature, passes
        self._take(diagonal, 1.0)
        self._distances: list[float] = []

    def _take(self, diagonal: Vector, unit: float) -> None:
        self._diagonal, self._unit, self._factor = diagonal, unit, DiagonalInverse(unit / diagonal)

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        self._take(np.maximum(self._diagonal, diagonal), self._unit)

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """Keep the pair of a step and the change of the gradient, and adapt the unit.

        Along most directions, the diagonal is off by as much as rows have become less curved; along
        the step, the pair says by how much. The unit is between the two.
        """
        super().learn(before, after)
        assert after.curvatures is not None
        curvature = float(after.curvatures.mean())
        if self._pairs and curvature > 0.0:
            _, change, inverse = self._pairs[-1]
            met = inverse * float(change @ (change / self._diagonal))
            self._take(self._diagonal, math.sqrt(self._curvature / (curvature * met)))

    def is_slow(self, decrement: float, target: float) -> bool:
        """Whether a Hessian is worth its passes before the step to come."""
        if not decrement > target > 0.0:
            return False
        self._distances = [*self._distances, math.log(decrement / target)]
        seen = self._distances[_FIRST:][-_STEPS_SEEN:]
        if len(seen) < _STEPS_SEEN:
            return False
        ratio = math.exp((seen[-1] - seen[0]) / (len(seen) - 1))
        return is_worth_renewing(decrement, target, ratio, self.passes)


class Alternative(NamedTuple):
    """What samples and their Hessians cost, to which L-BFGS without any is compared.

    Attributes
    ----------
    passes : float
        Over all rows, that they take as long as.
    gain : float
        Logarithm of what each step with the last Hessian divides the bound by.
    allowed : callable
        Distance from the optimum at which the run ends, from the objective.
    """

    passes: float
    gain: float
    allowed: Callable[[float], float]

    @classmethod
    def of(cls, sums: Sums, sizes: Sequence[int], allowed: Callable[[float], float]) -> Alternative:
        """Estimate what samples of these sizes cost."""
        rows = hessian_sizes(sizes)
        passes = (hessian_passes(sums) + _STEPS) * sum(rows) / sums.n
        passes += len(rows) * factor_passes(sums)
        # the Hessian of m rows of independent columns is off by so much that a step leaves d / m
        return cls(passes, min(_GAIN, math.log(sizes[-1] / sums.d)), allowed)

    def is_longer(self, way: float, gain: float) -> bool:
        """Whether it takes more passes than steps that divide the bound by exp(gain) each.

        The first of these steps are taken on the sample already.
        """
        return gain > 0.0 and way / gain - _FIRST < self.passes + way / self.gain


def plain_start(
    some: Sums, point: Evaluation, alternative: Alternative
) -> tuple[Diagonal, Vector] | None:
    """Return L-BFGS without a Hessian, and weights to begin with; None if a Hessian is cheaper.

    Parameters
    ----------
    some : Sums
        The first sample.
    point : Evaluation
        Its best constant.
    alternative : Alternative
    """
    way = _way(some, point, alternative.allowed(0.5 * point.objective))
    if some.d < _FEW_COLUMNS or not alternative.is_longer(way, _MOST_GAIN):
        return None
    assert point.curvatures is not None
    curvature = float(point.curvatures.mean())
    diagonal = np.maximum(some.diagonal(point), np.finfo(np.float64).tiny)
    times = partial(some.times, point)
    solved = conjugate_gradients(times, lambda rest: rest / diagonal, -point.gradient, _PRODUCTS)
    squares, step = solved.squares, solved.step
    if len(squares) <= _PRODUCTS or not 0.0 < squares[-1] < squares[_FIRST] < np.inf:
        return None
    least = point.objective + 0.5 * float(point.gradient @ step)
    way = _way(some, point, alternative.allowed(least))
    gain = math.log(squares[_FIRST] / squares[-1]) / (_PRODUCTS - _FIRST)
    if not alternative.is_longer(way, min(gain, _MOST_GAIN)):
        return None
    return Diagonal(diagonal, curvature, hessian_passes(some)), point.theta + step


def _way(some: Sums, point: Evaluation, allowed: float) -> float:
    """Logarithm of what the bound on the gap has to be divided by."""
    slopes = point.gradient[: some.d]
    bound = float(slopes @ slopes) / (2.0 * some.penalty.l2)
    return math.log(max(1.0, bound / allowed)) if allowed > 0.0 else math.inf
