"""The whole method: samples that grow, then all rows, until a bound on the gap is small enough."""

from __future__ import annotations

import copy
from functools import partial
from typing import cast

import numpy as np

from antithetic.exact.certificate import certified_gap
from antithetic.exact.sums import ClassedSums, Evaluation, Sums, Vector
from antithetic.solvers.newton.choice import (
    choose_model,
    has_hessian,
    has_unit,
    name_of,
    takes_samples,
)
from antithetic.solvers.newton.gauge import regauge
from antithetic.solvers.newton.goal import FEW_ROWS, Goal
from antithetic.solvers.newton.iterate import Iterate
from antithetic.solvers.newton.levels import (
    Warm,
    follow_sample,
    raise_rare,
    solve_levels,
)
from antithetic.solvers.newton.models import (
    Conjugate,
    Proposal,
    QuasiNewton,
    WithL1,
    WorkingSet,
)
from antithetic.solvers.newton.plain import Alternative, Diagonal
from antithetic.solvers.newton.renewal import is_worth_renewing
from antithetic.solvers.newton.sampled import FromSample
from antithetic.solvers.newton.search import next_care, search, value
from antithetic.solvers.newton.sizes import sizes_for
from antithetic.solvers.newton.whitened import Whitened

_LAST_DIGITS, _MOST_IDLE = 4.0 * float(np.finfo(np.float64).eps), 3
_RATIO_OF_OTHERS = 0.3  # what a step leaves of the decrement, with a Hessian of other weights
_POOR = 0.3  # of the decrement that a step with a new Hessian leaves: its digits may be too few
_SOON = 0.03  # of the decrement: what two or three steps with the Hessian at hand leave
_OF_SAMPLE = 0.3  # of the gap that is allowed: how far a sample that is followed may be off
_OF_BOUND = 0.5  # of the gap that is allowed: what a step by conjugate gradients aims at
_NOTHING = Proposal(np.zeros(0), 0.0, 0.0)
_AGAIN = 1.5  # of the gap that is allowed: where a bound is expected, it is computed


