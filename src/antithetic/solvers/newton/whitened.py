r"""A model of many classes: L-BFGS whose first matrix all classes share.

The Hessian of K classes has :math:`(K d)^2` entries. Its blocks on the diagonal are much alike,
:math:`\frac1n \sum_i s_i p_{ik} (1 - p_{ik}) x_i x_i^\top`, so one Cholesky factor of their mean
removes the scales and correlations of the columns: L-BFGS then needs about a third of the passes.
Where few weights make a Hessian cheap, that comes first, or once L-BFGS is slow.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from antithetic.problem.sums import ClassedSums, Evaluation, Sums, Vector, Whitening
from antithetic.solvers.newton.factor import Factor
from antithetic.solvers.newton.models import Proposal, QuasiNewton
from antithetic.solvers.newton.renewal import is_worth_renewing

FEW_WEIGHTS = 256  # whose Hessian comes first
MOST_IN_HESSIAN = 2000  # of a Hessian that is formed at all; elsewhere it saves visits to the rows
_PROBES = 16  # random vectors that a trace is estimated by
_STEPS_SEEN = 6  # that tell how fast L-BFGS is
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
    """L-BFGS of many classes.

    Parameters
    ----------
    weights : int
        Number of weights of all classes.
    seed : int
        Of the rows that the shared matrix is made from.
    is_here : bool, default=True
        Whether the rows are on this machine.
    """

    def __init__(self, weights: int, seed: int, *, is_here: bool = True) -> None:
        super().__init__()
        self.starts_full = weights <= (FEW_WEIGHTS if is_here else MOST_IN_HESSIAN)
        self.may_be_full = weights <= MOST_IN_HESSIAN
        self.is_full = False
        self._seed = seed
        self._whitening: Whitening | None = None
        self._asked: tuple[ClassedSums, Evaluation, float] | None = None
        self._decrements: list[float] = []

    def on(self, sums: Sums | None) -> None:
        """Ask these rows for a matrix that is not made yet."""
        if self._asked is not None:
            self._asked = (cast("ClassedSums", sums), *self._asked[1:])

    @property
    def is_ready(self) -> bool:
        """Whether a matrix is there; it is made when the first step is asked for."""
        return self._factor is not None

    def renew(
        self, sums: Sums, point: Evaluation, *, exact: bool = False, care: float = 0.0
    ) -> None:
        """Take the Hessian where it is small, else a matrix that all classes share."""
        self._decrements = []
        if self.starts_full or (self.may_be_full and self.is_ready):
            self.is_full = True
            super().renew(sums, point, exact=exact, care=care)
            return
        classed = cast("ClassedSums", sums)
        self.passes = classed.hessian_passes
        self._factor, self._asked = None, (classed, point, care)

    def _make(self) -> None:
        """Make the matrix that was asked for."""
        if self._factor is not None or self._asked is None:
            return
        sums, point, care = self._asked
        self._asked, self._pairs = None, []
        self._whitening = sums.whitening(point, self._seed, care=care)
        self._factor = self._shared(sums.penalty.l2, fit_intercept=sums.fit_intercept)

    def _shared(self, l2: float, *, fit_intercept: bool) -> SharedFactor:
        assert self._whitening is not None
        self._l2, self._fit_intercept = l2, fit_intercept
        return SharedFactor(self._whitening, l2, fit_intercept=fit_intercept)

    def change_penalty(self, d: int, added: float, l1: float) -> None:
        """Add so much to the L2 penalty of the first d weights."""
        if self.is_full:
            super().change_penalty(d, added, l1)
            return
        self._decrements = []
        assert isinstance(self._factor, SharedFactor)
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
        self._factor = self._shared(self._l2 + added, fit_intercept=self._fit_intercept)
        self._factor.unit = unit

    def propose(self, point: Evaluation) -> Proposal:
        """Step of L-BFGS; the decrement is that of the first matrix alone."""
        self._make()
        return super().propose(point)

    def learn(self, before: Evaluation, after: Evaluation) -> None:
        """Keep the pair of a step and the change of the gradient, and the unit that it shows.

        Steps go where a few rows and classes are undecided, so that they meet more curvature than
        the mean of all.
        """
        super().learn(before, after)
        if self.is_full or not self._pairs:
            return
        assert isinstance(self._factor, SharedFactor)
        _, change, inverse = self._pairs[-1]
        curvature = inverse * float(change @ self._factor.solve(change))
        if curvature > 0.0:
            self._factor.unit /= curvature

    def is_slow(self, decrement: float, target: float) -> bool:
        """Whether a Hessian is worth its passes before the step to come."""
        self._decrements.append(decrement)
        seen = self._decrements[-_STEPS_SEEN if not self.is_full else -2 :]
        if not self.may_be_full or len(seen) < 2 or (not self.is_full and len(seen) < _STEPS_SEEN):
            return False
        ratio = (seen[-1] / seen[0]) ** (1.0 / (len(seen) - 1)) if seen[0] > 0.0 else 1.0
        return is_worth_renewing(decrement, target, ratio, self.passes)

    def promise(self, sums: Sums, point: Evaluation) -> float:
        """What Newton's step promises, by conjugate gradients in whitened weights."""
        self._make()
        assert self._factor is not None
        rest, gained = point.gradient.copy(), 0.0
        scaled = self._factor.solve(rest)
        along, now = scaled, float(rest @ scaled)
        enough = _LEFT_OVER * now
        for _ in range(_MOST_PRODUCTS):
            if not now > enough:
                break
            product = sums.times(point, along)
            curvature = float(along @ product)
            if not curvature > 0.0:
                break
            gained += 0.5 * now * now / curvature
            rest = rest - (now / curvature) * product
            scaled = self._factor.solve(rest)
            before, now = now, float(rest @ scaled)
            along = scaled + (now / before) * along
        return gained
