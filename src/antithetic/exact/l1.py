"""Models with an L1 penalty: the quadratic model with its penalty, minimised by coordinate descent.

Weights that are not used are exactly zero. With very many columns, a step is along those that are
used or may soon be, the *working set*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antithetic._core import kernels
from antithetic.exact.certificate import Closeness
from antithetic.exact.linear_algebra import Factor
from antithetic.exact.models import (
    Proposal,
    is_worth_renewing,
    next_damping,
)
from antithetic.exact.sums import Evaluation, Sample, Sums, Vector

if TYPE_CHECKING:
    from antithetic.exact.newton import Moved

_SWEEPS = 100  # of coordinate descent, before steps along the weights in use; these cost as much
_MOST_ROUNDS = 10  # of descent and such steps, for one step with an L1 penalty
_MOST_EFFORT = 256.0  # times as much, after steps that ended before the minimum of their model
_ENOUGH = 1e-4  # of what the first sweep gained: a sweep that gains less is the last
_SHARES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of a step in which weights change sign
_LEFT_OUT = 1e-6  # of a step's gain: a round that gains less is the last
_FEW_WORKING, _MOST_WORKING = 200, 2000  # columns added to those in use


@dataclass(frozen=True, slots=True, eq=False)
class Lasso:
    """A quadratic model with an L1 penalty, of all columns or of those that may be in use.

    Attributes
    ----------
    is_working_set : bool
        Whether it has some of the columns: those whose weights are not zero, and those whose slopes
        exceed the penalty, the steepest first. The others follow in later steps.
    sample : Sample or None
        Rows whose Hessian is taken, at each point; None for all rows.
    is_cheap : bool
        Whether rows are so few that a new Hessian at each point costs less than to ask if it pays.
    damping : float
        See :func:`antithetic.exact.models.next_damping`.
    """

    is_working_set: bool = False
    sample: Sample | None = None
    is_cheap: bool = False
    damping: float = 0.0
    _hessian: Vector | None = None
    _columns: NDArray[np.intp] | None = None
    _is_fresh: bool = False
    _effort: float = 1.0

    @property
    def name(self) -> str:
        """How steps are found."""
        return "working set" if self.is_working_set else "newton"

    def ready(
        self, sums: Sums, point: Evaluation, target: float, before: float
    ) -> tuple[Lasso, Proposal]:
        """Step towards the minimum of the model with its penalty."""
        model = self
        if self._hessian is None or (
            (self.is_working_set or self.sample or self.is_cheap) and not self._is_fresh
        ):
            model = self._renewed(sums, point)
        found = model._propose(sums, point)
        if not model._is_fresh:
            ratio = found[0].decrement / before if 0.0 < before < np.inf else 0.1
            if is_worth_renewing(found[0].decrement, target, ratio, sums.hessian_visits):
                model = model._renewed(sums, point)
                found = model._propose(sums, point)
        proposal, is_short = found
        if is_short:
            model = replace(model, _effort=min(_MOST_EFFORT, 2.0 * model._effort))
        return model, proposal

    def _renewed(self, sums: Sums, point: Evaluation) -> Lasso:
        """Take the Hessian at a point, in float64: descent along an indefinite one does not end."""
        if self.sample is not None:
            hessian = self.sample.hessian(point, exact=True, damping=self.damping)
            return replace(self, _hessian=hessian, _is_fresh=True)
        if not self.is_working_set:
            hessian = sums.hessian(point, exact=True, damping=self.damping)
            return replace(self, _hessian=hessian, _is_fresh=True)
        coef, slopes = point.theta[: sums.d], np.abs(point.gradient[: sums.d])
        used = coef != 0.0
        tempting = np.flatnonzero(~used & (slopes > sums.penalty.l1))
        room = min(_MOST_WORKING, max(_FEW_WORKING, 2 * int(used.sum())))
        steepest = tempting[np.argsort(-slopes[tempting], kind="stable")[:room]]
        columns = np.union1d(np.flatnonzero(used), steepest)
        hessian = sums.hessian_of(point, columns, exact=True, damping=self.damping)
        columns = np.append(columns, np.arange(sums.d, len(point.theta)))
        return replace(self, _hessian=hessian, _columns=columns, _is_fresh=True)

    def _propose(self, sums: Sums, point: Evaluation) -> tuple[Proposal, bool]:
        """Return the step, and whether it ended before the minimum of the model."""
        assert self._hessian is not None
        columns = self._columns
        if columns is None:
            strengths = np.full(len(point.theta), sums.penalty.l1)
            strengths[sums.d :] = 0.0
            problem = _Quadratic(self._hessian, strengths, point.theta, point.gradient)
            return problem.descend(self._effort)
        strengths = np.where(columns < sums.d, sums.penalty.l1, 0.0)
        some = _Quadratic(self._hessian, strengths, point.theta[columns], point.gradient[columns])
        proposal, is_short = some.descend(self._effort)
        step = np.zeros(len(point.theta))
        step[columns] = proposal.step
        return proposal._replace(step=step), is_short

    def learned(self, sums: Sums, before: Evaluation, moved: Moved) -> Lasso:
        """Learn from a step how much damping the next one needs."""
        damping = next_damping(sums, before, moved, self.damping)
        hessian = None if damping > self.damping else self._hessian
        return replace(self, _is_fresh=False, _hessian=hessian, damping=damping)

    def finer(self, sums: Sums, point: Evaluation) -> Lasso | None:
        """Take the Hessian of all rows at this point; then with full damping."""
        damping = self.damping
        if self._is_fresh and self.sample is None:
            if damping == 1.0:
                return None
            damping = 1.0
        return replace(self, sample=None, damping=damping)._renewed(sums, point)

    def on_sample(self, sample: Sample) -> Lasso:
        """Return the same with the Hessians of a sample, unless it has some of the columns."""
        return self if self.is_working_set else replace(self, sample=sample)

    def with_penalty(self, sums: Sums) -> Lasso:
        """Forget the Hessian, which contains the penalty."""
        sample = None if self.sample is None else self.sample.with_penalty(sums.penalty)
        return Lasso(self.is_working_set, sample, self.is_cheap, self.damping)

    def rough_gap(self, point: Evaluation) -> float:  # noqa: ARG002
        """Have no Hessian at hand."""
        return np.nan

    def promise(
        self,
        sums: Sums,  # noqa: ARG002 - other models use these three
        point: Evaluation,  # noqa: ARG002
        allowed: float,  # noqa: ARG002
    ) -> tuple[Lasso, Closeness]:
        """Promise nothing: with an L1 penalty there is a bound."""
        return self, Closeness(np.inf)


class _Quadratic:
    """Minimise g's + s'Hs / 2 + sum of strengths times |start + s| over steps s."""

    def __init__(self, hessian: Vector, strengths: Vector, start: Vector, gradient: Vector) -> None:
        self._hessian, self._strengths = hessian, strengths
        self._start, self._gradient = start, gradient
        self._slopes, self._step = gradient.copy(), np.zeros(len(start))

    def descend(self, effort: float) -> tuple[Proposal, bool]:
        """Return a step after at most so much work, and whether it ended before the minimum.

        It takes at most ten rounds, of about as many products as 200 sweeps each, times the effort.
        If that does not reach the minimum, the next step goes on from there.
        """
        best, is_short = 0.0, True
        start = np.ascontiguousarray(self._start)
        for _ in range(_MOST_ROUNDS):
            kernels.descend(
                self._hessian, self._strengths, start, self._slopes, self._step, _ENOUGH, _SWEEPS
            )
            before, best = best, self._expect()[1]
            if not best - before > _LEFT_OUT * best:  # nor if an entry of the rows is not finite
                is_short = False
                break
            self._finish(effort)
        slope, fall = self._expect()
        return Proposal(self._step, slope, max(0.0, fall)), is_short

    def _expect(self) -> tuple[float, float]:
        """Slope along the step, the penalty's kinks included, and how far the model falls."""
        before, after = self._start, self._start + self._step
        # what a weight adds is small if it is used already: sums of its parts would be rounding
        sign = np.where(before != 0.0, np.sign(before), np.sign(after))
        bent = np.where(before * after < 0.0, 2.0 * np.abs(after), 0.0)
        slope = float((self._gradient + self._strengths * sign) @ self._step)
        slope += float(self._strengths @ bent)
        curved = 0.5 * float((self._slopes - self._gradient) @ self._step)
        return slope, -(slope + curved)

    def _finish(self, effort: float) -> None:
        """Go to the minimum of the model along the weights in use.

        Coordinate descent finds out which weights these are, but takes many sweeps if columns are
        alike. A weight that would change its sign becomes zero, and is in use no longer. Each time
        costs a factorisation, so this ends once they take more products than the descent may.
        """
        size = float(len(self._step))
        products = effort * _SWEEPS * size**2
        while products > 0.0:
            used = float(np.count_nonzero(self._start + self._step))
            products -= used**3 / 3.0 + 2.0 * used * size
            if not self._leave_out():
                return

    def _leave_out(self) -> bool:
        """Go toward that minimum; return whether weights became zero, so that it has moved."""
        at = self._start + self._step
        is_used = ((at != 0.0) | (self._strengths == 0.0)) & (np.diagonal(self._hessian) > 0.0)
        used = np.flatnonzero(is_used)
        if not len(used):
            return False
        lines, before, strengths = self._hessian[used], at[used], self._strengths[used]
        slopes = self._slopes[used] + strengths * np.sign(before)
        along = Factor(lines[:, used]).solve(-slopes)
        crosses = (strengths > 0.0) & (before * (before + along) < 0.0)
        first = float(np.min(-before[crosses] / along[crosses], initial=1.0))
        # too many at once may lead uphill, the first alone never does
        for length in (1.0, *(share for share in _SHARES if share > first), first):
            after = before + length * along
            left_out = crosses & (before * after <= 0.0)
            after[left_out] = 0.0
            change = after - before
            bent = change @ lines
            if float(slopes @ change) + 0.5 * float(bent[used] @ change) < 0.0:
                self._slopes += bent
                self._step[used] = after - self._start[used]
                return bool(left_out.any())
        return False
