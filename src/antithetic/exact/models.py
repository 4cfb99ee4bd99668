r"""Models of the objective around a point, each of which finds steps.

Where the penalty is smooth, steps are those of L-BFGS whose first matrix is a Hessian, of all rows
or of a sample of them, or, if that would be too large, those of conjugate gradients. Steps with an
L1 penalty are those of :mod:`antithetic.exact.l1`.

A model is never changed: learning returns another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
from scipy.linalg.blas import daxpy

from antithetic.exact.certificate import Closeness, prove
from antithetic.exact.goal import FEW_ROWS
from antithetic.exact.linear_algebra import Factor, Inverse, conjugate_gradients
from antithetic.exact.sums import Evaluation, Sample, Sums, Vector

if TYPE_CHECKING:
    from antithetic.exact.newton import Moved
    from antithetic.exact.sums import SumsHere

MOST_COLUMNS = 4000  # of a Hessian that is formed
_MOST_PAIRS = 10
_LEAST_CURVATURE = 1e-10  # of a pair that is kept, relative to the lengths of its vectors
_POOR_SAMPLE = 0.5  # of the gradient that a step with a sample's Hessian may leave
_POOR_DIGITS = 0.3  # of the decrement that a step with a new Hessian may leave
_KEPT = 0.125  # of the first slope: a full step that gains less keeps the damping
_LESS, _LEAST_DAMPING = 0.03, 1e-14
_MOST_PRODUCTS = 300  # of the Hessian with a vector, for one step
_LEFT_OVER = 0.1  # of the squared residual of a linear system that is solved roughly
_HESSIANS, _MOST_STEPS = 10.0, 40  # that products may cost; less than half of what a fit may take
_OF_BOUND = 0.5  # of the allowed distance: what a step by conjugate gradients aims at


class Proposal(NamedTuple):
    """A step, and what the model expects of it.

    Attributes
    ----------
    step : ndarray of shape (d,) or (d + 1,)
    slope : float
        Change of the objective per length at the start, the penalty's kinks included.
    decrement : float
        What the model expects the best step to gain.
    is_newton : bool
        Whether the step solves a linear system with second derivatives, at least roughly. If so,
        what it expects proves a bound.
    """

    step: Vector
    slope: float
    decrement: float
    is_newton: bool = True


# steps that were taken, changes of the gradient along them, and inverses of their products
Pairs = tuple[tuple[Vector, Vector, float], ...]


def with_pair(pairs: Pairs, before: Evaluation, after: Evaluation) -> Pairs:
    """Add a step and the change of the gradient along it, if that shows curvature."""
    way, change = after.theta - before.theta, after.gradient - before.gradient
    along = float(way @ change)
    if along > _LEAST_CURVATURE * float(np.sqrt((way @ way) * (change @ change))):
        return (*pairs, (way, change, 1.0 / along))[-_MOST_PAIRS:]
    return pairs


def corrected(pairs: Pairs, solve: Callable[[Vector], Vector], gradient: Vector) -> Vector:
    """Multiply a gradient by an inverse that steps have corrected, or if they fail, not."""
    rest, shares = gradient.copy(), []
    for moved, change, inverse in reversed(pairs):
        share = inverse * float(moved @ rest)
        daxpy(change, rest, a=-share)  # in place
        shares.append(share)
    step = solve(rest)
    for (moved, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        daxpy(moved, step, a=share - inverse * float(change @ step))
    return step if float(gradient @ step) > 0.0 else solve(gradient)  # rounding has spoilt them


class Model(Protocol):
    """Finds steps.

    An iteration calls ``ready``, visits the rows at the end of the step, and calls ``learned``. If
    the step gained nothing, it tries again with the model that ``finer`` returns.
    """

    @property
    def name(self) -> str:
        """How steps are found."""

    def ready(
        self, sums: Sums, point: Evaluation, target: float, before: float
    ) -> tuple[Model, Proposal]:
        """Return a step from a point, and the model renewed if that pays.

        Parameters
        ----------
        sums : Sums
        point : Evaluation
        target : float
            Decrement to aim at.
        before : float
            Decrement of the step before; infinite at the first.
        """

    def learned(self, sums: Sums, before: Evaluation, moved: Moved) -> Model:
        """Return the model after a step that was taken."""

    def finer(self, sums: Sums, point: Evaluation) -> Model | None:
        """Return a more exact model for a step that gained nothing; None if there is none."""

    def on_sample(self, sample: Sample) -> Model:
        """Return the model with the Hessians of a sample; itself if it takes none of these."""

    def rough_gap(self, point: Evaluation) -> float:
        """Estimate the distance from the minimum by a Hessian at hand; NaN if there is none."""

    def promise(self, sums: Sums, point: Evaluation, allowed: float) -> tuple[Model, Closeness]:
        """Estimate the distance from the minimum, and prove it if it may be what is allowed."""

    def with_penalty(self, sums: Sums) -> Model:
        """Return the model for the same rows with another penalty."""


class QuasiNewton(NamedTuple):
    """L-BFGS whose first matrix is a Hessian.

    Attributes
    ----------
    sample : Sample or None
        Rows whose Hessian is taken, at each point; None for all rows, whose Hessian is taken again
        when it pays.
    is_exact : bool
        Whether products are those of float64.
    is_cheap : bool
        Whether rows are so few that a new Hessian at each point costs less than to ask if it pays.
    damping : float
        See :func:`next_damping`.
    factor : Factor or None
        Of the Hessian.
    is_fresh, was_fresh : bool
        Whether the Hessian is that of the present point, and whether it was at the step before.
    pairs : tuple
        Steps, changes of the gradient along them, and inverses of their products.
    proved : tuple or None
        A point, and what the exact Hessian has told of it.
    """

    sample: Sample | None = None
    is_exact: bool = False
    is_cheap: bool = False
    damping: float = 0.0
    factor: Inverse | None = None
    is_fresh: bool = False
    was_fresh: bool = False  # at the step before
    pairs: Pairs = ()
    proved: tuple[Vector, Closeness] | None = None

    @property
    def name(self) -> str:
        """How steps are found."""
        return "newton"

    def ready(
        self, sums: Sums, point: Evaluation, target: float, before: float
    ) -> tuple[QuasiNewton, Proposal]:
        """Return a step of L-BFGS; the decrement is that of the Hessian alone."""
        visits = sums.hessian_visits
        if self.sample is not None:
            visits *= self.sample.sums.n / sums.n
        is_cheap = self.is_cheap or (self.sample is not None and visits <= 1.0)
        if self.factor is None or is_cheap:
            model = self if self.is_fresh else self._renewed(sums, point)
            return model, model._propose(point)
        proposal = self._propose(point)
        if self.is_fresh:
            return self, proposal
        ratio = proposal.decrement / before if 0.0 < before < math.inf else 0.1
        if is_worth_renewing(proposal.decrement, target, ratio, visits):
            is_exact = self.is_exact or (self.was_fresh and ratio > _POOR_DIGITS)
            model = self._replace(is_exact=is_exact)._renewed(sums, point)
            return model, model._propose(point)
        return self, proposal

    def _renewed(self, sums: Sums, point: Evaluation) -> QuasiNewton:
        """Take the Hessian at a point; one of all rows needs no corrections by steps before it."""
        if self.sample is not None:
            inverse = self.sample.inverse(point, exact=self.is_exact, damping=self.damping)
            return self._replace(factor=inverse, is_fresh=True)
        factor = Factor(sums.hessian(point, exact=self.is_exact, damping=self.damping))
        return self._replace(factor=factor, is_fresh=True, pairs=())

    def _propose(self, point: Evaluation) -> Proposal:
        assert self.factor is not None
        gradient = point.gradient
        newton = self.factor.solve(gradient)
        decrement = 0.5 * float(gradient @ newton)
        if not self.pairs:
            return Proposal(-newton, -2.0 * decrement, decrement)
        step = corrected(self.pairs, self.factor.solve, gradient)
        return Proposal(-step, -float(gradient @ step), decrement)

    def learned(self, sums: Sums, before: Evaluation, moved: Moved) -> QuasiNewton:
        """Keep the pair of the step and the change of the gradient; enlarge a poor sample."""
        damping = next_damping(sums, before, moved, self.damping)
        if self.is_cheap:
            return self._replace(is_fresh=False, damping=damping)
        pairs = with_pair(self.pairs, before, moved.point)
        model = self._replace(is_fresh=False, was_fresh=self.is_fresh, pairs=pairs, damping=damping)
        if damping > self.damping:  # the Hessian at hand has too little curvature
            return model._replace(factor=None)
        if self.sample is not None and self._left_over(sums, before, moved) > _POOR_SAMPLE:
            return model._replace(sample=self.sample.larger(), factor=None)
        return model

    def _left_over(self, sums: Sums, before: Evaluation, moved: Moved) -> float:
        """Return what the step leaves of the linear system of all rows, in the sample's norm."""
        assert self.factor is not None
        visit = moved.visit
        left = visit.expected.copy()
        left[: sums.d] += sums.penalty.l2 * visit.after.theta[: sums.d]
        given = float(before.gradient @ self.factor.solve(before.gradient))
        return math.sqrt(float(left @ self.factor.solve(left)) / given) if given > 0.0 else 0.0

    def finer(self, sums: Sums, point: Evaluation) -> QuasiNewton | None:
        """Take the Hessian of all rows in float64, at this point; then with full damping.

        There is none of very many columns, whose steps come from products with a sample's Hessian.
        """
        damping = self.damping
        if sums.d > MOST_COLUMNS:
            return None
        if self.is_exact and self.is_fresh and self.sample is None:
            if damping == 1.0:
                return None
            damping = 1.0
        return QuasiNewton(None, True, self.is_cheap, damping)._renewed(sums, point)

    def on_sample(self, sample: Sample) -> QuasiNewton:
        """Return the same with the Hessians of a sample; what was learnt there is kept."""
        return self._replace(sample=sample, pairs=(), is_fresh=False)

    def with_penalty(self, sums: Sums) -> QuasiNewton:
        """Forget the Hessian and the steps, whose gradients had another penalty."""
        sample = None if self.sample is None else self.sample.with_penalty(sums.penalty)
        return QuasiNewton(sample, self.is_exact, self.is_cheap, self.damping)

    def rough_gap(self, point: Evaluation) -> float:
        """Return half of the squared length of a step."""
        if self.factor is None:
            return math.nan
        return 0.5 * float(point.gradient @ self.factor.solve(point.gradient))

    def promise(
        self, sums: Sums, point: Evaluation, allowed: float
    ) -> tuple[QuasiNewton, Closeness]:
        """Return the decrement, or what the exact Hessian of all rows proves if that is enough.

        The next step then has that Hessian.
        """
        if self.proved is not None and self.proved[0] is point.theta:
            return self, self.proved[1]
        if self.factor is None:
            return self, Closeness(math.inf)
        decrement = self.rough_gap(point)
        if not decrement <= allowed or sums.d > MOST_COLUMNS:
            return self, Closeness(decrement)
        hessian = sums.hessian(point, exact=True)
        factor = Factor(hessian)
        decrement = 0.5 * float(point.gradient @ factor.solve(point.gradient))
        near = Closeness(decrement)
        if decrement <= allowed:
            near = prove(sums, point, hessian, decrement)
        model = QuasiNewton(None, True, self.is_cheap, factor=factor, is_fresh=True)
        return model._replace(proved=(point.theta, near)), near


