r"""A model of many classes: L-BFGS whose first matrix all classes share, or has their blocks.

The Hessian of K classes has :math:`(K d)^2` entries. Its blocks on the diagonal are much alike,
:math:`\frac1n \sum_i s_i p_{ik} (1 - p_{ik}) x_i x_i^\top`, so one Cholesky factor of their mean
removes the scales and correlations of the columns: L-BFGS then needs about a third of the passes.
Once that is slow, the blocks themselves take its place, which leaves another third or less; they
are made of a sample of the rows, in which undecided ones come first. Where few weights make a
Hessian cheap, that comes first, or once L-BFGS is slow nevertheless. Where it would be too large,
and a fit has taken many steps, the others are solved for by conjugate gradients.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import cast

import numpy as np

from antithetic.exact.class_sums import ClassSums
from antithetic.exact.sums import ClassedSums, Evaluation, Sums, Vector, Whitening
from antithetic.solvers.newton.class_factors import ClassFactors
from antithetic.solvers.newton.conjugate import conjugate_gradients
from antithetic.solvers.newton.factor import Factor
from antithetic.solvers.newton.models import Proposal, QuasiNewton
from antithetic.solvers.newton.renewal import is_worth_renewing

FEW_WEIGHTS = 160  # whose Hessian comes first where samples make up for it or it is no work, ...
_ROWS_PER_WEIGHT, _NO_WORK = 60, 1.5e6  # ... with so many rows, or products of them
_FEWEST_WEIGHTS = 40  # whose Hessian always comes first
MOST_IN_HESSIAN = 2000  # of a Hessian that is formed at all; elsewhere it saves visits to the rows
_PROBES = 16  # random vectors that a trace is estimated by
_STEPS_SEEN = 6  # that tell how fast L-BFGS is
_FEW_SEEN = 3  # the same, where a block for each class is at stake
_OTHER = 0.9  # of the curvature, or its inverse: blocks of so different a point are old
_MOST_STEPS = 40  # of L-BFGS before a Hessian is taken: less than half of what a fit may take
_SLOWEST = 0.95  # of the decrement that a step leaves: slower ones tell nothing of what is left
_MOST_PRODUCTS, _LEFT_OVER = 100, 0.01  # of the Hessian with a vector; of the squared residual


class SharedFactor:
    """Inverse of a matrix whose blocks, one for each class, differ by numbers alone.

    The result has no part along which all classes change alike, as gradients have none.
    """

    def __init__(self, whitening: Whitening, l2: float, *, fit_intercept: bool) -> None:
        products, shares = whitening.products, np.maximum(whitening.shares, 1e-6)
        self._classes, self._features = len(shares), len(products)
        if products.ndim == 2:
            places = np.arange(self._features)
            matrix = products.copy()
            matrix[places, places] += l2
            self._factor: Factor | None = Factor(matrix)
        else:
            self._factor = None
            diagonal = products + l2
            self._diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
        data = 1.0 - l2 * self._mean_of_inverse()  # what the rows have of the curvature
        data = min(1.0, max(0.0, data))
        self._scales = 1.0 / (data * shares + (1.0 - data))
        least = np.finfo(np.float64).tiny
        self._constants = (
            1.0 / np.maximum(whitening.mean * shares, least) if fit_intercept else None
        )
        self.unit = 1.0

    def _mean_of_inverse(self) -> float:
        """Mean of the diagonal of the inverse, roughly."""
        if self._factor is None:
            return float((1.0 / self._diagonal).mean())
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self._features, _PROBES))
        return float((signs * self._factor.solve(signs)).mean())

    def solve(self, vector: Vector) -> Vector:
        """Solution of the linear system, of a point's length."""
        d = self._classes * self._features
        rows = vector[:d].reshape(self._classes, self._features)
        rows = rows - rows.mean(axis=0)
        solved = rows / self._diagonal if self._factor is None else self._factor.solve(rows.T).T
        solved = solved * (self.unit * self._scales[:, None])
        solved -= solved.mean(axis=0)
        if self._constants is None:
            return np.ravel(solved)
        constants = self.unit * self._constants * (vector[d:] - vector[d:].mean())
        return np.concatenate([np.ravel(solved), constants - constants.mean()])


