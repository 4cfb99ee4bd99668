r"""Growing samples of the rows: early on noise is cheap, so few rows are enough.

Each level is solved to its statistical accuracy, :math:`\kappa d / m` of m rows, beyond which more
digits would be noise; its solution and its Hessian are where the next level begins. A first level
that is hardly smaller than the next only lends its Hessian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antithetic.exact.sums import Evaluation, Sampled, Sums, Vector
from antithetic.solvers.newton.models import Model
from antithetic.solvers.newton.plain import Alternative, plain_start
from antithetic.solvers.newton.renewal import is_worth_renewing
from antithetic.solvers.newton.search import next_care, search, value
from antithetic.solvers.newton.sizes import solves_first

_ACCURACY = 0.15
_MOST_STEPS = 30
_MOST_FREE = 20.0  # of a level's accuracy: what a step that is not checked may promise


class Warm(NamedTuple):
    """Result of the samples.

    Attributes
    ----------
    theta : ndarray of shape (d,) or (d + 1,)
        Solution of the last sample.
    rare : ndarray of shape (d,)
        Columns that too few rows of the last sample have.
    sizes : tuple of int
        Rows of the samples.
    model : Model
        With the Hessian of the last sample.
    last : Sampled or None
        The last sample, where it is kept.
    """

    theta: Vector
    rare: NDArray[np.bool_]
    sizes: tuple[int, ...]
    model: Model
    last: Sampled | None


def solve_levels(
    sums: Sampled,
    among: list[int],
    model: Model,
    zero: Vector,
    seed: int,
    *,
    keep: bool = False,
    alternative: Alternative | None = None,
) -> Warm | None:
    """Return weights from samples of these sizes, and a model with their Hessian.

    None means that no sample was solved: the model is to be renewed. The last sample is part of the
    result if it is to be kept. With an alternative, the first sample may show that L-BFGS without a
    Hessian is cheaper.
    """
    found: list[Vector] = []
    sizes: list[int] = []
    has_hessian, rare = False, np.zeros(sums.d, dtype=bool)
    for level, size in enumerate(among):
        some = sums.sample(size, seed + level)
        if some is None:
            continue
        starts = [some.at(zero), *(some.at(theta) for theta in found)]
        point = min(starts, key=lambda start: value(some, start))
        plain = plain_start(some, point, alternative) if alternative and not has_hessian else None
        if plain is not None:
            return Warm(plain[1], some.rare_columns(point), (some.n,), plain[0], None)
        if not has_hessian:
            model.renew(some, starts[0])
            has_hessian = True
        raise_rare(model, some, point, rare)
        if level or solves_first(among):
            point = _solve_level(some, model, point)
            found = _last_step(some, model, point)
        rare = some.rare_columns(point)
        sizes.append(some.n)
        last = some if keep else None
    return Warm(found[-1], rare, tuple(sizes), model, last) if found else None


def follow_sample(some: Sums, model: Model, theta: Vector, enough: float) -> Vector:
    """Solution of a sample with another penalty, from that with the one before.

    It is as near to the optimum as ``enough``, or as noise allows, whichever is nearer. The model
    is left with the sample's Hessian there.
    """
    point = _solve_level(some, model, some.at(theta), enough)
    return _last_step(some, model, point)[-1]


def _last_step(some: Sums, model: Model, point: Evaluation) -> list[Vector]:
    """Renew the model at the end of a level; its weights, and those after one step more.

    The step costs no pass, so it is not checked; one that promises much is left out.
    """
    model.renew(some, point)
    proposal = model.propose(point)
    is_short = proposal.decrement <= _MOST_FREE * accuracy(some, point)
    return [point.theta, point.theta + proposal.step] if is_short else [point.theta]


def raise_rare(model: Model, sums: Sums, point: Evaluation, rare: NDArray[np.bool_]) -> None:
    """Make the model as curved along rare columns as a function above the objective of these rows.

    Other columns keep what they have: for them it would only make steps shorter.
    """
    if rare.any():
        diagonal = sums.diagonal(point, care=1.0)
        diagonal[sums.d :] = 0.0
        diagonal[: sums.d][~rare] = 0.0
        model.raise_diagonal(diagonal)


def accuracy(sums: Sums, point: Evaluation) -> float:
    """Decrement beyond which more digits would be noise."""
    return 0.5 * _ACCURACY * point.noise * sums.d / sums.size


def _solve_level(sums: Sums, model: Model, point: Evaluation, enough: float = np.inf) -> Evaluation:
    ratio, before, care = 2.0 * sums.d / sums.size, np.inf, 0.0
    for _ in range(_MOST_STEPS):
        proposal = model.propose(point)
        target = min(enough, accuracy(sums, point))
        if proposal.decrement <= target:
            break
        if 0.0 < before < np.inf:
            ratio = proposal.decrement / before
        if is_worth_renewing(proposal.decrement, target, ratio, model.passes):
            model.renew(sums, point, care=care)
            proposal = model.propose(point)
            ratio = 0.0
        found = search(sums, point, proposal)
        if found is None:
            break
        model.learn(point, found.point)
        care = next_care(sums, point, proposal, found, care)
        before, point = proposal.decrement, found.point
    return point