class Newton:
    """Newton's method on growing samples, one iteration over all rows at a time.

    Parameters
    ----------
    sums : Sums
    tol : float
        The run ends when the objective is this close to its optimum, in units of the distance of
        the best constant prediction from it.
    seed : int, default=0
        Of the samples.
    plain : bool, default=False
        Whether L-BFGS without a Hessian will do, where that is cheaper. With other penalties to
        come, a Hessian serves them all.
    """

    def __init__(self, sums: Sums, tol: float, seed: int = 0, *, plain: bool = False) -> None:
        self.sums, self.tol, self._seed = sums, tol, seed
        self._is_classed = hasattr(sums, "classes")  # as ClassedSums: protocols are slow to check
        self._is_small = sums.n < FEW_ROWS
        self._needs_exact = self._is_small  # Hessians, where digits are free or float32 has too few
        self.constant, self.zero_objective = sums.constant()
        self._goal = Goal.of(sums, tol, self.zero_objective)
        self._model = choose_model(sums, seed, is_classed=self._is_classed)
        has_bound = type(self._model) is QuasiNewton and sums.penalty.l2 > 0.0
        # of few rows, a new Hessian costs less than to find out whether the old one will do
        self._renews_always = self._is_small and has_bound
        self._may_be_plain = plain and has_bound
        self._ratio, self._last, self._care = 0.1, np.inf, 0.0
        self._looseness = 1.0  # what the last bound was, divided by what was expected
        self._is_exact = self._is_fresh = self._was_fresh = False
        self._idle, self._is_refined = 0, False
        self._least = -np.inf  # lower bound on the minimum, the best so far
        self.sizes: tuple[int, ...] = ()
        self.sample: Sums | None = None  # the last one, and its solution
        self._solution_of_sample: Vector | None = None

    @property
    def method(self) -> str:
        """How steps are found."""
        return name_of(self._model)

    @property
    def last_decrement(self) -> float:
        """What the last step was expected to gain."""
        return self._last

    @property
    def takes_samples(self) -> bool:
        """Whether samples of the rows come first."""
        return takes_samples(self._model)

    def on(self, sums: Sums | None) -> Newton:
        """Return a copy that goes its own way, on these rows; without any it is small to keep."""
        other = copy.copy(self)
        other._model = copy.copy(self._model)
        if self._is_refined and sums is not None:
            sums = cast("ClassedSums", sums).refined() or sums
        other.sums = sums  # type: ignore[assignment]  # it is kept without rows, never used so
        other.sample = None
        if isinstance(other._model, (Conjugate, FromSample, Whitened)):
            other._model.on(sums)
        return other

    def follow(self, sums: Sums, last: Iterate, some: Sums | None) -> tuple[Newton, Iterate]:
        """Newton's method with another penalty, which begins where this one ended.

        The rows need not be visited for it: only what the penalty adds is new. Where that is far
        from the new optimum, ``some`` rows, the sample with the new penalty, say where to go.
        """
        other = Newton(sums, self.tol, self._seed)
        added, coef = sums.penalty.l2 - self.sums.penalty.l2, last.point.theta[: sums.d]
        gradient = last.point.gradient.copy()
        gradient[: sums.d] += added * coef
        objective = last.point.objective + 0.5 * added * float(coef @ coef)
        point = last.point._replace(objective=objective, gradient=gradient)
        other.sample, other._solution_of_sample = some, self._solution_of_sample
        model = copy.copy(self._model)
        is_same = type(model) is type(other._model)
        if is_same and isinstance(model, (QuasiNewton, WithL1)) and model.is_ready:
            model.change_penalty(sums.d, added, sums.penalty.l1)
            other._model, other._ratio, other._care = model, _RATIO_OF_OTHERS, self._care
            other._needs_exact = self._needs_exact
            if type(model) is QuasiNewton:  # with L1, moves would leave weights beside zero
                point = other._foresee(point)
        else:
            other._renew(point)
        return other, Iterate(point)

    def _foresee(self, point: Evaluation) -> Evaluation:
        """Move by as much as the solution of the sample does, where many steps are left.

        The move of a sample has the noise of that move alone, not that of its solution.
        """
        some, before = self.sample, self._solution_of_sample
        allowed = self._allowed(point, 0)
        decrement = self._model.propose(point).decrement
        if some is None or before is None or decrement * _SOON <= allowed:
            return point
        after = follow_sample(some, self._model, before, _OF_SAMPLE * allowed)
        self._solution_of_sample, self._ratio = after, 2.0 * some.d / some.n
        moved = self.sums.at(point.theta + after - before)
        return moved if value(self.sums, moved) <= value(self.sums, point) else point

    @property
    def _constants(self) -> Vector:
        """Intercepts of the best constant prediction, if there are intercepts."""
        return np.atleast_1d(self.constant) if self.sums.fit_intercept else np.empty(0)

    def at(self, theta: Vector | None) -> Iterate:
        """Return the iterate at the given weights, or at zero, without looking for better ones."""
        if theta is None:
            theta = np.zeros(self.sums.d + len(self._constants))
        return self._begun(self.sums.at(theta))

    def start(self, theta: Vector | None = None) -> Iterate:
        """First pass over all rows, from the solution of the samples or from given weights."""
        sums, zero = self.sums, np.concatenate([np.zeros(self.sums.d), self._constants])
        warm = self._solve_samples(zero) if theta is None else None
        if warm is None:
            point = sums.at(zero if theta is None else theta)
            if theta is not None:
                point = self._better(point, zero)
            return self._begun(point)
        self.sizes, self._model = warm.sizes, warm.model
        if not warm.rare.any():  # along these, its solutions with weak penalties run away
            self.sample, self._solution_of_sample = warm.last, warm.theta
        point = self._better(sums.at(warm.theta), zero)
        self._ratio = 2.0 * sums.d / warm.sizes[-1]
        raise_rare(self._model, sums, point, warm.rare)
        return Iterate(point)

    def _begun(self, point: Evaluation) -> Iterate:
        """Return the first iterate, which may be the last, with a model for the step to come."""
        first = self._settle(Iterate(point))
        if not first.ended:
            self._renew(point)
        return first

    def _better(self, point: Evaluation, zero: Vector) -> Evaluation:
        """The point, or the best constant if that is better."""
        return point if value(self.sums, point) <= self.zero_objective else self.sums.at(zero)

    def _solve_samples(self, zero: Vector) -> Warm | None:
        """Where samples lead to; None where there are none."""
        sizes = sizes_for(self.sums)
        if not sizes or not self.takes_samples:
            return None
        asked = Alternative.of(self.sums, sizes, self.allowed) if self._may_be_plain else None
        solve = partial(
            solve_levels,
            among=sizes,
            model=self._model,
            zero=zero,
            seed=self._seed,
            keep=self.sums.most_sampled == np.inf,  # rows of other machines stay there
            alternative=asked,
        )
        return self.sums.near_samples(solve, sizes[-1], self._seed)

    def _renew(self, point: Evaluation, *, exact: bool = False) -> None:
        exact = exact or self._needs_exact
        if isinstance(self._model, Diagonal) or getattr(self._model, "is_spent", False):
            self._model = QuasiNewton()
        self._model.renew(self.sums, point, exact=exact, care=self._care)
        self._is_exact, self._is_fresh = exact, True
        self._ratio = 0.1

    def allowed(self, objective: float) -> float:
        """Distance from the optimum at which a run of few iterations ends."""
        return self._goal.distance(objective, 0)

    def raise_lower_bound(self, objective: float) -> None:
        """Take a bound into account that was found elsewhere."""
        self._least = max(self._least, objective)

    def _allowed(self, point: Evaluation, iterations: int) -> float:
        """Distance from the optimum at which the run ends."""
        return self._goal.distance(value(self.sums, point), iterations)

    def judge(self, progress: Iterate, proposal: Proposal) -> tuple[Iterate, float]:
        """Bound the gap if it may be small enough; return also the decrement to aim at."""
        point = progress.point
        allowed = self._allowed(point, progress.iterations)
        estimate = self._estimate(point, proposal)
        expected = self._looseness * estimate
        if expected <= _AGAIN * allowed:
            found = self._distance(point, proposal)
            progress = self._with_gap(progress, found)
            if self.tol > 0.0 and found <= allowed:
                return progress._replace(ended="gap"), 0.0
            self._looseness = found / max(estimate, 1e-300)
            expected = self._looseness * estimate
        if not expected > 0.0:
            return progress, proposal.decrement
        return progress, proposal.decrement * min(1.0, allowed / expected)

    @property
    def _is_certified(self) -> bool:
        """Whether gaps are bounds: without a penalty they are estimates."""
        return self.sums.penalty.l2 > 0.0 or self.sums.penalty.l1 > 0.0

    def _distance(self, point: Evaluation, proposal: Proposal | None) -> float:
        """How far the optimum is below a point at most; without a penalty, an estimate.

        The estimate is what an exact Hessian, without care, promises.
        """
        if not self._is_certified:
            return self._promise(point, proposal)
        found = min(certified_gap(self.sums, point), value(self.sums, point) - self._least)
        return 0.0 if found < 0.0 else found  # what is not a number stays so

    def _with_gap(self, progress: Iterate, distance: float) -> Iterate:
        gap = self._goal.share(value(self.sums, progress.point), distance)
        return progress._replace(gap=gap, certified=self._is_certified)

    def _promise(self, point: Evaluation, proposal: Proposal | None) -> float:
        """What the exact Hessian of a point promises, without care."""
        if isinstance(self._model, Whitened) and not self._model.may_be_full:
            return self._model.promise(self.sums, point)
        if not (self._is_fresh and self._is_exact and self._care == 0.0):
            self._care = 0.0
            self._renew(point, exact=True)
            proposal = None
        return (proposal or self._model.propose(point)).decrement

    def close(self, progress: Iterate, reason: str = "") -> Iterate:
        """End the run because the gap is small enough after all, or for the given reason."""
        objective, distance = value(self.sums, progress.point), self._distance(progress.point, None)
        is_met = self._goal.is_met(objective, distance, is_rounded=reason == "rounding")
        return self._with_gap(progress, distance)._replace(ended="gap" if is_met else reason)

    def remember(self, progress: Iterate) -> Iterate:
        """Take the bound at a point into account at all others; it comes from float64 products."""
        progress = self._refine(progress)
        distance = self._distance(progress.point, None)
        self.raise_lower_bound(value(self.sums, progress.point) - distance)
        return progress

    def _estimate(self, point: Evaluation, proposal: Proposal) -> float:
        """What the bound will be, as far as it is known without another pass."""
        penalty, d = self.sums.penalty, self.sums.d
        if penalty.l1 > 0.0 or penalty.l2 == 0.0:
            return proposal.decrement
        gradient = point.gradient[:d]
        bound = float(gradient @ gradient) / (2.0 * penalty.l2)
        if self._is_classed and not self.sums.fit_intercept:
            # which is the gap itself; that of an earlier gradient may be the smaller one
            self.raise_lower_bound(point.objective - bound)
            return min(bound, point.objective - self._least)
        return min(max(proposal.decrement, bound), value(self.sums, point) - self._least)

    def step(self, progress: Iterate) -> Iterate:
        """One more iteration over all rows, or the end."""
        progress = self._settle(progress)
        if progress.ended:
            return progress
        progress, proposal = self._proposed(progress)
        if progress.ended:
            return progress
        point = progress.point
        found = search(self.sums, point, proposal)
        for care in (self._care, 1.0) if found is None and has_hessian(self._model) else ():
            if found is None and not (self._is_fresh and self._is_exact and care == self._care):
                self._care = care
                self._renew(point, exact=True)
                proposal = self._model.propose(point)
                found = search(self.sums, point, proposal)
        if found is None and (finer := self._refine(progress)) is not progress:
            return self.step(finer)
        if found is None:
            return self.close(progress, "rounding")
        if not self._renews_always:
            self._model.learn(point, found.point)
        self._idle = self._idle + 1 if self._is_idle(point, found.point, proposal) else 0
        self._last, self._was_fresh, self._is_fresh = proposal.decrement, self._is_fresh, False
        if not has_unit(self._model):
            self._care = next_care(self.sums, point, proposal, found, self._care)
        after = Iterate(self._regauged(found.point), progress.iterations + 1)
        return after if self._idle < _MOST_IDLE else self.close(after, "rounding")

    def _settle(self, progress: Iterate) -> Iterate:
        """End where a gradient or a bound shows that the gap is small enough, before any model."""
        is_waiting = isinstance(self._model, Whitened) and not self._model.is_ready
        is_bounded = self._renews_always or is_waiting or self._least > -np.inf
        if not is_bounded or self.sums.penalty.l2 == 0.0:
            return progress
        return self.judge(progress, _NOTHING)[0]

    def _proposed(self, progress: Iterate) -> tuple[Iterate, Proposal]:
        """The step to come, from a new Hessian where the one at hand is too old; or the end."""
        if self._renews_always:
            if not self._is_fresh:
                self._renew(progress.point)
            return progress, self._model.propose(progress.point)
        if isinstance(self._model, Conjugate):
            allowed = self._allowed(progress.point, progress.iterations)
            self._model.enough = _OF_BOUND * allowed / max(1.0, self._looseness)
        if isinstance(self._model, Whitened):
            self._model.on(self.sums)
        proposal = self._model.propose(progress.point)
        if self._needs_digits(progress.point, proposal):
            progress = self._refine(progress)
            proposal = self._model.propose(progress.point)
        progress, target = self.judge(progress, proposal)
        if progress.ended:
            return progress, proposal
        if 0.0 < self._last < np.inf:
            self._ratio = proposal.decrement / self._last
            self._needs_exact |= self._was_fresh and self._ratio > _POOR
        if self._is_stale(proposal, target):
            self._renew(progress.point)
            proposal = self._model.propose(progress.point)
        return progress, proposal

    def _needs_digits(self, point: Evaluation, proposal: Proposal) -> bool:
        """Whether a gap is to be shown that products of float32 do not resolve."""
        if self._refined() is None:
            return False
        bound = self._looseness * self._estimate(point, proposal)
        return self._goal.needs_digits(value(self.sums, point), bound)

    def _refined(self) -> ClassedSums | None:
        return cast("ClassedSums", self.sums).refined() if self._is_classed else None

    def _refine(self, progress: Iterate) -> Iterate:
        """Go on with products of float64, if they were of float32."""
        finer = self._refined()
        if finer is None:
            return progress
        self.sums, self._least, self._is_refined = finer, -np.inf, True
        return progress._replace(point=finer.at(progress.point.theta))

    def _regauged(self, point: Evaluation) -> Evaluation:
        """The same probabilities with the least L1 penalty."""
        sums = self.sums
        if sums.penalty.l1 == 0.0 or not self._is_classed:
            return point
        return regauge(cast("ClassedSums", sums), point)

    def _is_idle(self, before: Evaluation, after: Evaluation, proposal: Proposal) -> bool:
        """Whether a step changed nothing but the last digits, and neither did the one before."""
        now = value(self.sums, after)
        fall = value(self.sums, before) - now
        is_flat = fall <= _LAST_DIGITS * abs(now)
        return is_flat and proposal.decrement > 0.5 * self._last

    def _is_stale(self, proposal: Proposal, target: float) -> bool:
        """Whether a new Hessian is worth its passes before the step to come."""
        if self._is_fresh or not has_hessian(self._model):
            return False
        model = self._model
        is_cheap = self._is_small and isinstance(model, Whitened) and model.starts_full
        if isinstance(model, (Diagonal, Whitened)) and not is_cheap:
            return model.is_slow(proposal.decrement, target)
        if self._is_small or isinstance(model, WorkingSet):  # which has other columns then
            return True
        return is_worth_renewing(
            proposal.decrement, target, self._ratio, model.passes, trusted=self._care == 0.0
        )
