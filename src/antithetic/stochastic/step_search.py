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

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from antithetic._core import kernels
from antithetic.orders.shuffle import shuffled_rows
from antithetic.orders.units import Batches
from antithetic.problem import Problem, SoftmaxProblem
from antithetic.problem.penalties import ElasticNet
from antithetic.problem.preconditioner import Preconditioner, step_curvature
from antithetic.stochastic.corrected import Corrected
from antithetic.stochastic.sgd import Sgd
from antithetic.stochastic.solver import (
    After,
    DivergenceError,
    Solver,
    State,
    finite_objective,
    overflow_message,
)
from antithetic.stochastic.steps import InverseTime

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
_DECAYS = [10.0 ** (-4.0 + k / 12.0) for k in range(49)]  # that are looked at, of the largest
_ROWS_OF_A_TRIAL = 1000
_MOST_CHECKS = 20
_NEWTON_STEPS = 5
_EPOCHS_LOOKED_AT = np.array([1.0, 8.0])
_NOISE, _UNAVOIDABLE = 0.5, 3.0
_SHARE_OF_MEDIAN = 0.3
_SHARE_OF_QUARTILE = 0.4  # of a kink
_SHARE_OF_A_KINK = 0.3
_ROWS_PER_COLUMN = 100.0  # from which on balanced orders leave less and less noise
_EPOCHS_TO_HALVE = 10.0  # steps of two rows, if nothing is curved: noise must fall in the end
_MOST_COLUMNS = 128  # of the matrix whose eigenvalues are looked at
_RIDGE, _ENOUGH = 1e-10, 1e-4  # of the trace, where columns are collinear; of the objective
_OFF_CENTRE = 0.1  # squared distance of the centre from zero, of the squared spread of the rows
_CHECKED_WITH = 0.01  # decay of the checked pass, relative to the curvature of a mean row


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
        size = min(batch_size, sample.n)
        orders = [
            shuffled_rows(sample.n, size, seed, OWN_EPOCHS + k) for k in range(1 + _MORE_PASSES)
        ]
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
    # factors that are 1 up to rounding are left out: losses without weights are added up faster
    return problem.take(rows, factor if weighted else None)


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


def find_preconditioned_steps(
    problem: Problem,
    preconditioner: Preconditioner,
    batch_size: int,
    seed: int,
    coef: Any = None,
    intercept: float = 0.0,
) -> InverseTime:
    """Choose eta0 and decay for a run in these units that begins at the given weights.

    It is a pure function of its arguments. It costs one pass over about 1000 rows, more if the step
    is too long, a few Newton steps on these rows, and the eigenvalues of a matrix of at most 129
    columns.
    """
    if preconditioner.curvature == np.inf:
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    sample = sample_of(problem, seed)
    solver = Sgd(sample, 0, False, preconditioner=preconditioner.on(sample.X))
    start, own = solver.init(coef, intercept)
    before = finite_objective(sample, start.coef, start.intercept)
    if before == np.inf:
        raise DivergenceError(overflow_message(0, "the loss at the initial weights is too large. "))
    eta0 = _first_step(sample, preconditioner, batch_size)
    if not eta0 > 0.0:
        raise DivergenceError(overflow_message(0, "features or sample weights are too large. "))
    if sample.loss_at_zero() == 0.0:  # as for the perceptron, only the direction matters
        return InverseTime(eta0, problem.penalty.l2)
    batches = shuffled_rows(sample.n, min(batch_size, sample.n), seed, OWN_EPOCHS)
    for _ in range(_MOST_CHECKS):
        decay = _CHECKED_WITH * preconditioner.curvature
        schedule = InverseTime(eta0, decay).schedule(sample.loss, sample.penalty)
        reached = solver.epoch(start, own, batches, schedule).state
        worth = finite_objective(sample, reached.coef, reached.intercept)
        # good initial weights should not make the steps short
        if worth <= max(before, sample.loss_at_zero()):
            break
        eta0 /= _RATIO
    way = _way_to_the_optimum(problem, sample, preconditioner, start, reached)
    decay = way.decay(eta0, problem, batch_size) if sample.loss.is_smooth else way.decay_of_a_kink()
    return InverseTime(eta0, max(decay, preconditioner.curvature / (_EPOCHS_TO_HALVE * problem.n)))


