"""Which model of the objective steps come from."""

from __future__ import annotations

import math
from typing import cast

from antithetic.exact.sums import ClassedSums, Sums
from antithetic.solvers.newton.models import (
    MOST_COLUMNS,
    Conjugate,
    Model,
    QuasiNewton,
    WithL1,
    WorkingSet,
)
from antithetic.solvers.newton.plain import Diagonal
from antithetic.solvers.newton.sampled import MOST_CHANCES, FromSample
from antithetic.solvers.newton.whitened import MOST_IN_HESSIAN, Whitened

_MOST_WEIGHTS = 1000  # the same with many classes, where a Hessian costs more
# With many classes, an iteration solves two systems on one worker, which takes as long as some 40
# passes over its sample, of at least 4 rows per weight. It pays with this many rows per weight.
_SAMPLED_PER_WEIGHT, _ROWS_PER_WEIGHT = 4.0, 400.0


def choose_model(sums: Sums, seed: int, *, is_classed: bool) -> Model:
    """The model for these rows and their penalty."""
    l1, is_here = sums.penalty.l1, math.isinf(sums.most_sampled)
    if l1 > 0.0:
        most = _MOST_WEIGHTS if is_classed else MOST_COLUMNS
        return WithL1(l1) if sums.d <= most else WorkingSet(l1)
    if is_classed and not is_here and is_solved_by_sample(cast("ClassedSums", sums)):
        return FromSample()
    if is_classed:
        return Whitened(sums.d, sums.n, seed, is_here=is_here)
    if not is_here and sums.d > MOST_COLUMNS and sums.penalty.l2 > 0.0:
        return FromSample()
    if sums.d <= min(MOST_COLUMNS, max(2 * sums.n, 300)):
        return QuasiNewton()
    return Conjugate()


def is_solved_by_sample(sums: ClassedSums) -> bool:
    """Whether rows of many classes elsewhere are so many that a kept sample pays."""
    most_sampled = min(sums.most_sampled, MOST_CHANCES / sums.classes)
    limit = min(sums.n / _ROWS_PER_WEIGHT, most_sampled / _SAMPLED_PER_WEIGHT)
    return sums.penalty.l2 > 0.0 and MOST_IN_HESSIAN < sums.d <= limit


def name_of(model: Model) -> str:
    """How steps are found."""
    if isinstance(model, Whitened):
        return "newton" if model.is_full else "whitened L-BFGS"
    names = {
        Conjugate: "conjugate gradients",
        WorkingSet: "working set",
        FromSample: "sampled newton",
        Diagonal: "L-BFGS",
    }
    return names.get(type(model), "newton")


def has_hessian(model: Model) -> bool:
    """Whether a model has a Hessian, which may grow old, or needs one after all."""
    return not isinstance(model, Conjugate) or model.is_spent


def has_unit(model: Model) -> bool:
    """Whether a model has a unit that each step corrects: the next one is not too long again."""
    return isinstance(model, Diagonal) or (isinstance(model, Whitened) and not model.is_full)


def takes_samples(model: Model) -> bool:
    """Whether samples of the rows come before all of them."""
    if isinstance(model, Whitened):
        return model.starts_full
    return isinstance(model, (QuasiNewton, WithL1)) and not isinstance(model, FromSample)
