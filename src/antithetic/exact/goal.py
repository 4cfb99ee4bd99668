"""How close to the optimum a run has to come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antithetic.exact.sums import Sums

FEW_ROWS = 1500  # below which digits cost nothing
FREE_ITERATIONS = 50  # after which no more digits than were asked for are free
_FREE_DIGITS = 1e-10
_QUICK = 1e-3  # the largest default of an estimator: a larger tolerance asks for a quick fit
_RESOLVED = 16.0 * float(np.finfo(np.float64).eps)  # of the constant's: bounds have these digits
_ROUNDING = 1e-12  # of the constant's objective: smaller differences are not known
_OF_FLOAT32 = 1e-6  # the same: a distance that is accepted where weights were rounded to float32
_TINY = float(np.finfo(np.float64).tiny)
_COARSE = 1e-5  # of the constant's objective: gaps that products of float32 still resolve
GOOD_ERROR = 0.01  # an error of a weight that changes no conclusion
_MOST_PRODUCTS = 1e8  # of a Hessian, n (K d)^2, up to which penalised weights are as accurate


class Goal(NamedTuple):
    """Gap at which a run ends, in units of the distance of the best constant from the optimum.

    Attributes
    ----------
    tol : float
    zero_objective : float
        Objective of the best constant.
    is_small : bool
        Whether rows are so few that digits cost nothing.
    is_single : bool
        Whether rows, and so the weights that a user gets, are float32.
    settled : float, default=inf
        Distance from the optimum at which each weight is within 0.01 standard errors of its own
        optimum; infinite if that is not asked for.
    """

    tol: float
    zero_objective: float
    is_small: bool
    is_single: bool
    settled: float = np.inf

    @classmethod
    def of(cls, sums: Sums, tol: float, zero_objective: float) -> Goal:
        """Return the goal for these rows and their penalty."""
        settled = settled_distance(sums) if 0.0 < tol <= _QUICK else np.inf
        return cls(tol, zero_objective, sums.n < FEW_ROWS, sums.is_single, settled)

    @property
    def rounding(self) -> float:
        """Distance from the optimum that rounding hides."""
        return _ROUNDING * self.zero_objective

    @property
    def least_unit(self) -> float:
        """Least that gaps are measured in; above zero even where all objectives are zero."""
        return max(self.rounding, _TINY)

    def unit(self, objective: float) -> float:
        """What gaps are measured in: the constant's distance from the optimum, at least."""
        return max(self.zero_objective - objective, self.least_unit)

    def share(self, objective: float, distance: float) -> float:
        """Gap of an objective that is at most so far above the optimum.

        Unless it is above the constant's, the gap is at most 1 however far that is: the constant is
        as much further away.

        Examples
        --------
        >>> goal = Goal(1e-4, 1.0, False, False)
        >>> goal.share(0.5, 0.5), goal.share(0.5, float("inf"))
        (0.5, 1.0)
        >>> goal.share(1.0 + 1e-15, float("inf"))  # that of the constant, but for rounding
        1.0
        """
        unit, gained = self.unit(objective), self.zero_objective - objective
        if gained < -self.rounding:
            return distance / unit
        gained = max(gained, 0.0)
        return distance / max(unit, gained + distance) if distance < np.inf else 1.0

    def gap(self, iterations: int) -> float:
        """Gap at which the run ends: less than was asked for, where digits cost nothing."""
        is_free = self.is_small and self.tol <= _QUICK and iterations < FREE_ITERATIONS
        if not is_free:
            return self.tol
        return _FREE_DIGITS if self.tol >= _FREE_DIGITS else 0.0  # who asks for more gets them all

    def distance(self, objective: float, iterations: int) -> float:
        """Distance from the optimum at which the run ends."""
        asked = max(self.gap(iterations) * self.unit(objective), _RESOLVED * self.zero_objective)
        return min(asked, self.settled)

    def is_met(self, objective: float, distance: float, *, is_rounded: bool = False) -> bool:
        """Whether an objective is as close to the optimum as was asked for.

        A small miss is accepted if the weights had to be rounded to float32.

        Examples
        --------
        >>> goal = Goal(1e-8, 1.0, is_small=False, is_single=True)
        >>> goal.is_met(0.5, 1e-6), goal.is_met(0.5, 1e-6, is_rounded=True)
        (False, True)
        """
        if not self.tol > 0.0:
            return distance <= 0.0
        accepted = self.rounding
        if is_rounded and self.is_single:
            accepted = _OF_FLOAT32 * self.zero_objective
        return distance <= max(self.tol * self.unit(objective), accepted)

    def needs_digits(self, objective: float, bound: float) -> bool:
        """Whether a gap is to be shown that products of float32 do not resolve."""
        coarse = _COARSE * self.zero_objective
        return self.distance(objective, 0) < coarse and bound < coarse


def settled_distance(sums: Sums) -> float:
    r"""Distance from the optimum at which each weight is within 0.01 standard errors of its own.

    With gradient g and Hessian H of the summed objective, the error of weight j is at most
    :math:`\sqrt{g^\top H^{-1} g}` times :math:`\sqrt{(H^{-1})_{jj}}`, its standard error without a
    penalty; near the optimum, the distance is half of :math:`g^\top H^{-1} g`. Infinite, so that
    ``tol`` alone decides, with an L1 penalty, or if such digits of penalised weights are not cheap.
    """
    penalty = sums.penalty
    is_cheap = sums.n * float(sums.d) ** 2 <= _MOST_PRODUCTS
    if penalty.l1 > 0.0 or (penalty.l2 > 0.0 and not is_cheap):
        return np.inf
    return 0.5 * GOOD_ERROR**2 / sums.n