def pays(
    problem: Problem,
    preconditioner: Preconditioner,
    batch_size: int,
    seed: int,
    intercept: Any = 0.0,
) -> bool:
    """Whether steps in these units gain more than steps in the original columns.

    A pass over some rows is made with each, and judged on as many others: sparse columns may gain
    nothing from a centre near zero. It costs three passes over at most 1000 rows; with many
    classes, two searches for steps. With about as many columns as rows or more, one pass over a
    sample says little, as it has met few of the columns. Rows whose centre is far from zero then
    need no trial.
    """
    if not np.isfinite(preconditioner.curvature):
        return False
    if isinstance(problem, SoftmaxProblem):
        from antithetic.stochastic.softmax import softmax_units_pay

        return softmax_units_pay(problem, preconditioner, batch_size, seed, intercept)
    if 2 * problem.d > problem.n and _is_off_centre(problem, preconditioner):
        return True
    rng = np.random.default_rng((seed, OWN_EPOCHS - 2))
    rows = rng.permutation(problem.n)[: 2 * _ROWS_OF_A_TRIAL]
    if len(rows) < 2:
        return False
    seen, others = (problem.take(np.sort(part)) for part in np.array_split(rows, 2))
    longest = longest_step(seen, batch_size)
    batches = shuffled_rows(seen.n, min(batch_size, seen.n), seed, OWN_EPOCHS)

    def judged(solver: Sgd, eta0: float, decay: float) -> float:
        schedule = InverseTime(eta0, decay).schedule(seen.loss, seen.penalty)
        state = solver.epoch(*solver.init(None, intercept), batches, schedule).state
        return finite_objective(others, state.coef, state.intercept)

    centred = Sgd(seen, 0, False, preconditioner=preconditioner.on(seen.X))
    curvature = preconditioner.curvature
    reached = judged(centred, 1.0 / curvature, _CHECKED_WITH * curvature)
    plain = [
        judged(Sgd(seen, 0, False), longest / part, problem.penalty.l2)
        for part in (_RATIO, _RATIO**2)
    ]
    return reached < min(plain)


def _is_off_centre(problem: Problem, preconditioner: Preconditioner) -> bool:
    """Whether the centre is far from zero, against the spread of the rows around it."""
    centre = preconditioner.centre.astype(np.float64)
    away = float(np.square(centre) @ preconditioner.metric)
    mean_weight = 1.0 if problem.weight is None else float(problem.weight.mean())
    spread = preconditioner.curvature / (step_curvature(problem) * mean_weight)
    return away >= _OFF_CENTRE * spread


def _first_step(sample: Problem, preconditioner: Preconditioner, batch_size: int) -> float:
    """One over the curvature along a mean row; where slopes are unbounded, along a long one."""
    if sample.loss.is_bounded:
        return 1.0 / preconditioner.curvature
    weight = np.ones(sample.n) if sample.weight is None else sample.weight
    squares = weight * preconditioner.squares(sample.X)
    total = float(squares.sum())
    long = float(squares @ (squares / total)) if total > 0.0 else 0.0
    curvature = step_curvature(sample) * long * 2.0 / max(2, batch_size)
    return 1.0 / max(preconditioner.curvature, curvature)


