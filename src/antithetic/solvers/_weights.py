"""What both kernels do with the weights themselves: collect the L1 penalty, and multiply the scale in."""

from __future__ import annotations

from typing import Any

from antithetic._jit import jit
from antithetic.solvers import _threshold
from antithetic.solvers._arguments import Model

cumulative_threshold = jit(_threshold.cumulative_threshold)


@jit
def collect_one(model: Model, feature: Any) -> None:
    """Take from one weight what it owes, and book what it has really paid: float32 may be too coarse for a small charge."""
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
