"""The whole method: samples that grow, then all rows, until a bound on the gap is small enough."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from antithetic.problem.certificate import certified_gap
from antithetic.problem.sums import Evaluation, Sums, Vector
from antithetic.solvers.newton.levels import is_worth_renewing, solve_levels
from antithetic.solvers.newton.models import (
    Conjugate,
    Model,
    Proposal,
    QuasiNewton,
    WithL1,
    WorkingSet,
)
from antithetic.solvers.newton.search import search, value

_FEW_ROWS = 1500  # below which digits cost nothing
_FREE_DIGITS = 1e-10
_ROUNDING = {False: 1e-12, True: 1e-6}  # of the constant's objective, by whether rows are float32
_MOST_COLUMNS = 4000  # of a Hessian that is formed
_AGAIN = 1.5  # of the gap that is allowed: where a bound is expected, it is computed


class Iterate(NamedTuple):
    """A run after some iterations over all rows. It is replaced as a whole.

    Attributes
    ----------
    point : Evaluation
    iterations : int
    gap : float
        Bound on the objective's distance from its optimum, in units of ``unit``; infinite where it
        is not known yet.
    certified : bool
        Whether the gap is a bound rather than an estimate.
    ended : str
        Why the run has ended: "gap", "rounding", or "" while it has not.
    """

    point: Evaluation
    iterations: int = 0
    gap: float = np.inf
    certified: bool = False
    ended: str = ""


class Newton:
    """Newton's method on growing samples, one iteration over all rows at a time.

    Parameters
    ----------
    sums : Sums
    tol : float
        The run ends when the objective is this near to its optimum, in units of what the best
        constant prediction is away from it.
    seed : int, default=0
        Of the samples.
    """

    def __init__(self, sums: Sums, tol: float, seed: int = 0) -> None:
        self.sums, self._seed = sums, seed
        self.tol = min(tol, _FREE_DIGITS) if sums.n < _FEW_ROWS else tol
        self.constant, self.zero_objective = sums.constant()
        self._model = self._choose()
        self._passes = 1.0 if sums.n < _FEW_ROWS else 0.0
        self._ratio, self._last, self._trials = 0.1, np.inf, 1
        self._looseness = 1.0  # what the last bound was, divided by what was expected
        self._is_exact = self._is_fresh = False
        self.sizes: tuple[int, ...] = ()

    @property
    def method(self) -> str:
        """How steps are found."""
        names = {Conjugate: "conjugate gradients", WorkingSet: "working set"}
        return names.get(type(self._model), "newton")

    @property
    def _renews_always(self) -> bool:
        """Whether the model is that of one point only."""
        return isinstance(self._model, (Conjugate, WorkingSet))

    def _choose(self) -> Model:
        sums = self.sums
        l1 = sums.penalty.l1
        if l1 > 0.0:
            return WithL1(l1) if sums.d <= _MOST_COLUMNS else WorkingSet(l1)
        if sums.d <= min(_MOST_COLUMNS, max(2 * sums.n, 300)):
            return QuasiNewton()
        return Conjugate()

    def copy(self) -> Newton:
        """Return a copy that goes its own way."""
        other = copy.copy(self)
        other._model = copy.copy(self._model)
        return other

    def start(self, theta: Vector | None = None) -> Iterate:
        """First pass over all rows, from the solution of the samples or from given weights."""
        sums = self.sums
        zero = np.zeros(sums.d + sums.fit_intercept)
        if sums.fit_intercept:
            zero[-1] = self.constant
        warm = None
        if theta is None and not self._renews_always:
            warm = solve_levels(sums, self._model, zero, self._seed)
        if warm is None:
            point = sums.at(zero if theta is None else theta)
            self._renew(point)
            return Iterate(point)
        self.sizes = warm.sizes
        point = sums.at(warm.theta)
        if not value(sums, point) <= self.zero_objective:
            point = sums.at(zero)
        self._ratio = 2.0 * sums.d / warm.sizes[-1]
        if warm.has_rare:
            self._model.raise_diagonal(sums.diagonal(point, careful=True))
        return Iterate(point)

    def _renew(self, point: Evaluation, *, exact: bool = False) -> None:
        self._model.renew(
            self.sums,
            point,
            exact=exact or self.sums.n < _FEW_ROWS,
            careful=self._trials > 1 and not exact,
        )
        self._is_exact, self._is_fresh = exact or self.sums.n < _FEW_ROWS, True
        self._ratio = 0.1

    def allowed(self, point: Evaluation) -> float:
        """Gap at which the run ends."""
        gained = self.zero_objective - value(self.sums, point)
        return max(self.tol * gained, _ROUNDING[self.sums.is_single] * self.zero_objective)

    def unit(self, point: Evaluation) -> float:
        """What gaps are measured in: the constant's distance from the optimum, at least."""
        if self.tol > 0.0:
            return self.allowed(point) / self.tol
        return max(self.zero_objective - value(self.sums, point), np.finfo(np.float64).tiny)

    def judge(self, progress: Iterate, proposal: Proposal) -> tuple[Iterate, float]:
        """Bound the gap if it may be small enough; return also the decrement to aim at."""
        point = progress.point
        allowed = self.allowed(point)
        estimate = self._estimate(point, proposal)
        expected = self._looseness * estimate
        if expected <= _AGAIN * allowed:
            progress = self.bound(progress, proposal)
            if progress.gap <= self.tol:
                return progress._replace(ended="gap"), 0.0
            self._looseness = progress.gap * self.unit(point) / max(estimate, 1e-300)
            expected = self._looseness * estimate
        if not expected > 0.0:
            return progress, proposal.decrement
        return progress, proposal.decrement * min(1.0, allowed / expected)

    def bound(self, progress: Iterate, proposal: Proposal | None = None) -> Iterate:
        """Bound the gap where there is a penalty, and estimate it where there is none."""
        point, sums = progress.point, self.sums
        penalty = sums.penalty
        certified = penalty.l2 > 0.0 or penalty.l1 > 0.0
        if certified:
            gap = certified_gap(sums, point)
        else:
            if not self._is_fresh or not self._is_exact:
                self._renew(point, exact=True)
                proposal = None
            gap = (proposal or self._model.propose(point)).decrement
        return progress._replace(gap=gap / self.unit(point), certified=certified)

    def _estimate(self, point: Evaluation, proposal: Proposal) -> float:
        """What the bound will be, as far as it is known without another pass."""
        penalty, d = self.sums.penalty, self.sums.d
        if penalty.l1 > 0.0 or penalty.l2 == 0.0:
            return proposal.decrement
        gradient = point.gradient[:d]
        return max(proposal.decrement, float(gradient @ gradient) / (2.0 * penalty.l2))

    def step(self, progress: Iterate) -> Iterate:
        """One more iteration over all rows, or the end."""
        point = progress.point
        proposal = self._model.propose(point)
        progress, target = self.judge(progress, proposal)
        if progress.ended:
            return progress
        if np.isfinite(self._last):
            self._ratio = proposal.decrement / self._last
        passes, margin = (0.0, 0.0) if self._passes else (self._model.passes, 5.0)
        is_stale = self._renews_always or is_worth_renewing(
            proposal.decrement, target, self._ratio, passes, margin
        )
        if is_stale and not self._is_fresh:
            self._renew(point)
            proposal = self._model.propose(point)
        found = search(self.sums, point, proposal)
        if found is None and not (self._is_fresh and self._is_exact):
            self._renew(point, exact=True)
            proposal = self._model.propose(point)
            found = search(self.sums, point, proposal)
        if found is None:
            return self.bound(progress)._replace(ended="rounding")
        self._model.learn(point, found[0])
        self._last, self._is_fresh = proposal.decrement, False
        point, self._trials = found
        return Iterate(point, progress.iterations + 1)


def solve(
    newton: Newton,
    max_iter: int,
    theta: Vector | None = None,
    watch: Callable[[Iterate], object] | None = None,
) -> Iterate:
    """Iterate until the gap is small enough, and at most so often."""
    progress = newton.start(theta)
    while not progress.ended and progress.iterations < max_iter:
        if watch is not None:
            watch(progress)
        progress = newton.step(progress)
    if not progress.ended:
        progress = newton.bound(progress)
        if progress.gap <= newton.tol:
            progress = progress._replace(ended="gap")
    return progress
