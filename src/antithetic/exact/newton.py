r"""Newton's method on all rows, with second derivatives of all of them or of a sample.

Each iteration visits the rows once, at the end of a full step. That visit also tells how far the
start of the step was from the optimum (:mod:`antithetic.exact.certificate`), and from the
predictions at both ends the best length of the step is found without another visit. Another length
than the full one costs one more.

A state is never changed, so an interrupted iteration leaves the last one as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from antithetic.exact.certificate import certified_gap, gap_of_start, quick_gap
from antithetic.exact.goal import GOOD_ERROR, Goal
from antithetic.exact.models import Model, Proposal
from antithetic.exact.sums import Evaluation, Sample, Sums, Vector, Visit

_EPS = float(np.finfo(np.float64).eps)
ROUNDING = 16.0 * _EPS  # of an objective
_GENEROUS = 32.0  # by which sums estimate the rounding of scores too high
_NEARER = 0.9  # times what it was: crowding that gets less
_MOST_IDLE = 3  # steps that change nothing but the last digits
_SAMPLE_ACCURACY = 0.15  # of a sample's statistical error: how exactly it is solved
_MOST_SAMPLE_STEPS = 30
_MOST_FREE = 20.0  # times that accuracy: what a step that is not checked may promise
_CHEAP_PROOF = 0.5  # of a visit: what the Hessian of a sample may cost to prove a gap
_FAR = 2.0  # times what is allowed: an estimate above it is not worth a bound
_ENOUGH_GAIN = 0.5  # of what the best length gains: a full step that gains so much is kept
_FLAT, _MOST_TRIALS = 0.1, 30  # of the first slope; of lengths
_LARGEST_GROWTH = 4.0  # of a length from one trial to the next


class NewtonState(NamedTuple):
    """A run after some iterations.

    Attributes
    ----------
    point : Evaluation
        Where it is.
    model : Model
        How the next step is found.
    least : float
        Lower bound on the minimum; minus infinity while there is none.
    bound : float
        Bound on the gap at the start of the last step, and so on that of its end.
    iterations : int
    distance : float
        From the minimum at most, or by estimate.
    gap : float
        The same in units of the distance of the best constant.
    certified : bool
        Whether the gap is a bound rather than an estimate.
    ended : str
        Why the run has ended: "gap", "rounding", or "" while it has not.
    decrement : float
        What the last step was expected to gain.
    looseness : float
        Bound at the start of the last step, divided by what the step was expected to gain.
    idle : int
        Steps in a row that changed nothing but the last digits.
    coef_error : float
        Without a penalty, a bound on the error of each weight in standard errors; NaN if there is
        none.
    crowding : float
        See :class:`antithetic.exact.certificate.Closeness`.
    sample : Sample or None
        Rows whose slopes are changed to prove more.
    """

    point: Evaluation
    model: Model
    least: float = -np.inf
    bound: float = np.inf
    iterations: int = 0
    distance: float = np.inf
    gap: float = np.inf
    certified: bool = False
    ended: str = ""
    decrement: float = np.inf
    looseness: float = 1.0
    idle: int = 0
    coef_error: float = np.nan
    crowding: float = np.inf
    sample: Sample | None = None


class Moved(NamedTuple):
    """A step that was taken.

    Attributes
    ----------
    point : Evaluation
    length : float
    visit : Visit
        To the end of the full step.
    """

    point: Evaluation
    length: float
    visit: Visit


def value(sums: Sums, point: Evaluation) -> float:
    """Return the objective at a point, with the whole penalty."""
    l1 = sums.penalty.l1
    return point.objective + (l1 * float(np.abs(point.theta[: sums.d]).sum()) if l1 else 0.0)


def with_bound(sums: Sums, goal: Goal, state: NewtonState, bound: float) -> NewtonState:
    """Add a bound on the gap at the point of a state, with allowances for rounding.

    The bound itself is a sum of numbers that are not negative, so what it may lack is the rounding
    of the scores of columns far from zero: that of a number as large as what cancels there, as if
    it were independent from row to row. A lower bound on the minimum is charged with the rounding
    of all rows at once, generously.
    """
    if not bound < np.inf:  # nor is it a number if a gradient overflows
        return state
    rounding, objective = sums.rounding(state.point), value(sums, state.point)
    of_scores = 0.0
    if state.point.theta[: sums.d].any():
        of_scores = max(0.0, rounding - ROUNDING * abs(state.point.objective)) / _GENEROUS
    least = objective - bound - rounding - ROUNDING * goal.zero_objective
    return state._replace(
        least=max(state.least, least),
        bound=min(state.bound, bound + of_scores / np.sqrt(sums.n)),
    )


def init(
    sums: Sums,
    goal: Goal,
    point: Evaluation,
    model: Model,
    least: float = -np.inf,
    sample: Sample | None = None,
) -> NewtonState:
    """Return the state before the first iteration over all rows."""
    return judged(sums, goal, NewtonState(point, model, least, sample=sample))


def step(sums: Sums, goal: Goal, state: NewtonState) -> NewtonState:
    """Return the state after one more iteration, or the same one with the reason for the end."""
    if state.ended:
        return state
    point, before = state.point, state.decrement
    objective = value(sums, point)
    allowed = goal.distance(objective, state.iterations)
    if state.sample is not None and _is_provable(sums, state, state.sample, allowed):
        state = judged(sums, goal, with_bound_at(sums, goal, state))
        if state.ended:
            return state
        state = state._replace(sample=None)  # its rows are not those that matter here
    model, proposal = state.model.ready(sums, point, allowed / max(1.0, state.looseness), before)
    while True:
        moved = move(sums, point, proposal)
        if moved is not None:
            # of the bound at the start, the end of the step need not answer for what is gained
            fall = objective - value(sums, moved.point)
            is_far = model.rough_gap(moved.visit.after) > _FAR * allowed
            most = allowed if is_far else allowed + max(0.0, fall)
            state = bounded(sums, goal, state, moved.visit, proposal, most)
            if moved.length > 0.0:
                break
            state = judged(sums, goal, state._replace(model=model))
        # a step that gains nothing may lack digits of the sums, not of the model
        is_over = state.ended or sums.refined() is not None
        finer = None if is_over else model.finer(sums, point)
        if finer is None:
            return state if state.ended else closed(sums, goal, state, "rounding")
        model, proposal = finer.ready(sums, point, allowed, np.inf)
    is_idle = fall <= 4.0 * _EPS * abs(objective) and proposal.decrement > 0.5 * before
    after = state._replace(
        point=sums.regauged(moved.point),
        model=model.learned(sums, point, moved),
        bound=state.bound if fall >= 0.0 else np.inf,
        iterations=state.iterations + 1,
        decrement=proposal.decrement,
        idle=state.idle + 1 if is_idle else 0,
    )
    if after.idle >= _MOST_IDLE:
        return closed(sums, goal, after, "rounding")
    return judged(sums, goal, after)


def _is_provable(sums: Sums, state: NewtonState, sample: Sample, allowed: float) -> bool:
    """Decide whether a sample may prove that a point is near enough, for less than a visit.

    Its bound is larger than the gap by about the share of all rows that it has.
    """
    if sums.hessian_visits * sample.n > _CHEAP_PROOF * sums.n:
        return False
    rough = state.model.rough_gap(state.point)
    if np.isnan(rough):  # as a rule, what is left by chance after the sample is solved
        rough = state.decrement if state.iterations else 0.5 * state.point.noise * sums.d / sample.n
    return rough * sums.n <= allowed * sample.n


def bounded(
    sums: Sums, goal: Goal, state: NewtonState, visit: Visit, proposal: Proposal, allowed: float
) -> NewtonState:
    """Add what a visit tells of the gap at the start of its step, taken or not."""
    if not (sums.penalty.l2 > 0.0 or sums.penalty.l1 > 0.0):
        return state
    if visit.expected is None:
        known = max(0.0, value(sums, state.point) - state.least)
        estimate = min(quick_gap(sums, state.point), known)
        return state._replace(looseness=estimate / max(proposal.decrement, 1e-300))
    bound, estimate = gap_of_start(sums, state.point, visit, allowed)
    looseness = estimate / max(proposal.decrement, 1e-300)
    state = state._replace(bound=np.inf, looseness=looseness)
    return with_bound(sums, goal, state, bound)


def judged(sums: Sums, goal: Goal, state: NewtonState) -> NewtonState:
    """Add what is known of the gap, and end the run if it is small enough."""
    if not (sums.penalty.l2 > 0.0 or sums.penalty.l1 > 0.0):
        return _promised(sums, goal, state)
    objective = value(sums, state.point)
    allowed = goal.distance(objective, state.iterations)
    # by the difference of two objectives, whose digits may cancel, or without it
    distance = min(state.bound, max(0.0, objective - state.least))
    is_loose = distance > allowed or goal.share(objective, distance) > goal.tol
    if is_loose and quick_gap(sums, state.point) <= allowed:
        state = with_bound_at(sums, goal, state)
        distance = min(state.bound, max(0.0, objective - state.least))
    return state._replace(
        distance=distance,
        gap=goal.share(objective, distance),
        certified=distance < np.inf,
        ended="gap" if goal.tol > 0.0 and distance <= allowed else state.ended,
    )


def _promised(
    sums: Sums, goal: Goal, state: NewtonState, *, at_any_rate: bool = False
) -> NewtonState:
    """Add what is known of the gap without a penalty, and end the run if it is small enough.

    A run whose gap is small by estimate goes on until that is proved, and the weights are good, as
    long as it comes nearer to a proof: if classes are separated, it never does.
    """
    objective = value(sums, state.point)
    allowed = goal.distance(objective, state.iterations)
    model, near = state.model.promise(sums, state.point, np.inf if at_any_rate else allowed)
    ended = "gap" if goal.tol > 0.0 and near.distance <= allowed else state.ended
    if near.crowding >= 0.0:  # a proof was tried
        is_known = near.certified and (goal.settled == np.inf or near.coef_error <= GOOD_ERROR)
        if near.crowding < _NEARER * state.crowding:
            ended = ended if is_known else state.ended
        elif not ended:
            ended = "rounding"
        state = state._replace(crowding=near.crowding)
    return state._replace(
        model=model,
        distance=near.distance,
        gap=goal.share(objective, near.distance),
        certified=near.certified and objective <= goal.zero_objective,
        coef_error=near.coef_error,
        ended=ended,
    )


def closed(sums: Sums, goal: Goal, state: NewtonState, reason: str) -> NewtonState:
    """End the run, because the gap is small enough after all or for the given reason."""
    if sums.penalty.l2 > 0.0 or sums.penalty.l1 > 0.0:
        state = judged(sums, goal, with_bound_at(sums, goal, state))
    else:
        state = _promised(sums, goal, state, at_any_rate=reason == "rounding")
    if state.ended:
        return state
    objective = value(sums, state.point)
    is_met = goal.is_met(objective, state.distance, is_rounded=reason == "rounding")
    return state._replace(ended="gap" if is_met else reason)


def with_bound_at(sums: Sums, goal: Goal, state: NewtonState) -> NewtonState:
    """Add the bound that follows from the slopes at the point itself."""
    allowed = goal.distance(value(sums, state.point), state.iterations)
    return with_bound(sums, goal, state, certified_gap(sums, state.point, state.sample, allowed))


# ---- samples


def settle(sums: Sums, point: Evaluation, model: Model) -> Vector:
    """Solve a sample as exactly as its statistical error deserves, and take one step more.

    That step is not checked, since it costs no visit; one that promises much is left out.
    """
    before = np.inf
    for _ in range(_MOST_SAMPLE_STEPS):
        target = sample_accuracy(sums, point)
        model, proposal = model.ready(sums, point, target, before)
        if proposal.decrement <= target:
            break
        moved = move(sums, point, proposal)
        if moved is None or moved.length == 0.0:
            break
        model = model.learned(sums, point, moved)
        before, point = proposal.decrement, moved.point
    is_short = proposal.decrement <= _MOST_FREE * sample_accuracy(sums, point)
    return point.theta + proposal.step if is_short else point.theta


def sample_accuracy(sums: Sums, point: Evaluation) -> float:
    """Return the decrement below which more digits of a sample's solution would be noise."""
    return 0.5 * _SAMPLE_ACCURACY * point.noise * sums.d / sums.size