class Whitened(QuasiNewton):
    """L-BFGS of many classes, whose first matrix they share, or has a block for each of them.

    Parameters
    ----------
    weights, rows : int
        Number of weights of all classes, and of rows.
    seed : int
        Of the rows that the shared matrix is made from.
    is_here : bool, default=True
        Whether the rows are on this machine.
    """

    def __init__(self, weights: int, rows: int, seed: int, *, is_here: bool = True) -> None:
        super().__init__()
        is_cheap = rows >= _ROWS_PER_WEIGHT * weights or float(rows) * weights**2 <= _NO_WORK
        most = FEW_WEIGHTS if is_cheap else _FEWEST_WEIGHTS
        self.starts_full = weights <= (most if is_here else MOST_IN_HESSIAN)
        self.may_be_full = weights <= MOST_IN_HESSIAN
        self.may_have_blocks = is_here
        self.is_full = False
        self._seed = seed
        self._whitening: Whitening | None = None
        self._blocks: Vector | None = None  # of the classes, once they are worth it
        self._wants_blocks, self._block_passes, self._features = False, np.inf, 0
        self._curvature = self._then = np.inf  # mean of all rows: now, and where blocks were made
        self._asked: tuple[ClassedSums, Evaluation, float] | None = None
        self._sums: ClassedSums | None = None  # that products are asked for
        self._has_products, self._products = False, 0  # for steps; those of the last one
        self._decrements: list[float] = []  # since the matrix was made
        self._latest: list[float] = []  # the most recent, across matrices
        self._spent, self._steps = 0.0, 0  # passes of L-BFGS, those for blocks included; its steps

    def on(self, sums: Sums | None) -> None:
        """Ask these rows for products, and for a matrix that is not made yet."""
        self._sums = cast("ClassedSums", sums)
        if self._asked is not None:
            self._asked = (cast("ClassedSums", sums), *self._asked[1:])

    def renew(
        self, sums: Sums, point: Evaluation, *, exact: bool = False, care: float = 0.0
    ) -> None:
        """Take the Hessian where it is small, else blocks of it, or what all classes share."""
        self._decrements = []
        if self._wants_blocks:
            self._take_blocks(cast("ClassSums", sums), point, care)
            return
        if self.starts_full or (self.may_be_full and self.is_ready):
            self.is_full = True
            super().renew(sums, point, exact=exact, care=care)
            if self._is_late:
                self._decrements = [self.propose(point).decrement]
            return
        classed = cast("ClassedSums", sums)
        self.passes, self._blocks = classed.hessian_passes, None
        self._factor, self._asked = None, (classed, point, care)

    def _take_blocks(self, sums: ClassSums, point: Evaluation, care: float) -> None:
        self._wants_blocks, self._pairs, self._then = False, [], self._curvature
        self._spent += self._block_passes
        self._blocks = sums.class_blocks(point, care=care)
        self._factor = self._inverse(sums.penalty.l2, fit_intercept=sums.fit_intercept)

    def _make(self) -> None:
        """Make the matrix that was asked for."""
        if self._factor is not None or self._asked is None:
            return
        sums, point, care = self._asked
        self._asked, self._pairs = None, []
        self._features, self._block_passes = sums.features, getattr(sums, "block_passes", np.inf)
        self._whitening = sums.whitening(point, self._seed, care=care)
        self._factor = self._inverse(sums.penalty.l2, fit_intercept=sums.fit_intercept)

    def _inverse(self, l2: float, *, fit_intercept: bool) -> SharedFactor | ClassFactors:
        self._l2, self._fit_intercept = l2, fit_intercept
        if self._blocks is not None:
            return ClassFactors(self._blocks, self._features, l2)
        assert self._whitening is not None
        return SharedFactor(self._whitening, l2, fit_intercept=fit_intercept)

    def change_penalty(self, d: int, added: float, l1: float) -> None:
        """Add so much to the L2 penalty of the first d weights."""
        self._decrements, self._latest, self._steps, self._has_products = [], [], 0, False
        if self.is_full:
            super().change_penalty(d, added, l1)
            return
        assert isinstance(self._factor, (SharedFactor, ClassFactors))
        unit = self._factor.unit
        # steps that were taken say the same of the rows, and more or less of the penalty
        kept = []
        for moved, change, _ in self._pairs:
            changed = change.copy()
            changed[:d] += added * moved[:d]
            along = float(moved @ changed)
            if along > 0.0:
                kept.append((moved, changed, 1.0 / along))
        self._pairs = kept
        self._factor = self._inverse(self._l2 + added, fit_intercept=self._fit_intercept)
        self._factor.unit = unit

    def propose(self, point: Evaluation) -> Proposal:
        """Step of L-BFGS; its decrement is that of a Hessian alone, or else its own."""
        self._make()
        if self.is_full:
            return super().propose(point)
        assert self._factor is not None
        self._curvature = point.totals[0] if point.totals else np.inf
        step = self._solved(point) if self._has_products else self._corrected(point.gradient)
        if step is None:
            step = self._factor.solve(point.gradient)
        slope = -float(point.gradient @ step)
        return Proposal(-step, slope, -0.5 * slope)

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """Keep the pair of a step and the change of the gradient, and the unit that it shows.

        Steps go where a few rows and classes are undecided, so that they meet more curvature than
        the mean of all.
        """
        super().learn(before, after)
        if self.is_full or not self._pairs:
            return
        if self._has_products:
            if self._products > self._block_passes:  # new blocks save as many, or more
                self._take_blocks(cast("ClassSums", self._sums), after, 0.0)
            return
        assert isinstance(self._factor, (SharedFactor, ClassFactors))
        _, change, inverse = self._pairs[-1]
        curvature = inverse * float(change @ self._factor.solve(change))
        if curvature > 0.0:
            self._factor = copy.copy(self._factor)  # copies of this model keep theirs
            self._factor.unit /= curvature

    def is_slow(self, decrement: float, target: float) -> bool:
        """Whether a Hessian, or a block of it for each class, is worth its passes."""
        self._decrements = [*self._decrements, decrement]
        self._latest = [*self._latest[1 - _STEPS_SEEN :], decrement]
        self._spent += 1.0
        self._steps += 1
        if self.may_be_full and not self.is_full and (self._is_late or self._spent > self.passes):
            return True
        self._has_products |= self._are_products_needed(decrement, target)
        if self._has_products:
            return False
        self._wants_blocks = self._are_blocks_worth_it(decrement, target)
        if self._wants_blocks or not self.may_be_full:
            return self._wants_blocks
        ratio = self._ratio(2 if self.is_full else _STEPS_SEEN)
        passes = self.passes
        if self._is_late:  # a Hessian may cost no more than the steps that are left
            passes = min(passes, self._steps_left)
        return ratio is not None and is_worth_renewing(decrement, target, ratio, passes)

    def _are_blocks_worth_it(self, decrement: float, target: float) -> bool:
        """Whether a block for each class is worth its passes, or new ones where they are old."""
        ratio = self._ratio(_FEW_SEEN)
        if not self.may_have_blocks or self.is_full or ratio is None:
            return False
        passes = self._block_passes
        if self._blocks is not None:  # new ones gain less than the first
            passes *= 2.0
            if _OTHER * self._then < self._curvature < self._then / _OTHER:
                return False
        return is_worth_renewing(decrement, target, ratio, passes)

    def _ratio(self, many: int) -> float | None:
        """What a step leaves of the decrement, by so many of the last ones; None if too few."""
        seen = self._decrements[-many:]
        if len(seen) < many:
            return None
        ratio = _mean_ratio(seen)
        return ratio if self.is_full else min(ratio, _SLOWEST)

    @property
    def _is_late(self) -> bool:
        """Whether max_iter may end the fit before steps like those so far do."""
        return self._steps > _MOST_STEPS

    @property
    def _steps_left(self) -> float:
        return max(0.0, 2.0 * _MOST_STEPS - self._steps)

    def _are_products_needed(self, decrement: float, target: float) -> bool:
        """Whether L-BFGS would take more steps than are left, and a Hessian is too large.

        The last steps count across renewals, so frequent renewals do not hide slow progress.
        """
        if self.may_be_full or not (self.may_have_blocks and self._is_late):
            return False
        if len(self._latest) < _STEPS_SEEN:
            return False
        ratio = min(_mean_ratio(self._latest), _SLOWEST)
        return is_worth_renewing(decrement, target, ratio, self._steps_left)

    def _solved(self, point: Evaluation) -> Vector:
        """Product of the gradient with the inverse of the Hessian, by conjugate gradients."""
        assert self._factor is not None
        assert self._sums is not None
        times = partial(self._sums.times, point)
        given, most = point.gradient, _MOST_PRODUCTS
        solved = conjugate_gradients(times, self._factor.solve, given, most, _LEFT_OVER)
        self._products = len(solved.squares) - 1
        return solved.step

    def promise(self, sums: Sums, point: Evaluation) -> float:
        """What Newton's step promises, by conjugate gradients in whitened weights."""
        self._make()
        self.on(sums)
        return 0.5 * float(point.gradient @ self._solved(point))


def _mean_ratio(decrements: list[float]) -> float:
    """What a step leaves of the decrement, as a geometric mean."""
    first, last = decrements[0], decrements[-1]
    return float((last / first) ** (1.0 / (len(decrements) - 1))) if first > 0.0 else 1.0
