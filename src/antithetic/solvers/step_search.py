r"""Automatic steps: a first step size and its decay, from a few passes over some of the rows.

**eta0.** A batch of b rows overshoots on its own rows when :math:`\eta\,c\,|x|^2 > 2b`, with c the
bound on the loss's curvature. Steps from there down, each a quarter of the one before, are tried
for one pass each. The search chooses the longest that gains at least half of what the best gains,
and does not lose it in three more passes, or otherwise the best: the decay later removes the noise
that a long step leaves, whereas a short step never catches up.

**decay.** With steps :math:`1/(\mu t)`, a direction of curvature h is fitted best when :math:`\mu`
is near h: a larger one freezes it, a smaller one keeps its noise. The direction that matters is
that of the solution itself, so the curvature of the objective along the weights found on the sample
is measured, and half of it is taken, never less than the L2 penalty. For a balanced order, whose
noise is smaller, it is less by a factor of sqrt(d / n), but at least 0.12; for a single random
epoch whose mean is taken, by 0.35.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic.orders.shuffle import ShuffledRows
from antithetic.orders.units import Batches
from antithetic.problem import Problem
from antithetic.problem.penalties import ElasticNet
from antithetic.solvers.corrected import Corrected
from antithetic.solvers.divergence import DivergenceError, finite_objective, overflow_message
from antithetic.solvers.sgd import Sgd
from antithetic.solvers.state import After, Solver, State
from antithetic.solvers.steps import InverseTime

_SAMPLE_ROWS, _LEAST_ROWS = 1000, 300
_SAMPLE_ENTRIES = 60_000  # of long sparse rows: a sample of these costs no more than of others
_ROWS_OF_A_CLASS = 100
_RATIO = 4.0  # between one trial step and the next
_MOST_TRIALS = 40
_SHARE_OF_GAIN = 0.5
OWN_EPOCHS = 1 << 31  # orders that no epoch of the run will have
_MORE_PASSES = 3  # over the sample, before the curvature is measured
_STRETCH = 0.25  # the weights are stretched and shrunk by this to measure it
_SHARE_OF_CURVATURE = 0.5
_LEAST_NOISE = 0.12
NOISE_OF_A_MEAN = 0.35  # of a single random epoch


class _Trial(NamedTuple):
    eta0: float
    objective: float
    after: After


@dataclass(frozen=True, slots=True, eq=False)
class _Passes:
    """Passes over a sample of the rows, each with its own order, as SGD makes them."""

    sample: Problem
    solver: Solver
    start: After
    orders: list[Batches]

    @classmethod
    def over(
        cls, sample: Problem, batch_size: int, seed: int, coef: Any, intercept: float
    ) -> _Passes:
        simple = isinstance(sample.penalty, ElasticNet)  # SGD's own kernels know no other
        solver: Solver = Sgd(sample, 0, False) if simple else Corrected(sample, "sgd")
        sampler = ShuffledRows(sample.n, min(batch_size, sample.n), seed)
        orders = [sampler.batches(OWN_EPOCHS + k) for k in range(1 + _MORE_PASSES)]
        return cls(sample, solver, After(*solver.init(coef, intercept)), orders)

    def one_more(self, eta0: float, last: After) -> After:
        """Take the steps of a pass, from eta0 on; all first passes have one order."""
        sample = self.sample
        schedule = InverseTime(eta0, sample.penalty.l2).schedule(sample.loss, sample.penalty)
        order = self.orders[last.state.epochs]
        return self.solver.epoch(last.state, last.own, order, schedule)

    def objective(self, after: After) -> float:
        """Objective on the sample; infinite where it is not finite."""
        return finite_objective(self.sample, after.state.coef, after.state.intercept)

    def has_moved(self, after: After) -> bool:
        """Whether weights, the intercept aside, differ from those of the start."""
        return not np.array_equal(after.state.coef, self.start.state.coef)

    def attempt(self, eta0: float) -> _Trial:
        """Make the first pass."""
        after = self.one_more(eta0, self.start)
        return _Trial(eta0, self.objective(after), after)

    def lasts(self, eta0: float, after: After, enough: float) -> tuple[State, bool]:
        """Weights after some more passes, and whether all kept the gain."""
        lasting = True
        for _ in range(_MORE_PASSES):
            after = self.one_more(eta0, after)
            lasting = lasting and self.objective(after) <= enough
        return after.state, lasting


def find_steps(
    problem: Problem,
    batch_size: int,
    seed: int,
    coef: Any = None,
    intercept: float = 0.0,
    *,
    noise: float = 1.0,
) -> InverseTime:
    """Choose eta0 and decay for a run that begins at the given weights.

    It is a pure function of its arguments. The decay is slower by ``noise``, what an order leaves
    of the noise of a random one. Costs a handful of passes, usually six to ten, over about 1000
    rows.
    """
    sample = sample_of(problem, seed)
    passes = _Passes.over(sample, batch_size, seed, coef, intercept)
    start, at_zero = passes.start.state, sample.loss_at_zero()
    before = _objective_to_beat(sample, start, at_zero)
    if at_zero == 0.0:
        # nothing is lost at zero, as for the perceptron: only the direction matters
        return InverseTime(longest_step(sample, batch_size) / _RATIO, problem.penalty.l2)
    trials = _search(passes.attempt, longest_step(sample, batch_size), before)
    if not any(passes.has_moved(trial.after) for trial in trials):
        # a penalty with a kink may hold weights where they are; without it, they would move
        free = _Passes.over(
            replace(sample, penalty=ElasticNet()), batch_size, seed, coef, intercept
        )
        slopes = sample.slopes(start.coef, start.intercept)
        should_move = bool(sample.data_gradient(slopes)[0].any())
        if should_move and not free.has_moved(free.attempt(trials[0].eta0).after):
            kind = sample.X.dtype
            reason = f"steps for features as large as these are below what {kind} can hold. "
            raise DivergenceError(overflow_message(0, reason))
    best = min(trials, key=lambda trial: trial.objective)
    enough = best.objective + _SHARE_OF_GAIN * max(0.0, before - best.objective)
    good = (trial.eta0 for trial in trials if trial.objective <= enough)
    for eta0 in sorted((eta0 for eta0 in good if best.eta0 <= eta0), reverse=True):
        state, lasting = passes.lasts(eta0, best.after, enough)
        if lasting:
            break
    curvature = _curvature_along(sample, state)
    return InverseTime(eta0, max(problem.penalty.l2, _SHARE_OF_CURVATURE * noise * curvature))


def _objective_to_beat(sample: Problem, start: State, at_zero: float) -> float:
    """Objective of the first weights, or of zero if that is larger.

    Good initial weights should not make the steps short.
    """
    simple = isinstance(sample.penalty, ElasticNet)
    if simple and not start.coef.any() and start.intercept == 0.0:
        before = at_zero
    else:
        before = max(finite_objective(sample, start.coef, start.intercept), at_zero)
    if before == np.inf:
        raise DivergenceError(overflow_message(0, "the loss at the initial weights is too large. "))
    return before


def noise_of_balanced(n: int, d: int) -> float:
    """Partial sums of a balanced order, near sqrt(d), over those of a random one, near sqrt(n)."""
    return float(np.clip(np.sqrt(d / n), _LEAST_NOISE, 1.0))


def sample_of(problem: Problem, seed: int) -> Problem:
    """Draw rows of positive weight, and of a rare class at least a hundred.

    Weights compensate for this, so that objectives stay comparable. There are about 1000 rows,
    fewer if they are sparse and long.
    """
    wanted = _rows_wanted(problem)
    if problem.n <= wanted:
        return problem
    rng = np.random.default_rng((seed, OWN_EPOCHS - 1))
    drawn, factors, weighted = [], [], problem.weight is not None
    for rows in _kinds_of_rows(problem):
        share = round(wanted * len(rows) / problem.n)
        many = min(len(rows), max(_ROWS_OF_A_CLASS, share))
        weighted = weighted or many != share
        drawn.append(rng.choice(rows, many, replace=False, shuffle=False))
        factors.append(np.full(many, len(rows) / max(1, many)))
    rows, factor = np.concatenate(drawn), np.concatenate(factors)
    order = np.argsort(rows)
    rows, factor = rows[order], factor[order] * len(rows) / problem.n
    weight = factor if problem.weight is None else problem.weight[rows] * factor
    # factors that are 1 up to rounding are left out: losses without weights are added up faster
    return replace(
        problem, X=problem.X[rows], y=problem.y[rows], weight=weight if weighted else None
    )


def _rows_wanted(problem: Problem) -> int:
    if not sparse.issparse(problem.X):
        return _SAMPLE_ROWS
    fit = int(_SAMPLE_ENTRIES * problem.n // max(1, problem.X.nnz))
    return min(_SAMPLE_ROWS, max(_LEAST_ROWS, fit))


def _kinds_of_rows(problem: Problem) -> tuple[NDArray[np.intp], ...]:
    """Rows of positive weight, those of each class by themselves if there are two."""
    two_classes = problem.loss.classification or bool((np.abs(problem.y) == 1.0).all())
    kinds = (problem.y < 0.0, problem.y > 0.0) if two_classes else (np.ones(problem.n, bool),)
    return tuple(
        np.flatnonzero(kind if problem.weight is None else kind & (problem.weight > 0.0))
        for kind in kinds
    )


def longest_step(problem: Problem, batch_size: int) -> float:
    """Step at which a batch just overshoots on its own rows."""
    curvature = problem.row_curvature()
    if not np.isfinite(curvature):
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    # rows of zeros: no step moves anything
    return 2.0 * batch_size / curvature if curvature > 0.0 else 1.0


def _search(try_step: Callable[[float], _Trial], longest: float, before: float) -> list[_Trial]:
    """Try the second longest step, the longest, and otherwise shorter ones while they improve."""
    trials = [try_step(longest / _RATIO), try_step(longest)]
    if trials[1].objective < min(trials[0].objective, before):
        return trials
    least = trials[0].objective
    for k in range(2, _MOST_TRIALS):
        trials.append(try_step(longest / _RATIO**k))
        if trials[-1].objective >= least and least < before:
            break
        least = min(least, trials[-1].objective)
    return trials


def _curvature_along(problem: Problem, state: State) -> float:
    """Curvature of the objective along the weights, by a second difference."""
    with np.errstate(over="ignore"):
        square = float(state.coef.astype(np.float64) @ state.coef + np.square(state.intercept))
    if not (np.isfinite(square) and square > 0.0):
        return problem.penalty.l2
    predictions = problem.predictions(state.coef, state.intercept)
    shorter, here, longer = (
        problem.mean_loss(stretch * predictions)
        for stretch in (1.0 - _STRETCH, 1.0, 1.0 + _STRETCH)
    )
    return (longer - 2.0 * here + shorter) / (_STRETCH**2 * square) + problem.penalty.l2
