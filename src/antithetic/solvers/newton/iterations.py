"""The whole method: samples that grow, then all rows, until a bound on the gap is small enough."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from antithetic.problem.certificate import certified_gap
from antithetic.problem.sums import Evaluation, Sums, Vector
from antithetic.solvers.newton.levels import is_worth_renewing, raise_rare, solve_levels
from antithetic.solvers.newton.models import (
    Conjugate,
    Model,
    Proposal,
    QuasiNewton,
    WithL1,
    WorkingSet,
)
from antithetic.solvers.newton.search import next_care, search, value

_FEW_ROWS = 1500  # below which digits cost nothing
_FREE_DIGITS = 1e-10
_FREE_ITERATIONS = 50  # after which no more digits than were asked for are free
_ROUNDING = {False: 1e-12, True: 1e-6}  # of the constant's objective, by whether rows are float32
_LAST_DIGITS, _MOST_IDLE = 4.0 * float(np.finfo(np.float64).eps), 3
_RATIO_OF_OTHERS = 0.3  # what a step leaves of the decrement, with a Hessian of other weights
_MOST_COLUMNS = 4000  # of a Hessian that is formed
_POOR = 0.3  # of the decrement that a step with a new Hessian leaves: its digits may be too few
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
        self.sums, self.tol, self._seed = sums, tol, seed
        self._is_small = sums.n < _FEW_ROWS
        self._needs_exact = self._is_small  # Hessians, where digits are free or float32 has too few
        self.constant, self.zero_objective = sums.constant()
        self._model = self._choose()
        self._ratio, self._last, self._care = 0.1, np.inf, 0.0
        self._looseness = 1.0  # what the last bound was, divided by what was expected
        self._is_exact = self._is_fresh = self._was_fresh = False
        self._idle = 0
        self.sizes: tuple[int, ...] = ()

    @property
    def method(self) -> str:
        """How steps are found."""
        names = {Conjugate: "conjugate gradients", WorkingSet: "working set"}
        return names.get(type(self._model), "newton")

    @property
    def _has_hessian(self) -> bool:
        """Whether the model has a Hessian, which may grow old, or asks the rows for products."""
        return not isinstance(self._model, Conjugate)

    def _choose(self) -> Model:
        sums = self.sums
        l1 = sums.penalty.l1
        if l1 > 0.0:
            return WithL1(l1) if sums.d <= _MOST_COLUMNS else WorkingSet(l1)
        if sums.d <= min(_MOST_COLUMNS, max(2 * sums.n, 300)):
            return QuasiNewton()
        return Conjugate()

    def on(self, sums: Sums | None) -> Newton:
        """Return a copy that goes its own way, on these rows; without any it is small to keep."""
        other = copy.copy(self)
        other._model = copy.copy(self._model)
        other.sums = sums  # type: ignore[assignment]  # it is kept without rows, never used so
        if isinstance(other._model, Conjugate):
            other._model.sums = sums
        return other

    def follow(self, sums: Sums, last: Iterate) -> tuple[Newton, Iterate]:
        """Newton's method with another penalty, which begins where this one ended.

        The rows need not be visited for it: only what the penalty adds is new.
        """
        other = Newton(sums, self.tol, self._seed)
        added, coef = sums.penalty.l2 - self.sums.penalty.l2, last.point.theta[: sums.d]
        gradient = last.point.gradient.copy()
        gradient[: sums.d] += added * coef
        objective = last.point.objective + 0.5 * added * float(coef @ coef)
        point = last.point._replace(objective=objective, gradient=gradient)
        model = copy.copy(self._model)
        if isinstance(model, (QuasiNewton, WithL1)) and type(model) is type(other._model):
            model.change_penalty(sums.d, added, sums.penalty.l1)
            other._model, other._ratio, other._care = model, _RATIO_OF_OTHERS, self._care
            other._needs_exact = self._needs_exact
        else:
            other._renew(point)
        return other, Iterate(point)

    def start(self, theta: Vector | None = None) -> Iterate:
        """First pass over all rows, from the solution of the samples or from given weights."""
        sums = self.sums
        zero = np.zeros(sums.d + sums.fit_intercept)
        if sums.fit_intercept:
            zero[-1] = self.constant
        warm = None
        if theta is None and isinstance(self._model, (QuasiNewton, WithL1)):
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
        raise_rare(self._model, sums, point, warm.rare)
        return Iterate(point)

    def _renew(self, point: Evaluation, *, exact: bool = False) -> None:
        self._model.renew(
            self.sums,
            point,
            exact=exact or self._needs_exact,
            care=self._care,
        )
        self._is_exact, self._is_fresh = exact or self._needs_exact, True
        self._ratio = 0.1

    def unit(self, point: Evaluation) -> float:
        """What gaps are measured in: the constant's distance from the optimum, at least."""
        gained = self.zero_objective - value(self.sums, point)
        rounding = _ROUNDING[self.sums.is_single] * self.zero_objective
        least = float(np.finfo(np.float64).tiny)  # where all objectives are zero
        return max(gained, rounding / self.tol if self.tol > 0.0 else 0.0, least)

    def _goal(self, iterations: int) -> float:
        """Gap at which the run ends: less than was asked for, where digits cost nothing."""
        is_free = self._is_small and iterations < _FREE_ITERATIONS
        return min(self.tol, _FREE_DIGITS) if is_free else self.tol

    def judge(self, progress: Iterate, proposal: Proposal) -> tuple[Iterate, float]:
        """Bound the gap if it may be small enough; return also the decrement to aim at."""
        point, goal = progress.point, self._goal(progress.iterations)
        unit, rounding = self.unit(point), _ROUNDING[self.sums.is_single] * self.zero_objective
        allowed = max(goal * unit, rounding)
        estimate = self._estimate(point, proposal)
        expected = self._looseness * estimate
        if expected <= _AGAIN * allowed:
            progress = self.bound(progress, proposal)
            found = progress.gap * unit
            if self.tol > 0.0 and found <= allowed:
                return progress._replace(ended="gap"), 0.0
            self._looseness = found / max(estimate, 1e-300)
            expected = self._looseness * estimate
        if not expected > 0.0:
            return progress, proposal.decrement
        return progress, proposal.decrement * min(1.0, allowed / expected)

    def bound(self, progress: Iterate, proposal: Proposal | None = None) -> Iterate:
        """Bound the gap where there is a penalty, and estimate it where there is none.

        The estimate is what an exact Hessian, without care, promises.
        """
        point, sums = progress.point, self.sums
        penalty = sums.penalty
        certified = penalty.l2 > 0.0 or penalty.l1 > 0.0
        if certified:
            gap = certified_gap(sums, point)
        else:
            if not (self._is_fresh and self._is_exact and self._care == 0.0):
                self._care = 0.0
                self._renew(point, exact=True)
                proposal = None
            gap = (proposal or self._model.propose(point)).decrement
        return progress._replace(gap=gap / self.unit(point), certified=certified)

    def close(self, progress: Iterate, reason: str = "") -> Iterate:
        """The end for a reason, or because the gap is small enough after all."""
        progress = self.bound(progress)
        return progress._replace(ended="gap" if progress.gap <= self.tol else reason)

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
        if 0.0 < self._last < np.inf:
            self._ratio = proposal.decrement / self._last
            self._needs_exact |= self._was_fresh and self._ratio > _POOR
        if self._is_stale(proposal, target):
            self._renew(point)
            proposal = self._model.propose(point)
        found = search(self.sums, point, proposal)
        for care in (self._care, 1.0) if self._has_hessian else ():
            if found is None and not (self._is_fresh and self._is_exact and care == self._care):
                self._care = care
                self._renew(point, exact=True)
                proposal = self._model.propose(point)
                found = search(self.sums, point, proposal)
        if found is None:
            return self.close(progress, "rounding")
        self._model.learn(point, found.point)
        self._idle = self._idle + 1 if self._is_idle(point, found.point, proposal) else 0
        self._last, self._was_fresh, self._is_fresh = proposal.decrement, self._is_fresh, False
        self._care = next_care(self.sums, point, proposal, found, self._care)
        after = Iterate(found.point, progress.iterations + 1)
        return after if self._idle < _MOST_IDLE else self.close(after, "rounding")

    def _is_idle(self, before: Evaluation, after: Evaluation, proposal: Proposal) -> bool:
        """Whether a step changed nothing but the last digits, and neither did the one before."""
        now = value(self.sums, after)
        fall = value(self.sums, before) - now
        is_flat = fall <= _LAST_DIGITS * abs(now)
        return is_flat and proposal.decrement > 0.5 * self._last

    def _is_stale(self, proposal: Proposal, target: float) -> bool:
        """Whether a new Hessian is worth its passes before the step to come."""
        if self._is_fresh or not self._has_hessian:
            return False
        if self._is_small or isinstance(self._model, WorkingSet):  # which has other columns then
            return True
        return is_worth_renewing(proposal.decrement, target, self._ratio, self._model.passes)


def solve(
    newton: Newton,
    progress: Iterate,
    max_iter: int,
    watch: Callable[[Iterate], object] | None = None,
) -> Iterate:
    """Iterate until the gap is small enough, and at most so often."""
    while not progress.ended and progress.iterations < max_iter:
        if watch is not None:
            watch(progress)
        progress = newton.step(progress)
    return progress if progress.ended else newton.close(progress)
