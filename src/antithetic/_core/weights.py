"""What kernels do with the weights: apply the L1 penalty, shrink groups, apply the scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antithetic._core import threshold
from antithetic._core.arguments import Groups, Model
from antithetic._core.jit import jit

cumulative_threshold = jit(threshold.cumulative_threshold)


@jit
def collect_one(model: Model, feature: Any) -> None:
    """Apply the L1 penalty that one weight has not yet received, and record what was applied.

    The two may differ: float32 may be too coarse for a small charge.
    """
    before = model.coef[feature]
    left = cumulative_threshold(float(before), model.received[feature], model.charged[0])
    model.coef[feature] = model.coef.dtype.type(left)
    model.received[feature] += float(model.coef[feature]) - float(before)


@jit
def rescale(model: Model, scale: float) -> None:
    """Multiply the scale into all that is kept in its units."""
    model.coef[:] *= model.coef.dtype.type(scale)
    model.received[:] *= scale
    model.charged[:] *= scale


@jit
def move_towards(
    average: NDArray[np.float64], coef: NDArray[Any], scale: float, share: float
) -> None:
    """Have an average take up the weights, which are ``scale * coef``, for a share of it."""
    for c in range(len(coef)):
        average[c] += share * (scale * coef[c] - average[c])


@jit
def shrink_group(coef: NDArray[Any], groups: Groups, group: Any, threshold: float) -> None:
    """Shrink the weights of a group towards zero together.

    Their norm decreases by ``threshold`` times the root of their number.
    """
    begin, end = groups.starts[group], groups.starts[group + 1]
    square = 0.0
    for place in range(begin, end):
        square += float(coef[groups.members[place]]) ** 2
    owed = threshold * math.sqrt(float(end - begin))
    if owed == 0.0:
        return
    kept = 0.0 if square <= owed * owed else 1.0 - owed / math.sqrt(square)
    for place in range(begin, end):
        coef[groups.members[place]] *= coef.dtype.type(kept)
