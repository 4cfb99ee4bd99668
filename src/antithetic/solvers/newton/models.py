r"""Models of the objective around a point, each of which proposes a step.

Where the penalty is smooth, steps are those of L-BFGS whose first matrix is a Hessian or, where
that would be too large, those of conjugate gradients. With an L1 penalty, a step minimises the
quadratic model with the penalty, by coordinate descent, so weights are exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from antithetic._core import kernels
from antithetic.problem.curvature import Point, Sums, Vector

_MOST_PAIRS = 10
_LEAST_CURVATURE = 1e-10  # of a pair that is kept, relative to the lengths of its vectors
_MOST_PRODUCTS = 300  # of the Hessian with a vector, for one step
_MOST_SWEEPS = 1000
_FIRST_SHIFT = 1e-12  # of the diagonal of a matrix that rounding made indefinite


class Proposal(NamedTuple):
    """A step, and what the model expects of it.

    Attributes
    ----------
    step : ndarray of shape (d,) or (d + 1,)
    slope : float
        Change of the objective per length at the start, the penalty's kinks included.
    decrement : float
        What the model expects the best step to gain.
    """

    step: Vector
    slope: float
    decrement: float


class Model(Protocol):
    """Proposes steps."""

    @property
    def passes(self) -> float:
        """What it costs to renew the model, in passes over the rows."""

    def renew(
        self, sums: Sums, point: Point, *, exact: bool = False, careful: bool = False
    ) -> None:
        """Take the Hessian of these rows at this point."""

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""

    def propose(self, point: Point) -> Proposal:
        """Step from a point."""

    def learn(self, before: Point, after: Point) -> None:
        """Take note of a step that was taken."""


class Factor:
    """Cholesky factor of a matrix whose columns may be of any scale."""

    def __init__(self, matrix: Vector) -> None:
        diagonal = np.diagonal(matrix)
        self._scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        scaled = matrix * self._scale
        scaled *= self._scale[:, None]
        places = np.arange(len(matrix))
        scaled[places, places] = np.where(diagonal > 0.0, 1.0, _FIRST_SHIFT)
        shift = 0.0
        while True:
            self._factor, failed = dpotrf(scaled.T, lower=1, clean=0, overwrite_a=0)
            if failed == 0:
                return
            added = _FIRST_SHIFT if shift == 0.0 else 99.0 * shift
            shift += added
            scaled[places, places] += added

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system."""
        solution: Vector = dpotrs(self._factor, vector * self._scale, lower=1)[0]
        solution *= self._scale
        return solution


