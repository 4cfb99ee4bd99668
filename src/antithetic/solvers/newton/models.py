r"""Models of the objective around a point, each of which proposes a step.

Where the penalty is smooth, steps are those of L-BFGS whose first matrix is a Hessian or, where
that would be too large, those of conjugate gradients. With an L1 penalty, a step minimises the
quadratic model with the penalty, by coordinate descent, so weights are exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import daxpy

from antithetic._core import kernels
from antithetic.exact.sums import Evaluation, Sums, Vector, diagonal_of
from antithetic.solvers.newton.factor import Factor, Inverse

MOST_COLUMNS = 4000  # of a Hessian that is formed
_MOST_PAIRS = 10
_LEAST_CURVATURE = 1e-10  # of a pair that is kept, relative to the lengths of its vectors
_MOST_PRODUCTS = 300  # of the Hessian with a vector, for one step
_LEFT_OVER = 0.1  # of the squared residual of a linear system that is solved roughly
_HESSIANS, _MOST_STEPS = 10.0, 40  # that products may cost; less than half of what a fit may take
_SWEEPS = 100  # of coordinate descent, before steps along the weights in use; these cost as much
_MOST_ROUNDS = 10  # of descent and such steps, for one step with an L1 penalty
_ENOUGH = 1e-4  # of what the first sweep gained: a sweep that gains less is the last
_SHARES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of a step where weights change sign
_LEFT_OUT = 1e-6  # of a step's gain: a round that gains less is the last
_FEW_WORKING, _MOST_WORKING = 200, 2000  # columns added to those in use
_FEW_PASSES = 10.0  # that a Hessian counts as with an L1 penalty and many classes


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
        self, sums: Sums, point: Evaluation, *, exact: bool = False, care: float = 0.0
    ) -> None:
        """Take the Hessian of these rows at this point."""

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""

    def propose(self, point: Evaluation) -> Proposal:
        """Step from a point."""

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """Learn from a step that was taken."""


class QuasiNewton:
    """L-BFGS whose first matrix is a Hessian."""

    def __init__(self) -> None:
        self._hessian: Vector | None = None
        self._factor: Inverse | None = None
        self._pairs: list[tuple[Vector, Vector, float]] = []
        self.passes = 1.0

    @property
    def is_ready(self) -> bool:
        """Whether there is a matrix; a fit that ends where it begins needs none."""
        return self._factor is not None

    def renew(
        self, sums: Sums, point: Evaluation, *, exact: bool = False, care: float = 0.0
    ) -> None:
        """Take the Hessian of these rows at this point, and forget the steps before."""
        self._hessian = sums.hessian(point, exact=exact, care=care)
        self._factor = Factor(self._hessian)
        self._pairs = []
        self.passes = hessian_passes(sums)

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        assert self._hessian is not None
        own = diagonal_of(self._hessian)
        np.maximum(diagonal, own, out=own)
        self._factor = Factor(self._hessian)

    def change_penalty(self, d: int, added: float, l1: float) -> None:  # noqa: ARG002
        """Add so much to the L2 penalty of the first d columns."""
        assert self._hessian is not None
        self._hessian = _with_diagonal(self._hessian, d, added)
        self._factor = Factor(self._hessian)
        self._pairs = []

    def propose(self, point: Evaluation) -> Proposal:
        """Step of L-BFGS; the decrement is that of the Hessian alone."""
        assert self._factor is not None
        gradient = point.gradient
        newton = self._factor.solve(gradient)
        decrement = 0.5 * float(gradient @ newton)
        step = self._corrected(gradient)
        if step is None:
            return Proposal(-newton, -2.0 * decrement, decrement)
        return Proposal(-step, -float(gradient @ step), decrement)

    def _corrected(self, gradient: Vector) -> Vector | None:
        """Product of a gradient with the inverse that the steps so far have corrected, if any."""
        assert self._factor is not None
        if not self._pairs:
            return None
        rest, shares = gradient.copy(), []
        for moved, change, inverse in reversed(self._pairs):
            share = inverse * float(moved @ rest)
            daxpy(change, rest, a=-share)  # in place
            shares.append(share)
        step = self._factor.solve(rest)
        for (moved, change, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            daxpy(moved, step, a=share - inverse * float(change @ step))
        if not float(gradient @ step) > 0.0:  # pairs that rounding has spoilt
            self._pairs = []
            return None
        return step

    def learn(self, before: Evaluation, after: Evaluation) -> None:
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

    @property
    def is_ready(self) -> bool:
        """Whether there is a matrix; a fit that ends where it begins needs none."""
        return self._hessian is not None

    def renew(
        self,
        sums: Sums,
        point: Evaluation,
        *,
        exact: bool = False,  # noqa: ARG002
        care: float = 0.0,
    ) -> None:
        """Take the Hessian of these rows at this point."""
        # in float32 it may be indefinite, and descent along columns would not end
        self.take(sums.hessian(point, exact=True, care=care), sums.d)
        self.passes = hessian_passes(sums)

    def take(self, hessian: Vector, d: int) -> None:
        """Take a Hessian, whose first d columns are penalised."""
        self._hessian, self._strengths = hessian, np.full(len(hessian), self._l1)
        self._strengths[d:] = 0.0

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        assert self._hessian is not None
        own = diagonal_of(self._hessian)
        np.maximum(diagonal, own, out=own)

    def change_penalty(self, d: int, added: float, l1: float) -> None:
        """Add so much to the L2 penalty of the first d columns, and take another L1 penalty."""
        assert self._hessian is not None
        self._l1 = l1
        self.take(_with_diagonal(self._hessian, d, added), d)

    def propose(self, point: Evaluation) -> Proposal:
        """Step towards the minimum of the model with its penalty.

        It takes at most ten rounds, of about as many products as 200 sweeps each. If that does not
        reach the minimum, the next step goes on from there.
        """
        assert self._hessian is not None
        slopes, step = point.gradient.copy(), np.zeros(len(point.theta))
        best = 0.0
        for _ in range(_MOST_ROUNDS):
            kernels.descend(
                self._hessian, self._strengths, point.theta, slopes, step, _ENOUGH, _SWEEPS
            )
            before, best = best, self._expect(point, slopes, step)[1]
            if not best - before > _LEFT_OUT * best:  # nor if an entry of the rows is not finite
                break
            self._finish(point.theta, slopes, step)
        slope, fall = self._expect(point, slopes, step)
        return Proposal(step, slope, max(0.0, fall))

    def _expect(self, point: Evaluation, slopes: Vector, step: Vector) -> tuple[float, float]:
        """Slope along a step, the penalty's kinks included, and how far the model falls."""
        before, after = point.theta, point.theta + step
        # what a weight adds is small where it is used already: sums of its parts would be rounding
        sign = np.where(before != 0.0, np.sign(before), np.sign(after))
        bent = np.where(before * after < 0.0, 2.0 * np.abs(after), 0.0)
        slope = float((point.gradient + self._strengths * sign) @ step + self._strengths @ bent)
        curved = 0.5 * float((slopes - point.gradient) @ step)
        return slope, -(slope + curved)

    def _finish(self, start: Vector, slopes: Vector, step: Vector) -> None:
        """Go to the minimum of the model along the weights in use.

        Coordinate descent finds out which weights these are, but takes many sweeps where columns
        are alike. A weight that would change its sign becomes zero, and is in use no longer. Each
        time costs a factorisation, so this ends once they take more products than the descent may.
        Slopes and step are changed in place.
        """
        size = float(len(step))
        products = _SWEEPS * size**2
        while products > 0.0:
            used = float(np.count_nonzero(start + step))
            products -= used**3 / 3.0 + 2.0 * used * size
            if not self._leave_out(start, slopes, step):
                return

    def _leave_out(self, start: Vector, slopes: Vector, step: Vector) -> bool:
        """Go toward that minimum; whether weights became zero on the way, so that it has moved."""
        assert self._hessian is not None
        at = start + step
        is_used = ((at != 0.0) | (self._strengths == 0.0)) & (np.diagonal(self._hessian) > 0.0)
        used = np.flatnonzero(is_used)
        if not len(used):
            return False
        lines, before, strengths = self._hessian[used], at[used], self._strengths[used]
        along = Factor(lines[:, used]).solve(-(slopes[used] + strengths * np.sign(before)))
        crosses = (strengths > 0.0) & (before * (before + along) < 0.0)
        first = float(np.min(-before[crosses] / along[crosses], initial=1.0))
        # too many at once may lead uphill, the first alone never does
        for length in (1.0, *(share for share in _SHARES if share > first), first):
            after = before + length * along
            left_out = crosses & (before * after <= 0.0)
            after[left_out] = 0.0
            change = after - before
            bent = change @ lines
            slope = float((slopes[used] + strengths * np.sign(before)) @ change)
            if slope + 0.5 * float(bent[used] @ change) < 0.0:
                slopes += bent
                step[used] = after - start[used]
                return bool(left_out.any())
        return False

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """A quadratic model with a penalty learns nothing from steps."""