class _Way(NamedTuple):
    """Way from the first weights to the optimum of a sample, along the axes of its Hessian.

    Attributes
    ----------
    curvatures : ndarray
        Eigenvalues of the Hessian, in units of the preconditioner.
    worth : ndarray
        What the objective gains along each axis.
    """

    curvatures: NDArray[np.float64]
    worth: NDArray[np.float64]

    def decay(self, eta0: float, problem: Problem, batch_size: int) -> float:
        """Largest decay that leaves little of the way."""
        rows_per_column = problem.n / problem.d
        most = _SHARE_OF_MEDIAN * _median(self.curvatures)
        most *= float(max(1.0, rows_per_column / _ROWS_PER_COLUMN) ** -0.3)
        if not (most > 0.0 and self.worth.any()):
            return most
        share, fall = self.worth / self.worth.sum(), -2.0 * self.curvatures

        def left(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
            """Share of the way that is left after steps of given total lengths."""
            remaining: NDArray[np.float64] = np.exp(lengths[..., None] * fall) @ share
            return remaining

        steps = eta0 * max(1.0, problem.n / batch_size) * _EPOCHS_LOOKED_AT
        enough = np.maximum(_NOISE / rows_per_column, _UNAVOIDABLE * left(steps))

        def leaves_too_much(number: int) -> bool:
            decay = most * _DECAYS[number]
            return not (left(np.log1p(steps * decay) / decay) <= enough).all()

        # the larger the decay, the more is left: the first that leaves too much is looked for
        first = bisect_left(range(len(_DECAYS)), True, key=leaves_too_much)
        return float(most * _DECAYS[max(0, first - 1)])

    def decay_of_a_kink(self) -> float:
        """Decay by the curvature that most directions have."""
        return _SHARE_OF_QUARTILE * max(0.0, float(np.percentile(self.curvatures, 25)))


def _median(numbers: NDArray[np.float64]) -> float:
    """Median of a few numbers, a tenth of the time of NumPy's."""
    ordered, half = np.sort(numbers), len(numbers) // 2
    return 0.5 * float(ordered[half] + ordered[-half - 1])


def _way_to_the_optimum(
    problem: Problem,
    sample: Problem,
    preconditioner: Preconditioner,
    start: State,
    reached: State,
) -> _Way:
    """Look at the Hessian of the sample at the point that Newton's method reaches.

    For a loss with a kink, at the given weights. What the noise of a sample gains along each axis
    is not counted: along flat axes it is often all there is.
    """
    moving = np.flatnonzero(preconditioner.metric > 0.0)
    if len(moving) > _MOST_COLUMNS:
        moving = moving[np.linspace(0, len(moving) - 1, _MOST_COLUMNS).astype(np.intp)]
    if not len(moving):
        return _Way(np.array([sample.penalty.l2]), np.zeros(1))
    centre, metric = preconditioner.centre[moving], preconditioner.metric[moving]
    some = sample.X if len(moving) == sample.d else sample.X[:, moving]
    rows = Preconditioner(centre, metric, np.empty(0), 0.0).rows(some)
    ridge = np.append(sample.penalty.l2 * metric.astype(np.float64), 0.0)

    def weights(state: State) -> NDArray[np.float64]:
        coef, middle = state.coef.astype(np.float64), preconditioner.centre.astype(np.float64)
        return np.append(coef[moving] / np.sqrt(metric), state.intercept + middle @ coef)

    point = weights(reached)
    offset = sample.predictions(reached.coef, reached.intercept) - rows @ point
    with np.errstate(all="ignore"):
        if sample.loss.is_smooth:
            hessian = _at_the_optimum(sample, rows, ridge, offset, point)
        else:
            hessian = _hessian(sample, rows, ridge, offset + rows @ point)
        if not (np.isfinite(hessian).all() and np.isfinite(point).all()):
            return _Way(np.array([sample.penalty.l2]), np.zeros(1))
        values, components = _along_axes(hessian, point - weights(start))
        values = np.maximum(values, 0.0)
        worth = 0.5 * values * np.square(components)
        if sample.loss.is_smooth:
            worth = np.maximum(0.0, worth - _noise(sample, offset + rows @ point, problem.n))
        return _Way(values, worth)


def _noise(sample: Problem, predictions: NDArray[np.float64], n: int) -> float:
    """What a sample's own optimum gains along an axis over that of all n rows, on average."""
    weight = 1.0 if sample.weight is None else sample.weight
    squares = np.square(weight * sample.loss.slope(sample.y, predictions)).sum()
    curvature = float(_curvatures(sample, predictions).sum())
    ratio = float(squares) / curvature if curvature > 0.0 else 0.0
    return 0.5 * ratio * (1.0 / sample.n - 1.0 / n) if ratio < np.inf else 0.0


def _hessian(
    sample: Problem,
    rows: NDArray[np.float64],
    ridge: NDArray[np.float64],
    predictions: NDArray[np.float64],
) -> NDArray[np.float64]:
    weighed = rows * np.sqrt(_curvatures(sample, predictions) / sample.n)[:, None]
    hessian: NDArray[np.float64] = weighed.T @ weighed  # NumPy computes one half of it
    hessian.flat[:: len(hessian) + 1] += ridge
    return hessian


def _at_the_optimum(
    sample: Problem,
    rows: NDArray[np.float64],
    ridge: NDArray[np.float64],
    offset: NDArray[np.float64],
    point: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Hessian after a few of Newton's steps, halved where they would raise the objective.

    ``point`` is moved there.
    """
    hessian = np.empty((len(point), len(point)))
    kernels.newton_on_table(
        rows,
        sample.targets,
        sample.loss.code,
        sample.loss.epsilon,
        offset,
        ridge,
        _NEWTON_STEPS,
        _ENOUGH,
        _RIDGE,
        point,
        hessian,
    )
    return hessian


def _along_axes(
    hessian: NDArray[np.float64], vector: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues of a Hessian, and the components of a vector along its axes."""
    values, components = np.empty(len(vector)), vector.copy()
    if kernels.along_axes(hessian, values, components):
        return values, components
    values, axes = np.linalg.eigh(hessian)
    return values, axes.T @ vector


def _curvatures(sample: Problem, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted curvature of each row's loss; of a kink, spread over a typical distance."""
    loss = sample.loss
    if loss.is_smooth:
        found = loss.curvature(sample.y, predictions)
    else:
        largest = step_curvature(sample)
        share = _SHARE_OF_A_KINK
        if loss.classification:
            positive = float(np.average(sample.y > 0.0, weights=sample.weight))
            share = min(share, 4.0 * positive * (1.0 - positive))
        away = loss.kink_distance(sample.y, predictions) * largest
        with np.errstate(over="ignore"):
            found = share * largest / np.square(np.cosh(np.clip(0.5 * away, -300.0, 300.0)))
    return found if sample.weight is None else found * sample.weight
