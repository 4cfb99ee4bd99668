r"""Automatic steps in the data's own units: they follow from the spread of the rows.

**eta0** is :math:`1/L` with the curvature L of the objective along a mean row. One pass over a
sample of at most 1000 rows checks it: steps that make things worse are divided by four.

**decay.** With steps :math:`1/(\mu t)` the error along a direction of curvature h falls as
:math:`t^{-h/\mu}`, and noise as :math:`t^{-1}` or, with a balanced order, :math:`t^{-2}`. So most
directions should be curved by some multiple of :math:`\mu`: it is 0.4 times the lower quartile of
the eigenvalues of the Hessian in these units, on the sample and at the weights that the pass led
to; less where there are more than 100 rows per column, since a balanced order then leaves less
noise. Too small a decay costs little, too large a one freezes flat directions. Losses with a kink
have no Hessian. Theirs is that of a loss whose slope changes smoothly, over as much as predictions
have to go, times 0.3 or less where one class is rare, since few rows are near the kink in the end.
Steps are halved after twenty epochs at the latest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core.losses import EPSILON_INSENSITIVE, QUANTILE
from antithetic.orders.shuffle import ShuffledRows
from antithetic.problem import Problem
from antithetic.problem.preconditioner import Preconditioner, step_curvature
from antithetic.solvers.divergence import DivergenceError, finite_objective, overflow_message
from antithetic.solvers.sgd import Sgd
from antithetic.solvers.state import State
from antithetic.solvers.step_search import OWN_EPOCHS, longest_step, sample_of
from antithetic.solvers.steps import InverseTime

_ROWS_OF_A_TRIAL = 1000
_MOST_CHECKS = 20
_RATIO = 4.0  # between one step that is checked and the next
_SHARE_OF_CURVATURE = 0.4
_QUARTILE = 25
_SHARE_OF_A_KINK = 0.3
_ROWS_PER_COLUMN = 100.0  # from which on balanced orders leave less and less noise
_EPOCHS_TO_HALVE = 10.0  # steps of two rows, if nothing is curved: noise must fall in the end
_MOST_COLUMNS = 256  # of the matrix whose eigenvalues are looked at
_CHECKED_WITH = 0.01  # decay of the checked pass, relative to the curvature of a mean row


def find_preconditioned_steps(
    problem: Problem,
    preconditioner: Preconditioner,
    batch_size: int,
    seed: int,
    coef: Any = None,
    intercept: float = 0.0,
) -> InverseTime:
    """Choose eta0 and decay for a run in these units that begins at the given weights.

    It is a pure function of its arguments. Costs one pass over about 1000 rows, more if it goes
    wrong, and the eigenvalues of a matrix of at most 256 columns.
    """
    if preconditioner.curvature == np.inf:
        raise DivergenceError(overflow_message(0, "the squares of the features are too large. "))
    sample = sample_of(problem, seed)
    solver = Sgd(sample, 0, False, preconditioner=preconditioner.on(sample.X))
    start, own = solver.init(coef, intercept)
    before = finite_objective(sample, start.coef, start.intercept)
    if before == np.inf:
        raise DivergenceError(overflow_message(0, "the loss of the first weights is too large. "))
    eta0 = _first_step(sample, preconditioner, batch_size)
    if sample.loss_at_zero() == 0.0:  # as for the perceptron, only the direction matters
        return InverseTime(eta0, problem.penalty.l2)
    batches = ShuffledRows(sample.n, min(batch_size, sample.n), seed).batches(OWN_EPOCHS)
    for _ in range(_MOST_CHECKS):
        decay = _CHECKED_WITH * preconditioner.curvature
        schedule = InverseTime(eta0, decay).schedule(sample.loss, sample.penalty)
        reached = solver.epoch(start, own, batches, schedule).state
        worth = finite_objective(sample, reached.coef, reached.intercept)
        # good weights to begin with should not make the steps short
        if worth <= max(before, sample.loss_at_zero()):
            break
        eta0 /= _RATIO
    curved = _SHARE_OF_CURVATURE * _lower_quartile(sample, preconditioner, reached)
    if sample.loss.is_smooth:
        curved *= max(1.0, problem.n / (_ROWS_PER_COLUMN * problem.d)) ** -0.2
    return InverseTime(eta0, max(curved, preconditioner.curvature / (_EPOCHS_TO_HALVE * problem.n)))


def pays(
    problem: Problem,
    preconditioner: Preconditioner,
    batch_size: int,
    seed: int,
    intercept: float = 0.0,
) -> bool:
    """Whether steps in these units lead further than steps in the columns as they are.

    A pass over some rows is made either way, and judged on as many others: sparse columns need not
    gain by a centre that is near zero. Costs three passes over at most 1000 rows.
    """
    rng = np.random.default_rng((seed, OWN_EPOCHS - 2))
    rows = rng.permutation(problem.n)[: 2 * _ROWS_OF_A_TRIAL]
    if len(rows) < 2:
        return False
    seen, others = (_rows_of(problem, np.sort(part)) for part in np.array_split(rows, 2))
    longest = longest_step(seen, batch_size)
    batches = ShuffledRows(seen.n, min(batch_size, seen.n), seed).batches(OWN_EPOCHS)

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


def _rows_of(problem: Problem, rows: NDArray[np.intp]) -> Problem:
    weight = None if problem.weight is None else problem.weight[rows]
    return replace(problem, X=problem.X[rows], y=problem.y[rows], weight=weight)


def _first_step(sample: Problem, preconditioner: Preconditioner, batch_size: int) -> float:
    """One over the curvature along a mean row; where slopes are unbounded, along a long one."""
    if sample.loss.is_bounded:
        return 1.0 / preconditioner.curvature
    rows = preconditioner.rows(sample.X)
    weight = np.ones(sample.n) if sample.weight is None else sample.weight
    squares = weight * np.einsum("ij,ij->i", rows, rows)
    total = float(squares.sum())
    long = float(squares @ squares) / total if total > 0.0 else 0.0
    curvature = step_curvature(sample) * long * 2.0 / max(2, batch_size)
    return 1.0 / max(preconditioner.curvature, curvature)


def _lower_quartile(sample: Problem, preconditioner: Preconditioner, state: State) -> float:
    """Lower quartile of the eigenvalues of the Hessian in these units."""
    curvatures = _curvatures(sample, sample.predictions(state.coef, state.intercept))
    moving = np.flatnonzero(preconditioner.metric > 0.0)
    if len(moving) > _MOST_COLUMNS:
        moving = moving[np.linspace(0, len(moving) - 1, _MOST_COLUMNS).astype(np.intp)]
    some = Preconditioner(
        preconditioner.centre[moving], preconditioner.metric[moving], np.empty(0), 0.0
    )
    if not len(moving):
        return float(sample.penalty.l2)
    rows = some.rows(sample.X[:, moving])
    with np.errstate(all="ignore"):
        hessian = (rows * (curvatures / sample.n)[:, None]).T @ rows
    places = np.arange(len(moving))
    hessian[places, places] += sample.penalty.l2 * some.metric.astype(np.float64)
    if not np.isfinite(hessian).all():
        return float(sample.penalty.l2)
    return max(0.0, float(np.percentile(np.linalg.eigvalsh(hessian), _QUARTILE)))


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
            away = 1.0 - sample.y * predictions
        elif loss.code in (QUANTILE, EPSILON_INSENSITIVE):
            away = (sample.y - predictions) * largest
        with np.errstate(over="ignore"):
            found = share * largest / np.square(np.cosh(np.clip(0.5 * away, -300.0, 300.0)))
    return found if sample.weight is None else found * sample.weight