@dataclass(frozen=True, slots=True, eq=False)
class ConjugateGradients:
    """Newton's step by conjugate gradients, if a Hessian would be too large to form."""

    _scales: Vector | None = None
    _products: int = 0
    _steps: int = 0

    name = "conjugate gradients"

    def ready(
        self,
        sums: Sums,
        point: Evaluation,
        target: float,
        before: float,  # noqa: ARG002
    ) -> tuple[Model, Proposal]:
        """Solve for Newton's step, roughly: the next one has a better Hessian."""
        scales, rows = self._scales, cast("SumsHere", sums)
        if scales is None:
            scales = np.maximum(rows.scales(point), np.finfo(np.float64).tiny)
        elif self._is_spent(sums):
            is_few = sums.n < FEW_ROWS
            return QuasiNewton(None, is_few, is_few).ready(sums, point, target, math.inf)
        # what is left of the linear system will be the gradient
        enough = 2.0 * sums.penalty.l2 * _OF_BOUND * target
        solved = conjugate_gradients(
            lambda along: rows.times(point, along),
            lambda rest: rest / scales,
            -point.gradient,
            _MOST_PRODUCTS,
            _LEFT_OVER,
            lambda _, rest: float(rest @ rest) <= enough,
        )
        slope = float(point.gradient @ solved.step)
        products = self._products + len(solved.squares) - 1
        model = ConjugateGradients(scales, products, self._steps + 1)
        return model, Proposal(solved.step, slope, -0.5 * slope)

    def _is_spent(self, sums: Sums) -> bool:
        """Whether Hessians would have been cheaper, or max_iter may end the fit too early.

        Columns on very different scales, of few rows, take more products than there are columns.
        """
        if sums.d > MOST_COLUMNS:
            return False
        most = _HESSIANS * (sums.hessian_visits + factor_visits(sums))
        return self._products > most or self._steps > _MOST_STEPS

    def learned(
        self,
        sums: Sums,  # noqa: ARG002 - the protocol's
        before: Evaluation,  # noqa: ARG002
        moved: Moved,  # noqa: ARG002
    ) -> ConjugateGradients:
        """Learn nothing: each step has the Hessian of its own point."""
        return self

    def finer(self, sums: Sums, point: Evaluation) -> Model | None:  # noqa: ARG002
        """Have no finer model: products are those of all rows."""
        return None

    def on_sample(self, sample: Sample) -> ConjugateGradients:  # noqa: ARG002
        """Return the same: products are those of all rows."""
        return self

    def rough_gap(self, point: Evaluation) -> float:  # noqa: ARG002
        """Have no Hessian at hand."""
        return math.nan

    def promise(self, sums: Sums, point: Evaluation, allowed: float) -> tuple[Model, Closeness]:
        """Return the decrement of a step."""
        model, proposal = self.ready(sums, point, allowed, math.inf)
        return model, Closeness(proposal.decrement)

    def with_penalty(self, sums: Sums) -> ConjugateGradients:  # noqa: ARG002
        """Begin again: scales of the columns contain the penalty."""
        return ConjugateGradients()