class WorkingSet:
    """A quadratic model with an L1 penalty of the columns that may be in use, of very many.

    These are the columns whose weights are not zero, and those whose slopes exceed the penalty, the
    steepest first; the others follow in later steps.
    """

    def __init__(self, l1: float) -> None:
        self._l1 = l1
        self._inner = WithL1(l1)
        self._columns = np.empty(0, dtype=np.intp)
        self.passes = 1.0

    def renew(
        self, sums: Sums, point: Evaluation, *, exact: bool = False, care: float = 0.0
    ) -> None:
        """Choose the columns, and take their Hessian at this point."""
        coef, slopes = point.theta[: sums.d], np.abs(point.gradient[: sums.d])
        used = coef != 0.0
        tempting = np.flatnonzero(~used & (slopes > self._l1))
        room = min(_MOST_WORKING, max(_FEW_WORKING, 2 * int(used.sum())))
        steepest = tempting[np.argsort(-slopes[tempting], kind="stable")[:room]]
        columns = np.union1d(np.flatnonzero(used), steepest)
        self._inner.take(sums.hessian_of(point, columns, exact=exact, care=care), len(columns))
        self._columns = np.append(columns, np.arange(sums.d, len(point.theta)))

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Make the model at least as curved along each column."""
        self._inner.raise_diagonal(diagonal[self._columns])

    def propose(self, point: Evaluation) -> Proposal:
        """Step along the columns in use."""
        some = point._replace(
            theta=point.theta[self._columns], gradient=point.gradient[self._columns]
        )
        proposal = self._inner.propose(some)
        step = np.zeros(len(point.theta))
        step[self._columns] = proposal.step
        return proposal._replace(step=step)

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """A quadratic model with a penalty learns nothing from steps."""


class Conjugate:
    """Newton's step by conjugate gradients, where a Hessian would be too large to form."""

    def __init__(self) -> None:
        self.sums: Sums | None = None
        self._scales: Vector | None = None
        self.passes = 1.0
        self.enough = 0.0  # gap that is to be reached: a step beyond it would not pay
        self._products, self._steps = 0, 0
        self._most_products, self._most_steps = np.inf, np.inf

    def on(self, sums: Sums | None) -> None:
        """Ask these rows for products."""
        self.sums = sums

    def renew(
        self,
        sums: Sums,
        point: Evaluation,
        *,
        exact: bool = False,  # noqa: ARG002
        care: float = 0.0,  # noqa: ARG002
    ) -> None:
        """Take the scales of the columns once: products are those of each point anyway."""
        self.sums = sums
        if self._scales is None:
            self._scales = np.maximum(sums.scales(point), np.finfo(np.float64).tiny)
        if sums.d <= MOST_COLUMNS and np.isinf(sums.most_sampled):  # rows are on this machine
            self._most_products = _HESSIANS * (hessian_passes(sums) + factor_passes(sums))
            self._most_steps = _MOST_STEPS

    @property
    def is_spent(self) -> bool:
        """Whether Hessians would have been cheaper, or max_iter may end the fit too early.

        Columns on very different scales, of few rows, take more products than there are columns.
        """
        return self._products > self._most_products or self._steps > self._most_steps

    def raise_diagonal(self, diagonal: Vector) -> None:
        """Not needed: products are those of all rows."""

    def propose(self, point: Evaluation) -> Proposal:
        """Solve for Newton's step, roughly: the next one has a better Hessian."""
        assert self.sums is not None
        assert self._scales is not None
        step, rest = np.zeros(len(point.theta)), -point.gradient
        scaled = rest / self._scales
        along, now = scaled.copy(), float(rest @ scaled)
        enough = _LEFT_OVER * now
        for product_count in range(_MOST_PRODUCTS):
            # without a product there would be no step, where the bound is above what is expected
            if not now > enough or (product_count and self._is_enough(rest)):
                break
            product = self.sums.times(point, along)
            self._products += 1
            curvature = float(along @ product)
            if not curvature > 0.0:  # straight as far as rounding lets us see
                break
            length = now / curvature
            daxpy(along, step, a=length)  # in place
            daxpy(product, rest, a=-length)
            scaled = rest / self._scales
            before, now = now, float(rest @ scaled)
            along = scaled + (now / before) * along
        slope = float(point.gradient @ step)
        return Proposal(step, slope, -0.5 * slope)

    def _is_enough(self, rest: Vector) -> bool:
        """Whether the bound on the gap after the step is small enough, as far as it is known.

        What is left of the linear system will be the gradient.
        """
        assert self.sums is not None
        return float(rest @ rest) <= 2.0 * self.sums.penalty.l2 * self.enough

    def learn(self, before: Evaluation, after: Evaluation) -> None:  # noqa: ARG002
        """Count the steps: each has the Hessian of its own point, so nothing else is learned."""
        self._steps += 1


def _with_diagonal(hessian: Vector, d: int, added: float) -> Vector:
    """Hessian with a number added to the first d entries of its diagonal."""
    changed = hessian.copy()
    diagonal_of(changed)[:d] += added
    return changed


def hessian_passes(sums: Sums) -> float:
    """What a Hessian costs, in passes over the rows."""
    passes: float | None = getattr(sums, "hessian_passes", None)  # of many classes
    if passes is None:
        return 1.4 + sums.d / 54.0
    # with an L1 penalty, steps of an old Hessian cost a descent each, and nothing speeds them up
    return passes if sums.penalty.l1 == 0.0 else min(_FEW_PASSES, passes)


def factor_passes(sums: Sums) -> float:
    """What it costs to factorise a Hessian, in passes over the rows."""
    return sums.d**2 / (12.0 * sums.n)  # d^3 / 3 products; a pass has 4 n d