# ---- one step


def move(sums: Sums, start: Evaluation, proposal: Proposal) -> Moved | None:
    """Visit the rows at the end of a step and go the best length, which may be 0.

    None if the step does not lead downwards, so that nobody need look at its end.
    """
    if not proposal.slope < 0.0:
        return None
    if proposal.is_newton:
        visit = sums.after(start, proposal.step)
    else:
        visit = Visit(sums.at(start.theta + proposal.step), proposal.step, None, np.nan)
    before = value(sums, start)
    rounding = 4.0 * _EPS * abs(before)
    along = sums.line(start, visit)
    length = best_length(along, (before, proposal.slope), rounding, visit.lengths)
    if length in (0.0, 1.0):
        return Moved(visit.after if length else start, length, visit)
    return Moved(sums.between(start, visit, length), length, visit)


def best_length(
    along: Callable[[float], tuple[float, float]],
    start: tuple[float, float],
    rounding: float,
    known: tuple[float, ...] = (),
) -> float:
    """Return the length at which a convex function is about smallest; 0 if it falls nowhere.

    The full length, 1, is kept if it gains at least half of what the best one does, and where
    rounding hides what it gains, if the slope there is small.

    Parameters
    ----------
    along : callable
        Value and slope at a length.
    start : tuple of float
        Value and slope at 0; the slope is negative.
    rounding : float
        Differences of values that are not known.
    known : tuple of float, default=()
        Lengths at which the function is known; empty if it is known at all of them.

    Examples
    --------
    >>> parabola = lambda t: ((t - 3.0) ** 2, 2.0 * (t - 3.0))
    >>> best_length(parabola, parabola(0.0), 0.0)
    3.0
    """
    before, steep = start
    now, slope = along(1.0)
    if _is_kept(before, steep, now, slope, rounding):
        return 1.0
    if -steep <= rounding:  # slopes are rounding, too, and would lead anywhere
        return 0.0
    if known:
        least, length = min((along(length)[0], length) for length in known)
        return length if least < before else 0.0
    low, low_slope, high, high_slope = 0.0, steep, np.inf, np.nan
    if np.isfinite(now) and slope < 0.0:
        low, low_slope = 1.0, slope
    else:
        high, high_slope = 1.0, slope
    best, least = (1.0, now) if now < before else (0.0, before)
    length = 1.0
    for _ in range(_MOST_TRIALS):
        length = _next_length(low, low_slope, high, high_slope, steep)
        now, slope = along(length)
        if now < least:
            best, least = length, now
        if np.isfinite(now) and abs(slope) <= -_FLAT * steep:
            break
        if np.isfinite(now) and slope < 0.0:
            low, low_slope = length, slope
        else:
            high, high_slope = length, slope
    return best


def _is_kept(before: float, steep: float, now: float, slope: float, rounding: float) -> bool:
    """Decide whether the full length will do, from values and slopes at both ends."""
    if not np.isfinite(now) or now > before + rounding:
        return False
    if slope <= 0.0:  # unless it falls nearly as fast as at the start
        return slope >= _ENOUGH_GAIN * steep
    if before - now <= rounding:
        return slope <= -_ENOUGH_GAIN * steep
    # a convex function is above its tangents, which meet between both ends
    meet = (now - slope - before) / (steep - slope)
    return before - now >= -_ENOUGH_GAIN * steep * meet


def _next_length(
    low: float, low_slope: float, high: float, high_slope: float, steep: float
) -> float:
    """Guess where the slope is zero, between two lengths or beyond the first."""
    if high == np.inf:
        if low_slope == steep:
            return _LARGEST_GROWTH * low
        straight = low * steep / (steep - low_slope)
        return float(np.clip(straight, 1.5 * low, _LARGEST_GROWTH * low))
    width = high - low
    if not np.isfinite(high_slope):
        return low + 0.1 * width
    straight = low + width * low_slope / (low_slope - high_slope)
    return float(np.clip(straight, low + 0.02 * width, high - 0.1 * width))