def next_damping(sums: Sums, start: Evaluation, moved: Moved, damping: float) -> float:
    """Return the damping of the next Hessian, from 0 to 1.

    It is the weight of quadratic functions that touch each row's loss and are nowhere below it: no
    row counts with less curvature than that share of theirs. With 1, no step is too long. A step
    that had to be shortened would have had about the right length with what is returned; full steps
    need less and less of it.
    """
    length, visit = moved.length, moved.visit
    slope = float(start.gradient @ visit.step)
    if length >= 1.0:
        fall = start.objective - moved.point.objective
        if fall < -_KEPT * slope and not sums.penalty.l1:
            return damping
        return _LESS * damping if damping > _LEAST_DAMPING else 0.0
    above = length * sums.curvature_above(start, visit.step)
    return max(damping, min(1.0, -slope / above if above > 0.0 else 1.0))


def factor_visits(sums: Sums) -> float:
    """Return what it costs to factorise a Hessian, in visits to the rows."""
    return sums.d**2 / (12.0 * sums.n)  # d^3 / 3 products; a visit has 4 n d


def is_worth_renewing(decrement: float, target: float, ratio: float, visits: float) -> bool:
    """Decide whether a new Hessian, which costs so many visits, is cheaper than the one at hand.

    ``ratio`` is what the last step left of the decrement. With a new Hessian each step leaves a
    tenth at most.
    """
    if not decrement > target > 0.0:
        return False
    if ratio >= 1.0:
        return True
    distance = math.log(decrement / target)
    after = 1.0 + distance / math.log(10.0)
    return distance / -math.log(max(ratio, 1e-30)) > visits + after