class QuasiNewton:
    """L-BFGS whose first matrix is a Hessian."""

    def __init__(self) -> None:
        self._hessian: Vector | None = None
        self._factor: Factor | None = None
        self._pairs: list[tuple[Vector, Vector, float]] = []
        self.passes = 1.0

    def renew(
        self, sums: Sums, point: Point, *, exact: bool = False, careful: bool = False
    ) -> None:
        """Take the Hessian of these rows at this point, and forget the steps before."""
        self._hessian = sums.hessian(point, exact=exact, careful=careful)
        self._factor = Factor(self._hessian)
        self._pairs = []
        self.passes = hessian_passes(sums)

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        assert self._hessian is not None
        places = np.arange(len(diagonal))
        raised = np.maximum(diagonal, self._hessian[places, places])
        self._hessian[places, places] = raised
        self._factor = Factor(self._hessian)

    def propose(self, point: Point) -> Proposal:
        """Step of L-BFGS; the decrement is that of the Hessian alone."""
        assert self._factor is not None
        gradient = point.gradient
        newton = self._factor.solve(gradient)
        decrement = 0.5 * float(gradient @ newton)
        if not self._pairs:
            return Proposal(-newton, -2.0 * decrement, decrement)
        rest, shares = gradient.copy(), []
        for moved, change, inverse in reversed(self._pairs):
            share = inverse * float(moved @ rest)
            rest -= share * change
            shares.append(share)
        step = self._factor.solve(rest)
        for (moved, change, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            step += (share - inverse * float(change @ step)) * moved
        slope = -float(gradient @ step)
        if not slope < 0.0:  # pairs that rounding has spoilt
            self._pairs = []
            return Proposal(-newton, -2.0 * decrement, decrement)
        return Proposal(-step, slope, decrement)

    def learn(self, before: Point, after: Point) -> None:
        """Keep the pair of a step and the change of the gradient along it."""
        moved, change = after.theta - before.theta, after.gradient - before.gradient
        along = float(moved @ change)
        lengths = float(np.sqrt((moved @ moved) * (change @ change)))
        if along > _LEAST_CURVATURE * lengths:
            self._pairs = [*self._pairs, (moved, change, 1.0 / along)][-_MOST_PAIRS:]


class WithL1:
    """A quadratic model with an L1 penalty, minimised by coordinate descent."""

    def __init__(self, l1: float) -> None:
        self._l1 = l1
        self._hessian: Vector | None = None
        self.passes = 1.0

    def renew(
        self, sums: Sums, point: Point, *, exact: bool = False, careful: bool = False
    ) -> None:
        """Take the Hessian of these rows at this point."""
        self._hessian = sums.hessian(point, exact=exact, careful=careful)
        self._strengths = np.full(len(point.theta), self._l1)
        self._strengths[sums.d :] = 0.0
        self.passes = hessian_passes(sums)

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        assert self._hessian is not None
        places = np.arange(len(diagonal))
        self._hessian[places, places] = np.maximum(diagonal, self._hessian[places, places])

    def propose(self, point: Point, enough: float = 1e-8) -> Proposal:
        """Step to the minimum of the model with its penalty."""
        assert self._hessian is not None
        slopes, step = point.gradient.copy(), np.zeros(len(point.theta))
        kernels.descend(
            self._hessian, self._strengths, point.theta, slopes, step, enough, _MOST_SWEEPS
        )
        kinks = float(self._strengths @ (np.abs(point.theta + step) - np.abs(point.theta)))
        slope = float(point.gradient @ step) + kinks
        curved = 0.5 * float((slopes - point.gradient) @ step)
        return Proposal(step, slope, max(0.0, -(slope + curved)))

    def learn(self, before: Point, after: Point) -> None:
        """A quadratic model with a penalty learns nothing from steps."""


class Conjugate:
    """Newton's step by conjugate gradients, where a Hessian would be too large to form."""

    def __init__(self) -> None:
        self._sums: Sums | None = None
        self._diagonal: Vector | None = None
        self._first = 0.0
        self.passes = 1.0

    def renew(
        self,
        sums: Sums,
        point: Point,
        *,
        exact: bool = False,
        careful: bool = False,  # noqa: ARG002
    ) -> None:
        """Take the diagonal of the Hessian of these rows at this point, to scale columns by."""
        self._sums, self._diagonal = sums, np.maximum(sums.diagonal(point), 1e-300)
        self._first = float(point.gradient @ (point.gradient / self._diagonal))

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Not needed: products are those of all rows."""

    def propose(self, point: Point) -> Proposal:
        """Solve for Newton's step, the more accurately the nearer the optimum is."""
        assert self._sums is not None
        assert self._diagonal is not None
        step, rest = np.zeros(len(point.theta)), -point.gradient
        scaled = rest / self._diagonal
        along, now = scaled.copy(), float(rest @ scaled)
        start = now
        most = max(1e-24, min(0.01, now / self._first if self._first > 0.0 else 0.0))
        for _ in range(_MOST_PRODUCTS):
            if not now > most * start:
                break
            product = self._sums.times(point, along)
            length = now / float(along @ product)
            step += length * along
            rest -= length * product
            scaled = rest / self._diagonal
            before, now = now, float(rest @ scaled)
            along = scaled + (now / before) * along
        slope = float(point.gradient @ step)
        return Proposal(step, slope, -0.5 * slope)

    def learn(self, before: Point, after: Point) -> None:
        """Every step has the Hessian of its own point: there is nothing to learn."""


def hessian_passes(sums: Sums) -> float:
    """What a Hessian costs, in passes over the rows."""
    return 1.4 + sums.d / 54.0
